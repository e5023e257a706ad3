"""What version_sets finds, as problems: refusals and warnings of the solver, engine settings, models, quantization.

Pure functions over the library's answers. The words are in ``rule_table/versions.py`` and ``rule_table/phrases.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .problems import SECRET_NAME, Problem, as_warning, hints, path_of, problem
from .rule_table.phrases import phrase, words
from .version_sets import engine_args
from .version_sets.compare import specifier
from .version_sets.facts import HostFacts
from .version_sets.links import BROKEN, NONE, UNKNOWN, Link, Move, judge_system, look_at
from .version_sets.links.pins import NO_PIN
from .version_sets.matrix import Matrix
from .version_sets.models import UNSUPPORTED, ModelSupport, supported_by_vllm, supported_by_vllm_ascend
from .version_sets.quantization import quantization_support
from .version_sets.solver import Nearest, Refusal, VersionSet

#: How many of the nearest legal sets a remedy names.
NAMED_SETS = 2
#: Pins whose versions the matrix counts, so that a move says how far it goes.
COUNTED_PINS = ("vllm", "vllm_ascend", "cann", "python")
#: Counts and sizes: vLLM's parser takes any whole number, its configuration only these.
POSITIVE_OPTIONS = frozenset({"max-num-seqs", "max-num-batched-tokens", "kv-cache-memory-bytes", "block-size"})
#: Those that are a part of the whole: vLLM refuses 0 and more than 1 (0.32.0, ``config/cache.py``).
SHARE_OPTIONS = frozenset({"gpu-memory-utilization"})

Words = tuple[str, str]


# --- sets


def problems_of_refusal(path: str, refusal: Refusal) -> list[Problem]:
    """One problem for each broken link; each remedy ends with the nearest legal sets, which mend all links at once."""
    near, near_zh = nearest_words(refusal.nearest)
    found = [_of_link(path, link) for link in refusal.broken]
    return [replace(p, remedy=f"{p.remedy}; {near}", remedy_zh=f"{p.remedy_zh}\uff1b{near_zh}") for p in found]


def problems_of_set(path: str, chosen: VersionSet) -> list[Problem]:
    """What is uncertain about a set that was chosen."""
    return [_of_link(path, link) for link in chosen.warnings]


def problems_of_system(path: str, facts: HostFacts, matrix: Matrix) -> list[Problem]:
    """Whether the system of a host can be used at all, also where nothing of vLLM runs on it."""
    return [_of_link(path, link) for link in judge_system(look_at(facts, matrix))]


def _of_link(path: str, link: Link) -> Problem:
    value = None if link.have in (UNKNOWN, NONE) else link.have
    made = problem(link.rule, path, value, **dict(link.params))
    return made if link.level == BROKEN else as_warning(made)


def nearest_words(nearest: Iterable[Nearest]) -> Words:
    """The best of the nearest legal sets, each with the moves that lead to it."""
    ways = [_way(n) for n in list(nearest)[:NAMED_SETS]]
    if not ways:
        return phrase("near-none")
    first = {"first": ways[0][0]}, {"first": ways[0][1]}
    if len(ways) == 1:
        return phrase("near-one", **first[0])[0], phrase("near-one", **first[1])[1]
    english = phrase("near-two", **first[0], second=ways[1][0])[0]
    return english, phrase("near-two", **first[1], second=ways[1][1])[1]


def _way(near: Nearest) -> Words:
    moves = [move_words(m) for m in near.moves]
    joint = phrase("and")
    english, chinese = (joint[i].join(m[i] for m in moves) for i in (0, 1))
    name = near.set.runtime_id
    return phrase("near-way", moves=english, set=name)[0], phrase("near-way", moves=chinese, set=name)[1]


def move_words(move: Move) -> Words:
    """One move: what to change, from what to what, and how far where the matrix counts."""
    ends = {"what": move.what, "was": move.was, "to": move.to}
    if move.kind == "host":
        if move.what == "os" and move.was == "unknown":
            return phrase("move-os-to", **ends)
        return phrase(f"move-{move.what}", **ends)
    if move.what == "method":
        return phrase("move-method", **words("to", f"method-{move.to}"))
    if move.what in ("backend", "prereleases", "unlisted"):
        return phrase(f"move-{move.what}", **ends)
    if move.to == NO_PIN:
        return phrase("move-no-pin", **ends)
    if move.what in COUNTED_PINS and specifier(move.was) is not None:
        steps = words("steps", "steps-one" if move.steps == 1 else "steps-many", steps=move.steps)
        return phrase("move-version", **ends, **steps)
    return phrase("move-part", **ends)


# --- models


def problems_of_model(path: str, architecture: str, chosen: VersionSet, matrix: Matrix) -> list[Problem]:
    """Whether the vLLM of a set, and its vllm-ascend, serve a model's architecture."""
    answers = [supported_by_vllm(architecture, chosen.vllm, matrix)]
    if chosen.vllm_ascend and chosen.soc:
        answers.append(supported_by_vllm_ascend(architecture, chosen.vllm_ascend, chosen.soc, matrix))
    return [p for answer in answers for p in _of_answer(path, architecture, answer)]


def problems_of_quantization(
    path: str, method: str, facts: HostFacts | Mapping[str, Any], chosen: VersionSet, matrix: Matrix
) -> list[Problem]:
    """Whether a host's cards compute a quantization method under the set that was chosen for it."""
    return _of_answer(path, method, quantization_support(method, facts, chosen, matrix))


