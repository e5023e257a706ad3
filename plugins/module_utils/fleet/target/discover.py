"""What a host is: operating system, CPU, memory, network, disks, accelerators, ports, units.

Reads /proc and /sys, and asks a tool only where that knows more; changes nothing. Runs on managed hosts with Python 3.9
and the standard library. A piece that cannot be read becomes a finding, never a failure. ``root`` lets tests point at a
fixture tree.
"""

from __future__ import annotations

# pathlib stays out: the module is to start fast.
import os
import re
import socket
import struct
from typing import Any, Callable

from .cards import discover_cards, dtk
from .host import Host, parse_list, unit_of
from .network import hardware
from .software import cann, containers, kysec
from .storage_speed import below, read_speed
from .tools import CALL_SECONDS, TOTAL_SECONDS, Tools

DEBIAN = {"debian", "ubuntu"}
REDHAT = {"openeuler", "euleros", "kylin", "centos", "rhel", "rocky", "almalinux", "fedora", "anolis"}
#: os-release NAME -> the name that Ansible's own facts use, where they differ.
DISTRIBUTIONS = {
    "Debian GNU/Linux": "Debian",
    "CentOS Linux": "CentOS",
    "Rocky Linux": "Rocky",
    "Red Hat Enterprise Linux": "RedHat",
}
#: Virtual machines by the vendor string of their firmware.
VIRTUAL_VENDORS = (
    "qemu",
    "kvm",
    "vmware",
    "xen",
    "microsoft corporation",
    "amazon ec2",
    "google",
    "openstack",
    "bochs",
)
LISTEN = "0A"


def os_release(host: Host) -> dict[str, str]:
    """os-release as a mapping with lower-case keys."""
    values = {}
    for line in (host.text("/etc/os-release") or host.text("/usr/lib/os-release") or "").splitlines():
        key, sep, value = line.partition("=")
        if sep and not line.startswith("#"):
            values[key.strip().lower()] = value.strip().strip("\"'")
    return values


def operating_system(host: Host) -> dict[str, str]:
    """Names and version of the operating system."""
    values = os_release(host)
    if not values.get("id"):
        host.findings.append("os: /etc/os-release has no ID")
    return {
        "id": values.get("id", ""),
        "id_like": values.get("id_like", ""),
        "name": values.get("name", ""),
        "version_id": values.get("version_id", ""),
        "codename": values.get("version_codename", ""),
        "pretty_name": values.get("pretty_name", ""),
    }


def family(os_: dict[str, str]) -> str:
    """Ansible's os_family: Debian or RedHat, or the system's own name."""
    likes = [os_["id"].lower(), *os_["id_like"].lower().split()]
    # Kylin's desktop edition calls itself kylin but is like Debian: what it is like counts more than its name.
    for like in likes[1:] + likes[:1]:
        if like in DEBIAN:
            return "Debian"
        if like in REDHAT:
            return "RedHat"
    return os_["name"] or "Unknown"


def package_manager(host: Host, os_family: str) -> str:
    """The package module for ansible.builtin.package: the family's own manager, if the host has it."""
    wanted = {"Debian": ("apt-get",), "RedHat": ("dnf", "dnf5", "yum")}.get(
        os_family, ("apt-get", "dnf", "dnf5", "yum")
    )
    for name in wanted:
        for folder in ("/usr/bin", "/bin", "/usr/sbin"):
            tool = host.path(folder + "/" + name)
            if os.path.exists(tool):
                if name == "dnf" and os.path.realpath(tool).endswith("dnf5"):
                    return "dnf5"
                return {"apt-get": "apt"}.get(name, name)
    host.findings.append("package_manager: none of " + ", ".join(wanted))
    return "unknown"


