"""Each rule of the family SET by a host, a wish, a model or a setting that breaks exactly it.

``ALSO`` names what cannot be had apart from a case, by the nature of the thing: a candidate of vllm-ascend that no
matrix lists is a candidate as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fleet.problems import Problem
from fleet.version_rules import (
    problems_of_engine,
    problems_of_model,
    problems_of_quantization,
    problems_of_refusal,
    problems_of_set,
)
from fleet.version_sets.facts import HostFacts, Wanted
from fleet.version_sets.matrix import Matrix, load_matrix
from fleet.version_sets.solver import Refusal, VersionSet, solve

from .hosts import (
    A1,
    A2,
    A3,
    A100,
    DUO,
    H200,
    K100_AI,
    MI300,
    PRO,
    V100,
    Facts,
    kylin_v10,
    openeuler,
    ubuntu,
)

MATRIX = load_matrix()
PATH = "hosts.engine-1"
# Flags of an aarch64 CPU that wants nothing.
ARM = ["asimd", "bf16"]
CURRENT = {"driver_version": "580.159.04"}
IMAGE = ["container"]
Made = list[Problem]


def found(facts: Facts, matrix: Matrix = MATRIX, /, **wanted: Any) -> Made:
    """What the solver says of a host, as problems."""
    answer = solve(HostFacts.from_mapping(facts), Wanted.from_mapping(wanted), matrix)
    return problems_of_refusal(PATH, answer) if isinstance(answer, Refusal) else problems_of_set(PATH, answer)


def chosen(facts: Facts, **wanted: Any) -> VersionSet:
    """The set of a host that has one."""
    answer = solve(facts, wanted)
    assert isinstance(answer, VersionSet), [link.text for link in answer.broken]
    return answer


def euler(**more: Any) -> Facts:
    """openEuler on a CPU that wants nothing."""
    return openeuler(**{"cpu_flags": ARM, **more})


def ascend(card: Mapping[str, Any] = A2, **more: Any) -> Facts:
    """An Ascend host with a current HDK."""
    return euler(**{"cards": [card], "hdk_version": "25.5.0", **more})


def gpu(card: Mapping[str, Any] = H200, **more: Any) -> Facts:
    """An NVIDIA host with a current driver."""
    return ubuntu(**{"cards": [card], **CURRENT, **more})


def model(architecture: str, facts: Facts, vllm: str | None = None, **wanted: Any) -> Made:
    """What is said of a model on a host; vllm stands in for the one that was chosen."""
    pick = chosen(facts, **wanted)
    return problems_of_model(PATH, architecture, replace(pick, vllm=vllm or pick.vllm), MATRIX)


def method(name: str, facts: Facts, **wanted: Any) -> Made:
    """What is said of a quantization method on a host."""
    return problems_of_quantization(PATH, name, facts, chosen(facts, **wanted), MATRIX)


def engine(vllm: str, **settings: Any) -> Made:
    """What is said of engine settings."""
    return problems_of_engine(("fleet_services", "chat"), settings, vllm)


def no_torch_npu() -> Matrix:
    """The matrix, with a release whose torch_npu is not published."""
    releases = tuple(
        replace(r, torch_npu=None) if r.vllm_ascend == "0.23.0" else r
        for r in MATRIX.ascend_releases
        if r.vllm_ascend != "0.23.0.post1"
    )
    return replace(MATRIX, ascend_releases=releases)


def no_source_archive() -> Matrix:
    """The matrix, with a vLLM that has no source archive."""
    row = MATRIX.on_index("vllm", "0.23.0")
    assert row is not None
    return replace(MATRIX, _by_version={**MATRIX._by_version, ("vllm", "0.23.0"): replace(row, sdist=False)})


def young_wheels() -> Matrix:
    """The matrix, with wheels of vllm-ascend from a later release on only."""
    scopes = tuple(replace(s, since="0.26.0") if s.method == "wheel" else s for s in MATRIX.method_scopes)
    return replace(MATRIX, method_scopes=scopes)


def lying_wheel() -> Matrix:
    """The matrix, with a newest wheel whose tag is known to lie."""
    return replace(MATRIX, wrong_tags=(replace(MATRIX.wrong_tags[0], vllm="0.33.0", cuda="13.0"),))


OLD_CPU = {"cpu_flags": ["avx2", "avx512f"]}
TRAP = {"cpu_flags": ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]}
SOURCE = ["source"]
UNLISTED = {"vllm_ascend": "0.28.0rc1", "unlisted": True}
CHIP_950 = {"vendor": "huawei", "chip": "950"}
EULEROS = {"os_id": "euleros", "os_version": "2.0", "os_codename": "SP12", "glibc": "2.34", "python": "3.9"}

CASES: dict[str, Callable[[], Made]] = {
    "SET-001": lambda: found(kylin_v10("kylin", cpu_flags=ARM)),
    "SET-002": lambda: found(ubuntu(os_id="hce", os_version="2.0")),
    "SET-003": lambda: found(ubuntu(os_id="centos", os_version="8", glibc="2.28")),
    "SET-004": lambda: found(ubuntu("20.04", "2.31")),
    "SET-005": lambda: found(kylin_v10("", cpu_flags=ARM, python="3.11")),
    "SET-006": lambda: found(kylin_v10("Lance", cpu_flags=ARM, python=None)),
    "SET-007": lambda: found(ubuntu(glibc="2.36")),
    "SET-008": lambda: found(ubuntu(page_size="4096")),
    "SET-009": lambda: found(ubuntu(cards=[MI300]), vllm="0.33.0"),
    "SET-010": lambda: found(ubuntu(page_size=65536)),
    "SET-011": lambda: found(euler(page_size=65536)),
    "SET-012": lambda: found(ascend(), methods=["variant_index"]),
    "SET-013": lambda: found(ubuntu(os_id="hce", os_version="2.0", glibc=None), methods=["wheel"]),
    "SET-014": lambda: found(euler(cards=[H200], **CURRENT), vllm="0.20.2", methods=["wheel"]),
    "SET-015": lambda: found(gpu(A100), vllm="0.8.5.post1"),
    "SET-016": lambda: found(gpu(), lying_wheel()),
    "SET-017": lambda: found(ubuntu(**EULEROS), vllm="0.19.1", methods=SOURCE),
    "SET-018": lambda: found(kylin_v10(), vllm="0.33.0", methods=SOURCE),
    "SET-019": lambda: found(ubuntu("24.04", "2.39"), vllm="0.33.0", methods=SOURCE),
    "SET-020": lambda: found(kylin_v10(cpu_flags=ARM)),
    "SET-021": lambda: found(ubuntu(), backend="cuda"),
    "SET-022": lambda: found(ubuntu(arch="riscv64")),
    "SET-023": lambda: found(kylin_v10(), backend="rocm"),
    "SET-024": lambda: found(euler(cards=[A2, A100])),
    "SET-030": lambda: found(gpu(driver_version=None)),
    "SET-031": lambda: found(gpu(A100, driver_version="535.104.05"), vllm="0.30.0"),
    "SET-032": lambda: found(gpu(driver_version="580.1")),
    "SET-033": lambda: found(gpu(A100, driver_version="535.104.05"), vllm="0.19.1"),
    "SET-034": lambda: found(euler(cards=[H200], **CURRENT)),
    "SET-035": lambda: found(gpu(A100, arch="aarch64"), vllm="0.19.1"),
    "SET-036": lambda: found(gpu({"vendor": "nvidia", "chip": "New card"})),
    "SET-037": lambda: found(gpu(), replace(MATRIX, capabilities=())),
    "SET-038": lambda: found(gpu(V100), vllm="0.30.0"),
    "SET-040": lambda: found(ascend({"vendor": "huawei", "pci_id": "19e5:ffff"})),
    "SET-041": lambda: found(euler(cards=[A2, A3], hdk_version="25.5.0")),
    "SET-042": lambda: found(ascend(A1)),
    "SET-043": lambda: found(ascend(PRO), vllm="0.23.0", methods=IMAGE),
    "SET-044": lambda: found(ascend(CHIP_950), vllm_ascend="0.18.0", methods=IMAGE),
    "SET-045": lambda: found(ascend(A3), vllm="0.23.0", methods=["wheel"]),
    "SET-046": lambda: found(ascend(), young_wheels(), vllm="0.23.0", methods=["wheel"]),
    "SET-047": lambda: found(ascend(), vllm="0.23.0", methods=["variant_index"]),
    "SET-048": lambda: found(ascend({**A2, "chip": "310P3"}), methods=IMAGE),
    "SET-049": lambda: found(ascend(), **UNLISTED, methods=IMAGE),
    "SET-050": lambda: found(ascend(hdk_version=None), methods=IMAGE),
    "SET-051": lambda: found(ascend(), replace(MATRIX, cann_hdk=()), methods=IMAGE),
    "SET-052": lambda: found(ascend(hdk_version="25.0.RC1"), vllm="0.23.0", vllm_ascend="0.23.0"),
    "SET-053": lambda: found(ascend(hdk_version="25.3.RC1"), vllm_ascend="0.23.0rc1", methods=IMAGE),
    "SET-054": lambda: found(ascend(hdk_version="27.0.RC1"), methods=IMAGE),
    "SET-055": lambda: found(
        ascend(os_version="24.03", os_codename="LTS-SP1", glibc="2.38", hdk_version="25.0.RC1"), vllm_ascend="0.18.0"
    ),
    "SET-056": lambda: found(ascend(hdk_version="25.2.0", cann_versions=["9.1.0"]), vllm_ascend="0.9.1"),
    "SET-057": lambda: found(ascend(cann_versions=["8.5.1"]), vllm="0.23.0"),
    "SET-058": lambda: found(ubuntu("24.04", "2.39", arch="aarch64", cards=[DUO], hdk_version="25.5.0"), methods=IMAGE),
    "SET-059": lambda: found(ascend(), vllm_ascend="0.28.0rc1"),
    "SET-060": lambda: found(ascend(hdk_version="26.2.RC1"), vllm="0.30.0", prereleases=False),
    "SET-061": lambda: found(ascend(), vllm_ascend="0.18.0"),
    "SET-062": lambda: found(ascend(), no_torch_npu(), vllm="0.23.0", methods=IMAGE),
    "SET-063": lambda: found(ascend(), no_source_archive(), vllm="0.23.0"),
    "SET-064": lambda: found(ascend()),
    "SET-065": lambda: found(euler(cards=[K100_AI])),
    "SET-066": lambda: found(ubuntu(cards=[{"vendor": "hygon", "chip": "X"}])),
    "SET-067": lambda: found(ubuntu(cards=[{"vendor": "hygon", "chip": "K100"}])),
    "SET-068": lambda: found(ubuntu(cards=[{**MI300, "chip": "MI gfx999"}]), vllm="0.33.0"),
    "SET-070": lambda: found(ubuntu(cpu_flags=[])),
    "SET-071": lambda: found(ubuntu(cpu_flags=["sse4_2"])),
    "SET-072": lambda: found(ubuntu(**OLD_CPU)),
    "SET-073": lambda: found(ubuntu(**TRAP)),
    "SET-080": lambda: found(ubuntu(), vllm="0.99.0"),
    "SET-081": lambda: found(ubuntu(), torch="1.0"),
    "SET-082": lambda: found(ascend(), vllm_ascend="0.18.0", cann="9.1.0"),
    "SET-083": lambda: found(ubuntu(), vllm="0.32.0", python="3.9", methods=["wheel"]),
    "SET-084": lambda: found(ubuntu(cards=[K100_AI]), python="3.9"),
    "SET-085": lambda: found(ubuntu(), cann="9.1.0"),
    "SET-086": lambda: found(ascend(), **UNLISTED, cann="9.1.0"),
    "SET-087": lambda: found(ubuntu(cards=[K100_AI]), methods=["wheel"]),
    "SET-090": lambda: found(gpu(), vllm="0.33.0", architectures=["QWenLMHeadModel"]),
    "SET-091": lambda: model("AliceAIForCausalLM", gpu(), vllm="0.32.0"),
    "SET-092": lambda: model("AliceAIForCausalLM", gpu(), vllm="0.26.0"),
    "SET-093": lambda: model("QuantMixtralForCausalLM", gpu(), vllm="0.10.0"),
    "SET-094": lambda: model("Qwen2ForCausalML", gpu()),
    "SET-095": lambda: dropped_but_not_recorded(),
    "SET-096": lambda: model("Qwen2ForCausalLM", gpu(), vllm="nightly"),
    "SET-100": lambda: found(ascend(), vllm="0.23.0", architectures=["InternVLChatModel"]),
    "SET-101": lambda: model("OlmoForCausalLM", ascend()),
    "SET-102": lambda: model("AriaForConditionalGeneration", ascend()),
    "SET-103": lambda: model("LlamaForCausalLM", ascend(hdk_version="25.2.0"), vllm_ascend="0.10.0rc1"),
    "SET-110": lambda: method("awq", gpu(V100), vllm="0.18.1"),
    "SET-111": lambda: method("fp8", gpu(A100)),
    "SET-112": lambda: method("int8-w4a8", ubuntu()),
    "SET-113": lambda: method("gptq", ascend(hdk_version="26.2.RC1"), vllm_ascend="0.30.0rc2", unlisted=True),
    "SET-114": lambda: method("fp8", ascend()),
    "SET-115": lambda: method("no-such", gpu()),
    "SET-116": lambda: method("awq", gpu({"vendor": "nvidia", "chip": "New card"})),
    "SET-120": lambda: engine("0.31.0", dtype="float32"),
    "SET-121": lambda: engine("0.31.0", max_num_seq=8),
    "SET-122": lambda: engine("0.31.0", dtype="float33"),
    "SET-123": lambda: engine("0.32.0", disable_cascade_attn=True),
    "SET-124": lambda: engine("0.32.0", **{"max_num_seqs": 8, "max-num-seqs": 8}),
}

ALSO: dict[str, set[str]] = {
    "SET-006": {"SET-020"},  # the systems that have inferred fields have an old Python too
    "SET-012": {"SET-047", "SET-064"},  # nobody read the variant index at all; vLLM beside vllm-ascend is built
    "SET-047": {"SET-012", "SET-064"},
    "SET-049": {"SET-059", "SET-060", "SET-062"},  # nothing of an unlisted candidate is published
    "SET-053": {"SET-060"},  # only a candidate has that CANN
    "SET-056": {"SET-015"},  # wheels of that age carry such tags
    "SET-057": {"SET-064"},
    "SET-063": {"SET-064"},
    "SET-121": {"SET-120"},  # both rest on a version that was not recorded
    "SET-122": {"SET-120"},
}


def dropped_but_not_recorded() -> Made:
    """An architecture that vLLM says it dropped, and that no recorded registry holds."""
    record = replace(MATRIX.architectures, dropped_after={"GoneForCausalLM": "0.99.0"})
    return problems_of_model(PATH, "GoneForCausalLM", chosen(gpu()), replace(MATRIX, architectures=record))
