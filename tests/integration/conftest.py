"""One fleet for all integration tests: bare first, then converged once."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import ROOT, BareCheck, Fleet, Run

CANARY = f"canary{secrets.token_hex(16)}"


def _vault(fleet: Fleet) -> None:
    """Plant the canary as a site does it: a vaulted variable, the password in a file that only root reads."""
    password = fleet.directory / "vault-password"
    password.write_text(secrets.token_hex(16))
    password.chmod(0o600)
    os.environ["ANSIBLE_VAULT_PASSWORD_FILE"] = str(password)
    encrypted = subprocess.run(
        ["ansible-vault", "encrypt_string", "--stdin-name", "vault_fleet_engine_api_key"],
        input=CANARY.encode(), capture_output=True, check=True, cwd=ROOT,
    ).stdout.decode()  # fmt: skip
    path = fleet.inventory / "group_vars" / "all" / "zz_secrets.yml"
    path.write_text(encrypted + '\nfleet_engine_api_key: "{{ vault_fleet_engine_api_key }}"\n')


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Bare hosts, up and reachable."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    _vault(fleet)
    fleet.sandbox("up", "--fresh")
    yield fleet
    fleet.sandbox("down")


@pytest.fixture(scope="session")
def bare_check(fleet: Fleet) -> BareCheck:
    """`site.yml --check --diff` while the hosts are bare."""
    before = {h: fleet.fingerprint(h) for h in fleet.hosts()}
    run = fleet.play("site.yml", "--check", "--diff")
    return BareCheck(run, before, {h: fleet.fingerprint(h) for h in fleet.hosts()})


@pytest.fixture(scope="session")
def first_run(fleet: Fleet, bare_check: BareCheck) -> Run:
    """The run that takes the bare fleet to serving."""
    run = fleet.play("site.yml", "--diff")
    assert run.rc == 0, f"site.yml failed: {run.failed()}\n{run.output[-8000:]}"
    return run


@pytest.fixture(scope="session")
def canary() -> str:
    return CANARY


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test shows the last journal lines of every host: the cause is usually there."""
    outcome = yield
    report = outcome.get_result()
    fleet = getattr(item, "funcargs", {}).get("fleet")
    if report.when != "call" or not report.failed or fleet is None:
        return
    for host in fleet.hosts():
        journal = fleet.on(host, "journalctl", "-b", "-n", "40", "--no-pager", "-o", "short-precise", check=False)
        report.sections.append((f"journal of {host}", journal))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The story goes in the order of the files: bare, bad input, converge, then faults."""
    items.sort(key=lambda item: Path(str(item.fspath)).name)
