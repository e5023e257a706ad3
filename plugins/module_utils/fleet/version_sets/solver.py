"""Choose one version set for a host, or refuse with every broken link and the nearest legal sets.

    solve({"os_id": "ubuntu", "os_version": "22.04", "arch": "x86_64", ...}, {"vllm": "0.33.0"}) ->
    VersionSet | Refusal

Pure and deterministic: the same facts, wishes and matrix give the same answer. Every set that the matrix
can form (candidates.py) is compared with the host (links). A legal set has no broken link; the best of
them is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from packaging.version import Version

from .candidates import PYTHONS, Candidate, candidates
from .compare import package_version, vendor_version
from .facts import BACKENDS, METHODS, HostFacts, Wanted
from .links import (
    ASKED,
    BROKEN,
    SYSTEM_RULES,
    UNKNOWN,
    WARN,
    Host,
    Link,
    Move,
    check,
    hdk_of,
    look_at,
)
from .links.pins import belongs, meets, pin_links
from .matrix import Matrix, OsRow, Row, load_matrix

NEAREST = 5
# What a change costs an operator; pins are cheap (links/pins.py), a driver is a maintenance window, a system is a
# reinstallation.
BACKEND_COST = 30.0
OS_COST, OTHER_OS_COST = 10.0, 20.0
# Kinds of installing in the order in which they are taken: what pip installs, what is built, what brings
# its own world.
METHOD_CLASS = {"wheel": 0, "release_asset": 0, "variant_index": 1, "source": 1, "container": 2}
ARCHES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Evidence:
    """A row that a set rests on."""

    source: str
    confidence: str


@dataclass(frozen=True)
class VersionSet:
    """One legal set. None where a part does not belong to the backend, or where an image brings it.

    driver_min and hdk say what the host has to have; hdk is the one that it has, or the one to install.
    """

    backend: str
    arch: str
    vllm: str
    method: str
    channel: str
    python: str | None
    torch: str | None
    cuda: str | None
    driver_min: str | None
    vllm_ascend: str | None
    prerelease: bool
    cann: str | None
    torch_npu: str | None
    triton_ascend: str | None
    hdk: str | None
    soc: str | None
    soc_version: str | None
    dtk: str | None
    rocm: str | None
    image: str | None
    glibc_min: str | None
    runtime_id: str
    warnings: tuple[Link, ...]
    evidence: tuple[Evidence, ...]

    @property
    def certain(self) -> bool:
        """Whether nothing about the set is uncertain."""
        return not self.warnings

    def as_dict(self) -> dict[str, Any]:
        """The set as plain values, for JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("warnings", "evidence")}
        plain["warnings"] = [_plain_link(link) for link in self.warnings]
        plain["evidence"] = [{"source": e.source, "confidence": e.confidence} for e in self.evidence]
        return plain


@dataclass(frozen=True)
class Nearest:
    """A legal set that some moves away from what was asked; facts and wanted are those after the moves."""

    moves: tuple[Move, ...]
    set: VersionSet
    facts: HostFacts
    wanted: Wanted
    cost: float


@dataclass(frozen=True)
class Refusal:
    """Why there is no set.

    closest: the set that the broken links are of, as near to what was asked as the matrix has.
    """

    broken: tuple[Link, ...]
    warnings: tuple[Link, ...]
    closest: str
    nearest: tuple[Nearest, ...]

    def as_dict(self) -> dict[str, Any]:
        """The refusal as plain values, for JSON."""
        return {
            "broken": [_plain_link(link) for link in self.broken],
            "warnings": [_plain_link(link) for link in self.warnings],
            "closest": self.closest,
            "nearest": [
                {"moves": [_plain_move(m) for m in n.moves], "set": n.set.as_dict(), "cost": n.cost}
                for n in self.nearest
            ],
        }


def _plain_move(move: Move) -> dict[str, Any]:
    return {"kind": move.kind, "what": move.what, "from": move.was, "to": move.to, "steps": move.steps}


def _plain_link(link: Link) -> dict[str, Any]:
    names = ("code", "rule", "level", "have", "need", "text", "source", "confidence")
    return {name: getattr(link, name) for name in names}


