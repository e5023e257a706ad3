"""One look at one host, and the small readers that every part of discovery shares.

``root`` lets tests point at a fixture tree.
"""

from __future__ import annotations

# pathlib stays out: the module is to start fast.
import os
import re
from typing import Any, Callable


class Host:
    """One look at one host."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.findings: list[str] = []

    def path(self, name: str) -> str:
        """A path inside the tree."""
        return os.path.join(self.root, name.lstrip("/"))

    def text(self, name: str, default: str | None = None) -> str | None:
        """A file's text without surrounding space, or the default."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return default

    def number(self, name: str) -> int | None:
        """A file's number, or None."""
        text = self.text(name)
        return int(text) if text is not None and re.fullmatch(r"-?[0-9]+", text) else None

    def names(self, name: str) -> list[str]:
        """The entries of a directory, or none."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def link(self, name: str) -> str | None:
        """The last part of what a link points to, or None."""
        try:
            return os.path.basename(os.readlink(self.path(name)))
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        """Whether something is there."""
        return os.path.exists(self.path(name))

    def part(self, name: str, function: Callable[[Host], Any], default: Any = None) -> Any:
        """One piece of the facts; what goes wrong is noted."""
        try:
            return function(self)
        except Exception as error:  # a host may be broken in any way, and must still be described
            self.findings.append(f"{name}: {type(error).__name__}: {error}")
            return default


def parse_list(text: str | None) -> list[int]:
    """CPUs of a kernel list: ``0-3,8`` is 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first:
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def unit_of(cgroup: str) -> str:
    """The systemd unit in the text of /proc/<pid>/cgroup (either version of cgroups)."""
    for line in cgroup.splitlines():
        for part in reversed(line.rpartition(":")[2].split("/")):
            if part.endswith((".service", ".scope")):
                return part.replace("\\x2d", "-")
    return ""


def container_of(cgroup: str) -> str:
    """The first twelve digits of the container's id in the text of /proc/<pid>/cgroup, as docker and podman show it."""
    for line in cgroup.splitlines():
        match = re.search(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])", line.rpartition(":")[2])
        if match:
            return match.group(1)[:12]
    return ""
