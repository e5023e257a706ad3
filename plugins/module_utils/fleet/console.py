"""The command ``vllm-fleet``: what playbooks/validate.yml checks, and the files before it, for editors and CI."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import inventory_files
from .inventory_files import Checked, Place, shown
from .problems import Problem, errors, in_order, render

if TYPE_CHECKING:
    from .inventory import Inventory
    from .inventory_load import Vaults

#: What Ansible says of an encrypted value for which it has no password.
CLOSED = re.compile(r"undecryptable|no vault secrets|Attempting to decrypt", re.IGNORECASE)
VALID, INVALID, CANNOT_RUN = 0, 1, 2
USAGE = """Exit status: 0 valid (warnings allowed), 1 errors (with --strict warnings too), 2 could not run.
Encrypted values are checked with the passwords that --vault-password-file, --vault-id, ANSIBLE_VAULT_PASSWORD_FILE or
ansible.cfg names; without one a warning says that they were not checked."""


class CannotRunError(Exception):
    """The command cannot be carried out as it was given."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _validate(options)
    except CannotRunError as error:
        print(f"vllm-fleet: {error}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INVALID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vllm-fleet", description="Check the inventory of a fleet.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "validate",
        help="every problem of an inventory at once, without touching a host",
        description="Check the files of an inventory, and then the inventory, without touching a host.",
        epilog=USAGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    check.add_argument("-i", "--inventory", action="append", default=[], metavar="INVENTORY", help="as for Ansible")
    check.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="without -i: check the whole inventory that each of these files is part of",
    )
    check.add_argument("--format", choices=("text", "lines", "json"), default="text", help="lines: file:line:column: …")
    check.add_argument("--report", type=Path, metavar="FILE", help="write the findings as JSON here too")
    check.add_argument("--strict", action="store_true", help="warnings count as errors")
    check.add_argument("--vault-password-file", action="append", default=[], metavar="FILE", help="as for Ansible")
    check.add_argument("--vault-id", action="append", default=[], metavar="ID@FILE", help="as for Ansible")
    check.add_argument("--offline-vault", action="store_true", help="open no vault, whatever passwords are configured")
    return parser


def _validate(options: argparse.Namespace) -> int:
    inventories = _inventories(options.inventory, options.files)
    found: dict[Problem, Place | None] = {}
    summaries = []
    for sources in inventories:
        checked, summary = check(sources, [*options.vault_id, *options.vault_password_file], not options.offline_vault)
        summaries.append(summary)
        for item in checked.problems:
            found.setdefault(item, checked.places.get(item))
    ordered = in_order(found)
    report = {"problems": [as_dict(p, found[p]) for p in ordered], "valid": not errors(ordered)}
    if options.report is not None:
        from .state import write_json

        try:
            write_json(options.report, report)
        except OSError as error:
            raise CannotRunError(f"the report cannot be written: {error}") from error
    if options.format == "json":
        print(json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False))
    elif options.format == "lines":
        fallback = Place(shown(Path(inventories[0][0])), 1, 1)
        at = {item: found[item] or fallback for item in ordered}
        for item in sorted(ordered, key=lambda p: (at[p].file, at[p].line, at[p].column)):
            print(as_line(item, at[item]))
    elif ordered:
        print(render(ordered, lambda p: str(found[p]) if found.get(p) else None))
    else:
        print("\n".join(summaries))
    return INVALID if errors(ordered) or (options.strict and ordered) else VALID


def as_dict(item: Problem, place: Place | None) -> dict[str, Any]:
    """A problem as plain data: what the playbook's report holds, and the place, empty where nobody can say."""
    where = {"file": place.file, "line": place.line, "column": place.column} if place else {}
    return item.as_dict() | {"file": None, "line": None, "column": None} | where


def as_line(item: Problem, place: Place) -> str:
    """A problem as one line that editors and CI understand."""
    subject = "" if item.path == str(place) else f"{item.path}: "
    value = f" (value: {item.value})" if item.value else ""
    text = f"{place}: {item.severity} {item.code} {subject}{item.rule}{value}. {item.remedy}"
    return " ".join(text.split())


def _inventories(given: list[str], files: list[str]) -> list[list[str]]:
    """The inventories to check, each a list of sources."""
    if given:
        for source in given:
            if not os.path.lexists(source) and "," not in source:
                raise CannotRunError(f"there is no inventory {source}")
        return [given]
    if not files:
        raise CannotRunError("name an inventory with -i, or files of one")
    found: list[list[str]] = []
    for file in files:
        folder = inventory_files.inventory_of(Path(file))
        if folder is not None and [shown(folder)] not in found:
            found.append([shown(folder)])
    if not found:
        raise CannotRunError(f"{files[0]} is not part of an inventory: no directory above it has a hosts file")
    return found


