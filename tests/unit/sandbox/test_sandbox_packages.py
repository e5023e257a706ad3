from __future__ import annotations

from sandbox import apt_repo, rpm_repo
from sandbox.apt_repo import Deb


def deb(name: str, version: str = "1.0-1", **fields: str) -> Deb:
    return Deb({"Package": name, "Version": version, **{key.replace("_", "-"): value for key, value in fields.items()}})


def test_a_control_file_with_continued_lines() -> None:
    fields = apt_repo.parse_control("Package: a\nDescription: short\n long\n .\nDepends: b (>= 1), c | d")
    assert fields["Description"].startswith("short\n long")
    assert Deb(fields).relations("Depends") == [["b"], ["c", "d"]]


def test_relations_lose_versions_architectures_and_qualifiers() -> None:
    found = deb("a", Depends="b:any, c [amd64], d<!nocheck>, e(= 1)").relations("Depends")
    assert found == [["b"], ["c"], ["d"], ["e"]]


def test_the_closure_takes_what_is_there_and_leaves_what_the_base_has() -> None:
    available = [
        deb("haproxy", Depends="libc6, liblua, debconf | virtual"),
        deb("liblua", Pre_Depends="data"),
        deb("data"),
        deb("provider", Provides="virtual (= 2)"),
        deb("unrelated"),
    ]
    names = [d.name for d in apt_repo.closure(["haproxy", "curl"], available)]
    assert names == ["data", "haproxy", "liblua", "provider"]


def test_versions_fit_rpm() -> None:
    assert rpm_repo.split_version("1:2.2.7-1+b2") == ("1", "2.2.7", "1+b2")
    assert rpm_repo.split_version("2.6.12-1+deb12u4") == ("", "2.6.12", "1+deb12u4")
    assert rpm_repo.split_version("0.0~2023.04.11") == ("", "0.0~2023.04.11", "1")
    assert rpm_repo.split_version("1-2-3") == ("", "1.2", "3")


def test_debian_packages_become_rpms_with_their_names_there() -> None:
    rpms = {
        rpm.name: rpm
        for rpm in rpm_repo.convert(
            [
                deb("numactl", Depends="libc6 (>= 2), libnuma1 (>= 2), adduser", Description="tool\n more"),
                deb("libnuma1", Architecture="amd64", Provides="libnuma (= 1)"),
                deb("haproxy", Depends="numactl | other", Architecture="all"),
                deb("adduser"),
            ]
        )
    }
    assert set(rpms) == {"numactl", "numactl-libs", "haproxy"}
    assert rpms["numactl"].requires == ("numactl-libs",)
    assert rpms["numactl"].summary == "tool"
    assert rpms["numactl-libs"].provides == ("libnuma", "libnuma1")
    assert rpms["haproxy"].user == ("haproxy", "/var/lib/haproxy")
    assert (rpms["haproxy"].arch, rpms["numactl"].arch) == ("noarch", "native")


def test_the_spec_makes_users_and_leaves_units_alone() -> None:
    rpm = rpm_repo.Rpm(
        "haproxy", "2.6", "1", "", "native", "100% fast", ("lua-libs",), (), ("haproxy", "/var/lib/haproxy"),
        ("/usr/sbin/haproxy", "/etc/haproxy/haproxy.cfg", "%dir /var/lib/haproxy"), True,
    )  # fmt: skip
    text = rpm_repo.spec([rpm], "/payload")
    assert "Requires: lua-libs\n" in text
    assert "useradd -r -g haproxy -d /var/lib/haproxy" in text
    assert '%config(noreplace) "/etc/haproxy/haproxy.cfg"' in text
    assert '"/usr/sbin/haproxy"' in text
    assert "%dir /var/lib/haproxy" in text
    assert "100%% fast" in text
    assert "systemctl daemon-reload" in text
    assert "enable" not in text.replace("noreplace", "")


def test_the_base_answers_for_both_names_of_a_shell() -> None:
    text = rpm_repo.base_spec()
    assert "Provides: /bin/sh\n" in text
    assert "Provides: /usr/bin/sh\n" in text


def test_a_release_file_names_its_indexes() -> None:
    text = apt_repo.release({"Packages": b"x"})
    assert " 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 1 Packages\n" in text
