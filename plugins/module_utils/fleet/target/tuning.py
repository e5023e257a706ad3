"""Kernel settings of a host: one file for the next boot, the running kernel now, and the way back.

Read, compare, apply what differs, and read again: what counts is what the kernel says, not what was written.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from .files import make_folders, read_json, read_text, write_json, write_text
from .trouble import Trouble

HEAD = "# Written by vllm-fleet (role host_tuning), and rewritten by its next run.\n"
THP = "/sys/kernel/mm/transparent_hugepage"
# In the order in which systemd-sysctl lets one directory win over another for files of the same name.
SYSCTL_DIRS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")


@dataclass(frozen=True)
class Places:
    """Files of a host; below another root in tests."""

    root: str = "/"
    sysctl_file: str = "/etc/sysctl.d/60-vllm-fleet.conf"
    tmpfiles_file: str = "/etc/tmpfiles.d/60-vllm-fleet.conf"
    state_file: str = "/var/lib/vllm-fleet/state/host_tuning.json"

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))

    def setting(self, key: str) -> str:
        return self.path(setting_file(key))


@dataclass(frozen=True)
class Wanted:
    """What a host should have. ``thp`` is {enabled: ..., defrag: ...}; optional keys may be unknown to the kernel."""

    sysctl: dict[str, str] = field(default_factory=dict)
    thp: dict[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()


def setting_file(key: str) -> str:
    """The file of a sysctl below /. As sysctl(8) has it: the first separator of a name decides what separates."""
    first = re.search(r"[./]", key)
    if first is not None and first.group() == ".":
        key = key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{key}"


def normal(value: Any) -> str:
    """One spelling for values that are the same: the kernel answers with tabs between several numbers."""
    return " ".join(str(value).split())


def same(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    one, other = normal(one), normal(other)
    if one == other:
        return True
    words = (one.split(), other.split())
    if len(words[0]) != len(words[1]):
        return False
    try:
        return [int(word, 0) for word in words[0]] == [int(word, 0) for word in words[1]]
    except ValueError:
        return False


def chosen(text: str) -> str:
    """The mode in ``always [madvise] never``."""
    found = re.search(r"\[([^\]]+)\]", text)
    return found.group(1) if found else normal(text)


def read_sysctl(key: str, places: Places) -> str | None:
    try:
        text = read_text(places.setting(key))
    except OSError as error:
        raise Trouble(f"{key} cannot be read: {error.strerror}", "leave it out, or run as root") from error
    return None if text is None else normal(text)


def read_thp(name: str, places: Places) -> str | None:
    text = read_text(places.path(f"{THP}/{name}"))
    return None if text is None else chosen(text)


def present(wanted: Wanted, places: Places) -> Wanted:
    """The settings that this kernel has; refuses missing ones that are not optional, all at once."""
    missing = [key for key in sorted(wanted.sysctl) if read_sysctl(key, places) is None]
    needed = [key for key in missing if key not in wanted.optional]
    missing_thp = [name for name in sorted(wanted.thp) if read_thp(name, places) is None]
    needed += [f"{THP}/{name}" for name in missing_thp if "thp" not in wanted.optional]
    if needed:
        raise Trouble(
            f"this kernel has no {', '.join(needed)}",
            "check the spelling; load the module that brings it before this role; or, where hosts may do without, list "
            "it in host_tuning_optional",
        )
    return Wanted(
        {key: normal(value) for key, value in wanted.sysctl.items() if key not in missing},
        {name: value for name, value in wanted.thp.items() if name not in missing_thp},
        wanted.optional,
    )


def sysctl_text(wanted: Wanted) -> str | None:
    lines = [f"{key} = {value}\n" for key, value in sorted(wanted.sysctl.items())]
    return HEAD + "".join(lines) if lines else None


def tmpfiles_text(wanted: Wanted) -> str | None:
    lines = [f"w {THP}/{name} - - - - {value}\n" for name, value in sorted(wanted.thp.items())]
    return HEAD + "".join(lines) if lines else None


def kernel_now(sysctl: list[str], thp: list[str], places: Places) -> dict[str, dict[str, str | None]]:
    return {
        "sysctl": {key: read_sysctl(key, places) for key in sorted(sysctl)},
        "thp": {name: read_thp(name, places) for name in sorted(thp)},
    }


def picture(sysctl: dict[str, str | None], thp: dict[str, str | None], files: dict[str, str | None]) -> str:
    """What a diff compares: the kernel's values and the files."""
    lines = [f"kernel {key} = {value}" for key, value in sorted(sysctl.items())]
    lines += [f"kernel {THP}/{name} = {value}" for name, value in sorted(thp.items())]
    for path, text in sorted(files.items()):
        lines += [f"{path}: {line}" for line in (text or "").splitlines() if not line.startswith("#")]
    return "".join(f"{line}\n" for line in lines)


def _write(path: str, value: str, name: str) -> None:
    try:
        # Kernel files are written in one call, and never replaced.
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{value}\n")
    except OSError as error:
        raise Trouble(
            f"the kernel does not take {value!r} for {name}: {error.strerror}",
            "correct the value; in a container, set it on the machine that runs it",
        ) from error


