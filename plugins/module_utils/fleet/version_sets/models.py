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

from .compare import package_version
from .matrix import AscendModel, Matrix

SUPPORTED, UNSUPPORTED, UNCERTAIN = "supported", "unsupported", "uncertain"


@dataclass(frozen=True)
class ModelSupport:
    """An answer, why, and from where. nearest: known names when the architecture is in no registry."""

    level: str
    reason: str
    source: str
    confidence: str
    nearest: tuple[str, ...] = ()


@lru_cache(maxsize=65536)
def supported_by_vllm(architecture: str, vllm: str, matrix: Matrix) -> ModelSupport:
    """Whether this vLLM serves the architecture (the name in ``architectures`` of a model's config.json)."""
    record = matrix.architectures
    version = package_version(vllm)
    if version is None:
        return ModelSupport(UNCERTAIN, f"{vllm} is no version", record.source, "low")
    dropped = record.dropped_after.get(architecture)
    if dropped is not None and version > Version(dropped):
        reason = f"vLLM dropped {architecture} after {dropped}"
        return ModelSupport(UNSUPPORTED, reason, record.source, "high")
    served = record.architectures.get(architecture)
    if served is None:
        close = tuple(difflib.get_close_matches(architecture, record.architectures, n=3, cutoff=0.7))
        if dropped is not None:
            reason = f"{architecture} is in no recorded registry, but vLLM names {dropped} as its last version"
            return ModelSupport(UNCERTAIN, reason, record.source, "medium")
        reason = f"{architecture} is in the registry of no recorded vLLM; the Transformers backend may serve it"
        return ModelSupport(UNCERTAIN, reason, record.source, "low", close)
    if vllm in record.versions:
        if vllm in served:
            return ModelSupport(SUPPORTED, f"in the registry of vLLM {vllm}", record.source, "high")
        return ModelSupport(
            UNSUPPORTED, f"not in the registry of vLLM {vllm}; in {_span(served)}", record.source, "high"
        )
    before = [v for v in record.versions if Version(v) < version]
    after = [v for v in record.versions if Version(v) > version]
    around = before[-1:] + after[:1]
    answers = [v in served for v in around]
    if before and after and all(answers):
        return ModelSupport(SUPPORTED, f"in the registries around, {' and '.join(around)}", record.source, "medium")
    if before and after and not any(answers):
        reason = f"not in the registries around, {' and '.join(around)}; in {_span(served)}"
        return ModelSupport(UNSUPPORTED, reason, record.source, "medium")
    reason = f"the registry of {vllm} was not recorded; {architecture} is in {_span(served)}"
    return ModelSupport(UNCERTAIN, reason, record.source, "low")


def _span(versions: tuple[str, ...]) -> str:
    return f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else versions[0]


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
        return ModelSupport(UNCERTAIN, f"no list of models is recorded for vllm-ascend {vllm_ascend}", "", "low")
    rows = [r for r in matrix.ascend_models if r.architecture == architecture and r.vllm_ascend == base[-1]]
    row = next((r for r in rows if soc in r.soc), None)
    if row is None:
        others = ", ".join(sorted({s for r in rows for s in r.soc}))
        reason = f"{architecture} is not on vllm-ascend's list of {base[-1]} for {soc}" + (
            f" (it is for {others})" if others else ""
        )
        return ModelSupport(UNCERTAIN, reason, _list_source(matrix.ascend_models, base[-1]), "medium")
    if row.level == "unsupported":
        reason = f"vllm-ascend's list of {base[-1]} says that {architecture} is not supported"
        return ModelSupport(UNSUPPORTED, reason, row.source, row.confidence)
    if row.level == "supported":
        return ModelSupport(SUPPORTED, f"on vllm-ascend's list of {base[-1]} for {soc}", row.source, row.confidence)
    reason = f"vllm-ascend's list of {base[-1]} calls {architecture} {row.level} on {soc}"
    return ModelSupport(UNCERTAIN, reason, row.source, row.confidence)


def _list_source(rows: tuple[AscendModel, ...], release: str) -> str:
    return next((r.source for r in rows if r.vllm_ascend == release), "")
