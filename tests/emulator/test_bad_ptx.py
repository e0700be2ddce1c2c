# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Text that is not PTX, or not this machine's: one clear error each, naming line and token."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.emulator import Module, PtxError, UnsupportedInstruction
from tileproof.emulator.spelling import Target

from tests.kit.ptx import HEADER, kernel_text

GOOD = kernel_text("add.u32 %r1, %r2, %r3;\nst.global.u32 [%a0], %r1;", [False])


def decode(text: str) -> None:
    module = Module.from_ptx(text)
    for name in module.entries:
        module.decode(name)


def body(lines: str) -> str:
    return kernel_text(lines, [False])


def test_the_good_text_decodes() -> None:
    decode(GOOD)
    assert Module.from_ptx(GOOD).entries == {"k": [("p0", 8, 8)]}


@pytest.mark.parametrize(
    ("text", "line", "token"),
    [
        ("", 1, "''"), ("   \n\n", 1, "''"), ("hello world\n", 1, "'hello'"), (HEADER + ".entri k()\n{\nret;\n}", 4, "'.entri'"),
        (HEADER + ".visible .entry k(\n.param .u64 p0\n", 5, ".param"), (HEADER + ".visible .entry k(.param .q64 p0)\n{\n}", 4, ".param"),
        (HEADER + ".visible .entry k()\n{\nadd.u32 %r1, %r2", 5, "the end of the text"), (HEADER + ".visible .entry k()", 4, "the end"),
        (HEADER + ".visible .entry ()\n{}", 4, "'()'"), (HEADER + ".global .u99 x;", 4, ".u99"), (HEADER + ".global .u32 x = 5", 4, "5"),
        (HEADER + ".pragma \"x\"", 4, '"x"'), (HEADER + ".global .u32 x = zebra;", 4, "zebra"), (HEADER + ".global .align 3 .u32 x;", 4, ".align"), (HEADER + ".global .f32 x = 0f-3F00000;", 4, "0f-3F00000"),
        (HEADER + ".global .b8 x[99999999999];", 4, "x[99999999999]"), (HEADER + '.file 1 kernel.cu\n', 4, "1"),
        (HEADER + ".section .debug_str\n", 5, "the end"), ("\x00\x01\x02\xff\xfe", 1, ""), ("\x7fELF\x02\x01\x01", 1, "ELF"),
        (".visible .entry k()\n{\nret;\n}\n", 1, ".visible"), (HEADER + "}\n", 4, "'}'"), (HEADER + ".shared .align 0 .b8 x[4];", 4, ".align"),
        (HEADER + ".visible .entry k(.param .align 0 .b8 p[4])\n{\n}", 4, ".param"),
    ],
)  # fmt: skip
def test_module_level(text: str, line: int, token: str) -> None:
    with pytest.raises(PtxError) as error:
        decode(text)
    assert f"line {line}" in error.value.where and token in str(error.value)
    assert error.value.what and error.value.found


