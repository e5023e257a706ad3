"""What a run would change: against what hosts were converged to, and against what runs on them."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from fleet.plan_diff import Change, counts, difference, lines, rollout
from fleet_samples import Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def data(c: Case | None = None) -> dict[str, Any]:
    return json.loads(json.dumps((c or Case()).good().as_dict()))


PLAN = data()
UP = {
    "engine_units": [{"unit": "vllm-engine@chat-0.service", "load": "loaded", "active": "active", "sub": "running"}],
    "listening": [{"port": 22}, {"port": 8000}],
}


def units(**states: str) -> dict[str, Any]:
    """Facts with engines in these states: ``active running``."""
    return {
        "engine_units": [
            {"unit": f"vllm-engine@{name.replace('_', '-')}.service", "active": s.split()[0], "sub": s.split()[1]}
            for name, s in states.items()
        ]
    }


def said(changes: list[Change]) -> list[tuple[str, str, str, str]]:
    return [(c.host, c.what, c.name, c.action) for c in changes]


def test_a_fleet_never_converged_is_new_altogether() -> None:
    changes = difference(None, PLAN, {})
    assert counts(changes) == (
        "4 hosts join, 2 engines start, 2 runtimes are installed, 2 models are fetched,"
        " 4 kernel settings of hosts are set, 2 gateways start, 2 VRRP instances are added"
    )
    assert "engine-1, engine-2: engine chat-0 starts: new" in lines(changes)
    assert "engine-1, engine-2, gateway-1, gateway-2 join" in lines(changes)


def test_nothing_changes_where_everything_runs_as_planned() -> None:
    assert difference(PLAN, PLAN, {"engine-1": UP, "engine-2": UP, "gateway-1": {"engine_units": []}}) == []
    assert counts([]) == "nothing would change"
    assert lines([]) == rollout(PLAN, [], {}) == []


def test_a_setting_restarts_an_engine_and_says_how_long_and_in_which_order() -> None:
    c = Case()
    c.deployment["engine"]["max_num_seqs"] = 16
    after = data(c)
    running = {"engine-1": UP, "engine-2": UP}
    changes = difference(PLAN, after, running)
    assert counts(changes) == "2 engines restart"
    text = lines(changes)
    assert (text[0], text[-1]) == ("engine-1, engine-2: engine chat-0 restarts", "    ready again within 16 min")
    assert "    settings.max-num-seqs: 8 -> 16" in text
    assert rollout(after, changes, running) == [
        "hosts that serve follow in batches, 1 first, then 1 at a time: engine-1, engine-2"
    ]


def test_nobody_else_serves_meanwhile() -> None:
    c = Case()
    c.groups["cpu_hosts"] = ["engine-1"]
    before = data(c)
    c.deployment["environment"]["OMP_NUM_THREADS"] = "2"
    (change,) = difference(before, data(c), {})
    assert [k.key for k in change.keys] == ["environment.OMP_NUM_THREADS"]
    assert change.consequence.endswith("no other host serves chat meanwhile")


@pytest.mark.parametrize(
    ("facts", "action", "reason"),
    [
        (units(), "starts", "not there"),
        (units(chat_0="failed failed"), "starts", "it is failed (failed)"),
        (units(chat_0="active auto-restart"), "starts", "it is active (auto-restart)"),
        (UP | {"listening": [{"port": 22}]}, "silent", "as planned and active, and nobody listens on 8000"),
    ],
)
def test_what_runs_counts_more_than_what_was_converged(facts: dict[str, Any], action: str, reason: str) -> None:
    (change,) = difference(PLAN, PLAN, {"engine-1": facts})
    assert (change.host, change.action, change.reason) == ("engine-1", action, reason)


def test_an_engine_that_runs_without_a_record_restarts() -> None:
    before = deepcopy(PLAN)
    del before["hosts"]["engine-1"]["engines"]
    (change,) = difference(before, PLAN, {"engine-1": UP, "engine-2": UP})
    assert (change.action, change.reason) == ("restarts", "it runs, and there is no record of what it was started with")


def test_what_runs_unplanned_is_stopped_only_where_engines_are_planned() -> None:
    facts = {
        "engine-1": units(chat_0="active running", old_0="active running"),
        "gateway-1": units(old_0="failed failed"),
    }
    changes = difference(PLAN, PLAN, facts)
    assert said(changes) == [("engine-1", "engine", "old-0", "stops"), ("gateway-1", "engine", "old-0", "left")]
    assert counts(changes) == "1 engine stops, 1 engine is left running"
    assert counts(changes[1:]) == "nothing would change, 1 engine is left running"


def test_a_host_without_its_engines_and_one_that_leaves() -> None:
    c = Case()
    c.groups["cpu_hosts"] = ["engine-2"]
    changes = difference(PLAN, data(c), {"engine-1": UP})
    assert ("engine-1", "engine", "chat-0", "left") in said(changes)
    assert said(changes)[-1] == ("gateway-2", "server", "chat: engine-1-chat-0", "removed")
    assert "gateway-1, gateway-2: server chat: engine-1-chat-0 is removed" in lines(changes)
    del c.addresses["engine-1"], c.facts["engine-1"]
    assert said(difference(PLAN, data(c), {}))[0] == ("engine-1", "host", "engine-1", "leaves")


def test_weights_versions_and_addresses_of_gateways() -> None:
    c = Case()
    c.deployment["weight"] = 50
    assert counts(difference(PLAN, data(c))) == "4 servers of gateways are reweighted"
    assert lines(difference(PLAN, data(c)))[0] == (
        "gateway-1, gateway-2: servers chat: engine-1-chat-0, chat: engine-2-chat-0 are reweighted"
    )
    c = Case()
    c.gateway["vips"] = ["10.77.0.101/24"]
    changes = difference(PLAN, data(c))
    assert counts(changes) == "2 gateways change, 2 VRRP instances change"
    assert [k.key for k in changes[0].keys] == ["vip_addresses"]
    c = Case()
    models = c.variables["fleet_models"]["tiny-chat"]["versions"]
    models["2026.02"] = models["2026.01"]
    c.service["version"] = "2026.02"
    assert counts(difference(PLAN, data(c))) == "2 engines restart, 2 models are fetched"


def test_another_runtime() -> None:
    c = Case()
    c.by_host = {host: {"fleet_versions": {"python": "3.11"}} for host in ("engine-1", "engine-2")}
    before = data(c)
    c.by_host = {}
    changes = difference(before, data(c))
    if before["hosts"]["engine-1"]["runtimes"] != PLAN["hosts"]["engine-1"]["runtimes"]:
        assert counts(changes) == "2 engines restart, 2 runtimes are installed"
        assert "runtime" in [k.key for k in changes[0].keys]


def test_a_thousand_alike_are_a_few_lines() -> None:
    c = Case()
    for number in range(30):
        c.add_host(f"e{number:02}", f"10.77.1.{number + 1}", "cpu_hosts")
    text = lines(difference(PLAN, data(c)))
    assert len(text) < 20
    assert "e00, e01, e02, e03 and 26 more join" in text
    assert any(line.endswith("and 26 more are added") for line in text)


# --- any plan, any change ---------------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of scalars and lists in nested mappings."""
    if isinstance(value, dict):
        return [place for key in sorted(value) for place in leaves(value[key], (*path, key))]
    return [path]


