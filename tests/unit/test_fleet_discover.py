"""Discovery of a host from fixture trees, and what the probe of a shell makes of a host without Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fleet import probe
from fleet.facts import HostFacts
from fleet.target import discover as d

TCP_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A two-node x86 machine. Texts are shaped like those of Linux 6.x: Documentation/filesystems/proc.rst."""
    write(
        tmp_path,
        {
            "/etc/os-release": 'NAME="openEuler"\nVERSION="24.03 (LTS)"\nID="openEuler"\nVERSION_ID="24.03"\n'
            'PRETTY_NAME="openEuler 24.03 (LTS)"\n# comment=1\n',
            "/proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx512f hypervisor\n\n"
            "processor\t: 1\nmodel name\t: Some CPU\nflags\t\t: fpu avx512f hypervisor\n",
            "/proc/meminfo": "MemTotal:       1000 kB\nMemAvailable:    600 kB\nSwapTotal:         8 kB\n",
            "/sys/devices/system/cpu/online": "0-1\n",
            "/sys/devices/system/node/node0/cpulist": "0\n",
            "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:   500 kB\nNode 0 MemFree:   100 kB\n",
            "/sys/devices/system/node/node0/distance": "10 21\n",
            "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "16\n",
            "/proc/cmdline": "root=/dev/sda2 iommu=pt\n",
            "/sys/devices/system/node/node1/cpulist": "1\n",
            "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:   500 kB\n",
            "/sys/class/net/host0/ifindex": "7\n",
            "/sys/class/net/host0/address": "02:00:00:00:00:01\n",
            "/sys/class/net/host0/mtu": "1500\n",
            "/sys/class/net/host0/operstate": "up\n",
            "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "16\n",
            "/sys/fs/selinux/enforce": "1",
            "/usr/bin/dnf": "",
            "/proc/net/tcp": TCP_HEAD
            + "   0: 0B004D0A:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n"
            + "   1: 0B004D0A:1F41 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 4243 1\n",
            "/proc/net/tcp6": TCP_HEAD + f"   0: {'0' * 32}:0016 {'0' * 32}:0000 0A 0:0 0:0 0 0 0 4244 1\n",
            "/proc/31/comm": "vllm\n",
            "/proc/31/cgroup": "0::/system.slice/system-vllm\\x2dengine.slice/vllm-engine@chat-0.service\n",
        },
    )
    folder = tmp_path / "proc/31/fd"
    folder.mkdir()
    (folder / "5").symlink_to("socket:[4242]")
    return tmp_path


def test_a_whole_host(tree: Path) -> None:
    facts = d.discover(str(tree))
    fleet = facts["fleet"]
    assert (facts["pkg_mgr"], facts["os_family"], facts["distribution"]) == ("dnf", "RedHat", "openEuler")
    assert (facts["distribution_version"], facts["distribution_major_version"]) == ("24.03", "24")
    assert fleet["cpu"] == {
        "count": 2,
        "online": "0-1",
        "model": "Some CPU",
        "flags": ["avx512f", "fpu", "hypervisor"],
    }
    assert fleet["virtual"] is True
    assert fleet["numa"] == [
        {
            "id": 0,
            "cpus": [0],
            "memory_bytes": 512000,
            "free_bytes": 102400,
            "distances": [10, 21],
            "huge_pages": {"2097152": 16},
        },
        {"id": 1, "cpus": [1], "memory_bytes": 512000, "free_bytes": None, "distances": [], "huge_pages": {}},
    ]
    assert fleet["swap_bytes"] == 8192
    assert fleet["kernel_command_line"] == "root=/dev/sda2 iommu=pt"
    assert fleet["memory"] == {"total_bytes": 1024000, "available_bytes": 614400, "swap_bytes": 8192}
    assert fleet["huge_pages"] == {"transparent": "madvise", "reserved": {"2097152": 16}}
    assert fleet["selinux"] == "enforcing"
    assert (fleet["cards"], fleet["card_tools"], fleet["cann"], fleet["dtk"]) == ([], {}, [], None)
    assert (fleet["kysec"], fleet["containers"]) == (None, {"podman": None, "docker": None})
    assert fleet["disk_read_bytes_per_second"] is None
    assert fleet["listening"] == [
        {"address": "::", "port": 22, "process": "", "unit": ""},
        {"address": "10.77.0.11", "port": 8000, "process": "vllm", "unit": "vllm-engine@chat-0.service"},
    ]
    assert fleet["findings"] == []


def test_addresses_come_by_interface(tree: Path) -> None:
    found = d.interfaces(d.Host(str(tree)), lambda: {7: ["10.77.0.11/24"]})
    assert found == [
        {
            "name": "host0",
            "addresses": ["10.77.0.11/24"],
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "state": "up",
            "speed_mbps": None,
            "driver": None,
            "pci_address": None,
            "numa_node": None,
            "rdma_device": None,
        }
    ]


def test_what_is_behind_an_interface(tree: Path) -> None:
    """As of a ConnectX-7: Documentation/ABI/testing/sysfs-class-net, and the InfiniBand device below the PCI device."""
    pci = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
    write(tree, {f"{pci}/numa_node": "2\n", f"{pci}/infiniband/mlx5_2/node_type": "1: CA\n"})
    (tree / f"{pci[1:]}/driver").symlink_to("../../../../bus/pci/drivers/mlx5_core")
    (tree / "sys/class/net/host0/device").symlink_to(f"../../../../{pci[1:]}")
    (tree / "sys/bus/pci/devices").mkdir(parents=True)
    (tree / "sys/bus/pci/devices/0000:81:00.0").symlink_to(f"../../../../{pci[1:]}")
    write(tree, {"/sys/class/net/host0/speed": "200000\n"})
    found = d.interfaces(d.Host(str(tree)), lambda: {})[0]
    assert {key: found[key] for key in ("speed_mbps", "driver", "pci_address", "numa_node", "rdma_device")} == {
        "speed_mbps": 200000,
        "driver": "mlx5_core",
        "pci_address": "0000:81:00.0",
        "numa_node": 2,
        "rdma_device": "mlx5_2",
    }


