"""The planner: from an inventory, the hosts' facts and the version matrix to a plan. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping

from . import engine_settings, gateway_plan
from .contract import Artifact, Parsed
from .facts import HostFacts
from .inventory import Inventory
from .placement import Pinned, Placed, pin, place
from .plan import Engine, Model, Plan, Runtime, Slice
from .problems import Problem, errors, in_order, path_of, problem
from .rules import address_of, check_inventory
from .tuning_plan import tuning
from .versions import Matrix, VersionSet, check_set, check_system

MODELS_ROOT = "/var/lib/vllm-fleet/models"
ENGINE_UNIT = "vllm-engine@"
GATEWAY_PROCESS = "haproxy"
#: Facts older than this are worth a word, seconds.
OLD_FACTS_SECONDS = 24 * 3600


def validate(inventory: Inventory, matrix: Matrix) -> list[Problem]:
    """All problems that the inventory alone shows."""
    return in_order(check_inventory(inventory, matrix)[1])


def plan(inventory: Inventory, facts: Mapping[str, HostFacts], matrix: Matrix) -> Plan | list[Problem]:
    """The plan of the fleet, or every problem in the way of one. Warnings alone do not stop it: the plan has them."""
    parsed, problems = check_inventory(inventory, matrix)
    placed = place(parsed, inventory.groups)
    addresses = {host: a for host in inventory.hosts if (a := address_of(inventory, host)) is not None}
    vllm = parsed.vllm_version or matrix.newest_vllm
    gateways = sorted(inventory.groups.get(parsed.gateway.group, ())) if parsed.gateway else []

    sets: dict[str, VersionSet] = {}
    for host in inventory.hosts:
        known = facts.get(host)
        if known is None:
            problems.append(problem("HOST-001", path_of(("hosts", host)), None))
            continue
        problems += _check_host(host, known, addresses.get(host), matrix)
        if host in placed:
            row, found = _choose(host, known, vllm, matrix)
            problems += found
            if row is not None:
                sets[host] = row
            problems += _check_engines(host, placed[host], known, vllm, parsed)
        if parsed.gateway is not None and host in gateways:
            problems += _check_gateway_ports(host, parsed, known)

    usable = not errors(problems)
    slices: dict[str, Slice] = {}
    if parsed.gateway is not None and all(g in addresses and g in facts for g in gateways):
        vips = {g: gateway_plan.vip(parsed.gateway, g, gateways, addresses, facts[g]) for g in gateways}
        problems += [p for _, found in vips.values() for p in found]
        usable = not errors(problems)
    if not usable or parsed.gateway is None:
        return in_order(problems)

    listed = gateway_plan.services(parsed, placed, addresses)
    builders = _builders(sets)
    for host in inventory.hosts:
        engines = placed.get(host, [])
        is_gateway = host in gateways
        slices[host] = Slice(
            host=host,
            address=addresses[host],
            groups=["fleet_engine"] * bool(engines) + ["fleet_gateway"] * is_gateway,
            tuning=tuning(bool(engines), is_gateway),
            runtimes=_runtimes(host, sets, builders, parsed.shared_runtimes),
            models=_models(engines, parsed, sets.get(host)),
            engines=_engines(engines, parsed, sets.get(host), facts[host], addresses[host], inventory),
            gateway=gateway_plan.gateway(parsed.gateway, parsed, addresses[host], listed) if is_gateway else None,
            vip=vips[host][0] if is_gateway else None,
        )
    return Plan.of(slices, tuple(in_order(problems)))


def backend_of(_facts: HostFacts) -> str:
    """The kind of runtime that a host needs. This release serves on CPUs only."""
    return "cpu"


def _choose(host: str, facts: HostFacts, vllm: str, matrix: Matrix) -> tuple[VersionSet | None, list[Problem]]:
    backend = backend_of(facts)
    row = matrix.choose(backend, facts.arch, vllm)
    if row is None:
        known = ", ".join(s.id for s in matrix.sets)
        value = f"{facts.arch}, vLLM {vllm}"
        return None, [
            problem(
                "HOST-003", path_of(("hosts", host)), value, backend=backend, arch=facts.arch, vllm=vllm, known=known
            )
        ]
    return row, check_set(host, facts, row)


def _check_host(host: str, facts: HostFacts, address: str | None, matrix: Matrix) -> list[Problem]:
    found = check_system(host, facts, matrix)
    if facts.age_seconds > OLD_FACTS_SECONDS:
        found.append(problem("HOST-008", path_of(("hosts", host)), None, age=age_text(facts.age_seconds)))
    if address is not None and facts.interfaces and not facts.has_address(address):
        found.append(
            problem("HOST-009", path_of(("hosts", host, "ansible_host")), address, found=facts.addresses_text())
        )
    return found


def age_text(seconds: int) -> str:
    """An age for people: ``3 min``, ``5 h``, ``2 d``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _check_engines(host: str, engines: list[Placed], facts: HostFacts, vllm: str, parsed: Parsed) -> list[Problem]:
    found: list[Problem] = []
    done: set[tuple[str | int, ...]] = set()
    for engine in engines:
        known_port = engine.service_name not in parsed.without_port
        if engine.prefix not in done:
            done.add(engine.prefix)
            found += engine_settings.check_on_cpu(engine.prefix, engine.deployment, host, facts, vllm)
        for listener in facts.listeners:
            if known_port and listener.port == engine.port and not listener.unit.startswith(ENGINE_UNIT):
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
    if wanted_cpus > facts.cpu_count:
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
    """Bytes that the inventory itself claims for an engine."""
    cache = engine.deployment.engine.get(
        "kv_cache_memory_bytes", engine.deployment.engine.get("kv-cache-memory-bytes", 0)
    )
    return max(engine.deployment.memory_max_bytes or 0, cache if isinstance(cache, int) else 0)


