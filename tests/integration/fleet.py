"""A sandbox fleet under test: hosts, playbook runs through ansible-runner, and what can be observed from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import yaml

ROOT = Path(__file__).resolve().parents[2]
SUBNET, BRIDGE = "10.79.0", "vfit0"
KYLIN = "gateway-3"

# SQLite's side files of the package database, and bytecode, change when something is only read.
ASIDE = re.compile(r"-(shm|wal)$|/__pycache__/")
# What a running system writes by itself, plus what an ssh session leaves.
VOLATILE = (
    "/var/lib/systemd/",
    "/var/lib/dbus/",
    "/var/lib/private/",
    "/etc/machine-id",
    "/etc/.updated",
    "/var/.updated",
    "/etc/mtab",
)


def wait_for(what: str, condition: Callable[[], Any], seconds: float, interval: float = 0.5) -> Any:
    """Wait until the condition gives something true and return it; fail with what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(interval)


@dataclass
class Run:
    """The outcome of one playbook run."""

    rc: int
    events: list[dict[str, Any]]
    output: str
    artifacts: Path

    def changed(self) -> dict[str, list[str]]:
        """For each host the tasks (role: name) that reported a change."""
        result: dict[str, list[str]] = {}
        for event in self.events:
            data = event.get("event_data", {})
            if event["event"] == "runner_on_ok" and data.get("res", {}).get("changed"):
                result.setdefault(data["host"], []).append(f"{data.get('role', '-')}: {data['task']}")
        return result

    def changed_roles(self) -> dict[str, set[str]]:
        return {host: {task.split(":")[0] for task in tasks} for host, tasks in self.changed().items()}

    def failed(self) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {}
        for event in self.events:
            data = event.get("event_data", {})
            if event["event"] in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
                message = str(data.get("res", {}).get("msg", ""))
                result.setdefault(data["host"], []).append(f"{data['task']}: {message}")
        return result

    def messages(self) -> str:
        """Everything that people would read: messages of failures and of debug tasks, and the plain output."""
        return "\n".join(m for messages in self.failed().values() for m in messages) + self.output


