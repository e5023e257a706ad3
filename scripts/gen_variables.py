"""Write docs/variables.md from the contract: every variable and key that an operator may write."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/module_utils"))

from fleet.contract import Contract  # noqa: E402 - found by the line above

HEAD = """# Variables

Generated from `plugins/module_utils/fleet/contract/` by `scripts/gen_variables.py`: do not edit.
本页由脚本生成，请勿手工修改。

What an operator writes, with types, defaults and limits. `fleet_host`, `fleet_versions` and `fleet_storage` may differ
from host to host and belong into `group_vars` of a group or `host_vars`; everything else holds for the whole fleet and
belongs into `group_vars/all`. Unknown keys are errors. For editors: `schemas/group_vars.schema.json`, say with a first
line `# yaml-language-server: $schema=…/schemas/group_vars.schema.json`. An example:
[architecture.md](architecture.md#what-an-operator-writes).
"""


def kind(schema: dict[str, Any]) -> str:
    """A type in the words of a table, with its limits."""
    if "anyOf" in schema:
        return " or ".join(kind(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"by name: {kind(inner)}" if isinstance(inner, dict) and inner else "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    types = schema.get("type", "anything")
    text = (
        " or ".join(words.get(t, "mapping") for t in types if t != "null") if isinstance(types, list) else words[types]
    )
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    limits = [
        *([f"from {low}"] if low is not None else []),
        *([f"above {above}"] if above is not None else []),
        *([f"to {high}"] if high is not None else []),
        *([f"at most {schema['maxLength']} characters"] if "maxLength" in schema else []),
    ]
    return f"{text}, {' '.join(limits)}" if limits else text


def rows(schema: dict[str, Any]) -> Iterator[str]:
    """One row a key."""
    required = schema.get("required", [])
    yield from ("| key | type | default | what |", "|---|---|---|---|")
    for name, part in schema["properties"].items():
        default = "required" if name in required else shown(part.get("default"))
        text = str(part.get("description", "")).replace("|", "\\|")
        yield f"| `{name}` | {kind(part)} | {default} | {text} |"


def shown(default: Any) -> str:
    """A default as YAML writes it; nothing where there is none."""
    if default is None or default in ({}, []):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def page() -> str:
    """The whole page."""
    schema = Contract.model_json_schema()
    lines = [HEAD, "## Top level", "", *rows(schema), ""]
    for name, part in sorted(schema["$defs"].items()):
        about = str(part.get("description", "")).split("\n\n")[0].replace("\n", " ")
        lines += [f"## {name}", "", about, "", *rows(part), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs/variables.md").write_text(page(), encoding="utf-8")
