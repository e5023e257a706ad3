"""Shapes read from config.json and from numbers."""

from __future__ import annotations

from typing import Any

import pytest
from fleet.capacity import ArchitectureError, from_config, from_numbers
from fleet.capacity.architecture import Attention, DenseMlp, Mla, MoeMlp, Recurrent

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def test_grouped_queries() -> None:
    shape = from_config(LLAMA)
    assert len(shape.layers) == 32
    assert shape.layers[0].mixer == Attention(32, 8, 128, 128)
    assert shape.layers[0].mlp == DenseMlp(14336)
    assert (shape.max_position, shape.rope_dim, shape.dtype) == (131072, 128, "bfloat16")


def test_one_key_head_for_each_query_head_where_nothing_is_said() -> None:
    shape = from_config({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"})
    assert shape.layers[0].mixer == Attention(32, 32, 128, 128)


def test_names_of_gpt2_and_its_ungated_block() -> None:
    shape = from_config(
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": 3072, "vocab_size": 50257,
         "n_positions": 1024}
    )  # fmt: skip
    assert shape.layers[0].mixer == Attention(12, 12, 64, 64)
    assert shape.layers[0].mlp == DenseMlp(3072, gated=False)
    assert shape.tied_embeddings
    assert shape.max_position == 1024


def test_multi_query() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    mixer = from_config({**config, "multi_query": True}).layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.kv_heads == 1


def test_latent_attention_with_dense_first_layers_and_a_next_token_layer() -> None:
    shape = from_config(
        {
            **LLAMA,
            "model_type": "deepseek_v3",
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "num_key_value_heads": 128,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "n_shared_experts": 1,
            "moe_intermediate_size": 2048,
            "first_k_dense_replace": 3,
            "num_nextn_predict_layers": 1,
            "quantization_config": {"quant_method": "fp8"},
        }
    )
    assert shape.layers[0].mixer == Mla(128, 512, 64, 128, 128, 1536)
    assert isinstance(shape.layers[2].mlp, DenseMlp)
    assert shape.layers[3].mlp == MoeMlp(256, 8, 2048, 2048)
    assert (shape.quantization, shape.next_token_layers, shape.rope_dim) == ("fp8", 1, 64)


def test_sliding_windows_by_pattern_and_by_list() -> None:
    gemma = {**LLAMA, "model_type": "gemma3_text", "sliding_window": 512}
    by_pattern = from_config({**gemma, "sliding_window_pattern": 4})
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "sliding_attention" for i in range(32)]
    assert by_pattern.layers == from_config({**gemma, "layer_types": kinds}).layers
    windows = [layer.mixer.window for layer in by_pattern.layers if isinstance(layer.mixer, Attention)]
    assert windows.count(None) == 8
    assert windows.count(512) == 24


def test_layers_that_share_kv() -> None:
    shape = from_config({**LLAMA, "num_kv_shared_layers": 10})
    assert [layer.shares_kv for layer in shape.layers] == [False] * 22 + [True] * 10


def test_linear_attention_by_interval() -> None:
    shape = from_config(
        {
            **LLAMA,
            "model_type": "qwen3_next",
            "full_attention_interval": 4,
            "head_dim": 256,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "linear_num_value_heads": 32,
            "linear_num_key_heads": 16,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
        }
    )
    linear = shape.layers[0].mixer
    assert isinstance(linear, Recurrent)
    assert (linear.kind, linear.conv_channels, linear.state_elements) == ("gdn", 8192, 32 * 128 * 128)
    assert sum(isinstance(layer.mixer, Attention) for layer in shape.layers) == 8
    full = shape.layers[3].mixer
    assert isinstance(full, Attention)
    assert full.gated


