#!/usr/bin/python
"""Kernel settings of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_tuning
short_description: Set kernel settings now and for the next boot, and give them back
description:
  - Compares the wanted settings with the files and with the running kernel, applies only what differs, and then asks
    the kernel again.
  - Values from before the first change are recorded. Settings that are no longer wanted, or V(absent), go back to them.
  - Warns of other files that set one of the settings to another value at the next boot.
options:
  state:
    description: Whether the host has the settings, or is as it was before.
    type: str
    choices: [present, absent]
    default: present
  sysctl:
    description: Kernel settings by name.
    type: dict
    default: {}
  thp:
    description: Modes of transparent huge pages.
    type: dict
    default: {}
    options:
      enabled: {description: When memory gets huge pages., type: str, choices: [always, madvise, never]}
      defrag:
        description: How hard the kernel looks for them.
        type: str
        choices: [always, defer, defer+madvise, madvise, never]
  optional:
    description: Names of kernel settings that some kernels lack; V(thp) stands for all of O(thp).
    type: list
    elements: str
    default: []
attributes:
  check_mode: {support: full, description: Changes nothing and says what would change.}
  diff_mode: {support: full, description: Shows values of the kernel and of the files before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
author: [vllm-fleet]
"""

EXAMPLES = r"""
- name: Tune the host
  fleet_tuning:
    sysctl: {vm.max_map_count: "1048576", kernel.numa_balancing: "0"}
    thp: {enabled: madvise}
    optional: [kernel.numa_balancing]
"""

RETURN = r"""
kernel_changed:
  description: Settings whose value in the kernel differed.
  returned: success
  type: list
  elements: str
files_changed:
  description: Files that differed.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import tuning
from ansible.module_utils.fleet.target.trouble import Trouble


def main():
    thp = {
        "enabled": {"type": "str", "choices": ["always", "madvise", "never"]},
        "defrag": {"type": "str", "choices": ["always", "defer", "defer+madvise", "madvise", "never"]},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "sysctl": {"type": "dict", "default": {}},
            "thp": {"type": "dict", "default": {}, "options": thp},
            "optional": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    options = module.params
    wanted = tuning.Wanted()
    if options["state"] == "present":
        modes = {name: mode for name, mode in (options["thp"] or {}).items() if mode}
        wanted = tuning.Wanted(options["sysctl"], modes, frozenset(options["optional"]))
    try:
        result = tuning.converge(wanted, tuning.Places(), module.check_mode)
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