HOST = PLAN["hosts"]["engine-1"]
PLACES = (
    [("engine-1", "engine", ("engines", 0), p) for p in leaves(HOST["engines"][0]) if p != ("name",)]
    + [("engine-1", "runtime", ("runtimes", 0), p) for p in leaves(HOST["runtimes"][0]) if p != ("id",)]
    + [("engine-1", "model", ("models", 0), p) for p in leaves(HOST["models"][0]) if p != ("path",)]
    + [("engine-1", "tuning", ("tuning",), p) for p in leaves(HOST["tuning"])]
    + [
        ("gateway-1", "gateway", ("gateway",), p)
        for p in leaves(PLAN["hosts"]["gateway-1"]["gateway"])
        if p != ("services",)
    ]
    + [
        ("gateway-1", "server", ("gateway", "services", 0, "servers", 0), p)
        for p in leaves(PLAN["hosts"]["gateway-1"]["gateway"]["services"][0]["servers"][0])
        if p != ("name",)
    ]
    + [
        ("gateway-1", "vip", ("vip", "instances", 0), p)
        for p in leaves(PLAN["hosts"]["gateway-1"]["vip"]["instances"][0])
        if p != ("name",)
    ]
)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.integers(), max_size=3)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_exactly_the_key_that_changed_is_named(place: Any, value: Any) -> None:
    host, what, item, key = place
    after = deepcopy(PLAN)
    owner = after["hosts"][host]
    for part in (*item, *key[:-1]):
        owner = owner[part]
    was = owner[key[-1]]
    if json.dumps(was) == json.dumps(value):
        return
    # What the words need has to keep its type.
    if key == ("start_timeout_seconds",) and (isinstance(value, bool) or not isinstance(value, int)):
        return
    if key in (("replica",), ("service",)) and not isinstance(value, type(was)):
        return
    if key == ("replica",):
        value = [str(v) for v in value]
    owner[key[-1]] = value
    changes = difference(PLAN, after)
    assert [(c.host, c.what) for c in changes] == [(host, what)]
    assert [(k.key, k.was, k.now) for k in changes[0].keys] == [(".".join(key), was, value)]
    assert counts(changes) and lines(changes)
    assert json.dumps([c.as_dict() for c in changes])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.dictionaries(st.sampled_from(["max_num_seqs", "max_num_batched_tokens"]), st.integers(1, 512)),
    st.booleans(),
)
def test_a_plan_does_not_differ_from_itself(hosts: int, replicas: int, engine: dict[str, Any], standby: bool) -> None:
    c = Case()
    for number in range(hosts):
        c.add_host(f"e{number}", f"10.77.0.{30 + number}", "cpu_hosts")
    c.deployment.update({"replicas_per_host": replicas, "tier": "standby" if standby else "active"})
    c.deployment["engine"] |= engine
    plan = c.plan()
    if isinstance(plan, list):
        return
    assert difference(plan.as_dict(), json.loads(json.dumps(plan.as_dict())), {}) == []
