"""Run vendors' tools so that none can hold discovery up.

A tool of a driver that is stuck hangs in the kernel: it answers no signal, not even SIGKILL, and whoever waits for it
hangs too. So every wait here has a limit, and a child that does not die is left behind.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import NamedTuple

from .host import Host

#: For one call. ``nvidia-smi`` takes many seconds on eight cards without persistence mode, as it starts each of them.
CALL_SECONDS = 20.0
#: For all calls on one host.
TOTAL_SECONDS = 40.0
#: More than this no tool prints for good reason.
MOST_BYTES = 4 << 20
#: How long a killed child may take to be gone.
DEATH_SECONDS = 0.5
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: Libraries that a vendor's tool needs and that a shell without a login does not name. For this tool alone: they may
#: hide the system's.
LIBRARIES = {
    "npu-smi": (
        "/usr/local/Ascend/driver/lib64/common",
        "/usr/local/Ascend/driver/lib64/driver",
        "/usr/local/Ascend/driver/lib64",
    ),
    "hy-smi": ("/opt/hyhal/lib", "/usr/local/hyhal/lib"),
}


class Answer(NamedTuple):
    """What a tool printed (both streams), its exit code, and what kept it from answering; ``""`` if it did answer."""

    text: str
    code: int | None
    fault: str

    @property
    def good(self) -> bool:
        """Whether it answered and calls itself successful."""
        return not self.fault and self.code == 0


def run(command: list[str], seconds: float, environment: dict[str, str] | None = None) -> Answer:
    """Run a command for at most ``seconds``; what it printed until then is kept."""
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
            cwd="/",
        )
    except OSError as error:
        return Answer("", None, f"cannot be started: {error.strerror or error}")
    pipe = process.stdout
    assert pipe is not None
    text, ended = _read(process, pipe.fileno(), deadline)
    while ended and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    fault = ""
    if process.poll() is None:
        fault = f"no answer in {seconds:g} s" if len(text) < MOST_BYTES else f"printed more than {MOST_BYTES} bytes"
        if not _kill(process):
            fault += ", and it cannot be killed"
    pipe.close()
    return Answer(text.decode("utf-8", "replace"), process.returncode if not fault else None, fault)


def _read(process: subprocess.Popen[bytes], fd: int, deadline: float) -> tuple[bytes, bool]:
    """What came until the end of the output or of the process, whichever is first, and whether it came in time.

    A tool may leave a child behind that keeps the pipe open: the end of the tool itself is enough.
    """
    os.set_blocking(fd, False)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    data = b""
    while time.monotonic() < deadline and len(data) < MOST_BYTES:
        gone = process.poll() is not None
        ready = poll.poll(0 if gone else max(1, min(100, int((deadline - time.monotonic()) * 1000))))
        if ready:
            try:
                part = os.read(fd, 1 << 16)
            except BlockingIOError:
                continue
            if not part:
                return data, True
            data += part
        elif gone:
            return data, True
    return data, False


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill the process and all it started; False if it is still there after a moment."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    limit = time.monotonic() + DEATH_SECONDS
    while process.poll() is None:
        if time.monotonic() > limit:
            return False
        time.sleep(0.005)
    return True


class Tools:
    """The tools of one host, within one total time. What goes wrong is noted as a finding of the host."""

    def __init__(self, host: Host, call_seconds: float = CALL_SECONDS, total_seconds: float = TOTAL_SECONDS) -> None:
        self.host = host
        self.call_seconds = call_seconds
        self.deadline = time.monotonic() + total_seconds
        self._hung: set[str] = set()
        path = os.environ.get("PATH", "") if host.root == "/" else ""
        self._folders = [*(folder for folder in path.split(":") if folder.startswith("/")), *FOLDERS]

    def find(self, name: str, *folders: str) -> str | None:
        """The tool's path on PATH, in the usual folders or in ``folders``."""
        for folder in [*self._folders, *folders]:
            path = self.host.path(folder + "/" + name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None

    def ask(self, tool: str, *arguments: str, quiet: bool = False, seconds: float | None = None) -> Answer:
        """Run a tool. A tool that hung once is not run again. Failures are noted unless ``quiet``; hangs always."""
        name = os.path.basename(tool)
        left = self.deadline - time.monotonic()
        if name in self._hung:
            return Answer("", None, "it hung before")
        if left <= 0:
            self.note(name, "not run: the time for all tools of this host is used up", *arguments)
            return Answer("", None, "no time left")
        answer = run([tool, *arguments], min(seconds or self.call_seconds, left), self._environment(name))
        if answer.fault:
            self._hung.add(name)
            self.note(name, answer.fault, *arguments)
        elif answer.code and not quiet:
            self.note(name, f"exit {answer.code}: {first_lines(answer.text)}", *arguments)
        return answer

    def _environment(self, name: str) -> dict[str, str]:
        environment = {**os.environ, "LC_ALL": "C", "PATH": ":".join(self._folders)}
        own = [self.host.path(folder) for folder in LIBRARIES.get(name, ()) if self.host.exists(folder)]
        if own:
            environment["LD_LIBRARY_PATH"] = ":".join([*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), *own])
        return environment

    def note(self, tool: str, text: str, *arguments: str) -> None:
        """A finding about a tool."""
        words = " ".join([tool, *(argument for argument in arguments if len(argument) < 40)])
        self.host.findings.append(f"{words}: {text}")


def first_lines(text: str) -> str:
    """The beginning of an output, for a finding."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:3])[:300] or "no output"
