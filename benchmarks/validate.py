"""What validation costs beyond Ansible's own load of the same inventory: CPU and peak memory, and whether it is linear.

    python benchmarks/validate.py [--hosts 1000 10000] [--repeats 3] [--output FILE]

For each size an inventory is generated: mixed racks, what hosts are in group_vars, addresses in host lines. In turn, so
that noise hits both, these are run and measured (user and system time of the whole process tree, peak memory of its
largest process): a play with one task of Ansible's own that runs once, and playbooks/validate.yml. Medians count.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks/results/validate.json"
#: Goals of the project: CPU seconds by hosts, memory in GiB.
GOALS = {1000: 2.0, 10000: 15.0}
GOAL_GIB = 1.5
LIMIT_SECONDS = 900

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}
SMALL = CONFIG | {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
#: Share of the hosts in each group, and what its hosts are.
RACKS: dict[str, tuple[float, dict[str, Any]]] = {
    "cuda_hosts": (
        0.3,
        {
            "os": {"id": "ubuntu", "version": "22.04", "codename": "jammy"},
            "arch": "x86_64",
            "cards": {"vendor": "nvidia", "chip": "NVIDIA A100-SXM4-80GB", "count": 8, "memory_gib": 80},
            "driver": "580.159.04",
            "cpus": 128,
            "numa_nodes": 2,
            "memory_gib": 1024,
        },
    ),
    "ascend_hosts": (
        0.3,
        {
            "os": {"id": "openeuler", "version": "24.03", "codename": "LTS-SP1"},
            "arch": "aarch64",
            "cards": {"vendor": "huawei", "chip": "910B3", "count": 8, "memory_gib": 64},
            "hdk": "25.5.0",
            "cpus": 192,
            "numa_nodes": 8,
            "memory_gib": 1536,
        },
    ),
    "cpu_hosts": (
        0.4,
        {
            "os": {"id": "kylin", "version": "V10", "codename": "Lance"},
            "arch": "aarch64",
            "cpus": 128,
            "numa_nodes": 4,
            "memory_gib": 512,
        },
    ),
}


def inventory(folder: Path, hosts: int) -> None:
    """A fleet of so many hosts, gateways included."""
    first = int(ipaddress.ip_address("10.0.0.10"))
    addresses = (str(ipaddress.ip_address(first + n)) for n in range(hosts))
    gateways = {f"gateway-{n}": {"ansible_host": next(addresses)} for n in range(2)}
    children: dict[str, Any] = {"gateways": {"hosts": gateways}}
    left = hosts - len(gateways)
    for position, (name, (share, said)) in enumerate(RACKS.items()):
        count = left if position == len(RACKS) - 1 else round(hosts * share)
        left -= count
        members = {f"{name.split('_')[0]}-{n:05}": {"ansible_host": next(addresses)} for n in range(count)}
        children[name] = {"hosts": members}
        write(folder / "group_vars" / name / "host.yml", {"fleet_host": said})
    write(folder / "hosts.yml", {"all": {"children": children}})
    source = {"source": "nfs://models/chat", "config": CONFIG}
    small = {"source": "nfs://models/small", "config": SMALL}
    write(
        folder / "group_vars/all/fleet.yml",
        {
            "fleet_models": {
                "chat": {"versions": {"1": {"artifacts": {"default": source}}}},
                "small": {"versions": {"1": {"artifacts": {"default": small}}}},
            },
            "fleet_services": {
                "chat": {
                    "model": "chat",
                    "version": "1",
                    "max_model_len": 16384,
                    "port": 8000,
                    "deployments": [
                        {"group": "cuda_hosts", "tensor_parallel": 8},
                        {"group": "ascend_hosts", "tensor_parallel": 8},
                    ],
                },
                "small": {
                    "model": "small",
                    "version": "1",
                    "max_model_len": 8192,
                    "port": 8100,
                    "deployments": [{"group": "cpu_hosts", "engine": {"dtype": "float32"}}],
                },
            },
            "fleet_gateway": {"group": "gateways", "vips": ["10.0.255.250/16"], "virtual_router_id": 10},
            "fleet_state_dir": str(folder.parent / f"state-{hosts}"),
            "fleet_engine_api_key": "{{ lookup('ansible.builtin.env', 'BENCHMARK_KEY') }}",
        },
    )


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


@dataclass(frozen=True)
class Cost:
    """User and system time of a process tree in seconds, peak memory of its largest process in GiB."""

    cpu_seconds: float
    peak_gib: float


def measure(playbook: Path, source: Path, work: Path) -> Cost:
    """Run a playbook and wait for it. Raises RuntimeError where it fails."""
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(source), str(playbook)]
    environment = os.environ | {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "BENCHMARK_KEY": "k9Zq1m3n5p7r9s2u4w6y8A",
        "ANSIBLE_HOME": str(work / "home"),
        # Compiled modules are kept between runs, as on a controller, and outside of the checkout.
        "PYTHONPYCACHEPREFIX": str(work / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (work / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        text = (work / "output").read_text(errors="replace")
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{text[-3000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1 << 20))


def compare(hosts: int, repeats: int, work: Path) -> dict[str, Any]:
    """Both playbooks on one inventory."""
    source = work / f"fleet-{hosts}"
    inventory(source, hosts)
    task = {"name": "Once", "ansible.builtin.assert": {"that": True, "quiet": True}, "run_once": True}
    base = work / "base.yml"
    write(base, [{"name": "Load", "hosts": "all", "gather_facts": False, "tasks": [task]}])
    for playbook in (base, ROOT / "playbooks/validate.yml"):
        measure(playbook, source, work)  # dropped: it compiles
    loads, validations = [], []
    for number in range(repeats):
        loads.append(measure(base, source, work))
        validations.append(measure(ROOT / "playbooks/validate.yml", source, work))
        print(f"  {hosts} hosts, {number + 1} of {repeats}: load {loads[-1]}, with validation {validations[-1]}")
    cpu = statistics.median(v.cpu_seconds - b.cpu_seconds for v, b in zip(validations, loads, strict=True))
    peak = statistics.median(v.peak_gib for v in validations)
    beyond = statistics.median(v.peak_gib - b.peak_gib for v, b in zip(validations, loads, strict=True))
    return {
        "hosts": hosts,
        "load_cpu_seconds": round(statistics.median(b.cpu_seconds for b in loads), 2),
        "beyond_load_cpu_seconds": round(cpu, 2),
        "milliseconds_a_host": round(1000 * cpu / hosts, 3),
        "peak_gib": round(peak, 3),
        "beyond_load_peak_gib": round(beyond, 3),
        "runs": {"load": [asdict(c) for c in loads], "validate": [asdict(c) for c in validations]},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1000, 10000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS * 10, LIMIT_SECONDS * 10))
    with tempfile.TemporaryDirectory(prefix="vllm-fleet-validate-") as folder:
        rows = [compare(hosts, options.repeats, Path(folder)) for hosts in sorted(options.hosts)]
    print("\nhosts   load, CPU s   validation beyond it, CPU s   ms a host   peak GiB beyond   goal CPU s")
    for row in rows:
        goal = GOALS.get(row["hosts"])
        print(
            f"{row['hosts']:>5}   {row['load_cpu_seconds']:>11}   {row['beyond_load_cpu_seconds']:>27}"
            f"   {row['milliseconds_a_host']:>9}   {row['beyond_load_peak_gib']:>15}   {goal if goal else '':>10}"
        )
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    document = {
        "benchmark": "validate",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit or None,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "goals": {"cpu_seconds": GOALS, "beyond_load_peak_gib": GOAL_GIB},
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    missed = [
        row["hosts"]
        for row in rows
        if row["beyond_load_cpu_seconds"] > GOALS.get(row["hosts"], float("inf"))
        or row["beyond_load_peak_gib"] > GOAL_GIB
    ]
    if missed:
        print(f"goals missed at {missed} hosts", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
