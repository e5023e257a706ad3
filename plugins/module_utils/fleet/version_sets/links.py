"""The rules: each compares one link of a set with a host, or with what was asked for.

A rule yields a :class:`Link` only where something is wrong or uncertain. ``broken`` refuses the set;
``warn`` does not. A rule that rests on a row that is not firm (see matrix.py) warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from . import models
from .candidates import Candidate
from .compare import at_least, matches_vendor, numbers, package_version, vendor_version, within
from .facts import BACKEND_OF_VENDOR, Card, HostFacts, Wanted, vendor_of
from .matrix import CannHdk, CudaCard, Matrix, OsDriverMinimum, OsRow, Row, SocRow, torch_cuda_of

BROKEN, WARN = "broken", "warn"
HERE = "rule of this project"


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
    """One broken or uncertain link, with what mends it on its own, if anything does."""

    code: str
    level: str
    have: str
    need: str
    text: str
    source: str
    confidence: str
    move: Move | None = None
    needs_other_os: bool = False


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


def _link(
    code: str,
    row: Row | None,
    have: object,
    need: object,
    text: str,
    *,
    firm: bool = True,
    warn: bool = False,
    move: Move | None = None,
    needs_other_os: bool = False,
) -> Link:
    may_refuse = firm and not warn and (row is None or row.firm)
    return Link(
        code=code,
        level=BROKEN if may_refuse else WARN,
        have=str(have),
        need=str(need),
        text=text,
        source=row.source if row else HERE,
        confidence=row.confidence if row else "high",
        move=move,
        needs_other_os=needs_other_os,
    )


# --- the system


def rule_system(host: Host, _candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """The system lives, is a server edition and is known."""
    facts, os = host.facts, host.os
    if host.desktop is not None:
        yield _link(
            "os-desktop",
            host.desktop,
            f"{facts.os_id} {facts.os_version}",
            "a server edition",
            "this is the desktop edition; only the server edition is supported",
            needs_other_os=True,
        )
    elif os is None:
        have = " ".join(x for x in (facts.os_id, facts.os_version, facts.os_codename) if x) or "not known"
        yield _link(
            "os-unknown",
            None,
            have,
            "a system of the matrix",
            "the matrix has no row for this system",
            warn=True,
        )
    elif os.at_end == "refuse":
        yield _link(
            "os-end-of-life",
            os,
            os.name,
            "a supported system",
            f"{os.name} reached its end of life on {os.end_of_life}",
            needs_other_os=True,
        )
    elif os.at_end == "warn":
        text = f"standard support of {os.name} ended on {os.end_of_life}"
        yield _link("os-end-of-life", os, os.name, "a supported system", text, warn=True)
    elif not host.os_exact:
        text = f"the service pack is not known; {os.name} is the row that was taken"
        yield _link(
            "os-service-pack",
            os,
            facts.os_codename or "no codename",
            os.codename or "a codename",
            text,
            warn=True,
        )
    elif "python" in os.unsure and facts.python is None:
        yield _link("os-inferred", os, os.name, "a checked row", f"fields of {os.name} are inferred", warn=True)
    if (
        os is not None
        and facts.glibc
        and os.glibc
        and facts.glibc != os.glibc
        and host.os_exact
        and "glibc" not in os.unsure
    ):
        text = f"{os.name} should have glibc {os.glibc}; the measured one counts"
        yield _link("glibc-differs", os, facts.glibc, os.glibc, text, warn=True)


def rule_faults(host: Host, _candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """Facts that came in a wrong form."""
    for fault in host.facts.faults:
        yield _link(
            "facts",
            None,
            fault,
            "a fact of the right type",
            f"discovery gave {fault} in a wrong form",
            warn=True,
        )


def rule_rows(_host: Host, candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """A set that rests on a row nobody verified says so."""
    for row in candidate.rows:
        if row.uncertain:
            text = f"that this set exists for {_what(candidate)} was not verified"
            yield _link("uncertain", row, row.confidence, "a verified row", text, warn=True)


def rule_page_size(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The page size is one that the architecture has; larger pages break some binaries."""
    size, arch = host.facts.page_size, candidate.arch
    row = next((r for r in matrix.page_sizes if r.arch == arch), None)
    if size is None or row is None:
        return
    if size not in row.sizes:
        text = f"{arch} has no pages of {size} bytes"
        yield _link("page-size", row, size, " or ".join(map(str, row.sizes)), text)
    for note in matrix.page_size_notes:
        if note.arch == arch and note.size == size:
            yield _link("page-size", note, size, 4096, note.effect, warn=True)


