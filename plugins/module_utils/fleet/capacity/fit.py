"""Whether a model fits, and if not, what would.

`fit` is a pure function of a `Request`: the model, the card, the version, parallel sizes and settings. It never
contacts anything and is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from .architecture import Architecture, ArchitectureError, Layer
from .constants import DEFAULT, GIB, Constants
from .kv import KvLayout, kv_layout
from .reserve import (
    NEWEST,
    Chip,
    Reserve,
    Settings,
    Version,
    assumed_version,
    default_batch,
    default_utilization,
    parse_version,
    reserve,
)
from .weights import Parallel, ParallelError, Weights, dtype_bytes, weight_bytes

__all__ = ["Draft", "FitResult", "Request", "Status", "fit"]


class Status(StrEnum):
    """The verdict.

    - ``fits``: starts, and a request of full length fits.
    - ``tight``: does not by the best estimate, but would with a newer version, and the version is not known.
    - ``weights``: the weights alone exceed what the engine may use.
    - ``no_kv``: weights and reserve leave nothing ("No available memory for the cache blocks").
    - ``kv_too_small``: what is left does not hold one request of full length.
    - ``over_memory``: KV was given in bytes, and more than the card has left.
    """

    FITS = "fits"
    TIGHT = "tight"
    WEIGHTS = "weights"
    NO_KV = "no_kv"
    KV_TOO_SMALL = "kv_too_small"
    OVER_MEMORY = "over_memory"


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft model for speculative decoding.

    Attributes:
        architecture: the draft.
        shares_vocabulary: it uses the target's embedding and output matrix (EAGLE, MTP).
    """

    architecture: Architecture
    shares_vocabulary: bool = True


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        architecture: the model.
        chip: one card; all cards of a replica are alike.
        parallel: parallel sizes.
        version: vLLM's version as text; None when unknown.
        settings: engine settings.
        dtype: dtype that the model runs in; None for the checkpoint's.
        quantization: scheme; None for the checkpoint's.
        weights: weights that are known better than from the shape (`safetensors.Checkpoint.weights`).
        draft: draft model; None without one.
    """

    architecture: Architecture
    chip: Chip
    parallel: Parallel = Parallel()  # noqa: RUF009 (frozen)
    version: str | None = None
    settings: Settings = Settings()  # noqa: RUF009 (frozen)
    dtype: str | None = None
    quantization: str | None = None
    weights: Weights | None = None
    draft: Draft | None = None


@dataclass(frozen=True, slots=True)
class FitResult:
    """The answer. Bytes are those of the card with the least room.

    Attributes:
        status: the verdict; `fits` says it as yes or no.
        reason: one sentence with the figures in GiB.
        budget_bytes: what the engine may use of a card.
        weights_bytes: weights, a draft's included.
        reserve: what the runtime keeps.
        kv_bytes: KV, best estimate; negative when weights and reserve exceed the budget.
        kv_bytes_low: least that KV plausibly is.
        kv_bytes_high: most that KV plausibly is.
        kv_tokens: tokens of requests of full length that fit.
        concurrency: requests of full length that fit at the same time.
        needed_kv_bytes: KV that one request of full length needs.
        max_model_len: length that was asked for, in tokens; None when neither settings nor model tell it.
        longest_model_len: longest request for which the verdict would be ``fits``, in tokens.
        smallest_cards: fewest cards of this kind that would do, found by enlarging the tensor parallel size; only
            looked for when it does not fit.
        quantization_that_fits: mildest scheme with which it would fit on the same cards; only looked for when it does
            not fit.
        unknown: names of inputs that were not known, and so widen the range.
    """

    status: Status
    reason: str
    budget_bytes: int
    weights_bytes: int
    reserve: Reserve
    kv_bytes: int
    kv_bytes_low: int
    kv_bytes_high: int
    kv_tokens: int
    concurrency: float
    needed_kv_bytes: int
    max_model_len: int | None
    longest_model_len: int
    layout: KvLayout
    smallest_cards: int | None = None
    quantization_that_fits: str | None = None
    unknown: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether to let it start: everything but a certain failure."""
        return self.status in (Status.FITS, Status.TIGHT)


# A card's share is not given, so it may have been lowered: the verdict is about this much less.
_UNKNOWN_SHARE = 0.05
# Schemes from mild to strong that a backend's own vLLM runs.
_SCHEMES: Mapping[str, tuple[str, ...]] = {
    "cuda": ("fp8", "awq-int4"),
    "rocm": ("fp8", "awq-int4"),
    "ascend": ("w8a8", "w4a8"),
    "cpu": ("w8a8", "awq-int4"),
}
_LENGTH_LIMIT = 1 << 24