def solve(
    host_facts: HostFacts | Mapping[str, Any],
    wanted: Wanted | Mapping[str, Any] | None = None,
    matrix: Matrix | None = None,
) -> VersionSet | Refusal:
    """The best legal set for a host, or a refusal. Raises ValueError for a wish that is none (an unknown
    pin).

    Hosts with the same facts share one computation, so a fleet costs as much as it has kinds of hosts.
    """
    facts = host_facts if isinstance(host_facts, HostFacts) else HostFacts.from_mapping(host_facts)
    wish = wanted if isinstance(wanted, Wanted) else Wanted.from_mapping(wanted or {})
    return _solve(facts.alike(), wish, matrix or load_matrix())


@lru_cache(maxsize=4096)
def _solve(facts: HostFacts, wanted: Wanted, matrix: Matrix) -> VersionSet | Refusal:
    host = look_at(facts, matrix)
    found = _legal(host, wanted, matrix)
    return found if found is not None else _refuse(host, wanted, matrix)


def backend_of(host: Host, wanted: Wanted) -> str | None:
    """The backend asked for, or the one of the host's cards.

    None where cards of several makers leave it open.
    """
    if wanted.backend:
        return wanted.backend
    if not host.backends:
        return "cpu"
    return host.backends[0] if len(host.backends) == 1 else None


def _candidates(host: Host, backend: str, matrix: Matrix) -> tuple[Candidate, ...]:
    arch = host.facts.arch
    if arch not in ARCHES:
        return ()
    return candidates(backend, arch, host.soc.soc if host.soc and backend == "ascend" else None, matrix)


def _representatives(host: Host, backend: str, wanted: Wanted, matrix: Matrix) -> list[Candidate]:
    """One candidate of those that differ by their Python only.

    The first that is the one asked for, or the first.
    """
    found: dict[tuple[str | None, ...], Candidate] = {}
    for candidate in _candidates(host, backend, matrix):
        key = (candidate.vllm, candidate.vllm_ascend, candidate.channel, candidate.method, candidate.image)
        have = found.get(key)
        fits = wanted.python and candidate.python and meets(candidate.python, wanted.python)
        if have is None or (fits and not meets(have.python or "", wanted.python or "")):
            found[key] = candidate
    return list(found.values())


# --- choosing


def _preference(host: Host, candidate: Candidate) -> tuple[Any, ...]:
    """Smaller is better: releases before candidates, what pip installs before images, then the newest.

    A CANN that is installed already decides between sets that are otherwise alike.
    """
    installed = candidate.cann is not None and candidate.cann.lower() in (v.lower() for v in host.facts.cann_versions)
    first, second = _own_preference(candidate)
    return (*first, not installed, *second)


@lru_cache(maxsize=16384)
def _own_preference(candidate: Candidate) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    release = Version(candidate.vllm).release
    plugin = Version(candidate.vllm_ascend) if candidate.vllm_ascend else Version("0")
    return (
        not candidate.listed,
        candidate.prerelease,
        METHOD_CLASS[candidate.method],
        tuple(-n for n in release) + (0,) * (4 - len(release)),
        METHODS.index(candidate.method),
    ), (
        tuple(-n for n in (*plugin.release, plugin.post or 0, (plugin.pre or ("", 0))[1])),
        tuple(-int(n) for n in (candidate.cuda or "0").split(".")),
        PYTHONS.index(candidate.python) if candidate.python in PYTHONS else len(PYTHONS),
        candidate.runtime_id,
    )


def _legal(host: Host, wanted: Wanted, matrix: Matrix) -> VersionSet | None:
    backend = backend_of(host, wanted)
    if backend is None:
        return None
    mine = [c for c in _candidates(host, backend, matrix) if not pin_links(c, wanted, matrix)]
    for candidate in sorted(mine, key=lambda c: _preference(host, c)):
        links = check(host, candidate, wanted, matrix)
        if all(link.level == WARN for link in links):
            return _version_set(host, candidate, links, matrix)
    return None


