"""Each rule about memory and shape by a fleet that breaks exactly it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet_samples import SEEN, SOURCE, TINY, Case

#: Public config.json files, as far as memory depends on them.
QWEN_72B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK_67B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 22016,
    "num_hidden_layers": 95, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 102400,
    "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "float16",
}  # fmt: skip
DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "max_position_embeddings": 163840,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "num_nextn_predict_layers": 1,
}  # fmt: skip
QWEN_7B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def serve(c: Case, config: dict[str, Any], length: int, /, **deployment: Any) -> Case:
    """Let it serve a model of this shape, whose files are on the controller."""
    c.seen = {SOURCE: replace(SEEN, config=config)}
    c.service["max_model_len"] = length
    c.deployment.update(deployment)
    return c


def on_a100(c: Case, config: dict[str, Any], length: int, /, **deployment: Any) -> Case:
    """The same on hosts with eight A100 of 80 GB."""
    c.on_gpus()
    return serve(c, config, length, **deployment)


def elsewhere(c: Case) -> None:
    c.background |= {"REL-001"}
    c.artifact["source"] = "hf://org/tiny@main"


CASES: dict[str, Callable[[Case], object]] = {
    "CAP-001": lambda c: on_a100(c, DEEPSEEK_67B, 4096),
    "CAP-002": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=2),
    "CAP-003": lambda c: on_a100(c, QWEN_7B, 32768).service.update(concurrency=33),
    "CAP-004": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=8).service.update(concurrency=1000),
    "CAP-005": lambda c: on_a100(c, QWEN_72B, 131072, tensor_parallel=8),
    "CAP-006": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=6),
    "CAP-007": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=8, expert_parallel=True),
    "CAP-008": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=8, engine={"kv_cache_memory_bytes": 256 << 20}),
    "CAP-009": lambda c: on_a100(c, QWEN_72B, 32768, tensor_parallel=8, engine={"kv-cache-memory-bytes": "70G"}),
    "CAP-010": elsewhere,
    "CAP-011": lambda c: serve(c, TINY | {"layer_types": ["lightning", "lightning"]}, 512),
    "CAP-012": lambda c: c.deployment.update(
        replicas_per_host=2, environment={"OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "20"}
    ),
    "CAP-013": lambda c: c.deployment.update(replicas_per_host=2, engine={"dtype": "float32"}),
    "CAP-014": lambda c: serve(
        c,
        TINY,
        512,
        engine=c.deployment["engine"]
        | {"speculative_config": {"method": "draft_model", "model": "/srv/draft", "num_speculative_tokens": 3}},
    ),
}
