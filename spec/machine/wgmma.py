"""wgmma of Hopper: its shapes, its matrix descriptor, its fragments in registers, and its arithmetic.

Sources: PTX ISA 9.7.15 (shapes, 9.7.15.5.1 fragments, 9.7.15.5.1.2.2 matrix descriptor); CUTLASS 4.2
`mma_sm90_desc.hpp` and `mma_traits_sm90_gmma.hpp`. Operands lie in shared memory by the canonical layouts of
`smem_layout`. Arithmetic: measured on an H200 (docs/card.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.kinds import EMIN
from tileproof.spec.machine.tensor_core import F32, block, instruction
from tileproof.spec.machine.types import Array

ROWS = 64
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
COLUMNS = tuple(range(8, 257, 8))
INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))
SWIZZLES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
FP8_FRACTION = 13
_RESERVED = 0x3 << 14 | 0x3 << 30 | 0x7 << 46 | 0x3FF << 52

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WarpgroupDescriptor:
    """The 64-bit matrix descriptor of sm_90a: addresses and offsets in bytes, multiples of 16."""

    start: int
    lbo: int
    sbo: int
    swizzle: str = "128B"
    base_offset: int = 0

    def encode(self) -> int:
        """The 64-bit word."""
        for value in (self.start, self.lbo, self.sbo):
            if value % 16 or not 0 <= value < 1 << 18:
                raise TileproofError(
                    "a field of a matrix descriptor", expected="a multiple of 16", found=str(value)
                )
        return (
            self.start >> 4
            | self.lbo >> 4 << 16
            | self.sbo >> 4 << 32
            | self.base_offset << 49
            | SWIZZLES[self.swizzle] << 62
        )

    @staticmethod
    def decode(word: int) -> WarpgroupDescriptor:
        """The fields of a word; TileproofError when a reserved bit is set."""
        if not 0 <= word < 1 << 64 or word & _RESERVED:
            raise TileproofError("reserved bits of a matrix descriptor of sm_90a", found=hex(word))
        names = {code: name for name, code in SWIZZLES.items()}
        start, lbo, sbo = ((word >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return WarpgroupDescriptor(start, lbo, sbo, names[word >> 62], word >> 49 & 7)


def fragment_d(n: int, half: bool) -> tuple[I64, I64]:
    """Row and first column ``[128, registers]`` of the cells of D in each register of each thread.

    A register holds one cell of 32 bits, or with an f16 accumulator two neighbours of a row.
    """
    t, r = np.arange(128)[:, None], np.arange(n // 4 if half else n // 2)[None, :]
    row = 16 * (t // 32) + t % 32 // 4 + 8 * (r % 2 if half else r // 2 % 2)
    column = 2 * (t % 4) + (8 * (r // 2) if half else r % 2 + 8 * (r // 4))
    return row.astype(np.int64), column.astype(np.int64)


def fragment_a() -> tuple[I64, I64]:
    """Row and 32-bit word of the row ``[128, 4]`` in each register of A of each thread."""
    t, r = np.arange(128)[:, None], np.arange(4)[None, :]
    row = 16 * (t // 32) + t % 32 // 4 + 8 * (r % 2)
    return row.astype(np.int64), (t % 4 + 4 * (r // 2)).astype(np.int64)


def sparse_columns(type_: str, nibbles: I64) -> I64:
    """The column ``[64, k]`` of each stored element of a sparse A of `k` elements a row.

    nibbles ``[64, c]``: of each four columns the two that are stored, two bits each; of tf32 for each pair of
    columns 0x4, the first, or 0xe, the second.
    """
    chunk = np.arange(nibbles.shape[1])
    if type_ == "tf32":
        return np.asarray(2 * chunk + (nibbles == 0xE))
    pairs = np.stack([nibbles & 3, nibbles >> 2], axis=-1) + 4 * chunk[:, None]
    return np.asarray(pairs.reshape(len(nibbles), -1))


def metadata(type_: str, nibbles: I64, selector: int) -> I64:
    """The word of metadata ``[128]`` of each thread.

    Two threads of a quad, chosen by the selector, hold those of two rows: four nibbles of row t / 4 in the
    lower half, four of row t / 4 + 8 in the upper half. With 8-bit elements all four threads hold eight
    nibbles of a row. Measured on an H200, as the page of the PTX ISA has pictures only.
    """
    words = np.zeros(128, np.int64)
    for row, chunk in np.ndindex(*nibbles.shape):
        upper = row % 16 // 8
        in_quad, place = 2 * selector + chunk // 4, 4 * upper + chunk % 4
        if K[type_] == 32:
            in_quad, place = 2 * (chunk // 8) + upper, chunk % 8
        words[32 * (row // 16) + 4 * (row % 8) + in_quad] |= nibbles[row, chunk] << 4 * place
    return words


def product(a: Array, b: Array, c: Array, a_type: str, b_type: str, half: bool = False) -> F32:
    """``[m, n]``: ``c + a [m, k] @ b [n, k]^T`` of one instruction of floats, as an H200 computes it.

    All products of the instruction and the accumulator go into one aligned sum, as in `tensor_core`; sums of
    e4m3 and e5m2 keep 13 bits below the largest exponent, and an f32 result 14 significant bits.
    """
    if K[a_type] == 16 and not half:
        return block(a, b, c, EMIN[a_type])
    narrow = K[a_type] == 32
    found = instruction(
        a,
        b,
        c,
        a_emin=EMIN[a_type],
        b_emin=EMIN[b_type],
        half=half,
        fraction=FP8_FRACTION if narrow else 25,
        result_bits=FP8_FRACTION + 1 if narrow else 24,
    )
    return found + np.float32(0)  # a sum that rounds to zero is +0
