"""Philox against its published known-answer vectors, and the stream that dropout reads."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.spec.problems.dense_attention_bwd import philox

# kat_vectors of Random123 (philox 4x32, 10 rounds): counter, key, result.
KNOWN = [
    ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_known_answers(counter: list[int], key: tuple[int, int], wanted: list[int]) -> None:
    assert philox.philox4x32(np.array(counter, np.uint32), key).tolist() == wanted
    assert philox.philox4x32(np.array(counter, np.uint32), key, rounds=9).tolist() != wanted


def test_a_stream_is_its_counters_one_after_another() -> None:
    seed = 0x0123456789ABCDEF
    whole = philox.words(seed, 0, 64)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    for number in range(16):
        counter = np.array([number, 0, 0, 0], np.uint32)
        assert (philox.philox4x32(counter, key) == whole[4 * number : 4 * number + 4]).all()
    for start in (0, 1, 3, 4, 31):
        assert (philox.words(seed, start, 20) == whole[start : start + 20]).all()
    far = philox.words(seed, 4 * 2**32 - 2, 4)  # across the carry of the counter's low word
    assert (far[2:] == philox.philox4x32(np.array([0, 1, 0, 0], np.uint32), key)[:2]).all()
    assert (philox.words(seed, 0, 4, subsequence=7) != whole[:4]).any()


def test_uniform_numbers_are_in_the_half_open_interval() -> None:
    ends = philox.uniform(np.array([0, 2**32 - 1], np.uint32))
    assert ends.dtype == np.float32 and ends[0] == np.float32(2.0**-33) and ends[1] == 1


def test_bytes_by_block_are_the_lanes_of_an_mma_one_after_another() -> None:
    seed, offset, shape = 2**40 + 3, 2**32 - 40, (2, 3, 35, 70)
    found = philox.block_bytes(seed, offset, shape)
    for b, h, i, j in (
        (0, 0, 0, 0),
        (0, 1, 9, 17),
        (1, 2, 34, 69),
        (1, 0, 16, 33),
        (0, 2, 7, 31),
        (1, 1, 15, 8),
    ):
        lane = 4 * (i % 8) + j % 8 // 2
        low = offset + (b * 3 + h) * 32 + lane
        counter = np.array([low & 0xFFFFFFFF, low >> 32, i // 16, j // 32], np.uint32)
        drawn = philox.philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32), 7).tobytes()
        # of a lane's 16: bit 0 the column of the pair, 1 the half of the rows, 2 and 3 the eight columns
        e = j % 2 + 2 * (i % 16 // 8) + 4 * (j % 32 // 8)
        assert found[b, h, i, j] == drawn[e]
    assert abs(philox.block_bytes(1, 4, (1, 4, 160, 320)).mean() - 127.5) < 0.5
