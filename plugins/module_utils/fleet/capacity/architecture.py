"""The shape of a model, as far as memory depends on it.

An `Architecture` is read from a model's ``config.json`` (`from_config`) or from plain numbers (`from_numbers`). It says
nothing about versions, chips or parallel sizes: `weights`, `kv` and `reserve` turn it into bytes.

The names of the keys are those of Hugging Face ``config.json`` files; where a family has its own names (GPT-2, Falcon,
DeepSeek, Qwen3-Next, Kimi-Linear, Mamba-2 hybrids, Gemma 3n) they are listed beside the field that they fill.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "Architecture",
    "ArchitectureError",
    "Attention",
    "DenseMlp",
    "Layer",
    "Mla",
    "MoeMlp",
    "Recurrent",
    "VisionTower",
    "from_config",
    "from_numbers",
]


class ArchitectureError(ValueError):
    """A description of a model that is contradictory, or lacks a number that cannot be derived.

    Attributes:
        key: the key that is wrong or missing.
        rule: what it has to be.
    """

    def __init__(self, key: str, rule: str) -> None:
        super().__init__(f"{key}: {rule}")
        self.key = key
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with separate keys and values: MHA, GQA and MQA, full, sliding or chunked.

    Attributes:
        heads: query heads.
        kv_heads: key and value heads; equal to `heads` for MHA, 1 for MQA.
        head_dim: elements of a key head.
        value_head_dim: elements of a value head.
        window: tokens that a sliding window or a chunk sees; None for full attention.
        chunked: True when `window` is a chunk (Llama 4) instead of a window that slides.
        gated: the query projection also makes an output gate, so that it has twice the rows (Qwen3-Next).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    window: int | None = None
    chunked: bool = False
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention (DeepSeek, Kimi): one compressed vector a token, the same on every card.

    Attributes:
        heads: query heads.
        kv_lora_rank: elements of the compressed vector.
        rope_head_dim: elements of the shared rotary key.
        nope_head_dim: elements of a key head without rotation.
        value_head_dim: elements of a value head.
        q_lora_rank: rank of the query's compression; None when queries are projected directly.
        index_head_dim: elements of the sparse indexer's key (DeepSeek-V3.2); None when there is no indexer.
    """

    heads: int
    kv_lora_rank: int
    rope_head_dim: int
    nope_head_dim: int = 128
    value_head_dim: int = 128
    q_lora_rank: int | None = None
    index_head_dim: int | None = None


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A layer with a state of constant size: Mamba, Mamba-2, gated DeltaNet, Kimi delta attention.

    Attributes:
        kind: ``mamba``, ``mamba2``, ``gdn`` or ``kda``.
        conv_channels: channels of the causal convolution over all cards.
        conv_kernel: its width; ``conv_kernel - 1`` columns are kept.
        state_elements: elements of the recurrent state over all cards.
        projection_elements: weights of the layer's projections over all cards.
        state_dtype: dtype of the recurrent state; None for the model's own.
    """

    kind: str
    conv_channels: int
    conv_kernel: int
    state_elements: int
    projection_elements: int
    state_dtype: str | None = None


@dataclass(frozen=True, slots=True)
class DenseMlp:
    """A feed-forward block.

    Attributes:
        intermediate: its inner width.
        gated: three matrices (gate, up, down) instead of two.
    """

    intermediate: int
    gated: bool = True


@dataclass(frozen=True, slots=True)
class MoeMlp:
    """A mixture of experts.

    Attributes:
        experts: routed experts.
        top_k: experts that a token uses.
        intermediate: inner width of one routed expert.
        shared_intermediate: inner width of all shared experts together; 0 without any.
        bias: experts have biases (gpt-oss).
    """

    experts: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer.

    Attributes:
        mixer: attention or recurrent part; None for a layer without (a Nemotron-H MLP layer).
        mlp: feed-forward part; None for a layer without.
        shares_kv: the layer reads another layer's KV cache and has none of its own (Gemma 3n).
    """

    mixer: Attention | Mla | Recurrent | None
    mlp: DenseMlp | MoeMlp | None
    shares_kv: bool = False


