from __future__ import annotations

import fcntl
import ipaddress
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from sandbox import cli, hosts, limits, network, preflight, python_archive, system, wheelhouse
from sandbox.config import Network
from sandbox.report import SandboxError

OURS = Network("vft0", ipaddress.IPv4Network("10.99.0.0/24"))


@pytest.mark.parametrize(
    ("route", "device", "taken"),
    [
        ("10.99.0.0/24", "vft0", False),
        ("10.99.0.0/24", "eth0", True),
        ("10.0.0.0/8", "tun0", True),
        ("10.99.0.77", "eth0", True),
        ("10.99.1.0/24", "eth0", False),
        ("default", "eth0", False),
        ("0.0.0.0/0", "eth0", False),
        ("fd00::/64", "eth0", False),
    ],
)
def test_a_subnet_shares_no_address_with_the_machine(route: str, device: str, taken: bool) -> None:
    assert bool(preflight.overlaps(OURS, [(route, device)])) is taken


def test_interfaces_fit_the_kernel_and_differ_between_fleets() -> None:
    names = {network.outer_interface(bridge, host) for bridge in ("vft0", "vft1") for host in ("a" * 63, "b")}
    assert len(names) == 4
    assert max(map(len, names)) <= 15


def test_a_full_disk_is_told_with_figures(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"GiB are needed for wheels"):
        preflight.disk_for(tmp_path / "not" / "there", 1 << 60, "wheels")


def test_a_process_is_known_by_its_start_as_well() -> None:
    child = subprocess.Popen(["sleep", "5"])
    try:
        begin = system.start_time(child.pid)
        assert begin is not None
        assert begin == system.start_time(child.pid)
    finally:
        child.kill()
    assert system.wait_until(lambda: system.start_time(child.pid) is None, 5), "a zombie counts as ended"
    child.wait()


def test_a_failing_program_says_what_it_was_for() -> None:
    with pytest.raises(SandboxError, match=r"making tea(?s:.*)ended with code 3(?s:.*)no water"):
        system.run(["sh", "-c", "echo no water; exit 3"], limit=5, purpose="making tea")
    with pytest.raises(SandboxError, match="is there"):
        system.run(["no-such-program"], limit=5, purpose="tea")


def test_a_program_has_a_limit_and_its_children_end_with_it() -> None:
    with pytest.raises(SandboxError, match="took longer"):
        system.run(["sh", "-c", "sleep 60 & wait"], limit=0.3, purpose="tea")


def test_an_unreadable_state_file_is_none(tmp_path: Path) -> None:
    assert system.read_json(tmp_path / "no") is None
    (tmp_path / "half").write_text('{"pid": 1')
    assert system.read_json(tmp_path / "half") is None


def test_the_inotify_setting_is_raised_recorded_and_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "setting"
    setting.write_text("128\n")
    monkeypatch.setattr(limits, "_FILE", setting)
    monkeypatch.setattr(limits, "_RECORD", tmp_path / "record.json")
    limits.raise_for(4)
    assert setting.read_text() == "128\n"
    limits.raise_for(10)
    limits.raise_for(20)
    assert int(setting.read_text()) == limits.needed(20)
    limits.put_back()
    assert setting.read_text() == "128"
    limits.raise_for(10)
    setting.write_text("4096")
    limits.put_back()
    assert setting.read_text() == "4096", "somebody else's value stays"


def test_only_locks_that_nobody_holds_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    held, stale = tmp_path / "locks/inode-1:1", tmp_path / "locks/inode-1:2"
    for file in (held, stale):
        file.touch()
    with held.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        hosts.forget_locks(tmp_path)
        assert held.exists()
        assert not stale.exists()
    hosts.forget_locks(tmp_path)
    assert not tmp_path.exists()


LOCK = """\
# python: 3.11
# machine: x86_64
# glibc: 2.31
torch==2.0+cpu \\
    --hash=sha256:{a}
numpy==1.2 ; python_version > "3" \\
    --hash=sha256:{b} \\
    --hash=sha256:{c}
"""


def test_a_lock_file_says_what_is_missing() -> None:
    a, b, c = ("a" * 64, "b" * 64, "c" * 64)
    lock = wheelhouse.read_lock(LOCK.format(a=a, b=b, c=c))
    assert lock.head == {"python": "3.11", "machine": "x86_64", "glibc": "2.31"}
    assert lock.pins == {"torch==2.0+cpu": {a}, "numpy==1.2": {b, c}}
    assert set(lock.missing({c})) == {"torch==2.0+cpu"}
    options = wheelhouse.platform_options(lock.head)
    assert "manylinux_2_31_x86_64" in options
    assert "manylinux_2_32_x86_64" not in options
    assert "cp311" in options


def test_the_python_archive_is_the_same_each_time(tmp_path: Path) -> None:
    library = tmp_path / "root/usr/lib/python3.11"
    (library / "test").mkdir(parents=True)
    (library / "os.py").write_text("os")
    (library / "test/big.py").write_text("test")
    (library / "sitecustomize.py").symlink_to("/etc/python3.11/sitecustomize.py")
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/bin/python3.11").write_text("elf")
    (tmp_path / "root/usr/bin/python3.11").chmod(0o755)
    python_archive.pack(tmp_path / "root", tmp_path / "one")
    os.utime(library / "os.py", (1, 1))
    python_archive.pack(tmp_path / "root", tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as archive:
        assert sorted(archive.getnames()) == [
            "python/bin/python",
            "python/bin/python3",
            "python/bin/python3.11",
            "python/lib/python3.11/os.py",
        ]


def test_help_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    assert "power-off" in capsys.readouterr().out
    assert cli.main(["status", "-i", "/nowhere"]) == 2
    assert "remedy" in capsys.readouterr().err
