"""Which engines run where, on which port and which CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .contract import Deployment, Parsed, Service
from .facts import HostFacts


@dataclass(frozen=True)
class Placed:
    """One engine on one host. ``deployment_index`` is its place in the inventory, for messages."""

    host: str
    service_name: str
    service: Service
    deployment: Deployment
    deployment_index: int
    index: int

    @property
    def name(self) -> str:
        """Name of the engine on its host."""
        return f"{self.service_name}-{self.index}"

    @property
    def port(self) -> int:
        """Port of the engine: the service's first one and its index."""
        return self.service.port + self.index

    @property
    def prefix(self) -> tuple[str | int, ...]:
        """Where the deployment stands in the inventory."""
        return ("fleet_services", self.service_name, "deployments", self.deployment_index)


def place(parsed: Parsed, groups: Mapping[str, tuple[str, ...]]) -> dict[str, list[Placed]]:
    """Engines by host. What runs on a host depends on that host's groups only, never on other hosts."""
    placed: dict[str, list[Placed]] = {}
    for service_name in sorted(parsed.services):
        service = parsed.services[service_name]
        next_index: dict[str, int] = {}
        for position, deployment in enumerate(service.deployments):
            for host in sorted(groups.get(deployment.group, ())):
                for _ in range(deployment.replicas_per_host):
                    index = next_index.get(host, 0)
                    next_index[host] = index + 1
                    placed.setdefault(host, []).append(Placed(host, service_name, service, deployment, position, index))
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
    """CPUs of one engine, and the NUMA nodes that they are of (None on a machine with one node)."""

    cpus: str | None
    numa_nodes: str | None
    threads: int


def pin(engines: list[Placed], facts: HostFacts) -> list[Pinned]:
    """Divide a host's CPUs among its engines, in order, each within one NUMA node where it fits.

    Engines without ``cpus_per_engine`` are not pinned and get an equal share of the host as their number of threads.
    """
    nodes = {node: list(cpus) for node, cpus in sorted(facts.numa.items()) if cpus} or {0: list(range(facts.cpu_count))}
    free = {node: list(cpus) for node, cpus in nodes.items()}
    share = max(1, facts.cpu_count // max(1, len(engines)))
    result = []
    for engine in engines:
        wanted = engine.deployment.cpus_per_engine
        if wanted is None:
            result.append(Pinned(None, None, share))
            continue
        home = next((node for node, cpus in free.items() if len(cpus) >= wanted), None)
        taken: list[int] = []
        used: list[int] = []
        for node in [home] if home is not None else list(free):
            part = free[node][: wanted - len(taken)]
            if part:
                taken += part
                used.append(node)
                free[node] = free[node][len(part) :]
        result.append(Pinned(cpu_list(taken) or None, cpu_list(used) if len(nodes) > 1 and used else None, wanted))
    return result
