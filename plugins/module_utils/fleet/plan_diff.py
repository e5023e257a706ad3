"""What a run of ``site.yml`` would change: a plan against what hosts were converged to, and against what runs on them.

Pure. ``before`` has the shape of ``plan.json``, and of each host the parts that it was converged to; ``running`` are
facts of this run by host.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .plan import canonical
from .problems import shorten
from .views import roll

Data = Mapping[str, Any]
#: Fields of an engine that it does not read: a change of them restarts nothing.
NOT_READ = frozenset({"cards", "max_request_seconds", "memory", "replica"})
#: So many hosts or names are written out.
NAMED = 4
#: What happens to a thing, for one and for several.
VERBS = {
    "starts": ("starts", "start"),
    "restarts": ("restarts", "restart"),
    "stops": ("stops", "stop"),
    "installed": ("is installed", "are installed"),
    "fetched": ("is fetched", "are fetched"),
    "set": ("are set", "are set"),
    "added": ("is added", "are added"),
    "removed": ("is removed", "are removed"),
    "reweighted": ("is reweighted", "are reweighted"),
    "changes": ("changes", "change"),
    "joins": ("joins", "join"),
    "leaves": ("leaves", "leave"),
    "left": ("is left running", "are left running"),
    "silent": ("is silent", "are silent"),
}
#: Nouns, in the order in which changes are counted and shown.
NOUNS = {
    "host": ("host", "hosts"),
    "engine": ("engine", "engines"),
    "runtime": ("runtime", "runtimes"),
    "model": ("model", "models"),
    "tuning": ("kernel settings of a host", "kernel settings of hosts"),
    "gateway": ("gateway", "gateways"),
    "service": ("service on gateways", "services on gateways"),
    "server": ("server of gateways", "servers of gateways"),
    "vip": ("VRRP instance", "VRRP instances"),
}
#: What no run does anything about.
NOTES = frozenset({"left", "silent", "leaves"})
GATEWAY_RELOADS = "HAProxy reloads: streams in flight go on"
VIP_RELOADS = "keepalived reloads: the address stays where it is unless priorities say otherwise"


@dataclass(frozen=True)
class KeyChange:
    """One key that differs; None where it was or is not set."""

    key: str
    was: Any
    now: Any


@dataclass(frozen=True)
class Change:
    """What happens to one thing on one host, why, and what follows from it."""

    host: str
    what: str
    name: str
    action: str
    keys: tuple[KeyChange, ...] = ()
    reason: str = ""
    consequence: str = ""

    @property
    def by_run(self) -> bool:
        """Whether a run does it; otherwise it is something that a run leaves as it is."""
        return self.action not in NOTES

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def difference(before: Data | None, after: Data, running: Mapping[str, Data] | None = None) -> list[Change]:
    """Every change, host by host. A host that ``running`` does not have is judged by ``before`` alone."""
    old: Data = json.loads(canonical((before or {"hosts": {}})["hosts"]))
    new: Data = json.loads(canonical(after["hosts"]))
    serving = _serving(new)
    changes: list[Change] = []
    for host in sorted(old.keys() | new.keys()):
        if host not in new:
            stays = "no playbook reaches it any more: what runs on it goes on, and gateways stop sending it requests"
            changes.append(Change(host, "host", host, "leaves", consequence=stays))
            continue
        if host not in old:
            changes.append(Change(host, "host", host, "joins"))
        was, now = old.get(host, {}), new[host]
        changes += _tuning(host, was, now)
        changes += _installed(host, was, now)
        changes += _engines(host, was, now, (running or {}).get(host), serving)
        changes += _gateway(host, was, now, (running or {}).get(host))
        changes += _vip(host, was, now)
    order = list(NOUNS)
    return sorted(changes, key=lambda c: (c.host, order.index(c.what), c.name, c.action))


def keys_of(was: Data, now: Data, prefix: str = "") -> tuple[KeyChange, ...]:
    """The keys that differ, in mappings at any depth: ``settings.max-num-seqs``.

    At the top a key that is missing is one that is None, for a newer release may have more fields.
    """
    found: list[KeyChange] = []
    for key in sorted(was.keys() | now.keys()):
        first, second, path = was.get(key), now.get(key), f"{prefix}{key}"
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            found += keys_of(first, second, f"{path}.")
        elif canonical(first) != canonical(second) or (prefix and (key in was) != (key in now)):
            found.append(KeyChange(path, first, second))
    return tuple(found)


def _tuning(host: str, was: Data, now: Data) -> list[Change]:
    if was.get("tuning") is None:
        return [Change(host, "tuning", "kernel settings", "set")] if now["tuning"]["sysctl"] else []
    keys = keys_of(was["tuning"], now["tuning"])
    return [Change(host, "tuning", "kernel settings", "changes", keys)] if keys else []


def _installed(host: str, was: Data, now: Data) -> list[Change]:
    """Runtimes and models. What is no longer planned stays on the disk."""
    changes = []
    for part, what, key, action in (("runtimes", "runtime", "id", "installed"), ("models", "model", "path", "fetched")):
        had = {item[key]: item for item in was.get(part) or ()}
        for item in now[part]:
            name = item["id"] if what == "runtime" else f"{item['model']}@{item['version']} ({item['artifact']})"
            first = had.get(item[key])
            keys = keys_of(first, item) if first else ()
            if first is None:
                elsewhere = item.get("build_host") not in (None, host)
                text = f"{item['build_host']} builds it" if elsewhere else ""
                changes.append(Change(host, what, name, action, consequence=text))
            elif keys:
                changes.append(Change(host, what, name, "changes", keys))
    return changes


def _serving(hosts: Data) -> dict[str, set[str]]:
    """By service, the hosts of its engines."""
    found: dict[str, set[str]] = {}
    for host, item in hosts.items():
        for engine in item["engines"]:
            found.setdefault(engine["service"], set()).add(host)
    return found


def _units(facts: Data | None) -> dict[str, Data] | None:
    """Engines that systemd of a host knows, by name; None where nobody asked it."""
    if facts is None or facts.get("engine_units") is None:
        return None
    return {
        unit["unit"].removeprefix("vllm-engine@").removesuffix(".service"): unit
        for unit in facts["engine_units"]
        if unit.get("load") != "not-found"
    }


def _state(unit: Data) -> str:
    return f"{unit.get('active')} ({unit.get('sub')})"


def _engines(host: str, was: Data, now: Data, facts: Data | None, serving: Mapping[str, set[str]]) -> list[Change]:
    units = _units(facts)
    had = {engine["name"]: engine for engine in was.get("engines") or ()}
    changes = []
    for engine in now["engines"]:
        change = _engine(had.get(engine["name"]), engine, units, facts)
        if change is None:
            continue
        action, keys, reason = change
        text = ""
        if action in ("starts", "restarts"):
            text = _until_ready(engine, action, serving[engine["service"]])
        elif action == "changes":
            text = "it is not restarted for this"
        changes.append(Change(host, "engine", engine["name"], action, keys, reason, text))
    planned = {engine["name"] for engine in now["engines"]}
    for name in sorted((had.keys() | (units or {}).keys()) - planned):
        if planned:
            state = "" if units is None else f", {_state(units[name])}" if name in units else ", not there"
            reason = f"not planned{state}"
            changes.append(Change(host, "engine", name, "stops", (), reason, "its requests are finished first"))
        elif units is None or name in units:
            text = f"no playbook stops it on a host without planned engines: systemctl disable --now vllm-engine@{name}"
            reason = "not planned" if units is None else f"not planned, {_state(units[name])}"
            changes.append(Change(host, "engine", name, "left", (), reason, text))
    return changes


def _engine(
    had: Data | None, engine: Data, units: Mapping[str, Data] | None, facts: Data | None
) -> tuple[str, tuple[KeyChange, ...], str] | None:
    """What happens to one planned engine: action, keys and reason."""
    keys = keys_of(had, engine) if had else ()
    read = any(key.key.split(".")[0] not in NOT_READ for key in keys)
    unit = (units or {}).get(engine["name"])
    if units is not None and (unit is None or unit.get("active") != "active" or unit.get("sub") != "running"):
        return "starts", keys, "not there" if unit is None else f"it is {_state(unit)}"
    if had is None:
        if units is None:
            return "starts", (), "new"
        return "restarts", (), "it runs, and there is no record of what it was started with"
    if keys:
        return ("restarts" if read else "changes"), keys, ""
    ports = {entry.get("port") for entry in (facts or {}).get("listening") or ()}
    if units is not None and ports and engine["port"] not in ports and not engine["settings"].get("headless"):
        return "silent", (), f"as planned and active, and nobody listens on {engine['port']}"
    return None


def _until_ready(engine: Data, action: str, hosts: Iterable[str]) -> str:
    again = "ready again" if action == "restarts" else "ready"
    text = f"{again} within {-(-engine['start_timeout_seconds'] // 60)} min"
    if len(engine["replica"]) > 1:
        text += f", together on {', '.join(engine['replica'])}"
    if action == "restarts" and not set(hosts) - set(engine["replica"]):
        text += f"; no other host serves {engine['service']} meanwhile"
    return text


def _gateway(host: str, was: Data, now: Data, facts: Data | None) -> list[Change]:
    first, second = was.get("gateway"), now["gateway"]
    if second is None:
        ports = {entry.get("port") for entry in (facts or {}).get("listening") or ()}
        if first is None or (facts is not None and first["port"] not in ports):
            return []
        text = "no playbook stops HAProxy and keepalived on a host that is no gateway any more"
        return [Change(host, "gateway", "gateway", "left", (), "not planned", text)]
    if first is None:
        return [Change(host, "gateway", "gateway", "starts", (), "new")]
    was_plain, plain = ({k: v for k, v in item.items() if k != "services"} for item in (first, second))
    changes = []
    if keys := keys_of(was_plain, plain):
        changes.append(Change(host, "gateway", "gateway", "changes", keys, "", GATEWAY_RELOADS))
    had, has = ({s["name"]: s for s in item["services"]} for item in (first, second))
    changes += _each(host, "service", had, has, aside="servers")
    for service in sorted(had.keys() & has.keys()):
        before, after = ({s["name"]: s for s in item[service]["servers"]} for item in (had, has))
        changes += _each(host, "server", before, after, label=f"{service}: ")
    return changes


def _each(host: str, what: str, had: Data, has: Data, aside: str = "", label: str = "") -> list[Change]:
    """Named things of a gateway: added, removed, or with other keys."""
    changes = []
    for name in sorted(had.keys() | has.keys()):
        if name not in had or name not in has:
            changes.append(Change(host, what, label + name, "added" if name in has else "removed", (), "", ""))
            continue
        first, second = ({k: v for k, v in item[name].items() if k != aside} for item in (had, has))
        if keys := keys_of(first, second):
            action = "reweighted" if [key.key for key in keys] == ["weight"] else "changes"
            changes.append(Change(host, what, label + name, action, keys, "", GATEWAY_RELOADS))
    return changes


def _vip(host: str, was: Data, now: Data) -> list[Change]:
    first, second = was.get("vip"), now["vip"]
    if second is None:
        return []
    had = {i["name"]: i for i in first["instances"]} if first else {}
    has = {i["name"]: i for i in second["instances"]}
    interface = (
        (KeyChange("interface", first["interface"], second["interface"]),)
        if first and first["interface"] != second["interface"]
        else ()
    )
    changes = []
    for name in sorted(had.keys() | has.keys()):
        if name not in had or name not in has:
            keys: tuple[KeyChange, ...] = ()
            action = "added" if name in has else "removed"
        else:
            keys, action = interface + keys_of(had[name], has[name]), "changes"
            if not keys:
                continue
        changes.append(Change(host, "vip", name, action, keys, "", VIP_RELOADS if keys else ""))
    return changes


# --- for people -------------------------------------------------------------------------------------------------------


def counts(changes: Sequence[Change]) -> str:
    """How many of what, in one line; ``nothing would change`` where a run would do nothing."""
    found = Counter((change.what, change.action) for change in changes)
    words = []
    for what, noun in NOUNS.items():
        for action, verb in VERBS.items():
            number = found[what, action]
            if number:
                words.append(f"{number} {noun[number > 1]} {verb[number > 1 or what == 'tuning']}")
    if not any(change.by_run for change in changes):
        words.insert(0, "nothing would change")
    return ", ".join(words)


def lines(changes: Sequence[Change]) -> list[str]:
    """The changes for people. What is the same on several hosts, or for several things of a host, is said once."""
    by_name: dict[str, tuple[Change, list[str]]] = {}
    for change in changes:
        key = canonical(change.as_dict() | {"host": ""})
        by_name.setdefault(key, (change, []))[1].append(change.host)
    alike: dict[str, tuple[Change, list[str], list[str]]] = {}
    for change, hosts in by_name.values():
        key = canonical(change.as_dict() | {"name": "", "host": hosts})
        if change.what == "host":
            key = canonical(change.as_dict() | {"name": "", "host": ""})
        entry = alike.setdefault(key, (change, [], []))
        entry[1].extend(host for host in hosts if host not in entry[1])
        entry[2].append(change.name)
    order = list(NOUNS)
    text: list[str] = []
    for change, hosts, names in sorted(alike.values(), key=lambda e: order.index(e[0].what)):
        many = len(names) > 1
        verb = VERBS[change.action][many or change.what == "tuning"]
        if change.what == "host":
            head = f"{listed(hosts)} {verb}"
        elif change.what in ("gateway", "tuning"):
            head = f"{listed(hosts)}: {names[0]} {verb}"
        else:
            noun = NOUNS[change.what][many].removesuffix(" of gateways").removesuffix(" on gateways")
            head = f"{listed(hosts)}: {noun} {listed(names)} {verb}"
        text.append(head + (f": {change.reason}" if change.reason else ""))
        text += [f"    {key.key}: {shown(key.was)} -> {shown(key.now)}" for key in change.keys]
        if change.consequence:
            text.append(f"    {change.consequence}")
    return text


def rollout(after: Data, changes: Sequence[Change], running: Mapping[str, Data]) -> list[str]:
    """In which order engines change: what does not serve first, then batch by batch."""
    restart = {c.host for c in changes if c.action == "restarts"}
    hosts = {c.host for c in changes if c.what == "engine" and c.action in ("starts", "restarts", "stops")}
    serve = {
        host
        for host in hosts
        if any(unit.get("active") == "active" for unit in (running.get(host) or {}).get("engine_units") or ())
        or (host not in running and host in restart)
    }
    text = []
    if hosts - serve:
        text.append(f"hosts on which no engine runs come first, all at once: {listed(sorted(hosts - serve))}")
    if serve:
        first, later = roll(after)
        rest = f", then {later} at a time" if len(serve) > first else ""
        text.append(f"hosts that serve follow in batches, {first} first{rest}: {listed(sorted(serve))}")
    return text


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def shown(value: Any) -> str:
    """A value in a line."""
    return "unset" if value is None else shorten(value) or '""'
