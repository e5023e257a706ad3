"""CANN in both layouts, DTK, container engines, and Kylin's guard."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet.target import software as s
from fleet.target.cards import dtk
from fleet.target.host import Host, container_of
from fleet.target.tools import Tools
from vendor_trees import link, write


def tool(root: Path, name: str, text: str) -> None:
    write(root, f"/usr/bin/{name}", f"#!/bin/sh\n{text}\n")
    (root / "usr/bin" / name).chmod(0o755)


def test_cann_before_8_5_and_from_8_5_side_by_side(tmp_path: Path) -> None:
    """The forms of vllm-project/vllm-ascend#3998 (8.3.RC1) and #6245 (8.5.0): links beside the versions."""
    base = "/usr/local/Ascend"
    info = "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\ninnerversion=V100R001C23SPC001B235\narch=aarch64\n"
    write(tmp_path, f"{base}/ascend-toolkit/8.3.RC1/aarch64-linux/ascend_toolkit_install.info", info)
    link(tmp_path, f"{base}/ascend-toolkit/latest", "../cann")
    link(tmp_path, f"{base}/ascend-toolkit/8.3", "8.3.RC1")
    write(tmp_path, f"{base}/ascend-toolkit/set_env.sh", "")
    write(tmp_path, f"{base}/cann-8.5.0/x86_64-linux/ascend_toolkit_install.info", "version=8.5.0\n")
    link(tmp_path, f"{base}/cann", "cann-8.5.0")
    write(tmp_path, f"{base}/nnal/atb/8.5.0/version.info", "")
    link(tmp_path, f"{base}/nnal/atb/latest", "8.5.0")
    write(tmp_path, f"{base}/driver/version.info", "")
    assert s.cann(Host(str(tmp_path))) == [
        {"version": "8.5.0", "path": f"{base}/cann-8.5.0", "kind": "toolkit"},
        {"version": "8.3.RC1", "path": f"{base}/ascend-toolkit/8.3.RC1", "kind": "toolkit"},
        {"version": "8.5.0", "path": f"{base}/nnal/atb/8.5.0", "kind": "nnal"},
    ]


def test_the_folder_tells_the_version_where_the_file_is_gone(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/Ascend/cann-9.0.0/set_env.sh", "")
    write(tmp_path, "/usr/local/Ascend/cann-9.1/aarch64-linux/ascend_toolkit_install.info", "version=9.1.0\n")
    assert [found["version"] for found in s.cann(Host(str(tmp_path)))] == ["9.0.0", "9.1.0"]


@pytest.mark.parametrize(
    ("files", "links", "version"),
    [
        ({}, {}, None),
        ({"/opt/dtk-24.04.1/env.sh": ""}, {"/opt/dtk": "dtk-24.04.1"}, "24.04.1"),
        ({"/opt/dtk-25.04.4/.info/version": "25.04.4\n"}, {"/opt/dtk": "dtk-25.04.4"}, "25.04.4"),
        ({"/opt/dtk/.info/version-dev": "25.04.2-rc1\n"}, {}, "25.04.2"),
        ({"/opt/dtk-26.04/env.sh": ""}, {}, "26.04"),
    ],
)
def test_dtk(tmp_path: Path, files: dict[str, str], links: dict[str, str], version: str | None) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    for name, target in links.items():
        link(tmp_path, name, target)
    assert dtk(Host(str(tmp_path))) == version


def test_container_engines(tmp_path: Path) -> None:
    tool(tmp_path, "docker", "echo 'Docker version 28.2.2, build 28.2.2-0'")
    tool(tmp_path, "podman", "echo 'podman version 4.9.3'")
    assert s.containers(Tools(Host(str(tmp_path)))) == {"podman": "4.9.3", "docker": "28.2.2"}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        # hankin's notes on Kylin V10: "KySec status: Normal" and what follows; newer systems say enabled.
        (
            "KySec status: Normal\n\nexec control: on\nfile protect: on\nkmod protect: on\nthree admin : off",
            "enforcing",
        ),
        ("KySec status: enabled", "enforcing"),
        ("KySec status: Softmode", "softmode"),
        ("KySec status: disabled", "disabled"),
        ("KySec status: something new", None),
    ],
)
def test_kysec_as_getstatus_tells_it(tmp_path: Path, said: str, state: str | None) -> None:
    tool(tmp_path, "getstatus", f"echo '{said}'")
    host = Host(str(tmp_path))
    assert s.kysec(host, Tools(host), "kylin") == {"state": state, "source": "getstatus"}
    assert s.kysec(host, Tools(host), "openEuler") is None


def test_kysec_without_its_tool(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    assert s.kysec(host, Tools(host), "kylin") == {"state": None, "source": None}
    write(tmp_path, "/sys/kernel/security/lsm", "capability,yama,kysec")
    write(tmp_path, "/sys/kernel/security/kysec/status", "")
    assert s.kysec(host, Tools(host), "kylin") == {"state": None, "source": "/sys/kernel/security/kysec"}
    write(tmp_path, "/sys/kernel/security/lsm", "capability,yama,selinux")
    assert s.kysec(host, Tools(host), "Kylin") == {"state": "disabled", "source": "/sys/kernel/security/lsm"}


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"0::/system.slice/docker-{'0123456789ab' + 'c' * 52}.scope", "0123456789ab"),
        (f"0::/machine.slice/libpod-{'0123456789ab' + 'c' * 52}.scope/container", "0123456789ab"),
        (f"12:pids:/docker/{'0123456789ab' + 'c' * 52}\n0::/", "0123456789ab"),
        (f"0::/kubepods.slice/cri-containerd-{'0123456789ab' + 'c' * 52}.scope", "0123456789ab"),
        ("0::/system.slice/vllm-engine@chat-0.service", ""),
        (f"0::/{'a' * 65}", ""),
    ],
)
def test_container_of(cgroup: str, container: str) -> None:
    assert container_of(cgroup) == container
