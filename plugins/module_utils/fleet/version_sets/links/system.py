"""Rules on the system of a host: its edition and life, page size, glibc, compiler and Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...rule_table.phrases import words
from ..candidates import Candidate
from ..compare import at_least, within
from ..facts import Wanted
from ..matrix import Matrix, Row
from .link import BROKEN, UNKNOWN, WARN, Host, Link, link, what


def rule_system(host: Host, _candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """The system lives, is a server edition and is known."""
    yield from judge_system(host)


def judge_system(host: Host) -> Iterator[Link]:
    """The system lives, is a server edition and is known."""
    facts, os = host.facts, host.os
    if host.desktop is not None:
        name = f"{facts.os_id} {facts.os_version or ''}".strip()
        yield link("os-desktop", "SET-001", host.desktop, name, "a server edition", needs_other_os=True, os=name)
    elif os is None:
        have = " ".join(x for x in (facts.os_id, facts.os_version, facts.os_codename) if x) or UNKNOWN
        yield link("os-unknown", "SET-002", None, have, "a system of the matrix", warn=True)
    elif os.at_end == "refuse":
        need = "a supported system"
        ended = os.end_of_life
        yield link("os-end-of-life", "SET-003", os, os.name, need, needs_other_os=True, os=os.name, date=ended)
    elif os.at_end == "warn":
        ended = os.end_of_life
        yield link("os-end-of-life", "SET-004", os, os.name, "a supported system", warn=True, os=os.name, date=ended)
    elif not host.os_exact:
        have, need = facts.os_codename or UNKNOWN, os.codename or "a codename"
        yield link("os-service-pack", "SET-005", os, have, need, warn=True, os=os.name)
    elif "python" in os.unsure and facts.python is None:
        yield link("os-inferred", "SET-006", os, os.name, "a checked row", warn=True, os=os.name)
    if (
        os is not None
        and facts.glibc
        and os.glibc
        and facts.glibc != os.glibc
        and host.os_exact
        and "glibc" not in os.unsure
    ):
        yield link("glibc-differs", "SET-007", os, facts.glibc, os.glibc, warn=True, os=os.name)


def rule_faults(host: Host, _candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """Facts that came in a wrong form."""
    for fault in host.facts.faults:
        yield link("facts", "SET-008", None, fault, "a fact of the right type", warn=True, fact=fault)


def rule_rows(_host: Host, candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """A set that rests on a row nobody verified says so."""
    for row in candidate.rows:
        if row.uncertain:
            name = what(candidate)
            yield link("uncertain", "SET-009", row, name, "a verified row", warn=True, set=name)


def rule_page_size(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The page size is one that the architecture has; larger pages break some binaries."""
    size, arch = host.facts.page_size, candidate.arch
    row = next((r for r in matrix.page_sizes if r.arch == arch), None)
    if size is None or row is None:
        return
    if size not in row.sizes:
        yield link("page-size", "SET-010", row, size, " / ".join(map(str, row.sizes)), arch=arch, size=size)
    for note in matrix.page_size_notes:
        if note.arch == arch and note.size == size:
            effect = {"effect": note.effect, "effect_zh": note.effect_zh}
            yield link("page-size", "SET-011", note, size, 4096, warn=True, size=size, of=effect)


def rule_glibc(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The wheels load on the host's glibc."""
    need, row = candidate.glibc, candidate.glibc_row
    if candidate.method == "variant_index":
        yield link("glibc", "SET-012", None, host.glibc or UNKNOWN, "a checked index", warn=True)
    if candidate.method == "container" or need is None:
        return
    if host.glibc is None:
        yield replace(link("glibc", "SET-013", row, UNKNOWN, need, needs_other_os=True), level=BROKEN)
    elif not at_least(host.glibc, need):
        way = words("method", f"method-{candidate.method}")
        found = link("glibc", "SET-014", row, host.glibc, need, needs_other_os=True, set=what(candidate), of=way)
        # Where a row is uncertain, it is that the wheel exists; what its tag asks for is not.
        firm = host.glibc_firm and (row is None or row.confidence != "low")
        yield replace(found, level=BROKEN if firm else WARN)
    elif at_least("2.17", need):
        yield link("glibc-tag", "SET-015", row, host.glibc, need, warn=True)
    for liar in matrix.wrong_tags:
        if candidate.backend == "cuda" and candidate.vllm == liar.vllm and candidate.cuda == liar.cuda:
            said = {"effect": liar.effect, "effect_zh": liar.effect_zh, "set": what(candidate)}
            yield link("glibc-tag", "SET-016", liar, host.glibc, "more than the tag says", warn=True, of=said)


def rule_compiler(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """A build from source finds the compiler that it needs."""
    if candidate.method != "source":
        return
    needs = [
        b for b in matrix.source_builds if b.backend in (None, candidate.backend) and within(candidate.vllm, b.vllm)
    ]
    floors: list[tuple[str, Row]] = [(b.gcc_min, b) for b in needs if b.gcc_min]
    if candidate.backend == "ascend":
        floors += [(s.gcc_min, s) for s in matrix.method_scopes if s.method == "source" and s.gcc_min]
    for need, row in floors:
        if host.os is None or host.os.gcc is None:
            yield link("compiler", "SET-017", row, UNKNOWN, need, warn=True)
        elif not at_least(host.os.gcc, need):
            firm = host.os_exact and host.os.firm and "gcc" not in host.os.unsure
            have = f"gcc {host.os.gcc}"
            yield link("compiler", "SET-018", row, have, need, firm=firm, needs_other_os=True, os=host.os.name)
    for build in needs:
        if build.gcc_min is None:
            more = {"vllm": candidate.vllm, "needs": build.needs, "needs_zh": build.needs_zh}
            yield link("build-tools", "SET-019", build, UNKNOWN, build.needs, warn=True, of=more)


def rule_python(host: Host, _candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The managed host's own Python is enough for Ansible; the runtime brings its own CPython either way."""
    python = host.facts.python or (host.os.python if host.os else None)
    target = matrix.ansible_targets[-1] if matrix.ansible_targets else None
    if python and target and not at_least(python, target.target_python_min):
        need = target.target_python_min
        yield link("target-python", "SET-020", target, python, need, warn=True, core=target.core)
