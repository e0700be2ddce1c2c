# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""tcgen05.mma in all legal shapes, layouts, majors, swizzles and options: exact on small integers, in both
modes.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import _engine
from tileproof.spec.machine import mma as rules
from tileproof.spec.machine import smem_layout, tmem
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.errors import TileproofError

from tests.kit.mma import Form, multiply
from tests.kit.ptx import POLICIES, only


def integers(form: Form, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([form.m, form.n, seed])
    return rng.integers(-4, 5, (form.m, 16)).astype(np.float32), rng.integers(-4, 5, (form.n, 16)).astype(
        np.float32
    )


SHAPES = [
    Form(m, n, group, ws, in_tmem)
    for group, ws in ((1, False), (2, False), (1, True))
    for in_tmem in (False, True)
    for m, ns in rules.legal_shapes(group, a_in_tmem=in_tmem, ws=ws).items()
    for n in ns
]


@pytest.mark.parametrize(
    "form", SHAPES, ids=lambda f: f"cg{f.group}{'ws' * f.ws}{'-ts' if f.a_in_tmem else '-ss'}-{f.m}x{f.n}"
)
def test_every_legal_shape(form: Form) -> None:
    a, b = integers(form)
    got, cells, result = multiply(form, a, b, mode="exact" if form.n % 32 else "fast")
    assert (got == a @ b.T).all()
    assert result.counters["mma_instructions"] == 1 and result.counters["mma_macs"] == form.m * form.n * 16
    # Cells outside D keep what they held.
    used = np.zeros(cells.shape[1:], bool)
    used[tmem.cells_of_cta(form.layout, form.n)] = True
    assert (cells[:, ~used] == -1000).all()


MAJORS = [(a, b) for a in ("K", "MN") for b in ("K", "MN")]
SWIZZLES = ["none", "32B", "64B", "128B"]
BASE = [
    Form(128, 128),
    Form(64, 64),
    Form(256, 64, 2),
    Form(128, 128, 2),
    Form(64, 128, ws=True),
    Form(32, 64, ws=True),
]


@pytest.mark.parametrize(("a_major", "b_major"), MAJORS)
@pytest.mark.parametrize("form", BASE, ids=lambda f: f"cg{f.group}-{f.m}x{f.n}")
def test_majors_and_swizzles(form: Form, a_major: str, b_major: str) -> None:
    a, b = integers(form, 1)
    for a_swizzle, b_swizzle in [(s, s) for s in SWIZZLES] + [("32B", "128B"), ("none", "64B")]:
        laid_out = Form(form.m, form.n, form.group, form.ws, False, a_major, b_major, a_swizzle, b_swizzle)  # type: ignore[arg-type]
        assert (multiply(laid_out, a, b)[0] == a @ b.T).all(), (a_swizzle, b_swizzle)


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("schedule", POLICIES)
def test_accumulation(mode: str, schedule) -> None:  # type: ignore[no-untyped-def]
    for form in (
        *BASE,
        Form(64, 64, a_in_tmem=True, lane=16),
        Form(64, 72, lane=16),
        Form(128, 64, 2, a_in_tmem=True),
    ):
        a, b = integers(form, 2)
        d = np.random.default_rng(3).integers(-100, 100, (form.m, form.n)).astype(np.float32)
        assert (multiply(form, a, b, d, mode=mode, schedule=schedule)[0] == d + a @ b.T).all()


def test_without_enable_d_the_old_d_is_not_read() -> None:
    form = Form(128, 64)
    a, b = integers(form, 4)
    d = np.full((128, 64), np.nan, np.float32)
    assert np.isnan(multiply(form, a, b, d)[0]).all()
    assert (multiply(form, a, b)[0] == a @ b.T).all()


@pytest.mark.parametrize("scale", [0, 1, 7, 15])
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_scale_input_d(scale: int, mode: str) -> None:
    form = Form(128, 64, extra={"scale": f", {scale}"})
    a, b = integers(form, 5)
    d = np.random.default_rng(6).integers(-8, 8, (128, 64)).astype(np.float32) * 2.0**15
    assert (multiply(form, a, b, d, mode=mode)[0] == d / 2.0**scale + a @ b.T).all()


@pytest.mark.parametrize("group", [1, 2])
def test_lane_mask(group: int) -> None:
    rng = np.random.default_rng(7)
    words = [int(w) for w in rng.integers(0, 2**32, 4 * group, dtype=np.uint64)]
    registers = [f"%r{110 + number}" for number in range(len(words))]  # ptxas takes no numbers here
    before = " ".join(f"mov.b32 {name}, {word};" for name, word in zip(registers, words, strict=True))
    extra = {"before": before, "mask": "{" + ", ".join(registers) + "},"}
    form = Form(128 * group, 32, group, extra=extra)
    a, b = integers(form, 8)
    d = np.full((128 * group, 32), 5.0, np.float32)
    got = multiply(form, a, b, d)[0]
    # Word j covers lanes 32 j ..; rows are lanes in layouts A and D. A 1 keeps the lane (facts 2.2; the word
    # order of cta_group::2 is the natural reading).
    masked = np.array([words[row // 32] >> row % 32 & 1 for row in range(128 * group)], bool)
    assert (
        (got[masked] == 5).all()
        and (got[~masked] == (5 + a @ b.T)[~masked]).all()
        and 10 < masked.sum() < 118 * group
    )


def zero_mask(
    starts: tuple[int, ...], firsts: tuple[int, ...], nonzero: int, skip: int, use: int, shift: int
) -> int:
    """The word of PTX ISA table 45; sc0 and fs0 come first."""
    word = nonzero << 39 | skip << 40 | use << 48 | shift << 56
    return (
        word | sum(s << 8 * k for k, s in enumerate(starts)) | sum(f << 32 + k for k, f in enumerate(firsts))
    )


# PTX ISA 9.7.16.4.3, examples 1 to 4: M, the descriptor, the lowest bits of each sub-mask as printed there.
ISA_MASKS = [
    (128, zero_mask((0, 0, 0, 0), (0, 0, 0, 0), 0, 4, 3, 0), ["0"]),
    (128, zero_mask((0,), (0,), 1, 2, 3, 0), ["11100001110000"]),
    (64, zero_mask((0, 0), (1, 0), 1, 2, 3, 0), ["11100001110000111", "00001110000" + "1110000"]),
    (32, zero_mask((0, 1, 2, 1), (1, 1, 0, 0), 1, 2, 3, 2), ["00001110000111", "0000111000011", "111000011100", "1110000111000"]),
]  # fmt: skip


@pytest.mark.parametrize(("m", "word", "printed"), ISA_MASKS)
def test_zero_column_masks_of_the_isa(m: int, word: int, printed: list[str]) -> None:
    n = 128
    got = _engine.zero_columns(word, m, n)
    length = n * m // 128
    assert (len(got) == n and sum(got) > 0) or printed == ["0"]
    for part, bits in enumerate(printed):
        mine = got[part * length : part * length + len(bits)]
        assert "".join(str(int(bit)) for bit in reversed(mine)) == bits
        # Runs of 3 ones and 4 zeros continue to the end of the sub-mask.
        assert got[part * length : (part + 1) * length - 7] == got[part * length + 7 : (part + 1) * length]


@pytest.mark.parametrize("in_tmem", [False, True])
@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("shift", [0, 2, 16])
def test_mma_with_a_zero_column_mask(m: int, shift: int, in_tmem: bool) -> None:
    """Column n of D is A times column n + shift of B, or 0 where the mask is 1."""
    form = Form(m, 64, ws=True, a_in_tmem=in_tmem, max_shift=16)
    word = zero_mask((0, 1, 2, 1), (1, 1, 0, 0), 1, 2, 3, shift)
    rng = np.random.default_rng([m, shift])
    a, b = rng.integers(-4, 5, (m, 16)).astype(np.float32), rng.integers(-4, 5, (96, 16)).astype(np.float32)
    d = np.full((m, 64), 3.0, np.float32)
    form = replace(form, extra={"scale": f", {word}"})
    # The runs, written out: ones three, zeros four, begun as fs says, the first sc dropped.
    zero = []
    for start, first in [(0, 1), (1, 1), (2, 0), (1, 0)][: 128 // m]:
        runs = ([1] * 3 + [0] * 4 if first else [0] * 4 + [1] * 3) * 20
        zero += runs[start : start + 64 * m // 128]
    want = 3 + a @ np.where(np.array(zero)[:, None] == 1, 0, b[shift : shift + 64]).T
    for mode in ("fast", "exact"):
        assert (multiply(form, a, b, d, mode=mode)[0] == want).all()
    # A mask whose bit 39 is 0 shifts only.
    plain = replace(form, extra={"scale": f", {word & ~(1 << 39)}"})
    assert (multiply(plain, a, b, d)[0] == 3 + a @ b[shift : shift + 64].T).all()


def test_a_shift_beyond_what_the_descriptors_allow() -> None:
    """16 columns for M = 32, and never more than bits 30-31 of the instruction descriptor say."""
    for m, most, shift in ((32, 32, 17), (64, 16, 17), (128, 8, 9), (128, 0, 1)):
        desc = SmemDescriptor(0x4000, 16, 1024, "128B").encode()
        idesc = InstructionDescriptor(m, 64, ws_max_shift=most).encode()
        for columns, says in ((shift, "shifts B by"), (shift - 1, "")):
            form = Form(
                m,
                64,
                ws=True,
                max_shift=most,
                extra={"scale": f", {zero_mask((0,), (0,), 0, 0, 0, columns)}"},
            )
            assert form.idesc == idesc and desc
            a, b = np.ones((m, 16), np.float32), np.ones((96, 16), np.float32)
            result = multiply(form, a, b, check=False)[2]
            if says:
                assert says in only(result, "mma-operands").message
            else:
                assert not result.findings


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize(("a_major", "b_major"), [("K", "K"), ("MN", "MN")])
@pytest.mark.parametrize("offset", [1, 3, 7])
def test_base_offset(
    swizzle: str, a_major: smem_layout.Major, b_major: smem_layout.Major, offset: int
) -> None:
    """A swizzle pattern that starts `offset` lines of 128 bytes behind its boundary (PTX ISA table 41)."""
    form = Form(
        64, 64, a_major=a_major, b_major=b_major, a_swizzle=swizzle, b_swizzle=swizzle, base_offset=offset
    )
    a, b = integers(form, offset)
    assert (multiply(form, a, b)[0] == a @ b.T).all()


@pytest.mark.parametrize(("negate_a", "negate_b"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("in_tmem", [False, True])
def test_negation(negate_a: bool, negate_b: bool, in_tmem: bool) -> None:
    form = Form(128, 48, a_in_tmem=in_tmem, negate_a=negate_a, negate_b=negate_b)
    a, b = integers(form, 9)
    assert (multiply(form, a, b)[0] == a @ b.T * (-1) ** (negate_a + negate_b)).all()


def test_f16_operands() -> None:
    form = Form(128, 64, type="f16")
    a, b = integers(form, 10)
    assert (multiply(form, a + 0.125, b)[0] == (a + 0.125) @ b.T).all()


def test_ws_multiplies_each_lane_by_the_a_in_that_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """M=64 .ws: the copy of A at lanes 64.. feeds the second half of the columns (facts 3.1); here it is left
    NaN.
    """
    original = tmem.a_lanes
    monkeypatch.setattr(tmem, "a_lanes", lambda *args, **kwargs: original(*args, **kwargs)[:1])
    a, b = integers(Form(64, 128), 11)
    got = multiply(Form(64, 128, ws=True, a_in_tmem=True), a, b)[0]
    assert (got[:, :64] == (a @ b.T)[:, :64]).all() and np.isnan(got[:, 64:]).all()


def test_a_wrong_operand_is_noticed() -> None:
    """The tests above can fail: a reversed k differs."""
    form = Form(128, 64)
    a, b = integers(form, 12)
    assert (multiply(form, a[:, ::-1], b)[0] != a @ b.T).any()


# --- descriptors and legality against spec.machine
# ------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["K", "MN"]), st.sampled_from(SWIZZLES), st.integers(0, 0x3FFF), st.integers(0, 0x3FFF), st.integers(0, 0x3FFF),
    st.integers(0, 31), st.integers(0, 15),
)  # fmt: skip
def test_chunk_addresses(
    major: smem_layout.Major, swizzle: str, start: int, lbo: int, sbo: int, chunk: int, k: int
) -> None:
    word = SmemDescriptor(16 * start, 16 * lbo, 16 * sbo, swizzle).encode()
    mn, k = (chunk, k // 8 * 8) if major == "K" else (8 * chunk, k)
    want = int(smem_layout.address(major, swizzle, 16 * start, 16 * lbo, 16 * sbo, mn, k))
    assert _engine.chunk_address(word, major == "MN", mn, k) == want


def test_legal_shapes_are_the_specification_s() -> None:
    desc = SmemDescriptor(0x4000, 16, 1024, "128B").encode()
    for group, ws, in_tmem in (
        (1, False, False),
        (1, False, True),
        (2, False, False),
        (2, False, True),
        (1, True, False),
        (1, True, True),
    ):
        for m in range(16, 31 * 16 + 1, 16):
            for n in range(8, 504 + 1, 8):
                try:
                    rules.check_shape(m, n, group, a_in_tmem=in_tmem, ws=ws)
                    legal = True
                except TileproofError:
                    legal = False
                idesc = InstructionDescriptor(m, n).encode()
                wrong = _engine.check_mma(idesc, group, ws, 0 if in_tmem else desc, desc, in_tmem, 0)
                assert (not wrong) == legal, (m, n, group, ws, in_tmem, wrong)


@pytest.mark.parametrize(
    ("idesc", "a", "b", "d", "says"),
    [
        (0x08200490 | 4, 0, 0, 0, "bit 2 of the instruction descriptor (sparsity, without .sp)"), (0x08200490 | 2 << 7, 0, 0, 0, "bits 7-9 of the instruction descriptor (A type) are 3"),
        (0x08200490 & ~0x30, 0, 0, 0, "an f16 accumulator takes f16 operands only"), (0x08200490, 1 << 46, 0, 0, "the descriptor of A: bits 46-48"),
        (0x08200490, 0, 3 << 61, 0, "the descriptor of B: bits 61-63"),
        (0x08200490, 0, 1 << 52, 0, "bit 52 of the shared-memory descriptor (absolute leading address, sm_103a only)"), (0x08200490, 0, 0, 16 << 16, "D lane 16"), (0x04200490, 0, 0, 8 << 16, "D lane 8"),
    ],
)  # fmt: skip
def test_illegal_operands_are_named(idesc: int, a: int, b: int, d: int, says: str) -> None:
    good = 0x4000404000010400
    assert _engine.check_mma(0x08200490, 1, False, good, good, False, 0) == ""
    assert says in _engine.check_mma(idesc, 1, False, good ^ a, good ^ b, False, d)


def test_a_in_tmem_must_be_k_major() -> None:
    assert "transpose A, without A in shared memory" in _engine.check_mma(
        0x08200490 | 1 << 15, 1, False, 0, 0x4000404000010400, True, 0
    )
