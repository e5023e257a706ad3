"""One cgroup (version 2) for each host: what is in it is the host, and writing cgroup.kill ends all of it.

The tree that hosts see has no controllers: limits such as MemoryMax= are accepted in them and not enforced. That is the
price of hosts that start the same way whatever version of cgroups the machine's controllers are in.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sandbox.report import fail
from sandbox.system import wait_until

PARENT = "vllm-fleet-sandbox"
# No bridge can have this name.
BUILDER = ".builder"


def mount_point() -> tuple[Path, bool]:
    """Where version 2 is mounted, and whether it is the machine's only kind."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _source, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place), place == "/sys/fs/cgroup"
    raise fail(
        "cgroups", "no cgroup2 file system is mounted", "hosts need one", "mount -t cgroup2 none /sys/fs/cgroup/unified"
    )


def of_host(bridge: str, host: str) -> Path:
    return mount_point()[0] / PARENT / bridge / host


def processes(group: Path) -> list[int]:
    found: list[int] = []
    for directory in _tree(group):
        with contextlib.suppress(OSError):
            found += [int(word) for word in (directory / "cgroup.procs").read_text(encoding="ascii").split()]
    return found


def _tree(group: Path) -> Iterator[Path]:
    """A group and those below it, deepest first."""
    for directory, _names, _files in os.walk(group, topdown=False):
        yield Path(directory)


def populated(group: Path) -> bool:
    with contextlib.suppress(OSError):
        return "populated 1" in (group / "cgroup.events").read_text(encoding="ascii").splitlines()
    return False


def kill(group: Path, limit: float = 10.0) -> None:
    """SIGKILL of everything in the group, at once, and of nothing else."""
    if not group.exists():
        return
    with contextlib.suppress(FileNotFoundError):
        (group / "cgroup.kill").write_text("1", encoding="ascii")
    if not wait_until(lambda: not populated(group), limit):
        raise fail(str(group), f"processes {processes(group)[:5]}", "end when killed", "look at what they wait for")


def remove(group: Path, limit: float = 2.0) -> None:
    """Groups vanish only when they are empty; one that is not stays."""
    for directory in _tree(group):
        wait_until(partial(_rmdir, directory), limit)


@contextlib.contextmanager
def builder() -> Iterator[None]:
    """Everything that builds images is in one group, so that what an ended command left at work there can be ended.

    The caller holds the lock of the cache: nobody else is in the group by right.
    """
    root = mount_point()[0]
    group = root / PARENT / BUILDER
    kill(group)
    group.mkdir(parents=True, exist_ok=True)
    before = next(
        line[3:].lstrip("/")
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        if line[:3] == "0::"
    )
    _join(group)
    try:
        yield
    finally:
        _join(root / before)
        remove(group)


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def _rmdir(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def memory_bytes(group: Path) -> int:
    """Proportional memory of all processes of the group."""
    total = 0
    for pid in processes(group):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
                    break
    return total


def all_hosts() -> list[tuple[str, str, Path]]:
    """(bridge, host, group) of every group of the sandbox on this machine."""
    parent = mount_point()[0] / PARENT
    if not parent.is_dir():
        return []
    return [
        (bridge.name, host.name, host)
        for bridge in sorted(p for p in parent.iterdir() if p.is_dir() and p.name != BUILDER)
        for host in sorted(p for p in bridge.iterdir() if p.is_dir())
    ]
