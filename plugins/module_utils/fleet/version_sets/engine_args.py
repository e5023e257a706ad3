"""Check engine settings against what a vLLM version accepts, and preview what an upgrade changes.

Data: ``fleet/data/engine_args/<version>.json`` and ``fleet/data/metrics/<version>.json``, recorded from the
package itself by ``scripts/record_engine_args.py``; ``replacements.yml`` says what took the place of an
option that is gone.

Settings are as in a file for ``vllm serve --config``: long options without dashes, in any of the spellings
``max-model-len`` and ``max_model_len``; lists for options that take several values, mappings for JSON
options.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from ..rule_table.phrases import phrase, words
from .matrix import DATA, MatrixError

UNKNOWN, REMOVED, TYPE, CHOICE, DEPRECATED, VERSION = (
    "engine-unknown",
    "engine-removed",
    "engine-type",
    "engine-choice",
    "engine-deprecated",
    "engine-version",
)
ERROR, WARNING = "error", "warning"
#: What a finding says where two names of one option were set.
SAME = "same"
#: How the source of a replacement begins where vLLM never had the option.
NEVER = "never"
# Options that a plugin adds: vllm-ascend registers the method "ascend" when it is loaded.
PLUGIN_VALUES = {("quantization", "ascend")}


@dataclass(frozen=True)
class Finding:
    """One fault of one setting.

    said and params: the phrase of the table that says what is wrong. nearest: the name or value to write instead, where
    there is one. use: what the table of replacements says of it, in English and Chinese.
    """

    code: str
    level: str
    option: str
    value: Any
    said: str
    params: Mapping[str, str]
    nearest: str | None = None
    use: tuple[str, str] | None = None

    @property
    def reason(self) -> tuple[str, str]:
        """What is wrong, in English and Chinese."""
        return phrase(self.said, **self.params)

    @property
    def text(self) -> str:
        """What is wrong, in English."""
        return self.reason[0]


@dataclass(frozen=True)
class Option:
    """An option of ``vllm serve`` in one version."""

    name: str
    type: str
    default: Any
    choices: tuple[Any, ...] = ()
    known_values: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    many: bool = False
    count: int | None = None
    optional_value: bool = False
    positional: bool = False
    deprecated: bool = False


@dataclass(frozen=True)
class Metric:
    """A metric: its kind, and the names that /metrics shows."""

    name: str
    kind: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class EngineVersion:
    """What was recorded of one version."""

    vllm: str
    origin: str
    options: Mapping[str, Option]
    computed_defaults: Mapping[str, Mapping[str, Any]]
    metrics: Mapping[str, Metric]

    def find(self, name: str) -> Option | None:
        """An option by its name, its other long names, or the name that switches it off."""
        wanted = plain_name(name)
        if wanted in self.options:
            return self.options[wanted]
        for option in self.options.values():
            if wanted in option.negatives or f"--{wanted}" in option.aliases:
                return option
        return None


@dataclass(frozen=True)
class Replacement:
    """What to write instead of an option, a value or a metric. use_zh says the same in Chinese, where it has words."""

    name: str
    use: str
    use_zh: str
    source: str
    value: str | None = None


@dataclass(frozen=True)
class DefaultChange:
    """A default that differs between two versions. card: for which card, where vLLM computes it."""

    option: str
    was: Any
    now: Any
    card: str | None = None


@dataclass(frozen=True)
class MetricGone:
    """A metric that the newer version does not have, and what has its meaning there."""

    name: str
    shown: tuple[str, ...]
    use: str | None


@dataclass(frozen=True)
class Difference:
    """What changes from one version to another.

    removed: option and what to use instead, or None. retyped: options that take another kind of value.
    choices_gone: values that an option no longer takes.
    """

    old: str
    new: str
    removed: tuple[tuple[str, str | None], ...]
    added: tuple[str, ...]
    retyped: tuple[str, ...]
    choices_gone: tuple[tuple[str, tuple[Any, ...]], ...]
    defaults: tuple[DefaultChange, ...]
    metrics_gone: tuple[MetricGone, ...]
    metrics_added: tuple[str, ...]


def plain_name(name: str) -> str:
    """``--max_model_len`` as the record has it: ``max-model-len``."""
    return name.strip().removeprefix("--").replace("_", "-").lower()


@lru_cache(maxsize=1)
def recorded_versions(folder: Path = DATA) -> tuple[str, ...]:
    """The versions that were recorded, oldest first."""
    return tuple(sorted((p.stem for p in (folder / "engine_args").glob("*.json")), key=Version))


@lru_cache(maxsize=32)
def engine_version(vllm: str, folder: Path = DATA) -> EngineVersion:
    """The record of a version. KeyError when it was not recorded; MatrixError when the record is broken."""
    path = folder / "engine_args" / f"{vllm}.json"
    if vllm not in recorded_versions(folder):
        raise KeyError(vllm)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        metrics = json.loads((folder / "metrics" / f"{vllm}.json").read_text(encoding="utf-8"))
        options = {row["name"]: _option(row) for row in record["options"]}
        return EngineVersion(
            vllm=record["vllm"],
            origin=record["recorded"]["origin"],
            options=options,
            computed_defaults=record["computed_defaults"],
            metrics={m["name"]: Metric(m["name"], m["kind"], tuple(m["shown"])) for m in metrics["metrics"]},
        )
    except (OSError, ValueError, KeyError) as error:
        raise MatrixError(f"engine_args/{vllm}.json: {error}") from error


def _option(row: Mapping[str, Any]) -> Option:
    return Option(
        name=row["name"],
        type=row["type"],
        default=row["default"],
        choices=tuple(row.get("choices", ())),
        known_values=tuple(row.get("known_values", ())),
        aliases=tuple(row.get("aliases", ())),
        negatives=tuple(row.get("negatives", ())),
        many=bool(row.get("list")),
        count=row.get("count"),
        optional_value=bool(row.get("optional_value")),
        positional=bool(row.get("positional")),
        deprecated="deprecated" in row,
    )


@lru_cache(maxsize=4)
def _replacements(folder: Path = DATA) -> Mapping[str, tuple[Replacement, ...]]:
    document = yaml.safe_load((folder / "engine_args" / "replacements.yml").read_text(encoding="utf-8"))
    keys = {"replacements": "option", "values": "option", "metrics": "metric"}
    return {
        section: tuple(
            Replacement(r[key], r["use"], r.get("use_zh", ""), r["source"], r.get("value")) for r in document[section]
        )
        for section, key in keys.items()
    }


def nearest_version(vllm: str) -> tuple[str, bool]:
    """The recorded version to check against, and whether it is exactly this one.

    Otherwise the newest recorded one that is not newer, or the oldest.
    """
    versions = recorded_versions()
    if vllm in versions:
        return vllm, True
    try:
        wanted = Version(vllm)
    except InvalidVersion:
        return versions[-1], False
    before = [v for v in versions if Version(v) <= wanted]
    return (before[-1] if before else versions[0]), False


def check(settings: Mapping[str, Any], version: str) -> list[Finding]:
    """Every fault of a deployment's engine settings for a vLLM version, in the order of the settings.

    Where the version itself was not recorded, the nearest recorded one is taken and a warning says so; what rests on
    that record alone is then a warning as well.
    """
    taken, exact = nearest_version(version)
    engine = engine_version(taken)
    findings: list[Finding] = []
    if not exact:
        findings.append(
            Finding(VERSION, WARNING, "vllm", version, "not-recorded", {"vllm": version, "taken": taken}, taken)
        )
    seen: dict[str, str] = {}
    for name, value in settings.items():
        if not isinstance(name, str):
            findings.append(Finding(UNKNOWN, ERROR, str(name), value, "no-name", {}))
            continue
        option = engine.find(name)
        if option is None:
            findings.append(_unknown(name, value, engine, exact, _gone(version)))
            continue
        if option.name in seen:
            both = {"first": seen[option.name], "second": name}
            findings.append(Finding(CHOICE, ERROR, name, value, SAME, both, option.name))
        seen.setdefault(option.name, name)
        if option.deprecated:
            findings.append(Finding(DEPRECATED, WARNING, name, value, "deprecated", {"option": option.name}))
        wrong = _value_findings(name, value, option)
        findings += wrong if exact else [replace(f, level=WARNING) for f in wrong]
    return findings


def _gone(version: str) -> bool:
    """Whether what every recorded version lacks is lacking in this one too: the oldest recorded one is not newer."""
    try:
        return Version(version) >= Version(recorded_versions()[0])
    except InvalidVersion:
        return False


def _unknown(name: str, value: Any, engine: EngineVersion, exact: bool, gone: bool) -> Finding:
    plain = plain_name(name)
    level = ERROR if exact else WARNING
    for row in _replacements()["replacements"]:
        if row.name == plain:
            never = row.source.startswith(NEVER)
            level = ERROR if gone or never else WARNING
            params = {"option": plain, "use": row.use, "use_zh": row.use_zh}
            near = _first_option(row.use, engine)
            return Finding(REMOVED, level, name, value, "gone", params, near, (row.use, row.use_zh))
    had = [v for v in recorded_versions() if engine_version(v).find(plain) is not None]
    close = difflib.get_close_matches(plain, list(engine.options), n=1, cutoff=0.6)
    nearest = close[0] if close else None
    if had and all(Version(v) > Version(engine.vllm) for v in had):
        return Finding(UNKNOWN, level, name, value, "came-with", {"version": had[0]}, nearest)
    if had:
        return Finding(REMOVED, level, name, value, "last-seen", {"version": had[-1]}, nearest)
    return Finding(UNKNOWN, level, name, value, "unknown", {}, nearest)


def _first_option(use: str, engine: EngineVersion) -> str | None:
    """The first option of this version that a replacement names."""
    names = (w.strip(",;") for w in use.split())
    return next((w for w in names if w in engine.options and w not in ("model",)), None)


def _value_findings(name: str, value: Any, option: Option) -> list[Finding]:
    plain = plain_name(name)
    if plain in option.negatives:
        if isinstance(value, bool):
            return []
        return [_wrong_type(name, value, plain, words("expected", "type-boolean"))]
    if value is None:
        return [] if option.default is None else [_wrong_type(name, value, option.name, _expected(option))]
    if option.many or (option.count or 0) > 1:
        values: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
        return [f for one in values for f in _one_value(name, one, option)]
    if isinstance(value, list | tuple) and option.type not in ("json", "json_or_text"):
        return [Finding(TYPE, ERROR, name, value, "takes-one", {"option": option.name, **_expected(option)})]
    return _one_value(name, value, option)


def _wrong_type(name: str, value: Any, option: str, expected: Mapping[str, str]) -> Finding:
    params = {"option": option, **expected, **words("kind", _kind(value))}
    return Finding(TYPE, ERROR, name, value, "takes", params)


def _one_value(name: str, value: Any, option: Option) -> list[Finding]:
    if option.type == "choice":
        return _choice(name, value, option, option.choices)
    if not _fits(value, option):
        return [_wrong_type(name, value, option.name, _expected(option))]
    if option.known_values and isinstance(value, str):
        return _choice(name, value, option, option.known_values)
    return []


def _choice(name: str, value: Any, option: Option, choices: tuple[Any, ...]) -> list[Finding]:
    spelled = {str(c): c for c in choices}
    if value in choices or (isinstance(value, int | str) and not isinstance(value, bool) and str(value) in spelled):
        return []
    if isinstance(value, str) and (option.name, value) in PLUGIN_VALUES:
        return []
    for row in _replacements()["values"]:
        if row.name == option.name and row.value == value:
            near = row.use if row.use in spelled else None
            params = {"option": option.name, "use": row.use, "use_zh": row.use_zh}
            return [Finding(CHOICE, ERROR, name, value, "takes-other", params, near, (row.use, row.use_zh))]
    close = difflib.get_close_matches(str(value), list(spelled), n=1, cutoff=0.5)
    params = {"option": option.name, "choices": ", ".join(spelled)}
    return [Finding(CHOICE, ERROR, name, value, "takes-choice", params, close[0] if close else None)]


_SIZE = re.compile(r"\d+(?:\.\d+)?[kKmMgGtT]?")


def _fits(value: Any, option: Option) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = value.strip() if isinstance(value, str) else None
    if option.type == "boolean":
        return isinstance(value, bool)
    if option.type == "int":
        return is_whole or (text is not None and re.fullmatch(r"[+-]?\d+", text) is not None)
    if option.type == "number":
        if is_number:
            return math.isfinite(value)
        return text is not None and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None
    if option.type in ("size", "size_or_auto"):
        if is_whole:
            return value >= 0 or option.type == "size_or_auto"
        auto = option.type == "size_or_auto" and text in ("auto", "-1")
        return text is not None and (auto or _SIZE.fullmatch(text) is not None)
    if option.type == "json":
        return isinstance(value, Mapping | list) or is_number or (text is not None and _is_json(text))
    if option.type == "json_or_text":
        # What begins like JSON is meant to be: vLLM takes no other text for it.
        return isinstance(value, Mapping | list) or (
            text is not None and (text[:1] not in ("{", "[") or _is_json(text))
        )
    return isinstance(value, str) or is_number or (isinstance(value, bool) and option.optional_value)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _expected(option: Option) -> dict[str, str]:
    return words("expected", f"type-{option.type}", choices=", ".join(map(str, option.choices)))


def _kind(value: Any) -> str:
    kinds = {bool: "bool", int: "number", float: "number", str: "text", dict: "mapping", list: "list"}
    return "kind-nothing" if value is None else f"kind-{kinds.get(type(value), 'other')}"


def diff(old: str, new: str) -> Difference:
    """What an upgrade changes. Both versions have to be recorded; otherwise KeyError."""
    before, after = engine_version(old), engine_version(new)
    use = {r.name: r.use for r in _replacements()["replacements"]}
    named = sorted(n for n, option in before.options.items() if not option.positional)
    gone = [n for n in named if after.find(n) is None]
    both = [n for n in named if n in after.options]
    # A name that switches an option off can go while the option stays.
    negatives = [
        (name, (after.options[n].negatives or (None,))[0])
        for n in both
        for name in before.options[n].negatives
        if after.find(name) is None
    ]
    choices_gone = []
    for name in both:
        had = before.options[name].choices or before.options[name].known_values
        has = after.options[name].choices or after.options[name].known_values
        lost = tuple(c for c in had if c not in has and "None" not in str(c))
        if lost and has:
            choices_gone.append((name, lost))
    defaults = [
        DefaultChange(n, before.options[n].default, after.options[n].default)
        for n in both
        if before.options[n].default != after.options[n].default
    ]
    for card in sorted(before.computed_defaults.keys() & after.computed_defaults.keys()):
        was, now = before.computed_defaults[card], after.computed_defaults[card]
        defaults += [
            DefaultChange(n, was[n], now[n], card) for n in sorted(was.keys() & now.keys()) if was[n] != now[n]
        ]
    return Difference(
        old=old,
        new=new,
        removed=tuple(sorted([*((name, use.get(name)) for name in gone), *negatives])),
        added=tuple(sorted(n for n, o in after.options.items() if not o.positional and before.find(n) is None)),
        retyped=tuple(n for n in both if before.options[n].type != after.options[n].type),
        choices_gone=tuple(choices_gone),
        defaults=tuple(defaults),
        metrics_gone=tuple(
            MetricGone(n, before.metrics[n].shown, metric_replacement(n))
            for n in sorted(before.metrics.keys() - after.metrics.keys())
        ),
        metrics_added=tuple(sorted(after.metrics.keys() - before.metrics.keys())),
    )


def metric_replacement(name: str) -> str | None:
    """What has the meaning of a metric that is gone."""
    return next((r.use for r in _replacements()["metrics"] if r.name == name), None)


def blind(metrics: Iterable[str], version: str) -> list[tuple[str, str | None]]:
    """The metric names, of those in use, that a version does not show, with what to use instead."""
    engine = engine_version(version)
    shown = {name for metric in engine.metrics.values() for name in (*metric.shown, metric.name)}
    missing = sorted({m for m in metrics if m.startswith("vllm:") and m not in shown})
    return [
        (m, metric_replacement(m) or metric_replacement(re.sub(r"_(total|bucket|sum|count)$", "", m))) for m in missing
    ]
