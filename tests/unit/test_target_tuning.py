"""Settings of a host against a tree that stands for a kernel."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fleet.target import tuning, tuning_settings
from fleet.target.trouble import Trouble
from fleet.target.tuning import Wanted, converge, merged
from fleet.target.tuning_settings import PORTS, Places
from hypothesis import given, settings
from hypothesis import strategies as st

SWAP, MAPS, RANGE = "vm.swappiness", "vm.max_map_count", "net.ipv4.ip_local_port_range"
THP = "/sys/kernel/mm/transparent_hugepage"
GOVERNORS = [f"/sys/devices/system/cpu/cpufreq/policy{n}/scaling_governor" for n in (0, 4)]
NODES = "/sys/devices/system/node"
POOLS = [f"{NODES}/node{n}/hugepages/hugepages-2048kB/nr_hugepages" for n in (0, 1)]
LIMITS = "/etc/systemd/system/vllm-engine@.service.d/40-vllm-fleet-limits.conf"
SHM_UNIT = "/etc/systemd/system/vllm-fleet-shm.service"
PAGE, GIB = 2 << 20, 1 << 30


def make_host(root: Path, memory_page: int = 4096) -> Places:
    huge = 2048 if memory_page == 4096 else 524288
    files = {
        "/proc/sys/vm/swappiness": "60",
        "/proc/sys/vm/max_map_count": "65530",
        "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999",
        "/proc/sys/net/ipv4/conf/eth0.100/rp_filter": "2",
        "/proc/sys/net/ipv4/ip_local_reserved_ports": "7000-7001",
        "/proc/meminfo": f"MemTotal: {64 << 20} kB\nHugepagesize:    {huge} kB",
        f"{THP}/enabled": "[always] madvise never",
        "/dev/shm.size": str(32 * GIB),
    }
    for governor in GOVERNORS:
        files |= {governor: "schedutil"}
        files |= {governor.replace("governor", "available_governors"): "performance schedutil"}
    for node in (0, 1):
        files[f"{NODES}/node{node}/meminfo"] = f"Node {node} MemTotal:  {32 << 20} kB"
        for size in (huge, 1048576):
            files[f"{NODES}/node{node}/hugepages/hugepages-{size}kB/nr_hugepages"] = "0"
    for name, text in files.items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return Places(root=str(root))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return make_host(tmp_path)


@pytest.fixture(autouse=True)
def shm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file stands for the size of the file system."""

    def resize(places: Places, size: str) -> None:
        Path(places.path("/dev/shm.size")).write_text(size)

    monkeypatch.setattr(tuning_settings, "shm_bytes", lambda places: read_file(places, "/dev/shm.size"))
    monkeypatch.setattr(tuning_settings, "resize_shm", resize)


def read_file(places: Places, name: str) -> str | None:
    file = Path(places.path(name))
    return file.read_text().strip() if file.exists() else None


def kernel(places: Places, name: str) -> str | None:
    return tuning.read(name, places)


def record(places: Places) -> dict[str, Any]:
    return json.loads(Path(places.path(places.state_file)).read_text())


def whole(places: Places) -> dict[str, str | None]:
    """Everything that the role may touch: values of the kernel, and files outside it."""
    root = Path(places.root)
    found: dict[str, str | None] = {}
    for file in sorted(root.rglob("*")):
        name = f"/{file.relative_to(root)}"
        if file.is_file():
            sysctl = name.removeprefix("/proc/sys/") if name.startswith("/proc/sys/") else name
            found[name] = kernel(places, sysctl) if name.startswith(("/proc/sys", "/sys")) else read_file(places, name)
    return found


