from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sandbox import tiny_model
from sandbox.report import SandboxError


def read(path: Path) -> tuple[dict[str, dict[str, object]], bytes]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def floats(data: bytes) -> list[float]:
    return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]


@pytest.mark.parametrize("value", [0.0, 1.0, -2.0, 0.5, 2.0**-126])
def test_exact_values_stay(value: float) -> None:
    assert floats(tiny_model.bfloat16(value)) == [value]


def test_other_values_are_rounded_to_nearest_and_ties_to_even() -> None:
    assert floats(tiny_model.bfloat16(1 + 2**-8)) == [1.0]
    assert floats(tiny_model.bfloat16(1 + 3 * 2**-8)) == [1 + 2 * 2**-7]
    assert floats(tiny_model.bfloat16(1 + 2**-8 + 2**-12)) == [1 + 2**-7]


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    tensors = {"a.weight": (2, 300), "b.norm.weight": (4,), "c.bias": (3,)}
    assert tiny_model.write_safetensors(tmp_path / "m", tensors, 7) == 607
    header, data = read(tmp_path / "m")
    assert header.pop("__metadata__") == {"format": "pt"}
    assert [(name, item["shape"], item["dtype"]) for name, item in header.items()] == [
        ("a.weight", [2, 300], "BF16"),
        ("b.norm.weight", [4], "BF16"),
        ("c.bias", [3], "BF16"),
    ]
    assert [item["data_offsets"] for item in header.values()] == [[0, 1200], [1200, 1208], [1208, 1214]]
    assert len(data) == 1214
    weights = floats(data[:1200])
    assert abs(sum(weights) / 600) < 0.005
    assert 0.015 < (sum(w * w for w in weights) / 600) ** 0.5 < 0.025
    assert floats(data[1200:]) == [1.0] * 4 + [0.0] * 3


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        tiny_model.write_safetensors(tmp_path / name, {"x.weight": (50,)}, seed)
    contents = [(tmp_path / name).read_bytes() for name in "abc"]
    assert contents[0] == contents[1] != contents[2]


def test_shapes_fit_the_configuration() -> None:
    shapes = tiny_model.shapes()
    assert shapes["model.layers.1.self_attn.k_proj.weight"] == (64, 128)
    assert shapes["lm_head.weight"] == (2048, 128)
    assert len(shapes) == 3 + 12 * tiny_model.LAYERS


def test_a_version_is_complete_and_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_model, "shapes", lambda: {"model.norm.weight": (4,)})
    tiny_model.write(tmp_path / "v", "{}", 1)
    assert {f.name for f in (tmp_path / "v").iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json",
        "tokenizer_config.json",
    }  # fmt: skip
    assert {f.stat().st_mode & 0o777 for f in (tmp_path / "v").iterdir()} == {0o644}


def test_a_tokenizer_is_the_same_each_time_and_knows_its_special_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    monkeypatch.setattr(tiny_model, "VOCABULARY", 280)
    corpus = ["the licence of the program", "this licence covers the other programs", "programs and the like"] * 3
    first = tiny_model.train_tokenizer(corpus)
    assert first == tiny_model.train_tokenizer(corpus)
    tokenizer = tokenizers.Tokenizer.from_str(first)
    assert [tokenizer.token_to_id(text) for text in tiny_model.SPECIAL] == [0, 1, 2]
    assert tokenizer.decode(tokenizer.encode("licence, na\u00efve").ids) == "licence, na\u00efve"


def test_too_little_text_is_told() -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(SandboxError, match="use more text"):
        tiny_model.train_tokenizer(["a word"])
