"""Temporary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .problems import Problem, problem


def problems_of_refusal(path: str, refusal: Any) -> list[Problem]:
    return [problem("REL-002", path, str(refusal.as_dict())[:300])]


def problems_of_set(path: str, chosen: Any) -> list[Problem]:
    return []


def problems_of_engine(prefix: Any, engine: Mapping[str, Any], vllm: str) -> list[Problem]:
    return []


def problems_of_system(path: str, facts: Any, matrix: Any) -> list[Problem]:
    return []
