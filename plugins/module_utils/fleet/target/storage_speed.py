"""What the models are on, and how fast it reads: measured, within half a second, without writing anything."""

from __future__ import annotations

import mmap
import os
import re
import select
import signal
import time
from collections.abc import Iterator
from typing import Any

from .host import Host

MODELS = "/var/lib/vllm-fleet"
#: One read. Larger than any one request to a disk, so that the kernel sends several at once, as when a model is loaded.
BLOCK = 4 << 20
#: Reads that follow one another, then the next place. Places are spread over the device.
BLOCKS = 4
PLACES = 4
SECONDS = 0.5
#: For the child that reads. A sick disk can hold a reader in the kernel for minutes.
CHILD_SECONDS = 2.0


def mounts(host: Host) -> list[dict[str, Any]]:
    """Mounted file systems, the later over the earlier: ``point``, ``filesystem``, ``device``, ``read_only``."""
    found = []
    for line in (host.text("/proc/self/mountinfo") or "").splitlines():
        left, sep, right = line.partition(" - ")
        fields, source = left.split(), right.split()
        if sep and len(fields) > 5 and len(source) > 1:
            options = (source[2] if len(source) > 2 else "").split(",")
            found.append(
                {
                    "point": _plain(fields[4]),
                    "filesystem": source[0],
                    "device": _plain(source[1]),
                    "read_only": "ro" in fields[5].split(",") or "ro" in options,
                }
            )
    return found


def _plain(text: str) -> str:
    """The kernel writes spaces and the like as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def below(host: Host, name: str) -> dict[str, Any]:
    """``device``, ``filesystem`` and ``read_only`` of what is mounted at a path or above it."""
    best: dict[str, Any] = {"point": "", "device": None, "filesystem": None, "read_only": None}
    for mount in mounts(host):
        point = mount["point"].rstrip("/")
        if (name == point or name.startswith(point + "/")) and len(point) >= len(best["point"].rstrip("/")):
            best = mount
    return {key: best[key] for key in ("device", "filesystem", "read_only")}


def read_speed(host: Host) -> dict[str, Any]:
    """``disk_read_bytes_per_second`` of the models' disk, and ``disk_read_from``: what was read, or why not."""
    reasons = []
    for path in _sources(host) if host.root == "/" else ():
        speed, reason = _in_child(path)
        if speed:
            return {"disk_read_bytes_per_second": speed, "disk_read_from": path}
        reasons.append(reason)
    return {
        "disk_read_bytes_per_second": None,
        "disk_read_from": "not measured: " + ("; ".join(reasons) or "neither a disk of this host nor a large model"),
    }


def _sources(host: Host) -> Iterator[str]:
    """The block device below the models, then a large file among them: a file server has no device here."""
    path = MODELS
    while not os.path.exists(path):
        path = os.path.dirname(path)
    number = os.stat(path).st_dev
    name = host.link(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    # File systems over several devices (btrfs, overlay) have a number of their own; the first device stands for them.
    device = "/dev/" + name.replace("!", "/") if name else below(host, path)["device"] or ""
    if device.startswith("/dev/") and os.path.exists(device):
        yield device
    file = _large_file(MODELS + "/models")
    if file:
        yield file


def _large_file(folder: str, most: int = 500) -> str | None:
    """A file of weights that is long enough to be read in several places; looks at no more than ``most`` entries."""
    seen = 0
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            seen += 1
            full = os.path.join(path, name)
            if name.endswith((".safetensors", ".bin", ".gguf")) and os.path.getsize(full) >= BLOCK * BLOCKS * PLACES:
                return full
        if seen > most:
            return None
    return None


def _in_child(path: str) -> tuple[int | None, str]:
    """Measure in a child, so that a disk that does not answer holds up nobody."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):  # whoever called us waits until these are closed
                os.dup2(null, fd)
            try:
                words = str(measure(path))
            except Exception as error:
                words = f"{path}: {getattr(error, 'strerror', None) or error}"
            os.write(writer, words.encode("utf-8", "replace"))
        finally:
            os._exit(0)
    os.close(writer)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    text = os.read(reader, 4096).decode("utf-8", "replace") if poll.poll(int(CHILD_SECONDS * 1000)) else ""
    os.close(reader)
    _end(child)
    if text.isdigit():
        return int(text), ""
    return None, text or f"{path} did not answer in {CHILD_SECONDS:g} s"


def _end(child: int) -> None:
    """Wait for the child for a moment, then kill it, then leave it."""
    for attempt in range(100):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        if attempt == 50:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def measure(path: str) -> int:
    """Bytes a second of a device or file, past the page cache: the median of several places. Raises OSError.

    The median, because one place may be a hole of a thin volume, or where the disk had to turn first.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        room = size - BLOCK * BLOCKS
        if room < 0:
            raise OSError(f"{path} is too small to measure: {size} bytes")
        rates = []
        with mmap.mmap(-1, BLOCK) as buffer:
            end = time.monotonic() + SECONDS
            for place in range(PLACES):
                offset = room * place // PLACES // BLOCK * BLOCK
                rates.append(_burst(fd, buffer, offset, end))
                if time.monotonic() >= end:
                    break
    finally:
        os.close(fd)
    rates = sorted(rate for rate in rates if rate)
    if not rates:
        raise OSError(f"{path} gave less than {BLOCK} bytes in {SECONDS:g} s")
    middle = len(rates) // 2
    return int(rates[middle] if len(rates) % 2 else (rates[middle - 1] + rates[middle]) / 2)


def _burst(fd: int, buffer: mmap.mmap, offset: int, end: float) -> float:
    """Bytes a second over some blocks in a row."""
    start, read = time.monotonic(), 0
    for _ in range(BLOCKS):
        got = os.preadv(fd, [buffer], offset + read)
        read += got
        if got < BLOCK or time.monotonic() >= end:
            break
    took = time.monotonic() - start
    return read / took if read >= BLOCK and took > 0 else 0.0
