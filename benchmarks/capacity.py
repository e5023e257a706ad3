"""The capacity model against what vLLM itself reported, point by point.

    python benchmarks/capacity.py [--points FILE] [--output FILE] [--no-cross-validation]

Every prediction is made from what an operator knows beforehand: the model's shape, the card, the version, parallel
sizes and settings. Reported figures are only compared. Three things are read off an incomplete point, and marked in the
table: `w` weights as reported, because the shape does not tell them; `u` the printed utilization cannot be true because
the point's own figures add up to more; `t` KV bytes derived from printed tokens.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plugins" / "module_utils"))

from fleet.capacity import (  # noqa: E402
    DEFAULT,
    GIB,
    ArchitectureError,
    Constants,
    FitResult,
    Parallel,
    ParallelError,
    Request,
    Settings,
    Weights,
    assumed_version,
    chip_of,
    fit,
    from_numbers,
)
from fleet.capacity.weights import StageWeights  # noqa: E402

POINTS = ROOT / "tests" / "fixtures" / "capacity_points.yml"
RESULT = ROOT / "benchmarks" / "results" / "capacity.json"
LARGE_SHARE = 0.30
NEAR, FAR = 3.0, 10.0

# What config.json would tell and a point does not: the family's name, and the model's own longest context where a run
# was started without --max-model-len. Source: the models' public config.json.
FAMILIES = (
    (r"qwen3-vl.*a\d", "qwen3_vl_moe"), (r"qwen3-vl", "qwen3_vl"), (r"qwen2\.5-vl", "qwen2_5_vl"),
    (r"qwen2-vl", "qwen2_vl"), (r"llava-v1\.6|llava-next", "llava_next"), (r"llava", "llava"),
    (r"gemma-3-(4|12|27)", "gemma3"), (r"mistral-small|ministral|pixtral", "mistral3"),
    (r"gpt-oss", "gpt_oss"), (r"qwen3-next", "qwen3_next"), (r"qwen3", "qwen3"), (r"qwen2", "qwen2"),
    (r"llama", "llama"), (r"mistral", "mistral"), (r"gemma", "gemma3_text"),
)  # fmt: skip
LENGTHS = (
    (r"gpt-oss|llama-3\.[123]|gemma-3-(4|12|27)|mistral-small|mistral-nemo|ministral", 131072),
    (r"qwen3-next|qwen3-vl|qwen3.*2507|qwen3\.[56]|qwen3-coder", 262144),
    (r"qwen3", 40960), (r"qwen2\.5-vl", 128000), (r"qwen2|gemma-3-1b|mistral-7b", 32768),
    (r"deepseek-(r1|v3)", 163840), (r"minimax-m2", 196608), (r"llama-3", 8192), (r"gemma-2", 8192),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One point with its prediction."""

    id: str
    family: str
    model: str
    card: str
    version: str | None
    counted: bool
    marks: str
    reported_gib: float | None
    predicted_gib: float | None
    low_gib: float | None
    high_gib: float | None
    error_percent: float | None
    weights_reported_gib: float | None
    weights_predicted_gib: float | None
    reserve_gib: float | None
    outcome: str
    predicted: str
    verdict_right: bool | None


def _lookup(table: Sequence[tuple[str, Any]], name: str) -> Any:
    return next((value for pattern, value in table if re.search(pattern, name.lower())), None)


def request_of(point: Mapping[str, Any]) -> tuple[Request, str] | None:
    """The question that a point asks, and its marks; None when its card is unknown."""
    memory = point["card_memory_gib"]
    if memory is None:
        return None
    name = str(point["model"])
    numbers = dict(point["arch"])
    numbers.setdefault("max_position_embeddings", _lookup(LENGTHS, name))
    architecture = from_numbers(
        numbers,
        name=name,
        dtype=point["weights_dtype"] or "bfloat16",
        quantization=point["quantization"],
        model_type=_lookup(FAMILIES, name) or "",
    )
    reported, marks = point["reported"], ""
    loaded = reported.get("model_loading_gib_per_card")
    given: Weights | None = None
    if loaded is not None and (not architecture.weights_known or architecture.total_parameters is not None):
        stage = StageWeights(range(len(architecture.layers)), 0, 0, math.ceil(loaded * GIB), 0, 0, 0)
        given, marks = Weights((stage,), exact=True), "w"
    share = point["gpu_memory_utilization"]
    parts = [reported.get(key) for key in ("model_loading_gib_per_card", "activation_peak_gib", "available_kv_gib")]
    version = point["vllm_version"]
    if share is not None and None not in parts and sum(parts) > share * memory * 1.01:
        version = version or ".".join(map(str, assumed_version(share)))
        share, marks = min(math.ceil(sum(parts) / memory * 20) / 20, 1.0), marks + "u"
    accelerator = str(point["accelerator"] or "")
    return (
        Request(
            architecture=architecture,
            chip=chip_of(accelerator, int(memory * GIB)),
            parallel=Parallel(point["tp"], point["pp"], point["dp"], bool(point["expert_parallel"])),
            version=version,
            settings=Settings(
                max_model_len=point["max_model_len"],
                gpu_memory_utilization=share,
                max_num_seqs=point["max_num_seqs"],
                max_num_batched_tokens=point["max_num_batched_tokens"],
                enforce_eager=bool(point["enforce_eager"]),
                flashinfer_sampler=point.get("flashinfer_sampler"),
                kv_cache_dtype=point["kv_cache_dtype"] or "auto",
                # A default large batch that only programs get tells that the engine ran inside one.
                offline=point["max_num_batched_tokens"] == 16384,
            ),
            weights=given,
        ),
        marks,
    )


