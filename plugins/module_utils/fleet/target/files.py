"""Writing files so that no reader, and no power cut, ever sees half of one."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any


def read_text(path: str) -> str | None:
    """The text of a file, or None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON object, or None where there is none or it is not readable as one."""
    try:
        data = json.loads(read_text(path) or "")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def mode_of(path: str) -> int | None:
    """The permission bits of a path itself, or None where it does not exist."""
    try:
        return os.lstat(path).st_mode & 0o7777
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_text(path: str, text: str, mode: int) -> None:
    """Replace a file in one step. It has its mode before it has its name."""
    folder = os.path.dirname(path)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_json(path: str, data: Any, mode: int = 0o644) -> None:
    write_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n", mode)


def make_folders(path: str, mode: int = 0o755) -> None:
    """Make a directory and its missing parents, each with this mode whatever the umask."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)
        os.chmod(folder, mode)


def link_target(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def point_link(path: str, target: str) -> None:
    """Point a symbolic link at a target in one step, whether it existed or not."""
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    os.symlink(target, temporary)
    try:
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def closed_folder(path: str, uid: int, gids: list[int]) -> str | None:
    """The first directory on the way to a path that this user may not pass, following links; None if there is none."""
    seen = set()
    todo = [path]
    while todo:
        current = os.path.abspath(todo.pop())
        if current in seen:
            continue
        seen.add(current)
        parts = current.split(os.sep)
        for end in range(2, len(parts)):
            folder = os.sep.join(parts[:end])
            if os.path.islink(folder):
                todo.append(os.path.join(os.path.dirname(folder), os.readlink(folder), *parts[end:]))
                break
            info = os.stat(folder)
            wanted = 0o100 if info.st_uid == uid else 0o010 if info.st_gid in gids else 0o001
            if not info.st_mode & wanted:
                return folder
        else:
            if os.path.islink(current):
                todo.append(os.path.join(os.path.dirname(current), os.readlink(current)))
    return None
