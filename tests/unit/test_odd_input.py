"""What people and half-dead hosts write by mistake: one clear problem a fault, never a traceback."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fleet.action import state_problem, write_report
from fleet.facts import HostFacts
from fleet.from_ansible import read_configs, read_inventory
from fleet.inventory_files import check
from fleet.plan import Plan
from fleet.planner import validate
from fleet.problems import Problem, path_of, shorten
from fleet.state import read_facts, read_plan, state_root, write_json
from fleet_samples import LOCKS, MATRIX, SECRET, TINY, VARIABLES, Case, card_data, facts_data

#: Values that stand where others should: empty, of another kind, negative, and larger than anything real.
ODD: tuple[Any, ...] = (
    None, True, -1, 0, float("inf"), float("nan"), 10**30, "", "x", "x" * 12_000, [], [None],
    {"x": None},
)  # fmt: skip


def both_ways(c: Case) -> list[Problem]:
    """The problems of a plan. Validating the inventory alone must not fail either."""
    validate(c.inventory(), MATRIX, LOCKS)
    return c.problems()


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of everything in nested data."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in pairs for place in leaves(value, (*path, key)))]


def put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a place."""
    if not path:
        return value
    copy = deepcopy(data)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@pytest.mark.parametrize("key", sorted(TINY))
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "text_config"])
def test_any_config_json_is_survived(key: str, nested: bool) -> None:
    for value in ODD:
        config: dict[str, Any] = {**TINY, key: value}
        c = Case()
        c.artifact["config"] = {"architectures": ["X"], "text_config": config} if nested else config
        assert all(p.code.startswith(("CAP-", "SET-", "INV-", "REL-")) for p in c.problems())


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num_hidden_layers", 10**30, "num_hidden_layers must be at most"),
        ("num_hidden_layers", 100_000, "num_hidden_layers must be at most"),
        ("num_key_value_heads", 0, "num_key_value_heads must be positive"),
        ("num_key_value_heads", -2, "num_key_value_heads must be positive"),
        ("num_attention_heads", -4, "num_attention_heads must be positive"),
        ("hidden_size", 10**15, "hidden_size must be at most"),
    ],
)
def test_a_number_of_a_config_that_no_model_has_is_named(key: str, value: int, says: str) -> None:
    c = Case()
    c.artifact["config"] = {**TINY, key: value}
    (found,) = c.problems()
    assert (found.code, found.path.rpartition(".")[2]) == ("CAP-011", "config")
    assert says in found.rule


@pytest.mark.parametrize("place", leaves(VARIABLES)[1:], ids=str)
def test_any_value_of_the_inventory_is_survived(place: tuple[Any, ...]) -> None:
    for value in ODD:
        both_ways(Case(variables=put(VARIABLES, place, value)))


@pytest.mark.parametrize("place", leaves(facts_data())[1:], ids=str)
def test_any_fact_is_survived(place: tuple[Any, ...]) -> None:
    for value in (None, -1, 10**30, "x", [None], {"x": None}):
        c = Case()
        c.facts["engine-1"] = put(c.facts["engine-1"], place, value)
        c.problems()


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("https://[models/", "INV-006"),
        ("file://[::1/srv", "INV-006"),
        ("https://ops:hunter2hunter2@models.example/tiny/", "MOD-011"),
        ("https://models.example/tiny/?token=hunter2hunter2", "MOD-011"),
        ("https://models.example/tiny/?X-Amz-Signature=hunter2hunter2", "MOD-011"),
        ("s3://key:hunter2hunter2@bucket/tiny", "MOD-011"),
    ],
)
def test_a_source_that_is_no_address_or_holds_a_secret(source: str, code: str) -> None:
    c = Case()
    c.artifact.update(source=source, config=TINY)
    assert isinstance(read_configs(c.variables["fleet_models"], ()), dict)
    (found,) = both_ways(c)
    assert (found.code, found.path.rpartition(".")[2]) == (code, "source")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("source", ["hf://owner/name@revision", "https://ops@models.example/tiny/?design=1"])
