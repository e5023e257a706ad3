"""playbooks/plan.yml in real runs. Hosts answer discovery from files; everything else is as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet_samples import facts_data
from test_fleet_plugins import ROOT, Site, play

ANSWER = """
import json
from pathlib import Path
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        answer = Path(__file__).parent / f"{task_vars['inventory_hostname']}.json"
        return {"changed": False, "ansible_facts": {"fleet": json.loads(answer.read_text())}}
"""
RUNS = [{"unit": "vllm-engine@chat-0.service", "load": "loaded", "active": "active", "sub": "running"}]
LISTENS = [{"port": 8000, "address": "0.0.0.0", "process": "python", "unit": RUNS[0]["unit"]}]
CONVERGED = """
- hosts: all
  gather_facts: false
  tasks:
    - fleet_discover:
    - fleet_plan:
      run_once: true
    - fleet_converged: {parts: [tuning, runtimes, models, engines, gateway, vip]}
      run_once: true
"""


class Answering(Site):
    """A site whose hosts say what a test lets them say."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.answers = root / "action"
        self.answers.mkdir()
        (self.answers / "fleet_discover.py").write_text(ANSWER)
        for members in self.hosts.values():
            for host, address in members.items():
                self.answer(host, address)

    def answer(self, host: str, address: str, **changes: Any) -> None:
        data = facts_data(address, **({"engine_units": []} | changes))
        (self.answers / f"{host}.json").write_text(json.dumps(data))

    def environment(self) -> dict[str, str]:
        paths = f"{self.answers}:{ROOT / 'plugins/action'}"
        return super().environment() | {"ANSIBLE_ACTION_PLUGINS": paths}

    def converge(self) -> None:
        """Note the hosts as converged, and let the engines run."""
        done = self.run(play(self, CONVERGED))
        assert done.returncode == 0, done.stdout
        for host, address in self.hosts["cpu_hosts"].items():
            self.answer(host, address, engine_units=RUNS, listening=LISTENS)

    def files(self) -> dict[str, str]:
        """State besides the records of runs."""
        return {
            str(p.relative_to(self.state)): p.read_text()
            for p in sorted(self.state.rglob("*.json"))
            if p.parent.name != "runs"
        }


@pytest.fixture
def site(tmp_path: Path) -> Answering:
    return Answering(tmp_path)


