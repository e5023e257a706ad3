"""The wheels that engine runtimes are built from, fetched once by their locked hashes."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from sandbox import paths
from sandbox.preflight import disk_for
from sandbox.report import SandboxError, stage, ticking
from sandbox.system import fresh, recipe_hash, remove, run, sha256_file

LOCKS = Path(__file__).parent.parent / "roles" / "vllm_runtime" / "files" / "locks"
_NEED = 3 << 29
_BATCH = 40
_REMEDY = (
    "no Python package registry answered, or it lacks this version: check the machine's network, proxy and `pip config "
    "list`; PyTorch's CPU wheels are on its own index or in a directory: set find-links or extra-index-url in pip's "
    "configuration; `--no-wheels` leaves the wheels out"
)


@dataclass(frozen=True)
class Lock:
    head: dict[str, str]
    # requirement (name==version) -> hashes of its wheels
    pins: dict[str, frozenset[str]]

    def missing(self, present: set[str]) -> dict[str, frozenset[str]]:
        return {pin: hashes for pin, hashes in self.pins.items() if not hashes & present}


def read_lock(text: str) -> Lock:
    head = dict(re.findall(r"^# ([a-z]+): (\S+)$", text, re.MULTILINE))
    pins: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in text.splitlines():
        if match := re.match(r"([A-Za-z0-9][^\s;=]*==[^\s;]+)", line):
            current = pins.setdefault(match[1], set())
        current.update(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return Lock(head, {pin: frozenset(hashes) for pin, hashes in pins.items()})


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
    digests = {sha256_file(wheel): wheel for wheel in store.glob("*.whl")}
    wanted: set[str] = set()
    for name, text in texts.items():
        lock = read_lock(text)
        wanted = wanted.union(*lock.pins.values())
        if missing := lock.missing(set(digests)):
            _download_all(name, lock, missing, store)
            digests = {sha256_file(wheel): wheel for wheel in store.glob("*.whl")}
    with fresh(target) as building:
        building.chmod(0o755)
        size = 0
        for digest, wheel in digests.items():
            if digest in wanted:
                wheel.chmod(0o644)
                os.link(wheel, building / wheel.name)
                size += wheel.stat().st_size
            else:
                # Of a lock that is no more.
                wheel.unlink()
        count = len(list(building.iterdir()))
        (building / ".recipe").write_text(mark, encoding="ascii")
    stage(f"wheels: {count} files, {size / 1e6:.0f} MB in {target}")


def _download_all(name: str, lock: Lock, missing: dict[str, frozenset[str]], store: Path) -> None:
    # pip puts files in place only at the end of a run: several runs keep most of the work of an interrupted one.
    # CPU builds of PyTorch are on no package index but PyTorch's own: pip finds one where it is told to look, else uv.
    for pin in sorted(pin for pin in missing if pin.endswith("+cpu")):
        try:
            _download(name, lock.head, {pin: missing[pin]}, store)
        except SandboxError:
            if not _from_pytorch(pin, lock.head, missing[pin], store):
                raise
    names = sorted(pin for pin in missing if not pin.endswith("+cpu"))
    for begin in range(0, len(names), _BATCH):
        part = names[begin : begin + _BATCH]
        last = begin + len(part)
        stage(f"wheels: fetching {begin + 1} to {last} of {len(names)} of {name}")
        _download(name, lock.head, {pin: missing[pin] for pin in part}, store)


def _from_pytorch(pin: str, head: dict[str, str], hashes: frozenset[str], store: Path) -> bool:
    """Fetch a CPU build of PyTorch, which the package index does not have, from where uv knows that it is.

    True when a wheel with one of the locked hashes is in the store now.
    """
    requirement = paths.WORK / "torch.in"
    requirement.parent.mkdir(parents=True, exist_ok=True)
    requirement.write_text(pin.partition("+")[0] + "\n", encoding="utf-8")
    command: list[str | Path] = [
        *_uv(), "pip", "compile", "--quiet", "--no-deps", "--torch-backend", "cpu", "--format", "pylock.toml",
        "--python-version", head.get("python", "3.11"), requirement,
    ]  # fmt: skip
    found = run(command, limit=120, purpose=f"address of {pin}", check=False)
    url = wheel_url(found.stdout, hashes) if found.returncode == 0 else None
    if url is None:
        return False
    wheel = store / unquote(url.rsplit("/", 1)[1])
    partial = wheel.with_suffix(".partial")
    stage(f"wheels: fetching {wheel.name}")
    with urllib.request.urlopen(url, timeout=60) as source, partial.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    if sha256_file(partial) not in hashes:
        partial.unlink()
        return False
    partial.rename(wheel)
    return True


def wheel_url(pylock: str, hashes: frozenset[str]) -> str | None:
    """The address, in a pylock.toml, of a wheel with one of the hashes."""
    for package in tomllib.loads(pylock).get("packages", []):
        for wheel in package.get("wheels", []):
            if wheel.get("hashes", {}).get("sha256") in hashes:
                return str(wheel["url"])
    return None


def _uv() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    return [str(beside) if beside.exists() else "uv"]


def _download(name: str, head: dict[str, str], pins: dict[str, frozenset[str]], store: Path) -> None:
    temporary = paths.WORK / "pip"
    temporary.mkdir(parents=True, exist_ok=True)
    requirements = temporary / name
    lines = (f"{pin} {' '.join(f'--hash=sha256:{digest}' for digest in sorted(pins[pin]))}\n" for pin in sorted(pins))
    requirements.write_text("".join(lines), encoding="utf-8")
    command: list[str | Path] = [
        *_pip(), "download", "--require-hashes", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--progress-bar=off", *platform_options(head), "--dest", store, "--requirement", requirements,
    ]  # fmt: skip
    # Until the end of the run the files are in pip's temporary directory.
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
        run(command, limit=3600, purpose=f"wheels of {name}", remedy=_REMEDY, env=environment)
