"""Whether a quantization method has hardware on a host's cards.

Rows: ``quantization.yml`` (what a method needs of an NVIDIA card or a CPU) and ``ascend.yml`` (what vllm-ascend takes).
Methods of NVIDIA and CPU: ``awq``, ``gptq``, ``marlin``, ``int8-w8a8``, ``int8-w4a8``, ``fp8`` and, for the KV cache in
FP8 with FlashAttention, ``kv-fp8-flash-attention``. Methods of Ascend: the names that ``--quantization`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .compare import at_least
from .facts import HostFacts
from .links import capability_of, look_at
from .matrix import Matrix, load_matrix
from .models import SUPPORTED, UNCERTAIN, UNSUPPORTED, ModelSupport
from .solver import VersionSet


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
        return ModelSupport(UNCERTAIN, f"the matrix says nothing of {method} on {chosen.backend}", "", "low")
    if chosen.backend == "cpu":
        level = SUPPORTED if chosen.arch in row.cpu else UNSUPPORTED
        verb = "runs" if level == SUPPORTED else "does not run"
        return ModelSupport(level, f"{method} {verb} on a CPU ({chosen.arch})", row.source, row.confidence)
    cards = capability_of(look_at(facts, table), table)
    if not cards:
        return ModelSupport(UNCERTAIN, "the compute capability of the card is not known", row.source, "low")
    for card in cards:
        exact = row.capabilities and card.capability not in row.capabilities
        below = row.capability_min is not None and not at_least(card.capability, row.capability_min)
        if exact or below or (row.capability_min is None and not row.capabilities):
            need = ", ".join(row.capabilities) or f"{row.capability_min or 'no NVIDIA card'} or newer"
            reason = f"{method} needs compute capability {need}; {card.card} has {card.capability}"
            if row.weight_only_from and at_least(card.capability, row.weight_only_from):
                reason += "; its weights load and save memory, the arithmetic is not in FP8"
            return ModelSupport(UNSUPPORTED, reason, row.source, row.confidence)
    return ModelSupport(SUPPORTED, f"{method} runs on {cards[0].card}", row.source, row.confidence)


def _on_ascend(method: str, chosen: VersionSet, matrix: Matrix) -> ModelSupport:
    row = matrix.ascend_quantization[0]
    exact = row.vllm_ascend == chosen.vllm_ascend
    if method in row.supported:
        level = SUPPORTED if exact or method == "ascend" else UNCERTAIN
        reason = f"vllm-ascend {row.vllm_ascend} takes {method}"
        return ModelSupport(level, reason, row.source, row.confidence if exact else "medium")
    if method in row.unsupported:
        reason = f"vllm-ascend {row.vllm_ascend} takes no {method}: use a checkpoint made for it (ascend, W8A8)"
        level = UNSUPPORTED if exact else UNCERTAIN
        return ModelSupport(level, reason, row.source, row.confidence if exact else "medium")
    return ModelSupport(UNCERTAIN, f"nothing was read of {method} on vllm-ascend", row.source, "low")
