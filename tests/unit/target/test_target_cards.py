"""Accelerators of fixture trees: the bus, joined with the stand-ins of the vendors' tools."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from fleet.target import cards as c
from fleet.target.discover import discover
from fleet.target.host import Host
from fleet.target.tools import Tools
from vendor_trees import RECORDED, device, install, link, recorded, write

MIB = 1 << 20
A2 = ["0000:01:00.0", "0000:02:00.0", "0000:41:00.0", "0000:42:00.0", *(f"0000:{b}:00.0" for b in (81, 82, "c1", "c2"))]


def find(root: Path, seconds: float = 20) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
    host = Host(str(root))
    found = c.discover_cards(host, Tools(host, seconds))
    return found["cards"], found["card_tools"], host.findings


def h200(root: Path, driver: str | None = "nvidia") -> Path:
    device(root, "0000:00:06.0", "10de:2335:10de:18bf", "030200", driver, node=-1)
    return root


def test_a_host_without_cards_runs_nothing(tmp_path: Path) -> None:
    device(tmp_path, "0000:00:00.0", "8086:0d57", "060000")
    assert find(tmp_path) == ([], {}, [])


# --- the bus ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "kind", "vendor"),
    [
        ("10de:2335", "030200", "nvidia"),
        ("10de:1e04", "030000", "nvidia"),
        ("10de:22a3", "068000", None),  # NVSwitch
        ("10de:10f7", "040300", None),  # the sound of a graphics card
        ("19e5:d802", "120000", "huawei"),
        ("19e5:1711", "030000", None),  # the display of Huawei's board controller
        ("19e5:a222", "020000", None),  # its network card
        ("1d94:6210", "038000", "hygon"),
        ("1d94:6210", "0b4000", "hygon"),
        ("1d94:6210", "120000", "hygon"),
        ("1d94:1480", "060000", None),  # bridges of Hygon's CPUs
        ("1d94:790e", "060100", None),
        ("1d94:1483", "060400", None),
        ("1d94:6210", "068000", "hygon"),
        ("1002:740c", "038000", "amd"),
        ("15b3:1021", "020000", None),
    ],
)
def test_what_counts_as_an_accelerator(tmp_path: Path, ids: str, kind: str, vendor: str | None) -> None:
    device(tmp_path, "0000:17:00.0", ids, kind)
    assert [card["vendor"] for card in c.on_bus(Host(str(tmp_path)))] == ([vendor] if vendor else [])


def test_virtual_functions_are_parts_of_cards(tmp_path: Path) -> None:
    device(tmp_path, "0000:17:00.0", "10de:2335", "030200")
    device(tmp_path, "0000:17:00.4", "10de:2335", "030200")
    write(tmp_path, "/sys/bus/pci/devices/0000:17:00.4/physfn/vendor", "0x10de")
    assert [card["pci_address"] for card in c.on_bus(Host(str(tmp_path)))] == ["0000:17:00.0"]


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


def test_an_h200(tmp_path: Path) -> None:
    install(h200(tmp_path), "nvidia-smi", "h200-busy", "/usr/local/nvidia/bin")
    write(tmp_path, "/sys/module/nvidia/version", "580.159.04\n")
    write(tmp_path, "/usr/local/nvidia/lib64/libnvidia-ml.so.580.159.04", "")
    link(tmp_path, "/usr/local/nvidia/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.580.159.04")
    write(tmp_path, "/proc/461/cgroup", f"0::/system.slice/docker-{'ab12' * 16}.scope\n")
    cards, about, findings = find(tmp_path)
    assert cards == [
        {
            "index": 0,
            "vendor": "nvidia",
            "pci_address": "0000:00:06.0",
            "pci_id": "10de:2335",
            "pci_subsystem": "10de:18bf",
            "chip": "NVIDIA H200",
            "memory_bytes": 143771 * MIB,
            "memory_used_bytes": 1643 * MIB,
            "driver": "580.159.04",
            "firmware": "96.00.A5.00.1A",
            "compute_capability": "9.0",
            "gfx": None,
            "health": "ok",
            "numa_node": None,
            "kernel_driver": "nvidia",
            "processes": [
                {
                    "pid": 461,
                    "name": "python3",
                    "unit": f"docker-{'ab12' * 16}.scope",
                    "container": "ab12ab12ab12",
                }
            ],
        }
    ]
    assert about == {
        "nvidia": {
            "driver": "580.159.04",
            "cuda": "13.0",
            "nvswitches": 0,
            "fabric_manager": {"version": None, "state": None, "fabric": None},
            "library_version": "580.159.04",
        }
    }
    assert findings == []


def test_an_older_tool_that_does_not_know_all_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "recorded/nvidia-smi/old"
    old.mkdir(parents=True)
    lines = recorded("nvidia-smi/h200/gpus.csv").splitlines()
    kept = [n for n, name in enumerate(lines[0].split(", ")) if name not in ("gpu_recovery_action", "fabric.state")]
    (old / "gpus.csv").write_text("\n".join(", ".join(line.split(", ")[n] for n in kept) for line in lines))
    shutil.copy(RECORDED / "nvidia-smi/h200/apps.csv", old)
    shutil.copy(RECORDED / "nvidia-smi/h200/table.txt", old)
    monkeypatch.setenv("EMULATOR_RECORDED", str(tmp_path / "recorded"))
    install(h200(tmp_path), "nvidia-smi", "old")
    cards, _, findings = find(tmp_path)
    assert (cards[0]["compute_capability"], cards[0]["health"], findings) == ("9.0", "ok", [])


def test_driver_and_library_of_different_versions(tmp_path: Path) -> None:
    install(h200(tmp_path), "nvidia-smi", "mismatch")
    write(tmp_path, "/sys/module/nvidia/version", "535.154.05\n")
    cards, about, findings = find(tmp_path)
    assert (cards[0]["index"], cards[0]["chip"], cards[0]["health"], cards[0]["pci_id"]) == (0, "", None, "10de:2335")
    assert (about["nvidia"]["driver"], about["nvidia"]["library_version"]) == ("535.154.05", "535.161")
    assert findings == [
        "nvidia-smi --query-gpu: exit 18: Failed to initialize NVML: Driver/library version mismatch; "
        "NVML library version: 535.161"
    ]


def test_the_installed_library_is_told_without_the_tool(tmp_path: Path) -> None:
    h200(tmp_path)
    write(tmp_path, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.211.01", "")
    link(tmp_path, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.570.211.01")
    cards, about, findings = find(tmp_path)
    assert about["nvidia"]["library_version"] == "570.211.01"
    assert findings == ["nvidia-smi: not there, so little is known of 1 cards"]
    assert len(cards) == 1


@pytest.mark.parametrize("driver", ["nouveau", "vfio-pci", None])
def test_a_card_that_another_driver_holds_is_not_asked_for(tmp_path: Path, driver: str | None) -> None:
    """The tool would load the kernel's module."""
    install(h200(tmp_path, driver), "nvidia-smi", "hang")
    cards, _, findings = find(tmp_path)
    assert cards[0]["kernel_driver"] == driver
    assert findings == [f"nvidia-smi: not run: the cards are held by {driver or 'no driver'}"]


