"""Will this model fit those cards, at what length and concurrency? Pure functions, no I/O but `read_checkpoint`.

    architecture = from_config(json.loads(text))
    answer = fit(Request(architecture, chip_of("NVIDIA H200", memory_bytes), version="0.25.1"))
    answer.fits, answer.reason, answer.kv_bytes, answer.concurrency

Method, formulas, sources and limits: ``docs/capacity.md``.
"""

from .architecture import Architecture, ArchitectureError, from_config, from_numbers
from .constants import DEFAULT, GIB, Constants
from .fit import Draft, FitResult, Request, Status, fit
from .kv import KvLayout, kv_layout
from .reserve import (
    Chip,
    Reserve,
    Settings,
    assumed_version,
    chip_of,
    default_batch,
    default_utilization,
    parse_version,
    reserve,
)
from .safetensors import Checkpoint, CheckpointError, read_checkpoint, read_header
from .weights import Parallel, ParallelError, Weights, weight_bytes

__all__ = [
    "DEFAULT",
    "GIB",
    "Architecture",
    "ArchitectureError",
    "Checkpoint",
    "CheckpointError",
    "Chip",
    "Constants",
    "Draft",
    "FitResult",
    "KvLayout",
    "Parallel",
    "ParallelError",
    "Request",
    "Reserve",
    "Settings",
    "Status",
    "Weights",
    "assumed_version",
    "chip_of",
    "default_batch",
    "default_utilization",
    "fit",
    "from_config",
    "from_numbers",
    "kv_layout",
    "parse_version",
    "read_checkpoint",
    "read_header",
    "reserve",
    "weight_bytes",
]
