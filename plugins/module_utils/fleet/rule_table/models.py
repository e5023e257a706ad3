"""Models: every rule, and its words in both languages."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

from .rule import Rule

RULES: dict[str, Rule] = {
    "MOD-001": Rule(
        "error",
        "models do not come from {scheme}://",
        "模型不能来自 {scheme}://",
        "write one of {known}",
        "请使用以下之一：{known}",
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
    "MOD-009": Rule(
        "error",
        "the model's config.json {fault}",
        "模型的 config.json 有误：{fault}",
        "write the path of a config.json beside the inventory, or its keys here",
        "请填写清单旁 config.json 的路径，或在此写出其中的键",
    ),
    "MOD-010": Rule(
        "error",
        "vLLM loads no converted models ({suffix}): it runs the model's own files, on every backend",
        "vLLM 不加载转换后的模型（{suffix}）：在所有后端上都直接运行模型原始文件",
        "write the directory of the original model, with config.json and safetensors",
        "请填写含有 config.json 与 safetensors 的原始模型目录",
    ),
    "MOD-011": Rule(
        "error",
        "the source holds a password or a token, and what stands here ends up in the plan, on hosts and in logs",
        "模型来源中含有密码或令牌，而此处的内容会写入计划、主机与日志",
        "write the source without it, give hosts their access in another way, and change the secret: it was readable",
        "请删除其中的密码或令牌，以其他方式授权主机访问，并更换该凭据：它已泄露",
    ),
}
