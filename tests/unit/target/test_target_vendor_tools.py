"""Parsers of vendors' tools, each on every recording there is of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from fleet.target import vendor_tools as v
from vendor_trees import recorded

MIB = 1 << 20


def test_910b_has_one_chip_a_card() -> None:
    table = v.npu_table(recorded("npu-smi/910b3/info.txt"))
    assert (table.version, table.whole, len(table.devices)) == ("25.3.rc1", True, 8)
    assert table.devices[7] == {
        "card": 7,
        "chip": 0,
        "index": 7,
        "name": "910B3",
        "health": "ok",
        "address": "0000:42:00.0",
        "used_bytes": 4482 * MIB,
        "memory_bytes": 65536 * MIB,
        "processes": [{"pid": 2701557, "name": ""}, {"pid": 2698917, "name": ""}],
    }


def test_910c_has_two_dies_a_card_and_each_is_a_device() -> None:
    table = v.npu_table(recorded("npu-smi/910c/info.txt"))
    assert (table.version, table.whole) == ("25.2.0", True)
    assert [(d["index"], d["card"], d["chip"], d["address"]) for d in table.devices] == [
        (0, 0, 0, "0000:9c:00.0"),
        (1, 0, 1, "0000:9e:00.0"),
        (2, 1, 0, "0000:37:00.0"),
        (3, 1, 1, "0000:39:00.0"),
    ]
    assert [d["processes"] for d in table.devices] == [[], [], [], [{"pid": 990711, "name": "python"}]]
    assert table.devices[3]["used_bytes"] == 10568 * MIB


def test_310p_has_memory_that_is_no_hbm_and_chips_that_share_an_address() -> None:
    table = v.npu_table(recorded("npu-smi/310p-duo/info.txt"))
    assert (table.version, table.whole) == ("24.1.0.1", True)
    assert [(d["index"], d["card"], d["chip"], d["address"]) for d in table.devices] == [
        (0, 1, 0, "0000:01:00.0"),
        (1, 1, 1, "0000:01:00.0"),
        (2, 2, 0, "0000:02:00.0"),
        (3, 2, 1, "0000:02:00.0"),
    ]
    assert [d["memory_bytes"] // MIB for d in table.devices] == [44280, 43693, 44280, 43693]
    assert [d["used_bytes"] // MIB for d in table.devices] == [16302, 15543, 35563, 35204]
    assert [d["processes"][0]["pid"] for d in table.devices] == [3277562, 3277565, 3034986, 3034989]


def test_card_numbers_need_not_be_near_each_other() -> None:
    table = v.npu_table(recorded("npu-smi/310p-pro/info.txt"))
    assert table.whole
    assert [d["card"] for d in table.devices] == [0, 32, 96, 32768, 32800, 32896]
    assert [d["index"] for d in table.devices] == [0, 1, 2, 3, 4, 5]
    assert {d["memory_bytes"] for d in table.devices} == {21527 * MIB}


@pytest.mark.parametrize("case", ["910b3", "910c", "310p-duo", "310p-pro"])
def test_a_table_that_ends_early_is_told_from_a_whole_one_wherever_it_ends(case: str) -> None:
    text = recorded(f"npu-smi/{case}/info.txt").rstrip("\n")
    whole = v.npu_table(text).devices
    for end in range(0, len(text) - 1, 97):
        cut = v.npu_table(text[:end])
        assert not cut.whole or text[:end].endswith("+"), end
        for device in cut.devices:
            same = next(d for d in whole if d["index"] == device["index"])
            assert device | {"processes": []} == same | {"processes": []}


def test_the_wider_table_of_26_0() -> None:
    """The beginning of the table in vllm-project/vllm-ascend#12980; the report has no more of it."""
    table = v.npu_table("""\
+------------------------------------------------------------------------------------------------------------------+
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                                    |
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 0     Ascend910           | OK            | 162.6                34                      0    / 0                |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                3419 / 65536            |
+------------------------------------------------------------------------------------------------------------------+
""")
    assert (table.version, table.whole) == ("26.0.rc2", False)
    assert [(d["address"], d["used_bytes"] // MIB) for d in table.devices] == [("0000:9d:00.0", 3419)]


def test_a_health_other_than_ok_is_kept_as_it_is() -> None:
    text = recorded("npu-smi/910c/info.txt").replace("| OK            | 167.1", "| Warning       | 167.1")
    assert [d["health"] for d in v.npu_table(text).devices] == ["ok", "ok", "Warning", "ok"]


def test_hbm_counts_where_a_chip_has_other_memory_too() -> None:
    text = recorded("npu-smi/910b3/info.txt").replace("0    / 0          4487", "2621 / 15137     4487")
    device = v.npu_table(text).devices[0]
    assert (device["used_bytes"], device["memory_bytes"]) == (4487 * MIB, 65536 * MIB)


def test_the_board_of_a_card() -> None:
    board = v.npu_board(recorded("npu-smi/board-910b.txt"))
    assert (board["software version"], board["firmware version"]) == ("25.5.1", "7.8.0.6.201")
    assert (board["pci device id"], board["pcie bus info"]) == ("0xD802", "0000:C1:00.0")


@pytest.mark.parametrize("case", ["dcmi-8005", "dcmi-8020"])
def test_an_error_of_dcmi_is_no_table(case: str) -> None:
    assert v.npu_table(recorded(f"failures/npu-smi.{case}")) == v.NpuTable("", [], False)


def test_nvidia_rows() -> None:
    fields = ["index", "pci.bus_id", "name", "memory.total", "compute_cap"]
    rows, others = v.nvidia_rows("0, 00000000:00:06.0, NVIDIA H200, 143771, 9.0\n\nsome warning\n1, 2, 3\n", fields)
    assert rows == [dict(zip(fields, ["0", "00000000:00:06.0", "NVIDIA H200", "143771", "9.0"], strict=True))]
    assert others == ["some warning", "1, 2, 3"]


def test_the_name_of_a_process_may_have_commas() -> None:
    rows, _ = v.nvidia_rows("461, 00000000:00:06.0, 1634, python3 -c a, b\n", ["pid", "gpu_bus_id", "used", "name"])
    assert rows[0]["name"] == "python3 -c a, b"


def test_nvidia_versions() -> None:
    assert v.nvidia_versions(recorded("nvidia-smi/h200/table.txt")) == {"driver": "580.159.04", "cuda": "13.0"}
    assert v.nvidia_versions(recorded("failures/nvidia-smi.mismatch")) == {"library": "535.161"}
    # The head as of 610.57.04.
    new = "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |"
    assert v.nvidia_versions(new) == {"driver": "610.57.04", "cuda": "13.3"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # NVIDIA/open-gpu-kernel-modules#387, meta-llama/llama-models#200, and as of 610.57.04.
        (
            "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
            {"0000:0b:00.0": "Unknown Error"},
        ),
        ("Unable to determine the device handle for GPU0000:17:00.0: Unknown Error", {"0000:17:00.0": "Unknown Error"}),
        (
            "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error",
            {"0000:34:00.0": "Unknown Error"},
        ),
        ("Unable to determine the device handle for GPU 0: Unknown Error", {}),
    ],
)
def test_lost_cards_by_address(line: str, expected: dict[str, str]) -> None:
    assert v.nvidia_lost(line + "\n") == expected


def test_a_lost_card_as_recorded() -> None:
    found = v.nvidia_lost(recorded("failures/nvidia-smi.lost"))
    assert found == {"0000:02:00.0": "GPU is lost. Reboot the system to recover this GPU"}


@pytest.mark.parametrize(
    ("row", "health"),
    [
        ({"gpu_recovery_action": "None", "ecc.errors.uncorrected.volatile.total": "0"}, "ok"),
        ({"gpu_recovery_action": "None", "ecc.errors.uncorrected.volatile.total": "2"}, "ok"),
        ({"gpu_recovery_action": "None", "remapped_rows.failure": "Yes"}, "bad memory that could not be remapped"),
        ({"gpu_recovery_action": "Reset"}, "recovery action: Reset"),
        ({"ecc.errors.uncorrected.volatile.total": "3"}, "3 uncorrected memory errors since the driver was loaded"),
        ({"ecc.errors.uncorrected.volatile.total": "[N/A]"}, None),
        ({"memory.used": "[GPU requires reset]", "gpu_recovery_action": "None"}, "GPU requires reset"),
        ({"memory.used": "[GPU is lost]"}, "GPU is lost"),
        ({"memory.used": "[Unknown Error]"}, "Unknown Error"),
        ({}, None),
    ],
)
def test_health_of_an_nvidia_card(row: dict[str, str], health: str | None) -> None:
    assert v.nvidia_health(row) == health


def test_hygon_cards() -> None:
    cards = v.hygon_cards(recorded("hy-smi/bw/cards.json"))
    assert sorted(cards) == [0, 1]
    assert v.hygon_bus(cards[1]["PCI Bus"]) == "0000:36:00.0"
    assert v.hygon_driver(recorded("hy-smi/bw/driver.txt")) == "6.3.31-V1.5.0a"
    assert v.hygon_processes(recorded("hy-smi/bw/pids.txt")) == [
        {"pid": 2004092, "indexes": [1], "addresses": ["0000:36:00.0"]}
    ]


def test_warnings_around_the_object_do_not_matter() -> None:
    assert v.hygon_cards(recorded("hy-smi/z100l/cards.json"))[0]["Card Series"] == "Z100L"


def test_half_an_object_is_told() -> None:
    text = recorded("hy-smi/k100-ai/cards.json")
    with pytest.raises(ValueError, match=r"."):
        v.hygon_cards(text[: len(text) // 2])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("0000:00:06.0", "0000:00:06.0"),
        ("c1:00.0", "0000:c1:00.0"),
        ("00010000:C1:00.0", "0000:c1:00.0"),
        ("NA", ""),
        ("", ""),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert v.pci_address(text) == address


def test_names_of_gfx_targets() -> None:
    # 90402 is gfx942: ROCm/rocm-cli#343.
    assert [v.gfx_name(n) for n in (90402, 90010, 90208, 100300, 0)] == ["gfx942", "gfx90a", "gfx928", "gfx1030", ""]


@pytest.mark.parametrize(
    "module", ["cards", "discover", "host", "network", "software", "storage_speed", "tools", "vendor_tools"]
)
def test_discovery_is_python_3_9_and_imports_little(module: str) -> None:
    source = (Path(v.__file__).parent / f"{module}.py").read_text()
    tree = ast.parse(source, feature_version=(3, 9))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    light = {"json", "mmap", "os", "re", "select", "signal", "socket", "struct", "subprocess", "time"}
    assert imported <= light
