"""Philox 4x32-10, the counter-based generator of dropout, and the uniform numbers that cuRAND makes of it.

Sources: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (SC11), and its
known-answer vectors; cuRAND library documentation (curand_init, curand_uniform4).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]

ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(counter: U32, key: tuple[int, int], rounds: int = ROUNDS) -> U32:
    """``uint32 [..., 4]`` of counters ``[..., 4]``."""
    x = [counter[..., word].astype(np.uint64) for word in range(4)]
    k0, k1 = key
    for _ in range(rounds):
        first, second = _MULTIPLIERS[0] * x[0], _MULTIPLIERS[1] * x[2]
        x = [
            (second >> _HALF) ^ x[1] ^ np.uint64(k0),
            second & _LOW,
            (first >> _HALF) ^ x[3] ^ np.uint64(k1),
            first & _LOW,
        ]
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack(x, axis=-1).astype(np.uint32)


def words(seed: int, start: int, count: int, subsequence: int = 0) -> U32:
    """`count` numbers of the stream of `seed` from number `start` on, four of each counter in order.

    The low 64 bits of the counter count, the high bits are the subsequence; the seed is the key.
    """
    first, last = start // 4, -(-(start + count) // 4)
    number = np.arange(first, last, dtype=np.uint64)
    high = np.full(number.shape, subsequence, np.uint64)
    counter = np.stack([number & _LOW, number >> _HALF, high & _LOW, high >> _HALF], axis=-1)
    drawn = philox4x32(counter.astype(np.uint32), (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
    return drawn.reshape(-1)[start - 4 * first :][:count]


def uniform(x: U32) -> npt.NDArray[np.float32]:
    """In (0, 1]: ``x * 2^-32 + 2^-33`` in f32, as curand_uniform has it."""
    scaled = x.astype(np.float32) * np.float32(2.0**-32)
    return np.asarray(scaled + np.float32(2.0**-33), np.float32)


# FlashAttention draws a byte an element: one counter for the 16 of a lane in a block, in the order of the
# accumulators of mma.m16n8.
BLOCK_ROWS, BLOCK_COLUMNS, LANES, BLOCK_ROUNDS = 16, 32, 32, 7


def block_bytes(seed: int, offset: int, shape: tuple[int, int, int, int]) -> npt.NDArray[np.uint8]:
    """The byte of each element of ``[b, h, m, n]`` as FlashAttention 2 draws it (dropout.h, philox.cuh).

    The counter's low half is ``offset + (batch h + head) 32 + lane``, its high half (row block, column
    block); seven rounds. Lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1 of every eight.
    """
    b, h, m, n = shape
    row, column = np.arange(m), np.arange(n)
    inside, across = row % BLOCK_ROWS, column % BLOCK_COLUMNS
    lane = 4 * (inside % 8)[:, None] + (across % 8 // 2)[None, :]
    head = np.arange(b * h, dtype=np.uint64).reshape(b, h, 1, 1)
    low = (np.uint64(offset) + head * np.uint64(LANES) + lane.astype(np.uint64)).astype(np.uint64)
    whole = np.broadcast_shapes(low.shape, shape)
    high = (
        np.broadcast_to((row // BLOCK_ROWS).astype(np.uint64)[:, None], whole),
        np.broadcast_to((column // BLOCK_COLUMNS).astype(np.uint64)[None, :], whole),
    )
    counter = np.stack([low & _LOW, low >> _HALF, *high], axis=-1).astype(np.uint32)
    drawn = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF), BLOCK_ROUNDS)
    number = 2 * (inside // 8)[:, None] + (8 * (across // 16) + 4 * (across % 16 // 8) + across % 2)[None, :]
    word = np.take_along_axis(drawn, np.broadcast_to(number // 4, whole)[..., None], axis=-1)[..., 0]
    return np.asarray(word >> (8 * (number % 4)).astype(np.uint32) & np.uint32(0xFF), np.uint8)
