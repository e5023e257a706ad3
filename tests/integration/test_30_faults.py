"""Faults under load: an engine core killed, a gateway host killed, haproxy and keepalived killed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fleet import Fleet, Run, wait_for
from load import OpenLoop, Result, ask


def gateways(fleet: Fleet) -> list[str]:
    return [h for h in fleet.hosts() if fleet.slice_of(h)["gateway"]]


def ready(fleet: Fleet, host: str) -> bool:
    engine = fleet.slice_of(host)["engines"][0]
    state = fleet.on(host, "systemctl", "is-active", f"vllm-engine@{engine['name']}.service", check=False)
    return state.strip() == "active"


@pytest.fixture
def model(fleet: Fleet, first_run: Run) -> Iterator[str]:
    """Every test starts from, and leaves, a fleet with all engines ready and one holder of the VIP."""
    engines = [h for h in fleet.hosts() if fleet.slice_of(h)["engines"]]

    def whole() -> bool:
        return all(ready(fleet, h) for h in engines) and len(fleet.vip_holders(gateways(fleet))) == 1

    wait_for("all engines ready, one holder of the VIP", whole, 400, 2)
    yield wait_for("the VIP to answer", fleet.models, 30)[0]
    wait_for("all engines ready again, one holder of the VIP", whole, 400, 2)


def lost(results: list[Result], killed_at: float) -> tuple[list[Result], list[Result]]:
    """Failed requests: those that were in flight at the kill, and those that began after it."""
    failed = [r for r in results if not r.ok]
    return [r for r in failed if r.started <= killed_at], [r for r in failed if r.started > killed_at]


def test_the_checker_sees_a_cut_stream(fleet: Fleet, model: str) -> None:
    """A test that cannot fail proves nothing: a stream that is too short counts as cut."""
    result = ask(fleet.vip, 80, model, 6, stream=True)
    assert result.ok, result.error
    holder = next(h for h in fleet.hosts() if fleet.slice_of(h)["engines"])
    with OpenLoop(fleet.vip, 80, model, rate=2, tokens=(200, 400), limit=30) as load:
        time.sleep(4)
        engine = fleet.slice_of(holder)["engines"][0]["name"]
        fleet.on(holder, "systemctl", "kill", "-s", "KILL", f"vllm-engine@{engine}.service")
        killed_at = time.monotonic()
        time.sleep(2)
    in_flight, _ = lost(load.results, killed_at)
    assert in_flight, "streams on a killed engine must show as cut"


def test_engine_core_killed(fleet: Fleet, model: str) -> None:
    host = "engine-1"
    engine = fleet.slice_of(host)["engines"][0]
    unit = f"vllm-engine@{engine['name']}.service"
    before = fleet.on(host, "systemctl", "show", "-P", "NRestarts", unit).strip()
    with OpenLoop(fleet.vip, 80, model, rate=3, tokens=(8, 24)) as load:
        time.sleep(5)
        fleet.on(host, "pkill", "-KILL", "-f", "EngineCore")
        killed_at = time.monotonic()
        wait_for(
            "systemd to restart the engine",
            lambda: fleet.on(host, "systemctl", "show", "-P", "NRestarts", unit).strip() != before,
            90,
        )
        wait_for("the engine to be ready again", lambda: ready(fleet, host), 400, 2)
        time.sleep(3)
    in_flight, later = lost(load.results, killed_at)
    assert len(load.results) > 30
    assert later == [], f"requests that began after the kill failed: {[r.error for r in later][:5]}"
    assert len(in_flight) <= 4


def test_gateway_host_killed(fleet: Fleet, model: str) -> None:
    holder = fleet.vip_holders(gateways(fleet))[0]
    fleet.sandbox("kill", holder)
    others = [h for h in gateways(fleet) if h != holder]
    wait_for("the VIP on another gateway", lambda: fleet.vip_holders(others), 15, 0.2)
    wait_for("the VIP to answer again", fleet.models, 15, 0.2)
    fleet.sandbox("up")
    one_holder_for_good(fleet)
    assert fleet.models()


def one_holder_for_good(fleet: Fleet) -> None:
    wait_for("one holder of the VIP", lambda: len(fleet.vip_holders(gateways(fleet))) == 1, 20, 1)
    for _ in range(5):
        time.sleep(1)
        assert len(fleet.vip_holders(gateways(fleet))) == 1


@pytest.mark.parametrize("program", ["haproxy", "keepalived"])
def test_gateway_program_killed(fleet: Fleet, model: str, program: str) -> None:
    holder = fleet.vip_holders(gateways(fleet))[0]
    fleet.on(holder, "systemctl", "kill", "-s", "KILL", f"{program}.service")
    wait_for("the VIP to answer again", fleet.models, 20, 0.2)
    one_holder_for_good(fleet)
    wait_for(
        f"{program} to run again where it was killed",
        lambda: fleet.on(holder, "systemctl", "is-active", program, check=False).strip() == "active",
        30,
    )
