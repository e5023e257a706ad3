"""Sources as they fit into a message."""

from __future__ import annotations

import re
from functools import lru_cache

#: Longest source inside a message, in characters. Answers as data carry the whole source.
SOURCE_LENGTH = 110


@lru_cache(maxsize=4096)
def short_source(source: str) -> str:
    """The first place that a source names."""
    first = re.split(r"\s*;\s|: REFUSE", source)[0].strip().removeprefix("https://")
    if len(first) > SOURCE_LENGTH:
        first = first.split(" (")[0]
    return first if len(first) <= SOURCE_LENGTH else f"{first[: SOURCE_LENGTH - 3]}..."
