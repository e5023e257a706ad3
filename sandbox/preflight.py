"""What must hold before anything is made. Every cause that can be named beforehand is named here."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sandbox import paths
from sandbox.config import Fleet, Network
from sandbox.report import Problem, SandboxError, fail, stage
from sandbox.system import run

# program -> Debian package
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "rsync": "rsync",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_GIB = 1 << 30
# What a cold start writes: two roots, the layers, two repositories; then wheels and what engines make of them.
_IMAGES_NEED = 3 * _GIB
_HOST_NEED = 64 << 20

BRIDGE_ALIAS = "vllm-fleet-sandbox"


def root() -> None:
    if os.geteuid() != 0:
        raise fail("user", f"uid {os.geteuid()}", "hosts, mounts and bridges need root", "run it as root, or with sudo")


def programs() -> None:
    missing = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    packages = sorted(set(missing.values()))
    if not _KEYRING.exists():
        packages.append("debian-archive-keyring")
    if not packages:
        return
    if shutil.which("apt-get") is None:
        raise SandboxError(
            [
                Problem("programs", f"{name} is missing", "is on PATH", f"install {package} (its name in Debian)")
                for name, package in missing.items()
            ]
        )
    stage(f"machine: installing {' '.join(packages)} with apt-get")
    remedy = "no Debian package registry answered, or apt is broken: check `apt-get update`, or install them by hand"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A package manager that is already at work (unattended upgrades) is waited for.
    options = ["-o", "DPkg::Lock::Timeout=120", "-qq"]
    purpose = "update of the machine's package lists"
    run(["apt-get", *options, "update"], limit=300, purpose=purpose, remedy=remedy, env=env)
    run(
        ["apt-get", *options, "install", "-y", "--no-install-recommends", *packages],
        limit=600,
        purpose=f"installation of {' '.join(packages)}",
        remedy=remedy,
        env=env,
    )


def disk_for(directory: Path, need: int, purpose: str) -> None:
    place = directory
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < need:
        raise fail(
            str(directory),
            f"{free / _GIB:.1f} GiB free on the file system of {place}",
            f"{need / _GIB:.1f} GiB are needed for {purpose}",
            "free space there, or bind a larger directory to that path",
        )


def disk(hosts: int, *, cold: bool) -> None:
    problems: list[Problem] = []
    # On one file system both would count on the same free space.
    images = _IMAGES_NEED if cold else 0
    for directory, need, purpose in (
        (paths.CACHE, images + hosts * _HOST_NEED, "images of hosts"),
        (paths.STATE, hosts * _HOST_NEED, f"disks of {hosts} hosts"),
    ):
        try:
            disk_for(directory, need, purpose)
        except SandboxError as error:
            problems += error.problems
    if problems:
        raise SandboxError(problems)


def overlaps(network: Network, routes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(network, interface) of routes and addresses that share addresses with the subnet, other than on our bridge."""
    found = []
    for text, device in routes:
        if device == network.bridge or text == "default":
            continue
        try:
            other = ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue
        if isinstance(other, ipaddress.IPv4Network) and other.prefixlen > 0 and other.overlaps(network.subnet):
            found.append((text, device))
    return found


def machine_routes() -> list[tuple[str, str]]:
    routes = json.loads(run(["ip", "-j", "-4", "route"], limit=10, purpose="routes of the machine").stdout or "[]")
    addresses = json.loads(
        run(["ip", "-j", "-4", "address"], limit=10, purpose="addresses of the machine").stdout or "[]"
    )
    found = [(str(item.get("dst", "")), str(item.get("dev", ""))) for item in routes]
    for link in addresses:
        for item in link.get("addr_info", []):
            found.append((f"{item['local']}/{item['prefixlen']}", str(link["ifname"])))
    return sorted(set(found))


def bridge_owner(bridge: str) -> str | None:
    """None: no such interface. "sandbox": ours. Anything else: what it is."""
    place = Path("/sys/class/net") / bridge
    if not place.exists():
        return None
    if not (place / "bridge").exists():
        return "not a bridge"
    alias = (place / "ifalias").read_text(encoding="utf-8").strip()
    return "sandbox" if alias == BRIDGE_ALIAS else "a bridge that the sandbox did not make"


def network(fleet: Fleet) -> None:
    problems = []
    where = f"{fleet.inventory / 'hosts.yml'}: all.vars.sandbox_network"
    owner = bridge_owner(fleet.network.bridge)
    if owner not in (None, "sandbox"):
        problems.append(
            Problem(f"{where}.bridge", f"{fleet.network.bridge} is {owner}", "is free or ours", "choose another name")
        )
    for text, device in overlaps(fleet.network, machine_routes()):
        problems.append(
            Problem(
                f"{where}.subnet",
                str(fleet.network.subnet),
                f"shares no address with the machine's networks; {text} on {device} does",
                "choose another private network (and addresses of hosts), or stop the fleet that uses this one",
            )
        )
    if problems:
        raise SandboxError(problems)
