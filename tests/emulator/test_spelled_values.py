"""Spellings of every form that registers and own bytes decide, on edges and random bits: a card's words."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import isa, registry
from tileproof.emulator.silicon import card_runs
from tileproof.emulator.spelling import Pattern
from tileproof.tools.card.launches import digest

from tests.kit.ptx import Memory, clean, parsed
from tests.kit.spelled_values import BASES, MEMORY, SPELLINGS, THREADS, inputs, kernel

assert isa
FORMS = [
    (row, pattern)
    for row in registry.ROWS
    if row.base in BASES and row.decode is not None
    for pattern in row.spellings.patterns
]
WORDS = {given: left for run in card_runs() for given, left in run.words.items()}


def launched(row: registry.Row, pattern: Pattern, text: str) -> tuple[str, str]:
    """Digests of a launch and of the words that it left."""
    memory = Memory()
    args = [
        memory.buffer(inputs(row, pattern)),
        memory.buffer(np.zeros((40 * SPELLINGS, THREADS), np.uint64)),
    ]
    if row.base in MEMORY:
        args.append(memory.buffer(np.zeros(64 * THREADS, np.uint8)))
        args.append(memory.buffer(np.zeros((2 * SPELLINGS, 64 * THREADS), np.uint8)))
    else:
        args += args[:1] * 2
    before = [buffer.numpy().copy() for buffer in memory.buffers]
    ran = parsed(text).launch("k", grid=(1,), block=(THREADS,), args=args, memory=memory, mma="exact")
    clean(ran)
    return digest(text, before, [buffer.numpy() for buffer in memory.buffers])


@pytest.mark.parametrize(("row", "pattern"), FORMS, ids=lambda part: getattr(part, "base", ""))
def test_words(row: registry.Row, pattern: Pattern) -> None:
    if text := kernel(row, pattern):
        given, left = launched(row, pattern, text)
        assert WORDS.get(given, left) == left, "a card wrote other words (docs/evidence)"


def test_a_card_wrote_the_words_of_most_forms() -> None:
    """If the kernels changed, tools/card has to run again on a card. Every fourth form."""
    known = [launched(*form, text)[0] in WORDS for form in FORMS[::4] if (text := kernel(*form))]
    assert sum(known) >= 0.7 * len(known) > 20
