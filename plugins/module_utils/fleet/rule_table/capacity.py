"""Memory and shape of models on the cards planned for them: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "CAP-001": Rule(
        "error",
        "the weights do not fit: on {host} ({chip}) they take {weights} GiB of {unit}, and an engine may use {budget}"
        " GiB",
        "权重放不下：在 {host}（{chip}）上，{unit_zh}需要 {weights} GiB 存放权重，而引擎最多可用 {budget} GiB",
        "{advice}",
        "{advice_zh}",
    ),
    "CAP-002": Rule(
        "error",
        "no request of {length} tokens fits: on {host} ({chip}) an engine may use {budget} GiB of {unit};"
        " weights take {weights} and the runtime {reserve}, so the KV cache gets {kv} GiB and needs {needed}",
        "KV 缓存容不下一个长度为 {length} 个 token 的请求：在 {host}（{chip}）上，{unit_zh}可用 {budget} GiB，其中"
        "权重占 {weights}、运行时占 {reserve}，KV 缓存只剩 {kv} GiB，需要 {needed} GiB",
        "{advice}",
        "{advice_zh}",
    ),
    "CAP-003": Rule(
        "warning",
        "it fits by the best estimate only: on {host} ({chip}) the KV cache gets about {kv} GiB, between {low} and"
        " {high}, and {requests} requests of {length} tokens need {needed}",
        "余量偏紧，仅按最可能的估计才放得下：在 {host}（{chip}）上，KV 缓存约有 {kv} GiB（介于 {low} 与 {high} 之间），"
        "而 {requests} 个长度为 {length} 个 token 的请求需要 {needed} GiB",
        "watch the first start, or {advice}",
        "首次启动时请留意日志，或者：{advice_zh}",
    ),
    "CAP-004": Rule(
        "error",
        "each engine must hold {wanted} requests of {length} tokens at the same time, and on {host} ({chip}) it"
        " holds {reached}",
        "要求每个引擎能同时容纳 {wanted} 个长度为 {length} 个 token 的请求，而在 {host}（{chip}）上"
        "只能容纳 {reached} 个",
        "{advice}",
        "{advice_zh}",
    ),
    "CAP-005": Rule(
        "error",
        "the model's longest context is {longest} tokens, so vLLM refuses {length}",
        "模型的最大上下文长度为 {longest} 个 token，vLLM 会拒绝 {length}",
        "set max_model_len to at most {longest}; where the model was made for more, say so with hf_overrides"
        " (rope_scaling), or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 and test the answers",
        "请将 max_model_len 设为不超过 {longest}；如果模型确实支持更长的上下文，请用 hf_overrides（rope_scaling）说明，"
        "或设置 VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 并验证输出质量",
    ),
    "CAP-006": Rule(
        "error",
        "{key} {value} does not divide {model}: it has {parts}",
        "{key} 为 {value} 时无法切分{model_zh}：它有 {parts_zh}",
        "set {key} to {legal}",
        "请将 {key} 设为 {legal_zh}",
    ),
    "CAP-007": Rule(
        "error",
        "the model has no experts, and vLLM does not start with expert_parallel then",
        "该模型没有专家层，启用 expert_parallel 时 vLLM 无法启动",
        "remove expert_parallel",
        "请删除 expert_parallel",
    ),
    "CAP-008": Rule(
        "error",
        "a KV cache of {given} GiB holds no request of {length} tokens: it needs {needed} GiB",
        "{given} GiB 的 KV 缓存容不下一个长度为 {length} 个 token 的请求：需要 {needed} GiB",
        "set {key} to at least {least}{advice}",
        "请将 {key} 设为至少 {least}{advice_zh}",
    ),
    "CAP-009": Rule(
        "error",
        "a KV cache of {given} GiB does not fit: on {host} ({chip}) weights take {weights} GiB and the runtime"
        " {reserve} of the {memory} GiB of {unit}",
        "{given} GiB 的 KV 缓存放不下：在 {host}（{chip}）上，{unit_zh}共有 {memory} GiB，其中权重占 {weights} GiB、"
        "运行时占 {reserve} GiB",
        "{advice}",
        "{advice_zh}",
    ),
    "CAP-010": Rule(
        "warning",
        "nothing is known of the model's shape, so nobody checks whether it fits the memory of {host} ({chip})",
        "不了解该模型的结构，因此无法检查它能否放入 {host}（{chip}）的内存",
        "set config to the path of its config.json beside the inventory, or write the keys of it here",
        "请在 config 中填写清单旁 config.json 的路径，或直接写出其中的键",
    ),
    "CAP-011": Rule(
        "warning",
        "the memory that the model takes cannot be told: {key} {fault}",
        "无法计算该模型占用的内存：{key} {fault}",
        "correct it where it is a mistake; a model of a new kind may run all the same: watch its first start",
        "如属笔误请更正；新结构的模型仍可能正常运行，首次启动时请留意日志",
    ),
    "CAP-012": Rule(
        "error",
        "the engines of {host} need {wanted} GiB together, and {place} has {memory}",
        "{host} 上的引擎共需要 {wanted} GiB，而{place_zh}只有 {memory} GiB",
        "lower replicas_per_host, kv_cache_memory_bytes or gpu_memory_utilization (on a CPU it is a share of the whole"
        " node)",
        "请降低 replicas_per_host、kv_cache_memory_bytes 或 gpu_memory_utilization（在 CPU 上它是整个节点内存的比例）",
    ),
    "CAP-013": Rule(
        "warning",
        "once their KV caches are full the engines of {host} take {wanted} GiB together, and {place} has {memory}",
        "KV 缓存写满后，{host} 上的引擎共占用 {wanted} GiB，而{place_zh}只有 {memory} GiB",
        "set kv_cache_memory_bytes of each engine; without it each one takes gpu_memory_utilization of its whole node",
        "请为每个引擎设置 kv_cache_memory_bytes；否则每个引擎都会按 gpu_memory_utilization 占用整个节点的内存",
    ),
    "CAP-014": Rule(
        "warning",
        "nothing is known of the draft model {draft}: its weights and KV cache are not counted",
        "不了解草稿模型 {draft}：其权重和 KV 缓存未计入",
        "declare it in fleet_models, with its files or its config, and name it here",
        "请在 fleet_models 中声明该模型（附文件或 config），并在此引用其名称",
    ),
}
