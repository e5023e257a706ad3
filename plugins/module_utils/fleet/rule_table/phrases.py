"""Words that go into rules as parameters, in both languages: ways of installing, moves, and why a value is refused."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

PHRASES: dict[str, tuple[str, str]] = {
    # Ways of installing.
    "method-wheel": ("wheel", "预编译 wheel 包"),
    "method-release_asset": ("wheel beside the release", "发布页 wheel 包"),
    "method-variant_index": ("variant index", "变体索引"),
    "method-source": ("build from source", "源码构建"),
    "method-container": ("container image", "容器镜像"),
    # What a value must be.
    "value-finite": ("a finite number", "是有限的数字"),
    "value-address": ("an address, with brackets only around IPv6", "是可解析的地址，方括号只用于 IPv6"),
    "value-version": (
        "a version such as 0.32.0, or a range such as >=0.30,<0.33",
        "是版本号（如 0.32.0）或范围（如 >=0.30,<0.33）",
    ),
    # Addresses that are no host's.
    "address-loopback": ("it means the host itself", "它表示主机自身"),
    "address-unspecified": ("it means any address", "它表示任意地址"),
    "address-many": ("it means many hosts at once", "它是组播或广播地址"),
    "address-link": ("a link-local address holds on one link only", "链路本地地址仅在一条链路上有效"),
    # Moves to a nearest legal set.
    "move-version": ("move {what} from {was} to {to}, {steps}", "将 {what} 从 {was} 改为 {to}（相差 {steps_zh}）"),
    "move-part": ("move {what} from {was} to {to}", "将 {what} 从 {was} 改为 {to}"),
    "move-no-pin": ("leave the pin {what} {was} out", "去掉对 {what} {was} 的指定"),
    "move-method": ("allow the installation by {to}", "允许以{to_zh}方式安装"),
    "move-backend": ("serve with backend {to}", "改由后端 {to} 提供服务"),
    "move-prereleases": ("allow release candidates (prereleases)", "允许使用候选版本（prereleases）"),
    "move-unlisted": (
        "allow releases that the published matrix does not list (unlisted)",
        "允许使用配套矩阵未列出的版本（unlisted）",
    ),
    "move-hdk": ("upgrade the HDK from {was} to {to}", "将 HDK 从 {was} 升级到 {to}"),
    "move-driver": ("move the NVIDIA driver from {was} to {to}", "将 NVIDIA 驱动从 {was} 升级到 {to}"),
    "move-os-to": ("install {to}", "将操作系统改为 {to}"),
    "move-os": ("install {to} instead of {was}", "将操作系统由 {was} 改为 {to}"),
    "steps-one": ("1 version", "1 个版本"),
    "steps-many": ("{steps} versions", "{steps} 个版本"),
    "and": (", and ", "，并"),
    "near-one": ("nearest legal set: {first}", "最接近的可行组合：{first}"),
    "near-two": ("nearest legal sets: {first}; or {second}", "最接近的可行组合：{first}；或 {second}"),
    "near-none": ("the matrix has no legal set near this one", "矩阵中没有与之相近的可行组合"),
    "near-way": ("{moves} ({set})", "{moves}（{set}）"),
    # Model architectures.
    "near-names": ("; similar names: {names}", "；相近名称：{names}"),
    "listed-for": (" (it is for {soc})", "（列有 {soc}）"),
    "level-experimental": ("experimental", "“实验性支持”"),
    "level-untested": ("untested", "“未测试”"),
    "capability-or-newer": ("{need} or newer", "{need} 或更高"),
    "capability-exactly": ("{need}", "{need}"),
    "formats": ("{names}", "{names}"),
    "formats-none": ("none that the matrix knows", "矩阵中没有"),
    "capability-none": ("of no NVIDIA card", "无（没有 NVIDIA 卡支持）"),
    # Engine options: why a value is refused.
    "takes": ("{option} takes {expected}, not {kind}", "{option} 应为{expected_zh}，不能是{kind_zh}"),
    "takes-one": (
        "{option} takes one value, {expected}, not a list",
        "{option} 只接受一个值（{expected_zh}），不能是列表",
    ),
    "takes-choice": ("{option} takes {choices}", "{option} 只接受 {choices}"),
    "takes-other": ("{option} has no such value", "{option} 没有该值"),
    "at-least-one": ("{option} must be at least 1", "{option} 至少为 1"),
    "share": ("{option} is a part of the whole: above 0, and 1 at most", "{option} 是占比：大于 0 且不超过 1"),
    "no-name": ("this is no name of an option", "这不是选项名称"),
    "gone": ("no {option}; instead: {use}", "没有 {option}；{use_zh}"),
    "last-seen": ("it was last seen in {version}", "最后出现于 {version}"),
    "came-with": ("it came with {version}", "该选项从 {version} 起才有"),
    "unknown": ("no such option", "没有该选项"),
    "deprecated": ("{option} is deprecated", "{option} 已被弃用"),
    "same": ("{first} and {second} are the same option", "{first} 与 {second} 是同一个选项"),
    "not-recorded": (
        "the options of vLLM {vllm} were not recorded; those of {taken} were taken",
        "未收录 vLLM {vllm} 的选项；已采用 {taken} 的选项",
    ),
    "write": ("write {near}", "请写成 {near}"),
    "write-type": ("write {expected}", "请写成{expected_zh}"),
    "correct": ("correct it", "请更正"),
    "use": ("use {use}", "请改用 {use}"),
    "see-help": ("see `vllm serve --help=all` of that version", "见该版本的 `vllm serve --help=all`"),
    "take-newer": ("remove it: it came with vLLM {version}", "请删除：该选项从 vLLM {version} 起才有"),
    "remove": ("remove it", "请删除"),
    "remove-for": ("remove it; {why}", "请删除；{why_zh}"),
    "write-positive": ("write a positive number", "请填写正数"),
    "write-share": ("write it like 0.9, which is 90 percent", "请按 0.9（即 90%）的形式填写"),
    # Memory and shape of models.
    "cap-card": ("each card", "每张卡"),
    "cap-host": ("the host's memory", "主机内存"),
    "cap-memory-of-host": ("the host", "主机"),
    "cap-memory-of-node": ("its NUMA node {node}", "其 NUMA 节点 {node} "),
    "cap-memory-of-unit": ("the unit of {engine} (memory_max_bytes)", "{engine} 的服务单元（memory_max_bytes）"),
    "cap-length": ("set max_model_len to at most {length}", "将 max_model_len 设为不超过 {length}"),
    "cap-cards": ("set tensor_parallel: {tensor} ({cards} cards)", "设置 tensor_parallel: {tensor}（共 {cards} 张卡）"),
    "cap-cards-hosts": (
        "set tensor_parallel: {tensor} and hosts_per_replica: {hosts} ({cards} cards)",
        "设置 tensor_parallel: {tensor} 和 hosts_per_replica: {hosts}（共 {cards} 张卡）",
    ),
    "cap-quantization": ("take a checkpoint quantized as {scheme}", "改用 {scheme} 量化的模型"),
    "cap-requests": ("set max_num_seqs: {requests} of the engine", "设置引擎的 max_num_seqs: {requests}"),
    "cap-bytes": ("set {key} to at most {most} ({size} GiB)", "将 {key} 设为不超过 {most}（{size} GiB）"),
    "cap-memory": ("take cards with more memory, or a smaller model", "改用显存更大的加速卡，或更小的模型"),
    "cap-memory-host": ("take a host with more memory, or a smaller model", "改用内存更大的主机，或更小的模型"),
    "cap-fewer": ("set concurrency to at most {reached}", "将 concurrency 设为不超过 {reached}"),
    "cap-or-length": ("; or set max_model_len to at most {length}", "；或将 max_model_len 设为不超过 {length}"),
    "cap-or": ("; or ", "；或者"),
    "cap-model": ("the model", "该模型"),
    "cap-draft": ("the draft model", "草稿模型"),
    "cap-heads": ("{heads} attention heads", "{heads} 个注意力头"),
    "cap-kv-heads": ("{heads} key and value heads", "{heads} 个 KV 头"),
    "cap-layers": ("{layers} layers", "{layers} 层"),
    "cap-and": (" and ", "、"),
    "cap-at-most": ("at most {most}", "不超过 {most} 的值"),
    "cap-legal-or": (" or ", " 或 "),
    # What an option takes, and what stands there.
    "type-boolean": ("true or false", " true 或 false"),
    "type-int": ("a whole number", "整数"),
    "type-number": ("a number", "数字"),
    "type-size": ("a whole number, or one such as 64M", "整数，或如 64M 的写法"),
    "type-size_or_auto": ("a whole number, one such as 8k, or auto", "整数、如 8k 的写法或 auto"),
    "type-json": ("a mapping or JSON", "映射或 JSON"),
    "type-json_or_text": ("text or a mapping", "文本或映射"),
    "type-text": ("text", "文本"),
    "type-choice": ("one of {choices}", "以下之一：{choices}"),
    "kind-bool": ("true/false", " true/false"),
    "kind-number": ("a number", "数字"),
    "kind-text": ("text", "文本"),
    "kind-mapping": ("a mapping", "映射"),
    "kind-list": ("a list", "列表"),
    "kind-nothing": ("nothing", "空值"),
    "kind-other": ("this kind of value", "这种类型的值"),
}


def phrase(name: str, **params: object) -> tuple[str, str]:
    """A phrase in English and Chinese. Raises KeyError for an unknown one or a missing parameter."""
    english, chinese = PHRASES[name]
    return english.format(**params), chinese.format(**params)


def words(parameter: str, name: str, **params: object) -> dict[str, str]:
    """A phrase as the two parameters of a rule: ``parameter`` and ``parameter_zh``."""
    english, chinese = phrase(name, **params)
    return {parameter: english, f"{parameter}_zh": chinese}
