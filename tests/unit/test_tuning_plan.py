"""What the plan asks of a host's kernel, by what the host is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from fleet.plan import Tuning
from fleet.target.tuning import GROUPS, merged
from fleet.target.tuning_settings import ports_of, ports_text
from fleet.tuning_plan import ranges
from fleet_samples import Case
from hypothesis import given
from hypothesis import strategies as st

NUMA = {"vm.zone_reclaim_mode", "kernel.numa_balancing"}


def tuning_of(c: Case, host: str = "engine-1") -> Tuning:
    return c.good().slices[host].tuning


def test_a_host_with_engines_on_cpus() -> None:
    c = Case()
    c.deployment["replicas_per_host"] = 2
    found = tuning_of(c)
    assert found.sysctl.keys() == {"vm.max_map_count", "vm.swappiness", "net.core.somaxconn", *NUMA}
    assert (found.thp, found.governor) == ({"enabled": "madvise"}, "performance")
    assert found.reserved_ports == "8000-8001"
    assert found.limits == {"LimitMEMLOCK": "infinity", "LimitNOFILE": "1048576", "MemorySwapMax": "0"}
    assert found.engine_shm_bytes is None


@pytest.mark.parametrize(
    ("facts", "gone"),
    [({"numa": [{"id": 0, "cpus": list(range(8))}]}, NUMA), ({"virtual": True}, {"governor"})],
)
def test_what_a_host_has_no_use_for(facts: dict[str, Any], gone: set[str]) -> None:
    c = Case()
    whole = tuning_of(c)
    c.facts["engine-1"].update(facts)
    assert whole.reasons.keys() - tuning_of(c).reasons.keys() == gone


def test_a_gateway() -> None:
    found = tuning_of(Case(), "gateway-1")
    assert found.sysctl.keys() == {"net.core.somaxconn", "net.ipv4.ip_nonlocal_bind", "vm.swappiness"}
    assert found.reserved_ports == "80,8404-8405"
    assert (found.thp, found.governor, found.limits, found.engine_shm_bytes) == ({}, None, {}, None)


def test_engines_with_several_cards_get_shared_memory() -> None:
    c = Case()
    c.on_gpus()
    assert tuning_of(c).engine_shm_bytes is None
    c.deployment["tensor_parallel"] = 2
    assert tuning_of(c).engine_shm_bytes == 512 << 30


@pytest.mark.parametrize("host", ["engine-1", "gateway-1"])
def test_everything_has_a_reason_and_a_source(host: str) -> None:
    found = tuning_of(Case(), host)
    fields = {"thp", "governor", "reserved_ports", "limits"}
    used = {name for name in fields if getattr(found, name)}
    assert found.reasons.keys() == found.sysctl.keys() | used
    assert all(text.endswith(")") and len(text) > 40 for text in found.reasons.values())


def test_the_host_understands_all_of_it() -> None:
    c = Case()
    c.on_gpus()
    c.deployment["tensor_parallel"] = 2
    found = tuning_of(c)
    plan = c.good().as_dict()["hosts"]["engine-1"]["tuning"]
    wanted = merged(plan, {}, [], [])
    assert (wanted.sysctl, wanted.thp, wanted.limits) == (found.sysctl, found.thp, found.limits)
    assert (wanted.governor, wanted.reserved_ports) == (found.governor, found.reserved_ports)
    assert wanted.engine_shm_bytes == found.engine_shm_bytes
    assert wanted.reasons == found.reasons
    assert {name for name in found.reasons if name not in found.sysctl} <= set(GROUPS)
    every = [*found.sysctl, "thp", "governor", "reserved_ports", "limits", "engine_shm"]
    nothing = merged(plan, {}, [], every)
    assert not any((nothing.sysctl, nothing.thp, nothing.limits, nothing.governor, nothing.reserved_ports))
    assert nothing.engine_shm_bytes == 0


@given(st.sets(st.integers(0, 65535), max_size=30))
def test_lists_of_ports(ports: Iterable[int]) -> None:
    assert ports_of(ranges(ports)) == ports
    assert ports_text(set(ports)) == ranges(ports)
