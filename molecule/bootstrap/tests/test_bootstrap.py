"""Hosts after bootstrap: a Python that Ansible finds by itself, packages, and trust."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCENARIO = Path(__file__).resolve().parents[1]
PROJECT = SCENARIO.parents[1]


def ansible(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.timer",
    }
    command = ["ansible", "-i", str(SCENARIO / "inventory"), *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=50)


def system_python(host) -> list[int]:
    return [int(part) for part in host.check_output("/usr/bin/python3 -V").split()[1].split(".")]


def test_later_runs_find_the_python_untold(host):
    """No interpreter is named in the inventory, and none is remembered from the converge run."""
    answer = ansible(host.backend.get_hostname(), "-m", "ansible.builtin.setup", "-a", "gather_subset=!all,!min,python")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_own_python_only_where_it_is_needed(host):
    needed = system_python(host) < [3, 9]
    assert host.file("/opt/vllm-fleet/python/current").exists == needed
    if needed:
        for path in ("/opt/vllm-fleet/python/current/bin/python3", "/opt/vllm-fleet/python/bin/python3"):
            assert host.check_output(f"{path} -c 'import sys; print(sys.version_info >= (3, 9))'") == "True"
        # Nothing of an installation under way stays behind.
        assert host.check_output("ls -A /opt/vllm-fleet/python").count(".new") == 0


def test_packages_are_installed(host):
    assert host.run("jq --version").rc == 0


def test_certificate_is_trusted(host):
    source = host.file("/usr/local/share/ca-certificates/vllm-fleet.crt")
    if host.file("/etc/debian_version").exists:
        assert source.content_string.splitlines()[1] in host.file("/etc/ssl/certs/ca-certificates.crt").content_string
    else:
        assert not source.exists
