"""Views of a plan: table, endpoints, and how a change rolls."""

from __future__ import annotations

import re
from typing import Any

from capacity_cases import QWEN_72B, on_a100
from fleet.views import NO_HOST, endpoints, engines_down, engines_up, roll, status, table
from fleet_samples import Case

ACTIVE = {"engine_units": [{"unit": "vllm-engine@chat-0.service", "active": "active"}]}
DEAD = {"engine_units": [{"unit": "vllm-engine@chat-0.service", "active": "failed"}]}


def data(c: Case) -> dict[str, Any]:
    return c.good().as_dict()


def test_endpoints() -> None:
    c = Case()
    c.gateway["vips"] = ["10.77.0.100/24", "10.77.0.101/24"]
    assert endpoints(data(c)) == [
        {"service": "chat", "model": "tiny-chat", "url": "http://10.77.0.100:80/v1"},
        {"service": "chat", "model": "tiny-chat", "url": "http://10.77.0.101:80/v1"},
    ]


def test_table_has_a_line_for_each_thing_on_a_host() -> None:
    c = Case()
    c.addresses["spare"] = "10.77.0.50"
    c.facts["spare"] = c.facts["engine-1"] | {"interfaces": []}
    lines = table(data(c))
    assert [line.split()[0] for line in lines] == ["host", "engine-1", "engine-2", "gateway-1", "gateway-2", "spare"]
    assert "engine chat-0" in lines[1]
    assert "8000" in lines[1]
    assert "10.77.0.100/24 on host0" in lines[3]
    assert lines[5].endswith("nothing")


def test_table_has_what_people_compare_of_engines() -> None:
    c = on_a100(Case(), QWEN_72B, 32768, tensor_parallel=4)
    c.background.clear()
    memory = c.good().slices["engine-1"].engines[0].memory
    assert memory is not None
    head, line, *_ = (re.split(r" {2,}", text) for text in table(data(c)))
    shown = dict(zip(head, line, strict=True))
    assert (shown["cards"], shown["NUMA"]) == ("0-3", "0")
    assert shown["weights GiB"] == f"{memory.weights_bytes / (1 << 30):.2f}"
    assert shown["KV GiB"] == f"{memory.kv_cache_bytes / (1 << 30):.2f}"
    assert shown["KV tokens"] == str(memory.kv_cache_tokens)
    assert shown["requests"] == f"{memory.concurrency:.1f}"
    unknown = dict(zip(head, re.split(r" {2,}", table(data(Case()))[1]), strict=True))
    assert unknown["weights GiB"] == unknown["cards"] == "-"


def test_a_fleet_that_serves_nothing_starts_at_once() -> None:
    facts = {"engine-1": {}, "engine-2": DEAD}
    assert engines_down(data(Case()), facts) == "engine-1:engine-2:&fleet_ready"
    assert engines_up(data(Case()), facts) == NO_HOST


def test_what_is_down_comes_before_anything_that_serves_stops() -> None:
    facts = {"engine-1": ACTIVE, "engine-2": DEAD}
    assert engines_down(data(Case()), facts) == "engine-2:&fleet_ready"
    assert engines_up(data(Case()), facts) == "engine-1:&fleet_ready"


def test_without_a_plan_no_host_matches() -> None:
    assert engines_down(None, {}) == engines_up(None, {}) == NO_HOST
    assert roll(None) == [1, 1]


def test_a_serving_fleet_changes_one_host_then_a_quarter_of_its_smallest_service() -> None:
    c = Case()
    assert roll(data(c)) == [1, 1]
    for number in range(10):
        c.add_host(f"e{number}", f"10.77.0.{30 + number}", "cpu_hosts")
    assert roll(data(c)) == [1, 3]
    c.groups["few"] = ["e0", "e1"]
    c.variables["fleet_services"]["small"] = {
        **c.service,
        "served_model_name": "small",
        "port": 9000,
        "deployments": [{"group": "few"}],
    }
    assert roll(data(c)) == [1, 1]


def test_status_names_what_is_missing() -> None:
    c = Case()
    units = [
        {"unit": "vllm-engine@chat-0.service", "active": "active", "sub": "running"},
        {"unit": "vllm-engine@old-0.service", "active": "failed", "sub": "failed"},
    ]
    facts: dict[str, dict[str, Any] | None] = {
        "engine-1": {"engine_units": units, "listening": [{"port": 8000}]},
        "engine-2": {},
        "gateway-1": {"listening": [{"port": 80}], "interfaces": [{"addresses": ["10.77.0.100/24"]}]},
        "gateway-2": None,
    }
    assert [" ".join(line.split()) for line in status(data(c), facts)[1:]] == [
        "engine-1 engine chat-0 active (running), answers on 8000",
        "engine-1 vllm-engine@old-0.service failed (failed), not in the plan",
        "engine-2 engine chat-0 not there, nobody listens on 8000",
        "gateway-1 gateway listens on 80",
        "gateway-1 address 10.77.0.100 here",
        "gateway-2 host did not answer",
    ]
