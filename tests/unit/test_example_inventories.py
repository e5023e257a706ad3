"""The example inventories: they hold as they lie there, plan what their pages say, and refuse what the articles had."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet.capacity import from_config
from fleet.capacity.weights import weight_bytes
from fleet.facts import GIB
from fleet.inventory import Inventory
from fleet.inventory_files import BESIDE
from fleet.inventory_load import SETTINGS
from fleet.problems import errors
from test_fleet_generated import ROOT, script

PAGES = script("gen_example_pages")
EXAMPLES: tuple[str, ...] = PAGES.EXAMPLES
Change = Callable[[Inventory], Inventory]

# --- as they lie there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_validates_as_it_lies_there(name: str, tmp_path: Path) -> None:
    """The command of the page, with Ansible's own reading of the directory and no password at hand."""
    report = tmp_path / "report.json"
    playbook = Path(sys.executable).with_name("ansible-playbook")
    command = [playbook, "playbooks/validate.yml", "-i", f"inventories/{name}", "-e", f"report={report}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unreachable=0    failed=0" in done.stdout
    told = json.loads(report.read_text())
    assert told["valid"]
    found = PAGES.problems(PAGES.load(name))
    assert [(p["code"], p["path"]) for p in told["problems"]] == [(p.code, p.path) for p in found]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_console_script_finds_no_fault_in_its_files(name: str) -> None:
    command = [ROOT / "bin/vllm-fleet", "validate", "-i", f"inventories/{name}", "--format", "json"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    found = PAGES.problems(PAGES.load(name))
    assert sorted((p["code"], p["path"]) for p in told["problems"]) == sorted((p.code, p.path) for p in found)


def test_everyone_passes_over_the_same_files() -> None:
    """Ansible in a checkout, the console script, and Ansible under an installed console script."""
    config = configparser.ConfigParser()
    config.read(ROOT / "ansible.cfg")
    patterns = [p.strip() for p in config["inventory"]["ignore_patterns"].split(",")]
    assert SETTINGS["ANSIBLE_INVENTORY_IGNORE_REGEX"].split(",") == patterns
    assert BESIDE.pattern.split("|") == patterns


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_host_is_described(name: str) -> None:
    inventory = PAGES.load(name)
    assert set(PAGES.claimed(inventory)) == set(inventory.hosts)
    assert not errors(PAGES.problems(inventory))


@pytest.mark.parametrize("name", EXAMPLES)
def test_hosts_that_are_as_described_are_not_contradicted(name: str) -> None:
    """Facts that say what the inventory says raise no error, of claims or of anything else."""
    inventory = PAGES.load(name)
    facts = {host: replace(found, claimed=False) for host, found in PAGES.claimed(inventory).items()}
    assert isinstance(PAGES.plan(inventory, facts, PAGES.load_matrix(), PAGES.load_locks()), PAGES.Plan)


def test_pages_say_what_validate_and_plan_say() -> None:
    for path, text in PAGES.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run make docs"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pages_of_both_languages_say_the_same(name: str) -> None:
    """The same corrections with the same codes, in the same order."""
    rows = [re.findall(r"^\| ([0-9, -]+) \|.*\|([^|]*)\|$", _page(name, page), re.MULTILINE) for page in PAGES.PAGES]
    assert len(rows[0]) > 5
    assert [(n, _codes(last)) for n, last in rows[0]] == [(n, _codes(last)) for n, last in rows[1]]


def _page(name: str, page: str) -> str:
    text: str = (ROOT / "inventories" / name / page).read_text(encoding="utf-8")
    return text


def _codes(text: str) -> list[str]:
    return re.findall(r"\b[A-Z]{2,4}-[0-9]{3}\b", text)


# --- the secret -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_secret_is_in_the_example(name: str) -> None:
    folder = ROOT / "inventories" / name / "group_vars/all"
    assert not (folder / "vault.yml").exists()
    assert 'vault_fleet_engine_api_key: ""' in (folder / "vault.yml.example").read_text()
    secret = PAGES.load(name).secret
    assert (secret.defined, secret.length, secret.placeholder, secret.plain_file) == (True, 40, False, None)


def test_a_vault_goes_before_the_stand_in_and_is_watched(tmp_path: Path) -> None:
    copy = tmp_path / "inventories/example-bank"
    shutil.copytree(ROOT / "inventories/example-bank", copy)
    (copy / "group_vars/all/vault.yml").write_text(f"vault_fleet_engine_api_key: {'k9Zq1m3n5p7r' * 4}\n")
    secret = PAGES.load("example-bank", tmp_path).secret
    assert (secret.length, secret.plain_file) == (48, "vault.yml")
    assert not (tmp_path / ".fleet").exists(), "the stand-in is not made where it is not used"


# --- models -----------------------------------------------------------------------------------------------------------

#: Billions of parameters as their makers publish them.
PARAMETERS = {
    "deepseek-r1": 671.0,
    "deepseek-r1-distill-llama-70b": 70.6,
    "deepseek-r1-distill-qwen-7b": 7.6,
    "qwen2.5-72b-instruct": 72.7,
    "qwen2.5-7b-instruct": 7.6,
}
CONFIGS = sorted((ROOT / "inventories").glob("example-*/files/*/config.json"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: f"{p.parts[-4]}-{p.parts[-2]}")
def test_numbers_of_a_model_make_its_published_size(path: Path) -> None:
    architecture = from_config(json.loads(path.read_text()))
    found = weight_bytes(architecture, dtype="bfloat16").per_card / 2 / 1e9
    assert found == pytest.approx(PARAMETERS[path.parent.name], rel=0.015)


def test_every_model_has_its_numbers_and_no_file_is_left_over() -> None:
    for name in EXAMPLES:
        inventory = PAGES.load(name)
        root = ROOT / "inventories" / name
        assert {root / path for path in inventory.configs} == {p for p in CONFIGS if p.is_relative_to(root)}


# --- the plan ---------------------------------------------------------------------------------------------------------


def each(hosts: Iterable[str], value: list[Any]) -> dict[str, list[Any]]:
    return {host: list(value) for host in hosts}


def engines_of(name: str) -> dict[str, list[dict[str, Any]]]:
    hosts = PAGES.planned(PAGES.load(name)).as_dict()["hosts"]
    return {host: item["engines"] for host, item in hosts.items() if item["engines"]}


def tuning_of(name: str) -> dict[str, dict[str, Any]]:
    return {host: item["tuning"] for host, item in PAGES.planned(PAGES.load(name)).as_dict()["hosts"].items()}


def servers_of(name: str) -> dict[str, Counter[tuple[str, int]]]:
    """By service: how many servers the gateways have of each tier and weight."""
    hosts = PAGES.planned(PAGES.load(name)).as_dict()["hosts"]
    gateways = [item["gateway"] for item in hosts.values() if item["gateway"]]
    assert len(gateways) == 2
    assert gateways[0]["services"] == gateways[1]["services"]
    return {s["name"]: Counter((x["tier"], x["weight"]) for x in s["servers"]) for s in gateways[0]["services"]}


def test_plan_of_the_bank() -> None:
    engines = engines_of("example-bank")
    assert {h: [(e["name"], e["port"], e["model"]) for e in found] for h, found in engines.items()} == {
        **each(
            ("gpu-01", "gpu-02", "gpu-03"),
            [(f"assistant-{n}", 8000 + n, "deepseek-r1-distill-llama-70b") for n in (0, 1)],
        ),
        **each(
            ("kp-01", "kp-02", "kp-03", "kp-04"),
            [(f"assistant-{n}", 8000 + n, "deepseek-r1-distill-qwen-7b") for n in (0, 1)]
            + [(f"documents-{n}", 8100 + n, "qwen2.5-7b-instruct") for n in (0, 1)],
        ),
    }
    for host in ("gpu-01", "gpu-02", "gpu-03"):
        assert [(e["cards"], e["numa_nodes"]) for e in engines[host]] == [([0, 1, 2, 3], "0"), ([4, 5, 6, 7], "1")]
    for found in (engines["kp-01"], engines["kp-04"]):
        assert [(e["cpus"], e["numa_nodes"]) for e in found] == [
            ("0-31", "0"),
            ("32-63", "1"),
            ("64-95", "2"),
            ("96-127", "3"),
        ]
        assert {e["settings"]["dtype"] for e in found} == {"float32"}
    assert servers_of("example-bank") == {
        "assistant": {("active", 200): 2, ("active", 100): 4, ("standby", 100): 8},
        "documents": {("active", 100): 8},
    }
    standby = engines["kp-01"][0]["settings"]
    assert standby["served-model-name"] == ["assistant", "deepseek-r1-distill-qwen-7b"]
    assert standby["max-model-len"] == 16384


def test_plan_of_ascend() -> None:
    engines = engines_of("example-ascend")
    assert {h: [(e["name"], e["port"], e["model"]) for e in found] for h, found in engines.items()} == {
        **each(("npu-01", "npu-02"), [("reasoner-0", 8000, "deepseek-r1")]),
        **each(("npu-03", "npu-04"), [("chat-0", 8000, "qwen2.5-72b-instruct")]),
        "npu-05": [(f"quick-{n}", 8100 + n, "qwen2.5-7b-instruct") for n in range(8)],
        **each(("kp-01", "kp-02"), [(f"quick-{n}", 8100 + n, "qwen2.5-7b-instruct") for n in range(4)]),
    }
    ranks = [engines[host][0] for host in ("npu-01", "npu-02")]
    assert [e["replica"] for e in ranks] == [["npu-01", "npu-02"]] * 2
    assert [e["cards"] for e in ranks] == [list(range(8))] * 2
    assert [(e["settings"]["node-rank"], e["settings"].get("headless")) for e in ranks] == [(0, None), (1, True)]
    # About 680 GB of weights over 16 cards of 64 GB, attention and the unpacked latent of each rank counted.
    assert 40 < ranks[0]["memory"]["weights_bytes"] / GIB < 46
    assert ranks[0]["memory"]["concurrency"] >= 16
    assert ranks[0]["start_timeout_seconds"] > 3600
    assert [e["cards"] for e in engines["npu-05"]] == [[n] for n in range(8)]
    assert servers_of("example-ascend") == {
        "reasoner": {("active", 100): 1},
        "chat": {("active", 100): 2},
        "quick": {("active", 100): 8, ("standby", 100): 8},
    }
    # Engines, the port at which hosts of one engine meet, and what HCCL takes for each engine of several cards.
    ports = {host: tuning["reserved_ports"] for host, tuning in tuning_of("example-ascend").items()}
    assert (ports["npu-01"], ports["npu-03"], ports["npu-05"]) == (
        "8000,29501,61000-61063",
        "8000,61000-61063",
        "8100-8107",
    )
    runtimes = {h: found[0]["runtime"].split("-aarch64")[0] for h, found in engines.items()}
    assert Counter(runtimes.values()) == {"vllm-0.23.0-ascend": 4, "vllm-0.18.0-ascend": 1, "vllm-0.32.0-cpu": 2}


def test_plan_of_dcu() -> None:
    engines = engines_of("example-dcu")
    assert {h: [(e["name"], e["port"], e["model"], e["cards"]) for e in found] for h, found in engines.items()} == {
        **each(("dcu-01", "dcu-02"), [("chat-0", 8000, "qwen2.5-72b-instruct", list(range(8)))]),
        "dcu-03": [
            ("quick-0", 8100, "qwen2.5-7b-instruct", [0, 1, 2, 3]),
            ("quick-1", 8101, "qwen2.5-7b-instruct", [4, 5, 6, 7]),
        ],
    }
    assert {e["runtime"] for found in engines.values() for e in found} == {"vllm-0.18.1-dcu-x86_64-image-dtk26.04"}
    assert servers_of("example-dcu") == {"chat": {("active", 100): 2}, "quick": {("active", 100): 2}}


# --- what the articles had --------------------------------------------------------------------------------------------


def variables(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the variables of the whole fleet."""

    def apply(inventory: Inventory) -> Inventory:
        copy = deepcopy(dict(inventory.variables))
        change(copy)
        return replace(inventory, variables=copy)

    return apply


def deployment(service: str, index: int, **values: Any) -> Change:
    """Change a deployment."""
    return variables(lambda v: v["fleet_services"][service]["deployments"][index].update(values))


def engine(service: str, index: int, **values: Any) -> Change:
    """Change the engine options of a deployment."""
    return variables(
        lambda v: v["fleet_services"][service]["deployments"][index].setdefault("engine", {}).update(values)
    )


def artifact(model: str, **values: Any) -> Change:
    """Change the artifacts of a model."""

    def change(v: dict[str, Any]) -> None:
        for version in v["fleet_models"][model]["versions"].values():
            for found in version["artifacts"].values():
                found.update(values)

    return variables(change)


def said(group: str, name: str = "fleet_host", **values: Any) -> Change:
    """Change what the inventory says of the hosts of a group; mappings are merged."""

    def apply(inventory: Inventory) -> Inventory:
        copy: dict[str, Mapping[str, Any]] = deepcopy(dict(inventory.by_host))
        for host in inventory.groups.get(group, (group,)):
            own = dict(copy[host].get(name, {}))
            for key, value in values.items():
                own[key] = {**own.get(key, {}), **value} if isinstance(value, dict) else value
            copy[host] = {**copy[host], name: own}
        return replace(inventory, by_host=copy)

    return apply


def pins(group: str, **values: Any) -> Change:
    """Change the version pins of the hosts of a group."""
    return said(group, "fleet_versions", **values)


def several(*changes: Change) -> Change:
    """One change after the other."""

    def apply(inventory: Inventory) -> Inventory:
        for change in changes:
            inventory = change(inventory)
        return inventory

    return apply


CHAT_70B = "deepseek-r1-distill-llama-70b"
R1_CONFIG = json.loads((ROOT / "inventories/example-ascend/files/deepseek-r1/config.json").read_text())
#: One A100 an engine instead of four.
ON_ONE_CARD = deployment("assistant", 1, tensor_parallel=1, replicas_per_host=1)

#: Number of the correction, example, what an article had, and the code that it gives.
CASES: list[tuple[str, str, Change, str]] = [
    ("1 ROCm on Kunpeng", "bank", said("kunpeng_hosts", backend="rocm"), "SET-023"),
    ("3 apt on Kylin is the desktop", "bank", said("kunpeng_kylin", os={"codename": "desktop"}), "SET-001"),
    ("5 CentOS 7.9", "bank", said("a100_hosts", os={"id": "centos", "version": "7.9"}), "SET-003"),
    ("5 CentOS 8", "bank", said("a100_hosts", os={"id": "centos", "version": "8"}), "SET-003"),
    ("5 CentOS 8 on a gateway", "bank", said("gateways", os={"id": "centos", "version": "8"}), "SET-003"),
    ("6 torch for CUDA 11.8", "bank", pins("a100_hosts", cuda="11.8"), "SET-081"),
    ("6 torch 2.0.1", "bank", pins("kunpeng_hosts", torch="2.0.1"), "SET-081"),
    ("7 driver 535", "bank", said("a100_hosts", driver="535.183.01"), "SET-031"),
    ("7 driver 535 and the newest vLLM", "bank", said("h100_hosts", driver="535.183.01"), "SET-031"),
    ("11 device cpu", "bank", deployment("assistant", 2, device="cpu"), "INV-017"),
    ("11 device cuda:0", "bank", engine("assistant", 1, device="cuda:0"), "SVC-008"),
    ("13 fp16", "bank", engine("assistant", 1, dtype="fp16"), "SVC-016"),
    ("13 bf16", "bank", engine("assistant", 0, dtype="bf16"), "SVC-016"),
    ("14 bfloat16 on Kunpeng", "bank", engine("assistant", 2, dtype="bfloat16"), "SVC-011"),
    ("16 KV in FP8 on A100", "bank", engine("assistant", 1, kv_cache_dtype="fp8"), "SET-110"),
    ("18 int8", "bank", engine("assistant", 1, quantization="int8"), "SVC-016"),
    ("21 enable_cuda_graph", "bank", engine("assistant", 1, enable_cuda_graph=True), "SVC-008"),
    ("22 max_batch_size", "bank", engine("assistant", 1, max_batch_size=256), "SVC-008"),
    ("22 max_num_batches", "bank", engine("assistant", 1, max_num_batches=32), "SVC-008"),
    ("22 reuse_kv_cache", "bank", engine("assistant", 1, reuse_kv_cache=True), "SVC-008"),
    ("22 page_size", "bank", engine("assistant", 1, page_size=1024), "SVC-008"),
    ("22 num_cuda_streams", "bank", engine("assistant", 1, num_cuda_streams=4), "SVC-008"),
    ("24 swap_space", "bank", engine("assistant", 1, swap_space=16), "SVC-008"),
    ("25 chunked_prefill_size", "bank", engine("assistant", 1, chunked_prefill_size=512), "SVC-008"),
    ("27 speculative_model", "bank", engine("assistant", 1, speculative_model="Qwen/Qwen2.5-0.5B"), "SVC-008"),
    (
        "33 R1 on two A100",
        "bank",
        several(
            artifact(CHAT_70B, config=R1_CONFIG, quantization="w8a8"),
            deployment("assistant", 1, tensor_parallel=2, replicas_per_host=1),
        ),
        "CAP-001",
    ),
    ("34 one A100 for 16 bits", "bank", ON_ONE_CARD, "CAP-001"),
    (
        "35 INT8 on one A100 40 GB",
        "bank",
        several(
            ON_ONE_CARD,
            artifact(CHAT_70B, quantization="w8a8"),
            said("a100_hosts", cards={"chip": "A100-SXM4-40GB", "memory_gib": 40}),
        ),
        "CAP-001",
    ),
    ("37 TP over NUMA nodes, one card", "bank", said("a100_hosts", cards={"count": 1}), "SVC-023"),
    ("52 Python 3.9", "bank", pins("kunpeng_hosts", python="3.9"), "SET-083"),
    ("78 vLLM 0.2.0", "bank", pins("a100_hosts", vllm="0.2.0"), "SET-080"),
    ("3 apt on Kylin is the desktop", "ascend", said("ascend_kylin", os={"codename": "desktop"}), "SET-001"),
    ("12 device npu", "ascend", deployment("chat", 0, device="npu"), "INV-017"),
    ("12 device ascend", "ascend", engine("chat", 0, device="ascend"), "SVC-008"),
    ("19 w8a8", "ascend", engine("chat", 0, quantization="w8a8"), "SVC-016"),
    ("22 max_num_batches", "ascend", engine("chat", 0, max_num_batches=16), "SVC-008"),
    ("24 swap_space", "ascend", engine("chat", 0, swap_space=16), "SVC-008"),
    ("27 num_speculative_tokens", "ascend", engine("chat", 0, num_speculative_tokens=5), "SVC-008"),
    ("52 torch-npu 1.15", "ascend", pins("ascend_singles", torch_npu="1.15.0.post1"), "SET-081"),
    ("52 Python 3.9", "ascend", pins("ascend_singles", python="3.9"), "SET-083"),
    ("53 torch 2.3.1", "ascend", pins("ascend_singles", torch="2.3.1"), "SET-081"),
    ("53 CANN 8.0", "ascend", pins("ascend_singles", cann="8.0.0"), "SET-082"),
    ("53 new wheel on old glibc", "ascend", pins("ascend_kylin", vllm_ascend="0.23.0", methods=["wheel"]), "SET-014"),
    ("54 OM file", "ascend", artifact("qwen2.5-72b-instruct", source="file:///models/deepseek_ascend.om"), "MOD-010"),
    (
        "55 two Atlas 300I Pro",
        "ascend",
        said("ascend_singles", cards={"chip": "310P3", "count": 2, "memory_gib": 24}),
        "SVC-023",
    ),
    (
        "55 a 70B model on two Atlas 300I Pro",
        "ascend",
        several(
            said("ascend_singles", cards={"chip": "310P3", "count": 2, "memory_gib": 24}),
            deployment("chat", 0, tensor_parallel=2),
        ),
        "CAP-001",
    ),
    ("57 an old driver", "ascend", said("ascend_singles", hdk="23.0.3"), "SET-052"),
    ("71 first generation", "ascend", said("ascend_singles", cards={"chip": "910A", "memory_gib": 32}), "SET-042"),
    (
        "33 R1 on one server",
        "ascend",
        deployment("reasoner", 0, hosts_per_replica=1, tensor_parallel=8, data_parallel=1),
        "CAP-001",
    ),
    (
        "73 BF16 as the article divides it",
        "ascend",
        several(
            artifact("deepseek-r1", quantization=None),
            deployment(
                "reasoner",
                0,
                tensor_parallel=8,
                pipeline_parallel=2,
                data_parallel=1,
                expert_parallel=False,
                engine={"dtype": "bfloat16"},
            ),
        ),
        "CAP-001",
    ),
    (
        "73 BF16 as it is divided here",
        "ascend",
        several(artifact("deepseek-r1", quantization=None), deployment("reasoner", 0, engine={"dtype": "bfloat16"})),
        "CAP-001",
    ),
    ("11 device cuda", "dcu", deployment("quick", 0, device="cuda"), "INV-017"),
    ("12 device cuda", "dcu", engine("quick", 0, device="cuda"), "SVC-008"),
    ("27 speculative_model", "dcu", engine("quick", 0, speculative_model="Qwen/Qwen2.5-0.5B"), "SVC-008"),
    ("37 more cards than there are", "dcu", said("dcu_small", cards={"count": 1}), "SVC-023"),
    ("74 a DCU is ROCm", "dcu", said("dcu_hosts", backend="rocm"), "SET-021"),
    ("74 ROCm wheels", "dcu", pins("dcu_hosts", methods=["wheel"]), "SET-087"),
    ("74 the newest vLLM", "dcu", pins("dcu_hosts", vllm="0.33.0"), "SET-080"),
    ("76 bfloat16 on Z100L", "dcu", said("dcu_hosts", cards={"chip": "Z100L", "memory_gib": 32}), "SVC-024"),
]

#: The same for what is allowed and warned of.
WARNED: list[tuple[str, str, Change, str]] = [
    ("4 EulerOS 22.03", "bank", said("kunpeng_openeuler", os={"id": "euleros"}), "SET-002"),
    ("15 FP8 on A100", "bank", engine("assistant", 1, quantization="fp8"), "SET-111"),
    ("15 an FP8 checkpoint on A100", "bank", artifact(CHAT_70B, quantization="fp8"), "SET-111"),
    ("19 GPTQ", "ascend", engine("chat", 0, quantization="gptq"), "SET-113"),
    ("19 a GPTQ checkpoint", "ascend", artifact("qwen2.5-72b-instruct", quantization="gptq"), "SET-113"),
    ("23 block_size 4096", "ascend", engine("chat", 0, block_size=4096), "SVC-025"),
    ("79 Z100L", "dcu", said("dcu_large", cards={"chip": "Z100L", "memory_gib": 32}), "SET-067"),
]


def _ids(cases: list[tuple[str, str, Change, str]]) -> list[str]:
    return [f"{example}: {what}" for what, example, _, _ in cases]


@pytest.mark.parametrize(("what", "example", "change", "code"), CASES, ids=_ids(CASES))
def test_what_the_articles_had_is_an_error(what: str, example: str, change: Change, code: str) -> None:
    found = PAGES.problems(change(PAGES.load(f"example-{example}")))
    told = {p.code: p for p in errors(found)}
    assert code in told, [(p.code, p.path) for p in errors(found)]
    assert told[code].remedy
    assert told[code].remedy_zh


@pytest.mark.parametrize(("what", "example", "change", "code"), WARNED, ids=_ids(WARNED))
def test_what_the_articles_had_is_a_warning(what: str, example: str, change: Change, code: str) -> None:
    inventory = PAGES.load(f"example-{example}")
    assert code not in {p.code for p in PAGES.problems(inventory)}
    assert code in {p.code for p in PAGES.problems(change(inventory)) if p.severity == "warning"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_codes_of_a_page_are_tested(name: str) -> None:
    """Each row of a page with a code has a case of its number, and the other way round."""
    rows = re.findall(r"^\| ([0-9, -]+) \|.*\|([^|]*)\|$", _page(name, "README.md"), re.MULTILINE)
    shown = {code for _, last in rows for code in _codes(last)}
    cases = {code for _, example, _, code in CASES + WARNED if name.endswith(example)}
    assert shown | {"SET-014"} == cases | {"SET-014"}
    numbers = {n for text, _ in rows for n in _numbers(text)}
    assert {int(what.split()[0]) for what, example, _, _ in CASES + WARNED if name.endswith(example)} <= numbers


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
