"""The planner: from an inventory, the hosts' facts and the version matrix to a plan. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import capacity_rules, card_rules, engine_settings, gateway_plan, host_rules, scrape_plan
from .contract import Parsed
from .facts import HostFacts
from .host_rules import age_text
from .inventory import Inventory
from .network_rules import check_network
from .placement import Pinned, Placed, artifact_of, pin, place
from .plan import Engine, Memory, Model, Plan, Runtime, Slice, Vip
from .problems import Problem, alike, errors, in_order, path_of, problem
from .rules import address_of, check_inventory
from .tuning_plan import tuning
from .version_plan import Chosen, Lock, check_system, choose, likely_backend
from .version_sets.matrix import Matrix

__all__ = ["age_text", "plan", "validate"]

#: What a set warns of where vLLM would choose bfloat16 by itself.
BFLOAT16_ON_CPU = frozenset({"SET-072", "SET-073"})
MODELS_ROOT = "/var/lib/vllm-fleet/models"


def validate(inventory: Inventory, matrix: Matrix, locks: Iterable[Lock] = ()) -> list[Problem]:
    """All problems that the inventory alone shows. What it says of hosts (``fleet_host``) stands for their facts."""
    return in_order(_examine(inventory, {}, matrix, tuple(locks)).problems)


def plan(
    inventory: Inventory, facts: Mapping[str, HostFacts], matrix: Matrix, locks: Iterable[Lock] = ()
) -> Plan | list[Problem]:
    """The plan of the fleet, or every problem in the way of one. Warnings alone do not stop it: the plan has them."""
    seen = _examine(inventory, facts, matrix, tuple(locks))
    problems = seen.problems + [
        problem("HOST-001", path_of(("hosts", host)), None) for host in inventory.hosts if host not in facts
    ]
    parsed = seen.parsed
    if errors(problems) or parsed.gateway is None:
        return in_order(problems)
    listed = gateway_plan.services(parsed, seen.placed, seen.addresses)
    builders = _builders(seen.chosen)
    slices: dict[str, Slice] = {}
    for host in inventory.hosts:
        engines, chosen = seen.placed.get(host, []), seen.chosen.get(host)
        is_gateway = host in seen.vips
        gateway = gateway_plan.gateway(parsed.gateway, parsed, seen.addresses[host], listed) if is_gateway else None
        made = _engines(engines, seen, chosen, facts[host], inventory)
        tiers = zip(made, (engine.deployment.tier for engine in engines), strict=True) if chosen else ()
        slices[host] = Slice(
            host=host,
            address=seen.addresses[host],
            groups=["fleet_engine"] * bool(engines) + ["fleet_gateway"] * is_gateway,
            tuning=tuning(engines, chosen.set.backend if chosen else None, gateway, facts[host]),
            runtimes=[_runtime(host, chosen, builders, parsed.shared_runtimes)] if chosen else [],
            models=_models(engines, parsed, chosen),
            engines=made,
            gateway=gateway,
            vip=seen.vips[host] if is_gateway else None,
            scrape=scrape_plan.targets(host, tiers, chosen.set.vllm if chosen else "", gateway),
        )
    return Plan.of(slices, tuple(in_order(problems)))


def _dtypes_said(engines: Iterable[Placed]) -> bool:
    """Whether every engine has a dtype of its own choice, which the rules over it have judged."""
    return all(card_rules.option(e.deployment.engine, "dtype")[1] not in (None, "auto") for e in engines)


@dataclass
class _Examined:
    """Everything that is known of a fleet before a plan is written down."""

    parsed: Parsed
    addresses: dict[str, str]
    placed: dict[str, list[Placed]]
    problems: list[Problem]
    chosen: dict[str, Chosen] = field(default_factory=dict)
    vips: dict[str, Vip | None] = field(default_factory=dict)
    memory: dict[tuple[str, str], Memory] = field(default_factory=dict)


def _examine(
    inventory: Inventory, facts: Mapping[str, HostFacts], matrix: Matrix, locks: tuple[Lock, ...]
) -> _Examined:
    parsed, problems = check_inventory(inventory)
    addresses = {host: a for host in inventory.hosts if (a := address_of(inventory, host)) is not None}
    seen = _Examined(parsed, addresses, place(parsed, inventory.groups), problems)
    gateways = sorted(inventory.groups.get(parsed.gateway.group, ())) if parsed.gateway else []
    capacity = capacity_rules.Checker(parsed, inventory, matrix)
    checked: set[tuple[object, ...]] = set()
    on_hosts: list[tuple[str, Problem]] = []
    for host in inventory.hosts:
        said, engines = parsed.of(host), seen.placed.get(host, [])
        known = facts.get(host)
        if known is None:
            if said.host is None:
                continue
            known = HostFacts.of_claims(said.host, None)
        problems += host_rules.check_host(host, known, addresses.get(host))
        problems += host_rules.check_claims(host, said.host, known)
        if host in gateways and parsed.gateway is not None:
            problems += host_rules.check_gateway_ports(host, parsed, known)
        if not engines:
            problems += check_system(host, known, matrix) if known.os_id or not known.claimed else []
            continue
        on_hosts += ((host, p) for p in host_rules.check_engines(host, engines, known, parsed))
        wanted = said.host.backend if said.host else None
        if known.arch:
            chosen, found = choose(host, known, said.versions, wanted, matrix, locks)
        else:
            # What nobody said of a host that nobody asked is no fault: discovery will tell.
            chosen, found = None, [] if known.claimed else [problem("HOST-018", path_of(("hosts", host)))]
        found = [p for p in found if p.code not in BFLOAT16_ON_CPU or not _dtypes_said(engines)]
        problems += [p for p in found if p.code != "SET-002" or known.os_id or not known.claimed]
        backend = chosen.set.backend if chosen else wanted or likely_backend(known)
        if backend != "cpu":
            on_hosts += ((host, p) for p in host_rules.check_cards(host, engines, known, backend))
        if chosen is None:
            continue
        seen.chosen[host] = chosen
        if not chosen.locked:
            problems.append(problem("REL-002", path_of(("hosts", host)), chosen.set.runtime_id))
        for engine in engines:
            problems += _check_deployment(engine, chosen, known, matrix, checked)
            problems += _check_quantization(engine, chosen, parsed, inventory, matrix, checked)
            problems += _check_source(engine, parsed, chosen, checked)
        found, memory = capacity.check(engines, chosen, known)
        problems += found
        seen.memory |= {(host, name): size for name, size in memory.items()}
    problems += alike(on_hosts)
    problems += _check_unplaced(parsed, seen, checked, locks)
    problems += _check_mixed(seen)
    problems += check_network(facts, addresses, seen.placed)
    if parsed.gateway is not None and all(g in addresses and g in facts for g in gateways):
        for host in gateways:
            seen.vips[host], found = gateway_plan.vip(parsed.gateway, host, gateways, addresses, facts[host])
            problems += found
    return seen


def _check_deployment(
    engine: Placed, chosen: Chosen, facts: HostFacts, matrix: Matrix, checked: set[tuple[object, ...]]
) -> list[Problem]:
    """What depends on the deployment and the kind of host, once for each pair."""
    found: list[Problem] = []
    key = (engine.prefix, chosen.set.vllm)
    if key not in checked:
        checked.add(key)
        found += engine_settings.check_engine(engine.prefix, engine.deployment.engine, chosen.set.vllm)
    if chosen.set.backend == "cpu":
        kind = (engine.prefix, "cpu", facts.arch, facts.cpu_flags, facts.virtual)
        if kind not in checked:
            checked.add(kind)
            found += engine_settings.check_on_cpu(engine.prefix, engine.deployment, engine.host, facts, chosen.set.vllm)
    else:
        cards = tuple(sorted({card.chip for card in facts.cards}))
        if (engine.prefix, "cards", cards) not in checked:
            checked.add((engine.prefix, "cards", cards))
            found += card_rules.check_options(engine, chosen, matrix)
    return found


def _check_quantization(
    engine: Placed,
    chosen: Chosen,
    parsed: Parsed,
    inventory: Inventory,
    matrix: Matrix,
    checked: set[tuple[object, ...]],
) -> list[Problem]:
    """Once for each deployment and set on cards of one kind."""
    key = (engine.prefix, "quantization", chosen.set.runtime_id, tuple(card.chip for card in chosen.facts.cards))
    if key in checked:
        return []
    checked.add(key)
    return card_rules.check_quantization(engine, chosen, parsed, inventory, matrix)


def _check_source(engine: Placed, parsed: Parsed, chosen: Chosen, checked: set[tuple[object, ...]]) -> list[Problem]:
    """Weights that would be mapped over the network; once for each deployment."""
    storage = parsed.of(engine.host).storage
    model = parsed.models.get(engine.model)
    if model is None or engine.version not in model.versions or (storage is not None and storage.cache is not None):
        return []
    source = artifact_of(engine, parsed, chosen.set.backend)[1].source
    _, strategy = card_rules.option(engine.deployment.engine, "safetensors-load-strategy")
    if not source.startswith("nfs://") or strategy in ("eager", "prefetch") or (engine.prefix, "nfs") in checked:
        return []
    checked.add((engine.prefix, "nfs"))
    return [problem("STO-005", path_of((*engine.prefix, "group")), engine.deployment.group, host=engine.host)]


def _check_unplaced(
    parsed: Parsed, seen: _Examined, checked: set[tuple[object, ...]], locks: tuple[Lock, ...]
) -> list[Problem]:
    """Engine options of deployments whose hosts nobody knows yet, against the version that they are likely to get."""
    found: list[Problem] = []
    done = {key[0] for key in checked}
    likely = locks[0].vllm if locks else None
    for name in sorted(parsed.services):
        for position, deployment in enumerate(parsed.services[name].deployments):
            prefix = ("fleet_services", name, "deployments", position)
            if prefix in done:
                continue
            hosts = [h for h, engines in seen.placed.items() if any(e.prefix == prefix for e in engines)]
            pins = {parsed.of(host).versions.vllm for host in hosts}
            pin_ = pins.pop() if len(pins) == 1 else None
            version = pin_ if pin_ and pin_[0].isdigit() else likely
            if version:
                found += engine_settings.check_engine(prefix, deployment.engine, version)
    return found


def _check_mixed(seen: _Examined) -> list[Problem]:
    """Deployments whose hosts get different versions: answers and options differ with them."""
    found = []
    hosts: dict[tuple[str | int, ...], dict[str, list[str]]] = {}
    for host, engines in seen.placed.items():
        if host in seen.chosen:
            for prefix in {engine.prefix for engine in engines}:
                hosts.setdefault(prefix, {}).setdefault(seen.chosen[host].set.vllm, []).append(host)
    for prefix, versions in hosts.items():
        if len(versions) > 1:
            text = ", ".join(f"{v} ({len(hs)}: {min(hs)})" for v, hs in sorted(versions.items()))
            found.append(problem("SVC-026", path_of((*prefix, "group")), text, versions=text))
    return found


def _builders(chosen: Mapping[str, Chosen]) -> dict[str, str]:
    """For each set the host that builds it where the runtime directory is shared: the first by name."""
    return {item.set.runtime_id: host for host, item in sorted(chosen.items(), reverse=True)}


def _runtime(host: str, chosen: Chosen, builders: Mapping[str, str], shared: bool) -> Runtime:
    row = chosen.set
    return Runtime(
        id=row.runtime_id,
        backend=row.backend,
        vllm=row.vllm,
        python=row.python,
        method=row.method,
        lock=f"{row.runtime_id}.txt" if chosen.locked else None,
        build_host=builders[row.runtime_id] if shared else host,
        torch=row.torch,
        cuda=row.cuda,
        driver_min=row.driver_min,
        vllm_ascend=row.vllm_ascend,
        torch_npu=row.torch_npu,
        cann=row.cann,
        hdk=row.hdk,
        dtk=row.dtk,
        image=row.image,
    )


def _model_path(engine: Placed, artifact: str) -> str:
    return f"{MODELS_ROOT}/{engine.model}/{engine.version}/{artifact}"


def _models(engines: list[Placed], parsed: Parsed, chosen: Chosen | None) -> list[Model]:
    if chosen is None:
        return []
    models: dict[str, Model] = {}
    for engine in engines:
        name, artifact = artifact_of(engine, parsed, chosen.set.backend)
        path = _model_path(engine, name)
        models[path] = Model(engine.model, engine.version, name, artifact.source, artifact.manifest, path)
    return [models[path] for path in sorted(models)]


def _engines(
    engines: list[Placed], seen: _Examined, chosen: Chosen | None, facts: HostFacts, inventory: Inventory
) -> list[Engine]:
    if chosen is None:
        return []
    pinned = pin(engines, facts, chosen.set.backend)
    return [_engine(e, p, seen, chosen, facts, inventory) for e, p in zip(engines, pinned, strict=True)]


def _engine(
    engine: Placed, pinned: Pinned, seen: _Examined, chosen: Chosen, facts: HostFacts, inventory: Inventory
) -> Engine:
    service, backend = engine.service, chosen.set.backend
    artifact_name, artifact = artifact_of(engine, seen.parsed, backend)
    model_path = _model_path(engine, artifact_name)
    source = inventory.models_seen.get(artifact.source)
    memory = seen.memory.get((engine.host, engine.name))
    weights = source.weight_bytes if source else (memory.weights_bytes * engine.cards_here if memory else 0)
    address = seen.addresses[engine.host]
    timeout = engine_settings.start_timeout(weights, facts.disk_read_bytes_per_second)
    return Engine(
        name=engine.name,
        service=engine.service_name,
        model=engine.model,
        version=engine.version,
        served_model_name=engine.client_names[0],
        model_path=model_path,
        runtime=chosen.set.runtime_id,
        address=address,
        port=engine.port,
        settings=engine_settings.settings(engine, model_path, seen.addresses),
        environment=engine_settings.environment(engine, address, pinned, backend, facts, timeout),
        cpus=pinned.cpus,
        numa_nodes=pinned.numa_nodes,
        memory_max_bytes=engine.deployment.memory_max_bytes,
        cards=list(pinned.cards),
        replica=list(engine.replica),
        memory=memory,
        start_timeout_seconds=timeout,
        shutdown_timeout_seconds=service.shutdown_timeout_seconds,
        stop_timeout_seconds=engine_settings.stop_timeout(service.shutdown_timeout_seconds),
        max_request_seconds=service.max_request_seconds,
    )