def fit(request: Request, *, constants: Constants = DEFAULT, advise: bool = True) -> FitResult:
    """Whether the model fits, and what it leaves for KV.

    Args:
        request: what is asked.
        constants: fitted constants of the reserve.
        advise: look for card counts and schemes that would fit when it does not.

    Returns:
        The answer, with a range and the inputs that were unknown.

    Raises:
        ParallelError: parallel sizes do not divide the model.
        ArchitectureError: the shape does not tell what memory needs, or dtype or scheme are unknown.
    """
    result = _fit(request, constants)
    if result.fits or not advise:
        return result
    return replace(result, **_advice(request, constants))  # type: ignore[arg-type]


def _advice(request: Request, constants: Constants) -> dict[str, int | str | None]:
    cards: int | None = None
    scheme: str | None = None
    for tensor in _tensor_sizes(request.parallel.tensor):
        parallel = replace(request.parallel, tensor=tensor)
        try:
            trial = replace(request, parallel=parallel, weights=None)
            if _fit(trial, constants).status == Status.FITS:
                cards = parallel.cards
                break
        except (ParallelError, ArchitectureError):
            continue
    own = request.quantization or request.architecture.quantization
    for name in () if own is not None else _SCHEMES[request.chip.backend]:
        try:
            if _fit(replace(request, quantization=name, weights=None), constants).status == Status.FITS:
                scheme = name
                break
        except (ParallelError, ArchitectureError):
            continue
    return {"smallest_cards": cards, "quantization_that_fits": scheme}


def _tensor_sizes(start: int) -> Iterator[int]:
    yield from range(start + 1, 17)
    yield from (size for size in (24, 32, 48, 64) if size > start)


def _with_draft(request: Request) -> tuple[Architecture, int]:
    """The architecture with the layers that a draft adds to KV, and how many of them there are."""
    target = request.architecture
    added: tuple[Layer, ...] = ()
    if request.draft is not None:
        added = request.draft.architecture.layers
    elif request.settings.speculative_tokens and target.next_token_layers:
        added = (target.layers[-1],) * target.next_token_layers
    return (replace(target, layers=target.layers + added), len(added)) if added else (target, 0)


def _version(request: Request) -> Version:
    return parse_version(request.version) or assumed_version(request.settings.gpu_memory_utilization)


def _weights(request: Request, constants: Constants) -> tuple[list[int], bool]:
    """Bytes of weights on a card of each stage."""
    tokens, _ = default_batch(request.chip, _version(request), request.settings)
    found = request.weights or weight_bytes(
        request.architecture,
        request.parallel,
        dtype=request.dtype,
        quantization=request.quantization,
        max_model_len=request.settings.max_model_len,
        max_num_batched_tokens=tokens,
        pads_marlin=request.chip.pads_marlin,
        constants=constants,
    )
    sizes = [stage.total for stage in found.stages]
    if request.draft is not None:
        draft = weight_bytes(request.draft.architecture, replace(request.parallel, pipeline=1), dtype=request.dtype)
        sizes[-1] += draft.per_card - (draft.stages[0].embeddings if request.draft.shares_vocabulary else 0)
    elif request.settings.speculative_tokens and request.architecture.next_token_layers and not found.exact:
        last = found.stages[-1]
        each = (last.mixers + last.dense + last.experts) // max(len(last.layers), 1)
        hidden = request.architecture.hidden_size or 0
        element = dtype_bytes(request.dtype or request.architecture.dtype)
        sizes[-1] += request.architecture.next_token_layers * (each + 2 * hidden * hidden * element)
    return sizes, found.exact


