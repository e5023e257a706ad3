"""What lies at a model's source on the controller. Reads names, sizes and the first bytes of small files only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .capacity import Checkpoint, CheckpointError, read_checkpoint
from .inventory import ModelSeen
from .target.models import safetensors_fault

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
LFS_MAGIC = b"version https://git-lfs"
#: A Git LFS pointer is about 130 bytes; the format's own limit is 1024 (git-lfs docs/spec.md).
LFS_MAX_BYTES = 1024
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def look(directory: str) -> ModelSeen:
    """What a planner needs to know about the model in ``directory``. Never raises: what cannot be read is not there."""
    root = Path(directory)
    try:
        files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else None
    except OSError:
        files = None
    if files is None:
        return ModelSeen(exists=False, has_config=False)
    sizes = {p.relative_to(root).as_posix(): p.stat().st_size for p in files}
    weights = {name: size for name, size in sizes.items() if name.endswith(WEIGHT_SUFFIXES)}
    pointers = tuple(name for name, size in sizes.items() if size <= LFS_MAX_BYTES and _is_pointer(root / name))
    damaged = tuple(_damaged(root, {name: size for name, size in sizes.items() if name not in pointers}))
    missing = tuple(sorted(name for name in _listed(root) if not sizes.get(name)))
    return ModelSeen(
        exists=True,
        config=_config(root),
        headers=_headers(root) if not (pointers or missing or damaged) else None,
        weight_bytes=sum(weights.values()),
        weight_files=len(weights),
        has_config=sizes.get("config.json", 0) > 0,
        pointers=pointers,
        missing=missing,
        damaged=damaged,
    )


def _config(root: Path) -> dict[str, Any] | None:
    """config.json, or None where there is none that can be read."""
    try:
        data = json.loads((root / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _headers(root: Path) -> Checkpoint | None:
    """What the weight files say of themselves, where they are safetensors."""
    try:
        return read_checkpoint(root)
    except (CheckpointError, OSError):
        return None


def _damaged(root: Path, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Files that are there and not whole, with what is wrong: read from headers, not from contents."""
    for name, size in sizes.items():
        if not size:
            continue
        try:
            if name.endswith(".safetensors") and (fault := safetensors_fault(str(root / name), size)):
                yield name, fault
            elif name == "config.json":
                json.loads((root / name).read_text(encoding="utf-8"))
        except OSError as error:
            yield name, f"cannot be read: {error.strerror}"
        except (ValueError, RecursionError) as error:
            yield name, f"is not JSON: {error}"


def _is_pointer(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(LFS_MAGIC)) == LFS_MAGIC
    except OSError:
        return False


def _listed(root: Path) -> set[str]:
    """Shards that an index names."""
    names: set[str] = set()
    for index in INDEXES:
        try:
            data = json.loads((root / index).read_text(encoding="utf-8"))
            names |= {str(v) for v in data["weight_map"].values()}
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            continue
    return names
