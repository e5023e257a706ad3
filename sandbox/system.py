"""Programs, mounts, locks and processes of this machine, each with a limit."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import fcntl
import hashlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.paths import STATE, WORK
from sandbox.report import fail, stage

_CLONE_NEWNS = 0x00020000
_CHROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def run(
    command: Sequence[str | Path],
    *,
    limit: float,
    purpose: str,
    remedy: str = "see the last lines of its output above",
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    check: bool = True,
    nice: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. A failure says what it was for and shows its last words."""
    words = [*(["nice", "-n", "10"] if nice else []), *(str(word) for word in command)]
    sink = log.open("w", encoding="utf-8") if log else None
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=sink or subprocess.PIPE,
            stderr=subprocess.STDOUT if log else subprocess.PIPE,
            text=True,
            errors="replace",
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if sink:
            sink.close()
        raise fail(purpose, words[0], "the program is there", f"install the program {words[0]}") from error
    try:
        out, err = process.communicate(timeout=limit)
    except BaseException as error:
        # Its own session: whatever it started goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise fail(
                purpose, f"{words[0]} took longer than {limit:.0f} s", "ends within its limit", remedy
            ) from error
        raise
    finally:
        if sink:
            sink.close()
    if log:
        out = log.read_text(encoding="utf-8", errors="replace")
    result = subprocess.CompletedProcess(words, process.returncode, out or "", err or "")
    if check and result.returncode != 0:
        last = "\n        ".join((result.stdout + result.stderr).strip().splitlines()[-15:])
        rule = "ends with code 0"
        raise fail(purpose, f"{Path(words[0]).name} ended with code {result.returncode}:\n        {last}", rule, remedy)
    return result


def private_mounts() -> None:
    """Take this process out of the machine's mount namespace.

    Images are put together on overlay mounts. Made here they vanish with this process however it ends, and the machine
    never sees one.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        code = ctypes.get_errno()
        raise fail("mount namespace", os.strerror(code), "root may have its own", "run as root, outside a container")
    run(["mount", "--make-rslave", "/"], limit=10, purpose="mount namespace")


@contextmanager
def overlay(lower: Sequence[Path], upper: Path, merged: Path) -> Iterator[Path]:
    work = upper.with_name(upper.name + ".work")
    for directory in (upper, work, merged):
        directory.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", "overlay", "-o", options, merged], limit=30, purpose="mount of an overlay")
    try:
        yield merged
    finally:
        run(["umount", "-R", merged], limit=60, purpose="unmount of an overlay")
        remove(work)


@contextmanager
def chroot_mounts(root: Path, binds: Mapping[Path, str] | None = None) -> Iterator[None]:
    """What programs in a root expect: /proc, a small /dev, /tmp, and the binds asked for."""

    def mount(*words: str | Path) -> None:
        run(["mount", *words], limit=30, purpose=f"mount in {root}")

    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for name, device in {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}.items():
        node = root / "dev" / name
        os.mknod(node, 0o666 | 0o020000, os.makedev(*device))
        node.chmod(0o666)
    (root / "dev" / "fd").symlink_to("/proc/self/fd")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", root / "tmp")
    for source, target in (binds or {}).items():
        place = root / target.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        mount("--bind", source, place)
    try:
        yield
    finally:
        for place in [
            *(root / t.lstrip("/") for t in reversed(list((binds or {}).values()))),
            root / "tmp",
            root / "dev",
            root / "proc",
        ]:
            run(["umount", "-l", place], limit=30, purpose=f"unmount in {root}", check=False)


def chroot(root: Path, command: Sequence[str], *, limit: float, purpose: str, nice: bool = True) -> str:
    env = {
        "PATH": _CHROOT_PATH,
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
        # Builds must not depend on the day.
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    return run(["chroot", root, *command], limit=limit, purpose=purpose, env=env, nice=nice).stdout


def remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        # Overlay work directories are mode 000: only root's rmtree gets through, and it does.
        shutil.rmtree(path)


@contextmanager
def fresh(target: Path) -> Iterator[Path]:
    """A directory that appears under its name only when it is complete."""
    WORK.mkdir(parents=True, exist_ok=True)
    building = WORK / f"{target.name}.{os.getpid()}"
    remove(building)
    building.mkdir()
    try:
        yield building
        target.parent.mkdir(parents=True, exist_ok=True)
        old = WORK / f"{target.name}.{os.getpid()}.old"
        remove(old)
        if target.exists():
            target.rename(old)
        building.rename(target)
        remove(old)
    finally:
        remove(building)


def recipe_hash(*parts: Any) -> str:
    """Hash of what defines a thing: data as it is, functions by their code without layout and comments."""

    def plain(part: Any) -> Any:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(part)))) if callable(part) else part

    text = json.dumps([plain(part) for part in parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sha256_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.chmod(mode)
    part.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """A state file, or None where there is none or an interrupted writer left it unreadable."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


@contextmanager
def lock(name: str, limit: float = 1800.0) -> Iterator[None]:
    """One sandbox command at a time for what the name stands for."""
    STATE.mkdir(parents=True, exist_ok=True)
    path = STATE / f".lock-{name}"
    with path.open("a+", encoding="utf-8") as stream:
        begin = time.monotonic()
        said = 0.0
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - begin
                stream.seek(0)
                owner = stream.read().strip() or "unknown"
                if waited > limit:
                    raise fail(
                        f"lock {path}",
                        f"held by process {owner} for {waited:.0f} s",
                        "is free within the limit",
                        "wait for that command, or end it",
                    ) from None
                if waited - said > 10:
                    said = waited
                    stage(f"waiting for another sandbox command (process {owner})")
                time.sleep(0.1)
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def wait_until(condition: Callable[[], bool], limit: float, step: float = 0.05) -> bool:
    end = time.monotonic() + limit
    while True:
        if condition():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(step)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_time(pid: int) -> int | None:
    """When a process began, in ticks: with the boot id this tells it from a later one with the same number."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])
