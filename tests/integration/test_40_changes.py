"""Changes of a fleet that serves: nothing that serves stops while something else is down."""

from __future__ import annotations

import copy

from fleet import Fleet, Run, wait_for
from load import OpenLoop


def test_a_change_while_one_engine_is_down_loses_no_request(fleet: Fleet, first_run: Run) -> None:
    """As after a failed or interrupted run: what is down is mended first, only then the serving engine changes."""
    model = wait_for("the VIP to answer", fleet.models, 60)[0]
    services = copy.deepcopy(fleet.variables()["fleet_services"])
    services["chat"]["deployments"][0]["engine"]["max_num_seqs"] = 6
    fleet.set_vars("zzz_changed", fleet_services=services)
    down = fleet.slice_of("engine-2")["engines"][0]["name"]
    fleet.on("engine-2", "systemctl", "stop", f"vllm-engine@{down}.service")
    with OpenLoop(fleet.vip, 80, model, rate=2, tokens=(8, 24), limit=600) as load:
        run = fleet.play("site.yml")
    assert run.rc == 0, run.failed()
    for host in ("engine-1", "engine-2"):
        assert any("vllm_engine" in task for task in run.changed()[host])
        assert fleet.slice_of(host)["engines"][0]["settings"]["max-num-seqs"] == 6
    failed = [r for r in load.results if not r.ok]
    assert len(load.results) > 20
    moves = fleet.vip_journal()
    assert failed == [], (
        f"{len(failed)} of {len(load.results)} requests failed: {[r.error for r in failed][:5]}\n{moves}"
    )
