"""The one setting of the machine that many hosts need raised, for as long as they run."""

from __future__ import annotations

import json
from pathlib import Path

from sandbox.paths import STATE
from sandbox.report import stage
from sandbox.system import read_json, remove, write_atomic

_FILE = Path("/proc/sys/fs/inotify/max_user_instances")
_RECORD = STATE / "inotify.json"
# A booted host holds 8 to 12; the machine's own programs need theirs too.
_EACH, _SPARE = 16, 64


def needed(hosts: int) -> int:
    return _SPARE + _EACH * hosts


def raise_for(hosts: int) -> None:
    current = int(_FILE.read_text(encoding="ascii"))
    if current >= needed(hosts):
        return
    record = read_json(_RECORD) or {"old": current}
    record["new"] = needed(hosts)
    # Recorded first: an interruption may leave a record too many, never a change without one.
    write_atomic(_RECORD, json.dumps(record) + "\n")
    _FILE.write_text(str(record["new"]), encoding="ascii")
    stage(f"machine: fs.inotify.max_user_instances {current} -> {record['new']} while hosts run")


def put_back() -> None:
    record = read_json(_RECORD)
    if record is None:
        return
    current = int(_FILE.read_text(encoding="ascii"))
    # Somebody else's later change is theirs.
    if current == record.get("new"):
        _FILE.write_text(str(record["old"]), encoding="ascii")
        stage(f"machine: fs.inotify.max_user_instances {current} -> {record['old']}")
    remove(_RECORD)
