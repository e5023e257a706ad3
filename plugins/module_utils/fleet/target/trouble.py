"""How code on a host says that something is wrong: what it is, and what to do about it."""

from __future__ import annotations


class Trouble(Exception):
    """Ends a module with a message for people: what is wrong, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what.rstrip('.')}. To mend it: {remedy.rstrip('.')}.")
        self.what = what
        self.remedy = remedy
