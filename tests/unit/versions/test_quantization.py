"""Quantization by hardware: what the articles got wrong (seed_corrections 15, 16 and 19)."""

from __future__ import annotations

from typing import Any

import pytest
from fleet.version_sets.quantization import quantization_support
from fleet.version_sets.solver import VersionSet, solve

from .hosts import A2, A100, H200, K100_AI, V100, kylin_v10, openeuler, ubuntu


def level(method: str, facts: dict[str, Any], **wanted: Any) -> tuple[str, str]:
    chosen = solve(facts, wanted)
    assert isinstance(chosen, VersionSet)
    answer = quantization_support(method, facts, chosen)
    return answer.level, answer.reason


@pytest.mark.parametrize(
    ("method", "card", "expected"),
    [
        ("fp8", A100, "unsupported"),
        ("fp8", H200, "supported"),
        ("kv-fp8-flash-attention", A100, "unsupported"),
        ("kv-fp8-flash-attention", H200, "supported"),
        ("awq", A100, "supported"),
        ("awq", V100, "unsupported"),
        ("gptq", V100, "supported"),
        ("int8-w4a8", H200, "unsupported"),
        ("no-such", H200, "uncertain"),
        ("awq", {"vendor": "nvidia", "chip": "New card"}, "uncertain"),
    ],
)
def test_nvidia(method: str, card: dict[str, Any], expected: str) -> None:
    facts = ubuntu(cards=[card], driver_version="580.159.04")
    assert level(method, facts, vllm="0.18.1")[0] == expected


def test_fp8_weights_load_on_an_a100_without_fp8_arithmetic() -> None:
    facts = ubuntu(cards=[A100], driver_version="580.159.04")
    assert "weights load" in level("fp8", facts)[1]


def test_cpu() -> None:
    assert level("int8-w8a8", kylin_v10())[0] == "supported"
    assert level("int8-w4a8", ubuntu())[0] == "unsupported"


def test_ascend() -> None:
    facts = openeuler(cards=[A2], hdk_version="26.2.RC1")
    assert level("ascend", facts)[0] == "supported"
    assert level("gptq", facts)[0] == "uncertain"
    assert level("gptq", facts, vllm_ascend="0.30.0rc2", unlisted=True)[0] == "unsupported"
    assert level("fp8", facts, vllm_ascend="0.30.0rc2", unlisted=True)[0] == "supported"
    assert level("w8a8", facts)[0] == "uncertain"


def test_dcu() -> None:
    assert level("awq", kylin_v10("Lance", arch="x86_64", cards=[K100_AI]))[0] == "uncertain"