def test_a_virtual_card_is_on_the_device_that_carries_it(tree: Path) -> None:
    device = tree / "sys/devices/pci0000:00/0000:00:03.0/virtio2"
    device.mkdir(parents=True)
    (tree / "sys/class/net/host0/device").symlink_to("../../../devices/pci0000:00/0000:00:03.0/virtio2")
    write(tree, {"/sys/class/net/host0/speed": "-1\n"})
    found = d.interfaces(d.Host(str(tree)), lambda: {})[0]
    assert (found["pci_address"], found["speed_mbps"], found["numa_node"]) == ("0000:00:03.0", None, None)


def test_the_kernel_tells_this_machines_addresses() -> None:
    assert "127.0.0.1/8" in [text for texts in d.addresses().values() for text in texts]


def test_an_empty_tree_is_described_not_refused(tmp_path: Path) -> None:
    facts = d.discover(str(tmp_path))
    assert facts["pkg_mgr"] == "unknown"
    names = {finding.split(":")[0] for finding in facts["fleet"]["findings"]}
    assert names == {"os", "package_manager", "cpu", "memory"}
    assert HostFacts.of(facts["fleet"]).cpu_count == 1


def test_a_broken_piece_is_a_finding(tree: Path) -> None:
    write(tree, {"/sys/devices/system/node/node0/cpulist": "zero\n"})
    fleet = d.discover(str(tree))["fleet"]
    assert fleet["numa"] == []
    assert [f.split(":")[:2] for f in fleet["findings"]] == [["numa", " ValueError"]]


@pytest.mark.parametrize(
    ("release", "family"),
    [
        ({"id": "ubuntu", "id_like": "debian", "name": "Ubuntu"}, "Debian"),
        ({"id": "kylin", "id_like": "", "name": "Kylin Linux Advanced Server"}, "RedHat"),
        ({"id": "kylin", "id_like": "debian", "name": "Kylin"}, "Debian"),
        ({"id": "rocky", "id_like": "rhel centos fedora", "name": "Rocky Linux"}, "RedHat"),
        ({"id": "void", "id_like": "", "name": "Void"}, "Void"),
    ],
)
def test_family(release: dict[str, str], family: str) -> None:
    assert d.family(release) == family


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/haproxy.service", "haproxy.service"),
        ("1:name=systemd:/system.slice/ssh.service\n0::/", "ssh.service"),
        ("0::/user.slice/user-0.slice/session-3.scope", "session-3.scope"),
        ("0::/init", ""),
    ],
)
def test_unit_of(cgroup: str, unit: str) -> None:
    assert d.unit_of(cgroup) == unit


def test_arm_cpu(tmp_path: Path) -> None:
    """Shape of /proc/cpuinfo on a Kunpeng 920: no model name, "Features" in place of "flags"."""
    write(
        tmp_path,
        {
            "/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 200.00\nFeatures\t: fp asimd ssbs\n"
            "CPU implementer\t: 0x48\nCPU architecture: 8\nCPU part\t: 0xd01\n"
        },
    )
    found = d.cpu(d.Host(str(tmp_path)))
    assert (found["count"], found["model"], found["flags"]) == (
        1,
        "implementer 0x48 part 0xd01",
        ["asimd", "fp", "ssbs"],
    )


# --- the probe --------------------------------------------------------------------------------------------------------


def run_probe(named: str = "") -> str:
    return subprocess.run(
        ["sh", "-c", probe.script(named)], capture_output=True, text=True, check=True, timeout=30
    ).stdout


def test_probe_finds_this_python() -> None:
    python, partial = probe.parse(run_probe(sys.executable))
    assert python == sys.executable
    assert partial == {}


def test_probe_refuses_an_old_python(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    python, partial = probe.parse(run_probe(str(old)))
    assert python is None
    assert partial["usable_python"] is False
    assert partial["arch"] == os.uname().machine
    assert partial["cpu"]["count"] >= 1
    assert partial["memory"]["total_bytes"] > 0
    assert HostFacts.of(partial).page_size == os.sysconf("SC_PAGE_SIZE")


def test_probe_of_kylin() -> None:
    text = "\n".join(
        [
            "banner of a login shell",
            "@@fleet@@ kernel 4.19.90",
            "@@fleet@@ arch aarch64",
            "@@fleet@@ glibc glibc 2.28",
            "@@fleet@@ page_size 65536",
            "@@fleet@@ address lo 127.0.0.1/8",
            "@@fleet@@ address host0@if5 10.77.0.31/24",
            "@@fleet@@ file /etc/os-release",
            'NAME="Kylin Linux Advanced Server"',
            'ID="kylin"',
            'VERSION_ID="V10"',
            "@@fleet@@ file /proc/meminfo",
            "MemTotal:       2048 kB",
            "@@fleet@@ file /proc/cpuinfo",
            "processor\t: 0",
        ]
    )
    python, partial = probe.parse(text)
    facts = HostFacts.of(partial)
    assert python is None
    assert (facts.os_id, facts.os_version, facts.arch, facts.glibc) == ("kylin", "V10", "aarch64", "2.28")
    assert (facts.page_size, facts.memory_bytes) == (65536, 2 << 20)
    assert facts.interfaces == {"host0": ("10.77.0.31/24",)}
    assert partial["os_family"] == "RedHat"
