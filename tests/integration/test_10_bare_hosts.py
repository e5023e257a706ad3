"""Before anything is converged: check mode tells the truth and touches nothing; bad input stops before any change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from fleet import KYLIN, BareCheck, Fleet, assert_unchanged


def test_check_mode_on_bare_hosts_does_not_fail(bare_check: BareCheck) -> None:
    run = bare_check.run
    assert run.rc == 0, f"{run.failed()}\n{run.output[-6000:]}"
    assert run.changed(), "a bare fleet has everything to change"


def test_check_mode_changes_nothing(
    bare_check: BareCheck,
) -> None:
    assert_unchanged(bare_check.before, bare_check.after)


def test_check_mode_says_what_it_could_not_evaluate(bare_check: BareCheck) -> None:
    """A host without a usable Python ends after bootstrap, and the roles that were not evaluated are named."""
    assert bare_check.run.changed_roles()[KYLIN] == {"bootstrap"}
    said = bare_check.run.messages()
    assert KYLIN in said
    for role in ("host_tuning", "gateway", "vip"):
        assert role in said


def unknown_group(variables: dict[str, Any]) -> None:
    variables["fleet_services"]["chat"]["deployments"][0]["group"] = "cpu_host"


def missing_vip(variables: dict[str, Any]) -> None:
    variables["fleet_gateway"]["vips"] = []


def model_path_not_there(variables: dict[str, Any]) -> None:
    version = next(iter(variables["fleet_models"]["tiny-chat"]["versions"].values()))
    version["artifacts"]["default"]["source"] = "file:///srv/models/is-not-there"


@pytest.mark.parametrize(
    ("spoil", "where", "words"),
    [
        (unknown_group, "fleet_services.chat.deployments[0].group", ["cpu_host", "cpu_hosts"]),
        (missing_vip, "fleet_gateway.vips", []),
        (model_path_not_there, "fleet_models.tiny-chat", ["/srv/models/is-not-there"]),
    ],
)
def test_bad_inventory_changes_nothing(
    fleet: Fleet, spoil: Callable[[dict[str, Any]], None], where: str, words: list[str]
) -> None:
    names = ("fleet_services", "fleet_gateway", "fleet_models")
    variables = {k: copy.deepcopy(v) for k, v in fleet.variables().items() if k in names}
    spoil(variables)
    path = fleet.set_vars("zzz_spoiled", **variables)
    before = {h: fleet.fingerprint(h) for h in fleet.hosts()}
    try:
        run = fleet.play()
    finally:
        path.unlink()
    assert run.rc != 0
    said = run.messages()
    for word in [where, *words]:
        assert word in said, said[-3000:]
    assert_unchanged(before, {h: fleet.fingerprint(h) for h in fleet.hosts()})


def test_port_in_use_changes_nothing(fleet: Fleet) -> None:
    host = "engine-1"
    unit = ["systemd-run", "--unit=squatter", "python3", "-m", "http.server", "8000"]
    fleet.on(host, *unit)
    before = {h: fleet.fingerprint(h) for h in fleet.hosts()}
    try:
        run = fleet.play()
    finally:
        fleet.on(host, "systemctl", "stop", "squatter")
    assert run.rc != 0
    said = run.messages()
    for word in (host, "8000", "squatter"):
        assert word in said, said[-3000:]
    assert_unchanged(before, {h: fleet.fingerprint(h) for h in fleet.hosts()})
