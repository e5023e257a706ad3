"""Runtimes: locked Python environments with vLLM in them, built once, never changed, proved before they are used.

An environment has absolute paths in it, so it is built where it stays; it counts only once its marker file is there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import accounts
from .files import closed_folder, make_folders, read_json, write_json
from .trouble import Trouble

MARKER = ".complete.json"
# What vLLM calls the device of a backend.
DEVICES = {"cpu": "cpu", "nvidia": "cuda", "cuda": "cuda", "dcu": "cuda", "rocm": "cuda", "ascend": "npu"}


@dataclass(frozen=True)
class Lock:
    """A lock file of requirements, and what its head says about the hosts it is for."""

    text: str
    sha256: str
    packages: int
    python: str | None
    machine: str | None
    glibc: str | None
    provides: tuple[str, str] | None


@dataclass(frozen=True)
class Runtime:
    """One runtime that a host should have."""

    id: str
    backend: str
    python: str
    lock: Lock
    builds_here: bool = True


@dataclass(frozen=True)
class Sources:
    """Where wheels come from."""

    find_links: list[str] = field(default_factory=list)
    index_url: str | None = None
    no_index: bool = False


@dataclass(frozen=True)
class Places:
    """Directories of a host; other ones in tests."""

    runtimes: str = "/opt/vllm-fleet/runtimes"
    current: str = "/opt/vllm-fleet/current"
    proofs: str = "/var/lib/vllm-fleet/runtimes"
    engines: str = "/etc/vllm-fleet/engines"
    pythons: str = "/opt/vllm-fleet/python"


def parse_lock(text: str) -> Lock:
    head = dict(re.findall(r"^# (python|machine|glibc|provides): (\S+)$", text, re.MULTILINE))
    pins = re.findall(r"^([A-Za-z0-9][\w.\-]*)==(\S+)", text, re.MULTILINE)
    if not pins:
        raise Trouble("the lock file pins nothing", "renew it with scripts/lock_runtime.py")
    provides = tuple(head["provides"].split("==", 1)) if "==" in head.get("provides", "") else None
    return Lock(
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        packages=len(pins) + (1 if provides else 0),
        python=head.get("python"),
        machine=head.get("machine"),
        glibc=head.get("glibc"),
        provides=(provides[0], provides[1]) if provides else None,
    )


def host_glibc() -> str:
    """The C library's version, or an empty text where it is not glibc."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    except (ValueError, OSError):
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def check_host(runtime: Runtime, machine: str, glibc: str) -> None:
    """Refuse a host that the wheels of the lock cannot run on."""
    lock = runtime.lock
    if lock.machine and lock.machine != machine:
        raise Trouble(
            f"runtime {runtime.id} is for {lock.machine}, and this host is {machine}",
            "plan a version set for this machine type",
        )
    if lock.glibc and (not glibc or _numbers(glibc) < _numbers(lock.glibc)):
        raise Trouble(
            f"runtime {runtime.id} needs glibc {lock.glibc} or newer, and this host has {glibc or 'another C library'}",
            "use a newer release of the operating system, or a version set whose wheels are built for this one",
        )


def missing_libraries(names: list[str]) -> list[str]:
    """Those shared libraries of the system that cannot be loaded here."""
    missing = []
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    return missing


def site_packages(path: str) -> str:
    found = sorted(glob.glob(os.path.join(path, "lib", "python3*", "site-packages")))
    return found[0] if found else os.path.join(path, "lib", "site-packages")


def count_packages(path: str) -> int:
    try:
        return sum(name.endswith(".dist-info") for name in os.listdir(site_packages(path)))
    except FileNotFoundError:
        return 0


def status(runtime: Runtime, places: Places) -> tuple[str, str]:
    """(state, reason) of a runtime on this host: complete, absent, incomplete, or other (complete, of another lock)."""
    path = os.path.join(places.runtimes, runtime.id)
    if not os.path.isdir(path):
        return "absent", "it does not exist"
    marker = read_json(os.path.join(path, MARKER))
    if marker is None:
        return "incomplete", "its build never ended"
    if marker.get("lock_sha256") != runtime.lock.sha256:
        return "other", "it was built from another lock"
    packages = count_packages(path)
    if packages != marker.get("packages"):
        return "incomplete", f"{packages} packages lie in it, {marker.get('packages')} were installed"
    if not os.path.lexists(os.path.join(path, "bin", "python")):
        return "incomplete", "its interpreter is missing"
    return "complete", "its marker matches"


