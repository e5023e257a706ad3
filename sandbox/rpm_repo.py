"""The same programs as RPMs: the Debian packages that roles install, rebuilt with rpmbuild for RPM-based kinds.

Real files, real dependencies among them, real transactions; the programs stay Debian's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import apt_repo, paths
from sandbox.apt_repo import Deb
from sandbox.report import stage, ticking
from sandbox.system import chroot, chroot_mounts, fresh, overlay, recipe_hash, remove, run

# openEuler's names where they differ.
NAMES = {
    "libnuma1": "numactl-libs",
    "libjq1": "jq-libs",
    "libpcap0.8": "libpcap",
    "libnftables1": "nftables-libs",
    "libnl-3-200": "libnl3",
    "libnl-genl-3-200": "libnl3-genl",
    "libpci3": "pciutils-libs",
    "pci.ids": "hwdata",
    "liblua5.3-0": "lua-libs",
}
# Debian packaging that means nothing there.
_LEFT_OUT = {
    "python3-venv",
    "python3.11-venv",
    "python3-pip-whl",
    "python3-setuptools-whl",
    "init-system-helpers",
    "adduser",
    "cron",
    "cron-daemon-common",
    "lsb-base",
    "sysvinit-utils",
}
# name, home, shell of the users that Debian's maintainer scripts would make
USERS = {
    "haproxy": ("haproxy", "/var/lib/haproxy"),
    "chrony": ("_chrony", "/var/lib/chrony"),
    "tcpdump": ("tcpdump", "/nonexistent"),
}
# Units that have another name there.
UNITS = {"chrony.service": "chronyd.service"}
# What the base has, by openEuler's names, with the programs that stand for it.
BASE = {
    "bash": ("/usr/bin/bash", "/usr/bin/sh"),
    "ca-certificates": (),
    "coreutils": ("/usr/bin/ls", "/usr/bin/env"),
    "curl": ("/usr/bin/curl",),
    "dbus": ("/usr/bin/dbus-daemon",),
    "dnf": ("/usr/bin/dnf",),
    "findutils": ("/usr/bin/find",),
    "gawk": ("/usr/bin/awk",),
    "glibc": ("/usr/sbin/ldconfig",),
    "grep": ("/usr/bin/grep",),
    "gzip": ("/usr/bin/gzip",),
    "hostname": ("/usr/bin/hostname",),
    "iproute": ("/usr/sbin/ip",),
    "iputils": ("/usr/bin/ping",),
    "kmod": ("/usr/sbin/modprobe",),
    "less": ("/usr/bin/less",),
    "openssh-clients": ("/usr/bin/ssh",),
    "openssh-server": ("/usr/sbin/sshd",),
    "pam": (),
    "procps-ng": ("/usr/bin/ps", "/usr/sbin/sysctl"),
    "python3": ("/usr/bin/python3",),
    "rpm": ("/usr/bin/rpm",),
    "rsync": ("/usr/bin/rsync",),
    "sed": ("/usr/bin/sed",),
    "shadow": ("/usr/sbin/useradd",),
    "sudo": ("/usr/bin/sudo",),
    "systemd": ("/usr/bin/systemctl",),
    "systemd-udev": ("/usr/bin/udevadm",),
    "tar": ("/usr/bin/tar",),
    "tzdata": (),
    "util-linux": ("/usr/bin/mount",),
}
RELEASES = {"openEuler-release": "22.03", "kylin-release": "10"}


@dataclass(frozen=True)
class Rpm:
    """What one Debian package becomes."""

    name: str
    version: str
    release: str
    epoch: str
    arch: str
    summary: str
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    user: tuple[str, str] | None = None
    files: tuple[str, ...] = field(default=(), compare=False)
    has_unit: bool = False


def rpm_name(deb: str) -> str:
    return NAMES.get(deb, deb)


def split_version(version: str) -> tuple[str, str, str]:
    """epoch, version, release. A Debian revision becomes the release; RPM allows no dash in either."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, "1"
    return epoch, _clean(upstream), _clean(revision)


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+~^]", ".", text)


