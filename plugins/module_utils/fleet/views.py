"""Views of a plan that was written: tables for people, the addresses of clients, and how a change may roll over hosts.

All take the plain data of ``plan.json`` and the recorded facts; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .facts import GIB
from .placement import cpu_list

#: Of each service at most one host in so many may change at once.
ROLL_SHARE = 4


def endpoints(plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """What clients can ask: one entry for each service, model name and virtual address, with the URL of its API."""
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for item in plan["hosts"].values():
        gateway = item.get("gateway")
        for service in gateway["services"] if gateway else ():
            for model in service["models"]:
                for address in gateway["vip_addresses"]:
                    key = (service["name"], model, address)
                    url = f"http://{address}:{gateway['port']}/v1"
                    found[key] = {"service": service["name"], "model": model, "url": url}
    return [found[key] for key in sorted(found)]


#: A pattern that no host matches.
NO_HOST = "all:!all"


def engines_down(plan: Mapping[str, Any] | None, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Pattern of the engine hosts on which no engine runs. They come first and at once: nothing is lost by it, and what
    serves must not stop while they are down."""
    return _pattern(plan, lambda host: not _serves(facts.get(host, {})))


def engines_up(plan: Mapping[str, Any] | None, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Pattern of the engine hosts on which an engine runs: they change batch by batch, after the others."""
    return _pattern(plan, lambda host: _serves(facts.get(host, {})))


def _pattern(plan: Mapping[str, Any] | None, wanted: Callable[[str], bool]) -> str:
    hosts = sorted(host for host, item in (plan or {"hosts": {}})["hosts"].items() if item["engines"] and wanted(host))
    return ":".join([*hosts, "&fleet_ready"]) if hosts else NO_HOST


def roll(plan: Mapping[str, Any] | None) -> list[int]:
    """Sizes of the batches in which serving engine hosts change, for ``serial``.

    One host, then at most a quarter of the hosts of the smallest service (at least one), so that every service on
    several hosts keeps serving.
    """
    hosts: dict[str, set[str]] = {}
    for host, item in (plan or {"hosts": {}})["hosts"].items():
        for engine in item["engines"]:
            hosts.setdefault(engine["service"], set()).add(host)
    smallest = min((len(members) for members in hosts.values()), default=1)
    return [1, max(1, smallest // ROLL_SHARE)]


def _serves(facts: Mapping[str, Any]) -> bool:
    return any(unit.get("active") == "active" for unit in facts.get("engine_units") or ())


def table(plan: Mapping[str, Any]) -> list[str]:
    """The plan for people, one line an engine or gateway, columns aligned.

    Sizes are GiB of each card (on a CPU: of the host), requests those of full length that an engine holds at once.
    """
    rows = [("host", "address", "what", "port", *SIZES, "runtime / services", "model / virtual addresses")]
    empty = ("",) * len(SIZES)
    for host, item in sorted(plan["hosts"].items()):
        before = len(rows)
        for engine in item["engines"]:
            model = f"{engine['model']}@{engine['version']}"
            what, port = f"engine {engine['name']}", str(engine["port"])
            rows.append((host, item["address"], what, port, *_sizes(engine), engine["runtime"], model))
        gateway, vip = item.get("gateway"), item.get("vip")
        if gateway:
            services = ", ".join(f"{s['name']} ({len(s['servers'])})" for s in gateway["services"])
            addresses = (
                ", ".join(a for i in vip["instances"] for a in i["addresses"]) + f" on {vip['interface']}"
                if vip
                else ""
            )
            rows.append((host, item["address"], "gateway", str(gateway["port"]), *empty, services, addresses))
        if len(rows) == before:
            rows.append((host, item["address"], "nothing", "", *empty, "", ""))
    return _aligned(rows)


#: What people compare of engines. A dash stands for what is not known.
SIZES = ("cards", "NUMA", "weights GiB", "KV GiB", "KV tokens", "requests")


def _sizes(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """Cards and NUMA nodes of an engine, and what is expected of its memory."""
    cards = cpu_list(engine.get("cards") or []) or "-"
    numa = engine.get("numa_nodes") or "-"
    memory = engine.get("memory")
    if memory is None:
        return (cards, numa, "-", "-", "-", "-")
    weights, kv = (f"{memory[key] / GIB:.2f}" for key in ("weights_bytes", "kv_cache_bytes"))
    return (cards, numa, weights, kv, str(memory["kv_cache_tokens"]), f"{memory['concurrency']:.1f}")


def status(plan: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """What runs of the plan, one line a planned engine, gateway and virtual address. ``facts`` are None for hosts that
    did not answer."""
    rows = [("host", "what", "state")]
    for host, item in sorted(plan["hosts"].items()):
        found = facts.get(host)
        if found is None:
            rows.append((host, "host", "did not answer"))
            continue
        units = {unit["unit"]: f"{unit['active']} ({unit['sub']})" for unit in found.get("engine_units") or ()}
        ports = {entry["port"] for entry in found.get("listening") or ()}
        for engine in item["engines"]:
            state = units.pop(f"vllm-engine@{engine['name']}.service", "not there")
            serving = "answers on" if engine["port"] in ports else "nobody listens on"
            rows.append((host, f"engine {engine['name']}", f"{state}, {serving} {engine['port']}"))
        rows += [(host, name, f"{state}, not in the plan") for name, state in sorted(units.items())]
        gateway = item.get("gateway")
        if gateway:
            state = "listens on" if gateway["port"] in ports else "nobody listens on"
            rows.append((host, "gateway", f"{state} {gateway['port']}"))
            own = {a.split("/")[0] for i in found.get("interfaces") or () for a in i.get("addresses") or ()}
            for address in gateway["vip_addresses"]:
                rows.append((host, f"address {address}", "here" if address in own else "elsewhere"))
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
