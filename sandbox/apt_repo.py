"""The Debian packages: downloaded once, and served to hosts as a flat repository in the share."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sandbox import paths
from sandbox.report import stage, ticking
from sandbox.system import fresh, recipe_hash, remove, run, sha256_file

# What roles may install on a host. Their dependencies come along.
SERVICE_PACKAGES = (
    "acl",
    "chrony",
    "ethtool",
    "haproxy",
    "jq",
    "keepalived",
    "logrotate",
    "nftables",
    "numactl",
    "pciutils",
    "psmisc",
    "python3-venv",
    "socat",
    "tcpdump",
)
# What the RPM-based images are made with; harmless in the repository.
RPM_TOOLS = ("createrepo-c", "dnf", "python3-dnf", "python3-rpm", "rpm")

_NETWORK_REMEDY = "no Debian package registry answered: check the machine's network, proxy and `apt-get update`"


@dataclass(frozen=True)
class Deb:
    """One stanza of a Packages file."""

    fields: dict[str, str]

    @property
    def name(self) -> str:
        return self.fields["Package"]

    @property
    def version(self) -> str:
        return self.fields["Version"]

    def relations(self, *names: str) -> list[list[str]]:
        """Depends and the like: a list of choices, names only."""
        found = []
        for field in names:
            for clause in self.fields.get(field, "").split(","):
                choices = [re.split(r"[ (\[<:]", choice.strip(), maxsplit=1)[0] for choice in clause.split("|")]
                if choices := [choice for choice in choices if choice]:
                    found.append(choices)
        return found

    @property
    def provides(self) -> list[str]:
        return [choice[0] for choice in self.relations("Provides")]


def parse_control(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            fields[last] += "\n" + line
        elif ":" in line:
            last, _, value = line.partition(":")
            fields[last] = value.strip()
    return fields


def closure(wanted: Iterable[str], available: Iterable[Deb]) -> list[Deb]:
    """The wanted packages and all that they need of what is available; what is not there is in the base already."""
    by_name = {deb.name: deb for deb in available}
    providers = {name: deb for deb in by_name.values() for name in deb.provides}
    found: dict[str, Deb] = {}
    queue = list(wanted)
    while queue:
        name = queue.pop()
        deb = by_name.get(name) or providers.get(name)
        if deb is None or deb.name in found:
            continue
        found[deb.name] = deb
        for choices in deb.relations("Pre-Depends", "Depends"):
            here = [choice for choice in choices if choice in by_name or choice in providers]
            queue.extend(here[:1])
    return sorted(found.values(), key=lambda deb: deb.name)


def index(directory: Path) -> str:
    """The Packages file of a flat repository."""
    stanzas = []
    for file in sorted(directory.glob("*.deb")):
        control = run(["dpkg-deb", "--field", file], limit=30, purpose=f"reading {file.name}").stdout.rstrip("\n")
        stanzas.append(
            f"{control}\nFilename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {sha256_file(file)}\n"
        )
    return "\n".join(stanzas)


def release(files: dict[str, bytes]) -> str:
    lines = ["Origin: vllm-fleet sandbox", "Label: vllm-fleet sandbox", "Suite: stable", "Codename: stable"]
    # A fixed date: the repository is the same for the same packages.
    lines += ["Date: Tue, 14 Nov 2023 22:13:20 UTC", "Architectures: amd64 arm64 all", "SHA256:"]
    lines += [f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}" for name, data in sorted(files.items())]
    return "\n".join(lines) + "\n"


def read(directory: Path) -> list[Deb]:
    text = (directory / "Packages").read_text(encoding="utf-8")
    return [Deb(parse_control(stanza)) for stanza in text.split("\n\n") if stanza.strip()]


def recipe(base: str) -> str:
    return recipe_hash(base, SERVICE_PACKAGES, RPM_TOOLS, index, release, "1")


def ensure(base: Path, base_hash: str) -> Path:
    """share/apt, made from the base's own package sources."""
    target = paths.SHARE / "apt"
    mark = recipe(base_hash)
    stamp = target / ".recipe"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        stage("packages deb: from cache")
        return target
    state = paths.WORK / "apt"
    remove(state)
    for name in ("state/lists/partial", "cache/archives/partial", "empty"):
        (state / name).mkdir(parents=True)
    options = {
        "Dir::State": state / "state",
        "Dir::State::lists": state / "state/lists",
        "Dir::State::status": base / "root/var/lib/dpkg/status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": base / "sources.list",
        "Dir::Etc::sourceparts": state / "empty",
        "Dir::Etc::preferencesparts": state / "empty",
        "Acquire::Languages": "none",
        # The machine's own download user may not write here.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
    with ticking("packages deb", lambda: f"{len(list((state / 'cache/archives').glob('*.deb')))} files"):
        run([*apt, "update"], limit=300, purpose="Debian package lists", remedy=_NETWORK_REMEDY)
        run(
            [*apt, "install", "-y", "--no-install-recommends", "--download-only", *SERVICE_PACKAGES, *RPM_TOOLS],
            limit=900,
            purpose="download of Debian packages",
            remedy=_NETWORK_REMEDY,
        )
    with fresh(target) as building:
        building.chmod(0o755)
        debs = sorted((state / "cache/archives").glob("*.deb"))
        for file in debs:
            # apt writes an epoch's colon as %3a, which a file: URL would decode.
            file.rename(building / file.name.replace("%3a", "_"))
        packages = index(building).encode()
        files = {"Packages": packages, "Packages.gz": gzip.compress(packages, mtime=0)}
        for name, data in files.items():
            (building / name).write_bytes(data)
        (building / "Release").write_text(release(files), encoding="utf-8")
        (building / ".recipe").write_text(mark, encoding="ascii")
    remove(state)
    stage(f"packages deb: {len(debs)} files in {target}")
    return target