def _check_gateway_ports(host: str, parsed: Parsed, facts: HostFacts) -> list[Problem]:
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


def _builders(sets: Mapping[str, VersionSet]) -> dict[str, str]:
    """For each set the host that builds it where the runtime directory is shared: the first by name."""
    return {row.id: host for host, row in sorted(sets.items(), reverse=True)}


def _runtimes(host: str, sets: Mapping[str, VersionSet], builders: Mapping[str, str], shared: bool) -> list[Runtime]:
    row = sets.get(host)
    if row is None:
        return []
    return [Runtime(row.id, row.backend, row.vllm, row.python, row.lock, builders[row.id] if shared else host)]


def _artifact(engine: Placed, parsed: Parsed, row: VersionSet) -> tuple[str, Artifact]:
    """The backend's own artifact, or the default one."""
    artifacts = parsed.models[engine.service.model].versions[engine.service.version].artifacts
    name = row.backend if row.backend in artifacts else "default"
    return name, artifacts.get(name) or artifacts[sorted(artifacts)[0]]


def _model_path(engine: Placed, artifact: str) -> str:
    return f"{MODELS_ROOT}/{engine.service.model}/{engine.service.version}/{artifact}"


def _models(engines: list[Placed], parsed: Parsed, row: VersionSet | None) -> list[Model]:
    if row is None:
        return []
    models: dict[str, Model] = {}
    for engine in engines:
        name, artifact = _artifact(engine, parsed, row)
        path = _model_path(engine, name)
        models[path] = Model(
            engine.service.model, engine.service.version, name, artifact.source, artifact.manifest, path
        )
    return [models[path] for path in sorted(models)]


def _engines(
    engines: list[Placed], parsed: Parsed, row: VersionSet | None, facts: HostFacts, address: str, inventory: Inventory
) -> list[Engine]:
    if row is None:
        return []
    return [
        _engine(engine, pinned, parsed, row, facts, address, inventory)
        for engine, pinned in zip(engines, pin(engines, facts), strict=True)
    ]


def _engine(
    engine: Placed,
    pinned: Pinned,
    parsed: Parsed,
    row: VersionSet,
    facts: HostFacts,
    address: str,
    inventory: Inventory,
) -> Engine:
    service, deployment = engine.service, engine.deployment
    artifact_name, artifact = _artifact(engine, parsed, row)
    model_path = _model_path(engine, artifact_name)
    served_name = service.served_model_name or service.model
    seen = inventory.models_seen.get(artifact.source)
    return Engine(
        name=engine.name,
        service=engine.service_name,
        model=service.model,
        version=service.version,
        served_model_name=served_name,
        model_path=model_path,
        runtime=row.id,
        address=address,
        port=engine.port,
        settings=engine_settings.settings(service, deployment, served_name, model_path, address, engine.port),
        environment=engine_settings.environment(deployment, address, pinned.threads, pinned.cpus),
        cpus=pinned.cpus,
        numa_nodes=pinned.numa_nodes,
        memory_max_bytes=deployment.memory_max_bytes,
        start_timeout_seconds=engine_settings.start_timeout(
            seen.weight_bytes if seen else 0, facts.disk_read_bytes_per_second
        ),
        shutdown_timeout_seconds=service.shutdown_timeout_seconds,
        stop_timeout_seconds=engine_settings.stop_timeout(service.shutdown_timeout_seconds),
        max_request_seconds=service.max_request_seconds,
    )
