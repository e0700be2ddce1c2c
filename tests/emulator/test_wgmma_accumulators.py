"""D of wgmma over several operations: the engine keeps it apart from the registers until they are used."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import Schedule

from tests.emulator.test_wgmma import drawn, forms
from tests.kit.ptx import POLICIES, clean, only
from tests.kit.wgmma import COMMIT, FENCE, MMA, OUT, ZERO, Wgmma, multiply, run_program, wait_group

WAIT = COMMIT + wait_group()


@settings(max_examples=30, deadline=None)
@given(form=forms(), seed=st.integers(0, 2**32 - 1), mode=st.sampled_from(["fast", "exact"]))
def test_an_access_between_two_products_changes_no_bit(form: Wgmma, seed: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    if form.type in ("s8", "u8", "b1"):
        a, b = (rng.integers(0, 2, (rows, form.k)) for rows in (64, form.n))
    else:
        a, b = (
            drawn(rng, (rows, form.k), t, "wide") for rows, t in zip((64, form.n), form.types, strict=True)
        )
    c = rng.integers(-9, 10, (64, form.n))
    accesses = (f"{WAIT}\nmov.b32 %d1, %d1;\n{FENCE}", f"{WAIT}\nxor.b32 %r1, %d0, %d1;\n{FENCE}")
    (at_once, first), (apart, second) = (
        multiply(form, a, b, c, between=between, mma=mode) for between in (("", ""), accesses)
    )
    clean(first)
    clean(second)
    assert at_once.tobytes() == apart.tobytes()


def _drawn_program(rng: random.Random) -> tuple[str, np.ndarray]:
    """Products of matrices of 1 on accumulators of four registers, some of which overlap, and uses of
    registers in between; the words of all registers.
    """
    values, lines, loose = np.zeros(16, np.float32), [ZERO, FENCE], False
    for _ in range(rng.randrange(4, 24)):
        first, adds = rng.choice((0, 0, 4, 4, 8, 12, 2, 7)), rng.random() < 0.8
        if rng.random() < 0.7:
            d = ", ".join(f"%d{k}" for k in range(first, first + 4))
            lines += [FENCE] * loose
            lines.append(MMA.replace("%d0, %d1, %d2, %d3", d).replace("%rd21, 1", f"%rd21, {int(adds)}", 1))
            values[first : first + 4] = 16 + adds * values[first : first + 4]
            loose = False
        else:
            lines += [WAIT, f"add.f32 %d{first}, %d{first}, 0f3F800000;"]
            values[first] += 1
            loose = True
    lines += [WAIT, OUT, *(f"st.global.b32 [%rd13+{512 * k}], %d{k};" for k in range(4, 16))]
    return "\n".join(lines), values


@pytest.mark.parametrize("seed", range(40))
def test_accumulators_in_turn(seed: int) -> None:
    rng = random.Random(seed)
    text, values = _drawn_program(rng)
    got, result = run_program(text, schedule=rng.choice(POLICIES))
    clean(result)
    assert (got.view(np.float32) == values[:, None]).all()


def test_a_register_of_d_as_metadata_is_in_flight() -> None:
    sparse = MMA.replace("mma_async.sync", "mma_async.sp.sync").replace("k16", "k32")
    sparse = sparse.replace("%d0, %d1, %d2, %d3", "%d4, %d5, %d6, %d7").replace(
        "%rd21, 1", "%rd21, %d0, 0, 1", 1
    )
    body = f"{ZERO}mov.b32 %d0, 0x44444444;\n{FENCE}\n{MMA}\n{sparse}\n{WAIT}\n{OUT}"
    _, result = run_program(body, schedule=Schedule("late"))
    found = only(result, "wgmma-in-flight")
    assert "reads a register of D" in found.message
