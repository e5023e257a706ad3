"""What the runtime keeps for itself, so that it is left to neither weights nor KV.

vLLM starts, loads the weights, runs the model once with as many tokens and requests as it may ever schedule, and gives
to KV what is left of ``gpu_memory_utilization`` of the card. The reserve is therefore the peak of that one run:

- the **forward pass** over ``max_num_batched_tokens`` tokens,
- the **encoder** of a model that sees, over its largest picture,
- the **sampler** over ``max_num_seqs`` rows of logits, which is what most reserves are made of: top-p in plain PyTorch
  sorts them, and a sorted row costs 38 bytes a logit, measured below,

whichever is the highest, and on top of it what CUDA and the communication libraries take. Versions from 0.21 also
subtract an estimate of the CUDA graphs.

Sources: vLLM sdists 0.8.5.post1 to 0.33.0 (``v1/worker/gpu_worker.py:determine_available_memory``,
``v1/worker/gpu_model_runner.py:_dummy_sampler_run``, ``v1/sample/ops/topk_topp_sampler.py``, ``engine/arg_utils.py``),
vllm-ascend 0.18.0 (``worker/worker.py``, ``sample/sampler.py``); the bytes a logit were measured with torch 2.11.0 on
an H200 by `torch.cuda.max_memory_allocated` around the sampler's operations, at five vocabularies and ten batch sizes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .architecture import Architecture, Attention, DenseMlp, Mla, MoeMlp, Recurrent
from .constants import DEFAULT, GIB, Constants
from .weights import Parallel, dtype_bytes, pipeline_split

__all__ = [
    "NEWEST",
    "Chip",
    "Reserve",
    "Settings",
    "assumed_version",
    "chip_of",
    "default_batch",
    "default_utilization",
    "parse_version",
    "reserve",
]

Version = tuple[int, int, int]

# Bytes a logit at the sampler's peak, measured on an H200 with torch 2.11.0: logits in bfloat16 and in float32, and
# - sorted: values, indices and the sort's own buffers. From 128 rows on PyTorch sorts them in one go, below it row by
#   row with larger buffers (a single row again costs 38).
# - not sorted (Triton or FlashInfer kernels do the cut): probabilities and exponential noise.
SORT_BYTES = 38.0
SORT_BYTES_FEW_ROWS = 50.2
FUSED_BYTES = 14.0
# Model runner V2 copies the logits to float32 and samples in place (v1/worker/gpu/sample/sampler.py); with FlashInfer
# it holds that copy, the masked logits and the probabilities, in float32 each.
RUNNER_V2_BYTES = 6.0
RUNNER_V2_FLASHINFER_BYTES = 12.0


def parse_version(text: str | None) -> Version | None:
    """The first version number in a text such as ``0.13.0+nv26.01``, ``>=0.25`` or ``0.18.0 (vllm-ascend)``.

    Returns:
        Three numbers, or None when there is no number.
    """
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text or "")
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@dataclass(frozen=True, slots=True)
class Chip:
    """One card.

    Attributes:
        memory_bytes: memory that the driver reports for the card (a share, for MIG, vGPU and vNPU slices). For a CPU:
            memory of the NUMA node that the engine runs on.
        name: the product's name; decides a few defaults.
        backend: ``cuda``, ``rocm`` (AMD, Hygon), ``ascend`` or ``cpu``.
        unified: host and card share one memory.
        fast_link: NVLink or the like between the cards of a host.
    """

    memory_bytes: int
    name: str = ""
    backend: str = "cuda"
    unified: bool = False
    fast_link: bool = False

    def __post_init__(self) -> None:
        if self.memory_bytes <= 0:
            raise ValueError(f"memory_bytes: must be positive, not {self.memory_bytes}")
        if self.backend not in ("cuda", "rocm", "ascend", "cpu"):
            raise ValueError(f"backend: {self.backend!r} is none of cuda, rocm, ascend, cpu")

    @property
    def pads_marlin(self) -> bool:
        """Whether MXFP4 experts run on Marlin kernels: everything from NVIDIA before Hopper, and its cheap cards."""
        return self.backend == "cuda" and not re.search(r"\b(G?H\d|G?B\d|H\d{2,3})", self.name, re.IGNORECASE)


def chip_of(name: str, memory_bytes: int) -> Chip:
    """A card from its product name.

    Args:
        name: as the vendor's tool prints it.
        memory_bytes: memory of the card in bytes.
    """
    lower = name.lower()
    backend = "cuda"
    if "ascend" in lower or re.search(r"\b(910|310p)", lower):
        backend = "ascend"
    elif re.search(r"\bmi\d{2,3}|amd|radeon|instinct|dcu|hygon|\bk100", lower):
        backend = "rocm"
    elif lower.startswith("cpu"):
        backend = "cpu"
    unified = bool(re.search(r"unified|gb10|thor|orin|jetson|strix", lower)) and "gb100" not in lower
    fast = bool(re.search(r"\b(v100|a100|a800|h\d{2,3}|g?b[23]00|gh200|mi\d{3})|sxm|hgx", lower)) and "mig" not in lower
    return Chip(memory_bytes, name, backend, unified, fast)


@dataclass(frozen=True, slots=True)
class Settings:
    """Engine settings that memory depends on. None is the default of the version and card.

    Attributes:
        max_model_len: longest request in tokens; None for the model's own.
        gpu_memory_utilization: share of the card that the engine may use.
        max_num_seqs: requests that a step schedules at most.
        max_num_batched_tokens: tokens that a step schedules at most.
        enforce_eager: no CUDA graphs.
        kv_cache_dtype: ``--kv-cache-dtype``.
        block_size: tokens of a KV block.
        kv_cache_memory_bytes: KV given in bytes; nothing is profiled then.
        flashinfer_sampler: FlashInfer samples (``VLLM_USE_FLASHINFER_SAMPLER``, and it is installed); None for the
            version's default.
        offline: the engine runs inside a Python program instead of behind the API server.
        speculative_tokens: tokens that a draft proposes in a step; 0 without speculative decoding.
        hybrid_kv: False with ``--disable-hybrid-kv-cache-manager``.
        state_blocks: blocks of a recurrent state a request; 2 with prefix caching of states (``align``).
    """

    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool = False
    kv_cache_dtype: str = "auto"
    block_size: int | None = None
    kv_cache_memory_bytes: int | None = None
    flashinfer_sampler: bool | None = None
    offline: bool = False
    speculative_tokens: int = 0
    hybrid_kv: bool = True
    state_blocks: int = 1

    def __post_init__(self) -> None:
        for key in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_memory_bytes"):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ValueError(f"{key}: must be positive, not {value}")
        share = self.gpu_memory_utilization
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"gpu_memory_utilization: must be above 0 and at most 1, not {share}")


def default_utilization(version: Version) -> float:
    """Default of ``gpu_memory_utilization``: 0.9, and 0.92 from 0.20 on (``config/cache.py`` of 0.19.1 and 0.20.2)."""
    return 0.92 if version >= (0, 20, 0) else 0.9


NEWEST: Version = (0, 25, 1)
"""Newest version whose reserve was checked against an engine on hardware (an H200)."""
_SORTING: Version = (0, 16, 0)


def assumed_version(utilization: float | None) -> Version:
    """The version to compute with where none is known.

    0.9 was the default of ``gpu_memory_utilization`` up to 0.19, and the versions with that default nearly all sort in
    their sampler: who has 0.9, or names no share, is taken to run one of those. Any other share says nothing, and the
    newest version that was checked on hardware is assumed.
    """
    return _SORTING if utilization is None or utilization == 0.9 else NEWEST


def default_batch(chip: Chip, version: Version, settings: Settings) -> tuple[int, int]:
    """``max_num_batched_tokens`` and ``max_num_seqs`` that the engine runs with.

    Cards of 70 GiB and more get 1024 requests and 8192 tokens, others 256 and 2048, offline use 16384 and 8192 tokens;
    from 0.9 on an A100 counts as small; from 0.33 cards of 160 GiB get 16384 tokens. Where host and card share one
    memory the card's size cannot be asked for, so that the small defaults apply. Source: ``engine/arg_utils.py`` of
    0.8.5.post1, 0.10.2, 0.25.1 and 0.33.0.

    Returns:
        Tokens and requests; requests never exceed tokens.
    """
    small_a100 = "a100" in chip.name.lower() and version >= (0, 9, 0)
    large = chip.memory_bytes >= 70 * GIB and not small_a100 and not chip.unified and chip.backend != "cpu"
    tokens = (16384 if settings.offline else 8192) if large else (8192 if settings.offline else 2048)
    if large and version >= (0, 33, 0) and chip.memory_bytes >= 160 * GIB:
        tokens = 16384
    seqs = 1024 if large else 256
    if chip.backend == "cpu":
        tokens, seqs = (4096, 256) if settings.offline else (2048, 128)
    tokens = settings.max_num_batched_tokens or tokens
    if settings.max_num_batched_tokens is None and settings.max_num_seqs is not None:
        tokens = max(tokens, settings.max_num_seqs)
    return tokens, min(settings.max_num_seqs or seqs, tokens)


@dataclass(frozen=True, slots=True)
class Reserve:
    """What one card keeps for the runtime, in bytes.

    Attributes:
        forward: peak of the forward pass.
        encoder: peak of the vision tower.
        encoder_cache: the tower's output, which lives on during the forward pass and the sampler.
        sampler: peak of the sampler, best estimate.
        sampler_worst: its peak where it sorts, for a version of which it is not known whether it does.
        non_torch: CUDA, communication, host memory on unified machines.
        graphs: CUDA graphs, taken after KV was sized.
        graphs_subtracted: the version subtracts `graphs` before it sizes KV.
        low: least that it plausibly is.
        high: most that it plausibly is.
    """

    forward: int
    encoder: int
    encoder_cache: int
    sampler: int
    sampler_worst: int
    non_torch: int
    graphs: int
    graphs_subtracted: bool
    low: int
    high: int

    @property
    def activation(self) -> int:
        """Peak of the profiling run."""
        return max(self.encoder, self.encoder_cache + max(self.forward, self.sampler))

    @property
    def total(self) -> int:
        """What is missing from KV: best estimate."""
        return self.activation + self.non_torch + (self.graphs if self.graphs_subtracted else 0)

    @property
    def worst(self) -> int:
        """What is missing from KV if the sampler sorts: what a verdict has to hold for."""
        peak = max(self.encoder, self.encoder_cache + max(self.forward, self.sampler_worst))
        return self.total - self.activation + peak


def _runner_v2(architecture: Architecture, chip: Chip, version: Version) -> bool:
    """Whether model runner V2 is the default (``config/vllm.py:use_v2_model_runner`` of 0.23.0, 0.25.1 and 0.33.0)."""
    if chip.backend != "cuda" or architecture.is_moe or architecture.is_recurrent:
        return False
    if version >= (0, 25, 0):
        return True
    few = architecture.model_type in ("llama", "mistral", "qwen3") and architecture.quantization is None
    return version >= (0, 23, 0) and few


def _logit_bytes(architecture: Architecture, chip: Chip, version: Version, settings: Settings, rows: int) -> float:
    """Bytes a logit at the sampler's peak."""
    sort = SORT_BYTES_FEW_ROWS if 1 < rows < 128 else SORT_BYTES
    flashinfer = settings.flashinfer_sampler
    if chip.backend == "cpu":
        return FUSED_BYTES
    if chip.backend == "ascend":  # 910B and 910C have an operator of their own; 310P sorts.
        return FUSED_BYTES if version >= (0, 18, 0) and "310" not in chip.name else sort
    if _runner_v2(architecture, chip, version):
        # FlashInfer is the default, but compiles on first use and is given up without a toolchain; servers have one.
        usual = flashinfer if flashinfer is not None else chip.memory_bytes >= 70 * GIB
        return RUNNER_V2_FLASHINFER_BYTES if usual else RUNNER_V2_BYTES
    if version < (0, 17, 0):
        return FUSED_BYTES if flashinfer and chip.backend == "cuda" else sort
    return FUSED_BYTES if rows >= 8 else sort


