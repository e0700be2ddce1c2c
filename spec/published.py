"""Published kernels of sparse MLA backward as designs, with their published times.

Facts are from the sources that each row names, at the given date; what a source does not say is an
assumption, and `ASSUMED` says so. TFLOPS count 2 s_q H topk (3 d_qk + 2 d_v).
"""

from __future__ import annotations

from dataclasses import replace

from tileproof.spec.designs import Design, MmaRow, Part, Peer
from tileproof.spec.machine.limits import PROCESSORS
from tileproof.spec.machine.timing import BLACKWELL, HOPPER, Figure, Timing

_CUDNN = "NVIDIA/cudnn-frontend"
_D = 512
_KEYS = 64
ASSUMED = (
    "instructions of the warps per element: 4 for P, 4 for dS, 1 for an addition, 2 for an output",
    "CTAs run in waves, and each wave starts when the previous wave has ended",
    "the rows are in L2, evenly over its halves; helper kernels only move their bytes in memory",
)


def _clock(best: float, likely: float, worst: float, source: str, sms: int = PROCESSORS) -> Timing:
    return replace(BLACKWELL, clock=Figure(best, likely, worst, "GHz", source), sms=sms)


_B200 = _clock(1.83, 1.83, 1.79, f"{_CUDNN} pull 817: 1830 MHz requested, 1792 to 1830 observed")
# One look at the clock per row (benchmark/dsa, sample_sm_clock_mhz), which falls while a heavy kernel runs:
# 1.52 GHz in the row of this kernel with half the tokens, 1.81 here, 1.49 with twice as many. The median.
_B200_CSV = _clock(
    1.807, 1.522, 1.485, "the file's peak_mma_tflops over 8192 x 148, of 2,048, 4,096 and 8,192 tokens"
)
_GB200 = _clock(2.062, 2.062, 2.062, "the file's peak_mma_tflops 2567.6 over 8192 x 152", 152)
_GB300 = _clock(2.07, 2.07, 2.07, "the file's peak_mma_tflops 2577.5 over 8192 x 152", 152)
CARDS = {
    "H200": HOPPER,
    "H100": replace(
        HOPPER, clock=Figure(1.98, 1.75, 1.4, "GHz", "NVIDIA's boost clock; likely, worst: guesses")
    ),
    "B200": BLACKWELL,
    "GB200": _GB200,
    "GB300": _GB300,
}
# What the published rows of whole launches have; tokens: of the files of tools/published_rows.py.
ROW_CARDS = ("B200", "GB200", "GB300")
ROW_TOPK = 128, 2048
ROW_TOKENS = 2048, 32768


def _tile(rows: int, columns: int) -> int:
    return rows * columns * 2


