"""Write schemas/*.json from the contract: editors use them for completion and checks of group_vars."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "plugins/module_utils"))

from fleet.contract import Contract  # noqa: E402 - found by the line above


def schemas() -> dict[str, Any]:
    """One schema for a file of group variables, and one for each part by itself."""
    whole = Contract.model_json_schema()
    # A file of group_vars may hold a part of the contract, and variables of roles beside it.
    whole.pop("required", None)
    whole["additionalProperties"] = True
    whole["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    result: dict[str, Any] = {"group_vars": whole}
    for name in ("fleet_models", "fleet_services", "fleet_gateway", "fleet_host", "fleet_versions", "fleet_storage"):
        part = dict(whole["properties"][name])
        result[name] = {"$schema": whole["$schema"], "$defs": whole["$defs"], **part}
    return result


def texts() -> dict[str, str]:
    """File names and contents."""
    return {
        f"{name}.schema.json": json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }


if __name__ == "__main__":
    for file, content in texts().items():
        (ROOT / "schemas" / file).write_text(content, encoding="utf-8")
