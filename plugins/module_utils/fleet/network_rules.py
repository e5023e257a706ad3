"""Rules over the network between hosts, from the interface that has each host's address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .facts import HostFacts, Nic
from .placement import Placed
from .problems import Problem, path_of, problem


def check_network(
    facts: Mapping[str, HostFacts], addresses: Mapping[str, str], placed: Mapping[str, list[Placed]]
) -> list[Problem]:
    """Interfaces of the service network that are not alike. Hosts of which nothing is known are left out."""
    nics = {host: nic for host, known in facts.items() if (nic := _nic(known, addresses.get(host))) is not None}
    found = []
    sizes = _by_value({host: nic.mtu for host, nic in nics.items()})
    if len(sizes) > 1:
        text = _told(sizes)
        found.append(
            problem("NET-001", path_of(("hosts", min(min(hosts) for hosts in sizes.values()))), text, mtus=text)
        )
    for replica in sorted({e.replica for engines in placed.values() for e in engines if len(e.replica) > 1}):
        speeds = _by_value({host: nics[host].speed_mbps for host in replica if host in nics})
        if len(speeds) > 1:
            text = _told(speeds)
            found.append(
                problem("NET-002", path_of(("hosts", replica[0])), text, speeds=text, hosts=", ".join(replica))
            )
    return found


def _nic(facts: HostFacts, address: str | None) -> Nic | None:
    name = facts.interface_with(address) if address else None
    return facts.nics.get(name) if name else None


def _by_value(values: Mapping[str, int | None]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for host, value in sorted(values.items()):
        if value is not None:
            found.setdefault(value, []).append(host)
    return found


def _told(values: Mapping[int, Iterable[str]]) -> str:
    """``1500 (2 hosts: a, b), 9000 (1 host: c)``; of many hosts the first three."""
    parts = []
    for value, hosts in sorted(values.items()):
        names = sorted(hosts)
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        parts.append(f"{value} ({len(names)}: {shown})")
    return ", ".join(parts)
