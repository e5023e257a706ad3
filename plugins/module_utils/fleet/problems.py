"""Problems: what is wrong with an inventory or a host, and how to mend it.

One table holds every rule: stable code, severity, and the texts in English and Chinese. ``docs/errors.md`` is generated
from it. Nothing else in the product words a rule.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning"]

#: Longest rendering of an offending value, in characters. Longer ones are cut: a message must stay readable.
VALUE_LENGTH = 72

#: Names whose values must never be shown, and may not appear in anything that reaches a plan.
SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:\w*key|token|passw(?:or)?d|passphrase|secrets?|(?<!allow[-_])credentials?)$"
)


@dataclass(frozen=True)
class Rule:
    """One row of the table. Texts are ``str.format`` templates over the parameters of ``problem()``."""

    severity: Severity
    rule: str
    rule_zh: str
    remedy: str
    remedy_zh: str


@dataclass(frozen=True)
class Problem:
    """One finding. ``path`` is where an operator has to look, ``value`` what stands there, shortened."""

    code: str
    severity: Severity
    path: str
    value: str
    rule: str
    remedy: str
    rule_zh: str
    remedy_zh: str

    def as_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {key: str(value) for key, value in asdict(self).items()}


RULES: dict[str, Rule] = {
    # --- the inventory as a whole -------------------------------------------------------------------------------------
    "INV-001": Rule(
        "error",
        "there is no variable of this name",
        "没有这个名称的变量",
        "{hint}",
        "{hint_zh}",
    ),
    "INV-002": Rule(
        "error",
        "the variable must be defined for the fleet",
        "必须为整个集群定义该变量",
        "define {name} in group_vars/all (see docs/architecture.md, What an operator writes)",
        "在 group_vars/all 中定义 {name}（见 docs/architecture.md）",
    ),
    "INV-003": Rule(
        "error",
        "there is no key of this name here",
        "此处没有这个名称的键",
        "{hint}",
        "{hint_zh}",
    ),
    "INV-004": Rule(
        "error",
        "must be {expected}",
        "必须是{expected_zh}",
        "write {expected}",
        "请写成{expected_zh}",
    ),
    "INV-005": Rule(
        "error",
        "the key {name} is required here",
        "此处必须有键 {name}",
        "add {name}",
        "请添加 {name}",
    ),
    "INV-006": Rule(
        "error",
        "must be {expected}",
        "必须{expected_zh}",
        "choose a value that is {expected}",
        "请选择{expected_zh}的值",
    ),
    "INV-007": Rule(
        "error",
        "the variable holds for the whole fleet but differs between {first} and {second}",
        "该变量对整个集群有效，但在 {first} 与 {second} 上不同",
        "define it once, in group_vars/all; use groups in deployments for what differs between hosts",
        "只在 group_vars/all 中定义一次；主机之间的差异用 deployments 的 group 表达",
    ),
    "INV-008": Rule(
        "error",
        "every host needs ansible_host: engines bind to it and gateways reach them by it",
        "每台主机都需要 ansible_host: 引擎绑定该地址，网关通过它访问引擎",
        "set ansible_host of {host} to its IP address",
        "将 {host} 的 ansible_host 设为其 IP 地址",
    ),
    "INV-009": Rule(
        "error",
        "ansible_host must be an IP address, not a name",
        "ansible_host 必须是 IP 地址，不能是主机名",
        "write the IP address of {host} on the service network",
        "请填写 {host} 在业务网络上的 IP 地址",
    ),
    "INV-010": Rule(
        "error",
        "two hosts have the same address: {first} and {second}",
        "两台主机地址相同：{first} 与 {second}",
        "give each host its own address, or remove the one that is the same machine",
        "为每台主机指定各自的地址，或删除重复的主机",
    ),
    "INV-011": Rule(
        "error",
        "the secret between gateways and engines must be defined",
        "必须定义网关与引擎之间的密钥",
        'put it into a vault file and set {name}: "{{{{ vault_{name} }}}}"',
        '将其放入 vault 文件并设置 {name}: "{{{{ vault_{name} }}}}"',
    ),
    "INV-012": Rule(
        "error",
        "the secret must have at least {minimum} characters, without spaces, and must not be a placeholder",
        "密钥至少 {minimum} 个字符，不含空格，且不能是占位文本",
        "generate one, for example: openssl rand -hex 32",
        "请生成一个，例如：openssl rand -hex 32",
    ),
    "INV-013": Rule(
        "warning",
        "the secret stands in plain text in {file}",
        "密钥以明文形式出现在 {file} 中",
        "encrypt it: ansible-vault encrypt_string --name {name}; then change the secret, for it was readable",
        "请加密：ansible-vault encrypt_string --name {name}；由于已泄露，还应更换该密钥",
    ),
    "INV-014": Rule(
        "error",
        "a host's name may hold letters, digits, dots, dashes and underscores only, 63 at most",
        "主机名只能包含字母、数字、点、短横线和下划线，最长 63 个字符",
        "rename the host in the inventory",
        "请在清单中重命名该主机",
    ),
    "INV-015": Rule(
        "error",
        "the value could not be computed: {reason}",
        "无法计算该值：{reason}",
        "define what it refers to, or write the value itself",
        "请定义其引用的变量，或直接写出值",
    ),
    "INV-016": Rule(
        "error",
        "a name here may hold lower-case letters, digits, dots and single dashes; it begins and ends with a letter or"
        " digit"
        " ({limit} characters at most)",
        "此处名称只能包含小写字母、数字、点和单个短横线，并以字母或数字开头和结尾（最长 {limit} 个字符）",
        "rename it, for example to {example}",
        "请重命名，例如 {example}",
    ),
    # --- services -----------------------------------------------------------------------------------------------------
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
        "vLLM {vllm} no longer has this option",
        "vLLM {vllm} 已不再有该选项",
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
    # --- gateway and VIP ----------------------------------------------------------------------------------------------
    "GW-001": Rule(
        "error",
        "there is no group of this name in the inventory",
        "清单中没有这个名称的组",
        "{hint}",
        "{hint_zh}",
    ),
    "GW-002": Rule(
        "error",
        "the gateway's group has no hosts",
        "网关组没有主机",
        "add two hosts to the group {name}",
        "请向组 {name} 添加两台主机",
    ),
    "GW-003": Rule(
        "error",
        "at least one virtual address is required: clients reach the fleet by it",
        "至少需要一个虚拟地址：客户端通过它访问集群",
        'add vips: ["<address>/<prefix length>"], a free address of the gateways\' network',
        '请添加 vips: ["<地址>/<前缀长度>"], 使用网关网络中未占用的地址',
    ),
    "GW-004": Rule(
        "error",
        "a virtual address is written as address/prefix length",
        "虚拟地址的格式为 地址/前缀长度",
        "write it like {example}",
        "请写成 {example} 的形式",
    ),
    "GW-005": Rule(
        "error",
        "the virtual address is not in the network of gateway {host} ({address})",
        "虚拟地址不在网关 {host}({address})的网络中",
        "choose a free address of the network that {address} is in, with the same prefix length",
        "请选择 {address} 所在网络中未占用的地址，并使用相同的前缀长度",
    ),
    "GW-006": Rule(
        "error",
        "the virtual address is the address of host {host}",
        "该虚拟地址是主机 {host} 的地址",
        "choose an address that no machine has",
        "请选择没有任何机器使用的地址",
    ),
    "GW-007": Rule(
        "error",
        "the virtual address is listed twice",
        "该虚拟地址重复出现",
        "remove one of the two",
        "请删除其中一个",
    ),
    "GW-008": Rule(
        "error",
        "a virtual router id is a whole number from 1 to 255",
        "虚拟路由器 ID 必须是 1 到 255 之间的整数",
        "choose one that no other VRRP group of this network uses",
        "请选择该网络中其他 VRRP 组未使用的编号",
    ),
    "GW-009": Rule(
        "warning",
        "there is one gateway only, so nothing takes over when it fails",
        "只有一个网关，其故障时没有接管者",
        "add a second host to the group {name}",
        "请向组 {name} 添加第二台主机",
    ),
    "GW-010": Rule(
        "error",
        "port {port} of gateway {host} would be used by both {first} and {second}",
        "网关 {host} 的端口 {port} 会同时被 {first} 和 {second} 使用",
        "change one of them; a free one is {suggestion}",
        "请修改其中一个；可用端口例如 {suggestion}",
    ),
    "GW-011": Rule(
        "error",
        "this release supports IPv4 virtual addresses only",
        "本版本只支持 IPv4 虚拟地址",
        "write an IPv4 address",
        "请使用 IPv4 地址",
    ),
    "GW-012": Rule(
        "error",
        "no interface of gateway {host} has the network of the virtual address (found: {found})",
        "网关 {host} 没有属于该虚拟地址网络的网卡（发现：{found}）",
        "choose a virtual address of a network that the gateways are in",
        "请选择网关所在网络中的虚拟地址",
    ),
    "GW-013": Rule(
        "error",
        "one fleet may have at most {maximum} gateways",
        "一个集群最多 {maximum} 个网关",
        "remove hosts from the group {name}",
        "请从组 {name} 中移除主机",
    ),
    "GW-014": Rule(
        "error",
        "the first and the last address of {network} are no host's: they mean the network itself and all its hosts",
        "{network} 的首个和最后一个地址不属于任何主机：它们表示网络本身和全部主机",
        "choose another free address of that network",
        "请选择该网络中其他未占用的地址",
    ),
    "GW-015": Rule(
        "error",
        "the prefix length differs from that of interface {interface} of gateway {host} ({address})",
        "前缀长度与网关 {host} 的网卡 {interface}（{address}）不同",
        "write it as {example}",
        "请写成 {example}",
    ),
    # --- models -------------------------------------------------------------------------------------------------------
    "MOD-001": Rule(
        "error",
        "this release fetches models from {supported} only; {scheme}:// is not supported yet",
        "本版本只支持从 {supported} 获取模型；尚不支持 {scheme}://",
        "put the model on the controller and write file:///absolute/path",
        "请将模型放到控制节点并写成 file:///绝对路径",
    ),
    "MOD-002": Rule(
        "error",
        "there is no such directory on the controller",
        "控制节点上没有该目录",
        "copy the model there, or correct the path",
        "请将模型复制到该处，或更正路径",
    ),
    "MOD-003": Rule(
        "error",
        "{file} is a Git LFS pointer, not the weights",
        "{file} 是 Git LFS 指针，不是权重文件",
        "run git lfs pull in the model's directory",
        "请在模型目录中运行 git lfs pull",
    ),
    "MOD-004": Rule(
        "error",
        "the directory holds no weights ({expected})",
        "目录中没有权重文件（{expected}）",
        "fetch the whole model again",
        "请重新获取完整模型",
    ),
    "MOD-005": Rule(
        "error",
        "a file source is an absolute path: file:///path",
        "file 源必须是绝对路径：file:///path",
        "write it like file:///srv/models/{model}",
        "请写成 file:///srv/models/{model} 的形式",
    ),
    "MOD-006": Rule(
        "error",
        "the file {file} is missing or empty",
        "文件 {file} 缺失或为空",
        "fetch the whole model again",
        "请重新获取完整模型",
    ),
    "MOD-007": Rule(
        "error",
        "the manifest is a sha256 digest: 64 hexadecimal digits",
        "manifest 是 sha256 摘要：64 个十六进制数字",
        "write the digest of the manifest, or leave it out",
        "请填写 manifest 的摘要，或省略该项",
    ),
    "MOD-008": Rule(
        "error",
        "the file {file} {fault}",
        "文件 {file} 已损坏：{fault}",
        "fetch it again",
        "请重新获取该文件",
    ),
    # --- hosts --------------------------------------------------------------------------------------------------------
    "HOST-001": Rule(
        "error",
        "nothing is known about the host: it was not reached, and no facts of it are recorded",
        "对该主机一无所知：无法连接，也没有记录的信息",
        "make it reachable over ssh, or take it out of the inventory; before using --limit, run playbooks/plan.yml once"
        " without it",
        "请确保可通过 ssh 连接，或将其移出清单；使用 --limit 时，请先不带 --limit 运行一次 playbooks/plan.yml",
    ),
    "HOST-002": Rule(
        "error",
        "{os} cannot be used: {reason}",
        "不能使用 {os}: {reason_zh}",
        "{instead}",
        "{instead_zh}",
    ),
    "HOST-003": Rule(
        "error",
        "no version set for backend {backend} on {arch} with vLLM {vllm} is in the matrix",
        "版本矩阵中没有 {arch} 上后端 {backend} 的 vLLM {vllm} 组合",
        "take the host out of the deployment's group; the matrix has: {known}",
        "请将主机移出该部署的组；矩阵中有：{known}",
    ),
    "HOST-004": Rule(
        "error",
        "the set {set} needs glibc {needed} or newer",
        "版本组合 {set} 需要 glibc {needed} 或更新",
        "install a newer release of the operating system, or take the host out of the deployment's group",
        "请安装更新的操作系统版本，或将主机移出该部署的组",
    ),
    "HOST-005": Rule(
        "error",
        "the set {set} works with pages of {needed} bytes",
        "版本组合 {set} 需要 {needed} 字节的内存页",
        "boot a kernel with such pages, or take the host out of the deployment's group",
        "请使用相应页大小的内核启动，或将主机移出该部署的组",
    ),
    "HOST-006": Rule(
        "error",
        "port {port}, planned for engine {engine}, is in use by {holder}",
        "计划分配给引擎 {engine} 的端口 {port} 已被 {holder} 占用",
        "stop it, or set another port of the service",
        "请停止该程序，或为服务设置其他端口",
    ),
    "HOST-007": Rule(
        "error",
        "port {port}, planned for the gateway, is in use by {holder}",
        "计划分配给网关的端口 {port} 已被 {holder} 占用",
        "stop it, or set another {name} in fleet_gateway",
        "请停止该程序，或在 fleet_gateway 中设置其他 {name}",
    ),
    "HOST-008": Rule(
        "warning",
        "the facts of this host are {age} old: it was not asked in this run",
        "该主机的信息已有 {age}: 本次运行未询问该主机",
        "run playbooks/plan.yml without --limit",
        "请不带 --limit 运行 playbooks/plan.yml",
    ),
    "HOST-009": Rule(
        "error",
        "no interface of the host has the address of its ansible_host (found: {found})",
        "主机没有任何网卡拥有 ansible_host 的地址（发现：{found}）",
        "write the address that the host itself has on the service network",
        "请填写主机在业务网络上自身的地址",
    ),
    "HOST-010": Rule(
        "warning",
        "{os} is not among the systems that this release was tried on",
        "{os} 不在本版本验证过的系统之列",
        "try it on one host first, or use one of: {known}",
        "请先在一台主机上试用，或使用：{known}",
    ),
}

_SAFE = re.compile(r"[A-Za-z_][\w\-]*\Z")


def path_of(parts: Iterable[str | int]) -> str:
    """The readable path of a place in the inventory: ``fleet_services.chat.deployments[0].group``."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _SAFE.match(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def shorten(value: object, path: str = "") -> str:
    """A value as one short line of JSON. Values whose path names a secret are not shown at all."""
    if value is None:
        return ""
    if SECRET_NAME.search(path.split("[")[0]) or SECRET_NAME.search(path):
        return "(not shown)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like ``name``, or None when none is like it."""
    names = sorted(known)
    folded = {candidate.casefold().replace("-", "_"): candidate for candidate in names}
    found = difflib.get_close_matches(name.casefold().replace("-", "_"), sorted(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def hints(name: str, known: Iterable[str]) -> dict[str, str]:
    """The parameters ``hint`` and ``hint_zh``: the nearest known name, or the list of names."""
    names = sorted(known)
    like = nearest(name, names)
    if like is not None:
        return {"hint": f"did you mean {like}?", "hint_zh": f"是否想写 {like}?"}
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    if not names:
        return {"hint": "remove it", "hint_zh": "请删除"}
    return {"hint": f"known names: {listed}", "hint_zh": f"已知名称：{listed}"}


def problem(code: str, path: str, value: object = None, /, **params: object) -> Problem:
    """Make a problem of the table. ``params`` fill the templates.

    Raises KeyError for an unknown code or a missing parameter: both are faults of the caller.
    """
    row = RULES[code]
    return Problem(
        code=code,
        severity=row.severity,
        path=path,
        value=shorten(value, path),
        rule=row.rule.format(**params),
        remedy=row.remedy.format(**params),
        rule_zh=row.rule_zh.format(**params),
        remedy_zh=row.remedy_zh.format(**params),
    )


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Errors first, then by place and code, without duplicates: the same faults always read the same."""
    unique = {(p.code, p.path, p.value, p.rule): p for p in problems}
    return sorted(unique.values(), key=lambda p: (p.severity != "error", p.path, p.code, p.rule))


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop a run."""
    return [p for p in problems if p.severity == "error"]


def render(problems: Iterable[Problem]) -> str:
    """All problems as text for people: a headline, then one block a problem, English above Chinese."""
    ordered = in_order(problems)
    failing, advisory = len(errors(ordered)), len(ordered) - len(errors(ordered))
    lines = [f"{failing} error(s), {advisory} warning(s) / {failing} 个错误，{advisory} 个警告"]
    for item in ordered:
        lines += ["", f"{item.code} {item.severity}: {item.path}"]
        if item.value:
            lines.append(f"  value:  {item.value}")
        lines += [
            f"  rule:   {item.rule}",
            f"  remedy: {item.remedy}",
            f"  规则：  {item.rule_zh}",
            f"  处理：  {item.remedy_zh}",
        ]
    return "\n".join(lines)


def as_json(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """All problems as plain data, in the same order as ``render``."""
    return [item.as_dict() for item in in_order(problems)]
