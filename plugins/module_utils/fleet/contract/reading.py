"""Pydantic's findings as problems with their place in the inventory, and what remains without the faulty parts."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..problems import Problem, hints, path_of, problem
from ..rule_table.phrases import phrase
from .renamed import KEYS

#: Stands where a value was faulty or missing, which has been reported: rules pass over it.
UNKNOWN = "\0"
#: By key: what keeps the rest of a mapping readable. A plan is never made from these.
STAND_INS: dict[str, Any] = {
    "group": UNKNOWN,
    "model": UNKNOWN,
    "version": UNKNOWN,
    "source": UNKNOWN,
    "vips": [UNKNOWN],
    "max_model_len": 1,
    "port": 1,
    "virtual_router_id": 1,
}

# --- pydantic's findings as problems ----------------------------------------------------------------------------------

TYPES = {
    "int": ("a whole number, without quotes", "整数，不带引号"),
    "float": ("a number, without quotes", "数字，不带引号"),
    "string": ("text; write numbers and versions in quotes", "文本；数字和版本号请加引号"),
    "bool": ("true or false", "true 或 false"),
    "dict": ("a mapping of names to values", "键值映射"),
    "model": ("a mapping of names to values", "键值映射"),
    "list": ("a list", "列表"),
    "path_or_mapping": ("the path of a config.json, or its keys", "config.json 的路径，或其中的键"),
}


def _shape_at(model: type[BaseModel], loc: Iterable[str | int]) -> type[BaseModel] | None:
    """The shape that holds the last part of ``loc``."""
    current: Any = model
    for part in list(loc)[:-1]:
        if isinstance(current, type) and issubclass(current, BaseModel):
            if not isinstance(part, str) or part not in current.model_fields:
                return None
            current = current.model_fields[part].annotation
        elif get_origin(current) in (dict, list):
            current = get_args(current)[-1]
        while get_origin(current) not in (None, dict, list):
            args = [a for a in get_args(current) if a is not type(None)]
            current = args[0] if args else None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _unknown_key(path: str, name: str, value: Any, shape: type[BaseModel] | None) -> Problem:
    """A key that there is not: what it is called here, or the nearest name."""
    renamed = KEYS.get((shape.__name__ if shape else "", name))
    if renamed is not None:
        return problem("INV-017", path, value, instead=renamed[0], instead_zh=renamed[1])
    return problem("INV-003", path, value, **hints(name, shape.model_fields if shape else ()))


def _constraint(error: ErrorDetails) -> tuple[str, str]:
    """What a violated bound asks for, in English and Chinese."""
    ctx = error.get("ctx", {})
    match error["type"]:
        case "greater_than_equal":
            return f"at least {ctx['ge']}", f"至少为 {ctx['ge']}"
        case "less_than_equal":
            return f"at most {ctx['le']}", f"不大于 {ctx['le']}"
        case "literal_error":
            return f"one of {ctx['expected']}", f"是 {ctx['expected']} 之一"
        case "greater_than":
            return f"above {ctx['gt']}", f"大于 {ctx['gt']}"
        case "string_too_long":
            return f"at most {ctx['max_length']} characters long", f"不超过 {ctx['max_length']} 个字符"
        case "too_short" | "string_too_short":
            return "not empty", "不为空"
        case "finite_number" | "address" | "version" as kind:
            return phrase(f"value-{kind.removesuffix('_number')}")
    return error["msg"][:1].lower() + error["msg"][1:], f"满足：{error['msg']}"


def to_problem(model: type[BaseModel], prefix: tuple[str | int, ...], error: ErrorDetails) -> Problem:
    """One finding of pydantic as a problem with its place in the inventory."""
    loc, kind, value = error["loc"], error["type"], error["input"]
    path = path_of((*prefix, *loc))
    name = str(loc[-1]) if loc else path
    if kind == "extra_forbidden":
        return _unknown_key(path, name, value, _shape_at(model, loc))
    if kind == "missing":
        return problem("GW-003", path) if path == "fleet_gateway.vips" else problem("INV-005", path, None, name=name)
    if path == "fleet_gateway.vips" and kind == "too_short":
        return problem("GW-003", path, value)
    if path == "fleet_gateway.virtual_router_id":
        return problem("GW-008", path, value)
    stem = kind.removesuffix("_type").removesuffix("_parsing")
    if kind.endswith(("_type", "_parsing", "_from_float")) and stem in TYPES:
        return wrong_type(path, value, stem)
    if kind == "int_from_float":
        return wrong_type(path, value, "int")
    expected, expected_zh = _constraint(error)
    return problem("INV-006", path, value, expected=expected, expected_zh=expected_zh)


def wrong_type(path: str, value: Any, kind: str) -> Problem:
    """A value that is not of the kind: a key of ``TYPES``."""
    expected, expected_zh = TYPES[kind]
    return problem("INV-004", path, value, expected=expected, expected_zh=expected_zh)


def salvage[T: BaseModel](model: type[T], data: Any, prefix: tuple[str | int, ...]) -> tuple[T | None, list[Problem]]:
    """Validate ``data``; report every fault, and return what remains without the faulty parts if that is whole enough.

    One mistake must not hide another: faulty values are replaced by their defaults or by stand-ins, and rules go on.
    """
    problems: list[Problem] = []
    if not isinstance(data, Mapping):
        return None, [wrong_type(path_of(prefix), data, "dict")]
    rest = deepcopy(data)
    for attempt in range(6):
        try:
            return model.model_validate(rest), problems
        except ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details:
            # What only lacks something because a faulty part was taken out has been reported with that part.
            if attempt == 0 or detail["type"] not in ("missing", "too_short"):
                problems.append(to_problem(model, prefix, detail))
        # From the back, so that removing an item of a list does not move the ones that follow.
        for detail in sorted(details, key=lambda d: [str(part).zfill(6) for part in d["loc"]], reverse=True):
            _mend(rest, detail)
    return None, problems


def _mend(data: Any, detail: ErrorDetails) -> None:
    """Remove a faulty value, or put a stand-in where a required one is missing."""
    loc = detail["loc"]
    try:
        for part in loc[:-1]:
            data = data[part]
        if detail["type"] == "missing":
            if loc[-1] in STAND_INS:
                data[loc[-1]] = deepcopy(STAND_INS[str(loc[-1])])
        else:
            del data[loc[-1]]
    except (KeyError, IndexError, TypeError):
        return


def each[T: BaseModel](name: str, data: Any, model: type[T]) -> tuple[dict[str, T], list[Problem]]:
    """Validate a mapping of named things one by one."""
    if not isinstance(data, Mapping):
        return {}, [wrong_type(name, data, "dict")]
    if not data:
        return {}, [problem("INV-006", name, data, expected="not empty", expected_zh="不为空")]
    whole: dict[str, T] = {}
    problems: list[Problem] = []
    for key, value in data.items():
        item, found = salvage(model, value, (name, str(key)))
        problems += found
        if item is not None:
            whole[str(key)] = item
    return whole, problems
