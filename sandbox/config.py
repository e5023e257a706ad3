"""What hosts.yml of an inventory says about the sandbox: every mistake in it is told at once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.report import Problem, SandboxError, fail

KINDS = ("ubuntu", "openeuler", "kylin-v10")
# The kernel allows 15 characters for an interface, and these come as arguments to ip.
_BRIDGE = re.compile(r"[a-z][a-z0-9-]{0,14}")
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Network:
    bridge: str
    subnet: ipaddress.IPv4Network

    @property
    def controller(self) -> ipaddress.IPv4Address:
        return next(self.subnet.hosts())


@dataclass(frozen=True)
class Host:
    name: str
    address: ipaddress.IPv4Address
    kind: str
    share_runtimes: bool = False


@dataclass(frozen=True)
class Fleet:
    inventory: Path
    network: Network
    hosts: tuple[Host, ...]
    groups: dict[str, frozenset[str]] = field(default_factory=dict)

    def select(self, names: Iterable[str] | None) -> tuple[Host, ...]:
        """Hosts by name or by group; an unknown name is an error, not an empty choice."""
        if names is None:
            return self.hosts
        known = {host.name for host in self.hosts}
        wanted: set[str] = set()
        problems = []
        for name in names:
            if name in known:
                wanted.add(name)
            elif name in self.groups:
                wanted |= self.groups[name]
            else:
                problems.append(
                    Problem(
                        "command line",
                        name,
                        f"is a host or a group of {self.inventory / 'hosts.yml'}",
                        f"one of: {', '.join(sorted(known | set(self.groups)))}",
                    )
                )
        if problems:
            raise SandboxError(problems)
        return tuple(host for host in self.hosts if host.name in wanted)

    def one(self, name: str) -> Host:
        for host in self.hosts:
            if host.name == name:
                return host
        raise fail(
            "command line",
            name,
            f"is a host of {self.inventory / 'hosts.yml'}",
            f"one of: {', '.join(host.name for host in self.hosts)}",
        )


def load(inventory: Path) -> Fleet:
    # Imported here, so that `clean` works with a Python that has nothing installed.
    import yaml

    class Loader(yaml.SafeLoader):
        """Ansible's own tags (vaulted or unsafe strings) are none of the sandbox's business."""

    Loader.add_multi_constructor("!", lambda _loader, _suffix, node: str(node.value))
    file = inventory / "hosts.yml" if inventory.is_dir() else inventory
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise fail(
            str(file), error.strerror, "can be read", "give -i the directory of an inventory that has a hosts.yml"
        ) from error
    except yaml.YAMLError as error:
        raise fail(str(file), " ".join(str(error).split()), "is YAML", "mend the line named") from error
    return parse(data, file.parent, file)


def parse(data: object, inventory: Path, file: Path) -> Fleet:
    problems: list[Problem] = []
    top = _mapping(data, str(file), problems).get("all")
    variables: dict[str, dict[str, Any]] = {}
    groups: dict[str, set[str]] = {}
    group_vars: dict[str, Any] = {}
    if top is None:
        problems.append(Problem(str(file), "no group all", "the top group is all", "put everything below all:"))
    else:
        group_vars = _walk("all", top, {}, variables, groups, f"{file}: all", problems)
    network = _network(group_vars.get("sandbox_network"), f"{file}: all.vars.sandbox_network", problems)
    hosts = []
    owners: dict[ipaddress.IPv4Address, str] = {}
    for name, values in variables.items():
        host = _host(name, values, network, f"{file}: {name}", problems)
        if host is None:
            continue
        if host.address in owners:
            problems.append(
                Problem(
                    f"{file}: {name}.ansible_host",
                    str(host.address),
                    f"is used once; {owners[host.address]} has it",
                    "give each host an address of its own",
                )
            )
        owners.setdefault(host.address, name)
        hosts.append(host)
    if top is not None and not variables:
        problems.append(Problem(f"{file}: all", "no hosts", "has at least one host", "add hosts"))
    if problems or network is None:
        raise SandboxError(problems)
    return Fleet(inventory, network, tuple(hosts), {name: frozenset(members) for name, members in groups.items()})


def _mapping(value: object, where: str, problems: list[Problem]) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    problems.append(Problem(where, repr(value), "is a mapping", "see the inventory of the sandbox fleet"))
    return {}


def _walk(
    group: str,
    value: object,
    inherited: dict[str, Any],
    variables: dict[str, dict[str, Any]],
    groups: dict[str, set[str]],
    where: str,
    problems: list[Problem],
) -> dict[str, Any]:
    body = _mapping(value, where, problems)
    own = _mapping(body.get("vars"), f"{where}.vars", problems)
    values = {**inherited, **own}
    members = groups.setdefault(group, set())
    for name, host_value in _mapping(body.get("hosts"), f"{where}.hosts", problems).items():
        members.add(name)
        variables.setdefault(name, {}).update({**values, **_mapping(host_value, f"{where}.hosts.{name}", problems)})
    for child, child_value in _mapping(body.get("children"), f"{where}.children", problems).items():
        _walk(child, child_value, values, variables, groups, f"{where}.children.{child}", problems)
        members |= groups[child]
    return own


def _network(value: object, where: str, problems: list[Problem]) -> Network | None:
    example = "for example {bridge: vfsb0, subnet: 10.77.0.0/24}"
    if not isinstance(value, dict) or set(value) != {"bridge", "subnet"}:
        problems.append(Problem(where, repr(value), "has exactly bridge and subnet", example))
        return None
    bridge, subnet = value["bridge"], value["subnet"]
    good = True
    if not isinstance(bridge, str) or not _BRIDGE.fullmatch(bridge):
        rule = "is an interface name: a letter, then letters, digits or -, 15 at most"
        problems.append(Problem(f"{where}.bridge", repr(bridge), rule, example))
        good = False
    try:
        parsed = ipaddress.IPv4Network(str(subnet))
    except ValueError as error:
        problems.append(Problem(f"{where}.subnet", repr(subnet), f"is an IPv4 network: {error}", example))
        return None
    if parsed.prefixlen > 29 or parsed.prefixlen < 16 or not parsed.is_private:
        rule = "is a private network of a size from /16 to /29"
        problems.append(Problem(f"{where}.subnet", repr(subnet), rule, example))
        good = False
    return Network(bridge, parsed) if good else None


def _host(
    name: str, values: dict[str, Any], network: Network | None, where: str, problems: list[Problem]
) -> Host | None:
    before = len(problems)
    if not _HOST.fullmatch(name):
        problems.append(
            Problem(where, name, "is a host name: lower-case letters, digits and -, 63 at most", "rename the host")
        )
    kind = values.get("sandbox_kind")
    if kind not in KINDS:
        problems.append(
            Problem(f"{where}.sandbox_kind", repr(kind), "is a kind of host", f"one of: {', '.join(KINDS)}")
        )
    share = values.get("sandbox_share_runtimes", False)
    if not isinstance(share, bool):
        problems.append(Problem(f"{where}.sandbox_share_runtimes", repr(share), "is true or false", "mend it"))
    raw = values.get("ansible_host")
    address = None
    try:
        address = ipaddress.IPv4Address(str(raw))
    except ValueError:
        problems.append(
            Problem(f"{where}.ansible_host", repr(raw), "is an IPv4 address, literally", "an address of the subnet")
        )
    if address is not None and network is not None:
        taken = {network.subnet.network_address, network.subnet.broadcast_address, network.controller}
        if address not in network.subnet or address in taken:
            problems.append(
                Problem(
                    f"{where}.ansible_host",
                    str(address),
                    f"is a host address of {network.subnet}, and not the controller's {network.controller}",
                    "choose another address",
                )
            )
    if len(problems) > before or address is None:
        return None
    return Host(name, address, str(kind), bool(share))
