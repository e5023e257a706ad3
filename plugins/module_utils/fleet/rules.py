"""Rules over the inventory as a whole: everything that can be said before a host is asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from .capacity_words import both
from .contract import UNKNOWN, Deployment, Gateway, Parsed, Service, parse
from .contract.renamed import VARIABLES as RENAMED
from .engine_settings import check_environment
from .inventory import FLEET_VARIABLES, Inventory
from .placement import Placed, place
from .problems import SECRET_NAME, Problem, hints, path_of, problem
from .rule_table.phrases import phrase

MIN_SECRET_LENGTH = 16
MAX_GATEWAYS = 100
#: Where models may come from, and of these what this release fetches by itself.
KNOWN_SCHEMES = ("file", "nfs", "hf", "modelscope", "https")
SUPPORTED_SCHEMES = ("file",)
#: How sources of mounts are written, by type: pattern, and the form for people.
MOUNT_SOURCES = {
    "nfs": (r"(\[[0-9a-fA-F:]+\]|[^:\s/]+):/\S*", "server:/export"),
    "lustre": (r"[^\s@/]+@[a-z0-9]+(:[^\s@/]+@[a-z0-9]+)*:/\S+", "mgs@network:/name"),
}
NAME = re.compile(r"[a-z0-9](?:[a-z0-9.]|-(?!-))*(?<![.\-])\Z")
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,62}\Z")
#: What a signed address carries besides what is named like a secret.
SIGNATURE = re.compile(r"(?i)(?:^|[\-_])sig(?:nature)?\Z")
#: It stands in requests, in paths and in the configuration of HAProxy.
CLIENT_NAME = re.compile(r"\w[\w.:/@+\-]{0,127}\Z")
SERVICE_NAME_LENGTH, MODEL_NAME_LENGTH = 32, 96


def check_inventory(inventory: Inventory) -> tuple[Parsed, list[Problem]]:
    """All problems of the inventory alone, and what could be read of the contract."""
    parsed, problems = parse(inventory.variables, inventory.by_host)
    # A variable that could not be computed is there all the same.
    told = {p.path for p in inventory.found}
    problems = [p for p in problems if not (p.code in ("INV-002", "INV-004") and p.path in told)]
    problems += inventory.found
    problems += [_unknown_variable(name) for name in sorted(inventory.unknown)]
    problems += [p for p in _check_hosts(inventory) if not (p.code == "INV-008" and p.path in told)]
    problems += _check_secret(inventory)
    problems += _check_models(parsed, inventory)
    problems += _check_storage(parsed)
    problems += _check_services(parsed, inventory)
    if parsed.gateway is not None:
        problems += _check_gateway(parsed.gateway, inventory)
    problems += _check_ports(parsed, inventory)
    return parsed, problems


def _unknown_variable(name: str) -> Problem:
    if name in RENAMED:
        return problem("INV-017", name, None, instead=RENAMED[name][0], instead_zh=RENAMED[name][1])
    return problem("INV-001", name, None, **hints(name, FLEET_VARIABLES))


def address_of(inventory: Inventory, host: str) -> str | None:
    """The host's address, or None where it is none that others can reach (which is reported elsewhere)."""
    address = _ip(inventory.addresses.get(host))
    return None if address is None or _no_host(address) is not None else str(address)


