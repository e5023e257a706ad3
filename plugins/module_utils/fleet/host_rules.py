"""Rules over one host as it is: what the inventory says of it, its addresses and ports, and its cards."""

from __future__ import annotations

from collections.abc import Iterable

from .contract import Parsed
from .contract.host_shapes import Host
from .facts import GIB, HostFacts
from .placement import Placed
from .problems import Problem, path_of, problem

ENGINE_UNIT = "vllm-engine@"
GATEWAY_PROCESS = "haproxy"
#: Facts older than this are worth a word, seconds.
OLD_FACTS_SECONDS = 24 * 3600
#: By how much sizes that people write may differ from what a tool prints: firmware and kernel keep a part.
SIZE_TOLERANCE = 0.1
#: What the vendors' tools say of a card that works.
HEALTHY = frozenset({"ok", "normal", "healthy"})
#: Drivers with which NVIDIA's own cannot have the card.
FOREIGN_DRIVERS = frozenset({"nouveau", "nova_core", "vfio-pci"})


def check_host(host: str, facts: HostFacts, address: str | None) -> list[Problem]:
    """Age of the facts, the address, and what discovery could not make out."""
    found = []
    if facts.age_seconds > OLD_FACTS_SECONDS:
        found.append(problem("HOST-008", path_of(("hosts", host)), None, age=age_text(facts.age_seconds)))
    if address is not None and not facts.claimed and facts.interfaces and not facts.has_address(address):
        found.append(
            problem("HOST-009", path_of(("hosts", host, "ansible_host")), address, found=facts.addresses_text())
        )
    found += [problem("HOST-017", path_of(("hosts", host)), text, finding=text) for text in facts.findings]
    return found


def age_text(seconds: int) -> str:
    """An age for people: ``3 min``, ``5 h``, ``2 d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def check_claims(host: str, said: Host | None, facts: HostFacts) -> list[Problem]:
    """Facts beat claims: where the inventory disagrees with the host, both are named."""
    if said is None or facts.claimed:
        return []
    found = []
    for key, claimed, real in _pairs(said, facts):
        if claimed is None or real is None or claimed == real or _near(claimed, real) or _within(claimed, real):
            continue
        found.append(problem("HOST-011", path_of(("hosts", host, "fleet_host", *key)), claimed, host=host, found=real))
    return found


def _pairs(said: Host, facts: HostFacts) -> Iterable[tuple[tuple[str, ...], object, object]]:
    """Each claim with the fact that it is about, None where discovery could not tell."""
    if said.os is not None:
        yield ("os", "id"), said.os.id.lower(), facts.os_id.lower() or None
        yield ("os", "version"), said.os.version, facts.os_version or None
    yield ("arch",), said.arch, facts.arch or None
    yield ("glibc",), said.glibc, facts.glibc or None
    yield ("page_size",), said.page_size, facts.page_size
    yield ("cpus",), said.cpus, facts.cpu_count
    yield ("numa_nodes",), said.numa_nodes, len(facts.numa) or None
    yield ("memory_gib",), said.memory_gib, facts.memory_bytes / GIB if facts.memory_bytes else None
    yield ("hdk",), said.hdk, facts.hdk
    yield ("driver",), said.driver, facts.nvidia.driver or facts.dcu_driver
    if said.cann is not None and facts.cann:
        yield ("cann",), said.cann, said.cann if said.cann in facts.cann else ", ".join(facts.cann)
    if said.cards is not None:
        yield ("cards", "count"), said.cards.count, len(facts.cards)
        for card in facts.cards[:1]:
            yield ("cards", "vendor"), said.cards.vendor, card.vendor or None
            yield ("cards", "chip"), said.cards.chip, card.chip or None
            size = card.memory_bytes / GIB if card.memory_bytes else None
            yield ("cards", "memory_gib"), said.cards.memory_gib, size


def _near(claimed: object, real: object) -> bool:
    return (
        isinstance(claimed, float)
        and isinstance(real, int | float)
        and abs(claimed - real) <= SIZE_TOLERANCE * max(claimed, real)
    )


def _within(claimed: object, real: object) -> bool:
    """Short names of chips and versions: ``A100-SXM4-80GB`` for ``NVIDIA A100-SXM4-80GB``, ``25.5`` for ``25.5.0``."""
    return isinstance(claimed, str) and isinstance(real, str) and claimed.lower() in real.lower()


def check_cards(host: str, engines: list[Placed], facts: HostFacts, backend: str) -> list[Problem]:
    """Whether a host's cards can take its engines: enough of them, well, free, and with their own driver."""
    found: list[Problem] = []
    wanted = sum(engine.cards_here for engine in engines)
    # Two cards of one index are one to whoever counts by it: a tool that fails may say so.
    there = len({card.index for card in facts.cards})
    if wanted > there:
        widest = max(engines, key=lambda e: e.cards_here)
        path = path_of((*widest.prefix, "tensor_parallel"))
        found.append(problem("SVC-023", path, widest.deployment.tensor_parallel, host=host, wanted=wanted, cards=there))
    for card in facts.cards:
        place = path_of(("hosts", host, "cards", card.index))
        if card.health is not None and card.health.lower() not in HEALTHY:
            found.append(problem("HOST-012", place, card.health, card=card.chip or card.pci_address))
        if backend == "cuda" and card.kernel_driver in FOREIGN_DRIVERS:
            found.append(problem("HOST-013", place, card.kernel_driver, driver=card.kernel_driver))
        strangers = [holder for holder in card.holders if ENGINE_UNIT not in holder]
        if strangers:
            found.append(problem("HOST-014", place, ", ".join(strangers), holders=", ".join(strangers)))
    nvidia = facts.nvidia
    if backend == "cuda" and nvidia.driver and nvidia.library and nvidia.driver != nvidia.library:
        path = path_of(("hosts", host, "driver"))
        found.append(problem("HOST-015", path, nvidia.driver, driver=nvidia.driver, library=nvidia.library))
    if backend == "cuda" and nvidia.nvswitches and not facts.claimed:
        path = path_of(("hosts", host, "fabric_manager"))
        if nvidia.fabric_manager is None or (nvidia.driver and nvidia.fabric_manager != nvidia.driver):
            have = nvidia.fabric_manager or "none"
            found.append(problem("HOST-016", path, have, switches=nvidia.nvswitches, driver=nvidia.driver or "?"))
    return found