def reported_kv(point: Mapping[str, Any], result: FitResult) -> tuple[float | None, str]:
    """KV in bytes as the point tells it, directly or by its tokens."""
    reported = point["reported"]
    if reported.get("available_kv_bytes") is not None:
        return float(reported["available_kv_bytes"]), ""
    if reported.get("available_kv_gib") is not None:
        return float(reported["available_kv_gib"]) * GIB, ""
    if reported.get("kv_tokens") is not None and len(result.layout.groups) == 1:
        return reported["kv_tokens"] * result.layout.bytes_per_token, "t"
    return None, ""


def evaluate(point: Mapping[str, Any], constants: Constants = DEFAULT) -> Outcome:
    """The prediction for one point beside what was reported."""
    reported = point["reported"]
    base = {
        "id": str(point["id"]),
        "family": point["family"] or f"point {point['id']}",
        "model": str(point["model"]),
        "card": f"{point['cards']}x {point['accelerator'] or 'unknown'}",
        "version": point["vllm_version"],
        "weights_reported_gib": reported.get("model_loading_gib_per_card"),
        "outcome": point["outcome"],
    }
    nothing: dict[str, Any] = dict.fromkeys(
        ("predicted_gib", "low_gib", "high_gib", "error_percent", "weights_predicted_gib", "reserve_gib")
    )
    failed = point["outcome"] != "ok"
    own = reported.get("available_kv_gib")
    asked = request_of(point)
    if asked is None or asked[0].chip.backend == "cpu":
        why = "card unknown" if asked is None else "KV is given"
        return Outcome(**base, **nothing, counted=False, marks="", reported_gib=own, predicted=why, verdict_right=None)
    try:
        result = fit(asked[0], constants=constants, advise=False)
    except (ArchitectureError, ParallelError) as error:
        return Outcome(
            **base, **nothing, counted=False, marks="", reported_gib=own, predicted=str(error), verdict_right=None
        )
    kv, mark = reported_kv(point, result)
    memory = asked[0].chip.memory_bytes
    return Outcome(
        **base,
        counted=kv is not None and kv > LARGE_SHARE * memory,
        marks=asked[1] + mark,
        reported_gib=None if kv is None else round(kv / GIB, 2),
        predicted_gib=round(result.kv_bytes / GIB, 2),
        low_gib=round(result.kv_bytes_low / GIB, 2),
        high_gib=round(result.kv_bytes_high / GIB, 2),
        error_percent=None if not kv or kv <= 0 else round((result.kv_bytes / kv - 1) * 100, 2),
        weights_predicted_gib=round(result.weights_bytes / GIB, 2),
        reserve_gib=round(result.reserve.total / GIB, 2),
        predicted=str(result.status),
        verdict_right=result.fits != failed,
    )


# Values that each constant is tried at when it is fitted without a family. They span all that is plausible.
GRID: dict[str, tuple[float, ...]] = {
    "non_torch": (0.0, 0.07, 0.13, 0.2, 0.3),
    "link_step": (0.0, 0.2, 0.42, 0.7, 1.0),
    "pcie_step": (0.0, 0.15, 0.3, 0.6),
    "forward_widths": (2.0, 4.0, 6.0, 8.0, 12.0),
    "encoder_widths": (1.0, 2.0, 4.0, 8.0),
    "unified": (0.0, 1.0, 2.1, 4.0),
    "hccl": (0.0, 0.2, 0.39, 0.6),
    "vision_replicated": (0.0, 0.45, 1.0),
    "graph_layer": (0.0, 0.013, 0.03),
}
# Where fitting starts: the first value of each grid, not the constants in use.
START = Constants(**{key: values[0] for key, values in GRID.items()})


def _loss(points: Sequence[Mapping[str, Any]], constants: Constants) -> float:
    errors = [evaluate(point, constants).error_percent for point in points]
    return sum(min(abs(error), 15.0) for error in errors if error is not None)


def fitted(points: Sequence[Mapping[str, Any]], rounds: int = 2) -> Constants:
    """Constants that make the errors on `points` smallest, by coordinate descent over `GRID`."""
    best, loss = START, _loss(points, START)
    for _ in range(rounds):
        for key, values in GRID.items():
            for value in values:
                trial = replace(best, **{key: value})
                now = _loss(points, trial)
                if now < loss - 1e-9:
                    best, loss = trial, now
    return best


