"""Hosts after vllm_runtime, and after it was asked for runtimes that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ID = "vllm-0.32.0-cpu-x86_64-cp311"
PATH = f"/opt/vllm-fleet/runtimes/{ID}"
LOCK = Path(__file__).resolve().parents[3] / "roles/vllm_runtime/files/locks/vllm-0.32.0-cpu-x86_64-cp311.txt"


def test_current_is_the_proved_runtime(host):
    """Also after the refused ones: they never became current."""
    assert host.file("/opt/vllm-fleet/current").linked_to == PATH


def test_runtime_is_whole(host):
    marker = json.loads(host.file(f"{PATH}/.complete.json").content_string)
    pinned = LOCK.read_text().count("==") - 1  # its head names one that the role writes itself
    assert marker["packages"] == pinned + 1
    assert host.check_output(f"ls -d {PATH}/lib/python3.11/site-packages/*.dist-info | wc -l") == str(pinned + 1)


def test_this_host_proved_it(host):
    proof = json.loads(host.file(f"/var/lib/vllm-fleet/runtimes/{ID}.json").content_string)
    assert (proof["vllm"], proof["device"]) == ("0.32.0+cpu", "cpu")


@pytest.mark.timeout(120)
def test_service_user_can_use_it_and_not_change_it(host):
    run = f"setpriv --reuid=vllm --regid=vllm --clear-groups {PATH}/bin/python -c"
    assert host.check_output(f"{run} 'import torch; print(torch.__version__)'") == "2.13.0+cpu"
    assert host.check_output(f"find {PATH} -maxdepth 6 ! -type l -perm /022 | head -1") == ""


def test_nothing_is_left_of_builds(host):
    names = host.check_output("ls -A /opt/vllm-fleet/runtimes").split()
    assert [name for name in names if "refused" in name or ".cache." in name] == []
