"""What the kernel and the next boot have."""

from __future__ import annotations

import json

import pytest

POOL = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
THP = "/sys/kernel/mm/transparent_hugepage"
WANTED = {
    "vm.swappiness": "5",
    "vm.max_map_count": "1048577",
    "kernel.numa_balancing": "0",
    "net.core.somaxconn": "4097",
    "net.ipv4.ip_local_reserved_ports": "7000-7001,8000-8001,9000",
    POOL: "3",
    f"{THP}/enabled": "never",
    f"{THP}/defrag": "defer",
}
SHM = "100003840"  # in whole pages
UNIT = """[Service]
Type=oneshot
TemporaryFileSystem=/dev/shm:mode=1777
ExecStart=/bin/sh -c 'stat -f -c "%%b %%S" /dev/shm > /run/shm-of-%i; cat /proc/self/limits > /run/limits-of-%i'
"""


def kernel(host, name: str) -> str | None:
    file = host.file(name if name.startswith("/") else "/proc/sys/" + name.replace(".", "/"))
    return file.content_string.strip() if file.exists else None


def shm(host) -> str:
    blocks, size = host.check_output("stat -f -c '%b %S' /dev/shm").split()
    return str(int(blocks) * int(size))


@pytest.mark.parametrize("name", WANTED)
def test_kernel_has_the_value(host, name):
    found = kernel(host, name)
    if found is None:
        pytest.skip("this kernel is built without it")
    assert WANTED[name] in (found, found.partition("[")[2].partition("]")[0])


def test_next_boot_has_the_values(host):
    """Spoil values, then do what systemd does when a host starts.

    Not transparent huge pages: tmpfiles does not truncate, which only a real kernel's file forgives.
    """
    spoilt = {"vm.swappiness": "33", POOL: "0"}
    for name, value in spoilt.items():
        path = name if name.startswith("/") else "/proc/sys/" + name.replace(".", "/")
        host.check_output(f"sh -c 'echo {value} > {path}'")
    host.check_output("mount -o remount,size=50000000 /dev/shm")
    host.check_output("/usr/lib/systemd/systemd-sysctl")
    host.check_output("systemd-tmpfiles --create /etc/tmpfiles.d/60-vllm-fleet.conf")
    host.check_output("systemctl restart vllm-fleet-shm.service")
    assert {name: kernel(host, name) for name in spoilt} == {name: WANTED[name] for name in spoilt}
    assert shm(host) == SHM
    assert f"w {THP}/defrag - - - - defer" in host.file("/etc/tmpfiles.d/60-vllm-fleet.conf").content_string
    assert "vllm-fleet-shm.service" in host.check_output("systemctl show -p Wants sysinit.target")


def test_shared_memory(host):
    assert shm(host) == SHM


def test_reasons_are_in_the_file(host):
    assert (
        "# vm.swappiness: No engine may be swapped out." in host.file("/etc/sysctl.d/60-vllm-fleet.conf").content_string
    )


def test_values_from_before_are_recorded(host):
    record = json.loads(host.file("/var/lib/vllm-fleet/state/host_tuning.json").content_string)
    assert record["settings"]["vm.swappiness"] not in ("5", "10", "77")
    assert record["settings"]["net.ipv4.ip_local_reserved_ports"] == "7000-7001"
    assert record["settings"].keys() == {*(name for name in WANTED if kernel(host, name) is not None), "/dev/shm"}


def test_limits_reach_the_units(host):
    host.check_output("mkdir -p /run/systemd/system")
    host.run("tee /run/systemd/system/vllm-engine@.service <<'END'\n" + UNIT + "END")
    host.check_output("systemctl daemon-reload")
    shown = host.check_output("systemctl show vllm-engine@x.service -p LimitMEMLOCK -p LimitNOFILE -p MemorySwapMax")
    assert set(shown.split()) == {"LimitMEMLOCK=infinity", "LimitNOFILE=1048576", "MemorySwapMax=0"}
    host.check_output("systemctl start vllm-engine@x.service")
    blocks, size = host.file("/run/shm-of-x").content_string.split()
    assert int(blocks) * int(size) == 67108864
