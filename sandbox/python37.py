"""CPython 3.7 as the only Python of the Kylin kind, as on Kylin V10.

dnf needs the Python it was built for; that one goes to /usr/libexec/platform-python, where RHEL 8 keeps its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from pathlib import Path

from sandbox import paths
from sandbox.report import SandboxError, fail, stage
from sandbox.system import chroot, chroot_mounts, recipe_hash, run

PREFIX = "/usr/lib/python37-dist"
PLATFORM = "/usr/libexec/platform-python"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "site-packages",
                                   "config-3.7*", "*.a", "_tkinter*", "lib2to3")  # fmt: skip
_REMEDY = (
    "make one available (`uv python install 3.7` and `pyenv install 3.7` need their download servers), or leave hosts "
    "of kind kylin-v10 out with --limit"
)


def _uv() -> str | None:
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


def _base_prefix(python: Path) -> Path | None:
    """Where an interpreter is installed, if it is a CPython 3.7 that runs."""
    program = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], sys.base_prefix)"
    if not python.exists():
        return None
    answer = run([python, "-I", "-c", program], limit=20, purpose=f"asking {python}", check=False).stdout.strip()
    match = re.fullmatch(r"cpython 3\.7 (.+)", answer)
    return Path(match[1]) if match else None


def find() -> Path:
    """The prefix of a CPython 3.7: uv's, else pyenv's, else one that uv installs into the cache."""
    uv, tried = _uv(), []
    if uv:
        answer = run([uv, "python", "find", "--no-project", "3.7"], limit=60, purpose="uv python find", check=False)
        if answer.returncode == 0 and (prefix := _base_prefix(Path(answer.stdout.strip()))):
            return prefix
        tried.append("uv python find 3.7")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for directory in sorted(pyenv.glob("3.7*"), reverse=True):
        if prefix := _base_prefix(directory / "bin/python3.7"):
            return prefix
    tried.append(str(pyenv / "3.7*"))
    if uv:
        where = paths.CACHE / "python37"
        command: list[str | Path] = [
            uv,
            "python",
            "install",
            "--no-progress",
            "--no-bin",
            "--install-dir",
            where,
            "3.7",
        ]
        # Its download server may be out of reach, and then the attempt can take as long as it likes.
        with contextlib.suppress(SandboxError):
            run(command, limit=180, purpose="uv python install", check=False)
        for python in sorted(where.glob("*/bin/python3.7")):
            if prefix := _base_prefix(python):
                return prefix
        tried.append("uv python install 3.7")
    raise fail("kind kylin-v10", f"tried {'; '.join(tried)}", "a CPython 3.7 can be had", _REMEDY)


def _copy(source: Path, root: Path) -> None:
    target = root / PREFIX.lstrip("/")
    (target / "bin").mkdir(parents=True)
    shutil.copy2(source / "bin/python3.7", target / "bin/python3.7", follow_symlinks=True)
    shutil.copytree(source / "lib/python3.7", target / "lib/python3.7", symlinks=True, ignore=_LEFT_OUT)
    (target / "lib/python3.7/site-packages").mkdir()
    for library in (source / "lib").glob("libpython3.7*.so*"):
        shutil.copy2(library, target / "lib" / library.name, follow_symlinks=False)
    # An interpreter with a shared library looks for it where it was built.
    (root / "etc/ld.so.conf.d").mkdir(exist_ok=True)
    (root / "etc/ld.so.conf.d/zz-python37.conf").write_text(f"{PREFIX}/lib\n", encoding="ascii")


def _missing_libraries(root: Path) -> set[str]:
    files = [f"{PREFIX}/bin/python3.7"]
    files += ["/" + str(f.relative_to(root)) for f in (root / PREFIX.lstrip("/")).rglob("*.so*") if not f.is_symlink()]
    text = chroot(root, ["ldd", *files], limit=60, purpose="libraries of Python 3.7")
    return set(re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE))


def _add_libraries(source: Path, root: Path, names: set[str]) -> None:
    """Libraries that the machine has and the base has not, into a directory of this Python's own."""
    files = [source / "bin/python3.7", *(source / "lib/python3.7/lib-dynload").glob("*.so")]
    text = run(["ldd", *files], limit=60, purpose="libraries of Python 3.7", check=False).stdout
    known = dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.MULTILINE))
    for name in names & set(known):
        shutil.copy2(known[name], root / PREFIX.lstrip("/") / "lib" / name, follow_symlinks=True)


def _hide_system_python(root: Path) -> None:
    libexec = root / "usr/libexec"
    libexec.mkdir(exist_ok=True)
    actual = (root / "usr/bin/python3").resolve(strict=True)
    (libexec / actual.name.replace("python", "platform-python")).write_bytes(actual.read_bytes())
    (libexec / actual.name.replace("python", "platform-python")).chmod(0o755)
    (libexec / "platform-python").symlink_to(actual.name.replace("python", "platform-python"))
    for pattern in ("python3*", "pydoc3*", "pygettext3*", "py3*", "pdb3*"):
        for file in (root / "usr/bin").glob(pattern):
            file.unlink()
    first = re.compile(rb"#! ?/usr/bin/(env )?python3(\.\d+)?\b")
    for directory in ("usr/bin", "usr/sbin"):
        for file in (root / directory).iterdir():
            if file.is_symlink() or not file.is_file():
                continue
            with file.open("rb") as stream:
                head = stream.read(64)
            if first.match(head):
                file.write_bytes(first.sub(b"#!" + PLATFORM.encode(), file.read_bytes(), count=1))


def install(root: Path) -> None:
    """Put it into a merged root of the Kylin kind, and see that both Pythons work there."""
    source = find()
    _hide_system_python(root)
    _copy(source, root)
    for name in ("python3", "python3.7"):
        (root / "usr/bin" / name).symlink_to(f"{PREFIX}/bin/python3.7")
    with chroot_mounts(root):
        chroot(root, ["ldconfig"], limit=60, purpose="libraries of Python 3.7")
        if missing := _missing_libraries(root):
            _add_libraries(source, root, missing)
            chroot(root, ["ldconfig"], limit=60, purpose="libraries of Python 3.7")
        purpose = "the Kylin kind's Python 3.7"
        program = "import sys, json, ctypes, ssl, hashlib, zlib, subprocess; assert sys.version_info[:2] == (3, 7)"
        chroot(root, ["python3", "-I", "-c", program], limit=60, purpose=purpose)
        program = f"import sys; assert sys.prefix == {PREFIX!r} and '3.11' not in str(sys.path), sys.path"
        chroot(root, ["python3", "-c", program], limit=60, purpose=purpose)
        chroot(root, [PLATFORM, "-I", "-c", "import dnf, rpm"], limit=60, purpose="the Kylin kind's platform Python")
        chroot(root, ["dnf", "--version"], limit=60, purpose="the Kylin kind's dnf")
    for cache in [*(root / PREFIX.lstrip("/")).rglob("__pycache__")]:
        shutil.rmtree(cache)
    stage(f"image kylin-v10: CPython 3.7 from {source}")


def recipe() -> str:
    return recipe_hash(PREFIX, PLATFORM, _copy, _hide_system_python, install, _add_libraries)
