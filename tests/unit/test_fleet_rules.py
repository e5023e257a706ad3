"""Each rule by a fleet that breaks exactly it, and many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import capacity_cases
import pytest
from fleet.inventory import ModelSeen, SecretState
from fleet.problems import RULES, as_json, problem, render
from fleet_samples import SEEN, SOURCE, TINY, Case, card_data, facts_data, on_ascend
from versions import set_cases as versions_cases

CASES: dict[str, Callable[[Case], object]] = {}
#: Families that no fleet in memory can break; what is named has a case of its own for each of their codes.
CASES_ELSEWHERE = {"FILE": "test_inventory_files.py"}


def case(code: str) -> Callable[[Callable[[Case], object]], Callable[[Case], object]]:
    def register(function: Callable[[Case], object]) -> Callable[[Case], object]:
        CASES[code] = function
        return function

    return register


def over_hosts(c: Case, size: int) -> None:
    """Let a replica span so many hosts."""
    c.deployment.update(hosts_per_replica=size, tensor_parallel=size)
    if size <= len(c.groups["cpu_hosts"]) and not c.background:
        c.on_gpus()
    c.background |= {"REL-003"}


def over_two_hosts(c: Case) -> None:
    over_hosts(c, 2)


def on_v100(c: Case) -> None:
    c.on_gpus()
    # The newest vLLM with kernels for it is none whose options were recorded.
    c.background.add("SET-120")
    for host in c.groups["cpu_hosts"]:
        c.facts[host].update(cards=[card_data(chip="Tesla V100-SXM2-32GB")])


def storage(c: Case, *mounts: dict[str, object]) -> None:
    c.background |= {"REL-004"}
    plain = {"path": "/srv/models", "type": "nfs", "source": "10.0.0.5:/models"}
    c.by_host["engine-1"] = {"fleet_storage": {"mounts": [plain | mount for mount in mounts]}}


CASES |= {
    "INV-001": lambda c: c.unknown.update(fleet_servces="engine-1"),
    "INV-002": lambda c: c.variables.pop("fleet_gateway"),
    "INV-003": lambda c: c.deployment.update(tensor_paralel=1),
    "INV-004": lambda c: c.service.update(port="8000"),
    "INV-005": lambda c: c.service.pop("max_model_len"),
    "INV-006": lambda c: c.deployment.update(tier="hot"),
    "INV-007": lambda c: c.found.append(problem("INV-007", "fleet_services", None, first="a", second="b")),
    "INV-008": lambda c: c.addresses.update({"engine-1": None}),
    "INV-009": lambda c: c.addresses.update({"engine-1": "engine-1.example"}),
    "INV-014": lambda c: c.add_host("engine 3", "10.77.0.13", "cpu_hosts"),
    "INV-015": lambda c: c.found.append(problem("INV-015", "fleet_services", None, reason="'x' is undefined")),
    "INV-019": lambda c: c.addresses.update({"engine-1": "127.0.0.1"}),
    "INV-020": lambda c: c.found.append(
        problem("INV-020", "fleet_state_dir", "/proc/x", directory="/proc/x", fault="Permission denied")
    ),
    "INV-021": lambda c: c.found.append(problem("INV-021", "report", "/proc/x", fault="Permission denied")),
    "SVC-028": lambda c: c.service.update(served_model_name="tiny chat"),
    "MOD-011": lambda c: c.artifact.update(source="https://ops:hunter2hunter2@models.example/tiny/", config=TINY),
    "SVC-001": lambda c: c.deployment.update(group="cpu_host"),
    "SVC-002": lambda c: c.groups.update(cpu_hosts=[]),
    "SVC-003": lambda c: c.service.update(model="tiny-chatt"),
    "SVC-004": lambda c: c.service.update(version="2026.1"),
    "SVC-007": lambda c: c.deployment["engine"].update(port=9000),
    "SVC-008": lambda c: c.deployment["engine"].update(device="cpu"),
    "SVC-009": lambda c: c.deployment["environment"].update(HF_TOKEN="not-a-real-one"),
    "SVC-010": lambda c: c.deployment["environment"].update(VLLM_HOST_IP="10.0.0.1"),
    "SVC-013": lambda c: c.deployment.update(tensor_parallel=2),
    "SVC-014": lambda c: c.deployment["engine"].update(max_num_seq=8),
    "SVC-016": lambda c: c.deployment["engine"].update(quantization="w8a8"),
    "SVC-017": lambda c: c.deployment.update(cpus_per_engine=5, replicas_per_host=2),
    "SVC-018": lambda c: c.deployment.update(memory_max_bytes=80 << 30),
    "INV-017": lambda c: c.deployment.update(tensor_parallel_size=1),
    "INV-018": lambda c: c.found.append(problem("INV-018", "fleet_state_dir", "inventories/bank/state")),
    "SVC-020": lambda c: (c.add_host("engine-3", "10.77.0.13", "cpu_hosts"), over_two_hosts(c)),
    "SVC-021": lambda c: over_hosts(c, 4),
    "SVC-022": lambda c: (c.on_gpus(), over_hosts(c, 2), c.deployment.update(tensor_parallel=3)),
    "SVC-023": lambda c: (c.on_gpus(), c.deployment.update(tensor_parallel=8, replicas_per_host=2)),
    "SVC-024": lambda c: (on_v100(c), c.deployment["engine"].update(dtype="bfloat16")),
    "SVC-026": lambda c: c.on_gpus().update(cards=[card_data(chip="Tesla V100-SXM2-32GB")]),
    "SVC-025": lambda c: (on_ascend(c), c.deployment["engine"].update(block_size=16)),
    "SVC-027": lambda c: (on_ascend(c), c.artifact.update(quantization="w8a8")),
    "MOD-010": lambda c: c.artifact.update(source="file:///srv/models/tiny.om"),
    "STO-005": lambda c: (c.artifact.update(source="nfs://models/tiny", config=TINY), c.background.add("REL-001")),
    "REL-001": lambda c: c.artifact.update(source="hf://org/tiny@main", config=TINY),
    "REL-002": lambda c: c.on_gpus(),
    "REL-003": lambda c: over_hosts(c, 2),
    "REL-004": lambda c: c.by_host.update({"engine-1": {"fleet_storage": {"mounts": []}}}),
    "STO-001": lambda c: storage(c, {"path": "srv/models"}),
    "STO-002": lambda c: storage(c, {"path": "/srv/models"}, {"path": "/srv/models/one"}),
    "STO-003": lambda c: storage(c, {"source": "10.0.0.5/models"}),
    "STO-004": lambda c: storage(c, {"type": "lustre", "source": "mgs@tcp:/models", "rdma": True}),
    "HOST-011": lambda c: c.by_host.update({"engine-1": {"fleet_host": {"arch": "aarch64"}}}),
    "HOST-012": lambda c: c.on_gpus().update(cards=[card_data(health="GPU has fallen off the bus")]),
    "HOST-013": lambda c: c.on_gpus().update(cards=[card_data(kernel_driver="nouveau")]),
    "HOST-014": lambda c: c.on_gpus().update(cards=[card_data(processes=[{"pid": 7, "name": "python3"}])]),
    "HOST-015": lambda c: c.on_gpus()["card_tools"]["nvidia"].update(library_version="580.126.09"),
    "HOST-016": lambda c: c.on_gpus()["card_tools"]["nvidia"].update(fabric_manager=None),
    "HOST-017": lambda c: c.facts["engine-1"].update(findings=["npu-smi: did not answer within 10 s"]),
    "HOST-018": lambda c: c.facts["engine-1"].update(arch=""),
    "NET-001": lambda c: c.facts["engine-1"]["interfaces"][1].update(mtu=9000),
    "NET-002": lambda c: (over_hosts(c, 2), c.facts["engine-1"]["interfaces"][1].update(speed_mbps=25000)),
    "MOD-009": lambda c: (c.artifact.update(config="files/c.json"), c.configs.update({"files/c.json": "is not JSON"})),
    "SVC-019": lambda c: c.deployment.update(tier="standby"),
    "GW-001": lambda c: c.gateway.update(group="gateway"),
    "GW-002": lambda c: c.groups.update(gateways=[]),
    "GW-003": lambda c: c.gateway.pop("vips"),
    "GW-004": lambda c: c.gateway.update(vips=["10.77.0.100"]),
    "GW-005": lambda c: c.gateway.update(vips=["10.78.0.100/16"]),
    "GW-006": lambda c: c.gateway.update(vips=["10.77.0.12/24"]),
    "GW-007": lambda c: c.gateway.update(vips=["10.77.0.100/24", "10.77.0.100/24"]),
    "GW-008": lambda c: c.gateway.update(virtual_router_id=256),
    "GW-009": lambda c: c.groups.update(gateways=["gateway-1"]),
    "GW-010": lambda c: c.gateway.update(metrics_port=80),
    "GW-011": lambda c: c.gateway.update(vips=["fd00::100/64"]),
    "GW-014": lambda c: c.gateway.update(vips=["10.77.0.255/24"]),
    "GW-015": lambda c: c.gateway.update(vips=["10.77.0.100/16"]),
    "MOD-001": lambda c: c.artifact.update(source="s3://bucket/model"),
    "MOD-002": lambda c: c.seen.update({SOURCE: ModelSeen(exists=False, has_config=False)}),
    "MOD-003": lambda c: c.seen.update({SOURCE: ModelSeen(exists=True, weight_files=1, pointers=("a.safetensors",))}),
    "MOD-004": lambda c: c.seen.update({SOURCE: ModelSeen(exists=True, weight_files=0)}),
    "MOD-005": lambda c: c.artifact.update(source="models/tiny"),
    "MOD-006": lambda c: c.seen.update({SOURCE: ModelSeen(exists=True, weight_files=1, has_config=False)}),
    "MOD-007": lambda c: c.artifact.update(manifest="abc"),
    "MOD-008": lambda c: c.seen.update(
        {SOURCE: ModelSeen(True, weight_files=1, damaged=(("a.safetensors", "is cut"),))}
    ),
    "HOST-001": lambda c: c.facts.pop("engine-2"),
    "HOST-009": lambda c: c.facts.update({"engine-1": facts_data("10.77.0.99")}),
}


@case("INV-010")
def duplicate_address(c: Case) -> None:
    c.addresses["engine-2"] = c.addresses["engine-1"]
    c.facts["engine-2"] = facts_data(c.addresses["engine-1"])


@case("INV-011")
def no_secret(c: Case) -> None:
    c.secret = SecretState()


@case("INV-012")
def weak_secret(c: Case) -> None:
    c.secret = SecretState(defined=True, length=8)


@case("INV-013")
def plain_secret(c: Case) -> None:
    c.secret = SecretState(defined=True, length=40, plain_file="all.yml")


@case("INV-016")
def bad_name(c: Case) -> None:
    c.variables["fleet_services"]["Chat Service"] = c.variables["fleet_services"].pop("chat")


@case("SVC-006")
def same_ports(c: Case) -> None:
    c.variables["fleet_services"]["other"] = {**c.service, "served_model_name": "other", "port": 8000}


@case("SVC-011")
def no_bfloat16(c: Case) -> None:
    c.deployment["engine"]["dtype"] = "bfloat16"
    c.facts["engine-1"]["cpu"] = {"count": 8, "flags": ["avx512f"]}


@case("SVC-012")
def promised_bfloat16(c: Case) -> None:
    c.deployment["engine"]["dtype"] = "bfloat16"
    c.facts["engine-1"]["virtual"] = True


@case("SVC-015")
def same_names(c: Case) -> None:
    c.variables["fleet_services"]["other"] = {**c.service, "port": 9000}


@case("GW-012")
def no_interface(c: Case) -> None:
    # The address is bound to an interface that the probe of a shell could not name.
    c.facts["gateway-1"]["interfaces"] = []


@case("GW-013")
def too_many_gateways(c: Case) -> None:
    for number in range(100):
        c.add_host(f"more-{number}", f"10.77.0.{number + 120}", "gateways")


def old_system(c: Case) -> None:
    c.facts["engine-1"]["os"] = {"id": "centos", "version_id": "7", "pretty_name": "CentOS Linux 7 (Core)"}
    c.facts["engine-1"]["glibc"] = "2.17"


@case("HOST-006")
def engine_port_taken(c: Case) -> None:
    c.facts["engine-1"]["listening"] = [{"port": 8000, "process": "python3", "unit": "notebook.service"}]


@case("HOST-007")
def gateway_port_taken(c: Case) -> None:
    c.facts["gateway-1"]["listening"] = [{"port": 80, "process": "nginx", "unit": "nginx.service"}]


@case("HOST-008")
def old_facts(c: Case) -> None:
    c.age_seconds = 3 * 86400


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("dtype", "float33", "float32"),
        ("max_num_seqs", "eight", "max_num_seqs takes a whole number"),
        ("max_num_seqs", -8, "at least 1"),
        ("kv_cache_memory_bytes", 0, "at least 1"),
        ("enforce_eager", 7, "enforce_eager takes true or false"),
    ],
)
def test_values_that_vllm_refuses(option: str, value: object, words: str) -> None:
    c = Case()
    c.deployment["engine"][option] = value
    found = c.problems()
    assert {p.code for p in found} == {"SVC-016"}, render(found)
    assert words in render(found)


@pytest.mark.parametrize(("dtype", "codes"), [(None, ["SET-072"]), ("auto", ["SET-072"]), ("float32", [])])
def test_bfloat16_is_warned_of_where_vllm_would_choose_it(dtype: str | None, codes: list[str]) -> None:
    c = Case()
    c.facts["engine-1"]["cpu"] = {"count": 8, "flags": ["avx512f"]}
    c.deployment["engine"]["dtype"] = dtype
    if dtype is None:
        del c.deployment["engine"]["dtype"]
    assert [p.code for p in c.problems()] == codes


def test_a_variable_that_cannot_be_computed_is_not_missing() -> None:
    c = Case()
    del c.variables["fleet_services"]
    c.found.append(problem("INV-015", "fleet_services", None, reason="'x' is undefined"))
    assert {p.code for p in c.problems()} == {"INV-015"}


def test_the_sample_has_no_problem() -> None:
    assert Case().problems() == []


def test_every_rule_has_a_case() -> None:
    # One table of cases a family that has its own; each has a test that tries them.
    families = (CASES, versions_cases.CASES, capacity_cases.CASES)
    here = sorted(code for code in RULES if code.partition("-")[0] not in CASES_ELSEWHERE)
    assert sorted(code for cases in families for code in cases) == here
    assert all((Path(__file__).parent / name).is_file() for name in CASES_ELSEWHERE.values())


@pytest.mark.parametrize("code", sorted(CASES))
def test_rule(code: str) -> None:
    spoiled = Case()
    CASES[code](spoiled)
    found = spoiled.problems()
    assert {p.code for p in found} - (spoiled.background - {code}) == {code}, render(found)
    assert all(p.severity == RULES[p.code].severity and p.path and p.remedy and p.remedy_zh for p in found)


def test_twelve_faults_are_reported_at_once() -> None:
    c = Case()
    planted = [
        "INV-001", "INV-003", "INV-009", "SVC-001", "SVC-003", "SVC-007", "SVC-008", "SVC-009", "GW-004", "GW-008",
        "MOD-007", "HOST-007",
    ]  # fmt: skip
    for code in planted:
        CASES[code](c)
    no_secret(c)
    old_system(c)
    # One fault must not hide another, and must not make up others either.
    assert {p.code for p in c.problems()} == {*planted, "INV-011", "SET-003"}


@pytest.mark.parametrize(
    ("spoil", "hint"),
    [
        (CASES["INV-001"], "did you mean fleet_services?"),
        (CASES["INV-003"], "did you mean tensor_parallel?"),
        (CASES["SVC-001"], "did you mean cpu_hosts?"),
        (CASES["SVC-003"], "did you mean tiny-chat?"),
        (CASES["SVC-004"], "did you mean 2026.01?"),
        (CASES["SVC-014"], "did you mean max_num_seqs?"),
        (CASES["SVC-008"], "remove it; the installed runtime decides"),
        (CASES["GW-004"], "write it like 10.77.0.100/24"),
    ],
)
def test_remedy_names_what_to_write(spoil: Callable[[Case], object], hint: str) -> None:
    c = Case()
    spoil(c)
    assert hint in [p.remedy for p in c.problems()]


def test_places_are_those_of_the_inventory() -> None:
    c = Case()
    c.deployment["tensor_paralel"] = 2
    c.artifact["sourc"] = "x"
    assert [p.path for p in c.problems()] == [
        'fleet_models.tiny-chat.versions["2026.01"].artifacts.default.sourc',
        "fleet_services.chat.deployments[0].tensor_paralel",
    ]


def test_no_problem_shows_a_secret() -> None:
    c = Case()
    c.deployment["environment"]["HF_TOKEN"] = "hunter2-hunter2"
    c.deployment["engine"]["api_key"] = "hunter2-hunter2"
    c.deployment["engine"]["speculative_config"] = {"draft": {"hf_token": "hunter2-hunter2"}}
    c.deployment["api_key"] = "hunter2-hunter2"
    found = c.problems()
    assert len(found) == 4
    assert "hunter2" not in render(found) + str(as_json(found))


def test_own_engine_and_gateway_may_hold_their_ports() -> None:
    c = Case()
    c.facts["engine-1"]["listening"] = [{"port": 8000, "process": "vllm", "unit": "vllm-engine@chat-0.service"}]
    c.facts["gateway-1"]["listening"] = [{"port": 80, "process": "haproxy", "unit": "haproxy.service"}]
    assert c.problems() == []


@pytest.mark.parametrize(
    ("release", "code"),
    [
        ({"id": "kylin", "version_id": "V10", "pretty_name": "Kylin Linux Advanced Server V10 (Sword)"}, None),
        ({"id": "kylin", "id_like": "debian", "version_id": "v10", "pretty_name": "Kylin V10 SP1"}, "SET-001"),
        ({"id": "kylin", "version_id": "V10", "pretty_name": "Kylin Linux Desktop V10"}, "SET-001"),
        ({"id": "centos", "version_id": "8", "pretty_name": "CentOS Linux 8"}, "SET-003"),
        ({"id": "openEuler", "version_id": "24.03", "pretty_name": "openEuler 24.03 (LTS-SP1)"}, None),
    ],
)
def test_systems(release: dict[str, str], code: str | None) -> None:
    c = Case()
    c.facts["engine-1"]["os"] = release
    # What the row of the system says of glibc and Python is less than what the sample measured.
    assert [p.code for p in c.problems() if p.code not in ("SET-007", "SET-020")] == ([code] if code else [])


def test_a_missing_group_is_not_called_empty_too() -> None:
    c = Case()
    c.groups.pop("cpu_hosts")
    assert [p.code for p in c.problems()] == ["SVC-001"]


def test_engine_and_gateway_on_one_host_share_no_port() -> None:
    c = Case()
    c.groups["gateways"] = ["engine-1", "gateway-2"]
    c.service["port"] = 8404
    assert [p.code for p in c.problems()] == ["GW-010"]
    c.service["port"] = 8000
    assert c.problems() == []


def test_weights_of_a_model_that_is_not_there_are_not_counted() -> None:
    c = Case()
    c.seen = {SOURCE: SEEN}
    assert c.good().slices["engine-1"].engines[0].start_timeout_seconds == 960


@pytest.mark.parametrize(
    ("where", "value", "code", "path"),
    [
        ("engine", {"kv_cache_dtype": "fp8"}, "SET-110", "fleet_services.chat.deployments[0].engine.kv_cache_dtype"),
        ("engine", {"quantization": "fp8"}, "SET-111", "fleet_services.chat.deployments[0].engine.quantization"),
        ("engine", {"quantization": "awq_marlin"}, None, ""),
        (
            "artifact", {"quantization": "fp8"}, "SET-111",
            'fleet_models.tiny-chat.versions["2026.01"].artifacts.default.quantization',
        ),
        (
            "config", {"quantization_config": {"quant_method": "fp8"}}, "SET-111",
            'fleet_models.tiny-chat.versions["2026.01"].artifacts.default.source',
        ),
    ],
)  # fmt: skip
def test_what_an_a100_does_not_compute(
    where: str, value: dict[str, object], code: str | None, path: str | None
) -> None:
    c = Case()
    c.on_gpus()
    if where == "config":
        c.seen[SOURCE] = replace(SEEN, config=value)
    else:
        (c.deployment["engine"] if where == "engine" else c.artifact).update(value)
    found = [p for p in c.problems() if p.code not in c.background and not p.code.startswith("CAP")]
    assert [(p.code, p.path) for p in found] == ([(code, path)] if code else [])


@pytest.mark.parametrize("where", ["environment", "engine", "nested"])
def test_a_password_in_an_address_is_refused_and_not_shown(where: str) -> None:
    c = Case()
    address = "http://user:hunter2-hunter2@proxy.bank.example:3128"
    if where == "environment":
        c.deployment["environment"]["HTTPS_PROXY"] = address
    elif where == "engine":
        c.deployment["engine"]["otlp_traces_endpoint"] = address
    else:
        c.deployment["engine"]["speculative_config"] = {"model": ["x", {"at": address}]}
    found = c.problems()
    assert "SVC-009" in {p.code for p in found}
    assert "hunter2" not in render(found) + str(as_json(found))
    c = Case()
    c.deployment["environment"]["HTTPS_PROXY"] = "http://proxy.bank.example:3128"
    assert c.problems() == []
