"""Settings that the plan asks of a host, by what the host is, each with its reason and its source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .card_rules import option
from .engine_settings import HCCL_FIRST_PORT, HCCL_PORTS
from .facts import GIB, HostFacts
from .placement import Placed
from .plan import Gateway, Tuning

#: vLLM's default for the port at which the hosts of one engine meet.
MASTER_PORT = 29501

#: Why, and where that is written. Roles write it into the files that it explains.
REASONS = {
    "vm.max_map_count": (
        "Weights are mapped in many pieces, and the kernel's own 65530 runs out; new distributions have this value.",
        "kernel, admin-guide/sysctl/vm.rst",
    ),
    "vm.swappiness": (
        "What was swapped out makes single requests slow by seconds. Not 0, which risks the OOM killer.",
        "kernel, admin-guide/sysctl/vm.rst",
    ),
    "vm.zone_reclaim_mode": (
        "With it a NUMA node drops file cache, such as model files, although other nodes have free memory.",
        "kernel, admin-guide/sysctl/vm.rst",
    ),
    "kernel.numa_balancing": (
        "Engines are bound to nodes by the plan: moving their pages costs faults and gains nothing.",
        "kernel, admin-guide/sysctl/kernel.rst",
    ),
    "net.core.somaxconn": (
        "Clients that connect at once wait in a queue of this length; 128 of older kernels refuses them.",
        "kernel, networking/ip-sysctl.rst and admin-guide/sysctl/net.rst",
    ),
    "net.ipv4.ip_nonlocal_bind": (
        "HAProxy binds the virtual address on every gateway, also where the address is not at the moment.",
        "kernel, networking/ip-sysctl.rst",
    ),
    "thp": (
        "Huge pages on request only: with always and memory pages of 64 KiB each is 512 MiB, a waste in every process.",
        "kernel, admin-guide/mm/transhuge.rst",
    ),
    "governor": (
        "Requests come in bursts of milliseconds, shorter than a clock takes to follow.",
        "kernel, admin-guide/pm/cpufreq.rst",
    ),
    "reserved_ports": (
        "An outgoing connection may take the port of an engine that is down, which then cannot start.",
        "kernel, networking/ip-sysctl.rst; vllm-project/vllm-ascend#405",
    ),
    "limits": (
        "Pinned memory of accelerators and RDMA counts as locked; each client is a file; an engine that is swapped out "
        "is as good as down.",
        "systemd.exec(5), systemd.resource-control(5); vllm-project/vllm#19613",
    ),
    "engine_shm": (
        "The processes of an engine with several cards talk through /dev/shm, of which systemd gives a unit a tenth of "
        "the memory (measured, 252). Half is the kernel's own default. It is a limit, and takes no memory by itself.",
        "kernel, filesystems/tmpfs.rst; vllm-project/vllm#14537",
    ),
}
#: Only the engines' units get them, not every service of the host (``DefaultLimit...``): others keep what they had.
LIMITS = {"LimitMEMLOCK": "infinity", "LimitNOFILE": "1048576", "MemorySwapMax": "0"}


def tuning(engines: Sequence[Placed], backend: str | None, gateway: Gateway | None, facts: HostFacts) -> Tuning:
    """The settings of a host that has engines, a gateway, both, or none, which is left as it is."""
    sysctl: dict[str, str] = {}
    if engines or gateway:
        sysctl |= {"net.core.somaxconn": "4096", "vm.swappiness": "10"}
    if engines:
        sysctl["vm.max_map_count"] = "1048576"
        if len(facts.numa) > 1:
            sysctl |= {"vm.zone_reclaim_mode": "0", "kernel.numa_balancing": "0"}
    if gateway:
        sysctl["net.ipv4.ip_nonlocal_bind"] = "1"
    thp = {"enabled": "madvise"} if engines else {}
    # The frequency of a virtual machine's CPUs is not its own affair.
    governor = "performance" if engines and not facts.virtual else None
    ports = _ports(engines, backend, gateway)
    limits = dict(LIMITS) if engines else {}
    several = any(engine.cards_here > 1 for engine in engines)
    shm = facts.memory_bytes // 2 // GIB * GIB if several and facts.memory_bytes else 0
    groups = {"thp": thp, "governor": governor, "reserved_ports": ports, "limits": limits, "engine_shm": shm}
    names = sorted([*sysctl, *(name for name, value in groups.items() if value)])
    return Tuning(
        sysctl=dict(sorted(sysctl.items())),
        thp=thp,
        governor=governor,
        reserved_ports=ports,
        limits=limits,
        engine_shm_bytes=shm or None,
        reasons={name: "{} ({})".format(*REASONS[name]) for name in names},
    )


def _ports(engines: Iterable[Placed], backend: str | None, gateway: Gateway | None) -> str:
    """Ports that must be free when their service starts. NCCL takes those that the kernel gives it: none to reserve."""
    ports: set[int] = set()
    for engine in engines:
        ports.add(engine.port)
        if backend == "ascend" and engine.deployment.cards_per_engine > 1:
            first = HCCL_FIRST_PORT + HCCL_PORTS * engine.slot
            ports.update(range(first, min(first + HCCL_PORTS, 65536)))
        if len(engine.replica) > 1:
            _, port = option(engine.deployment.engine, "master-port")
            ports.add(port if isinstance(port, int) else MASTER_PORT)
    if gateway:
        ports |= {gateway.port, gateway.metrics_port, gateway.check_port}
    return ranges(ports)


def ranges(ports: Iterable[int]) -> str:
    """Ports as the kernel writes them: ``8000-8003,9000``."""
    found: list[list[int]] = []
    for port in sorted(ports):
        if found and port == found[-1][1] + 1:
            found[-1][1] = port
        else:
            found.append([port, port])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
