"""Fixture trees with accelerators on their bus, and stand-ins of the vendors' tools in them."""

from __future__ import annotations

from pathlib import Path

EMULATORS = Path(__file__).resolve().parents[2] / "emulators"
RECORDED = EMULATORS / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def write(root: Path, name: str, text: str) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def link(root: Path, name: str, target: str) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def device(root: Path, address: str, ids: str, kind: str, driver: str | None = None, node: int = 0) -> None:
    """A PCI device as sysfs shows it; ``ids`` is vendor:device, with the subsystem's two after them or without."""
    base = f"/sys/bus/pci/devices/{address}"
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    for name, number in zip(names, ids.split(":"), strict=False):
        write(root, f"{base}/{name}", f"0x{number}\n")
    write(root, f"{base}/class", f"0x{kind}\n")
    write(root, f"{base}/numa_node", f"{node}\n")
    if driver:
        link(root, f"{base}/driver", f"../../../bus/pci/drivers/{driver}")


def install(root: Path, tool: str, case: str = "", folder: str = "/usr/local/bin") -> None:
    """A stand-in in the tree; ``case`` is what it replays where no environment variable says otherwise."""
    link(root, f"{folder}/{tool}", str(EMULATORS / tool))
    if case:
        write(root, f"{folder}/{tool}.case", case + "\n")
