"""Whether models fit the memory of the cards that they are planned for."""

from __future__ import annotations

from .contract import Parsed
from .facts import HostFacts
from .inventory import Inventory
from .placement import Placed
from .plan import Memory
from .problems import Problem
from .version_plan import Chosen


class Checker:
    """Answers for one fleet. Engines of one deployment on hosts of one kind share the answer."""

    def __init__(self, parsed: Parsed, inventory: Inventory) -> None:
        self._parsed, self._inventory = parsed, inventory

    def check(self, engine: Placed, chosen: Chosen, facts: HostFacts) -> tuple[list[Problem], Memory | None]:
        """Problems, each reported once for a kind of host, and what is expected of one card's memory."""
        return [], None
