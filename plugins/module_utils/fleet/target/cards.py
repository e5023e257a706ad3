"""Accelerators: what the PCI bus shows, joined with what the vendor's tool says of it.

The bus is there without any driver, and the tool knows what only a driver can. A card that the tool does not list is
still a card, and one that only the tool knows is one too. Serial numbers and UUIDs are not read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Callable

from . import vendor_tools as v
from .host import Host, container_of, unit_of
from .tools import Tools, first_lines

BUS = "/sys/bus/pci/devices"
VENDORS = {"0x10de": "nvidia", "0x19e5": "huawei", "0x1d94": "hygon", "0x1002": "amd"}
#: PCI classes (class and subclass) of accelerators. Other devices of these vendors are switches, bridges, network cards
#: and, of Huawei, the display of its board controller (0300).
CLASSES = {
    "nvidia": {0x0300, 0x0302, 0x1200},
    "huawei": {0x1200},
    # Seen as 0380 and 0b40 (gpustack/gpustack#5170 adds 06); 0600, 0601 and 0604 are the bridges of Hygon's CPUs.
    "hygon": {*range(0x0300, 0x0400), *range(0x1200, 0x1300), 0x0B40} | set(range(0x0602, 0x0700)) - {0x0604},
    "amd": {0x0300, 0x0302, 0x0380, 0x1200},
}
NVSWITCH_CLASS = 0x0680
NVIDIA_FIELDS = [
    "index",
    "pci.bus_id",
    "pci.device_id",
    "pci.sub_device_id",
    "name",
    "memory.total",
    "memory.used",
    "driver_version",
    "vbios_version",
]
#: Fields that not every version of ``nvidia-smi`` knows.
NVIDIA_NEWER_FIELDS = [
    "compute_cap",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.failure",
    "gpu_recovery_action",
    "fabric.state",
]
NVIDIA_PROCESS_FIELDS = ["pid", "gpu_bus_id", "used_memory", "process_name"]
NVIDIA_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
)
ASCEND = "/usr/local/Ascend"
HYHAL = ("/opt/hyhal", "/usr/local/hyhal")


def on_bus(host: Host) -> list[dict[str, Any]]:
    """Accelerators on the PCI bus, in its order."""
    found = []
    for address, vendor, kind in _vendor_devices(host):
        # A virtual function is a part of a card that is listed itself.
        if kind in CLASSES[vendor] and not host.exists(f"{BUS}/{address}/physfn"):
            found.append(_bus_facts(host, vendor, address))
    return found


def _vendor_devices(host: Host) -> Iterator[tuple[str, str, int]]:
    """Devices of these vendors: address, vendor, class."""
    for address in host.names(BUS):
        vendor = VENDORS.get(host.text(f"{BUS}/{address}/vendor") or "")
        if vendor:
            yield address, vendor, int(host.text(f"{BUS}/{address}/class") or "0", 16) >> 8


def _bus_facts(host: Host, vendor: str, address: str) -> dict[str, Any]:
    base = f"{BUS}/{address}"

    def pair(first: str, second: str) -> str:
        return ":".join((host.text(f"{base}/{name}") or "").replace("0x", "") for name in (first, second)).strip(":")

    node = host.number(base + "/numa_node")
    return new_card(
        vendor,
        pci_address=address,
        pci_id=pair("vendor", "device"),
        pci_subsystem=pair("subsystem_vendor", "subsystem_device"),
        numa_node=node if node is not None and node >= 0 else None,
        kernel_driver=host.link(base + "/driver"),
        memory_bytes=host.number(base + "/mem_info_vram_total"),
        memory_used_bytes=host.number(base + "/mem_info_vram_used"),
        chip=(host.text(base + "/product_name") or "") if vendor == "amd" else "",
    )


def new_card(vendor: str, **known: Any) -> dict[str, Any]:
    """A card with all its keys."""
    return {
        "index": None,
        "vendor": vendor,
        "pci_address": "",
        "pci_id": "",
        "pci_subsystem": "",
        "chip": "",
        "memory_bytes": None,
        "memory_used_bytes": None,
        "driver": None,
        "firmware": None,
        "compute_capability": None,
        "gfx": None,
        "health": None,
        "numa_node": None,
        "kernel_driver": None,
        "processes": [],
        **known,
    }


def discover_cards(host: Host, tools: Tools) -> dict[str, Any]:
    """``cards`` and ``card_tools``. A vendor of which neither card nor tool is there is in neither."""
    bus = host.part("cards", on_bus, [])
    asks: dict[str, Callable[..., Any]] = {
        "nvidia": partial(_nvidia, tools=tools),
        "huawei": partial(_huawei, tools=tools),
        "hygon": partial(_hygon, tools=tools),
        "amd": _amd,
    }
    cards: list[dict[str, Any]] = []
    about: dict[str, dict[str, Any]] = {}
    for vendor, ask in asks.items():
        own = [card for card in bus if card["vendor"] == vendor]
        found, facts = host.part(f"cards of {vendor}", partial(ask, cards=own), (own, {}))
        cards += numbered(found)
        if facts:
            about[vendor] = facts
    return {"cards": cards, "card_tools": about}


def numbered(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cards by index. Those that no tool numbered get the free numbers in the order of the bus."""
    taken = {card["index"] for card in cards}
    free = (number for number in range(len(cards) + len(taken)) if number not in taken)
    for card in cards:
        if card["index"] is None:
            card["index"] = next(free)
    return sorted(cards, key=lambda card: (card["index"], card["pci_address"]))


