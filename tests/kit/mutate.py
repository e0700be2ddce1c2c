"""A small PTX text to draw mutants from: a store, a fence, an arrival, a wait in a loop, unrolled sums."""

from __future__ import annotations

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

TEXT = """\
.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 16 .b8 smem[];

.visible .entry small(
\t.param .u64 small_param_0
)
{
\t.reg .pred \t%p<4>;
\t.reg .b32 \t%r<16>;
\t.reg .b32 \t%f<8>;
\t.reg .b64 \t%rd<8>;
\t.loc\t1 10 0
\tmov.u32 \t%r1, %tid.x;
\tmov.b32 \t%r2, 64;
\tadd.s32 \t%r3, %r1, %r2;
\tmov.u32 \t%r4, smem;
\t.loc\t1 12 0
\tmbarrier.init.shared::cta.b64 [%r4], %r2;
\tfence.mbarrier_init.release.cluster;
\tbar.sync \t0;
\t.loc\t1 15 3
\tst.shared.b32 \t[%r4+64], %r3;
\tfence.proxy.async.shared::cta;
\tmbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r4], 128;
\t.loc\t1 20 5
\t.loc\t2 65 5, function_name $L__info_string0, inlined_at 1 20 5
$L__BB0_1:
\t// begin inline asm
\t{
\t.reg .pred complete;
\tmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 complete, [%r4], %r1;
\tselp.b32 %r5, 1, 0, complete;
\t}
\t// end inline asm
\tsetp.eq.s32 \t%p1, %r5, 0;
\t@%p1 bra \t$L__BB0_1;
\t.loc\t1 30 5
\tfma.rn.f32 \t%f1, %f2, %f3, %f4;
\tfma.rn.f32 \t%f5, %f1, %f3, %f4;
\tfma.rn.f32 \t%f6, %f5, %f3, %f4;
\tsub.s32 \t%r6, %r3, %r5;
\t.loc\t1 31 5
\tret;
}
\t.file\t1 "kernel.cuh"
\t.file\t2 "barrier.cuh"
"""


def code(text: str = TEXT) -> PtxCode:
    """The text's entry."""
    return PtxCode(text, "small")


def line(opcode: str, text: str = TEXT) -> CodeLine:
    """The first instruction whose opcode begins so."""
    return next(line for line in code(text).code if line.opcode.startswith(opcode))
