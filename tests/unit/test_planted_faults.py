"""An inventory with many faults of different kinds: all are reported in one run, each with its place, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]

HOSTS = """
all:
  children:
    gateways:
      hosts:
        gateway-1: {ansible_host: 10.0.0.1}
        gateway-2: {ansible_host: 10.0.0.1}                     # INV-010: the address of another host
        gateway-3: {ansible_host: gateway-3.bank.example}       # INV-009: a name
    a100_hosts:
      hosts:
        a100-1: {ansible_host: 10.0.0.11}
        a100-2: {}                                              # INV-008: no address
    ascend_hosts:
      hosts:
        ascend-1: {ansible_host: 10.0.0.21}
        ascend-2: {ansible_host: 10.0.0.22}
        ascend-3: {ansible_host: 10.0.0.23}
    old_hosts:
      hosts:
        old-1: {ansible_host: 10.0.0.31}
    empty_hosts: {}
"""

GROUPS = {
    "a100_hosts": """
fleet_host:
  os: {id: ubuntu, version: "22.04", codename: jammy}
  arch: x86_64
  cards: {vendor: nvidia, chip: NVIDIA A100-SXM4-80GB, count: 8, memory_gib: 80}
  driver: "470.82.01"                                           # SET-031: too old for the pinned vLLM
  memory_gib: "1024"                                            # INV-004: a number in quotes
fleet_versions: {vllm: "0.33.0"}
""",
    "ascend_hosts": """
fleet_host:
  os: {id: openeuler, version: "24.03", codename: LTS-SP1}
  arch: aarch64
  cards: {vendor: huawei, chip: 910B3, count: 8, memory_gib: 64}
  hdk: "25.5.0"
  gpus: 8                                                       # INV-017: called cards here
fleet_storage:
  mounts:
    - {path: srv/models, type: nfs, source: "10.0.0.5:/models"} # STO-001: not absolute
    - {path: /srv/cache, type: nfs, source: 10.0.0.5/cache}     # STO-003: no colon
""",
    "old_hosts": """
fleet_host:
  os: {id: centos, version: "7.9", codename: Core}              # SET-003: end of life
  arch: x86_64
  cpus: 64
""",
}

FLEET = """
fleet_models:
  Chat_Model:                                                   # INV-016: capitals and an underscore
    versions:
      "1":
        artifacts:
          default: {source: "nfs://models/chat", manifest: abc} # MOD-007: no digest
  small:
    versions:
      "1":
        artifacts:
          default: {source: "ftp://models/small"}               # MOD-001: no such source
          ascend: {source: "file:///srv/models/small.om"}       # MOD-010: converted
fleet_services:
  chat:
    model: Chat_Model
    version: "2"                                                # SVC-004: no such version
    max_model_len: 4096
    port: 8000
    deployments:
      - group: a100_hosts
        tensor_parallel: 16                                     # SVC-023: eight cards
        engine: {max_num_seq: 64}                               # SVC-014: nearly a name
      - group: ascend_hosts
        tensor_parallel: 8
        hosts_per_replica: 2                                    # SVC-020: three hosts
        engine: {device: npu, block_size: 64}                   # SVC-008: gone; SVC-025: always 128
        environment: {HF_TOKEN: not-a-real-one}                 # SVC-009: a secret
  small:
    model: smal                                                 # SVC-003: nearly a name
    version: "1"
    max_model_len: 2048
    port: 8404                                                  # free here: no gateway on these hosts
    deployments:
      - {group: old_hosts, tier: cold}                          # INV-006: no such tier
      - {group: empty_hosts}                                    # SVC-002: no hosts
      - {group: gpu_hosts}                                      # SVC-001: no such group
fleet_gateway:
  group: gateways
  port: 8404                                                    # GW-010: the check port
  vips: ["10.0.0.300/24"]                                       # GW-004: no address
  virtual_router_id: 300                                        # GW-008: above 255