@pytest.mark.parametrize(
    ("case", "finding"),
    [
        ("no-devices", "exit 6: No devices were found"),
        ("no-driver", "exit 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        ("half:h200", "0, 00000000:00:06.0, 0x2335"),
    ],
)
def test_nvidia_smi_fails(tmp_path: Path, case: str, finding: str) -> None:
    install(h200(tmp_path), "nvidia-smi", case)
    cards, _, findings = find(tmp_path)
    assert [(card["pci_address"], card["health"]) for card in cards] == [("0000:00:06.0", None)]
    assert findings
    assert findings[0].startswith(f"nvidia-smi --query-gpu: {finding}")


def test_nvidia_smi_hangs(tmp_path: Path) -> None:
    install(h200(tmp_path), "nvidia-smi", "hang")
    start = time.monotonic()
    cards, _, findings = find(tmp_path, 0.5)
    assert time.monotonic() - start < 2
    assert (len(cards), cards[0]["health"]) == (1, None)
    assert len(findings) == 1
    assert findings[0].endswith("no answer in 0.5 s")


def test_a_lost_card(tmp_path: Path) -> None:
    device(tmp_path, "0000:02:00.0", "10de:20b2", "030200", "nvidia")
    install(tmp_path, "nvidia-smi", "lost")
    cards, _, findings = find(tmp_path)
    assert [(card["index"], card["health"]) for card in cards] == [
        (0, "GPU is lost. Reboot the system to recover this GPU")
    ]
    assert "exit 15: Unable to determine the device handle" in findings[0]


def test_a_card_that_only_the_bus_shows(tmp_path: Path) -> None:
    install(h200(tmp_path), "nvidia-smi", "h200")
    device(tmp_path, "0000:00:07.0", "10de:2335:10de:18bf", "030200", "nvidia", node=1)
    cards, _, _ = find(tmp_path)
    assert [(card["index"], card["pci_address"], card["health"]) for card in cards] == [
        (0, "0000:00:06.0", "ok"),
        (1, "0000:00:07.0", "nvidia-smi does not list it"),
    ]


def test_a_card_that_only_the_tool_knows(tmp_path: Path) -> None:
    install(tmp_path, "nvidia-smi", "h200")
    cards, _, findings = find(tmp_path)
    assert [(card["pci_id"], card["pci_subsystem"], card["kernel_driver"]) for card in cards] == [
        ("10de:2335", "10de:18bf", None)
    ]
    assert findings == []


def test_nvswitches_and_their_manager(tmp_path: Path) -> None:
    h200(tmp_path)
    for number in range(4):
        device(tmp_path, f"0000:05:0{number}.0", "10de:22a3", "068000", "nvidia-nvswitch")
    write(tmp_path, "/usr/bin/nv-fabricmanager", "#!/bin/sh\necho 'Fabric Manager version is : 580.159.03'\n")
    write(tmp_path, "/usr/bin/systemctl", "#!/bin/sh\necho failed\nexit 3\n")
    (tmp_path / "usr/bin/nv-fabricmanager").chmod(0o755)
    (tmp_path / "usr/bin/systemctl").chmod(0o755)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    cards, about, _ = find(tmp_path)
    assert len(cards) == 1
    assert about["nvidia"]["nvswitches"] == 4
    assert about["nvidia"]["fabric_manager"] == {"version": "580.159.03", "state": "failed", "fabric": None}


# --- Huawei -----------------------------------------------------------------------------------------------------------


def ascend(root: Path, addresses: list[str], ids: str) -> Path:
    for address in addresses:
        device(root, address, ids, "120000", "devdrv_device_driver", node=1)
    write(root, "/etc/ascend_install.info", "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n")
    # The forms of vllm-project/vllm-ascend hosts, as in several public reports.
    driver = "Version=25.3.rc1\nascendhal_version=7.35.23\npackage_version=25.3.rc1\n"
    write(root, "/usr/local/Ascend/driver/version.info", driver)
    write(root, "/usr/local/Ascend/firmware/version.info", "Version=7.8.0.2.212\n")
    return root


def test_eight_910b(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = tmp_path / "recorded/npu-smi/910b3"
    case.mkdir(parents=True)
    shutil.copy(RECORDED / "npu-smi/910b3/info.txt", case)
    for number in range(8):
        shutil.copy(RECORDED / "npu-smi/board-910b.txt", case / f"board-{number}.txt")
    monkeypatch.setenv("EMULATOR_RECORDED", str(tmp_path / "recorded"))
    root = ascend(tmp_path, A2, "19e5:d802:19e5:3003")
    install(root, "npu-smi", "910b3")
    write(root, "/proc/2698909/comm", "VLLMWorker\n")
    write(root, "/proc/2698909/cgroup", "0::/system.slice/vllm-engine@chat-0.service\n")
    cards, about, findings = find(root)
    buses = ["c1", "c2", "81", "82", "01", "02", "41", "42"]
    assert [card["pci_address"] for card in cards] == [f"0000:{bus}:00.0" for bus in buses]
    assert [card["index"] for card in cards] == list(range(8))
    assert cards[0] == {
        "index": 0,
        "vendor": "huawei",
        "pci_address": "0000:c1:00.0",
        "pci_id": "19e5:d802",
        "pci_subsystem": "19e5:3003",
        "chip": "910B3",
        "memory_bytes": 65536 * MIB,
        "memory_used_bytes": 4487 * MIB,
        "driver": "25.5.1",
        "firmware": "7.8.0.6.201",
        "compute_capability": None,
        "gfx": None,
        "health": "ok",
        "numa_node": 1,
        "kernel_driver": "devdrv_device_driver",
        "processes": [
            {"pid": 2698909, "name": "VLLMWorker", "unit": "vllm-engine@chat-0.service", "container": None},
            {"pid": 2701550, "name": "", "unit": "", "container": None},
        ],
    }
    assert about == {"huawei": {"hdk": "25.3.rc1", "firmware": "7.8.0.2.212", "npu_smi": "25.3.rc1"}}
    assert findings == []


def test_910c_has_two_devices_a_card(tmp_path: Path) -> None:
    root = ascend(tmp_path, [f"0000:{b}:00.0" for b in ("37", "39", "9c", "9e")], "19e5:d803")
    install(root, "npu-smi", "910c")
    cards, _, findings = find(root)
    assert [(card["index"], card["pci_address"], card["pci_id"], card["driver"]) for card in cards] == [
        (0, "0000:9c:00.0", "19e5:d803", "25.3.rc1"),
        (1, "0000:9e:00.0", "19e5:d803", "25.3.rc1"),
        (2, "0000:37:00.0", "19e5:d803", "25.3.rc1"),
        (3, "0000:39:00.0", "19e5:d803", "25.3.rc1"),
    ]
    # The board cannot be asked here; that is told once, and not for each card.
    assert [finding.split(":")[0] for finding in findings] == ["npu-smi info -t board -i 0"]


def test_310p_has_several_devices_on_one_address(tmp_path: Path) -> None:
    root = ascend(tmp_path, ["0000:01:00.0", "0000:02:00.0"], "19e5:d500:0200:0110")
    install(root, "npu-smi", "310p-duo")
    cards, _, _ = find(root)
    assert [(card["index"], card["pci_address"], card["chip"], card["pci_subsystem"]) for card in cards] == [
        (0, "0000:01:00.0", "310P3", "0200:0110"),
        (1, "0000:01:00.0", "310P3", "0200:0110"),
        (2, "0000:02:00.0", "310P3", "0200:0110"),
        (3, "0000:02:00.0", "310P3", "0200:0110"),
    ]


@pytest.mark.parametrize("case", ["dcmi-8005", "dcmi-8020"])
@pytest.mark.parametrize("code", ["0", "1"])
def test_npu_smi_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, code: str) -> None:
    monkeypatch.setenv("EMULATOR_EXIT", code)
    root = ascend(tmp_path, A2, "19e5:d802")
    install(root, "npu-smi", case)
    cards, about, findings = find(root)
    assert [(card["index"], card["health"], card["chip"]) for card in cards] == [(n, None, "") for n in range(8)]
    assert about["huawei"] == {"hdk": "25.3.rc1", "firmware": "7.8.0.2.212", "npu_smi": None}
    assert len(findings) == 1
    assert f"ret is -{case[-4:]}" in findings[0]


def test_npu_smi_ends_in_the_middle(tmp_path: Path) -> None:
    root = ascend(tmp_path, A2, "19e5:d802")
    install(root, "npu-smi", "half:910b3")
    cards, _, findings = find(root)
    assert len(cards) == 8
    assert {card["health"] for card in cards} <= {"ok", None}
    assert findings[0].startswith("npu-smi info: output ends early or is none of a known form")


def test_npu_smi_hangs(tmp_path: Path) -> None:
    root = ascend(tmp_path, A2, "19e5:d802")
    install(root, "npu-smi", "hang")
    start = time.monotonic()
    cards, _, findings = find(root, 0.5)
    assert time.monotonic() - start < 2
    assert (len(cards), findings) == (8, ["npu-smi info: no answer in 0.5 s"])


def test_an_ascend_card_that_the_tool_does_not_list(tmp_path: Path) -> None:
    root = ascend(
        tmp_path, ["0000:37:00.0", "0000:39:00.0", "0000:9c:00.0", "0000:9e:00.0", "0000:a1:00.0"], "19e5:d803"
    )
    install(root, "npu-smi", "910c")
    cards, _, _ = find(root)
    assert [(card["index"], card["health"]) for card in cards][4:] == [(4, "npu-smi does not list it")]


# --- Hygon ------------------------------------------------------------------------------------------------------------


def test_hygon_cards(tmp_path: Path) -> None:
    for address in ("0000:09:00.0", "0000:36:00.0"):
        device(tmp_path, address, "1d94:6320", "038000", "hydcu", node=3)
    install(tmp_path, "hy-smi", "bw", "/opt/hyhal/bin")
    write(tmp_path, "/opt/dtk-25.04.4/.info/version", "25.04.4\n")
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nlocation_id 0\n")
    # location_id is bus << 8 | device << 3 | function: 0x3600 is 36:00.0.
    node = "gfx_target_version 90306\nlocation_id 13824\ndomain 0\nunique_id 18446744073709551615\n"
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/2/properties", node)
    write(tmp_path, "/proc/2004092/comm", "python3\n")
    cards, about, findings = find(tmp_path)
    assert [(card["index"], card["pci_address"], card["chip"], card["gfx"]) for card in cards] == [
        (0, "0000:09:00.0", "BW", None),
        (1, "0000:36:00.0", "BW", "gfx936"),
    ]
    assert [card["memory_used_bytes"] // MIB for card in cards] == [9703, 9651]
    assert {card["driver"] for card in cards} == {"6.3.31-V1.5.0a"}
    assert [[one["name"] for one in card["processes"]] for card in cards] == [[], ["python3"]]
    assert about == {"hygon": {"driver": "6.3.31-V1.5.0a", "dtk": "25.04.4", "hyhal": True}}
    assert findings == []


def test_without_addresses_the_order_of_the_bus_counts(tmp_path: Path) -> None:
    for address in ("0000:07:00.0", "0000:0a:00.0"):
        device(tmp_path, address, "1d94:6210", "0b4000", "hydcu")
    install(tmp_path, "hy-smi", "k100-ai", "/opt/hyhal/bin")
    cards, _, findings = find(tmp_path)
    assert [(card["index"], card["pci_address"], card["chip"]) for card in cards] == [
        (0, "0000:07:00.0", "K100_AI"),
        (1, "0000:0a:00.0", "K100_AI"),
    ]
    assert {card["memory_bytes"] for card in cards} == {65520 * MIB}
    assert [finding.split(":")[0] for finding in findings] == ["hy-smi --showpids", "hy-smi --showdriverversion"]


@pytest.mark.parametrize("code", ["0", "1"])
def test_a_part_of_hy_smi_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setenv("EMULATOR_EXIT", code)
    device(tmp_path, "0000:04:00.0", "1d94:55b7", "038000", "hydcu")
    install(tmp_path, "hy-smi", "z100l", "/opt/hyhal/bin")
    cards, _, _ = find(tmp_path)
    assert [(card["pci_address"], card["chip"]) for card in cards] == [("0000:04:00.0", "Z100L")]


def test_half_the_output_of_hy_smi(tmp_path: Path) -> None:
    device(tmp_path, "0000:04:00.0", "1d94:6210", "038000", "hydcu")
    install(tmp_path, "hy-smi", "half:k100-ai", "/opt/hyhal/bin")
    cards, _, findings = find(tmp_path)
    assert [(card["pci_address"], card["chip"]) for card in cards] == [("0000:04:00.0", "")]
    assert findings[0].startswith("hy-smi --json: no whole JSON object")


def test_hy_smi_hangs(tmp_path: Path) -> None:
    device(tmp_path, "0000:04:00.0", "1d94:6210", "038000", "hydcu")
    install(tmp_path, "hy-smi", "hang", "/opt/hyhal/bin")
    start = time.monotonic()
    cards, about, findings = find(tmp_path, 0.5)
    assert time.monotonic() - start < 2
    assert (len(cards), len(findings), about["hygon"]["driver"]) == (1, 1, None)


# --- AMD, and everything together -------------------------------------------------------------------------------------


def test_amd_cards_come_from_the_kernel(tmp_path: Path) -> None:
    device(tmp_path, "0000:c1:00.0", "1002:74a1", "120000", "amdgpu")
    base = "/sys/bus/pci/devices/0000:c1:00.0"
    write(tmp_path, base + "/mem_info_vram_total", "206141652992\n")
    write(tmp_path, base + "/mem_info_vram_used", "297893888\n")
    node = "gfx_target_version 90402\nlocation_id 49408\ndomain 0\n"
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/4/properties", node)
    cards, about, findings = find(tmp_path)
    assert [(card["vendor"], card["gfx"], card["memory_bytes"]) for card in cards] == [("amd", "gfx942", 206141652992)]
    assert (about, findings) == ({}, [])


def test_a_broken_bus_is_a_finding(tmp_path: Path) -> None:
    device(tmp_path, "0000:c1:00.0", "1002:74a1", "amd")
    cards, _, findings = find(tmp_path)
    assert (cards, [finding.split(":")[0] for finding in findings]) == ([], ["cards"])


def test_all_vendors_of_a_whole_host_hang_and_it_is_still_described(tmp_path: Path) -> None:
    root = ascend(h200(tmp_path), A2, "19e5:d802")
    device(root, "0000:04:00.0", "1d94:6210", "038000", "hydcu")
    for tool in ("nvidia-smi", "npu-smi", "hy-smi"):
        install(root, tool, "hang")
    write(root, "/etc/os-release", "ID=ubuntu\nNAME=Ubuntu\n")
    start = time.monotonic()
    fleet = discover(str(root), call_seconds=0.4, total_seconds=5)["fleet"]
    assert time.monotonic() - start < 4
    assert (len(fleet["cards"]), fleet["os"]["id"]) == (10, "ubuntu")
    assert len([finding for finding in fleet["findings"] if finding.endswith("no answer in 0.4 s")]) == 3
