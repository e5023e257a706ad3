"""Headers of real files, written here, and of damaged ones."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from fleet.capacity import CheckpointError, Parallel, from_numbers, read_checkpoint, read_header, weight_bytes

NUMBERS: dict[str, Any] = {
    "layers": 2, "hidden_size": 64, "intermediate_size": 128, "attention_heads": 4, "kv_heads": 2, "head_dim": 16,
    "vocab_size": 256, "max_position_embeddings": 32,
}  # fmt: skip


def write(path: Path, tensors: dict[str, tuple[int, ...]], *, dtype: str = "BF16", size: int = 2) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + math.prod(shape) * size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(end))


def model() -> dict[str, tuple[int, ...]]:
    tensors: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (256, 64), "lm_head.weight": (256, 64)}
    for index in range(2):
        at = f"model.layers.{index}."
        tensors |= {
            at + "self_attn.q_proj.weight": (64, 64), at + "self_attn.k_proj.weight": (32, 64),
            at + "self_attn.v_proj.weight": (32, 64), at + "self_attn.o_proj.weight": (64, 64),
            at + "mlp.gate_proj.weight": (128, 64), at + "mlp.up_proj.weight": (128, 64),
            at + "mlp.down_proj.weight": (64, 128), at + "input_layernorm.weight": (64,),
            at + "post_attention_layernorm.weight": (64,),
        }  # fmt: skip
    return tensors


@pytest.mark.parametrize("parallel", [Parallel(), Parallel(2), Parallel(4), Parallel(1, 2)])
def test_files_and_shape_tell_the_same_weights(tmp_path: Path, parallel: Parallel) -> None:
    write(tmp_path / "model.safetensors", model())
    shape = from_numbers(NUMBERS)
    exact = read_checkpoint(tmp_path).weights(shape, parallel)
    assert exact.exact
    assert exact.per_card == weight_bytes(shape, parallel).per_card


def test_experts_and_latent_attention(tmp_path: Path) -> None:
    numbers = {
        "layers": 1, "hidden_size": 64, "attention_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "vocab_size": 256, "experts": 4,
        "experts_per_token": 2, "moe_intermediate_size": 32, "shared_experts": 1,
    }  # fmt: skip
    at = "model.layers.0."
    tensors: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (256, 64), "lm_head.weight": (256, 64), at + "input_layernorm.weight": (64,),
        at + "post_attention_layernorm.weight": (64,), at + "self_attn.q_a_proj.weight": (24, 64),
        at + "self_attn.q_b_proj.weight": (96, 24), at + "self_attn.kv_a_proj_with_mqa.weight": (24, 64),
        at + "self_attn.kv_b_proj.weight": (128, 16), at + "self_attn.o_proj.weight": (64, 64),
        at + "mlp.gate.weight": (4, 64),
    }  # fmt: skip
    for name in [f"experts.{index}" for index in range(4)] + ["shared_experts"]:
        for matrix, shape in (("gate_proj", (32, 64)), ("up_proj", (32, 64)), ("down_proj", (64, 32))):
            tensors[f"{at}mlp.{name}.{matrix}.weight"] = shape
    write(tmp_path / "model.safetensors", tensors)
    shape = from_numbers(numbers)
    for parallel in (Parallel(), Parallel(2), Parallel(2, expert=True)):
        exact, computed = read_checkpoint(tmp_path).weights(shape, parallel), weight_bytes(shape, parallel)
        assert exact.stages[0].experts == computed.stages[0].experts
        assert exact.stages[0].total == computed.stages[0].total


def test_files_of_an_index_are_read(tmp_path: Path) -> None:
    tensors = list(model().items())
    files = {"a.safetensors": dict(tensors[:7]), "b.safetensors": dict(tensors[7:])}
    for name, part in files.items():
        write(tmp_path / name, part)
    weights = {tensor: name for name, part in files.items() for tensor in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    assert len(read_checkpoint(tmp_path).tensors) == len(tensors)
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"1 of 2 files are missing, first b\.safetensors"):
        read_checkpoint(tmp_path)


def test_packed_types(tmp_path: Path) -> None:
    write(tmp_path / "m.safetensors", {"model.layers.0.mlp.gate_proj.weight": (64, 64)}, dtype="F8_E4M3", size=1)
    assert read_checkpoint(tmp_path).bytes == 4096


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
        (b"abc", "too short"),
        (struct.pack("<Q", 1 << 60) + b"{}", "exceeds the file"),
        (struct.pack("<Q", 2) + b"[]", "no object"),
        (struct.pack("<Q", 3) + b"{,}", "no JSON"),
        (struct.pack("<Q", 12) + b'{"a": {}}   ', "no usable dtype"),
    ],
)
def test_damaged_files_say_so(tmp_path: Path, content: bytes, rule: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=rule):
        read_header(file)


def test_a_cut_file_says_how_much_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write(file, model())
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="100 bytes too short"):
        read_header(file)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no safetensors files"):
        read_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_header(tmp_path / "none.safetensors")
