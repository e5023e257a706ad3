"""Whether a model architecture is served by a vLLM, and by a vllm-ascend on a chip.

The registries of some vLLM versions are recorded (``architectures.json``). Between two recorded versions
that agree, the versions between are taken to agree; where they differ, or beyond the newest, the answer is
"not certain". vLLM itself says after which version it dropped an architecture; that is exact.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from ..rule_table import RULES as TABLE
from ..rule_table.phrases import words
from .compare import package_version
from .matrix import AscendModel, Matrix
from .source import short_source

SUPPORTED, UNSUPPORTED, UNCERTAIN = "supported", "unsupported", "uncertain"
_NO_WORDS = {"near": "", "near_zh": ""}


@dataclass(frozen=True)
class ModelSupport:
    """An answer, why, and from where. nearest: known names when the architecture is in no registry.

    rule is the row of the table that words an answer other than "supported", params what fills it; said is what speaks
    for "supported", which is no problem and needs no row.
    """

    level: str
    source: str
    confidence: str
    rule: str | None = None
    params: tuple[tuple[str, str], ...] = ()
    said: str = ""
    nearest: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in English."""
        return TABLE[self.rule].rule.format(**dict(self.params)) if self.rule else self.said


def yes(said: str, source: str, confidence: str) -> ModelSupport:
    """The answer "supported"."""
    return ModelSupport(SUPPORTED, source, confidence, said=said)


def no(
    level: str, rule: str, source: str, confidence: str, nearest: tuple[str, ...] = (), /, **params: object
) -> ModelSupport:
    """Another answer, worded by a row of the table."""
    filled = {"source": short_source(source)} | params
    pairs = tuple((name, str(value)) for name, value in filled.items())
    return ModelSupport(level, source, confidence, rule, pairs, nearest=nearest)


@lru_cache(maxsize=65536)
def supported_by_vllm(architecture: str, vllm: str, matrix: Matrix) -> ModelSupport:
    """Whether this vLLM serves the architecture (the name in ``architectures`` of a model's config.json)."""
    record = matrix.architectures
    source = record.source
    version = package_version(vllm)
    if version is None:
        return no(UNCERTAIN, "SET-096", source, "low", architecture=architecture, vllm=vllm)
    dropped = record.dropped_after.get(architecture)
    if dropped is not None and version > Version(dropped):
        return no(UNSUPPORTED, "SET-090", source, "high", architecture=architecture, dropped=dropped)
    served = record.architectures.get(architecture)
    if served is None:
        if dropped is not None:
            return no(UNCERTAIN, "SET-095", source, "medium", architecture=architecture, dropped=dropped)
        close = tuple(difflib.get_close_matches(architecture, record.architectures, n=3, cutoff=0.7))
        near = words("near", "near-names", names=", ".join(close)) if close else _NO_WORDS
        return no(UNCERTAIN, "SET-094", source, "low", close, architecture=architecture, **near)
    if vllm in record.versions:
        if vllm in served:
            return yes(f"in the registry of vLLM {vllm}", source, "high")
        return no(UNSUPPORTED, "SET-091", source, "high", architecture=architecture, vllm=vllm, span=_span(served))
    before = [v for v in record.versions if Version(v) < version]
    after = [v for v in record.versions if Version(v) > version]
    around = before[-1:] + after[:1]
    answers = [v in served for v in around]
    params = {"architecture": architecture, "vllm": vllm, "span": _span(served)}
    if before and after and all(answers):
        return yes(f"in the registries around, {' and '.join(around)}", source, "medium")
    if before and after and not any(answers):
        return no(UNSUPPORTED, "SET-092", source, "medium", around=" / ".join(around), **params)
    return no(UNCERTAIN, "SET-093", source, "low", **params)


def _span(versions: tuple[str, ...]) -> str:
    return f"{versions[0]} - {versions[-1]}" if len(versions) > 1 else versions[0]


@lru_cache(maxsize=65536)
def supported_by_vllm_ascend(architecture: str, vllm_ascend: str, soc: str, matrix: Matrix) -> ModelSupport:
    """What vllm-ascend's own list of models says.

    The list of the newest recorded release up to this one counts.
    """
    version = package_version(vllm_ascend)
    recorded = sorted({r.vllm_ascend for r in matrix.ascend_models}, key=Version)
    base = [v for v in recorded if version is not None and Version(v).release <= version.release]
    soc = soc.removesuffix("-pro")
    if not base:
        return no(UNCERTAIN, "SET-103", "", "low", architecture=architecture, release=vllm_ascend)
    listed = base[-1]
    rows = [r for r in matrix.ascend_models if r.architecture == architecture and r.vllm_ascend == listed]
    row = next((r for r in rows if soc in r.soc), None)
    params = {"architecture": architecture, "listed": listed, "soc": soc}
    if row is None:
        chips = ", ".join(sorted({s for r in rows for s in r.soc}))
        others = words("others", "listed-for", soc=chips) if chips else {"others": "", "others_zh": ""}
        return no(UNCERTAIN, "SET-101", _list_source(matrix.ascend_models, listed), "medium", **params, **others)
    if row.level == "unsupported":
        return no(UNSUPPORTED, "SET-100", row.source, row.confidence, **params)
    if row.level == "supported":
        return yes(f"on vllm-ascend's list of {listed} for {soc}", row.source, row.confidence)
    return no(UNCERTAIN, "SET-102", row.source, row.confidence, **params, **words("said", f"level-{row.level}"))


def _list_source(rows: tuple[AscendModel, ...], release: str) -> str:
    return next((r.source for r in rows if r.vllm_ascend == release), "")
