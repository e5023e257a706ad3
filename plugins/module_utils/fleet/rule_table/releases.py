"""What this release can plan and not yet do: every rule, and its words in both languages.

Warnings where a plan is only shown; they stop a run that would change hosts.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "REL-001": Rule(
        "warning",
        "this release cannot fetch from {scheme}:// by itself yet",
        "本版本尚不能自行从 {scheme}:// 获取模型",
        "to converge now, put the model on the controller and write file:///absolute/path",
        "如需立即部署，请将模型放到控制节点并写成 file:///绝对路径",
        blocks=True,
    ),
    "REL-002": Rule(
        "warning",
        "this release has no locked package list for this version set, and cannot install it yet",
        "本版本没有该版本组合的锁定软件包列表，尚不能安装",
        "plan and compare with it; to converge now, choose hosts and versions with a lock"
        " (roles/vllm_runtime/files/locks)",
        "可用于规划与比较；如需立即部署，请选择有锁定列表的主机与版本（roles/vllm_runtime/files/locks）",
        blocks=True,
    ),
    "REL-003": Rule(
        "warning",
        "this release plans replicas over several hosts, and cannot run them yet",
        "本版本可以规划跨多台主机的副本，但尚不能运行",
        "to converge now, set hosts_per_replica to 1",
        "如需立即部署，请将 hosts_per_replica 设为 1",
        blocks=True,
    ),
    "REL-004": Rule(
        "warning",
        "this release checks fleet_storage, and does not mount anything yet",
        "本版本会检查 fleet_storage，但尚不会挂载任何存储",
        "to converge now, mount it yourself and leave fleet_storage out",
        "如需立即部署，请自行挂载并省略 fleet_storage",
        blocks=True,
    ),
}
