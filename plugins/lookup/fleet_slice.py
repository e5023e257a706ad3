"""The slice of the plan that belongs to the host of a task."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_slice
short_description: This host's slice of the plan
description:
  - Returns what the plan says about the host of the task, and nothing about any other host.
  - In check mode, the slice of the plan that this check computed.
options:
  _terms:
    description: None. The host is always the task's own.
"""
EXAMPLES = r"""
- name: Converge the engines of this host
  ansible.builtin.include_role:
    name: vllm_engine
  vars:
    vllm_engine_engines: "{{ lookup('fleet_slice').engines }}"
"""
RETURN = r"""
_raw:
  description: The slice, see docs/architecture.md.
  type: list
  elements: dict
"""

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.state import plan_root, read_json, state_root  # the core is no Ansible package on the controller

_cache: dict[tuple[str, int], Any] = {}


class LookupModule(LookupBase):
    """Reads ``slices/<host>.json``; a file is read once a process while it does not change."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        """Raises AnsibleError where there is no plan for the host, naming the remedy."""
        known = variables or {}
        if terms or kwargs:
            raise AnsibleError("fleet_slice takes no arguments: it gives the slice of the task's own host")
        host = str(known["inventory_hostname"])
        override = self._templar.template(known["fleet_state_dir"]) if "fleet_state_dir" in known else None
        root = state_root(known.get("ansible_inventory_sources") or (), str(override) if override else None)
        path = plan_root(root, bool(known.get("ansible_check_mode"))) / "slices" / f"{host}.json"
        try:
            key = (str(path), path.stat().st_mtime_ns)
        except OSError:
            raise AnsibleError(
                f"there is no plan for {host} ({path} is missing): run site.yml, or begin this playbook with"
                " playbooks/steps/plan.yml, as site.yml does"
            ) from None
        if key not in _cache:
            data = read_json(path)
            if data is None:
                raise AnsibleError(f"{path} is damaged: run site.yml")
            _cache[key] = data
        return [_cache[key]]
