"""Small files of a role, put in place together: compared, validated, then written in one step each."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

from .files import make_folders, mode_of, read_text, write_text
from .trouble import Trouble

HIDDEN = "(secret)\n"


@dataclass(frozen=True)
class Placed:
    """A file as it should be. Without content it should not be there."""

    path: str
    content: str | None
    mode: int = 0o644
    secret: bool = False
    validate: str = ""


def owned_by_us(path: str) -> bool:
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return info.st_uid == os.geteuid() and info.st_gid == os.getegid()


def differs(wanted: Placed) -> bool:
    if wanted.content is None:
        return os.path.lexists(wanted.path)
    if read_text(wanted.path) != wanted.content or os.path.islink(wanted.path):
        return True
    return mode_of(wanted.path) != wanted.mode or not owned_by_us(wanted.path)


def check_validator(wanted: Placed, may_run: bool) -> None:
    """Ask the program that reads the file about the new content, before it has its place."""
    if not wanted.validate or wanted.content is None:
        return
    command = shlex.split(wanted.validate)
    folder = os.path.dirname(wanted.path)
    # In the file's own directory where there is one: relative includes must work for the validator, too.
    with tempfile.TemporaryDirectory(
        dir=folder if os.path.isdir(folder) and may_run else None, prefix=".check-"
    ) as work:
        candidate = os.path.join(work, os.path.basename(wanted.path))
        write_text(candidate, wanted.content, 0o600)
        command = [part.replace("%s", candidate) for part in command]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=60)
        except FileNotFoundError:
            if not may_run:
                return
            raise Trouble(
                f"{wanted.path} cannot be validated: there is no {command[0]}", "install the package that brings it"
            ) from None
        except subprocess.TimeoutExpired:
            raise Trouble(
                f"validating {wanted.path} took more than 60 s", f"run this by hand: {wanted.validate}"
            ) from None
        if answer.returncode != 0:
            said = (answer.stdout + answer.stderr).replace(candidate, wanted.path)
            lines = [line for line in said.strip().splitlines() if line.strip()][-12:]
            raise Trouble(
                f"the new {wanted.path} is not valid, and the old one stays",
                "look at the lines that the validator names. It said:\n" + "\n".join(lines),
            )


def diff_of(wanted: Placed) -> dict[str, Any]:
    before = read_text(wanted.path)
    if wanted.secret:
        texts = ("" if before is None else HIDDEN, "" if wanted.content is None else "(another secret)\n")
    else:
        texts = (before or "", wanted.content or "")
    mode = mode_of(wanted.path)
    head = f"{wanted.path} ({'absent' if mode is None else f'{mode:04o}'})"
    tail = f"{wanted.path} ({'absent' if wanted.content is None else f'{wanted.mode:04o}'})"
    return {"before": texts[0], "after": texts[1], "before_header": head, "after_header": tail}


def converge(wanted: list[Placed], check: bool) -> tuple[list[str], list[dict[str, Any]]]:
    """Paths that differ, and their diffs. Files without a validator come first: those of others may read them."""
    changed = [item for item in wanted if differs(item)]
    diffs = [diff_of(item) for item in changed]
    first = [item for item in changed if not item.validate]
    rest = [item for item in changed if item.validate]
    if check:
        # What a validator needs may itself not be there yet on a bare host: only a host that is set up is asked.
        if not any(item.content is not None and not os.path.exists(item.path) for item in wanted):
            for item in rest:
                check_validator(item, may_run=False)
        return [item.path for item in changed], diffs
    for item in first:
        place(item)
    for item in rest:
        check_validator(item, may_run=True)
    for item in rest:
        place(item)
    return [item.path for item in changed], diffs


def place(wanted: Placed) -> None:
    if wanted.content is None:
        os.unlink(wanted.path)
        return
    make_folders(os.path.dirname(wanted.path))
    write_text(wanted.path, wanted.content, wanted.mode)
