"""Memory and shape: each rule, well-known truths, and what holds for every fleet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from capacity_cases import CASES, DEEPSEEK_67B, DEEPSEEK_V3, QWEN_7B, QWEN_72B, on_a100, serve
from fleet.capacity import Checkpoint
from fleet.capacity.safetensors import Tensor
from fleet.capacity_options import Options, mapping, number, share, truth
from fleet.inventory import ModelSeen
from fleet.plan import Memory, Plan
from fleet.planner import validate
from fleet.problems import RULES, Problem, errors, render
from fleet_samples import LOCKS, MATRIX, SOURCE, TINY, Case, card_data, facts_data
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 1 << 30
A100 = {"vendor": "nvidia", "chip": "A100-SXM4-80GB", "count": 8, "memory_gib": 80}
ASCEND = {"vendor": "huawei", "chip": "910B3", "count": 8, "memory_gib": 64}
GPU_HOST = {"os": {"id": "ubuntu", "version": "22.04", "codename": "jammy"}, "arch": "x86_64", "driver": "580.159.04"}
ASCEND_HOST = {"os": {"id": "openEuler", "version": "24.03", "codename": "LTS-SP1"}, "arch": "aarch64", "hdk": "25.5.0"}


def claimed(c: Case, cards: Mapping[str, Any], host: Mapping[str, Any] = GPU_HOST) -> Case:
    """Hosts that nobody asked: the inventory says what they are."""
    c.deployment.update(engine={}, environment={})
    said = {"cpus": 128, "numa_nodes": 2, "memory_gib": 1024, **host, "cards": dict(cards)}
    for name in c.groups["cpu_hosts"]:
        c.by_host[name] = {"fleet_host": deepcopy(said)}
        del c.facts[name]
    return c


def validated(c: Case) -> list[Problem]:
    return validate(c.inventory(), MATRIX, LOCKS)


def about_memory(found: list[Problem]) -> list[Problem]:
    return [p for p in found if p.code.startswith("CAP-")]


def memory(c: Case, host: str = "engine-1") -> Memory:
    found = c.good().slices[host].engines[0].memory
    assert found is not None
    return found


# --- each rule


@pytest.mark.parametrize("code", sorted(CASES))
def test_rule(code: str) -> None:
    c = Case()
    CASES[code](c)
    found = c.problems()
    assert {p.code for p in found} - (c.background - {code}) == {code}, render(found)
    for p in about_memory(found):
        assert p.severity == RULES[p.code].severity
        assert p.path.startswith(("fleet_services.chat.", "fleet_models.tiny-chat."))
        # Nothing is left to be filled in, and what people read is short.
        texts = (p.rule, p.remedy, p.rule_zh, p.remedy_zh)
        assert all(texts)
        assert not any(re.search(r"[{}]|\d{10,}", text) for text in texts if p.code not in ("CAP-008", "CAP-009")), (
            texts
        )
        assert re.search(r"[\u4e00-\u9fff]", p.rule_zh + p.remedy_zh)


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_deployment_on_hosts_alike_has_each_problem_once(code: str) -> None:
    c = Case()
    for number_ in range(20):
        c.add_host(f"more-{number_:02}", f"10.77.0.{100 + number_}", "cpu_hosts")
    CASES[code](c)
    found = about_memory(c.problems())
    assert len(found) == 1, render(found)
    assert "more-" not in found[0].rule


def test_hosts_of_another_kind_have_a_problem_of_their_own() -> None:
    c = on_a100(Case(), DEEPSEEK_67B, 4096)
    c.facts["engine-2"]["cards"] = [card_data(n, chip="NVIDIA A100-SXM4-40GB", memory_bytes=40 * GIB) for n in range(8)]
    found = about_memory(c.problems())
    assert [p.code for p in found] == ["CAP-001", "CAP-001"]
    assert {p.path for p in found} == {"fleet_services.chat.deployments[0].tensor_parallel"}
    assert ["engine-1" in found[0].rule + found[1].rule, "A100-SXM4-40GB" in found[0].rule + found[1].rule] == [
        True
    ] * 2


# --- what everybody knows


def test_67b_in_16_bits_does_not_fit_one_a100_of_80_gb() -> None:
    for c in (on_a100(Case(), DEEPSEEK_67B, 4096), serve(claimed(Case(), A100), DEEPSEEK_67B, 4096)):
        found = about_memory(validated(c) if c.by_host else c.problems())
        assert [p.code for p in found] == ["CAP-001"], render(found)
        assert "tensor_parallel: 2 (2 cards)" in found[0].remedy
        assert "quantized as fp8" in found[0].remedy


def test_qwen_72b_fits_eight_a100_at_32k() -> None:
    assert about_memory(validated(serve(claimed(Case(), A100), QWEN_72B, 32768, tensor_parallel=8))) == []
    c = on_a100(Case(), QWEN_72B, 32768, tensor_parallel=8)
    assert about_memory(c.problems()) == []
    got = memory(c)
    assert got.weights_bytes / GIB == pytest.approx(72.7e9 * 2 / 8 / GIB, rel=0.03)
    assert got.kv_cache_bytes_low < got.kv_cache_bytes < got.kv_cache_bytes_high
    assert got.concurrency == pytest.approx(got.kv_cache_tokens / 32768, abs=0.1)
    assert got.concurrency > 20


def test_deepseek_v3_in_16_bits_does_not_fit_sixteen_cards_of_64_gb() -> None:
    c = claimed(Case(), ASCEND, ASCEND_HOST)
    serve(c, DEEPSEEK_V3, 4096, tensor_parallel=8, pipeline_parallel=2, hosts_per_replica=2)
    found = about_memory(validated(c))
    assert [p.code for p in found] == ["CAP-001"], render(found)
    assert "hosts_per_replica" in found[0].remedy or "quantized as w8a8" in found[0].remedy


def test_deepseek_v3_in_8_bits_fits_sixteen_cards_of_64_gb() -> None:
    c = claimed(Case(), ASCEND, ASCEND_HOST)
    serve(c, DEEPSEEK_V3, 4096, tensor_parallel=16, expert_parallel=True, hosts_per_replica=2)
    c.artifact["quantization"] = "ascend"
    assert about_memory(validated(c)) == []


def test_the_real_engine_on_an_h200() -> None:
    c = on_a100(Case(), QWEN_7B, 8192, engine={"gpu_memory_utilization": 0.85})
    c.deployment["environment"] = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
    c.by_host = {"engine-1": {"fleet_versions": {"vllm": "0.25.1"}}, "engine-2": {"fleet_versions": {"vllm": "0.25.1"}}}
    for host in c.groups["cpu_hosts"]:
        # 143771 MiB is what nvidia-smi prints.
        c.facts[host]["cards"] = [card_data(n, chip="NVIDIA H200", memory_bytes=143771 << 20) for n in range(8)]
    got = memory(c)
    assert got.kv_cache_bytes / GIB == pytest.approx(103.19, rel=0.02)
    assert got.kv_cache_tokens == pytest.approx(1932224, rel=0.02)
    assert got.weights_bytes / GIB == pytest.approx(14.29, rel=0.02)


def test_the_tiny_model_fits_a_cpu() -> None:
    c = serve(Case(), TINY, 512)
    assert c.problems() == []
    got = memory(c)
    assert got.kv_cache_bytes == 64 << 20
    # Two layers, two key heads of 32 elements, keys and values, float32.
    assert got.kv_cache_tokens == (64 << 20) // (2 * 2 * 32 * 2 * 4)


# --- CPU hosts


def test_the_variable_of_cpu_hosts_goes_before_the_option() -> None:
    c = serve(Case(), TINY, 512)
    c.deployment["environment"]["VLLM_CPU_KVCACHE_SPACE"] = "2"
    assert memory(c).kv_cache_bytes == 2 * GIB


def test_an_engine_of_a_cpu_host_has_the_memory_of_its_numa_node() -> None:
    c = serve(Case(), TINY, 512)
    c.deployment["engine"] = {"gpu_memory_utilization": 0.5}
    for host in c.groups["cpu_hosts"]:
        c.facts[host]["numa"][0]["memory_bytes"] = 16 * GIB
    assert 6.5 < memory(c).kv_cache_bytes / GIB < 7.5
    c.deployment.update(cpus_per_engine=4, replicas_per_host=2)
    first, second = c.good().slices["engine-1"].engines
    assert first.memory and second.memory
    assert (first.numa_nodes, second.numa_nodes) == ("0", "1")
    assert second.memory.kv_cache_bytes > 2 * first.memory.kv_cache_bytes


def test_engines_that_leave_each_other_no_share_do_not_start() -> None:
    c = serve(Case(), QWEN_7B, 512, replicas_per_host=2)
    c.deployment["engine"] = {"dtype": "float16", "gpu_memory_utilization": 0.7}
    found = about_memory(c.problems())
    assert [p.code for p in found] == ["CAP-012"], render(found)
    assert "NUMA node 0" in found[0].rule
    assert "NUMA 节点 0" in found[0].rule_zh


def test_a_limit_that_the_engine_does_not_know_of() -> None:
    c = serve(Case(), TINY, 512, memory_max_bytes=4 * GIB)
    c.deployment["engine"] = {"dtype": "float32"}
    found = about_memory(c.problems())
    assert [(p.code, p.path) for p in found] == [("CAP-013", "fleet_services.chat.deployments[0].memory_max_bytes")]
    c.deployment["engine"]["kv_cache_memory_bytes"] = GIB
    assert c.problems() == []


# --- remedies do


def numbers(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    assert found, text
    return int(found[1])


@pytest.mark.parametrize(("config", "tensor"), [(QWEN_72B, 2), (QWEN_72B, 1), (DEEPSEEK_67B, 1)])
def test_the_card_count_named_validates(config: dict[str, Any], tensor: int) -> None:
    c = on_a100(Case(), config, config["max_position_embeddings"], tensor_parallel=tensor)
    (found,) = about_memory(c.problems())
    c.deployment["tensor_parallel"] = numbers(found.remedy, r"tensor_parallel: (\d+)")
    assert errors(about_memory(c.problems())) == []


def test_a_longer_request_than_fits_and_what_does() -> None:
    c = on_a100(Case(), QWEN_72B, 32768, tensor_parallel=2, engine={"max_num_seqs": 64})
    (found,) = about_memory(c.problems())
    assert (found.code, found.path) == ("CAP-002", "fleet_services.chat.max_model_len")
    c.service["max_model_len"] = numbers(found.remedy, r"max_model_len to at most (\d+)")
    assert errors(about_memory(c.problems())) == []


def test_fewer_requests_where_the_sampler_takes_what_kv_lacks() -> None:
    c = on_a100(Case(), QWEN_72B, 16384, tensor_parallel=2)
    for host in c.groups["cpu_hosts"]:
        c.facts[host]["cards"] = [
            card_data(n, chip="NVIDIA H100 80GB HBM3", memory_bytes=81559 << 20) for n in range(8)
        ]
    (found,) = about_memory(c.problems())
    c.deployment["engine"] = {"max_num_seqs": numbers(found.remedy, r"max_num_seqs: (\d+)")}
    assert errors(about_memory(c.problems())) == []


def test_concurrency_that_is_not_reached_and_the_length_at_which_it_is() -> None:
    c = on_a100(Case(), QWEN_72B, 32768, tensor_parallel=8)
    c.service["concurrency"] = 200
    (found,) = about_memory(c.problems())
    assert (found.code, found.path) == ("CAP-004", "fleet_services.chat.concurrency")
    shorter = numbers(found.remedy, r"max_model_len to at most (\d+)")
    fewer = numbers(found.remedy, r"concurrency to at most (\d+)")
    c.service["max_model_len"] = shorter
    assert about_memory(c.problems()) == []
    c.service.update(max_model_len=32768, concurrency=fewer)
    assert about_memory(c.problems()) == []


def test_kv_bytes_that_hold_a_request_validate() -> None:
    c = Case()
    CASES["CAP-008"](c)
    (found,) = about_memory(c.problems())
    c.deployment["engine"]["kv_cache_memory_bytes"] = numbers(found.remedy, r"to at least (\d+)")
    assert about_memory(c.problems()) == []
    CASES["CAP-009"](c)
    (found,) = about_memory(c.problems())
    assert found.path == "fleet_services.chat.deployments[0].engine.kv-cache-memory-bytes"
    c.deployment["engine"] = {"kv_cache_memory_bytes": numbers(found.remedy, r"to at most (\d+)")}
    assert about_memory(c.problems()) == []


def test_legal_sizes_beside_one_that_does_not_divide() -> None:
    c = on_a100(Case(), QWEN_72B, 32768, tensor_parallel=6)
    (found,) = about_memory(c.problems())
    assert found.path == "fleet_services.chat.deployments[0].tensor_parallel"
    assert found.remedy == "set tensor_parallel to 4 or 8"
    assert "64 attention heads and 8 key and value heads" in found.rule
    c.deployment.update(tensor_parallel=1, pipeline_parallel=8)
    assert about_memory(c.problems()) == []


# --- what the inventory and the files say


def test_experts_under_a_name_of_their_own_are_experts() -> None:
    config = QWEN_72B | {"moe_num_primary_experts": 64}
    assert about_memory(on_a100(Case(), config, 4096, tensor_parallel=8, expert_parallel=True).problems()) == []


@pytest.mark.parametrize(
    "said",
    [
        {"environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}},
        {"engine": {"hf_overrides": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}}},
        {"engine": {"hf-overrides": '{"max_position_embeddings": 131072}'}},
    ],
)
def test_longer_than_the_model_says_with_permission(said: dict[str, Any]) -> None:
    assert about_memory(on_a100(Case(), QWEN_72B, 131072, tensor_parallel=8, **said).problems()) == []


def test_a_model_whose_own_config_stretches_it() -> None:
    config = QWEN_72B | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
    assert about_memory(on_a100(Case(), config, 131072, tensor_parallel=8).problems()) == []


@pytest.mark.parametrize("where", ["inline", "beside"])
def test_the_shape_of_a_model_whose_files_are_elsewhere(where: str) -> None:
    c = on_a100(Case(), {}, 4096)
    c.artifact.update(source="hf://org/big@main", config=DEEPSEEK_67B if where == "inline" else "models/big.json")
    c.configs = {"models/big.json": DEEPSEEK_67B}
    c.seen = {}
    assert [p.code for p in about_memory(c.problems())] == ["CAP-001"]


def test_the_scheme_of_an_artifact_counts() -> None:
    c = on_a100(Case(), DEEPSEEK_67B, 4096)
    c.artifact["quantization"] = "awq"
    assert about_memory(c.problems()) == []
    assert memory(c).weights_bytes < 40 * GIB


def headers(config: Mapping[str, Any], dtype: str, width: int) -> Checkpoint:
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    return Checkpoint((
        Tensor("model.embed_tokens.weight", dtype, (vocab, hidden), vocab * hidden * width),
        Tensor("model.layers.0.mlp.up_proj.weight", dtype, (256, hidden), 256 * hidden * width),
    ))  # fmt: skip


def test_weights_are_those_of_the_headers_where_they_are_loaded_as_they_are() -> None:
    c = on_a100(Case(), QWEN_7B, 4096)
    by_shape = memory(c).weights_bytes
    c.seen = {SOURCE: ModelSeen(True, GIB, 4, config=QWEN_7B, headers=headers(QWEN_7B, "BF16", 2))}
    exact = memory(c).weights_bytes
    assert exact < by_shape / 4
    c.deployment["engine"] = {"quantization": "fp8"}
    assert memory(c).weights_bytes > 2 * exact
    c.deployment["engine"] = {"dtype": "float32"}
    assert memory(c).weights_bytes > by_shape


SMALL = QWEN_7B | {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}


def test_a_draft_that_does_not_divide() -> None:
    c = on_a100(Case(), QWEN_72B, 8192, tensor_parallel=8)
    c.variables["fleet_models"]["small"] = {
        "versions": {"1": {"artifacts": {"default": {"source": "hf://org/small@main", "config": QWEN_7B}}}}
    }
    said = {"method": "draft_model", "model": "small", "num_speculative_tokens": 4}
    c.deployment["engine"] = {"speculative_config": said}
    (found,) = about_memory(c.problems())
    assert (found.code, found.remedy) == ("CAP-006", "set tensor_parallel to 4")
    assert "the draft model" in found.rule
    assert "28 attention heads" in found.rule
    said["draft_tensor_parallel_size"] = 1
    assert about_memory(c.problems()) == []


def test_a_declared_draft_counts() -> None:
    c = on_a100(Case(), QWEN_72B, 8192, tensor_parallel=8)
    without = memory(c)
    c.variables["fleet_models"]["small"] = {
        "versions": {"1": {"artifacts": {"default": {"source": "hf://org/small@main", "config": SMALL}}}}
    }
    for name in ("small", "/var/lib/vllm-fleet/models/small/1/default"):
        c.deployment["engine"] = {
            "speculative_config": {"method": "draft_model", "model": name, "num_speculative_tokens": 4}
        }
        assert about_memory(c.problems()) == []
        assert memory(c).weights_bytes > without.weights_bytes + GIB
    c.deployment["engine"] = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}
    assert memory(c).weights_bytes == without.weights_bytes


def test_a_model_that_its_vllm_does_not_know() -> None:
    c = serve(Case(), TINY | {"architectures": ["NeverHeardOfForCausalLM"]}, 512)
    found = c.problems()
    assert [(p.code[:4], p.path) for p in found] == [
        ("SET-", 'fleet_models.tiny-chat.versions["2026.01"].artifacts.default.config')
    ]


def test_start_timeout_of_a_model_that_is_elsewhere_counts_its_weights_on_all_cards_of_the_host() -> None:
    c = on_a100(Case(), QWEN_72B, 8192, tensor_parallel=8)
    c.artifact.update(source="hf://org/big@main", config=QWEN_72B)
    c.seen = {}
    engine = c.good().slices["engine-1"].engines[0]
    # 900 s, and twice the time that 145 GB take at 100 MB/s.
    assert engine.start_timeout_seconds == pytest.approx(900 + 2 * 145.4e9 / 1e8, rel=0.02)


def test_concurrency_is_that_of_all_ranks() -> None:
    c = on_a100(Case(), QWEN_7B, 8192)
    one = memory(c)
    c.deployment.update(data_parallel=4)
    four = memory(c)
    assert four.kv_cache_bytes == pytest.approx(one.kv_cache_bytes, rel=0.02)
    assert four.concurrency == pytest.approx(4 * one.concurrency, rel=0.02)


@pytest.mark.parametrize(("option", "value"), [("kv-cache-dtype", "nvfp4"), ("quantization", "gguf")])
def test_what_the_library_does_not_know_is_no_error(option: str, value: str) -> None:
    c = on_a100(Case(), QWEN_7B, 4096, engine={option: value})
    (found,) = about_memory(c.problems())
    assert (found.code, found.path) == ("CAP-011", f"fleet_services.chat.deployments[0].engine.{option}")


def test_a_hygon_fleet_by_what_the_inventory_says() -> None:
    host = {"os": {"id": "kylin", "version": "V10", "codename": "Lance"}, "arch": "x86_64", "driver": "6.3.8"}
    c = claimed(Case(), {"vendor": "hygon", "chip": "K100_AI", "count": 8, "memory_gib": 64}, host)
    serve(c, QWEN_72B, 8192, tensor_parallel=2)
    (found,) = about_memory(validated(c))
    assert (found.code, "engine-1 (K100_AI)" in found.rule) == ("CAP-001", True)
    c.deployment["tensor_parallel"] = 4
    assert about_memory(validated(c)) == []


# --- forms


@pytest.mark.parametrize(
    ("written", "read"),
    [(8, 8), ("8", 8), (8.0, 8), ("64M", 64 << 20), ("1k", 1000), ("1.5G", 3 << 29), ("1.5g", 1_500_000_000),
     (True, None), ("eight", None), (None, None), ([], None), (-1, -1), ("2GiB", 2 << 30)],
)  # fmt: skip
def test_numbers(written: object, read: int | None) -> None:
    assert number(written) == read


def test_other_forms() -> None:
    assert [share(v) for v in ("0.85", 1, 0, "x", True, None, 1.2)] == [0.85, 1.0, None, None, None, None, None]
    assert [truth(v) for v in (True, "False", "yes", 0, None)] == [True, False, True, False, None]
    assert [mapping(v) for v in ({"a": 1}, '{"a": 1}', "{", 3)] == [{"a": 1}, {"a": 1}, {}, {}]
    said = Options.of({"max-num-seqs": "16", "no_enforce_eager": True, "dtype": "bf16", "kv-cache-dtype": "fp8"}, {})
    got = said.settings("0.32.0", "cuda", 100, recurrent=False)
    assert (got.max_num_seqs, got.enforce_eager, got.kv_cache_dtype, said.dtype) == (16, False, "fp8", "bfloat16")
    assert got.gpu_memory_utilization == 0.92


@given(
    st.dictionaries(
        st.sampled_from(["gpu_memory_utilization", "max-num-seqs", "max_num_batched_tokens", "block_size", "dtype",
                         "kv_cache_dtype", "kv_cache_memory_bytes", "quantization", "speculative_config",
                         "hf_overrides", "enforce_eager"]),
        st.one_of(st.none(), st.booleans(), st.integers(-5, 1 << 40), st.floats(allow_nan=False), st.text(max_size=6),
                  st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=4), st.integers(), max_size=2)),
    )
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_whatever_an_operator_writes_is_no_exception(engine: dict[str, Any]) -> None:
    said = Options.of(engine, {})
    said.settings("0.32.0", "cuda", 512, recurrent=True)
    assert isinstance(said.stretches, bool)
    assert said.dtype is None or said.dtype


# --- what holds for every fleet

SHAPES = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([1024, 2048, 4096, 8192]),
        "intermediate_size": st.sampled_from([4096, 14336, 28672]),
        "num_hidden_layers": st.integers(2, 90),
        "num_attention_heads": st.sampled_from([16, 32, 64]),
        "num_key_value_heads": st.sampled_from([2, 4, 8, 16]),
        "vocab_size": st.sampled_from([32000, 152064, 262144]),
    }
)


@st.composite
def fleets(draw: st.DrawFn) -> Case:
    config = draw(SHAPES) | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}
    config["max_position_embeddings"] = 1 << 17
    tensor = draw(st.sampled_from([1, 2, 4, 8]))
    engine = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "gpu_memory_utilization": st.sampled_from([0.5, 0.9, "0.95"]),
                "max_num_seqs": st.sampled_from([1, 64, "256"]),
                "enforce_eager": st.booleans(),
            },
        )
    )
    c = on_a100(Case(), config, draw(st.integers(1, 1 << 17)), tensor_parallel=tensor, engine=engine)
    size = draw(st.sampled_from([24, 40, 80, 140]))
    resize(c, size)
    return c


def resize(c: Case, size: int) -> None:
    for host in c.groups["cpu_hosts"]:
        c.facts[host]["cards"] = [card_data(n, chip="NVIDIA A100", memory_bytes=size * GIB) for n in range(8)]


def fits(c: Case) -> bool:
    return not errors(about_memory(c.problems()))


@given(fleets(), st.integers(1, 64), st.integers(1, 1 << 16))
@settings(max_examples=40, deadline=None)
def test_more_memory_or_a_shorter_length_never_turns_yes_into_no(c: Case, more: int, less: int) -> None:
    if not fits(c):
        return
    size = c.facts["engine-1"]["cards"][0]["memory_bytes"] // GIB
    # From 70 GiB on vLLM schedules four times as much, which takes memory; the A100 is excepted.
    resize(c, size + more)
    assert fits(c)
    resize(c, size)
    c.service["max_model_len"] = max(1, c.service["max_model_len"] - less)
    assert fits(c)


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_more_cards_never_turn_yes_into_no(c: Case) -> None:
    tensor, heads = c.deployment["tensor_parallel"], c.seen[SOURCE].config["num_key_value_heads"]  # type: ignore[index]
    if tensor == 8 or 2 * tensor > heads or not fits(c):
        return
    c.deployment["tensor_parallel"] = 2 * tensor
    assert fits(c)


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_the_same_fleet_has_the_same_answer_and_remedies_are_true(c: Case) -> None:
    found = about_memory(c.problems())
    assert found == about_memory(c.problems())
    if not found and isinstance(made := c.plan(), Plan):
        sizes = made.slices["engine-1"].engines[0].memory
        assert sizes is not None
        assert sizes.kv_cache_bytes_low <= sizes.kv_cache_bytes <= sizes.kv_cache_bytes_high
        assert sizes.concurrency >= 1
    for p in errors(found):
        for pattern, place, key in (
            (r"max_model_len to at most (\d+)", c.service, "max_model_len"),
            (r"tensor_parallel: (\d+) \(", c.deployment, "tensor_parallel"),
            (r"max_num_seqs: (\d+)", c.deployment["engine"], "max_num_seqs"),
        ):
            if named := re.search(pattern, p.remedy):
                before = place.get(key)
                place[key] = int(named[1])
                assert fits(c), render(c.problems())
                place[key] = before
                if before is None:
                    del place[key]


def test_a_large_fleet_costs_what_its_kinds_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal asked
        asked += 1
        return real(*args, **kwargs)

    from fleet import capacity_question

    real = capacity_question.fit
    monkeypatch.setattr(capacity_question, "fit", counted)
    c = serve(Case(), TINY, 512)
    for n in range(300):
        name = f"h{n:03}"
        c.add_host(name, f"10.77.{1 + n // 200}.{1 + n % 200}", "cpu_hosts")
        # No two machines report the same number of bytes.
        c.facts[name] = facts_data(c.addresses[name], memory={"total_bytes": 64 * GIB - (n % 50) * 4096})
    c.facts["engine-1"]["memory"] = c.facts["engine-2"]["memory"] = {"total_bytes": 64 * GIB - 4096}
    c.problems()
    assert asked <= 4
