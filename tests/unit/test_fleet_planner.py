"""The plan: its shape, and what holds for every fleet."""

from __future__ import annotations

import json
import random
import re

import pytest
from fleet.engine_settings import OWNED_ENVIRONMENT, OWNED_OPTIONS, start_timeout
from fleet.placement import cpu_list
from fleet.plan import Plan, Tuning, digest
from fleet.problems import SECRET_NAME
from fleet.version_sets import engine_args
from fleet_samples import SECRET, Case, facts_data
from hypothesis import given, settings
from hypothesis import strategies as st

DOCUMENTED = {
    name: set(text.split())
    for name, text in {
        "host": "host plan_hash slice_hash address groups tuning runtimes models engines gateway vip scrape",
        "runtime": "id backend vllm python method lock build_host torch cuda driver_min vllm_ascend torch_npu cann hdk"
        " dtk image",
        "model": "model version artifact source manifest path",
        "engine": "name service model version served_model_name model_path runtime address port settings environment"
        " cpus numa_nodes memory_max_bytes cards replica memory start_timeout_seconds shutdown_timeout_seconds"
        " stop_timeout_seconds max_request_seconds",
        "tuning": "sysctl thp governor reserved_ports limits engine_shm_bytes reasons",
        "gateway": "port metrics_address metrics_port check_port vip_addresses max_request_seconds services",
        "vip": "interface instances",
        "scrape": "job address port path labels",
        "instance": "name virtual_router_id priority advert_interval_seconds addresses unicast_source unicast_peers"
        " check_port",
    }.items()
}


@st.composite
def fleets(draw: st.DrawFn) -> Case:
    """Fleets without faults: some engine hosts, some gateways, services on disjoint ports."""
    c = Case()
    for number in range(draw(st.integers(0, 6))):
        c.add_host(f"e{number}", f"10.77.0.{30 + number}", "cpu_hosts")
    for number in range(draw(st.integers(0, 3))):
        c.add_host(f"g{number}", f"10.77.0.{60 + number}", "gateways")
    original = c.variables["fleet_services"].pop("chat")
    for number in range(draw(st.integers(1, 3))):
        service = json.loads(json.dumps(original))
        service |= {"port": 8000 + 100 * number, "served_model_name": f"model-{number}"}
        first = service["deployments"][0] | {"replicas_per_host": draw(st.integers(1, 3))}
        if draw(st.booleans()):
            first["cpus_per_engine"] = draw(st.integers(1, 2)) if first["replicas_per_host"] == 1 else None
            first = {k: v for k, v in first.items() if v is not None}
        service["deployments"] = [first]
        if draw(st.booleans()):
            service["deployments"].append(
                {"group": "cpu_hosts", "tier": "standby", "weight": draw(st.integers(1, 256))}
            )
        c.variables["fleet_services"][f"s{number}"] = service
    return c


