"""Shapes of what may differ from host to host: what a host is said to be, its version pins, its storage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .shapes import BackendName, Strict

Count = Annotated[int, Field(ge=1, le=65536)]
VersionText = Annotated[str, Field(min_length=1, max_length=64)]


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

    vllm: VersionText | None = None
    vllm_ascend: VersionText | None = None
    torch: VersionText | None = None
    torch_npu: VersionText | None = None
    cann: VersionText | None = None
    cuda: VersionText | None = None
    python: VersionText | None = None
    dtk: VersionText | None = None
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