def check_engines(host: str, engines: list[Placed], facts: HostFacts, parsed: Parsed) -> list[Problem]:
    """Ports in use by others, and CPUs and memory that the inventory claims for engines beyond what there is."""
    found: list[Problem] = []
    for engine in engines:
        if engine.service_name in parsed.without_port:
            continue
        for listener in facts.listeners:
            if listener.port == engine.port and not listener.unit.startswith(ENGINE_UNIT):
                path = path_of(("fleet_services", engine.service_name, "port"))
                where = path_of(("hosts", host, f"port {engine.port}"))
                found.append(
                    problem(
                        "HOST-006",
                        f"{path} on {where}",
                        engine.port,
                        port=engine.port,
                        engine=engine.name,
                        holder=listener.holder,
                    )
                )
                break
    wanted_cpus = sum(e.deployment.cpus_per_engine or 0 for e in engines)
    if wanted_cpus > facts.cpu_count and not (facts.claimed and facts.cpu_count == 1):
        path = path_of((*engines[0].prefix, "cpus_per_engine"))
        found.append(problem("SVC-017", path, wanted_cpus, host=host, wanted=wanted_cpus, available=facts.cpu_count))
    wanted_memory = sum(_memory(e) for e in engines)
    if facts.memory_bytes is not None and wanted_memory > facts.memory_bytes:
        path = path_of((*engines[0].prefix, "memory_max_bytes"))
        found.append(
            problem("SVC-018", path, wanted_memory, host=host, wanted=wanted_memory, available=facts.memory_bytes)
        )
    return found


def _memory(engine: Placed) -> int:
    """Bytes that the inventory itself claims for an engine on the host."""
    return max(engine.deployment.memory_max_bytes or 0, 0)


def check_gateway_ports(host: str, parsed: Parsed, facts: HostFacts) -> list[Problem]:
    """Ports of the gateway that something else has."""
    found = []
    assert parsed.gateway is not None
    for label in ("port", "metrics_port", "check_port"):
        number = getattr(parsed.gateway, label)
        for listener in facts.listeners:
            if listener.port == number and GATEWAY_PROCESS not in (listener.process or listener.unit):
                where = path_of(("hosts", host, f"port {number}"))
                found.append(
                    problem(
                        "HOST-007",
                        f"fleet_gateway.{label} on {where}",
                        number,
                        port=number,
                        name=label,
                        holder=listener.holder,
                    )
                )
                break
    return found
