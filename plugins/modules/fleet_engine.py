#!/usr/bin/python
"""Converge the engines of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_engine
short_description: Converge vLLM engines under systemd
description:
  - With O(state=configured), converges all engines of a host in one call. That covers the service user, the template
    unit, the readiness script, and each engine's settings, environment, secret, runtime link and drop-in.
    Engines that are no longer wanted are stopped and removed. Units are checked by systemd-analyze before they are
    installed. No engine is started or restarted; RV(restart) says which ones need it.
  - With O(state=ready), restarts the engines named and waits until each gave a token. When one does not come up, it
    fails with the cause in words.
options:
  state:
    description: What to converge.
    type: str
    choices: [configured, ready]
    default: configured
  engines:
    description: The engines of this host, as in its slice of the plan.
    type: list
    elements: dict
    default: []
  names:
    description: Engines to restart, for O(state=ready).
    type: list
    elements: str
    default: []
  api_key:
    description: Key that the engines ask their clients for.
    type: str
  unit:
    description: Text of the template unit.
    type: str
  ready_script:
    description: Text of the readiness script.
    type: str
  user:
    description: System user that engines run as. Made if it does not exist.
    type: str
    default: vllm
  restart_seconds:
    description: Pause before systemd starts an engine again.
    type: int
    default: 5
  restart_limit:
    description: How many times systemd starts an engine that fails, before it leaves it.
    type: int
    default: 6
attributes:
  check_mode: {support: full, description: Changes nothing and says what would change.}
  diff_mode: {support: full, description: Shows files before and after, secrets only as changed or not.}
  idempotent: {support: full, description: A second run changes nothing.}
author: [vllm-fleet]
"""

EXAMPLES = r"""
- name: Converge the engines
  fleet_engine:
    engines: "{{ vllm_engine_engines }}"
    api_key: "{{ vllm_engine_api_key }}"
    unit: "{{ lookup('ansible.builtin.template', 'vllm-engine@.service.j2') }}"
    ready_script: "{{ lookup('ansible.builtin.file', 'engine-ready') }}"
  register: engines
- name: Restart what changed
  fleet_engine:
    state: ready
    names: "{{ engines.restart }}"
"""

RETURN = r"""
restart:
  description: Engines that do not run, or run with something other than what is on the disk now.
  returned: success
  type: list
  elements: str
removed:
  description: Engines that were removed.
  returned: success
  type: list
  elements: str
failures:
  description: Engines that did not come up, with code, cause, remedy and the lines that show it.
  returned: failure of O(state=ready)
  type: list
  elements: dict
"""

import os
import shutil
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import accounts
from ansible.module_utils.fleet.target import engine_faults as faults
from ansible.module_utils.fleet.target import engines as en
from ansible.module_utils.fleet.target.files import (
    make_folders,
    mode_of,
    point_link,
    read_json,
    read_text,
    write_json,
    write_text,
)
from ansible.module_utils.fleet.target.trouble import Trouble

PROPERTIES = "Id,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts,UnitFileState"


class Host:
    """What systemd on this host says and does."""

    def __init__(self, module):
        self.module = module

    def systemctl(self, *arguments, timeout=120):
        command = ["timeout", str(int(timeout)), "systemctl", *arguments]
        return self.module.run_command(command, environ_update={"LC_ALL": "C", "SYSTEMD_PAGER": ""})

    def must(self, *arguments, **keywords):
        code, _, err = self.systemctl(*arguments, **keywords)
        if code != 0:
            raise Trouble(
                f"systemctl {' '.join(arguments)} failed: {err.strip()}", "mend what it says and run this again"
            )

    def show(self, names):
        if not names:
            return {}
        _, out, _ = self.systemctl("show", "-p", PROPERTIES, *[en.unit_of(name) for name in names])
        return en.parse_show(out)

    def journal(self, name, since):
        command = [
            "journalctl",
            "--no-pager",
            "-q",
            "-o",
            "cat",
            "-n",
            "2000",
            "-u",
            en.unit_of(name),
            "--since",
            f"@{since}",
        ]
        _, out, _ = self.module.run_command(command, environ_update={"LC_ALL": "C"}, errors="replace")
        return out

    def verify(self, unit, files, places):
        """Let systemd read the unit as it would be for each engine, before it is installed."""
        with tempfile.TemporaryDirectory(prefix="vllm-fleet-verify-") as folder:
            paths = []
            for item in files:
                drop_in = next(file for file in item.files if file.path.endswith("50-plan.conf"))
                name = en.unit_of(item.name)
                # What is not on the disk yet, or is only there for the service user, is no fault of the unit.
                stand_in = {f"{places.engines}/%i/runtime/bin/python": "/bin/true",
                            f"{places.engines}/{item.name}/runtime/bin/python": "/bin/true"}  # fmt: skip
                texts = {name: unit, os.path.join(name + ".d", "50-plan.conf"): drop_in.text}
                os.mkdir(os.path.join(folder, name + ".d"))
                for path, text in texts.items():
                    for real, other in stand_in.items():
                        text = text.replace(real, other)
                    write_text(os.path.join(folder, path), text, 0o644)
                paths.append(os.path.join(folder, name))
            if not paths:
                return
            _, out, err = self.module.run_command(
                ["timeout", "60", "systemd-analyze", "--man=no", "verify", *paths], environ_update={"LC_ALL": "C"}
            )
        complaints = en.real_complaints(out + err)
        if complaints:
            raise Trouble("systemd refuses the unit: " + "; ".join(complaints[:5]), "correct what the plan gives it")


