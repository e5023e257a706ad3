"""Whether a quantization method has hardware on a host's cards.

Rows: ``quantization.yml`` (what a method needs of an NVIDIA card or a CPU) and ``ascend.yml`` (what vllm-ascend takes).
Methods of NVIDIA and CPU: ``awq``, ``gptq``, ``marlin``, ``int8-w8a8``, ``int8-w4a8``, ``fp8`` and, for the KV cache in
FP8 with FlashAttention, ``kv-fp8-flash-attention``. Methods of Ascend: the names that ``--quantization`` takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..rule_table.phrases import words
from .compare import at_least
from .facts import HostFacts
from .links import capability_of, look_at
from .matrix import CudaCard, Matrix, QuantizationRow, load_matrix
from .models import UNCERTAIN, UNSUPPORTED, ModelSupport, no, yes
from .solver import VersionSet

#: Weights load and save memory, the card computes nothing in the method's format: the answer is "unsupported" all the
#: same, and its rule only warns.
WEIGHT_ONLY = "SET-111"


def quantization_support(
    method: str, host_facts: HostFacts | Mapping[str, Any], chosen: VersionSet, matrix: Matrix | None = None
) -> ModelSupport:
    """Whether a method works for the set of a host, why, and from where. What no row says is uncertain."""
    table = matrix or load_matrix()
    facts = host_facts if isinstance(host_facts, HostFacts) else HostFacts.from_mapping(host_facts)
    if chosen.backend == "ascend":
        return _on_ascend(method, chosen, table)
    row = next((r for r in table.quantization if r.method == method), None)
    if row is None or chosen.backend not in ("cuda", "cpu"):
        return no(UNCERTAIN, "SET-115", "", "low", method=method, backend=chosen.backend)
    if chosen.backend == "cpu":
        if chosen.arch in row.cpu:
            return yes(f"{method} runs on a CPU ({chosen.arch})", row.source, row.confidence)
        others = _formats(r for r in table.quantization if chosen.arch in r.cpu)
        return no(UNSUPPORTED, "SET-112", row.source, row.confidence, method=method, arch=chosen.arch, **others)
    cards = capability_of(look_at(facts, table), table)
    if not cards:
        return no(UNCERTAIN, "SET-116", row.source, "low", method=method)
    for card in cards:
        if not _computes(card, row):
            loads = row.weight_only_from is not None and at_least(card.capability, row.weight_only_from)
            rule = WEIGHT_ONLY if loads else "SET-110"
            params = {"method": method, "card": card.card, "have": card.capability}
            params |= _formats(r for r in table.quantization if _computes(card, r))
            return no(UNSUPPORTED, rule, row.source, row.confidence, **params, **_need(row))
    return yes(f"{method} runs on {cards[0].card}", row.source, row.confidence)


def _computes(card: CudaCard, row: QuantizationRow) -> bool:
    """Whether a card computes in a method's format."""
    if row.capabilities:
        return card.capability in row.capabilities
    return row.capability_min is not None and bool(at_least(card.capability, row.capability_min))


def _formats(rows: Iterable[QuantizationRow]) -> dict[str, str]:
    """Formats of weights that would do, as the parameter ``others``."""
    names = [r.method for r in rows if not r.method.startswith("kv-")]
    return words("others", "formats", names=", ".join(names)) if names else words("others", "formats-none")


def _need(row: QuantizationRow) -> dict[str, str]:
    if row.capabilities:
        return words("need", "capability-exactly", need=", ".join(row.capabilities))
    if row.capability_min is None:
        return words("need", "capability-none")
    return words("need", "capability-or-newer", need=row.capability_min)


def _on_ascend(method: str, chosen: VersionSet, matrix: Matrix) -> ModelSupport:
    row = matrix.ascend_quantization[0]
    exact = row.vllm_ascend == chosen.vllm_ascend
    confidence = row.confidence if exact else "medium"
    params = {"method": method, "listed": row.vllm_ascend, "release": chosen.vllm_ascend}
    if method in row.supported:
        if exact or method == "ascend":
            return yes(f"vllm-ascend {row.vllm_ascend} takes {method}", row.source, confidence)
        return no(UNCERTAIN, "SET-114", row.source, confidence, **params)
    if method in row.unsupported:
        return no(UNSUPPORTED if exact else UNCERTAIN, "SET-113", row.source, confidence, **params)
    return no(UNCERTAIN, "SET-115", row.source, "low", method=method, backend=chosen.backend)
