"""Rules on Ascend: the chip and the way of installing for it, HDK, CANN, the system, and the release of vllm-ascend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from ...rule_table.phrases import words
from ..candidates import Candidate
from ..compare import matches_vendor, package_version, vendor_version, within
from ..facts import Wanted, vendor_of
from ..matrix import CannHdk, Matrix, OsDriverMinimum, OsRow, SocRow
from .link import BROKEN, NONE, UNKNOWN, Host, Link, Move, find_soc, link


def rule_soc(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """vllm-ascend runs on the chip, and the way of installing covers it."""
    if candidate.backend != "ascend":
        return
    unknown = [c for c in host.cards if vendor_of(c) == "huawei" and find_soc(c, matrix) is None]
    for card in unknown:
        have = card.pci_id or card.chip or UNKNOWN
        yield link("soc", "SET-040", None, have, "a known chip", warn=bool(host.socs))
    if len(host.socs) > 1:
        have = ", ".join(s.soc for s in host.socs)
        yield link("soc-mixed", "SET-041", None, have, "one chip", chips=have)
    soc = host.soc
    if soc is None:
        return
    if soc.vllm_ascend == "unsupported":
        named = {"chip": soc.chip, "products": soc.products}
        yield link("soc", "SET-042", soc, soc.chip, "a supported chip", of=named)
        return
    if soc.vllm_ascend == "unlisted":
        named = {"chip": soc.chip, "products": soc.products}
        yield link("soc", "SET-043", soc, soc.chip, "a listed card", warn=True, of=named)
    release = package_version(candidate.vllm_ascend or "")
    since = package_version(soc.since) if soc.since else None
    if release and since and release.release < since.release:
        yield link("soc", "SET-044", soc, candidate.vllm_ascend, soc.since, chip=soc.chip)
    yield from _scope(host, candidate, soc, matrix)


def _scope(host: Host, candidate: Candidate, soc: SocRow, matrix: Matrix) -> Iterator[Link]:
    scope = next((s for s in matrix.method_scopes if s.method == candidate.method), None)
    if scope is None:
        return
    release = package_version(candidate.vllm_ascend or "")
    way = words("method", f"method-{candidate.method}")
    if soc.soc not in scope.soc:
        of = {"soc": soc.soc, "release": candidate.vllm_ascend}
        yield link("wheel-scope", "SET-045", scope, soc.soc, ", ".join(scope.soc), of={**of, **way})
    elif scope.since and release and release.release < (package_version(scope.since) or release).release:
        firm = scope.confidence != "low"
        yield link("wheel-scope", "SET-046", scope, candidate.vllm_ascend, scope.since, firm=firm, of=way)
    elif not scope.firm:
        yield link("wheel-scope", "SET-047", scope, candidate.vllm_ascend, "a checked index", warn=True, of=way)
    for card in host.cards:
        named = find_soc(replace(card, pci_id=None), matrix) if vendor_of(card) == "huawei" and card.chip else None
        if named and named.chip != soc.chip and len(host.socs) == 1:
            yield link("soc-name", "SET-048", soc, card.chip, soc.chip, warn=True)


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
    hdk, cann = hdk_of(host), candidate.cann
    if cann is None:
        yield link("hdk", "SET-049", None, hdk or UNKNOWN, "a CANN", warn=True, release=candidate.vllm_ascend)
        return
    row = matrix.cann_hdk_row(cann)
    if row is None:
        yield link("hdk-missing" if hdk is None else "hdk", "SET-051", None, hdk or UNKNOWN, "?", warn=True, cann=cann)
        return
    if hdk is None:
        yield link("hdk-missing", "SET-050", row, UNKNOWN, row.paired, warn=True, cann=cann)
        return
    answer = judge_hdk(hdk, row)
    need = ", ".join(row.compatible)
    move = Move("host", "hdk", hdk, row.paired, 1, 3.0, (("hdk_version", row.paired),))
    if answer == "older":
        yield link("hdk", "SET-052", row, hdk, need, move=move, cann=cann, paired=row.paired)
    elif answer == "disputed":
        yield link("hdk", "SET-053", row, hdk, need, warn=True, cann=cann)
    elif answer == "unlisted":
        yield link("hdk", "SET-054", row, hdk, need, warn=True, cann=cann)
    minimum = _driver_minimum(host, candidate, matrix)
    if minimum is not None:
        have, floor = vendor_version(hdk), vendor_version(minimum.driver_min)
        if have and floor and have < floor:
            on = {"card": minimum.card, "firmware": minimum.firmware_min}
            yield link("hdk-system", "SET-055", minimum, hdk, minimum.driver_min, move=move, of=on)


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
        back = {"downgrade": layout.downgrade, "downgrade_zh": layout.downgrade_zh}
        yield link("cann-layout", "SET-056", layout, have, candidate.cann, warn=True, of=back)
    else:
        yield link("cann-missing", "SET-057", layout, have, candidate.cann, warn=True)


def rule_ascend_system(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The vendor lists the system for the chip. Its list is the one of its own tool, so this only warns."""
    if candidate.backend != "ascend" or host.soc is None or host.os is None:
        return
    soc = host.soc.soc
    if not _is_listed(host.os, soc, candidate.arch, matrix):
        row, on = matrix.os_cards[0], {"soc": soc, "os": host.os.name, "arch": candidate.arch}
        yield link("ascend-system", "SET-058", row, host.os.name, "a listed system", warn=True, of=on)


@lru_cache(maxsize=1024)
def _is_listed(os: OsRow, soc: str, arch: str, matrix: Matrix) -> bool:
    """Whether the vendor's tool, or its list of systems by server, names a chip on a system."""
    tool = [r.soc for r in matrix.os_cards if r.arch == arch and _ascend_name(os, r.os)]
    servers = [v.soc for v in matrix.vendor_os if v.arch == arch and any(_vendor_name(os, o) for o in v.os)]
    return any(soc in s or soc.removesuffix("-pro") in s for s in tool) or any(soc in s for s in servers)


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
    row, release = candidate.rows[0], candidate.vllm_ascend
    if not candidate.listed:
        move = Move("pin", "unlisted", "no", "yes", 1, 4.0, (("unlisted", True),))
        found = link("unlisted", "SET-059", row, release, "a row of the matrix", warn=True, move=move, release=release)
        yield found if wanted.unlisted else replace(found, level=BROKEN)
    if candidate.prerelease:
        move = Move("pin", "prereleases", "no", "yes", 1, 2.0, (("prereleases", True),))
        warn = wanted.prereleases is not False
        yield link("prerelease", "SET-060", row, release, "a release", warn=warn, move=move, release=release)
    npu = candidate.torch_npu
    if npu and candidate.method != "container" and matrix.on_index("torch-npu", npu) is None:
        yield link("torch-npu-build", "SET-061", row, npu, "a published build", warn=True, npu=npu)
    if npu is None:
        yield link("torch-npu-build", "SET-062", row, NONE, "a torch_npu", warn=True, release=release)
    if candidate.method != "container":
        engine = matrix.on_index("vllm", candidate.vllm)
        if engine is None or not engine.sdist:
            yield link("vllm-source", "SET-063", engine, NONE, "an sdist", warn=True, vllm=candidate.vllm)
        for build in matrix.source_builds:
            if build.backend is None and candidate.method != "source" and within(candidate.vllm, build.vllm):
                more = {"vllm": candidate.vllm, "needs": build.needs, "needs_zh": build.needs_zh}
                yield link("build-tools", "SET-064", build, UNKNOWN, build.needs, warn=True, of=more)
