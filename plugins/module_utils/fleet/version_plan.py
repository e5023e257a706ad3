"""Which version set each host gets: the operator's pins and the host's facts to the solver of ``version_sets``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from .contract.host_shapes import Versions
from .facts import HostFacts
from .problems import Problem, path_of
from .version_rules import problems_of_refusal, problems_of_set, problems_of_system
from .version_sets import facts as solver_facts
from .version_sets.facts import METHODS, Wanted
from .version_sets.links.pins import meets
from .version_sets.matrix import Matrix
from .version_sets.solver import Refusal, VersionSet, solve

LOCKS = Path(__file__).resolve().parents[3] / "roles/vllm_runtime/files/locks"
LOCK_NAME = re.compile(r"vllm-(?P<vllm>[^-]+)-(?P<backend>[a-z]+)-(?P<arch>[a-z0-9_]+)-cp(?P<major>3)(?P<minor>[0-9]+)")


@dataclass(frozen=True)
class Lock:
    """A set for which the product carries a hash-locked list of packages: ``<runtime id>.txt``."""

    runtime_id: str
    vllm: str
    backend: str
    arch: str
    python: str


def load_locks(folder: Path = LOCKS) -> tuple[Lock, ...]:
    """The locks of this release, newest vLLM first."""
    found = []
    for path in folder.glob("*.txt"):
        match = LOCK_NAME.fullmatch(path.stem)
        if match:
            python = f"{match['major']}.{match['minor']}"
            found.append(Lock(path.stem, match["vllm"], match["backend"], match["arch"], python))
    return tuple(sorted(found, key=lambda lock: _newest_first(lock.vllm, lock.python)))


def _newest_first(*versions: str) -> tuple[int, ...]:
    return tuple(-int(n) for version in versions for n in re.findall(r"\d+", version))


@dataclass(frozen=True)
class Chosen:
    """A host's set, and whether this release can install it. ``facts`` is the host as the solver saw it."""

    set: VersionSet
    locked: bool
    facts: solver_facts.HostFacts


def choose(
    host: str, facts: HostFacts, versions: Versions, backend: str | None, matrix: Matrix, locks: Iterable[Lock]
) -> tuple[Chosen | None, list[Problem]]:
    """The set of a host that serves, or why there is none.

    Among legal sets that meet the pins, one that this release has a lock for goes first.
    """
    seen, wanted, path = to_solver(facts), to_wanted(versions, backend), path_of(("hosts", host))
    answer: VersionSet | Refusal | None = None
    for lock in locks:
        pinned = _narrowed(wanted, lock)
        if pinned is None or lock.arch != facts.arch:
            continue
        answer = solve(seen, pinned, matrix)
        if isinstance(answer, VersionSet) and answer.runtime_id == lock.runtime_id:
            return Chosen(answer, True, seen), problems_of_set(path, answer)
    answer = solve(seen, wanted, matrix)
    if isinstance(answer, Refusal):
        return None, problems_of_refusal(path, answer)
    return Chosen(answer, False, seen), problems_of_set(path, answer)


def check_system(host: str, facts: HostFacts, matrix: Matrix) -> list[Problem]:
    """Whether the system of a host can be used at all, also where nothing of vLLM runs on it."""
    return problems_of_system(path_of(("hosts", host)), to_solver(facts), matrix)


def likely_backend(facts: HostFacts) -> str:
    """The backend of a host for which there is no set, by its first card."""
    vendors = (solver_facts.vendor_of(card) for card in to_solver(facts).cards)
    return next((solver_facts.BACKEND_OF_VENDOR[vendor] for vendor in vendors if vendor), "cpu")


def _narrowed(wanted: Wanted, lock: Lock) -> Wanted | None:
    """The pins with a lock's vLLM and Python, or None where they exclude it."""
    if wanted.backend not in (None, lock.backend):
        return None
    if wanted.vllm and not meets(lock.vllm, wanted.vllm):
        return None
    if wanted.python and not meets(lock.python, wanted.python):
        return None
    values = {f.name: getattr(wanted, f.name) for f in fields(Wanted)}
    return Wanted(**values | {"vllm": lock.vllm, "python": lock.python})


def to_wanted(versions: Versions, backend: str | None) -> Wanted:
    """An operator's pins as the solver takes them."""
    pins = versions.model_dump(exclude={"methods"})
    return Wanted(backend=backend, **pins, methods=tuple(versions.methods or METHODS))


def to_solver(facts: HostFacts) -> solver_facts.HostFacts:
    """A host as the solver sees it."""
    name = facts.os_name.lower()
    # Both editions call themselves kylin V10: the desktop's is like Debian, or says so in its name.
    desktop = facts.os_id == "kylin" and ("debian" in facts.os_like or "desktop" in name or "桌面" in name)
    return solver_facts.HostFacts(
        os_id=facts.os_id or None,
        os_version=facts.os_version or None,
        os_codename="desktop" if desktop else facts.os_codename or None,
        arch=facts.arch or None,
        glibc=facts.glibc or None,
        page_size=facts.page_size,
        cpu_flags=tuple(sorted(facts.cpu_flags)),
        cards=tuple(solver_facts.Card(c.vendor, c.chip, c.pci_id, c.memory_bytes, c.driver) for c in facts.cards),
        driver_version=facts.nvidia.driver or facts.dcu_driver,
        hdk_version=facts.hdk,
        cann_versions=facts.cann,
    )
