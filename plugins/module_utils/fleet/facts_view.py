"""What discovery found on the hosts: one table for people, and the same for tools.

Takes the facts of this run as ``fleet_discover`` returned them, None for hosts that did not answer; pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .views import _aligned as aligned

HEADINGS = (
    "host",
    "system",
    "arch",
    "CPUs",
    "memory",
    "cards",
    "driver / HDK",
    "CANN / DTK",
    "network cards",
    "findings",
)
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
NO_ANSWER = "did not answer"
NO_PYTHON = "no Python 3.9 or newer: this is what a shell can tell"


def table(hosts: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Lines of text: a row a host, and beneath it what each host has to say."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    beneath: list[str] = []
    for host, facts in sorted(hosts.items()):
        rows.append((host, NO_ANSWER, *[""] * (len(HEADINGS) - 2)) if facts is None else (host, *_cells(facts)))
        beneath += [f"{host}: {text}" for text in findings(facts)]
    return [*aligned(rows), "", *(beneath or ["nothing to note"])]


def report(hosts: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    """The same for tools: everything that was found, and the hosts that did not answer."""
    return {
        "hosts": {host: dict(facts) for host, facts in hosts.items() if facts is not None},
        "did_not_answer": sorted(host for host, facts in hosts.items() if facts is None),
    }


def findings(facts: Mapping[str, Any] | None) -> list[str]:
    """What discovery noted, and what of a card is worth knowing at once."""
    if facts is None:
        return [NO_ANSWER]
    noted = [] if facts.get("usable_python", True) else [NO_PYTHON]
    noted += [str(text) for text in facts.get("findings") or ()]
    for card in facts.get("cards") or ():
        if card.get("health") not in ("ok", None):
            noted.append(f"card {card['index']} ({_name(card)}, {card['pci_address']}): {card['health']}")
    return noted


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    os_, cpu = facts.get("os") or {}, facts.get("cpu") or {}
    nodes, noted = len(facts.get("numa") or ()), findings(facts)
    return (
        str(os_.get("pretty_name") or os_.get("name") or ""),
        str(facts.get("arch") or ""),
        f"{cpu.get('count') or '?'}" + (f" on {nodes} nodes" if nodes > 1 else ""),
        size((facts.get("memory") or {}).get("total_bytes")),
        _cards(facts.get("cards") or ()),
        _drivers(facts.get("card_tools") or {}),
        ", ".join(_toolkits(facts)),
        _network(facts.get("interfaces") or ()),
        str(len(noted)) if noted else "",
    )


def _cards(cards: Iterable[Mapping[str, Any]]) -> str:
    """``8 x 910B3 64 GiB, 2 in use``: cards that are alike are counted."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for card in cards:
        kinds.setdefault(f"{_name(card)} {size(card.get('memory_bytes'))}".strip(), []).append(card)
    texts = []
    for kind, alike in kinds.items():
        used = sum(bool(card.get("processes")) for card in alike)
        bad = sum(card.get("health") not in ("ok", None) for card in alike)
        notes = [f"{number} {word}" for number, word in ((used, "in use"), (bad, "not healthy")) if number]
        texts.append(", ".join([f"{len(alike)} x {kind}", *notes]))
    return "; ".join(texts)


def _name(card: Mapping[str, Any]) -> str:
    """The tool's name of the chip; without one the vendor and what the bus calls the card."""
    return str(card.get("chip") or f"{card.get('vendor')} {card.get('pci_id')}")


def _drivers(tools: Mapping[str, Mapping[str, Any]]) -> str:
    texts = []
    for vendor, facts in tools.items():
        version = facts.get("hdk") if vendor == "huawei" else facts.get("driver")
        texts.append(f"{vendor} {version or 'not installed'}")
    return ", ".join(texts)


def _toolkits(facts: Mapping[str, Any]) -> list[str]:
    kits = [str(kit["version"]) for kit in facts.get("cann") or () if kit.get("kind") == "toolkit"]
    return kits + ([f"DTK {facts['dtk']}"] if facts.get("dtk") else [])


def _network(interfaces: Iterable[Mapping[str, Any]]) -> str:
    """Network cards that are hardware, counted by speed and driver."""
    kinds: dict[str, int] = {}
    for interface in interfaces:
        if interface.get("pci_address"):
            speed = interface.get("speed_mbps")
            rate = f"{speed / 1000:g} Gb/s " if speed else ""
            kind = f"{rate}{interface.get('driver') or 'no driver'}{' RDMA' if interface.get('rdma_device') else ''}"
            kinds[kind] = kinds.get(kind, 0) + 1
    return ", ".join(f"{number} x {kind}" for kind, number in kinds.items())


def size(number: int | None) -> str:
    """Bytes for people: ``64 GiB``, ``1.5 TiB``; ``""`` where it is not known."""
    if not number:
        return ""
    power = min((number.bit_length() - 1) // 10, 4)
    value = number / (1 << 10 * power)
    return f"{value:.0f} {UNITS[power]}" if value >= 10 or not power else f"{value:.1f} {UNITS[power]}"
