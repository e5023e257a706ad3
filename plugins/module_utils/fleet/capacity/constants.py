"""The few constants of the reserve that no source tells, each with what it was taken from.

Everything else in this package is arithmetic on shapes and on what vLLM's own code allocates. `Constants` can be
replaced, so that a benchmark can fit them without some of the points and see what happens to those.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "GIB", "Constants"]

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of the reserve; bytes are GiB.

    Attributes:
        non_torch: what CUDA itself takes while profiling on one card: kernels, cuBLAS workspaces. 0.07 to 0.14 printed
            by vLLM 0.10.2 and 0.11.0 on an H100 (points 27, 43), 0.13 in the llm-d table.
        link_step: buffers of NCCL and of the custom all-reduce for each doubling of the tensor parallel size where
            cards have a fast link: 0.42 from TP 1 to TP 2 on H100 (llm-d table), 0.95 in all at TP 4 on GB200
            (point 75).
        pcie_step: the same without a fast link (no custom all-reduce buffers).
        forward_widths: hidden widths a token that live at the peak of a forward pass beside the feed-forward block:
            residual, input, normed input, attention's output. 4.4 to 7.9 in the points that print their activation
            peak; 6.4 on the H200.
        encoder_widths: widths of a vision tower a patch that live at its peak beside its feed-forward block. No point
            shows an encoder that exceeds the sampler; 2 is the most that points 9 and 47 leave room for.
        unified: host memory of the engine's own processes, which counts as used on machines where host and card share
            one memory (Jetson Thor, GB10): 2.3 and 1.9 (points 77, 21).
        hccl: one HCCL communicator: two buffers of HCCL_BUFFSIZE, 200 MB by default (CANN documentation).
        cpu_process: a CPU worker's own memory beside the weights; 1.4 for an engine's three processes together
            (measured with vLLM 0.32.0 on x86-64).
        vision_replicated: share of a vision tower that tensor parallelism does not divide: 0.37 to 0.52 from loaded
            weights of Qwen3-VL on 2 and 4 cards (points 9, 19).
        graph_layer: CUDA graphs a layer of a dense model; mixtures of experts take twice that. 0.01 to 0.04 printed as
            taken by captures (reported.cudagraph_gib of the points).
        unquantized: share of the weights that 4-bit checkpoints keep in 16 bits, where only a total is known: 0.06 in
            loaded weights of a 26B and of a 35B model in NVFP4 (points 25, 87).
        typical_width: hidden width where a shape does not tell it, and
        typical_inner: inner width there (those of the common 7B to 8B models).
    """

    non_torch: float = 0.13
    link_step: float = 0.42
    pcie_step: float = 0.15
    forward_widths: float = 6.0
    encoder_widths: float = 2.0
    unified: float = 2.1
    hccl: float = 0.39
    cpu_process: float = 1.0
    vision_replicated: float = 0.45
    graph_layer: float = 0.013
    unquantized: float = 0.055
    typical_width: float = 4096.0
    typical_inner: float = 14336.0


DEFAULT = Constants()