def test_mamba_hybrid_by_pattern() -> None:
    shape = from_config(
        {**LLAMA, "model_type": "nemotron_h", "num_hidden_layers": 6, "hybrid_override_pattern": "M-M*-M",
         "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4}
    )  # fmt: skip
    kinds = [type(layer.mixer).__name__ for layer in shape.layers]
    assert kinds == ["Recurrent", "NoneType", "Recurrent", "Attention", "NoneType", "Recurrent"]
    assert [layer.mlp is not None for layer in shape.layers] == [False, True, False, False, True, False]
    mamba = shape.layers[0].mixer
    assert isinstance(mamba, Recurrent)
    assert mamba.conv_channels == 8192 + 2 * 8 * 128


def test_kimi_delta_attention() -> None:
    shape = from_config(
        {**LLAMA, "num_hidden_layers": 4, "kv_lora_rank": 512, "linear_attn_config":
         {"full_attn_layers": [4], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}}
    )  # fmt: skip
    assert [type(layer.mixer).__name__ for layer in shape.layers] == ["Recurrent"] * 3 + ["Mla"]


def test_nested_text_and_vision() -> None:
    shape = from_config(
        {
            "model_type": "qwen3_vl",
            "text_config": {**LLAMA, "model_type": "qwen3_vl_text"},
            "vision_config": {
                "hidden_size": 1152, "depth": 27, "intermediate_size": 4304, "spatial_merge_size": 2,
                "deepstack_visual_indexes": [8, 16, 24],
            },
        }
    )  # fmt: skip
    assert shape.vision is not None
    assert shape.vision.outputs == 4
    assert shape.vision.patches_per_token == 4
    assert shape.vision.parameters == pytest.approx(0.58e9, rel=0.1)


def test_what_families_leave_out() -> None:
    gemma = from_config(
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
         "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024},
         "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27}}
    )  # fmt: skip
    assert gemma.layers[0].mixer == Attention(8, 4, 256, 256, 1024)
    assert gemma.layers[5].mixer == Attention(8, 4, 256, 256)
    assert gemma.tied_embeddings
    llava = from_config({"model_type": "llava_next", "text_config": {"model_type": "mistral", "vocab_size": 32064}})
    assert len(llava.layers) == 32
    assert llava.hidden_size == 4096


def test_chunked_attention_and_alternating_experts() -> None:
    shape = from_config(
        {"model_type": "llama4", "text_config": {**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 8192,
         "num_local_experts": 128, "num_experts_per_tok": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
         "interleave_moe_layer_step": 2}}
    )  # fmt: skip
    assert shape.layers[0].mixer == Attention(32, 8, 128, 128, 8192, chunked=True)
    assert shape.layers[3].mixer == Attention(32, 8, 128, 128)
    assert shape.layers[0].mlp == DenseMlp(16384)
    assert shape.layers[1].mlp == MoeMlp(128, 1, 8192, 8192)


def test_layers_that_share_kv_in_turn() -> None:
    shape = from_config({**LLAMA, "use_cla": True, "cla_share_factor": 2})
    assert [layer.shares_kv for layer in shape.layers[:4]] == [False, True, False, True]


def test_attention_beside_a_recurrent_part() -> None:
    shape = from_config(
        {**LLAMA, "model_type": "falcon_h1", "num_hidden_layers": 3, "mamba_n_heads": 32, "mamba_d_head": 64,
         "mamba_d_state": 128, "mamba_n_groups": 1}
    )  # fmt: skip
    assert [type(layer.mixer).__name__ for layer in shape.layers] == ["Recurrent", "Attention"] * 3


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "gptq", "bits": 8}, "gptq-int8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}}, "w8a8"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "w4a16"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}}, "nvfp4"),
    ],
)  # fmt: skip
def test_quantization_of_a_checkpoint(quantization: dict[str, Any], expected: str) -> None:
    assert from_config({**LLAMA, "quantization_config": quantization}).quantization == expected


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "big"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["quantum_attention"] * 32}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        from_config({**LLAMA, **change})
    assert caught.value.key == key


def test_numbers_and_config_agree() -> None:
    numbers = {
        "layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "attention_heads": 32, "kv_heads": 8,
        "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 131072,
    }  # fmt: skip
    assert from_numbers(numbers, model_type="llama") == from_config(LLAMA)


def test_numbers_without_sizes_still_tell_kv_and_take_weights_from_the_name() -> None:
    shape = from_numbers({"layers": 36, "kv_lora_rank": 256, "qk_rope_head_dim": 64}, name="Mistral-Small-4-119B")
    assert shape.total_parameters == 119_000_000_000
    unnamed = from_numbers({"layers": 36, "kv_lora_rank": 256, "qk_rope_head_dim": 64}, name="x")
    assert not unnamed.weights_known


def test_layers_must_not_exceed_their_number() -> None:
    with pytest.raises(ArchitectureError, match="layers"):
        from_numbers({"layers": 10, "full_attention_layers": 4, "sliding_layers": 8, "kv_heads": 1, "head_dim": 64})


def test_layers_of_no_named_kind_have_no_cache() -> None:
    shape = from_numbers({"layers": 10, "full_attention_layers": 2, "kv_heads": 1, "head_dim": 64})
    assert sum(layer.mixer is not None for layer in shape.layers) == 2
    assert not shape.weights_known
