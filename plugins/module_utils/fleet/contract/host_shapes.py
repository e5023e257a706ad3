"""Shapes of what may differ from host to host: what a host is said to be, its version pins, its storage."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .shapes import BackendName, Strict

Count = Annotated[int, Field(ge=1, le=65536)]
#: A version of any maker (0.32.0, 2.13.0+cpu, 26.0.RC1, 9.1.0-beta.1), or bounds of such, with commas between them.
_PIN = re.compile(r"\s*(===?|~=|!=|[<>]=?)?\s*v?[0-9][0-9A-Za-z.+\-_]*(\.\*)?\s*", re.IGNORECASE)


def _pin(value: str) -> str:
    """A pin that can match at all: ``latest`` does not, and nor do names, and a lone comma would match everything."""
    parts = value.split(",")
    found = [_PIN.fullmatch(part) for part in parts]
    bounds = all(match is not None and match[1] for match in found)
    if not all(found) or not (bounds or (len(parts) == 1 and "*" not in value)):
        raise PydanticCustomError("version", "a version or a range")
    return value


VersionText = Annotated[str, Field(min_length=1, max_length=64)]
PinText = Annotated[VersionText, AfterValidator(_pin)]


class OperatingSystem(Strict):
    """A system by the names of its /etc/os-release."""

    id: str = Field(description="ID: ubuntu, openeuler, kylin, …", min_length=1)
    version: str = Field(description="VERSION_ID, in quotes.", min_length=1)
    codename: str | None = Field(
        default=None, description="Codename or service pack, where versions share a VERSION_ID: Lance, LTS-SP4, …"
    )


class Cards(Strict):
    """The accelerators of a host: all of one kind."""

    vendor: Literal["nvidia", "huawei", "hygon", "amd"] = Field(description="Who made them.")
    chip: str = Field(
        description="The name that the vendor's tool prints: A100-SXM4-80GB, 910B3, K100_AI, …", min_length=1
    )
    count: int = Field(ge=1, le=64, description="How many the tool lists (an Atlas A3 card counts twice).")
    memory_gib: float = Field(gt=0, le=4096, description="Memory of one, GiB, as the tool prints it.")


class Host(Strict):
    """What a host is said to be. Facts go before it, and where they differ, that is an error.

    It lets `validate` judge versions and memory without asking the host.
    """

    backend: BackendName | None = Field(
        default=None, description="What serves, where the cards leave it open: cuda, ascend, dcu, rocm, cpu."
    )
    os: OperatingSystem | None = Field(default=None, description="The system.")
    arch: Literal["x86_64", "aarch64"] | None = Field(default=None, description="The architecture.")
    cards: Cards | None = Field(default=None, description="The accelerators.")
    cpus: Count | None = Field(default=None, description="Logical CPUs.")
    numa_nodes: Count | None = Field(default=None, description="NUMA nodes.")
    memory_gib: float | None = Field(default=None, gt=0, le=1 << 20, description="Memory, GiB.")
    driver: VersionText | None = Field(default=None, description="NVIDIA's or Hygon's driver.")
    hdk: VersionText | None = Field(default=None, description="Huawei's driver and firmware package.")
    cann: VersionText | None = Field(default=None, description="The installed CANN toolkit.")
    glibc: VersionText | None = Field(default=None, description="The C library, where the system's row does not hold.")
    page_size: Literal[4096, 16384, 65536] | None = Field(default=None, description="Bytes of a memory page.")


class Versions(Strict):
    """Versions of a host's runtime: each a version, or a range such as `>=0.25,<0.30`. Unset: the planner chooses."""

    vllm: PinText | None = None
    vllm_ascend: PinText | None = None
    torch: PinText | None = None
    torch_npu: PinText | None = None
    cann: PinText | None = None
    cuda: PinText | None = None
    python: PinText | None = None
    dtk: PinText | None = None
    methods: list[Literal["wheel", "release_asset", "variant_index", "source", "container"]] | None = Field(
        default=None, description="Ways of installing that may be used.", min_length=1
    )
    prereleases: bool | None = Field(
        default=None, description="true: candidates like releases; false: none; unset: where no release serves."
    )
    unlisted: bool = Field(default=False, description="Take releases of vllm-ascend that its matrix does not list.")


class Mount(Strict):
    """A file system of the network."""

    path: str = Field(description="Where it is mounted, absolute.", min_length=1)
    type: Literal["nfs", "lustre"] = Field(description="NFS 4.1 or Lustre.")
    source: str = Field(description="server:/export, or for Lustre mgs@network:/name.", min_length=1)
    connections: int = Field(default=1, ge=1, le=16, description="nconnect: TCP connections of an NFS mount.")
    rdma: bool = Field(default=False, description="NFS over RDMA.")
    read_only: bool = Field(default=True, description="Models are only read.")


class Cache(Strict):
    """A directory on a local disk that models are copied to before they are loaded."""

    path: str = Field(description="Absolute.", min_length=1)
    min_free_gib: float = Field(default=0, ge=0, description="Must stay free, GiB.")


class Storage(Strict):
    """Where a host has its models from."""

    mounts: list[Mount] = Field(default_factory=list, description="File systems of the network.")
    cache: Cache | None = Field(default=None, description="Local copies, for file systems that are slow to map.")