@given(fleets(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_same_fleet_same_plan_whatever_the_order(c: Case, rng: random.Random) -> None:
    first = c.good()
    again = Case()
    for name in ("variables", "addresses", "groups", "facts"):
        items = list(getattr(c, name).items())
        rng.shuffle(items)
        setattr(again, name, dict(items))
    for members in again.groups.values():
        rng.shuffle(members)
    services = list(again.variables["fleet_services"].items())
    rng.shuffle(services)
    again.variables["fleet_services"] = dict(services)
    assert again.good().as_dict() == first.as_dict()


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_ports_names_and_cpus_are_unique_on_a_host(c: Case) -> None:
    for item in c.good().slices.values():
        for values in ([e.port for e in item.engines], [e.name for e in item.engines]):
            assert len(values) == len(set(values))
        pinned = [cpu for e in item.engines if e.cpus for cpu in expand(e.cpus)]
        assert len(pinned) == len(set(pinned))


@given(fleets())
@settings(max_examples=60, deadline=None)
def test_another_host_changes_no_other_hosts_engines(c: Case) -> None:
    before = {host: item.engines for host, item in c.good().slices.items()}
    c.add_host("a-new-one", "10.77.0.200", "cpu_hosts")
    after = c.good().slices
    assert {host: after[host].engines for host in before} == before


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_gateways_agree_and_know_every_engine(c: Case) -> None:
    made = c.good()
    engines = {(item.address, e.port) for item in made.slices.values() for e in item.engines}
    gateways = [item for item in made.slices.values() if item.gateway]
    for item in gateways:
        assert item.gateway is not None
        assert item.gateway.services == gateways[0].gateway.services  # type: ignore[union-attr]
        servers = [s for service in item.gateway.services for s in service.servers]
        assert {(s.address, s.port) for s in servers} == engines
        assert len({s.name for s in servers}) == len(servers)
    instances = [item.vip.instances[0] for item in gateways if item.vip]
    assert len({i.priority for i in instances}) == len(gateways)
    sources = {i.unicast_source for i in instances}
    assert all(set(i.unicast_peers) == sources - {i.unicast_source} for i in instances)
    assert all(1 <= i.priority <= 254 for i in instances)


@given(fleets())
@settings(max_examples=40, deadline=None)
def test_the_plan_holds_no_secret(c: Case) -> None:
    c.variables["fleet_engine_api_key"] = SECRET
    text = json.dumps(c.good().as_dict())
    assert SECRET not in text
    assert not [key for key in re.findall(r'"([^"]+)":', text) if SECRET_NAME.search(key)]


def expand(cpus: str) -> list[int]:
    found = []
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def test_shape_is_the_documented_one() -> None:
    data = Case().good().as_dict()
    assert set(data) == {"plan_hash", "hosts"}
    engine_host, gateway_host = data["hosts"]["engine-1"], data["hosts"]["gateway-1"]
    assert set(engine_host) == set(gateway_host) == DOCUMENTED["host"]
    for key, name in (("runtimes", "runtime"), ("models", "model"), ("engines", "engine")):
        assert set(engine_host[key][0]) == DOCUMENTED[name]
    assert set(engine_host["tuning"]) == set(gateway_host["tuning"]) == DOCUMENTED["tuning"]
    assert set(gateway_host["gateway"]) == DOCUMENTED["gateway"]
    assert set(gateway_host["vip"]) == DOCUMENTED["vip"]
    assert set(engine_host["scrape"][0]) == set(gateway_host["scrape"][0]) == DOCUMENTED["scrape"]
    assert set(gateway_host["vip"]["instances"][0]) == DOCUMENTED["instance"]
    assert engine_host["gateway"] is None
    assert engine_host["vip"] is None
    assert (engine_host["groups"], gateway_host["groups"]) == (["fleet_engine"], ["fleet_gateway"])


def test_engine_of_the_sample() -> None:
    engine = Case().good().slices["engine-1"].engines[0]
    path = "/var/lib/vllm-fleet/models/tiny-chat/2026.01/default"
    assert engine.settings == {
        "dtype": "float32",
        "enforce-eager": True,
        "host": "10.77.0.11",
        "kv-cache-memory-bytes": 67108864,
        "max-model-len": 512,
        "max-num-seqs": 8,
        "model": path,
        "port": 8000,
        "served-model-name": "tiny-chat",
        "shutdown-timeout": 60,
        "tensor-parallel-size": 1,
    }
    assert engine.environment == {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": "960",
        "VLLM_HOST_IP": "10.77.0.11",
        "VLLM_NO_USAGE_STATS": "1",
    }
    assert (engine.shutdown_timeout_seconds, engine.stop_timeout_seconds) == (60, 90)


def test_threads_are_the_share_of_an_engine_unless_given() -> None:
    c = Case()
    del c.deployment["environment"]
    c.deployment["replicas_per_host"] = 2
    environments = [e.environment for e in c.good().slices["engine-1"].engines]
    assert [e["OMP_NUM_THREADS"] for e in environments] == ["4", "4"]


def test_pinned_engines_stay_on_one_numa_node() -> None:
    c = Case()
    c.deployment.update(cpus_per_engine=3, replicas_per_host=2)
    del c.deployment["environment"]
    engines = c.good().slices["engine-1"].engines
    assert [(e.cpus, e.numa_nodes) for e in engines] == [("0-2", "0"), ("4-6", "1")]
    assert [e.environment["VLLM_CPU_OMP_THREADS_BIND"] for e in engines] == ["0-2", "4-6"]
    assert [e.environment["OMP_NUM_THREADS"] for e in engines] == ["3", "3"]


def test_an_engine_too_large_for_a_node_spans_them() -> None:
    c = Case()
    c.deployment["cpus_per_engine"] = 6
    engine = c.good().slices["engine-1"].engines[0]
    assert (engine.cpus, engine.numa_nodes) == ("0-5", "0-1")


def test_one_host_builds_where_runtimes_are_shared() -> None:
    c = Case()
    assert [c.good().slices[h].runtimes[0].build_host for h in ("engine-1", "engine-2")] == ["engine-1", "engine-2"]
    c.variables["fleet_shared_runtimes"] = True
    assert [c.good().slices[h].runtimes[0].build_host for h in ("engine-1", "engine-2")] == ["engine-1", "engine-1"]


def test_own_artifact_of_a_backend_is_chosen() -> None:
    c = Case()
    artifacts = c.variables["fleet_models"]["tiny-chat"]["versions"]["2026.01"]["artifacts"]
    artifacts["cpu"] = {"source": "file:///srv/models/tiny-cpu"}
    engine = c.good().slices["engine-1"].engines[0]
    assert engine.model_path.endswith("/cpu")
    assert [m.source for m in c.good().slices["engine-1"].models] == ["file:///srv/models/tiny-cpu"]


def test_a_host_without_a_role_is_tuned_for_nothing() -> None:
    c = Case()
    c.addresses["spare"] = "10.77.0.50"
    c.facts["spare"] = facts_data("10.77.0.50")
    item = c.good().slices["spare"]
    assert (item.groups, item.engines, item.tuning) == ([], [], Tuning({}))


def test_interface_is_the_one_in_the_network_of_the_vip() -> None:
    c = Case()
    c.facts["gateway-1"]["interfaces"] = [
        {"name": "a0", "addresses": ["192.0.2.5/24"]},
        {"name": "b0", "addresses": ["10.77.0.21/24"]},
    ]
    vip = c.good().slices["gateway-1"].vip
    assert vip is not None
    assert vip.interface == "b0"


def test_start_timeout_counts_the_bytes() -> None:
    assert start_timeout(0, None) == 900
    assert start_timeout(100_000_000_000, None) == 900 + 2000 + 40  # rounded up to a minute
    assert start_timeout(100_000_000_000, 2_000_000_000) == 900 + 120  # 100 s, rounded up to a minute


def test_hash_is_over_the_content() -> None:
    made = Case().good()
    hosts = {h: {**d, "plan_hash": ""} for h, d in made.as_dict()["hosts"].items()}
    assert made.plan_hash == digest(hosts)
    assert Plan.of(made.slices).plan_hash == made.plan_hash
    c = Case()
    c.service["max_model_len"] = 513
    assert c.good().plan_hash != made.plan_hash
    assert c.good().slices["gateway-1"].slice_hash == made.slices["gateway-1"].slice_hash


def test_no_usable_option_looks_like_a_secret() -> None:
    for version in engine_args.recorded_versions():
        options = set(engine_args.engine_version(version).options)
        assert {o for o in options if SECRET_NAME.search(o)} == {"api-key", "hf-token"}
    assert set(OWNED_OPTIONS) <= set(engine_args.engine_version("0.32.0").options)
    assert "VLLM_API_KEY" in OWNED_ENVIRONMENT


@pytest.mark.parametrize(("cpus", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 8], "0-2,8"), ([5, 3, 4], "3-5")])
def test_cpu_list(cpus: list[int], text: str) -> None:
    assert cpu_list(cpus) == text


