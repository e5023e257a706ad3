"""Kernel settings that the plan asks of a host, with their reasons."""

from __future__ import annotations

from .plan import Tuning

#: Weights are mapped in many pieces; the kernel's old default of 65530 maps runs out with large sharded models. This
#: value is the default of current distributions, so it never lowers what a host already has.
ENGINE = {"vm.max_map_count": "1048576", "net.core.somaxconn": "4096"}
#: HAProxy binds the virtual address on every gateway, also where the address is not at the moment.
GATEWAY = {"net.ipv4.ip_nonlocal_bind": "1", "net.core.somaxconn": "4096"}


def tuning(engine: bool, gateway: bool) -> Tuning:
    """The settings for a host that has engines, a gateway, both or none."""
    wanted: dict[str, str] = {}
    if engine:
        wanted |= ENGINE
    if gateway:
        wanted |= GATEWAY
    return Tuning(dict(sorted(wanted.items())))
