"""The table of rules, one module a family: stable code, severity, texts. Nothing else in the product words a rule."""

from __future__ import annotations

from . import files, gateway, hosts, inventory, models, services
from .rule import Rule, Severity

RULES: dict[str, Rule] = {
    **files.RULES,
    **inventory.RULES,
    **services.RULES,
    **gateway.RULES,
    **models.RULES,
    **hosts.RULES,
}

__all__ = ["RULES", "Rule", "Severity"]
