"""A small fleet without faults, for tests to copy and spoil."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from fleet.facts import HostFacts
from fleet.inventory import Inventory, ModelSeen, SecretState
from fleet.plan import Plan
from fleet.planner import plan
from fleet.problems import Problem
from fleet.version_plan import load_locks
from fleet.version_sets.matrix import Matrix, load_matrix

MATRIX: Matrix = load_matrix()
LOCKS = load_locks()
SOURCE = "file:///srv/models/tiny"
SECRET = "k9Zq1m3n5p7r9s2u4w6y8A"
ADDRESSES = {"engine-1": "10.77.0.11", "engine-2": "10.77.0.12", "gateway-1": "10.77.0.21", "gateway-2": "10.77.0.22"}
VARIABLES: dict[str, Any] = {
    "fleet_models": {"tiny-chat": {"versions": {"2026.01": {"artifacts": {"default": {"source": SOURCE}}}}}},
    "fleet_services": {
        "chat": {
            "model": "tiny-chat",
            "version": "2026.01",
            "max_model_len": 512,
            "port": 8000,
            "deployments": [
                {
                    "group": "cpu_hosts",
                    "engine": {
                        "dtype": "float32",
                        "enforce_eager": True,
                        "max_num_seqs": 8,
                        "kv_cache_memory_bytes": 64 << 20,
                    },
                    "environment": {"OMP_NUM_THREADS": "1"},
                }
            ],
        }
    },
    "fleet_gateway": {"group": "gateways", "port": 80, "vips": ["10.77.0.100/24"], "virtual_router_id": 77},
}
#: The config.json of the sandbox's model, as far as memory depends on it.
TINY: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048,
    "max_position_embeddings": 2048, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
SEEN = ModelSeen(exists=True, weight_bytes=1_800_000, weight_files=1)


def facts_data(address: str = "10.77.0.11", **changes: Any) -> dict[str, Any]:
    """What fleet_discover returns on an ordinary host."""
    return {
        "usable_python": True,
        "os": {"id": "ubuntu", "id_like": "debian", "version_id": "24.04", "pretty_name": "Ubuntu 24.04.3 LTS"},
        "arch": "x86_64",
        "glibc": "2.39",
        "page_size": 4096,
        "cpu": {"count": 8, "flags": ["avx512f", "avx512_bf16"]},
        "virtual": False,
        "numa": [{"id": 0, "cpus": [0, 1, 2, 3]}, {"id": 1, "cpus": [4, 5, 6, 7]}],
        "memory": {"total_bytes": 64 << 30},
        "interfaces": [
            {"name": "lo", "addresses": ["127.0.0.1/8"]},
            {"name": "host0", "addresses": [f"{address}/24", "fe80::1/64"], "mtu": 1500, "speed_mbps": 100000},
        ],
        "listening": [{"port": 22, "address": "0.0.0.0", "process": "sshd", "unit": "ssh.service"}],
        **changes,
    }


def card_data(index: int = 0, **changes: Any) -> dict[str, Any]:
    """One card as fleet_discover returns it."""
    return {
        "index": index,
        "vendor": "nvidia",
        "chip": "NVIDIA A100-SXM4-80GB",
        "pci_id": "10de:20b2",
        "pci_address": f"0000:{index:02x}:00.0",
        "memory_bytes": 81920 << 20,
        "driver": "580.159.04",
        "health": "ok",
        "numa_node": index // 4,
        "kernel_driver": "nvidia",
        "processes": [],
        **changes,
    }


def gpu_data(address: str = "10.77.0.11", **changes: Any) -> dict[str, Any]:
    """What fleet_discover returns on a host with eight A100."""
    return facts_data(
        address,
        os={"id": "ubuntu", "version_id": "22.04", "codename": "jammy", "pretty_name": "Ubuntu 22.04.5 LTS"},
        glibc="2.35",
        memory={"total_bytes": 1 << 40},
        cards=[card_data(index) for index in range(8)],
        card_tools={
            "nvidia": {
                "driver": "580.159.04",
                "library_version": "580.159.04",
                "nvswitches": 6,
                "fabric_manager": {"version": "580.159.04", "state": "Completed"},
            }
        },
        **changes,
    )


@dataclass
class Case:
    """A fleet that a test may change before it plans."""

    variables: dict[str, Any] = field(default_factory=lambda: deepcopy(VARIABLES))
    addresses: dict[str, Any] = field(default_factory=lambda: dict(ADDRESSES))
    groups: dict[str, list[str]] = field(
        default_factory=lambda: {"cpu_hosts": ["engine-1", "engine-2"], "gateways": ["gateway-1", "gateway-2"]}
    )
    secret: SecretState = field(default_factory=lambda: SecretState(defined=True, length=len(SECRET)))
    seen: dict[str, ModelSeen] = field(default_factory=lambda: {SOURCE: SEEN})
    by_host: dict[str, dict[str, Any]] = field(default_factory=dict)
    configs: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    found: list[Problem] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {host: facts_data(address) for host, address in ADDRESSES.items()}
    )
    age_seconds: int = 0
    #: Codes that such a fleet always has.
    background: set[str] = field(default_factory=set)

    @property
    def service(self) -> dict[str, Any]:
        """The one service."""
        return self.variables["fleet_services"]["chat"]

    @property
    def deployment(self) -> dict[str, Any]:
        """Its one deployment."""
        return self.service["deployments"][0]

    @property
    def gateway(self) -> dict[str, Any]:
        """The gateway."""
        return self.variables["fleet_gateway"]

    @property
    def artifact(self) -> dict[str, Any]:
        """The one artifact of the one model."""
        return self.variables["fleet_models"]["tiny-chat"]["versions"]["2026.01"]["artifacts"]["default"]

    def add_host(self, name: str, address: str, group: str) -> None:
        """One more host like the others."""
        self.addresses[name] = address
        self.groups[group].append(name)
        self.facts[name] = facts_data(address)

    def on_gpus(self) -> dict[str, Any]:
        """Let the engines run on A100 hosts; the facts of the first one, to be spoiled."""
        self.background = {"REL-002"}
        for host in self.groups["cpu_hosts"]:
            self.facts[host] = gpu_data(self.addresses[host])
        self.deployment["engine"] = {}
        self.deployment["environment"] = {}
        return self.facts["engine-1"]

    def inventory(self) -> Inventory:
        """The planner's view."""
        return Inventory(
            variables=deepcopy(self.variables),
            addresses=dict(self.addresses),
            groups={"all": tuple(self.addresses), **{g: tuple(m) for g, m in self.groups.items()}},
            secret=self.secret,
            by_host=deepcopy(self.by_host),
            configs=dict(self.configs),
            unknown=dict(self.unknown),
            models_seen=dict(self.seen),
            found=tuple(self.found),
        )

    def plan(self) -> Plan | list[Problem]:
        """Plan it."""
        facts = {host: HostFacts.of(data, self.age_seconds) for host, data in self.facts.items()}
        return plan(self.inventory(), facts, MATRIX, LOCKS)

    def problems(self) -> list[Problem]:
        """Everything found, warnings of a good plan included."""
        made = self.plan()
        return list(made.warnings) if isinstance(made, Plan) else made

    def good(self) -> Plan:
        """The plan, where there must be one."""
        made = self.plan()
        assert isinstance(made, Plan), [f"{p.code} {p.path}" for p in made]
        return made


def on_ascend(c: Case) -> None:
    """Let the engines run on Atlas 800I A2 hosts."""
    c.on_gpus()
    c.background.add("SET-064")
    for host in c.groups["cpu_hosts"]:
        c.facts[host] |= {
            "os": {"id": "openEuler", "version_id": "24.03", "codename": "LTS-SP1"},
            "arch": "aarch64",
            "glibc": "2.38",
            "cards": [{"vendor": "huawei", "chip": "910B3", "index": n, "memory_bytes": 64 << 30} for n in range(8)],
            "card_tools": {"huawei": {"hdk": "25.5.0"}},
        }
