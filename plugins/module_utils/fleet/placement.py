"""Which engines run where: on which port, which cards, which CPUs and NUMA nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .contract import Deployment, Parsed, Service
from .contract.shapes import Artifact
from .facts import HostFacts


@dataclass(frozen=True)
class Placed:
    """One engine on one host, or its part there. ``deployment_index`` is its place in the inventory, for messages.

    ``replica`` are the hosts of the engine in order of rank; the first answers requests. ``index`` counts engines of
    its service on the host, ``slot`` all engines there.
    """

    host: str
    service_name: str
    service: Service
    deployment: Deployment
    deployment_index: int
    index: int
    replica: tuple[str, ...]
    slot: int

    @property
    def name(self) -> str:
        """Name of the engine on its host."""
        return f"{self.service_name}-{self.index}"

    @property
    def port(self) -> int:
        """Port of the engine: the service's first one and its index."""
        return self.service.port + self.index

    @property
    def model(self) -> str:
        """The model it serves: the deployment's own, or the service's."""
        return self.deployment.model or self.service.model

    @property
    def version(self) -> str:
        """Version of that model."""
        return self.deployment.version or self.service.version

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus answer, tokens."""
        return self.deployment.max_model_len or self.service.max_model_len

    @property
    def client_names(self) -> list[str]:
        """The names that it is asked for: the service's, and its own model's where that is another one."""
        first = self.service.served_model_name or self.service.model
        return [first] if self.model == self.service.model else [first, self.model]

    @property
    def rank(self) -> int:
        """Place of this host in the replica; 0 answers requests."""
        return self.replica.index(self.host)

    @property
    def cards_here(self) -> int:
        """Accelerators of it on this host."""
        return -(-self.deployment.cards_per_engine // len(self.replica))

    @property
    def prefix(self) -> tuple[str | int, ...]:
        """Where the deployment stands in the inventory."""
        return ("fleet_services", self.service_name, "deployments", self.deployment_index)


def replicas(deployment: Deployment, groups: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The hosts of each replica: the group's in order of their names, so many at a time; what is left over has none.

    A host whose name comes after all others never changes what is already there.
    """
    members, size = sorted(groups.get(deployment.group, ())), deployment.hosts_per_replica
    whole = len(members) - len(members) % size
    return [tuple(members[i : i + size]) for i in range(0, whole, size)]


def place(parsed: Parsed, groups: Mapping[str, tuple[str, ...]]) -> dict[str, list[Placed]]:
    """Engines by host. With engines on one host each, what runs on a host depends on that host's groups only."""
    placed: dict[str, list[Placed]] = {}
    for service_name in sorted(parsed.services):
        service = parsed.services[service_name]
        next_index: dict[str, int] = {}
        for position, deployment in enumerate(service.deployments):
            for replica in replicas(deployment, groups):
                for _ in range(deployment.replicas_per_host):
                    for host in replica:
                        index = next_index.get(host, 0)
                        next_index[host] = index + 1
                        there = placed.setdefault(host, [])
                        there.append(
                            Placed(host, service_name, service, deployment, position, index, replica, len(there))
                        )
    return placed


def cpu_list(cpus: list[int]) -> str:
    """CPUs the way the kernel writes lists: ``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


@dataclass(frozen=True)
class Pinned:
    """CPUs of one engine, the NUMA nodes that they are of (None on a machine with one node), and its cards' indexes."""

    cpus: str | None
    numa_nodes: str | None
    threads: int
    cards: tuple[int, ...] = ()


def pin(engines: list[Placed], facts: HostFacts, backend: str) -> list[Pinned]:
    """Divide a host's cards and CPUs among its engines, in order, each within one NUMA node where it fits.

    Engines without ``cpus_per_engine`` and without cards are not pinned and get an equal share of the host as their
    number of threads. An engine on NVIDIA cards of one node is bound to that node by its unit; Ascend binds its workers
    by itself (vllm-ascend from 0.18), and two mechanisms at once starve each other.
    """
    nodes = {node: list(cpus) for node, cpus in sorted(facts.numa.items()) if cpus} or {0: list(range(facts.cpu_count))}
    free = {node: list(cpus) for node, cpus in nodes.items()}
    share = max(1, facts.cpu_count // max(1, len(engines)))
    given = _cards(engines, facts) if backend != "cpu" else [()] * len(engines)
    result = []
    for engine, cards in zip(engines, given, strict=True):
        wanted = engine.deployment.cpus_per_engine
        homes = sorted({c.numa_node for c in facts.cards if c.index in cards and c.numa_node is not None})
        if wanted is None:
            bound = cpu_list(homes) if backend == "cuda" and len(homes) == 1 and len(nodes) > 1 else None
            cpus = cpu_list(nodes[homes[0]]) if bound and homes[0] in nodes else None
            result.append(Pinned(cpus, bound if cpus else None, share, cards))
            continue
        home = next((n for n in [*homes, *free] if len(free.get(n, ())) >= wanted), None)
        taken: list[int] = []
        used: list[int] = []
        for node in [home] if home is not None else list(free):
            part = free[node][: wanted - len(taken)]
            if part:
                taken += part
                used.append(node)
                free[node] = free[node][len(part) :]
        numa = cpu_list(used) if len(nodes) > 1 and used else None
        result.append(Pinned(cpu_list(taken) or None, numa, wanted, cards))
    return result


def _cards(engines: list[Placed], facts: HostFacts) -> list[tuple[int, ...]]:
    """Cards for each engine: all of one NUMA node where one has enough left, otherwise the first that are free."""
    free = {card.index: card.numa_node for card in sorted(facts.cards, key=lambda c: c.index)}
    result = []
    for engine in engines:
        wanted = engine.cards_here
        homes = sorted({node for node in free.values() if node is not None})
        home = next((n for n in homes if sum(node == n for node in free.values()) >= wanted), None)
        chosen = [i for i, node in free.items() if home is None or node == home][:wanted]
        for index in chosen:
            del free[index]
        result.append(tuple(chosen))
    return result


def artifact_of(engine: Placed, parsed: Parsed, backend: str) -> tuple[str, Artifact]:
    """The artifact that an engine loads: the backend's own, or the default one, with its name."""
    artifacts = parsed.models[engine.model].versions[engine.version].artifacts
    name = backend if backend in artifacts else "default"
    return name, artifacts.get(name) or artifacts[sorted(artifacts)[0]]