def rule_glibc(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The wheels load on the host's glibc."""
    need, row = candidate.glibc, candidate.glibc_row
    if candidate.method == "variant_index":
        text = "what glibc the wheels of the variant index need was not read"
        yield _link("glibc", None, host.glibc or "not known", "a checked index", text, warn=True)
    if candidate.method == "container" or need is None:
        return
    if host.glibc is None:
        text = "glibc was not measured and the system is not in the matrix"
        yield replace(_link("glibc", row, "not known", need, text, needs_other_os=True), level=BROKEN)
    elif not at_least(host.glibc, need):
        text = f"the {candidate.method.replace('_', ' ')} of {_what(candidate)} needs glibc {need}"
        link = _link("glibc", row, host.glibc, need, text, needs_other_os=True)
        # Where a row is uncertain, it is that the wheel exists; what its tag asks for is not.
        firm = host.glibc_firm and (row is None or row.confidence != "low")
        yield replace(link, level=BROKEN if firm else WARN)
    elif at_least("2.17", need):
        text = f"the tag of this wheel promises glibc {need} and is known to be too low: an import has to prove it"
        yield _link("glibc-tag", row, host.glibc, "more than the tag says", text, warn=True)
    for liar in matrix.wrong_tags:
        if candidate.backend == "cuda" and candidate.vllm == liar.vllm and candidate.cuda == liar.cuda:
            yield _link("glibc-tag", liar, host.glibc, "more than the tag says", liar.effect, warn=True)


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
            yield _link("compiler", row, "not known", f"gcc {need}", f"the build needs gcc {need}", warn=True)
        elif not at_least(host.os.gcc, need):
            firm = host.os_exact and host.os.firm and "gcc" not in host.os.unsure
            text = f"the build needs gcc {need}; {host.os.name} has {host.os.gcc}"
            yield _link("compiler", row, f"gcc {host.os.gcc}", f"gcc {need}", text, firm=firm, needs_other_os=True)
    for build in needs:
        if build.gcc_min is None:
            text = f"a build of vLLM {candidate.vllm} needs {build.needs}"
            yield _link("build-tools", build, "not known", build.needs, text, warn=True)


def rule_python(host: Host, _candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The managed host's own Python is enough for Ansible; the runtime brings its own CPython either way."""
    python = host.facts.python or (host.os.python if host.os else None)
    target = matrix.ansible_targets[-1] if matrix.ansible_targets else None
    if python and target and not at_least(python, target.target_python_min):
        text = f"ansible-core {target.core} cannot run modules on Python {python}: bootstrap one first"
        yield _link("target-python", target, python, target.target_python_min, text, warn=True)


# --- the card


def rule_card(host: Host, candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """The host has a card of the backend, and one kind of it."""
    if candidate.backend == "cpu":
        return
    if candidate.backend not in host.backends:
        have = ", ".join(host.backends) or "no card"
        yield _link("card", None, have, candidate.backend, f"the host has no card for the backend {candidate.backend}")


def rule_cuda_driver(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The driver carries the CUDA inside the wheel or image.

    Only the driver counts, no toolkit on the host.
    """
    if candidate.backend != "cuda" or candidate.cuda is None:
        return
    floor = matrix.driver_floor(candidate.cuda)
    cards = [c.driver for c in host.cards if vendor_of(c) == "nvidia" and c.driver]
    driver = host.facts.driver_version or (cards[0] if cards else None)
    install = next((b for b in reversed(matrix.driver_branches) if b.install), None)
    move = _driver_move(driver, install.install) if install and install.install else None
    if driver is None or numbers(driver) is None:
        text = "the NVIDIA driver is not known: install one, or see why its tool does not answer"
        yield _link(
            "driver-missing",
            install,
            driver or "not known",
            f"{floor.driver_min if floor else '?'} or newer",
            text,
            warn=True,
        )
    elif floor is not None:
        if not at_least(driver, floor.driver_min):
            text = f"CUDA {candidate.cuda} of {_what(candidate)} needs driver {floor.driver_min} or newer"
            yield _link("driver", floor, driver, floor.driver_min, text, move=move)
        for advice in matrix.driver_recommended:
            enough = at_least(driver, floor.driver_min)
            if advice.cuda == candidate.cuda and enough and not at_least(driver, advice.driver):
                text = f"driver {driver} runs CUDA {advice.cuda} by minor-version compatibility only"
                yield _link("driver-minor", advice, driver, advice.driver, text, warn=True)
        branch = matrix.branch_of(driver)
        if branch and branch.ended:
            text = f"driver branch {branch.branch} reached its end of life in {branch.end_of_life}"
            yield _link("driver-end-of-life", branch, driver, "a branch that is maintained", text, warn=True)
    if not any(r.arch == candidate.arch and _is_system(host, r.os) for r in matrix.driver_repositories):
        row = matrix.driver_repositories[0]
        text = (
            "NVIDIA publishes no driver packages for this system: its .run installer "
            "works, outside NVIDIA's support list"
        )
        yield _link("driver-repository", row, _system(host), "a system of NVIDIA's list", text, warn=True)


def _driver_move(driver: str | None, install: str) -> Move:
    fields: tuple[tuple[str, object], ...] = (("driver_version", install),)
    return Move("host", "driver", driver or "none", install, 1, 3.0, fields)


def rule_torch_index(_host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The torch wheel of the package index has CUDA on this architecture; otherwise pip installs a CPU build."""
    if candidate.backend != "cuda" or candidate.method != "wheel" or candidate.torch is None:
        return
    row = torch_cuda_of(matrix, candidate.torch)
    if row is not None and candidate.arch not in row.index_arch:
        text = (
            f"torch {candidate.torch} for {candidate.arch} has no CUDA on the package index; "
            "take it from PyTorch's own index for this CUDA, and prove it with torch.version.cuda"
        )
        have = "a CPU build on the package index"
        yield _link("torch-index", row, have, f"CUDA {candidate.cuda}", text, warn=True)


def capability_of(host: Host, matrix: Matrix) -> list[CudaCard]:
    """The compute capabilities of a host's NVIDIA cards."""
    rows = (matrix.cuda_card(c.chip) for c in host.cards if vendor_of(c) == "nvidia")
    return list(dict.fromkeys(r for r in rows if r))


def rule_capability(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The build holds kernels for the card."""
    if candidate.backend != "cuda" or candidate.cuda is None:
        return
    row = matrix.capability_row(candidate.vllm, candidate.cuda)
    for card in host.cards:
        if vendor_of(card) == "nvidia" and matrix.cuda_card(card.chip) is None:
            text = f"the compute capability of {card.chip or 'this card'} is not in the matrix"
            yield _link("capability", row, card.chip or "not known", "a known card", text, warn=True)
    for known in capability_of(host, matrix):
        if row is None:
            text = f"no list of kernels was read for vLLM {candidate.vllm} with CUDA {candidate.cuda}"
            yield _link("capability", known, known.capability, "a read list", text, warn=True)
        elif known.capability not in row.capabilities and known.capability.split(".")[0] not in row.families:
            newer = not any(at_least(c, known.capability) for c in row.capabilities)
            text = (
                f"vLLM {candidate.vllm} with CUDA {candidate.cuda} holds no kernels for "
                f"{known.card} ({known.capability})"
            )
            # A card newer than every target of the list cannot run even where the list is not firm.
            link = _link("capability", row, known.capability, " ".join(row.capabilities), text)
            yield replace(link, level=BROKEN) if newer else link


# --- Ascend


def rule_soc(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """vllm-ascend runs on the chip, and the way of installing covers it."""
    if candidate.backend != "ascend":
        return
    unknown = [c for c in host.cards if vendor_of(c) == "huawei" and find_soc(c, matrix) is None]
    for card in unknown:
        have = card.pci_id or card.chip or "not known"
        yield _link("soc", None, have, "a known chip", f"no chip of the matrix is {have}", warn=bool(host.socs))
    if len(host.socs) > 1:
        have = ", ".join(s.soc for s in host.socs)
        yield _link("soc-mixed", None, have, "one chip", "one set serves one chip; this host has several")
    soc = host.soc
    if soc is None:
        return
    if soc.vllm_ascend == "unsupported":
        text = f"vllm-ascend does not run on {soc.chip} ({soc.products})"
        yield _link("soc", soc, soc.chip, "a supported chip", text)
        return
    if soc.vllm_ascend == "unlisted":
        text = f"{soc.products} has a chip of a supported family ({soc.chip}) but is not on vllm-ascend's list"
        yield _link("soc", soc, soc.chip, "a listed card", text, warn=True)
    release = package_version(candidate.vllm_ascend or "")
    since = package_version(soc.since) if soc.since else None
    if release and since and release.release < since.release:
        text = f"{soc.chip} is supported from vllm-ascend {soc.since} on"
        yield _link("soc", soc, candidate.vllm_ascend, soc.since, text)
    scope = next((s for s in matrix.method_scopes if s.method == candidate.method), None)
    if scope is None:
        return
    if soc.soc not in scope.soc:
        text = f"the {candidate.method} of vllm-ascend is built for {', '.join(scope.soc)} only, not for {soc.soc}"
        yield _link("wheel-scope", scope, soc.soc, ", ".join(scope.soc), text)
    elif scope.since and release and release.release < (package_version(scope.since) or release).release:
        text = f"the {candidate.method.replace('_', ' ')} was seen from vllm-ascend {scope.since} on"
        yield _link("wheel-scope", scope, candidate.vllm_ascend, scope.since, text, firm=scope.confidence != "low")
    elif not scope.firm:
        text = f"what the {candidate.method.replace('_', ' ')} holds was not read; look before the maintenance window"
        yield _link("wheel-scope", scope, candidate.vllm_ascend, "a checked index", text, warn=True)
    for card in host.cards:
        named = find_soc(replace(card, pci_id=None), matrix) if vendor_of(card) == "huawei" and card.chip else None
        if named and named.chip != soc.chip and len(host.socs) == 1:
            text = f"the PCI id says {soc.chip}, the name {card.chip}; the PCI id counts"
            yield _link("soc-name", soc, card.chip, soc.chip, text, warn=True)


def hdk_of(host: Host) -> str | None:
    """The HDK of a host: as discovered, or the driver of its Ascend cards."""
    cards = [c.driver for c in host.cards if vendor_of(c) == "huawei" and c.driver]
    return host.facts.hdk_version or (cards[0] if cards else None)


def judge_hdk(hdk: str, row: CannHdk) -> str:
    """listed, disputed, older (than every listed one) or unlisted."""
    if any(matches_vendor(hdk, pattern) for pattern in row.compatible):
        return "listed"
    if any(matches_vendor(hdk, pattern) for pattern in row.disputed):
        return "disputed"
    have = vendor_version(hdk)
    floors = [vendor_version(p.lower().replace(".x", ".0")) for p in (*row.compatible, *row.disputed)]
    known = [f for f in floors if f is not None]
    if have is not None and known and have < min(known):
        return "older"
    return "unlisted"


def rule_hdk(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The HDK runs the CANN of the set; an image brings CANN, never the driver."""
    if candidate.backend != "ascend":
        return
    hdk = hdk_of(host)
    row = matrix.cann_hdk_row(candidate.cann) if candidate.cann else None
    if candidate.cann is None:
        yield _link(
            "hdk",
            None,
            hdk or "not known",
            "a CANN",
            "no CANN is published for this release: nothing says which HDK",
            warn=True,
        )
        return
    if hdk is None:
        need = row.paired if row else "the paired one"
        yield _link(
            "hdk-missing",
            row,
            "not known",
            need,
            f"the HDK is not known; CANN {candidate.cann} comes with {need}",
            warn=True,
        )
        return
    if row is None:
        text = f"nothing was found on which HDK runs CANN {candidate.cann}"
        yield _link("hdk", None, hdk, "a published row", text, warn=True)
        return
    answer = judge_hdk(hdk, row)
    need = ", ".join(row.compatible)
    move = Move("host", "hdk", hdk, row.paired, 1, 3.0, (("hdk_version", row.paired),))
    if answer == "older":
        yield _link(
            "hdk",
            row,
            hdk,
            need,
            f"HDK {hdk} is older than any that CANN {candidate.cann} runs on",
            move=move,
        )
    elif answer == "disputed":
        yield _link(
            "hdk",
            row,
            hdk,
            need,
            f"published tables disagree on HDK {hdk} with CANN {candidate.cann}",
            warn=True,
        )
    elif answer == "unlisted":
        yield _link("hdk", row, hdk, need, f"HDK {hdk} is not on the list of CANN {candidate.cann}", warn=True)
    minimum = _driver_minimum(host, candidate, matrix)
    if minimum is not None:
        have, floor = vendor_version(hdk), vendor_version(minimum.driver_min)
        if have and floor and have < floor:
            text = (
                f"{minimum.card} on this system needs driver {minimum.driver_min} and firmware {minimum.firmware_min}"
            )
            yield _link("hdk-system", minimum, hdk, minimum.driver_min, text, move=move)


_MINIMUM_CARDS = {
    "A2": "Atlas 800I A2",
    "A3": "Atlas 900 A3 Pod",
    "310P": "A300i-duo",
    "310P-pro": "A300i-pro",
}


def _driver_minimum(host: Host, candidate: Candidate, matrix: Matrix) -> OsDriverMinimum | None:
    """The oldest driver that the vendor's tool accepts for this card on this system."""
    if host.soc is None or host.os is None:
        return None
    card = _MINIMUM_CARDS.get(host.soc.soc)
    for row in matrix.os_driver_minimums:
        vendor, _, rest = row.os.lower().partition("_")
        version, _, arch = rest.partition("_")
        if row.card == card and candidate.arch == arch and _ascend_name(host.os, f"{vendor} {version}"):
            return row
    return None


def rule_cann(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """CANN lies side by side, except across 8.5, where going back means uninstalling."""
    if candidate.backend != "ascend" or candidate.method == "container" or candidate.cann is None:
        return
    installed = host.facts.cann_versions
    if not installed or candidate.cann.lower() in (v.lower() for v in installed):
        return
    have = ", ".join(installed)
    newest = max((vendor_version(v) or () for v in installed), default=())
    mine, border = vendor_version(candidate.cann) or (), vendor_version("8.5.0") or ()
    layout = matrix.cann_layouts[-1]
    if newest >= border > mine:
        text = f"CANN {candidate.cann} is older than the layout change of 8.5: {layout.downgrade}"
        yield _link("cann-layout", layout, have, candidate.cann, text, warn=True)
    else:
        text = f"CANN {candidate.cann} has to be installed beside {have}"
        yield _link("cann-missing", layout, have, candidate.cann, text, warn=True)


def rule_ascend_system(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The vendor lists the system for the chip. Its list is the one of its own tool, so this only warns."""
    if candidate.backend != "ascend" or host.soc is None or host.os is None:
        return
    mine = [r for r in matrix.os_cards if r.arch == candidate.arch and _ascend_name(host.os, r.os)]
    served = [v for v in matrix.vendor_os if v.arch == candidate.arch and any(_vendor_name(host.os, o) for o in v.os)]
    soc = host.soc.soc
    if not any(soc in r.soc or soc.removesuffix("-pro") in r.soc for r in mine) and not any(
        soc in v.soc for v in served
    ):
        row = matrix.os_cards[0]
        text = f"the vendor's tool and server list do not name {soc} on {host.os.name} ({candidate.arch})"
        yield _link("ascend-system", row, host.os.name, "a listed system", text, warn=True)


def _ascend_name(os: OsRow, entry: str) -> bool:
    """Whether an entry such as "kylin V10Lance" or "openeuler 22.03LTS-SP4" means this system."""
    vendor, _, rest = entry.partition(" ")
    version = os.version.replace("2.0 SP", "2.") if os.id == "euleros" else os.version
    if vendor != os.id or not rest.upper().startswith(version.upper()):
        return False
    tail = rest[len(version) :].upper().lstrip(".")
    return tail in ("", "LTS") or tail == (os.codename or "").upper()


def _vendor_name(os: OsRow, entry: str) -> bool:
    """Whether an entry such as "Kylin V10 SP2" or "openEuler 22.03 LTS SP4" means this system."""
    mine = os.name.upper().replace("-", " ").split()
    want = entry.upper().split("(")[0].split()
    return (
        mine == want
        or (os.id == "openeuler" and len(want) == 2 and mine[:2] == want)
        or (os.version.upper() == "V11" and want == ["KYLIN", "V11"] and os.id == "kylin")
    )


def rule_release(_host: Host, candidate: Candidate, wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """A release of vllm-ascend is published in the matrix, final, and its torch_npu is to be had."""
    if candidate.backend != "ascend":
        return
    release = candidate.rows[0]
    if not candidate.listed:
        text = f"vllm-ascend {candidate.vllm_ascend} is on the package index but not in the published matrix"
        move = Move("pin", "unlisted", "no", "yes", 1, 4.0, (("unlisted", True),))
        link = _link(
            "unlisted",
            release,
            candidate.vllm_ascend,
            "a row of the matrix",
            text,
            warn=wanted.unlisted,
            move=move,
        )
        yield link if wanted.unlisted else replace(link, level=BROKEN)
    if candidate.prerelease:
        text = f"vllm-ascend {candidate.vllm_ascend} is a release candidate"
        move = Move("pin", "prereleases", "no", "yes", 1, 2.0, (("prereleases", True),))
        refuse = wanted.prereleases is False
        yield _link("prerelease", release, candidate.vllm_ascend, "a release", text, warn=not refuse, move=move)
    npu = candidate.torch_npu
    if npu and candidate.method != "container" and matrix.on_index("torch-npu", npu) is None:
        text = f"torch_npu {npu} is on no package index: take it from the vendor, or from the image"
        yield _link("torch-npu-build", release, npu, "a published build", text, warn=True)
    if npu is None:
        yield _link(
            "torch-npu-build",
            release,
            "not published",
            "a torch_npu",
            "no torch_npu is published for this release",
            warn=True,
        )
    if candidate.method != "container":
        engine = matrix.on_index("vllm", candidate.vllm)
        if engine is None or not engine.sdist:
            text = f"vLLM {candidate.vllm} has no source archive on the package index; build it from its tag"
            yield _link("vllm-source", engine, "no sdist", "an sdist", text, warn=True)
        for build in matrix.source_builds:
            if build.backend is None and candidate.method != "source" and within(candidate.vllm, build.vllm):
                text = (
                    f"vLLM {candidate.vllm} is built without kernels here "
                    f"(VLLM_TARGET_DEVICE=empty), which needs {build.needs}"
                )
                yield _link("build-tools", build, "not known", build.needs, text, warn=True)


# --- other backends


def rule_dcu(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """A vendor image serves the card."""
    if candidate.backend != "dcu":
        return
    row = next((r for r in candidate.rows if hasattr(r, "dtk")), None)
    arches = getattr(row, "arch", ())
    if candidate.arch not in arches:
        text = f"no vendor image for {candidate.arch} was found"
        yield _link("dcu-arch", row, candidate.arch, ", ".join(arches), text, warn=True)
    for card in host.cards:
        if vendor_of(card) != "hygon":
            continue
        names = card.chip.upper().replace("HYGON", "").split()
        known = next((c for c in matrix.dcu_cards if c.card.upper() in names), None)
        if known is None:
            text = f"{card.chip or 'this card'} is not in the matrix"
            yield _link("dcu-card", row, card.chip or "not known", "a known card", text, warn=True)
        elif known.note:
            yield _link("dcu-card", known, known.card, "a card that was seen with the image", known.note, warn=True)


def rule_rocm(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The wheel is for this line of vLLM and holds code for the card."""
    if candidate.backend != "rocm":
        return
    row = next((r for r in matrix.gfx if within(candidate.vllm, r.vllm)), None)
    for card in host.cards:
        gfx = next((w for w in card.chip.lower().replace(":", " ").split() if w.startswith("gfx")), None)
        if vendor_of(card) == "amd" and gfx and row and gfx not in row.gfx:
            yield _link("gfx", row, gfx, " ".join(row.gfx), f"vLLM {candidate.vllm} is not built for {gfx}")


def rule_cpu(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The CPU has the instructions that the backend needs."""
    flags = {f.lower() for f in host.facts.cpu_flags}
    if candidate.backend != "cpu":
        return
    if not flags:
        yield _link("cpu-flags", None, "not known", "the CPU's flags", "the CPU's flags were not read", warn=True)
        return
    for row in matrix.cpu_flags:
        if row.arch != candidate.arch:
            continue
        if row.need and not flags & set(row.need):
            text = f"the CPU backend needs {' or '.join(row.need)}"
            yield _link("cpu-flags", row, "none of them", " or ".join(row.need), text)
        elif not set(row.want) <= flags:
            yield _link("cpu-flags", row, "missing", " ".join(row.want), row.effect, warn=True)
    for trap in matrix.cpu_traps:
        if trap.when in flags:
            yield _link("cpu-flags", trap, trap.when, "a token asked for", trap.effect, warn=True)


# --- what was asked for


def rule_model(host: Host, candidate: Candidate, wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The vLLM, and the vllm-ascend on this chip, serve the model's architecture."""
    for name in wanted.architectures:
        answers = [models.supported_by_vllm(name, candidate.vllm, matrix)]
        if candidate.vllm_ascend and host.soc:
            answers.append(models.supported_by_vllm_ascend(name, candidate.vllm_ascend, host.soc.soc, matrix))
        for answer in answers:
            if answer.level != models.SUPPORTED:
                near = f"; near names: {', '.join(answer.nearest)}" if answer.nearest else ""
                level = BROKEN if answer.level == models.UNSUPPORTED else WARN
                need = f"a version that serves {name}"
                yield Link(
                    "model",
                    level,
                    _what(candidate),
                    need,
                    answer.reason + near,
                    answer.source,
                    answer.confidence,
                )


RULES: tuple[Rule, ...] = (
    rule_faults,
    rule_rows,
    rule_system,
    rule_page_size,
    rule_glibc,
    rule_compiler,
    rule_python,
    rule_card,
    rule_cuda_driver,
    rule_torch_index,
    rule_capability,
    rule_soc,
    rule_hdk,
    rule_cann,
    rule_ascend_system,
    rule_release,
    rule_dcu,
    rule_rocm,
    rule_cpu,
    rule_model,
)


# The rules whose answer another system can change.
SYSTEM_RULES: tuple[Rule, ...] = (
    rule_system,
    rule_glibc,
    rule_compiler,
    rule_cuda_driver,
    rule_hdk,
    rule_ascend_system,
)


def _what(candidate: Candidate) -> str:
    if candidate.vllm_ascend:
        return f"vllm-ascend {candidate.vllm_ascend} (vLLM {candidate.vllm})"
    return f"vLLM {candidate.vllm}" + (f" ({candidate.channel})" if candidate.channel not in ("vllm", "image") else "")


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


def check(
    host: Host, candidate: Candidate, wanted: Wanted, matrix: Matrix, rules: tuple[Rule, ...] = RULES
) -> tuple[Link, ...]:
    """Every link of a set that is broken or uncertain on a host."""
    return tuple(link for rule in rules for link in rule(host, candidate, wanted, matrix))
