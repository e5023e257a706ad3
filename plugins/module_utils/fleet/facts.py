"""What was discovered on a host, as typed data. ``target/discover.py`` makes it; missing pieces stay None."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Listener:
    """A TCP port that something listens on."""

    port: int
    address: str = ""
    process: str = ""
    unit: str = ""

    @property
    def holder(self) -> str:
        """Who holds the port, for people."""
        if self.unit:
            return f"{self.unit} ({self.process})" if self.process else self.unit
        return self.process or "an unknown process"


@dataclass(frozen=True)
class HostFacts:
    """Facts of one host. Sizes are bytes, ``age_seconds`` is how long ago they were taken."""

    os_id: str = ""
    os_like: str = ""
    os_version: str = ""
    os_name: str = ""
    arch: str = ""
    glibc: str = ""
    page_size: int | None = None
    cpu_count: int = 1
    cpu_flags: frozenset[str] = frozenset()
    virtual: bool = False
    numa: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    memory_bytes: int | None = None
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    disk_read_bytes_per_second: int | None = None
    age_seconds: int = 0

    @classmethod
    def of(cls, data: Mapping[str, Any], age_seconds: int = 0) -> HostFacts:
        """Read what ``fleet_discover`` returned. Never fails on a missing piece."""
        os_, cpu = data.get("os") or {}, data.get("cpu") or {}
        memory, listening = data.get("memory") or {}, data.get("listening") or []
        return cls(
            os_id=str(os_.get("id") or ""),
            os_like=str(os_.get("id_like") or ""),
            os_version=str(os_.get("version_id") or ""),
            os_name=str(os_.get("pretty_name") or os_.get("name") or os_.get("id") or ""),
            arch=str(data.get("arch") or ""),
            glibc=str(data.get("glibc") or ""),
            page_size=data.get("page_size"),
            cpu_count=int(cpu.get("count") or 1),
            cpu_flags=frozenset(cpu.get("flags") or ()),
            virtual=bool(data.get("virtual")),
            numa={int(n["id"]): tuple(n.get("cpus") or ()) for n in data.get("numa") or []},
            memory_bytes=memory.get("total_bytes"),
            interfaces={
                str(i["name"]): tuple(i.get("addresses") or ())
                for i in data.get("interfaces") or []
                if i.get("name") != "lo"
            },
            listeners=tuple(
                Listener(
                    int(x["port"]), str(x.get("address") or ""), str(x.get("process") or ""), str(x.get("unit") or "")
                )
                for x in listening
            ),
            disk_read_bytes_per_second=data.get("disk_read_bytes_per_second"),
            age_seconds=age_seconds,
        )

    def interface_of(self, network: ipaddress.IPv4Network) -> str | None:
        """The interface with an address in ``network``: first by name, so that the choice is stable."""
        for name in sorted(self.interfaces):
            for text in self.interfaces[name]:
                if ipaddress.ip_interface(text).ip in network:
                    return name
        return None

    def has_address(self, address: str) -> bool:
        """Whether any interface has exactly this address."""
        wanted = ipaddress.ip_address(address)
        return any(ipaddress.ip_interface(t).ip == wanted for texts in self.interfaces.values() for t in texts)

    def addresses_text(self) -> str:
        """All addresses, for messages."""
        return ", ".join(f"{n} {t}" for n in sorted(self.interfaces) for t in self.interfaces[n]) or "none"