def convert(debs: Iterable[Deb]) -> list[Rpm]:
    """Metadata of the RPMs for a closed set of Debian packages."""
    here = {deb.name: deb for deb in debs if deb.name not in _LEFT_OUT}
    providers = {name: deb.name for deb in here.values() for name in deb.provides}
    rpms = []
    for deb in here.values():
        requires: set[str] = set()
        for choices in deb.relations("Pre-Depends", "Depends"):
            for choice in choices:
                actual = choice if choice in here else providers.get(choice)
                if actual:
                    requires.add(rpm_name(actual))
                    break
        name = rpm_name(deb.name)
        provides = {*deb.provides, *([deb.name] if name != deb.name else [])}
        epoch, version, release = split_version(deb.version)
        rpms.append(
            Rpm(
                name=name,
                version=version,
                release=f"{release}.oe2203sp3",
                epoch=epoch,
                arch="noarch" if deb.fields.get("Architecture") == "all" else "native",
                summary=deb.fields.get("Description", name).splitlines()[0],
                requires=tuple(sorted(requires - {name})),
                provides=tuple(sorted(p for p in provides if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9+._-]*", p))),
                user=USERS.get(deb.name),
            )
        )
    return sorted(rpms, key=lambda rpm: rpm.name)


_HEAD = """\
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none
%global _binary_payload w1.gzdio
%global source_date_epoch_from_changelog 0
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _buildhost sandbox
Name: sandbox-set
Version: 1
Release: 1
Summary: Programs of the site
License: as in Debian
AutoReqProv: no
%description
Programs of the site.
"""


def spec(rpms: Sequence[Rpm], payload: str) -> str:
    """One spec with a package each: one run of rpmbuild instead of dozens."""
    parts = [_HEAD]
    for rpm in rpms:
        lines = [f"%package -n {rpm.name}", f"Version: {rpm.version}", f"Release: {rpm.release}"]
        lines += [f"Epoch: {rpm.epoch}"] if rpm.epoch else []
        lines += [f"Summary: {rpm.summary.replace('%', '%%')}", "AutoReqProv: no"]
        lines += ["BuildArch: noarch"] if rpm.arch == "noarch" else []
        lines += [f"Requires: {name}" for name in rpm.requires]
        lines += [f"Provides: {name} = {rpm.version}-{rpm.release}" for name in rpm.provides]
        lines += [f"%description -n {rpm.name}", rpm.summary.replace("%", "%%")]
        if rpm.user:
            user, home = rpm.user
            lines += [
                f"%pre -n {rpm.name}",
                f"getent group {user} >/dev/null || groupadd -r {user}",
                f"getent passwd {user} >/dev/null || useradd -r -g {user} -d {home} -s /sbin/nologin {user}",
                "exit 0",
            ]
        post = ["/sbin/ldconfig"]
        post += [f"systemd-tmpfiles --create {file}" for file in rpm.files if file.startswith("/usr/lib/tmpfiles.d/")]
        post += ["systemctl daemon-reload"] if rpm.has_unit else []
        # Neither enabled nor started: on RPM-based distributions that is the operator's decision.
        lines += [f"%post -n {rpm.name}", *(f"{line} >/dev/null 2>&1 || :" for line in post), "exit 0"]
        after = ["/sbin/ldconfig", *(["systemctl daemon-reload"] if rpm.has_unit else [])]
        lines += [f"%postun -n {rpm.name}", *(f"{line} >/dev/null 2>&1 || :" for line in after), "exit 0"]
        lines += [f"%files -n {rpm.name}", "%defattr(-,root,root,-)"]
        lines += [_file_line(file) for file in rpm.files]
        parts.append("\n".join(lines) + "\n")
    parts.append(f"%install\nmkdir -p %{{buildroot}}\ncp -a {payload}/. %{{buildroot}}/\n")
    return "\n".join(parts)


def _file_line(file: str) -> str:
    if file.startswith("%dir "):
        return file
    quoted = '"' + file.replace("%", "%%") + '"'
    return f"%config(noreplace) {quoted}" if file.startswith("/etc/") else quoted


def base_spec() -> str:
    """Packages without files for what the base has, and one for each release."""
    parts = [_HEAD]
    for name, programs in BASE.items():
        # A merged /usr: each program has two names, and packages ask for either.
        files = [place for program in programs for place in (program, program.removeprefix("/usr"))]
        provides = "".join(f"Provides: {file}\n" for file in files)
        parts.append(
            f"%package -n {name}\nSummary: {name} of the base\nBuildArch: noarch\n{provides}"
            f"%description -n {name}\n{name} of the base.\n%files -n {name}\n"
        )
    for name, version in RELEASES.items():
        parts.append(
            f"%package -n {name}\nVersion: {version}\nSummary: release\nBuildArch: noarch\n"
            f"Provides: system-release = {version}\nProvides: system-release(releasever) = {version}\n"
            f"%description -n {name}\nRelease.\n%files -n {name}\n"
        )
    parts.append("%install\nmkdir -p %{buildroot}\n")
    return "\n".join(parts)


def unpack(deb: Path, target: Path) -> list[str]:
    """Files of one package below target, at the places of a merged /usr; returns their paths."""
    staging = target.with_name(f"{target.name}.one")
    remove(staging)
    staging.mkdir()
    run(["dpkg-deb", "--extract", deb, staging], limit=120, purpose=f"unpacking {deb.name}")
    found = []
    for path in sorted(staging.rglob("*")):
        inside = "/" + str(path.relative_to(staging))
        inside = re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", inside)
        if path.is_dir() and not path.is_symlink():
            # Directories that only this package has (an empty one is a state directory).
            if not any(path.iterdir()) and not inside.startswith("/usr/"):
                (target / inside.lstrip("/")).mkdir(parents=True, exist_ok=True)
                found.append(f"%dir {inside}")
            continue
        if re.match(r"/usr/share/(doc|man|locale|info|lintian|bug)/", inside):
            continue
        if "/systemd/system/" in inside:
            inside = str(Path(inside).with_name(UNITS.get(path.name, path.name)))
        place = target / inside.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
        found.append(inside)
    remove(staging)
    return found


def recipe(tools_hash: str) -> str:
    return recipe_hash(
        tools_hash, apt_repo.SERVICE_PACKAGES, NAMES, sorted(_LEFT_OUT), USERS, UNITS, BASE, RELEASES, _HEAD,
        convert, spec, base_spec, unpack, split_version, "1",
    )  # fmt: skip


def ensure(apt: Path, tools: tuple[Path, ...], tools_hash: str) -> Path:
    """share/rpm, built with the rpmbuild of the tools image."""
    target = paths.SHARE / "rpm"
    mark = recipe(tools_hash)
    stamp = target / ".recipe"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        stage("packages rpm: from cache")
        return target
    debs = apt_repo.closure(apt_repo.SERVICE_PACKAGES, apt_repo.read(apt))
    work = paths.WORK / "rpm"
    remove(work)
    payload = work / "in/payload"
    payload.mkdir(parents=True)
    files = {
        rpm_name(deb.name): unpack(apt / deb.fields["Filename"], payload) for deb in debs if deb.name not in _LEFT_OUT
    }
    rpms = [_with_files(rpm, files[rpm.name]) for rpm in convert(debs)]
    (work / "in/set.spec").write_text(spec(rpms, "/run/in/payload"), encoding="utf-8")
    (work / "in/base.spec").write_text(base_spec(), encoding="utf-8")
    with fresh(target) as building:
        building.chmod(0o755)
        (building / "base").mkdir()
        with (
            ticking("packages rpm", lambda: f"{len(list(building.rglob('*.rpm')))} files"),
            overlay(tools, work / "upper", work / "merged") as root,
            chroot_mounts(root, {work / "in": "/run/in", building: "/run/out"}),
        ):
            for name, out in (("set", "/run/out"), ("base", "/run/out/base")):
                build = ["rpmbuild", "-bb", "--quiet", "--define", "_topdir /var/tmp/rpmbuild", "--define",
                         f"_rpmdir {out}", "--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
                         f"/run/in/{name}.spec"]  # fmt: skip
                chroot(root, build, limit=900, purpose=f"rpmbuild of the {name} packages")
            chroot(
                root, ["createrepo_c", "-q", "--excludes", "base/*", "/run/out"], limit=300, purpose="RPM repository"
            )
        (building / ".recipe").write_text(mark, encoding="ascii")
        count = len(list(building.glob("*.rpm")))
    remove(work)
    stage(f"packages rpm: {count} files in {target}")
    return target


def _with_files(rpm: Rpm, files: list[str]) -> Rpm:
    return Rpm(
        **{
            **rpm.__dict__,
            "files": tuple(files),
            "has_unit": any("/systemd/system/" in file for file in files),
        }
    )
