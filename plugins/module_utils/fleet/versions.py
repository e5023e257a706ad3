"""The version matrix: which sets exist, and whether one fits a host. Data is in ``data/``, each row with its source."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .facts import HostFacts
from .problems import Problem, problem

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class VersionSet:
    """One row: what is installed together. ``page_sizes`` are bytes; empty means any."""

    id: str
    backend: str
    arch: str
    vllm: str
    python: str
    glibc: str
    lock: str
    page_sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """All sets, and what systems are refused or were tried."""

    sets: tuple[VersionSet, ...]
    refused_systems: tuple[Mapping[str, str], ...] = ()
    tried_systems: tuple[Mapping[str, str], ...] = ()

    @property
    def newest_vllm(self) -> str:
        """The highest vLLM version that any set has."""
        return max((s.vllm for s in self.sets), key=version_key)

    def choose(self, backend: str, arch: str, vllm: str) -> VersionSet | None:
        """The set for a kind of host, or None. Of several, the one with the newest Python."""
        fitting = [s for s in self.sets if (s.backend, s.arch, s.vllm) == (backend, arch, vllm)]
        return max(fitting, key=lambda s: version_key(s.python), default=None)


def version_key(text: str) -> tuple[int, ...]:
    """A version for comparing: the numbers of its parts; what is no number counts as 0."""
    return tuple(int(p) if p.isdigit() else 0 for p in text.split("+")[0].split("."))


def load_matrix(data: Path = DATA) -> Matrix:
    """Read the matrix from the data folder. Raises OSError or KeyError where the product's own data is damaged."""
    raw: dict[str, Any] = yaml.safe_load((data / "version_sets.yml").read_text(encoding="utf-8"))
    return Matrix(
        sets=tuple(
            VersionSet(
                **{k: row[k] for k in ("id", "backend", "arch", "vllm", "python", "glibc", "lock")},
                page_sizes=tuple(row["page_sizes"]),
            )
            for row in raw["sets"]
        ),
        refused_systems=tuple(raw["refused_systems"]),
        tried_systems=tuple(raw["tried_systems"]),
    )


def check_system(host: str, facts: HostFacts, matrix: Matrix) -> list[Problem]:
    """Whether the operating system can be used at all."""
    path, name = f"hosts.{host}", facts.os_name or facts.os_id
    if facts.os_id == "kylin" and ("debian" in facts.os_like or "server" not in name.lower()):
        # Both editions call themselves kylin V10; the server's name says Server, the desktop is like Debian.
        return [_desktop(path, name)]
    for row in matrix.refused_systems:
        if facts.os_id == row["id"] and facts.os_version.startswith(row["version"]):
            return [
                problem(
                    "HOST-002",
                    path,
                    name,
                    os=name,
                    reason=row["reason"],
                    reason_zh=row["reason_zh"],
                    instead=row["instead"],
                    instead_zh=row["instead_zh"],
                )
            ]
    for row in matrix.tried_systems:
        if facts.os_id == row["id"] and facts.os_version.startswith(row["version"]):
            return []
    known = ", ".join(f"{row['id']} {row['version']}" for row in matrix.tried_systems)
    return [problem("HOST-010", path, name, os=name or "an unknown system", known=known)]


def _desktop(path: str, name: str) -> Problem:
    return problem(
        "HOST-002",
        path,
        name,
        os=name,
        reason="it is the desktop edition, whose packages differ from the server's",
        reason_zh="这是桌面版，其软件包与服务器版不同",
        instead="install the server edition (Kylin Linux Advanced Server)",
        instead_zh="请安装服务器版（银河麒麟高级服务器操作系统）",
    )


def check_set(host: str, facts: HostFacts, row: VersionSet) -> list[Problem]:
    """Whether a set fits a host: glibc and page size. Unknown facts are not held against the host."""
    found = []
    if facts.glibc and version_key(facts.glibc) < version_key(row.glibc):
        found.append(problem("HOST-004", f"hosts.{host}.glibc", facts.glibc, set=row.id, needed=row.glibc))
    if row.page_sizes and facts.page_size is not None and facts.page_size not in row.page_sizes:
        needed = " / ".join(map(str, row.page_sizes))
        found.append(problem("HOST-005", f"hosts.{host}.page_size", facts.page_size, set=row.id, needed=needed))
    return found
