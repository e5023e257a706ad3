"""What another version of vLLM means for the engines of a plan, before anybody installs it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from .contract.host_shapes import Versions
from .facts import GIB, HostFacts
from .inventory import Inventory
from .plan import canonical
from .plan_diff import KeyChange, keys_of, listed, shown
from .version_plan import likely_backend, to_solver
from .version_sets import engine_args
from .version_sets.candidates import candidates
from .version_sets.links.link import look_at
from .version_sets.links.pins import meets
from .version_sets.matrix import Matrix

Data = Mapping[str, Any]
#: Fields of a runtime that say nothing about what it needs or has.
NOT_COMPARED = frozenset({"id", "backend", "vllm", "lock", "build_host"})
#: A metric of vLLM in a rules file.
METRIC = re.compile(r"\bvllm:[A-Za-z0-9_]+")
#: What is expected of an engine's memory and is worth comparing.
EXPECTED = {"kv_cache_tokens": "KV tokens", "concurrency": "requests of full length"}
#: vLLM's own thresholds for computed defaults, GiB, with the recorded card of each class.
CARD_CLASSES = ((160, "192GiB"), (130, "141GiB"), (70, "80GiB"), (0, "24GiB"))


@dataclass(frozen=True)
class OptionFault:
    """A setting that the newer version does not take as it is. use: what to write, where that is known."""

    option: str
    value: Any
    fault: str
    level: str
    use: str | None


@dataclass(frozen=True)
class Blind:
    """A metric of the operator's rules that the version does not show. already: the older one did not, either."""

    metric: str
    use: str | None
    already: bool


@dataclass(frozen=True)
class Upgrade:
    """What changes for one engine. compared: the recorded versions whose options were compared.

    runtime: fields of the runtime, such as driver_min, cann and python. planned: whether there is a plan with it.
    """

    host: str
    engine: str
    was: str
    now: str
    compared: tuple[str, str]
    options: tuple[OptionFault, ...] = ()
    defaults: tuple[KeyChange, ...] = ()
    runtime: tuple[KeyChange, ...] = ()
    memory: tuple[KeyChange, ...] = ()
    blind: tuple[Blind, ...] = ()
    planned: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


# --- what if ----------------------------------------------------------------------------------------------------------


def what_if(
    inventory: Inventory, pins: Data, hosts: Iterable[str], facts: Mapping[str, HostFacts], matrix: Matrix
) -> tuple[Inventory, list[str], dict[str, str]]:
    """The inventory with other versions for hosts, which hosts got them, and the backend of each that cannot have them.

    ``pins`` are keys of ``fleet_versions``, merged over those of each host.
    """
    by_host = {host: dict(values) for host, values in inventory.by_host.items()}
    taken, refused = [], {}
    kinds: dict[tuple[str, str, str | None], bool] = {}
    for host in sorted(hosts):
        said = by_host.get(host, {}).get("fleet_host")
        backend = (said.get("backend") if isinstance(said, Mapping) else None) or likely_backend(facts[host])
        chip = look_at(to_solver(facts[host]), matrix).soc
        kind = (backend, facts[host].arch, chip.soc if chip and backend == "ascend" else None)
        if kind not in kinds:
            kinds[kind] = _can_have(*kind, pins, matrix)
        if not kinds[kind]:
            refused[host] = backend
            continue
        own = by_host.setdefault(host, {})
        before = own.get("fleet_versions")
        own["fleet_versions"] = {**(before if isinstance(before, Mapping) else {}), **pins}
        taken.append(host)
    return replace(inventory, by_host=by_host), taken, refused


def _can_have(backend: str, arch: str, chip: str | None, pins: Data, matrix: Matrix) -> bool:
    """Whether a backend has any set that meets the pins. Whether this very host can have it is for the planner."""
    wanted = {key: value for key, value in pins.items() if isinstance(value, str)}
    return any(
        all((have := getattr(row, key, None)) is not None and meets(have, value) for key, value in wanted.items())
        for row in candidates(backend, arch, chip, matrix)
    )


