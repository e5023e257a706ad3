"""Engine settings against recorded versions, and what an upgrade changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet.version_sets.engine_args import (
    CHOICE,
    DEPRECATED,
    ERROR,
    REMOVED,
    TYPE,
    UNKNOWN,
    VERSION,
    WARNING,
    Finding,
    blind,
    check,
    diff,
    engine_version,
    nearest_version,
    recorded_versions,
)

V = "0.32.0"


def one(settings: dict[str, Any], version: str = V) -> Finding:
    found = check(settings, version)
    assert len(found) == 1, found
    return found[0]


def test_at_least_two_versions_are_recorded() -> None:
    assert {"0.25.1", "0.32.0"} <= set(recorded_versions())
    for version in recorded_versions():
        engine = engine_version(version)
        assert engine.vllm == version
        assert len(engine.options) > 200
        assert "vllm:kv_cache_usage_perc" in engine.metrics
        assert engine.origin


def test_the_settings_of_the_sandbox_are_fine() -> None:
    settings = {
        "max-model-len": 512,
        "dtype": "float32",
        "enforce-eager": True,
        "max-num-seqs": 8,
        "kv-cache-memory-bytes": 67108864,
        "served-model-name": "tiny-chat",
        "host": "10.77.0.11",
        "port": 8000,
        "shutdown-timeout": 60,
        "disable-log-stats": False,
        "model": "/var/lib/vllm-fleet/models/x",
    }
    for version in recorded_versions():
        assert check(settings, version) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"max_model_len": "8k"},
        {"max-model-len": "auto"},
        {"kv-cache-memory-bytes": "64M"},
        {"--port": 8000},
        {"no-enable-prefix-caching": True},
        {"served-model-name": ["a", "b"]},
        {"dtype": "half"},
        {"gpu-memory-utilization": "0.85"},
        {"gpu-memory-utilization": 1},
        {"tensor-parallel-size": "8"},
        {"speculative-config": {"method": "ngram", "num_speculative_tokens": 3}},
        {"hf-overrides": {"a": 1}},
        {"compilation-config": '{"mode": 0}'},
        {"quantization": "ascend"},
        {"quantization": None},
        {"block-size": None},
    ],
)
def test_spellings_that_vllm_takes(settings: dict[str, Any]) -> None:
    assert check(settings, V) == []


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("device", None),
        ("swap-space", "kv-offloading-size"),
        ("speculative-model", "speculative-config"),
        ("num-speculative-tokens", "speculative-config"),
        ("chunked-prefill-size", "max-num-batched-tokens"),
        ("task", "runner"),
        ("disable-log-requests", "enable-log-requests"),
        ("rope-scaling", "hf-overrides"),
        ("guided-decoding-backend", "structured-outputs-config"),
        ("max_batch_size", "max-num-seqs"),
        ("reuse_kv_cache", "enable-prefix-caching"),
        ("page_size", "block-size"),
    ],
)
def test_options_of_the_articles_name_their_replacement(option: str, nearest: str | None) -> None:
    """seed_corrections 12, 20 to 25, 27; vllm_cpu.md "Gone"."""
    finding = one({option: 1})
    assert (finding.code, finding.level, finding.nearest) == (REMOVED, ERROR, nearest)


def test_unknown_names_the_nearest() -> None:
    finding = one({"max-num-seqz": 8})
    assert (finding.code, finding.nearest) == (UNKNOWN, "max-num-seqs")
    assert one({"zzzzqqqq": 8}).nearest is None


def test_option_of_a_later_version() -> None:
    later = set(engine_version("0.33.0").options) - set(engine_version("0.18.0").options)
    assert "numa-bind" in later
    finding = one({"numa-bind": True}, "0.18.0")
    assert finding.code == UNKNOWN
    assert "came with 0.23.0" in finding.text


def test_option_that_went() -> None:
    finding = one({"max-num-partial-prefills": 2}, "0.33.0")
    assert finding.code == REMOVED
    assert "last seen in" in finding.text


@pytest.mark.parametrize(
    "settings",
    [
        {"port": "http"},
        {"port": True},
        {"port": [1, 2]},
        {"port": 1.5},
        {"enforce-eager": "yes"},
        {"gpu-memory-utilization": "high"},
        {"gpu-memory-utilization": float("nan")},
        {"max-model-len": "long"},
        {"kv-cache-memory-bytes": -1},
        {"compilation-config": "{"},
        {"no-enable-prefix-caching": "x"},
        {"tensor-parallel-size": None},
        {"model": {"a": 1}},
    ],
)
def test_wrong_types(settings: dict[str, Any]) -> None:
    assert one(settings).code == TYPE


@pytest.mark.parametrize(
    ("option", "value", "nearest"),
    [
        ("dtype", "bf16", "bfloat16"),
        ("dtype", "fp16", "float16"),
        ("quantization", "w8a8", None),
        ("quantization", "int8", None),
        ("load-format", 5, ""),
        ("scheduling-policy", "prio", "priority"),
    ],
)
def test_wrong_choices(option: str, value: Any, nearest: str | None) -> None:
    """seed_corrections 13, 18, 19."""
    found = check({option: value}, V)
    if nearest == "":
        assert found == []
        return
    assert [(f.code, f.nearest) for f in found] == [(CHOICE, nearest)]


def test_a_mapping_is_no_choice() -> None:
    assert one({"chat-template-content-format": {}}).code == CHOICE


def test_the_same_option_twice() -> None:
    assert one({"max-model-len": 1, "max_model_len": 2}).code == CHOICE


def test_deprecated_warns() -> None:
    finding = one({"disable-cascade-attn": True})
    assert (finding.code, finding.level) == (DEPRECATED, WARNING)


def test_a_version_that_was_not_recorded() -> None:
    found = check({"port": 8000, "no-such": 1}, "0.31.0")
    assert [(f.code, f.level) for f in found] == [(VERSION, WARNING), (UNKNOWN, WARNING)]
    assert nearest_version("0.31.0") == ("0.25.1", False)
    assert nearest_version("0.1.0") == ("0.18.0", False)
    assert nearest_version("1.0")[0] == recorded_versions()[-1]
    assert nearest_version("strange")[1] is False


def test_names_that_are_none() -> None:
    assert one({3: 4}).code == UNKNOWN  # type: ignore[dict-item]
    assert one({"x" * 10_000: 4}).code == UNKNOWN


def test_upgrade_names_what_goes_and_what_changes_silently() -> None:
    change = diff("0.18.0", "0.33.0")
    assert "max-num-partial-prefills" in dict(change.removed)
    assert "spec-model" in change.added
    defaults = {(d.option, d.card): (d.was, d.now) for d in change.defaults}
    assert defaults[("gpu-memory-utilization", None)] == (0.9, 0.92)
    assert defaults[("max-num-batched-tokens", "192GiB")] == (8192, 16384)


def test_defaults_by_card() -> None:
    """seed_corrections 29: 1024 sequences on 70 GiB and more, but not on an A100."""
    computed = engine_version("0.33.0").computed_defaults
    assert computed["80GiB"]["max-num-seqs"] == 1024
    assert computed["80GiB A100"]["max-num-seqs"] == 256
    assert computed["cpu"]["max-num-seqs"] == 128


def test_no_difference_with_itself() -> None:
    same = diff(V, V)
    assert (same.removed, same.added, same.defaults, same.metrics_gone, same.choices_gone) == (
        (),
        (),
        (),
        (),
        (),
    )
    with pytest.raises(KeyError):
        diff(V, "0.99.0")


def test_alerts_that_would_go_blind() -> None:
    """field_faults 32: dashboards empty after a metric was renamed."""
    used = [
        "vllm:gpu_cache_usage_perc",
        "vllm:kv_cache_usage_perc",
        "vllm:time_per_output_token_seconds_bucket",
        "up",
    ]
    assert blind(used, V) == [
        ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"),
        ("vllm:time_per_output_token_seconds_bucket", "vllm:inter_token_latency_seconds"),
    ]
    assert blind(["vllm:prefix_cache_hits_total", "vllm:num_preemptions_total"], V) == []


def test_replacements_name_options_that_exist(tmp_path: Path) -> None:
    from fleet.version_sets.engine_args import _first_option, _replacements

    newest = engine_version(recorded_versions()[-1])
    for row in _replacements()["replacements"]:
        assert row.source
        if not row.use.startswith("nothing"):
            assert _first_option(row.use, newest), row
        assert row.name not in newest.options
    assert not list(tmp_path.iterdir())


def test_metrics_of_counters_end_in_total() -> None:
    for version in recorded_versions():
        for metric in engine_version(version).metrics.values():
            if metric.kind == "counter":
                assert all(name.endswith("_total") for name in metric.shown)
    json.dumps(list(engine_version(V).metrics))
