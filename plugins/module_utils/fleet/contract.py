"""What an operator may write: ``fleet_models``, ``fleet_services``, ``fleet_gateway``. Unknown keys are errors.

Controller only (pydantic). Shape and types are checked here; everything that needs more than one place of the
inventory, a host's facts or the version matrix is checked in ``rules`` and ``planner``.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from .problems import Problem, hints, path_of, problem

Port = Annotated[int, Field(ge=1, le=65535)]


class Strict(BaseModel):
    """No unknown keys and no silent conversion: ``"8000"`` is not a port."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Artifact(Strict):
    """One set of files of a model version."""

    source: str = Field(description="Where the files are: file:///absolute/path on the controller.", min_length=1)
    manifest: str | None = Field(
        default=None, description="sha256 of the manifest of all files, 64 hexadecimal digits."
    )


class ModelVersion(Strict):
    """One immutable version of a model."""

    artifacts: dict[str, Artifact] = Field(
        description="By backend name; `default` serves every backend that has none of its own.", min_length=1
    )


class Model(Strict):
    """A model that can be served."""

    versions: dict[str, ModelVersion] = Field(description="By version name, in quotes.", min_length=1)


class Deployment(Strict):
    """One service on one group of hosts."""

    group: str = Field(description="An inventory group.", min_length=1)
    tier: Literal["active", "standby"] = Field(
        default="active", description="standby engines get requests only while no active one is up."
    )
    tensor_parallel: int = Field(default=1, ge=1, le=64, description="Accelerators (on a CPU: 1) one engine spans.")
    weight: int = Field(default=100, ge=1, le=256, description="Share of requests beside other servers of the tier.")
    replicas_per_host: int = Field(default=1, ge=1, le=64, description="Engines on each host of the group.")
    cpus_per_engine: int | None = Field(
        default=None, ge=1, le=4096, description="Pin each engine to this many CPUs of its own; unset: not pinned."
    )
    memory_max_bytes: int | None = Field(
        default=None, ge=1 << 20, description="MemoryMax of each engine's unit, bytes; unset: no limit."
    )
    engine: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of `vllm serve`, with underscores or dashes, without what the plan decides.",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="Environment of the engines.")


class Service(Strict):
    """What clients see as one service."""

    model: str = Field(description="A name of fleet_models.", min_length=1)
    version: str = Field(description="A version of that model, in quotes.", min_length=1)
    served_model_name: str | None = Field(
        default=None, description="The name that clients use; the model's own name unless given.", min_length=1
    )
    max_model_len: int = Field(ge=1, description="Longest prompt plus answer, tokens.")
    port: Port = Field(description="First port of the engines of this service on their hosts.")
    max_request_seconds: int = Field(default=600, ge=1, le=86400, description="Longest request, seconds.")
    shutdown_timeout_seconds: int = Field(
        default=60, ge=0, le=3600, description="How long an engine finishes running requests when it stops, seconds."
    )
    deployments: list[Deployment] = Field(description="Where the engines run.", min_length=1)


class Gateway(Strict):
    """The entry of the fleet: HAProxy on each host of the group, reached through virtual addresses."""

    group: str = Field(description="An inventory group.", min_length=1)
    port: Port = Field(default=80, description="Where clients connect, on the virtual addresses.")
    metrics_port: Port = Field(default=8405, description="HAProxy's own exporter, on each gateway's own address.")
    check_port: Port = Field(default=8404, description="Loopback: answers 200 while the gateway works.")
    vips: list[str] = Field(description="Virtual addresses as address/prefix length.", min_length=1)
    virtual_router_id: int = Field(ge=1, le=255, description="Unique among VRRP groups of the network.")
    advert_interval_seconds: float = Field(
        default=0.2, ge=0.01, le=40.0, description="VRRP advertisement interval, seconds.", strict=False
    )


class Contract(Strict):
    """All variables that operators write for the product."""

    fleet_models: dict[str, Model] = Field(description="What can be served, by model name.", min_length=1)
    fleet_services: dict[str, Service] = Field(description="What clients see, by service name.", min_length=1)
    fleet_gateway: Gateway = Field(description="How clients get in.")
    fleet_engine_api_key: str = Field(
        description="Secret between gateways and engines, at least 16 characters; from a vault. Never in a plan."
    )
    fleet_vllm_version: str | None = Field(
        default=None, description="vLLM version of all engines; unset: the newest in the version matrix."
    )
    fleet_shared_runtimes: bool = Field(
        default=False, description="Engine hosts share /opt/vllm-fleet/runtimes: one host builds for all."
    )
    fleet_state_dir: str | None = Field(
        default=None,
        description="Directory on the controller for plans, facts and run records; unset: .fleet/<inventory name>.",
    )


