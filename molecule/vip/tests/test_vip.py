"""One holder of the address, whatever is killed: both hosts are looked at, as a ping does not show two holders."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import testinfra

INVENTORY = str(Path(__file__).resolve().parents[1] / "inventory")
ADDRESS = "10.78.24.100"
NAMES = ("vip-1", "vip-2")


@pytest.fixture(scope="module")
def hosts() -> dict[str, testinfra.host.Host]:
    return {name: testinfra.get_host(f"ansible://{name}", ansible_inventory=INVENTORY) for name in NAMES}


def holders(hosts) -> list[str]:
    return [
        name for name, one in hosts.items() if f" {ADDRESS}/" in one.check_output("ip -o -4 address show dev host0")
    ]


def wait_for(what: str, test: Callable[[], bool], seconds: float) -> float:
    begin = time.monotonic()
    while not test():
        assert time.monotonic() - begin < seconds, f"{what}: not within {seconds:g} s"
        time.sleep(0.2)
    return time.monotonic() - begin


@pytest.fixture
def holder(host, hosts) -> str:
    """The holder, once there is one alone and both hosts are ready. Everything is shown from one host's turn only."""
    if host.backend.get_hostname() != NAMES[0]:
        pytest.skip("shown once")
    for one in hosts.values():
        one.check_output("systemctl start check-port keepalived")
    wait_for("both hosts ready", lambda: sorted(state(one) for one in hosts.values()) == ["BACKUP", "MASTER"], 15)
    return exactly_one(hosts)


def state(one) -> str:
    words = one.run("cat /run/vllm-fleet/vip-state").stdout.split()
    return words[1] if len(words) == 3 else ""


def exactly_one(hosts, seconds: float = 15) -> str:
    """The one holder, once it is the same for six looks: for good, not for a moment. While it moves, none is fine."""
    looks: list[list[str]] = []

    def settled() -> bool:
        looks.append(holders(hosts))
        last = looks[-6:]
        return len(last) == 6 and len(last[0]) == 1 and all(look == last[0] for look in last)

    wait_for("one holder for good", settled, seconds)
    return looks[-1][0]


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


def test_one_host_holds_the_address(hosts, holder):
    assert state(hosts[holder]) == "MASTER"
    assert state(hosts[other(holder)]) == "BACKUP"


def test_stopped_keepalived_gives_the_address_away(hosts, holder):
    hosts[holder].check_output("systemctl stop keepalived")
    assert exactly_one(hosts) == other(holder)
    hosts[holder].check_output("systemctl start keepalived")
    # Who comes back does not take it back.
    wait_for("the other one ready", lambda: state(hosts[holder]) == "BACKUP", 15)
    assert exactly_one(hosts) == other(holder)


@pytest.mark.parametrize("whom", ["all", "main"])
def test_killed_keepalived_leaves_no_second_holder(hosts, holder, whom):
    """Killed with its children, or alone, so that the children outlive it."""
    before = hosts[holder].check_output("systemctl show -P NRestarts keepalived")
    command = "systemctl kill -s KILL keepalived"
    hosts[holder].check_output(command if whom == "all" else "kill -KILL $(systemctl show -P MainPID keepalived)")
    exactly_one(hosts)
    wait_for(
        "its restart", lambda: hosts[holder].check_output("systemctl is-active keepalived || true") == "active", 10
    )
    assert hosts[holder].check_output("systemctl show -P NRestarts keepalived") > before
    exactly_one(hosts)


def test_killed_again_and_again(hosts, holder):
    for _ in range(6):
        hosts[holder].run("systemctl kill -s KILL keepalived")
        time.sleep(0.3)
    exactly_one(hosts)
    wait_for("keepalived", lambda: hosts[holder].run("systemctl is-active keepalived").rc == 0, 10)


@pytest.mark.parametrize("how", ["stop", "kill -s STOP"])
def test_address_follows_the_gateway(hosts, holder, how):
    """A gateway that ended, and one that only hangs."""
    hosts[holder].check_output(f"systemctl {how} check-port")
    wait_for("the other host", lambda: holders(hosts) == [other(holder)], 12)
    assert state(hosts[holder]) == "FAULT"
    hosts[holder].check_output("systemctl kill -s CONT check-port; systemctl restart check-port")
    wait_for("the return", lambda: state(hosts[holder]) == "BACKUP", 12)
    assert exactly_one(hosts) == other(holder)


def test_gateway_that_is_back_soon_moves_nothing(hosts, holder):
    hosts[holder].check_output("systemctl restart check-port")
    time.sleep(3)
    assert holders(hosts) == [holder]


@pytest.mark.usefixtures("holder")
def test_without_any_gateway_nobody_holds_it(hosts):
    for one in hosts.values():
        one.check_output("systemctl stop check-port")
    wait_for("no holder", lambda: holders(hosts) == [], 12)
    for one in hosts.values():
        one.check_output("systemctl start check-port")
    exactly_one(hosts)


def test_a_reload_of_the_holder_moves_nothing(hosts, holder):
    hosts[holder].check_output("systemctl reload keepalived")
    time.sleep(2)
    assert holders(hosts) == [holder]


def test_busy_cpus_move_nothing(hosts, holder):
    """A backup that misses three adverts takes the address: keepalived must run while everything else waits."""
    for one in hosts.values():
        assert "RR" in one.check_output("ps -C keepalived -o cls=").split()
        one.check_output("systemd-run -q --unit busy sh -c 'for i in 1 2 3 4; do yes >/dev/null & done; wait'")
    try:
        before = [one.check_output("cat /run/vllm-fleet/vip-state") for one in hosts.values()]
        time.sleep(25)
        assert [one.check_output("cat /run/vllm-fleet/vip-state") for one in hosts.values()] == before
        assert holders(hosts) == [holder]
    finally:
        for one in hosts.values():
            one.check_output("systemctl stop busy")


def test_unit_and_rights(host):
    assert host.service("keepalived").is_enabled
    show = host.check_output(
        "systemctl show keepalived -p Restart -p KillMode -p StartLimitIntervalUSec -p RestartUSec"
    )
    assert set(show.splitlines()) == {
        "Restart=always", "KillMode=control-group", "StartLimitIntervalUSec=0", "RestartUSec=500ms",
    }  # fmt: skip
    for name in ("vip-check", "vip-notify", "vip-release"):
        file = host.file(f"/opt/vllm-fleet/libexec/{name}")
        assert (file.user, file.mode) == ("root", 0o755)
    messages = host.check_output("journalctl -u keepalived --no-pager")
    assert "SECURITY VIOLATION" not in messages