def _cudnn_h64(d_qk: int = _D) -> Design:
    """One CTA for 64 heads of a token (dsa_bwd_sm100.py): 4 warps gather by cp.async, 4 compute, 8 add with
    red.v4 of 4 rows x 128 bytes, one issues MMAs, all of cta_group::1 without .ws. One tile of K; dKV in two
    halves of 256 columns that share tensor memory. Columns beyond 512 are assumed to be in the lower half."""
    score, dp = MmaRow(64, 64, d_qk // 16), MmaRow(64, 64, _D // 16)
    half = MmaRow(128, 64, 2 * _KEYS // 16)
    more = d_qk - _D
    rest = (MmaRow(more, 64, _KEYS // 16),) if more else ()
    lower = _KEYS * (256 + more) * 4
    return Design(
        "cuDNN, 1 CTA, 64 heads",
        before=(
            Part("Q, dO", "load", loaded=_tile(64, d_qk) + _tile(64, _D)),
        ),
        block=(
            Part("gather", "gather", gathered=_tile(_KEYS, d_qk), warps=4, after=(("dQ", 1),)),
            Part("S", "mma", mmas=(score,), after=(("gather", 0), ("Q, dO", 0), ("P", 1))),
            Part("dP", "mma", mmas=(dp,), after=(("dS", 1),)),
            Part("dKV lower, dO", "mma", mmas=(half,), after=(("P", 0), ("read upper", 1))),
            Part("dKV lower", "mma", mmas=(half, *rest), after=(("dS", 0),)),
            Part("dQ", "mma", mmas=(MmaRow(128, 64, 4 * _KEYS // 16), *rest)),
            Part("dKV upper", "mma", mmas=(half, half), after=(("read lower", 0),)),
            Part("P", "compute", tmem=64 * 64 * 4, exp2=64 * 64, shared=_tile(64, 64), instructions=128,
                 warps=4, after=(("S", 0), ("dKV upper", 1))),
            Part("dS", "compute", tmem=64 * 64 * 4, shared=_tile(64, 64), instructions=128, warps=4,
                 after=(("dP", 0), ("dKV upper", 1))),
            Part("read lower", "reduce", tmem=lower, instructions=8, warps=8, after=(("dKV lower", 0),)),
            Part("add lower", "reduce", added=lower, instructions=lower // 1024, warps=8),
            Part("read upper", "reduce", tmem=_KEYS * 256 * 4, instructions=8, warps=8,
                 after=(("dKV upper", 0),)),
            Part("add upper", "reduce", added=_KEYS * 256 * 4, instructions=64, warps=8),
        ),
        behind=(
            Part("write dQ", "compute", tmem=64 * d_qk * 4, instructions=2 * 64 * d_qk // 128,
                 shared=_tile(64, d_qk), stored=_tile(64, d_qk), warps=4, after=(("dQ", 0),)),
        ),
        keys=_KEYS,
        ctas=1,
    )  # fmt: skip


def _cudnn_2cta() -> Design:
    """A pair for 128 heads of a token (dsa_bwd_sm100_h128_2cta.py, pull 817), all MMAs cta_group::2: scores
    128 x 64, dQ 256 x 128, dKV 256 x 64. Each CTA gathers 32 of 64 keys for the scores, and for dQ its
    columns of all 64, 16 KB; Q^T and dO^T come again from L2 for dKV in each block, 128 KB. P and dS go
    to the other CTA, 4 KB each way. 8 warps add, 64 KB a CTA."""
    score = MmaRow(128, 64, _D // 16, pair=True)
    round_ = MmaRow(256, 64, 8, pair=True)
    return Design(
        "cuDNN, 2 CTAs, 128 heads",
        before=(
            Part("Q, dO", "load", loaded=2 * _tile(64, _D)),
        ),
        block=(
            Part("gather", "gather", gathered=_tile(_KEYS // 2, _D), warps=4, after=(("dQ", 1),)),
            Part("gather for dQ", "gather", gathered=_tile(_KEYS, 128), warps=4, after=(("dP", 0),)),
            Part("dO^T", "load", loaded=2 * _tile(128, 128), after=(("dKV lower", 1),)),
            Part("Q^T lower", "load", loaded=_tile(128, 128), after=(("dKV lower, dO", 0),)),
            Part("Q^T upper", "load", loaded=_tile(128, 128), after=(("dKV upper, dO", 0),)),
            Part("S", "mma", mmas=(score,), after=(("gather", 0), ("Q, dO", 0), ("P", 1))),
            Part("dP", "mma", mmas=(score,), after=(("dS", 1),)),
            Part("dKV lower, dO", "mma", mmas=(round_,),
                 after=(("send P", 0), ("dO^T", 0), ("read lower", 1))),
            Part("dKV upper, dO", "mma", mmas=(round_,), after=(("read upper", 1),)),
            Part("dQ", "mma", mmas=(MmaRow(256, 128, 2 * _KEYS // 16, pair=True),),
                 after=(("send dS", 0), ("gather for dQ", 0))),
            Part("dKV lower", "mma", mmas=(round_,), after=(("Q^T lower", 0),)),
            Part("dKV upper", "mma", mmas=(round_,), after=(("Q^T upper", 0),)),
            Part("P", "compute", tmem=64 * 64 * 4, exp2=64 * 64, shared=_tile(64, 64), instructions=128,
                 warps=4, after=(("S", 0), ("dKV upper", 1))),
            Part("send P", "compute", exchanged=_tile(64, 32)),
            Part("dS", "compute", tmem=64 * 64 * 4, shared=_tile(64, 64), instructions=128, warps=4,
                 after=(("dP", 0), ("dKV upper", 1))),
            Part("send dS", "compute", exchanged=_tile(64, 32)),
            Part("read lower", "reduce", tmem=_KEYS * 128 * 4, instructions=8, warps=8,
                 after=(("dKV lower", 0),)),
            Part("add lower", "reduce", added=_KEYS * 128 * 4, instructions=32, warps=8),
            Part("read upper", "reduce", tmem=_KEYS * 128 * 4, instructions=8, warps=8,
                 after=(("dKV upper", 0),)),
            Part("add upper", "reduce", added=_KEYS * 128 * 4, instructions=32, warps=8),
        ),
        behind=(
            Part("write dQ", "compute", tmem=64 * _D * 4, instructions=2 * 64 * _D // 128,
                 shared=_tile(64, _D), stored=_tile(64, _D), warps=4, after=(("dQ", 0),)),
        ),
        keys=_KEYS,
        ctas=2,
    )  # fmt: skip


def _fa4_main() -> Design:
    """A pair for 128 heads of a token and 128 keys a block (flash_bwd_mla_sm100.py), 64 keys a CTA, all MMAs
    cta_group::2: dP^T 128 x 128, dV in two halves of 256 columns 128 x 256, twice. P comes from memory, dS
    goes there; dO^T and Q^T come again from L2 in each block, 128 KB a CTA; a CTA gathers its 64 rows whole.
    4 warps add 128 KB by way of shared memory; what they stage there lies in the ring of dO^T and Q^T."""
    return Design(
        "FlashAttention-4, dV and dS",
        before=(
            Part("dO", "load", loaded=_tile(64, _D)),
        ),
        block=(
            Part("gather", "gather", gathered=_tile(64, _D), warps=4, after=(("dP", 1),)),
            Part("P in", "load", loaded=_tile(128, 64), after=(("dV left, P", 1),)),
            Part("dO^T left", "load", loaded=_tile(128, 128), after=(("add left", 1),)),
            Part("dO^T right", "load", loaded=_tile(128, 128), after=(("add right", 1),)),
            Part("Q^T left", "load", loaded=_tile(128, 128), after=(("dV left, P", 0),)),
            Part("Q^T right", "load", loaded=_tile(128, 128), after=(("dV right, P", 0),)),
            Part("dP", "mma", mmas=(MmaRow(128, 128, _D // 16, pair=True),),
                 after=(("gather", 0), ("dO", 0), ("dS", 1))),
            Part("dV left, P", "mma", mmas=(MmaRow(128, 256, 8, pair=True),),
                 after=(("P", 0), ("dO^T left", 0), ("add left", 1))),
            Part("dV right, P", "mma", mmas=(MmaRow(128, 256, 8, pair=True),),
                 after=(("dO^T right", 0), ("add right", 1))),
            Part("dV left", "mma", mmas=(MmaRow(128, 256, 8, pair=True),),
                 after=(("dS", 0), ("Q^T left", 0))),
            Part("dV right", "mma", mmas=(MmaRow(128, 256, 8, pair=True),), after=(("Q^T right", 0),)),
            Part("P", "softmax", shared=2 * _tile(128, 64), instructions=128, warps=4,
                 after=(("P in", 0), ("dV right, P", 1))),
            Part("dS", "softmax", tmem=64 * 128 * 4, shared=_tile(128, 64), instructions=256, warps=4,
                 after=(("dP", 0), ("dV right", 1))),
            Part("dS out", "softmax", stored=_tile(128, 64), warps=1),
            Part("add left", "export", tmem=64 * 256 * 4, shared=2 * 64 * 256 * 4, added=64 * 256 * 4,
                 instructions=256, warps=4, after=(("dV left", 0),)),
            Part("add right", "export", tmem=64 * 256 * 4, shared=2 * 64 * 256 * 4, added=64 * 256 * 4,
                 instructions=256, warps=4, after=(("dV right", 0),)),
        ),
        keys=128,
        ctas=2,
    )  # fmt: skip


def _fa4_dq() -> Design:
    """dQ afterwards (flash_bwd_mla_dq_dqv_sm100.py): a CTA for 256 of the 512 columns of a token, two of them
    in a cluster that reads dS once; 128 keys a block in two stages, MMAs 128 x 256 of cta_group::1."""
    return Design(
        "FlashAttention-4, dQ",
        block=(
            Part("gather", "gather", gathered=_tile(128, 256), warps=4, after=(("dQ", 2),)),
            Part("dS", "load", loaded=_tile(128, 128) // 2, after=(("dQ", 2),)),
            Part("dQ", "mma", mmas=(MmaRow(128, 256, 8),), after=(("gather", 0), ("dS", 0))),
        ),
        behind=(
            Part("write dQ", "epilogue", tmem=128 * 256 * 4, instructions=2 * 128 * 256 // 128,
                 shared=_tile(128, 256), stored=_tile(128, 256), warps=4, after=(("dQ", 0),)),
        ),
        keys=128,
        ctas=2,
    )  # fmt: skip


def _flop(heads: int, topk: int, tokens: int = 4096, d_qk: int = _D) -> float:
    """2 s_q H topk (3 d_qk + 2 d_v)."""
    return 2.0 * tokens * heads * topk * (3 * d_qk + 2 * _D)


def _helpers(heads: int, tokens: int, rows: int, d_qk: int = _D) -> float:
    """Bytes of the kernels around: O and dO read for delta, f32 dKV zeroed, read, and written as bf16."""
    return 2.0 * tokens * heads * _D * 2 + rows * d_qk * (4 + 4 + 2)


def cudnn_of_file(card: str, heads: int, d_qk: int, topk: int, tokens: int, ms: float, fitted: str) -> Peer:
    """A row of cuDNN's benchmark files, of a GB200 or GB300: as many rows of keys as tokens."""
    machine = {"GB200": _GB200, "GB300": _GB300}[card]
    small = heads == 64
    return Peer(
        f"cuDNN DSA, H {heads}, d_qk {d_qk}, topk {topk}", (_cudnn_h64(d_qk) if small else _cudnn_2cta(),),
        heads, topk, tokens, ms, machine, _helpers(heads if small else 0, tokens, tokens, d_qk),
        5 if small else 4, f"{_CUDNN} benchmark/dsa/results, 2026-09-28", _flop(heads, topk, tokens, d_qk),
        fitted,
    )  # fmt: skip


def _h64(topk: int, ms: float, source: str, machine: Timing, fitted: str = "") -> Peer:
    return Peer(
        f"cuDNN DSA, 1 CTA, H 64, topk {topk}", (_cudnn_h64(),), 64, topk, 4096, ms, machine,
        _helpers(64, 4096, 4096), 5, source, _flop(64, topk), fitted,
    )  # fmt: skip


def _h128(topk: int, ms: float, source: str, machine: Timing) -> Peer:
    return Peer(
        f"cuDNN DSA, 2 CTAs, H 128, topk {topk}", (_cudnn_2cta(),), 128, topk, 4096, ms, machine,
        4096.0 * _D * (4 + 4 + 2), 4, source, _flop(128, topk),
    )  # fmt: skip


_FIT = "addition_rate_all: the difference of topk 1024 and 2048 is 7,600 clocks a block"
PEERS = (
    _h64(128, 0.560, f"{_CUDNN} pull 318, 2026-06", _B200),
    _h64(512, 1.233, f"{_CUDNN} pull 318, 2026-06", _B200),
    _h64(1024, 2.155, f"{_CUDNN} pull 318, 2026-06", _B200, _FIT),
    _h64(2048, 4.019, f"{_CUDNN} pull 318, 2026-06: 684 TFLOPS", _B200, _FIT),
    _h64(2048, 4.168, f"{_CUDNN} benchmark/dsa/README.md: 659 TFLOPS", _B200),
    _h64(640, 1.420, f"{_CUDNN} benchmark/dsa/results/deepseek_v4/gb200, 2026-09-28", _GB200),
    _h128(1152, 3.933, f"{_CUDNN} benchmark/dsa/results/deepseek_v4/gb200, 2026-09-28: 786", _GB200),
    _h128(1152, 5.854, f"{_CUDNN} benchmark/dsa/results/deepseek_v4/b200, 2026-09-14: 528", _B200_CSV),
    Peer(
        "FlashAttention-4 sparse MLA, H 128, topk 2048", (_fa4_main(), _fa4_dq()), 128, 2048, 4096, 6.70,
        BLACKWELL, _helpers(128, 4096, 32768), 4, "Dao-AILab/flash-attention pull 2621, 2026-06: 820 TFLOPS",
        _flop(128, 2048),
    ),
)  # fmt: skip
