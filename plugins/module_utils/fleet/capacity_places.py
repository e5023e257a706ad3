"""The memory that engines get on a host, and what the engines of a CPU host take together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from .capacity import GIB, Chip, chip_of
from .capacity_options import Options, options_of
from .capacity_words import both, gib
from .facts import HostFacts
from .placement import Pinned, Placed
from .problems import Problem, path_of, problem
from .rule_table.phrases import phrase
from .version_plan import Chosen

MIB = 1 << 20
#: Sizes of memory are rounded down to these before anything is computed: the same machine reports a few MiB more or
#: less after an update of its kernel or driver, and two machines of one kind are never quite alike.
COARSE, FINE, LARGE = 64 * MIB, 16 * MIB, 16 * GIB
#: What a driver keeps of the memory that its tool prints, before any engine starts. NVIDIA: nvidia-smi against CUDA on
#: A100 (80.0, 79.2), H100 (79.65, 79.18), H200 (140.4, 139.8), L4 (22.49, 22.03) and RTX 3090 (24.0, 23.56): 0.44 to
#: 0.8 GiB. Ascend 910B: npu-smi 64, torch_npu 60.96. The 310P, AMD and slices of cards print what there is.
NVIDIA_KEEPS = 0.45
ASCEND_KEEPS = 0.0475
#: Backends as the library names chips.
CHIP_BACKENDS = {"cuda": "cuda", "ascend": "ascend", "dcu": "rocm", "rocm": "rocm", "cpu": "cpu"}
#: What an engine's processes take besides weights and KV at least, on a CPU.
PROCESS_BYTES = GIB


@dataclass(frozen=True)
class Place:
    """The memory that an engine of one kind gets. ``name`` is what people call it, ``node`` its NUMA node on a CPU."""

    chip: Chip
    name: str
    version: str
    backend: str
    cards: int
    node: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Claim:
    """Bytes of a CPU host that an engine takes: its weights, and all that it asks for.

    ``share`` is what vLLM demands of the node before it starts, None where KV is given in bytes.
    """

    weights: int
    most: int
    share: int | None


def kind_of_host(engines: list[Placed], chosen: Chosen, facts: HostFacts) -> tuple[object, ...]:
    """What the answer for a host depends on."""
    which = tuple((e.prefix, e.rank) for e in engines)
    row = chosen.set
    if row.backend != "cpu":
        return (which, row.backend, row.vllm, tuple((c.chip, c.memory_bytes, c.numa_node) for c in facts.cards))
    memory = tuple(sorted((node, _rounded(size)) for node, size in facts.numa_memory.items()))
    nodes = tuple(sorted((node, cpus) for node, cpus in facts.numa.items()))
    whole = _rounded(facts.memory_bytes) if facts.memory_bytes else None
    return (which, row.backend, row.vllm, facts.arch, facts.cpu_count, nodes, memory, whole)


def _rounded(size: int) -> int:
    return size - size % (COARSE if size >= LARGE else FINE)


def place_of(engine: Placed, pinned: Pinned, chosen: Chosen, facts: HostFacts) -> Place | None:
    """The memory that an engine gets; None where nobody knows it."""
    version, backend = chosen.set.vllm, chosen.set.backend
    if backend == "cpu":
        return _on_cpu(engine, pinned, version, facts)
    sizes = [card.memory_bytes for card in facts.cards if card.memory_bytes]
    if not sizes:
        return None
    name, visible = facts.cards[0].chip, _visible(facts.cards[0].vendor, facts.cards[0].chip, min(sizes))
    chip = replace(chip_of(name, _rounded(visible)), backend=CHIP_BACKENDS[backend])
    return Place(chip, name or facts.cards[0].vendor, version, backend, len(facts.cards))


def _visible(vendor: str, chip: str, size: int) -> int:
    """What an engine sees of a card, from what its vendor's tool prints."""
    name = chip.lower()
    if vendor == "nvidia" and not any(word in name for word in ("mig", "grid", "vgpu")):
        return max(size - int(NVIDIA_KEEPS * GIB), size // 2)
    if vendor == "huawei" and "310" not in name and "vnpu" not in name:
        return size - int(ASCEND_KEEPS * size)
    return size


def _on_cpu(engine: Placed, pinned: Pinned, version: str, facts: HostFacts) -> Place | None:
    """A CPU worker binds its memory to the NUMA node of its first CPU (vLLM 0.32.0, ``v1/worker/cpu_worker.py``)."""
    deployment = engine.deployment
    if facts.memory_bytes is None or deployment.cards_per_engine != 1:
        return None
    node: int | None = None
    size = facts.memory_bytes
    if len(facts.numa) > 1:
        first = (
            int(pinned.cpus.split(",")[0].split("-")[0])
            if pinned.cpus
            else min(min(c) for c in facts.numa.values() if c)
        )
        node = next((n for n, cpus in sorted(facts.numa.items()) if first in cpus), None)
        size = facts.numa_memory.get(node, size // len(facts.numa)) if node is not None else size
    size = _rounded(size)
    if size <= 0:
        return None
    limit = deployment.memory_max_bytes
    given = options_of(engine).kv_bytes("cpu") is not None
    # vLLM sizes its KV cache by the node: it does not know of a unit's limit.
    chip = Chip(min(size, limit) if limit and given else size, f"CPU {facts.arch}", "cpu")
    return Place(chip, chip.name, version, "cpu", 1, node, limit)


def claim_of(options: Options, place: Place, weights: int) -> Claim:
    """What an engine takes of a CPU host's memory."""
    kv = options.kv_bytes("cpu")
    if kv is not None:
        return Claim(weights, weights + PROCESS_BYTES + kv[1], None)
    share = int(options.used_share(place.version) * place.chip.memory_bytes)
    return Claim(weights, max(share, weights + PROCESS_BYTES), share)


def together(engines: list[Placed], places: list[Place | None], claims: list[Claim]) -> Iterator[Problem]:
    """What the engines of a CPU host take together, by NUMA node, and of their units' own limits."""
    nodes: dict[int | None, list[int]] = {}
    for index, place in enumerate(places):
        if place is not None:
            nodes.setdefault(place.node, []).append(index)
            taken = claims[index].most
            if place.limit is not None and claims[index].share is not None and taken > place.limit:
                words = both("place", phrase("cap-memory-of-unit", engine=engines[index].name))
                path = path_of((*engines[index].prefix, "memory_max_bytes"))
                yield _crowded("CAP-013", path, engines[index].host, taken, place.limit, words)
    for node, members in sorted(nodes.items(), key=lambda item: (item[0] is not None, item[0] or 0)):
        if len(members) < 2:
            continue
        first = places[members[0]]
        assert first is not None
        size = max(place.chip.memory_bytes for i in members if (place := places[i]) is not None)
        asked = {i: min(claims[i].most, (p.limit if (p := places[i]) else None) or claims[i].most) for i in members}
        # What is given in bytes is meant; a share vLLM refuses where the weights of others leave less than it.
        given = sum(asked[i] if claims[i].share is None else claims[i].weights for i in members)
        weights = sum(claims[i].weights for i in members)
        shares = [share + weights - claims[i].weights for i in members if (share := claims[i].share) is not None]
        certain, most = max([given, *shares]), sum(asked.values())
        engine = engines[members[-1]]
        words = both("place", phrase("cap-memory-of-host" if node is None else "cap-memory-of-node", node=node))
        path = path_of((*engine.prefix, "replicas_per_host" if _repeated(engines, members) else "engine"))
        if certain > size:
            yield _crowded("CAP-012", path, engine.host, certain, size, words)
        elif most > size:
            yield _crowded("CAP-013", path, engine.host, most, size, words)


def _repeated(engines: list[Placed], members: Iterable[int]) -> bool:
    return len({engines[i].prefix for i in members}) == 1


def _crowded(code: str, path: str, host: str, wanted: int, memory: int, words: dict[str, str]) -> Problem:
    return problem(code, path, None, host=host, wanted=gib(wanted), memory=gib(memory), **words)
