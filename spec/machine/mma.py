"""The shapes of tcgen05.mma, and what each CTA and thread reads and writes.

Sources: PTX ISA 9.7.16.2.1 (shapes, table 39), 9.7.16.10.9.1 (kind::f16); CUTLASS 4.2 `mma_sm100_umma.hpp`
and `mma_traits_sm100.hpp` (SM100_MMA_F16BF16_{SS,TS,2x1SM_SS,2x1SM_TS,WS}). With A in shared memory the steps
of N are those of PTX ISA 9.0's table 39; with A in tensor memory CUTLASS's asserts, which are stricter.
"""

from __future__ import annotations

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.kinds import format_of

K = 16  # elements of k per instruction for 16-bit operands; never encoded

_STEPS = {8: tuple(range(8, 257, 8)), 16: tuple(range(16, 257, 16)), 32: tuple(range(32, 257, 32))}
_I8 = (8, 16, 24, *range(32, 257, 16))


def legal_shapes(
    cta_group: int,
    *,
    a_in_tmem: bool = False,
    ws: bool = False,
    format_: str = "f16",
    b_mn_major: bool = False,
) -> dict[int, tuple[int, ...]]:
    """M -> legal N of a form of tcgen05.mma, dense (table 39; `b_mn_major` with 8-bit operands: table 52)."""
    f = format_of(format_)
    if cta_group not in (1, 2):
        raise TileproofError("unknown cta_group", expected="1 or 2", found=str(cta_group))
    if ws:
        if cta_group == 2:
            raise TileproofError("tcgen05.mma.ws has no cta_group::2", expected="cta_group 1", found="2")
        return {} if f.scales else dict.fromkeys((32, 64, 128), (64, 128, 256))
    if format_ == "f16":
        if cta_group == 1:
            return {64: _STEPS[8], 128: _STEPS[16 if a_in_tmem else 8]}
        return dict.fromkeys((128, 256), _STEPS[32 if a_in_tmem else 16])
    eight_bit = b_mn_major and f.k == 32
    if cta_group == 1:
        ns = _STEPS[16] if eight_bit else _I8 if format_ == "i8" else _STEPS[8]
        return dict.fromkeys((128,) if f.scales else (64, 128), ns)
    return dict.fromkeys((128, 256), _STEPS[32 if eight_bit or format_ == "i8" else 16])


def check_shape(
    m: int,
    n: int,
    cta_group: int,
    *,
    a_in_tmem: bool = False,
    ws: bool = False,
    format_: str = "f16",
    b_mn_major: bool = False,
) -> None:
    """Raise TileproofError unless (m, n) is a legal shape of that form."""
    shapes = legal_shapes(cta_group, a_in_tmem=a_in_tmem, ws=ws, format_=format_, b_mn_major=b_mn_major)
    form = f"cta_group::{cta_group}{'.ws' if ws else ''}, A in {'TMEM' if a_in_tmem else 'SMEM'}"
    if m not in shapes:
        raise TileproofError("illegal M", where=form, expected=" or ".join(map(str, shapes)), found=str(m))
    legal = shapes[m]
    if n not in legal:
        step = f"{legal[0]}..{legal[-1]} in steps of {legal[1] - legal[0]}" if not ws else str(legal)
        raise TileproofError("illegal N", where=f"{form}, M = {m}", expected=step, found=str(n))


def layout_of(m: int, cta_group: int, *, ws: bool = False, sparse: bool = False) -> str:
    """The TMEM data-path layout of D, A to G (PTX ISA 9.7.16.10.5)."""
    key = (m, cta_group, ws)
    known = {
        (256, 2, False): "A",
        (128, 2, False): "C" if sparse else "B",
        (128, 1, False): "D",
        (128, 1, True): "D",
        (64, 1, True): "E",
        (64, 1, False): "F",
        (32, 1, True): "G",
    }
    if key not in known:
        raise TileproofError("no such form", expected="a legal (M, cta_group, ws)", found=str(key))
    return known[key]


def a_rows(m: int, cta_group: int, cta: int) -> range:
    """Rows of A that CTA `cta` of the pair supplies (0: even), and rows of D that it receives."""
    return _half(m, cta_group, cta)


def b_rows(n: int, cta_group: int, cta: int) -> range:
    """Rows of B (as stored, N rows) that CTA `cta` supplies; both halves are used by both CTAs."""
    return _half(n, cta_group, cta)


def _half(extent: int, cta_group: int, cta: int) -> range:
    if not 0 <= cta < cta_group:
        raise TileproofError("no such CTA in the group", expected=f"0..{cta_group - 1}", found=str(cta))
    each = extent // cta_group
    return range(cta * each, (cta + 1) * each)
