from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox import config
from sandbox.report import SandboxError

NETWORK = {"bridge": "vft0", "subnet": "10.99.0.0/24"}
HOME = Path("inventory")


def parse(data: Any) -> config.Fleet:
    return config.parse(data, HOME, HOME / "hosts.yml")


def problems(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(SandboxError) as caught:
        parse(data)
    return [(p.where.removeprefix(f"{HOME / 'hosts.yml'}: "), p.value) for p in caught.value.problems]


def tree(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {"all": {"vars": {"sandbox_network": NETWORK}, "hosts": hosts}}


def test_variables_come_down_from_groups_and_hosts_have_the_last_word() -> None:
    fleet = parse(
        {
            "all": {
                "vars": {"sandbox_network": NETWORK, "sandbox_kind": "ubuntu"},
                "children": {
                    "engines": {
                        "vars": {"sandbox_share_runtimes": True},
                        "hosts": {
                            "a": {"ansible_host": "10.99.0.5"},
                            "b": {"ansible_host": "10.99.0.6", "sandbox_kind": "openeuler"},
                        },
                    },
                    "gateways": {"hosts": {"c": {"ansible_host": "10.99.0.7"}}},
                },
            }
        }
    )
    assert [(h.name, h.kind, h.share_runtimes) for h in fleet.hosts] == [
        ("a", "ubuntu", True),
        ("b", "openeuler", True),
        ("c", "ubuntu", False),
    ]
    assert str(fleet.network.controller) == "10.99.0.1"
    assert [h.name for h in fleet.select(["gateways", "a"])] == ["a", "c"]


def test_every_mistake_is_told_at_once() -> None:
    found = problems(
        {
            "all": {
                "vars": {"sandbox_network": {"bridge": "a-name-that-is-too-long", "subnet": "10.99.0.0/24"}},
                "hosts": {
                    "Upper": {"ansible_host": "10.99.0.9", "sandbox_kind": "ubuntu"},
                    "kind": {"ansible_host": "10.99.0.10", "sandbox_kind": "debian"},
                    "address": {"ansible_host": "address.example", "sandbox_kind": "ubuntu"},
                    "share": {"ansible_host": "10.99.0.11", "sandbox_kind": "ubuntu", "sandbox_share_runtimes": 1},
                },
            }
        }
    )
    assert [where for where, _value in found] == [
        "all.vars.sandbox_network.bridge",
        "Upper",
        "kind.sandbox_kind",
        "address.ansible_host",
        "share.sandbox_share_runtimes",
    ]


@pytest.mark.parametrize("address", ["10.99.0.0", "10.99.0.1", "10.99.0.255", "10.98.0.5"])
def test_an_address_belongs_to_the_subnet_and_is_nobody_elses(address: str) -> None:
    found = problems(tree(a={"ansible_host": address, "sandbox_kind": "ubuntu"}))
    assert found == [("a.ansible_host", address)]


def test_an_address_is_used_once() -> None:
    host = {"ansible_host": "10.99.0.5", "sandbox_kind": "ubuntu"}
    assert problems(tree(a=dict(host), b=dict(host))) == [("b.ansible_host", "10.99.0.5")]


@pytest.mark.parametrize("data", [None, [], {}, {"all": None}, {"all": {"hosts": ["a"]}}, "text"])
def test_any_document_is_answered_with_problems(data: Any) -> None:
    assert problems(data)


def test_an_unknown_name_is_an_error_and_not_an_empty_choice() -> None:
    fleet = parse(tree(a={"ansible_host": "10.99.0.5", "sandbox_kind": "ubuntu"}))
    with pytest.raises(SandboxError, match="one of: a, all"):
        fleet.select(["z"])


def test_tags_of_ansible_are_read_over(tmp_path: Path) -> None:
    text = """
all:
  vars: {sandbox_network: {bridge: vft0, subnet: 10.99.0.0/24}, secret: !vault "x", other: !unsafe "{{ y }}"}
  hosts: {a: {ansible_host: 10.99.0.5, sandbox_kind: kylin-v10}}
"""
    (tmp_path / "hosts.yml").write_text(text)
    assert config.load(tmp_path).hosts[0].kind == "kylin-v10"


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"hosts\.yml"):
        config.load(tmp_path)
    (tmp_path / "hosts.yml").write_text("all: [")
    with pytest.raises(SandboxError, match="is YAML"):
        config.load(tmp_path)


def test_the_sandbox_fleet_is_valid() -> None:
    fleet = config.load(Path(__file__).parents[3] / "inventories" / "sandbox")
    assert {h.name for h in fleet.select(["gateways"])} == {"gateway-1", "gateway-2"}
