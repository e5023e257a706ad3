#!/usr/bin/python
"""Facts of a host for the planner."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_discover
short_description: Find out what a host is
description:
  - Reads the operating system, CPU, NUMA nodes, memory, network interfaces, listening ports, disks, accelerators, their
    software, container engines and engine units in one call, and returns them as facts. Changes nothing.
  - Accelerators are what the PCI bus shows, joined with what the vendor's tool says of them. A tool is run only where
    its card or itself is there and no other driver holds the card, each call for at most 20 seconds, all for 40.
  - How fast the disk of the models reads is measured by reading at most 64 MiB past the page cache, in half a second.
  - A piece that cannot be read, and a tool that is missing, fails or hangs, is listed in C(findings) and never fails
    the task.
  - Also returns the few facts that C(ansible.builtin.package) and C(ansible.builtin.service) look for, so that no
    C(setup) is needed.
attributes:
  check_mode:
    description: Runs in check mode as otherwise.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
options: {}
"""
EXAMPLES = r"""
- name: Find out what the hosts are
  fleet_discover:
"""
RETURN = r"""
ansible_facts:
  description: C(fleet) has everything; the others are for Ansible's own modules.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target.discover import discover


def main() -> None:
    """Run as a module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, ansible_facts=discover())


if __name__ == "__main__":
    main()
