"""Rules on what serves at all, on DCU, AMD and CPUs, and on the model that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from .. import models
from ..candidates import Candidate
from ..compare import within
from ..facts import Wanted, vendor_of
from ..matrix import Matrix
from .link import BROKEN, NONE, UNKNOWN, WARN, Host, Link, link, what


def rule_card(host: Host, candidate: Candidate, _wanted: Wanted, _matrix: Matrix) -> Iterator[Link]:
    """The host has a card of the backend, and one kind of it."""
    if candidate.backend == "cpu":
        return
    if candidate.backend not in host.backends:
        have = ", ".join(host.backends) or NONE
        yield link("card", "SET-021", None, have, candidate.backend, backend=candidate.backend)


def rule_dcu(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """A vendor image serves the card."""
    if candidate.backend != "dcu":
        return
    row = next((r for r in candidate.rows if hasattr(r, "dtk")), None)
    arches = getattr(row, "arch", ())
    if candidate.arch not in arches:
        yield link("dcu-arch", "SET-065", row, candidate.arch, ", ".join(arches), warn=True, arch=candidate.arch)
    for card in host.cards:
        if vendor_of(card) != "hygon":
            continue
        names = card.chip.upper().replace("HYGON", "").split()
        known = next((c for c in matrix.dcu_cards if c.card.upper() in names), None)
        if known is None:
            yield link("dcu-card", "SET-066", row, card.chip or UNKNOWN, "a known card", warn=True)
        elif known.note:
            said = {"card": known.card, "note": known.note, "note_zh": known.note_zh}
            yield link("dcu-card", "SET-067", known, known.card, "a card that was tried", warn=True, of=said)


def rule_rocm(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The wheel is for this line of vLLM and holds code for the card."""
    if candidate.backend != "rocm":
        return
    row = next((r for r in matrix.gfx if within(candidate.vllm, r.vllm)), None)
    for card in host.cards:
        gfx = next((w for w in card.chip.lower().replace(":", " ").split() if w.startswith("gfx")), None)
        if vendor_of(card) == "amd" and gfx and row and gfx not in row.gfx:
            yield link("gfx", "SET-068", row, gfx, " ".join(row.gfx), vllm=candidate.vllm)


def rule_cpu(host: Host, candidate: Candidate, _wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The CPU has the instructions that the backend needs."""
    flags = {f.lower() for f in host.facts.cpu_flags}
    if candidate.backend != "cpu":
        return
    if not flags:
        yield link("cpu-flags", "SET-070", None, UNKNOWN, "the CPU's flags", warn=True)
        return
    for row in matrix.cpu_flags:
        if row.arch != candidate.arch:
            continue
        if row.need and not flags & set(row.need):
            yield link("cpu-flags", "SET-071", row, NONE, " / ".join(row.need))
        elif not set(row.want) <= flags:
            effect = {"effect": row.effect, "effect_zh": row.effect_zh}
            yield link("cpu-flags", "SET-072", row, NONE, " ".join(row.want), warn=True, of=effect)
    for trap in matrix.cpu_traps:
        if trap.when in flags:
            effect = {"effect": trap.effect, "effect_zh": trap.effect_zh}
            yield link("cpu-flags", "SET-073", trap, trap.when, "a token asked for", warn=True, of=effect)


def rule_model(host: Host, candidate: Candidate, wanted: Wanted, matrix: Matrix) -> Iterator[Link]:
    """The vLLM, and the vllm-ascend on this chip, serve the model's architecture."""
    for name in wanted.architectures:
        answers = [models.supported_by_vllm(name, candidate.vllm, matrix)]
        if candidate.vllm_ascend and host.soc:
            answers.append(models.supported_by_vllm_ascend(name, candidate.vllm_ascend, host.soc.soc, matrix))
        for answer in answers:
            if answer.rule is not None:
                yield Link(
                    "model",
                    answer.rule,
                    BROKEN if answer.level == models.UNSUPPORTED else WARN,
                    what(candidate),
                    f"a version that serves {name}",
                    answer.params,
                    answer.source,
                    answer.confidence,
                )
