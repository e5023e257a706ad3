"""Problems: what is wrong with an inventory or a host, and how to mend it.

The table in ``rule_table`` holds every rule and its words in English and Chinese; ``docs/errors.md`` is generated from
it.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from .rule_table import RULES, Severity

#: Longest rendering of an offending value, in characters. Longer ones are cut: a message must stay readable.
VALUE_LENGTH = 72

#: Longest name in a path, and what stands for the rest of it: a name is whatever somebody pasted before a colon.
NAME_LENGTH, CUT = 128, "…"

#: Names whose values must never be shown, and may not appear in anything that reaches a plan.
SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:\w*key|token|passw(?:or)?d|passphrase|secrets?|(?<!allow[-_])credentials?)$"
)


#: A user and a password in an address: ``https://user:password@host``.
SECRET_VALUE = re.compile(r"(?i)[a-z][a-z0-9+.\-]*://[^\s/@:]*:[^\s/@]+@")


@dataclass(frozen=True)
class Problem:
    """One finding. ``path`` is where an operator has to look, ``value`` what stands there, shortened."""

    code: str
    severity: Severity
    path: str
    value: str
    rule: str
    remedy: str
    rule_zh: str
    remedy_zh: str

    def as_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {key: str(value) for key, value in asdict(self).items()}


_SAFE = re.compile(r"[A-Za-z_][\w\-]*\Z")


def path_of(parts: Iterable[str | int]) -> str:
    """The readable path of a place in the inventory: ``fleet_services.chat.deployments[0].group``."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif len(part) > NAME_LENGTH:
            text += f"[{json.dumps(part[: NAME_LENGTH - 1] + CUT, ensure_ascii=False)}]"
        elif _SAFE.match(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def shorten(value: object, path: str = "") -> str:
    """A value as one short line of JSON. Values whose path names a secret are not shown at all."""
    if value is None:
        return ""
    if SECRET_NAME.search(path.split("[")[0]) or SECRET_NAME.search(path):
        return "(not shown)"
    # Quotes show blanks at an end, which are easily the whole fault.
    plain = isinstance(value, str) and value == value.strip()
    text = value if isinstance(value, str) and plain else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, or None when none is like it."""
    names = sorted(known)
    folded = {candidate.casefold().replace("-", "_"): candidate for candidate in names}
    found = difflib.get_close_matches(name.casefold().replace("-", "_"), sorted(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def hints(name: str, known: Iterable[str]) -> dict[str, str]:
    """The parameters ``hint`` and ``hint_zh``: the nearest known name, or the list of names."""
    names = sorted(known)
    like = nearest(name, names)
    if like is not None:
        return {"hint": f"did you mean {like}?", "hint_zh": f"是否想写 {like}?"}
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if not names:
        return {"hint": "remove it", "hint_zh": "请删除"}
    return {"hint": f"known names: {listed}", "hint_zh": f"已知名称：{listed}"}


def problem(code: str, path: str, value: object = None, /, **params: object) -> Problem:
    """Make a problem of the table. ``params`` fill the templates.

    Raises KeyError for an unknown code or a missing parameter: both are faults of the caller.
    """
    row = RULES[code]
    return Problem(
        code=code,
        severity=row.severity,
        path=path,
        value=shorten(value, path),
        rule=row.rule.format(**params),
        remedy=row.remedy.format(**params),
        rule_zh=row.rule_zh.format(**params),
        remedy_zh=row.remedy_zh.format(**params),
    )


def as_warning(item: Problem) -> Problem:
    """A problem whose rule can be either, as a warning. Raises ValueError for a rule that is always an error."""
    if item.severity == "error" and not RULES[item.code].either:
        raise ValueError(f"{item.code} is always an error")
    return replace(item, severity="warning")


#: From so many hosts on, one problem stands for all that have it: a fleet of a thousand alike must not fill the screen.
ALIKE = 4
_HOST_PATH = re.compile(r'hosts(?:\.([^.\[]+)|\[("(?:[^"\\]|\\.)*")\])(.*)', re.DOTALL)


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Errors first, then by place and code, without duplicates: the same faults always read the same.

    The same fault of many hosts becomes one problem, at the first of them, with the number of the others.
    """
    unique = {(p.code, p.path, p.value, p.rule): p for p in problems}
    alike: dict[tuple[str, ...], list[Problem]] = {}
    for p in unique.values():
        # Places in files begin with a name of a file, which may be hosts.yml.
        found = None if p.code.startswith("FILE-") else _HOST_PATH.fullmatch(p.path)
        key = (p.code, p.severity, p.value, p.rule, p.remedy, found[3] if found else p.path, "host" if found else "")
        alike.setdefault(key, []).append(p)
    merged: list[Problem] = []
    for members in alike.values():
        if len(members) < ALIKE:
            merged += members
            continue
        members.sort(key=lambda p: _natural(p.path))
        merged.append(replace(members[0], path=f"{members[0].path} (and {len(members) - 1} more hosts)"))
    return sorted(merged, key=lambda p: (p.severity != "error", _natural(p.path), p.code, p.rule))


def alike(found: Iterable[tuple[str, Problem]]) -> list[Problem]:
    """Problems of hosts that stand at a place of a service: where many hosts have the same, the first stands for all.

    They name their host in the rule or behind the place, so ``in_order`` cannot see that they are the same.
    """
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for host, p in found:
        own = re.compile(rf"(?<![\w\-]){re.escape(host)}(?![\w\-])")
        key = (p.code, p.severity, p.value, own.sub("", p.path), own.sub("", p.rule), own.sub("", p.remedy))
        groups.setdefault(key, []).append(p)
    merged: list[Problem] = []
    for members in groups.values():
        first = members[0]
        many = len(members) >= ALIKE and not first.path.startswith("hosts")
        more = f"{first.path} (and {len(members) - 1} more hosts)"
        merged += [replace(first, path=more)] if many else members
    return merged


def _natural(text: str) -> list[tuple[int, str]]:
    """A sorting key by which line 9 comes before line 10."""
    parts = re.split(r"([0-9]+)", text)
    return [(len(part) if number % 2 else 0, part) for number, part in enumerate(parts)]


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop a run."""
    return [p for p in problems if p.severity == "error"]


def blocking(problems: Iterable[Problem]) -> list[Problem]:
    """The same, with warnings of what this release cannot do yet as errors: for runs that would change hosts."""
    return [replace(p, severity="error") if RULES[p.code].blocks else p for p in problems]


def headline(problems: Iterable[Problem]) -> str:
    """How many there are, in both languages."""
    ordered = in_order(problems)
    failing, advisory = len(errors(ordered)), len(ordered) - len(errors(ordered))
    return f"{failing} error(s), {advisory} warning(s) / {failing} 个错误，{advisory} 个警告"


def render(problems: Iterable[Problem], place: Callable[[Problem], str | None] = lambda _: None) -> str:
    """All problems as text for people: a headline, then one block a problem, English above Chinese.

    ``place`` says in which file and line a problem is, where that is known and not the path itself.
    """
    ordered = in_order(problems)
    lines = [headline(ordered)]
    for item in ordered:
        lines += ["", f"{item.code} {item.severity}: {item.path}"]
        where = place(item)
        if where and where != item.path:
            lines.append(f"  place:  {where}")
        if item.value:
            lines.append(f"  value:  {item.value}")
        lines += [
            f"  rule:   {item.rule}",
            f"  remedy: {item.remedy}",
            f"  规则：  {item.rule_zh}",
            f"  处理：  {item.remedy_zh}",
        ]
    return "\n".join(lines)


def as_json(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """All problems as plain data, in the same order as ``render``."""
    return [item.as_dict() for item in in_order(problems)]
