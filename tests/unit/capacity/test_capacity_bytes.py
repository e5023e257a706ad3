"""Weights and KV against counts made by hand and against what vLLM printed."""

from __future__ import annotations

from typing import Any

import pytest
from fleet.capacity import GIB, Parallel, ParallelError, chip_of, from_numbers, kv_layout, weight_bytes
from fleet.capacity.architecture import Architecture, ArchitectureError
from fleet.capacity.weights import pipeline_split, quantization_of

LLAMA_8B: dict[str, Any] = {
    "layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "attention_heads": 32, "kv_heads": 8,
    "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
GPT_OSS_20B: dict[str, Any] = {
    "layers": 24, "hidden_size": 2880, "attention_heads": 64, "kv_heads": 8, "head_dim": 64, "vocab_size": 201088,
    "experts": 32, "experts_per_token": 4, "moe_intermediate_size": 2880, "sliding_window": 128,
    "full_attention_layers": 12, "sliding_layers": 12,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "layers": 61, "hidden_size": 7168, "intermediate_size": 18432, "attention_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536, "vocab_size": 129280,
    "experts": 256, "experts_per_token": 8, "shared_experts": 1, "moe_intermediate_size": 2048, "first_dense_layers": 3,
}  # fmt: skip
QWEN3_NEXT: dict[str, Any] = {
    "layers": 48, "hidden_size": 2048, "attention_heads": 16, "kv_heads": 2, "head_dim": 256, "vocab_size": 151936,
    "experts": 512, "experts_per_token": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "full_attention_layers": 12, "linear_layers": 36, "linear_num_value_heads": 32, "linear_num_key_heads": 16,
    "linear_head_dim": 128, "linear_conv_kernel": 4,
}  # fmt: skip


def gib(shape: Architecture, parallel: Parallel = Parallel(), **settings: Any) -> float:  # noqa: B008
    return weight_bytes(shape, parallel, **settings).per_card / GIB


def test_every_matrix_of_a_dense_model() -> None:
    attention = 4096 * (32 + 2 * 8) * 128 + 32 * 128 * 4096
    block = 3 * 4096 * 14336
    norms = 2 * 4096
    table = 131072 * 128
    expected = 2 * (32 * (attention + block + norms) + 2 * 128256 * 4096 + table)
    weights = weight_bytes(from_numbers(LLAMA_8B))
    assert weights.per_card == expected
    assert weights.per_card / GIB == pytest.approx(14.99, abs=0.01)  # printed by vLLM 0.10.1.1 and 0.15.1


def test_tied_embeddings_count_once() -> None:
    tied = from_numbers({**LLAMA_8B, "tie_word_embeddings": True})
    assert weight_bytes(from_numbers(LLAMA_8B)).per_card - weight_bytes(tied).per_card == 2 * 128256 * 4096


def test_vocabulary_is_padded_to_64_and_divided() -> None:
    shape = from_numbers({**LLAMA_8B, "vocab_size": 32001})
    assert weight_bytes(shape).stages[0].embeddings == 2 * 2 * 32064 * 4096
    assert weight_bytes(shape, Parallel(2)).stages[0].embeddings == 2 * 2 * 16032 * 4096


def test_key_heads_are_replicated_when_there_are_more_cards() -> None:
    shape = from_numbers({**LLAMA_8B, "kv_heads": 4})
    divided = weight_bytes(shape, Parallel(4)).stages[0].mixers
    replicated = weight_bytes(shape, Parallel(8)).stages[0].mixers
    queries_and_output = 2 * 32 * 2 * 4096 * 32 * 128
    assert divided == queries_and_output // 4 + 32 * 2 * 2 * 4096 * 128
    assert replicated == queries_and_output // 8 + 32 * 2 * 2 * 4096 * 128


@pytest.mark.parametrize(("tensor", "kv_heads"), [(3, 8), (6, 4), (5, 8)])
def test_sizes_that_do_not_divide_are_refused(tensor: int, kv_heads: int) -> None:
    with pytest.raises(ParallelError):
        weight_bytes(from_numbers({**LLAMA_8B, "kv_heads": kv_heads}), Parallel(tensor))


def test_stages_are_uneven_and_the_fullest_counts() -> None:
    assert [len(part) for part in pipeline_split(62, 4)] == [15, 16, 16, 15]
    assert [len(part) for part in pipeline_split(61, 2)] == [31, 30]
    weights = weight_bytes(from_numbers(LLAMA_8B), Parallel(pipeline=3))
    assert [len(stage.layers) for stage in weights.stages] == [11, 11, 10]
    assert weights.per_card == weights.stages[0].total
    assert weights.stages[1].embeddings == 0
    with pytest.raises(ParallelError):
        pipeline_split(2, 3)


@pytest.mark.parametrize(
    ("name", "numbers", "quantization", "parallel", "card", "printed"),
    [
        ("Llama-3.3-70B FP8", {**LLAMA_8B, "layers": 80, "hidden_size": 8192, "intermediate_size": 28672,
                               "attention_heads": 64}, "fp8", Parallel(), "NVIDIA H100", 67.72),
        ("Llama-3.1-70B AWQ", {**LLAMA_8B, "layers": 80, "hidden_size": 8192, "intermediate_size": 28672,
                               "attention_heads": 64}, "awq-int4", Parallel(), "NVIDIA RTX PRO 6000", 37.09),
        ("gpt-oss-20b before Hopper", GPT_OSS_20B, "mxfp4", Parallel(), "NVIDIA A100", 13.72),
        ("Qwen3-Next-80B", QWEN3_NEXT, None, Parallel(2), "NVIDIA H200", 74.28),
    ],
)  # fmt: skip
def test_loaded_weights_as_vllm_printed_them(
    name: str, numbers: dict[str, Any], quantization: str | None, parallel: Parallel, card: str, printed: float
) -> None:
    model_type = "gpt_oss" if name.startswith("gpt") else ""
    shape = from_numbers(numbers, name=name, quantization=quantization, model_type=model_type)
    chip = chip_of(card, 80 * GIB)
    assert gib(shape, parallel, pads_marlin=chip.pads_marlin) == pytest.approx(printed, rel=0.005)


def test_experts_are_divided_by_width_or_by_number() -> None:
    shape = from_numbers(DEEPSEEK, quantization="fp8")
    by_width = weight_bytes(shape, Parallel(8)).stages[0].experts
    by_number = weight_bytes(shape, Parallel(8, expert=True)).stages[0].experts
    assert by_width == by_number
    over_ranks = weight_bytes(shape, Parallel(4, data=4, expert=True)).stages[0].experts
    assert over_ranks == pytest.approx(by_number / 2, rel=1e-9)
    uneven = from_numbers({**DEEPSEEK, "experts": 250}, quantization="fp8")
    assert weight_bytes(uneven, Parallel(8, expert=True)).stages[0].experts == by_number  # 32 of 250 on the fullest


def test_a_vision_tower_is_only_partly_divided() -> None:
    shape = from_numbers({**LLAMA_8B, "vision_params_b": 0.58}, model_type="qwen3_vl")
    one, two = (weight_bytes(shape, Parallel(n)).stages[0].vision for n in (1, 2))
    assert one == 2 * 580_000_000
    assert one // 2 < two < one


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ArchitectureError, match="quantization"):
        quantization_of("magic")
    with pytest.raises(ArchitectureError, match="dtype"):
        weight_bytes(from_numbers(LLAMA_8B), dtype="float7")
    assert quantization_of("none") is None


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("mxfp4 (Triton)", "mxfp4"), ("fp8_block", "fp8"), ("bnb-4bit", "w4a16"), ("awq_marlin", "awq-int4"),
     ("gptq", "gptq-int4"), ("W8A8_dynamic", "w8a8"), ("int8-channel", "w8a8"), ("NVFP4", "nvfp4")],
)  # fmt: skip
def test_schemes_by_any_usual_name(name: str, scheme: str) -> None:
    found = quantization_of(name)
    assert found is not None
    assert found.name == scheme


