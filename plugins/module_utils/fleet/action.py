"""What the controller's action plugins share: reading task variables, and turning problems into a task's result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .facts import HostFacts, steady_speed
from .from_ansible import read_inventory, to_plain
from .host_rules import age_text
from .inventory import Inventory
from .problems import Problem, as_json, errors, headline, problem, shorten
from .state import age_of, fault_of, read_facts, state_root, utc_now, write_facts, write_json


def read(task_vars: Mapping[str, Any]) -> Inventory:
    """The inventory of the run: all its hosts, also those outside ``--limit``."""
    hostvars, groups = task_vars["hostvars"], task_vars["groups"]
    views: dict[str, Mapping[str, Any]] = {}

    def raw(host: str) -> Mapping[str, Any]:
        variables: Mapping[str, Any] = hostvars.raw_get(host)
        return variables

    def resolve(host: str, name: str) -> Any:
        if host not in views:
            views[host] = hostvars[host]
        return views[host][name]

    hosts = [str(h) for h in groups["all"]]
    members = {g: [str(h) for h in hosts_] for g, hosts_ in groups.items()}
    return read_inventory(hosts, members, raw, resolve, task_vars.get("ansible_inventory_sources") or ())


def root_of(task_vars: Mapping[str, Any], override: Any = None) -> Path:
    """The state directory of the run."""
    return state_root(task_vars.get("ansible_inventory_sources") or (), str(override) if override else None)


def state_problem(directory: Any, error: OSError) -> Problem:
    """The state of the fleet cannot be read or written."""
    return problem(
        "INV-020", "fleet_state_dir", str(directory), directory=shorten(str(directory)), fault=fault_of(error)
    )


def write_report(path: Any, data: Any) -> list[Problem]:
    """Write what a user wants as a file; a problem where that cannot be done. What was found is told all the same."""
    try:
        write_json(Path(str(path)), data)
    except (OSError, ValueError) as error:
        return [problem("INV-021", "report", str(path), fault=fault_of(error))]
    return []


def facts_in_run(task_vars: Mapping[str, Any], host: str) -> dict[str, Any] | None:
    """What ``fleet_discover`` found on a host in this run."""
    facts = task_vars["hostvars"].raw_get(host).get("ansible_facts") or {}
    found = facts.get("fleet")
    return to_plain(found) if found and isinstance(found, Mapping) else None


SPEED = "disk_read_bytes_per_second"


def known_facts(
    task_vars: Mapping[str, Any], hosts: Iterable[str], root: Path, keep: bool
) -> tuple[dict[str, HostFacts], dict[str, int]]:
    """Facts of this run, which are recorded with ``keep``, and of hosts that were not asked recorded ones, with their
    age in seconds."""
    facts: dict[str, HostFacts] = {}
    ages: dict[str, int] = {}
    for host in hosts:
        found = facts_in_run(task_vars, host)
        recorded = read_facts(root, host)
        if found is not None:
            found.setdefault("discovered_at", utc_now())
            before = recorded["facts"].get(SPEED) if recorded else None
            found[SPEED] = steady_speed(before, found.get(SPEED))
            facts[host] = HostFacts.of(found, age_of(found["discovered_at"]))
            if keep:
                write_facts(root, host, found)
            continue
        if recorded is not None:
            ages[host] = age_of(recorded["discovered_at"])
            facts[host] = HostFacts.of(recorded["facts"], ages[host])
    return facts, ages


def not_asked(ages: Mapping[str, int], number: int) -> str:
    """That of so many hosts some were not asked in this run, and how old the oldest of their facts are."""
    oldest = max(ages, key=lambda host: (ages[host], host))
    return (
        f"Not asked in this run: {len(ages)} of {number} hosts. Their recorded facts are up to"
        f" {age_text(ages[oldest])} old ({oldest})."
    )


def failed(problems: list[Problem], strict: bool = False) -> dict[str, Any]:
    """The result of a task that found problems: failed where one is an error, or with ``strict`` where there is one.

    Ansible prints ``msg`` of a failed task twice and every other key once, so the problems are in ``problems`` only.
    """
    result: dict[str, Any] = {"changed": False, "problems": as_json(problems)}
    if errors(problems) or (strict and problems):
        return result | {"failed": True, "msg": headline(problems)}
    if problems:
        result["warnings"] = [f"{p.code} {p.path}: {p.rule}. Remedy: {p.remedy}" for p in problems]
    return result