def test_a_source_without_a_secret(source: str) -> None:
    c = Case()
    c.artifact.update(source=source, config=TINY)
    assert {p.code for p in c.problems()} == {"REL-001"}


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.18", "ff02::12", "255.255.255.255", "fe80::1%eth0"]
)
def test_an_address_that_no_other_host_can_use(address: str) -> None:
    c = Case(
        addresses={"engine-1": address, "engine-2": "10.77.0.12", "gateway-1": "10.77.0.21", "gateway-2": "10.77.0.22"}
    )
    (found,) = validate(c.inventory(), MATRIX, LOCKS)
    assert (found.code, found.path) == ("INV-019", "hosts.engine-1.ansible_host")


@pytest.mark.parametrize("name", ["a b", "a\nb", 'a"b', "a'b", "a{b", "%[src]", "-a", "a" * 129, "a\\b", " a"])
def test_a_name_that_would_break_requests_or_the_gateway(name: str) -> None:
    c = Case()
    c.service["served_model_name"] = name
    (found,) = c.problems()
    assert (found.code, found.path) == ("SVC-028", "fleet_services.chat.served_model_name")


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-7B-Instruct", "gpt-4o:2024", "通义千问", "a", "a" * 128])
def test_a_name_that_clients_may_use(name: str) -> None:
    c = Case()
    c.service["served_model_name"] = name
    assert not c.problems()


@pytest.mark.parametrize(
    "pin", ["latest", ",", "=0.32.0", ">=0.30,", "0.32.0,0.33.0", "0.32.*", "中文", ">=", "10**9", "py3"]
)
def test_a_pin_that_is_no_version_is_told_before_any_host_is_known(pin: str) -> None:
    c = Case(by_host={"engine-1": {"fleet_versions": {"vllm": pin}}})
    (found,) = [p for p in validate(c.inventory(), MATRIX, LOCKS) if p.severity == "error"]
    assert (found.code, found.path) == ("INV-006", "hosts.engine-1.fleet_versions.vllm")


@pytest.mark.parametrize(
    "pins",
    [
        {"vllm": "v0.32.0"}, {"vllm": "~=0.32"}, {"vllm": "==0.32.*"}, {"vllm": ">=0.25, <0.33"}, {"vllm": "!=0.33.0"},
        {"torch": "2.13.0+cpu"}, {"python": "3.11"},
    ],
)  # fmt: skip
def test_a_pin_that_is_one(pins: dict[str, str]) -> None:
    c = Case(by_host={host: {"fleet_versions": pins} for host in ("engine-1", "engine-2")})
    assert isinstance(c.plan(), Plan)


@pytest.mark.parametrize("pin", ["26.0.RC1", "25.5.0", "9.1.0-beta.1", "8.5.0"])
def test_versions_of_other_makers_are_no_faults_of_writing(pin: str) -> None:
    c = Case(by_host={"engine-1": {"fleet_versions": {"cann": pin}}})
    assert not validate(c.inventory(), MATRIX, LOCKS)


@pytest.mark.parametrize(
    ("spoil", "code", "path"),
    [
        (lambda c: c.gateway.update(vips=[None]), "INV-004", "fleet_gateway.vips[0]"),
        (lambda c: c.service.update(deployments=[None]), "INV-004", "fleet_services.chat.deployments[0]"),
        (lambda c: c.gateway.update(advert_interval_seconds=True), "INV-004", "fleet_gateway.advert_interval_seconds"),
        (lambda c: c.gateway.update(advert_interval_seconds="1"), "INV-004", "fleet_gateway.advert_interval_seconds"),
        (
            lambda c: c.gateway.update(advert_interval_seconds=float("nan")),
            "INV-006",
            "fleet_gateway.advert_interval_seconds",
        ),
    ],
)
def test_one_fault_is_one_problem(spoil: Any, code: str, path: str) -> None:
    c = Case()
    spoil(c)
    (found,) = c.problems()
    assert (found.code, found.path) == (code, path)


@pytest.mark.parametrize("models", [None, {}, [], "x"], ids=str)
def test_services_are_not_blamed_where_there_is_no_model(models: Any) -> None:
    c = Case()
    c.variables["fleet_models"] = models
    (found,) = c.problems()
    assert found.path == "fleet_models"


def test_a_virtual_address_outside_the_network_is_one_problem() -> None:
    c = Case()
    c.gateway["vips"] = ["10.78.0.1/24"]
    assert [p.code for p in c.problems()] == ["GW-005"]


