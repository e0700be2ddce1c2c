"""A PTX text as code: what is read of it, and that an edit changes its own lines only."""

from __future__ import annotations

from tileproof.conformance.beside.mutate.code import PtxCode, split
from tileproof.kernels.registry import kernel

from tests.kit.mutate import TEXT, code


def test_operands_are_split_outside_brackets():
    assert split("[%rd1, {%r1, %r2}], [%r3], %rd4") == ("[%rd1, {%r1, %r2}]", "[%r3]", "%rd4")
    assert split("") == () and split(" %r1 ") == ("%r1",)


def test_instructions_places_and_blocks():
    read = code()
    by_opcode = {line.opcode: line for line in read.code}
    wait = by_opcode["mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"]
    assert wait.frames == (("barrier.cuh", 65), ("kernel.cuh", 20))
    assert TEXT.split("\n")[wait.span[0] - 1].strip() == "{" and wait.span[0] < wait.number < wait.span[1]
    assert by_opcode["st.shared.b32"].defines == frozenset()
    assert by_opcode["add.s32"].defines == {"%r3"} and by_opcode["add.s32"].uses == {"%r1", "%r2"}
    branch = next(line for line in read.code if line.guard == "@%p1")
    assert branch.opcode == "bra" and branch.uses >= {"%p1"}
    assert by_opcode["ret"].block > branch.block


def test_another_entry_is_not_read():
    assert PtxCode(TEXT, "other").code == ()


def test_an_edit_changes_its_line_only():
    read = code()
    add = next(at for at in read.code if at.opcode == "add.s32")
    changed = read.changed({add.number: "\tnothing;"}).split("\n")
    assert [n + 1 for n, (a, b) in enumerate(zip(TEXT.split("\n"), changed, strict=True)) if a != b] == [
        add.number
    ]


def test_every_instruction_of_a_kernel_is_read():
    """What ends with a semicolon in the entry and is no directive is an instruction."""
    found = kernel("head128-part0")
    built = found.build(found.variants[0])
    read = PtxCode(built.ptx, built.entry)
    known = {line.number for line in read.code}
    start = next(n for n, line in enumerate(read.lines) if f".entry {built.entry}" in line)
    missed = [
        line
        for n, line in enumerate(read.lines[start:], start + 1)
        if ";" in line and n not in known and not line.strip().startswith((".", "//"))
    ]
    assert not missed and len(known) > 1000
    assert all(line.frames and line.frames[-1][1] for line in read.code[5:])