@dataclass(frozen=True, slots=True)
class VisionTower:
    """The encoder of a model that sees.

    Attributes:
        parameters: weights of the tower and its projector.
        hidden: width of the tower.
        intermediate: inner width of its feed-forward blocks.
        patches_per_token: patches that become one token of the language model.
        item_tokens: most tokens that one image can become.
        outputs: language-model widths that a token carries (4 with DeepStack: the embedding and three more levels).
    """

    parameters: int
    hidden: int = 1152
    intermediate: int = 4304
    patches_per_token: int = 4
    item_tokens: int = 4096
    outputs: int = 1


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model's shape.

    Attributes:
        layers: decoder layers in order.
        hidden_size: width of the residual stream; None when unknown (KV can still be computed, weights cannot).
        vocab_size: rows of the embedding; None when unknown.
        tied_embeddings: the output matrix is the embedding.
        max_position: the model's own longest context in tokens; None when unknown.
        rope_dim: rotated elements of a head; the cosine table has ``max_position * rope_dim`` elements.
        dtype: dtype of the checkpoint.
        quantization: quantization of the checkpoint; None without.
        model_type: the family's name in ``config.json``; empty when unknown.
        vision: vision tower; None without.
        total_parameters: weights of the whole model when its shape does not tell them.
        next_token_layers: multi-token-prediction layers that the checkpoint carries.
        incomplete: sizes that only weights and activations need are missing.
    """

    layers: tuple[Layer, ...]
    hidden_size: int | None
    vocab_size: int | None
    tied_embeddings: bool = False
    max_position: int | None = None
    rope_dim: int = 0
    dtype: str = "bfloat16"
    quantization: str | None = None
    model_type: str = ""
    vision: VisionTower | None = None
    total_parameters: int | None = None
    next_token_layers: int = 0
    incomplete: bool = False

    def __post_init__(self) -> None:
        if not self.layers:
            raise ArchitectureError("layers", "a model has at least one layer")
        for key in ("hidden_size", "vocab_size", "max_position", "total_parameters"):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ArchitectureError(key, f"must be positive, not {value}")

    @property
    def is_moe(self) -> bool:
        """Whether any layer has experts."""
        return any(isinstance(layer.mlp, MoeMlp) for layer in self.layers)

    @property
    def is_recurrent(self) -> bool:
        """Whether any layer keeps a state of constant size."""
        return any(isinstance(layer.mixer, Recurrent) for layer in self.layers)

    @property
    def weights_known(self) -> bool:
        """Whether the shape tells the weights."""
        return self.total_parameters is not None or (
            self.hidden_size is not None
            and self.vocab_size is not None
            and all(layer.mlp is not None or layer.mixer is not None for layer in self.layers)
            and not self.incomplete
        )

    def with_quantization(self, quantization: str | None) -> Architecture:
        """The same model, quantized otherwise."""
        return replace(self, quantization=quantization)


#: No number of a real model comes near these: a text that was cut or glued together does, and would take all memory.
_MOST, _MOST_LAYERS = 10**12, 10_000


def _int(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, bool):
            raise ArchitectureError(key, "must be a whole number")
        if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            if abs(value) > _MOST:
                raise ArchitectureError(key, f"must be at most {_MOST}")
            return int(value)
        if value is not None and not isinstance(value, (Mapping, list)):
            raise ArchitectureError(key, f"must be a whole number, not {value!r}")
    return None


def _need(config: Mapping[str, Any], *keys: str) -> int:
    value = _int(config, *keys)
    if value is None:
        raise ArchitectureError(keys[0], "is missing")
    if value <= 0:
        raise ArchitectureError(keys[0], f"must be positive, not {value}")
    return value


# Vision towers by family: width, inner width, patches a token, most tokens of one image, widths that a token carries.
# Source: the families' public config.json and preprocessor_config.json (largest picture / area of a token).
_TOWERS: dict[str, tuple[int, int, int, int, int]] = {
    "qwen2_vl": (1280, 5120, 4, 16384, 1),
    "qwen2_5_vl": (1280, 3420 * 3 // 2, 4, 16384, 1),
    "qwen3_vl": (1152, 4304, 4, 16384, 4),
    "qwen3_vl_moe": (1152, 4304, 4, 16384, 4),
    "gemma3": (1152, 4304, 16, 256, 1),
    "llava": (1024, 4096, 1, 576, 1),
    "llava_next": (1024, 4096, 1, 2880, 1),
    "pixtral": (1024, 4096, 4, 3025, 1),
    "mistral3": (1024, 4096, 4, 3025, 1),
    "mllama": (1280, 5120, 1, 6404, 1),
    "internvl_chat": (1024, 4096, 4, 3328, 1),
}


def _tower(model_type: str, parameters: int) -> VisionTower:
    hidden, inner, patches, tokens, outputs = _TOWERS.get(model_type, (1152, 4304, 4, 4096, 1))
    return VisionTower(parameters, hidden, inner, patches, tokens, outputs)


def _tower_from_config(model_type: str, vision: Mapping[str, Any], text_hidden: int) -> VisionTower:
    hidden = _int(vision, "hidden_size", "embed_dim", "width") or 1152
    depth = _int(vision, "depth", "num_hidden_layers", "layers") or 24
    inner = _int(vision, "intermediate_size") or int(hidden * float(vision.get("mlp_ratio") or 4))
    gated = model_type in ("qwen2_5_vl", "pixtral", "mistral3")
    block = 4 * hidden * hidden + (3 if gated else 2) * hidden * inner
    merge = _int(vision, "spatial_merge_size") or 1
    merged = hidden * merge * merge
    outputs = 1 + len(vision.get("deepstack_visual_indexes") or ())
    projector = (merged * merged + merged * text_hidden) * outputs
    base = _tower(model_type, depth * block + projector)
    return replace(base, hidden=hidden, intermediate=inner, outputs=outputs, patches_per_token=max(merge * merge, 1))


def _quantization(config: Mapping[str, Any]) -> str | None:
    quant = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(quant, Mapping):
        return None
    method = str(quant.get("quant_method", "")).lower()
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8"
    if method in ("awq", "gptq"):
        return f"{method}-int{_int(quant, 'bits', 'w_bit') or 4}"
    if method == "mxfp4":
        return "mxfp4"
    if method == "modelopt":
        return "nvfp4" if "FP4" in str(quant.get("quant_algo", "")).upper() else "fp8"
    if method == "compressed-tensors":
        groups = quant.get("config_groups")
        first: Any = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
        weights = first.get("weights") if isinstance(first, Mapping) else None
        if isinstance(weights, Mapping):
            bits, kind = _int(weights, "num_bits") or 8, str(weights.get("type", ""))
            if kind == "float":
                return "fp8" if bits == 8 else "nvfp4"
            return "w8a8" if bits == 8 else f"w{bits}a16"
    return method or None


def _layer_kinds(text: Mapping[str, Any], count: int) -> list[str]:
    """The mixer of every layer: full, sliding, chunked, linear, mamba or none."""
    kinds = text.get("layer_types") or text.get("layers_block_type")
    names = {
        "full_attention": "full",
        "attention": "full",
        "hybrid": "full",
        "sliding_attention": "sliding",
        "chunked_attention": "chunked",
        "linear_attention": "linear",
        "mamba": "mamba",
        "moe": "none",
        "mlp": "none",
    }
    if isinstance(kinds, Sequence) and not isinstance(kinds, str):
        unknown = sorted({str(kind) for kind in kinds} - set(names))
        if unknown:
            raise ArchitectureError("layer_types", f"unknown kind {unknown[0]!r}; known: {', '.join(sorted(names))}")
        if len(kinds) != count:
            raise ArchitectureError("layer_types", f"has {len(kinds)} entries for {count} layers")
        return [names[str(kind)] for kind in kinds]
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return [{"M": "mamba", "*": "full"}.get(char, "none") for char in pattern][:count]
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping):
        full = {int(index) for index in linear.get("full_attn_layers") or ()}
        return ["full" if index + 1 in full else "linear" for index in range(count)]
    interval = _int(text, "full_attention_interval")
    if interval:
        return ["full" if (index + 1) % interval == 0 else "linear" for index in range(count)]
    period = _int(text, "attn_layer_period")
    if period:
        offset = _int(text, "attn_layer_offset") or 0
        return ["full" if index % period == offset else "mamba" for index in range(count)]
    window = _int(text, "sliding_window")
    every = _int(text, "sliding_window_pattern")
    if window and every:
        return ["full" if (index + 1) % every == 0 else "sliding" for index in range(count)]
    model_type = str(text.get("model_type", ""))
    chunks = _int(text, "no_rope_layer_interval") if _int(text, "attention_chunk_size") else None
    if chunks:  # Llama 4
        return ["full" if (index + 1) % chunks == 0 else "chunked" for index in range(count)]
    if model_type in ("mamba", "mamba2", "falcon_mamba"):
        return ["mamba"] * count
    uses = text.get("use_sliding_window")
    if window and (uses or (uses is None and model_type in ("mistral", "phi3", "starcoder2"))):
        from_layer = _int(text, "max_window_layers") or 0
        return ["sliding" if not uses or index >= from_layer else "full" for index in range(count)]
    return ["full"] * count


def _recurrent(text: Mapping[str, Any], kind: str, hidden: int) -> Recurrent:
    if kind == "linear":
        own = text.get("linear_attn_config")
        if isinstance(own, Mapping):  # Kimi delta attention
            count, dim = _need(own, "num_heads"), _need(own, "head_dim")
            inner = count * dim
            elements = 4 * hidden * inner + 2 * (hidden * dim + dim * inner)
            kernel = _int(own, "short_conv_kernel_size") or 4
            return Recurrent("kda", 3 * inner, kernel, count * dim * dim, elements, "float32")
        values, keys = _need(text, "linear_num_value_heads"), _need(text, "linear_num_key_heads")
        key_dim = _int(text, "linear_key_head_dim", "linear_head_dim") or 128
        value_dim = _int(text, "linear_value_head_dim", "linear_head_dim") or 128
        key, value = keys * key_dim, values * value_dim
        elements = hidden * (2 * key + 2 * value) + hidden * 2 * values + value * hidden
        kernel = _int(text, "linear_conv_kernel_dim", "linear_conv_kernel") or 4
        dtype = text.get("mamba_ssm_dtype")
        return Recurrent("gdn", 2 * key + value, kernel, values * key_dim * value_dim, elements, dtype)
    inner = (
        _int(text, "mamba_d_inner", "d_inner")
        or (_int(text, "mamba_num_heads", "mamba_n_heads") or 0) * (_int(text, "mamba_head_dim", "mamba_d_head") or 0)
        or hidden * (_int(text, "mamba_expand", "expand") or 2)
    )
    state = _int(text, "mamba_d_state", "ssm_state_size", "state_size", "mamba_state_dim") or 128
    kernel = _int(text, "mamba_d_conv", "conv_kernel", "mamba_conv_kernel") or 4
    heads = _int(text, "mamba_n_heads", "mamba_num_heads", "num_heads")
    if heads is None or text.get("model_type") in ("mamba", "falcon_mamba", "jamba"):
        rank = _int(text, "mamba_dt_rank", "time_step_rank") or -(-hidden // 16)
        elements = 2 * hidden * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden
        return Recurrent("mamba", inner, kernel, inner * state, elements)
    groups = _int(text, "mamba_n_groups", "n_groups") or 1
    channels = inner + 2 * groups * state
    elements = hidden * (2 * inner + 2 * groups * state + heads) + inner * hidden
    return Recurrent("mamba2", channels, kernel, inner * state, elements, text.get("mamba_ssm_cache_dtype"))


def _mlp(text: Mapping[str, Any], index: int) -> DenseMlp | MoeMlp | None:
    experts = _int(text, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "experts")
    dense = _int(text, "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "mlp_hidden_size")
    llama4 = text.get("model_type") == "llama4_text"
    moe_from = _int(text, "first_k_dense_replace", "first_dense_layers", "moe_layer_start_index") or 0
    step = _int(text, "decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "expert_layer_period") or 1
    offset = _int(text, "expert_layer_offset")
    only = text.get("mlp_only_layers") or ()
    sparse = bool(experts) and index >= moe_from and index not in only
    sparse = sparse and (index % step == offset if offset is not None else (index + 1) % step == 0)
    if experts and sparse:
        inner = _int(text, "moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size") or dense
        if not inner:
            raise ArchitectureError("moe_intermediate_size", "is missing")
        names = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
        shared = inner if llama4 else _int(text, *names) or 0
        shared += (_int(text, "n_shared_experts", "num_shared_experts", "shared_experts") or 0) * inner * (not shared)
        top_k = _int(text, "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k", "top_k") or 1
        return MoeMlp(experts, top_k, inner, shared, text.get("model_type") == "gpt_oss")
    if llama4:
        dense = _int(text, "intermediate_size_mlp") or dense
    if not dense:
        return None
    activation = str(text.get("hidden_act") or text.get("activation_function") or "silu")
    ungated = text.get("model_type") in ("gpt2", "opt", "falcon", "bloom", "gptj", "gpt_neox", "starcoder2", "phi")
    return DenseMlp(dense, not ungated and activation != "relu2")


# What families leave out of config.json because it is their class's default. Source: configuration classes of
# transformers 4.57.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
              "vocab_size": 32000, "max_position_embeddings": 2048},
    "mistral": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 131072},
    "gemma2": {"sliding_window_pattern": 2, "head_dim": 256, "vocab_size": 256000, "tie_word_embeddings": True},
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
                    "sliding_window_pattern": 6, "max_position_embeddings": 131072, "tie_word_embeddings": True},
    "cohere2": {"sliding_window_pattern": 4, "tie_word_embeddings": True},
    "llama4_text": {"no_rope_layer_interval": 4, "attention_chunk_size": 8192, "interleave_moe_layer_step": 1},
}  # fmt: skip


def _shares_kv(text: Mapping[str, Any], index: int, count: int) -> bool:
    """Whether a layer reads another layer's cache: the last ones (Gemma 3n), or all but each n-th (Hunyuan)."""
    last = _int(text, "num_kv_shared_layers") or 0
    every = (_int(text, "cla_share_factor") or 1) if text.get("use_cla") else 1
    return (last > 0 and index >= count - last) or index % every != 0