#: One wish for each kind of setting, and what the kernel or the files then have.
KINDS: dict[str, tuple[Wanted, dict[str, str]]] = {
    "sysctl": (Wanted({SWAP: "10", MAPS: "1048576"}), {SWAP: "10", MAPS: "1048576"}),
    "a sysctl of a VLAN": (
        Wanted({"net/ipv4/conf/eth0.100/rp_filter": "1"}),
        {"net/ipv4/conf/eth0.100/rp_filter": "1"},
    ),
    "thp": (Wanted(thp={"enabled": "madvise"}), {f"{THP}/enabled": "madvise"}),
    "governor": (Wanted(governor="performance"), dict.fromkeys(GOVERNORS, "performance")),
    "ports": (Wanted(reserved_ports="7001-7002,8000"), {PORTS: "7000-7002,8000"}),
    "shm": (Wanted(shm_bytes=48 * GIB), {"/dev/shm": str(48 * GIB)}),
    "huge pages": (
        Wanted(huge_pages=[{"node": 0, "bytes": GIB}, {"node": 1, "bytes": 3 * PAGE + 1}]),
        {POOLS[0]: "512", POOLS[1]: "4"},
    ),
    "limits": (Wanted(limits={"LimitMEMLOCK": "infinity"}), {}),
    "the engines' shm": (Wanted(engine_shm_bytes=GIB), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_setting_and_back(places: Places, kind: str) -> None:
    wanted, values = KINDS[kind]
    first = whole(places)
    checked = converge(wanted, places, check=True)
    assert whole(places) == first, "a check changes nothing"
    done = converge(wanted, places, check=False)
    assert checked == done
    assert done["changed"]
    assert sorted(values) == done["kernel_changed"]
    assert {name: kernel(places, name) for name in values} == values
    assert done["files_changed"], "it lasts"
    assert record(places)["settings"].keys() == values.keys()
    again = converge(wanted, places, check=False)
    assert (again["changed"], again["diff"]["before"]) == (False, again["diff"]["after"])
    assert converge(Wanted(), places, check=True)["changed"]
    back = converge(Wanted(), places, check=False)
    assert back["kernel_changed"] == sorted(values)
    assert whole(places) == first
    assert not converge(Wanted(), places, check=False)["changed"]


def test_files_for_the_next_boot(places: Places) -> None:
    wanted = Wanted(
        {SWAP: "10"},
        {"enabled": "madvise"},
        governor="performance",
        reserved_ports="8000",
        shm_bytes=GIB + 1,
        huge_pages=[{"node": 1, "bytes": 2 * PAGE}],
        limits={"LimitNOFILE": "1048576"},
        engine_shm_bytes=GIB,
        reasons={SWAP: "No swapping. (vm.rst)", "governor": "Speed. (cpufreq.rst)", "limits": "Pinned. (exec)"},
    )
    converge(wanted, places, check=False)
    sysctl = read_file(places, places.sysctl_file)
    assert sysctl is not None
    assert sysctl.endswith(f"\n{PORTS} = 7000-7001,8000\n# {SWAP}: No swapping. (vm.rst)\n{SWAP} = 10")
    tree = read_file(places, places.tmpfiles_file)
    assert tree is not None
    assert "# governor: Speed. (cpufreq.rst)" in tree
    assert [line for line in tree.splitlines() if not line.startswith("#")] == [
        *(f"w {name} - - - - performance" for name in GOVERNORS),
        f"w {POOLS[1]} - - - - 2",
        f"w {THP}/enabled - - - - madvise",
    ]
    assert f"ExecStart=mount -o remount,size={GIB + 4096} /dev/shm" in str(read_file(places, SHM_UNIT))
    assert "Wants=vllm-fleet-shm.service" in str(read_file(places, places.shm_wants))
    assert str(read_file(places, LIMITS)).endswith(
        "# limits: Pinned. (exec)\n[Service]\nLimitNOFILE=1048576\n"
        f"TemporaryFileSystem=\nTemporaryFileSystem=/dev/shm:mode=1777,size={GIB}"
    )


PORT_LISTS = st.sampled_from(["", "7001", "8000-8003", "61000-61063,7000-7010"])
WISHES = st.builds(
    Wanted,
    sysctl=st.dictionaries(st.sampled_from([SWAP, MAPS, RANGE]), st.sampled_from(["1", "60", "10 20"])),
    thp=st.sampled_from([{}, {"enabled": "never"}, {"enabled": "always"}]),
    governor=st.sampled_from(["", "performance", "schedutil"]),
    reserved_ports=PORT_LISTS,
    shm_bytes=st.sampled_from([0, GIB, 32 * GIB]),
    huge_pages=st.sampled_from([[], [{"node": 0, "bytes": GIB}], [{"node": 1, "bytes": GIB, "page_bytes": GIB}]]),
    limits=st.sampled_from([{}, {"LimitMEMLOCK": "infinity"}]),
    limits_unit=st.sampled_from(["vllm-engine@.service", "other.service"]),
    engine_shm_bytes=st.sampled_from([0, GIB]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WISHES, min_size=1, max_size=4), st.booleans())
def test_whatever_was_wanted_absent_gives_the_first_state_back(wishes: list[Wanted], own_file: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        places = make_host(Path(folder))
        if own_file:  # somebody else's file of the same name
            file = Path(places.path(LIMITS))
            file.parent.mkdir(parents=True)
            file.write_text("[Service]\nLimitNOFILE=1\n")
        first = whole(places)
        for wanted in wishes:
            converge(wanted, places, check=False)
            assert not converge(wanted, places, check=False)["changed"]
        converge(Wanted(), places, check=False)
        assert whole(places) == first


@pytest.mark.parametrize(
    ("key", "path", "name"),
    [
        ("vm.swappiness", "vm/swappiness", "vm.swappiness"),
        ("net/ipv4/ip_forward", "net/ipv4/ip_forward", "net.ipv4.ip_forward"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
    ],
)
def test_names_are_read_as_sysctl_does(key: str, path: str, name: str) -> None:
    assert tuning.setting_file(key) == f"/proc/sys/{path}"
    assert tuning.sysctl_name(key) == name
    assert tuning.setting_file(name) == f"/proc/sys/{path}"


def test_only_the_kernel_differs(places: Places) -> None:
    converge(Wanted({SWAP: "10"}), places, check=False)
    Path(places.setting(SWAP)).write_text("33\n")
    result = converge(Wanted({SWAP: "10"}), places, check=False)
    assert (result["kernel_changed"], result["files_changed"]) == ([SWAP], [])
    # What was there before the first run stays on record, not the 33.
    assert record(places)["settings"] == {SWAP: "60"}


def test_only_a_file_differs(places: Places) -> None:
    converge(Wanted({SWAP: "10"}), places, check=False)
    Path(places.path(places.sysctl_file)).unlink()
    result = converge(Wanted({SWAP: "10"}), places, check=False)
    assert (result["kernel_changed"], result["files_changed"]) == ([], [places.sysctl_file])


def test_a_setting_that_comes_later_has_its_own_record(places: Places) -> None:
    converge(Wanted({SWAP: "10"}), places, check=False)
    Path(places.setting(MAPS)).write_text("70000\n")
    converge(Wanted({SWAP: "20", MAPS: "1048576"}), places, check=False)
    assert record(places)["settings"] == {SWAP: "60", MAPS: "70000"}


def test_a_setting_that_is_left_out_goes_back(places: Places) -> None:
    converge(Wanted({SWAP: "10", MAPS: "1048576"}), places, check=False)
    result = converge(Wanted({MAPS: "1048576"}), places, check=False)
    assert result["kernel_changed"] == [SWAP]
    assert kernel(places, SWAP) == "60"
    assert record(places)["settings"] == {MAPS: "65530"}


def test_a_record_of_an_older_release_is_still_one(places: Places) -> None:
    state = Path(places.path(places.state_file))
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"sysctl": {SWAP: "40"}, "thp": {"enabled": "never"}}))
    for name in (places.sysctl_file, places.tmpfiles_file, LIMITS):
        Path(places.path(name)).parent.mkdir(parents=True, exist_ok=True)
        Path(places.path(name)).write_text(tuning.HEAD)
    converge(Wanted({SWAP: "10"}), places, check=False)
    converge(Wanted(), places, check=False)
    assert (kernel(places, SWAP), kernel(places, f"{THP}/enabled")) == ("40", "never")
    assert not state.exists()
    assert [n for n in (places.sysctl_file, places.tmpfiles_file, LIMITS) if read_file(places, n) is not None] == []


@pytest.mark.parametrize("first", ["ratio", "bytes"])
@pytest.mark.parametrize(
    "wishes", [["bytes"], ["ratio"], ["bytes", "ratio"], ["ratio", "bytes", "ratio"], ["bytes", ""]]
)
def test_two_names_of_one_setting(
    places: Places, monkeypatch: pytest.MonkeyPatch, first: str, wishes: list[str]
) -> None:
    names = {"ratio": "vm.dirty_ratio", "bytes": "vm.dirty_bytes"}
    other = {names["ratio"]: names["bytes"], names["bytes"]: names["ratio"]}
    for kind, name in names.items():
        Path(places.setting(name)).write_text("20\n" if kind == first else "0\n")
    original = tuning.write

    def as_the_kernel(name: str, value: str, places: Places) -> None:
        if name == names["bytes"] and value == "0":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        original(name, value, places)
        if name in other:
            original(other[name], "0", places)

    monkeypatch.setattr(tuning, "write", as_the_kernel)
    before = whole(places)
    for wish in wishes:
        wanted = Wanted({names[wish]: "8192"} if wish else {})
        converge(wanted, places, check=False)
        assert not wish or kernel(places, names[wish]) == "8192"
        assert not converge(wanted, places, check=False)["changed"]
    converge(Wanted(), places, check=False)
    assert whole(places) == before


def test_values_are_compared_as_the_kernel_means_them(places: Places) -> None:
    converge(Wanted({RANGE: "32768 60999"}), places, check=False)
    text = Path(places.setting(RANGE)).read_text()
    assert text == "32768\t60999\n", "the same value is not written again"
    assert tuning.same(SWAP, "0x10", "16")
    assert tuning.same(PORTS, "1-3", "1,2,3")
    assert not tuning.same(SWAP, "1", "1 1")
    assert not tuning.same(SWAP, "a", "b")


def test_ports_of_others_stay_reserved(places: Places) -> None:
    converge(Wanted(reserved_ports="8000-8003"), places, check=False)
    Path(places.setting(PORTS)).write_text("7000-7001,8000-8003,9000\n")
    assert not converge(Wanted(reserved_ports="8000-8003"), places, check=True)["kernel_changed"]
    converge(Wanted(reserved_ports="8000"), places, check=False)
    assert kernel(places, PORTS) == "7000-7001,8000,9000"
    converge(Wanted(), places, check=False)
    assert kernel(places, PORTS) == "7000-7001,9000"
    with pytest.raises(Trouble, match=r"'80-' is neither a port nor a range"):
        merged({}, {"reserved_ports": "1,80-"}, [], [])


def test_a_recorded_setting_that_the_kernel_lost_does_no_harm(places: Places) -> None:
    converge(Wanted({SWAP: "10", MAPS: "1048576"}), places, check=False)
    Path(places.setting(SWAP)).unlink()
    assert converge(Wanted(), places, check=False)["changed"]
    assert kernel(places, MAPS) == "65530"


def test_huge_pages_are_of_the_hosts_size(tmp_path: Path) -> None:
    places = make_host(tmp_path, memory_page=65536)
    wish = [{"node": 0, "bytes": GIB}, {"node": 1, "bytes": 1}]
    assert tuning.huge_pages(wish, 0.5, places) == {
        f"{NODES}/node{node}/hugepages/hugepages-524288kB/nr_hugepages": pages for node, pages in ((0, "2"), (1, "1"))
    }


def test_huge_pages_may_not_eat_the_host(places: Places) -> None:
    most = 16 * GIB
    converge(Wanted(huge_pages=[{"node": 0, "bytes": most}]), places, check=False)
    other = Path(places.path(POOLS[1].replace("2048", "1048576")))
    other.write_text("15\n")
    with pytest.raises(Trouble) as told:
        wish = [{"node": 0, "bytes": most + 1}, {"node": 1, "bytes": GIB}, {"node": 1, "bytes": 1, "page_bytes": GIB}]
        converge(Wanted({SWAP: "10"}, huge_pages=wish), places, check=False)
    assert "NUMA node 0: 16 GiB as 8193 pages of 2 MiB, 16 GiB; with all pools 16 GiB, and at most 16 GiB" in str(
        told.value
    )
    assert "node 1" not in str(told.value), "its own wish replaces the 15"
    with pytest.raises(Trouble, match=r"with all pools 16\.5 GiB, and at most 16 GiB of its 32 GiB"):
        converge(Wanted(huge_pages=[{"node": 1, "bytes": GIB + GIB // 2}]), places, check=False)
    assert kernel(places, SWAP) == "60"


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"node": 2, "bytes": 1}, "wanted on NUMA node 2, and this host has node0, node1"),
        ({"node": 0, "bytes": 1, "page_bytes": 65536}, "no huge pages of 64 KiB; it has 2 MiB, 1 GiB"),
    ],
)
def test_impossible_huge_pages_are_refused(places: Places, wish: dict[str, int], words: str) -> None:
    with pytest.raises(Trouble, match=words):
        converge(Wanted(huge_pages=[wish]), places, check=True)


def test_one_pool_where_the_kernel_knows_no_nodes(tmp_path: Path) -> None:
    pool = tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    pool.parent.mkdir(parents=True)
    pool.write_text("0\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8388608 kB\nHugepagesize: 2048 kB\n")
    places = Places(root=str(tmp_path))
    converge(Wanted(huge_pages=[{"node": 0, "bytes": PAGE}]), places, check=False)
    assert pool.read_text() == "1\n"


def test_all_missing_settings_are_named_before_anything_changes(places: Places) -> None:
    with pytest.raises(Trouble, match=r"has no kernel\.no_such, vm\.no_such.*host_tuning_optional"):
        converge(Wanted({SWAP: "10", "vm.no_such": "1", "kernel.no_such": "1"}), places, check=False)
    assert kernel(places, SWAP) == "60"


def test_a_host_without_cpufreq(places: Places) -> None:
    for name in GOVERNORS:
        Path(places.path(name)).unlink()
        Path(places.path(name).replace("governor", "available_governors")).unlink()
        Path(places.path(name)).parent.rmdir()
    result = converge(merged({"governor": "performance"}, {}, [], []), places, check=False)
    assert (result["changed"], list(result["left_alone"])) == (False, ["governor"])
    with pytest.raises(Trouble, match="this kernel has no governor"):
        converge(merged({}, {"governor": "performance"}, [], []), places, check=False)


def test_a_governor_that_the_driver_lacks(places: Places) -> None:
    assert converge(merged({"governor": "powersave"}, {}, [], []), places, check=False)["left_alone"].keys() == {
        *GOVERNORS
    }
    with pytest.raises(Trouble, match="wanted powersave, found schedutil: its governors are performance schedutil"):
        converge(merged({}, {"governor": "powersave"}, [], []), places, check=True)


def test_what_is_read_only_is_left_alone_unless_demanded(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "writable", lambda name, _: not name.startswith(THP))
    plan = {"thp": {"enabled": "madvise"}, "sysctl": {SWAP: "10"}}
    result = converge(merged(plan, {}, [], []), places, check=False)
    assert result["left_alone"] == {f"{THP}/enabled": "read-only here, as in a container; it is always, not madvise"}
    assert kernel(places, SWAP) == "10"
    assert not converge(merged(plan, {}, [], []), places, check=False)["changed"]
    for check in (True, False):
        with pytest.raises(Trouble, match=r"enabled: wanted madvise, found always: it is read-only here"):
            converge(merged({}, {"thp": {"enabled": "madvise"}}, [], []), places, check=check)


def test_the_inventory_wins_over_the_plan() -> None:
    plan = {
        "sysctl": {SWAP: "10", MAPS: "1048576", "vm.zone_reclaim_mode": "0"},
        "thp": {"enabled": "madvise"},
        "governor": "performance",
        "reserved_ports": "8000-8003",
        "limits": {"LimitNOFILE": "1", "LimitMEMLOCK": "infinity"},
        "engine_shm_bytes": GIB,
        "reasons": {SWAP: "why (where)", "thp": "why"},
    }
    whole_plan = merged(plan, {}, [], [])
    assert whole_plan.optional == {
        SWAP,
        MAPS,
        "vm.zone_reclaim_mode",
        "thp",
        "governor",
        "reserved_ports",
        "engine_shm",
    }
    own = {
        "sysctl": {"vm/swappiness": 5},
        "limits": {"LimitNOFILE": 2},
        "reserved_ports": "9000",
        "thp": {"defrag": None},
    }
    wanted = merged(plan, own, ["thp"], ["vm.zone_reclaim_mode", "governor", "engine_shm"])
    assert wanted.sysctl == {SWAP: "5", MAPS: "1048576"}
    assert wanted.optional == {MAPS, "thp", "governor", "engine_shm"}
    assert (wanted.governor, wanted.engine_shm_bytes, wanted.reserved_ports) == ("", 0, "8000-8003,9000")
    assert wanted.limits == {"LimitNOFILE": "2", "LimitMEMLOCK": "infinity"}
    nothing = merged(plan, {}, [], [*plan["sysctl"], "thp", "governor", "reserved_ports", "limits", "engine_shm"])  # type: ignore[misc]
    assert (nothing.sysctl, nothing.thp, nothing.reserved_ports, nothing.limits) == ({}, {}, "", {})


def test_values_that_do_not_stick_are_all_told(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "write", lambda *_: None)
    with pytest.raises(Trouble) as told:
        converge(Wanted({SWAP: "10"}, huge_pages=[{"node": 0, "bytes": PAGE}]), places, check=False)
    assert "2 of 2 settings" in str(told.value)
    assert f"{SWAP}: wanted 10, found 60 after it was written: something sets it back (tuned" in str(told.value)
    assert f"{POOLS[0]}: wanted 1, found 0 after it was written: its memory is used or fragmented" in str(told.value)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (errno.EINVAL, "Invalid argument: this kernel does not know such a value"),
        (errno.EROFS, "Read-only file system: it is read-only here, as in a container"),
        (errno.EPERM, "Operation not permitted: this run is not root"),
    ],
)
def test_a_value_that_the_kernel_refuses(
    places: Places, monkeypatch: pytest.MonkeyPatch, code: int, cause: str
) -> None:
    original = tuning.write

    def refuse(name: str, value: str, places: Places) -> None:
        if name == SWAP:
            raise OSError(code, os.strerror(code))
        original(name, value, places)

    monkeypatch.setattr(tuning, "write", refuse)
    with pytest.raises(Trouble) as told:
        converge(Wanted({SWAP: "1000", MAPS: "1048576"}), places, check=False)
    assert f"{SWAP}: wanted 1000, found 60; the kernel says {cause}" in str(told.value)
    monkeypatch.undo()
    assert kernel(places, MAPS) == "1048576", "what can be set is set, and on record"
    assert record(places)["settings"] == {SWAP: "60", MAPS: "65530"}


def test_other_files_that_win_at_the_next_boot_are_named(places: Places) -> None:
    later = Path(places.path("/etc/sysctl.d/99-site.conf"))
    later.parent.mkdir(parents=True)
    later.write_text(f"# a comment\nvm/swappiness=1\n-vm.max_map_count = 1048576\n{PORTS} = none\n")
    Path(places.path("/etc/sysctl.d/10-early.conf")).write_text("vm.swappiness = 1\n")
    Path(places.path("/etc/sysctl.conf")).write_text("vm.swappiness = 10\n")
    warnings = converge(Wanted({SWAP: "10", MAPS: "1048576"}, reserved_ports="8000"), places, check=True)["warnings"]
    assert [text.partition(",")[0] for text in warnings] == [
        "/etc/sysctl.d/99-site.conf sets vm.swappiness to 1",
        f"/etc/sysctl.d/99-site.conf sets {PORTS} to none",
    ]