@pytest.mark.parametrize(
    ("line", "token"),
    [
        ("add.u32 %r1, %r2, ];", "]"), ("add.u32 %r1, %r2, 0x;", "0x"), ("mov.f32 %f1, 0f+3F00000;", "0f+3F00000"), ("mov.f32 %f1, 1_0.5;", "1_0.5"), ("ld.global.u32 %r1, [%a0+];", "%a0+"),
        ("add.u32 %r1, nobody, %r2;", "nobody"), ("bra NOWHERE;", "NOWHERE"), ("add.u32 %r1, %r2;", "2 operands"), ("add.u32 %r1, %r2, %r3, %r4;", "4 operands"),
        ("add.u32 %rd1, %r2, %r3;", "%rd1"), ("add.u64 %rd1, %r2, %rd3;", "%r2"), ("@%r1 add.u32 %r1, %r2, %r3;", "%r1"), ("setp.eq.u32 %r1, %r2, %r3;", "%r1"),
        ("ret", "}"), (".reg .b77 %x;", ".reg"), (".reg .b32 <5>;", "<5>"), ("5 + 5;", "5"), ("ld.global.u32 5, [%a0];", "Immediate"), ("ld.global.u32 %r1, %a0;", "%a0"),
        ("mov.u32 %r1, %r2, %r3;", "3 operands"), ("setp.eq.u32 %p1, %r1, %r2, %p2;", "surplus"), ("bra %r1, %r2;", "2 operands"),
        ("bar.arrive 1;", "thread count"), ("mbarrier.expect_tx.shared.b64 [1024];", "byte count"), ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2}, [%r3];", "4 registers"),
        ("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%r1}, [%r2];", "second column"), ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2], 4;", "second column"),
        ("tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%r2], -1, {%r1};", "second column"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 16;", "0 to 15"), ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3}, %p1;", "4 lane-mask"),
        ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%a0, {%r1}], [%r2];", "2 coordinates"),
        ("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%a0], [%r2];", "coordinates"),
        ("cp.async.bulk.wait_group %r1;", "immediate"), (".reg .b32 %many<999999999>;", "too many registers"), (".local .b8 big[9999999];", "local memory"),
        (".shared .align 0 .b8 x[4];", ".align"), ("ld.global.u32 %r1, [%a0, {%r1}];", "address"), ("cvt.u32.u64 %r1, %r2;", "narrower"),
        ("}", ""), ("{", "never closed"), ("add.u32 %r1, {%r2, %r3;", "never closed"),
    ],
)  # fmt: skip
def test_statements(line: str, token: str) -> None:
    text = body(f"mov.u32 %r1, 0;\n{line}\nmov.u32 %r2, 0;")
    with pytest.raises(PtxError) as error:
        decode(text)
    assert token in str(error.value)
    if "never closed" not in token and line not in ("}", "ret"):
        assert f"line {text.split(chr(10)).index(line) + 1}" in error.value.where


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("frobnicate.u32 %r1;", "not in the instruction table"), ("add.rna.f32 %f1, %f2, %f3;", "rna"),
        ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2};", "single-bit"), ("bar.red.popc.s32 %r1, 0, %p1;", "bar.red"),
        ("tcgen05.mma.cta_group::1.kind::f16.ashift [%r1], [%r3], %rd2, %r2, %p1;", "ashift"),
        ("tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, [%r4], %r2, %p1;", "sparse"), ("rcp.rn.ftz.f64 %fd1, %fd2;", "does not list"),
        ("add.u32 %r1, %envreg0, 1;", "%envreg0 has a value that only the driver defines"), ("mbarrier.arrive.noComplete.shared::cluster.b64 _, [%r1], 1;", "noComplete"),
        ("mbarrier.try_wait.parity.shared::cluster.b64 %p1, [%r1], 0;", "shared::cluster"), ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%a0, {%f1, %f2}];", "textures"),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p1, 1;", "scale-input-d"), ("elect.sync.foo %r1|%p1, -1;", "foo"),
        ("st.bulk.weak.shared::cluster [%r1], 64, 0;", "known spelling"), ("redux.sync.mul.u32 %r1, %r2, -1;", "known spelling"), ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2}, %r3, 0;", "sparse"),
    ],
)  # fmt: skip
def test_instructions_that_are_refused(line: str, why: str) -> None:
    text = body(line)
    with pytest.raises(UnsupportedInstruction) as error:
        decode(text)
    assert line.split()[0].removeprefix("@") in str(error.value) and why in str(error.value)
    assert (
        f"line {text.split(chr(10)).index(line) + 1}" in error.value.where and ", in k" in error.value.where
    )


def test_every_refused_row_refuses() -> None:
    from tileproof.emulator import registry

    target = Target.of("sm_100a", "8.8")
    for row in registry.ROWS:
        if row.grade != "refused":
            continue
        texts = [".x"] if row.spellings.any else [text for text, _ in row.spellings.sample(400)]
        found = [registry.spell(row.base + text, target) for text in texts]
        # What an executed row has as well is executed.
        own = [spelled.opcode for spelled in found if spelled and spelled.row is row and not spelled.requires]
        for opcode in own[:1]:
            with pytest.raises(UnsupportedInstruction, match=row.base.split(".")[0]):
                decode(body(f"{opcode} %r1, %r2;"))


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(GOOD)
    assert "k" in Module.from_file(path).entries
    path.write_bytes(b"\x80\x81\x82" + bytes(range(256)))
    for bad in (path, tmp_path / "absent.ptx", tmp_path):
        with pytest.raises(PtxError) as error:
            Module.from_file(bad)
        assert str(bad) in error.value.where


def test_truncated_anywhere() -> None:
    """Every prefix is either an error of this type or a module that decodes."""
    text = kernel_text("LOOP: ld.global.v2.u32 {%r1, %r2}, [%a0+8];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra LOOP;\n", [False],
                       '.file 1 "x.cu"\n.global .align 8 .u64 t[2] = {1, 2};\n.shared .b32 s;\n')  # fmt: skip
    errors = 0
    for cut in range(len(text)):
        try:
            decode(text[:cut])
        except (PtxError, UnsupportedInstruction):
            errors += 1
    assert errors > len(text) // 2