def _forward(architecture: Architecture, parallel: Parallel, stage: range, tokens: int, settings: Settings, seqs: int,
             element: int, constants: Constants) -> float:  # fmt: skip
    """Bytes at the peak of the forward pass: the widest layer, one layer at a time."""
    hidden = architecture.hidden_size or constants.typical_width
    tensor = parallel.tensor
    widest = 3 * constants.typical_inner / tensor if architecture.incomplete else 0.0
    expand = 0.0
    for index in stage:
        layer = architecture.layers[index]
        mixer, mlp = layer.mixer, layer.mlp
        width = 0.0
        if isinstance(mixer, Attention):
            queries = mixer.heads * (3 if mixer.gated else 2)
            width = (queries + 2 * mixer.kv_heads) * mixer.head_dim / tensor
        elif isinstance(mixer, Mla):
            width = mixer.heads * (2 * mixer.nope_head_dim + 2 * mixer.rope_head_dim + mixer.value_head_dim) / tensor
            # The profiling run stands in for the expansion of cached prefixes (MLACommonImpl.forward).
            length = settings.max_model_len or architecture.max_position or tokens
            work = min(max(8 * length, 64 * seqs), 64 * 1024)
            expand = work * mixer.heads / tensor * (mixer.nope_head_dim + mixer.value_head_dim) * element
        elif isinstance(mixer, Recurrent):
            width = 4 * mixer.conv_channels / tensor
        block = 0.0
        if isinstance(mlp, DenseMlp):
            block = (3 if mlp.gated else 2) * mlp.intermediate / tensor
        elif isinstance(mlp, MoeMlp):
            inner = mlp.intermediate / (1 if parallel.expert else tensor * parallel.data)
            block = mlp.top_k * (max(2 * inner, hidden) + inner) + 3 * mlp.shared_intermediate / tensor
        widest = max(widest, width, block)
    return max(tokens * (widest + constants.forward_widths * hidden) * element, expand + 2 * tokens * hidden * element)