def cpu(host: Host) -> dict[str, Any]:
    """Count, model and flags of the CPUs."""
    count, model, implementer, part = 0, "", "", ""
    flags: list[str] = []
    for line in (host.text("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if key == "processor":
            count += 1
        elif key == "model name" and not model:
            model = value
        elif key in ("flags", "Features") and not flags:
            flags = value.split()
        elif key == "CPU implementer":
            implementer = value
        elif key == "CPU part":
            part = value
    if not count:
        host.findings.append("cpu: /proc/cpuinfo lists no processor")
    online = host.text("/sys/devices/system/cpu/online")
    return {
        "count": count or len(parse_list(online)) or 1,
        "online": online or "",
        "model": model or (implementer and f"implementer {implementer} part {part}") or "",
        "flags": sorted(flags),
    }


def virtual(host: Host) -> bool:
    """Whether this is a virtual machine, as far as flags and firmware say."""
    if (
        " hypervisor "
        in " " + " ".join(re.findall(r"^flags\s*:(.*)$", host.text("/proc/cpuinfo") or "", re.M)[:1]) + " "
    ):
        return True
    vendor = (host.text("/sys/class/dmi/id/sys_vendor") or "").lower()
    return any(vendor.startswith(name) for name in VIRTUAL_VENDORS)


def numa(host: Host) -> list[dict[str, Any]]:
    """NUMA nodes with their CPUs, memory in bytes, distances to all nodes and reserved huge pages by size in bytes."""
    nodes: list[dict[str, Any]] = []
    for name in host.names("/sys/devices/system/node"):
        match = re.fullmatch(r"node([0-9]+)", name)
        if match:
            base = "/sys/devices/system/node/" + name
            values = dict(re.findall(r"(\w+):\s+([0-9]+) kB", host.text(base + "/meminfo") or ""))
            nodes.append(
                {
                    "id": int(match.group(1)),
                    "cpus": parse_list(host.text(base + "/cpulist")),
                    "memory_bytes": int(values["MemTotal"]) * 1024 if "MemTotal" in values else None,
                    "free_bytes": int(values["MemFree"]) * 1024 if "MemFree" in values else None,
                    "distances": [int(number) for number in (host.text(base + "/distance") or "").split()],
                    "huge_pages": reserved_pages(host, base + "/hugepages"),
                }
            )
    return sorted(nodes, key=lambda node: node["id"])


def memory(host: Host) -> dict[str, int]:
    """Memory and swap of the host in bytes."""
    values = dict(re.findall(r"^(\w+):\s+([0-9]+) kB", host.text("/proc/meminfo") or "", re.M))
    if "MemTotal" not in values:
        host.findings.append("memory: /proc/meminfo has no MemTotal")
        return {}
    return {
        "total_bytes": int(values["MemTotal"]) * 1024,
        "available_bytes": int(values.get("MemAvailable", 0)) * 1024,
        "swap_bytes": int(values.get("SwapTotal", 0)) * 1024,
    }


def addresses() -> dict[int, list[str]]:
    """IP addresses by interface index, asked of the kernel (rtnetlink, RTM_GETADDR): no tool needs to be there."""
    found: dict[int, list[str]] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(2)
        # nlmsghdr: length, RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, sequence, pid; ifaddrmsg: all zero, every family.
        link.send(struct.pack("=IHHII", 24, 22, 0x301, 1, 0) + b"\0" * 8)
        while True:
            data = link.recv(1 << 18)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (2, 3) or length < 16:  # NLMSG_ERROR, NLMSG_DONE
                    return found
                if kind == 20:  # RTM_NEWADDR
                    family_, prefix, _flags, _scope, index = struct.unpack_from("=BBBBI", data, 16)
                    text = _address(data[24:length], family_)
                    if text:
                        found.setdefault(index, []).append(f"{text}/{prefix}")
                data = data[(length + 3) & ~3 :]


def _address(attributes: bytes, family_: int) -> str | None:
    """The address among rtnetlink attributes: IFA_LOCAL where there is one, else IFA_ADDRESS."""
    values = {}
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if length < 4:
            break
        values[kind] = attributes[4:length]
        attributes = attributes[(length + 3) & ~3 :]
    raw = values.get(2, values.get(1))
    if raw is None or family_ not in (socket.AF_INET, socket.AF_INET6):
        return None
    return socket.inet_ntop(family_, raw)


def interfaces(host: Host, ask: Callable[[], dict[int, list[str]]] = addresses) -> list[dict[str, Any]]:
    """Network interfaces with their addresses, MTU, state and hardware. ``ask`` gives addresses by interface index."""
    by_index = ask()
    found = []
    for name in host.names("/sys/class/net"):
        base = "/sys/class/net/" + name
        index = host.number(base + "/ifindex")
        if index is None:
            continue
        found.append(
            {
                "name": name,
                "addresses": by_index.get(index, []),
                "mac": host.text(base + "/address") or "",
                "mtu": host.number(base + "/mtu"),
                "state": host.text(base + "/operstate") or "",
                **hardware(host, name),
            }
        )
    return found


def _hex_address(text: str) -> str:
    """An address of /proc/net/tcp[6]: words of four bytes in the host's byte order."""
    raw = b"".join(struct.pack("=I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def listening(host: Host) -> list[dict[str, Any]]:
    """TCP ports that something listens on, with process and systemd unit where they can be seen."""
    sockets: dict[str, dict[str, Any]] = {}
    for table in ("tcp", "tcp6"):
        for line in (host.text("/proc/net/" + table) or "").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN:
                address, _, port = fields[1].partition(":")
                sockets[fields[9]] = {
                    "address": _hex_address(address),
                    "port": int(port, 16),
                    "process": "",
                    "unit": "",
                }
    open_ = dict(sockets)
    for pid in host.names("/proc"):
        if not open_:
            break
        if not pid.isdigit():
            continue
        base = f"/proc/{pid}/fd"
        for fd in host.names(base):
            try:
                target = os.readlink(host.path(base + "/" + fd))
            except OSError:
                continue
            if target.startswith("socket:[") and target[8:-1] in open_:
                entry = open_.pop(target[8:-1])
                entry["process"] = host.text(f"/proc/{pid}/comm") or ""
                entry["unit"] = unit_of(host.text(f"/proc/{pid}/cgroup") or "")
    return sorted(sockets.values(), key=lambda entry: (entry["port"], entry["address"]))


def disks(host: Host) -> dict[str, dict[str, Any]]:
    """The file systems that hold runtimes and models: free and total bytes, device, kind, whether it is read-only."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("/opt", "/var/lib"):
        path = host.path(name)
        while not os.path.exists(path):
            path = os.path.dirname(path)
        stat = os.statvfs(path)
        found[name] = {
            "free_bytes": stat.f_bavail * stat.f_frsize,
            "total_bytes": stat.f_blocks * stat.f_frsize,
            **below(host, name),
        }
    return found


def huge_pages(host: Host) -> dict[str, Any]:
    """Transparent huge pages (the chosen mode) and reserved huge pages by size in bytes."""
    mode = re.search(r"\[(\w+)\]", host.text("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    reserved = reserved_pages(host, "/sys/kernel/mm/hugepages")
    return {"transparent": mode.group(1) if mode else None, "reserved": reserved}


def reserved_pages(host: Host, folder: str) -> dict[str, int]:
    """Reserved huge pages by size in bytes, of the host or of a NUMA node."""
    reserved = {}
    for name in host.names(folder):
        match = re.fullmatch(r"hugepages-([0-9]+)kB", name)
        if match:
            reserved[str(int(match.group(1)) * 1024)] = host.number(f"{folder}/{name}/nr_hugepages") or 0
    return reserved


def selinux(host: Host) -> str:
    """``enforcing``, ``permissive`` or ``disabled``."""
    return {"1": "enforcing", "0": "permissive"}.get(host.text("/sys/fs/selinux/enforce") or "", "disabled")


def engine_units(host: Host, tools: Tools) -> list[dict[str, str]]:
    """Loaded ``vllm-engine@`` units with their states."""
    systemctl = tools.find("systemctl")
    if systemctl is None or not host.exists("/run/systemd/system"):
        return []
    options = ("--all", "--plain", "--no-legend", "--no-pager")
    answer = tools.ask(systemctl, "list-units", *options, "vllm-engine@*", seconds=10)
    found = []
    for line in answer.text.splitlines() if answer.good else []:
        fields = line.split(None, 4)
        if len(fields) >= 4:
            found.append({"unit": fields[0], "load": fields[1], "active": fields[2], "sub": fields[3]})
    return found


def glibc(_host: Host) -> str:
    """Version of the C library that programs of this host run with."""
    return (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc", "").strip()


def system_python(host: Host) -> dict[str, str] | None:
    """The host's own python3: its path and the version in the name of what it links to."""
    path = host.path("/usr/bin/python3")
    if not os.path.exists(path):
        return None
    match = re.search(r"python(3\.[0-9]+)", os.path.realpath(path))
    return {"path": "/usr/bin/python3", "version": match.group(1) if match else ""}


def discover(
    root: str = "/", call_seconds: float = CALL_SECONDS, total_seconds: float = TOTAL_SECONDS
) -> dict[str, Any]:
    """All facts of the host: ``{"fleet": {...}, "pkg_mgr": ..., "os_family": ..., ...}`` for ``ansible_facts``.

    The limits are for the tools that are asked: one call, and all of them.
    """
    host = Host(root)
    tools = Tools(host, call_seconds, total_seconds)
    uname = os.uname()
    os_ = host.part(
        "os",
        operating_system,
        {"id": "", "id_like": "", "name": "", "version_id": "", "codename": "", "pretty_name": ""},
    )
    os_family = family(os_)
    manager = host.part("package_manager", lambda h: package_manager(h, os_family), "unknown")
    fleet = {
        "usable_python": True,
        "os": os_,
        "kernel": uname.release,
        "kernel_command_line": host.text("/proc/cmdline") or "",
        "arch": uname.machine,
        "glibc": host.part("glibc", glibc, ""),
        "page_size": host.part("page_size", lambda _h: os.sysconf("SC_PAGE_SIZE")),
        "system_python": host.part("system_python", system_python),
        "cpu": host.part("cpu", cpu, {"count": 1, "online": "", "model": "", "flags": []}),
        "virtual": host.part("virtual", virtual, False),
        "numa": host.part("numa", numa, []),
        "memory": (memory_ := host.part("memory", memory, {})),
        "swap_bytes": memory_.get("swap_bytes"),
        "interfaces": host.part("interfaces", interfaces, []),
        "listening": host.part("listening", listening, []),
        "disks": host.part("disks", disks, {}),
        **host.part("disk_read", read_speed, {"disk_read_bytes_per_second": None, "disk_read_from": "not measured"}),
        "huge_pages": host.part("huge_pages", huge_pages, {}),
        "selinux": host.part("selinux", selinux, "disabled"),
        "kysec": host.part("kysec", lambda h: kysec(h, tools, os_["id"])),
        "engine_units": host.part("engine_units", lambda h: engine_units(h, tools), []),
        "package_manager": manager,
        "containers": host.part("containers", lambda _h: containers(tools), {"podman": None, "docker": None}),
        "cann": host.part("cann", cann, []),
        "dtk": host.part("dtk", dtk),
        **discover_cards(host, tools),
    }
    fleet["findings"] = host.findings
    return {
        "fleet": fleet,
        "pkg_mgr": manager,
        "os_family": os_family,
        "distribution": DISTRIBUTIONS.get(os_["name"], os_["name"]),
        "distribution_version": os_["version_id"],
        "distribution_major_version": re.split(r"[. ]", os_["version_id"])[0],
        "distribution_release": os_["codename"],
        "architecture": uname.machine,
        "kernel": uname.release,
        "service_mgr": "systemd" if host.exists("/run/systemd/system") else "unknown",
    }