def set_kernel(sysctl: dict[str, str], thp: dict[str, str], places: Places) -> None:
    """Write what differs, then ask the kernel."""
    for key, value in sorted(sysctl.items()):
        if not same(read_sysctl(key, places), value):
            _write(places.setting(key), value, key)
    for name, value in sorted(thp.items()):
        if read_thp(name, places) != value:
            _write(places.path(f"{THP}/{name}"), value, f"{THP}/{name}")
    wrong = [
        f"{key} is {found}, not {sysctl[key]}"
        for key, found in kernel_now(list(sysctl), [], places)["sysctl"].items()
        if not same(found, sysctl[key])
    ]
    wrong += [
        f"{THP}/{name} is {found}, not {thp[name]}"
        for name, found in kernel_now([], list(thp), places)["thp"].items()
        if found != thp[name]
    ]
    if wrong:
        raise Trouble(
            f"the kernel took values but has others: {'; '.join(wrong)}",
            "look for what sets them back (tuned, another sysctl tool), or use a value that the kernel keeps",
        )


def overrides(wanted: Wanted, places: Places) -> list[str]:
    """Other files that would win over ours at the next boot with another value."""
    ours = os.path.basename(places.sysctl_file)
    seen: dict[str, str] = {}
    for folder in SYSCTL_DIRS:
        try:
            names = os.listdir(places.path(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".conf"):
                seen.setdefault(name, f"{folder}/{name}")
    files = [seen[name] for name in sorted(seen) if name > ours] + ["/etc/sysctl.conf"]
    found = []
    for path in files:
        try:
            lines = (read_text(places.path(path)) or "").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            match = re.match(r"\s*-?\s*([^#;=\s][^=\s]*)\s*=\s*(.*)", line)
            if not match:
                continue
            for key, value in wanted.sysctl.items():
                if setting_file(key) == setting_file(match.group(1)) and not same(match.group(2), value):
                    found.append(
                        f"{path} sets {key} to {normal(match.group(2))}, and is read after {places.sysctl_file}"
                    )
    return found


def _recorded(places: Places) -> dict[str, dict[str, str]]:
    record = read_json(places.path(places.state_file)) or {}
    return {part: dict(record.get(part) or {}) for part in ("sysctl", "thp")}


def _files_now(places: Places) -> dict[str, str | None]:
    return {name: read_text(places.path(name)) for name in (places.sysctl_file, places.tmpfiles_file)}


def _place(files: dict[str, str | None], places: Places) -> None:
    for name, text in files.items():
        path = places.path(name)
        if text is None:
            if os.path.lexists(path):
                os.unlink(path)
        elif read_text(path) != text:
            make_folders(os.path.dirname(path))
            write_text(path, text, 0o644)


def converge(wanted: Wanted, places: Places, check: bool) -> dict[str, Any]:
    """Bring a host to what is wanted; an empty ``wanted`` gives everything back as it was before the first run."""
    here = present(wanted, places)
    before = _recorded(places)
    # Settings that an earlier run changed, and that nobody wants any more, go back to what they were. One that the
    # kernel lost since (a module that is no longer loaded) has nothing to go back to.
    back = {
        "sysctl": {
            k: v for k, v in before["sysctl"].items() if k not in here.sysctl and read_sysctl(k, places) is not None
        },
        "thp": {n: v for n, v in before["thp"].items() if n not in here.thp and read_thp(n, places) is not None},
    }
    sysctl = {**here.sysctl, **back["sysctl"]}
    thp = {**here.thp, **back["thp"]}
    now = kernel_now(list(sysctl), list(thp), places)
    files = {places.sysctl_file: sysctl_text(here), places.tmpfiles_file: tmpfiles_text(here)}
    files_now = _files_now(places)
    keep = {
        "sysctl": {key: before["sysctl"].get(key, now["sysctl"][key]) for key in here.sysctl},
        "thp": {name: before["thp"].get(name, now["thp"][name]) for name in here.thp},
    }
    wrong = [key for key, value in sysctl.items() if not same(now["sysctl"][key], value)]
    wrong += [f"{THP}/{name}" for name, value in thp.items() if now["thp"][name] != value]
    stale = [name for name, text in files.items() if files_now[name] != text]
    changed = bool(wrong or stale or keep != before)
    result: dict[str, Any] = {
        "changed": changed,
        "kernel_changed": sorted(wrong),
        "files_changed": sorted(stale),
        "warnings": overrides(here, places),
        "diff": {
            "before": picture(now["sysctl"], now["thp"], files_now),
            "after": picture(dict(sysctl), dict(thp), files),
        },
    }
    if check or not changed:
        return result
    state = places.path(places.state_file)
    # The record first: what it holds is gone once the kernel has other values. Until the end it also keeps what goes
    # back.
    if any(keep.values()) or any(before.values()):
        make_folders(os.path.dirname(state))
        write_json(state, {part: {**before[part], **keep[part]} for part in keep})
    _place({name: text for name, text in files.items() if text is not None}, places)
    set_kernel(sysctl, thp, places)
    _place({name: text for name, text in files.items() if text is None}, places)
    if any(keep.values()):
        write_json(state, keep)
    elif os.path.lexists(state):
        os.unlink(state)
    return result
