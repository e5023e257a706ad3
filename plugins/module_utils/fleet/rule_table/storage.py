"""Storage: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "STO-001": Rule(
        "error",
        "must be an absolute path without . or .. in it",
        "必须是不含 . 和 .. 的绝对路径",
        "write it like /srv/models",
        "请写成 /srv/models 的形式",
    ),
    "STO-002": Rule(
        "error",
        "the path is, holds or lies in {other}, which is taken already",
        "该路径与已使用的 {other} 相同、包含它或位于其中",
        "choose a path of its own",
        "请选择独立的路径",
    ),
    "STO-003": Rule(
        "error",
        "a source of type {type} is written as {form}",
        "{type} 类型的来源应写成 {form}",
        "write it like that",
        "请按此形式书写",
    ),
    "STO-004": Rule(
        "error",
        "{name} is for NFS only",
        "{name} 仅适用于 NFS",
        "remove it, or set type: nfs",
        "请删除，或设置 type: nfs",
    ),
    "STO-005": Rule(
        "warning",
        "the model lies on a network file system, and {host} has no local cache: mapping hundreds of gigabytes over the"
        " network is slow",
        "模型位于网络文件系统，而主机 {host} 没有本地缓存：通过网络映射数百 GB 文件很慢",
        "set fleet_storage: {{cache: {{path: /data/models}}}} for such hosts, or engine:"
        " {{safetensors_load_strategy: eager}}",
        "请为这些主机设置 fleet_storage: {{cache: {{path: /data/models}}}}，"
        "或 engine: {{safetensors_load_strategy: eager}}",
    ),
}