fleet_engine_api_key: changeme                                  # INV-012, and INV-013: in plain text
fleet_servcies: {}                                              # INV-001: nearly a name
"""

#: Code and place of each fault above.
PLANTED = {
    ("INV-001", "fleet_servcies"),
    ("INV-004", "hosts.a100-1.fleet_host.memory_gib"),
    ("INV-006", "fleet_services.small.deployments[0].tier"),
    ("INV-008", "hosts.a100-2.ansible_host"),
    ("INV-009", "hosts.gateway-3.ansible_host"),
    ("INV-010", "hosts.gateway-2.ansible_host"),
    ("INV-012", "fleet_engine_api_key"),
    ("INV-013", "fleet_engine_api_key"),
    ("INV-016", "fleet_models.Chat_Model"),
    ("INV-017", "hosts.ascend-1.fleet_host.gpus"),
    ("GW-004", "fleet_gateway.vips[0]"),
    ("GW-008", "fleet_gateway.virtual_router_id"),
    ("GW-010", "fleet_gateway.check_port"),
    ("MOD-001", 'fleet_models.small.versions["1"].artifacts.default.source'),
    ("MOD-007", 'fleet_models.Chat_Model.versions["1"].artifacts.default.manifest'),
    ("MOD-010", 'fleet_models.small.versions["1"].artifacts.ascend.source'),
    ("SET-003", "hosts.old-1"),
    ("SET-031", "hosts.a100-1"),
    ("SET-031", "hosts.a100-2"),
    ("STO-001", "hosts.ascend-1.fleet_storage.mounts[0].path"),
    ("STO-003", "hosts.ascend-1.fleet_storage.mounts[1].source"),
    ("SVC-001", "fleet_services.small.deployments[2].group"),
    ("SVC-002", "fleet_services.small.deployments[1].group"),
    ("SVC-003", "fleet_services.small.model"),
    ("SVC-004", "fleet_services.chat.version"),
    ("SVC-008", "fleet_services.chat.deployments[1].engine.device"),
    ("SVC-009", "fleet_services.chat.deployments[1].environment.HF_TOKEN"),
    ("SVC-014", "fleet_services.chat.deployments[0].engine.max_num_seq"),
    ("SVC-020", "fleet_services.chat.deployments[1].hosts_per_replica"),
    ("SVC-023", "fleet_services.chat.deployments[0].tensor_parallel"),
    ("SVC-025", "fleet_services.chat.deployments[1].engine.block_size"),
}
#: What comes with such a fleet and is no fault of it: what this release cannot do yet, and what a set needs.
BESIDE = {"REL-001", "REL-002", "REL-003", "REL-004", "SET-064", "SET-120", "STO-005"}


def write(folder: Path) -> Path:
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / "hosts.yml").write_text(HOSTS)
    (folder / "group_vars/all/fleet.yml").write_text(FLEET)
    for name, text in GROUPS.items():
        (folder / f"group_vars/{name}.yml").write_text(text)
    return folder


def test_every_planted_fault_is_reported_in_one_run_and_nothing_else(tmp_path: Path) -> None:
    inventory, report = write(tmp_path / "bad"), tmp_path / "report.json"
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory), "playbooks/validate.yml"]
    environment = os.environ | {
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_CALLBACKS_ENABLED": "ansible.builtin.oneline",
    }
    done = subprocess.run(
        [*command, "-e", f"report={report}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert found["valid"] is False
    places = {(p["code"], p["path"]) for p in found["problems"] if p["code"] not in BESIDE}
    assert places == PLANTED
    assert all(p["rule"] and p["remedy"] and p["rule_zh"] and p["remedy_zh"] for p in found["problems"])
    for code, _ in PLANTED:
        assert code in done.stdout + done.stderr
    assert "not-a-real-one" not in done.stdout + done.stderr + report.read_text()


def test_the_faults_are_of_twenty_kinds_and_the_text_is_the_inventory() -> None:
    assert len({code for code, _ in PLANTED}) >= 20
    for text in (HOSTS, FLEET, *GROUPS.values()):
        assert isinstance(yaml.safe_load(text), dict)