def test_kv_of_grouped_queries() -> None:
    layout = kv_layout(from_numbers(LLAMA_8B))
    assert layout.bytes_per_token == 2 * 32 * 8 * 128 * 2 == 131072
    assert layout.capacity_tokens(int(19.25 * GIB), 131072, 2048) == pytest.approx(157648, abs=64)  # 0.10.1.1
    assert kv_layout(from_numbers(LLAMA_8B), kv_dtype="fp8").bytes_per_token == 65536


def test_kv_of_latent_attention_is_the_same_on_every_card() -> None:
    layout = kv_layout(from_numbers(DEEPSEEK), Parallel(16))
    assert layout.bytes_per_token == 61 * (512 + 64) * 2 == 70272


def test_kv_heads_stop_dividing() -> None:
    shape = from_numbers({**LLAMA_8B, "layers": 94, "attention_heads": 64, "kv_heads": 4})
    layout = kv_layout(shape, Parallel(16), block_size=128)
    assert layout.bytes_per_token == 94 * 2 * 128 * 2 == 48128
    assert layout.capacity_tokens(25084038656, 32768, 4096) == 521088  # vllm-ascend 0.13.0, 16 cards


def test_sliding_windows_take_groups_of_the_same_pool() -> None:
    gemma = {**LLAMA_8B, "layers": 62, "hidden_size": 5376, "kv_heads": 16, "sliding_window": 1024,
             "full_attention_layers": 10, "sliding_layers": 52}  # fmt: skip
    layout = kv_layout(from_numbers(gemma))
    assert len(layout.groups) == 7
    assert layout.layers_per_group == 10
    available = int(109.86 * GIB)
    assert layout.blocks(available) == pytest.approx(89994, abs=10)  # vLLM 0.11.0rc2 on an MI300X
    assert layout.request_blocks(4096, 8192) == 256 + 6 * 257
    assert layout.concurrency(available, 4096, 8192) == pytest.approx(50.05, abs=0.02)
    assert layout.printed_tokens_before_020(available) == pytest.approx(205696, abs=32)
    whole = kv_layout(from_numbers(gemma), hybrid=False)
    assert len(whole.groups) == 1
    assert whole.bytes_per_token == 62 * 2 * 16 * 128 * 2