def _version_set(host: Host, candidate: Candidate, links: Iterable[Link], matrix: Matrix) -> VersionSet:
    floor = matrix.driver_floor(candidate.cuda) if candidate.cuda else None
    hdk_row = matrix.cann_hdk_row(candidate.cann) if candidate.cann else None
    rows: list[Row] = [*candidate.rows, *([floor] if floor else []), *([hdk_row] if hdk_row else [])]
    is_ascend = candidate.backend == "ascend"
    return VersionSet(
        backend=candidate.backend,
        arch=candidate.arch,
        vllm=candidate.vllm,
        method=candidate.method,
        channel=candidate.channel,
        python=candidate.python,
        torch=candidate.torch,
        cuda=candidate.cuda,
        driver_min=floor.driver_min if floor else None,
        vllm_ascend=candidate.vllm_ascend,
        prerelease=candidate.prerelease,
        cann=candidate.cann,
        torch_npu=candidate.torch_npu,
        triton_ascend=candidate.triton_ascend,
        soc=candidate.soc,
        dtk=candidate.dtk,
        rocm=candidate.rocm,
        hdk=(hdk_of(host) or (hdk_row.paired if hdk_row else None)) if is_ascend else None,
        soc_version=host.soc.soc_version if is_ascend and host.soc else None,
        image=candidate.image,
        glibc_min=candidate.glibc if candidate.method != "container" else None,
        runtime_id=candidate.runtime_id,
        warnings=tuple(links),
        evidence=tuple(dict.fromkeys(Evidence(r.source, r.confidence) for r in rows)),
    )


# --- refusing


def _refuse(host: Host, wanted: Wanted, matrix: Matrix) -> Refusal:
    backend = backend_of(host, wanted)
    if host.facts.arch not in ARCHES:
        have, need = host.facts.arch or UNKNOWN, " / ".join(ARCHES)
        params = (("arch", have), ("need", need))
        link = Link("arch", "SET-022", BROKEN, have, need, params, "package index", "high")
        return Refusal((link,), (), "none", ())
    if backend is None:
        have = ", ".join(host.backends)
        link = Link("backend", "SET-024", BROKEN, have, "one backend", (("backends", have),), ASKED, "high")
        return Refusal((link,), (), "none", _nearest(host, wanted, matrix))
    broken, warnings, closest = _closest(host, backend, wanted, matrix)
    return Refusal(broken, warnings, closest, _nearest(host, wanted, matrix))


def _closest(
    host: Host, backend: str, wanted: Wanted, matrix: Matrix
) -> tuple[tuple[Link, ...], tuple[Link, ...], str]:
    """The broken links of the set that comes nearest to what was asked.

    Pins weigh most, the vLLM among them first.
    """
    best: tuple[tuple[Any, ...], Candidate, list[Link], tuple[Link, ...]] | None = None
    for candidate in _representatives(host, backend, wanted, matrix):
        pins = pin_links(candidate, wanted, matrix)
        links = check(host, candidate, wanted, matrix)
        broken = sum(1 for link in links if link.level == BROKEN)
        far = sum(link.move.cost for link in pins if link.move and link.code == "pin-vllm")
        key = (
            far,
            sum(1 for p in pins if p.code == "pin-vllm-ascend"),
            len(pins),
            broken,
            _preference(host, candidate),
        )
        if best is None or key < best[0]:
            best = (key, candidate, pins, links)
    if best is None:
        arch = host.facts.arch or ""
        params = (("arch", arch), ("backend", backend))
        link = Link("arch", "SET-023", BROKEN, arch, "another architecture", params, "the matrix", "high")
        return (link,), (), "none"
    _, candidate, pins, links = best
    broken_links = (*pins, *(link for link in links if link.level == BROKEN))
    return broken_links, tuple(link for link in links if link.level == WARN), candidate.runtime_id


def _nearest(host: Host, wanted: Wanted, matrix: Matrix) -> tuple[Nearest, ...]:
    """Legal sets a few moves away, the cheapest first; none needs all the moves of another and more."""
    asked = backend_of(host, wanted)
    ways: dict[tuple[str, ...], tuple[tuple[Any, ...], tuple[Move, ...]]] = {}
    for backend in dict.fromkeys(b for b in (asked, *host.backends, "cpu") if b):
        for candidate in _representatives(host, backend, wanted, matrix):
            moves = _ways(host, candidate, backend, asked, wanted, matrix)
            if not moves:
                continue
            key = (*_direction(moves), "candidate" if candidate.prerelease else "")
            rank = (round(sum(m.cost for m in moves), 3), _preference(host, candidate))
            if key not in ways or rank < ways[key][0]:
                ways[key] = (rank, moves)
    found: list[Nearest] = []
    for rank, moves in sorted(ways.values(), key=lambda way: way[0]):
        changed = _changed(moves)
        if any(n.moves == moves or _changed(n.moves) < changed for n in found):
            continue
        facts, wish = apply(host.facts, wanted, moves)
        answer = _legal(look_at(facts, matrix), wish, matrix)
        if answer is not None:
            found.append(Nearest(moves, answer, facts, wish, rank[0]))
        if len(found) == NEAREST:
            break
    return tuple(found)


