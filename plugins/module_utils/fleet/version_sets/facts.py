"""What is known of a host and what an operator asks for: the two inputs of the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

VENDORS = {
    "nvidia": "nvidia",
    "10de": "nvidia",
    "huawei": "huawei",
    "ascend": "huawei",
    "19e5": "huawei",
    "hygon": "hygon",
    "1d94": "hygon",
    "amd": "amd",
    "1002": "amd",
}
BACKEND_OF_VENDOR = {"nvidia": "cuda", "huawei": "ascend", "hygon": "dcu", "amd": "rocm"}
BACKENDS = ("cuda", "ascend", "dcu", "rocm", "cpu")
METHODS = ("wheel", "release_asset", "variant_index", "source", "container")


@dataclass(frozen=True)
class Card:
    """One accelerator.

    chip is the name that the vendor's tool prints; pci_id is vendor:device, perhaps with the subsystem.
    """

    vendor: str
    chip: str = ""
    pci_id: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None


@dataclass(frozen=True)
class HostFacts:
    """What discovery found. None is "not known", never "not there".

    faults names facts that came in a wrong form and were left out; the solver warns of each.
    """

    os_id: str | None = None
    os_version: str | None = None
    os_codename: str | None = None
    arch: str | None = None
    glibc: str | None = None
    page_size: int | None = None
    cpu_flags: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    driver_version: str | None = None
    hdk_version: str | None = None
    cann_versions: tuple[str, ...] = ()
    python: str | None = None
    faults: tuple[str, ...] = ()

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> HostFacts:
        """Facts of a plain mapping.

        Unknown keys are left alone; a value of a wrong type becomes None and a fault.
        """
        faults: list[str] = []
        text = {k: _text(given, k, faults) for k in _TEXTS}
        size = given.get("page_size")
        if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
            faults.append("page_size")
            size = None
        cards: list[Card] = []
        for i, card in enumerate(_list(given, "cards", faults)):
            if isinstance(card, Mapping):
                cards.append(_card(card, f"cards[{i}]", faults))
            else:
                faults.append(f"cards[{i}]")
        return cls(
            **text,
            page_size=size,
            cpu_flags=_texts(given, "cpu_flags", faults),
            cards=tuple(cards),
            cann_versions=_texts(given, "cann_versions", faults),
            faults=tuple(faults),
        )

    def alike(self) -> HostFacts:
        """The facts that decide a version set: hosts that share them share the answer."""
        kinds = {replace(c, memory_bytes=None, vendor=c.vendor.lower()) for c in self.cards}
        order = tuple(sorted(kinds, key=lambda c: (c.vendor, c.chip, c.pci_id or "", c.driver or "")))
        return replace(self, cards=order, cpu_flags=tuple(sorted(set(self.cpu_flags))))


_TEXTS = (
    "os_id",
    "os_version",
    "os_codename",
    "arch",
    "glibc",
    "driver_version",
    "hdk_version",
    "python",
)


def _text(given: Mapping[str, Any], key: str, faults: list[str]) -> str | None:
    value = given.get(key)
    if value is None or (isinstance(value, str) and value.strip()):
        return value.strip() if value else None
    if not (isinstance(value, str) and not value.strip()):
        faults.append(key)
    return None


def _list(given: Mapping[str, Any], key: str, faults: list[str]) -> Sequence[Any]:
    value = given.get(key)
    if value is None:
        return ()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    faults.append(key)
    return ()


def _texts(given: Mapping[str, Any], key: str, faults: list[str]) -> tuple[str, ...]:
    values = _list(given, key, faults)
    if any(not isinstance(v, str) for v in values):
        faults.append(key)
    return tuple(v for v in values if isinstance(v, str))


def _card(given: Mapping[str, Any], where: str, faults: list[str]) -> Card:
    memory = given.get("memory_bytes")
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int)):
        faults.append(f"{where}.memory_bytes")
        memory = None
    mine: list[str] = []
    card = Card(
        vendor=_text(given, "vendor", mine) or "",
        chip=_text(given, "chip", mine) or "",
        pci_id=_text(given, "pci_id", mine),
        memory_bytes=memory,
        driver=_text(given, "driver", mine),
    )
    faults += [f"{where}.{key}" for key in mine]
    return card


def vendor_of(card: Card) -> str | None:
    """The maker of a card: by PCI id where there is one, otherwise by name."""
    by_pci = VENDORS.get((card.pci_id or "").lower().split(":")[0])
    return by_pci or VENDORS.get(card.vendor.lower())


@dataclass(frozen=True)
class Wanted:
    """What an operator asks for. None leaves the choice to the solver.

    vllm, vllm_ascend, torch, torch_npu, cann, cuda, python and dtk take a version, or a range such as
    ``>=0.25,<0.30``. prereleases: True takes candidates like releases, False refuses them, None takes one,
    with a warning, where no release serves. unlisted: take releases of vllm-ascend that the published
    matrix does not list.
    """

    backend: str | None = None
    vllm: str | None = None
    vllm_ascend: str | None = None
    torch: str | None = None
    torch_npu: str | None = None
    cann: str | None = None
    cuda: str | None = None
    python: str | None = None
    dtk: str | None = None
    methods: tuple[str, ...] = METHODS
    architectures: tuple[str, ...] = ()
    prereleases: bool | None = None
    unlisted: bool = False

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Wanted:
        """From a plain mapping; an unknown name or a wrong type is a ValueError that names it."""
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key not in cls.__dataclass_fields__:
                raise ValueError(f"unknown pin {key!r}")
            if key in ("methods", "architectures"):
                if isinstance(value, str) or not all(isinstance(v, str) for v in value):
                    raise ValueError(f"{key} takes a list of names")
                value = tuple(value)
            elif key in ("prereleases", "unlisted"):
                if value is not None and not isinstance(value, bool):
                    raise ValueError(f"{key} takes true or false")
            elif value is not None and not isinstance(value, str):
                raise ValueError(f"{key} takes a version in quotes, not {value!r}")
            values[key] = value
        wanted = cls(**values)
        if wanted.backend is not None and wanted.backend not in BACKENDS:
            raise ValueError(f"backend {wanted.backend!r} is none of {', '.join(BACKENDS)}")
        strange = [m for m in wanted.methods if m not in METHODS]
        if strange:
            raise ValueError(f"method {strange[0]!r} is none of {', '.join(METHODS)}")
        return wanted
