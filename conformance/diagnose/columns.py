"""Row sums with an operand read at wrong columns: a wrong swizzle, address or lane.

The sum of one row is one number, so that what was read cannot be solved for: known ways to read
wrongly are tried, in units of one 16-byte access, and one of them must explain most of the wrong rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.conformance.diagnose.arrays import Region
from tileproof.conformance.diagnose.faults import COLUMN_TILE, Product
from tileproof.spec.problems.faults import F64

AGREE = 0.75  # of the wrong rows must be explained in the same way
MIN_ROWS = 4  # wrong rows, below which a number says too little
CHUNK = 8  # elements of a 16-byte access
PER_TILE = COLUMN_TILE // CHUNK
ATOM = 8  # rows of a swizzle atom
LANES = 32
NEAR = 72  # chunks that an address is off by, at most: nine rows
ROWS = ((1, 4), (4, 8), (4, 16), (4, 32), (1, 16), (16, 64))  # rows of a loop's turn, of a warp
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Read:
    """A way to read: for each row and chunk of K the row and chunk read instead; -1 is not known."""

    words: str
    row: I64
    chunk: I64


def explain_columns(product: Product, found: F64, bound: F64, region: Region) -> str:
    """Words for the columns that an operand was read at in the wrong rows (region[0]); "" when none fits."""
    rows = region[0]
    if product.kind != "rowsum" or rows.size < MIN_ROWS or product.a.shape[1] % (LANES * CHUNK):
        return ""
    for side in (1, 0):
        words = (
            _moved(product, side, found, bound, rows)
            or _swizzled(product, side, found, bound, rows)
            or _fields(product, side, found, bound, rows)
        )
        if words:
            return words
    return _lane(product, found, bound, rows)


def _chunks(operand: F64) -> F64:
    return operand.reshape(len(operand), -1, CHUNK)


def _pieces(count: int) -> Iterator[tuple[str, slice]]:
    """All chunks of a row, or those of one access of a warp: 32 of them."""
    yield "", slice(0, count)
    if count > LANES:
        for k in range(0, count, LANES):
            yield f"columns {k * CHUNK}..{(k + LANES) * CHUNK - 1} of ", slice(k, k + LANES)


def _agree(fits: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> bool:
    """Whether what is known of the rows agrees for most of them."""
    return bool(fits.sum() >= max(MIN_ROWS, AGREE * fits.size) and (fits | ~known).mean() >= AGREE)


def _moved(product: Product, side: int, found: F64, bound: F64, rows: I64) -> str:
    """The same way of reading in every wrong row."""
    name = product.names[side]
    own, other = (product.a, product.b) if side == 0 else (product.b, product.a)
    size, count = len(own), own.shape[1] // CHUNK
    mine, theirs = _chunks(own), _chunks(other)[rows]
    total, limit = found[rows, 0], bound[rows, 0]
    right = np.einsum("rce,rce->rc", mine[rows], theirs)
    for where, piece in _pieces(count):
        base = total - right.sum(axis=1) + right[:, piece].sum(axis=1)
        for way in _reads(size, count):
            row, chunk = way.row[rows][:, piece], way.chunk[rows][:, piece]
            known = ((row >= 0) & (row < size) & (chunk >= 0) & (chunk < count)).all(axis=1)
            if known.sum() < MIN_ROWS:
                continue
            read = mine[row.clip(0, size - 1), chunk.clip(0, count - 1)]
            value = np.einsum("rce,rce->r", read, theirs[:, piece])
            with np.errstate(invalid="ignore"):
                fits = known & (np.abs(value - base) <= limit)
            if _agree(fits, known):
                return f"{where}operand {name} came from {way.words}"
    return ""


def _reads(size: int, count: int) -> Iterator[Read]:
    """Chunks exchanged, left out or repeated within a row; addresses in shared memory that are off."""
    row, chunk = np.meshgrid(np.arange(size), np.arange(count), indexing="ij")
    bits = [1 << n for n in range(count.bit_length() - 1)]
    for x in range(1, count):
        yield Read(f"columns c ^ {CHUNK * x}, not c", row, chunk ^ x)
    for bit in bits:
        yield Read(f"columns c without bit {CHUNK * bit}", row, chunk & ~bit)
        yield Read(f"columns c with bit {CHUNK * bit}", row, chunk | bit)
    for n in range(2, count.bit_length()):
        yield Read(f"the first of every {CHUNK << n} columns", row, chunk >> n << n)
    for low, high in ROWS:
        there = row // high * high + row % low
        words = f"the first {low} of every {high} rows" if low > 1 else f"the first of every {high} rows"
        yield Read(words, there, chunk)
        yield Read(f"{words}, the first of every {CHUNK * LANES} columns", there, chunk // LANES * LANES)
    for times in (2, 4, 8):
        yield Read(f"{times} c columns on, not c", row, chunk * times)
        yield Read(f"columns c / {times} in units of {CHUNK}, not c", row, chunk // times)
    tile, inner = np.divmod(chunk, PER_TILE)
    at = row * PER_TILE + (inner ^ (row % ATOM))
    for off in sorted((n for n in range(-NEAR, NEAR + 1) if n), key=abs):
        there = at + off
        to, place = np.divmod(there, PER_TILE)
        to = np.where((there >= 0) & (to < size), to, -1)
        side = "further" if off > 0 else "before"
        words = f"{abs(off) * 2 * CHUNK} bytes {side} in shared memory (128-byte swizzle): another address"
        yield Read(words, to, tile * PER_TILE + (place ^ (to % ATOM)))


def _swizzled(product: Product, side: int, found: F64, bound: F64, rows: I64) -> str:
    """Each wrong row with its columns exchanged by some XOR of a swizzle, not the same one in every row."""
    own, other = (product.a, product.b) if side == 0 else (product.b, product.a)
    mine, theirs = _chunks(own)[rows], _chunks(other)[rows]
    chunk, seen = np.arange(own.shape[1] // CHUNK), set()
    explained = np.zeros(rows.size, bool)
    for x in range(1, PER_TILE):
        value = np.einsum("rce,rce->r", mine[:, chunk ^ x], theirs)
        with np.errstate(invalid="ignore"):
            fits = np.abs(value - found[rows, 0]) <= bound[rows, 0]
        explained |= fits
        seen |= {x} if fits.any() else set()
    if len(seen) < 2 or not _agree(explained, np.ones(rows.size, bool)):
        return ""
    return f"operand {product.names[side]} is read with a different swizzle than it was stored with, by row"


def _fields(product: Product, side: int, found: F64, bound: F64, rows: I64) -> str:
    """The column tile, or the place in it, taken from other bits of the column than its own."""
    own, other = (product.a, product.b) if side == 0 else (product.b, product.a)
    mine, theirs = _chunks(own)[rows], _chunks(other)[rows]
    count = mine.shape[1]
    each = theirs @ mine.transpose(0, 2, 1)  # [rows, chunk, chunk that is read]
    right = np.einsum("rcc->rc", each)
    total, limit = found[rows, 0], bound[rows, 0]
    row, chunk = np.meshgrid(np.arange(rows.size), np.arange(count), indexing="ij")
    every = np.ones(rows.size, bool)
    for where, piece in _pieces(count):
        base = total - right.sum(axis=1) + right[:, piece].sum(axis=1)
        for words, read in _read_fields(rows, count):
            value = each[row[:, piece], chunk[:, piece], read[:, piece]].sum(axis=1)
            with np.errstate(invalid="ignore"):
                fits = np.abs(value - base) <= limit
            if _agree(fits, every):
                return f"{where}operand {product.names[side]} came from elsewhere: {words}"
    return ""


def _read_fields(rows: I64, count: int) -> Iterator[tuple[str, I64]]:
    """Some bits of the column tile's number, of the place in it, or of that place with its swizzle are other
    bits of the column, or zero.
    """
    chunk = np.broadcast_to(np.arange(count), (rows.size, count))
    tile, inner = np.divmod(chunk, PER_TILE)
    turn = rows[:, None] % ATOM
    place = f"c / {CHUNK} % {PER_TILE}"
    fields = (
        (count // PER_TILE, f"column c lies in tile c / {COLUMN_TILE}", tile, inner, PER_TILE, 0 * turn),
        (PER_TILE, f"column c lies at place {place} of its tile", inner, tile * PER_TILE, 1, 0 * turn),
        (PER_TILE, f"column c of row r lies at place {place} ^ r % {ATOM} of its tile",
         inner ^ turn, tile * PER_TILE, 1, turn),
    )  # fmt: skip
    for others in (False, True):  # a mask alone first
        for size, what, own, first, unit, swizzle in fields:
            for mask, taken in itertools.product(range(size), range(1, size) if others else (0,)):
                for shift in range(-3, 6) if taken else (0,):
                    bits = (chunk >> shift if shift >= 0 else chunk << -shift) & taken
                    read = first + unit * ((own & mask | bits) ^ swizzle)
                    if mask & taken or (read == chunk).all():
                        continue
                    scale = f"c / {CHUNK << shift}" if shift >= 0 else f"c / {CHUNK} * {1 << -shift}"
                    used = [f"its bits {mask:#x}"] * (mask > 0) + [f"bits {taken:#x} of {scale}"] * (
                        taken > 0
                    )
                    yield f"{what}, but was read at {' and '.join(used) or '0'}", read


def _lane(product: Product, found: F64, bound: F64, rows: I64) -> str:
    """The columns of one lane are missing, those of another counted twice."""
    each = np.einsum("rce,rce->rc", _chunks(product.a)[rows], _chunks(product.b)[rows])
    lanes = each.reshape(rows.size, -1, LANES).sum(axis=1)
    off = found[rows, 0] - each.sum(axis=1)
    for lost in range(LANES):
        with np.errstate(invalid="ignore"):
            hit = np.abs(off[:, None] + lanes[:, lost, None] - lanes) <= bound[rows]
        hit[:, lost] = False
        if _agree(hit.any(axis=1), np.ones(rows.size, bool)):
            twice = np.unique(hit.argmax(axis=1)[hit.any(axis=1)])
            other = f"those of lane {twice[0]}" if twice.size == 1 else "those of another lane"
            return f"the columns of lane {lost} of the warp are missing, {other} counted twice"
    return ""
