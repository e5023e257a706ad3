"""Hosts that the tests plan for; facts as discovery gives them."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]
# lscpu of a Kunpeng 920 7265, from a public collect_env dump with 8 x 910B3 (vllm-ascend 0.13.0rc1).
KUNPENG_FLAGS = [
    "fp",
    "asimd",
    "evtstrm",
    "aes",
    "pmull",
    "sha1",
    "sha2",
    "crc32",
    "atomics",
    "fphp",
    "asimdhp",
    "cpuid",
    "asimdrdm",
    "jscvt",
    "fcma",
    "dcpop",
    "asimddp",
    "asimdfhm",
    "ssbs",
]
X86_FLAGS = ["avx2", "avx512f", "avx512_bf16"]
A2 = {"vendor": "huawei", "chip": "Ascend 910B3", "pci_id": "19e5:d802", "memory_bytes": 64 << 30}
A3 = {"vendor": "huawei", "chip": "Ascend 910_9391", "pci_id": "19e5:d803"}
DUO = {"vendor": "huawei", "chip": "310P3", "pci_id": "19e5:d500 0200:0110"}
PRO = {"vendor": "huawei", "chip": "310P3", "pci_id": "19e5:d500 0200:0100"}
A1 = {"vendor": "huawei", "chip": "910ProB", "pci_id": "19e5:d801"}
A100 = {"vendor": "nvidia", "chip": "NVIDIA A100-SXM4-80GB", "pci_id": "10de:20b2"}
H200 = {"vendor": "nvidia", "chip": "NVIDIA H200", "pci_id": "10de:2335"}
B200 = {"vendor": "nvidia", "chip": "NVIDIA B200", "pci_id": "10de:2901"}
V100 = {"vendor": "nvidia", "chip": "Tesla V100-SXM2-32GB", "pci_id": "10de:1db5"}
K100_AI = {"vendor": "hygon", "chip": "K100_AI", "pci_id": "1d94:6210"}
MI300 = {"vendor": "amd", "chip": "MI300X gfx942", "pci_id": "1002:74a1"}


def kylin_v10(codename: str = "Sword", **more: Any) -> Facts:
    """Kylin V10 on Kunpeng 920."""
    return {
        "os_id": "kylin",
        "os_version": "V10",
        "os_codename": codename,
        "arch": "aarch64",
        "glibc": "2.28",
        "page_size": 4096,
        "cpu_flags": KUNPENG_FLAGS,
        "cards": [],
        "python": "3.7.9",
        **more,
    }


def openeuler(version: str = "22.03", codename: str = "LTS-SP4", glibc: str = "2.34", **more: Any) -> Facts:
    """openEuler on Kunpeng 920."""
    return {
        "os_id": "openEuler",
        "os_version": version,
        "os_codename": codename,
        "arch": "aarch64",
        "glibc": glibc,
        "page_size": 4096,
        "cpu_flags": KUNPENG_FLAGS,
        "cards": [],
        "python": "3.9.9",
        **more,
    }


def ubuntu(version: str = "22.04", glibc: str = "2.35", **more: Any) -> Facts:
    """Ubuntu on x86_64."""
    return {
        "os_id": "ubuntu",
        "os_version": version,
        "os_codename": None,
        "arch": "x86_64",
        "glibc": glibc,
        "page_size": 4096,
        "cpu_flags": X86_FLAGS,
        "cards": [],
        "python": "3.10.12",
        **more,
    }
