"""Services: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "SVC-001": Rule(
        "error",
        "there is no group of this name in the inventory",
        "清单中没有这个名称的组",
        "{hint}",
        "{hint_zh}",
    ),
    "SVC-002": Rule(
        "error",
        "the group has no hosts, so the deployment would run nowhere",
        "该组没有主机，部署将无处运行",
        "add hosts to the group {name}, or remove the deployment",
        "向组 {name} 添加主机，或删除该部署",
    ),
    "SVC-003": Rule(
        "error",
        "no such model is declared in fleet_models",
        "fleet_models 中没有声明该模型",
        "{hint}",
        "{hint_zh}",
    ),
    "SVC-004": Rule(
        "error",
        "the model {model} has no such version",
        "模型 {model} 没有该版本",
        "{hint}",
        "{hint_zh}",
    ),
    "SVC-006": Rule(
        "error",
        "port {port} of host {host} would be used by both {first} and {second}",
        "主机 {host} 的端口 {port} 会同时被 {first} 和 {second} 使用",
        "set port of one of them so that the ranges stay apart, for example {suggestion}",
        "请修改其中一个的 port，使端口范围不重叠，例如 {suggestion}",
    ),
    "SVC-007": Rule(
        "error",
        "the plan decides this engine setting",
        "该引擎参数由计划决定",
        "remove it; {instead}",
        "请删除; {instead_zh}",
    ),
    "SVC-008": Rule(
        "error",
        "vLLM {vllm} does not have this option, or no longer",
        "vLLM {vllm} 没有或已不再有该选项",
        "{instead}",
        "{instead_zh}",
    ),
    "SVC-009": Rule(
        "error",
        "a name like this holds a secret, and what stands here ends up in the plan",
        "这类名称通常保存机密，而此处内容会写入计划",
        "remove it; secrets reach engines by fleet_engine_api_key only",
        "请删除；机密只能通过 fleet_engine_api_key 传给引擎",
    ),
    "SVC-010": Rule(
        "error",
        "the plan decides this environment variable",
        "该环境变量由计划决定",
        "remove it; {instead}",
        "请删除; {instead_zh}",
    ),
    "SVC-011": Rule(
        "error",
        "the CPU of {host} has no bfloat16 instructions ({needed})",
        "{host} 的 CPU 没有 bfloat16 指令（{needed}）",
        "set dtype: float32",
        "请设置 dtype: float32",
    ),
    "SVC-012": Rule(
        "warning",
        "the flags of {host} promise bfloat16, but in virtual machines such promises have ended in SIGILL at the first"
        " request",
        "{host} 的 CPU 标志声明支持 bfloat16，但在虚拟机中曾在首个请求时触发 SIGILL",
        "set dtype: float32, or prove it with one real completion on that host",
        "请设置 dtype: float32，或在该主机上用一次真实请求验证",
    ),
    "SVC-013": Rule(
        "error",
        "on the CPU backend this release supports tensor_parallel 1 only",
        "在 CPU 后端上，本版本只支持 tensor_parallel 为 1",
        "set tensor_parallel: 1; use replicas_per_host to use more of a host",
        "请设置 tensor_parallel: 1；如需更多利用主机，请使用 replicas_per_host",
    ),
    "SVC-014": Rule(
        "error",
        "vLLM {vllm} has no option of this name",
        "vLLM {vllm} 没有这个名称的选项",
        "{hint}",
        "{hint_zh}",
    ),
    "SVC-015": Rule(
        "error",
        "two services would serve the same model name to clients: {first} and {second}",
        "两个服务会以相同的模型名称提供给客户端：{first} 与 {second}",
        "set served_model_name of one of them",
        "请为其中一个设置 served_model_name",
    ),
    "SVC-016": Rule(
        "error",
        "vLLM {vllm} refuses this value here: {reason}",
        "vLLM {vllm} 在此拒绝该值：{reason_zh}",
        "{instead}",
        "{instead_zh}",
    ),
    "SVC-017": Rule(
        "error",
        "the engines of {host} ask for {wanted} CPUs together, and it has {available}",
        "{host} 上的引擎共需要 {wanted} 个 CPU，而主机只有 {available} 个",
        "lower cpus_per_engine or replicas_per_host",
        "请降低 cpus_per_engine 或 replicas_per_host",
    ),
    "SVC-018": Rule(
        "error",
        "the engines of {host} ask for {wanted} bytes of memory together, and it has {available}",
        "{host} 上的引擎共需要 {wanted} 字节内存，而主机只有 {available} 字节",
        "lower memory_max_bytes, kv_cache_memory_bytes or replicas_per_host",
        "请降低 memory_max_bytes, kv_cache_memory_bytes 或 replicas_per_host",
    ),
    "SVC-019": Rule(
        "warning",
        "no deployment of the service is active: clients are served by standby engines only",
        "该服务没有 active 部署：客户端只能由 standby 引擎提供服务",
        "set tier: active on one deployment",
        "请将其中一个部署设为 tier: active",
    ),
}
