"""What an operator may write: the ``fleet_`` variables. Unknown keys are errors, renamed ones name their replacement.

Controller only (pydantic). Shape and types are checked here; everything that needs more than one place of the
inventory, a host's facts or the version matrix is checked in ``rules`` and ``planner``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ..problems import Problem, path_of, problem
from .host_shapes import Host, Storage, Versions
from .reading import UNKNOWN, each, salvage, wrong_type
from .shapes import Deployment, Gateway, Model, Service, Strict

__all__ = [
    "UNKNOWN",
    "Contract",
    "Deployment",
    "Gateway",
    "HostVariables",
    "Model",
    "Parsed",
    "Service",
    "parse",
]


class Contract(Strict):
    """All variables that operators write for the product."""

    fleet_models: dict[str, Model] = Field(description="What can be served, by model name.", min_length=1)
    fleet_services: dict[str, Service] = Field(description="What clients see, by service name.", min_length=1)
    fleet_gateway: Gateway = Field(description="How clients get in.")
    fleet_engine_api_key: str = Field(
        description="Secret between gateways and engines, at least 16 characters; from a vault. Never in a plan."
    )
    fleet_shared_runtimes: bool = Field(
        default=False, description="Engine hosts share /opt/vllm-fleet/runtimes: one host builds for all."
    )
    fleet_state_dir: str | None = Field(
        default=None,
        description="Directory on the controller for plans, facts and run records; unset: .fleet/<inventory name>.",
    )
    fleet_host: Host | None = Field(default=None, description="What a host is said to be; in group_vars or host_vars.")
    fleet_versions: Versions | None = Field(default=None, description="Version pins; in group_vars or host_vars.")
    fleet_storage: Storage | None = Field(default=None, description="Storage of hosts; in group_vars or host_vars.")


#: Variables that may differ from host to host, with their shapes.
HOST_SHAPES: dict[str, type[BaseModel]] = {"fleet_host": Host, "fleet_versions": Versions, "fleet_storage": Storage}


class HostVariables(BaseModel):
    """What the inventory says of one host."""

    host: Host | None = None
    versions: Versions = Versions()
    storage: Storage | None = None


class Parsed(BaseModel):
    """The parts of the contract that could be read. Missing parts have been reported."""

    models: dict[str, Model] = {}
    services: dict[str, Service] = {}
    gateway: Gateway | None = None
    shared_runtimes: bool = False
    hosts: dict[str, HostVariables] = {}
    #: Services whose port is a stand-in.
    without_port: frozenset[str] = frozenset()
    #: Names that were declared at all, even where the declaration is faulty: no second complaint about them.
    declared_models: frozenset[str] = frozenset()

    def of(self, host: str) -> HostVariables:
        """What is said of a host; nothing where nothing is."""
        return self.hosts.get(host) or NOTHING_SAID


NOTHING_SAID = HostVariables()


def parse(
    variables: Mapping[str, Any], by_host: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Parsed, list[Problem]]:
    """Read the contract from plain data; report everything that is wrong with its shape.

    Args:
        variables: those of the whole fleet.
        by_host: for each host those that may differ.
    """
    problems: list[Problem] = []
    models: dict[str, Model] = {}
    services: dict[str, Service] = {}
    gateway: Gateway | None = None
    for name in ("fleet_models", "fleet_services", "fleet_gateway"):
        if variables.get(name) is None:
            problems.append(problem("INV-002", name, None, name=name))
    declared = variables.get("fleet_models")
    if declared is not None:
        models, found = each("fleet_models", declared, Model)
        problems += found
    if variables.get("fleet_services") is not None:
        services, found = each("fleet_services", variables["fleet_services"], Service)
        problems += found
    if variables.get("fleet_gateway") is not None:
        gateway, found = salvage(Gateway, variables["fleet_gateway"], ("fleet_gateway",))
        problems += found
    shared = variables.get("fleet_shared_runtimes", False)
    if not isinstance(shared, bool):
        problems.append(wrong_type("fleet_shared_runtimes", shared, "bool"))
        shared = False
    state_dir = variables.get("fleet_state_dir")
    if state_dir is not None and not isinstance(state_dir, str):
        problems.append(wrong_type("fleet_state_dir", state_dir, "string"))
    hosts, found = _parse_hosts(by_host or {})
    problems += found
    parsed = Parsed(
        models=models,
        services=services,
        gateway=gateway,
        shared_runtimes=shared,
        hosts=hosts,
        without_port=frozenset(
            n for n in services if any(p.path == path_of(("fleet_services", n, "port")) for p in problems)
        ),
        declared_models=frozenset(str(k) for k in declared) if isinstance(declared, Mapping) else frozenset(),
    )
    return parsed, problems


def _parse_hosts(by_host: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, HostVariables], list[Problem]]:
    """Hosts mostly share what their group says: each distinct value is read, and reported, once."""
    problems: list[Problem] = []
    read: dict[tuple[str, str], BaseModel | None] = {}
    made: dict[tuple[Any, ...], HostVariables] = {}
    texts: dict[int, str] = {}
    hosts: dict[str, HostVariables] = {}
    for host in sorted(by_host):
        keys: list[tuple[str, str] | None] = []
        for name, shape in HOST_SHAPES.items():
            value = by_host[host].get(name)
            if value is None:
                keys.append(None)
                continue
            if id(value) not in texts:
                texts[id(value)] = json.dumps(value, sort_keys=True, default=str)
            key = (name, texts[id(value)])
            keys.append(key)
            if key not in read:
                read[key], found = salvage(shape, value, ("hosts", host, name))
                problems += found
        identity = tuple(keys)
        if identity not in made:
            said, pins, storage = (read[key] if key else None for key in keys)
            made[identity] = HostVariables(
                host=said if isinstance(said, Host) else None,
                versions=pins if isinstance(pins, Versions) else Versions(),
                storage=storage if isinstance(storage, Storage) else None,
            )
        hosts[host] = made[identity]
    return hosts, problems
