"""One set of descriptor rules: every bit of every descriptor, judged alike by `spec.machine` and the
engine."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from tileproof.emulator import _engine
from tileproof.spec.machine import descriptor_rules as rules
from tileproof.spec.machine.descriptors import BlockScaledDescriptor, InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.kinds import FORMATS, Format

from tests.kit import mma as mma_kit
from tests.kit.mma import A_AT, Form, multiply
from tests.kit.ptx import only

NUMBERS = {name: number for number, name in enumerate(FORMATS)}


def good(f: Format) -> int:
    """A legal dense descriptor of a format."""
    first = next(iter(f.types))
    if f.scales:
        return BlockScaledDescriptor(
            128, 64, f.name, first, first, scale_type=f.scale_types[0], a_mn_major=False
        ).encode()
    return InstructionDescriptor(128, 64, first, first, f.d_types[-1], format=f.name).encode()


# Bits of a dense instruction descriptor that may be flipped alone, from tables 42 to 44 read by hand.
FREE = {
    "f16": {7, 10, 13, 14, 15, 16, *range(17, 23), *range(24, 29), 4},
    "tf32": {13, 14, 15, 16, *range(17, 23), *range(24, 29)},
    "f8f6f4": {4, 7, 9, 10, 12, 13, 14, 15, 16, *range(17, 23), *range(24, 29)},
    "i8": {3, 7, 10, 15, 16, *range(17, 23), *range(24, 29)},
    "mxf8f6f4": {4, 5, 7, 9, 10, 12, 13, 14, 15, 16, *range(17, 23), 27, 28, 29, 30},
    "mxf4": {5, 13, 14, *range(17, 23), 27, 28, 30},
    "mxf4nvf4.2X": {5, 13, 14, *range(17, 23), 27, 28, 30},
    "mxf4nvf4.4X": {13, 14, 23, *range(17, 23), 27, 28},
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_bit_of_the_instruction_descriptor(name: str) -> None:
    word = good(FORMATS[name])
    assert rules.wrong_instruction(word, name) == _engine.wrong_instruction(word, NUMBERS[name]) == ""
    for bit in range(32):
        flipped = word ^ 1 << bit
        wrong = rules.wrong_instruction(flipped, name)
        assert (wrong == "") == (bit in FREE[name]), (bit, wrong)
        assert _engine.wrong_instruction(flipped, NUMBERS[name]) == wrong
        if not name.startswith("mx") and (bit in (0, 1, 3, 6, 23, 29, 30, 31)) and bit not in FREE[name]:
            assert f"{bit}" in wrong or "bits" in wrong


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("form", list(itertools.product([False, True], repeat=3)), ids=str)
def test_random_words_in_every_form(name: str, form: tuple[bool, bool, bool]) -> None:
    ws, sparse, a_in_tmem = form
    random.seed(f"{name}{form}")
    start, legal = good(FORMATS[name]) | sparse << 2, 0
    for _ in range(1500):
        word = start
        for _ in range(random.randrange(4)):
            word ^= 1 << random.randrange(32)
        wrong = rules.wrong_instruction(word, name, ws=ws, sparse=sparse, a_in_tmem=a_in_tmem)
        legal += not wrong
        assert (
            _engine.wrong_instruction(word, NUMBERS[name], ws=ws, sparse=sparse, a_in_tmem=a_in_tmem) == wrong
        )
    assert 100 < legal < 1400


def test_a_field_that_a_form_does_not_use_must_be_zero() -> None:
    word = good(FORMATS["f16"])
    for bit, form in ((30, {"ws": True}), (31, {"ws": True}), (0, {"sparse": True}), (1, {"sparse": True})):
        extra = 4 if "sparse" in form else 0
        assert "without ." in rules.wrong_instruction(word | 1 << bit, "f16")
        assert not rules.wrong_instruction(word | 1 << bit | extra, "f16", **form)
    assert "sparsity" in rules.wrong_instruction(word, "f16", sparse=True)
    assert "A in shared memory" in rules.wrong_instruction(word | 1 << 15, "f16", a_in_tmem=True)
    with pytest.raises(TileproofError, match=r"without \.ws"):
        InstructionDescriptor.decode(word | 1 << 30, ws=False)


def test_every_bit_of_the_matrix_descriptor() -> None:
    word = SmemDescriptor(0x4000, 16, 1024, "128B").encode()
    free = {*range(14), *range(16, 30), *range(32, 46), 49, 50, 51}
    # 2 is the 128B swizzle: 0, 4 ^ 2 = 6 are codes, 3 is not.
    free |= {62, 63}
    for bit in range(64):
        flipped = word ^ 1 << bit
        wrong = rules.wrong_matrix(flipped)
        assert (wrong == "") == (bit in free), (bit, wrong)
        assert _engine.wrong_matrix(flipped) == wrong
        transposed = rules.wrong_matrix(flipped, transposed_tf32=True)
        assert _engine.wrong_matrix(flipped, transposed_tf32=True) == transposed and transposed
    atoms = SmemDescriptor(0x4000, 2048, 512, "128B_ATOM_32B").encode()
    assert rules.wrong_matrix(atoms) and not rules.wrong_matrix(atoms, transposed_tf32=True)
    # A base offset is not read without a swizzle; Triton's copies of scale factors have one.
    unswizzled = SmemDescriptor(0x4000, 128, 256, "none").encode() | 1 << 49
    assert not rules.wrong_matrix(unswizzled) and not _engine.wrong_matrix(unswizzled)


def test_the_descriptors_that_libraries_write_pass() -> None:
    """CUTLASS 4.2: version 1 in bits 46-47, base offset 0, LBO mode 0; leading offset 1 where it is not
    used."""
    for swizzle, sbo in (("128B", 1024), ("64B", 512), ("32B", 256)):
        code = {"128B": 2, "64B": 4, "32B": 6}[swizzle]
        word = 0x4000 >> 4 | 1 << 16 | sbo >> 4 << 32 | 1 << 46 | code << 61
        assert not rules.wrong_matrix(word) and not _engine.wrong_matrix(word)
    # make_instr_desc<bfloat16_t, bfloat16_t, float, 128, 256, K, K>, and the block-scaled twin with M >> 4
    # in 24-28.
    assert not rules.wrong_instruction(1 << 4 | 1 << 7 | 1 << 10 | 256 >> 3 << 17 | 128 >> 4 << 24, "f16")
    for name, type_, scale in (
        ("mxf8f6f4", 0, 1),
        ("mxf4", 1, 1),
        ("mxf4nvf4.4X", 1, 0),
        ("mxf4nvf4.4X", 1, 1),
    ):
        word = type_ << 7 | type_ << 10 | 192 >> 3 << 17 | scale << 23 | 256 >> 4 << 24
        assert not rules.wrong_instruction(word, name), name


@pytest.mark.parametrize("bit", [0, 1, 3, 6, 23, 29, 30, 31])
def test_a_kernel_with_such_a_bit_is_stopped(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form, operand = Form(128, 64), np.ones((128, 16), np.float32)
    word = form.idesc
    multiply(form, operand, operand[:64])  # the clean twin
    monkeypatch.setattr(Form, "idesc", property(lambda _: word | 1 << bit))
    result = multiply(form, operand, operand[:64], check=False)[2]
    assert "instruction descriptor" in only(result, "mma-operands").message


@pytest.mark.parametrize("bit", [14, 15, 30, 31, *range(53, 61)])
def test_a_kernel_with_such_a_matrix_bit_is_stopped(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    form, operand = Form(128, 64), np.ones((128, 16), np.float32)
    placed = mma_kit.place
    monkeypatch.setattr(
        mma_kit, "place", lambda image, at, *rest: placed(image, at, *rest) | (at == A_AT) << bit
    )
    result = multiply(form, operand, operand[:64], check=False)[2]
    assert "the descriptor of A" in only(result, "mma-operands").message
