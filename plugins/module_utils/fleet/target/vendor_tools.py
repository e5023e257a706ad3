"""What the vendors' tools print, as data: pure functions of text.

Made from real output, which ``tests/emulators/recorded`` keeps with its sources. Sizes are bytes. A tool may stop in
the middle of a table or print warnings around it: what is whole is taken, and the rest is told.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

MIB = 1 << 20
#: What ``nvidia-smi`` puts in place of a value that a healthy card does not have, in any version.
NO_VALUE = {"", "N/A", "[N/A]", "[Not Supported]", "Not Supported", "None", "[Unknown Error]", "Unknown Error"}


class NpuTable(NamedTuple):
    """``npu-smi info``: one device a chip, with the processes on it."""

    version: str
    devices: list[dict[str, Any]]
    whole: bool


def pci_address(text: str) -> str:
    """A PCI address as the kernel writes it: ``00000000:C1:00.0`` is ``0000:c1:00.0``; ``""`` for anything else."""
    match = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", text.strip().lower())
    return f"{(match.group(1) or '0000')[-4:]}:{match.group(2)}" if match else ""


def mib(text: str | None) -> int | None:
    """Bytes of a number of MiB, which NVIDIA writes MiB and Huawei MB; None where it is no number."""
    text = (text or "").strip()
    return int(text) * MIB if text.isdigit() else None


def assignments(text: str | None) -> dict[str, str]:
    """A file of ``KEY=value`` lines, such as ``version.info``; keys in lower case."""
    pairs = (line.partition("=") for line in (text or "").splitlines())
    return {key.strip().lower(): value.strip() for key, sep, value in pairs if sep}


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


def nvidia_rows(text: str, fields: list[str]) -> tuple[list[dict[str, str]], list[str]]:
    """Rows of ``--query-gpu`` or ``--query-compute-apps`` with ``csv,noheader,nounits``, and lines that are no row.

    The last field may have commas in it: names of processes do.
    """
    rows, others = [], []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",", len(fields) - 1)]
        if len(values) == len(fields) and values[0].isdigit():
            rows.append(dict(zip(fields, values)))
        elif line.strip():
            others.append(line.strip())
    return rows, others


def nvidia_unknown_field(text: str) -> str | None:
    """The field that this version does not know, if that is what it says."""
    match = re.search(r'Field "([^"]+)" is not a valid field', text)
    return match.group(1) if match else None


def nvidia_versions(text: str) -> dict[str, str]:
    """``driver``, ``cuda`` and ``library`` from the head of the plain table, or from the error in its place.

    The head of version 610 says ``KMD Version`` and ``CUDA UMD Version``.
    """
    patterns = {
        "driver": r"(?:Driver|KMD) Version\s*:\s*([0-9][0-9.]*)",
        "cuda": r"CUDA (?:UMD )?Version\s*:\s*([0-9][0-9.]*)",
        "library": r"NVML library version\s*:\s*([0-9][0-9.]*)",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: match.group(1) for name, match in found.items() if match}


def nvidia_lost(text: str) -> dict[str, str]:
    """Cards that the driver has lost: what is said of each, by address."""
    pattern = r"Unable to determine the device handle for GPU\s*(?:[0-9]+: ?)?([0-9A-F]{4,8}:[0-9A-F]{2}:\S+): (.+)"
    return {pci_address(address): words.strip() for address, words in re.findall(pattern, text, re.I)}


def nvidia_health(row: dict[str, str]) -> str | None:
    """``ok``, or what ``nvidia-smi`` says is wrong with a card; None where it says nothing of it."""
    for value in row.values():
        # In place of any value: "[GPU is lost]", "[GPU requires reset]", "[Unknown Error]".
        if re.fullmatch(r"\[(GPU [a-z ]+|Unknown Error)\]", value):
            return value.strip("[]")
    if row.get("remapped_rows.failure") == "Yes":
        return "bad memory that could not be remapped"
    action = row.get("gpu_recovery_action", "")
    if action not in NO_VALUE:
        return f"recovery action: {action}"
    # Where the driver says that there is nothing to recover from, errors have been contained.
    uncorrected = row.get("ecc.errors.uncorrected.volatile.total", "")
    if action != "None" and uncorrected.isdigit() and int(uncorrected):
        return f"{uncorrected} uncorrected memory errors since the driver was loaded"
    return "ok" if action == "None" or uncorrected.isdigit() else None


# --- Huawei Ascend ----------------------------------------------------------------------------------------------------


def npu_table(text: str) -> NpuTable:
    """``npu-smi info``. Each device has two lines: card, name and health, then chip, address and memory.

    The second number of the second line is the number that the driver gives the device, over all cards: the heading
    calls it ``Phy-ID`` (910C) or ``Device`` (310P). 910B has one chip a card and does not print it: there it is the
    card's. Memory is HBM where the chip has some, else what stands under ``Memory-Usage``.
    """
    version = re.search(r"^\| *npu-smi +(\S+)", text, re.M)
    devices: list[dict[str, Any]] = []
    first: list[str] | None = None
    processes = False
    for line in text.splitlines():
        if not line.startswith("|") or not line.rstrip().endswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        processes = processes or "Process id" in line
        if processes:
            _npu_process(cells, devices)
        elif len(cells) == 3 and re.fullmatch(r"[0-9]+ +\S.*", cells[0]) and not pci_address(cells[1]):
            first = cells
        elif len(cells) == 3 and first and pci_address(cells[1]):
            devices.append(_npu_device(first, cells))
            first = None
    last = text.rstrip().rpartition("\n")[2]
    whole = bool(devices) and first is None and processes and re.fullmatch(r"\+[=+-]+\+", last) is not None
    return NpuTable(version.group(1) if version else "", devices, whole)


def _npu_device(first: list[str], second: list[str]) -> dict[str, Any]:
    card, _, name = first[0].partition(" ")
    chip, _, number = second[0].partition(" ")
    # Memory-Usage(MB), then HBM-Usage(MB) where there is one: "0    / 0          4487 / 65536", "1448 / 44278".
    memory = [(int(used), int(total)) for used, total in re.findall(r"([0-9]+) */ *([0-9]+)", second[2])]
    used, total = next((pair for pair in reversed(memory) if pair[1]), (None, None))
    return {
        "card": int(card),
        "chip": int(chip),
        "index": int(number) if number.strip().isdigit() else int(card),
        "name": name.strip(),
        "health": "ok" if first[1] == "OK" else first[1],
        "address": pci_address(second[1]),
        "used_bytes": None if used is None else used * MIB,
        "memory_bytes": None if total is None else total * MIB,
        "processes": [],
    }


def _npu_process(cells: list[str], devices: list[dict[str, Any]]) -> None:
    place = re.fullmatch(r"([0-9]+) +([0-9]+)", cells[0]) if len(cells) == 4 else None
    if place and cells[1].isdigit():
        for device in devices:
            if (device["card"], device["chip"]) == (int(place.group(1)), int(place.group(2))):
                device["processes"].append({"pid": int(cells[1]), "name": cells[2]})


def npu_board(text: str) -> dict[str, str]:
    """``npu-smi info -t board -i N``: lines of ``Name : value``; names in lower case."""
    pairs = (line.partition(" : ") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, sep, value in pairs if sep}


# --- Hygon ------------------------------------------------------------------------------------------------------------


def hygon_cards(text: str) -> dict[int, dict[str, str]]:
    """``hy-smi --json``: the fields of each card by its number. Raises ValueError where there is no whole object.

    Lines before and after it are warnings: ``hy-smi`` prints what it could read also when a part failed.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise ValueError("no JSON object in the output")
    data = json.loads(text[start : end + 1])
    found = {}
    for name, fields in data.items():
        match = re.fullmatch(r"card([0-9]+)", str(name))
        if match and isinstance(fields, dict):
            found[int(match.group(1))] = {str(key): str(value) for key, value in fields.items()}
    return found


