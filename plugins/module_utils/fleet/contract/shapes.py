"""Shapes of what holds for the whole fleet: models, services, the gateway."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Port = Annotated[int, Field(ge=1, le=65535)]
#: Characters of one variable of the environment: a quarter of the bytes that Linux takes (MAX_ARG_STRLEN, 128 KiB).
ENVIRONMENT_LENGTH = 32768
BackendName = Literal["cuda", "ascend", "dcu", "rocm", "cpu"]


class Strict(BaseModel):
    """No unknown keys and no silent conversion: ``"8000"`` is not a port."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _address(value: str) -> str:
    """An address that can be taken apart, so that nothing after this fails for it."""
    try:
        urlsplit(value)
    except ValueError:
        raise PydanticCustomError("address", "an address") from None
    return value


def _path_or_mapping(value: Any) -> Any:
    """A path or a mapping. A union of both would report each branch by itself."""
    if value is None or (isinstance(value, str) and value) or isinstance(value, dict):
        return value
    raise PydanticCustomError("path_or_mapping_type", "a path or a mapping")


class Artifact(Strict):
    """One set of files of a model version."""

    source: Annotated[str, AfterValidator(_address)] = Field(
        description="Where the files are: file:///absolute/path on the controller, nfs://mount/path,"
        " hf://owner/name@revision, modelscope://owner/name@revision or https://host/path/.",
        min_length=1,
    )
    manifest: str | None = Field(
        default=None, description="sha256 of the manifest of all files, 64 hexadecimal digits."
    )
    quantization: str | None = Field(
        default=None,
        description="Scheme of the checkpoint, where its config.json does not say it: fp8, awq, gptq, w8a8, ascend, …",
        min_length=1,
    )
    config: Annotated[Any, BeforeValidator(_path_or_mapping)] = Field(
        default=None,
        description="The model's config.json, where the files are elsewhere: a path beside the inventory, or its keys"
        " written here. Without it, and without the files, nothing can be said about memory.",
        json_schema_extra={"type": ["string", "object", "null"]},
    )


class ModelVersion(Strict):
    """One immutable version of a model."""

    artifacts: dict[str, Artifact] = Field(
        description="By backend (cuda, ascend, dcu, rocm, cpu); `default` serves every backend that has none of its"
        " own.",
        min_length=1,
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
    model: str | None = Field(
        default=None, description="Another name of fleet_models than the service's: standby models, say.", min_length=1
    )
    version: str | None = Field(
        default=None, description="A version of the model, in quotes; the service's unless given.", min_length=1
    )
    max_model_len: int | None = Field(
        default=None, ge=1, description="Longest prompt plus answer here, tokens; the service's unless given."
    )
    tensor_parallel: int = Field(
        default=1, ge=1, le=1024, description="Accelerators that share each layer (on a CPU: 1)."
    )
    pipeline_parallel: int = Field(default=1, ge=1, le=256, description="Stages that the layers are divided over.")
    data_parallel: int = Field(default=1, ge=1, le=1024, description="Ranks that each hold the attention layers.")
    expert_parallel: bool = Field(default=False, description="Experts are divided by number instead of by width.")
    hosts_per_replica: int = Field(
        default=1, ge=1, le=64, description="Hosts that one engine spans; the group's hosts in order of their names."
    )
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
    environment: dict[str, Annotated[str, Field(max_length=ENVIRONMENT_LENGTH)]] = Field(
        default_factory=dict, description="Environment of the engines."
    )

    @property
    def cards_per_engine(self) -> int:
        """Accelerators of one engine, over all its hosts."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


class Service(Strict):
    """What clients see as one service."""

    model: str = Field(description="A name of fleet_models.", min_length=1)
    version: str = Field(description="A version of that model, in quotes.", min_length=1)
    served_model_name: str | None = Field(
        default=None, description="The name that clients use; the model's own name unless given.", min_length=1
    )
    max_model_len: int = Field(ge=1, description="Longest prompt plus answer, tokens.")
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Requests of full length that each engine must hold at the same time; unset: at least one.",
    )
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
        default=0.2, ge=0.01, le=40.0, description="VRRP advertisement interval, seconds."
    )
