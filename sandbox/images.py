"""Root file systems of hosts: one Debian base, and thin layers that make it look and work like each kind.

Each is a directory images/<recipe hash>/root, complete or not there at all. Hosts mount them read-only below their own
overlay.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox import apt_repo, paths, python37, rpm_repo
from sandbox.report import SandboxError, stage, ticking
from sandbox.system import (
    chroot,
    chroot_mounts,
    fresh,
    overlay,
    read_json,
    recipe_hash,
    remove,
    run,
    write_atomic,
)

SUITE = "bookworm"
# A bare server: what a minimal installation has, and nothing that a role installs.
BASE_PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "iputils-ping",
    "kmod",
    "less",
    "libpam-systemd",
    "netbase",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "rsync",
    "sudo",
    "systemd",
    "systemd-sysv",
    "tzdata",
    "udev",
)
# Nobody reads them in a host, and they are a third of the size.
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "systemd-networkd-wait-online.service",
)
_SHARE = f"file:{paths.SHARE_IN_HOST}"

_KERNEL_UNITS = {
    "sandbox-kernel.service": """\
[Unit]
Description=Private copies of kernel settings
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target
ConditionVirtualization=container
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/vllm-fleet-sandbox/private-kernel
""",
    "sandbox-kernel-brackets.path": """\
[Unit]
Description=Watch of transparent huge page settings
After=sandbox-kernel.service
[Path]
PathChanged=/sys/kernel/mm/transparent_hugepage/enabled
PathChanged=/sys/kernel/mm/transparent_hugepage/defrag
""",
    "sandbox-kernel-brackets.service": """\
[Unit]
Description=Transparent huge page settings as the kernel would show them
StartLimitIntervalSec=0
[Service]
Type=oneshot
ExecStart=/usr/lib/vllm-fleet-sandbox/private-kernel-brackets
""",
}

_SSHD = """\
PermitRootLogin prohibit-password
PasswordAuthentication no
UseDNS no
# Ansible opens many connections at once.
MaxStartups 100
MaxSessions 100
"""

_OS_RELEASE = {
    "ubuntu": """\
PRETTY_NAME="Ubuntu 22.04.5 LTS"
NAME="Ubuntu"
VERSION_ID="22.04"
VERSION="22.04.5 LTS (Jammy Jellyfish)"
VERSION_CODENAME=jammy
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=jammy
""",
    "openeuler": """\
NAME="openEuler"
VERSION="22.03 (LTS-SP3)"
ID="openEuler"
VERSION_ID="22.03"
PRETTY_NAME="openEuler 22.03 (LTS-SP3)"
ANSI_COLOR="0;31"
""",
    "kylin-v10": """\