def test_pages_of_two_kinds_are_made_equal() -> None:
    gemma4 = {"layers": 30, "full_attention_layers": 5, "full_kv_heads": 2, "full_head_dim": 512, "sliding_layers": 25,
              "kv_heads": 8, "head_dim": 256, "sliding_window": 1024}  # fmt: skip
    layout = kv_layout(from_numbers(gemma4), kv_dtype="fp8")
    assert sorted(group.block_size for group in layout.groups) == [16, 16, 16, 16, 16, 32]
    assert layout.concurrency(int(9.08 * GIB), 98304, 8192) == pytest.approx(5.0, abs=0.01)  # vLLM 0.19.2rc1


def test_a_recurrent_state_sets_the_block_size() -> None:
    layout = kv_layout(from_numbers(QWEN3_NEXT), Parallel(2))
    full = next(group for group in layout.groups if group.kind == "full")
    assert full.block_size == 544
    assert sum(group.kind == "recurrent" for group in layout.groups) == 3
    assert layout.concurrency(int(44.59 * GIB), 262144, 8192) == pytest.approx(14.77, rel=0.001)  # vLLM 0.10.2


def test_layers_without_a_cache_of_their_own_cost_nothing() -> None:
    shape = from_numbers(LLAMA_8B)
    shared = Architecture(
        tuple(type(layer)(layer.mixer, layer.mlp, i >= 22) for i, layer in enumerate(shape.layers)), 4096, 128256
    )
    assert kv_layout(shared).bytes_per_token == 22 * 4096


def test_a_draft_adds_layers() -> None:
    plain, drafted = (kv_layout(from_numbers(LLAMA_8B), draft_layers=n) for n in (0, 1))
    assert drafted.bytes_per_token - plain.bytes_per_token == 4096


def test_each_stage_keeps_its_own_layers() -> None:
    parts = [kv_layout(from_numbers(LLAMA_8B), Parallel(pipeline=3), stage=stage) for stage in range(3)]
    assert [part.bytes_per_token for part in parts] == [45056, 45056, 40960]


def test_the_longest_request_is_the_longest_that_fits() -> None:
    layout = kv_layout(from_numbers(LLAMA_8B))
    available = 1000 * layout.block_bytes
    assert layout.longest(available, 2048, 1 << 20) == 16000
    assert layout.longest(available, 2048, 9000) == 9000
    assert layout.longest(0, 2048, 9000) == 0
