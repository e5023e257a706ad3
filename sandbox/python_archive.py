"""A CPython that runs from any directory, for hosts whose own Python is too old: the base's, packed.

Hosts of all kinds share the base's C library and libraries, so that nothing else has to come along. On a real site this
is the archive of the site's choice.
"""

from __future__ import annotations

import gzip
import platform
import tarfile
from pathlib import Path

from sandbox import paths
from sandbox.report import stage
from sandbox.system import fresh, recipe_hash, run, sha256_file

VERSION = "3.11"
_LEFT_OUT = ("/__pycache__/", "/test/", "/idlelib/", "/tkinter/", "/lib2to3/", "/config-3.11-", "/EXTERNALLY-MANAGED")


def name() -> str:
    return f"cpython-{VERSION}-{platform.machine()}.tar.gz"


def members(root: Path) -> list[tuple[str, Path]]:
    """(name in the archive, file of the base)"""
    library = root / "usr/lib" / f"python{VERSION}"
    found = [(f"python/bin/python{VERSION}", root / "usr/bin" / f"python{VERSION}")]
    for file in sorted(library.rglob("*")):
        inside = f"python/lib/python{VERSION}/{file.relative_to(library)}"
        if (file.is_file() or file.is_symlink()) and not any(part in inside for part in _LEFT_OUT):
            found.append((inside, file))
    return found


def pack(root: Path, target: Path) -> None:
    """The same bytes for the same files: order, owner and times are fixed."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for inside, file in members(root):
            # Links out of the tree (sitecustomize) would lead nowhere on a host.
            actual = file
            if file.is_symlink():
                link = file.readlink()
                actual = root / str(link).lstrip("/") if link.is_absolute() else file.parent / link
                if not actual.is_file():
                    continue
            info = tarfile.TarInfo(inside)
            info.size = actual.stat().st_size
            info.mode = 0o755 if actual.stat().st_mode & 0o100 else 0o644
            info.mtime = 1700000000
            with actual.open("rb") as stream:
                archive.addfile(info, stream)
        for alias in ("python3", "python"):
            info = tarfile.TarInfo(f"python/bin/{alias}")
            info.type, info.linkname, info.mtime = tarfile.SYMTYPE, f"python{VERSION}", 1700000000
            archive.addfile(info)


def ensure(base: Path) -> None:
    target = paths.SHARE / "python"
    mark = recipe_hash(base.name, members, pack, _LEFT_OUT, VERSION)
    stamp = target / ".recipe"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        stage("python archive: from cache")
        return
    with fresh(target) as building:
        building.chmod(0o755)
        archive = building / name()
        pack(base / "root", archive)
        _prove(archive, building.with_name(f"{building.name}.try"))
        (building / f"{name()}.sha256").write_text(f"{sha256_file(archive)}  {name()}\n", encoding="ascii")
        (building / ".recipe").write_text(mark, encoding="ascii")
    stage(f"python archive: {target / name()}")


def _prove(archive: Path, place: Path) -> None:
    """It unpacks, and is whole."""
    place.mkdir()
    try:
        run(["tar", "-xzf", archive, "-C", place], limit=60, purpose="the Python archive")
        if not (place / "python/lib" / f"python{VERSION}/os.py").is_file():
            raise AssertionError("the archive has no standard library")
    finally:
        run(["rm", "-rf", place], limit=60, purpose="the Python archive")