def assert_unchanged(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> None:
    """Fail with what differs, file by file."""
    found = [
        f"{host}: {path}: {before[host].get(path)} -> {after[host].get(path)}"
        for host in before
        for path in sorted(before[host].keys() | after[host].keys())
        if before[host].get(path) != after[host].get(path)
    ]
    assert not found, "\n".join(found[:40])


@dataclass
class BareCheck:
    """A check run against bare hosts, with what the hosts looked like before and after."""

    run: Run
    before: dict[str, dict[str, str]]
    after: dict[str, dict[str, str]]


class Fleet:
    """A copy of `inventories/sandbox` on a network of its own, so that it can run beside a quickstart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "itest"
        shutil.copytree(ROOT / "inventories" / "sandbox", self.inventory)
        for path in self.inventory.rglob("*.yml"):
            text = path.read_text().replace("10.77.0", SUBNET).replace("vfsb0", BRIDGE)
            path.write_text(text)
        self._add_kylin_gateway()
        self.state = directory / "state"
        self.set_vars("zz_itest", fleet_state_dir=str(self.state))
        self.runs = 0

    def _add_kylin_gateway(self) -> None:
        """A third gateway of the kind whose only Python is too old for Ansible."""
        path = self.inventory / "hosts.yml"
        tree = yaml.safe_load(path.read_text())
        hosts = tree["all"]["children"]["gateways"]["hosts"]
        hosts[KYLIN] = {"ansible_host": f"{SUBNET}.23", "sandbox_kind": "kylin-v10"}
        path.write_text(yaml.safe_dump(tree, sort_keys=False))

    # -- the inventory -------------------------------------------------------------------------------------------

    def set_vars(self, name: str, **variables: Any) -> Path:
        path = self.inventory / "group_vars" / "all" / f"{name}.yml"
        path.write_text(yaml.safe_dump(variables))
        return path

    def variables(self) -> dict[str, Any]:
        """The inventory's own variables, as written."""
        found: dict[str, Any] = {}
        for path in sorted((self.inventory / "group_vars" / "all").glob("*.yml")):
            found |= yaml.load(path.read_text(), Loader=_AnyTag) or {}
        return found

    def hosts(self) -> list[str]:
        out = subprocess.run(
            ["ansible-inventory", "-i", str(self.inventory), "--list"], cwd=ROOT, capture_output=True, check=True
        )
        return sorted(json.loads(out.stdout)["_meta"]["hostvars"])

    # -- hosts ---------------------------------------------------------------------------------------------------

    def sandbox(self, *arguments: str, limit: float = 600, check: bool = True) -> str:
        command = [sys.executable, "-m", "sandbox", arguments[0], "-i", str(self.inventory), *arguments[1:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def on(self, host: str, *command: str, check: bool = True) -> str:
        return self.sandbox("exec", host, "--", *command, limit=60, check=check)

    def fingerprint(self, host: str) -> dict[str, str]:
        """Size, mode, owner and time of every file that configuration could touch, plus the enabled units."""
        listing = self.on(
            host, "find", "/etc", "/opt", "/usr", "/var/lib", "/root", "-xdev", "-not", "-type", "d",
            "-printf", "%p\\t%s %m %u %T@ %l\\n",
        )  # fmt: skip
        files = dict(line.split("\t", 1) for line in listing.splitlines() if "\t" in line)
        files = {k: v for k, v in files.items() if not k.startswith(VOLATILE) and not ASIDE.search(k)}
        files["(users)"] = self.on(host, "cat", "/etc/passwd")
        files["(sysctl)"] = self.on(host, "sysctl", "-a", "--pattern", "^(vm|net.core|net.ipv4.ip_)", check=False)
        return files

    # -- playbooks -----------------------------------------------------------------------------------------------

    def play(self, playbook: str = "site.yml", *arguments: str, env: dict[str, str] | None = None) -> Run:
        self.runs += 1
        private = self.directory / f"run-{self.runs}"
        private.mkdir()
        variables = {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            # The runner sets this for its own callback, and with it overrides ansible.cfg.
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "plugins" / "callback"),
            "PATH": os.environ["PATH"],
        } | (env or {})
        runner = ansible_runner.run(
            private_data_dir=str(private), project_dir=str(ROOT), playbook=playbook, inventory=str(self.inventory),
            cmdline=" ".join(arguments) or None, envvars=variables, quiet=True, timeout=1500,
        )  # fmt: skip
        output = runner.stdout.read() if hasattr(runner.stdout, "read") else ""
        return Run(runner.rc, list(runner.events), output, private)

    # -- the service ---------------------------------------------------------------------------------------------

    @property
    def vip(self) -> str:
        return str(self.variables()["fleet_gateway"]["vips"][0]).split("/")[0]

    @property
    def base(self) -> str:
        return f"http://{self.vip}:{self.variables()['fleet_gateway'].get('port', 80)}"

    def models(self, timeout: float = 2) -> list[str]:
        """The models that the VIP serves; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.base}/v1/models", timeout=timeout) as response:
                return [m["id"] for m in json.load(response)["data"]]
        except (OSError, ValueError):
            return []

    def vip_holders(self, hosts: Iterator[str] | list[str]) -> list[str]:
        return [h for h in hosts if f"{self.vip}/" in self.on(h, "ip", "-br", "address", check=False)]

    def vip_journal(self) -> str:
        """What keepalived said of its states on every gateway: a move of the address shows to clients as a broken
        connection."""
        lines = []
        for host in self.hosts():
            if self.slice_of(host)["gateway"]:
                text = self.on(host, "journalctl", "-b", "-u", "keepalived", "-o", "short-precise", check=False)
                lines += [f"{host}: {line}" for line in text.splitlines() if " STATE" in line]
        return "\n".join(lines[-40:])

    def slice_of(self, host: str) -> dict[str, Any]:
        return json.loads((self.state / "slices" / f"{host}.json").read_text())


class _AnyTag(yaml.SafeLoader):
    """Reads inventories with Ansible's own tags (vaulted values stay what they are)."""


_AnyTag.add_multi_constructor("!", lambda _loader, suffix, _node: f"!{suffix}")
