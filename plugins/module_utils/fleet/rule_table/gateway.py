"""Gateway and virtual addresses: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
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
}
