"""The record of a run: who did what to the fleet, when, and how it ended. Names of tasks, never their contents."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .state import utc_now, write_json

RUNS = "runs"
#: Actions whose messages may be kept: they are made of the table of problems and show no secret.
OWN_ACTIONS = frozenset({"fleet_validate", "fleet_plan", "fleet_plan_diff"})


def who(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The account that runs this, the one it came from by sudo, and the controller's name."""
    try:
        account = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        account = str(os.getuid())
    return {"user": environment.get("SUDO_USER") or account, "account": account, "controller": socket.gethostname()}


def commit_of(path: Path) -> dict[str, Any]:
    """The git commit that holds ``path`` and whether the path differs from it; empty values outside git."""
    folder = path if path.is_dir() else path.parent
    head = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", str(path.resolve())) if head else None
    return {"commit": head, "dirty": bool(changes) if head else None}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class Record:
    """One run. It is written when the run begins, so that a run that is cut leaves a trace too."""

    def __init__(self, root: Path, playbook: str, sources: Sequence[str], options: Mapping[str, Any]) -> None:
        self.begin = time.monotonic()
        started = utc_now()
        self.name = f"{re.sub(r'[-:]', '', started)}-{Path(playbook).stem}-{secrets.token_hex(3)}.json"
        self.root = root
        self.tasks: dict[str, list[str]] = {}
        self.failures: list[dict[str, Any]] = []
        self.data: dict[str, Any] = {
            "started": started,
            "ended": None,
            "duration_seconds": None,
            "outcome": "running",
            "who": who(),
            "process": os.getpid(),
            "playbook": playbook,
            "inventory": [{"source": s, **commit_of(Path(s))} for s in sources if "," not in s],
            "plan_hash": None,
            **options,
            "hosts": {},
            "changed": self.tasks,
            "failed": self.failures,
        }

    @property
    def path(self) -> Path:
        """Where the record is."""
        return self.root / RUNS / self.name

    def move(self, root: Path) -> None:
        """Continue the record elsewhere: where state lives may be known only after the inventory was read."""
        if root != self.root:
            old = self.path
            self.root = root
            self.write()
            old.unlink(missing_ok=True)
            for folder in (old.parent, old.parent.parent):
                # What this run made for its record; a folder that holds anything else stays.
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def write(self) -> None:
        """Write the record as it stands."""
        write_json(self.path, self.data)

    def changed(self, host: str, task: str) -> None:
        """A task changed something on a host."""
        names = self.tasks.setdefault(host, [])
        if task not in names:
            names.append(task)

    def failed(self, host: str, task: str, action: str, result: Mapping[str, Any], unreachable: bool = False) -> None:
        """A task failed, or the host could not be reached. Messages are kept of the product's own checks only."""
        entry: dict[str, Any] = {"host": host, "task": task, "unreachable": unreachable}
        problems = result.get("problems")
        if action.rpartition(".")[2] in OWN_ACTIONS and isinstance(problems, list):
            entry["problems"] = [{key: p.get(key) for key in ("code", "severity", "path")} for p in problems]
            entry["message"] = str(result.get("msg", ""))
        self.failures.append(entry)

    def end(self, outcome: str, hosts: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Write the last word."""
        self.data |= {
            "ended": utc_now(),
            "duration_seconds": round(time.monotonic() - self.begin, 1),
            "outcome": outcome,
        }
        if hosts is not None:
            self.data["hosts"] = {host: dict(counts) for host, counts in hosts.items()}
        self.write()
