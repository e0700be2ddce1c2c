"""nvdisasm's text as instructions: opcode, line of PTX, control bits."""

from __future__ import annotations

import pytest
from tileproof.conformance.beside.timing.model import require_figures
from tileproof.conformance.beside.timing.sass import NO_BARRIER, assemble, parse
from tileproof.spec.machine.errors import TileproofError

TEXT = """
.text.other:
        /*0000*/                   EXIT ;                    /* 0x000000000000794d */
                                                             /* 0x000fea0003800000 */
.text.kernel:
.text.kernel_is_named_twice:
"""
# Words as ptxas 13.0 writes them.
KERNEL = """
.text.kernel:
	//## File ".nv_debug_ptx_txt", line 34
        /*0000*/                   LDC R1, c[0x0][0x37c] ;   /* 0x0000df00ff017b82 */
                                                             /* 0x000ff00000000800 */
	//## File ".nv_debug_ptx_txt", line 66
.L_x_1:
        /*0010*/              @!P0 LDG.E R2, desc[UR6][R2.64] ; /* 0x0000000602060981 */
                                                             /* 0x008ea2000c1e9900 */
        /*0020*/                   BRA.U !UP0, `(.L_x_1) ;   /* 0x0000000602060981 */
                                                             /* 0x000fe40004000000 */
        /*0030*/                   EXIT ;                    /* 0x0000000602060981 */
                                                             /* 0x000fe40004000000 */
"""
PTX = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out)
{{
    .reg .b64 %rd<3>;
    .reg .pred %p<3>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [%rd1];
    {0}
    st.global.u32 [%rd1], %r1;
    ret;
}}
"""


def test_the_control_bits_are_read() -> None:
    ldc, ldg, bra, end = parse(KERNEL, "kernel")
    assert (ldc.opcode, ldc.line, ldc.stall, ldc.writes, ldc.reads, ldc.waits) == (
        "LDC",
        34,
        8,
        NO_BARRIER,
        NO_BARRIER,
        0,
    )
    assert (ldg.guard, ldg.root, ldg.line, ldg.stall, ldg.writes, ldg.waits) == (
        "!P0",
        "LDG",
        66,
        1,
        2,
        0b1000,
    )
    assert (bra.targets, bra.stall, bra.writes) == ((1,), 2, NO_BARRIER)
    assert bra.falls_through and not end.falls_through


def test_a_function_that_is_not_there_is_named() -> None:
    with pytest.raises(TileproofError, match="no such function"):
        parse(TEXT, "another")


def test_machine_code_names_the_lines_of_the_ptx() -> None:
    text = PTX.format("add.u32 %r1, %r1, 7;")
    lines = text.splitlines()
    named = {sass.root: lines[sass.line - 1].split()[0] for sass in assemble(text, "sm_100a", "kernel")}
    assert named["LDG"] == "ld.global.u32"
    assert named["STG"] == "st.global.u32"


def test_what_has_no_figure_is_refused_by_name() -> None:
    other = "tex.1d.v4.u32.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r1}];"
    with pytest.raises(TileproofError, match=r"no latency for some instructions[\s\S]*TLD"):
        require_figures(assemble(PTX.format(other), "sm_100a", "kernel"))
    require_figures(assemble(PTX.format("add.u32 %r1, %r1, 7;"), "sm_100a", "kernel"))


def test_wgmma_has_no_figure_and_is_refused() -> None:
    registers = ", ".join(f"%f{n}" for n in range(4))
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .f32 %f<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {REGISTERS}, %rd1, %rd1, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.global.f32 [%rd1], %f0;
    ret;
}
""".replace("REGISTERS", registers)
    with pytest.raises(TileproofError, match=r"no latency for some instructions[\s\S]*HGMMA"):
        require_figures(assemble(text, "sm_90a", "kernel"))


def test_mma_sync_is_refused_too() -> None:
    text = PTX.replace(
        ".reg .pred %p<3>;",
        ".reg .pred %p<3>;\n    .reg .f32 %f<4>;\n    mov.f32 %f0, 0f00000000;\n    mov.f32 %f1, %f0;\n"
        "    mov.f32 %f2, %f0;\n    mov.f32 %f3, %f0;",
    )
    mma = (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, "
        "{%r1, %r1}, {%f0, %f1, %f2, %f3}; mov.b32 %r1, %f0;"
    )
    with pytest.raises(TileproofError, match=r"no latency for some instructions[\s\S]*HMMA"):
        require_figures(assemble(text.format(mma), "sm_100a", "kernel"))
