"""Find a usable Python on a host, then discover the host with it: one task, and no run of Ansible's own discovery."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.probe import parse, script  # the core is no Ansible package on the controller
from fleet.state import utc_now


class ActionModule(ActionBase):
    """The probe is plain shell, because Kylin V10 has Python 3.7, on which a module ends unreadably.

    Where there is no usable Python, what the shell could tell is returned as facts, with ``usable_python: false``:
    enough for a plan, so that nothing is changed on any host before the plan is valid.
    """

    _VALID_ARGS = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns ``ansible_facts``; the interpreter found is used by later tasks unless the inventory names one."""
        result = super().run(tmp, task_vars)
        variables = task_vars if task_vars is not None else {}
        named = variables.get("ansible_python_interpreter")
        named = str(self._templar.template(named)) if named else ""
        if named.startswith("auto"):
            named = ""
        answer = self._low_level_execute_command(script(named))
        if answer.get("rc"):
            return result | {"failed": True, "msg": f"the probe failed: {answer.get('stderr') or answer.get('stdout')}"}
        python, partial = parse(answer.get("stdout") or "")
        if python is None:
            facts: dict[str, Any] = {"fleet": partial}
        else:
            # What Ansible's own interpreter discovery would have stored: it then does not run.
            variables.setdefault("ansible_facts", {})["discovered_interpreter_python"] = python
            done = self._execute_module(module_name="fleet_discover", module_args={}, task_vars=variables)
            if done.get("failed"):
                return result | done
            facts = dict(done["ansible_facts"]) | {"discovered_interpreter_python": python}
            facts["fleet"] = dict(facts["fleet"]) | {"python": python}
        facts["fleet"]["discovered_at"] = utc_now()
        return result | {"changed": False, "ansible_facts": facts}
