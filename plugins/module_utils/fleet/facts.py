"""What was discovered on a host, as typed data. ``target/discover.py`` makes it; missing pieces stay None."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .contract.host_shapes import Host

GIB = 1 << 30


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
class Card:
    """One accelerator. ``chip`` is the name that the vendor's tool prints, ``health`` its word, None without one.

    ``holders`` are processes on it, for people: name, and unit where there is one.
    """

    index: int
    vendor: str
    chip: str = ""
    pci_id: str | None = None
    pci_address: str = ""
    memory_bytes: int | None = None
    driver: str | None = None
    health: str | None = None
    numa_node: int | None = None
    kernel_driver: str | None = None
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nic:
    """What is known of an interface besides its addresses."""

    mtu: int | None = None
    speed_mbps: int | None = None
    rdma_device: str | None = None
    numa_node: int | None = None


@dataclass(frozen=True)
class Nvidia:
    """NVIDIA's parts besides the cards. ``library`` is the version of libnvidia-ml, which must be the driver's."""

    driver: str | None = None
    library: str | None = None
    nvswitches: int = 0
    fabric_manager: str | None = None
    fabric_state: str | None = None


@dataclass(frozen=True)
class HostFacts:
    """Facts of one host. Sizes are bytes, ``age_seconds`` is how long ago they were taken.

    ``claimed`` is set where nobody asked the host and the inventory's ``fleet_host`` stands for it. ``findings`` are
    what discovery itself could not make out.
    """

    os_id: str = ""
    os_like: str = ""
    os_version: str = ""
    os_codename: str = ""
    os_name: str = ""
    arch: str = ""
    glibc: str = ""
    page_size: int | None = None
    cpu_count: int = 1
    cpu_flags: frozenset[str] = frozenset()
    virtual: bool = False
    numa: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    numa_memory: Mapping[int, int] = field(default_factory=dict)
    memory_bytes: int | None = None
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nics: Mapping[str, Nic] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    cards: tuple[Card, ...] = ()
    nvidia: Nvidia = Nvidia()
    hdk: str | None = None
    dcu_driver: str | None = None
    cann: tuple[str, ...] = ()
    dtk: str | None = None
    disks: Mapping[str, int] = field(default_factory=dict)
    disk_read_bytes_per_second: int | None = None
    findings: tuple[str, ...] = ()
    claimed: bool = False
    age_seconds: int = 0

    @classmethod
    def of(cls, data: Mapping[str, Any], age_seconds: int = 0) -> HostFacts:
        """Read what ``fleet_discover`` returned. Never fails on a missing piece, nor on one of a wrong type."""
        os_, cpu, memory = _map(data, "os"), _map(data, "cpu"), _map(data, "memory")
        tools = _map(data, "card_tools")
        interfaces = [i for i in _maps(data, "interfaces") if i.get("name") != "lo"]
        nodes = [n for n in _maps(data, "numa") if _int(n, "id") is not None]
        return cls(
            os_id=_text(os_, "id"),
            os_like=_text(os_, "id_like"),
            os_version=_text(os_, "version_id"),
            os_codename=_text(os_, "codename") or _in_brackets(_text(os_, "pretty_name")),
            os_name=_text(os_, "pretty_name") or _text(os_, "name") or _text(os_, "id"),
            arch=_text(data, "arch"),
            glibc=_text(data, "glibc"),
            page_size=_size(data, "page_size"),
            cpu_count=_size(cpu, "count") or 1,
            cpu_flags=frozenset(_texts(cpu, "flags")),
            virtual=bool(data.get("virtual")),
            numa={int(n["id"]): tuple(c for c in _list(n, "cpus") if isinstance(c, int)) for n in nodes},
            numa_memory={int(n["id"]): size for n in nodes if (size := _size(n, "memory_bytes"))},
            memory_bytes=_size(memory, "total_bytes"),
            interfaces={_text(i, "name"): _addresses(i) for i in interfaces},
            nics={
                _text(i, "name"): Nic(
                    _int(i, "mtu"), _int(i, "speed_mbps"), _text(i, "rdma_device") or None, _int(i, "numa_node")
                )
                for i in interfaces
            },
            listeners=tuple(
                Listener(port, _text(x, "address"), _text(x, "process"), _text(x, "unit"))
                for x in _maps(data, "listening")
                if (port := _int(x, "port")) is not None
            ),
            cards=tuple(_card(position, card) for position, card in enumerate(_maps(data, "cards"))),
            nvidia=_nvidia(_map(tools, "nvidia")),
            hdk=_text(_map(tools, "huawei"), "hdk") or None,
            dcu_driver=_text(_map(tools, "hygon"), "driver") or None,
            # Beside the toolkit, discovery lists what else of CANN is there.
            cann=tuple(v for c in _maps(data, "cann") if c.get("kind") == "toolkit" and (v := _text(c, "version"))),
            dtk=_text(data, "dtk") or None,
            disks={path: free for path, disk in _map(data, "disks").items() if (free := _size(disk, "free_bytes"))},
            disk_read_bytes_per_second=_size(_map(data, "disks"), "disk_read_bytes_per_second")
            or _size(data, "disk_read_bytes_per_second"),
            # A host without a Python is known by what a shell could tell, which bootstrap mends.
            findings=tuple(str(f) for f in _list(data, "findings")) if data.get("usable_python", True) else (),
            age_seconds=age_seconds,
        )

    @classmethod
    def of_claims(cls, host: Host, address: str | None) -> HostFacts:
        """What the inventory says of a host that nobody asked."""
        os_, cards = host.os, host.cards
        nodes, cpus = host.numa_nodes or 1, host.cpus or 1
        share = max(1, cpus // nodes)
        made = cards.count if cards else 0
        return cls(
            os_id=os_.id if os_ else "",
            os_version=os_.version if os_ else "",
            os_codename=(os_.codename or "") if os_ else "",
            os_name=f"{os_.id} {os_.version}" if os_ else "",
            arch=host.arch or "",
            glibc=host.glibc or "",
            page_size=host.page_size,
            cpu_count=cpus,
            numa={n: tuple(range(n * share, (n + 1) * share)) for n in range(nodes)} if host.cpus else {},
            memory_bytes=int(host.memory_gib * GIB) if host.memory_gib else None,
            interfaces={} if address is None else {"": (address,)},
            cards=tuple(
                Card(
                    index=n,
                    vendor=cards.vendor,
                    chip=cards.chip,
                    memory_bytes=int(cards.memory_gib * GIB),
                    driver=host.driver,
                    numa_node=n * nodes // made,
                )
                for n in range(made)
                if cards
            ),
            nvidia=Nvidia(driver=host.driver) if cards and cards.vendor == "nvidia" else Nvidia(),
            hdk=host.hdk,
            dcu_driver=host.driver if cards and cards.vendor == "hygon" else None,
            cann=(host.cann,) if host.cann else (),
            claimed=True,
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

    def interface_with(self, address: str) -> str | None:
        """The interface that has exactly this address."""
        wanted = ipaddress.ip_address(address)
        for name in sorted(self.interfaces):
            if any(ipaddress.ip_interface(text).ip == wanted for text in self.interfaces[name]):
                return name or None
        return None

    def addresses_text(self) -> str:
        """All addresses, for messages."""
        return ", ".join(f"{n} {t}" for n in sorted(self.interfaces) for t in self.interfaces[n]) or "none"


def _in_brackets(name: str) -> str:
    """The service pack or codename that openEuler and Kylin write into their name only: ``V10 (Lance)``."""
    _, opening, rest = name.rpartition("(")
    return rest.rstrip(") ") if opening else ""


#: A measured speed that is within this factor of the recorded one is the same disk on another day.
SAME_SPEED = 3


def steady_speed(recorded: Any, measured: Any) -> Any:
    """The read speed of a disk to plan with, in bytes a second.

    It is measured in half a second, on hosts that serve, so it differs from run to run; and timeouts of units follow
    from it. The recorded one stays until the disk is another one: engines must not restart for noise.
    """
    if not isinstance(recorded, int) or not isinstance(measured, int) or min(recorded, measured) <= 0:
        return measured if isinstance(measured, int) else recorded
    return recorded if recorded / SAME_SPEED < measured < recorded * SAME_SPEED else measured


def _card(position: int, data: Mapping[str, Any]) -> Card:
    index = _int(data, "index")
    return Card(
        index=position if index is None else index,
        vendor=_text(data, "vendor"),
        chip=_text(data, "chip"),
        pci_id=_text(data, "pci_id") or None,
        pci_address=_text(data, "pci_address"),
        memory_bytes=_size(data, "memory_bytes"),
        driver=_text(data, "driver") or None,
        health=_text(data, "health") or None,
        numa_node=_int(data, "numa_node"),
        kernel_driver=_text(data, "kernel_driver") or None,
        holders=tuple(
            " of ".join(t for t in (_text(p, "name") or f"process {p.get('pid')}", _text(p, "unit")) if t)
            for p in _maps(data, "processes")
        ),
    )


def _nvidia(data: Mapping[str, Any]) -> Nvidia:
    manager = _map(data, "fabric_manager")
    return Nvidia(
        driver=_text(data, "driver") or None,
        library=_text(data, "library_version") or None,
        nvswitches=_int(data, "nvswitches") or 0,
        fabric_manager=_text(manager, "version") or None,
        fabric_state=_text(manager, "state") or None,
    )


def _map(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return list(value) if isinstance(value, list | tuple) else []


def _maps(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return [item for item in _list(data, key) if isinstance(item, Mapping)]


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    return [item for item in _list(data, key) if isinstance(item, str)]


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _int(data: Any, key: str) -> int | None:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _size(data: Any, key: str) -> int | None:
    """A number of something. A tool that fails may tell none, or one below it: such a size is not known."""
    value = _int(data, key)
    return value if value is not None and value > 0 else None


def _addresses(interface: Mapping[str, Any]) -> tuple[str, ...]:
    """The addresses that are such: a half-dead host may tell anything."""
    found = []
    for text in _texts(interface, "addresses"):
        try:
            ipaddress.ip_interface(text)
        except ValueError:
            continue
        found.append(text)
    return tuple(found)
