"""The gateways' part of the plan: what HAProxy and keepalived on each gateway host need."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from .contract import Gateway as GatewayContract
from .contract import Parsed
from .facts import HostFacts
from .placement import Placed
from .plan import Gateway, GatewayService, Server, Vip, VipInstance
from .problems import Problem, path_of, problem
from .rules import vip_of


def services(parsed: Parsed, placed: Mapping[str, list[Placed]], addresses: Mapping[str, str]) -> list[GatewayService]:
    """Every service with all its engines: the same list on each gateway."""
    result = []
    for name in sorted(parsed.services):
        service = parsed.services[name]
        servers = [
            Server(f"{host}-{e.name}", addresses[host], e.port, e.deployment.tier, e.deployment.weight)
            for host in sorted(placed)
            for e in placed[host]
            if e.service_name == name and e.rank == 0
        ]
        result.append(GatewayService(name, [service.served_model_name or service.model], servers))
    return result


def gateway(contract: GatewayContract, parsed: Parsed, address: str, listed: list[GatewayService]) -> Gateway:
    """HAProxy's part for one gateway host."""
    return Gateway(
        port=contract.port,
        metrics_address=address,
        metrics_port=contract.metrics_port,
        check_port=contract.check_port,
        vip_addresses=[text.split("/")[0] for text in contract.vips],
        max_request_seconds=max(s.max_request_seconds for s in parsed.services.values()),
        services=listed,
    )


def vip(
    contract: GatewayContract, host: str, members: list[str], addresses: Mapping[str, str], facts: HostFacts
) -> tuple[Vip | None, list[Problem]]:
    """keepalived's part for one gateway host.

    All virtual addresses move together, so there is one instance. The first host by name has the highest priority; that
    decides who begins, for instances do not take an address back from a host that has it.
    """
    problems = []
    interface = None
    for position, text in enumerate(contract.vips):
        address = vip_of(text)
        if address is None:
            continue
        found = facts.interface_of(address.network)
        # Where the address itself is elsewhere, that has been said.
        elsewhere = ipaddress.ip_address(addresses[host]) not in address.network
        if found is None and not elsewhere:
            path = path_of(("fleet_gateway", "vips", position))
            problems.append(problem("GW-012", path, text, host=host, found=facts.addresses_text()))
        if found is not None:
            path = path_of(("fleet_gateway", "vips", position))
            problems += _check_prefix(path, text, address, host, found, facts)
        interface = interface or found
    if interface is None:
        return None, problems
    instance = VipInstance(
        name=f"vip-{contract.virtual_router_id}",
        virtual_router_id=contract.virtual_router_id,
        priority=100 + len(members) - 1 - members.index(host),
        advert_interval_seconds=contract.advert_interval_seconds,
        addresses=list(contract.vips),
        unicast_source=addresses[host],
        unicast_peers=[addresses[m] for m in members if m != host],
        check_port=contract.check_port,
    )
    return Vip(interface, [instance]), problems


def _check_prefix(
    path: str, text: str, address: ipaddress.IPv4Interface, host: str, interface: str, facts: HostFacts
) -> list[Problem]:
    """A virtual address in a network of another size than its interface's would change the host's routes."""
    for known in facts.interfaces[interface]:
        own = ipaddress.ip_interface(known)
        if own.ip in address.network:
            if own.network == address.network:
                return []
            example = f"{address.ip}/{own.network.prefixlen}"
            return [problem("GW-015", path, text, interface=interface, host=host, address=known, example=example)]
    return []
