#!/usr/bin/env python3
"""Write the table of legal sets into docs/version_sets.md, between its two markers.

python scripts/write_version_sets.py            # write
python scripts/write_version_sets.py --check    # exit 1 when the page is not current
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "plugins" / "module_utils"))

from fleet.version_sets.facts import HostFacts, Wanted  # noqa: E402
from fleet.version_sets.links import WARN, check, look_at  # noqa: E402
from fleet.version_sets.matrix import Matrix, OsRow, known_vllm, load_matrix  # noqa: E402
from fleet.version_sets.solver import VersionSet, _candidates, solve  # noqa: E402

PAGE = ROOT / "docs" / "version_sets.md"
BEGIN, END = "<!-- generated: scripts/write_version_sets.py -->", "<!-- end of generated -->"
CARDS = {
    "cuda": {"vendor": "nvidia", "chip": "NVIDIA H200", "pci_id": "10de:2335"},
    "ascend": {"vendor": "huawei", "chip": "Ascend 910B3", "pci_id": "19e5:d802"},
}
METHODS = ("wheel", "release_asset", "source", "container")


def facts_of(os: OsRow, arch: str, backend: str) -> HostFacts:
    """A host of a system with a current driver and one card of the backend."""
    flags = ["asimd"] if arch == "aarch64" else ["avx2", "avx512f"]
    card = CARDS.get(backend)
    return HostFacts.from_mapping(
        {
            "os_id": os.id,
            "os_version": os.version,
            "os_codename": os.codename,
            "glibc": os.glibc,
            "arch": arch,
            "page_size": 4096,
            "cpu_flags": flags,
            "cards": [card] if card else [],
            "driver_version": "580.159.04" if backend == "cuda" else None,
            "hdk_version": "25.5.0" if backend == "ascend" else None,
            "python": os.python,
        }
    )


def spans(versions: set[str], scale: tuple[str, ...]) -> str:
    """Versions as ranges over the versions that the matrix knows."""
    runs: list[list[str]] = []
    previous = -2
    for i, version in enumerate(scale):
        if version not in versions:
            continue
        if i == previous + 1 and runs:
            runs[-1].append(version)
        else:
            runs.append([version])
        previous = i
    return ", ".join(r[0] if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs) or "none"


def legal_versions(facts: HostFacts, backend: str, matrix: Matrix) -> dict[str, set[str]]:
    """By way of installing, the vLLM versions of which a set is legal on a host."""
    host = look_at(facts.alike(), matrix)
    found: dict[str, set[str]] = {}
    for candidate in _candidates(host, backend, matrix):
        if candidate.listed and all(link.level == WARN for link in check(host, candidate, Wanted(), matrix)):
            found.setdefault(candidate.method, set()).add(candidate.vllm)
    return found


def host_table(backend: str, matrix: Matrix) -> list[str]:
    """One row a system and architecture."""
    lines = [
        "| systems | glibc | architecture | chosen without pins | by wheel | only by other ways |",
        "|---|---|---|---|---|---|",
    ]
    scale = known_vllm(matrix, backend)
    groups: dict[tuple[str, ...], dict[str, None]] = {}
    for os in matrix.systems:
        if os.at_end == "refuse":
            continue
        for arch in ("aarch64", "x86_64"):
            facts = facts_of(os, arch, backend)
            answer = solve(facts, Wanted(backend=backend), matrix)
            chosen = f"`{answer.runtime_id}`" if isinstance(answer, VersionSet) else "refused"
            ways = legal_versions(facts, backend, matrix)
            wheel = ways.get("wheel", set())
            others = []
            for method in METHODS[1:]:
                more = ways.get(method, set()) - wheel
                if more:
                    others.append(f"{method.replace('_', ' ')}: {spans(more, scale)}")
                    wheel = wheel | more
            first = spans(ways.get("wheel", set()), scale)
            key = (os.glibc or "", arch, chosen, first, "; ".join(others) or "none")
            groups.setdefault(key, {})[os.name] = None
    lines += [f"| {', '.join(names)} | {' | '.join(key)} |" for key, names in groups.items()]
    return lines


def ascend_sets(matrix: Matrix) -> list[str]:
    """The sets of vllm-ascend that are published."""
    lines = [
        "| vllm-ascend | vLLM | CANN | torch | torch_npu | Python | HDK, published | glibc, arm / x86 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in matrix.ascend_releases:
        if not row.listed:
            continue
        hdk = matrix.cann_hdk_row(row.cann or "")
        sure = "" if hdk and hdk.firm else " (not certain)"
        release = matrix.on_index("vllm-ascend", row.vllm_ascend)
        floors = []
        for arch in ("aarch64", "x86_64"):
            wheels = sorted({w.glibc for w in release.wheels if w.arch == arch}) if release else []
            floors.append(", ".join(wheels) or "sdist")
        cells = [
            row.vllm_ascend,
            ", ".join(row.vllm),
            row.cann,
            row.torch,
            row.torch_npu,
            row.python,
            (", ".join(hdk.compatible) if hdk else "none found") + sure,
            " / ".join(floors),
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def generated() -> str:
    """Everything between the markers."""
    matrix = load_matrix()
    parts = [
        f"From the matrix as read on {matrix.index_read}. Each row is a host with a current driver:",
        "NVIDIA 580.159.04 with an H200, HDK 25.5.0 with a 910B3. Candidates of vllm-ascend count.",
        "",
    ]
    for title, backend in (("NVIDIA", "cuda"), ("Ascend A2", "ascend"), ("CPU", "cpu")):
        parts += [f"### {title}", "", *host_table(backend, matrix), ""]
    parts += ["### Ascend: published sets", "", *ascend_sets(matrix), ""]
    parts += ["### Hygon DCU: vendor images", "", "| DTK | vLLM | image |", "|---|---|---|"]
    parts += [f"| {r.dtk} | {r.vllm} | `{r.image}` |" for r in matrix.dcu_images]
    parts += ["", "### AMD: wheels", "", "| vLLM | ROCm | glibc | Python | sure |", "|---|---|---|---|---|"]
    parts += [
        f"| {r.vllm} | {r.rocm} | {r.glibc} | {r.python} | {'no' if r.uncertain else 'yes'} |"
        for r in matrix.rocm_wheels
    ]
    return "\n".join(parts)


def page_with(text: str, table: str) -> str:
    """The page with its generated part replaced."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}"


def main() -> int:
    """Write the page, or say whether it is current."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("--check", action="store_true")
    args = cli.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = page_with(text, generated())
    if args.check:
        return 0 if new == text else 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
