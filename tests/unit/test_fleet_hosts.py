"""What the inventory says of hosts: read once for a group, judged without asking, and compared with the facts."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fleet.action import known_facts
from fleet.contract import parse
from fleet.contract.host_shapes import Host
from fleet.facts import HostFacts, steady_speed
from fleet.from_ansible import has_template, read_inventory
from fleet.placement import pin, place
from fleet.planner import validate
from fleet.problems import in_order, problem
from fleet.state import write_facts
from fleet.version_plan import Lock, choose, load_locks, to_solver
from fleet_samples import LOCKS, MATRIX, Case, facts_data, gpu_data, on_ascend
from hypothesis import given
from hypothesis import strategies as st

A100 = {
    "os": {"id": "ubuntu", "version": "22.04", "codename": "jammy"},
    "arch": "x86_64",
    "cards": {"vendor": "nvidia", "chip": "NVIDIA A100-SXM4-80GB", "count": 8, "memory_gib": 80},
    "driver": "580.159.04",
    "cpus": 128,
    "numa_nodes": 2,
    "memory_gib": 1024,
}


def test_a_group_is_read_once_and_reported_once() -> None:
    said = {"cards": {"vendor": "nvidia", "chip": "A100", "count": 0, "memory_gib": 80}}
    parsed, found = parse({}, {f"gpu-{n}": {"fleet_host": said} for n in range(50)})
    assert [(p.code, p.path) for p in found if p.code != "INV-002"] == [
        ("INV-006", "hosts.gpu-0.fleet_host.cards.count")
    ]
    assert parsed.of("gpu-7") is parsed.of("gpu-8")


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ({"oss": {}}, "INV-003", "hosts.a.fleet_host.oss"),
        ({"gpus": 8}, "INV-017", "hosts.a.fleet_host.gpus"),
        ({"arch": "arm64"}, "INV-006", "hosts.a.fleet_host.arch"),
        ({"os": {"id": "ubuntu", "version": 22.04}}, "INV-004", "hosts.a.fleet_host.os.version"),
        ({"os": {"id": "ubuntu"}}, "INV-005", "hosts.a.fleet_host.os.version"),
        ({"page_size": 8192}, "INV-006", "hosts.a.fleet_host.page_size"),
        ({"memory_gib": "512"}, "INV-004", "hosts.a.fleet_host.memory_gib"),
        ({"glibc": "2" * 100}, "INV-006", "hosts.a.fleet_host.glibc"),
        ("a100", "INV-004", "hosts.a.fleet_host"),
    ],
)
def test_faulty_claims(value: Any, code: str, path: str) -> None:
    _, found = parse({}, {"a": {"fleet_host": value}})
    assert [(p.code, p.path) for p in found if p.code != "INV-002"] == [(code, path)]


def test_claims_are_enough_to_choose_a_set() -> None:
    facts = HostFacts.of_claims(Host.model_validate(A100), None)
    assert len(facts.cards) == 8
    assert [c.numa_node for c in facts.cards] == [0] * 4 + [1] * 4
    chosen, found = choose("gpu-1", facts, parse({})[0].of("gpu-1").versions, None, MATRIX, LOCKS)
    assert chosen is not None
    assert (chosen.set.backend, chosen.locked) == ("cuda", False)
    assert found == []


def test_a_locked_set_goes_first_and_pins_go_before_it() -> None:
    facts = HostFacts.of(facts_data())
    versions = parse({}, {"a": {"fleet_versions": {}}})[0].of("a").versions
    chosen, _ = choose("a", facts, versions, None, MATRIX, LOCKS)
    assert chosen is not None
    assert (chosen.set.runtime_id, chosen.locked) == ("vllm-0.32.0-cpu-x86_64-cp311", True)
    pinned = parse({}, {"a": {"fleet_versions": {"vllm": "0.31.0"}}})[0].of("a").versions
    chosen, _ = choose("a", facts, pinned, None, MATRIX, LOCKS)
    assert chosen is not None
    assert (chosen.set.vllm, chosen.locked) == ("0.31.0", False)


def test_locks_are_named_after_their_sets() -> None:
    assert Lock("vllm-0.32.0-cpu-x86_64-cp311", "0.32.0", "cpu", "x86_64", "3.11") in load_locks()


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"cards": A100["cards"] | {"count": 4}}, "cards.count"),
        ({"cards": A100["cards"] | {"memory_gib": 40}}, "cards.memory_gib"),
        ({"cards": A100["cards"] | {"chip": "H100"}}, "cards.chip"),
        ({"driver": "570.86.15"}, "driver"),
        ({"os": {"id": "ubuntu", "version": "24.04"}}, "os.version"),
        ({"memory_gib": 512}, "memory_gib"),
        ({"numa_nodes": 4}, "numa_nodes"),
    ],
)
def test_facts_beat_claims(said: dict[str, Any], path: str) -> None:
    c = Case()
    c.on_gpus()
    c.by_host = {"engine-1": {"fleet_host": said}}
    found = [p for p in c.problems() if p.code not in c.background]
    assert [(p.code, p.path) for p in found] == [("HOST-011", f"hosts.engine-1.fleet_host.{path}")]


def test_claims_that_are_nearly_right_are_right() -> None:
    c = Case()
    c.on_gpus()
    c.by_host = {"engine-1": {"fleet_host": A100 | {"cpus": 8, "memory_gib": 1000}}}
    assert [p for p in c.problems() if p.code not in c.background] == []


def test_validation_without_hosts_judges_claims() -> None:
    c = Case()
    c.deployment["engine"] = {}
    c.deployment["environment"] = {}
    c.deployment["tensor_parallel"] = 16
    c.by_host = {host: {"fleet_host": A100} for host in c.groups["cpu_hosts"]}
    codes = {p.code for p in validate(c.inventory(), MATRIX, LOCKS)}
    assert "SVC-023" in codes
    assert "HOST-001" not in codes


def test_cards_are_divided_by_numa_node() -> None:
    c = Case()
    c.on_gpus()
    c.deployment.update(tensor_parallel=2, replicas_per_host=4)
    parsed, _ = parse(c.variables)
    engines = place(parsed, {"cpu_hosts": ("engine-1",)})["engine-1"]
    pinned = pin(engines, HostFacts.of(gpu_data()), "cuda")
    assert [p.cards for p in pinned] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [p.numa_nodes for p in pinned] == ["0", "0", "1", "1"]
    assert [p.numa_nodes for p in pin(engines, HostFacts.of(gpu_data()), "ascend")] == [None] * 4


def test_a_replica_over_two_hosts_is_one_server() -> None:
    c = Case()
    c.on_gpus()
    c.deployment.update(tensor_parallel=8, pipeline_parallel=2, hosts_per_replica=2)
    made = c.good()
    first, second = (made.slices[h].engines[0] for h in ("engine-1", "engine-2"))
    assert first.replica == second.replica == ["engine-1", "engine-2"]
    assert (first.settings["node-rank"], second.settings["node-rank"]) == (0, 1)
    assert "headless" not in first.settings
    assert second.settings["headless"] is True
    assert len(first.cards) == 8
    gateway = made.slices["gateway-1"].gateway
    assert gateway is not None
    assert [s.name for s in gateway.services[0].servers] == ["engine-1-chat-0"]


def test_another_model_on_standby_is_served_under_both_names() -> None:
    c = Case()
    c.variables["fleet_models"]["small"] = c.variables["fleet_models"]["tiny-chat"]
    c.service["deployments"].append({"group": "cpu_hosts", "tier": "standby", "model": "small"})
    engine = c.good().slices["engine-1"].engines[1]
    assert engine.settings["served-model-name"] == ["tiny-chat", "small"]
    assert engine.model_path.endswith("/small/2026.01/default")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=20,
    )
)
def test_facts_of_a_half_dead_host_never_raise(value: Any) -> None:
    keys = ("os", "cpu", "memory", "numa", "interfaces", "listening", "cards", "card_tools", "cann", "disks", "glibc")
    for key in keys:
        to_solver(HostFacts.of({**facts_data(), key: value}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [({"a": ["{{ x }}"]}, True), ({"{% if %}": 1}, True), ({"a": ["plain", 1, None]}, False), ("{ {", False)],
)
def test_templates_are_seen_wherever_they_are(value: Any, expected: bool) -> None:
    assert has_template(value) is expected


def test_values_of_hosts_are_resolved_only_where_they_must_be() -> None:
    shared = {"arch": "x86_64"}
    asked: list[str] = []

    def resolve(host: str, name: str) -> Any:
        asked.append(host)
        return {"arch": "aarch64"}

    variables = {"a": shared, "b": shared, "c": {"arch": "{{ arch }}"}}
    inventory = read_inventory(
        list(variables),
        {"all": list(variables)},
        lambda h: {"ansible_host": "10.0.0.1", "fleet_host": variables[h]},
        resolve,
    )
    assert asked == ["c"]
    assert inventory.by_host["c"]["fleet_host"] == {"arch": "aarch64"}
    assert inventory.by_host["a"]["fleet_host"] is inventory.by_host["b"]["fleet_host"]


def test_one_problem_stands_for_many_hosts_alike() -> None:
    many = [problem("HOST-001", f"hosts.gpu-{n:02}", None) for n in range(20)]
    few = [problem("HOST-008", f"hosts.gpu-{n:02}", None, age="2 d") for n in range(3)]
    found = in_order([*reversed(many), *few])
    assert [p.path for p in found] == [
        "hosts.gpu-00 (and 19 more hosts)",
        "hosts.gpu-00",
        "hosts.gpu-01",
        "hosts.gpu-02",
    ]


@pytest.mark.parametrize(("place", "codes"), [("state", ["INV-018"]), (".", ["INV-018"]), ("../state", []), ("", [])])
def test_state_in_the_inventory_is_refused(tmp_path: Path, place: str, codes: list[str]) -> None:
    source = tmp_path / "bank"
    source.mkdir()
    value = str((source / place).resolve()) if place else ""
    variables = {"ansible_host": "10.0.0.1", "fleet_state_dir": value}
    inventory = read_inventory(
        ["a"], {"all": ["a"]}, lambda _: variables, lambda _, name: variables[name], [str(source)]
    )
    assert [p.code for p in inventory.found] == codes


def test_a_model_s_config_is_read_from_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {}")
    (tmp_path / "good.json").write_text('{"hidden_size": 8}')
    (tmp_path / "bad.json").write_text("{")
    artifacts = {name: {"source": "hf://a/b@c", "config": f"{name}.json"} for name in ("good", "bad", "gone")}
    variables = {"ansible_host": "10.0.0.1", "fleet_models": {"m": {"versions": {"1": {"artifacts": artifacts}}}}}
    inventory = read_inventory(
        ["a"], {"all": ["a"]}, lambda _: variables, lambda _, name: variables[name], [str(tmp_path / "hosts.yml")]
    )
    assert inventory.configs["good.json"] == {"hidden_size": 8}
    assert "is not JSON" in inventory.configs["bad.json"]
    assert inventory.configs["gone.json"] == "there is no such file"


@pytest.mark.parametrize("value", [1234567890123456789, True, ["k9Zq1m3n5p7r9s2u4w6y8A"], 0x1F])
def test_a_secret_that_is_no_text_is_refused_and_not_shown(value: Any) -> None:
    variables = {"ansible_host": "10.0.0.1", "fleet_engine_api_key": value}
    inventory = read_inventory(["a"], {"all": ["a"]}, lambda _: variables, lambda _, name: variables[name])
    assert [(p.code, p.path, p.value) for p in inventory.found] == [("INV-004", "fleet_engine_api_key", "")]


def test_an_environment_longer_than_linux_takes_is_refused() -> None:
    c = Case()
    c.deployment["environment"]["LONG"] = "x" * 40000
    (found,) = c.problems()
    assert (found.code, found.path) == ("INV-006", "fleet_services.chat.deployments[0].environment.LONG")
    assert len(found.value) < 100


@pytest.mark.parametrize(
    ("recorded", "measured", "planned"),
    [
        (None, 500, 500),
        (500, None, 500),
        (500, 900, 500),
        (500, 260, 500),
        (500, 120, 120),
        (500, 3000, 3000),
        (0, 7, 7),
    ],
)
def test_a_disk_that_is_measured_a_little_faster_changes_no_plan(recorded: Any, measured: Any, planned: int) -> None:
    assert steady_speed(recorded, measured) == planned


def test_the_recorded_speed_is_planned_with_and_kept(tmp_path: Path) -> None:
    class Hostvars:
        def raw_get(self, _host: str) -> dict[str, Any]:
            return {"ansible_facts": {"fleet": facts_data(disk_read_bytes_per_second=700_000_000)}}

    write_facts(tmp_path, "a", facts_data(disk_read_bytes_per_second=500_000_000))
    for _ in range(2):
        facts, _ = known_facts({"hostvars": Hostvars()}, ["a", "b"], tmp_path, keep=True)
        assert facts["a"].disk_read_bytes_per_second == 500_000_000
    # Of the host that was not asked before, what was measured.
    assert facts["b"].disk_read_bytes_per_second == 700_000_000


def test_engines_of_two_services_on_one_ascend_host_have_ports_of_their_own() -> None:
    c = Case()
    on_ascend(c)
    c.deployment["tensor_parallel"] = 2
    c.variables["fleet_services"]["second"] = deepcopy(c.service) | {"port": 8100, "served_model_name": "second"}
    engines = c.good().slices["engine-1"].engines
    assert [e.environment["HCCL_IF_BASE_PORT"] for e in engines] == ["61000", "61064"]
    assert [e.cards for e in engines] == [[0, 1], [2, 3]]
