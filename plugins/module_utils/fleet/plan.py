"""The plan as typed data. ``docs/architecture.md`` describes the fields for people; roles rely on the names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from .problems import Problem

Tier = Literal["active", "standby"]


@dataclass(frozen=True)
class Runtime:
    """A locked vLLM environment that the host needs. ``build_host`` fills a shared runtime directory.

    ``lock`` is None where this release has none. What does not belong to the backend is None too.
    """

    id: str
    backend: str
    vllm: str
    python: str | None
    method: str
    lock: str | None
    build_host: str
    torch: str | None = None
    cuda: str | None = None
    driver_min: str | None = None
    vllm_ascend: str | None = None
    torch_npu: str | None = None
    cann: str | None = None
    hdk: str | None = None
    dtk: str | None = None
    image: str | None = None


@dataclass(frozen=True)
class Model:
    """One artifact of one model version, and where it lies on the host."""

    model: str
    version: str
    artifact: str
    source: str
    manifest: str | None
    path: str


@dataclass(frozen=True)
class Memory:
    """What the planner expects of one card (on a CPU: of the host), bytes; of its range ``low`` and ``high``.

    Tokens and ``concurrency`` (requests of full length at the same time) are those of the whole engine.
    """

    weights_bytes: int
    reserve_bytes: int
    kv_cache_bytes: int
    kv_cache_bytes_low: int
    kv_cache_bytes_high: int
    kv_cache_tokens: int
    concurrency: float


@dataclass(frozen=True)
class Engine:
    """One vLLM process group under ``vllm-engine@<name>.service``. Times are seconds, memory is bytes.

    ``served_model_name`` is the name that clients use first, ``replica`` the hosts of the engine in order of rank.
    ``cards`` are the indexes of its accelerators on this host.
    """

    name: str
    service: str
    model: str
    version: str
    served_model_name: str
    model_path: str
    runtime: str
    address: str
    port: int
    settings: dict[str, Any]
    environment: dict[str, str]
    cpus: str | None
    numa_nodes: str | None
    memory_max_bytes: int | None
    cards: list[int]
    replica: list[str]
    memory: Memory | None
    start_timeout_seconds: int
    shutdown_timeout_seconds: int
    stop_timeout_seconds: int
    max_request_seconds: int


@dataclass(frozen=True)
class Server:
    """One engine as a gateway sees it."""

    name: str
    address: str
    port: int
    tier: Tier
    weight: int


@dataclass(frozen=True)
class GatewayService:
    """One service as a gateway sees it: the model names of clients, and who serves them."""

    name: str
    models: list[str]
    servers: list[Server]


@dataclass(frozen=True)
class Gateway:
    """What HAProxy on a gateway host needs."""

    port: int
    metrics_address: str
    metrics_port: int
    check_port: int
    vip_addresses: list[str]
    max_request_seconds: int
    services: list[GatewayService]


@dataclass(frozen=True)
class VipInstance:
    """One VRRP instance. Priorities are distinct on each host."""

    name: str
    virtual_router_id: int
    priority: int
    advert_interval_seconds: float
    addresses: list[str]
    unicast_source: str
    unicast_peers: list[str]
    check_port: int


@dataclass(frozen=True)
class Vip:
    """What keepalived on a gateway host needs."""

    interface: str
    instances: list[VipInstance]


@dataclass(frozen=True)
class Tuning:
    """Settings of a host. ``reasons`` has the reason and the source of each, by sysctl or field without ``_bytes``.

    ``engine_shm_bytes`` is the size of each engine's own /dev/shm, None where it may stay as it is.
    """

    sysctl: dict[str, str]
    thp: dict[str, str] = field(default_factory=dict)
    governor: str | None = None
    reserved_ports: str = ""
    limits: dict[str, str] = field(default_factory=dict)
    engine_shm_bytes: int | None = None
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ScrapeTarget:
    """One endpoint that a Prometheus reads on a host. ``labels`` say whose figures they are."""

    job: str
    address: str
    port: int
    path: str
    labels: dict[str, str]


@dataclass(frozen=True)
class Slice:
    """Everything that one host converges to, and nothing about any other host that it does not need."""

    host: str
    address: str
    groups: list[str]
    tuning: Tuning
    runtimes: list[Runtime] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    gateway: Gateway | None = None
    vip: Vip | None = None
    scrape: list[ScrapeTarget] = field(default_factory=list)
    slice_hash: str = ""
    plan_hash: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def canonical(data: Any) -> str:
    """JSON with one possible spelling: keys sorted, no spaces, no NaN. Hashes are taken over it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any) -> str:
    """``sha256:<hex>`` over the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical(data).encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """The whole fleet. ``warnings`` are advice about the inputs; they are no part of what hosts converge to."""

    slices: dict[str, Slice]
    plan_hash: str
    warnings: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, slices: Mapping[str, Slice], warnings: tuple[Problem, ...] = ()) -> Plan:
        """Hash each slice and the whole, and write the hashes into the slices."""
        hashed: dict[str, Slice] = {}
        for host in sorted(slices):
            bare = replace(slices[host], slice_hash="", plan_hash="")
            hashed[host] = replace(bare, slice_hash=digest(bare.as_dict()))
        plan_hash = digest({host: item.as_dict() for host, item in hashed.items()})
        return cls(
            {host: replace(item, plan_hash=plan_hash) for host, item in hashed.items()},
            plan_hash,
            warnings,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON: what is written to ``plan.json``."""
        return {
            "plan_hash": self.plan_hash,
            "hosts": {host: item.as_dict() for host, item in self.slices.items()},
        }