def _of_answer(path: str, value: str, answer: ModelSupport) -> list[Problem]:
    if answer.rule is None:
        return []
    made = problem(answer.rule, path, value, **dict(answer.params))
    return [made if answer.level == UNSUPPORTED else as_warning(made)]


# --- engine settings


def problems_of_engine(
    prefix: tuple[str | int, ...], engine: Mapping[str, Any], vllm: str, owned: Collection[str] = ()
) -> list[Problem]:
    """Faults of an ``engine:`` mapping that the recorded options of a vLLM show.

    owned: options that an operator may not set, so that no hint names them.
    """
    if not engine:
        return []
    taken, exact = engine_args.nearest_version(vllm)
    recorded = engine_args.engine_version(taken)
    usable = [_written(o) for o in recorded.options if o not in owned and not SECRET_NAME.search(o)]
    found: list[Problem] = []
    faulty: set[str] = set()
    for finding in engine_args.check(engine, vllm):
        if finding.code == engine_args.VERSION:
            path = path_of((*prefix, "engine"))
            known = ", ".join(engine_args.recorded_versions())
            found.append(problem("SET-120", path, vllm, vllm=vllm, taken=taken, recorded=known))
            continue
        faulty.add(finding.option)
        path = path_of((*prefix, "engine", finding.option))
        found.append(_of_finding(path, finding, vllm, recorded, usable))
    for name, value in engine.items():
        option = engine_args.plain_name(name)
        if option in SHARE_OPTIONS and name not in faulty and not _is_share(value):
            path = path_of((*prefix, "engine", name))
            reason = words("reason", "share", option=_written(option))
            found.append(_refused(path, value, vllm, taken, exact, reason, words("instead", "write-share")))
        too_small = isinstance(value, int) and not isinstance(value, bool) and value < 1
        if option in POSITIVE_OPTIONS and too_small and name not in faulty:
            path = path_of((*prefix, "engine", name))
            reason = words("reason", "at-least-one", option=_written(option))
            found.append(_refused(path, value, vllm, taken, exact, reason, words("instead", "write-positive")))
    return found


def _is_share(value: Any) -> bool:
    try:
        return 0 < float(value) <= 1
    except (TypeError, ValueError, OverflowError):
        return False


def _of_finding(
    path: str,
    finding: engine_args.Finding,
    vllm: str,
    recorded: engine_args.EngineVersion,
    usable: list[str],
) -> Problem:
    taken = recorded.vllm
    value = finding.value
    if finding.code == engine_args.DEPRECATED:
        return problem("SET-123", path, value, taken=taken)
    if finding.said == engine_args.SAME:
        return problem("SET-124", path, value, **finding.params)
    certain = finding.level == engine_args.ERROR
    if finding.code == engine_args.REMOVED:
        if certain:
            return problem("SVC-008", path, value, vllm=vllm, **_instead(finding, recorded))
        instead = _instead(finding, recorded)
        hint = {"hint": instead["instead"], "hint_zh": instead["instead_zh"]}
        return problem("SET-121", path, value, vllm=vllm, taken=taken, **hint)
    if finding.code == engine_args.UNKNOWN:
        hint = _hint(finding, usable)
        if certain:
            return problem("SVC-014", path, value, vllm=vllm, **hint)
        return problem("SET-121", path, value, vllm=vllm, taken=taken, **hint)
    english, chinese = (_as_written(text, recorded) for text in finding.reason)
    reason = {"reason": english, "reason_zh": chinese}
    return _refused(path, value, vllm, taken, certain, reason, _instead(finding, recorded))


def _refused(
    path: str,
    value: Any,
    vllm: str,
    taken: str,
    certain: bool,
    reason: Mapping[str, str],
    instead: Mapping[str, str],
) -> Problem:
    if certain:
        return problem("SVC-016", path, value, vllm=vllm, **reason, **instead)
    return problem("SET-122", path, value, vllm=vllm, taken=taken, **reason, **instead)


def _instead(finding: engine_args.Finding, recorded: engine_args.EngineVersion) -> dict[str, str]:
    """What to write instead of an option or a value, as the parameters ``instead`` and ``instead_zh``."""
    if finding.use is not None:
        use, use_zh = finding.use
        nothing, _, why = use.partition(": ")
        if nothing != "nothing":
            english = phrase("use", use=use)[0]
        elif why:
            english = phrase("remove-for", why=why, why_zh="")[0]
        else:
            english = phrase("remove")[0]
        return {"instead": _as_written(english, recorded), "instead_zh": _as_written(use_zh, recorded)}
    if finding.code == engine_args.REMOVED:
        english, chinese = finding.reason
        return words("instead", "remove-for", why=english, why_zh=chinese)
    if finding.nearest is not None:
        return words("instead", "write", near=finding.nearest)
    if "expected" in finding.params:
        return words("instead", "write-type", **finding.params)
    return words("instead", "correct")


def _hint(finding: engine_args.Finding, usable: list[str]) -> dict[str, str]:
    """The nearest name, or where all names are: three hundred of them help nobody."""
    found = hints(finding.option, usable)
    if not found["hint"].startswith("known"):
        return found
    if finding.said == "came-with":
        return words("hint", "take-newer", **finding.params)
    return words("hint", "see-help")


def _written(option: str) -> str:
    """An option as inventories write it."""
    return option.replace("-", "_")


def _as_written(text: str, recorded: engine_args.EngineVersion) -> str:
    """A text whose names of options are as inventories write them."""

    def spell(match: re.Match[str]) -> str:
        return _written(match[0]) if match[0] in recorded.options else match[0]

    return re.sub(r"[a-z0-9]+(?:-[a-z0-9]+)+", spell, text)