def is_running(shown, name):
    unit = shown.get(en.unit_of(name), {})
    return unit.get("ActiveState") == "active" and unit.get("SubState") == "running"


def entry(title, before, after):
    return {"before_header": title, "after_header": title, "before": before, "after": after}


def configured(module, host, places):
    options = module.params
    for wanted in ("api_key", "unit", "ready_script"):
        if options["engines"] and not options[wanted]:
            raise Trouble(f"{wanted} is empty, and this host has engines", f"give {wanted}")
    limits = en.Limits(options["restart_seconds"], options["restart_limit"])
    en.check_together(options["engines"])
    planned = [en.files_of(engine, options["api_key"], limits, places) for engine in options["engines"]]
    names = [item.name for item in planned]
    gone = sorted(en.found_on_host(places) - set(names))

    common = []
    if planned or gone:
        template = os.path.join(places.units, "vllm-engine@.service")
        common = [en.File(template, options["unit"], 0o644), en.File(places.ready, options["ready_script"], 0o644)]
    changed_files = [file for file in [*common, *(file for item in planned for file in item.files)] if en.differs(file)]
    changed_links = [item for item in planned if en.runtime_differs(item)]
    shown = host.show([*names, *gone]) if names or gone else {}
    disabled = [name for name in names if shown.get(en.unit_of(name), {}).get("UnitFileState") != "enabled"]
    digests = {item.name: item.digest(options["unit"]) for item in planned}
    applied = {item.name: (read_json(item.applied) or {}).get("digest") for item in planned}
    restart = [name for name in names if applied[name] != digests[name] or not is_running(shown, name)]
    no_user = bool(planned) and accounts.find(options["user"]) is None

    diff = [
        entry(file.path, en.shown(file, read_text(file.path)), en.shown(file, file.text))
        for file in changed_files
        if read_text(file.path) != file.text
    ]
    before, after = [], []
    for file in changed_files:
        if read_text(file.path) == file.text:
            before.append(f"{file.path}: mode {mode_of(file.path):04o}")
            after.append(f"{file.path}: mode {file.mode:04o}")
    for item in changed_links:
        before.append(f"{item.runtime_link} -> {en.link_target(item.runtime_link) or 'nothing'}")
        after.append(f"{item.runtime_link} -> {item.runtime}")
    if no_user:
        before.append(f"user {options['user']}: absent")
        after.append(f"user {options['user']}: a system user")
    for name in disabled:
        before.append(f"{en.unit_of(name)}: not enabled")
        after.append(f"{en.unit_of(name)}: enabled")
    for name in gone:
        before.append(f"{en.unit_of(name)}: there")
        after.append(f"{en.unit_of(name)}: stopped and removed")
    for name in restart:
        before.append(
            f"{en.unit_of(name)}: {'does not run' if not is_running(shown, name) else 'runs with older files'}"
        )
        after.append(f"{en.unit_of(name)}: to be restarted")
    if before or after:
        diff.append(entry("state", "\n".join(before) + "\n", "\n".join(after) + "\n"))

    result = {"changed": bool(diff), "diff": diff, "restart": restart, "removed": gone}
    if module.check_mode or not diff:
        return result

    unit_files = [file for file in changed_files if file.path.startswith(places.units)]
    if planned and unit_files:
        host.verify(options["unit"], planned, places)
    accounts.ensure(options["user"])
    for name in gone:
        remove(host, name, places)
    for file in changed_files:
        make_folders(os.path.dirname(file.path))
        write_text(file.path, file.text, file.mode)
    for item in changed_links:
        point_link(item.runtime_link, item.runtime)
    for item in planned:
        # Written here, marked as applied once the engine has come up with it.
        if applied[item.name] != digests[item.name]:
            write_json(item.applied + ".next", {"digest": digests[item.name]}, 0o600)
    if unit_files or gone:
        host.must("daemon-reload")
    if disabled:
        host.must("enable", *[en.unit_of(name) for name in disabled])
    return result


