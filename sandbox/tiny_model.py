"""A chat model small enough for a CPU: real tokenizer, real weights file, random weights, the same bytes every time.

Made without torch: a safetensors file is a JSON header and the numbers one after another.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox.report import fail

NAME = "tiny-chat"
# version -> seed: two versions, for upgrades and their way back
VERSIONS = {"2026.01": 1, "2026.02": 2}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 2048
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, POSITIONS = 128, 256, 2, 4, 2, 2048

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def shapes() -> dict[str, tuple[int, ...]]:
    """Tensors of a Qwen2, in the order of the file."""
    head = HIDDEN // HEADS
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        found[prefix + "input_layernorm.weight"] = (HIDDEN,)
        found[prefix + "mlp.down_proj.weight"] = (HIDDEN, INTERMEDIATE)
        found[prefix + "mlp.gate_proj.weight"] = (INTERMEDIATE, HIDDEN)
        found[prefix + "mlp.up_proj.weight"] = (INTERMEDIATE, HIDDEN)
        found[prefix + "post_attention_layernorm.weight"] = (HIDDEN,)
        for name, heads in (("k", KV_HEADS), ("q", HEADS), ("v", KV_HEADS)):
            found[prefix + f"self_attn.{name}_proj.bias"] = (heads * head,)
            found[prefix + f"self_attn.{name}_proj.weight"] = (heads * head, HIDDEN)
        found[prefix + "self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
    found["model.norm.weight"] = (HIDDEN,)
    found["lm_head.weight"] = (VOCABULARY, HIDDEN)
    return found


def bfloat16(value: float) -> bytes:
    """The upper half of a float32, rounded to nearest, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF)


def _values(name: str, count: int, source: random.Random) -> Iterator[bytes]:
    if name.endswith("norm.weight"):
        yield bfloat16(1.0) * count
    elif name.endswith(".bias"):
        yield bfloat16(0.0) * count
    else:
        for _ in range(count):
            yield bfloat16(source.gauss(0.0, 0.02))


def write_safetensors(path: Path, tensors: dict[str, tuple[int, ...]], seed: int) -> int:
    """Returns the number of parameters."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = parameters = 0
    for name, shape in tensors.items():
        count = 1
        for size in shape:
            count *= size
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + 2 * count]}
        offset += 2 * count
        parameters += count
    text = json.dumps(header, separators=(",", ":")).encode()
    # The numbers begin at a multiple of eight, so that readers can map them.
    text += b" " * (-len(text) % 8)
    source = random.Random(seed)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors.items():
            count = 1
            for size in shape:
                count *= size
            stream.write(b"".join(_values(name, count, source)))
    return parameters


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "dtype": "bfloat16",
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": POSITIONS,
        "max_window_layers": LAYERS,
        "model_type": "qwen2",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "pad_token_id": 0,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
        # Readers of before and after the renaming of this key.
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY,
    }


def train_tokenizer(corpus: list[str]) -> str:
    """tokenizer.json"""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise fail(
            "tiny model", str(error), "tokenizers is in the Python that runs the sandbox", "run `make setup`"
        ) from error
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise fail("tiny model", tokenizer.get_vocab_size(), f"the tokenizer has {VOCABULARY} tokens", "use more text")
    return str(tokenizer.to_str(pretty=False))


def tokenizer_config() -> dict[str, Any]:
    added = {
        str(number): {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                      "special": True}
        for number, text in enumerate(SPECIAL)
    }  # fmt: skip
    return {
        "added_tokens_decoder": added,
        "additional_special_tokens": ["<|im_start|>"],
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": POSITIONS,
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def read_corpus(directory: Path) -> list[str]:
    return [
        file.read_text(encoding="utf-8", errors="replace")
        for file in sorted(directory.iterdir())
        if file.is_file() and not file.is_symlink()
    ]


def write(directory: Path, tokenizer: str, seed: int) -> int:
    """One version of the model. Returns the number of parameters."""
    directory.mkdir(parents=True, exist_ok=True)
    documents: dict[str, dict[str, Any]] = {
        "config.json": config(),
        "generation_config.json": {"eos_token_id": 2, "pad_token_id": 0},
        "special_tokens_map.json": {
            "additional_special_tokens": ["<|im_start|>"],
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
        "tokenizer_config.json": tokenizer_config(),
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (directory / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    parameters = write_safetensors(directory / "model.safetensors", shapes(), seed)
    for file in directory.iterdir():
        # A service user reads them.
        file.chmod(0o644)
    return parameters
