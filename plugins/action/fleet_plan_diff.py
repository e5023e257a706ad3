"""A plan that is only shown: what a run would change, and what another version of vLLM would mean. Writes no plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

sys.path.append(str(Path(__file__).resolve().parents[1] / "module_utils"))

from fleet.action import (  # the core is no Ansible package on the controller
    facts_in_run,
    failed,
    known_facts,
    not_asked,
    read,
    root_of,
    state_problem,
    write_report,
)
from fleet.facts import HostFacts
from fleet.inventory import Inventory
from fleet.plan import Plan
from fleet.plan_diff import counts, difference, lines, listed, rollout
from fleet.planner import plan
from fleet.problems import Problem, as_json, hints
from fleet.state import read_converged
from fleet.upgrade_preview import metrics_of, pin_names, table, upgrades, what_if, without_plan
from fleet.version_plan import load_locks
from fleet.version_sets.matrix import load_matrix
from fleet.views import table as plan_table


class ActionModule(ActionBase):
    """Touches no host. What was discovered is recorded, except in a check and for a preview."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"preview", "report"})

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """``preview``: keys of ``fleet_versions`` to try, and ``rules``: a file that has names of metrics, or a list of
        them. ``report``: a file to write everything to as JSON. Returns lines for people.
        """
        super().run(tmp, task_vars)
        variables = task_vars or {}
        pins, metrics = _wanted(self._task.args.get("preview") or {})
        inventory = read(variables)
        override = inventory.variables.get("fleet_state_dir")
        try:
            root = root_of(variables, override)
            facts, ages = known_facts(variables, inventory.hosts, root, keep=not self._task.check_mode and not pins)
        except OSError as error:
            return failed([state_problem(override, error)])
        made = plan(inventory, facts, load_matrix(), load_locks())
        report = self._task.args.get("report")
        if isinstance(made, list):
            if report:
                made += write_report(report, {"valid": False, "problems": as_json(made)})
            return failed(made)
        after, before = made.as_dict(), read_converged(root)
        running = {host: found for host in inventory.hosts if (found := facts_in_run(variables, host)) is not None}
        everything = difference(before, after, running)
        reached = set(map(str, variables["ansible_play_hosts_all"]))
        changes = [c for c in everything if c.host in reached or c.action == "leaves"]
        others = sorted({c.host for c in everything if c.by_run} - {c.host for c in changes})
        automatic = upgrades(before, after, facts, metrics)
        tried = _preview(inventory, pins, made, facts, metrics) if pins else None
        if report:
            data = after | {
                "valid": True,
                "changes": [c.as_dict() for c in changes],
                "upgrades": [u.as_dict() for u in automatic],
                "preview": tried["report"] if tried else None,
                "problems": as_json(made.warnings),
            }
            if unwritten := write_report(report, data):
                return failed([*made.warnings, *unwritten])
        summary = [counts(changes), *rollout(after, changes, running)]
        if others:
            summary.append(f"left out by --limit: changes on {listed(others)}")
        if ages:
            summary.append(f"{not_asked(ages, len(inventory.hosts))} What they run is taken from the record.")
        return {
            "changed": False,
            "plan_hash": made.plan_hash,
            "table": plan_table(after),
            "changes": summary + lines(changes),
            "upgrades": table(automatic),
            "preview": tried["lines"] if tried else [],
            "watch": _worded(made.warnings),
        }


def _worded(problems: Any) -> list[str]:
    return [f"{p.code} {p.path}: {p.rule}. Remedy: {p.remedy}" for p in problems]


def _wanted(given: Any) -> tuple[dict[str, Any], list[str]]:
    """The pins and the metric names that an operator asks about."""
    if not isinstance(given, Mapping):
        raise AnsibleActionFail("""preview is a mapping, as in -e '{"preview": {"vllm": "0.33.0"}}'""")
    names = (*pin_names(), "rules")
    for key in given:
        if key not in names:
            raise AnsibleActionFail(f"preview has no key {key}: {hints(str(key), names)['hint']}")
    rules = given.get("rules") or []
    if isinstance(rules, str):
        try:
            rules = metrics_of(Path(rules).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise AnsibleActionFail(f"the rules of preview cannot be read: {error}") from None
    return {str(k): v for k, v in given.items() if k != "rules"}, [str(name) for name in rules]


def _preview(
    inventory: Inventory, pins: dict[str, Any], made: Plan, facts: dict[str, HostFacts], metrics: list[str]
) -> dict[str, Any]:
    """The plan with other versions, against the one without."""
    base = made.as_dict()
    engines = [host for host, item in base["hosts"].items() if item["engines"]]
    changed, taken, refused = what_if(inventory, pins, engines, facts, load_matrix())
    other = plan(changed, facts, load_matrix(), load_locks()) if taken else made
    words = ", ".join(f"{key} {value}" for key, value in pins.items())
    text = [f"preview of {words} on {listed(taken) or 'no host'}"]
    backends: dict[str, list[str]] = {}
    for host, backend in refused.items():
        backends.setdefault(backend, []).append(host)
    text += [f"{backend} cannot have it and stays as it is: {listed(hosts)}" for backend, hosts in backends.items()]
    if isinstance(other, Plan):
        found = upgrades(base, other.as_dict(), facts, metrics)
        moves = difference(base, other.as_dict())
        problems: list[Problem] = [p for p in other.warnings if p not in made.warnings]
        text.append(counts(moves))
    else:
        exact = str(pins.get("vllm", ""))
        found = without_plan(base, taken, exact, facts, metrics) if exact[:1].isdigit() else []
        moves, problems = [], other
        text.append("there is no plan with it")
    text += table(found) + _worded(problems)
    return {
        "lines": text,
        "report": {
            "versions": pins,
            "hosts": taken,
            "cannot": refused,
            "valid": isinstance(other, Plan),
            "upgrades": [u.as_dict() for u in found],
            "changes": [c.as_dict() for c in moves],
            "problems": as_json(problems),
        },
    }
