"""What models are on and how fast it reads: bounded in bytes and in time, and nothing is written."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from fleet.target import storage_speed as s
from fleet.target.host import Host
from vendor_trees import write

# Of an Ubuntu host with a separate file system for /var/lib, and a read-only one on a file server.
MOUNTS = """\
22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
30 22 259:1 / /var/lib rw,noatime shared:9 - xfs /dev/nvme0n1p1 rw,attr2
31 22 0:50 / /var/lib/vllm-fleet/models ro,relatime shared:10 - nfs4 nas:/models rw,vers=4.1
32 22 0:51 / /opt/my\\040disk rw - ext4 /dev/sdb1 ro
"""


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(80 << 20)
    return path


def direct(path: Path) -> bool:
    """Whether the file system of the tests takes O_DIRECT (tmpfs of old kernels does not)."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    return True


def test_mounts_by_the_longest_and_last_point(tmp_path: Path) -> None:
    write(tmp_path, "/proc/self/mountinfo", MOUNTS)
    host = Host(str(tmp_path))
    assert s.below(host, "/opt") == {"device": "/dev/sda2", "filesystem": "ext4", "read_only": False}
    assert s.below(host, "/var/lib") == {"device": "/dev/nvme0n1p1", "filesystem": "xfs", "read_only": False}
    assert s.below(host, "/var/library")["device"] == "/dev/sda2"
    assert s.below(host, "/var/lib/vllm-fleet/models/x") == {
        "device": "nas:/models",
        "filesystem": "nfs4",
        "read_only": True,
    }
    assert s.below(host, "/opt/my disk")["read_only"] is True
    write(tmp_path, "/proc/self/mountinfo", MOUNTS + "40 22 0:60 / /var/lib rw - tmpfs tmpfs rw\n")
    assert s.below(host, "/var/lib")["filesystem"] == "tmpfs"
    write(tmp_path, "/proc/self/mountinfo", "".join(sorted(MOUNTS.splitlines(True), reverse=True)))
    assert s.below(host, "/var/lib")["filesystem"] == "xfs"


def test_without_mounts_nothing_is_known(tmp_path: Path) -> None:
    assert s.below(Host(str(tmp_path)), "/opt") == {"device": None, "filesystem": None, "read_only": None}


def test_a_fixture_tree_is_not_measured(tmp_path: Path) -> None:
    assert s.read_speed(Host(str(tmp_path)))["disk_read_bytes_per_second"] is None


def test_a_file_is_measured_and_left_as_it_is(big: Path) -> None:
    if not direct(big):
        pytest.skip("no O_DIRECT here")
    before = (big.stat().st_mtime_ns, big.stat().st_size)
    start = time.monotonic()
    assert s.measure(str(big)) > 1 << 20
    assert time.monotonic() - start < s.SECONDS + 2
    assert (big.stat().st_mtime_ns, big.stat().st_size) == before


def test_no_more_than_64_mib_are_read_at_offsets_that_o_direct_takes(
    big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def fake(_fd: int, buffers: list[memoryview], offset: int) -> int:
        seen.append(offset)
        return len(buffers[0])

    monkeypatch.setattr(s.os, "preadv", fake)
    monkeypatch.setattr(s.os, "O_DIRECT", 0)
    s.measure(str(big))
    assert len(seen) * s.BLOCK <= 64 << 20
    assert all(offset % 4096 == 0 and offset + s.BLOCK <= big.stat().st_size for offset in seen)
    assert len({offset // (16 << 20) for offset in seen}) == 4


def test_one_slow_place_does_not_decide(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([10.0, 100.0, 110.0, 0.0])
    monkeypatch.setattr(s, "_burst", lambda *_args: next(rates))
    monkeypatch.setattr(s.os, "O_DIRECT", 0)
    assert s.measure(str(big)) == 100


def test_a_slow_disk_is_given_up_in_time(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_fd: int, buffers: list[memoryview], _offset: int) -> int:
        time.sleep(0.3)
        return len(buffers[0])

    monkeypatch.setattr(s.os, "preadv", slow)
    monkeypatch.setattr(s.os, "O_DIRECT", 0)
    start = time.monotonic()
    rate = s.measure(str(big))
    assert time.monotonic() - start < 1
    assert s.BLOCK / 0.6 < rate < s.BLOCK / 0.29


def test_a_disk_that_does_not_answer_holds_up_nobody(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s, "measure", lambda _path: time.sleep(60))
    monkeypatch.setattr(s, "CHILD_SECONDS", 0.3)
    start = time.monotonic()
    assert s._in_child(str(big)) == (None, f"{big} did not answer in 0.3 s")
    assert time.monotonic() - start < 2


def test_what_cannot_be_read_is_a_reason_and_no_finding(tmp_path: Path) -> None:
    speed, reason = s._in_child(str(tmp_path / "gone"))
    assert (speed, reason) == (None, f"{tmp_path / 'gone'}: {os.strerror(errno.ENOENT)}")
    small = tmp_path / "small"
    small.write_bytes(b"x")
    assert s._in_child(str(small))[0] is None


def test_the_next_source_is_taken_where_one_fails(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s, "_sources", lambda _host: iter(["/dev/nothing", str(big)]))
    monkeypatch.setattr(s, "_in_child", lambda path: (7, "") if path == str(big) else (None, "no"))
    assert s.read_speed(Host()) == {"disk_read_bytes_per_second": 7, "disk_read_from": str(big)}
    monkeypatch.setattr(s, "_in_child", lambda path: (None, f"{path}: no"))
    found = s.read_speed(Host())
    assert found["disk_read_bytes_per_second"] is None
    assert found["disk_read_from"] == f"not measured: /dev/nothing: no; {big}: no"


def test_a_large_file_of_weights_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "m/1/default"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "small.safetensors").write_bytes(b"x")
    assert s._large_file(str(tmp_path)) is None
    with (folder / "model-00001.safetensors").open("wb") as file:
        file.truncate(64 << 20)
    assert s._large_file(str(tmp_path)) == str(folder / "model-00001.safetensors")