def proved(runtime: Runtime, places: Places) -> bool:
    """Whether this host has imported exactly this runtime with the C library that it has now."""
    proof = read_json(os.path.join(places.proofs, f"{runtime.id}.json")) or {}
    return proof.get("lock_sha256") == runtime.lock.sha256 and proof.get("glibc") == host_glibc()


def users_of(runtime_id: str, places: Places) -> list[str]:
    """The engines of this host that run from a runtime."""
    path = os.path.join(places.runtimes, runtime_id)
    links = glob.glob(os.path.join(places.engines, "*", "runtime"))
    return sorted(
        os.path.basename(os.path.dirname(link)) for link in links if os.path.realpath(link) == os.path.realpath(path)
    )


def refuse_rebuild_in_use(runtime: Runtime, places: Places) -> None:
    engines = users_of(runtime.id, places)
    if engines:
        raise Trouble(
            f"runtime {runtime.id} was built from another lock, and {', '.join(engines)} run from it",
            "give the renewed lock a version set, and so a runtime, of its own; runtimes in use are never changed",
        )


def _run_as(command: list[str], user: str, environment: dict[str, str], timeout: float) -> tuple[int, str, str]:
    """Run a command as the service user with nothing but this environment, as its unit would."""
    account = accounts.find(user)
    identity: dict[str, Any] = {}
    if os.geteuid() == 0 and account is not None:
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=timeout,
            env=environment, cwd="/", stdin=subprocess.DEVNULL, **identity,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer after {timeout:.0f} s"
    except PermissionError as error:
        return 126, "", str(error)
    except OSError as error:
        return 127, "", str(error)
    return answer.returncode, answer.stdout, answer.stderr


def find_python(version: str, given: str | None, user: str, places: Places) -> str:
    """A Python of this version that the service user can start, or a Trouble that says which was refused and why."""
    account = accounts.find(user)
    name = f"python{version}"
    candidates = [given] if given else []
    if not given:
        candidates += [os.path.join(folder, name) for folder in ("/usr/bin", "/usr/local/bin")]
        candidates += sorted(glob.glob(os.path.join(places.pythons, "bin", name)))
        candidates += sorted(glob.glob(os.path.join(places.pythons, "*", "bin", name)))
        candidates += [path for path in [shutil.which(name)] if path]
    refused = []
    for path in candidates:
        if not os.path.exists(path):
            if given:
                refused.append(f"{path}: does not exist")
            continue
        closed = closed_folder(path, account.pw_uid, accounts.groups_of(account)) if account else None
        if closed:
            refused.append(f"{path}: user {user} may not pass {closed}")
            continue
        probe = "import sys, ssl, ctypes; print('%d.%d' % sys.version_info[:2])"
        code, out, err = _run_as([path, "-I", "-c", probe], user, {"PATH": "/usr/bin:/bin"}, 60)
        if code != 0:
            refused.append(f"{path}: {(err.strip().splitlines() or [f'ended with code {code}'])[-1]}")
        elif out.strip() != version:
            refused.append(f"{path}: is Python {out.strip()}")
        else:
            return path
    raise Trouble(
        f"no Python {version} here that user {user} can run" + (f" ({'; '.join(refused)})" if refused else ""),
        f"install {name} from the distribution, or put one that everybody can read below {places.pythons}, or name one "
        "in vllm_runtime_python",
    )


# What uv says, what it means and what to do. The first that matches is told; {0} is the matched name.
UV_FAULTS = [
    (r"Hash mismatch for `([^`]+)`", "the wheel of {0} is not the one in the lock: its hash differs",
     "take that wheel from where the lock was made, or renew the lock; never skip the check"),
    (r"no version of ([\w.\-]+)|([\w.\-]+) was not found in the (?:package registry|provided package locations)",
     "no wheel of {0} as locked is where wheels are looked for",
     "add it to vllm_runtime_find_links, or set vllm_runtime_index_url"),
    (r"([\w.\-]+)(?:==\S+)? has no (?:usable )?wheels|has no wheels with a matching [^\n]*",
     "the wheels of {0} there are not for this host", "add the wheel for this Python, machine and glibc"),
    (r"Failed to read `--find-links` directory: (\S+)", "the directory of wheels {0} cannot be read on this host",
     "correct vllm_runtime_find_links, or mount what it names"),
    (r"(No space left on device)", "the disk is full", "free 4 GB where runtimes are"),
    (r"(?:dns error|Connection refused|error sending request|Could not connect|timed out)[^\n]*",
     "the package index cannot be reached",
     "set vllm_runtime_index_url to a mirror, or vllm_runtime_no_index with a folder of wheels"),
    (r"(Exec format error)", "the uv that was copied is for another machine type",
     "name one for this host in vllm_runtime_uv_source"),
]  # fmt: skip


