"""What an operator's engine options and environment say about memory, in the forms that people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .capacity import GIB, Settings, default_utilization, parse_version
from .placement import Placed

#: Suffixes of vLLM's numbers (`--max-num-batched-tokens 8k`): small letters are decimal, capitals binary.
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DTYPES = {"bf16": "bfloat16", "half": "float16", "fp16": "float16", "float": "float32", "fp32": "float32"}
#: Ways to speculate that take no weights: prompt lookup and the like.
_WITHOUT_WEIGHTS = frozenset({"ngram", "ngram_gpu", "[ngram]", "suffix"})


def dashless(name: str) -> str:
    """An option with underscores: both spellings are common."""
    return name.lstrip("-").replace("-", "_")


def number(value: Any) -> int | None:
    """A whole number as vLLM's parser reads it; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)(?:([kmgtKMGT])(?:i?B)?)?\s*", value) if isinstance(value, str) else None
    if found is None:
        return None
    exact = float(found[1]) * _SUFFIXES.get(found[2] or "", 1)
    return int(exact) if exact.is_integer() else None


def share(value: Any) -> float | None:
    """A part of one; None for what is none."""
    try:
        part = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError):
        return None
    return part if 0 < part <= 1 else None


def truth(value: Any) -> bool | None:
    """A switch; None where it says neither."""
    text = str(value).strip().lower()
    if text in ("true", "1", "yes", "on"):
        return True
    return False if text in ("false", "0", "no", "off") else None


def mapping(value: Any) -> dict[str, Any]:
    """A mapping, or the JSON of one; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding. ``model`` is as written, None where the target's own layers propose or nothing does."""

    method: str
    model: str | None
    tokens: int


@dataclass(frozen=True)
class Options:
    """Everything of one deployment that memory depends on, by vLLM's names."""

    given: Mapping[str, Any]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, engine: Mapping[str, Any], environment: Mapping[str, str]) -> Options:
        """Read them; ``no_`` in front of a switch turns it off."""
        given: dict[str, Any] = {}
        for name, value in engine.items():
            key = dashless(str(name))
            if key.startswith("no_") and truth(value) is True:
                given[key[3:]] = False
            else:
                given[key] = value
        return cls(given, environment)

    def text(self, name: str) -> str | None:
        """A word; None where it is unset or leaves the choice to vLLM."""
        value = self.given.get(name)
        if value is None or str(value).strip().lower() in ("", "auto", "none"):
            return None
        return str(value).strip()

    @property
    def dtype(self) -> str | None:
        """The dtype that the model runs in; None for the checkpoint's."""
        name = (self.text("dtype") or "").lower().removeprefix("torch.")
        return _DTYPES.get(name, name) or None

    @property
    def quantization(self) -> str | None:
        """The scheme that vLLM is told; None where it reads the checkpoint."""
        return self.text("quantization")

    @property
    def overrides(self) -> dict[str, Any]:
        """Keys of config.json that are replaced at start."""
        return mapping(self.given.get("hf_overrides"))

    @property
    def stretches(self) -> bool:
        """Whether the model's own longest context may be exceeded."""
        if truth(self.environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0")):
            return True
        nested = [v for v in self.overrides.values() if isinstance(v, Mapping)]
        keys = [k for m in (self.overrides, *nested) for k in m]
        return bool(self.given.get("rope_scaling")) or any(str(k).startswith("rope") for k in keys)

    @property
    def speculation(self) -> Speculation | None:
        """How it speculates; None where it does not, or without weights."""
        config = mapping(self.given.get("speculative_config"))
        for key, other in (
            ("method", "spec_method"),
            ("model", "spec_model"),
            ("num_speculative_tokens", "spec_tokens"),
        ):
            if config.get(key) is None and self.given.get(other) is not None:
                config[key] = self.given[other]
        tokens = number(config.get("num_speculative_tokens")) or 0
        method, model = str(config.get("method") or "").lower(), config.get("model")
        if not config or method in _WITHOUT_WEIGHTS or str(model).lower() in _WITHOUT_WEIGHTS:
            return None
        return Speculation(method, str(model) if model else None, max(tokens, 1))

    @property
    def own_draft_size(self) -> bool:
        """Whether the draft has a tensor parallel size of its own."""
        return number(mapping(self.given.get("speculative_config")).get("draft_tensor_parallel_size")) is not None

    def kv_bytes(self, backend: str) -> tuple[str, int] | None:
        """KV in bytes and where that stands, as a path behind the deployment; None where vLLM sizes it itself.

        On a CPU the variable goes before the option (vLLM 0.32.0, ``platforms/cpu.py``).
        """
        space = number(self.environment.get("VLLM_CPU_KVCACHE_SPACE")) if backend == "cpu" else None
        if space is not None and space > 0:
            return "VLLM_CPU_KVCACHE_SPACE", space * GIB
        wanted = number(self.given.get("kv_cache_memory_bytes"))
        return ("kv_cache_memory_bytes", wanted) if wanted is not None and wanted > 0 else None

    def used_share(self, version: str) -> float:
        """The part of a card that the engine may use: what is set, or the default of the version."""
        return share(self.given.get("gpu_memory_utilization")) or default_utilization(
            parse_version(version) or (0, 0, 0)
        )

    def settings(self, version: str, backend: str, max_model_len: int, recurrent: bool) -> Settings:
        """All of it as the library takes it. Values that vLLM refuses are left out: others report them."""
        kv = self.kv_bytes(backend)
        sampler = self.environment.get("VLLM_USE_FLASHINFER_SAMPLER")
        states = recurrent and (
            self.text("mamba_cache_mode") == "align" or truth(self.given.get("enable_prefix_caching"))
        )
        own = self.speculation is not None and self.speculation.model is None
        return Settings(
            max_model_len=max_model_len,
            gpu_memory_utilization=self.used_share(version),
            max_num_seqs=_positive(self.given.get("max_num_seqs")),
            max_num_batched_tokens=_positive(self.given.get("max_num_batched_tokens")),
            enforce_eager=truth(self.given.get("enforce_eager")) is True,
            kv_cache_dtype=(self.text("kv_cache_dtype") or "auto").lower(),
            block_size=_positive(self.given.get("block_size")),
            kv_cache_memory_bytes=kv[1] if kv else None,
            flashinfer_sampler=truth(sampler) if sampler is not None else None,
            speculative_tokens=self.speculation.tokens if own and self.speculation else 0,
            hybrid_kv=truth(self.given.get("disable_hybrid_kv_cache_manager")) is not True,
            state_blocks=2 if states else 1,
        )


def _positive(value: Any) -> int | None:
    found = number(value)
    return found if found is not None and found > 0 else None


def options_of(engine: Placed) -> Options:
    """Those of an engine."""
    return Options.of(engine.deployment.engine, engine.deployment.environment)


def written(engine: Placed, *names: str) -> str:
    """The first of these options that a deployment sets, as it is written there."""
    for name in names:
        for own in engine.deployment.engine:
            if dashless(str(own)) == name:
                return str(own)
    return names[0]