def process(host: Host, pid: int, name: str) -> dict[str, Any]:
    """A process on a card: who started it is in its control group."""
    cgroup = host.text(f"/proc/{pid}/cgroup") or ""
    name = os.path.basename(name.split(" ")[0]) if name.startswith("/") else name
    return {
        "pid": pid,
        "name": name or host.text(f"/proc/{pid}/comm") or "",
        "unit": unit_of(cgroup),
        "container": container_of(cgroup) or None,
    }


def _at(cards: list[dict[str, Any]], vendor: str, address: str) -> dict[str, Any]:
    """The card at an address, added if the bus does not show it."""
    for card in cards:
        if address and card["pci_address"] == address:
            return card
    cards.append(new_card(vendor, pci_address=address))
    return cards[-1]


def _no_tool(tools: Tools, tool: str, cards: list[dict[str, Any]]) -> None:
    if cards:
        tools.note(tool, f"not there, so little is known of {len(cards)} cards")


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


def _nvidia(host: Host, cards: list[dict[str, Any]], tools: Tools) -> tuple[list[Any], dict[str, Any]]:
    tool = tools.find("nvidia-smi", "/usr/local/nvidia/bin", "/opt/bin")
    if not cards and not tool:
        return [], {}
    module = host.text("/sys/module/nvidia/version")
    switches = sum(kind == NVSWITCH_CLASS for _, vendor, kind in _vendor_devices(host) if vendor == "nvidia")
    facts: dict[str, Any] = {
        "driver": module,
        "cuda": None,
        "nvswitches": switches,
        "fabric_manager": {"version": None, "state": None, "fabric": None},
        "library_version": _nvidia_library(host),
    }
    for card in cards:
        card["driver"] = module
    holders = sorted({card["kernel_driver"] or "no driver" for card in cards})
    if tool is None:
        _no_tool(tools, "nvidia-smi", cards)
    elif holders and "nvidia" not in holders:
        # It would load the kernel's module, and discovery changes nothing.
        tools.note("nvidia-smi", f"not run: the cards are held by {', '.join(holders)}")
    else:
        _ask_nvidia(host, tools, tool, cards, facts)
    _fabric_manager(host, tools, switches, facts["fabric_manager"])
    return cards, facts