def cross_validated(points: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Each counted point predicted with constants that were fitted without its family."""
    counted = [point for point in points if evaluate(point).counted]
    families: dict[str, list[Mapping[str, Any]]] = {}
    for point in counted:
        families.setdefault(point["family"] or f"point {point['id']}", []).append(point)
    found: list[Outcome] = []
    for members in families.values():
        constants = fitted([point for point in counted if point not in members])
        found += [evaluate(point, constants) for point in members]
    return found


def shares(outcomes: Sequence[Outcome]) -> dict[str, float | int]:
    """How many of the counted points are near."""
    errors = [abs(o.error_percent) for o in outcomes if o.counted and o.error_percent is not None]
    count = max(len(errors), 1)
    return {
        "points": len(errors),
        "within_3_percent": round(sum(error <= NEAR for error in errors) / count, 3),
        "within_10_percent": round(sum(error <= FAR for error in errors) / count, 3),
        "median_percent": round(sorted(errors)[len(errors) // 2], 2) if errors else math.nan,
    }


def _cell(value: float | None, width: int = 8) -> str:
    return f"{value:{width}.2f}" if value is not None else " " * (width - 1) + "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write the result; the exit status is 0 whatever the shares are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=Path, default=POINTS, help="YAML list of points")
    parser.add_argument("--output", type=Path, default=None, help="where the JSON goes; nowhere with other points")
    parser.add_argument("--no-cross-validation", action="store_true", help="skip the fits without each family")
    options = parser.parse_args(arguments)
    points = yaml.safe_load(options.points.read_text(encoding="utf-8"))
    outcomes = [evaluate(point) for point in points]
    heads = " weights reported  reserve       KV reported  error %"
    print(f"{'id':>5} {'model':28.28} {'cards':24.24} {'vLLM':12.12}{heads}")
    for o in outcomes:
        right = {True: "", False: "  WRONG VERDICT", None: ""}[o.verdict_right]
        print(
            f"{o.id:>5} {o.model.rsplit('/', 1)[-1]:28.28} {o.card:24.24} {o.version or '?':12.12}"
            f"{_cell(o.weights_predicted_gib)} {_cell(o.weights_reported_gib)} {_cell(o.reserve_gib)}"
            f" {_cell(o.predicted_gib)} {_cell(o.reported_gib)} {_cell(o.error_percent)}"
            f" {'*' if o.counted else ' '}{o.marks:3} {o.outcome} -> {o.predicted}{right}"
        )
    print("GiB a card. * counted: KV over 30 % of the card. w weights as reported, u utilization mended, t by tokens.")
    plain = shares(outcomes)
    failed = [o for o in outcomes if o.outcome != "ok" and o.verdict_right is not None]
    ran = [o for o in outcomes if o.outcome == "ok" and o.verdict_right is not None]
    inside = [o for o in outcomes if o.counted and o.reported_gib is not None and o.low_gib is not None]
    held = sum(o.low_gib <= o.reported_gib <= o.high_gib for o in inside if o.low_gib and o.high_gib and o.reported_gib)
    summary: dict[str, Any] = {
        **plain,
        "failures_predicted": f"{sum(bool(o.verdict_right) for o in failed)} of {len(failed)}",
        "runs_allowed": f"{sum(bool(o.verdict_right) for o in ran)} of {len(ran)}",
        "inside_stated_range": f"{held} of {len(inside)}",
        "not_evaluated": [o.id for o in outcomes if o.verdict_right is None],
        "h200_error_percent": next((o.error_percent for o in outcomes if o.id == "h200"), None),
    }
    print(
        f"\n{plain['points']} points: {plain['within_3_percent']:.0%} within 3 %, {plain['within_10_percent']:.0%}"
        f" within 10 %, median {plain['median_percent']} %; failures predicted {summary['failures_predicted']},"
        f" runs allowed {summary['runs_allowed']}, inside the stated range {summary['inside_stated_range']},"
        f" H200 {summary['h200_error_percent']} %"
    )
    if not options.no_cross_validation:
        crossed = cross_validated(points)
        summary["leave_one_family_out"] = shares(crossed)
        summary["leave_one_family_out_errors"] = {o.id: o.error_percent for o in crossed}
        cross = shares(crossed)
        print(
            f"constants fitted without each point's family: {cross['within_3_percent']:.0%} within 3 %,"
            f" {cross['within_10_percent']:.0%} within 10 %, median {cross['median_percent']} %"
        )
    output = options.output or (RESULT if options.points.resolve() == POINTS else None)
    if output is not None:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()
        document = {
            "benchmark": "capacity",
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": commit or None,
            "summary": summary,
            "constants": asdict(DEFAULT),
            "points": [asdict(o) for o in outcomes],
        }
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
