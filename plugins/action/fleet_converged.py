"""Note on the controller that the hosts of a play were converged to parts of the plan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.action import root_of  # the core is no Ansible package on the controller
from fleet.state import PARTS, forget_converged, note_converged, read_plan


class ActionModule(ActionBase):
    """For the hosts of the batch that did not fail. Touches no host; a check converges nothing and notes nothing."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"parts"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``parts``: of the slice. Hosts that are no longer in the plan are forgotten."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        parts = [str(part) for part in self._task.args.get("parts") or ()]
        if not parts or set(parts) - set(PARTS):
            raise AnsibleActionFail(f"parts is a list of {', '.join(PARTS)}, and not {parts}")
        if self._task.check_mode:
            return {"changed": False, "skipped": True}
        override = variables.get("fleet_state_dir")
        root = root_of(variables, self._templar.template(override) if override else None)
        plan = read_plan(root / "plan.json") or {"hosts": {}}
        for host in map(str, variables["ansible_play_batch"]):
            if host in plan["hosts"]:
                note_converged(root, host, plan["hosts"][host], parts)
        forget_converged(root, plan["hosts"])
        return {"changed": False}
