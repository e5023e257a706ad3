"""The model against what vLLM reported: the figures that docs/capacity.md states must stay true."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("capacity_benchmark", ROOT / "benchmarks" / "capacity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_shares_and_verdicts(benchmark: ModuleType) -> None:
    points = yaml.safe_load(benchmark.POINTS.read_text(encoding="utf-8"))
    outcomes = [benchmark.evaluate(point) for point in points]
    shares = benchmark.shares(outcomes)
    assert shares["points"] >= 20
    assert shares["within_3_percent"] >= 0.65
    assert shares["within_10_percent"] >= 0.92
    assert [o.id for o in outcomes if o.verdict_right is False] == []
    assert abs(next(o.error_percent for o in outcomes if o.id == "h200")) < 2


def test_a_point_without_a_card_is_left_out_and_not_guessed(benchmark: ModuleType) -> None:
    points = yaml.safe_load(benchmark.POINTS.read_text(encoding="utf-8"))
    unknown = [benchmark.evaluate(point) for point in points if point["card_memory_gib"] is None]
    assert unknown
    assert all(o.predicted_gib is None and o.verdict_right is None and not o.counted for o in unknown)
