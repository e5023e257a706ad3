"""Sizes and joined phrases for messages about memory."""

from __future__ import annotations

from .capacity import GIB
from .rule_table.phrases import phrase

#: English and Chinese.
Words = tuple[str, str]


def gib(size: int) -> str:
    """Bytes in GiB for people."""
    return f"{size / GIB:.1f}" if size >= GIB // 2 else f"{size / GIB:.2f}"


def join(parts: list[Words], joint: str) -> Words:
    """Parts of a sentence with a phrase between them."""
    between = phrase(f"cap-{joint}")
    return between[0].join(p[0] for p in parts), between[1].join(p[1] for p in parts)


def both(name: str, words: Words) -> dict[str, str]:
    """Words as the two parameters of a rule."""
    return {name: words[0], f"{name}_zh": words[1]}
