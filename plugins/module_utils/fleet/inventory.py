"""What the planner reads of an inventory, as plain typed data. The action plugins fill it; tests write it by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .capacity import Checkpoint
from .problems import Problem

#: Top-level variables of the product. Anything else that begins with ``fleet_`` is a mistake of spelling.
FLEET_VARIABLES = (
    "fleet_models",
    "fleet_services",
    "fleet_gateway",
    "fleet_engine_api_key",
    "fleet_shared_runtimes",
    "fleet_state_dir",
    "fleet_host",
    "fleet_versions",
    "fleet_storage",
)

#: Those that may differ from host to host.
BY_HOST = ("fleet_host", "fleet_versions", "fleet_storage")

#: Those that must be the same on every host.
FLEET_WIDE = (
    "fleet_models",
    "fleet_services",
    "fleet_gateway",
    "fleet_shared_runtimes",
    "fleet_state_dir",
)


@dataclass(frozen=True)
class SecretState:
    """What may be known about a secret: never its value. ``plain_file`` is where it stands unencrypted, if anywhere."""

    defined: bool = False
    length: int = 0
    placeholder: bool = False
    plain_file: str | None = None


@dataclass(frozen=True)
class ModelSeen:
    """What the controller saw at a model's source, or, where that is elsewhere, in the ``config`` beside it.

    ``weight_bytes`` is the size of all weight files together, ``damaged`` names files with what is wrong with each,
    ``config`` is the content of config.json, ``headers`` what the weight files say of themselves.
    """

    exists: bool
    weight_bytes: int = 0
    weight_files: int = 0
    has_config: bool = True
    pointers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    config: Mapping[str, Any] | None = None
    headers: Checkpoint | None = None


@dataclass(frozen=True)
class Inventory:
    """``variables`` are the fleet-wide ``fleet_*`` values as plain data, ``addresses`` each host's ``ansible_host``.

    ``by_host`` has each host's own ``fleet_*`` values. ``unknown`` maps an unknown ``fleet_*`` name to a host that has
    it. ``models_seen`` maps a source to what is there, ``configs`` the path of an artifact's ``config`` to its content.
    ``found`` are problems met while reading, which only the reader could see.
    """

    variables: Mapping[str, Any]
    addresses: Mapping[str, Any]
    groups: Mapping[str, tuple[str, ...]]
    secret: SecretState = field(default_factory=SecretState)
    by_host: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    models_seen: Mapping[str, ModelSeen] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    found: tuple[Problem, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, in an order that does not depend on the inventory's."""
        return tuple(sorted(self.addresses))

    def config_of(self, source: str, config: Any) -> Mapping[str, Any] | None:
        """The config.json of an artifact, from what it says itself or from its files; None where neither has it."""
        if isinstance(config, Mapping):
            return config
        found = self.configs.get(config) if isinstance(config, str) else None
        if isinstance(found, Mapping):
            return found
        seen = self.models_seen.get(source)
        return seen.config if seen else None
