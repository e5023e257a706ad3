"""The rules: each compares one link of a set with a host, or with what was asked for. One module a subject."""

from __future__ import annotations

from ..candidates import Candidate
from ..facts import Wanted
from ..matrix import Matrix
from . import ascend, cuda, others, system
from .ascend import hdk_of, judge_hdk
from .cuda import capability_of
from .link import ASKED, BROKEN, NONE, UNKNOWN, WARN, Host, Link, Move, Rule, look_at
from .system import judge_system

RULES: tuple[Rule, ...] = (
    system.rule_faults,
    system.rule_rows,
    system.rule_system,
    system.rule_page_size,
    system.rule_glibc,
    system.rule_compiler,
    system.rule_python,
    others.rule_card,
    cuda.rule_cuda_driver,
    cuda.rule_torch_index,
    cuda.rule_capability,
    ascend.rule_soc,
    ascend.rule_hdk,
    ascend.rule_cann,
    ascend.rule_ascend_system,
    ascend.rule_release,
    others.rule_dcu,
    others.rule_rocm,
    others.rule_cpu,
    others.rule_model,
)

# The rules whose answer another system can change.
SYSTEM_RULES: tuple[Rule, ...] = (
    system.rule_system,
    system.rule_glibc,
    system.rule_compiler,
    cuda.rule_cuda_driver,
    ascend.rule_hdk,
    ascend.rule_ascend_system,
)


def check(
    host: Host, candidate: Candidate, wanted: Wanted, matrix: Matrix, rules: tuple[Rule, ...] = RULES
) -> tuple[Link, ...]:
    """Every link of a set that is broken or uncertain on a host."""
    return tuple(found for rule in rules for found in rule(host, candidate, wanted, matrix))


__all__ = [
    "ASKED",
    "BROKEN",
    "NONE",
    "RULES",
    "SYSTEM_RULES",
    "UNKNOWN",
    "WARN",
    "Host",
    "Link",
    "Move",
    "Rule",
    "capability_of",
    "check",
    "hdk_of",
    "judge_hdk",
    "judge_system",
    "look_at",
]
