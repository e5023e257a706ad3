"""One deployment on one kind of host: the question to the library, and what its answer means for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .capacity import (
    GIB,
    Architecture,
    ArchitectureError,
    Checkpoint,
    Draft,
    FitResult,
    Parallel,
    ParallelError,
    Request,
    Status,
    default_batch,
    fit,
    parse_version,
    weight_bytes,
)
from .capacity_options import Options, written
from .capacity_places import MIB, Place
from .capacity_words import Words, both, gib, join
from .contract.shapes import Artifact
from .placement import Placed
from .plan import Memory
from .problems import Problem, path_of, problem
from .rule_table.phrases import phrase

#: Numbers of requests that a remedy tries, where the sampler takes what the KV cache lacks.
FEWER_REQUESTS = (512, 256, 128, 64)
#: Parallel sizes that are looked through for legal ones.
SIZES = range(1, 257)


@dataclass(frozen=True)
class Known:
    """What is known of a model: its shape and, where its files are here, their headers."""

    architecture: Architecture
    config: Mapping[str, Any]
    headers: Checkpoint | None


@dataclass(frozen=True)
class Question:
    """One engine of a deployment on hosts of one kind."""

    engine: Placed
    place: Place
    options: Options
    artifact: Artifact
    shape: Known
    draft: Draft | None

    def answer(self, found: list[Problem]) -> Memory:
        """What it takes; problems are added to ``found``."""
        architecture, deployment = self.shape.architecture, self.engine.deployment
        length = self.engine.max_model_len
        longest = _longest_context(self.shape.config, architecture)
        if longest is not None and length > longest and not self.options.stretches:
            found.append(problem("CAP-005", self._length_path, length, longest=longest, length=length))
        if deployment.expert_parallel and not architecture.is_moe and not _names_experts(self.shape.config):
            found.append(problem("CAP-007", path_of((*self.engine.prefix, "expert_parallel")), True))
        request = self.request()
        result = fit(request, advise=False)
        if not result.fits:
            found.append(self._failure(request, fit(request)))
        else:
            found += self._wanting(request, result)
        return _memory(result, deployment.data_parallel)

    def request(self, **changes: Any) -> Request:
        """The question to the library. ``changes`` are fields of it."""
        engine, options, architecture = self.engine, self.options, self.shape.architecture
        deployment = engine.deployment
        request = Request(
            architecture=architecture,
            chip=self.place.chip,
            parallel=Parallel(
                deployment.tensor_parallel,
                deployment.pipeline_parallel,
                deployment.data_parallel,
                deployment.expert_parallel and architecture.is_moe,
            ),
            version=self.place.version,
            settings=options.settings(
                self.place.version, self.place.backend, engine.max_model_len, architecture.is_recurrent
            ),
            dtype=options.dtype or (_lowered(architecture.dtype)),
            quantization=options.quantization or self.artifact.quantization,
            draft=self.draft,
        )
        return self._exact(replace(request, **changes))

    def _exact(self, request: Request) -> Request:
        """With the weights of the files' own headers, where the engine loads them as they are."""
        headers, architecture = self.shape.headers, self.shape.architecture
        online = self.options.quantization and not (architecture.quantization or self.artifact.quantization)
        if headers is None or online or not _loaded_as_is(headers, request.dtype or architecture.dtype):
            return request
        length = request.settings.max_model_len
        return replace(request, weights=headers.weights(architecture, request.parallel, max_model_len=length))

    @property
    def _length_path(self) -> str:
        if self.engine.deployment.max_model_len is not None:
            return path_of((*self.engine.prefix, "max_model_len"))
        return path_of(("fleet_services", self.engine.service_name, "max_model_len"))

    @property
    def _names(self) -> dict[str, str]:
        unit = "host" if self.place.backend == "cpu" else "card"
        return {
            "host": self.engine.host,
            "chip": self.place.name,
            **both("unit", phrase(f"cap-{unit}")),
        }

    def _failure(self, request: Request, result: FitResult) -> Problem:
        """A certain failure, with what would do."""
        deployment, kept = self.engine.deployment, result.reserve
        sizes = {
            "weights": gib(result.weights_bytes),
            "reserve": gib(kept.worst),
            "budget": gib(result.budget_bytes),
        }
        kv = self.options.kv_bytes(self.place.backend)
        if kv is not None and result.status in (Status.KV_TOO_SMALL, Status.OVER_MEMORY):
            return self._given(request, result, kv, sizes)
        advice = both("advice", self._advice(request, result))
        if result.status is Status.WEIGHTS:
            path = path_of((*self.engine.prefix, "tensor_parallel"))
            return problem("CAP-001", path, deployment.tensor_parallel, **self._names, **sizes, **advice)
        sure = result.budget_bytes - result.weights_bytes - kept.worst
        return problem(
            "CAP-002", self._length_path, self.engine.max_model_len, **self._names, **sizes, **advice,
            length=self.engine.max_model_len, kv=gib(max(sure, 0)), needed=gib(result.needed_kv_bytes),
        )  # fmt: skip

    def _given(self, request: Request, result: FitResult, kv: tuple[str, int], sizes: dict[str, str]) -> Problem:
        """A KV cache that is given in bytes: too small, or larger than what is left."""
        name, size = kv
        engine = self.engine
        variable = name.isupper()
        where = ("environment", name) if variable else ("engine", written(engine, name))
        path = path_of((*engine.prefix, *where))
        value: Any = engine.deployment.environment[name] if variable else engine.deployment.engine[where[1]]
        scale = GIB if variable else 1
        if result.status is Status.KV_TOO_SMALL:
            length = result.longest_model_len
            more = phrase("cap-or-length", length=length) if length > 0 else ("", "")
            return problem(
                "CAP-008", path, value, key=name, given=gib(size), needed=gib(result.needed_kv_bytes),
                least=-(-result.needed_kv_bytes // scale), length=engine.max_model_len, **both("advice", more),
            )  # fmt: skip
        left = result.budget_bytes - result.weights_bytes - result.reserve.worst
        room = left // scale if left >= max(result.needed_kv_bytes, scale) else 0
        advice = (
            [phrase("cap-bytes", key=name, most=room, size=gib(room * scale))] if room else self._ways(request, result)
        )
        return problem(
            "CAP-009", path, value, given=gib(size), memory=gib(self.place.chip.memory_bytes), **self._names,
            **{k: v for k, v in sizes.items() if k != "budget"}, **both("advice", self._or(advice)),
        )  # fmt: skip

    def _wanting(self, request: Request, result: FitResult) -> Iterator[Problem]:
        """What fits, but not as often as wanted, or not for certain."""
        wanted = self.engine.service.concurrency or 1
        ranks = self.engine.deployment.data_parallel
        length = self.engine.max_model_len
        each = -(-wanted // ranks)
        if not result.layout.groups:
            return
        tokens = _scheduled(request)

        def held(kv: int, of: int = length) -> float:
            return result.layout.concurrency(max(kv, 0), of, tokens)

        sure = result.kv_bytes_low if held(result.kv_bytes_low) >= 1 else result.kv_bytes
        if held(result.kv_bytes_high) < each:
            longest = _longest(lambda of: held(sure, of) >= each, length)
            ways = [phrase("cap-length", length=longest)] if longest else []
            ways.append(phrase("cap-fewer", reached=max(int(held(sure)), 1) * ranks))
            path = path_of(("fleet_services", self.engine.service_name, "concurrency"))
            yield problem(
                "CAP-004", path, wanted, **self._names, wanted=wanted, length=length,
                reached=f"{held(result.kv_bytes) * ranks:.1f}", **both("advice", self._or(ways)),
            )  # fmt: skip
        elif held(result.kv_bytes_low) < each:
            longest = _longest(lambda of: held(result.kv_bytes_low, of) >= each, length)
            ways = [phrase("cap-length", length=longest)] if longest else self._ways(request, result)
            needed = result.layout.request_bytes(length, tokens) * each
            yield problem(
                "CAP-003", self._length_path, length, **self._names, kv=gib(result.kv_bytes), length=length,
                low=gib(max(result.kv_bytes_low, 0)), high=gib(result.kv_bytes_high), requests=each,
                needed=gib(needed), **both("advice", self._or(ways)),
            )  # fmt: skip

    def _advice(self, request: Request, result: FitResult) -> Words:
        return self._or(self._ways(request, result))

    def _or(self, ways: list[Words]) -> Words:
        if not ways:
            ways = [phrase("cap-memory-host" if self.place.backend == "cpu" else "cap-memory")]
        return join(ways, "or")

    def _ways(self, request: Request, result: FitResult) -> list[Words]:
        """Remedies that were tried, the least intrusive first."""
        ways = []
        if "max_num_seqs" not in self.options.given and result.reserve.sampler >= result.reserve.forward:
            for requests in FEWER_REQUESTS:
                if requests < (self.engine.service.concurrency or 1):
                    break
                if _fits(self.request(settings=replace(request.settings, max_num_seqs=requests))):
                    ways.append(phrase("cap-requests", requests=requests))
                    break
        length = result.longest_model_len
        if 0 < length < self.engine.max_model_len:
            shorter = replace(request.settings, max_model_len=length)
            if _fits(self.request(settings=shorter)):
                ways.append(phrase("cap-length", length=length))
        if result.smallest_cards is not None and self.place.backend != "cpu":
            ways += self._more_cards(request, result.smallest_cards)
        if result.quantization_that_fits is not None:
            ways.append(phrase("cap-quantization", scheme=result.quantization_that_fits))
        return ways

    def _more_cards(self, request: Request, cards: int) -> list[Words]:
        """A larger tensor parallel size, over several hosts where one has too few cards."""
        tensor = cards // (request.parallel.pipeline * request.parallel.data)
        hosts = -(-cards * self.engine.deployment.replicas_per_host // max(self.place.cards, 1))
        if cards % hosts or not _fits(self.request(parallel=replace(request.parallel, tensor=tensor))):
            return []
        words = "cards" if hosts <= len(self.engine.replica) else "cards-hosts"
        return [phrase(f"cap-{words}", tensor=tensor, cards=cards, hosts=hosts)]


def _fits(request: Request) -> bool:
    try:
        return fit(request, advise=False).status is Status.FITS
    except (ParallelError, ArchitectureError):
        return False


def _memory(result: FitResult, ranks: int) -> Memory:
    """What goes into the plan, rounded so that it does not change with every estimate."""
    kv = max(result.kv_bytes, 0) // MIB * MIB
    scale = kv / result.kv_bytes if result.kv_bytes > 0 else 0.0
    return Memory(
        weights_bytes=-(-result.weights_bytes // MIB) * MIB,
        reserve_bytes=-(-result.reserve.total // MIB) * MIB,
        kv_cache_bytes=kv,
        kv_cache_bytes_low=max(result.kv_bytes_low, 0) // MIB * MIB,
        kv_cache_bytes_high=max(result.kv_bytes_high, 0) // MIB * MIB,
        kv_cache_tokens=int(result.kv_tokens * scale) * ranks,
        concurrency=round(result.concurrency * scale * ranks, 1),
    )


def _scheduled(request: Request) -> int:
    return default_batch(request.chip, parse_version(request.version) or (0, 0, 0), request.settings)[0]


def _longest(good: Any, limit: int) -> int:
    """The longest length up to ``limit`` for which ``good`` holds; 0 where none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if good(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _longest_context(config: Mapping[str, Any], architecture: Architecture) -> int | None:
    """The longest context that vLLM accepts without a word of permission, seen generously: releases differ in whether a
    scaled rotary embedding is already in the number."""
    longest = architecture.max_position
    if longest is None:
        return None
    factor = 1.0
    texts = [config, *(v for k, v in config.items() if k in ("text_config", "llm_config") and isinstance(v, Mapping))]
    for text in texts:
        for key in ("rope_scaling", "rope_parameters"):
            scaling = text.get(key)
            for part in _levels(scaling):
                if isinstance(part.get("factor"), int | float):
                    factor = max(factor, float(part["factor"]))
        own = text.get("model_max_length")
        if isinstance(own, int) and not isinstance(own, bool):
            longest = max(longest, own)
    return int(longest * factor)


def _names_experts(config: Mapping[str, Any]) -> bool:
    """Whether config.json counts experts under a name that the library may not know."""
    return any("expert" in key and isinstance(n, int) and n > 0 for part in _levels(config) for key, n in part.items())


def _levels(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from _levels(inner)


def _lowered(dtype: str) -> str | None:
    """With ``auto`` vLLM loads float32 checkpoints in 16 bits (``config/model.py:_get_and_verify_dtype``)."""
    return "bfloat16" if dtype == "float32" else None


_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def _loaded_as_is(headers: Checkpoint, dtype: str) -> bool:
    """Whether most of the files' bytes are of the width that the engine runs in, or quantized."""
    sizes: dict[int, int] = {}
    for tensor in headers.tensors:
        width = _FLOATS.get(tensor.dtype, 0)
        sizes[width] = sizes.get(width, 0) + tensor.bytes
    common = max(sizes, key=lambda width: sizes[width], default=0)
    wanted = 4 if dtype == "float32" else 2
    return sizes.get(0, 0) > 0 or common == wanted


def indivisible(engine: Placed, model: Architecture, draft: Architecture | None, error: ParallelError) -> Problem:
    """Parallel sizes that do not divide the model or its draft, with the nearest that do."""
    key, deployment = f"{error.key}_parallel", engine.deployment
    value = getattr(deployment, key)
    guilty, who = model, "model"
    if error.key == "pipeline":
        count = len(model.layers)
        parts, legal = phrase("cap-layers", layers=count), phrase("cap-at-most", most=count)
    else:
        if draft is not None and divides(model, deployment.tensor_parallel):
            guilty, who = draft, "draft"
        parts = join(
            [
                phrase(f"cap-{name}", heads=", ".join(map(str, found)))
                for name, own in (("heads", "heads"), ("kv-heads", "kv_heads"))
                if (found := sorted({h for layer in guilty.layers if (h := getattr(layer.mixer, own, 0))}))
            ],
            "and",
        )
        sizes = [size for size in SIZES if divides(model, size) and (draft is None or divides(draft, size))]
        near = [max((s for s in sizes if s < value), default=None), min((s for s in sizes if s > value), default=None)]
        legal = join([(str(n), str(n)) for n in near if n is not None] or [("1", "1")], "legal-or")
    return problem(
        "CAP-006", path_of((*engine.prefix, key)), value, key=key, value=value, **both("parts", parts),
        **both("legal", legal), **both("model", phrase(f"cap-{who}")),
    )  # fmt: skip


def divides(architecture: Architecture, tensor: int) -> bool:
    """Whether a tensor parallel size divides a model."""
    try:
        weight_bytes(architecture, Parallel(tensor))
    except (ParallelError, ArchitectureError):
        return False
    return True
