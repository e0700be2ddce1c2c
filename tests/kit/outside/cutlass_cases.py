"""CUTLASS's own Hopper and Blackwell examples, built as shipped, with inputs and expected outputs of our own.

The host program of an example is built against the recording runtime; its launches run on the emulator with
the inputs written into the allocations that the program made for them (the program fills them on the device
or not at all).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.kit.outside.cutlass_attention import backward, forward, latent
from tests.kit.outside.cutlass_block_scaled import (
    E2M1,
    E4M3,
    E8M0,
    block_scaled,
    grouped_block_scaled,
    quantised,
)
from tests.kit.outside.cutlass_convolutions import Convolution
from tests.kit.outside.cutlass_example import Example
from tests.kit.outside.cutlass_experts import block_scaled_experts, experts
from tests.kit.outside.cutlass_gemms import (
    blockwise,
    builders,
    emulated,
    fp8,
    gemm,
    grouped,
    tutorial,
)
from tests.kit.outside.cutlass_vector import vector
from tests.kit.paths import ROOT

_GEMM = ("--m=512", "--n=512", "--k=256", "--iterations=0")
_TWO = ("--m=512", "--n=256", "--k=256", "--iterations=0")  # two clusters
_SPLIT = ("--m=512", "--n=256", "--k=512", "--splits=2", "--decomposition=SplitK", "--iterations=0")
_SMALL = ("--preferred_cluster_m=2", "--preferred_cluster_n=1")
_HEAD = ("--b=1", "--h=1", "--d=128", "--iterations=0")
_CLUSTERS = (*_SMALL, "--fallback_cluster_m=2", "--fallback_cluster_n=1")
_GROUPS = ("--m=256", "--n=256", "--k=128", "--groups=2", "--iterations=0", "--no_verif")
_IMAGES = Convolution((2, 1, 9, 8, 64), (64, 1, 3, 3), padding=(0, 1, 1))
_STRIDED = Convolution((1, 4, 9, 11, 64), (128, 2, 3, 2), (1, 0, 1), (2, 1, 2), (1, 2, 1))
_CONVOLUTION = "76_blackwell_conv/76_blackwell_conv_"
_PACKED = ("--b=3", "--h=1", "--d=128", "--iterations=0", "--varlen")
_EMPTY = ("--varlen-q=256:256", "--varlen-k=256:0", "--mask=residual")
_70, _72 = "70_blackwell_gemm/70_blackwell_", "72_blackwell_narrow_precision_gemm/"
_FORWARD = "77_blackwell_fmha/77_blackwell_fmha.cu"
_92 = "92_blackwell_moe_gemm/92_blackwell_moe_gemm_"
_TOKENS = f"--benchmark={ROOT / 'tests/kit/outside/experts.txt'}"  # 64, 5 and 80 for three experts
_EXPERTS = ("--m=256", "--n=80", "--k=512", "--iterations=0", "--no_verif")
_91 = "91_fp4_gemv/91_fp4_gemv.cu"
_VECTOR = ("--m=192", "--batch=2", "--epilogue_st=2", "--profiling=false")
_BACKWARD = "77_blackwell_fmha/77_blackwell_fmha_bwd.cu"


def _square(n: int) -> tuple[str, ...]:
    return (*_HEAD, f"--q={n}", f"--k={n}")


_HOPPER = ("--m=256", "--n=256", "--k=288", "--iterations=0")
_48 = "48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu"
_CUTE = "cute/tutorial/hopper/wgmma"
_TUTORIAL = ("256", "256", "192", "N", "T")

EXAMPLES = (
    Example("48-tf32", _48, _HOPPER, gemm(256, 256, 288, np.float32), processors=132, hopper=True),
    Example(
        "cute-wgmma", f"{_CUTE}_sm90.cu", _TUTORIAL, tutorial(256, 256, 192), processors=132, hopper=True
    ),
    Example(
        "cute-wgmma-tma",
        f"{_CUTE}_tma_sm90.cu",
        _TUTORIAL,
        tutorial(256, 256, 192),
        processors=132,
        hopper=True,
    ),
    Example("70-fp16", f"{_70}fp16_gemm.cu", _TWO, gemm(512, 256, 256)),
    Example("70-fp8", f"{_70}fp8_gemm.cu", _GEMM, fp8(512, 512, 256)),
    Example(
        "72a-nvfp4",
        f"{_72}72a_blackwell_nvfp4_bf16_gemm.cu",
        ("--m=256", "--n=1024", "--k=512", "--iterations=0"),
        block_scaled(256, 1024, 512, E2M1, E2M1, E4M3, 16),
    ),
    Example(
        "72b-nvfp4-out",
        f"{_72}72b_blackwell_nvfp4_nvfp4_gemm.cu",
        ("--m=256", "--n=256", "--k=512", "--iterations=0"),
        quantised(256, 256, 512),
    ),
    Example(
        "72c-mxfp8-mxfp4",
        f"{_72}72c_blackwell_mixed_mxfp8_bf16_gemm.cu",
        ("--m=256", "--n=1024", "--k=512", "--iterations=0"),
        block_scaled(256, 1024, 512, E4M3, E2M1, E8M0, 32),
    ),
    Example(
        "74-split-k",
        "74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu",
        (*_SPLIT, *_SMALL),
        gemm(512, 256, 512),
    ),
    Example(
        "73-preferred-cluster",
        "73_blackwell_gemm_preferred_cluster/blackwell_gemm_preferred_cluster.cu",
        (*_GEMM, *_CLUSTERS),
        gemm(512, 512, 256),
    ),
    Example(
        "75-grouped",
        "75_blackwell_grouped_gemm/75_blackwell_grouped_gemm.cu",
        _GROUPS,
        grouped(256, 256, 128, 2),
    ),
    Example(
        "75-grouped-nvfp4",
        "75_blackwell_grouped_gemm/75_blackwell_grouped_gemm_block_scaled.cu",
        ("--m=256", "--n=256", "--k=512", "--groups=2", "--iterations=0", "--no_verif"),
        grouped_block_scaled(256, 256, 512, 2),
    ),
    Example("76-fprop", f"{_CONVOLUTION}fprop.cu", _IMAGES.arguments, _IMAGES.check("fprop")),
    Example("76-fprop-strided", f"{_CONVOLUTION}fprop.cu", _STRIDED.arguments, _STRIDED.check("fprop")),
    Example("76-dgrad", f"{_CONVOLUTION}dgrad.cu", _IMAGES.arguments, _IMAGES.check("dgrad")),
    Example("76-wgrad", f"{_CONVOLUTION}wgrad.cu", _IMAGES.arguments, _IMAGES.check("wgrad")),
    Example("77-forward", _FORWARD, _square(256), forward([(256, 256)], 128)),
    Example(
        "77-forward-causal",
        _FORWARD,
        (*_square(512), "--mask=causal"),
        forward([(512, 512)], 128, causal=True),
    ),
    Example(
        "77-forward-gqa",
        _FORWARD,
        ("--b=2", "--h=4", "--h_k=2", "--d=64", "--q=256", "--k=256", "--iterations=0"),
        forward([(256, 256)] * 2, 64, heads=4, kv_heads=2),
    ),
    Example(
        "77-forward-fp8",
        _FORWARD,
        (*_HEAD, "--q=256", "--k=384", "--mask=no"),
        forward([(256, 384)], 128, dtype=ml_dtypes.float8_e4m3fn),
        ("FP8",),
    ),
    Example(
        "77-forward-empty",
        _FORWARD,
        ("--b=2", *_PACKED[1:], *_EMPTY),
        forward([(256, 256), (256, 0)], 128, packed=True),
    ),
    Example(
        "77-forward-empty-one",
        _FORWARD,
        ("--b=2", *_PACKED[1:], *_EMPTY, "--persistent"),
        forward([(256, 256), (256, 0)], 128, packed=True),
        processors=1,
    ),
    Example(
        "77-forward-varlen",
        _FORWARD,
        (*_PACKED, "--varlen-q=256:100:300", "--varlen-k=300:200:100", "--mask=residual"),
        forward([(256, 300), (100, 200), (300, 100)], 128, packed=True),
    ),
    Example(
        "78-bf16x9",
        "78_blackwell_emulated_bf16x9_gemm/78_blackwell_emulated_bf16x9_gemm.cu",
        ("--m=256", "--n=256", "--k=256", "--iterations=0"),
        emulated(256, 256, 256),
    ),
    Example(
        "81-blockwise",
        "81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise.cu",
        ("--m=256", "--n=384", "--k=256", "--iterations=0"),
        blockwise(256, 384, 256),
    ),
    Example(
        "81-groupwise",
        "81_blackwell_gemm_blockwise/81_blackwell_gemm_groupwise.cu",
        ("--m=256", "--n=256", "--k=256", "--iterations=0"),
        blockwise(256, 256, 256, rows_a=1),
    ),
    Example(
        "81-blockwise-grouped",
        "81_blackwell_gemm_blockwise/81_blackwell_grouped_gemm_blockwise.cu",
        ("--m=256", "--n=384", "--k=256", "--groups=2", "--iterations=0", "--skip-verification"),
        blockwise(256, 384, 256, groups=2),
    ),
    Example(
        "81-groupwise-grouped",
        "81_blackwell_gemm_blockwise/81_blackwell_grouped_gemm_groupwise.cu",
        ("--m=256", "--n=384", "--k=256", "--groups=2", "--iterations=0", "--skip-verification"),
        blockwise(256, 384, 256, rows_a=1, groups=2),
    ),
    Example(
        "71-builders",
        "71_blackwell_gemm_with_collective_builder/71_blackwell_gemm_with_collective_builder.cu",
        ("--m=256", "--n=256", "--k=128", "--alpha=2", "--beta=3"),
        builders(256, 256, 128, 2.0, 3.0, 10),
    ),
    Example(
        "77-latent",
        "77_blackwell_fmha/77_blackwell_mla.cu",
        ("--b=2", "--k=256", "--page=128", "--split_kv=1", "--iterations=0"),
        latent(2, 128),
        ("FP16",),
        processors=4,
    ),
    Example(
        "77-latent-cp-async",
        "77_blackwell_fmha/77_blackwell_mla.cu",
        ("--b=2", "--k=256", "--page=64", "--split_kv=1", "--iterations=0"),
        latent(2, 64),
        ("FP16", "CPASYNC"),
        processors=4,
    ),
    Example("77-backward", _BACKWARD, _square(256), backward(256, 256, 128)),
    Example("77-backward-causal", _BACKWARD, (*_square(256), "--mask=causal"), backward(256, 256, 128, True)),
    Example("91-vector", _91, (*_VECTOR, "--k=2048"), vector(192, 2048, 2, 2.0)),
    Example("91-vector-past", _91, (*_VECTOR, "--k=1536"), vector(192, 1536, 2, 2.0)),
    Example(
        "92-experts",
        f"{_92}regular.cu",
        ("--m=256", "--n=20", "--k=256", "--l=2", "--iterations=0", "--no_verif"),
        experts(256, 20, 256, (20, 20), programs=3),
    ),
    Example(
        "92-experts-grouped",
        f"{_92}grouped.cu",
        (*_EXPERTS, "--l=3", _TOKENS),
        experts(256, 80, 512, (64, 5, 80)),
    ),
    Example(
        "92-experts-nvfp4",
        f"{_92}fp4_regular.cu",
        (*_EXPERTS, "--l=2"),
        block_scaled_experts(256, 80, 512, (80, 80), programs=2),
    ),
    Example(
        "92-experts-nvfp4-grouped",
        f"{_92}fp4_grouped.cu",
        (*_EXPERTS, "--l=3", _TOKENS),
        block_scaled_experts(256, 80, 512, (64, 5, 80)),
    ),
)