def _changed(moves: tuple[Move, ...]) -> set[str]:
    """What is changed; another method, system or backend is another change each."""
    return {f"{m.what} {m.to}" if m.what in ("method", "os", "backend") else m.what for m in moves}


def _direction(moves: tuple[Move, ...]) -> tuple[str, ...]:
    """What is moved, and for versions which way, so that one proposal back and one forward remain."""
    parts = []
    for move in moves:
        was, to = package_version(move.was), package_version(move.to)
        way = "" if was is None or to is None else "up" if to > was else "down"
        parts.append(f"{move.what}{move.to if move.what in ('method', 'backend') else way}")
    return tuple(sorted(parts))


def _ways(
    host: Host, candidate: Candidate, backend: str, asked: str | None, wanted: Wanted, matrix: Matrix
) -> tuple[Move, ...]:
    """The moves that make a set legal; empty where none do."""
    moves: list[Move] = []
    if backend != asked:
        # The same wish on another backend: pins that mean nothing there fall away with it.
        gone: list[tuple[str, object]] = [("backend", backend)]
        gone += [
            (n, None)
            for n in ("vllm_ascend", "torch_npu", "cann", "cuda", "dtk")
            if getattr(wanted, n) and not belongs(n, backend)
        ]
        moves.append(Move("pin", "backend", asked or "open", backend, 1, BACKEND_COST if asked else 1.0, tuple(gone)))
        wanted = replace(wanted, **dict(gone))  # type: ignore[arg-type]
    for link in pin_links(candidate, wanted, matrix):
        if link.move is None:
            return ()
        moves.append(link.move)
    other_os = False
    for link in check(host, candidate, wanted, matrix):
        if link.level != BROKEN:
            continue
        if link.needs_other_os:
            other_os = True
        elif link.move is None:
            return ()
        else:
            moves.append(link.move)
    moves = _one_each(moves)
    if other_os:
        facts, wish = apply(host.facts, wanted, moves)
        target = _other_os(host, facts, candidate, wish, matrix)
        if target is None:
            return ()
        moves.append(target)
    return tuple(sorted(moves, key=lambda m: (m.kind, m.what)))


def _one_each(moves: list[Move]) -> list[Move]:
    """One move a thing; of two HDKs the newer."""
    kept: dict[str, Move] = {}
    for move in moves:
        have = kept.get(move.what)
        if have is None or (vendor_version(move.to) or ()) > (vendor_version(have.to) or ()):
            kept[move.what] = move
    return list(kept.values())


def _other_os(host: Host, facts: HostFacts, candidate: Candidate, wanted: Wanted, matrix: Matrix) -> Move | None:
    """The nearest system on which a set is legal: a newer release of the same one before another."""
    mine = (facts.os_id or "").lower()
    best: tuple[tuple[Any, ...], Move] | None = None
    for os in matrix.systems:
        usable = os.at_end is None and os.firm and "glibc" not in os.unsure and os.glibc
        if os is host.os or not usable:
            continue
        changed = _with_os(facts, os)
        links = check(look_at(changed, matrix), candidate, wanted, matrix, SYSTEM_RULES)
        if all(link.level == WARN for link in links):
            was = host.os.name if host.os else facts.os_id or "unknown"
            pairs = tuple((name, getattr(changed, name)) for name in _OS_FIELDS)
            move = Move("host", "os", was, os.name, 1, OS_COST if os.id == mine else OTHER_OS_COST, pairs)
            key = (move.cost, len(links), [-int(n) for n in (os.glibc or "0").split(".")], os.name)
            if best is None or key < best[0]:
                best = (key, move)
    return best[1] if best else None


_OS_FIELDS = ("os_id", "os_version", "os_codename", "glibc", "python")


def _with_os(facts: HostFacts, os: OsRow) -> HostFacts:
    return replace(facts, os_id=os.id, os_version=os.version, os_codename=os.codename, glibc=os.glibc, python=os.python)


def apply(facts: HostFacts, wanted: Wanted, moves: Iterable[Move]) -> tuple[HostFacts, Wanted]:
    """Facts and wishes after moves: what solve() is given to get the set of a Nearest."""
    for move in moves:
        changes: dict[str, Any] = dict(move.fields)
        if move.kind == "pin":
            wanted = replace(wanted, **changes)
        else:
            facts = replace(facts, **changes)
    return facts, wanted


__all__ = ["BACKENDS", "Evidence", "Nearest", "Refusal", "VersionSet", "apply", "solve"]
