#!/usr/bin/python
"""Converge the runtimes of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_runtime
short_description: Build, prove and switch to locked vLLM runtimes
description:
  - Converges all runtimes of a host in one call.
  - A runtime is built with uv from a lock with hashes, counts only once its marker file is there, and is never changed.
  - It is imported as the service user before the link to the current runtime moves to it.
options:
  state:
    description: V(checked) changes nothing and says what V(present) would do.
    type: str
    choices: [checked, present]
    default: present
  runtimes:
    description: The runtimes. The link to the current one goes to the last.
    type: list
    elements: dict
    required: true
    options:
      id:
        description: Name of the runtime and of its directory.
        type: str
        required: true
      backend:
        description: Backend that vLLM must choose in it.
        type: str
        required: true
      python:
        description: Python version, major and minor.
        type: str
        required: true
      lock:
        description: Text of the lock.
        type: str
        required: true
      builds_here:
        description: Whether this host builds it. Where it does not, another host does, in the same directory.
        type: bool
        default: true
  user:
    description: System user that engines run as. Made if it does not exist.
    type: str
    default: vllm
  uv:
    description: uv on this host.
    type: path
    default: /opt/vllm-fleet/bin/uv
  python:
    description: Interpreter to build with. By default one of the right version is looked for.
    type: path
  find_links:
    description: Directories on this host, or pages, with wheels.
    type: list
    elements: str
    default: []
  index_url:
    description: Package index. By default uv's own.
    type: str
  no_index:
    description: Use no index, only O(find_links), and no network.
    type: bool
    default: false
  libraries:
    description: Shared libraries of the operating system that vLLM loads.
    type: list
    elements: str
    default: []
  wait_seconds:
    description: How long to wait for another builder.
    type: int
    default: 1800
  import_timeout:
    description: How long importing vLLM may take.
    type: int
    default: 600
attributes:
  check_mode: {support: full, description: Changes nothing and says what would change.}
  diff_mode: {support: full, description: Shows states before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
author: [vllm-fleet]
"""

EXAMPLES = r"""
- name: Converge the runtimes
  fleet_runtime:
    runtimes:
      - id: vllm-0.32.0-cpu-x86_64-cp311
        backend: cpu
        python: "3.11"
        lock: "{{ lookup('ansible.builtin.file', 'locks/vllm-0.32.0-cpu-x86_64-cp311.txt') }}"
    find_links: [/srv/wheels]
    no_index: true
"""

RETURN = r"""
build:
  description: Runtimes that this host has to build, or built.
  returned: success
  type: list
  elements: str
missing_libraries:
  description: Those of O(libraries) that this host does not have.
  returned: success
  type: list
  elements: str
pending:
  description: Runtimes that were not complete and proved, and whether the current link was wrong (V(current)).
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import accounts
from ansible.module_utils.fleet.target import runtimes as rt
from ansible.module_utils.fleet.target.files import link_target, make_folders, point_link
from ansible.module_utils.fleet.target.trouble import Trouble


def state_word(runtime, places):
    state, reason = rt.status(runtime, places)
    if state != "complete":
        return f"{state} ({reason})"
    return "complete and proved" if rt.proved(runtime, places) else "complete, not proved on this host"


def picture(runtimes, places, current, missing):
    lines = [f"{name}: missing" for name in missing]
    lines += [f"{runtime.id}: {state_word(runtime, places)}" for runtime in runtimes]
    return "\n".join([*lines, f"current -> {current or 'nothing'}"]) + "\n"


def run(module):
    options = module.params
    places = rt.Places()
    runtimes = [
        rt.Runtime(item["id"], item["backend"], item["python"], rt.parse_lock(item["lock"]), item["builds_here"])
        for item in options["runtimes"]
    ]
    for runtime in runtimes:
        rt.check_host(runtime, rt.machine(), rt.host_glibc())
    states = {runtime.id: rt.status(runtime, places)[0] for runtime in runtimes}
    to_build = [runtime for runtime in runtimes if runtime.builds_here and states[runtime.id] != "complete"]
    to_prove = [runtime for runtime in runtimes if states[runtime.id] != "complete" or not rt.proved(runtime, places)]
    for runtime in to_build:
        if states[runtime.id] == "other":
            rt.refuse_rebuild_in_use(runtime, places)
    current = link_target(places.current)
    target = os.path.join(places.runtimes, runtimes[-1].id) if runtimes else current
    missing = rt.missing_libraries(options["libraries"])
    pending = [runtime.id for runtime in to_prove] + (["current"] if current != target else []) + missing
    result = {
        "missing_libraries": missing,
        "build": [runtime.id for runtime in to_build],
        "pending": pending,
        "changed": False,
        "diff": {"before": picture(runtimes, places, current, missing)},
    }
    if options["state"] == "checked":
        del result["diff"]
        return result
    result["changed"] = bool(pending)
    if module.check_mode:
        after = [f"{name}: installed" for name in missing]
        after += [f"{runtime.id}: complete and proved" for runtime in runtimes] + [f"current -> {target or 'nothing'}"]
        result["diff"]["after"] = "\n".join(after) + "\n"
        return result

    if pending and missing:
        raise Trouble(
            f"this host lacks {', '.join(missing)}, which vLLM loads",
            "make the package that brings it installable from the host's repositories",
        )
    if pending:
        accounts.ensure(options["user"])
    sources = rt.Sources(options["find_links"], options["index_url"], options["no_index"])
    for runtime in to_build:
        python = rt.find_python(runtime.python, options["python"], options["user"], places)
        rt.build(runtime, places, options["uv"], python, sources, options["wait_seconds"])
    for runtime in to_prove:
        if not runtime.builds_here:
            rt.wait_until_unlocked(rt.lock_path(runtime, places), options["wait_seconds"])
            state, reason = rt.status(runtime, places)
            if state != "complete":
                raise Trouble(
                    f"runtime {runtime.id} is not usable ({reason}), and another host builds it",
                    "let the play include its build host, and see what that host says",
                )
        rt.prove(runtime, places, options["user"], options["import_timeout"])
    if current != target:
        make_folders(os.path.dirname(places.current))
        point_link(places.current, target)
    result["diff"]["after"] = picture(runtimes, places, target, [])
    return result


def main():
    runtime_spec = {
        "id": {"type": "str", "required": True},
        "backend": {"type": "str", "required": True},
        "python": {"type": "str", "required": True},
        "lock": {"type": "str", "required": True},
        "builds_here": {"type": "bool", "default": True},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["checked", "present"], "default": "present"},
            "runtimes": {"type": "list", "elements": "dict", "required": True, "options": runtime_spec},
            "user": {"type": "str", "default": "vllm"},
            "uv": {"type": "path", "default": "/opt/vllm-fleet/bin/uv"},
            "python": {"type": "path"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "index_url": {"type": "str"},
            "no_index": {"type": "bool", "default": False},
            "libraries": {"type": "list", "elements": "str", "default": []},
            "wait_seconds": {"type": "int", "default": 1800},
            "import_timeout": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**run(module))
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))


if __name__ == "__main__":
    main()
