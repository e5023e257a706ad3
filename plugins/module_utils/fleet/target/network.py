"""What a network interface is made of: the card behind it, its driver, its place and its RDMA device."""

from __future__ import annotations

import os
import re
from typing import Any

from .host import Host

PCI_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


def hardware(host: Host, name: str) -> dict[str, Any]:
    """Facts of the interface's device; all None for one without, such as a bridge."""
    base = f"/sys/class/net/{name}"
    speed = host.number(base + "/speed")
    address = _pci_address(host, base + "/device")
    node = host.number(f"/sys/bus/pci/devices/{address}/numa_node") if address else None
    return {
        # The kernel says -1 where it does not know, and nothing while the link is down.
        "speed_mbps": speed if speed is not None and speed > 0 else None,
        "driver": host.link(base + "/device/driver"),
        "pci_address": address,
        "numa_node": node if node is not None and node >= 0 else None,
        "rdma_device": next(iter(host.names(base + "/device/infiniband")), None),
    }


def _pci_address(host: Host, name: str) -> str | None:
    """The nearest PCI device above: the interface's own, or that of the virtio device it is on."""
    if not host.exists(name):
        return None
    parts = reversed(os.path.realpath(host.path(name)).split("/"))
    return next((part for part in parts if re.fullmatch(PCI_ADDRESS, part)), None)