def metrics_of(text: str) -> list[str]:
    """The names of vLLM's metrics in the text of a rules file or a dashboard."""
    return sorted(set(METRIC.findall(text)))


def pin_names() -> tuple[str, ...]:
    """What a preview may set."""
    return tuple(Versions.model_fields)


# --- compared ---------------------------------------------------------------------------------------------------------


def upgrades(
    before: Data | None, after: Data, facts: Mapping[str, HostFacts], metrics: Sequence[str] = ()
) -> list[Upgrade]:
    """One for each engine of both plans whose vLLM differs."""
    found = []
    for host, item in sorted(after["hosts"].items()):
        had = ((before or {"hosts": {}})["hosts"].get(host)) or {}
        engines = {engine["name"]: engine for engine in had.get("engines") or ()}
        for engine in item["engines"]:
            first = engines.get(engine["name"])
            if first is None:
                continue
            was, now = _runtime(had, first), _runtime(item, engine)
            if was["vllm"] != now["vllm"]:
                found.append(_upgrade(host, first, engine, was, now, _card(facts.get(host), now), metrics))
    return found


def without_plan(
    before: Data, hosts: Iterable[str], vllm: str, facts: Mapping[str, HostFacts], metrics: Sequence[str] = ()
) -> list[Upgrade]:
    """The same where there is no plan with the newer version: what its options, defaults and metrics say."""
    found = []
    for host in sorted(hosts):
        for engine in before["hosts"][host]["engines"]:
            was = _runtime(before["hosts"][host], engine)
            if was["vllm"] != vllm:
                card = _card(facts.get(host), was)
                made = _upgrade(host, engine, engine, was, {"vllm": vllm}, card, metrics)
                found.append(replace(made, runtime=(), memory=(), planned=False))
    return found


def _runtime(item: Data, engine: Data) -> Data:
    """The runtime of an engine; of one that is not on record, what its name says."""
    for runtime in item.get("runtimes") or ():
        if runtime["id"] == engine["runtime"]:
            return dict(runtime)
    match = re.match(r"vllm-([^-]+)-([a-z]+)", str(engine["runtime"]))
    return {"vllm": match[1] if match else "", "backend": match[2] if match else ""}


def _card(facts: HostFacts | None, runtime: Data) -> str | None:
    """The class of card for which vLLM computes defaults; None where it was not recorded for such a card."""
    if runtime.get("backend") == "cpu":
        return "cpu"
    if facts is None or runtime.get("backend") not in ("cuda", None) or not facts.cards:
        return None
    card = facts.cards[0]
    if card.vendor != "nvidia" or card.memory_bytes is None:
        return None
    # Tools print a little less than the nominal size: 79.6 GiB of 80, 139.8 of 141.
    size = next(name for limit, name in CARD_CLASSES if card.memory_bytes >= limit * GIB)
    return "80GiB A100" if size == "80GiB" and "a100" in card.chip.lower() else size


def _upgrade(
    host: str, first: Data, second: Data, was: Data, now: Data, card: str | None, metrics: Sequence[str]
) -> Upgrade:
    compared = engine_args.nearest_version(was["vllm"])[0], engine_args.nearest_version(now["vllm"])[0]
    known = "id" in was and "id" in now
    both = first.get("memory") and second.get("memory")
    return Upgrade(
        host=host,
        engine=second["name"],
        was=was["vllm"],
        now=now["vllm"],
        compared=compared,
        options=_options(second["settings"], was["vllm"], now["vllm"]),
        defaults=_defaults(second["settings"], compared, card),
        runtime=tuple(k for k in keys_of(was, now) if k.key not in NOT_COMPARED) if known else (),
        memory=tuple(
            KeyChange(key, first["memory"].get(key), second["memory"].get(key))
            for key in EXPECTED
            if both and first["memory"].get(key) != second["memory"].get(key)
        ),
        blind=_blind(metrics, compared),
    )


