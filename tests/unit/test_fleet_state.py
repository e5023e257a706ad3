"""State on the controller, run records, models on the controller, and reading an inventory from Ansible's values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleet import state
from fleet.from_ansible import read_inventory
from fleet.model_source import look
from fleet.record import Record, commit_of, who
from fleet_samples import ADDRESSES, SECRET, VARIABLES, Case


def test_inventory_names(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    folder.mkdir()
    for name in ("hosts.yml", "east.ini"):
        (folder / name).write_text("")
    assert state.inventory_name([str(folder)]) == "bank"
    assert state.inventory_name([f"{folder}/"]) == "bank"
    assert state.inventory_name([str(folder / "hosts.yml")]) == "bank"
    assert state.inventory_name([str(folder / "east.ini")]) == "east"
    assert state.inventory_name(["10.0.0.1,"]) == "inline"
    assert state.inventory_name([str(folder), str(folder / "east.ini")]) == "bank+east"
    assert state.state_root([str(folder)], str(tmp_path / "x")) == tmp_path / "x"


def test_plan_is_written_with_a_slice_a_host_and_old_slices_go(tmp_path: Path) -> None:
    made = Case().good()
    (tmp_path / "slices").mkdir()
    (tmp_path / "slices/gone.json").write_text("{}")
    state.write_plan(tmp_path, made)
    assert sorted(p.stem for p in (tmp_path / "slices").iterdir()) == sorted(ADDRESSES)
    item = json.loads((tmp_path / "slices/engine-1.json").read_text())
    assert item == made.as_dict()["hosts"]["engine-1"]
    assert json.loads((tmp_path / "plan.json").read_text())["plan_hash"] == item["plan_hash"]
    assert not list(tmp_path.rglob(".*"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    state.write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        state.write_json(path, {"a": object()})
    assert state.read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_damaged_state_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    assert state.read_json(tmp_path / "a.json") is None
    assert state.read_json(tmp_path / "b.json") is None
    assert state.read_facts(tmp_path, "a") is None


def test_ages() -> None:
    then = datetime.now(UTC) - timedelta(hours=2)
    assert 7190 <= state.age_of(then.strftime("%Y-%m-%dT%H:%M:%SZ")) <= 7210
    assert state.age_of("2999-01-01T00:00:00Z") == 0


# --- run records ------------------------------------------------------------------------------------------------------


def test_record_exists_from_the_start_and_tells_the_end(tmp_path: Path) -> None:
    record = Record(tmp_path, "site.yml", [], {"limit": None})
    record.write()
    assert json.loads(record.path.read_text())["outcome"] == "running"
    record.changed("engine-1", "vllm_engine : Write the units")
    record.changed("engine-1", "vllm_engine : Write the units")
    record.failed("engine-2", "model_store : Fetch", "fleet_models", {"msg": SECRET, "problems": [{"code": "X"}]})
    record.failed(
        "engine-1", "Check", "fleet_validate", {"msg": "text", "problems": [{"code": "INV-001", "value": "v"}]}
    )
    record.end("failed", {"engine-1": {"ok": 3, "changed": 1}})
    data = json.loads(record.path.read_text())
    assert data["outcome"] == "failed"
    assert data["changed"] == {"engine-1": ["vllm_engine : Write the units"]}
    assert data["failed"][0] == {"host": "engine-2", "task": "model_store : Fetch", "unreachable": False}
    assert data["failed"][1]["problems"] == [{"code": "INV-001", "severity": None, "path": None}]
    assert SECRET not in record.path.read_text()
    assert data["duration_seconds"] >= 0
    assert record.path.parent == tmp_path / "runs"
    assert "-site-" in record.path.name


def test_record_moves(tmp_path: Path) -> None:
    record = Record(tmp_path / "a", "site.yml", [], {})
    record.write()
    record.move(tmp_path / "b")
    assert not (tmp_path / "a").exists()
    assert len(list((tmp_path / "b/runs").iterdir())) == 1


def test_who_names_the_person_behind_sudo() -> None:
    assert who({"SUDO_USER": "li.wei"})["user"] == "li.wei"
    assert who({})["user"] == who({})["account"]


def test_outside_git_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == {"commit": None, "dirty": None}
    assert len(commit_of(Path(__file__))["commit"]) == 40


# --- models -----------------------------------------------------------------------------------------------------------


def model(root: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (root / name.replace("__", ".")).write_bytes(content)
    return root


def test_whole_model(tmp_path: Path) -> None:
    seen = look(str(model(tmp_path, config__json=b"{}", model__safetensors=b"x" * 2000)))
    assert (seen.exists, seen.weight_bytes, seen.weight_files, seen.has_config) == (True, 2000, 1, True)
    assert (seen.pointers, seen.missing) == ((), ())


def test_pointer_and_missing_shard(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}).encode()
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (tmp_path / "one.safetensors").write_bytes(pointer)
    (tmp_path / "model.safetensors.index.json").write_bytes(index)
    seen = look(str(tmp_path))
    assert seen.pointers == ("one.safetensors",)
    assert seen.missing == ("two.safetensors",)
    assert not seen.has_config


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
    damaged = dict(look(str(tmp_path)).damaged)
    assert sorted(damaged) == ["config.json", "model.safetensors"]
    assert "cut off" in damaged["model.safetensors"]


def test_no_model(tmp_path: Path) -> None:
    assert not look(str(tmp_path / "none")).exists
    assert look(str(tmp_path)).weight_files == 0


# --- reading an inventory ---------------------------------------------------------------------------------------------


def read(hosts: Mapping[str, Mapping[str, Any]], resolved: Mapping[str, Any] | None = None) -> Any:
    def resolve(host: str, name: str) -> Any:
        value = (resolved or {}).get(name, hosts[host][name])
        if isinstance(value, Exception):
            raise value
        return value

    return read_inventory(list(hosts), {"all": list(hosts)}, lambda host: hosts[host], resolve)


def test_reads_wide_variables_addresses_and_unknown_names() -> None:
    common = {**VARIABLES, "fleet_engine_api_key": SECRET, "fleet_typo": 1, "vllm_engine_user": "x"}
    found = read({h: {**common, "ansible_host": a} for h, a in ADDRESSES.items()})
    assert found.variables == VARIABLES
    assert found.addresses == ADDRESSES
    assert found.unknown == {"fleet_typo": "engine-1"}
    assert (found.secret.defined, found.secret.length, found.secret.placeholder) == (True, len(SECRET), False)
    assert SECRET not in repr(found)
    assert found.found == ()


@pytest.mark.parametrize(
    "value", ["changeme-changeme-changeme", "xxxxxxxxxxxxxxxxxxxx", "password12345678901", "a b" * 9]
)
def test_placeholders_are_no_secrets(value: str) -> None:
    assert read({"h": {"fleet_engine_api_key": value}}).secret.placeholder


def test_a_wide_variable_that_differs() -> None:
    hosts = {"a": {"fleet_gateway": {"port": 80}}, "b": {"fleet_gateway": {"port": 81}}, "c": {}}
    assert [(p.code, p.path) for p in read(hosts).found] == [("INV-007", "fleet_gateway")]


def test_a_secret_that_differs_is_not_shown() -> None:
    hosts = {"a": {"fleet_engine_api_key": SECRET}, "b": {"fleet_engine_api_key": SECRET + "x"}}
    found = read(hosts).found
    assert [p.code for p in found] == ["INV-007"]
    assert SECRET not in repr(found)


def test_a_value_that_cannot_be_computed_is_a_problem_once() -> None:
    hosts = {h: {"fleet_services": "{{ nope }}", "ansible_host": "10.0.0.1"} for h in ("a", "b")}
    found = read(hosts, {"fleet_services": ValueError("'nope' is undefined")}).found
    assert [(p.code, p.path) for p in found] == [("INV-015", "fleet_services")]
    assert "'nope' is undefined" in found[0].rule


def test_what_hosts_were_converged_to_is_kept_part_by_part(tmp_path: Path) -> None:
    made = Case().good().as_dict()["hosts"]
    assert state.read_converged(tmp_path) is None
    state.note_converged(tmp_path, "engine-1", made["engine-1"], ["tuning"])
    state.note_converged(tmp_path, "engine-1", made["engine-1"] | {"tuning": None}, ["engines", "models"])
    state.note_converged(tmp_path, "gateway-1", made["gateway-1"], ["gateway", "vip"])
    noted = state.read_converged(tmp_path)
    assert noted is not None
    assert sorted(noted["hosts"]) == ["engine-1", "gateway-1"]
    assert sorted(noted["hosts"]["engine-1"]) == ["address", "engines", "host", "models", "tuning"]
    assert noted["hosts"]["engine-1"]["tuning"] == made["engine-1"]["tuning"]
    state.forget_converged(tmp_path, ["gateway-1"])
    assert list((state.read_converged(tmp_path) or {})["hosts"]) == ["gateway-1"]