def reserve(
    architecture: Architecture,
    chip: Chip,
    version: Version,
    settings: Settings = Settings(),
    parallel: Parallel = Parallel(),  # noqa: B008 (frozen)
    *,
    dtype: str | None = None,
    stage: int = 0,
    constants: Constants = DEFAULT,
) -> Reserve:
    """What a card of one pipeline stage keeps for the runtime.

    Args:
        architecture: the model.
        chip: the card.
        version: vLLM's version (vllm-ascend follows vLLM's numbers); see `assumed_version` where it is unknown. Up to
            0.11.0 the sampler sorts unless FlashInfer happens to be installed: `Reserve.low` allows for that.
        settings: engine settings.
        parallel: parallel sizes.
        dtype: dtype that the model runs in; None for the checkpoint's.
        stage: pipeline stage; only the last one samples, only the first one has the encoder.
        constants: fitted constants.

    Returns:
        Bytes, with a range that is wider the less is known.
    """
    element = dtype_bytes(dtype or architecture.dtype)
    tokens, seqs = default_batch(chip, version, settings)
    stages = pipeline_split(len(architecture.layers), parallel.pipeline)
    forward = _forward(architecture, parallel, stages[stage], tokens, settings, seqs, element, constants)
    encoder = cache = 0.0
    tower = architecture.vision
    if tower is not None and stage == 0:
        seen = max(tokens, tower.item_tokens) // tower.item_tokens * tower.item_tokens
        share = constants.vision_replicated
        width = tower.intermediate * (share + (1 - share) / parallel.tensor) + constants.encoder_widths * tower.hidden
        cache = float(seen * (architecture.hidden_size or 0) * tower.outputs * element)
        encoder = cache + seen * tower.patches_per_token * width * element
    rows = seqs if stage == len(stages) - 1 else 0
    vocab = architecture.vocab_size or 128 * 1024
    sampler = rows * vocab * _logit_bytes(architecture, chip, version, settings, rows)
    # Up to 0.11.0 FlashInfer samples where it is installed, and it is no dependency yet: the project's image has it,
    # its wheel does not require it. Cards of 70 GiB and more are about as often under the one as under the other.
    bundled = chip.backend == "cuda" and version <= (0, 11, 0) and settings.flashinfer_sampler is None
    fused = min(sampler, rows * vocab * FUSED_BYTES) if bundled else sampler
    worst, large = sampler, chip.memory_bytes >= 70 * GIB and not chip.unified
    if bundled and large:
        sampler = (sampler + fused) / 2
    link = constants.link_step if chip.fast_link else constants.pcie_step
    other = constants.non_torch
    if chip.backend == "cpu":
        other = constants.cpu_process
    elif chip.backend == "ascend":
        groups = (2 if parallel.tensor * parallel.pipeline * parallel.data > 1 else 0) + (2 if parallel.expert else 0)
        other += groups * constants.hccl
    else:
        other += link * math.log2(max(parallel.tensor, 1)) + (link if parallel.pipeline > 1 else 0)
    if chip.unified:
        other += constants.unified
    eager = settings.enforce_eager or chip.backend == "cpu"
    # Sizes up to twice the requests are captured, 512 at most; a quarter of the memory is there with the first of them.
    captured = 0.25 + 0.75 * min(seqs / 256, 1.0)
    graphs = constants.graph_layer * len(stages[stage]) * (2 if architecture.is_moe else 1) * captured
    graphs = 0.0 if eager else graphs
    counted = version >= (0, 21, 0) and chip.backend == "cuda" and not eager
    if version < (0, 32, 0) and _runner_v2(architecture, chip, version):
        counted = False  # profile_cudagraph_memory of runner V2 returns 0 in 0.25.1 and an estimate in 0.33.0.
    peak = max(encoder, cache + max(forward, worst))
    least = max(encoder, cache + max(forward, fused))
    base = other * GIB + (graphs * GIB if counted else 0)
    # How sure: points of the same settings differ by 0.35 GiB, an estimated activation by a tenth (a quarter where an
    # encoder or ROCm decides it), communication by a third, a machine with one memory by what its other processes do.
    doubt = 0.35 * GIB + (0.25 if encoder >= peak or chip.backend == "rocm" else 0.1) * peak
    doubt += 0.5 * graphs * GIB if counted else 0
    doubt += 0.33 * other * GIB if chip.backend == "ascend" or parallel.tensor > 1 else 0
    doubt += constants.unified * GIB if chip.unified else 0
    return Reserve(
        forward=int(forward),
        encoder=int(encoder),
        encoder_cache=int(cache),
        sampler=int(sampler),
        sampler_worst=int(worst),
        non_torch=int(other * GIB),
        graphs=int(graphs * GIB),
        graphs_subtracted=counted,
        low=max(int(least + base - doubt), 0),
        high=int(peak + base + doubt),
    )
