"""The reserve: defaults by version and card, the sampler, what is subtracted when."""

from __future__ import annotations

import pytest
from fleet.capacity import (
    GIB,
    Chip,
    Parallel,
    Settings,
    assumed_version,
    chip_of,
    default_batch,
    default_utilization,
    from_numbers,
    parse_version,
    reserve,
)

SMALL = from_numbers(
    {"layers": 28, "hidden_size": 1024, "intermediate_size": 3072, "attention_heads": 16, "kv_heads": 8,
     "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True}
)  # fmt: skip
H100 = chip_of("NVIDIA H100-80GB", int(79.18 * GIB))
A10 = chip_of("NVIDIA A10", int(22.1 * GIB))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.25.1", (0, 25, 1)),
        (">=0.25", (0, 25, 0)),
        ("0.11", (0, 11, 0)),
        ("0.13.0+nv26.01", (0, 13, 0)),
        ("0.18.0 (vllm-ascend)", (0, 18, 0)),
        ("", None),
        (None, None),
    ],
)
def test_version_in_a_text(text: str | None, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("name", "backend", "unified", "fast"),
    [
        ("NVIDIA H100 80GB HBM3", "cuda", False, True),
        ("NVIDIA L4", "cuda", False, False),
        ("NVIDIA GB10", "cuda", True, False),
        ("NVIDIA GB200", "cuda", False, True),
        ("NVIDIA Jetson Thor", "cuda", True, False),
        ("NVIDIA A100 MIG 1g.5gb", "cuda", False, False),
        ("AMD Instinct MI300X", "rocm", False, True),
        ("Hygon DCU K100", "rocm", False, False),
        ("Ascend 910B3", "ascend", False, False),
        ("CPU arm64", "cpu", False, False),
    ],
)
def test_card_by_its_name(name: str, backend: str, unified: bool, fast: bool) -> None:
    chip = chip_of(name, 80 * GIB)
    assert (chip.backend, chip.unified, chip.fast_link) == (backend, unified, fast)


@pytest.mark.parametrize(
    ("chip", "version", "settings", "expected"),
    [
        (H100, (0, 13, 0), Settings(), (8192, 1024)),
        (H100, (0, 13, 0), Settings(offline=True), (16384, 1024)),
        (A10, (0, 13, 0), Settings(), (2048, 256)),
        (A10, (0, 13, 0), Settings(offline=True), (8192, 256)),
        (chip_of("NVIDIA A100-SXM4-80GB", int(79.3 * GIB)), (0, 13, 0), Settings(), (2048, 256)),
        (chip_of("NVIDIA A100-SXM4-80GB", int(79.3 * GIB)), (0, 8, 5), Settings(), (8192, 1024)),
        (chip_of("NVIDIA B200", int(178 * GIB)), (0, 25, 1), Settings(), (8192, 1024)),
        (chip_of("NVIDIA B200", int(178 * GIB)), (0, 33, 0), Settings(), (16384, 1024)),
        (chip_of("NVIDIA Jetson Thor", int(122 * GIB)), (0, 10, 2), Settings(), (2048, 256)),
        (H100, (0, 13, 0), Settings(max_num_batched_tokens=512), (512, 512)),
        (H100, (0, 13, 0), Settings(max_num_seqs=8), (8192, 8)),
        (chip_of("CPU x86", 64 * GIB), (0, 32, 0), Settings(), (2048, 128)),
    ],
)
def test_defaults_of_a_batch(
    chip: Chip, version: tuple[int, int, int], settings: Settings, expected: tuple[int, int]
) -> None:
    assert default_batch(chip, version, settings) == expected


def test_default_utilization_changed_in_020() -> None:
    assert default_utilization((0, 19, 1)) == 0.9
    assert default_utilization((0, 20, 0)) == 0.92


def test_a_version_is_assumed_from_the_utilization() -> None:
    assert assumed_version(0.9) == assumed_version(None) == (0, 16, 0)
    assert assumed_version(0.6) == (0, 25, 1)


