"""What version_sets finds, as problems: every rule of the family, remedies, engine settings, models."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import re
from typing import Any

import pytest
from fleet.problems import RULES, Problem, as_warning, problem, render
from fleet.rule_table.phrases import PHRASES, phrase
from fleet.version_rules import (
    move_words,
    nearest_words,
    problems_of_engine,
    problems_of_model,
    problems_of_refusal,
    problems_of_set,
)
from fleet.version_sets.engine_args import _replacements, engine_version, recorded_versions
from fleet.version_sets.links import Move
from fleet.version_sets.models import supported_by_vllm, supported_by_vllm_ascend
from fleet.version_sets.quantization import quantization_support
from fleet.version_sets.solver import Refusal, solve

from .hosts import A100, V100, Facts, kylin_v10, openeuler, ubuntu
from .set_cases import ALSO, ARM, CASES, MATRIX, PATH, ascend, chosen, engine, gpu, method

HAN = re.compile(r"[\u4e00-\u9fff]")


def refused(facts: Facts, **wanted: Any) -> list[Problem]:
    answer = solve(facts, wanted)
    assert isinstance(answer, Refusal)
    return problems_of_refusal(PATH, answer)


@pytest.mark.parametrize("code", sorted(CASES))
def test_rule(code: str) -> None:
    found = CASES[code]()
    assert {p.code for p in found} == {code} | ALSO.get(code, set()), render(found)
    for item in found:
        row = RULES[item.code]
        assert item.severity == row.severity or row.either
        assert item.path
        for text in (item.rule, item.remedy):
            assert text.isascii(), text
            assert "None" not in text
        for text in (item.rule_zh, item.remedy_zh):
            assert HAN.search(text), text
            assert "None" not in text


def test_an_error_names_the_nearest_legal_sets_in_both_languages() -> None:
    (item,) = refused(ubuntu(cards=[A100] * 8, driver_version="535.1"), vllm="0.20.2")
    assert (item.code, item.severity, item.value) == ("SET-031", "error", "535.1")
    assert "move vllm from 0.20.2 to 0.19.1, 3 versions (vllm-0.19.1-cuda-x86_64-cp312)" in item.remedy
    assert "将 vllm 从 0.20.2 改为 0.19.1（相差 3 个版本）" in item.remedy_zh
    assert item.remedy.count("; or ") == 1
    assert "docs.nvidia.com" in item.rule
    assert "docs.nvidia.com" in item.rule_zh


def test_what_is_not_known_has_no_value() -> None:
    assert [p.value for p in CASES["SET-030"]()] == [""]
    assert [p.value for p in CASES["SET-071"]()] == [""]


def test_no_distance_from_what_is_no_version() -> None:
    (item,) = refused(ubuntu(), vllm="newest")
    assert "move vllm from newest to 0.32.0 (" in item.remedy
    assert "将 vllm 从 newest 改为 0.32.0（" in item.remedy_zh


def test_one_step_is_one_version() -> None:
    remedies = [p.remedy for p in refused(ubuntu("24.04", "2.39"), vllm="0.33.0", methods=["wheel"])]
    assert any("move vllm from 0.33.0 to 0.32.0, 1 version (" in r for r in remedies), remedies


def test_every_broken_link_is_a_problem() -> None:
    facts = ubuntu(os_id="centos", os_version="7.9", glibc="2.17", driver_version="470.82.01", cards=[A100])
    found = refused(facts, vllm="0.33.0", methods=["wheel"], torch="2.0.1", python="3.9")
    assert {p.code for p in found} == {"SET-003", "SET-014", "SET-031", "SET-081", "SET-083"}
    assert all("nearest" in p.remedy and "最接近" in p.remedy_zh for p in found)


def test_a_refusal_without_a_way_out_says_so() -> None:
    (item,) = refused(ubuntu(arch="riscv64"))
    assert item.remedy.endswith("the matrix has no legal set near this one")
    assert item.remedy_zh.endswith("矩阵中没有与之相近的可行组合")


@pytest.mark.parametrize(
    ("facts", "wanted", "words"),
    [
        (ubuntu(cards=[A100], driver_version="470.1"), {"vllm": "0.19.1"}, "move the NVIDIA driver from 470.1 to 580"),
        (ascend(hdk_version="25.0.RC1"), {"vllm_ascend": "0.23.0"}, "upgrade the HDK from 25.0.RC1 to 26.0.RC1"),
        (openeuler(cards=[gpu()["cards"][0]], driver_version="580.1"), {"vllm": "0.20.2", "methods": ["wheel"]},
         "allow the installation by container image"),
        (kylin_v10(), {"backend": "cuda"}, "serve with backend cpu"),
        (ascend(hdk_version="26.2.RC1"), {"vllm": "0.30.0", "prereleases": False}, "allow release candidates"),
        (ascend(), {"vllm_ascend": "0.28.0rc1"}, "allow releases that the published matrix does not list"),
        (kylin_v10("kylin"), {}, "instead of"),
        (ubuntu(), {"cann": "9.1.0"}, "leave the pin cann 9.1.0 out"),
        (ubuntu(), {"vllm": "newest"}, "move vllm from newest to "),
    ],
)  # fmt: skip
def test_moves(facts: Facts, wanted: dict[str, Any], words: str) -> None:
    answer = solve(facts, wanted)
    assert isinstance(answer, Refusal)
    ways = [nearest_words([near]) for near in answer.nearest]
    assert any(words in english for english, _ in ways), ways
    assert all(english.isascii() and HAN.search(chinese) for english, chinese in ways)


def test_a_link_that_only_warns_is_a_warning() -> None:
    """SET-060 refuses where candidates were refused, and warns otherwise."""
    facts = ascend(hdk_version="26.2.RC1")
    warned = problems_of_set(PATH, chosen(facts, vllm="0.30.0"))
    assert {p.severity for p in warned if p.code == "SET-060"} == {"warning"}
    assert {p.severity for p in refused(facts, vllm="0.30.0", prereleases=False)} == {"error"}


def test_only_rules_that_may_warn_can_be_warnings() -> None:
    always = problem("SET-024", PATH, None, backends="cuda, ascend")
    with pytest.raises(ValueError, match="SET-024 is always an error"):
        as_warning(always)
    assert as_warning(problem("SET-002", PATH, None)).severity == "warning"


def test_a_good_set_has_no_problems() -> None:
    assert problems_of_set(PATH, chosen(gpu())) == []
    assert problems_of_model(PATH, "Qwen2ForCausalLM", chosen(gpu()), MATRIX) == []
    assert method("awq", gpu()) == []
    assert engine("0.32.0", dtype="float32") == []
    assert engine("0.31.0") == []


def test_quantization_that_only_saves_memory_warns() -> None:
    """seed_corrections 15: an A100 loads FP8 weights and computes nothing in FP8."""
    (item,) = method("fp8", gpu(A100))
    assert (item.code, item.severity) == ("SET-111", "warning")
    (item,) = method("gptq", ascend())
    assert (item.code, item.severity) == ("SET-113", "warning")


def test_a_card_that_lacks_a_method_is_told_which_it_has() -> None:
    (item,) = method("awq", gpu(V100), vllm="0.18.1")
    assert "compute capability 7.5 or newer; V100 has 7.0" in item.rule
    assert "需要计算能力 7.5 或更高；V100 为 7.0" in item.rule_zh
    assert item.remedy.endswith(": gptq")
    (item,) = method("int8-w4a8", ubuntu())
    assert item.remedy_zh.endswith("：int8-w8a8")


@pytest.mark.parametrize("architecture", ["Qwen2ForCausalML", "OlmoForCausalLM", "AriaForConditionalGeneration"])
def test_answers_show_no_english_where_chinese_words_exist(architecture: str) -> None:
    for answer in (
        supported_by_vllm(architecture, "0.23.0", MATRIX),
        supported_by_vllm_ascend(architecture, "0.23.0", "A2", MATRIX),
        quantization_support("fp8", gpu(A100), chosen(gpu(A100))),
        quantization_support("int8-w4a8", ubuntu(), chosen(ubuntu())),
    ):
        if answer.rule is not None:
            params, row = dict(answer.params), RULES[answer.rule]
            twins = [name for name in params if f"{name}_zh" in params]
            assert not [name for name in twins if f"{{{name}}}" in row.rule_zh + row.remedy_zh]
            assert answer.reason == row.rule.format(**params)


class TestEngine:
    def test_one_warning_for_a_version_that_was_not_recorded(self) -> None:
        found = engine("0.31.0", dtype="float33", max_num_seq=8, no_such=1, max_num_seqs=-1)
        assert [p.code for p in found].count("SET-120") == 1
        assert {p.severity for p in found} == {"warning"}

    def test_what_is_certain_is_an_error_there_too(self) -> None:
        assert [p.code for p in engine("0.31.0", swap_space=4) if p.severity == "error"] == ["SVC-008"]
        assert [p.code for p in engine("0.9.2", chunked_prefill_size=4) if p.severity == "error"] == ["SVC-008"]
        assert [p.code for p in engine("0.9.2", swap_space=4) if p.severity == "error"] == []

    def test_options_are_spelled_as_inventories_do(self) -> None:
        (item,) = engine("0.32.0", chunked_prefill_size=512)
        assert (item.code, item.remedy) == ("SVC-008", "use max_num_batched_tokens")
        assert item.remedy_zh == "请改用 max_num_batched_tokens"

    @pytest.mark.parametrize("version", recorded_versions())
    def test_every_replacement_has_words(self, version: str) -> None:
        for row in _replacements()["replacements"]:
            if engine_version(version).find(row.name):
                continue  # 0.33.0 takes disable-log-requests again, as the opposite of enable-log-requests
            (item,) = engine(version, **{row.name: 1})
            assert item.code == "SVC-008"
            assert "nothing" not in item.remedy
            assert HAN.search(item.remedy_zh)
        for row in _replacements()["values"]:
            (item,) = engine(version, **{row.name: row.value})
            assert item.code == "SVC-016"
            assert HAN.search(item.remedy_zh)

    @pytest.mark.parametrize(
        ("settings", "words", "words_zh"),
        [
            ({"max_num_seqs": "eight"}, "max_num_seqs takes a whole number, not text", "应为整数，不能是文本"),
            ({"enforce_eager": 7}, "takes true or false, not a number", "应为 true 或 false，不能是数字"),
            ({"port": [1, 2]}, "takes one value, a whole number, not a list", "只接受一个值（整数），不能是列表"),
            ({"max_num_seqs": -8}, "must be at least 1", "至少为 1"),
            ({"kv_cache_memory_bytes": -1}, "takes a whole number, or one such as 64M", "整数，或如 64M 的写法"),
            ({"scheduling_policy": "prio"}, "takes fcfs, priority", "只接受 fcfs, priority"),
            ({"tensor_parallel_size": None}, "not nothing", "不能是空值"),
        ],
    )
    def test_reasons(self, settings: dict[str, Any], words: str, words_zh: str) -> None:
        (item,) = engine("0.32.0", **settings)
        assert item.code == "SVC-016"
        assert words in item.rule
        assert words_zh in item.rule_zh
        assert HAN.search(item.remedy_zh)

    def test_owned_options_are_no_hints(self) -> None:
        (plain,) = problems_of_engine((), {"hosst": "x"}, "0.32.0")
        assert plain.remedy == "did you mean host?"
        (item,) = problems_of_engine((), {"hosst": "x"}, "0.32.0", owned=("host",))
        assert item.remedy != plain.remedy


def test_phrases_have_the_same_parameters_in_both_languages() -> None:
    def fields(text: str) -> set[str]:
        return {name.removesuffix("_zh") for name in re.findall(r"\{(\w+)\}", text)}

    for name, (english, chinese) in PHRASES.items():
        assert english.isascii(), name
        assert fields(chinese) <= fields(english), name


def test_a_move_from_a_system_that_is_not_known() -> None:
    move = Move("host", "os", "unknown", "Kylin V11 2503", 1, 20.0, ())
    assert move_words(move) == phrase("move-os-to", to="Kylin V11 2503")


def test_the_hosts_that_cases_spoil_have_no_problem() -> None:
    for facts in (ubuntu(), gpu(), openeuler(cpu_flags=ARM)):
        assert problems_of_set(PATH, chosen(facts)) == []
    assert problems_of_set(PATH, chosen(ascend(), methods=["container"])) == []