def _fit(request: Request, constants: Constants) -> FitResult:
    chip, settings, parallel = request.chip, request.settings, request.parallel
    version = _version(request)
    target = request.architecture
    sizes, _ = _weights(request, constants)
    grown, added = _with_draft(request)
    scheduled, _ = default_batch(chip, version, settings)
    length = settings.max_model_len or target.max_position
    share = settings.gpu_memory_utilization
    unknown = tuple(
        name
        for name, missing in (
            ("version", parse_version(request.version) is None and chip.backend != "cpu"),
            ("gpu_memory_utilization", share is None and chip.backend != "cpu"),
            ("max_model_len", length is None),
        )
        if missing
    )
    used = share if share is not None else default_utilization(version)
    given = settings.kv_cache_memory_bytes
    budget = chip.memory_bytes if given is not None else int(chip.memory_bytes * used)
    worst: FitResult | None = None
    for stage, weights in enumerate(sizes):
        kept = reserve(target, chip, version, settings, parallel, dtype=request.dtype, stage=stage, constants=constants)
        last = stage == len(sizes) - 1
        shape = grown if added and last and parallel.pipeline == 1 else target
        layout = kv_layout(
            shape,
            parallel,
            kv_dtype=settings.kv_cache_dtype,
            dtype=request.dtype,
            block_size=settings.block_size or (128 if chip.backend in ("ascend", "cpu") else None),
            stage=stage,
            state_blocks=settings.state_blocks + settings.speculative_tokens * int(target.is_recurrent),
            draft_layers=added if last and parallel.pipeline > 1 else 0,
            hybrid=settings.hybrid_kv,
        )
        room = budget - weights
        kv = given if given is not None else room - kept.total
        newest = kept
        if "version" in unknown:
            newest = reserve(target, chip, NEWEST, settings, parallel, dtype=request.dtype, stage=stage,
                             constants=constants)  # fmt: skip
        low = given if given is not None else room - max(kept.high, newest.high)
        high = given if given is not None else room - min(kept.low, newest.low)
        needed = layout.request_bytes(length, scheduled) if length is not None else layout.block_bytes
        # The verdict holds for the worse sampler, and for a lower share where none is known.
        doubt = int(_UNKNOWN_SHARE * chip.memory_bytes) if share is None else 0
        sure = given if given is not None else room - kept.worst - doubt
        status = _status(weights, budget, room - kept.worst, sure, needed, given)
        later = room - newest.high - (0 if newest.graphs_subtracted else newest.graphs)
        if status not in (Status.FITS, Status.WEIGHTS) and unknown == ("version",) and later >= needed:
            status = Status.TIGHT
        usable = max(kv, 0)
        concurrency = layout.concurrency(usable, length, scheduled) if length is not None else 0.0
        one = FitResult(
            status=status,
            reason=_reason(status, weights, budget, kept, kv, sure, needed, length),
            budget_bytes=budget,
            weights_bytes=weights,
            reserve=kept,
            kv_bytes=kv,
            kv_bytes_low=low,
            kv_bytes_high=high,
            kv_tokens=layout.capacity_tokens(usable, length or 1, scheduled) if layout.groups else 0,
            concurrency=concurrency,
            needed_kv_bytes=needed,
            max_model_len=length,
            longest_model_len=layout.longest(max(sure, 0), scheduled, target.max_position or _LENGTH_LIMIT),
            layout=layout,
            unknown=unknown,
        )
        if worst is None or _room(one) < _room(worst):
            worst = one
    assert worst is not None  # a model has at least one stage
    return worst


def _room(result: FitResult) -> tuple[bool, float, int]:
    blocks = result.layout.blocks(max(result.kv_bytes, 0)) if result.layout.groups else float("inf")
    return result.fits, blocks, result.kv_bytes


def _status(weights: int, budget: int, left: int, kv: int, needed: int, given: int | None) -> Status:
    if weights > budget:
        return Status.WEIGHTS
    if given is not None and given > left:
        return Status.OVER_MEMORY
    if kv <= 0:
        return Status.NO_KV
    return Status.FITS if kv >= needed else Status.KV_TOO_SMALL


def _reason(
    status: Status, weights: int, budget: int, kept: Reserve, kv: int, sure: int, needed: int, length: int | None
) -> str:
    def gib(value: int) -> str:
        return f"{value / GIB:.2f} GiB"

    sums = f"weights {gib(weights)} and reserve {gib(kept.total)} of {gib(budget)} leave {gib(kv)} for KV"
    if sure < kv:
        sums += f" ({gib(sure)} for certain)"
    asked = f"{gib(needed)} for one " + (f"request of {length} tokens" if length is not None else "block")
    if status == Status.FITS:
        return f"{sums}; {asked} needed"
    if status == Status.TIGHT:
        return f"{sums}; {asked} needed; may start: the version is unknown and later ones reserve less"
    if status == Status.WEIGHTS:
        return f"weights {gib(weights)} exceed the {gib(budget)} that the engine may use"
    if status == Status.NO_KV:
        return f"{sums}: nothing is left"
    if status == Status.OVER_MEMORY:
        return f"KV of {gib(kv)} beside weights {gib(weights)} and reserve {gib(kept.total)} exceeds {gib(budget)}"
    return f"{sums}, too little: {asked} needed"