def test_sorting_costs_38_bytes_a_logit() -> None:
    kept = reserve(SMALL, H100, (0, 13, 0))
    assert kept.sampler == 1024 * 151936 * 38
    assert kept.total / GIB == pytest.approx(5.56 + 0.13, abs=0.06)  # printed: 5.56 activation, 0.13 else
    assert reserve(SMALL, H100, (0, 13, 0), Settings(max_num_seqs=64)).sampler == pytest.approx(64 * 151936 * 50.2)


def test_later_versions_do_not_sort() -> None:
    assert reserve(SMALL, H100, (0, 19, 1)).sampler == 1024 * 151936 * 14
    assert reserve(SMALL, H100, (0, 25, 1)).sampler == 1024 * 151936 * 12
    assert reserve(SMALL, H100, (0, 25, 1), Settings(flashinfer_sampler=False)).sampler == 1024 * 151936 * 6
    assert reserve(SMALL, A10, (0, 25, 1)).sampler == 256 * 151936 * 6


def test_flashinfer_is_uncertain_up_to_0110() -> None:
    unsure = reserve(SMALL, H100, (0, 10, 2))
    sure = reserve(SMALL, H100, (0, 10, 2), Settings(flashinfer_sampler=True))
    sorting = reserve(SMALL, H100, (0, 10, 2), Settings(flashinfer_sampler=False))
    assert sure.total < unsure.total < sorting.total
    assert unsure.worst == sorting.total == sorting.worst
    assert unsure.low < sure.total < sorting.total < unsure.high
    rocm = chip_of("AMD MI300X", int(192 * GIB))
    without = Settings(flashinfer_sampler=False)
    assert reserve(SMALL, rocm, (0, 10, 2)).total == reserve(SMALL, rocm, (0, 10, 2), without).total


def test_graphs_are_subtracted_from_021_on() -> None:
    experts = from_numbers(
        {"layers": 48, "hidden_size": 2048, "attention_heads": 32, "kv_heads": 4, "head_dim": 128,
         "vocab_size": 151936, "experts": 128, "experts_per_token": 8, "moe_intermediate_size": 768}
    )  # fmt: skip
    before, after = (reserve(experts, H100, version) for version in ((0, 20, 2), (0, 21, 0)))
    assert before.graphs == after.graphs > 0
    assert not before.graphs_subtracted
    assert after.total - before.total == after.graphs
    assert reserve(experts, H100, (0, 21, 0), Settings(enforce_eager=True)).graphs == 0
    assert not reserve(SMALL, H100, (0, 25, 1)).graphs_subtracted
    assert reserve(SMALL, H100, (0, 33, 0)).graphs_subtracted


def test_communication_grows_with_cards_and_less_without_a_fast_link() -> None:
    def extra(chip: Chip, tensor: int) -> float:
        return (reserve(SMALL, chip, (0, 13, 0), parallel=Parallel(tensor)).non_torch - one(chip)) / GIB

    def one(chip: Chip) -> int:
        return reserve(SMALL, chip, (0, 13, 0)).non_torch

    assert extra(H100, 2) == pytest.approx(0.42)
    assert extra(H100, 4) == pytest.approx(0.84)
    assert 0 < extra(A10, 4) < extra(H100, 4)


def test_only_the_last_stage_samples_and_only_the_first_sees() -> None:
    seeing = from_numbers(
        {"layers": 28, "hidden_size": 1024, "intermediate_size": 3072, "attention_heads": 16, "kv_heads": 8,
         "head_dim": 128, "vocab_size": 151936, "vision_params_b": 0.5}, model_type="qwen2_5_vl"
    )  # fmt: skip
    first, last = (reserve(seeing, H100, (0, 13, 0), parallel=Parallel(pipeline=2), stage=s) for s in (0, 1))
    assert first.sampler == 0 < last.sampler
    assert last.encoder == 0 < first.encoder


@pytest.mark.parametrize(
    "settings",
    [{"gpu_memory_utilization": 0.0}, {"gpu_memory_utilization": 1.1}, {"max_num_seqs": 0}],
)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        Settings(**settings)  # type: ignore[arg-type]


def test_impossible_cards_are_refused() -> None:
    with pytest.raises(ValueError, match="memory_bytes"):
        Chip(0)
    with pytest.raises(ValueError, match="backend"):
        Chip(1, backend="abacus")
