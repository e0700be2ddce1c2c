"""Which bits a register may have set, against every value that its instructions can give."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.mutate.bits import EVERY, apart, may_be_set
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.values import opcode

from tests.kit.mutate import TEXT, code

LINE = "\tmov.b32 \t%r2, 64;"


def made(*lines: str) -> PtxCode:
    """The small kernel with more instructions."""
    assert LINE in TEXT
    return code(TEXT.replace(LINE, "\n".join([LINE, *(f"\t{line}" for line in lines)])))


@pytest.mark.parametrize(
    ("line", "bits"),
    [
        ("mov.b32 %r40, 0x50;", 0x50),
        ("mov.u32 %r40, %tid.x;", 0x3FF),
        ("mov.b32 %r40, -1;", 0xFFFFFFFF),
        ("and.b32 %r40, %r9, 0x60;", 0x60),
        ("and.b32 %r40, %r1, 0xff0;", 0x3F0),
        ("or.b32 %r40, %r2, 3;", 0x43),
        ("xor.b32 %r40, %r2, 64;", 0x40),
        ("shl.b32 %r40, %r1, 4;", 0x3FF0),
        ("shl.b32 %r40, %r1, 30;", 0xC0000000),
        ("shr.u32 %r40, %r1, 5;", 0x1F),
        ("add.s32 %r40, %r2, 3;", 0x43),
        ("add.s32 %r40, %r2, 64;", 0xFFFFFFC0),
        ("sub.s32 %r40, %r2, 96;", 0xFFFFFFE0),
        ("mov.u32 %r40, smem;", 0xFFFFFFF0),
        ("mov.b64 %rd1, {%r9, %r1};\n\tmov.b64 {%r41, %r40}, %rd1;", 0x3FF),
        ("mad.lo.s32 %r40, %r2, 12, 128;", 0xFFFFFF80),
        ("mov.b64 %rd1, {%r2, %r1};\n\tmov.b64 %r40, %rd1;", 0x3FF00000040),
        ("cvt.s64.s32 %r40, %r1;", 0x3FF),
        ("shl.b32 %r41, %r9, 6;\n\tcvt.s64.s32 %r40, %r41;", EVERY & ~0x3F),
        ("shr.s32 %r40, %r9, 5;", EVERY),
        ("shl.b32 %r40, %r1, %r2;", EVERY),
        ("mul.lo.s32 %r40, %r1, 2;", 0xFFFFFFFE),
        ("ld.shared.b32 %r40, [%r4];", EVERY),
        ("mov.b32 %r40, 1;\n\tmov.b32 %r40, 2;", EVERY),
        ("@%p1 mov.b32 %r40, 1;", EVERY),
    ],
)
def test_bits_that_may_be_set(line: str, bits: int) -> None:
    assert may_be_set(made(line), "%r40") == bits


@pytest.mark.parametrize(
    ("declared", "bits"),
    [(".reqnctapercluster 1, 1, 1", 0), (".reqnctapercluster 1", 0), (".reqnctapercluster 2, 1, 1", EVERY),
     (".reqnctapercluster 1, 2, 1", EVERY), (".explicitcluster", EVERY)],
)  # fmt: skip
def test_the_rank_in_a_cluster_of_one_is_0(declared: str, bits: int) -> None:
    text = TEXT.replace(LINE, f"{LINE}\n\tmov.u32 \t%r40, %cluster_ctarank;\n\tshl.b32 \t%r41, %r40, 6;")
    read_ = code(text.replace(")\n{", f")\n{declared}\n{{"))
    assert may_be_set(read_, "%r40") == (bits and 0xFFFFFFFF)
    assert may_be_set(read_, "%r41") == (bits and 0xFFFFFFC0)
    other = code(f".entry other()\n.reqnctapercluster 1, 1, 1\n{{\n\tret;\n}}\n{text}")
    assert may_be_set(other, "%r40") == 0xFFFFFFFF  # what another entry declares


def test_a_loop_ends() -> None:
    assert may_be_set(made("and.b32 %r40, %r40, %r40;"), "%r40") == 0xFFFFFFFF


@pytest.mark.parametrize(
    ("constant", "same"), [("0x40", False), ("0x3f", False), ("0x400", True), ("0x8000", True)]
)
def test_operands_that_share_no_bit_are_no_mutants(constant: str, same: bool) -> None:
    read = made(f"or.b32 %r40, %r1, {constant};")
    (at,) = (line for line in read.code if line.opcode == "or.b32")
    assert apart(read, at) == same
    proposed = {variation.what.split()[0] for variation in opcode(read, at)}
    assert proposed == ({"and"} if same else {"and", "xor"})
