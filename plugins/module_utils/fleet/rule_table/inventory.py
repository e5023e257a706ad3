"""The inventory as a whole: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
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
    "INV-017": Rule(
        "error",
        "this has another name here",
        "此处该项使用其他名称",
        "{instead}",
        "{instead_zh}",
    ),
    "INV-018": Rule(
        "error",
        "the state of the fleet must not lie in the inventory's directory: Ansible would read it as inventory",
        "集群状态目录不能位于清单目录中：Ansible 会将其当作清单读取",
        "write a directory outside the inventory, or leave it out",
        "请填写清单之外的目录，或省略该项",
    ),
    "INV-019": Rule(
        "error",
        "no other host can reach {host} by this address: {kind}",
        "其他主机无法通过该地址访问 {host}：{kind_zh}",
        "write the IP address of {host} on the service network",
        "请填写 {host} 在业务网络上的 IP 地址",
    ),
    "INV-020": Rule(
        "error",
        "the state of the fleet cannot be kept in {directory}: {fault}",
        "无法在 {directory} 中保存集群状态：{fault}",
        "let the account that runs this write there (look at owner, mode and free space), or set fleet_state_dir to"
        " another directory on the controller",
        "请让运行账户可写该目录（检查属主、权限与剩余空间），或将 fleet_state_dir 设为控制节点上的其他目录",
    ),
    "INV-021": Rule(
        "error",
        "the report cannot be written: {fault}",
        "无法写入报告：{fault}",
        "name a file in a directory that exists and that the account that runs this may write to",
        "请指定运行账户可写的目录中的文件",
    ),
}
