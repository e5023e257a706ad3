"""Rules on what was asked for: where a set is not what an operator pinned."""

from __future__ import annotations

from functools import lru_cache

from packaging.version import Version

from ...rule_table.phrases import phrase, words
from ..candidates import PYTHONS, Candidate
from ..compare import package_version, vendor_version, within
from ..facts import Wanted
from ..matrix import Matrix, known_vllm
from .link import ASKED, BROKEN, NONE, Link, Move

# What changing a pin costs an operator.
PIN_COST = {
    "vllm": 1.0,
    "vllm_ascend": 1.0,
    "python": 0.5,
    "torch": 0.8,
    "torch_npu": 0.8,
    "cuda": 0.8,
    "cann": 2.0,
    "dtk": 1.0,
}
STEP_COST = 0.1
METHOD_COST = 1.5
#: What a move of a pin goes to where the pin has to fall.
NO_PIN = "no pin"
_RULES = {"vllm": "SET-080", "cann": "SET-082", "python": "SET-083"}


def _pin_values(candidate: Candidate) -> dict[str, str | None]:
    return {
        "vllm": candidate.vllm,
        "vllm_ascend": candidate.vllm_ascend,
        "torch": candidate.torch,
        "torch_npu": candidate.torch_npu,
        "cann": candidate.cann,
        "cuda": candidate.cuda,
        "python": candidate.python,
        "dtk": candidate.dtk,
    }


def meets(value: str, wanted: str) -> bool:
    """Whether a part of a set is what was asked for: the same text, or inside the range."""
    return value.lower() == wanted.lower() or within(value, wanted)


def pin_links(candidate: Candidate, wanted: Wanted, matrix: Matrix) -> list[Link]:
    """Where a set is not what was asked for."""
    links: list[Link] = []
    for name, value in _pin_values(candidate).items():
        wish = getattr(wanted, name)
        if wish is None or (value is not None and meets(value, wish)):
            continue
        if value is not None:
            steps = _steps(name, wish, value, candidate.backend, matrix)
            links.append(_pin_link(_RULES.get(name, "SET-081"), name, wish, value, candidate, steps))
        elif name == "python" and candidate.method == "container":
            links.append(_pin_link("SET-084", name, wish, None, candidate, 0))
        elif candidate.method == "container" or not belongs(name, candidate.backend):
            links.append(_pin_link("SET-085", name, wish, None, candidate, 0))
        else:
            links.append(_pin_link("SET-086", name, wish, None, candidate, 0))
    if candidate.method not in wanted.methods:
        fields = (("methods", (*wanted.methods, candidate.method)),)
        order = ", ".join(wanted.methods) or NONE
        move = Move("pin", "method", order, candidate.method, 1, METHOD_COST, fields)
        named = [phrase(f"method-{m}") for m in wanted.methods]
        params = {
            "set": _label(candidate),
            "allowed": ", ".join(english for english, _ in named) or "-",
            "allowed_zh": "\u3001".join(chinese.strip() for _, chinese in named) or "-",
            **words("method", f"method-{candidate.method}"),
        }
        filled = tuple(params.items())
        links.append(Link("pin-method", "SET-087", BROKEN, order, candidate.method, filled, ASKED, "high", move))
    return links


def belongs(name: str, backend: str) -> bool:
    """Whether a pin means something on a backend."""
    only = {"vllm_ascend": "ascend", "torch_npu": "ascend", "cann": "ascend", "cuda": "cuda", "dtk": "dcu"}
    return only.get(name, backend) == backend


def _label(candidate: Candidate) -> str:
    return f"vllm-ascend {candidate.vllm_ascend}" if candidate.vllm_ascend else f"vLLM {candidate.vllm}"


def _pin_link(rule: str, name: str, wish: str, value: str | None, candidate: Candidate, steps: int) -> Link:
    cost = PIN_COST[name] + STEP_COST * steps
    move = Move("pin", name, wish, NO_PIN if value is None else value, max(1, steps), cost, ((name, value),))
    params = {
        "name": name,
        "wish": wish,
        "need": value or NONE,
        "set": f"vLLM {candidate.vllm}" if name == "vllm_ascend" else _label(candidate),
        "backend": candidate.backend,
        "arch": candidate.arch,
        **words("method", f"method-{candidate.method}"),
    }
    code = f"pin-{name.replace('_', '-')}"
    return Link(code, rule, BROKEN, wish, value or NONE, tuple(params.items()), ASKED, "high", move)


@lru_cache(maxsize=16384)
def _steps(name: str, wish: str, value: str, backend: str, matrix: Matrix) -> int:
    """How many known versions lie between what was asked for and what the set has."""
    if name == "vllm":
        scale = list(known_vllm(matrix, backend))
    elif name == "vllm_ascend":
        scale = sorted((r.vllm_ascend for r in matrix.ascend_releases), key=Version)
    elif name == "cann":
        scale = sorted((r.cann for r in matrix.cann_hdk), key=lambda c: vendor_version(c) or ())
    elif name == "python":
        scale = sorted(PYTHONS, key=Version)
    else:
        return 1
    if value not in scale:
        return 1
    at = scale.index(value)
    inside = [i for i, v in enumerate(scale) if meets(v, wish)]
    if inside:
        return min(abs(i - at) for i in inside)
    asked = package_version(wish)
    if asked is None:
        return len(scale)
    before = sum(1 for v in scale if (package_version(v) or asked) < asked)
    return abs(before - at) if before > at else abs(before - at) + 1
