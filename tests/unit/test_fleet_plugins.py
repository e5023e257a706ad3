"""The plugins inside real runs of ansible-playbook. Hosts are local connections, so nothing outside is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_samples import SECRET, VARIABLES

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).parent / "ansible-playbook")


class Site:
    """An inventory in a temporary folder, with its state beside it."""

    def __init__(self, root: Path) -> None:
        self.inventory, self.state = root / "inv", root / "state"
        model = root / "model"
        model.mkdir()
        (model / "config.json").write_text("{}")
        (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}" + b"x" * 4096)
        self.variables: dict[str, Any] = json.loads(json.dumps(VARIABLES))
        artifacts = self.variables["fleet_models"]["tiny-chat"]["versions"]["2026.01"]["artifacts"]
        artifacts["default"]["source"] = f"file://{model}"
        # This machine has one address, and loopback is no interface to the planner: facts are recorded, not asked.
        self.variables["fleet_state_dir"] = str(self.state)
        self.variables["fleet_engine_api_key"] = "{{ vault_fleet_engine_api_key }}"
        self.variables["vault_fleet_engine_api_key"] = "{{ lookup('ansible.builtin.env', 'FLEET_TEST_KEY') }}"
        self.hosts = {
            "cpu_hosts": {"engine-1": "10.77.0.11", "engine-2": "10.77.0.12"},
            "gateways": {"gateway-1": "10.77.0.21", "gateway-2": "10.77.0.22"},
        }

    def write(self) -> None:
        (self.inventory / "group_vars/all").mkdir(parents=True, exist_ok=True)
        (self.inventory / "group_vars/all/fleet.yml").write_text(yaml.safe_dump(self.variables))
        children = {
            group: {"hosts": {h: {"ansible_host": a, "ansible_connection": "local"} for h, a in members.items()}}
            for group, members in self.hosts.items()
        }
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": children}}))

    def record_facts(self) -> None:
        from fleet.state import write_facts
        from fleet_samples import facts_data

        for members in self.hosts.values():
            for host, address in members.items():
                write_facts(self.state, host, facts_data(address))

    def command(self, playbook: Path | str, *arguments: str) -> list[str]:
        return [PLAYBOOK, "-i", str(self.inventory), str(playbook), *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "FLEET_TEST_KEY": SECRET, "NO_COLOR": "1"}

    def run(self, playbook: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.write()
        return subprocess.run(
            self.command(playbook, *arguments),
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(p.read_text()) for p in sorted((self.state / "runs").glob("*.json"))]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


PLAN = """
- hosts: all
  gather_facts: false
  tasks:
    - fleet_plan:
      run_once: true
    - ansible.builtin.assert:
        that:
          - lookup('fleet_slice').host == inventory_hostname
          - lookup('fleet_slice').engines | length == ('engine' in inventory_hostname) | int
    - ansible.builtin.debug:
        msg: "{{ lookup('fleet_plan', 'endpoints') | map(attribute='url') | join }}"
      run_once: true
"""


def play(site: Site, text: str) -> Path:
    path = site.inventory.parent / "play.yml"
    path.write_text(text)
    return path


def test_validate_reports_everything_at_once_and_writes_json(site: Site, tmp_path: Path) -> None:
    site.variables["fleet_servces"] = {}
    site.variables["fleet_services"]["chat"]["deployments"][0]["group"] = "cpu_host"
    site.variables["vault_fleet_engine_api_key"] = "changeme"
    site.hosts["gateways"]["gateway-2"] = "gateway-2.example"
    report = tmp_path / "report.json"
    done = site.run("playbooks/validate.yml", "-e", f"report={report}")
    assert done.returncode == 2
    data = json.loads(report.read_text())
    assert {p["code"] for p in data["problems"]} == {"INV-001", "SVC-001", "INV-012", "INV-009", "INV-013"}
    assert data["valid"] is False
    # Each problem is printed once, whole and readable.
    for code in ("INV-001", "SVC-001", "INV-012", "INV-009"):
        assert (done.stdout + done.stderr).count(code) == 1
    assert "4 error(s), 1 warning(s)" in done.stdout
    assert "是否想写 cpu_hosts?" in done.stdout + done.stderr
    (record,) = site.records()
    assert record["outcome"] == "failed"
    assert {p["code"] for p in record["failed"][0]["problems"]} >= {"INV-001", "SVC-001"}


def test_a_play_can_go_on_from_problems(site: Site) -> None:
    text = """
- hosts: engine-1
  gather_facts: false
  tasks:
    - block:
        - fleet_plan:
          register: made
      rescue:
        - ansible.builtin.assert:
            that:
              - made.problems | map(attribute='code') | unique == ['HOST-001']
              - made.problems[0].path == 'hosts.engine-1 (and 3 more hosts)'
              - made.msg is match('1 error')
