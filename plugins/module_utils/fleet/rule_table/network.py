"""The network between hosts: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "NET-001": Rule(
        "warning",
        "interfaces of the service network differ in their MTU, in bytes: {mtus}",
        "业务网络上各网卡的 MTU（字节）不一致：{mtus}",
        "set one MTU on all hosts and on the switches between them, and prove it with unfragmented packets",
        "请在所有主机及其间的交换机上设置相同的 MTU，并用不分片的报文验证",
    ),
    "NET-002": Rule(
        "warning",
        "the hosts {hosts} of one replica have links of different speeds, in Mbit/s: {speeds}",
        "同一副本的主机 {hosts} 链路速率不同（Mbit/s）：{speeds}",
        "the slowest link decides: connect them alike, or choose hosts that are",
        "最慢的链路决定性能：请使用相同的连接，或选择速率相同的主机",
    ),
}