def test_a_new_fleet_then_a_converged_one_then_a_change(site: Answering, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = site.run("playbooks/plan.yml", "-e", f"report={report}")
    assert done.returncode == 0, done.stdout
    assert "4 hosts join, 2 engines start" in done.stdout
    assert "changed=1" not in done.stdout
    assert sorted({Path(name).parts[0] for name in site.files()}) == ["facts"]
    data = json.loads(report.read_text())
    assert data["valid"] and sorted(data["hosts"]) == ["engine-1", "engine-2", "gateway-1", "gateway-2"]
    assert site.records()[-1]["plan_hash"] == data["plan_hash"]

    site.converge()
    kept = site.files()
    for mode in ([], ["--check"], ["--limit", "engine-1"]):
        done = site.run("playbooks/plan.yml", "-e", f"report={report}", *mode)
        assert done.returncode == 0, done.stdout
        assert "nothing would change" in done.stdout
        assert json.loads(report.read_text())["changes"] == []

    site.variables["fleet_services"]["chat"]["deployments"][0]["engine"]["max_num_seqs"] = 16
    done = site.run("playbooks/plan.yml", "-e", f"report={report}")
    assert "2 engines restart" in done.stdout
    assert "settings.max-num-seqs: 8 -> 16" in done.stdout
    assert {(c["host"], c["action"]) for c in json.loads(report.read_text())["changes"]} == {
        ("engine-1", "restarts"),
        ("engine-2", "restarts"),
    }
    done = site.run("playbooks/plan.yml", "--limit", "engine-1,gateway-1")
    assert "1 engine restarts" in done.stdout
    assert "left out by --limit: changes on engine-2" in done.stdout
    assert {k: v for k, v in site.files().items() if not k.startswith("facts")} == {
        k: v for k, v in kept.items() if not k.startswith("facts")
    }


def test_a_check_converges_nothing(site: Answering) -> None:
    done = site.run(play(site, CONVERGED), "--check")
    assert done.returncode == 0, done.stdout
    assert not (site.state / "converged").exists()
    assert "4 hosts join" in site.run("playbooks/plan.yml").stdout


def test_only_what_reached_a_host_counts(site: Answering) -> None:
    """A host that failed is not noted, one that is outside --limit is not, and the plan of the run is not asked."""
    site.record_facts()
    text = CONVERGED.replace(
        "    - fleet_converged:",
        "    - ansible.builtin.fail:\n      when: inventory_hostname == 'engine-1'\n    - fleet_converged:",
    )
    done = site.run(play(site, text), "--limit", "engine-1,gateway-1")
    assert done.returncode == 2
    assert [p.stem for p in (site.state / "converged").iterdir()] == ["gateway-1"]
    assert (site.state / "plan.json").exists()
    done = site.run("playbooks/plan.yml")
    assert "3 hosts join, 2 engines start" in done.stdout


def test_an_engine_that_died_is_started_though_nothing_in_the_plan_changed(site: Answering) -> None:
    site.converge()
    site.answer("engine-2", "10.77.0.12", engine_units=[RUNS[0] | {"active": "failed", "sub": "failed"}])
    done = site.run("playbooks/plan.yml")
    assert "1 engine starts" in done.stdout
    assert "engine-2: engine chat-0 starts: it is failed (failed)" in done.stdout


def test_a_preview_writes_nothing_but_its_report(site: Answering, tmp_path: Path) -> None:
    site.variables["fleet_versions"] = {"vllm": "0.25.1"}
    site.converge()
    before = site.files()
    rules, report = tmp_path / "alerts.yml", tmp_path / "report.json"
    rules.write_text("expr: rate(vllm:request_success_total[5m]) == 0 or vllm:gpu_cache_usage_perc > 0.9\n")
    preview = {"preview": {"vllm": "0.33.0", "rules": str(rules)}}
    done = site.run("playbooks/plan.yml", "-e", json.dumps(preview), "-e", f"report={report}")
    assert done.returncode == 0, done.stdout
    assert "vLLM 0.25.1 -> 0.33.0" in done.stdout
    assert "nothing would change" in done.stdout
    assert site.files() == before
    data = json.loads(report.read_text())["preview"]
    assert data["valid"] and data["hosts"] == ["engine-1", "engine-2"]
    (blind,) = data["upgrades"][0]["blind"]
    assert (blind["metric"], blind["use"]) == ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc")


def test_an_upgrade_in_the_inventory_is_explained_without_being_asked(site: Answering) -> None:
    site.variables["fleet_versions"] = {"vllm": "0.25.1"}
    site.converge()
    site.variables["fleet_versions"] = {"vllm": "0.32.0"}
    done = site.run("playbooks/plan.yml")
    assert "2 engines restart, 2 runtimes are installed" in done.stdout
    assert "vLLM 0.25.1 -> 0.32.0" in done.stdout


def test_faults_of_a_preview_are_named(site: Answering, tmp_path: Path) -> None:
    for preview, words in (
        ('{"preview": "0.33.0"}', "preview is a mapping"),
        ('{"preview": {"vlm": "0.33.0"}}', "did you mean vllm?"),
        ('{"preview": {"rules": "/nonexistent"}}', "the rules of preview cannot be read"),
    ):
        done = site.run("playbooks/plan.yml", "-e", preview)
        assert done.returncode == 2
        assert words in done.stdout + done.stderr
    done = site.run("playbooks/plan.yml", "-e", '{"preview": {"vllm": "9.9.9"}}')
    assert done.returncode == 0, done.stdout
    assert "cpu cannot have it and stays as it is: engine-1, engine-2" in done.stdout
