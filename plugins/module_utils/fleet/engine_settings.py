"""Settings and environment of one engine: what goes to ``vllm serve --config`` and into its unit.

Which options are whose: the plan owns what must agree with gateways, units and models; the rest is the operator's.
Source of option behaviour: vLLM 0.32.0, ``vllm/engine/arg_utils.py`` and a run on a CPU.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .contract import Deployment
from .facts import HostFacts
from .placement import Pinned, Placed
from .problems import SECRET_NAME, SECRET_VALUE, Problem, path_of, problem
from .rule_table.phrases import phrase
from .version_rules import problems_of_engine

#: Options that the plan writes, and where an operator says it instead.
OWNED_OPTIONS: dict[str, tuple[str, str]] = {
    "model": ("set model of the service", "请设置服务的 model"),
    "served-model-name": ("set served_model_name of the service", "请设置服务的 served_model_name"),
    "host": ("engines bind to ansible_host", "引擎绑定 ansible_host"),
    "port": ("set port of the service", "请设置服务的 port"),
    "uds": ("gateways reach engines by address and port", "网关通过地址和端口访问引擎"),
    "max-model-len": ("set max_model_len of the service", "请设置服务的 max_model_len"),
    "tensor-parallel-size": ("set tensor_parallel of the deployment", "请设置部署的 tensor_parallel"),
    "pipeline-parallel-size": ("set pipeline_parallel of the deployment", "请设置部署的 pipeline_parallel"),
    "data-parallel-size": ("set data_parallel of the deployment", "请设置部署的 data_parallel"),
    "enable-expert-parallel": ("set expert_parallel of the deployment", "请设置部署的 expert_parallel"),
    **dict.fromkeys(
        ("nnodes", "node-rank", "master-addr"),
        ("set hosts_per_replica of the deployment", "请设置部署的 hosts_per_replica"),
    ),
    "shutdown-timeout": ("set shutdown_timeout_seconds of the service", "请设置服务的 shutdown_timeout_seconds"),
    "api-key": ("set fleet_engine_api_key", "请设置 fleet_engine_api_key"),
    "config": ("the plan writes that file", "该文件由计划生成"),
    "headless": ("every engine answers requests itself", "每个引擎自行处理请求"),
    "grpc": ("gateways speak HTTP to engines", "网关使用 HTTP 访问引擎"),
}

#: Environment that the plan writes, and how an operator influences it.
OWNED_ENVIRONMENT: dict[str, tuple[str, str]] = {
    "HF_HUB_OFFLINE": (
        "engines never fetch models; declare them in fleet_models",
        "引擎不会下载模型；请在 fleet_models 中声明",
    ),
    "VLLM_NO_USAGE_STATS": ("engines report nothing to anyone", "引擎不向任何人上报信息"),
    "VLLM_DO_NOT_TRACK": ("engines report nothing to anyone", "引擎不向任何人上报信息"),
    "VLLM_CPU_OMP_THREADS_BIND": ("set cpus_per_engine of the deployment", "请设置部署的 cpus_per_engine"),
    "VLLM_HOST_IP": ("it is ansible_host", "其值为 ansible_host"),
    **dict.fromkeys(
        ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        ("the plan gives each engine its cards", "由计划为每个引擎分配加速卡"),
    ),
    "VLLM_ENGINE_READY_TIMEOUT_S": ("it follows from the model's size", "由模型大小计算得出"),
    "VLLM_API_KEY": ("set fleet_engine_api_key", "请设置 fleet_engine_api_key"),
}

#: Flags of /proc/cpuinfo that mean bfloat16 arithmetic, by architecture.
BF16_FLAGS: dict[str, tuple[str, ...]] = {"x86_64": ("avx512_bf16", "amx_bf16"), "aarch64": ("bf16",)}

#: Values that stock vLLM on a CPU refuses when it starts, by option: pattern, then reason and remedy in both languages.
REFUSED_ON_CPU: dict[str, tuple[str, str, str, str, str]] = {
    "quantization": (
        r"ascend",  # the recorded options of vLLM lack others, such as w8a8; this one is vllm-ascend's
        "stock vLLM has no such method; pre-quantised checkpoints say it themselves",
        "原版 vLLM 没有该方法；预量化的模型自身已有说明",
        "remove it; vLLM reads the method from the checkpoint",
        "请删除; vLLM 会从模型中读取量化方法",
    ),
    "enable-sleep-mode": (
        r"true",
        "there is no sleep mode on a CPU",
        "CPU 上没有休眠模式",
        "remove it",
        "请删除",
    ),
    "distributed-executor-backend": (
        r"ray",
        "ray is not part of the locked runtime",
        "锁定的运行时不包含 ray",
        "remove it; engines of this release stay on one host",
        "请删除；本版本的引擎只在一台主机上运行",
    ),
}

#: What loading takes besides reading the weights, seconds: three times the slowest start seen (300 s for a model of a
#: few megabytes on a busy two-core machine; the time goes into imports of three processes).
START_BASE_SECONDS = 900
#: Assumed where a disk was not measured: one slow spinning disk or a shared network file system.
UNMEASURED_READ_BYTES_PER_SECOND = 100_000_000
#: Reading weights may be slower than measured when several engines read at once.
READ_SAFETY = 2.0
#: Beyond vLLM's own drain: teardown takes about 5 s; systemd must not kill what is still finishing.
STOP_MARGIN_SECONDS = 30


def dashed(name: str) -> str:
    """An option the way ``vllm serve`` spells it, without leading dashes."""
    return name.lstrip("-").replace("_", "-")


def check_engine(prefix: tuple[str | int, ...], engine: Mapping[str, Any], vllm: str) -> list[Problem]:
    """Faults of an ``engine:`` mapping for one version of vLLM."""
    found: list[Problem] = []
    others: dict[str, Any] = {}
    for name, value in engine.items():
        path, option = path_of((*prefix, "engine", name)), dashed(name)
        if option in OWNED_OPTIONS:
            instead, instead_zh = OWNED_OPTIONS[option]
            found.append(problem("SVC-007", path, value, instead=instead, instead_zh=instead_zh))
        elif SECRET_NAME.search(name):
            found.append(problem("SVC-009", path, None))
        elif (place := _endless((*prefix, "engine", name), value)) is not None:
            expected, expected_zh = phrase("value-finite")
            found.append(problem("INV-006", path_of(place), value, expected=expected, expected_zh=expected_zh))
        else:
            others[name] = value
            found += _nested_secrets((*prefix, "engine", name), value)
    return found + problems_of_engine(prefix, others, vllm, OWNED_OPTIONS.keys())


def _refused(path: str, value: Any, vllm: str, reason: tuple[str, str], instead: tuple[str, str]) -> Problem:
    return problem(
        "SVC-016",
        path,
        value,
        vllm=vllm,
        reason=reason[0],
        reason_zh=reason[1],
        instead=instead[0],
        instead_zh=instead[1],
    )


def _inside(value: Any) -> Iterable[tuple[str | int, Any]]:
    """What a mapping or a list holds, with its place there."""
    if isinstance(value, Mapping):
        return [(str(key), inner) for key, inner in value.items()]
    return enumerate(value) if isinstance(value, list) else ()


def _nested_secrets(prefix: tuple[str | int, ...], value: Any) -> list[Problem]:
    if isinstance(value, str):
        return [problem("SVC-009", path_of(prefix), None)] if SECRET_VALUE.search(value) else []
    found: list[Problem] = []
    for key, inner in _inside(value):
        if isinstance(key, str) and SECRET_NAME.search(key):
            found.append(problem("SVC-009", path_of((*prefix, key)), None))
        else:
            found += _nested_secrets((*prefix, key), inner)
    return found


def _endless(prefix: tuple[str | int, ...], value: Any) -> tuple[str | int, ...] | None:
    """Where the first infinite number, or NaN, is: neither JSON nor a plan can hold one."""
    if isinstance(value, float) and not math.isfinite(value):
        return prefix
    places = (_endless((*prefix, key), inner) for key, inner in _inside(value))
    return next((place for place in places if place is not None), None)


def check_environment(prefix: tuple[str | int, ...], environment: Mapping[str, str]) -> list[Problem]:
    """Faults of an ``environment:`` mapping."""
    found = []
    for name in environment:
        path = path_of((*prefix, "environment", name))
        if name in OWNED_ENVIRONMENT:
            instead, instead_zh = OWNED_ENVIRONMENT[name]
            found.append(problem("SVC-010", path, environment[name], instead=instead, instead_zh=instead_zh))
        elif SECRET_NAME.search(name) or SECRET_VALUE.search(environment[name]):
            found.append(problem("SVC-009", path, None))
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or re.search(r"[\x00-\x1f]", environment[name]):
            found.append(
                problem(
                    "INV-006",
                    path,
                    environment[name],
                    expected="a name of letters, digits and underscores with one line of text",
                    expected_zh="为由字母、数字和下划线组成的名称，且值为单行文本",
                )
            )
    return found


def check_on_cpu(
    prefix: tuple[str | int, ...], deployment: Deployment, host: str, facts: HostFacts, vllm: str
) -> list[Problem]:
    """Faults of a deployment on a host that runs it on its CPU."""
    found: list[Problem] = []
    if deployment.tensor_parallel != 1:
        found.append(problem("SVC-013", path_of((*prefix, "tensor_parallel")), deployment.tensor_parallel))
    for name, value in deployment.engine.items():
        option, path = dashed(name), path_of((*prefix, "engine", name))
        if option in REFUSED_ON_CPU and re.fullmatch(REFUSED_ON_CPU[option][0], str(value).lower()):
            _, reason, reason_zh, instead, instead_zh = REFUSED_ON_CPU[option]
            found.append(_refused(path, value, vllm, (reason, reason_zh), (instead, instead_zh)))
        if option == "dtype" and str(value).lower() in ("bfloat16", "bf16"):
            flags = BF16_FLAGS.get(facts.arch, ())
            if not facts.cpu_flags.intersection(flags):
                found.append(
                    problem("SVC-011", path, value, host=host, needed=" / ".join(flags) or "none on this architecture")
                )
            elif facts.virtual:
                found.append(problem("SVC-012", path, value, host=host))
    return found


def settings(engine: Placed, model_path: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """Everything for ``vllm serve --config``, keys as long options without the leading dashes."""
    deployment, names = engine.deployment, engine.client_names
    own: dict[str, Any] = {
        "model": model_path,
        "served-model-name": names[0] if len(names) == 1 else names,
        "host": addresses[engine.host],
        "port": engine.port,
        "max-model-len": engine.max_model_len,
        "tensor-parallel-size": deployment.tensor_parallel,
        "shutdown-timeout": engine.service.shutdown_timeout_seconds,
    }
    if deployment.pipeline_parallel > 1:
        own["pipeline-parallel-size"] = deployment.pipeline_parallel
    if deployment.data_parallel > 1:
        own["data-parallel-size"] = deployment.data_parallel
    if deployment.expert_parallel:
        own["enable-expert-parallel"] = True
    if len(engine.replica) > 1:
        # vLLM's own multiprocessing over hosts: the first one answers requests, the others only work.
        own |= {
            "nnodes": len(engine.replica),
            "node-rank": engine.rank,
            "master-addr": addresses[engine.replica[0]],
            "distributed-executor-backend": "mp",
        }
        if engine.rank:
            own["headless"] = True
    return dict(sorted(({dashed(name): value for name, value in deployment.engine.items()} | own).items()))


#: Which cards an engine sees, by backend: CUDA's, CANN's and HIP's own variables.
VISIBLE_CARDS = {
    "cuda": "CUDA_VISIBLE_DEVICES",
    "ascend": "ASCEND_RT_VISIBLE_DEVICES",
    "dcu": "HIP_VISIBLE_DEVICES",
    "rocm": "HIP_VISIBLE_DEVICES",
}


#: The interface for collective communication where an engine spans hosts, by backend. Left alone, libraries may
#: take loopback or a wrong network (vllm-project/vllm#7074, #19045).
COLLECTIVE_INTERFACE = {
    "cpu": ("GLOO_SOCKET_IFNAME",),
    "cuda": ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
    "dcu": ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
    "rocm": ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
    "ascend": ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME"),
}
#: First port of HCCL for the first engine of a host: above the kernel's ephemeral ports, and of each engine its own
#: (vllm-project/vllm-ascend#405: its default, 60000, was taken).
HCCL_FIRST_PORT, HCCL_PORTS = 61000, 64


def environment(
    engine: Placed, address: str, pinned: Pinned, backend: str, facts: HostFacts, start_timeout_seconds: int
) -> dict[str, str]:
    """The whole environment of an engine, without its secret."""
    own = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": address,
        "VLLM_ENGINE_READY_TIMEOUT_S": str(start_timeout_seconds),
    }
    if backend == "cpu":
        own["VLLM_CPU_OMP_THREADS_BIND"] = pinned.cpus or "nobind"
    elif pinned.cards:
        own[VISIBLE_CARDS[backend]] = ",".join(map(str, pinned.cards))
    if backend == "ascend" and engine.deployment.cards_per_engine > 1:
        own["HCCL_IF_BASE_PORT"] = str(HCCL_FIRST_PORT + HCCL_PORTS * engine.slot)
    interface = facts.interface_with(address)
    if len(engine.replica) > 1 and interface:
        own |= dict.fromkeys(COLLECTIVE_INTERFACE[backend], interface)
    threads = {"OMP_NUM_THREADS": str(pinned.threads)} if backend == "cpu" else {}
    return dict(sorted((threads | dict(engine.deployment.environment) | own).items()))


def start_timeout(weight_bytes: int, read_bytes_per_second: int | None) -> int:
    """Seconds until an engine must answer, rounded up to a minute."""
    bandwidth = read_bytes_per_second or UNMEASURED_READ_BYTES_PER_SECOND
    seconds = START_BASE_SECONDS + READ_SAFETY * weight_bytes / bandwidth
    return math.ceil(seconds / 60) * 60


def stop_timeout(shutdown_timeout: int) -> int:
    """Seconds that systemd waits before it kills."""
    return shutdown_timeout + STOP_MARGIN_SECONDS