def remove(host, name, places):
    unit = en.unit_of(name)
    host.must("disable", "--now", unit, timeout=3900)
    host.systemctl("reset-failed", unit)
    shutil.rmtree(os.path.join(places.units, unit + ".d"), ignore_errors=True)
    shutil.rmtree(os.path.join(places.engines, name), ignore_errors=True)


def ready(module, host, places):
    names = module.params["names"]
    if module.check_mode or not names:
        return {"changed": bool(names), "restart": names, "removed": []}
    units = [en.unit_of(name) for name in names]
    host.systemctl("reset-failed", *units)
    since = int(time.time())
    # Each unit has its own time limits from the plan; this one only ends a systemctl that hangs.
    host.systemctl("restart", *units, timeout=4 * 3600)
    shown = host.show(names)
    failed = []
    for name in names:
        folder = os.path.join(places.engines, name)
        if is_running(shown, name):
            if os.path.exists(os.path.join(folder, ".applied.next")):
                os.replace(os.path.join(folder, ".applied.next"), os.path.join(folder, ".applied"))
            continue
        failed.append(examine(host, name, since, shown.get(en.unit_of(name), {}), folder))
    if failed:
        up = [name for name in names if name not in [item["engine"] for item in failed]]
        # An engine that cannot come up would only take the CPU of those that can.
        stopped = [item["engine"] for item in failed if item["lasting"]]
        if stopped:
            host.systemctl("stop", *[en.unit_of(name) for name in stopped], timeout=600)
        words = [f"engine {item['engine']} did not come up: {item['cause']}. To mend it: {item['remedy']}.\n"
                 + "\n".join("  | " + line for line in item["lines"]) for item in failed]  # fmt: skip
        tail = f"\nStopped until the next run: {', '.join(stopped)}." if stopped else ""
        tail += f"\nCame up: {', '.join(up)}." if up else ""
        module.fail_json(msg="\n".join(words) + tail, failures=failed, restart=names)
    return {"changed": True, "restart": names, "removed": []}


def examine(host, name, since, unit, folder):
    journal = host.journal(name, since)
    secrets = read_text(os.path.join(folder, "secrets")) or ""
    for line in secrets.splitlines():
        value = line.partition("=")[2].strip('"')
        if line.startswith("VLLM_API_KEY=") and value:
            journal = journal.replace(value, "********")
    known = faults.diagnose(journal)
    state = f"{unit.get('ActiveState')}/{unit.get('SubState')}, {unit.get('Result')}, code {unit.get('ExecMainStatus')}"
    return {
        "engine": name,
        "code": known[0].code if known else "ENG-UNKNOWN",
        "cause": known[1] if known else f"its cause is not in the catalogue ({state})",
        "remedy": known[0].remedy if known else f"read its journal: journalctl -u {en.unit_of(name)}",
        "state": state,
        "lasting": known is not None and known[0].lasting,
        "lines": faults.telling_lines(journal, known[0] if known else None),
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["configured", "ready"], "default": "configured"},
            "engines": {"type": "list", "elements": "dict", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "api_key": {"type": "str", "no_log": True},
            "unit": {"type": "str"},
            "ready_script": {"type": "str"},
            "user": {"type": "str", "default": "vllm"},
            "restart_seconds": {"type": "int", "default": 5},
            "restart_limit": {"type": "int", "default": 6},
        },
        supports_check_mode=True,
    )
    places = en.Places()
    try:
        converge = configured if module.params["state"] == "configured" else ready
        module.exit_json(**converge(module, Host(module), places))
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))


if __name__ == "__main__":
    main()
