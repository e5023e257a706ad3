"""Kernel settings against a tree that stands for a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleet.target import tuning
from fleet.target.trouble import Trouble
from fleet.target.tuning import Places, Wanted, converge

SWAP, MAPS, RANGE = "vm.swappiness", "vm.max_map_count", "net.ipv4.ip_local_port_range"
THP = "sys/kernel/mm/transparent_hugepage"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for key, value in {
        SWAP: "60",
        MAPS: "65530",
        RANGE: "32768\t60999",
        "net.ipv4.conf.eth0/100.rp_filter": "2",
    }.items():
        file = tmp_path / tuning.setting_file(key).lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    folder = tmp_path / THP
    folder.mkdir(parents=True)
    (folder / "enabled").write_text("[always] madvise never\n")
    return Places(root=str(tmp_path))


def kernel(places: Places, key: str) -> str:
    return Path(places.setting(key)).read_text().strip()


def record(places: Places) -> dict[str, dict[str, str]]:
    return json.loads(Path(places.path(places.state_file)).read_text())


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("vm.swappiness", "vm/swappiness"),
        ("net/ipv4/ip_forward", "net/ipv4/ip_forward"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
    ],
)
def test_names_are_read_as_sysctl_does(key: str, path: str) -> None:
    assert tuning.setting_file(key) == f"/proc/sys/{path}"


def test_applies_records_and_repeats_without_change(places: Places) -> None:
    wanted = Wanted({SWAP: "10", MAPS: "1048576"}, {"enabled": "madvise"})
    first = converge(wanted, places, check=False)
    assert first["changed"]
    assert first["kernel_changed"] == [f"/{THP}/enabled", MAPS, SWAP]
    assert (kernel(places, SWAP), kernel(places, MAPS)) == ("10", "1048576")
    assert f"{SWAP} = 10\n" in Path(places.path(places.sysctl_file)).read_text()
    assert f"w /{THP}/enabled - - - - madvise\n" in Path(places.path(places.tmpfiles_file)).read_text()
    assert record(places) == {"sysctl": {SWAP: "60", MAPS: "65530"}, "thp": {"enabled": "always"}}
    again = converge(wanted, places, check=False)
    assert (again["changed"], again["diff"]["before"]) == (False, again["diff"]["after"])


def test_check_changes_nothing_and_tells_what_the_run_then_does(places: Places) -> None:
    wanted = Wanted({SWAP: "10"})
    checked = converge(wanted, places, check=True)
    assert checked["changed"]
    assert kernel(places, SWAP) == "60"
    assert not Path(places.path(places.sysctl_file)).exists()
    done = converge(wanted, places, check=False)
    assert {k: checked[k] for k in ("diff", "kernel_changed")} == {k: done[k] for k in ("diff", "kernel_changed")}


def test_only_the_kernel_differs(places: Places) -> None:
    converge(Wanted({SWAP: "10"}), places, check=False)
    Path(places.setting(SWAP)).write_text("33\n")
    result = converge(Wanted({SWAP: "10"}), places, check=False)
    assert (result["kernel_changed"], result["files_changed"]) == ([SWAP], [])
    # What was there before the first run stays on record, not the 33.
    assert record(places)["sysctl"] == {SWAP: "60"}


def test_only_a_file_differs(places: Places) -> None:
    converge(Wanted({SWAP: "10"}), places, check=False)
    Path(places.path(places.sysctl_file)).unlink()
    result = converge(Wanted({SWAP: "10"}), places, check=False)
    assert (result["kernel_changed"], result["files_changed"]) == ([], [places.sysctl_file])


def test_values_are_compared_as_the_kernel_means_them(places: Places) -> None:
    converge(Wanted({RANGE: "32768 60999"}), places, check=False)
    assert kernel(places, RANGE) == "32768\t60999", "the same value is not written again"
    assert tuning.same("0x10", "16")
    assert tuning.same("1\t2", "1 2")
    assert not tuning.same("1", "1 1")
    assert not tuning.same("a", "b")


def test_absent_gives_back_what_was(places: Places) -> None:
    converge(Wanted({SWAP: "10"}, {"enabled": "never"}), places, check=False)
    (Path(places.root) / THP / "enabled").write_text("always madvise [never]\n")
    assert converge(Wanted(), places, check=True)["changed"]
    assert converge(Wanted(), places, check=False)["changed"]
    assert kernel(places, SWAP) == "60"
    assert (Path(places.root) / THP / "enabled").read_text() == "always\n"
    for name in (places.sysctl_file, places.tmpfiles_file, places.state_file):
        assert not Path(places.path(name)).exists()
    assert not converge(Wanted(), places, check=False)["changed"]


def test_a_setting_that_is_left_out_goes_back(places: Places) -> None:
    converge(Wanted({SWAP: "10", MAPS: "1048576"}), places, check=False)
    result = converge(Wanted({MAPS: "1048576"}), places, check=False)
    assert result["kernel_changed"] == [SWAP]
    assert kernel(places, SWAP) == "60"
    assert record(places)["sysctl"] == {MAPS: "65530"}


def test_a_recorded_setting_that_the_kernel_lost_does_no_harm(places: Places) -> None:
    converge(Wanted({SWAP: "10", MAPS: "1048576"}), places, check=False)
    Path(places.setting(SWAP)).unlink()
    assert converge(Wanted(), places, check=False)["changed"]
    assert kernel(places, MAPS) == "65530"


def test_all_missing_settings_are_named_before_anything_changes(places: Places) -> None:
    with pytest.raises(Trouble, match=r"has no kernel\.no_such, vm\.no_such.*host_tuning_optional"):
        converge(Wanted({SWAP: "10", "vm.no_such": "1", "kernel.no_such": "1"}), places, check=False)
    assert kernel(places, SWAP) == "60"


def test_optional_settings_may_be_missing(places: Places) -> None:
    wanted = Wanted({SWAP: "10", "vm.no_such": "1"}, {"defrag": "madvise"}, frozenset({"vm.no_such", "thp"}))
    converge(wanted, places, check=False)
    assert "no_such" not in Path(places.path(places.sysctl_file)).read_text()
    assert not converge(wanted, places, check=False)["changed"]


def test_a_value_that_does_not_stick_is_an_error(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_write", lambda *_: None)
    with pytest.raises(Trouble, match=r"vm\.swappiness is 60, not 10"):
        converge(Wanted({SWAP: "10"}), places, check=False)


def test_a_value_that_the_kernel_refuses_is_named(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "setting", lambda self, key: self.path(tuning.setting_file(key)))
    file = Path(places.setting(SWAP))
    original = open

    def refuse(path: str, mode: str = "r", **rest: object) -> object:
        if str(path) == str(file) and "w" in mode:
            raise OSError(22, "Invalid argument")
        return original(path, mode, **rest)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(Trouble, match=r"does not take '10000' for vm\.swappiness: Invalid argument"):
        converge(Wanted({SWAP: "10000"}), places, check=False)


def test_other_files_that_win_at_the_next_boot_are_named(places: Places) -> None:
    later = Path(places.path("/etc/sysctl.d/99-site.conf"))
    later.parent.mkdir(parents=True)
    later.write_text("# a comment\nvm/swappiness=1\n-vm.max_map_count = 1048576\n")
    Path(places.path("/etc/sysctl.d/10-early.conf")).write_text("vm.swappiness = 1\n")
    Path(places.path("/etc/sysctl.conf")).write_text("vm.swappiness = 10\n")
    warnings = converge(Wanted({SWAP: "10", MAPS: "1048576"}), places, check=True)["warnings"]
    assert len(warnings) == 1
    assert warnings[0].startswith("/etc/sysctl.d/99-site.conf sets vm.swappiness to 1")
