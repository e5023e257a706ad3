"""Bytes of weights on each card.

The rules are those by which vLLM's layers shard: column and row parallel matrices are divided by the tensor parallel
size, key and value heads are divided until one is left and replicated from there on, the vocabulary is padded to a
multiple of 64 and divided, experts are divided by inner width or, with expert parallelism, by number; routers, norms
and the down-projections of latent attention are on every card.

Sources: vLLM 0.25.1, ``model_executor/layers/{linear,vocab_parallel_embedding}.py`` and
``distributed/utils.py:get_pp_indices``; figures of loaded weights in ``tests/fixtures/capacity_points.yml``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .architecture import (
    Architecture,
    ArchitectureError,
    DenseMlp,
    Layer,
    Mla,
    MoeMlp,
    Recurrent,
)
from .constants import DEFAULT, Constants

__all__ = [
    "QUANTIZATIONS",
    "Parallel",
    "ParallelError",
    "Quantization",
    "StageWeights",
    "Weights",
    "dtype_bytes",
    "pipeline_split",
    "quantization_of",
    "weight_bytes",
]

_DTYPES: Mapping[str, int] = {
    "float64": 8, "float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "int8": 1, "uint8": 1,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "fp8_ds_mla": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element.

    Args:
        dtype: a dtype's name as vLLM and PyTorch spell it, with or without ``torch.``.

    Raises:
        ArchitectureError: the name is unknown.
    """
    try:
        return _DTYPES[dtype.lower().removeprefix("torch.")]
    except KeyError:
        raise ArchitectureError("dtype", f"{dtype!r} is unknown; known: {', '.join(sorted(_DTYPES))}") from None


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a scheme stores matrices.

    Attributes:
        name: its name.
        bytes_per_weight: bytes of one weight of a quantized matrix, scales and zero points included.
        experts_only: only experts are quantized (gpt-oss in MXFP4).
    """

    name: str
    bytes_per_weight: float
    experts_only: bool = False


# Bytes are the packed bits and, for each group, its scale and its zero point: AWQ and GPTQ 4 bits + (16 + 4)/128,
# NVFP4 4 bits + 8/16, MXFP4 4 bits + 8/32. Source: the formats' layouts in vLLM 0.25.1,
# model_executor/layers/quantization/.
QUANTIZATIONS: Mapping[str, Quantization] = {
    q.name: q
    for q in (
        Quantization("fp8", 1 + 4 / 128**2),
        Quantization("w8a8", 1.0 + 4 / 4096),
        Quantization("int8", 1.0 + 4 / 4096),
        Quantization("ascend", 1.0 + 4 / 4096),
        Quantization("awq-int4", (4 + 20 / 128) / 8),
        Quantization("gptq-int4", (4 + 20 / 128) / 8),
        Quantization("gptq-int8", (8 + 24 / 128) / 8),
        Quantization("awq-int8", (8 + 24 / 128) / 8),
        Quantization("w4a16", (4 + 16 / 128) / 8),
        Quantization("w8a16", (8 + 16 / 128) / 8),
        Quantization("w4a8", (4 + 16 / 128) / 8),
        Quantization("nvfp4", (4 + 8 / 16) / 8),
        Quantization("mxfp4", (4 + 8 / 32) / 8, experts_only=True),
        Quantization("bitsandbytes", (4 + 32 / 64) / 8),
    )
}

_ALIASES: Mapping[str, str] = {
    "awq": "awq-int4", "awq_marlin": "awq-int4", "gptq": "gptq-int4", "gptq_marlin": "gptq-int4", "int4": "w4a16",
    "modelopt": "fp8", "modelopt_fp4": "nvfp4", "fp4": "nvfp4", "compressed-tensors": "w8a8", "w8a8_dynamic": "w8a8",
    "fbgemm_fp8": "fp8", "ptpc_fp8": "fp8", "fp8_w8a8": "fp8",
}  # fmt: skip


# Names such as fp8_block, bnb-4bit or int8-channel: what they say of the bits decides.
_PATTERNS = (
    (r"mxfp4", "mxfp4"), (r"(nv)?fp4", "nvfp4"), (r"awq.*8", "awq-int8"), (r"awq", "awq-int4"),
    (r"gptq.*8", "gptq-int8"), (r"gptq|auto.?round", "gptq-int4"), (r"w4a8", "w4a8"), (r"w8a16", "w8a16"),
    (r"fp8|mxfp8", "fp8"), (r"w4|int4|4.?bit|nf4|q4", "w4a16"), (r"w8|int8|8.?bit|q8", "w8a8"),
)  # fmt: skip


def quantization_of(name: str | None) -> Quantization | None:
    """The scheme of a name; None for none.

    Args:
        name: as vLLM's ``--quantization`` or a model card spells it. What stands behind a blank, such as a kernel's
            name in brackets, is ignored.

    Raises:
        ArchitectureError: the scheme is unknown.
    """
    if not name or name.lower() in ("none", "auto", "bf16", "bfloat16", "fp16", "float16"):
        return None
    key = name.lower().split()[0].replace("_w4a16", "-int4")
    key = _ALIASES.get(key, key)
    if key not in QUANTIZATIONS:
        key = next((scheme for pattern, scheme in _PATTERNS if re.search(pattern, key)), key)
    if key not in QUANTIZATIONS:
        raise ArchitectureError("quantization", f"{name!r} is unknown; known: {', '.join(sorted(QUANTIZATIONS))}")
    return QUANTIZATIONS[key]


class ParallelError(ValueError):
    """Parallel sizes that do not divide the model.

    Attributes:
        key: the size that is wrong.
        rule: what it has to be.
    """

    def __init__(self, key: str, rule: str) -> None:
        super().__init__(f"{key}: {rule}")
        self.key = key
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Parallel:
    """How one replica is spread.

    Attributes:
        tensor: cards that share each layer.
        pipeline: stages.
        data: data-parallel ranks that share the experts.
        expert: experts are divided by number instead of by width.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False

    def __post_init__(self) -> None:
        for key in ("tensor", "pipeline", "data"):
            if getattr(self, key) < 1:
                raise ParallelError(key, f"must be at least 1, not {getattr(self, key)}")

    @property
    def cards(self) -> int:
        """Cards of the whole deployment, all data-parallel ranks together."""
        return self.tensor * self.pipeline * self.data


