"""Single settings of a host: where each is in the kernel, what it is, how it is written, and why that may fail.

A setting has one name in files, records and messages: a sysctl key (``vm.swappiness``), a file of /sys, or
``/dev/shm``, whose value is its size in bytes.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Any

from .files import read_text
from .trouble import Trouble

THP = "/sys/kernel/mm/transparent_hugepage"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
NODES = "/sys/devices/system/node"
HUGE_PAGES = "/sys/kernel/mm/hugepages"
SHM = "/dev/shm"
PORTS = "net.ipv4.ip_local_reserved_ports"
#: Two names of one setting: writing one makes the other 0, and most of them cannot be made 0 by writing.
_PAIRS = (
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "vm.overcommit_ratio"),
)
TWINS = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}


@dataclass(frozen=True)
class Places:
    """Files of a host; below another root in tests."""

    root: str = "/"
    sysctl_file: str = "/etc/sysctl.d/60-vllm-fleet.conf"
    tmpfiles_file: str = "/etc/tmpfiles.d/60-vllm-fleet.conf"
    shm_unit: str = "/etc/systemd/system/vllm-fleet-shm.service"
    shm_wants: str = "/etc/systemd/system/sysinit.target.d/60-vllm-fleet.conf"
    state_file: str = "/var/lib/vllm-fleet/state/host_tuning.json"

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))

    def setting(self, name: str) -> str:
        """The file of a setting."""
        return self.path(name if name.startswith("/") else setting_file(name))


def setting_file(key: str) -> str:
    """The file of a sysctl below /. As sysctl(8) has it: the first separator of a name decides what separates."""
    first = re.search(r"[./]", key)
    if first is not None and first.group() == ".":
        key = key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{key}"


def sysctl_name(key: str) -> str:
    """The one spelling of a sysctl: with dots, or with slashes where a part of it has a dot (a VLAN's interface)."""
    path = setting_file(key)[len("/proc/sys/") :]
    return path if "." in path else path.replace("/", ".")


def normal(value: Any) -> str:
    """One spelling for values that are the same: the kernel answers with tabs between several numbers."""
    return " ".join(str(value).split())


def chosen(text: str) -> str:
    """The mode in ``always [madvise] never``."""
    found = re.search(r"\[([^\]]+)\]", text)
    return found.group(1) if found else normal(text)


def ports_of(text: str | None) -> set[int]:
    """Ports of a list as the kernel writes it: ``8000-8003,9000``."""
    ports: set[int] = set()
    for part in normal(text or "").replace(" ", ",").split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if match:
            first, last = int(match.group(1)), int(match.group(2) or match.group(1))
            if first <= last <= 65535:
                ports.update(range(first, last + 1))
                continue
        if part:
            raise Trouble(f"{part!r} is neither a port nor a range of ports", "write them as in 8000-8003,9000")
    return ports


def ports_text(ports: set[int]) -> str:
    """Ports as the kernel writes them."""
    ranges: list[list[int]] = []
    for port in sorted(ports):
        if ranges and port == ranges[-1][1] + 1:
            ranges[-1][1] = port
        else:
            ranges.append([port, port])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def same(name: str, one: str | None, other: str | None) -> bool:
    """Whether two values of a setting mean the same."""
    if one is None or other is None:
        return one is other
    one, other = normal(one), normal(other)
    if one == other:
        return True
    if name == PORTS:
        return ports_of(one) == ports_of(other)
    words = (one.split(), other.split())
    if len(words[0]) != len(words[1]):
        return False
    try:
        return [int(word, 0) for word in words[0]] == [int(word, 0) for word in words[1]]
    except ValueError:
        return False


def shm_bytes(places: Places) -> str | None:
    """The size of /dev/shm, or None where it is no file system of its own."""
    path = places.path(SHM)
    if not os.path.ismount(path):
        return None
    size = os.statvfs(path)
    return str(size.f_blocks * size.f_frsize)


def resize_shm(places: Places, size: str) -> None:
    """Files in it stay. The kernel refuses a size below what they take."""
    import subprocess

    done = subprocess.run(
        ["mount", "-o", f"remount,size={size}", places.path(SHM)], stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip() or "mount failed")


def read(name: str, places: Places) -> str | None:
    """The kernel's value, or None where this kernel has no such setting."""
    if name == SHM:
        return shm_bytes(places)
    try:
        text = read_text(places.setting(name))
    except OSError as error:
        raise Trouble(f"{name} cannot be read: {error.strerror}", "leave it out, or run as root") from error
    if text is None:
        return None
    return chosen(text) if name.startswith(THP) else normal(text)


def writable(name: str, places: Places) -> bool:
    """Whether the setting can be written at all: not on the read-only /sys and /proc/sys of a container."""
    return os.access(places.setting(name), os.W_OK)


def write(name: str, value: str, places: Places) -> None:
    if name == SHM:
        resize_shm(places, value)
        return
    # Kernel files are written in one call, and never replaced.
    with open(places.setting(name), "w", encoding="utf-8") as file:
        file.write(f"{value}\n")


def why_refused(name: str, error: OSError, places: Places) -> str:
    """The likely cause of a failed write."""
    if error.errno == errno.EROFS:
        return "it is read-only here, as in a container: set it on the machine that runs it"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "this run is not root, lacks a capability, or the kernel is locked down"
    if name.endswith("/scaling_governor"):
        return f"its governors are: {governors(name, places) or 'unknown'}"
    if name == SHM:
        return "files in it take more than that, or it was mounted from outside"
    if error.errno == errno.EINVAL:
        return "this kernel does not know such a value, or another setting forbids it"
    return "ask the kernel's log"


def why_other(name: str, value: str, found: str | None) -> str:
    """The likely cause where a write succeeded and the kernel has another value."""
    if "/hugepages" in name:
        if found is not None and found.isdigit() and value.isdigit() and int(found) > int(value):
            return "pages are in use: stop the processes that hold them"
        return "its memory is used or fragmented: ask for less, or restart the host, which reserves them early"
    if name.endswith("/scaling_governor"):
        return "its driver or another tool (tuned) decides"
    return "something sets it back (tuned, another sysctl tool), or the kernel keeps it within limits"


def governors(name: str, places: Places) -> str:
    folder = os.path.dirname(name)
    return normal(read_text(places.path(f"{folder}/scaling_available_governors")) or "")


def names_in(folder: str, pattern: str, places: Places) -> list[str]:
    """Entries of a directory of /sys that match, in order of their numbers."""
    try:
        names = os.listdir(places.path(folder))
    except OSError:
        return []
    return sorted((n for n in names if re.fullmatch(pattern, n)), key=lambda n: (len(n), n))


def policies(places: Places) -> list[str]:
    """The governor of each group of CPUs that change their speed together."""
    return [f"{CPUFREQ}/{name}/scaling_governor" for name in names_in(CPUFREQ, "policy[0-9]+", places)]


def _kib(path: str, key: str, places: Places) -> int | None:
    found = re.search(rf"\b{key}:\s+([0-9]+) kB", read_text(places.path(path)) or "")
    return int(found.group(1)) * 1024 if found else None


def _pool(node: int, places: Places) -> tuple[str, int]:
    """The directory of a node's pools of huge pages, and the node's memory."""
    nodes = names_in(NODES, "node[0-9]+", places)
    folder, meminfo = f"{NODES}/node{node}/hugepages", f"{NODES}/node{node}/meminfo"
    if not nodes:  # a kernel without NUMA has one pool
        nodes, folder, meminfo = ["node0"], HUGE_PAGES, "/proc/meminfo"
    memory = _kib(meminfo, "MemTotal", places)
    if f"node{node}" not in nodes or memory is None:
        raise Trouble(
            f"huge pages are wanted on NUMA node {node}, and this host has {', '.join(nodes)}"
            + ("" if f"node{node}" not in nodes else ", of which this one has no memory"),
            "correct node in host_tuning_huge_pages",
        )
    return folder, memory


def huge_pages(wanted: list[dict[str, Any]], most: float, places: Places) -> dict[str, str]:
    """Pools of huge pages by their files: bytes become pages of the host's size, rounded up, within a share of a node.

    A page is 2 MiB on most hosts, 512 MiB where memory pages have 64 KiB: the host says, not the inventory.
    """
    if not wanted:
        return {}
    usual = _kib("/proc/meminfo", "Hugepagesize", places)
    pools: dict[str, int] = {}
    asked: dict[int, list[str]] = {}
    for item in wanted:
        node, page = int(item["node"]), int(item.get("page_bytes") or usual or 0)
        folder, _ = _pool(node, places)
        sizes = [int(name[10:-2]) * 1024 for name in names_in(folder, "hugepages-[0-9]+kB", places)]
        if page not in sizes:
            raise Trouble(
                f"NUMA node {node} has no huge pages of {size_text(page)}; "
                f"it has {', '.join(map(size_text, sizes)) or 'none'}",
                "leave page_bytes out, which takes the host's own size, or leave huge pages out for this host",
            )
        pages = -(-int(item["bytes"]) // page)
        name = f"{folder}/hugepages-{page // 1024}kB/nr_hugepages"
        if name in pools:
            raise Trouble(f"host_tuning_huge_pages names node {node} and {size_text(page)} twice", "merge the entries")
        pools[name] = pages
        asked.setdefault(node, []).append(
            f"{size_text(int(item['bytes']))} as {pages} pages of {size_text(page)}, {size_text(pages * page)}"
        )
    _within(pools, asked, most, places)
    return {name: str(pages) for name, pages in pools.items()}


def _within(pools: dict[str, int], asked: dict[int, list[str]], most: float, places: Places) -> None:
    wrong = []
    for node, texts in asked.items():
        folder, memory = _pool(node, places)
        total = 0
        for size in names_in(folder, "hugepages-[0-9]+kB", places):
            name = f"{folder}/{size}/nr_hugepages"
            # Pools that others reserved take memory just the same.
            total += pools.get(name, int(read(name, places) or 0)) * int(size[10:-2]) * 1024
        if total > most * memory:
            wrong.append(
                f"NUMA node {node}: {' and '.join(texts)}; with all pools {size_text(total)}, and at most "
                f"{size_text(int(most * memory))} of its {size_text(memory)} may be huge pages"
            )
    if wrong:
        raise Trouble(
            f"huge pages would leave the host too little memory: {'; '.join(wrong)}",
            "ask for less, or raise host_tuning_huge_pages_max_share knowing what else runs there",
        )


def size_text(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"
