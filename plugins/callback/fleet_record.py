"""Write a record of every playbook run to the state of its inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_record
type: notification
short_description: Keep a record of each run
description:
  - Writes one JSON file a run under C(.fleet/<inventory>/runs/), with who ran what and when, the commit of the
    inventory, the hash of the plan, how many tasks changed which host, the names of tasks that changed something or
    failed, and the outcome.
  - Arguments, results and differences of tasks are never written.
requirements:
  - enable in configuration
"""

import atexit
import os
import sys
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.callback import CallbackBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.record import Record  # the core is no Ansible package on the controller
from fleet.state import plan_root, read_json, state_root

COUNTS = ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")


class CallbackModule(CallbackBase):
    """A fault of the record never stops a run: it is shown as a warning."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "fleet_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.record: Record | None = None
        self.owner = os.getpid()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Begin the record."""
        arguments = context.CLIARGS
        self.sources = [str(s) for s in arguments.get("inventory") or ()]
        self.check = bool(arguments.get("check"))
        options = {
            "check": self.check,
            "diff": bool(arguments.get("diff")),
            "limit": arguments.get("subset"),
            "tags": [t for t in arguments.get("tags") or () if t != "all"],
            "skip_tags": list(arguments.get("skip_tags") or ()),
        }
        try:
            self.record = Record(state_root(self.sources), str(playbook._file_name), self.sources, options)
            self.record.write()
        except OSError as error:
            self._display.warning(f"there will be no record of this run: {error}")
            self.record = None
            return
        atexit.register(self._interrupted)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Follow ``fleet_state_dir``, which is known once the inventory is."""
        if self.record is None:
            return
        manager = play.get_variable_manager()
        hosts = manager._inventory.get_hosts() if manager is not None and manager._inventory is not None else []
        try:
            override = manager.get_vars(host=hosts[0], include_hostvars=False).get("fleet_state_dir") if hosts else None
        except AnsibleError:
            # Variables that cannot be read end the run, and Ansible says why.
            return
        if isinstance(override, str) and "{{" not in override:
            self._guard(lambda record: record.move(state_root(self.sources, override)), self.record)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note changes, and the plan that this run made."""
        if self.record is None:
            return
        if result.result.get("changed"):
            self.record.changed(result.host.get_name(), result.task.get_name())
        if str(result.task.action).rpartition(".")[2] in ("fleet_plan", "fleet_plan_diff"):
            self.record.data["plan_hash"] = result.result.get("plan_hash")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a failure that counts."""
        if self.record is not None and not ignore_errors:
            self.record.failed(result.host.get_name(), result.task.get_name(), str(result.task.action), result.result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that was not reached."""
        if self.record is not None:
            self.record.failed(result.host.get_name(), result.task.get_name(), "", {}, unreachable=True)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """End the record."""
        if self.record is None:
            return
        hosts = {host: {name: getattr(stats, name).get(host, 0) for name in COUNTS} for host in sorted(stats.processed)}
        if self.record.data["plan_hash"] is None:
            plan = read_json(plan_root(self.record.root, self.check) / "plan.json")
            self.record.data["plan_hash"] = plan.get("plan_hash") if isinstance(plan, dict) else None
        bad = "failed" if stats.failures else "unreachable" if stats.dark else "ok"
        self._guard(self.record.end, bad, hosts)

    def _interrupted(self) -> None:
        """The process ends without having said how: it was interrupted. Forked workers are not asked."""
        if self.record is not None and os.getpid() == self.owner and self.record.data["outcome"] == "running":
            self._guard(self.record.end, "interrupted")

    def _guard(self, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except OSError as error:
            self._display.warning(f"the record of this run could not be written: {error}")
