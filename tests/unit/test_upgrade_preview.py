"""What another version of vLLM means for an engine, with the options that those versions really have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fleet.facts import HostFacts
from fleet.plan import Plan
from fleet.planner import plan
from fleet.upgrade_preview import Upgrade, metrics_of, table, upgrades, what_if, without_plan
from fleet.version_sets.engine_args import engine_version, recorded_versions
from fleet_samples import LOCKS, MATRIX, SOURCE, TINY, Case, card_data
from hypothesis import given, settings
from hypothesis import strategies as st

HOSTS = ("engine-1", "engine-2")


def case(version: str, gpu: bool = True, **engine: Any) -> Case:
    c = Case()
    if gpu:
        c.on_gpus()
    c.deployment["engine"] |= engine
    c.by_host = {host: {"fleet_versions": {"vllm": version}} for host in HOSTS}
    return c


def data(c: Case) -> dict[str, Any]:
    return json.loads(json.dumps(c.good().as_dict()))


def facts(c: Case) -> dict[str, HostFacts]:
    return {host: HostFacts.of(found) for host, found in c.facts.items()}


def preview(old: Case, new: Case, *metrics: str) -> Upgrade:
    first, second = upgrades(data(old), data(new), facts(new), metrics)
    assert replace(second, host=first.host) == first
    return first


def pairs(keys: Any) -> dict[str, tuple[Any, Any]]:
    return {key.key: (key.was, key.now) for key in keys}


def test_defaults_that_change_under_an_engine() -> None:
    found = preview(case("0.18.0"), case("0.33.0"))
    assert pairs(found.defaults)["gpu-memory-utilization"] == (0.9, 0.92)
    assert pairs(found.defaults)["disable-cascade-attn"] == (True, None)
    assert "max-num-batched-tokens" not in pairs(found.defaults), "an A100 keeps what vLLM computes for it"
    own = preview(case("0.18.0", gpu_memory_utilization=0.9), case("0.33.0", gpu_memory_utilization=0.9))
    assert pairs(own.defaults) == {k: v for k, v in pairs(found.defaults).items() if k != "gpu-memory-utilization"}
    # The name that switches an option off sets it, too.
    off = {"no-disable-cascade-attn": True}
    assert "disable-cascade-attn" not in pairs(preview(case("0.18.0", **off), case("0.33.0", **off)).defaults)


@pytest.mark.parametrize(
    ("chip", "mib", "changes"),
    [
        ("NVIDIA B200", 183359, {"max-num-batched-tokens": (8192, 16384)}),
        ("NVIDIA H200", 143771, {}),
        ("NVIDIA H100 80GB HBM3", 81559, {}),
        ("NVIDIA L4", 23034, {}),
    ],
)
def test_defaults_computed_from_the_card(chip: str, mib: int, changes: dict[str, Any]) -> None:
    before, known = data(case("0.25.1")), facts(case("0.25.1"))
    cards = HostFacts.of({"cards": [card_data(0, chip=chip, memory_bytes=mib << 20)]}).cards
    known = {host: replace(found, cards=cards) for host, found in known.items()}
    found = without_plan(before, HOSTS, "0.33.0", known)[0]
    assert {k: v for k, v in pairs(found.defaults).items() if k.startswith("max-num")} == changes


def test_options_that_are_gone_where_there_is_no_plan_with_them() -> None:
    c = case("0.18.0", calculate_kv_scales=True, max_num_partial_prefills=2, quantization="gguf")
    before = json.loads(json.dumps(c.good().as_dict()))
    found = without_plan(before, ["engine-1"], "0.33.0", facts(c))[0]
    assert {o.option for o in found.options} == {"calculate-kv-scales", "max-num-partial-prefills", "quantization"}
    assert {o.use for o in found.options} == {None}, "nothing took their place"
    assert not found.planned and found.runtime == found.memory == ()
    assert any("option" in line and "calculate-kv-scales: true" in line for line in table([found]))


def test_what_was_wrong_before_is_no_news() -> None:
    before = data(case("0.32.0", gpu=False))
    before["hosts"]["engine-1"]["engines"][0]["settings"]["swap-space"] = 4
    assert without_plan(before, ["engine-1"], "0.33.0", {})[0].options == ()
    before["hosts"]["engine-1"]["engines"][0]["settings"]["spec-method"] = "medusa"
    (fault,) = without_plan(before, ["engine-1"], "0.33.0", {})[0].options
    assert fault.option == "spec-method"


def test_drivers_and_memory() -> None:
    found = preview(case("0.18.0"), case("0.33.0"))
    assert pairs(found.runtime) == {
        "cuda": ("12.8", "13.0"),
        "driver_min": ("525", "580"),
        "torch": ("2.10.0", "2.14.0"),
    }
    old, new = case("0.18.0"), case("0.33.0")
    for c in (old, new):
        c.seen[SOURCE] = replace(c.seen[SOURCE], config=TINY)
    figures = pairs(preview(old, new).memory)
    assert figures["kv_cache_tokens"][1] > figures["kv_cache_tokens"][0], "0.92 of the memory is more than 0.9 of it"
    text = table(upgrades(data(old), data(new), facts(new)))
    assert any(line.startswith("  memory") and "KV tokens" in line and "(+" in line for line in text)


def test_metrics_that_go_blind_and_those_that_are() -> None:
    rules = (
        'sum(rate(vllm:spec_decode_num_accepted_tokens_total{a="b"}[5m])) / vllm:gpu_cache_usage_perc'
        " > vllm:num_requests_running"
    )
    names = metrics_of(rules)
    assert names == [
        "vllm:gpu_cache_usage_perc",
        "vllm:num_requests_running",
        "vllm:spec_decode_num_accepted_tokens_total",
    ]
    found = preview(case("0.23.0"), case("0.25.1"), *names)
    assert [(b.metric, b.already) for b in found.blind] == [
        ("vllm:gpu_cache_usage_perc", True),
        ("vllm:spec_decode_num_accepted_tokens_total", False),
    ]
    assert found.blind[0].use == "vllm:kv_cache_usage_perc"


def test_a_version_that_was_not_recorded_is_compared_with_the_nearest() -> None:
    found = without_plan(data(case("0.23.0")), ["engine-1"], "0.33.1", {})[0]
    assert found.compared == ("0.23.0", "0.33.0")
    assert "the nearest recorded" in table([found])[1]


def test_a_new_engine_is_no_upgrade_and_a_runtime_without_a_record_is_known_by_its_name() -> None:
    before, after = data(case("0.18.0")), data(case("0.33.0"))
    del before["hosts"]["engine-1"]["engines"], before["hosts"]["engine-2"]["runtimes"]
    (found,) = upgrades(before, after, {})
    assert (found.host, found.was, found.now, found.runtime) == ("engine-2", "0.18.0", "0.33.0", ())
    assert upgrades(None, after, {}) == []


def test_only_hosts_whose_backend_can_have_it() -> None:
    c = case("0.32.0", gpu=False)
    known = facts(c)
    npu = HostFacts.of(c.facts["engine-2"] | {"arch": "aarch64", "cards": [{"vendor": "huawei", "chip": "910B3"}]})
    known["engine-2"] = npu
    changed, taken, refused = what_if(c.inventory(), {"vllm": "0.33.0"}, HOSTS, known, MATRIX)
    assert (taken, refused) == (["engine-1"], {"engine-2": "ascend"})
    assert changed.by_host["engine-1"]["fleet_versions"] == {"vllm": "0.33.0"}
    assert changed.by_host["engine-2"]["fleet_versions"] == {"vllm": "0.32.0"}
    assert c.inventory().by_host["engine-1"]["fleet_versions"] == {"vllm": "0.32.0"}
    _, taken, _ = what_if(c.inventory(), {"vllm_ascend": "0.23.0"}, HOSTS, known, MATRIX)
    assert taken == ["engine-2"]
    made = plan(what_if(c.inventory(), {"vllm": "0.33.0"}, HOSTS, facts(c), MATRIX)[0], facts(c), MATRIX, LOCKS)
    assert isinstance(made, Plan)
    assert {r.vllm for item in made.slices.values() for r in item.runtimes} == {"0.33.0"}


OPTIONS = sorted({name for v in recorded_versions() for name in engine_version(v).options})


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(recorded_versions()),
    st.dictionaries(
        st.sampled_from(OPTIONS), st.none() | st.booleans() | st.integers() | st.text(max_size=5), max_size=4
    ),
)
def test_the_same_version_is_no_upgrade(version: str, engine: dict[str, Any]) -> None:
    before = PLANS.setdefault(version, data(case(version)))
    for host in HOSTS:
        before["hosts"][host]["engines"][0]["settings"] |= engine
    assert upgrades(before, json.loads(json.dumps(before)), {}) == []
    assert without_plan(before, HOSTS, version, {}) == []
    assert table([]) == []


PLANS: dict[str, dict[str, Any]] = {}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(recorded_versions()),
    st.sampled_from(recorded_versions()),
    st.lists(st.sampled_from(OPTIONS), max_size=5),
)
def test_a_default_that_the_engine_sets_never_changes_silently(was: str, now: str, names: list[str]) -> None:
    before = json.loads(json.dumps(data(case("0.23.0"))))
    item = before["hosts"]["engine-1"]
    item["runtimes"][0]["vllm"] = was
    item["engines"][0]["settings"] |= dict.fromkeys(names, 1)
    for found in without_plan(before, ["engine-1"], now, facts(case(was))):
        assert not {key.key for key in found.defaults} & set(names)
        assert json.dumps(found.as_dict()) and table([found])