def _options(settings: Data, was: str, now: str) -> tuple[OptionFault, ...]:
    """What the newer version finds fault with and the older one does not. A name that is only spelled alike is no
    replacement."""
    old = {(f.code, f.option) for f in engine_args.check(settings, was)}
    new = [f for f in engine_args.check(settings, now) if f.code != engine_args.VERSION]
    return tuple(
        OptionFault(f.option, f.value, f.text, f.level, f.use[0] if f.use else None)
        for f in new
        if (f.code, f.option) not in old
    )


@lru_cache(maxsize=16)
def _difference(old: str, new: str) -> engine_args.Difference:
    """The same for every engine of a fleet."""
    return engine_args.diff(old, new)


def _defaults(settings: Data, compared: tuple[str, str], card: str | None) -> tuple[KeyChange, ...]:
    """Defaults that change under an engine that does not set them. Those that vLLM computes count for its card only."""
    records = [engine_args.engine_version(version) for version in compared]
    own = {option.name for name in settings for record in records if (option := record.find(name)) is not None}
    changed = _difference(*compared).defaults
    return tuple(KeyChange(d.option, d.was, d.now) for d in changed if d.option not in own and d.card in (None, card))


def _blind(metrics: Sequence[str], compared: tuple[str, str]) -> tuple[Blind, ...]:
    before = {name for name, _ in engine_args.blind(metrics, compared[0])}
    return tuple(Blind(name, use, name in before) for name, use in engine_args.blind(metrics, compared[1]))


# --- for people -------------------------------------------------------------------------------------------------------


def table(found: Sequence[Upgrade]) -> list[str]:
    """What changes, for people. Engines for which the same changes are said once."""
    alike: dict[str, list[Upgrade]] = {}
    for item in found:
        alike.setdefault(canonical(item.as_dict() | {"host": "", "engine": ""}), []).append(item)
    text: list[str] = []
    for members in alike.values():
        first = members[0]
        names = listed([f"{m.host} {m.engine}" for m in members])
        text.append(f"{names}: vLLM {first.was} -> {first.now}")
        if first.compared != (first.was, first.now):
            text.append(
                f"  options and metrics are those of {first.compared[0]} and {first.compared[1]}, the nearest recorded"
            )
        rows = _rows(first)
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)] if rows else []
        text += [f"  {row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in rows]
        if not rows:
            text.append("  nothing that its settings, defaults or memory show")
    return text


def _rows(item: Upgrade) -> list[tuple[str, str, str]]:
    rows = []
    for fault in item.options:
        text = fault.fault if fault.use is None or fault.use in fault.fault else f"{fault.fault}; use {fault.use}"
        rows.append(("option", f"{fault.option}: {shown(fault.value)}", text))
    rows += [("silent default", key.key, f"{_default(key.was)} -> {_default(key.now)}") for key in item.defaults]
    rows += [("memory", EXPECTED[key.key], _figures(key)) for key in item.memory]
    rows += [("runtime", key.key, f"{shown(key.was)} -> {shown(key.now)}") for key in item.runtime]
    for metric in item.blind:
        text = "not shown before either" if metric.already else "goes blind"
        rows.append(("metric", metric.metric, text + (f"; use {metric.use}" if metric.use else "")))
    return rows


def _default(value: Any) -> str:
    """A default; where there is no fixed one, vLLM decides when it starts."""
    return "decided by vLLM" if value is None else shown(value)


def _figures(key: KeyChange) -> str:
    gained = key.now - key.was
    share = f", {gained / key.was:+.1%}" if key.was else ""
    return (
        f"{key.was} -> {key.now} ({gained:+d}{share})" if isinstance(gained, int) else f"{key.was:.1f} -> {key.now:.1f}"
    )