def test_every_engine_and_every_gateway_is_scraped_once() -> None:
    c = Case()
    c.service["deployments"].append({"group": "cpu_hosts", "tier": "standby"})
    c.groups["gateways"] = ["engine-1", "gateway-2"]
    made = c.good()
    found = {(t.job, t.address, t.port, t.labels.get("tier")) for s in made.slices.values() for t in s.scrape}
    assert found == {
        *(
            ("vllm", f"10.77.0.1{n}", port, tier)
            for n in (1, 2)
            for port, tier in ((8000, "active"), (8001, "standby"))
        ),
        ("haproxy", "10.77.0.11", 8405, None),
        ("haproxy", "10.77.0.22", 8405, None),
    }
    target = made.slices["engine-1"].scrape[0]
    assert target.path == "/metrics"
    assert target.labels == {
        "host": "engine-1",
        "engine": "chat-0",
        "service": "chat",
        "model": "tiny-chat",
        "model_version": "2026.01",
        "tier": "active",
        "vllm": "0.32.0",
    }


def test_only_the_first_host_of_a_replica_is_scraped() -> None:
    c = Case()
    c.on_gpus()
    c.deployment.update(tensor_parallel=8, pipeline_parallel=2, hosts_per_replica=2)
    made = c.good()
    assert [len(made.slices[h].scrape) for h in ("engine-1", "engine-2")] == [1, 0]
