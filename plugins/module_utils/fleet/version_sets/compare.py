"""How versions of different makers compare.

Three orders are in use: Python packages (PEP 440), dotted numbers of drivers and glibc, and the vendor
releases of Ascend (``25.3.RC1``, ``26.1.1``), where a release candidate of a line comes before its releases.
"""

from __future__ import annotations

import re
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

VendorVersion = tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def package_version(text: str) -> Version | None:
    """A version of a Python package, or None when the text is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


@lru_cache(maxsize=4096)
def specifier(text: str) -> SpecifierSet | None:
    """A range such as ``>=0.25,<0.30``; a plain version means exactly that one.

    None when the text is neither.
    """
    if package_version(text) is not None:
        text = f"=={text}"
    try:
        return SpecifierSet(text, prereleases=True)
    except InvalidSpecifier:
        return None


@lru_cache(maxsize=65536)
def within(version: str, wanted: str) -> bool:
    """Whether a package version is inside a range. Ignores a local part such as ``+cpu`` of the version."""
    parsed, allowed = package_version(version), specifier(wanted)
    if parsed is None or allowed is None:
        return version == wanted
    if parsed in allowed:
        return True
    return parsed.local is not None and Version(parsed.public) in allowed


@lru_cache(maxsize=4096)
def numbers(text: str) -> tuple[int, ...] | None:
    """``2.28`` or ``580.159.04`` as numbers; None when it does not start with one."""
    match = re.match(r"\s*(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def at_least(have: str, need: str) -> bool | None:
    """Whether a dotted version reaches another; None when one of them cannot be read."""
    left, right = numbers(have), numbers(need)
    if left is None or right is None:
        return None
    length = max(len(left), len(right))
    return _padded(left, length) >= _padded(right, length)


def _padded(value: tuple[int, ...], length: int) -> tuple[int, ...]:
    return value + (0,) * (length - len(value))


@lru_cache(maxsize=4096)
def vendor_version(text: str) -> VendorVersion | None:
    """``25.3.RC1``, ``24.1.rc3.3``, ``26.1.1`` in an order in which candidates come first.

    None when unreadable.
    """
    parts: list[tuple[int, int]] = []
    for part in text.strip().lower().removeprefix("v").split("."):
        match = re.fullmatch(r"(rc)?(\d+)", part)
        if match is None:
            return None
        parts.append((-1 if match[1] else 0, int(match[2])))
    return tuple(parts) + ((0, 0),) * (5 - len(parts)) if len(parts) >= 2 else None


def matches_vendor(version: str, pattern: str) -> bool:
    """Whether a vendor release is meant by ``25.5.X``, or by ``26.0.RC1`` (and its patches, 26.0.RC1.1)."""
    have = version.strip().lower().removeprefix("v").split(".")
    want = pattern.strip().lower().split(".")
    if want[-1] == "x":
        want = want[:-1]
    return have[: len(want)] == want


@lru_cache(maxsize=4096)
def python_range(text: str) -> tuple[str, ...]:
    """The CPython minors, newest first, that a Requires-Python allows."""
    allowed = specifier(text) if text else SpecifierSet("")
    minors = [f"3.{minor}" for minor in range(14, 8, -1)]
    # A bound such as <3.12 is about minors; .99 stands for the newest patch of one.
    return tuple(m for m in minors if allowed is not None and Version(f"{m}.99") in allowed)


def tag_of(python: str) -> str:
    """``3.11`` as the tag of wheels, ``cp311``."""
    return "cp" + python.replace(".", "")
