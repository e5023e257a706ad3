"""What the operator sees: stages with elapsed time, and failures that name cause and remedy."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_START = time.monotonic()
_LOCK = threading.Lock()


def stage(text: str) -> None:
    with _LOCK:
        print(f"[{time.monotonic() - _START:6.1f} s] {text}", flush=True)


@contextmanager
def ticking(text: str, detail: Callable[[], str], every: float = 10.0) -> Iterator[None]:
    """Say how far a long step is, so that nobody takes it for a hang."""
    done = threading.Event()
    begin = time.monotonic()

    def tick() -> None:
        while not done.wait(every):
            extra = detail()
            stage(f"{text}: still at it after {time.monotonic() - begin:.0f} s{', ' + extra if extra else ''}")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass(frozen=True)
class Problem:
    where: str
    value: str
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}\n    value:  {self.value}\n    rule:   {self.rule}\n    remedy: {self.remedy}"


class SandboxError(Exception):
    """One or more problems, all that could be found at once."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


def fail(where: str, value: object, rule: str, remedy: str) -> SandboxError:
    return SandboxError([Problem(where, str(value), rule, remedy)])


def print_error(error: SandboxError) -> None:
    for problem in error.problems:
        print(f"error: {problem}", file=sys.stderr)