#: Stands where a value was faulty or missing, which has been reported: rules pass over it.
UNKNOWN = "\0"
#: By key: what keeps the rest of a mapping readable. A plan is never made from these.
STAND_INS: dict[str, Any] = {
    "group": UNKNOWN,
    "model": UNKNOWN,
    "version": UNKNOWN,
    "source": UNKNOWN,
    "vips": [UNKNOWN],
    "max_model_len": 1,
    "port": 1,
    "virtual_router_id": 1,
}

# --- pydantic's findings as problems ----------------------------------------------------------------------------------

_TYPES = {
    "int": ("a whole number, without quotes", "整数，不带引号"),
    "float": ("a number, without quotes", "数字，不带引号"),
    "string": ("text; write numbers and versions in quotes", "文本；数字和版本号请加引号"),
    "bool": ("true or false", "true 或 false"),
    "dict": ("a mapping of names to values", "键值映射"),
    "model": ("a mapping of names to values", "键值映射"),
    "list": ("a list", "列表"),
}


def _known_keys(model: type[BaseModel], loc: Iterable[str | int]) -> list[str]:
    """The field names of the model that holds the last part of ``loc``."""
    current: Any = model
    for part in list(loc)[:-1]:
        if isinstance(current, type) and issubclass(current, BaseModel):
            if not isinstance(part, str) or part not in current.model_fields:
                return []
            current = current.model_fields[part].annotation
        else:
            args = [a for a in get_args(current) if a is not type(None)]
            if get_origin(current) in (dict, list):
                current = args[-1]
            elif args:
                current = args[0]
    if isinstance(current, type) and issubclass(current, BaseModel):
        return list(current.model_fields)
    return []


def _constraint(error: ErrorDetails) -> tuple[str, str]:
    """What a violated bound asks for, in English and Chinese."""
    ctx = error.get("ctx", {})
    match error["type"]:
        case "greater_than_equal":
            return f"at least {ctx['ge']}", f"至少为 {ctx['ge']}"
        case "less_than_equal":
            return f"at most {ctx['le']}", f"不大于 {ctx['le']}"
        case "literal_error":
            return f"one of {ctx['expected']}", f"是 {ctx['expected']} 之一"
        case "too_short" | "string_too_short":
            return "not empty", "不为空"
    return error["msg"][:1].lower() + error["msg"][1:], f"满足：{error['msg']}"


def to_problem(model: type[BaseModel], prefix: tuple[str | int, ...], error: ErrorDetails) -> Problem:
    """One finding of pydantic as a problem with its place in the inventory."""
    loc, kind, value = error["loc"], error["type"], error["input"]
    path = path_of((*prefix, *loc))
    name = str(loc[-1]) if loc else path
    if kind == "extra_forbidden":
        return problem("INV-003", path, value, **hints(name, _known_keys(model, loc)))
    if kind == "missing":
        return problem("GW-003", path) if path == "fleet_gateway.vips" else problem("INV-005", path, None, name=name)
    if path == "fleet_gateway.vips" and kind == "too_short":
        return problem("GW-003", path, value)
    if path == "fleet_gateway.virtual_router_id":
        return problem("GW-008", path, value)
    stem = kind.removesuffix("_type").removesuffix("_parsing")
    if kind.endswith(("_type", "_parsing", "_from_float")) and stem in _TYPES:
        expected, expected_zh = _TYPES[stem]
        return problem("INV-004", path, value, expected=expected, expected_zh=expected_zh)
    if kind == "int_from_float":
        return problem("INV-004", path, value, expected=_TYPES["int"][0], expected_zh=_TYPES["int"][1])
    expected, expected_zh = _constraint(error)
    return problem("INV-006", path, value, expected=expected, expected_zh=expected_zh)


