"""One row of the table of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Rule:
    """One row of the table. Texts are ``str.format`` templates over the parameters of ``problem()``.

    ``blocks``: a warning that stops a run which would change hosts.
    either: the rule is an error, and a warning where what it rests on is not certain.
    """

    severity: Severity
    rule: str
    rule_zh: str
    remedy: str
    remedy_zh: str
    blocks: bool = False
    either: bool = False
