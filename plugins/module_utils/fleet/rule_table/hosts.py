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
    "HOST-011": Rule(
        "error",
        "the inventory says one thing of {host}, and the host itself another: {found}",
        "清单中的说明与主机 {host} 的实际情况不符；实际为 {found}",
        "correct fleet_host, or the host",
        "请更正 fleet_host 或该主机",
    ),
    "HOST-012": Rule(
        "error",
        "the vendor's tool does not call the card {card} well",
        "厂商工具报告加速卡 {card} 状态异常",
        "look at the card with the vendor's tool; take the host out of the deployment's group until it is mended",
        "请用厂商工具检查该卡；修复前将主机移出该部署的组",
    ),
    "HOST-013": Rule(
        "error",
        "the driver {driver} holds the card, so NVIDIA's own cannot",
        "驱动 {driver} 占用了该卡，NVIDIA 驱动无法使用",
        "keep {driver} from loading, renew the initramfs, and reboot the host",
        "请禁止加载 {driver}，更新 initramfs 并重启主机",
    ),
    "HOST-014": Rule(
        "warning",
        "the card is in use by something else: {holders}",
        "该卡正被其他程序使用：{holders}",
        "stop it before engines start: they need the memory that they were planned with",
        "请在引擎启动前停止该程序：引擎需要计划中的显存",
    ),
    "HOST-015": Rule(
        "error",
        "NVIDIA's loaded driver is {driver} and its library {library}: no card can be used until they are the same",
        "已加载的 NVIDIA 驱动为 {driver}，库为 {library}：两者一致之前加速卡无法使用",
        "reboot the host, and hold the driver's packages against unattended upgrades",
        "请重启主机，并锁定驱动软件包以避免自动升级",
    ),
    "HOST-016": Rule(
        "error",
        "a host with {switches} NVSwitches needs a fabric manager of exactly the driver's version {driver}",
        "带有 {switches} 个 NVSwitch 的主机需要与驱动版本 {driver} 完全一致的 fabric manager",
        "install nvidia-fabricmanager {driver} and start it; without it CUDA ends with error 802",
        "请安装并启动 nvidia-fabricmanager {driver}；否则 CUDA 报错 802",
    ),
    "HOST-017": Rule(
        "warning",
        "discovery could not make everything out: {finding}",
        "主机信息采集不完整：{finding}",
        "look at it with playbooks/facts.yml; what is not known is neither planned with nor held against the host",
        "请用 playbooks/facts.yml 查看该主机；未知的信息不参与规划，也不作为拒绝依据",
    ),
    "HOST-018": Rule(
        "error",
        "discovery could not tell the architecture of the host, so no runtime can be chosen for it",
        "主机探测未能得知主机架构，因此无法为其选择运行环境",
        "run playbooks/facts.yml and see what it notes of the host, and whether uname -m answers there; take the host"
        " out of the deployment's group until it does",
        "请运行 playbooks/facts.yml 查看对该主机的记录，并确认主机上 uname -m 有输出；修复前将主机移出该部署的组",
    ),
}
