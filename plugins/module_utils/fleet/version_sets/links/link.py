"""What a rule yields, and a host as the rules see it.

A rule yields a :class:`Link` only where something is wrong or uncertain. ``broken`` refuses the set; ``warn`` does not.
A link holds the parameters of its message; the words are in ``rule_table/versions.py``. A rule that rests on a row that
is not firm (see matrix.py) warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from ...rule_table import RULES as TABLE
from ..candidates import Candidate
from ..facts import BACKEND_OF_VENDOR, Card, HostFacts, Wanted, vendor_of
from ..matrix import Matrix, OsRow, Row, SocRow
from ..source import short_source

BROKEN, WARN = "broken", "warn"
#: The source of a rule that rests on no row, and of one that rests on what an operator pinned.
HERE, ASKED = "rule of this project", "what was asked for"
#: What a host has where that is not known, and where there is nothing.
UNKNOWN, NONE = "not known", "none"


@dataclass(frozen=True)
class Move:
    """One change that mends a link: of a pin (kind pin) or on the host (kind host).

    steps: how far, counted in versions that the matrix knows; 1 where there is no scale. fields: the fields
    of Wanted or HostFacts that change, as (name, value) pairs.
    """

    kind: str
    what: str
    was: str
    to: str
    steps: int
    cost: float
    fields: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Link:
    """One broken or uncertain link, with what mends it on its own, if anything does.

    code names the kind of link; rule is the row of the table that words it, params what fills that row.
    """

    code: str
    rule: str
    level: str
    have: str
    need: str
    params: tuple[tuple[str, object], ...]
    source: str
    confidence: str
    move: Move | None = None
    needs_other_os: bool = False

    @property
    def text(self) -> str:
        """What is wrong, in English."""
        return TABLE[self.rule].rule.format(**dict(self.params))


@dataclass(frozen=True)
class Host:
    """A host as the rules see it: facts, and the rows that they select."""

    facts: HostFacts
    os: OsRow | None
    os_exact: bool
    glibc: str | None
    glibc_firm: bool
    desktop: Row | None
    backends: tuple[str, ...]
    soc: SocRow | None
    socs: tuple[SocRow, ...]
    cards: tuple[Card, ...]


Rule = Callable[[Host, Candidate, Wanted, Matrix], Iterator[Link]]


def link(
    code: str,
    rule: str,
    row: Row | None,
    have: object,
    need: object,
    /,
    *,
    firm: bool = True,
    warn: bool = False,
    move: Move | None = None,
    needs_other_os: bool = False,
    of: Mapping[str, object] = MappingProxyType({}),
    **params: object,
) -> Link:
    """A link that rests on a row. ``of`` and params fill the row of the table, beside have, need and source."""
    may_refuse = firm and not warn and (row is None or row.firm)
    source = short_source(row.source) if row else "vllm-fleet"
    return Link(
        code=code,
        rule=rule,
        level=BROKEN if may_refuse else WARN,
        have=str(have),
        need=str(need),
        params=(("have", have), ("need", need), ("source", source), *of.items(), *params.items()),
        source=row.source if row else HERE,
        confidence=row.confidence if row else "high",
        move=move,
        needs_other_os=needs_other_os,
    )


def what(candidate: Candidate) -> str:
    """A candidate by its versions."""
    if candidate.vllm_ascend:
        return f"vllm-ascend {candidate.vllm_ascend} (vLLM {candidate.vllm})"
    return f"vLLM {candidate.vllm}" + (f" ({candidate.channel})" if candidate.channel not in ("vllm", "image") else "")


def find_os(facts: HostFacts, matrix: Matrix) -> tuple[OsRow | None, bool]:
    """The row of a host's system, and whether it is exactly that one (service pack included)."""
    if not facts.os_id:
        return None, False
    os_id = facts.os_id.lower()
    version = (facts.os_version or "").upper()
    codename = (facts.os_codename or "").strip("() ").upper()
    words = f"{version} {codename}".replace("(", " ").replace(")", " ").split()
    rows = [r for r in matrix.systems if r.id == os_id and _same_version(r, words)]
    for row in rows:
        if row.codename and row.codename.upper() in words:
            return row, True
    if not rows:
        return None, False
    if os_id in ("ubuntu", "centos"):  # the version alone says which
        return rows[0], True
    return rows[0], False


def _same_version(row: OsRow, words: list[str]) -> bool:
    if not words:
        return False
    first, mine = words[0], row.version.upper().split()[0]
    if row.id == "centos":
        return first.split(".")[0] == mine.split(".")[0]
    return first == mine or first.startswith(f"{mine}.")


def find_soc(card: Card, matrix: Matrix) -> SocRow | None:
    """The chip of an Ascend card: by PCI id (and subsystem), otherwise by the name that npu-smi prints."""
    if card.pci_id:
        pci = card.pci_id.lower()
        found = [s for s in matrix.socs if any(pci.startswith(p) for p in s.pci)]
        exact = [s for s in found if any(sub in pci[9:].replace(" ", "") for sub in s.pci_subsystems)]
        if found:
            return (exact or [s for s in found if s.firm] or found)[0]
    name = card.chip.removeprefix("Ascend").strip().upper()
    return next((s for s in matrix.socs if name in (n.upper() for n in s.names)), None)


@lru_cache(maxsize=4096)
def look_at(facts: HostFacts, matrix: Matrix) -> Host:
    """Facts with the rows that they select."""
    os, exact = find_os(facts, matrix)
    desktop = None
    codename = (facts.os_codename or "").lower()
    for row in matrix.desktop_editions:
        named = any(
            word in codename or word in (facts.os_version or "").lower().split() for word in row.desktop_codenames
        )
        if facts.os_id and facts.os_id.lower() == row.id and (named or facts.glibc == "2.23"):
            desktop = row
    glibc, firm = facts.glibc, True
    if glibc is None and os is not None:
        glibc, firm = os.glibc, exact and os.firm and "glibc" not in os.unsure
    vendors = [v for v in (vendor_of(c) for c in facts.cards) if v]
    backends = tuple(dict.fromkeys(BACKEND_OF_VENDOR[v] for v in vendors))
    socs = tuple(dict.fromkeys(s for s in (find_soc(c, matrix) for c in facts.cards if vendor_of(c) == "huawei") if s))
    return Host(facts, os, exact, glibc, firm, desktop, backends, socs[0] if socs else None, socs, facts.cards)
