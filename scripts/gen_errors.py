"""Write docs/errors.md from the table of problems."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/module_utils"))

from fleet.problems import RULES  # noqa: E402 - found by the line above

FAMILIES = {
    "FILE": ("Files of the inventory", "清单文件"),
    "INV": ("The inventory", "清单"),
    "SVC": ("Services", "服务"),
    "GW": ("Gateways and virtual addresses", "网关与虚拟地址"),
    "MOD": ("Models", "模型"),
    "CAP": ("Memory and shape of models", "模型的内存与结构"),
    "HOST": ("Hosts", "主机"),
    "SET": ("Version sets", "版本组合"),
    "NET": ("The network", "网络"),
    "STO": ("Storage", "存储"),
    "REL": ("What this release cannot do yet", "本版本尚不支持的功能"),
}
HEAD = """# Error codes

Generated from `plugins/module_utils/fleet/rule_table/` by `scripts/gen_errors.py`: do not edit.
本页由脚本生成，请勿手工修改。

Every check reports all problems at once, each with its code, the place in the inventory, the value, the rule and the
remedy. An `error` stops a run before anything is changed; a `warning` does not. Words in `<…>` stand for what a
message names. `error or warning`: a warning where what the rule rests on is not certain, an error otherwise. Where no
version set is legal, every remedy ends with the nearest legal sets.
"""


def shown(text: str) -> str:
    """A template as it reads in a table: parameters in angle brackets, bars escaped."""
    names = {"hint": "nearest known name", "hint_zh": "最接近的已知名称"}
    named = re.sub(r"\{(\w+)\}", lambda m: f"`<{names.get(m[1], m[1].removesuffix('_zh').replace('_', ' '))}>`", text)
    return named.replace("{{", "{").replace("}}", "}").replace("|", "\\|")


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for family, (title, title_zh) in FAMILIES.items():
        lines += [f"## {title} / {title_zh}", "", "| code | severity | rule | remedy |", "|---|---|---|---|"]
        for code, rule in sorted(RULES.items()):
            if code.startswith(family + "-"):
                both = f"{shown(rule.rule)}<br>{shown(rule.rule_zh)} | {shown(rule.remedy)}<br>{shown(rule.remedy_zh)}"
                severity = "error or warning" if rule.either else rule.severity
                lines.append(f"| {code} | {severity} | {both} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs/errors.md").write_text(page(), encoding="utf-8")