@pytest.mark.parametrize(
    "said",
    [{}, {"cpus": 8}, {"os": {"id": "ubuntu", "version": "22.04"}}, {"backend": "cpu"}, {"memory_gib": 64}],
    ids=str,
)
def test_what_is_left_out_of_fleet_host_is_no_fault(said: dict[str, Any]) -> None:
    """Every key is optional, and discovery tells the rest."""
    c = Case(by_host={host: {"fleet_host": said} for host in ("engine-1", "gateway-1")})
    assert not validate(c.inventory(), MATRIX, LOCKS)


def test_a_claimed_architecture_alone_says_nothing_of_the_system() -> None:
    c = Case(by_host={host: {"fleet_host": {"arch": "x86_64"}} for host in ("engine-1", "gateway-1")})
    assert "SET-002" not in {p.code for p in validate(c.inventory(), MATRIX, LOCKS)}


def test_two_cards_of_one_index_are_one_card() -> None:
    c = Case()
    c.on_gpus().update(cards=[card_data(0), card_data(0)])
    c.deployment["tensor_parallel"] = 2
    (found,) = [p for p in c.problems() if p.severity == "error"]
    assert found.code == "SVC-023"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda c: c.deployment.update(cpus_per_engine=100), "SVC-017"),
        (lambda c: c.deployment.update(memory_max_bytes=1 << 50), "SVC-018"),
        (lambda c: c.service.update(port=22), "HOST-006"),
        (lambda c: (c.on_gpus(), c.deployment.update(tensor_parallel=16)), "SVC-023"),
    ],
    ids=["cpus", "memory", "port", "cards"],
)
def test_the_same_fault_of_many_hosts_does_not_fill_the_screen(spoil: Any, code: str) -> None:
    c = Case()
    for number in range(3, 23):
        c.add_host(f"engine-{number}", f"10.77.0.{100 + number}", "cpu_hosts")
    c.gateway["vips"] = ["10.77.0.200/24"]
    spoil(c)
    (found,) = [p for p in c.problems() if p.severity == "error"]
    assert found.code == code
    assert found.path.endswith("(and 21 more hosts)")


def test_a_whole_number_of_seconds_is_no_fault() -> None:
    c = Case()
    c.gateway.update(advert_interval_seconds=1)
    c.good()


@pytest.mark.parametrize("name", ["fleet_shared_runtimes", "fleet_state_dir", "fleet_services", "fleet_host"])
def test_a_value_that_cannot_be_computed_is_one_problem(name: str) -> None:
    values: dict[str, Any] = {**deepcopy(VARIABLES), name: "{{ nowhere }}", "fleet_engine_api_key": SECRET}

    def resolve(host: str, wanted: str) -> Any:
        if wanted == name:
            raise ValueError("'nowhere' is undefined")
        return values[wanted]

    addresses = {"engine-1": "10.77.0.11"}
    groups = {"all": ["engine-1"], "cpu_hosts": ["engine-1"], "gateways": ["engine-1"]}
    inventory = read_inventory(
        ["engine-1"], groups, lambda host: {**values, "ansible_host": addresses[host]}, resolve, ()
    )
    about = [p for p in validate(inventory, MATRIX, LOCKS) if p.path.endswith(name)]
    assert [p.code for p in about] == ["INV-015"]


@pytest.mark.parametrize("value", [float("inf"), float("nan"), {"a": [1, float("-inf")]}], ids=str)
@pytest.mark.parametrize("option", ["max_num_seqs", "gpu-memory-utilization", "hf_overrides", "allowed-origins"])
def test_no_endless_number_reaches_a_plan(option: str, value: Any) -> None:
    c = Case()
    c.deployment["engine"][option] = value
    (found,) = c.problems()
    assert found.code == "INV-006"
    assert found.path.startswith("fleet_services.chat.deployments[0].engine")


@pytest.mark.parametrize("share", [0, -1, 1.001, 5, 90, "90", "0", "1.5"], ids=repr)
@pytest.mark.parametrize("cards", [False, True], ids=["cpu", "cards"])
def test_a_share_of_memory_that_is_none(share: Any, cards: bool) -> None:
    c = Case()
    if cards:
        c.on_gpus()
    c.deployment["engine"]["gpu_memory_utilization"] = share
    (found,) = [p for p in c.problems() if p.code not in c.background]
    assert (found.code, found.value) == ("SVC-016", str(share))
    assert "0.9" in found.remedy


@pytest.mark.parametrize("share", [1, 0.5, "0.9", 1e-3], ids=repr)
def test_a_share_of_memory(share: Any) -> None:
    c = Case()
    c.deployment["engine"]["gpu_memory_utilization"] = share
    c.good()


