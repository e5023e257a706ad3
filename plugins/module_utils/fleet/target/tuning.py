"""Settings of a host: now, for the next boot, and the way back.

Read, compare, apply what differs, and read again: what counts is what the kernel says, not what was written. Each
value from before the first change is on record until it was given back.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .files import make_folders, read_json, read_text, write_json, write_text
from .trouble import Trouble
from .tuning_settings import (
    PORTS,
    SHM,
    THP,
    TWINS,
    Places,
    governors,
    huge_pages,
    normal,
    policies,
    ports_of,
    ports_text,
    read,
    same,
    setting_file,
    sysctl_name,
    why_other,
    why_refused,
    writable,
    write,
)

HEAD = "# Written by vllm-fleet (role host_tuning), and rewritten by its next run.\n"
# In the order in which systemd-sysctl lets one directory win over another for files of the same name.
SYSCTL_DIRS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
#: What the plan and the inventory call groups of settings, in ``optional``, ``leave`` and ``reasons``.
GROUPS = ("thp", "governor", "reserved_ports", "limits", "engine_shm", "shm", "huge_pages")


@dataclass(frozen=True)
class Wanted:
    """What a host should have. Settings in ``optional`` are left out where the kernel lacks them or forbids them.

    ``thp`` is {enabled: ..., defrag: ...}, ``limits`` are directives of ``limits_unit``, ``engine_shm_bytes`` is the
    size of that unit's own /dev/shm. ``reasons`` go into the files, by key or group.
    """

    sysctl: dict[str, str] = field(default_factory=dict)
    thp: dict[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    governor: str = ""
    reserved_ports: str = ""
    shm_bytes: int = 0
    huge_pages: list[dict[str, Any]] = field(default_factory=list)
    huge_pages_max_share: float = 0.5
    limits: dict[str, str] = field(default_factory=dict)
    limits_unit: str = "vllm-engine@.service"
    engine_shm_bytes: int = 0
    reasons: dict[str, str] = field(default_factory=dict)


def merged(plan: dict[str, Any], demanded: dict[str, Any], optional: list[str], leave: list[str]) -> Wanted:
    """What the plan asks, without what this host leaves alone, below what the inventory demands.

    A demand must be met; what only the plan asks may be missing.
    """
    left = set(leave)
    allowed = set(optional)
    both: dict[str, Any] = {}
    for key in ("sysctl", "thp", "limits"):
        asked = dict(plan.get(key) or {})
        own = {name: str(value) for name, value in (demanded.get(key) or {}).items() if value is not None}
        if key == "sysctl":
            asked = {sysctl_name(n): v for n, v in asked.items() if not left & {n, sysctl_name(n)}}
            own = {sysctl_name(n): v for n, v in own.items()}
            allowed |= asked.keys() - own.keys()
        elif key in left:
            asked = {}
        if key == "thp" and not own:
            allowed.add(key)
        both[key] = {**asked, **own}
    for key, nothing in (("governor", ""), ("engine_shm_bytes", 0)):
        group = key.replace("_bytes", "")
        both[key] = demanded.get(key) or (plan.get(key) if group not in left else None) or nothing
        if not demanded.get(key):
            allowed.add(group)
    ports = set() if "reserved_ports" in left else ports_of(plan.get("reserved_ports"))
    own_ports = ports_of(demanded.get("reserved_ports")) | ports_of(both["sysctl"].pop(PORTS, ""))
    if not own_ports:
        allowed.add("reserved_ports")
    return Wanted(
        **both,
        optional=frozenset(sysctl_name(n) if n not in GROUPS else n for n in allowed),
        reserved_ports=ports_text(ports | own_ports),
        shm_bytes=int(demanded.get("shm_bytes") or 0),
        huge_pages=list(demanded.get("huge_pages") or []),
        huge_pages_max_share=float(demanded.get("huge_pages_max_share", 0.5)),
        limits_unit=demanded.get("limits_unit") or Wanted.limits_unit,
        reasons={sysctl_name(n) if n not in GROUPS else n: str(r) for n, r in (plan.get("reasons") or {}).items()},
    )


def _listed(wanted: Wanted, places: Places) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Single settings with their values, the group or key that each comes from, and groups that the host lacks."""
    settings = {name: normal(value) for name, value in wanted.sysctl.items()}
    groups = {name: name for name in settings}
    lacking = []

    def add(group: str, values: dict[str, str]) -> None:
        settings.update(values)
        groups.update(dict.fromkeys(values, group))

    add("thp", {f"{THP}/{name}": mode for name, mode in wanted.thp.items()})
    if wanted.governor:
        names = policies(places)
        add("governor", dict.fromkeys(names, wanted.governor))
        if not names:
            lacking.append("governor")
    if wanted.shm_bytes:
        page = os.sysconf("SC_PAGESIZE")
        add("shm", {SHM: str(-(-wanted.shm_bytes // page) * page)})
    pools = huge_pages(wanted.huge_pages, wanted.huge_pages_max_share, places)
    other = [name for name in ("vm.nr_hugepages", "vm.nr_hugepages_mempolicy") if name in settings]
    if pools and other:
        raise Trouble(f"{other[0]} and host_tuning_huge_pages set the same pages", f"leave {other[0]} out")
    add("huge_pages", pools)
    return settings, groups, lacking


def _possible(
    settings: dict[str, str], groups: dict[str, str], lacking: list[str], optional: frozenset[str], places: Places
) -> dict[str, str]:
    """Why settings cannot be had here, by name; refuses those that are not optional, all at once."""
    left = dict.fromkeys(lacking, "this kernel has no cpufreq: firmware or the machine below decides")
    missing, forbidden = [], []
    for name, value in sorted(settings.items()):
        group, found = groups[name], read(name, places)
        if found is None:
            left[name] = "this kernel has none"
            missing += [name] if group not in optional else []
        elif same(name, found, value):
            continue
        elif group == "governor" and value not in (governors(name, places) or value).split():
            left[name] = f"its governors are {governors(name, places)}"
            forbidden += [f"{name}: wanted {value}, found {found}: {left[name]}"] if group not in optional else []
        elif name != SHM and not writable(name, places):
            left[name] = f"read-only here, as in a container; it is {found}, not {value}"
            if group not in optional:
                forbidden.append(
                    f"{name}: wanted {value}, found {found}: it is read-only here, as in a container, or this run is "
                    "not root"
                )
    missing += [group for group in lacking if group not in optional]
    if missing:
        raise Trouble(
            f"this kernel has no {', '.join(missing)}",
            "check the spelling; load the module that brings it before this role; or, where hosts may do without, list "
            "it in host_tuning_optional",
        )
    if forbidden:
        raise Trouble(
            f"cannot be set here: {'; '.join(forbidden)}",
            "set it on the machine that runs this host, correct it, or list it in host_tuning_optional",
        )
    return left


def _comment(wanted: Wanted, *names: str) -> str:
    return "".join(f"# {name}: {wanted.reasons[name]}\n" for name in dict.fromkeys(names) if name in wanted.reasons)


def limits_file(wanted: Wanted) -> str:
    return f"/etc/systemd/system/{wanted.limits_unit}.d/40-vllm-fleet-limits.conf"


def files_of(wanted: Wanted, settings: dict[str, str], groups: dict[str, str], places: Places) -> dict[str, str]:
    """Everything that makes the settings last: by path."""
    files = {}
    sysctl = sorted(name for name in settings if not name.startswith("/"))
    if sysctl:
        lines = [_comment(wanted, groups[name]) + f"{name} = {settings[name]}\n" for name in sysctl]
        files[places.sysctl_file] = HEAD + "".join(lines)
    tree = sorted(name for name in settings if name.startswith("/sys/"))
    if tree:
        lines = [f"w {name} - - - - {settings[name]}\n" for name in tree]
        files[places.tmpfiles_file] = HEAD + _comment(wanted, *(groups[name] for name in tree)) + "".join(lines)
    if SHM in settings:
        unit = os.path.basename(places.shm_unit)
        files[places.shm_unit] = (
            f"{HEAD}[Unit]\nDescription=Size of {SHM}\nDefaultDependencies=no\nAfter=systemd-remount-fs.service\n"
            f"Before=sysinit.target shutdown.target\nConflicts=shutdown.target\n\n[Service]\nType=oneshot\n"
            f"RemainAfterExit=yes\nExecStart=mount -o remount,size={settings[SHM]} {SHM}\n"
        )
        files[places.shm_wants] = f"{HEAD}[Unit]\nWants={unit}\n"
    limits = [f"{name}={value}\n" for name, value in sorted(wanted.limits.items())]
    if wanted.engine_shm_bytes:
        # The empty line takes back the unit's own, which has no size: systemd then allows a tenth of the memory.
        limits += ["TemporaryFileSystem=\n", f"TemporaryFileSystem={SHM}:mode=1777,size={wanted.engine_shm_bytes}\n"]
    if limits:
        files[limits_file(wanted)] = HEAD + _comment(wanted, "limits", "engine_shm") + "[Service]\n" + "".join(limits)
    return files


def picture(settings: dict[str, str | None], files: dict[str, str | None]) -> str:
    """What a diff compares: the kernel's values and the files."""
    lines = [f"kernel {name} = {value}" for name, value in sorted(settings.items())]
    for path, text in sorted(files.items()):
        lines += [f"{path}: {line}" for line in (text or "").splitlines() if not line.startswith("#")]
    return "".join(f"{line}\n" for line in lines)


def set_kernel(settings: dict[str, str], places: Places) -> None:
    """Write what differs, then ask the kernel. Everything is tried, and all that failed is told at once."""
    wrong = {}
    for name, value in sorted(settings.items()):
        found = read(name, places)
        if same(name, found, value) or (value == "0" and settings.get(TWINS.get(name, ""), "0") != "0"):
            continue
        try:
            write(name, value, places)
        except OSError as error:
            cause = why_refused(name, error, places)
            wrong[name] = f"{name}: wanted {value}, found {found}; the kernel says {error.strerror}: {cause}"
    for name, value in sorted(settings.items()):
        found = read(name, places)
        if name not in wrong and not same(name, found, value):
            wrong[name] = f"{name}: wanted {value}, found {found} after it was written: {why_other(name, value, found)}"
    if wrong:
        raise Trouble(
            f"the kernel did not take {len(wrong)} of {len(settings)} settings: {'; '.join(wrong.values())}",
            "correct the values or the causes and run again; host_tuning_state: absent gives back what was before",
        )


def overrides(sysctl: dict[str, str], places: Places) -> list[str]:
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
    by_file = {setting_file(name): name for name in sysctl}
    found = []
    for path in files:
        try:
            lines = (read_text(places.path(path)) or "").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            match = re.match(r"\s*-?\s*([^#;=\s][^=\s]*)\s*=\s*(.*)", line)
            key = by_file.get(setting_file(match.group(1))) if match else None
            if match and key and not _holds(key, match.group(2), sysctl[key]):
                found.append(f"{path} sets {key} to {normal(match.group(2))}, and is read after {places.sysctl_file}")
    return found


def _holds(name: str, value: str, wanted: str) -> bool:
    try:
        return same(name, value, wanted)
    except Trouble:  # somebody else's list of ports need not be one
        return False


@dataclass(frozen=True)
class Record:
    """What was before the first change: values by setting, texts of files (None: there was none), and our ports."""

    settings: dict[str, str]
    files: dict[str, str | None]
    ports_added: str = ""

    @classmethod
    def read(cls, places: Places) -> Record:
        data = read_json(places.path(places.state_file)) or {}
        # Records of older releases have one part for each kind of setting.
        settings = dict(data.get("sysctl") or {})
        settings.update({f"{THP}/{name}": value for name, value in (data.get("thp") or {}).items()})
        settings.update(data.get("settings") or {})
        return cls(settings, dict(data.get("files") or {}), str(data.get("ports_added") or ""))

    def write(self, places: Places) -> None:
        path = places.path(places.state_file)
        if self.settings or self.files:
            make_folders(os.path.dirname(path))
            data = {"settings": self.settings, "files": self.files, "ports_added": self.ports_added}
            write_json(path, data)
        elif os.path.lexists(path):
            os.unlink(path)


def _text_before(path: str, places: Places) -> str | None:
    """A file's text, unless an older release of this role wrote it: then there was none before."""
    text = read_text(places.path(path))
    return None if text is not None and text.startswith(HEAD) else text


def _place(files: dict[str, str | None], places: Places) -> None:
    for name, text in files.items():
        path = places.path(name)
        if text is None:
            if os.path.lexists(path):
                os.unlink(path)
            # A directory of drop-ins that holds nothing any more.
            if os.path.dirname(name).endswith((".service.d", ".target.d")):
                with suppress(OSError):
                    os.rmdir(os.path.dirname(path))
        elif read_text(path) != text:
            make_folders(os.path.dirname(path))
            write_text(path, text, 0o644)


def _ports(wanted: Wanted, before: Record, places: Places) -> tuple[dict[str, str], str, str]:
    """Ports are shared with whoever else reserves some: theirs and ours together, theirs alone, and what we add."""
    now = read(PORTS, places)
    theirs = ports_of(now) - ports_of(before.ports_added)
    ours = ports_of(wanted.reserved_ports)
    recorded = before.settings.get(PORTS)
    alone = recorded if recorded is not None and ports_of(recorded) == theirs else ports_text(theirs)
    return ({PORTS: ports_text(theirs | ours)} if ours else {}), alone, ports_text(ours - theirs)


def converge(wanted: Wanted, places: Places, check: bool) -> dict[str, Any]:
    """Bring a host to what is wanted; an empty ``wanted`` gives everything back as it was before the first run."""
    before = Record.read(places)
    settings, groups, lacking = _listed(wanted, places)
    ports, ports_alone, ports_added = _ports(wanted, before, places)
    settings.update(ports)
    groups.update(dict.fromkeys(ports, "reserved_ports"))
    left = _possible(settings, groups, lacking, wanted.optional, places)
    here = {name: value for name, value in settings.items() if name not in left}
    # Settings that an earlier run changed, and that nobody wants any more, go back to what they were. One that the
    # kernel lost since (a module that is no longer loaded) has nothing to go back to.
    back = {
        name: ports_alone if name == PORTS else value
        for name, value in before.settings.items()
        if name not in here and name not in left and TWINS.get(name) not in here and read(name, places) is not None
    }
    goal = {**here, **back}
    now = {name: read(name, places) for name in goal}
    texts = files_of(wanted, here, groups, places)
    files: dict[str, str | None] = {**{name: text for name, text in before.files.items() if name not in texts}, **texts}
    # Files of older releases, which did not record them.
    for name in (places.sysctl_file, places.tmpfiles_file, limits_file(wanted)):
        if name not in files and _text_before(name, places) is None:
            files[name] = None
    files_now = {name: read_text(places.path(name)) for name in files}
    # What goes back with a setting, because writing that one makes it 0.
    along = [twin for n in here if (twin := TWINS.get(n)) and twin not in here and read(twin, places) is not None]
    keep = Record(
        {n: before.settings[n] if n in before.settings else str(read(n, places)) for n in [*here, *along]}
        | {n: v for n, v in before.settings.items() if n in left and read(n, places) is not None},
        {n: before.files[n] if n in before.files else _text_before(n, places) for n in texts},
        ports_added if PORTS in here else "",
    )
    wrong = [name for name, value in goal.items() if not same(name, now[name], value)]
    stale = [name for name, text in files.items() if files_now[name] != text]
    changed = bool(wrong or stale or keep != before)
    result: dict[str, Any] = {
        "changed": changed,
        "kernel_changed": sorted(wrong),
        "files_changed": sorted(stale),
        "left_alone": left,
        "warnings": overrides({n: v for n, v in here.items() if not n.startswith("/")}, places),
        "diff": {"before": picture(now, files_now), "after": picture(dict(goal), files)},
    }
    if check or not changed:
        return result
    # The record first: what it holds is gone once the kernel has other values. Until the end it also keeps what goes
    # back.
    Record(
        {**before.settings, **keep.settings},
        {**before.files, **keep.files},
        ports_text(ports_of(before.ports_added) | ports_of(ports_added)),
    ).write(places)
    _place({name: text for name, text in files.items() if name in texts}, places)
    set_kernel(goal, places)
    _place({name: text for name, text in files.items() if name not in texts}, places)
    keep.write(places)
    return result
