"""KV cache: bytes of a block, blocks of a request, tokens and concurrency, as vLLM allocates them.

vLLM has one pool of blocks. Layers of the same kind form groups of equal size, every group has its own blocks out of
the one pool, and a block is one page for each layer of a group. From that follows what surprises with hybrid models: a
sliding-window or recurrent layer does not make tokens cheaper in the pool, it needs fewer blocks a request.

Sources: vLLM 0.25.1, ``v1/core/kv_cache_utils.py`` (``_get_kv_cache_groups_uniform_page_size``,
``unify_kv_cache_spec_page_size``, ``get_max_concurrency_for_kv_cache_config``) and ``v1/kv_cache_interface.py``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .architecture import Architecture, ArchitectureError, Attention, Mla, Recurrent
from .weights import Parallel, dtype_bytes, kv_heads_per_card, pipeline_split

__all__ = ["KvGroup", "KvLayout", "kv_layout"]


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that share a block table.

    Attributes:
        kind: ``full``, ``sliding``, ``chunked`` or ``recurrent``.
        block_size: tokens of a block; 0 for recurrent groups, whose page is a whole state.
        window: tokens of the window or chunk; None for full attention.
    """

    kind: str
    block_size: int
    window: int | None = None

    def blocks(self, tokens: int, scheduled: int, state_blocks: int) -> int:
        """Blocks that one request of `tokens` tokens holds in this group at most.

        Args:
            tokens: length of the request.
            scheduled: tokens that one step schedules at most (``max_num_batched_tokens``).
            state_blocks: blocks of a recurrent state.
        """
        if self.kind == "recurrent":
            return state_blocks
        if self.window is None:
            return -(-tokens // self.block_size)
        if self.kind == "chunked":
            return -(-min(self.window + scheduled, tokens) // self.block_size)
        return -(-min(self.window - 1 + scheduled, tokens) // self.block_size) + 1


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How one card keeps KV.

    Attributes:
        groups: groups of layers; empty for a model without any cache.
        block_bytes: bytes of one block of the pool (page times layers of a group).
        layers_per_group: layers of a group, padding included.
        page_bytes: bytes of one block in one layer.
        state_blocks: blocks of a recurrent state a request: 1, and one more with prefix caching of states.
    """

    groups: tuple[KvGroup, ...]
    block_bytes: int
    layers_per_group: int
    page_bytes: int
    state_blocks: int = 1

    @property
    def bytes_per_token(self) -> float:
        """Bytes that one more token of a long request takes on a card (full-attention groups only)."""
        return sum(self.block_bytes / group.block_size for group in self.groups if group.kind == "full")

    def blocks(self, available: int) -> int:
        """Blocks that `available` bytes hold; never negative."""
        return max(available // self.block_bytes, 0) if self.block_bytes else 0

    def request_blocks(self, tokens: int, scheduled: int) -> int:
        """Blocks that one request of `tokens` tokens holds at most, when steps schedule `scheduled` tokens."""
        return sum(group.blocks(tokens, scheduled, self.state_blocks) for group in self.groups)

    def request_bytes(self, tokens: int, scheduled: int) -> int:
        """Bytes on a card that one request of `tokens` tokens needs: what vLLM demands before it starts."""
        return self.request_blocks(tokens, scheduled) * self.block_bytes

    def concurrency(self, available: int, tokens: int, scheduled: int) -> float:
        """Requests of `tokens` tokens that fit at the same time (vLLM's "maximum concurrency")."""
        blocks = self.request_blocks(tokens, scheduled)
        return self.blocks(available) / blocks if blocks else 0.0

    def capacity_tokens(self, available: int, tokens: int, scheduled: int) -> int:
        """Tokens of requests of `tokens` tokens that the pool holds.

        For a model of one kind of layer this is blocks times block size, as every version prints it. For hybrids it is
        what versions from 0.20 print (concurrency times length); older ones print blocks divided by groups, which is
        no capacity: see `printed_tokens_before_020`.
        """
        if len(self.groups) == 1 and self.groups[0].kind == "full":
            return self.blocks(available) * self.groups[0].block_size
        return int(self.concurrency(available, tokens, scheduled) * tokens)

    def printed_tokens_before_020(self, available: int) -> int:
        """Tokens as vLLM up to 0.19 prints them: blocks divided by groups, times the block size."""
        if not self.groups:
            return 0
        size = max(group.block_size for group in self.groups) or 1
        return self.blocks(available) // len(self.groups) * size

    def longest(self, available: int, scheduled: int, limit: int) -> int:
        """Longest request in tokens that `available` bytes hold, up to `limit`; 0 when not even one token fits."""
        blocks = self.blocks(available)
        low, high = 0, max(limit, 0)
        while low < high:
            middle = (low + high + 1) // 2
            if self.request_blocks(middle, scheduled) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low


def kv_layout(
    architecture: Architecture,
    parallel: Parallel = Parallel(),  # noqa: B008 (frozen)
    *,
    kv_dtype: str = "auto",
    dtype: str | None = None,
    block_size: int | None = None,
    stage: int = 0,
    state_blocks: int = 1,
    draft_layers: int = 0,
    hybrid: bool = True,
) -> KvLayout:
    """How a card of one pipeline stage keeps KV.

    Args:
        architecture: the model.
        parallel: parallel sizes.
        kv_dtype: ``--kv-cache-dtype``; ``auto`` is the model's dtype.
        dtype: dtype that the model runs in; None for the checkpoint's.
        block_size: tokens of a block; None for 16, and for hybrids with a recurrent state the smallest multiple of 16
            (64 with latent attention) whose page holds a state.
        stage: pipeline stage.
        state_blocks: blocks of a recurrent state a request.
        draft_layers: full-attention layers that a draft model adds to the last stage.
        hybrid: False when the hybrid manager is off: sliding layers then keep full length.

    Raises:
        ParallelError: sizes that do not divide the model.
        ArchitectureError: layers whose pages cannot be made equal, or an unknown dtype.
    """
    own = dtype_bytes(dtype or architecture.dtype)
    element = own if kv_dtype in ("auto", "") else dtype_bytes(kv_dtype)
    stages = pipeline_split(len(architecture.layers), parallel.pipeline)
    kinds: Counter[tuple[str, int, int | None]] = Counter()
    latent = False
    for index in stages[stage]:
        layer = architecture.layers[index]
        mixer = layer.mixer
        if mixer is None or layer.shares_kv:
            continue
        if isinstance(mixer, Recurrent):
            state = dtype_bytes(mixer.state_dtype) if mixer.state_dtype else own
            size = -(-mixer.conv_channels // parallel.tensor) * (mixer.conv_kernel - 1) * own
            kinds["recurrent", size + -(-mixer.state_elements // parallel.tensor) * state, None] += 1
        else:
            latent = latent or isinstance(mixer, Mla)
            kind, window = _kind(mixer, hybrid)
            kinds[kind, _token_bytes(mixer, parallel.tensor, element), window] += 1
    if draft_layers and stage == len(stages) - 1:
        full = [key for key in kinds if key[0] == "full"]
        if full:
            kinds[max(full, key=lambda key: kinds[key])] += draft_layers
    if not kinds:
        return KvLayout((), 0, 0, 0, state_blocks)
    states = [size for kind, size, _ in kinds if kind == "recurrent"]
    tokens = [size for kind, size, _ in kinds if kind != "recurrent"]
    if not tokens:
        page, base = max(states), 0
    else:
        base = block_size or 16
        if states:
            align = 64 if latent else 16
            base = max(base, -(-max(states) // (max(tokens) * align)) * align)
        page = max(tokens) * base
    if len(kinds) == 1 or (not states and len({key[0] for key in kinds}) == 1 and next(iter(kinds))[0] == "full"):
        # One kind of layer, or only full attention with heads of several sizes: one group, pages added up.
        total = sum(size * count for (_, size, _), count in kinds.items())
        kind, _, window = next(iter(kinds))
        if kind == "recurrent":
            return KvLayout((KvGroup(kind, 0),), total, sum(kinds.values()), page, state_blocks)
        group = KvGroup(kind, base, window)
        return KvLayout((group,), total * base, sum(kinds.values()), page, state_blocks)
    # Small pages are made as large as the largest by longer blocks (or padded), groups as small as the rarest kind.
    rarest, commonest = min(kinds.values()), max(kinds.values())
    size_of_group = commonest if commonest < rarest * 1.5 else rarest
    groups: list[KvGroup] = []
    for (kind, size, window), count in sorted(kinds.items(), key=lambda item: (item[0][0], item[0][1])):
        block = 0 if kind == "recurrent" else page // size if page % size == 0 else base
        groups += [KvGroup(kind, block, window)] * -(-count // size_of_group)
    return KvLayout(tuple(groups), page * size_of_group, size_of_group, page, state_blocks)


def _kind(mixer: Attention | Mla, hybrid: bool) -> tuple[str, int | None]:
    if isinstance(mixer, Mla) or mixer.window is None or not hybrid:
        return "full", None
    return ("chunked" if mixer.chunked else "sliding"), mixer.window


def _token_bytes(mixer: Attention | Mla, tensor: int, element: int) -> int:
    """Bytes of one token in one layer on one card."""
    if isinstance(mixer, Mla):
        # Latent vectors are replicated. The sparse indexer keeps its own keys as bytes with a scale of 4 bytes a head.
        index = mixer.index_head_dim + 4 if mixer.index_head_dim else 0
        return (mixer.kv_lora_rank + mixer.rope_head_dim) * element + index
    if mixer.kv_heads < 1:
        raise ArchitectureError("num_key_value_heads", "must be positive")
    return kv_heads_per_card(mixer.kv_heads, tensor) * (mixer.head_dim + mixer.value_head_dim) * element