@pytest.mark.parametrize("text", ["{bad", "[1", '{"a": }'])
@pytest.mark.parametrize("option", ["hf_overrides", "additional-config", "model-loader-extra-config"])
def test_a_text_that_begins_like_json_and_is_none(option: str, text: str) -> None:
    c = Case()
    c.deployment["engine"][option] = text
    (found,) = c.problems()
    assert (found.code, found.path.rpartition("engine.")[2]) == ("SVC-016", option)


def test_a_secret_in_a_list_of_an_option_is_found() -> None:
    c = Case()
    c.deployment["engine"]["additional_config"] = {"stores": [{"url": "x", "password": "hunter2hunter2"}]}
    (found,) = c.problems()
    assert (found.code, found.path.rpartition("engine.")[2]) == ("SVC-009", "additional_config.stores[0].password")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("size", [0, -1, -(10**30)])
def test_sizes_below_nothing_are_not_known(size: int) -> None:
    facts = HostFacts.of(
        facts_data(cpu={"count": size}, memory={"total_bytes": size}, cards=[card_data(memory_bytes=size)])
    )
    assert (facts.cpu_count, facts.memory_bytes, facts.cards[0].memory_bytes) == (1, None, None)
    c = Case()
    c.on_gpus().update(cards=[card_data(memory_bytes=size)])
    c.artifact["config"] = TINY
    c.problems()


def test_a_name_of_any_length_leaves_a_path_readable(tmp_path: Path) -> None:
    c = Case()
    for name in ("x" * 12_000, "中" * 12_000, "x y" * 4_000):
        c.deployment["engine"] = {name: 1}
        assert all(len(p.path) < 300 for p in c.problems())
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a: {}}}\n")
    (tmp_path / "group_vars/all.yml").write_text(f"fleet_services:\n  chat:\n    port: 1\n    {'x' * 500}: 1\n")
    place = check([str(tmp_path)]).locate(path_of(("fleet_services", "chat", "x" * 500)))
    assert place is not None
    assert place.line == 4


def test_blanks_at_an_end_are_shown() -> None:
    assert shorten(" 10.0.0.1 ") == '" 10.0.0.1 "'
    assert shorten("10.0.0.1\n") == '"10.0.0.1\\n"'
    assert shorten("a b") == "a b"


# --- state on the controller


@pytest.mark.parametrize("text", ["~nobody-of-this-name/x", "/tmp/\0", "/" + "x" * 5000, "/dev/null", "/dev/null/x"])
def test_a_state_directory_that_can_never_be(text: str) -> None:
    values = {"fleet_state_dir": text, "fleet_engine_api_key": SECRET}
    inventory = read_inventory(["a"], {"all": ["a"]}, lambda _: values, lambda _, name: values[name])
    (found,) = [p for p in inventory.found if p.code == "INV-020"]
    assert found.path == "fleet_state_dir"


def test_a_relative_state_directory_does_not_depend_on_where_one_is(tmp_path: Path, monkeypatch: Any) -> None:
    here = state_root((), "state/bank")
    monkeypatch.chdir(tmp_path)
    assert state_root((), "state/bank") == here
    assert here.is_absolute()


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"facts": {}},
        {"facts": [], "discovered_at": "2026-01-01T00:00:00Z"},
        {"facts": {}, "discovered_at": 5},
        {"facts": {}, "discovered_at": "yesterday"},
    ],
)
def test_recorded_facts_of_another_format_are_none(tmp_path: Path, data: Any) -> None:
    write_json(tmp_path / "facts/a.json", data)
    assert read_facts(tmp_path, "a") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"hosts": []}', '{"hosts": {"a": 5}}', "[" * 100_000])
def test_a_damaged_plan_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert read_plan(tmp_path / "plan.json") is None


def test_what_is_in_the_way_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    (found,) = write_report(tmp_path / "taken/report.json", {})
    assert (found.code, found.path) == ("INV-021", "report")
    assert re.search(r"(?i)exists: /|not a directory: /", found.rule)
    found = state_problem(tmp_path, OSError(28, "No space left on device"))
    assert (found.code, found.value) == ("INV-020", shorten(str(tmp_path)))
    assert "No space left" in found.rule


def test_facts_of_nothing_are_nothing() -> None:
    assert HostFacts.of({}).cards == ()
