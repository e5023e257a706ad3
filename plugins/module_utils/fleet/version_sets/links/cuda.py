"""Rules on NVIDIA: the driver, the torch of the package index, and the kernels that a build holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..candidates import Candidate
from ..compare import at_least, numbers
from ..facts import Wanted, vendor_of
from ..matrix import CudaCard, Matrix, torch_cuda_of
from .link import BROKEN, UNKNOWN, Host, Link, Move, link, what


def rule_cuda_driver(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The driver carries the CUDA inside the wheel or image.

    Only the driver counts, no toolkit on the host.
    """
    if candidate.backend != "cuda" or candidate.cuda is None:
        return
    floor = matrix.driver_floor(candidate.cuda)
    cards = [c.driver for c in host.cards if vendor_of(c) == "nvidia" and c.driver]
    driver = host.facts.driver_version or (cards[0] if cards else None)
    branches = [b for b in matrix.driver_branches if b.install]
    install = branches[-1].install if branches else None
    if driver is None or numbers(driver) is None:
        row = branches[-1] if branches else None
        yield link("driver-missing", "SET-030", row, driver or UNKNOWN, floor.driver_min if floor else "?", warn=True)
    elif floor is not None:
        move = _driver_move(driver, install) if install else None
        enough = at_least(driver, floor.driver_min)
        if not enough:
            more = {"cuda": candidate.cuda, "set": what(candidate)}
            yield link("driver", "SET-031", floor, driver, floor.driver_min, move=move, of=more)
        for advice in matrix.driver_recommended:
            if advice.cuda == candidate.cuda and enough and not at_least(driver, advice.driver):
                yield link("driver-minor", "SET-032", advice, driver, advice.driver, warn=True, cuda=advice.cuda)
        branch = matrix.branch_of(driver)
        if branch and branch.ended:
            ended = {"branch": branch.branch, "date": branch.end_of_life, "install": install or "-"}
            need = "a branch that is maintained"
            yield link("driver-end-of-life", "SET-033", branch, driver, need, warn=True, of=ended)
    if not any(r.arch == candidate.arch and _is_system(host, r.os) for r in matrix.driver_repositories):
        listed, name = matrix.driver_repositories[0], _system(host)
        on = {"os": name, "arch": candidate.arch}
        yield link("driver-repository", "SET-034", listed, name, "a system of NVIDIA's list", warn=True, of=on)


def _driver_move(driver: str, install: str) -> Move:
    fields: tuple[tuple[str, object], ...] = (("driver_version", install),)
    return Move("host", "driver", driver, install, 1, 3.0, fields)


def rule_torch_index(_host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The torch wheel of the package index has CUDA on this architecture; otherwise pip installs a CPU build."""
    if candidate.backend != "cuda" or candidate.method != "wheel" or candidate.torch is None:
        return
    row = torch_cuda_of(matrix, candidate.torch)
    if row is not None and candidate.arch not in row.index_arch:
        more = {"torch": candidate.torch, "arch": candidate.arch, "cuda": candidate.cuda}
        have = f"torch {candidate.torch} ({candidate.arch})"
        yield link("torch-index", "SET-035", row, have, f"CUDA {candidate.cuda}", warn=True, of=more)


def capability_of(host: Host, matrix: Matrix) -> list[CudaCard]:
    """The compute capabilities of a host's NVIDIA cards."""
    rows = (matrix.cuda_card(c.chip) for c in host.cards if vendor_of(c) == "nvidia")
    return list(dict.fromkeys(r for r in rows if r))


def rule_capability(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The build holds kernels for the card."""
    if candidate.backend != "cuda" or candidate.cuda is None:
        return
    row = matrix.capability_row(candidate.vllm, candidate.cuda)
    build = {"vllm": candidate.vllm, "cuda": candidate.cuda}
    for card in host.cards:
        if vendor_of(card) == "nvidia" and matrix.cuda_card(card.chip) is None:
            yield link("capability", "SET-036", row, card.chip or UNKNOWN, "a known card", warn=True, of=build)
    for known in capability_of(host, matrix):
        if row is None:
            yield link("capability", "SET-037", known, known.capability, "a read list", warn=True, of=build)
        elif known.capability not in row.capabilities and known.capability.split(".")[0] not in row.families:
            newer = not any(at_least(c, known.capability) for c in row.capabilities)
            need = " ".join(row.capabilities)
            found = link("capability", "SET-038", row, known.capability, need, card=known.card, of=build)
            # A card newer than every target of the list cannot run even where the list is not firm.
            yield replace(found, level=BROKEN) if newer else found


def _system(host: Host) -> str:
    return host.os.name if host.os else f"{host.facts.os_id or 'unknown'} {host.facts.os_version or ''}".strip()


def _is_system(host: Host, name: str) -> bool:
    """Whether a name such as "kylin V10 Halberd" or "rhel 9" means this host."""
    words = name.upper().split()
    facts = host.facts
    if not facts.os_id or facts.os_id.upper() != words[0]:
        return False
    if host.os is not None and len(words) > 2 and (host.os.codename or "").upper() != words[2]:
        return False
    version = (host.os.version if host.os else facts.os_version or "").upper().split()
    return bool(version) and (version[0] == words[1] or version[0].split(".")[0] == words[1])