def hygon_bus(field: str) -> str:
    """The address in ``PCI Bus``: ``0000:09:00.0 --> SN: N/A --> OAM ID: 1``."""
    return pci_address(field.partition(" ")[0])


def hygon_driver(text: str) -> str:
    """The version in ``hy-smi --showdriverversion``."""
    match = re.search(r"^Driver Version\s*:\s*(\S+)", text, re.M | re.I)
    return match.group(1) if match else ""


def hygon_processes(text: str) -> list[dict[str, Any]]:
    """``hy-smi --showpids``: ``pid``, the ``indexes`` of its cards and their ``addresses`` where it prints them."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        key, sep, value = line.strip().partition(":")
        if key == "PID" and value.strip().isdigit():
            found.append({"pid": int(value), "indexes": [], "addresses": []})
        elif sep and found and key == "HCU Index":
            found[-1]["indexes"] = [int(number) for number in re.findall(r"'([0-9]+)'", value)]
        elif sep and found and key == "PCI BUS":
            found[-1]["addresses"] = [pci_address(text) for text in re.findall(r"'([^']+)'", value)]
    return found


def gfx_name(number: int) -> str:
    """The name of a target of the kernel's ``gfx_target_version``: 90402 is gfx942, 90010 is gfx90a."""
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}" if number >= 10000 else ""
