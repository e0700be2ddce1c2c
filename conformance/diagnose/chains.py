"""Row sums that go wrong at one step: a product or addition of every lane has a wrong operand.

A warp sums a row: each lane adds the products of its 16-byte accesses one after another, then the lanes add
what they have by exchanges over halving distances. One instruction of that is the same in every lane.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region
from tileproof.conformance.diagnose.columns import AGREE, CHUNK, LANES, MIN_ROWS
from tileproof.conformance.diagnose.faults import Product
from tileproof.spec.problems.faults import F64

MASKS = (16, 8, 4, 2, 1)
SUM = "the sum so far"
SLACK = 2.0**-18  # of what a sum changes by: 32 lanes' roundings in f32
HEADS = (16, 8, 32, 1)  # rows of a warp: the lane that keeps a row's sum is the row modulo this


def explain_chain(product: Product, found: F64, bound: F64, region: Region) -> str:
    """Words for the step of the lanes' sums that explains the wrong rows (region[0]); "" when none does."""
    rows = region[0]
    if product.kind != "rowsum" or rows.size < MIN_ROWS or product.a.shape[1] % (LANES * CHUNK):
        return ""
    accesses = [operand[rows].reshape(rows.size, -1, LANES, CHUNK) for operand in (product.a, product.b)]
    if not all(np.isfinite(access).all() for access in accesses):
        return ""
    off, limit = found[rows, 0] - product.value()[rows, 0], bound[rows, 0]

    def explains(change: F64) -> bool:
        # Sums of large values are rounded more than the reference's.
        near = np.abs(off - change) <= limit + SLACK * np.abs(change)
        return bool(near.sum() >= max(MIN_ROWS, AGREE * rows.size))

    for a, b in _chains(*accesses):
        for words, change in (*_steps(a, b, product.names), *_exchanges((a * b).sum(axis=3), rows)):
            if explains(change):
                return words
    return ""


def _chains(a: F64, b: F64) -> Iterator[tuple[F64, F64]]:
    """Operands ``[rows, accesses, lanes, elements]`` as ``[rows, sums, lanes, elements of a sum]``: the
    accesses of a lane are one sum, or each is that of another CTA.
    """
    if a.shape[1] > 1:
        rows = len(a)
        yield (
            np.moveaxis(a, 1, 2).reshape(rows, 1, LANES, -1),
            np.moveaxis(b, 1, 2).reshape(rows, 1, LANES, -1),
        )
    yield a, b


def _steps(a: F64, b: F64, names: tuple[str, str]) -> Iterator[tuple[str, F64]]:
    """Each product of a lane's sum with one of its operands another, or two exchanged: words, and by how much
    each row's sum changes.
    """
    total = np.cumsum(a * b, axis=3)
    before = np.concatenate([np.zeros_like(total[..., :1]), total[..., :-1]], axis=3)
    # What a register nearby may hold: an element of either operand, a sum of the products so far.
    others = np.concatenate([a, b, before[..., 1:]], axis=3)
    size = a.shape[3]
    called = [*(f"operand {name}" for name in names for _ in range(size)), *[SUM] * (size - 1)]
    place = [*range(size), *range(size), *range(1, size)]
    turned = [list(_bits(operand)) for operand in (a, b)]
    own = (f"operand {names[0]}", f"operand {names[1]}", SUM)
    for n in range(size):
        x, y, z = a[..., n], b[..., n], before[..., n]
        right = x * y + z
        where = f"in every lane's sum of products, at its element {n}"
        for words, value in (
            (f"operand {names[0]} and {SUM} are exchanged", z * y + x),
            (f"operand {names[1]} and {SUM} are exchanged", x * z + y),
        ):
            yield f"{where}: {words}", (value - right).sum(axis=(1, 2))
        yield f"{where}: that product is missing", -(x * y).sum(axis=(1, 2))
        for side, other in ((0, y), (1, x)):
            for words, element in turned[side]:
                change = element[..., n] * other + z - right
                yield f"{where}: operand {names[side]} {words}", change.sum(axis=(1, 2))
        x, y, z, right = (bits[..., None] for bits in (x, y, z, right))
        for role, value in enumerate((others * y + z, x * others + z, x * y + others)):
            change = (value - right).sum(axis=(1, 2))
            for m, (name, at) in enumerate(zip(called, place, strict=True)):
                if (name, at) != (own[role], n):
                    yield f"{where}: {name} of element {at} instead of {own[role]}", change[:, m]


def _bits(operand: F64) -> Iterator[tuple[str, F64]]:
    """An operand of bf16 pairs whose elements were taken out of their 32-bit words wrongly: words, and the
    elements as f32.
    """
    halves = operand.astype(np.float32).view(np.uint32) >> 16
    if (halves << 16).view(np.float32).astype(np.float64).tobytes() != operand.tobytes():
        return  # no bf16
    word = np.repeat(halves[..., ::2] | halves[..., 1::2] << 16, 2, axis=-1)
    for words, bits in (
        ("is its word shifted left by 15", word << 15),
        ("is its word shifted left by 17", word << 17),
        ("is its word shifted left by 8", word << 8),
        ("is its whole word", word),
    ):
        with np.errstate(invalid="ignore"):
            made = bits.view(np.float32).astype(np.float64)
        yield words, np.where(np.isfinite(made), made, 0.0)


def _exchanges(lanes: F64, rows: npt.NDArray[np.int64]) -> Iterator[tuple[str, F64]]:
    """Each addition of what two lanes have with another partner or operand; `lanes` ``[rows, sums, 32]``."""
    right = lanes.sum(axis=(1, 2))
    lane = np.arange(LANES)
    known = [("the lane's previous value", lanes)]
    values = lanes
    for n, mask in enumerate(MASKS):
        partner = values[..., lane ^ mask]
        where = f"where the lanes add the value of lane l ^ {mask}"
        wrong = [(f"{words}, not its own", values + partner) for words, values in known[:-1]]
        wrong += [("twice its own", 2 * values), ("twice the other's", 2 * partner)]
        wrong += [("that exchange is missing", values)]
        wrong += [(f"its own and {words}", values + other) for words, other in known[:-1]]
        for words, value in wrong:
            for later in MASKS[n + 1 :]:
                value = value + value[..., lane ^ later]
            each = value.sum(axis=1)
            for heads in HEADS:
                yield f"{where}: {words}", each[np.arange(len(rows)), rows % heads % LANES] - right
        known += [
            (f"the previous value of lane l ^ {mask}", partner),
            ("the lane's previous value", values + partner),
        ]
        values = values + partner
