"""State on the controller: ``.fleet/<inventory name>/`` with plan, slices, what hosts were converged to, facts and run
records. Atomic writes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from errno import ENOENT
from pathlib import Path
from typing import Any

from .plan import Plan
from .problems import shorten

PROJECT = Path(__file__).resolve().parents[3]
#: File stems that say nothing about which inventory it is: the folder's name does.
GENERIC_STEMS = frozenset({"hosts", "inventory", "hosts.yml"})


def inventory_name(sources: Iterable[str]) -> str:
    """A stable short name for the inventory of a run: of a folder its name, of a file its stem or its folder's name."""
    names = []
    for source in sources:
        text = str(source)
        if "," in text:
            names.append("inline")
            continue
        path = Path(text)
        name = (
            path.parent.name
            if path.is_file() and path.stem in GENERIC_STEMS
            else path.stem
            if path.is_file()
            else path.name
        )
        names.append(name or "inventory")
    return "+".join(names) or "none"


def state_root(sources: Iterable[str], override: str | None = None) -> Path:
    """Where the state of an inventory lives; ``override`` is ``fleet_state_dir``.

    Raises OSError where that is no place. A relative one begins at the project: it must not depend on where a command
    is run.
    """
    if not override:
        return PROJECT / ".fleet" / inventory_name(sources)
    try:
        return PROJECT / Path(override).expanduser()
    except RuntimeError as error:  # the home of an account that there is not
        raise OSError(ENOENT, "there is no such home directory", override) from error


def plan_root(root: Path, check: bool) -> Path:
    """Where the plan of a run lives. A check must not replace the plan that the hosts were converged to."""
    return root / "check" if check else root


def utc_now() -> str:
    """Now as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age_of(text: str) -> int:
    """Seconds since a time that ``utc_now`` wrote; 0 for one in the future."""
    then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return max(0, int((datetime.now(UTC) - then).total_seconds()))


def write_json(path: Path, data: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2, sort_keys=True, ensure_ascii=False)
            file.write("\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """The data of a JSON file, or None where there is no such file or it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def read_plan(path: Path) -> dict[str, Any] | None:
    """The plan in a file, or None where there is none, or one that is damaged or of another format."""
    data = read_json(path)
    hosts = data.get("hosts") if isinstance(data, dict) else None
    return data if isinstance(hosts, dict) and all(isinstance(item, dict) for item in hosts.values()) else None


def fault_of(error: OSError | ValueError) -> str:
    """Why a file cannot be read or written, and which: what is in the way may be a part of the path."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.strerror}: {shorten(error.filename)}" if isinstance(error.filename, str) else error.strerror


def write_plan(root: Path, plan: Plan) -> None:
    """Write the plan and one slice a host; slices of hosts that are gone are removed."""
    data = plan.as_dict()
    slices = root / "slices"
    for host, item in data["hosts"].items():
        write_json(slices / f"{host}.json", item)
    for path in slices.glob("*.json"):
        if path.stem not in data["hosts"]:
            path.unlink(missing_ok=True)
    write_json(root / "plan.json", data)


#: Parts of a slice, each of which a stage of a run converges.
PARTS = ("tuning", "runtimes", "models", "engines", "gateway", "vip")


def note_converged(root: Path, host: str, slice_: Mapping[str, Any], parts: Iterable[str]) -> None:
    """Record that a host was converged to these parts of its slice; what is recorded of the others stays."""
    path = root / "converged" / f"{host}.json"
    before = read_json(path)
    noted = before if isinstance(before, dict) else {}
    after = noted | {"host": host, "address": slice_["address"]} | {part: slice_[part] for part in parts}
    if after != before:
        write_json(path, after)


def read_converged(root: Path) -> dict[str, Any] | None:
    """What hosts were converged to, in the shape of a plan; None where no host ever was."""
    found = {
        p.stem: data for p in sorted((root / "converged").glob("*.json")) if isinstance(data := read_json(p), dict)
    }
    return {"hosts": found} if found else None


def forget_converged(root: Path, hosts: Iterable[str]) -> None:
    """Drop the records of all hosts but these."""
    kept = set(hosts)
    for path in (root / "converged").glob("*.json"):
        if path.stem not in kept:
            path.unlink(missing_ok=True)


def write_facts(root: Path, host: str, facts: Mapping[str, Any]) -> None:
    """Record what was discovered on a host, and when."""
    write_json(
        root / "facts" / f"{host}.json",
        {"host": host, "discovered_at": facts.get("discovered_at") or utc_now(), "facts": facts},
    )


def read_facts(root: Path, host: str) -> dict[str, Any] | None:
    """What was recorded of a host: ``host``, ``discovered_at``, ``facts``; None where nothing can be read."""
    data = read_json(root / "facts" / f"{host}.json")
    if not isinstance(data, dict) or not isinstance(data.get("facts"), dict):
        return None
    try:
        age_of(data["discovered_at"])
    except (KeyError, TypeError, ValueError):
        return None
    return data
