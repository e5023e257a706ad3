#!/usr/bin/python
"""Settings of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_tuning
short_description: Set up a host's kernel and limits, now and for the next boot, and give everything back
description:
  - Compares the wanted settings with the files and with the running kernel, applies only what differs, and then asks
    the kernel again. A value that it did not take is an error with both values and the likely cause.
  - Values from before the first change are recorded. Settings that are no longer wanted, or V(absent), go back to them.
  - What O(plan) asks is left alone where the host cannot have it, with a warning; every other option must be met.
  - Warns of other files that set one of the settings to another value at the next boot.
options:
  state:
    description: Whether the host has the settings, or is as it was before.
    type: str
    choices: [present, absent]
    default: present
  plan:
    description: C(tuning) of the host's slice of the plan. The other options win over it.
    type: dict
    default: {}
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
  governor:
    description: How CPUs choose their frequency.
    type: str
    default: ""
  reserved_ports:
    description: Ports that no outgoing connection takes, such as V(8000-8003,9000), besides those that others reserved.
    type: str
    default: ""
  shm_bytes:
    description: Size of the host's /dev/shm. 0 leaves it.
    type: int
    default: 0
  huge_pages:
    description: Memory for huge pages, rounded up to pages of the host's size.
    type: list
    elements: dict
    default: []
    options:
      node: {description: NUMA node., type: int, required: true}
      bytes: {description: How much., type: int, required: true}
      page_bytes: {description: Size of a page. Unset takes the host's own size., type: int}
  huge_pages_max_share:
    description: Most of a node's memory that may be huge pages, those of others included.
    type: float
    default: 0.5
  limits:
    description: Directives of systemd.exec(5) and systemd.resource-control(5) for O(limits_unit).
    type: dict
    default: {}
  limits_unit:
    description: The unit that gets the limits.
    type: str
    default: vllm-engine@.service
  engine_shm_bytes:
    description: Size of the /dev/shm of its own that O(limits_unit) has. 0 leaves it.
    type: int
    default: 0
  optional:
    description:
      - Kernel settings that the host may lack or forbid. V(thp), V(governor), V(reserved_ports) and V(shm) stand for
        these options.
    type: list
    elements: str
    default: []
  leave:
    description: What of O(plan) this host leaves alone, by the same names; also V(limits) and V(engine_shm).
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
    plan: "{{ lookup('fleet_slice').tuning }}"
    sysctl: {vm.swappiness: "5"}
    huge_pages: [{node: 0, bytes: 17179869184}]

- name: Give everything back
  fleet_tuning:
    state: absent
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
left_alone:
  description: Settings of the plan that this host cannot have, each with the cause.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import tuning
from ansible.module_utils.fleet.target.trouble import Trouble
from ansible.module_utils.fleet.target.tuning_settings import Places


def main():
    thp = {
        "enabled": {"type": "str", "choices": ["always", "madvise", "never"]},
        "defrag": {"type": "str", "choices": ["always", "defer", "defer+madvise", "madvise", "never"]},
    }
    pool = {
        "node": {"type": "int", "required": True},
        "bytes": {"type": "int", "required": True},
        "page_bytes": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "plan": {"type": "dict", "default": {}},
            "sysctl": {"type": "dict", "default": {}},
            "thp": {"type": "dict", "default": {}, "options": thp},
            "governor": {"type": "str", "default": ""},
            "reserved_ports": {"type": "str", "default": ""},
            "shm_bytes": {"type": "int", "default": 0},
            "huge_pages": {"type": "list", "elements": "dict", "default": [], "options": pool},
            "huge_pages_max_share": {"type": "float", "default": 0.5},
            "limits": {"type": "dict", "default": {}},
            "limits_unit": {"type": "str", "default": "vllm-engine@.service"},
            "engine_shm_bytes": {"type": "int", "default": 0},
            "optional": {"type": "list", "elements": "str", "default": []},
            "leave": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    options = module.params
    try:
        wanted = tuning.Wanted(limits_unit=options["limits_unit"])
        if options["state"] == "present":
            wanted = tuning.merged(options["plan"], options, options["optional"], options["leave"])
        result = tuning.converge(wanted, Places(), module.check_mode)
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))
    for warning in result.pop("warnings"):
        module.warn(warning)
    if result["left_alone"]:
        module.warn("left alone: " + "; ".join(f"{name}: {why}" for name, why in sorted(result["left_alone"].items())))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
