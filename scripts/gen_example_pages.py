#!/usr/bin/env python3
"""Write what `validate` and `plan` say of the example inventories into their README.md and README.zh-CN.md.

python scripts/gen_example_pages.py            # write
python scripts/gen_example_pages.py --check    # exit 1 when a page is not current

The hosts of the examples are nowhere, so nobody can ask them: the plan is made from what the inventory says of them
(``fleet_host``), with one interface on each, as if discovery had found exactly that.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plugins" / "module_utils"))

from ansible.inventory.manager import InventoryManager  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.plugins.loader import init_plugin_loader  # noqa: E402
from ansible.vars.hostvars import HostVars  # noqa: E402
from ansible.vars.manager import VariableManager  # noqa: E402
from fleet.action import read  # noqa: E402
from fleet.contract import parse  # noqa: E402
from fleet.facts import GIB, HostFacts  # noqa: E402
from fleet.inventory import Inventory  # noqa: E402
from fleet.plan import Plan  # noqa: E402
from fleet.planner import plan, validate  # noqa: E402
from fleet.problems import Problem  # noqa: E402
from fleet.version_plan import load_locks  # noqa: E402
from fleet.version_sets.matrix import load_matrix  # noqa: E402
from fleet.views import table  # noqa: E402

EXAMPLES = ("example-bank", "example-ascend", "example-dcu")
#: By page: heads of the tables of warnings, of servers and of memory, in the language of the page.
PAGES = {"README.md": ("code", "where", "what"), "README.zh-CN.md": ("编号", "位置", "内容")}
SERVERS = {
    "README.md": ("service", "clients ask for", "active", "standby"),
    "README.zh-CN.md": ("服务", "客户端使用的名称", "active", "standby"),
}
MEMORY = {
    "README.md": ("service", "on", "model", "weights", "KV cache", "requests", "start limit"),
    "README.zh-CN.md": ("服务", "硬件", "模型", "权重", "KV 缓存", "请求数", "启动时限"),
}
END = "<!-- end of generated -->"
#: Name of the one interface that each host is taken to have.
INTERFACE = "eth0"
PREFIX_LENGTH = 24


def begin(part: str) -> str:
    """The marker before a generated part."""
    return f"<!-- generated: scripts/gen_example_pages.py {part} -->"


@cache
def _plugins() -> None:
    init_plugin_loader()


@cache
def load(name: str, root: Path = ROOT) -> Inventory:
    """An example, read by Ansible itself."""
    _plugins()
    source = str(root / "inventories" / name / "hosts.yml")
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[source])
    variables = VariableManager(loader=loader, inventory=manager)
    hosts = HostVars(inventory=manager, variable_manager=variables, loader=loader)
    return read({"hostvars": hosts, "groups": manager.get_groups_dict(), "ansible_inventory_sources": [source]})


def problems(inventory: Inventory) -> list[Problem]:
    """What `validate` finds."""
    return validate(inventory, load_matrix(), load_locks())


def claimed(inventory: Inventory) -> dict[str, HostFacts]:
    """Hosts exactly as the inventory describes them, each with its address on one interface."""
    said, _ = parse(inventory.variables, inventory.by_host)
    found = {}
    for name, address in inventory.addresses.items():
        host = said.of(name).host
        if host is None:
            raise ValueError(f"{name} has no fleet_host")
        facts = HostFacts.of_claims(host, None)
        found[name] = replace(facts, interfaces={INTERFACE: (f"{address}/{PREFIX_LENGTH}",)})
    return found


def planned(inventory: Inventory) -> Plan:
    """The plan of the hosts as the inventory describes them."""
    made = plan(inventory, claimed(inventory), load_matrix(), load_locks())
    if isinstance(made, list):
        raise ValueError("\n".join(f"{p.code} {p.path}: {p.rule}" for p in made))
    return made


def warnings_table(found: Iterable[Problem], heads: tuple[str, ...], chinese: bool) -> list[str]:
    """One row a warning; hosts with the same one share a row."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for p in found:
        rule = p.rule_zh if chinese else p.rule
        places.setdefault((p.code, p.value, rule), []).append(f"`{p.path}`")
    rows = [_row(heads), "|---" * len(heads) + "|"]
    for code, value, rule in sorted(places):
        shown = f"`{value}`: {rule}" if value else rule
        rows.append(_row((code, "<br>".join(places[code, value, rule]), shown)))
    return rows


def servers_table(made: Plan, heads: tuple[str, ...]) -> list[str]:
    """One row a service: the names that clients use, and its servers by tier, as gateways know them."""
    hosts = made.as_dict()["hosts"]
    by_address = {item["address"]: name for name, item in hosts.items()}
    gateway = next(item["gateway"] for item in hosts.values() if item["gateway"])
    rows = [_row(heads), "|---" * len(heads) + "|"]
    for service in gateway["services"]:
        tiers = []
        for tier in ("active", "standby"):
            counts = Counter(by_address[s["address"]] for s in service["servers"] if s["tier"] == tier)
            tiers.append(", ".join(f"{host} ({count})" for host, count in sorted(counts.items())))
        rows.append(_row((service["name"], ", ".join(service["models"]), *tiers)))
    return rows


def memory_table(inventory: Inventory, made: Plan, heads: tuple[str, ...]) -> list[str]:
    """One row a kind of engine: bytes of one card (on CPUs of the engine), and how long it may take to start."""
    said, _ = parse(inventory.variables, inventory.by_host)
    rows = [_row(heads), "|---" * len(heads) + "|"]
    for name, item in sorted(made.as_dict()["hosts"].items()):
        host = said.of(name).host
        for engine in item["engines"]:
            memory = engine["memory"]
            chip = host.cards.chip if host and host.cards else "CPU"
            cells = (
                engine["service"],
                f"{len(engine['cards']) * len(engine['replica'])} × {chip}" if engine["cards"] else chip,  # noqa: RUF001
                engine["model"],
                f"{memory['weights_bytes'] / GIB:.1f} GiB",
                f"{memory['kv_cache_bytes'] / GIB:.1f} GiB",
                f"{memory['concurrency']:.1f}",
                f"{engine['start_timeout_seconds']} s",
            )
            if _row(cells) not in rows:
                rows.append(_row(cells))
    return rows


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def parts(name: str, page: str) -> Mapping[str, list[str]]:
    """The generated parts of a page."""
    inventory = load(name)
    made = planned(inventory)
    return {
        "validate": warnings_table(problems(inventory), PAGES[page], "zh" in page),
        "plan": ["```", *table(made.as_dict()), "```", "", *servers_table(made, SERVERS[page])],
        "memory": memory_table(inventory, made, MEMORY[page]),
    }


def page_text(text: str, made: Mapping[str, list[str]]) -> str:
    """A page with its generated parts renewed."""
    for part, lines in made.items():
        head, marker, rest = text.partition(begin(part))
        _, end, tail = rest.partition(END)
        if not marker or not end:
            raise ValueError(f"the page has no markers for {part}")
        text = "\n".join([head + marker, "", *lines, "", end + tail])
    return text


def texts() -> dict[Path, str]:
    """Every page as it should be."""
    return {
        path: page_text(path.read_text(encoding="utf-8"), parts(name, page))
        for name in EXAMPLES
        for page in PAGES
        for path in [ROOT / "inventories" / name / page]
    }


def main() -> int:
    """Write the pages, or with --check compare them."""
    stale = {path: text for path, text in texts().items() if path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(ROOT)} is not current", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    raise SystemExit(main())
