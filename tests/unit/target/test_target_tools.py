"""Tools that hang, print without end or leave children behind must not hold discovery up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fleet.target import tools as t
from fleet.target.host import Host
from fleet.target.tools import Tools
from vendor_trees import install


def script(root: Path, text: str, name: str = "tool") -> str:
    path = root / "usr/bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    answer = t.run([script(tmp_path, "echo out; echo err >&2; exit 3")], 10)
    assert (sorted(answer.text.split()), answer.code, answer.fault, answer.good) == (["err", "out"], 3, "", False)


def test_more_output_than_a_pipe_holds(tmp_path: Path) -> None:
    answer = t.run([script(tmp_path, "head -c 300000 /dev/zero | tr '\\0' x")], 10)
    assert (len(answer.text), answer.good) == (300000, True)


def test_a_tool_that_hangs_is_killed_with_its_children_and_keeps_what_it_said(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tool = script(tmp_path, f"trap '' TERM INT HUP\necho begun\nsleep 300 &\necho $$ $! > {pids}\nwait")
    start = time.monotonic()
    answer = t.run([tool], 0.5)
    assert time.monotonic() - start < 2
    assert (answer.text, answer.code, answer.fault) == ("begun\n", None, "no answer in 0.5 s")
    time.sleep(0.2)
    assert not [pid for pid in pids.read_text().split() if alive(int(pid))]


def test_a_child_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    start = time.monotonic()
    answer = t.run([script(tmp_path, "sleep 3 &\necho done")], 10)
    assert time.monotonic() - start < 2
    assert (answer.text, answer.good) == ("done\n", True)


def test_a_process_that_cannot_be_killed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waits in the kernel for a dead driver: the signal changes nothing."""
    killed = []
    monkeypatch.setattr(t.os, "killpg", lambda pid, _signal: killed.append(pid))
    monkeypatch.setattr(t, "DEATH_SECONDS", 0.2)
    start = time.monotonic()
    answer = t.run([script(tmp_path, "sleep 300")], 0.3)
    assert time.monotonic() - start < 2
    assert answer.fault == "no answer in 0.3 s, and it cannot be killed"
    monkeypatch.undo()
    os.killpg(killed[0], 9)


def test_endless_output_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(t, "MOST_BYTES", 100_000)
    answer = t.run([script(tmp_path, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done")], 20)
    assert answer.fault == "printed more than 100000 bytes"


def test_what_cannot_be_started_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "tool"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    assert t.run([str(path)], 5).fault.startswith("cannot be started: ")


def test_a_tool_that_hung_is_not_asked_again(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    tools = Tools(host, call_seconds=0.3)
    tool = script(tmp_path, "sleep 300")
    tools.ask(tool, "info")
    start = time.monotonic()
    assert tools.ask(tool, "again").fault == "it hung before"
    assert time.monotonic() - start < 0.1
    assert host.findings == ["tool info: no answer in 0.3 s"]


def test_all_tools_share_one_time(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    tools = Tools(host, call_seconds=20, total_seconds=0.3)
    start = time.monotonic()
    tools.ask(script(tmp_path, "sleep 300", "one"))
    tools.ask(script(tmp_path, "sleep 300", "two"))
    assert time.monotonic() - start < 2
    assert host.findings[1] == "two: not run: the time for all tools of this host is used up"


def test_a_failure_is_a_finding_with_what_was_said(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    tool = script(tmp_path, "echo first; echo; echo second >&2; exit 7")
    Tools(host).ask(tool, "-x")
    Tools(host).ask(tool, "-y", quiet=True)
    assert host.findings == ["tool -x: exit 7: first; second"]


def test_tools_are_found_in_the_tree_and_not_on_this_machine(tmp_path: Path) -> None:
    tools = Tools(Host(str(tmp_path)))
    assert tools.find("sh") is None
    install(tmp_path, "hy-smi", folder="/opt/hyhal/bin")
    assert tools.find("hy-smi") is None
    assert tools.find("hy-smi", "/opt/hyhal/bin") == str(tmp_path / "opt/hyhal/bin/hy-smi")


def test_libraries_of_a_vendor_are_for_its_tool_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "opt/hyhal/lib").mkdir(parents=True)
    tools = Tools(Host(str(tmp_path)))
    said = [tools.ask(script(tmp_path, 'echo "$LD_LIBRARY_PATH"', name)).text for name in ("hy-smi", "docker")]
    assert said == [f"{tmp_path}/opt/hyhal/lib\n", "\n"]


def test_the_emulators_hang_as_real_tools_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "npu-smi", "hang")
    start = time.monotonic()
    answer = t.run([str(tmp_path / "usr/local/bin/npu-smi"), "info"], 0.6)
    assert answer.fault == "no answer in 0.6 s"
    assert time.monotonic() - start < 2