"""
    done = site.run(play(site, text))
    assert done.returncode == 0, done.stdout


def test_validate_accepts_the_sample_under_a_limit(site: Site) -> None:
    done = site.run("playbooks/validate.yml", "--limit", "engine-2")
    assert done.returncode == 0, done.stdout
    (record,) = site.records()
    assert (record["outcome"], record["limit"], record["playbook"]) == ("ok", "engine-2", "playbooks/validate.yml")


def test_facts_need_no_plan_and_go_on_where_a_host_does_not_answer(site: Site, tmp_path: Path) -> None:
    site.write()
    hosts = yaml.safe_load((site.inventory / "hosts.yml").read_text())
    gone = hosts["all"]["children"]["cpu_hosts"]["hosts"]["engine-1"]
    gone |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    (site.inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))
    file = tmp_path / "facts.json"
    command = site.command("playbooks/facts.yml", "--limit", "cpu_hosts,gateway-1", "-e", f"report={file}")
    done = subprocess.run(
        command, cwd=ROOT, env=site.environment(), capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 4, done.stdout  # one host did not answer, and that is told at the end too
    lines = [line.strip(" -'\"") for line in done.stdout.splitlines()]
    assert any(line.startswith("engine-1   did not answer") for line in lines), done.stdout
    assert any(line.startswith("engine-2   ") and os.uname().machine in line for line in lines), done.stdout
    assert "engine-1: did not answer" in lines
    data = json.loads(file.read_text())
    assert sorted(data["hosts"]) == ["engine-2", "gateway-1"]
    assert data["did_not_answer"] == ["engine-1"]
    assert data["hosts"]["engine-2"]["cards"] == []
    assert not (site.state / "plan.json").exists()
    assert not (site.state / "facts").exists()


def test_plan_slices_and_records(site: Site) -> None:
    site.record_facts()
    path = play(site, PLAN)
    done = site.run(path)
    assert done.returncode == 0, done.stdout
    assert "http://10.77.0.100:80/v1" in done.stdout
    assert "Not asked in this run: 4 of 4 hosts. Their recorded facts are up to" in done.stdout
    plan = json.loads((site.state / "plan.json").read_text())
    (record,) = site.records()
    assert record["plan_hash"] == plan["plan_hash"]
    assert record["changed"] == {"engine-1": ["fleet_plan"]} or list(record["changed"].values()) == [["fleet_plan"]]
    assert SECRET not in done.stdout + "".join(p.read_text() for p in site.state.rglob("*.json"))
    again = site.run(path)
    assert "changed=1" not in again.stdout


def test_a_check_leaves_the_plan_alone(site: Site) -> None:
    site.record_facts()
    path = play(site, PLAN)
    assert site.run(path).returncode == 0
    before = (site.state / "plan.json").read_text()
    site.variables["fleet_services"]["chat"]["port"] = 9000
    done = site.run(path, "--check", "--diff")
    assert done.returncode == 0, done.stdout
    assert (site.state / "plan.json").read_text() == before
    assert "changed=1" in done.stdout
    assert "+    port: 9000" in done.stdout
    assert json.loads((site.state / "check/plan.json").read_text())["hosts"]["engine-1"]["engines"][0]["port"] == 9000


def test_hosts_without_facts_are_a_problem(site: Site) -> None:
    done = site.run(play(site, PLAN))
    assert done.returncode == 2
    assert "hosts.engine-1 (and 3 more hosts)" in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("code: HOST-001") == 1


def test_a_slice_without_a_plan_names_the_remedy(site: Site) -> None:
    text = """
- hosts: engine-1
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ lookup('fleet_slice') }}"}
"""
    done = site.run(play(site, text))
    assert done.returncode == 2
    assert "run site.yml, or begin" in done.stdout + done.stderr


def test_discover_in_a_real_run(site: Site) -> None:
    text = """
- hosts: engine-1
  gather_facts: false
  tasks:
    - fleet_discover:
    - ansible.builtin.assert:
        that:
          - ansible_facts['fleet']['usable_python']
          - ansible_facts['fleet']['cpu']['count'] > 0
          - ansible_facts['pkg_mgr'] | length > 0
          - ansible_facts['fleet']['discovered_at'] is match('20')
"""
    for mode in ([], ["--check"]):
        done = site.run(play(site, text), *mode)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "changed=0" in done.stdout


def test_a_host_without_python_is_described_and_not_failed(site: Site) -> None:
    text = """
- hosts: engine-1
  gather_facts: false
  vars: {ansible_python_interpreter: /nonexistent/python3}
  tasks:
    - fleet_discover:
    - ansible.builtin.assert:
        that:
          - not ansible_facts['fleet']['usable_python']
          - ansible_facts['fleet']['cpu']['count'] > 0
"""
    done = site.run(play(site, text))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_interrupted_run_leaves_a_record(site: Site) -> None:
    text = "- hosts: engine-1\n  gather_facts: false\n  tasks:\n    - ansible.builtin.pause: {seconds: 40}\n"
    path = play(site, text)
    site.write()
    process = subprocess.Popen(
        site.command(path),
        cwd=ROOT,
        env=site.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"TASK"):
                break
        time.sleep(0.5)
        assert [r["outcome"] for r in site.records()] == ["running"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
    assert [r["outcome"] for r in site.records()] == ["interrupted"]


def test_plain_and_vaulted_secrets(site: Site, tmp_path: Path) -> None:
    site.variables["vault_fleet_engine_api_key"] = SECRET
    report = tmp_path / "report.json"
    site.run("playbooks/validate.yml", "-e", f"report={report}")
    (found,) = json.loads(report.read_text())["problems"]
    assert (found["code"], found["severity"]) == ("INV-013", "warning")
    assert "fleet.yml" in found["rule"]

    password = tmp_path / "password"
    password.write_text("for-this-test-only\n")
    del site.variables["vault_fleet_engine_api_key"]
    site.write()
    vault = site.inventory / "group_vars/all/vault.yml"
    vault.write_text(f"vault_fleet_engine_api_key: {SECRET}\n")
    subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-vault"),
            "encrypt",
            "--vault-password-file",
            str(password),
            str(vault),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    done = site.run("playbooks/validate.yml", "-e", f"report={report}", "--vault-password-file", str(password))
    assert done.returncode == 0, done.stdout
    assert json.loads(report.read_text())["problems"] == []
