"""Controller-side planning: inventory and facts to a plan, a slice a host, and recorded facts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.action import (
    failed,
    known_facts,
    not_asked,
    read,
    root_of,
    state_problem,
)  # the core is no Ansible package on the controller
from fleet.planner import plan
from fleet.problems import blocking, errors
from fleet.state import plan_root, read_plan, write_plan
from fleet.version_plan import load_locks
from fleet.version_sets.matrix import load_matrix


class ActionModule(ActionBase):
    """Touches no host. In check mode the plan goes beside the real one, where lookups of that run find it."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"converge"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails once with every problem; otherwise writes the plan and says what changed.

        ``converge``: the run will change hosts, so what this release cannot do yet stops it.
        """
        super().run(tmp, task_vars)
        variables = task_vars or {}
        inventory = read(variables)
        check = bool(self._task.check_mode)
        override = inventory.variables.get("fleet_state_dir")
        try:
            root = root_of(variables, override)
            facts, ages = known_facts(variables, inventory.hosts, root, keep=not check)
        except OSError as error:
            return failed([state_problem(override, error)])
        if ages:
            self._display.display(not_asked(ages, len(inventory.hosts)))
        made = plan(inventory, facts, load_matrix(), load_locks())
        if isinstance(made, list):
            return failed(made)
        found = list(made.warnings)
        if boolean(self._task.args.get("converge", False)) and errors(blocking(found)):
            return failed(blocking(found))
        before = read_plan(root / "plan.json") or {}
        try:
            write_plan(plan_root(root, check), made)
        except OSError as error:
            return failed([*found, state_problem(root, error)])
        after = made.as_dict()
        result = failed(found) | {
            "changed": before.get("plan_hash") != made.plan_hash,
            "plan_hash": made.plan_hash,
            "plan": str(plan_root(root, check) / "plan.json"),
            "recorded_facts_age_seconds": ages,
        }
        if self._task.diff:
            result["diff"] = [
                {
                    "before_header": "plan (last)",
                    "after_header": "plan (now)",
                    "before": text(before),
                    "after": text(after),
                }
            ]
        return result


def text(plan_data: dict[str, Any]) -> str:
    """A plan as text to compare: without hashes, which differ whenever anything does."""
    hosts = {
        host: {key: value for key, value in item.items() if key not in ("plan_hash", "slice_hash")}
        for host, item in (plan_data.get("hosts") or {}).items()
    }
    return yaml.safe_dump(hosts, sort_keys=True, allow_unicode=True) if hosts else ""
