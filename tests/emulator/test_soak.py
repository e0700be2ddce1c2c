"""The soak (`tests/kit/soak.py`) for a short time, and what it must notice."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.kit import soak

STEADY = [soak.Measured(at, 100.0, 6, 1, 1000, 0.002) for at in range(16)]


@pytest.mark.parametrize("step", soak.STEPS, ids=lambda step: step.__name__)
def test_each_step_of_the_soak(step: soak.Step) -> None:
    step(random.Random(7))


@pytest.mark.parametrize("name", soak.GROWTH)
def test_growth_is_noticed(name: str) -> None:
    assert not list(soak.grown(STEADY))
    grows = [replace(sample, **{name: getattr(sample, name) * (1 + sample.at / 16)}) for sample in STEADY]
    (line,) = soak.grown(grows)
    assert line.startswith(f"{name} grew from ")
    warm = [replace(sample, **{name: getattr(sample, name) * 2}) for sample in STEADY[4:]]
    assert not list(soak.grown([*STEADY[:4], *warm]))  # the first quarter is the warm-up
    assert [line for line in soak.grown(STEADY[:7]) if "give it more seconds" in line]


def test_a_wrong_answer_is_noticed() -> None:
    def fails(draw: random.Random) -> None:
        raise soak.SoakError("a wrong answer")

    first = soak.soak(0.05, 1, {fails: 1})[0]
    assert first.startswith("fails, seed ") and first.endswith("SoakError: a wrong answer")