def _ip(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        return None


def _check_hosts(inventory: Inventory) -> list[Problem]:
    found: list[Problem] = []
    seen: dict[str, str] = {}
    for host in inventory.hosts:
        path, raw = path_of(("hosts", host, "ansible_host")), inventory.addresses[host]
        if not HOST_NAME.match(host):
            found.append(problem("INV-014", path_of(("hosts", host)), host))
        if raw is None or raw == "":
            found.append(problem("INV-008", path, None, host=host))
            continue
        ip, address = _ip(raw), address_of(inventory, host)
        if ip is None:
            found.append(problem("INV-009", path, raw, host=host))
        elif (kind := _no_host(ip)) is not None:
            found.append(problem("INV-019", path, raw, host=host, **both("kind", phrase(kind))))
        elif address is not None and address in seen:
            found.append(problem("INV-010", path, raw, first=seen[address], second=host))
        elif address is not None:
            seen[address] = host
    return found


def _no_host(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    """Why other hosts can never reach a host by this address, as the name of a phrase; None where they may."""
    if ip.is_loopback:
        return "address-loopback"
    if ip.is_unspecified:
        return "address-unspecified"
    if ip.is_multicast or ip == ipaddress.IPv4Address("255.255.255.255"):
        return "address-many"
    return "address-link" if ip.version == 6 and ip.is_link_local else None


def _check_secret(inventory: Inventory) -> list[Problem]:
    name, secret = "fleet_engine_api_key", inventory.secret
    if not secret.defined:
        return [problem("INV-011", name, None, name=name)]
    found = []
    if secret.length < MIN_SECRET_LENGTH or secret.placeholder:
        found.append(problem("INV-012", name, None, minimum=MIN_SECRET_LENGTH))
    if secret.plain_file is not None:
        found.append(problem("INV-013", name, None, name=name, file=secret.plain_file))
    return found


def _check_storage(parsed: Parsed) -> list[Problem]:
    """Mounts and caches. Hosts of a group share what it says: it is looked at once, for the first of them."""
    found: list[Problem] = []
    seen: set[int] = set()
    for host in sorted(parsed.hosts):
        storage = parsed.hosts[host].storage
        if storage is None or id(storage) in seen:
            continue
        seen.add(id(storage))
        where = ("hosts", host, "fleet_storage")
        found.append(problem("REL-004", path_of(where), None))
        taken: dict[str, str] = {}
        for position, mount in enumerate(storage.mounts):
            place_ = (*where, "mounts", position)
            found += _local_path(path_of((*place_, "path")), mount.path, taken)
            form = MOUNT_SOURCES[mount.type]
            if not re.fullmatch(form[0], mount.source):
                found.append(
                    problem("STO-003", path_of((*place_, "source")), mount.source, type=mount.type, form=form[1])
                )
            if mount.type == "lustre" and (mount.rdma or mount.connections > 1):
                key = "rdma" if mount.rdma else "connections"
                found.append(problem("STO-004", path_of((*place_, key)), getattr(mount, key), name=key))
        if storage.cache is not None:
            found += _local_path(path_of((*where, "cache", "path")), storage.cache.path, taken)
    return found


def _local_path(path: str, text: str, taken: dict[str, str]) -> list[Problem]:
    """An absolute path without detours that neither is, holds, nor lies in one that was taken before."""
    if not re.fullmatch(r"(/[^/\x00-\x1f]+)+", text) or "/../" in f"{text}/" or "/./" in f"{text}/":
        return [problem("STO-001", path, text)]
    for other in taken:
        if f"{text}/".startswith(f"{other}/") or f"{other}/".startswith(f"{text}/"):
            return [problem("STO-002", path, text, other=other)]
    taken[text] = path
    return []


def _name(path: str, name: str, limit: int) -> list[Problem]:
    if NAME.match(name) and len(name) <= limit:
        return []
    example = re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9.]+", "-", name.lower())).strip("-.")[:limit].strip("-.") or "chat"
    return [problem("INV-016", path, name, limit=limit, example=example)]


def _check_models(parsed: Parsed, inventory: Inventory) -> list[Problem]:
    found: list[Problem] = []
    for model_name, model in parsed.models.items():
        found += _name(path_of(("fleet_models", model_name)), model_name, MODEL_NAME_LENGTH)
        for version_name, version in model.versions.items():
            where = ("fleet_models", model_name, "versions", version_name)
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", version_name):
                found += _name(path_of(where), version_name, 64)
            for artifact_name, artifact in version.artifacts.items():
                place_ = (*where, "artifacts", artifact_name)
                found += _name(path_of(place_), artifact_name, 32)
                if artifact.manifest is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", artifact.manifest):
                    found.append(problem("MOD-007", path_of((*place_, "manifest")), artifact.manifest))
                found += _check_source(path_of((*place_, "source")), artifact.source, model_name, inventory)
                found += _check_config(path_of((*place_, "config")), artifact.config, inventory)
    return found


def source_path(source: str) -> str | None:
    """The directory of a ``file://`` source, or None where it is none or not absolute."""
    try:
        parts = urlsplit(source)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        return None
    return unquote(parts.path)


def _check_source(path: str, source: str, model: str, inventory: Inventory) -> list[Problem]:
    if source == UNKNOWN:
        return []
    if _holds_secret(source):
        return [problem("MOD-011", path, "(not shown)")]
    converted = re.search(r"\.(om|onnx|mindir|engine|plan)/?\Z", source)
    if converted:
        return [problem("MOD-010", path, source, suffix=f".{converted[1]}")]
    scheme = urlsplit(source).scheme
    if scheme and scheme not in KNOWN_SCHEMES:
        return [problem("MOD-001", path, source, scheme=scheme, known=", ".join(f"{s}://" for s in KNOWN_SCHEMES))]
    if scheme and scheme not in SUPPORTED_SCHEMES:
        return [problem("REL-001", path, source, scheme=scheme)]
    if source_path(source) is None:
        return [problem("MOD-005", path, source, model=model)]
    seen = inventory.models_seen.get(source)
    if seen is None:
        return []
    if not seen.exists:
        return [problem("MOD-002", path, source)]
    found = [problem("MOD-003", path, source, file=name) for name in seen.pointers]
    if not seen.has_config:
        found.append(problem("MOD-006", path, source, file="config.json"))
    if not seen.weight_files:
        found.append(problem("MOD-004", path, source, expected="*.safetensors, *.bin, *.pt"))
    found += [problem("MOD-006", path, source, file=name) for name in seen.missing]
    found += [problem("MOD-008", path, source, file=name, fault=fault) for name, fault in seen.damaged]
    return found


def _holds_secret(source: str) -> bool:
    """Whether an address has a password, or a parameter that is named like a secret: it would end up in the plan."""
    parts = urlsplit(source)
    user, at, _ = parts.netloc.rpartition("@")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return (bool(at) and ":" in user) or any(SECRET_NAME.search(name) or SIGNATURE.search(name) for name in names)


def _check_config(path: str, config: object, inventory: Inventory) -> list[Problem]:
    fault = inventory.configs.get(config) if isinstance(config, str) else None
    return [problem("MOD-009", path, config, fault=fault)] if isinstance(fault, str) else []


def _check_services(parsed: Parsed, inventory: Inventory) -> list[Problem]:
    found: list[Problem] = []
    served: dict[str, str] = {}
    for name in sorted(parsed.services):
        service = parsed.services[name]
        where = ("fleet_services", name)
        found += _name(path_of(where), name, SERVICE_NAME_LENGTH)
        found += _check_model_of(service.model, service.version, where, parsed)
        client_name = service.served_model_name or service.model
        if service.served_model_name is not None and not CLIENT_NAME.match(service.served_model_name):
            found.append(problem("SVC-028", path_of((*where, "served_model_name")), service.served_model_name))
        if client_name in served and client_name != UNKNOWN:
            found.append(
                problem(
                    "SVC-015",
                    path_of((*where, "served_model_name")),
                    client_name,
                    first=served[client_name],
                    second=name,
                )
            )
        served.setdefault(client_name, name)
        if all(d.tier == "standby" for d in service.deployments):
            found.append(problem("SVC-019", path_of((*where, "deployments")), None))
        for position, deployment in enumerate(service.deployments):
            prefix: tuple[str | int, ...] = (*where, "deployments", position)
            found += check_group("SVC", path_of((*prefix, "group")), deployment.group, inventory.groups)
            found += _check_deployment(prefix, service, deployment, parsed, inventory)
            found += check_environment(prefix, deployment.environment)
    return found


def _check_deployment(
    prefix: tuple[str | int, ...], service: Service, deployment: Deployment, parsed: Parsed, inventory: Inventory
) -> list[Problem]:
    found: list[Problem] = []
    if deployment.model or deployment.version:
        model, version = deployment.model or service.model, deployment.version or service.version
        found += _check_model_of(model, version, prefix, parsed, own=(bool(deployment.model), bool(deployment.version)))
    size, members = deployment.hosts_per_replica, len(inventory.groups.get(deployment.group, ()))
    if members and members % size:
        path = path_of((*prefix, "hosts_per_replica"))
        found.append(
            problem("SVC-020", path, size, group=deployment.group, members=members, spare=members % size)
            if members > size
            else problem("SVC-021", path, size, group=deployment.group, members=members)
        )
    if deployment.cards_per_engine % size:
        path = path_of((*prefix, "hosts_per_replica"))
        found.append(problem("SVC-022", path, size, cards=deployment.cards_per_engine, hosts=size))
    if size > 1:
        found.append(problem("REL-003", path_of((*prefix, "hosts_per_replica")), size))
    return found


def _check_model_of(
    model_name: str,
    version: str,
    where: tuple[str | int, ...],
    parsed: Parsed,
    own: tuple[bool, bool] = (True, True),
) -> list[Problem]:
    """Whether model and version are declared. ``own``: which of the two stands at this place."""
    model = parsed.models.get(model_name)
    if model is None:
        # Without any model that is the fault, and it has been reported.
        if model_name in (UNKNOWN, *parsed.declared_models) or not own[0] or not parsed.declared_models:
            return []
        return [problem("SVC-003", path_of((*where, "model")), model_name, **hints(model_name, parsed.declared_models))]
    if version not in (UNKNOWN, *model.versions):
        return [
            problem(
                "SVC-004", path_of((*where, "version")), version, model=model_name, **hints(version, model.versions)
            )
        ]
    return []


def check_group(family: str, path: str, group: str, groups: Mapping[str, tuple[str, ...]]) -> list[Problem]:
    """Whether a group exists and has hosts. ``family`` is SVC or GW."""
    if group == UNKNOWN:
        return []
    if group not in groups:
        known = [g for g in groups if g not in ("all", "ungrouped")]
        return [problem(f"{family}-001", path, group, **hints(group, known))]
    if not groups[group]:
        return [problem(f"{family}-002", path, group, name=group)]
    return []


def vip_of(text: str) -> ipaddress.IPv4Interface | None:
    """A virtual address, or None where its text is no ``address/length`` of IPv4."""
    if not re.fullmatch(r"[0-9.]+/[0-9]+", text):
        return None
    try:
        return ipaddress.IPv4Interface(text)
    except ValueError:
        return None


def _check_gateway(gateway: Gateway, inventory: Inventory) -> list[Problem]:
    found = check_group("GW", "fleet_gateway.group", gateway.group, inventory.groups)
    members = sorted(inventory.groups.get(gateway.group, ()))
    if len(members) == 1:
        found.append(problem("GW-009", "fleet_gateway.group", gateway.group, name=gateway.group))
    if len(members) > MAX_GATEWAYS:
        found.append(problem("GW-013", "fleet_gateway.group", gateway.group, maximum=MAX_GATEWAYS, name=gateway.group))
    holders = {address_of(inventory, host): host for host in reversed(inventory.hosts)}
    seen: set[ipaddress.IPv4Address] = set()
    for position, text in enumerate(gateway.vips):
        path, vip = path_of(("fleet_gateway", "vips", position)), vip_of(text)
        if text == UNKNOWN:
            continue
        if vip is None:
            found.append(_bad_vip(path, text))
            continue
        if vip.ip in seen:
            found.append(problem("GW-007", path, text))
        seen.add(vip.ip)
        if vip.network.prefixlen < 31 and vip.ip in (vip.network.network_address, vip.network.broadcast_address):
            found.append(problem("GW-014", path, text, network=vip.network))
        if str(vip.ip) in holders:
            found.append(problem("GW-006", path, text, host=holders[str(vip.ip)]))
        for host in members:
            address = address_of(inventory, host)
            if address is not None and ipaddress.ip_address(address) not in vip.network:
                found.append(problem("GW-005", path, text, host=host, address=address))
                break
    return found


def _bad_vip(path: str, text: str) -> Problem:
    try:
        if ipaddress.ip_interface(text).version == 6:
            return problem("GW-011", path, text)
    except ValueError:
        pass
    bare = re.match(r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+", text)
    return problem("GW-004", path, text, example=f"{bare.group()}/24" if bare else "10.0.0.100/24")


def _check_ports(parsed: Parsed, inventory: Inventory) -> list[Problem]:
    """No two things of the plan on one port of one host. One complaint a pair, for the first host that shows it."""
    found: list[Problem] = []
    placed = place(parsed, inventory.groups)
    reported: set[tuple[str, str]] = set()
    gateways = set(inventory.groups.get(parsed.gateway.group, ())) if parsed.gateway else set()
    for host in sorted(set(placed) | gateways):
        holders: dict[int, str] = {}
        if parsed.gateway is not None and host in gateways:
            for label in ("port", "metrics_port", "check_port"):
                number = getattr(parsed.gateway, label)
                if number in holders:
                    pair = (holders[number], f"fleet_gateway.{label}")
                    if pair not in reported:
                        reported.add(pair)
                        found.append(_gateway_port(host, number, pair, holders))
                holders.setdefault(number, f"fleet_gateway.{label}")
        for engine in placed.get(host, ()):
            if engine.service_name in parsed.without_port:
                continue
            owner = f"fleet_services.{engine.service_name}"
            if engine.port > 65535:
                if (owner, "range") not in reported:
                    reported.add((owner, "range"))
                    found.append(
                        problem(
                            "INV-006",
                            path_of(("fleet_services", engine.service_name, "port")),
                            engine.port,
                            expected="at most 65535 for the last engine of a host",
                            expected_zh="使主机上最后一个引擎的端口不大于 65535",
                        )
                    )
            elif engine.port in holders:
                found += _engine_port(host, engine, owner, holders, reported, placed[host])
            holders.setdefault(engine.port, owner)
    return found


def _free(used: Iterable[int], start: int) -> int:
    taken, port = set(used), start
    while port in taken or port > 65535:
        port = port + 1 if port < 65535 else 1024
    return port


def _gateway_port(host: str, number: int, pair: tuple[str, str], holders: dict[int, str]) -> Problem:
    return problem(
        "GW-010",
        pair[1],
        number,
        host=host,
        port=number,
        first=pair[0],
        second=pair[1],
        suggestion=_free(holders, number + 1),
    )


def _engine_port(
    host: str,
    engine: Placed,
    owner: str,
    holders: dict[int, str],
    reported: set[tuple[str, str]],
    engines: list[Placed],
) -> list[Problem]:
    first = holders[engine.port]
    if (first, owner) in reported:
        return []
    reported.add((first, owner))
    path = path_of(("fleet_services", engine.service_name, "port"))
    free = _free([*holders, *(e.port for e in engines)], engine.port + 1)
    code = "GW-010" if first.startswith("fleet_gateway") else "SVC-006"
    return [
        problem(
            code, path, engine.service.port, host=host, port=engine.port, first=first, second=owner, suggestion=free
        )
    ]