def _ask_nvidia(host: Host, tools: Tools, tool: str, cards: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    fields = NVIDIA_FIELDS + NVIDIA_NEWER_FIELDS
    while True:
        answer = tools.ask(tool, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits", quiet=True)
        unknown = v.nvidia_unknown_field(answer.text)
        if unknown not in fields:
            break
        fields = [field for field in fields if field != unknown]
    rows, others = v.nvidia_rows(answer.text, fields)
    lost = v.nvidia_lost(answer.text)
    if not answer.fault and (answer.code or others):
        code = f"exit {answer.code}: " if answer.code else ""
        tools.note("nvidia-smi", code + first_lines("\n".join(others) or answer.text), "--query-gpu")
    for row in rows:
        card = _at(cards, "nvidia", v.pci_address(row["pci.bus_id"]))
        card.update(
            index=int(row["index"]),
            pci_id=card["pci_id"] or _nvidia_pci_id(row["pci.device_id"]),
            pci_subsystem=card["pci_subsystem"] or _nvidia_pci_id(row["pci.sub_device_id"]),
            chip="" if row["name"] in v.NO_VALUE else row["name"],
            memory_bytes=v.mib(row["memory.total"]),
            memory_used_bytes=v.mib(row["memory.used"]),
            driver=_value(row, "driver_version") or card["driver"],
            firmware=_value(row, "vbios_version"),
            compute_capability=_value(row, "compute_cap"),
            health=v.nvidia_health(row),
        )
    for address, words in lost.items():
        _at(cards, "nvidia", address)["health"] = words
    if answer.good and not others:
        for card in cards:
            if card["index"] is None and card["health"] is None:
                card["health"] = "nvidia-smi does not list it"
    facts["fabric_manager"]["fabric"] = _worst_fabric([row.get("fabric.state", "") for row in rows])
    if rows:
        answer = tools.ask(
            tool, "--query-compute-apps=" + ",".join(NVIDIA_PROCESS_FIELDS), "--format=csv,noheader,nounits"
        )
        for row in v.nvidia_rows(answer.text, NVIDIA_PROCESS_FIELDS)[0]:
            on = _at(cards, "nvidia", v.pci_address(row["gpu_bus_id"]))
            on["processes"].append(process(host, int(row["pid"]), row["process_name"]))
        answer = tools.ask(tool)
    versions = v.nvidia_versions(answer.text)
    facts["cuda"] = versions.get("cuda")
    facts["driver"] = facts["driver"] or versions.get("driver")
    facts["library_version"] = facts["library_version"] or versions.get("library")


def _value(row: dict[str, str], field: str) -> str | None:
    value = row.get(field, "")
    return None if value in v.NO_VALUE or value.startswith("[") else value


def _nvidia_pci_id(text: str) -> str:
    """``0x233510DE`` is 10de:2335."""
    match = re.fullmatch(r"0x([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", text)
    return f"{match.group(2)}:{match.group(1)}".lower() if match else ""


def _nvidia_library(host: Host) -> str | None:
    """The version of the installed libnvidia-ml: it is in the name of the file that the link leads to."""
    for folder in NVIDIA_LIBRARIES:
        path = host.path(folder + "/libnvidia-ml.so.1")
        if os.path.exists(path):
            match = re.search(r"\.so\.([0-9]+\.[0-9.]+)$", os.path.realpath(path))
            if match:
                return match.group(1)
    return None


def _worst_fabric(states: list[str]) -> str | None:
    """The state of the cards' links into the fabric: the first that is not complete, None without a fabric."""
    known = [state for state in states if state not in v.NO_VALUE]
    return next((state for state in known if state != "Completed"), known[0] if known else None)


def _fabric_manager(host: Host, tools: Tools, switches: int, facts: dict[str, Any]) -> None:
    tool = tools.find("nv-fabricmanager")
    if tool:
        match = re.search(r"version is\s*:\s*([0-9.]+)", tools.ask(tool, "--version").text)
        facts["version"] = match.group(1) if match else None
    systemctl = tools.find("systemctl")
    if (tool or switches) and systemctl and host.exists("/run/systemd/system"):
        answer = tools.ask(systemctl, "is-active", "nvidia-fabricmanager.service", quiet=True)
        facts["state"] = answer.text.strip() or None


# --- Huawei Ascend ----------------------------------------------------------------------------------------------------


def _huawei(host: Host, cards: list[dict[str, Any]], tools: Tools) -> tuple[list[Any], dict[str, Any]]:
    install = v.assignments(host.text("/etc/ascend_install.info"))
    base = install.get("driver_install_path_param") or ASCEND
    driver = v.assignments(host.text(base + "/driver/version.info"))
    tool = tools.find("npu-smi", base + "/driver/tools")
    if not cards and not tool and not driver:
        return [], {}
    hdk = driver.get("package_version") or driver.get("version")
    firmware = v.assignments(host.text(base + "/firmware/version.info")).get("version")
    for card in cards:
        card.update(driver=hdk, firmware=firmware)
    facts: dict[str, Any] = {"hdk": hdk, "firmware": firmware, "npu_smi": None}
    if tool is None:
        _no_tool(tools, "npu-smi", cards)
        return cards, facts
    answer = tools.ask(tool, "info")
    table = v.npu_table(answer.text)
    facts["npu_smi"] = table.version or None
    if answer.good and not table.whole:
        tools.note("npu-smi", f"output ends early or is none of a known form: {first_lines(answer.text)}", "info")
    boards = _boards(tools, tool, [device["card"] for device in table.devices])
    found = []
    for device in table.devices:
        board = boards.get(device["card"], {})
        # The chips of a 310P card share one address, so a device on the bus may be several.
        bus = next((c for c in cards if c["pci_address"] == device["address"]), new_card("huawei"))
        found.append(
            {
                **bus,
                "pci_address": device["address"],
                "pci_id": bus["pci_id"] or _board_id(board, "pci vendor id", "pci device id"),
                "pci_subsystem": bus["pci_subsystem"] or _board_id(board, "subsystem vendor id", "subsystem device id"),
                "index": device["index"],
                "chip": device["name"],
                "memory_bytes": device["memory_bytes"],
                "memory_used_bytes": device["used_bytes"],
                "driver": board.get("software version") or hdk,
                "firmware": board.get("firmware version") or firmware,
                "health": device["health"],
                "processes": [process(host, one["pid"], one["name"]) for one in device["processes"]],
            }
        )
    listed = {card["pci_address"] for card in found}
    for card in cards:
        if card["pci_address"] not in listed:
            found.append({**card, "health": "npu-smi does not list it" if answer.good and table.whole else None})
    return found, facts


def _boards(tools: Tools, tool: str, numbers: list[int]) -> dict[int, dict[str, str]]:
    """What the tool says of each card's board; nothing more is asked once it fails."""
    found: dict[int, dict[str, str]] = {}
    for number in numbers:
        if number not in found:
            answer = tools.ask(tool, "info", "-t", "board", "-i", str(number))
            if not answer.good:
                break
            found[number] = v.npu_board(answer.text)
    return found


def _board_id(board: dict[str, str], first: str, second: str) -> str:
    return ":".join(board.get(name, "").lower().replace("0x", "") for name in (first, second)).strip(":")


# --- Hygon and AMD ----------------------------------------------------------------------------------------------------


def _hygon(host: Host, cards: list[dict[str, Any]], tools: Tools) -> tuple[list[Any], dict[str, Any]]:
    tool = tools.find("hy-smi", *(folder + "/bin" for folder in HYHAL), "/opt/dtk/bin")
    hyhal = any(host.exists(folder) for folder in HYHAL)
    if not cards and not tool and not hyhal:
        return [], {}
    driver = host.text("/sys/module/hydcu/version")
    if tool is None:
        _no_tool(tools, "hy-smi", cards)
    else:
        driver = _ask_hygon(host, tools, tool, cards) or driver
    _set_gfx(host, cards)
    for card in cards:
        card["driver"] = driver
    return cards, {"driver": driver, "dtk": dtk(host), "hyhal": hyhal}


def _ask_hygon(host: Host, tools: Tools, tool: str, cards: list[dict[str, Any]]) -> str:
    answer = tools.ask(tool, "--showproductname", "--showbus", "--showmeminfo", "vram", "--json")
    try:
        fields = v.hygon_cards(answer.text) if answer.text else {}
    except ValueError:
        if answer.good:
            tools.note("hy-smi", f"no whole JSON object: {first_lines(answer.text)}", "--json")
        fields = {}
    # Some versions do not tell the address of a card; they list cards in the order of the bus.
    in_order = [card["pci_address"] for card in cards] if len(cards) == len(fields) else []
    for number, (index, values) in enumerate(sorted(fields.items())):
        address = v.hygon_bus(values.get("PCI Bus", "")) or (in_order[number] if in_order else "")
        card = _at(cards, "hygon", address)
        card.update(
            index=index,
            chip=values.get("Card Series") or values.get("Card series") or "",
            memory_bytes=v.mib(values.get("vram Total Memory (MiB)")) or card["memory_bytes"],
            memory_used_bytes=v.mib(values.get("vram Total Used Memory (MiB)")),
        )
    if fields:
        for one in v.hygon_processes(tools.ask(tool, "--showpids").text):
            for card in cards:
                if card["pci_address"] in one["addresses"] or (
                    not one["addresses"] and card["index"] in one["indexes"]
                ):
                    card["processes"].append(process(host, one["pid"], ""))
    return v.hygon_driver(tools.ask(tool, "--showdriverversion").text)


def _amd(host: Host, cards: list[dict[str, Any]]) -> tuple[list[Any], dict[str, Any]]:
    _set_gfx(host, cards)
    for card in cards:
        card["driver"] = host.text("/sys/module/amdgpu/version")
    return cards, {}


def _set_gfx(host: Host, cards: list[dict[str, Any]]) -> None:
    """The compiler's name of the chip, from the kernel's compute driver."""
    base = "/sys/class/kfd/kfd/topology/nodes/"
    for name in host.names(base) if cards else []:
        lines = (line.split() for line in (host.text(f"{base}{name}/properties") or "").splitlines())
        values = {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}
        place = values.get("location_id", 0)
        address = f"{values.get('domain', 0):04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}"
        for card in cards:
            if card["pci_address"] == address:
                card["gfx"] = v.gfx_name(values.get("gfx_target_version", 0)) or None


def dtk(host: Host) -> str | None:
    """The version of Hygon's toolkit: its own file says it, or the folder's name."""
    for base in ("/opt/dtk", *sorted((f"/opt/{n}" for n in host.names("/opt") if n.startswith("dtk-")), reverse=True)):
        for name in ("/.info/version", "/.info/version-dev"):
            match = re.match(r"[0-9]+(\.[0-9]+)+", host.text(base + name) or "")
            if match:
                return match.group()
        match = re.search(r"dtk-([0-9][0-9.]*)$", os.path.realpath(host.path(base)))
        if match and host.exists(base):
            return match.group(1)
    return None