def pipeline_split(layers: int, stages: int) -> tuple[range, ...]:
    """Which layers each pipeline stage has.

    vLLM gives each stage the same number and spreads the rest over the stages before the last, from the back.
    Source: vLLM 0.25.1, ``distributed/utils.py:get_pp_indices``.

    Raises:
        ParallelError: more stages than layers.
    """
    if stages > layers:
        raise ParallelError("pipeline", f"{stages} stages for {layers} layers")
    sizes = [layers // stages] * stages
    for back in range(2, layers % stages + 2):
        sizes[-back] += 1
    starts = [sum(sizes[:index]) for index in range(stages)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Bytes of the fullest card of one pipeline stage.

    Attributes:
        layers: the stage's decoder layers.
        embeddings: embedding and output matrix.
        mixers: attention and recurrent parts.
        dense: feed-forward blocks and shared experts.
        experts: routed experts.
        vision: vision tower.
        tables: norms, routers, rotary tables, buffers that are allocated while loading.
    """

    layers: range
    embeddings: int
    mixers: int
    dense: int
    experts: int
    vision: int
    tables: int

    @property
    def total(self) -> int:
        """All of it, in bytes."""
        return self.embeddings + self.mixers + self.dense + self.experts + self.vision + self.tables


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of weights on the cards of one replica.

    Attributes:
        stages: one entry a pipeline stage.
        exact: counted from a checkpoint's own headers instead of from the shape.
    """

    stages: tuple[StageWeights, ...]
    exact: bool = False

    @property
    def per_card(self) -> int:
        """Bytes on the fullest card."""
        return max(stage.total for stage in self.stages)


def _ceil(value: float) -> int:
    return math.ceil(value)


def _shard(count: int, parts: int, key: str) -> int:
    if count % parts:
        raise ParallelError("tensor", f"{parts} does not divide {count} {key}")
    return count // parts


def kv_heads_per_card(kv_heads: int, tensor: int) -> int:
    """Key and value heads on one card: divided until one is left, replicated from there on.

    Raises:
        ParallelError: the heads neither divide the cards nor are divided by them.
    """
    if kv_heads >= tensor:
        return _shard(kv_heads, tensor, "key and value heads")
    if tensor % kv_heads:
        raise ParallelError("tensor", f"{tensor} is no multiple of {kv_heads} key and value heads")
    return 1


def unpacked_latent(mixer: object, tensor: int) -> int:
    """Elements on a card of the up-projection of latent attention; 0 for any other layer.

    vLLM keeps it a second time, unquantized and split for decoding (``MLACommonImpl.W_UK_T``, ``W_UV``).
    """
    if not isinstance(mixer, Mla):
        return 0
    return (
        mixer.kv_lora_rank
        * _shard(mixer.heads, tensor, "attention heads")
        * (mixer.nope_head_dim + mixer.value_head_dim)
    )


def _mixer(layer: Layer, hidden: int, tensor: int, kept: float, matrix: float) -> float:
    mixer = layer.mixer
    if mixer is None:
        return 0.0
    if isinstance(mixer, Recurrent):
        return mixer.projection_elements / tensor * matrix + mixer.conv_channels * mixer.conv_kernel / tensor * kept
    heads = _shard(mixer.heads, tensor, "attention heads")
    if isinstance(mixer, Mla):
        queries = heads * (mixer.nope_head_dim + mixer.rope_head_dim)
        rank = mixer.q_lora_rank
        elements = float(hidden * rank + rank * queries) if rank else float(hidden * queries)
        elements += hidden * (mixer.kv_lora_rank + mixer.rope_head_dim)
        unpacked = unpacked_latent(mixer, tensor)
        elements += unpacked + heads * mixer.value_head_dim * hidden
        return elements * matrix + unpacked * kept
    kv = kv_heads_per_card(mixer.kv_heads, tensor)
    queries = heads * mixer.head_dim * (2 if mixer.gated else 1)
    elements = hidden * (queries + kv * (mixer.head_dim + mixer.value_head_dim))
    return (elements + heads * mixer.value_head_dim * hidden) * matrix


def weight_bytes(
    architecture: Architecture,
    parallel: Parallel = Parallel(),
    *,
    dtype: str | None = None,
    quantization: str | None = None,
    max_model_len: int | None = None,
    max_num_batched_tokens: int | None = None,
    pads_marlin: bool = False,
    constants: Constants = DEFAULT,
) -> Weights:
    """Bytes of weights on each card, computed from the shape.

    Args:
        architecture: the model.
        parallel: parallel sizes.
        dtype: dtype that weights are loaded in; None for the checkpoint's.
        quantization: scheme; None for the checkpoint's.
        max_model_len: tokens; the rotary table is this long where the model does not tell its own length.
        max_num_batched_tokens: tokens; size of the buffers that DeepStack towers allocate while loading.
        pads_marlin: MXFP4 experts are padded in both dimensions (Marlin kernels, before Hopper).
        constants: fitted constants.

    Returns:
        Bytes for each pipeline stage, without anything that the runtime reserves.

    Raises:
        ParallelError: sizes that do not divide the model.
        ArchitectureError: the shape does not tell the weights, or dtype or scheme are unknown.
    """
    kept = float(dtype_bytes(dtype or architecture.dtype))
    scheme = quantization_of(quantization or architecture.quantization)
    matrix = kept if scheme is None or scheme.experts_only else scheme.bytes_per_weight
    packed = kept if scheme is None else scheme.bytes_per_weight
    tensor = parallel.tensor
    stages = pipeline_split(len(architecture.layers), parallel.pipeline)
    if architecture.total_parameters is not None:
        each = packed if packed >= 1 else (1 - constants.unquantized) * packed + constants.unquantized * kept
        share = architecture.total_parameters * each / tensor / len(architecture.layers)
        spread = parallel.data if parallel.expert and architecture.is_moe else 1
        return Weights(tuple(StageWeights(s, 0, 0, _ceil(share * len(s) / spread), 0, 0, 0) for s in stages))
    hidden, vocab = architecture.hidden_size, architecture.vocab_size
    if hidden is None or vocab is None or not architecture.weights_known:
        raise ArchitectureError("hidden_size", "the shape does not tell the weights; read the checkpoint's headers")
    rows = -(-vocab // 64) * 64
    table = -(-rows // tensor) * hidden * kept
    rotary = (architecture.max_position or max_model_len or 0) * architecture.rope_dim * kept
    result: list[StageWeights] = []
    for stage in stages:
        mixers = dense = experts = tables = 0.0
        for index in stage:
            layer = architecture.layers[index]
            mixers += _mixer(layer, hidden, tensor, kept, matrix)
            tables += 2 * hidden * kept
            mlp = layer.mlp
            if isinstance(mlp, DenseMlp):
                dense += (3 if mlp.gated else 2) * hidden * mlp.intermediate / tensor * matrix
            elif isinstance(mlp, MoeMlp):
                dense += 3 * hidden * mlp.shared_intermediate / tensor * matrix
                tables += hidden * mlp.experts * kept
                experts += _experts(mlp, hidden, parallel, packed, kept, scheme, pads_marlin)
        first, last = 0 in stage, len(architecture.layers) - 1 in stage
        copies = int(first) + int(last and not (architecture.tied_embeddings and first))
        vision = _vision(architecture, tensor, kept, constants) if first else 0.0
        if first and architecture.vision and architecture.vision.outputs > 1 and max_num_batched_tokens:
            tables += (architecture.vision.outputs - 1) * max_num_batched_tokens * hidden * kept
        tables += rotary
        result.append(
            StageWeights(
                stage,
                _ceil(copies * table),
                _ceil(mixers),
                _ceil(dense),
                _ceil(experts),
                _ceil(vision),
                _ceil(tables),
            )
        )
    return Weights(tuple(result))


def _experts(
    mlp: MoeMlp,
    hidden: int,
    parallel: Parallel,
    packed: float,
    kept: float,
    scheme: Quantization | None,
    pads_marlin: bool,
) -> float:
    """Bytes of the routed experts of one layer on the fullest card.

    MXFP4 kernels pad: the hidden width to a multiple of 256 everywhere and, with Marlin, the inner width to one of 128
    (vLLM 0.25.1, ``layers/quantization/mxfp4.py``; it explains 64.38 instead of 60.7 GiB for gpt-oss-120b).
    """
    inner, width = mlp.intermediate, hidden
    ranks = parallel.tensor * parallel.data
    split = 1 if parallel.expert else ranks
    if scheme is not None and scheme.experts_only:
        width = -(-hidden // 256) * 256
        inner = -(-inner // (128 * split)) * 128 * split if pads_marlin else inner
    one = 3 * width * inner * packed + ((2 * inner + width) * kept if mlp.bias else 0)
    if parallel.expert:
        return -(-mlp.experts // ranks) * one
    return mlp.experts * one / ranks


def _vision(architecture: Architecture, tensor: int, kept: float, constants: Constants) -> float:
    tower = architecture.vision
    if tower is None:
        return 0.0
    whole = constants.vision_replicated
    return tower.parameters * kept * (whole + (1 - whole) / tensor)