def salvage[T: BaseModel](model: type[T], data: Any, prefix: tuple[str | int, ...]) -> tuple[T | None, list[Problem]]:
    """Validate ``data``; report every fault, and return what remains without the faulty parts if that is whole enough.

    One mistake must not hide another: faulty values are replaced by their defaults or by stand-ins, and rules go on.
    """
    problems: list[Problem] = []
    rest = deepcopy(data)
    for attempt in range(6):
        try:
            return model.model_validate(rest), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details:
            if detail["type"] != "missing" or attempt == 0:
                problems.append(to_problem(model, prefix, detail))
        # From the back, so that removing an item of a list does not move the ones that follow.
        for detail in sorted(details, key=lambda d: [str(part).zfill(6) for part in d["loc"]], reverse=True):
            _mend(rest, detail)
    return None, problems


def _mend(data: Any, detail: ErrorDetails) -> None:
    """Remove a faulty value, or put a stand-in where a required one is missing."""
    loc = detail["loc"]
    try:
        for part in loc[:-1]:
            data = data[part]
        if detail["type"] == "missing":
            if loc[-1] in STAND_INS:
                data[loc[-1]] = deepcopy(STAND_INS[str(loc[-1])])
        else:
            del data[loc[-1]]
    except (KeyError, IndexError, TypeError):
        return


def _each[T: BaseModel](name: str, data: Any, model: type[T]) -> tuple[dict[str, T], list[Problem]]:
    """Validate a mapping of named things one by one."""
    if not isinstance(data, Mapping):
        return {}, [problem("INV-004", name, data, expected=_TYPES["dict"][0], expected_zh=_TYPES["dict"][1])]
    if not data:
        return {}, [problem("INV-006", name, data, expected="not empty", expected_zh="不为空")]
    whole: dict[str, T] = {}
    problems: list[Problem] = []
    for key, value in data.items():
        item, found = salvage(model, value, (name, str(key)))
        problems += found
        if item is not None:
            whole[str(key)] = item
    return whole, problems


class Parsed(BaseModel):
    """The parts of the contract that could be read. Missing parts have been reported."""

    models: dict[str, Model] = {}
    services: dict[str, Service] = {}
    gateway: Gateway | None = None
    vllm_version: str | None = None
    shared_runtimes: bool = False
    #: Services whose port is a stand-in.
    without_port: frozenset[str] = frozenset()
    #: Names that were declared at all, even where the declaration is faulty: no second complaint about them.
    declared_models: frozenset[str] = frozenset()


def parse(variables: Mapping[str, Any]) -> tuple[Parsed, list[Problem]]:
    """Read the contract from plain data; report everything that is wrong with its shape."""
    problems: list[Problem] = []
    models: dict[str, Model] = {}
    services: dict[str, Service] = {}
    gateway: Gateway | None = None
    for name in ("fleet_models", "fleet_services", "fleet_gateway"):
        if variables.get(name) is None:
            problems.append(problem("INV-002", name, None, name=name))
    declared = variables.get("fleet_models")
    if declared is not None:
        models, found = _each("fleet_models", declared, Model)
        problems += found
    if variables.get("fleet_services") is not None:
        services, found = _each("fleet_services", variables["fleet_services"], Service)
        problems += found
    if variables.get("fleet_gateway") is not None:
        gateway, found = salvage(Gateway, variables["fleet_gateway"], ("fleet_gateway",))
        problems += found
    version, shared = variables.get("fleet_vllm_version"), variables.get("fleet_shared_runtimes", False)
    if version is not None and not isinstance(version, str):
        problems.append(
            problem(
                "INV-004", "fleet_vllm_version", version, expected=_TYPES["string"][0], expected_zh=_TYPES["string"][1]
            )
        )
        version = None
    if not isinstance(shared, bool):
        problems.append(
            problem(
                "INV-004", "fleet_shared_runtimes", shared, expected=_TYPES["bool"][0], expected_zh=_TYPES["bool"][1]
            )
        )
        shared = False
    parsed = Parsed(
        models=models,
        services=services,
        gateway=gateway,
        vllm_version=version,
        shared_runtimes=shared,
        without_port=frozenset(
            n for n in services if any(p.path == path_of(("fleet_services", n, "port")) for p in problems)
        ),
        declared_models=frozenset(str(k) for k in declared) if isinstance(declared, Mapping) else frozenset(),
    )
    return parsed, problems
