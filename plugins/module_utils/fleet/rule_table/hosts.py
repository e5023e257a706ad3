"""Hosts: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
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
