"""Views of the whole plan, for plays that are about the fleet and not about one host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_plan
short_description: A view of the fleet's plan
description:
  - Reads the plan that this run, or the last one, computed.
options:
  _terms:
    description:
      - C(endpoints), a list of what clients can ask, each with C(service), C(model) and C(url).
      - C(engines_down), the pattern of engine hosts where no engine runs, and C(engines_up), that of the others.
      - C(roll), the batch sizes for C(serial) of plays that change engines that serve.
      - C(table), the plan as lines of text.
      - C(status), what runs of it by the facts of this run, as lines of text.
    required: true
"""
EXAMPLES = r"""
- name: Engines, so that every service keeps serving
  hosts: "{{ lookup('fleet_plan', 'engines_up') }}"
  serial: "{{ lookup('fleet_plan', 'roll') }}"
"""
RETURN = r"""
_raw:
  description: The view. Without a plan the lists are empty, and patterns match no host.
  type: list
"""

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.state import plan_root, read_facts, read_plan, state_root  # the core is no Ansible package on the controller
from fleet.views import endpoints, engines_down, engines_up, roll, status, table

VIEWS = "endpoints, engines_down, engines_up, roll, status or table"


class LookupModule(LookupBase):
    """Never fails for want of a plan: plays are also parsed to be listed, before there is one."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        """Raises AnsibleError for an unknown view."""
        known = variables or {}
        if len(terms) != 1 or kwargs:
            raise AnsibleError(f"fleet_plan takes one argument, the name of a view: {VIEWS}")
        root = state_root(known.get("ansible_inventory_sources") or (), self._override(known))
        plan = read_plan(plan_root(root, bool(known.get("ansible_check_mode"))) / "plan.json")
        match str(terms[0]):
            case "endpoints":
                return [endpoints(plan) if plan else []]
            case "table":
                return [table(plan) if plan else []]
            case "status":
                hostvars = known["hostvars"]
                facts = {host: (hostvars.raw_get(host).get("ansible_facts") or {}).get("fleet") for host in hostvars}
                return [status(plan, facts) if plan else []]
            case "roll":
                return [roll(plan)]
            case "engines_down" | "engines_up":
                hosts = plan["hosts"] if plan else {}
                recorded = {host: found["facts"] for host in hosts if (found := read_facts(root, host))}
                return [(engines_down if terms[0] == "engines_down" else engines_up)(plan, recorded)]
        raise AnsibleError(f"fleet_plan has no view named {terms[0]}: {VIEWS}")

    def _override(self, known: dict[str, Any]) -> str | None:
        """``fleet_state_dir``. A play's own keywords see no host's variables, so any host of the inventory is asked."""
        if "fleet_state_dir" in known:
            return str(self._templar.template(known["fleet_state_dir"]))
        hostvars = known.get("hostvars")
        for host in (known.get("groups") or {}).get("all", ()):
            if hostvars is not None and "fleet_state_dir" in hostvars.raw_get(host):
                return str(hostvars[host]["fleet_state_dir"])
            break
        return None
