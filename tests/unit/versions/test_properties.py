"""Properties: what the solver returns is legal, what it proposes solves, and it always says the same."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fleet.problems import RULES, errors
from fleet.version_rules import nearest_words, problems_of_engine, problems_of_refusal, problems_of_set
from fleet.version_sets.checker import violations
from fleet.version_sets.engine_args import engine_version, recorded_versions
from fleet.version_sets.facts import HostFacts, Wanted
from fleet.version_sets.links import BROKEN
from fleet.version_sets.matrix import load_matrix
from fleet.version_sets.solver import Refusal, VersionSet, apply, solve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .hosts import A1, A2, A3, A100, B200, DUO, H200, K100_AI, KUNPENG_FLAGS, MI300, PRO, V100, X86_FLAGS

QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SYSTEMS = [
    ("kylin", "V10", "Tercel", "2.28", "3.7.4"),
    ("kylin", "V10", "Sword", "2.28", "3.7.9"),
    ("kylin", "V10", "Lance", None, None),
    ("kylin", "V10", "kylin", "2.23", "3.8"),
    ("kylin", "V11", "Swan25", "2.38", "3.11.6"),
    ("openEuler", "20.03", "LTS", "2.28", "3.7.4"),
    ("openEuler", "22.03", "LTS-SP1", None, "3.9.9"),
    ("openEuler", "22.03", "LTS-SP4", "2.34", "3.9.9"),
    ("openEuler", "24.03", "LTS-SP1", "2.38", "3.11.6"),
    ("euleros", "2.0", "SP12", "2.34", None),
    ("ubuntu", "20.04", "focal", "2.31", "3.8"),
    ("ubuntu", "22.04", "jammy", "2.35", "3.10"),
    ("ubuntu", "24.04", "noble", "2.39", "3.12"),
    ("centos", "7.9", None, "2.17", "3.6"),
    ("debian", "12", "bookworm", "2.36", "3.11"),
    (None, None, None, None, None),
]
CARDS = [A1, A2, A3, DUO, PRO, A100, H200, B200, V100, K100_AI, MI300]


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    """Facts of hosts, likely and unlikely."""
    os_id, version, codename, glibc, python = draw(st.sampled_from(SYSTEMS))
    arch = draw(st.sampled_from(["aarch64", "x86_64"]))
    card = draw(st.sampled_from([None, *CARDS]))
    flags = draw(st.sampled_from([KUNPENG_FLAGS, []] if arch == "aarch64" else [X86_FLAGS, ["avx2"], ["sse2"], []]))
    return {
        "os_id": os_id,
        "os_version": version,
        "os_codename": codename,
        "glibc": glibc,
        "python": python,
        "arch": arch,
        "page_size": draw(st.sampled_from([4096, 4096, 65536, None])),
        "cpu_flags": flags,
        "cards": [card] * draw(st.integers(1, 8)) if card else [],
        "driver_version": draw(st.sampled_from([None, "470.82.01", "535.104.05", "570.26", "580.159.04", "610.1"])),
        "hdk_version": draw(
            st.sampled_from([None, "24.1.RC2", "25.0.RC1", "25.2.0", "25.3.RC1", "25.5.1", "26.2.RC1"])
        ),
        "cann_versions": draw(st.sampled_from([[], ["8.2.RC1"], ["8.5.1", "9.1.0"]])),
    }


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """What an operator may ask for."""
    pins = st.fixed_dictionaries(
        {},
        optional={
            "vllm": st.sampled_from(
                ["0.33.0", "0.32.0", "0.30.0", "0.23.0", "0.20.2", "0.18.0", "0.9.2", ">=0.25,<0.30", "1.0"]
            ),
            "python": st.sampled_from(["3.10", "3.11", "3.12", "3.9"]),
            "methods": st.sampled_from([["wheel"], ["wheel", "container"], ["source"]]),
            "backend": st.sampled_from(["cuda", "ascend", "cpu", "dcu", "rocm"]),
            "cann": st.sampled_from(["9.1.0", "8.5.1"]),
            "prereleases": st.sampled_from([True, False]),
            "architectures": st.sampled_from([["Qwen2ForCausalLM"], ["QWenLMHeadModel"], ["DeepseekV4ForCausalLM"]]),
        },
    )
    return draw(pins)


def _plain(value: HostFacts | Wanted) -> dict[str, Any]:
    return asdict(value)


@QUICK
@given(hosts(), wishes())
def test_every_returned_set_is_legal_under_the_checker(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    answer = solve(facts, wanted)
    if isinstance(answer, VersionSet):
        assert violations(answer.as_dict(), facts, wanted) == []
    else:
        assert answer.broken
        for near in answer.nearest:
            assert violations(near.set.as_dict(), _plain(near.facts), _plain(near.wanted)) == []


@QUICK
@given(hosts(), wishes())
def test_a_nearest_set_solves_when_applied(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    answer = solve(facts, wanted)
    if isinstance(answer, Refusal):
        for near in answer.nearest:
            assert near.moves
            assert solve(near.facts, near.wanted) == near.set
        assert [n.cost for n in answer.nearest] == sorted(n.cost for n in answer.nearest)


@QUICK
@given(hosts(), wishes())
def test_deterministic(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    from fleet.version_sets import solver

    first = solve(facts, wanted)
    solver._solve.cache_clear()
    shuffled = {**facts, "cpu_flags": list(reversed(facts["cpu_flags"]))}
    assert solve(dict(reversed(shuffled.items())), dict(reversed(wanted.items()))) == first


@QUICK
@given(hosts(), wishes())
def test_a_newer_driver_breaks_nothing(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    answer = solve(facts, wanted)
    newer = solve({**facts, "driver_version": "580.159.04"}, wanted)
    if isinstance(answer, VersionSet):
        assert isinstance(newer, VersionSet)


@QUICK
@given(
    st.dictionaries(
        st.sampled_from([*HostFacts.__dataclass_fields__]),
        st.one_of(
            st.none(),
            st.integers(),
            st.text(max_size=20),
            st.lists(st.integers(), max_size=3),
            st.just({"a": 1}),
            st.just("x" * 10_000),
            st.lists(st.dictionaries(st.text(max_size=5), st.integers(), max_size=2), max_size=2),
        ),
    )
)
def test_any_facts_give_an_answer(facts: dict[str, Any]) -> None:
    assert isinstance(solve({"arch": "aarch64", **facts}), VersionSet | Refusal)


@QUICK
@given(hosts(), wishes())
def test_every_link_has_words_in_both_languages(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    answer = solve(facts, wanted)
    links = answer.warnings if isinstance(answer, VersionSet) else (*answer.broken, *answer.warnings)
    for link in links:
        row, params = RULES[link.rule], dict(link.params)
        assert None not in params.values()
        texts = (row.rule, row.rule_zh, row.remedy, row.remedy_zh)
        assert all(text.format(**params) for text in texts)
        assert "None" not in "".join(text.format(**params) for text in texts)
        # What has words in Chinese is not shown in English there.
        twins = [name for name in params if f"{name}_zh" in params]
        assert not [name for name in twins if f"{{{name}}}" in row.rule_zh + row.remedy_zh]
        assert link.text == row.rule.format(**params)
        # A rule that is no error breaks no set; one that is always an error never only warns.
        assert row.severity == "error" if link.level == BROKEN else row.severity == "warning" or row.either
    if isinstance(answer, Refusal):
        found = problems_of_refusal("hosts.h", answer)
        assert [p.code for p in found] == [link.rule for link in answer.broken]
        assert {p.severity for p in found} == {"error"}
        assert all(near_zh in p.remedy_zh for p in found for near_zh in [nearest_words(answer.nearest)[1]])
    else:
        assert all(p.severity == "warning" for p in problems_of_set("hosts.h", answer))


@QUICK
@given(hosts(), wishes())
def test_a_proposed_set_has_no_error_when_applied(facts: dict[str, Any], wanted: dict[str, Any]) -> None:
    answer = solve(facts, wanted)
    if isinstance(answer, Refusal):
        start = HostFacts.from_mapping(facts).alike(), Wanted.from_mapping(wanted)
        for near in answer.nearest:
            assert apply(*start, near.moves) == (near.facts, near.wanted)
            after = solve(near.facts, near.wanted)
            assert isinstance(after, VersionSet)
            assert errors(problems_of_set("hosts.h", after)) == []
            english, chinese = nearest_words([near])
            assert after.runtime_id in english
            assert after.runtime_id in chinese


OPTIONS = sorted(engine_version("0.32.0").options)
REPLACED = ["device", "swap_space", "task", "best-of", "disable_log_requests", "max_num_seqz", "no-such", ""]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@QUICK
@given(
    st.dictionaries(st.one_of(st.sampled_from(REPLACED), st.sampled_from(OPTIONS), st.text(max_size=9)), VALUES),
    st.sampled_from(["0.32.0", "0.33.0", "0.18.0", "0.31.0", "0.9.2", "1.0", "strange"]),
)
def test_any_engine_settings_have_words(engine: dict[str, Any], vllm: str) -> None:
    found = problems_of_engine(("fleet_services", "chat"), engine, vllm)
    for item in found:
        assert item.rule_zh and item.remedy and item.remedy_zh
    recorded = vllm in recorded_versions()
    assert [p.code for p in found].count("SET-120") == (0 if recorded or not engine else 1)
    if not recorded:
        assert {p.code for p in found if p.severity == "error"} <= {"SVC-008", "SET-124"}


def test_the_checker_finds_what_is_wrong() -> None:
    """The checker is no rubber stamp: each tampering with a legal set is found."""
    facts = {
        "os_id": "openEuler",
        "os_version": "22.03",
        "os_codename": "LTS-SP4",
        "glibc": "2.34",
        "arch": "aarch64",
        "cards": [A2],
        "hdk_version": "25.5.0",
        "page_size": 4096,
    }
    answer = solve(facts, {"vllm": "0.23.0"})
    assert isinstance(answer, VersionSet)
    good = answer.as_dict()
    assert violations(good, facts) == []
    for key, value in {
        "torch": "2.13.0",
        "torch_npu": "2.9.0",
        "cann": "8.5.1",
        "vllm": "0.24.0",
        "python": "3.13",
        "glibc_min": "2.28",
        "vllm_ascend": "0.99.0",
        "arch": "x86_64",
    }.items():
        assert violations({**good, key: value}, facts), key
    for key, value in {
        "hdk_version": "25.0.RC1",
        "cards": [A3],
        "glibc": "2.28",
        "page_size": 8192,
        "os_id": "centos",
        "arch": "x86_64",
    }.items():
        changed = {**facts, key: value, **({"os_version": "7.9"} if value == "centos" else {})}
        assert violations(good, changed), key
    assert violations(good, facts, {"vllm": "0.22.1"})
    assert violations(good, facts, {"methods": ["container"]})
    assert violations(good, facts, {"backend": "cpu"})


def test_the_checker_refuses_what_the_solver_refuses() -> None:
    """Every candidate that the solver calls legal is legal for the checker, on a few hosts."""
    from fleet.version_sets.candidates import candidates
    from fleet.version_sets.links import BROKEN, check, look_at
    from fleet.version_sets.solver import _version_set

    matrix = load_matrix()
    for card, driver, hdk in (
        (A2, None, "25.5.0"),
        (H200, "580.159.04", None),
        (A100, "535.104.05", None),
        (A3, None, "26.1.1"),
    ):
        facts = HostFacts.from_mapping(
            {
                "os_id": "openEuler",
                "os_version": "22.03",
                "os_codename": "LTS-SP4",
                "glibc": "2.34",
                "arch": "aarch64",
                "cards": [card],
                "driver_version": driver,
                "hdk_version": hdk,
            }
        )
        host = look_at(facts, matrix)
        backend = host.backends[0]
        for candidate in candidates(backend, "aarch64", host.soc.soc if host.soc else None, matrix):
            links = check(host, candidate, Wanted(unlisted=True), matrix)
            if not any(link.level == BROKEN for link in links):
                chosen = _version_set(host, candidate, links, matrix).as_dict()
                assert violations(chosen, asdict(facts), {"unlisted": True}) == [], candidate.runtime_id