def explain(faults: list[tuple[str, str, str]], text: str) -> tuple[str, str] | None:
    """(what, remedy) of the first entry whose pattern is found in a tool's words."""
    for pattern, what, remedy in faults:
        found = re.search(pattern, text)
        if found:
            name = next((group for group in found.groups() if group), "a package") if found.groups() else ""
            return what.format(name), remedy
    return None


def tail(text: str, lines: int = 6) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


@contextmanager
def exclusive(path: str, seconds: float) -> Iterator[None]:
    """Hold a lock file that hosts sharing the directory see as well; wait at most this long for another holder."""
    deadline = time.monotonic() + seconds
    with open(path, "w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                if time.monotonic() > deadline:
                    raise Trouble(
                        f"{path} has been held by another builder for {seconds:.0f} s",
                        "look for a build that hangs on the build host, end it, and run this again",
                    ) from error
                time.sleep(1)
        yield


def wait_until_unlocked(path: str, seconds: float) -> None:
    """Return once nobody holds the lock file; at once where there is none."""
    if os.path.exists(path):
        with exclusive(path, seconds):
            pass


def lock_path(runtime: Runtime, places: Places) -> str:
    return os.path.join(places.runtimes, f".{runtime.id}.lock")


def write_provided(path: str, provides: tuple[str, str], requires: str) -> None:
    """Metadata, and no code, of a distribution whose code another one brings: vLLM asks for its own version by name."""
    name, version = provides
    folder = os.path.join(site_packages(path), f"{name}-{version}.dist-info")
    make_folders(folder)
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: {requires}\n",
        "INSTALLER": "vllm-fleet\n",
        "RECORD": "".join(f"{name}-{version}.dist-info/{file},,\n" for file in ("INSTALLER", "METADATA", "RECORD")),
    }
    for file, text in texts.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(os.path.join(folder, file), 0o644)


def install_command(uv: str, path: str, lock_file: str, cache: str, sources: Sources) -> list[str]:
    command = [uv, "pip", "install", "--quiet", "--no-config", "--python", os.path.join(path, "bin", "python")]
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--compile-bytecode", "--cache-dir", cache]
    command += [part for link in sources.find_links for part in ("--find-links", link)]
    if sources.no_index:
        command += ["--no-index", "--offline"]
    elif sources.index_url:
        command += ["--index-url", sources.index_url]
    return [*command, "--requirement", lock_file]


def build(runtime: Runtime, places: Places, uv: str, python: str, sources: Sources, wait_seconds: float) -> bool:
    """Build a runtime unless it is complete; True if it was built. Leaves nothing behind when it fails."""
    make_folders(places.runtimes)
    with exclusive(lock_path(runtime, places), wait_seconds):
        state, _ = status(runtime, places)
        if state == "complete":
            return False
        if state == "other":
            refuse_rebuild_in_use(runtime, places)
        path = os.path.join(places.runtimes, runtime.id)
        if os.path.isdir(path):
            shutil.rmtree(path)
        # On the same file system as the runtime: files are linked, not copied a second time.
        with tempfile.TemporaryDirectory(dir=places.runtimes, prefix=f".{runtime.id}.cache.") as work:
            try:
                _build(runtime, path, uv, python, sources, work)
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
    return True


