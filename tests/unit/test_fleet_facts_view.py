"""What discovery found, for people and for tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleet.facts import HostFacts
from fleet.facts_view import NO_PYTHON, findings, report, size, table
from fleet.target.discover import discover

MIB = 1 << 20


def card(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "index": index,
        "vendor": "huawei",
        "pci_address": f"0000:0{index}:00.0",
        "pci_id": "19e5:d802",
        "chip": "910B3",
        "memory_bytes": 65536 * MIB,
        "health": "ok",
        "processes": [],
    } | changes


HOST = {
    "usable_python": True,
    "os": {"pretty_name": "openEuler 22.03 (LTS-SP4)"},
    "arch": "aarch64",
    "cpu": {"count": 256},
    "numa": [{"id": node} for node in range(8)],
    "memory": {"total_bytes": 1536 << 30},
    "cards": [card(0), card(1, processes=[{"pid": 1}]), card(2, health="Warning")],
    "card_tools": {"huawei": {"hdk": "25.5.1", "firmware": "7.8", "npu_smi": "25.5.1"}},
    "cann": [
        {"version": "8.5.0", "path": "/usr/local/Ascend/cann-8.5.0", "kind": "toolkit"},
        {"version": "8.5.0", "path": "/usr/local/Ascend/nnal/atb/8.5.0", "kind": "nnal"},
    ],
    "dtk": None,
    "interfaces": [
        {"name": "lo", "pci_address": None},
        {
            "name": "a",
            "pci_address": "0000:01:00.0",
            "speed_mbps": 200000,
            "driver": "mlx5_core",
            "rdma_device": "mlx5_0",
        },
        {
            "name": "b",
            "pci_address": "0000:01:00.1",
            "speed_mbps": 200000,
            "driver": "mlx5_core",
            "rdma_device": "mlx5_1",
        },
        {"name": "c", "pci_address": "0000:02:00.0", "speed_mbps": None, "driver": "hns3", "rdma_device": None},
    ],
    "findings": ["npu-smi info: no answer in 20 s"],
}


def test_a_row_says_what_a_host_is() -> None:
    lines = table({"ascend-1": HOST})
    assert [cell.strip() for cell in lines[1].split("  ") if cell.strip()] == [
        "ascend-1",
        "openEuler 22.03 (LTS-SP4)",
        "aarch64",
        "256 on 8 nodes",
        "1.5 TiB",
        "3 x 910B3 64 GiB, 1 in use, 1 not healthy",
        "huawei 25.5.1",
        "8.5.0",
        "2 x 200 Gb/s mlx5_core RDMA, 1 x hns3",
        "2",
    ]
    assert lines[2:] == [
        "",
        "ascend-1: npu-smi info: no answer in 20 s",
        "ascend-1: card 2 (910B3, 0000:02:00.0): Warning",
    ]


def test_columns_are_aligned_and_hosts_sorted() -> None:
    lines = table({"b": HOST, "a-longer-name": {}})
    assert [line.split()[0] for line in lines[:3]] == ["host", "a-longer-name", "b"]
    assert lines[0].index("arch") == lines[2].index("aarch64")


def test_a_card_that_no_driver_knows_is_named_by_the_bus() -> None:
    facts = {
        "cards": [card(0, vendor="nvidia", chip="", pci_id="10de:2335", memory_bytes=None, health=None)],
        "card_tools": {"nvidia": {"driver": None}},
    }
    row = table({"gpu": facts})[1]
    assert "1 x nvidia 10de:2335" in row
    assert "nvidia not installed" in row
    assert findings(facts) == []


def test_hosts_that_did_not_answer_and_hosts_without_python() -> None:
    hosts = {"gone": None, "kylin": {"usable_python": False, "os": {"name": "Kylin"}}, "fine": {"cpu": {"count": 2}}}
    lines = table(hosts)
    assert lines[2].split("  ")[0] == "gone"
    assert "did not answer" in lines[2]
    assert lines[-2:] == ["gone: did not answer", f"kylin: {NO_PYTHON}"]
    assert table({"fine": {"cpu": {"count": 2}}})[-1] == "nothing to note"
    assert report(hosts) == {
        "hosts": {"kylin": hosts["kylin"], "fine": hosts["fine"]},
        "did_not_answer": ["gone"],
    }


def test_a_real_host(tmp_path: Path) -> None:
    """Facts of a machine with an H200 have every key that discovery returns, and make a row and typed facts."""
    path = Path(__file__).resolve().parents[1] / "fixtures/facts_h200_2026-12-01.json"
    facts = json.loads(path.read_text())["fleet"]
    assert sorted(facts) == sorted(discover(str(tmp_path))["fleet"])
    row = table({"gpu-1": facts})[1]
    assert "1 x NVIDIA H200 140 GiB, 1 in use  nvidia 580.159.04" in row
    assert "1 x virtio_net" in row
    assert HostFacts.of(facts).cpu_count == 16


def test_sizes() -> None:
    numbers = [None, 0, 512, 2048, 143771 * MIB, 24387997696, 3 << 40, 2000 << 40]
    assert [size(number) for number in numbers] == [
        "",
        "",
        "512 B",
        "2.0 KiB",
        "140 GiB",
        "23 GiB",
        "3.0 TiB",
        "2000 TiB",
    ]
