"""The wheels that engine runtimes are built from, fetched once by their locked hashes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from sandbox import paths
from sandbox.preflight import disk_for
from sandbox.report import stage, ticking
from sandbox.system import fresh, recipe_hash, remove, run, sha256_file

LOCKS = Path(__file__).parent.parent / "roles" / "vllm_runtime" / "files" / "locks"
_NEED = 3 << 29
_REMEDY = (
    "no Python package registry answered, or it lacks this version: check the machine's network, proxy and `pip config "
    "list`; PyTorch's CPU wheels are on its own index or in a directory: set find-links or extra-index-url in pip's "
    "configuration; `--no-wheels` leaves the wheels out"
)


def read_lock(text: str) -> tuple[dict[str, str], int, set[str]]:
    """Head of a lock file, number of pins, and all hashes in it."""
    head = dict(re.findall(r"^# ([a-z]+): (\S+)$", text, re.MULTILINE))
    pins = len(re.findall(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?==\S+", text, re.MULTILINE))
    return head, pins, set(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))


def platform_options(head: dict[str, str]) -> list[str]:
    """pip's options for the Python and C library that the lock is for, whatever runs pip."""
    python = head.get("python", "3.11").replace(".", "")
    machine = head.get("machine", "x86_64")
    newest = int(head.get("glibc", "2.31").split(".")[1])
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    tags += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]
    options = ["--implementation", "cp", "--python-version", python]
    for abi in (f"cp{python}", "abi3", "none"):
        options += ["--abi", abi]
    for tag in tags:
        options += ["--platform", tag]
    return options


def _pip() -> list[str]:
    """A pip of our own: environments made by uv have none."""
    venv = paths.DOWNLOADS / "pip"
    python = venv / "bin/python"
    works = python.exists() and (
        run([python, "-m", "pip", "--version"], limit=60, purpose="pip", check=False).returncode == 0
    )
    if not works:
        remove(venv)
        run([sys.executable, "-m", "venv", venv], limit=120, purpose="environment for pip",
            remedy="install the package python3-venv")  # fmt: skip
    return [str(python), "-m", "pip"]


def ensure() -> None:
    """share/wheels, complete for all lock files."""
    locks = sorted(LOCKS.glob("*.txt")) if LOCKS.is_dir() else []
    if not locks:
        stage("wheels: no lock files, none fetched")
        return
    texts = {file.name: file.read_text(encoding="utf-8") for file in locks}
    mark = recipe_hash(texts, platform_options)
    target = paths.SHARE / "wheels"
    stamp = target / ".recipe"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        stage("wheels: from cache")
        return
    disk_for(paths.CACHE, _NEED, "wheels")
    store = paths.DOWNLOADS / "wheels"
    store.mkdir(parents=True, exist_ok=True)
    pip = _pip()
    wanted: set[str] = set()
    for file in locks:
        head, pins, hashes = read_lock(texts[file.name])
        wanted |= hashes
        stage(f"wheels: fetching {pins} of {file.name}")
        _download(pip, file, head, store)
    with fresh(target) as building:
        building.chmod(0o755)
        size = 0
        for wheel in sorted(store.glob("*.whl")):
            if sha256_file(wheel) in wanted:
                wheel.chmod(0o644)
                os.link(wheel, building / wheel.name)
                size += wheel.stat().st_size
            else:
                # Of a lock that is no more.
                wheel.unlink()
        count = len(list(building.iterdir()))
        (building / ".recipe").write_text(mark, encoding="ascii")
    stage(f"wheels: {count} files, {size / 1e6:.0f} MB in {target}")


def _download(pip: list[str], lock: Path, head: dict[str, str], store: Path) -> None:
    temporary = paths.WORK / "pip"
    temporary.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [
        *pip, "download", "--require-hashes", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--progress-bar=off", *platform_options(head), "--dest", store, "--requirement", lock,
    ]  # fmt: skip
    # pip puts a whole run's files in place at its end; until then they are in its temporary directory.
    environment = {**os.environ, "TMPDIR": str(temporary)}

    def detail() -> str:
        files = [file for place in (store, temporary) for file in place.rglob("*") if file.is_file()]
        total = 0
        for file in files:
            try:
                total += file.stat().st_size
            except FileNotFoundError:
                continue
        return f"{total / 1e6:.0f} MB here"

    with ticking("wheels", detail):
        run(command, limit=3600, purpose=f"wheels of {lock.name}", remedy=_REMEDY, env=environment)
