"""Random kernels on a card: the campaign with machine code read back in the card's place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tileproof.tools.silicon.fuzz import compare, on_card, read_back
from tileproof.tools.silicon.fuzz.program import RandomKernel, Value, program

from tests.tools.silicon.test_fuzz import step, wrong_kernel


class ReadBackCard:
    """Runs machine code as `read_back` reads it."""

    def words(self, image: bytes, names: Sequence[str], given: np.ndarray) -> dict[str, np.ndarray]:
        """The words of each kernel."""
        code = read_back.lines_of(image[image.index(b"\x7fELF") :])
        out = {name: compare.read_words(name, code[name], given) for name in names}
        assert not [w for w in out.values() if isinstance(w, str)]
        return {name: np.asarray(w) for name, w in out.items()}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> ReadBackCard:
    card = ReadBackCard()
    monkeypatch.setattr(on_card, "_card", lambda: card)
    return card


def test_a_fat_binary_gives_the_emulator_and_the_card_the_same_kernels(card: ReadBackCard) -> None:
    kernels = [program(f"7/{n}", f"k{n}", ("packed",)) for n in range(4)]
    kinds = [on_card.kind_of(k, *row) for k, row in zip(kernels, on_card.both(kernels), strict=True)]
    assert kinds.count("same") >= 2 and "card" not in kinds


def test_wrong_code_of_the_optimiser_is_reduced_with_its_ptx(
    card: ReadBackCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_card, "program", lambda seed, name: wrong_kernel())
    done = on_card.batch("s", 0, 1)
    assert done["kinds"] == ["optimiser"] and done["hashes"][0][0] != done["hashes"][0][1]
    found = on_card.explained("s", 0)
    assert found["kind"] == "optimiser" and len(found["statements"]) == 1
    assert found["emulator"] == "0x80000000" and found["card"] == "0x0"
    assert "selp" in found["ptx"] and found["defects"] == ["selected-negative-zero"]
    assert on_card.rerun("s", 0, done["hashes"]) == ["optimiser"]


def test_a_difference_of_the_referee_is_the_card_s(
    card: ReadBackCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = card.words
    monkeypatch.setattr(card, "words", lambda *given: {n: w + 1 for n, w in read(*given).items()})
    kernel = program("7/0", "k0", ("packed",))
    assert on_card.kind_of(kernel, *on_card.both([kernel])[0]) == "card"


@pytest.mark.slow
def test_a_difference_that_needs_a_nan_is_classified(
    card: ReadBackCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimiser folds the negation of a constant NaN; its bits become an integer."""
    negated = step("v0", 'asm1f("neg.ftz.f32",{f32})', Value("f32", bits=0x7FC00001))
    bits = step("v1", "__float_as_uint({f32})", Value("f32", "v0"))
    kernel = RandomKernel("planted", (negated, bits), (Value("u32", "v1"),))
    assert on_card.kind_of(kernel, *on_card.both([kernel])[0]) == "optimiser"
    monkeypatch.setattr(on_card, "program", lambda seed, name: kernel)
    found = on_card.explained("s", 0)
    assert found["kind"] == "optimiser, NaN" and found["defects"] == []
    assert on_card.kind_of(kernel.without_nan(), *on_card.both([kernel.without_nan()])[0]) == "same"
