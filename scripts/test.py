"""Runs the stages of the tests, shows each with its elapsed time, and says at the end what passed and what did not.

Stages go on after a failure, so that one run shows everything; the exit code is 1 when any of them failed. The output
of each step goes to a log whose last lines are shown on failure.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache" / "test-logs"
#: Steps that run at the same time: those of lint only read. Molecule and integration share the machine's network.
AT_ONCE = {"lint": 2}
BUDGET_MINUTES = {"lint": 2.5, "unit": 2.5, "molecule": 20, "integration": 15}
KINDS = ("ubuntu", "openeuler", "kylin-v10")
# The CPU engine's wheels need glibc 2.34 and a system CPython 3.11: neither exists on Kylin V10.
NOT_ON = {"vllm_engine": {"kylin-v10"}, "vllm_runtime": {"kylin-v10"}}


@dataclass
class Step:
    """One command of a stage. `limit` is its wall-clock limit in seconds."""

    stage: str
    name: str
    command: list[str]
    limit: int
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    stage: str
    name: str
    passed: bool
    seconds: float
    cause: str = ""


def scenarios() -> list[str]:
    return sorted(p.parent.name for p in ROOT.glob("molecule/*/molecule.yml"))


def roles() -> list[str]:
    return sorted(p.name for p in (ROOT / "roles").iterdir() if (p / "tasks" / "main.yml").exists())


def steps(stage: str, matrix: str) -> list[Step]:
    py = sys.executable
    if stage == "lint":
        return [
            Step(stage, "ruff", ["ruff", "check", "."], 120),
            Step(stage, "ruff format", ["ruff", "format", "--check", "."], 120),
            Step(stage, "mypy", ["mypy"], 240),
            Step(stage, "ansible-lint", ["ansible-lint", "--offline", "-q"], 600),
            Step(stage, "playbook syntax", ["ansible-playbook", "--syntax-check", "site.yml"], 120),
        ]
    if stage == "unit":
        # Two at a time: most of the time goes into runs of Ansible. What is left when one is done is shared.
        command = [py, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "tests/unit"]
        return [Step(stage, "pytest", command, 600)]
    if stage == "integration":
        return [Step(stage, "pytest", [py, "-m", "pytest", "-v", "--timeout=900", "tests/integration"], 2400)]
    found = []
    for name in scenarios():
        kinds = [k for k in KINDS if k not in NOT_ON.get(name, set())] if matrix == "full" else [""]
        for kind in kinds:
            env = {"SANDBOX_KIND": kind} if kind else {}
            title = f"{name} on {kind}" if kind else name
            found.append(Step(stage, title, ["molecule", "test", "-s", name], 900, env))
    return found


def run(step: Step, log: Path) -> Outcome:
    started = time.monotonic()
    env = os.environ | {"ANSIBLE_FORCE_COLOR": "0", "NO_COLOR": "1"} | step.environment
    with log.open("wb") as out:
        # A session of its own, so that what is left of a step that ran past its limit can be ended as a whole.
        process = subprocess.Popen(
            step.command, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            code, cause = process.wait(timeout=step.limit), ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, cause = process.wait(), f"ran past its limit of {step.limit} s"
    if code and not cause:
        cause = f"exit code {code}"
    return Outcome(step.stage, step.name, code == 0, round(time.monotonic() - started, 1), cause)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3d}:{int(seconds) % 60:02d}"


def tail(log: Path, lines: int) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def uncovered_roles() -> list[str]:
    """Roles without a molecule scenario: a new role without tests must not pass unnoticed."""
    return [role for role in roles() if role not in scenarios()]


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def run_and_tell(begin: float, step: Step) -> Outcome:
    """Run a step, and say when it begins and how it ends."""
    label = f"{step.stage}: {step.name}"
    print(f"[{clock(time.monotonic() - begin)}] {label} ...", flush=True)
    log = LOGS / f"{step.stage}-{step.name.replace(' ', '-')}.log"
    outcome = run(step, log)
    if outcome.passed:
        said = f"passed in {outcome.seconds:.0f} s {tail(log, 1) if step.stage in ('unit', 'integration') else ''}"
    else:
        said = f"FAILED, {outcome.cause}; whole log: {log}"
        print(tail(log, 120))
    print(f"[{clock(time.monotonic() - begin)}] {label}: {said.rstrip()}", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+", choices=list(BUDGET_MINUTES))
    parser.add_argument("--matrix", choices=["paired", "full"], default="paired")
    parser.add_argument("--report", type=Path, help="write the result as JSON")
    options = parser.parse_args()

    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    for stage in options.stages:
        stage_begin = time.monotonic()
        if stage == "molecule" and (missing := uncovered_roles()):
            outcomes.append(Outcome(stage, "coverage", False, 0, f"no scenario for: {', '.join(missing)}"))
        with ThreadPoolExecutor(AT_ONCE.get(stage, 1)) as pool:
            outcomes += pool.map(partial(run_and_tell, begin), steps(stage, options.matrix))
        took = (time.monotonic() - stage_begin) / 60
        if options.matrix == "paired" and took > BUDGET_MINUTES[stage]:
            print(f"note: {stage} took {took:.1f} minutes; its budget on 2 cores is {BUDGET_MINUTES[stage]:g}")

    print("\nstage        step                               result    seconds")
    for o in outcomes:
        print(f"{o.stage:12} {o.name:34} {'passed' if o.passed else 'FAILED':8} {o.seconds:8.0f}  {o.cause}")
    if options.report:
        report = {
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain") else ""),
            "matrix": options.matrix,
            "not_applicable": {role: sorted(kinds) for role, kinds in NOT_ON.items()},
            "steps": [asdict(o) for o in outcomes],
        }
        options.report.write_text(json.dumps(report, indent=1) + "\n")
    failed = sum(not o.passed for o in outcomes)
    print(f"\ntotal time {clock(time.monotonic() - begin)}")
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