def check(sources: list[str], passwords: Sequence[str] = (), vault: bool = True) -> tuple[Checked, str]:
    """Everything that is wrong with an inventory, and one line about it where nothing is. Raises CannotRunError."""
    checked = inventory_files.check(sources)
    vaults: Vaults | None = None
    if checked.vault and vault:
        vaults = _vaults(passwords)
        if vaults is not None and checked.encrypted:
            checked = inventory_files.check(sources, vaults.decrypt)
    name = ", ".join(shown(Path(s)) for s in sources)
    if not checked.usable:
        checked.add(
            "FILE-027",
            Place(name, 1, 1),
            None,
            what="the rules for hosts, models, services and gateways",
            what_zh="主机、模型、服务与网关的规则",
        )
        return checked, ""
    inventory = _load(sources, checked, vaults)
    if inventory is not None:
        _judge(name, inventory, checked, opened=vaults is not None)
    hosts = len(inventory.hosts) if inventory is not None else 0
    return (
        checked,
        f"{name}: valid, {checked.files} files, {hosts} hosts / 有效，{checked.files} 个文件，{hosts} 台主机",
    )


def _vaults(passwords: Sequence[str]) -> Vaults | None:
    """The passwords for vaults, or None where none is named."""
    from . import inventory_load

    inventory_load.prepare()
    vaults = inventory_load.Vaults(passwords)
    try:
        return vaults if vaults.load() else None
    except ImportError as error:
        raise CannotRunError(_no_ansible(error)) from error
    except inventory_load.PasswordError as error:
        raise CannotRunError(str(error)) from error


def _no_ansible(error: ImportError) -> str:
    return f"Ansible is not installed for {sys.executable} ({error}): run make setup in the checkout"


def _load(sources: list[str], checked: Checked, vaults: Vaults | None) -> Inventory | None:
    from . import inventory_load

    inventory_load.prepare()
    try:
        return inventory_load.load(sources, checked.unread, vaults or inventory_load.Vaults(enabled=False))
    except ImportError as error:
        raise CannotRunError(_no_ansible(error)) from error
    except inventory_load.LoadError as error:
        if isinstance(error.__cause__, ImportError):
            raise CannotRunError(_no_ansible(error.__cause__)) from error
        file = shown(Path(error.file)) if error.file else shown(Path(sources[0]))
        place = Place(file, error.line or 1, error.column or 1)
        checked.add("FILE-026", place, None, reason=error.reason, reason_zh=error.reason)
        return None


def _judge(name: str, inventory: Inventory, checked: Checked, *, opened: bool) -> None:
    """Add the problems of the inventory's rules, without those that only say that a file could not be read."""
    from .planner import validate
    from .version_plan import load_locks
    from .version_sets.matrix import load_matrix

    hidden: set[str] = set()
    checked.members = inventory.groups
    for item in validate(inventory, load_matrix(), load_locks()):
        place = checked.locate(item.path)
        if not opened and item.code == "INV-015" and CLOSED.search(item.rule):
            where = place or Place(name, 1, 1)
            checked.add("FILE-018", where, None, reason="no password was given", reason_zh="未提供密码")
            continue
        missing = _hides(item, inventory, checked)
        if missing is not None:
            hidden.add(missing)
            continue
        checked.problems.append(item)
        if place is not None:
            checked.places.setdefault(item, place)
    # What a rule says better: the long text that it refuses, the empty group that a service or the gateway needs.
    at = {(p.file, p.line) for i, p in checked.places.items() if i.severity == "error"}
    needed = {p.value for p in checked.problems if p.code in ("SVC-002", "GW-002")}
    checked.problems = [p for p in checked.problems if not (p.code == "FILE-024" and p.value in needed)]
    checked.problems = [
        p
        for p in checked.problems
        if p.code != "FILE-011" or (checked.places[p].file, checked.places[p].line) not in at
    ]
    if hidden:
        listed = ", ".join(sorted(hidden))
        checked.add("FILE-027", Place(name, 1, 1), None, what=f"what needs {listed}", what_zh=f"依赖 {listed} 的内容")


def _hides(item: Problem, inventory: Inventory, checked: Checked) -> str | None:
    """The variable without which this problem may be none, because it may stand in a file that was left out."""
    if not checked.unread:
        return None
    unknown = any(names is None for names in checked.unread.values())
    names: set[str] = set().union(*(n for n in checked.unread.values() if n is not None))

    def may(name: str) -> bool:
        return name in names or unknown

    if item.code in ("INV-002", "INV-011") and may(item.path):
        return item.path
    if item.code == "INV-008" and may("ansible_host"):
        return "ansible_host"
    if item.code in ("SVC-003", "SVC-004") and may("fleet_models") and "fleet_models" not in inventory.variables:
        return "fleet_models"
    if item.code == "INV-015":
        return item.path
    return None


if __name__ == "__main__":
    sys.exit(main())
