"""Software that engines depend on and that is not the operating system: CANN, container engines, Kylin's own guard."""

from __future__ import annotations

import re

from .host import Host
from .tools import Tools
from .vendor_tools import assignments

ASCEND = "/usr/local/Ascend"
#: Folders of CANN's packages before 8.5: one below for each version, beside links.
CANN_FOLDERS = {
    "ascend-toolkit": "toolkit",
    "nnae": "nnae",
    "nnrt": "nnrt",
    "nnal/atb": "nnal",
}
#: What ``getstatus`` of Kylin calls its states, by version of the system.
KYSEC = {"enabled": "enforcing", "normal": "enforcing", "softmode": "softmode", "disabled": "disabled"}


def cann(host: Host) -> list[dict[str, str]]:
    """Installed CANN packages: ``cann-<version>`` from 8.5, ``ascend-toolkit/<version>`` and others before it."""
    found = []
    for name in host.names(ASCEND):
        if re.fullmatch(r"cann-[0-9].*", name) and host.link(f"{ASCEND}/{name}") is None:
            found.append(_cann(host, f"{ASCEND}/{name}", name[5:], "toolkit"))
    for folder, kind in CANN_FOLDERS.items():
        for name in host.names(f"{ASCEND}/{folder}"):
            if re.match(r"[0-9]", name) and host.link(f"{ASCEND}/{folder}/{name}") is None:
                found.append(_cann(host, f"{ASCEND}/{folder}/{name}", name, kind))
    return found


def _cann(host: Host, path: str, name: str, kind: str) -> dict[str, str]:
    """The version is in a file for each architecture; the folder's name will do."""
    version = name
    if kind == "toolkit":
        for entry in host.names(path):
            if entry.endswith("-linux"):
                values = assignments(host.text(f"{path}/{entry}/ascend_toolkit_install.info"))
                version = values.get("version") or version
    return {"version": version, "path": path, "kind": kind}


def containers(tools: Tools) -> dict[str, str | None]:
    """Versions of the container engines that are there."""
    found: dict[str, str | None] = {}
    for name in ("podman", "docker"):
        tool = tools.find(name)
        match = re.search(r"version ([0-9][^\s,]*)", tools.ask(tool, "--version", seconds=5).text) if tool else None
        found[name] = match.group(1) if match else None
    return found


def kysec(host: Host, tools: Tools, system: str) -> dict[str, str | None] | None:
    """The state of Kylin's guard, which decides whether a program that no package brought may run; None elsewhere."""
    if system.lower() != "kylin":
        return None
    tool = tools.find("getstatus")
    if tool:
        match = re.search(r"^\s*KySec status\s*:\s*(\w+)", tools.ask(tool, seconds=5).text, re.M | re.I)
        if match:
            return {"state": KYSEC.get(match.group(1).lower()), "source": "getstatus"}
    modules = host.text("/sys/kernel/security/lsm")
    if modules is not None and "kysec" not in modules.split(","):
        return {"state": "disabled", "source": "/sys/kernel/security/lsm"}
    if host.exists("/sys/kernel/security/kysec"):
        return {"state": None, "source": "/sys/kernel/security/kysec"}
    return {"state": None, "source": None}
