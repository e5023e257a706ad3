"""Names that people write because an older release, vLLM itself or another tool has them, and what to write here."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

#: By name of a top-level variable: what replaces it, in English and Chinese.
VARIABLES: dict[str, tuple[str, str]] = {
    "fleet_vllm_version": (
        "write fleet_versions: {vllm: …}, in group_vars of the group that it is for",
        "请在对应组的 group_vars 中写 fleet_versions: {vllm: …}",
    ),
    "fleet_vip": ("write fleet_gateway: {vips: […]}", "请写 fleet_gateway: {vips: […]}"),
    "fleet_vips": ("write fleet_gateway: {vips: […]}", "请写 fleet_gateway: {vips: […]}"),
    "fleet_api_key": ("write fleet_engine_api_key", "请写 fleet_engine_api_key"),
}

#: By the name of the shape and of the key.
KEYS: dict[tuple[str, str], tuple[str, str]] = {
    ("Deployment", name): texts
    for name, texts in {
        "tensor_parallel_size": ("write tensor_parallel", "请写 tensor_parallel"),
        "pipeline_parallel_size": ("write pipeline_parallel", "请写 pipeline_parallel"),
        "data_parallel_size": ("write data_parallel", "请写 data_parallel"),
        "enable_expert_parallel": ("write expert_parallel", "请写 expert_parallel"),
        "replicas": ("write replicas_per_host, engines on each host", "请写 replicas_per_host（每台主机的引擎数）"),
        "hosts": ("write group, an inventory group", "请写 group（清单中的组）"),
        "env": ("write environment", "请写 environment"),
        "nnodes": ("write hosts_per_replica", "请写 hosts_per_replica"),
        "device": (
            "remove it; the runtime of the host decides, and fleet_host: {backend: …} where cards leave it open",
            "请删除；由主机的运行时决定，如有歧义请设置 fleet_host: {backend: …}",
        ),
        **{
            option: (f"write engine: {{{option}: …}}", f"请写 engine: {{{option}: …}}")
            for option in (
                "gpu_memory_utilization",
                "max_num_seqs",
                "max_num_batched_tokens",
                "dtype",
                "quantization",
                "kv_cache_dtype",
                "enforce_eager",
                "block_size",
                "enable_prefix_caching",
                "speculative_config",
                "trust_remote_code",
            )
        },
    }.items()
} | {
    ("Gateway", "vip"): ("write vips, a list", "请写 vips（列表）"),
    ("Gateway", "router_id"): ("write virtual_router_id", "请写 virtual_router_id"),
    ("Service", "model_name"): ("write served_model_name", "请写 served_model_name"),
    ("Service", "max_len"): ("write max_model_len", "请写 max_model_len"),
    ("Artifact", "path"): ("write source: file:///absolute/path", "请写 source: file:///绝对路径"),
    ("Artifact", "sha256"): ("write manifest", "请写 manifest"),
    ("Host", "gpus"): ("write cards", "请写 cards"),
    ("Host", "npus"): ("write cards", "请写 cards"),
    ("Cards", "type"): ("write chip", "请写 chip"),
}
