"""What the kernel and the next boot have."""

from __future__ import annotations

import json

import pytest

WANTED = {
    "vm.swappiness": "5",
    "vm.max_map_count": "1048576",
    "vm.zone_reclaim_mode": "0",
    "kernel.numa_balancing": "0",
    "net.core.somaxconn": "4096",
}


def kernel(host, key: str) -> str | None:
    file = host.file("/proc/sys/" + key.replace(".", "/"))
    return file.content_string.strip() if file.exists else None


@pytest.mark.parametrize("key", WANTED)
def test_kernel_has_the_value(host, key):
    found = kernel(host, key)
    if found is None:
        pytest.skip("this kernel is built without it")
    assert found == WANTED[key]


def test_next_boot_has_the_values(host):
    lines = host.file("/etc/sysctl.d/60-vllm-fleet.conf").content_string.splitlines()
    set_ = dict(line.split(" = ") for line in lines if not line.startswith("#"))
    assert set_ == {key: value for key, value in WANTED.items() if kernel(host, key) is not None}
    host.check_output("sh -c 'echo 33 > /proc/sys/vm/swappiness'")
    host.check_output("/usr/lib/systemd/systemd-sysctl")
    assert kernel(host, "vm.swappiness") == "5"


def test_huge_pages_are_on_request(host):
    mode = host.file("/sys/kernel/mm/transparent_hugepage/enabled").content_string
    assert "[madvise]" in mode or mode.strip() == "madvise"
    assert "madvise" in host.file("/etc/tmpfiles.d/60-vllm-fleet.conf").content_string


def test_values_from_before_are_recorded(host):
    record = json.loads(host.file("/var/lib/vllm-fleet/state/host_tuning.json").content_string)
    assert record["sysctl"]["vm.swappiness"] not in ("5", "77")
    assert record["sysctl"].keys() == {key for key in WANTED if kernel(host, key) is not None}


def test_limits_are_in_the_units_drop_in(host):
    text = host.check_output("systemctl cat vllm-engine@x.service || cat /etc/systemd/system/vllm-engine@.service.d/*")
    assert "LimitMEMLOCK=infinity" in text
