"""What this run discovered on its hosts, as lines for people and as a file for tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.action import facts_in_run, failed, write_report  # the core is no Ansible package on the controller
from fleet.facts_view import report, table


class ActionModule(ActionBase):
    """Reads the facts of the play's hosts, those that did not answer too; touches no host."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"report"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``report``: a file to write everything to as JSON. Returns ``lines``."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        hosts = {str(host): facts_in_run(variables, str(host)) for host in variables["ansible_play_hosts_all"]}
        path = self._task.args.get("report")
        lines = table(hosts)
        if path and (unwritten := write_report(path, report(hosts))):
            return failed(unwritten) | {"lines": lines}
        return {"changed": False, "lines": lines}