def from_config(config: Mapping[str, Any]) -> Architecture:
    """An architecture from the parsed ``config.json`` of a model.

    Args:
        config: the parsed file. Nested ``text_config`` (or ``llm_config``, ``language_config``) and ``vision_config``
            are followed.

    Returns:
        The architecture, with dtype and quantization of the checkpoint.

    Raises:
        ArchitectureError: a number that memory depends on is missing or no whole number.
    """
    text: Mapping[str, Any] = config
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        nested = text.get(key)
        if isinstance(nested, Mapping):
            text = {**{k: v for k, v in text.items() if not isinstance(v, Mapping)}, **nested}
    model_type = str(config.get("model_type") or text.get("model_type") or "")
    text = {**_DEFAULTS.get(str(text.get("model_type") or model_type), {}), **text}
    hidden = _need(text, "hidden_size", "n_embd", "d_model")
    count = _need(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers", "layers")
    if count > _MOST_LAYERS:
        raise ArchitectureError("num_hidden_layers", f"must be at most {_MOST_LAYERS}, not {count}")
    heads = _int(text, "num_attention_heads", "n_head", "attention_heads") or 0
    kinds = _layer_kinds(text, count)
    kv_heads = _int(text, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_heads")
    if kv_heads is None:
        kv_heads = 1 if text.get("multi_query") else heads
    for key, value in (("num_attention_heads", heads), ("num_key_value_heads", kv_heads)):
        if value < 0 or (heads and not value):
            raise ArchitectureError(key, f"must be positive, not {value}")
    if heads and kv_heads and heads % kv_heads:
        raise ArchitectureError("num_key_value_heads", f"{kv_heads} does not divide {heads} attention heads")
    head_dim = _int(text, "head_dim", "attention_head_dim")
    if head_dim is None and heads:
        head_dim = hidden // heads
    rank = _int(text, "kv_lora_rank")
    window = _int(text, "sliding_window") or _int(text, "attention_chunk_size")
    layers: list[Layer] = []
    for index, kind in enumerate(kinds):
        mixer: Attention | Mla | Recurrent | None = None
        if kind in ("linear", "mamba"):
            mixer = _recurrent(text, kind, hidden)
        elif kind != "none" and rank:
            mixer = Mla(
                heads,
                rank,
                _int(text, "qk_rope_head_dim") or 64,
                _int(text, "qk_nope_head_dim") or 128,
                _int(text, "v_head_dim") or 128,
                _int(text, "q_lora_rank"),
                _int(text, "index_head_dim"),
            )
        elif kind != "none":
            if not heads or not head_dim:
                raise ArchitectureError("num_attention_heads", "is missing")
            full = kind == "full"
            dim: int = (_int(text, "global_head_dim") or head_dim) if full else head_dim
            kv: int = (_int(text, "num_global_key_value_heads") or kv_heads) if full else kv_heads
            if not full and not window:
                raise ArchitectureError("sliding_window", "is missing for a layer that slides")
            mixer = Attention(
                heads,
                kv,
                dim,
                dim,
                None if full else window,
                kind == "chunked",
                bool(text.get("attn_output_gate")) or model_type in ("qwen3_next", "qwen3_5", "qwen3_5_moe"),
            )
        mlp = _mlp(text, index)
        if text.get("hybrid_override_pattern"):  # Nemotron-H: a layer is a mixer or a feed-forward block
            mlp = mlp if kind == "none" and text["hybrid_override_pattern"][index] in "-E" else None
        if text.get("model_type") == "falcon_h1":  # attention and a recurrent part side by side in each layer
            layers.append(Layer(_recurrent(text, "mamba", hidden), None))
        layers.append(Layer(mixer, mlp, _shares_kv(text, index, count)))
    vision = config.get("vision_config")
    tower = _tower_from_config(model_type, vision, hidden) if isinstance(vision, Mapping) else None
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    if tied is None:
        tied = model_type.startswith(("gemma", "gpt2", "falcon"))
    rope = _int(text, "qk_rope_head_dim") if rank else None
    factor = text.get("partial_rotary_factor")
    return Architecture(
        layers=tuple(layers),
        hidden_size=hidden,
        vocab_size=_need(text, "vocab_size"),
        tied_embeddings=bool(tied),
        max_position=_int(text, "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length"),
        rope_dim=rope or int((head_dim or 0) * (float(factor) if factor else 1.0)),
        dtype=str(
            config.get("dtype")
            or config.get("torch_dtype")
            or text.get("dtype")
            or text.get("torch_dtype")
            or "bfloat16"
        ).removeprefix("torch."),
        quantization=_quantization(config) or _quantization(text),
        model_type=model_type,
        vision=tower,
        next_token_layers=_int(text, "num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
    )


_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)B(?![A-Za-z0-9])", re.IGNORECASE)


def _spread(full: int, other: int) -> list[bool]:
    """Where the full layers are: as evenly as their number allows, the last of each period. True is full."""
    total = full + other
    return [(index + 1) * full // total > index * full // total for index in range(total)]


def from_numbers(
    numbers: Mapping[str, Any],
    *,
    name: str = "",
    dtype: str = "bfloat16",
    quantization: str | None = None,
    model_type: str = "",
) -> Architecture:
    """An architecture from plain numbers, where the model's files are elsewhere.

    Args:
        numbers: ``layers`` and what is known of ``hidden_size, intermediate_size, attention_heads, kv_heads, head_dim,
            vocab_size, tie_word_embeddings, experts, experts_per_token, moe_intermediate_size, shared_experts,
            shared_expert_intermediate_size, first_dense_layers, sliding_window, full_attention_layers, sliding_layers,
            full_kv_heads, full_head_dim, linear_layers, linear_num_value_heads, linear_num_key_heads, linear_head_dim,
            linear_conv_kernel, kv_lora_rank, q_lora_rank, qk_rope_head_dim, qk_nope_head_dim, v_head_dim,
            vision_params_b, max_position_embeddings, total_parameters_b``. Layers that are of none of the named kinds
            have no cache.
        name: the model's name; read for a size such as ``119B`` only when the numbers do not tell the weights.
        dtype: dtype of the weights.
        quantization: quantization of the weights; None without.
        model_type: the family's name, as in ``config.json``.

    Returns:
        The architecture. Numbers that only weights need may be missing: see `Architecture.weights_known`.

    Raises:
        ArchitectureError: numbers that KV depends on are missing or contradictory.
    """
    count = _need(numbers, "layers")
    full, sliding = _int(numbers, "full_attention_layers"), _int(numbers, "sliding_layers") or 0
    linear = _int(numbers, "linear_layers") or 0
    if full is None:
        full = count - sliding - linear
    bare = count - full - sliding - linear
    if bare < 0:
        raise ArchitectureError("layers", f"{full} full, {sliding} sliding and {linear} linear layers exceed {count}")
    heads = _int(numbers, "attention_heads")
    hidden = _int(numbers, "hidden_size")
    rank = _int(numbers, "kv_lora_rank")
    incomplete = hidden is None or bare > 0 or (heads is None and not (rank and linear))
    head_dim = _int(numbers, "head_dim")
    places = _spread(full, count - full) if full else [False] * count
    seen = 0
    layers: list[Layer] = []
    for index, is_full in enumerate(places):
        mixer: Attention | Mla | Recurrent | None
        if is_full:
            if rank:
                mixer = Mla(
                    heads or 1,
                    rank,
                    _int(numbers, "qk_rope_head_dim") or 64,
                    _int(numbers, "qk_nope_head_dim") or 128,
                    _int(numbers, "v_head_dim") or 128,
                    _int(numbers, "q_lora_rank"),
                    _int(numbers, "index_head_dim"),
                )
            else:
                dim: int = _int(numbers, "full_head_dim") or _need(numbers, "head_dim")
                kv = _int(numbers, "full_kv_heads") or _need(numbers, "kv_heads")
                gated = bool(linear) and not rank
                mixer = Attention(heads or kv, kv, dim, dim, None, False, gated)
        else:
            seen += 1
            if seen > sliding + linear:
                mixer = None
            elif seen <= sliding:
                dim, kv = _need(numbers, "head_dim"), _need(numbers, "kv_heads")
                mixer = Attention(heads or kv, kv, dim, dim, _need(numbers, "sliding_window"))
            elif rank:
                own = {
                    "num_heads": _int(numbers, "linear_num_value_heads", "attention_heads") or 32,
                    "head_dim": _int(numbers, "linear_head_dim") or 128,
                }
                mixer = _recurrent({"linear_attn_config": own}, "linear", hidden or 1)
                incomplete = incomplete or hidden is None
            else:
                guess = {"linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_head_dim": 128}
                mixer = _recurrent({**guess, **numbers}, "linear", hidden or 1)
        sized = not _int(numbers, "experts") or bool(_int(numbers, "moe_intermediate_size", "intermediate_size"))
        mlp = _mlp(numbers, index) if sized else None
        incomplete = incomplete or mlp is None
        layers.append(Layer(mixer, mlp))
    params = numbers.get("vision_params_b")
    tower = _tower(model_type, int(float(params) * 1e9)) if params else None
    total = numbers.get("total_parameters_b")
    if total is None and incomplete:
        found = _BILLIONS.search(name)
        total = float(found.group(1)) if found else None
    return Architecture(
        layers=tuple(layers),
        hidden_size=hidden,
        vocab_size=_int(numbers, "vocab_size"),
        tied_embeddings=bool(numbers.get("tie_word_embeddings")),
        max_position=_int(numbers, "max_position_embeddings"),
        rope_dim=(_int(numbers, "qk_rope_head_dim") or 64) if rank else (head_dim or 0),
        dtype=dtype,
        quantization=quantization,
        model_type=model_type,
        vision=tower,
        total_parameters=int(float(total) * 1e9) if total is not None and incomplete else None,
        incomplete=incomplete,
    )