NAME="Kylin Linux Advanced Server"
VERSION="V10 (Lance)"
ID="kylin"
VERSION_ID="V10"
PRETTY_NAME="Kylin Linux Advanced Server V10 (Lance)"
ANSI_COLOR="0;31"
""",
}
_DNF = """\
[main]
gpgcheck=0
installonly_limit=3
clean_requirements_on_remove=True
best=True
skip_if_unavailable=False
# The repository is on this machine, and may be made anew at any time.
metadata_expire=1
"""
_DNF_REPO = f"[site]\nname=Packages of the site\nbaseurl={_SHARE}/rpm\nenabled=1\ngpgcheck=0\n"


@dataclass(frozen=True)
class Image:
    name: str
    hash: str
    # Roots from the top layer down, as overlayfs wants them.
    layers: tuple[Path, ...]


def assets() -> dict[str, str]:
    here = Path(__file__).parent / "assets"
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(here.iterdir()) if file.is_file()}


def machine_sources(etc: Path = Path("/etc")) -> list[str]:
    """The machine's own package sources, one line each, if it is the Debian that images are made of.

    They name the mirror that is reachable here. Any other machine gets mmdebstrap's default.
    """
    release = (etc / "os-release").read_text(encoding="utf-8") if (etc / "os-release").exists() else ""
    if "\nID=debian\n" not in f"\n{release}\n" or f"VERSION_CODENAME={SUITE}" not in release:
        return []
    lines: list[str] = []
    directory = etc / "apt" / "sources.list.d"
    for file in [etc / "apt" / "sources.list", *(sorted(directory.glob("*.list")) if directory.is_dir() else [])]:
        if file.exists():
            lines += [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    for file in sorted(directory.glob("*.sources")) if directory.is_dir() else []:
        text = "\n".join(s for s in file.read_text(encoding="utf-8").splitlines() if not s.startswith("#"))
        for stanza in re.split(r"\n\s*\n", text):
            fields = {key.lower(): value for key, value in apt_repo.parse_control(stanza).items()}
            if "uris" not in fields or fields.get("enabled", "yes").lower() in ("no", "false"):
                continue
            signed = fields.get("signed-by", "")
            option = f"[signed-by={signed}] " if signed.startswith("/") else ""
            lines += [
                f"deb {option}{uri} {suite} {' '.join(fields.get('components', '').split())}"
                for uri in fields["uris"].split()
                for suite in fields.get("suites", "").split()
                if "deb" in fields.get("types", "").split()
            ]
    pattern = re.compile(rf"deb\s+(\[(?P<options>[^\]]*)\]\s+)?\S+\s+{SUITE}(-updates|-security)?\s+.*\bmain\b")
    kept = []
    for line in lines:
        match = pattern.match(line)
        # Another vendor's packages would be signed with a key that the image does not have.
        if match and ("signed-by" not in (match["options"] or "") or "debian-archive-keyring" in match["options"]):
            kept.append(line)
    return list(dict.fromkeys(kept))


def _stored(name: str, mark: str, build: Callable[[Path], None]) -> Path:
    """images/<hash>, built when it is not there."""
    target = paths.IMAGES / mark
    if (target / "recipe.json").exists():
        _drop_older(name, mark)
        stage(f"image {name}: from cache")
        return target
    with fresh(target) as building:
        build(building)
        write_atomic(building / "recipe.json", json.dumps({"name": name, "hash": mark}) + "\n")
    _drop_older(name, mark)
    stage(f"image {name}: built")
    return target


def _drop_older(name: str, mark: str) -> None:
    """Images of older recipes of the same name, unless a host of any fleet still has an overlay on them."""
    used = set()
    for spec in paths.STATE.glob("*/hosts/*/spec.json"):
        used |= set((read_json(spec) or {}).get("lower", []))
    for directory in paths.IMAGES.iterdir():
        about = read_json(directory / "recipe.json")
        if about and about.get("name") == name and directory.name != mark and str(directory / "root") not in used:
            remove(directory)


def _build_base(building: Path) -> None:
    root, log = building / "root", building / "mmdebstrap.log"
    sources = machine_sources()
    source_file = building / "machine.list"
    source_file.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    command: list[str | Path] = [
        "mmdebstrap",
        "--variant=minbase",
        "--mode=root",
        "--format=directory",
        f"--include={','.join(BASE_PACKAGES)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        "--dpkgopt=force-unsafe-io",
        '--aptopt=Acquire::Languages "none"',
        SUITE,
        root,
        *([source_file] if sources else []),
    ]

    def detail() -> str:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        return lines[-1][:100] if lines else ""

    with ticking("image base", detail):
        run(
            command,
            limit=1800,
            purpose="root file system of hosts (mmdebstrap)",
            remedy="no Debian package registry answered, or its key is too old: check the machine's network, proxy and "
            "the package debian-archive-keyring",
            log=log,
        )
    lists = sorted((root / "etc/apt/sources.list.d").glob("*.list"))
    text = "".join(f.read_text(encoding="utf-8") for f in [root / "etc/apt/sources.list", *lists] if f.exists())
    (building / "sources.list").write_text("".join(f"{line}\n" for line in sources) or text, encoding="utf-8")
    for file in [root / "etc/apt/sources.list", *(root / "etc/apt/sources.list.d").iterdir()]:
        remove(file)
    _finish_base(root)


def _finish_base(root: Path) -> None:
    for file in (root / "etc/ssh").glob("ssh_host_*"):
        file.unlink()
    (root / "etc/machine-id").write_text("", encoding="ascii")
    (root / "etc/resolv.conf").write_text("# no name server: hosts are known by address\n", encoding="ascii")
    (root / "etc/ssh/sshd_config.d/10-sandbox.conf").write_text(_SSHD, encoding="ascii")
    for directory in ("var/cache/apt", "var/lib/apt/lists"):
        remove(root / directory)
        (root / directory / "partial").mkdir(parents=True)
    programs = root / "usr/lib/vllm-fleet-sandbox"
    programs.mkdir(parents=True)
    for name, text in assets().items():
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    units = root / "etc/systemd/system"
    for name, text in _KERNEL_UNITS.items():
        (units / name).write_text(text, encoding="utf-8")
    wants = {
        "sysinit.target.wants": ["/etc/systemd/system/sandbox-kernel.service"],
        "multi-user.target.wants": [
            "/etc/systemd/system/sandbox-kernel-brackets.path",
            "/lib/systemd/system/systemd-networkd.service",
        ],
    }
    for directory, targets in wants.items():
        (units / directory).mkdir(exist_ok=True)
        for target in targets:
            (units / directory / Path(target).name).symlink_to(target)
    for unit in _MASKED:
        remove(units / unit)
        (units / unit).symlink_to("/dev/null")


def base() -> tuple[str, Path]:
    mark = recipe_hash(
        "base", SUITE, platform.machine(), BASE_PACKAGES, _LEFT_OUT, _MASKED, _KERNEL_UNITS, _SSHD, assets(),
        _build_base, _finish_base,
    )  # fmt: skip
    return mark, _stored("base", mark, _build_base)


def rpm_layer(base_hash: str, base_dir: Path, apt: Path) -> tuple[str, tuple[Path, ...]]:
    """dnf and rpm on the base: what RPM-based kinds have below, and where their packages are built."""

    def build(building: Path) -> None:
        with (
            overlay([base_dir / "root"], building / "root", building / "merged") as root,
            chroot_mounts(root, {apt: "/run/apt"}),
        ):
            sources = root / "etc/apt/sources.list"
            sources.write_text("deb [trusted=yes] file:/run/apt ./\n", encoding="ascii")
            policy = root / "usr/sbin/policy-rc.d"
            policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
            policy.chmod(0o755)
            apt_get = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root"]
            chroot(root, [*apt_get, "update"], limit=120, purpose="package lists in the image rpm-tools")
            install = [*apt_get, "install", "-y", "--no-install-recommends", "-o", "DPkg::Options::=--force-unsafe-io"]
            chroot(root, [*install, *apt_repo.RPM_TOOLS], limit=900, purpose="dnf and rpm in the image rpm-tools")
            policy.unlink()
            sources.unlink()
            for directory in ("var/cache/apt", "var/lib/apt/lists"):
                shutil.rmtree(root / directory)
        remove(building / "merged")

    mark = recipe_hash("rpm-tools", base_hash, apt_repo.RPM_TOOLS, rpm_layer, apt_repo.recipe(base_hash))
    directory = _stored("rpm-tools", mark, build)
    return mark, (directory / "root", base_dir / "root")


def _ubuntu(root: Path) -> None:
    _write_release(root, "ubuntu")
    (root / "etc/apt").mkdir(parents=True, exist_ok=True)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] {_SHARE}/apt ./\n", encoding="ascii")
    (root / "etc/debian_version").write_text("bookworm/sid\n", encoding="ascii")
    lsb = 'DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=22.04\nDISTRIB_CODENAME=jammy\nDISTRIB_DESCRIPTION="Ubuntu 22.04.5 LTS"\n'
    (root / "etc/lsb-release").write_text(lsb, encoding="ascii")


def _write_release(root: Path, kind: str) -> None:
    (root / "usr/lib/os-release").write_text(_OS_RELEASE[kind], encoding="ascii")
    link = root / "etc/os-release"
    remove(link)
    link.symlink_to("../usr/lib/os-release")


def _rpm_kind(root: Path, kind: str, rpm: Path) -> None:
    """Debian's package manager goes out of reach, and dnf with the site's repository takes its place."""
    _write_release(root, kind)
    text, name = {
        "openeuler": ("openEuler release 22.03 (LTS-SP3)\n", "openEuler-release"),
        "kylin-v10": ("Kylin Linux Advanced Server release V10 (Lance)\n", "kylin-release"),
    }[kind]
    (root / "etc" / name).write_text(text, encoding="ascii")
    (root / "etc/system-release").symlink_to(name)
    (root / "etc/debian_version").unlink()
    for pattern in ("apt", "apt-*", "dpkg", "dpkg-*", "rpmbuild", "rpmspec", "*repo_c"):
        for file in (root / "usr/bin").glob(pattern):
            file.unlink()
    remove(root / "etc/apt")
    (root / "etc/yum.repos.d").mkdir(exist_ok=True)
    (root / "etc/yum.repos.d/site.repo").write_text(_DNF_REPO, encoding="ascii")
    (root / "etc/dnf").mkdir(exist_ok=True)
    (root / "etc/dnf/dnf.conf").write_text(_DNF, encoding="ascii")
    with chroot_mounts(root, {rpm: "/run/rpm"}):
        # What a minimal installation has: dnf then counts it as installed instead of failing to find it.
        files = sorted(str(Path("/run/rpm/base") / file.name) for file in (rpm / "base").glob("*.rpm"))
        release = "kylin-release" if kind == "kylin-v10" else "openEuler-release"
        other = {"kylin-release", "openEuler-release"} - {release}
        chosen = [f for f in files if not any(Path(f).name.startswith(name) for name in other)]
        chroot(root, ["rpm", "-i", "--nodeps", *chosen], limit=120, purpose=f"RPM database of {kind}")


def _kind_build(kind: str, lower: tuple[Path, ...], rpm: Path | None) -> Callable[[Path], None]:
    def build(building: Path) -> None:
        with overlay(lower, building / "root", building / "merged") as root:
            if kind == "ubuntu":
                _ubuntu(root)
            else:
                if rpm is None:
                    raise AssertionError("an RPM-based kind needs the RPM repository")
                _rpm_kind(root, kind, rpm)
            if kind == "kylin-v10":
                python37.install(root)
        remove(building / "merged")

    return build


@dataclass(frozen=True)
class Prepared:
    base: Path
    images: dict[str, Image]
    # Kinds that cannot be had on this machine; the others can.
    failed: dict[str, SandboxError]


def prepare(kinds: set[str]) -> Prepared:
    """Repositories in the share, and images of these kinds."""
    base_hash, base_dir = base()
    apt = apt_repo.ensure(base_dir, base_hash)
    lower: tuple[Path, ...] = (base_dir / "root",)
    images: dict[str, Image] = {}
    if "ubuntu" in kinds:
        mark = recipe_hash("ubuntu", base_hash, _OS_RELEASE["ubuntu"], _ubuntu, _write_release)
        top = _stored("ubuntu", mark, _kind_build("ubuntu", lower, None))
        images["ubuntu"] = Image("ubuntu", mark, (top / "root", *lower))
    others = sorted(kinds - {"ubuntu"})
    if not others:
        return Prepared(base_dir, images, {})
    tools_hash, tools = rpm_layer(base_hash, base_dir, apt)
    rpm = rpm_repo.ensure(apt, tools, tools_hash)
    failed: dict[str, SandboxError] = {}
    for kind in others:
        mark = recipe_hash(
            kind, tools_hash, rpm_repo.recipe(tools_hash), _OS_RELEASE[kind], _DNF, _DNF_REPO, _rpm_kind,
            _write_release, python37.recipe() if kind == "kylin-v10" else None,
        )  # fmt: skip
        try:
            top = _stored(kind, mark, _kind_build(kind, tools, rpm))
        except SandboxError as error:
            failed[kind] = error
        else:
            images[kind] = Image(kind, mark, (top / "root", *tools))
    return Prepared(base_dir, images, failed)
