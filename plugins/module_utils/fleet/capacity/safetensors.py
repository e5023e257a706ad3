"""Exact weights from the headers of safetensors files; the weights themselves are never read.

A safetensors file begins with eight bytes, the length of a JSON header in little-endian order, then the header: for
each tensor its dtype, shape and place. Source: the format's description in the ``safetensors`` repository.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .architecture import Architecture, MoeMlp
from .constants import DEFAULT, Constants
from .weights import Parallel, StageWeights, Weights, kv_heads_per_card, pipeline_split, unpacked_latent

__all__ = ["Checkpoint", "CheckpointError", "Tensor", "read_checkpoint", "read_header"]

_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_HEADER_LIMIT = 100 * 1024 * 1024
_POINTER = b"version https://git-lfs"


class CheckpointError(ValueError):
    """A checkpoint that is damaged or not whole.

    Attributes:
        path: the file.
        rule: what is wrong with it.
    """

    def __init__(self, path: Path, rule: str) -> None:
        super().__init__(f"{path.name}: {rule}")
        self.path = path
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint.

    Attributes:
        name: its name.
        dtype: as the format spells it (``BF16``).
        shape: its shape.
        bytes: bytes that it takes in the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


def read_header(path: Path) -> tuple[Tensor, ...]:
    """The tensors of one file, from its header.

    Args:
        path: a ``.safetensors`` file.

    Returns:
        Tensors in order of name.

    Raises:
        CheckpointError: no such file, a Git LFS pointer, a header that is no header, or a file that is shorter than its
            header says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if len(start) < 8:
                raise CheckpointError(path, "is too short for a safetensors file")
            if _POINTER.startswith(start):
                raise CheckpointError(path, "is a Git LFS pointer; fetch the file itself")
            (length,) = struct.unpack("<Q", start)
            if length > min(_HEADER_LIMIT, size - 8):
                raise CheckpointError(path, f"its header of {length} bytes exceeds the file or the format's limit")
            raw = file.read(length)
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    try:
        header = json.loads(raw)
    except ValueError as error:
        raise CheckpointError(path, "its header is no JSON") from error
    if not isinstance(header, dict):
        raise CheckpointError(path, "its header is no object")
    tensors: list[Tensor] = []
    end = 0
    for name, entry in sorted(header.items()):
        if name == "__metadata__":
            continue
        try:
            dtype, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
            first, last = (int(n) for n in entry["data_offsets"])
            bits = _BITS[dtype]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(path, f"tensor {name!r} has no usable dtype, shape or place") from error
        if last - first != -(-math.prod(shape) * bits // 8) or first < 0:
            raise CheckpointError(path, f"tensor {name!r} takes {last - first} bytes, which is not its shape")
        end = max(end, last)
        tensors.append(Tensor(name, dtype, shape, last - first))
    if 8 + length + end > size:
        raise CheckpointError(path, f"is {8 + length + end - size} bytes too short")
    return tuple(tensors)


def read_checkpoint(directory: Path) -> Checkpoint:
    """All tensors of a local or mounted model.

    Args:
        directory: the model's directory. With ``model.safetensors.index.json`` the files that it names are read,
            otherwise every ``*.safetensors``.

    Raises:
        CheckpointError: files are missing, damaged or pointers.
    """
    index = directory / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise CheckpointError(index, "is no index of safetensors files") from error
        files = [directory / str(name) for name in names]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise CheckpointError(index, f"{len(missing)} of {len(files)} files are missing, first {missing[0]}")
    else:
        files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise CheckpointError(directory, "has no safetensors files")
    return Checkpoint(tuple(tensor for file in files for tensor in read_header(file)))


_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_VISION = re.compile(r"(^|\.)(visual|vision_tower|vision_model|vision_encoder|multi_modal_projector|mm_projector)\.")
_VOCAB = re.compile(r"(embed_tokens|wte|word_embeddings|lm_head|embed_out)\.weight$|(^|\.)output\.weight$")
_EXPERT = re.compile(r"\.experts\.(?!.*shared)")
_WHOLE = re.compile(r"norm|\.gate\.weight$|router|kv_a_proj|q_a_proj|A_log|dt_bias|rotary")
_KV = re.compile(r"\.(k_proj|v_proj)\.")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a model's files.

    Attributes:
        tensors: every tensor.
    """

    tensors: tuple[Tensor, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)

    def weights(
        self,
        architecture: Architecture,
        parallel: Parallel = Parallel(),  # noqa: B008 (frozen)
        *,
        max_model_len: int | None = None,
        constants: Constants = DEFAULT,
    ) -> Weights:
        """Bytes on each card when the files are loaded as they are.

        Args:
            architecture: the model; says how heads, experts and layers divide.
            parallel: parallel sizes.
            max_model_len: tokens of the rotary table where the model does not tell its own length.
            constants: fitted constants.

        Raises:
            ParallelError: sizes that do not divide the model.
        """
        stages = pipeline_split(len(architecture.layers), parallel.pipeline)
        totals = [dict.fromkeys(("embeddings", "mixers", "dense", "experts", "vision", "tables"), 0.0) for _ in stages]
        first, last = totals[0], totals[-1]
        heads = {_kv_heads(architecture)} - {0}
        for tensor in self.tensors:
            found = _LAYER.search(tensor.name)
            if _VISION.search(tensor.name):
                whole = constants.vision_replicated
                first["vision"] += tensor.bytes * (whole + (1 - whole) / parallel.tensor)
            elif _VOCAB.search(tensor.name):
                if "lm_head" in tensor.name or "embed_out" in tensor.name or tensor.name.endswith("output.weight"):
                    if not architecture.tied_embeddings:
                        last["embeddings"] += tensor.bytes / parallel.tensor
                else:
                    first["embeddings"] += tensor.bytes / parallel.tensor
                    if architecture.tied_embeddings and parallel.pipeline > 1:
                        last["embeddings"] += tensor.bytes / parallel.tensor
            elif found is None:
                last["tables"] += tensor.bytes
            else:
                index = int(found.group(1))
                where = next((i for i, stage in enumerate(stages) if index in stage), None)
                if where is None:  # layers behind the last: multi-token prediction, loaded only as a draft
                    continue
                totals[where][_part(tensor.name)] += tensor.bytes * _share(tensor.name, parallel, heads, architecture)
        for part, stage in zip(totals, stages, strict=True):
            part["mixers"] += sum(unpacked_latent(architecture.layers[i].mixer, parallel.tensor) * 2 for i in stage)
        length = architecture.max_position or max_model_len or 0
        rotary = length * architecture.rope_dim * 2
        return Weights(
            tuple(
                StageWeights(
                    stage,
                    embeddings=math.ceil(part["embeddings"]),
                    mixers=math.ceil(part["mixers"]),
                    dense=math.ceil(part["dense"]),
                    experts=math.ceil(part["experts"]),
                    vision=math.ceil(part["vision"]),
                    tables=math.ceil(part["tables"] + rotary),
                )
                for stage, part in zip(stages, totals, strict=True)
            ),
            exact=True,
        )


def _kv_heads(architecture: Architecture) -> int:
    return max((getattr(layer.mixer, "kv_heads", 0) for layer in architecture.layers), default=0)


def _part(name: str) -> str:
    if _WHOLE.search(name):
        return "tables"
    if _EXPERT.search(name):
        return "experts"
    return "dense" if ".mlp." in name or "feed_forward" in name or "shared_expert" in name else "mixers"


def _share(name: str, parallel: Parallel, kv_heads: Iterable[int], architecture: Architecture) -> float:
    if _WHOLE.search(name):
        return 1.0
    if _EXPERT.search(name):
        ranks = parallel.tensor * parallel.data
        if not parallel.expert:
            return 1 / ranks
        experts = max(layer.mlp.experts for layer in architecture.layers if isinstance(layer.mlp, MoeMlp))
        return -(-experts // ranks) / experts
    if _KV.search(name):
        for heads in kv_heads:
            return kv_heads_per_card(heads, parallel.tensor) / heads
    return 1 / parallel.tensor
