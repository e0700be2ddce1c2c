"""Exact products on vectors are bit for bit those of single elements, at every level of the processor."""

from __future__ import annotations

import pytest

from tests.kit.exact_words import KINDS, LEVELS, Kind, drawn, result

F16 = Kind("f16", "f16", "f16")


@pytest.mark.parametrize("level", LEVELS)
def test_vectors_give_the_words_of_single_elements(level: str) -> None:
    total = singly = 0
    for words in drawn(seed=1, count=1e6):  # every kind and class three times
        got, want = result(words, level, carefully=False), result(words, "v2", carefully=True)
        if got is None:
            pytest.skip(f"this processor has no x86-64-{level}")
        assert want is not None
        wrong = got[0] != want[0]
        assert not wrong.any(), f"{words.kind}: {wrong.sum()} words differ"
        assert want[1] == want[0].size
        total, singly = total + want[0].size, singly + got[1]
    assert singly < total / 2


@pytest.mark.parametrize("level", LEVELS)
def test_a_wrong_exponent_is_found(level: str) -> None:
    """Subnormals with an exponent too low: the comparison finds f16, where this matters."""
    found = set()
    for words in drawn(seed=1, count=1):
        got = result(words, level, carefully=False, a_emin=words.kind.emin["a_emin"] - 1)
        want = result(words, level, carefully=True)
        if got is None or want is None:
            pytest.skip(f"this processor has no x86-64-{level}")
        if (got[0] != want[0]).any():
            found.add(words.kind)
    assert F16 in found
    assert found < set(KINDS)
