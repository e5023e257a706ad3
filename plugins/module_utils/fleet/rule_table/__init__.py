"""The table of rules, one module a family: stable code, severity, texts. Nothing else in the product words a rule."""

from __future__ import annotations

from . import capacity, files, gateway, hosts, inventory, models, network, releases, services, storage, versions
from .rule import Rule, Severity

RULES: dict[str, Rule] = {
    **files.RULES,
    **inventory.RULES,
    **services.RULES,
    **storage.RULES,
    **gateway.RULES,
    **models.RULES,
    **network.RULES,
    **releases.RULES,
    **capacity.RULES,
    **hosts.RULES,
    **versions.RULES,
}

__all__ = ["RULES", "Rule", "Severity"]