def _build(runtime: Runtime, path: str, uv: str, python: str, sources: Sources, work: str) -> None:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": work, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    environment.update({key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")})
    environment.update({key: os.environ[key] for key in ("SSL_CERT_FILE", "SSL_CERT_DIR") if key in os.environ})
    lock_file = os.path.join(work, "lock.txt")
    with open(lock_file, "w", encoding="utf-8") as file:
        file.write(runtime.lock.text)
    venv = [
        uv,
        "venv",
        "--quiet",
        "--no-config",
        "--no-python-downloads",
        "--python",
        python,
        "--cache-dir",
        work,
        path,
    ]
    for step, command in (
        ("the environment cannot be made", venv),
        ("the packages cannot be installed", install_command(uv, path, lock_file, work, sources)),
    ):
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, env=environment, umask=0o022
            )
            code, said = answer.returncode, answer.stderr
        except OSError as error:
            code, said = 127, str(error)
        if code != 0:
            known = explain(UV_FAULTS, said)
            what, remedy = known or (f"{step} (uv ended with code {code})", "read uv's own words below")
            raise Trouble(f"runtime {runtime.id}: {what}", f"{remedy}. uv said:\n{tail(said, 8)}")
    if runtime.lock.provides:
        name, version = runtime.lock.provides
        write_provided(path, (name, version), f"{name}-{runtime.backend}")
    packages = count_packages(path)
    if packages != runtime.lock.packages:
        raise Trouble(
            f"runtime {runtime.id}: {packages} packages were installed, the lock has {runtime.lock.packages}",
            "run this again; if it stays so, renew the lock with scripts/lock_runtime.py",
        )
    marker = {
        "lock_sha256": runtime.lock.sha256,
        "packages": packages,
        "python": runtime.python,
        "backend": runtime.backend,
    }
    # uv leaves its own lock there, which everybody may write.
    if os.path.exists(os.path.join(path, ".lock")):
        os.unlink(os.path.join(path, ".lock"))
    os.chmod(path, 0o755)
    write_json(os.path.join(path, MARKER), marker)


# vLLM only warns where its own kernels cannot be loaded, and dies later, when an engine starts.
PROBE = """
import importlib.metadata, json, logging, torch, vllm
from vllm.platforms import current_platform

class Refuse(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if "Failed to import from vllm" in text:
            raise SystemExit(text)

logging.getLogger("vllm").addHandler(Refuse())
import vllm._custom_ops
print("PROOF " + json.dumps({"vllm": importlib.metadata.version("vllm"), "torch": torch.__version__,
                             "device": str(current_platform.device_type)}))
"""

IMPORT_FAULTS = [
    (r"version `(GLIBC(?:XX)?_[\d.]+)' not found", "a library in it needs {0}, which this host does not have",
     "use a newer release of the operating system, or a version set whose wheels are built for this one"),
    (r"No module named '([\w.]+)'", "Python finds no module {0}", "renew the lock: it lacks a package"),
    (r"(lib[\w.+\-]+\.so[\w.]*): cannot open shared object file", "the library {0} is missing on this host",
     "install the package that brings it; for an accelerator's library, its driver and toolkit"),
    (r"undefined symbol: (\S+)", "two of its libraries do not fit each other (undefined symbol {0})",
     "renew the lock: the packages were built for different versions of torch"),
    (r"Permission denied(?:: '([^']+)')?", "the service user may not read {0}", "make it readable for everybody"),
    (r"(no answer after \d+ s)", "importing it took too long", "look at the load and the disk of this host"),
]  # fmt: skip


def prove(runtime: Runtime, places: Places, user: str, timeout: float) -> dict[str, Any]:
    """Import vLLM and torch as the service user and look at the device that vLLM chose; record it."""
    python = os.path.join(places.runtimes, runtime.id, "bin", "python")
    with tempfile.TemporaryDirectory(prefix="vllm-fleet-proof-") as home:
        account = accounts.find(user)
        if account is not None and os.geteuid() == 0:
            os.chown(home, account.pw_uid, account.pw_gid)
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_DO_NOT_TRACK": "1",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        code, out, err = _run_as([python, "-c", PROBE], user, environment, timeout)
    answers = [line[len("PROOF ") :] for line in out.splitlines() if line.startswith("PROOF ")]
    if code != 0 or not answers:
        if code == -4:
            known: tuple[str, str] | None = (
                "it uses instructions that this CPU does not have (SIGILL)", "plan a version set for this CPU",
            )  # fmt: skip
        else:
            known = explain(IMPORT_FAULTS, err)
        what, remedy = known or (f"importing vLLM ended with code {code}", "read Python's own words below")
        raise Trouble(
            f"runtime {runtime.id} does not work here as user {user}: {what}", f"{remedy}. Python said:\n{tail(err)}"
        )
    found: dict[str, Any] = json.loads(answers[-1])
    wanted = DEVICES.get(runtime.backend, runtime.backend)
    if found["device"] != wanted:
        raise Trouble(
            f"runtime {runtime.id} is for {runtime.backend}, and vLLM chose {found['device'] or 'no device'} here",
            "check that the driver works for the service user, and that the version set fits this host",
        )
    proof = {**found, "lock_sha256": runtime.lock.sha256, "glibc": host_glibc()}
    make_folders(places.proofs)
    write_json(os.path.join(places.proofs, f"{runtime.id}.json"), proof)
    return proof


def machine() -> str:
    return platform.machine()
