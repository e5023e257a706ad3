"""Verdicts, advice, and properties that hold for any model, card and setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fleet.capacity import (
    GIB,
    Chip,
    Draft,
    Parallel,
    ParallelError,
    Request,
    Settings,
    Status,
    chip_of,
    fit,
    from_numbers,
)
from hypothesis import given
from hypothesis import settings as tests
from hypothesis import strategies as st

LLAMA_8B: dict[str, Any] = {
    "layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "attention_heads": 32, "kv_heads": 8,
    "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
LLAMA_70B = {**LLAMA_8B, "layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "attention_heads": 64}
H100 = chip_of("NVIDIA H100-80GB", int(79.18 * GIB))
A10 = chip_of("NVIDIA A10", int(22.1 * GIB))


def ask(numbers: dict[str, Any], chip: Chip, **settings: Any) -> Request:
    return Request(from_numbers(numbers), chip, version="0.13.0", settings=Settings(**settings))


def test_the_real_engine_on_an_h200() -> None:
    shape = from_numbers(
        {"layers": 28, "hidden_size": 3584, "intermediate_size": 18944, "attention_heads": 28, "kv_heads": 4,
         "head_dim": 128, "vocab_size": 152064}
    )  # fmt: skip
    chip = chip_of("NVIDIA H200", int(139.8 * GIB))
    settings = Settings(max_model_len=8192, gpu_memory_utilization=0.85, flashinfer_sampler=False)
    answer = fit(Request(shape, chip, version="0.25.1", settings=settings))
    assert answer.kv_bytes / GIB == pytest.approx(103.19, rel=0.005)
    assert answer.kv_tokens == pytest.approx(1932224, rel=0.005)
    assert answer.kv_bytes_low < 103.19 * GIB < answer.kv_bytes_high
    assert answer.status == Status.FITS


def test_weights_that_exceed_the_card_and_what_would_fit() -> None:
    answer = fit(ask(LLAMA_70B, H100, max_model_len=16000))
    assert answer.status == Status.WEIGHTS
    assert not answer.fits
    assert answer.smallest_cards == 4  # two hold the weights, but not a sampler that sorts and a request beside them
    assert answer.quantization_that_fits == "awq-int4"
    assert "exceed" in answer.reason


def test_nothing_left_for_kv() -> None:
    request = replace(ask(LLAMA_70B, H100, max_model_len=16000, gpu_memory_utilization=0.9), quantization="fp8")
    answer = fit(request)
    assert answer.status == Status.NO_KV
    assert answer.kv_bytes / GIB == pytest.approx(-1.44, abs=0.3)  # printed by vLLM on the same card
    assert answer.smallest_cards == 2


def test_too_little_for_the_asked_length_and_the_length_that_would_fit() -> None:
    answer = fit(ask(LLAMA_8B, A10, max_model_len=131072))
    assert answer.status == Status.KV_TOO_SMALL
    assert 0 < answer.longest_model_len < 131072
    shorter = fit(ask(LLAMA_8B, A10, max_model_len=answer.longest_model_len))
    assert shorter.status == Status.FITS
    assert shorter.concurrency >= 1.0
    longer = fit(ask(LLAMA_8B, A10, max_model_len=answer.longest_model_len + 16))
    assert longer.status == Status.KV_TOO_SMALL


def test_an_unknown_version_widens_the_range_and_may_let_it_try() -> None:
    experts = {"layers": 36, "hidden_size": 2880, "attention_heads": 64, "kv_heads": 8, "head_dim": 64,
               "vocab_size": 201088, "experts": 128, "experts_per_token": 4, "moe_intermediate_size": 2880,
               "sliding_window": 128, "full_attention_layers": 18, "sliding_layers": 18}  # fmt: skip
    shape = from_numbers(experts, quantization="mxfp4", model_type="gpt_oss")
    request = Request(shape, H100, settings=Settings(max_model_len=16000, gpu_memory_utilization=0.9))
    unknown, old, new = (fit(replace(request, version=version)) for version in (None, "0.14.1", "0.19.1"))
    assert unknown.unknown == ("version",)
    assert unknown.kv_bytes == old.kv_bytes
    assert unknown.kv_bytes_high > old.kv_bytes_high
    assert (unknown.status, old.status, new.status) == (Status.TIGHT, Status.NO_KV, Status.FITS)
    assert "unknown" in unknown.reason


def test_an_unknown_utilization_needs_room() -> None:
    known = fit(ask(LLAMA_8B, A10, max_model_len=16000, gpu_memory_utilization=0.9))
    unknown = fit(ask(LLAMA_8B, A10, max_model_len=16000))
    assert known.kv_bytes == unknown.kv_bytes
    assert "gpu_memory_utilization" in unknown.unknown
    assert fit(ask(LLAMA_8B, A10, max_model_len=known.longest_model_len, gpu_memory_utilization=0.9)).fits
    assert not fit(ask(LLAMA_8B, A10, max_model_len=known.longest_model_len)).fits


def test_kv_given_in_bytes_is_what_there_is() -> None:
    answer = fit(ask(LLAMA_8B, H100, max_model_len=8192, kv_cache_memory_bytes=4 * GIB))
    assert (answer.kv_bytes, answer.kv_tokens) == (4 * GIB, 32768)
    assert answer.status == Status.FITS
    assert fit(ask(LLAMA_8B, H100, max_model_len=8192, kv_cache_memory_bytes=70 * GIB)).status == Status.OVER_MEMORY


def test_on_a_cpu_kv_is_given() -> None:
    chip = chip_of("CPU arm64", 64 * GIB)
    shape = from_numbers(
        {"layers": 24, "hidden_size": 896, "intermediate_size": 4864, "attention_heads": 14, "kv_heads": 2,
         "head_dim": 64, "vocab_size": 151936, "tie_word_embeddings": True}, dtype="float32"
    )  # fmt: skip
    settings = Settings(max_model_len=1024, kv_cache_memory_bytes=4 * GIB)
    answer = fit(Request(shape, chip, version="0.18.0+cpu", settings=settings))
    assert answer.kv_tokens == pytest.approx(174720, abs=128)  # printed by vLLM 0.18.0 on a CPU
    assert answer.concurrency == pytest.approx(170.62, abs=0.2)


def test_the_fullest_stage_decides() -> None:
    whole = ask(LLAMA_70B, H100, max_model_len=16000, gpu_memory_utilization=0.9)
    answer = fit(replace(whole, parallel=Parallel(tensor=2, pipeline=2)))
    assert answer.fits
    assert answer.weights_bytes == pytest.approx(LLAMA_70B_BYTES / 4, rel=0.05)


LLAMA_70B_BYTES = 141.1e9


def test_a_draft_takes_weights_and_kv() -> None:
    plain = ask(LLAMA_8B, H100, max_model_len=8192)
    head = from_numbers({**LLAMA_8B, "layers": 1})
    drafted = fit(replace(plain, draft=Draft(head), settings=replace(plain.settings, speculative_tokens=3)))
    alone = fit(plain)
    assert drafted.weights_bytes > alone.weights_bytes
    assert drafted.layout.bytes_per_token - alone.layout.bytes_per_token == 4096
    assert drafted.concurrency < alone.concurrency


def test_sizes_that_do_not_divide_are_no_answer() -> None:
    with pytest.raises(ParallelError):
        fit(replace(ask(LLAMA_8B, H100), parallel=Parallel(3)))


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    heads = draw(st.sampled_from([8, 16, 32, 64]))
    layers = draw(st.integers(1, 12)) * 4
    numbers: dict[str, Any] = {
        "layers": layers,
        "hidden_size": draw(st.sampled_from([512, 1024, 4096, 8192])),
        "intermediate_size": draw(st.integers(4, 224)) * 128,
        "attention_heads": heads,
        "kv_heads": draw(st.sampled_from([1, 2, 4, 8])),
        "head_dim": draw(st.sampled_from([64, 128, 256])),
        "vocab_size": draw(st.integers(1000, 262144)),
        "max_position_embeddings": draw(st.sampled_from([2048, 32768, 131072])),
    }
    kind = draw(st.sampled_from(["dense", "moe", "mla", "sliding", "linear", "vision"]))
    if kind == "moe":
        numbers |= {"experts": 16, "experts_per_token": 4, "moe_intermediate_size": 512}
    elif kind == "mla":
        numbers |= {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64}
    elif kind == "sliding":
        full = draw(st.integers(1, layers - 1))
        numbers |= {"sliding_window": 512, "full_attention_layers": full, "sliding_layers": layers - full}
    elif kind == "linear":
        numbers |= {"full_attention_layers": layers // 4, "linear_layers": layers - layers // 4}
    elif kind == "vision":
        numbers |= {"vision_params_b": 0.5}
    return numbers


CARDS = ("NVIDIA H100-80GB", "NVIDIA L4", "AMD MI300X", "Ascend 910B", "NVIDIA Jetson Thor")
VERSIONS = (None, "0.8.5", "0.11.0", "0.13.0", "0.19.1", "0.21.0", "0.25.1", "0.33.0")


@st.composite
def requests(draw: st.DrawFn) -> Request:
    return Request(
        from_numbers(draw(shapes()), quantization=draw(st.sampled_from([None, "fp8", "awq-int4"]))),
        chip_of(draw(st.sampled_from(CARDS)), draw(st.integers(4, 200)) * GIB),
        Parallel(draw(st.sampled_from([1, 2, 4, 8])), draw(st.sampled_from([1, 1, 2])), 1, draw(st.booleans())),
        draw(st.sampled_from(VERSIONS)),
        Settings(
            max_model_len=draw(st.sampled_from([None, 512, 4096, 32768])),
            gpu_memory_utilization=draw(st.sampled_from([None, 0.5, 0.9, 0.95])),
            max_num_seqs=draw(st.sampled_from([None, 1, 64, 256])),
            max_num_batched_tokens=draw(st.sampled_from([None, 2048, 8192])),
            enforce_eager=draw(st.booleans()),
        ),
    )


@tests(max_examples=80, deadline=None)
@given(requests())
def test_the_same_question_has_the_same_answer(request: Request) -> None:
    assert fit(request) == fit(request)


@tests(max_examples=120, deadline=None)
@given(requests(), st.integers(1, 64))
def test_more_memory_never_turns_fit_into_no_fit(request: Request, more: int) -> None:
    # A larger card may get larger default batches (vLLM's own rule at 70 and 160 GiB); the settings are held fixed.
    fixed = replace(
        request.settings,
        max_num_seqs=request.settings.max_num_seqs or 256,
        max_num_batched_tokens=request.settings.max_num_batched_tokens or 2048,
        flashinfer_sampler=False,
    )
    small = replace(request, settings=fixed)
    large = replace(small, chip=replace(small.chip, memory_bytes=small.chip.memory_bytes + more * GIB))
    before, after = fit(small, advise=False), fit(large, advise=False)
    assert after.kv_bytes >= before.kv_bytes
    assert after.longest_model_len >= before.longest_model_len
    assert after.fits or not before.fits


@tests(max_examples=120, deadline=None)
@given(requests(), st.integers(1, 65536), st.integers(1, 65536))
def test_a_longer_context_never_gives_more_concurrency(request: Request, one: int, other: int) -> None:
    short, long = sorted((one, other))
    first, second = (
        fit(replace(request, settings=replace(request.settings, max_model_len=length)), advise=False)
        for length in (short, long)
    )
    assert second.concurrency <= first.concurrency
    assert first.fits or not second.fits


@tests(max_examples=80, deadline=None)
@given(requests())
def test_the_range_holds_the_estimate_and_the_longest_request_fits(request: Request) -> None:
    answer = fit(request, advise=False)
    assert answer.kv_bytes_low <= answer.kv_bytes <= answer.kv_bytes_high
    assert answer.reserve.low <= answer.reserve.total <= answer.reserve.high
    if answer.longest_model_len > 0 and answer.layout.groups:
        assert answer.layout.request_blocks(answer.longest_model_len, 1) <= answer.layout.blocks(answer.kv_bytes)


@tests(max_examples=40, deadline=None)
@given(requests())
def test_advice_is_true(request: Request) -> None:
    answer = fit(request)
    if answer.smallest_cards is not None:
        each = request.parallel.pipeline * request.parallel.data
        larger = replace(request, parallel=replace(request.parallel, tensor=answer.smallest_cards // each))
        assert fit(larger).status == Status.FITS
    if answer.quantization_that_fits is not None:
        assert fit(replace(request, quantization=answer.quantization_that_fits)).status == Status.FITS
