"""A converged fleet: it answers, a second run changes nothing, the record is true, the secret is nowhere."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from fleet import KYLIN, ROOT, BareCheck, Fleet, Run
from load import ask
from openai import NotFoundError, OpenAI


@pytest.fixture
def client(fleet: Fleet, first_run: Run) -> OpenAI:
    return OpenAI(base_url=f"{fleet.base}/v1", api_key="unused", max_retries=0, timeout=60)


def test_first_run_changed_every_host(fleet: Fleet, first_run: Run) -> None:
    assert set(fleet.hosts()) <= set(first_run.changed())


def test_check_mode_had_told_the_truth(fleet: Fleet, bare_check: BareCheck, first_run: Run) -> None:
    """What check mode announced on bare hosts is what the first run then did, role by role."""
    announced, done = bare_check.run.changed_roles(), first_run.changed_roles()
    for host in fleet.hosts():
        if host != KYLIN:
            assert announced[host] == done[host], host


def test_completion_and_stream_through_the_vip(client: OpenAI) -> None:
    model = client.models.list().data[0].id
    messages: Any = [{"role": "user", "content": "Hello"}]
    answer = client.chat.completions.create(
        model=model, messages=messages, max_tokens=12, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None and answer.usage.completion_tokens == 12
    assert answer.choices[0].finish_reason == "length"
    stream = client.chat.completions.create(
        model=model, messages=messages, max_tokens=12, stream=True, extra_body={"ignore_eos": True}
    )
    chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"


def test_both_engines_serve(fleet: Fleet, client: OpenAI) -> None:
    """Requests reach every engine of the plan: counted by the engines themselves."""

    def served(host: str) -> float:
        engine = fleet.slice_of(host)["engines"][0]
        text = fleet.on(host, "curl", "-s", f"http://{engine['address']}:{engine['port']}/metrics")
        return sum(float(x.rsplit(" ", 1)[1]) for x in text.splitlines() if x.startswith("vllm:request_success_total"))

    hosts = [h for h in fleet.hosts() if fleet.slice_of(h)["engines"]]
    assert len(hosts) >= 2
    before = {h: served(h) for h in hosts}
    model = fleet.models()[0]
    for _ in range(8):
        assert ask(fleet.vip, 80, model, 4, stream=False).ok
    assert all(served(h) > before[h] for h in hosts)


def test_unknown_model_and_hidden_paths_get_openai_errors(fleet: Fleet, client: OpenAI) -> None:
    with pytest.raises(NotFoundError):
        client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "x"}])
    for path in ("/metrics", "/tokenize", "/version", "/v1/../metrics", "//metrics", "/v1/%2e%2e/metrics"):
        out = subprocess.run(
            ["curl", "-s", "--path-as-is", "-m", "10", "-w", "\n%{http_code}", fleet.base + path],
            capture_output=True, text=True, check=True, timeout=20,
        ).stdout  # fmt: skip
        body, status = out.rsplit("\n", 1)
        assert status in ("400", "403", "404"), (path, status, body)
        assert "message" in json.loads(body)["error"], (path, body)


def test_second_run_changes_nothing(fleet: Fleet, first_run: Run) -> None:
    run = fleet.play("site.yml", "--diff")
    assert run.rc == 0, run.failed()
    assert run.changed() == {}


def test_check_mode_on_a_converged_fleet_reports_no_change(fleet: Fleet, first_run: Run) -> None:
    run = fleet.play("site.yml", "--check", "--diff")
    assert run.rc == 0, run.failed()
    assert run.changed() == {}


def test_plan_says_that_nothing_would_change(fleet: Fleet, first_run: Run) -> None:
    report = fleet.directory / "plan-report.json"
    run = fleet.play("playbooks/plan.yml", "-e", f"report={report}")
    assert run.rc == 0, run.failed()
    assert json.loads(report.read_text())["changes"] == []
    assert "nothing would change" in run.output


def test_limit_to_one_host_works_and_changes_nothing(fleet: Fleet, first_run: Run) -> None:
    run = fleet.play("site.yml", "--limit", "engine-1")
    assert run.rc == 0, run.failed()
    assert run.changed() == {}


def test_run_record_tells_what_happened(fleet: Fleet, first_run: Run) -> None:
    records = [json.loads(p.read_text()) for p in sorted((fleet.state / "runs").glob("*.json"))]
    plan = json.loads((fleet.state / "plan.json").read_text())
    full = [r for r in records if r["outcome"] == "ok" and not r["check"]]
    assert full, [r["outcome"] for r in records]
    first = full[0]
    assert first["plan_hash"] == plan["plan_hash"]
    assert first["who"]
    for host in fleet.hosts():
        assert first["hosts"][host]["changed"] > 0
    assert any(r["outcome"] == "failed" for r in records), "the runs with bad input are on record, too"


def test_secret_is_only_where_it_must_be(fleet: Fleet, first_run: Run, canary: str) -> None:
    """Plan, diffs, runner artifacts, recorded facts, journals and process lists: the canary is in none of them."""
    needle = canary.encode()
    found = [
        str(path)
        for top in (fleet.directory, ROOT / ".fleet")
        if top.exists()
        for path in top.rglob("*")
        if path.is_file() and needle in path.read_bytes()
    ]
    assert found == []
    seen_in_secrets = 0
    for host in fleet.hosts():
        journal = fleet.on(host, "journalctl", "--no-pager", "-a", "-o", "export")
        assert canary not in journal, f"journal of {host}"
        assert canary not in fleet.on(host, "ps", "axww", "-o", "args"), f"process list of {host}"
        assert canary not in fleet.on(host, "systemctl", "show", "*", check=False), f"unit properties on {host}"
        holders = fleet.on(host, "grep", "-rlsF", canary, "/etc", "/opt", "/var", "/run", "/tmp", "/root", check=False)
        for path in holders.split():
            mode = fleet.on(host, "stat", "-c", "%U %a", path).split()
            assert mode == ["root", "600"], f"{host}: {path} holds the secret with {mode}"
            seen_in_secrets += 1
    # The search itself must be able to find: the secret files hold it.
    assert seen_in_secrets >= len(fleet.hosts())


def test_engines_survive_a_host_reboot(fleet: Fleet, first_run: Run) -> None:
    """A host that was killed and started again serves without help."""
    fleet.sandbox("kill", "engine-2")
    started = time.monotonic()
    fleet.sandbox("up")
    engine = fleet.slice_of("engine-2")["engines"][0]
    unit = f"vllm-engine@{engine['name']}.service"
    while fleet.on("engine-2", "systemctl", "is-active", unit, check=False).strip() != "active":
        assert time.monotonic() - started < 400, fleet.on("engine-2", "journalctl", "-u", unit, "-n", "50")
        time.sleep(2)


def test_state_directory_is_private(fleet: Fleet, first_run: Run) -> None:
    for path in (fleet.state / "plan.json", Path(fleet.state) / "runs"):
        assert path.stat().st_mode & 0o002 == 0
