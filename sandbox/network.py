"""The bridge of a fleet: the machine's only new interface besides the hosts' own. No forwarding, no NAT."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sandbox.config import Network
from sandbox.preflight import BRIDGE_ALIAS, bridge_owner
from sandbox.report import fail
from sandbox.system import run, wait_until


def _ip(*words: str, check: bool = True) -> None:
    run(["ip", *words], limit=15, purpose="network of the sandbox", check=check)


def machine_name(bridge: str, host: str) -> str:
    """The name that nspawn gets: short, so that the interface is vb-<name>, and no other fleet has it."""
    return hashlib.sha256(f"{bridge}/{host}".encode()).hexdigest()[:12]


def outer_interface(bridge: str, host: str) -> str:
    return f"vb-{machine_name(bridge, host)}"


def ensure_bridge(network: Network) -> bool:
    """True where it had to be made."""
    address = f"{network.controller}/{network.subnet.prefixlen}"
    made = bridge_owner(network.bridge) is None
    if made:
        _ip("link", "add", network.bridge, "type", "bridge", "forward_delay", "0", "stp_state", "0")
        # This mark tells the sandbox's bridges from all others, even after its state is lost.
        _ip("link", "set", network.bridge, "alias", BRIDGE_ALIAS)
    present = run(["ip", "-br", "-4", "address", "show", "dev", network.bridge], limit=10, purpose="bridge").stdout
    if address not in present.split():
        _ip("address", "flush", "dev", network.bridge)
        _ip("address", "add", address, "dev", network.bridge)
    _ip("link", "set", network.bridge, "up")
    return made


def remove_bridge(bridge: str) -> bool:
    if bridge_owner(bridge) != "sandbox":
        return False
    _ip("link", "delete", bridge)
    return True


def our_bridges() -> list[str]:
    return sorted(p.name for p in Path("/sys/class/net").iterdir() if bridge_owner(p.name) == "sandbox")


def members(bridge: str) -> list[str]:
    directory = Path("/sys/class/net") / bridge / "brif"
    return sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []


def set_link(bridge: str, host: str, state: str) -> None:
    interface = outer_interface(bridge, host)
    if not (Path("/sys/class/net") / interface).exists():
        raise fail(f"link of {host}", interface, "exists while the host runs", "start the host with `up`")
    _ip("link", "set", "dev", interface, state)


def link_state(bridge: str, host: str) -> str:
    flags = Path("/sys/class/net") / outer_interface(bridge, host) / "flags"
    if not flags.exists():
        return "none"
    return "up" if int(flags.read_text(encoding="ascii"), 16) & 1 else "down"


def wait_gone(bridge: str, host: str) -> None:
    """The kernel removes the pair of a killed host a moment later; a new one needs the name."""
    interface = outer_interface(bridge, host)
    place = Path("/sys/class/net") / interface
    if not wait_until(lambda: not place.exists(), limit=5):
        _ip("link", "delete", interface, check=False)
