"""Controller-side check of the inventory alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.action import failed, read, write_report  # the core is no Ansible package on the controller
from fleet.planner import validate
from fleet.problems import as_json, blocking, errors
from fleet.version_plan import load_locks
from fleet.version_sets.matrix import load_matrix


class ActionModule(ActionBase):
    """Reads hostvars and groups, touches no host, and fails once with everything that is wrong."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"report", "converge", "strict"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``report``: a file to write the problems to as JSON, also when there are none. ``strict``: warnings fail too.

        ``converge``: the run will change hosts, so what this release cannot do yet stops it.
        """
        super().run(tmp, task_vars)
        converge, strict = (boolean(self._task.args.get(name, False)) for name in ("converge", "strict"))
        problems = validate(read(task_vars or {}), load_matrix(), load_locks())
        if converge:
            problems = blocking(problems)
        report = self._task.args.get("report")
        if report:
            problems += write_report(report, {"problems": as_json(problems), "valid": not errors(problems)})
        return failed(problems, strict)
