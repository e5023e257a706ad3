"""What a kind of card cannot do: rules over a deployment's options on hosts with accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .contract import Parsed
from .inventory import Inventory
from .placement import Placed, artifact_of
from .problems import Problem, path_of, problem
from .version_plan import Chosen
from .version_rules import problems_of_quantization
from .version_sets.facts import vendor_of
from .version_sets.links import capability_of, look_at
from .version_sets.matrix import Matrix

BF16 = frozenset({"bfloat16", "bf16"})
#: vLLM refuses bfloat16 below this compute capability (vllm/platforms/cuda.py, 0.33.0).
BF16_CAPABILITY = (8, 0)
#: What vllm-ascend takes for block_size; other values it replaces without a word (vllm_ascend/utils.py, 0.30.0rc2).
ASCEND_BLOCK_SIZE = 128


#: Kernels that a method is also named after.
SAME_METHOD = {"awq_marlin": "awq", "gptq_marlin": "gptq"}
#: What people call checkpoints of ModelSlim, whose method in vllm-ascend is `ascend`.
MODELSLIM = frozenset({"w8a8", "w8a8_dynamic", "w4a8", "w4a8_dynamic", "w8a16", "int8"})


def option(engine: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """An option as the operator wrote it: the name in its spelling, and the value; None where it is not there."""
    for spelled, value in engine.items():
        if spelled.lstrip("-").replace("_", "-") == name:
            return spelled, value
    return name, None


def check_options(engine: Placed, chosen: Chosen, matrix: Matrix) -> list[Problem]:
    """Faults of one deployment on one kind of host."""
    found: list[Problem] = []
    spelled, dtype = option(engine.deployment.engine, "dtype")
    if isinstance(dtype, str) and dtype.lower() in BF16:
        for card in _without_bf16(chosen, matrix):
            path = path_of((*engine.prefix, "engine", spelled))
            found.append(problem("SVC-024", path, dtype, card=card, host=engine.host))
    spelled, size = option(engine.deployment.engine, "block-size")
    if chosen.set.backend == "ascend" and size is not None and size != ASCEND_BLOCK_SIZE:
        path = path_of((*engine.prefix, "engine", spelled))
        found.append(problem("SVC-025", path, size, default=ASCEND_BLOCK_SIZE))
    return found


def check_quantization(
    engine: Placed, chosen: Chosen, parsed: Parsed, inventory: Inventory, matrix: Matrix
) -> list[Problem]:
    """Whether the cards compute what the weights, and the KV cache, are said to be in."""
    found: list[Problem] = []
    backend = chosen.set.backend
    for path, method in _methods(engine, backend, parsed, inventory):
        if backend == "ascend" and method.lower() in MODELSLIM and path.endswith("quantization"):
            found.append(problem("SVC-027", path, method))
        elif backend == "ascend" or method in {row.method for row in matrix.quantization}:
            found += problems_of_quantization(path, method, chosen.facts, chosen.set, matrix)
    return found


def _methods(engine: Placed, backend: str, parsed: Parsed, inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Each scheme with the place that says it: an option goes before the artifact, and that before config.json."""
    spelled, kv = option(engine.deployment.engine, "kv-cache-dtype")
    if backend == "cuda" and str(kv).startswith("fp8"):
        yield path_of((*engine.prefix, "engine", spelled)), "kv-fp8-flash-attention"
    spelled, method = option(engine.deployment.engine, "quantization")
    if isinstance(method, str):
        yield path_of((*engine.prefix, "engine", spelled)), SAME_METHOD.get(method, method)
        return
    model = parsed.models.get(engine.model)
    if model is None or engine.version not in model.versions:
        return
    name, artifact = artifact_of(engine, parsed, backend)
    where = ("fleet_models", engine.model, "versions", engine.version, "artifacts", name)
    if artifact.quantization is not None:
        yield path_of((*where, "quantization")), SAME_METHOD.get(artifact.quantization, artifact.quantization)
        return
    config = inventory.config_of(artifact.source, artifact.config)
    stated = (config or {}).get("quantization_config")
    method = stated.get("quant_method") if isinstance(stated, Mapping) else None
    if isinstance(method, str):
        yield path_of((*where, "source")), SAME_METHOD.get(method, method)


def _without_bf16(chosen: Chosen, matrix: Matrix) -> list[str]:
    """Cards of the host that have no bfloat16 arithmetic."""
    host = look_at(chosen.facts, matrix)
    cards = [
        f"{row.card} (compute capability {row.capability})"
        for row in capability_of(host, matrix)
        if tuple(int(n) for n in row.capability.split(".")) < BF16_CAPABILITY
    ]
    for card in host.cards:
        if vendor_of(card) == "hygon":
            words = re.split(r"[\s,]+", card.chip.upper())
            cards += [f"{r.card} ({r.gfx})" for r in matrix.dcu_cards if r.bf16 is False and r.card.upper() in words]
    return list(dict.fromkeys(cards))
