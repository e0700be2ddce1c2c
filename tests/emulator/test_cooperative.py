"""Cooperative grids: `cooperative_groups::this_grid().sync()` as nvcc compiles it, and its workspace."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Memory, Module, RunResult, Schedule, UnsupportedInstruction

# The code of nvcc 13.0 for `sync()`: the workspace's address, then a barrier in it that counts CTAs.
WORKSPACE = """mov.u32 %r1, %envreg2; cvt.u64.u32 %rd2, %r1; mov.u32 %r2, %envreg1; cvt.u64.u32 %rd3, %r2;
shl.b64 %rd3, %rd3, 32; or.b64 %rd2, %rd3, %rd2;"""
SYNC = """setp.ne.s64 %p1, %rd2, 0; @%p1 bra VALID; trap; VALID: barrier.sync 0;
mov.u32 %r3, %tid.x; setp.ne.u32 %p2, %r3, 0; @%p2 bra DONE;
add.s64 %rd4, %rd2, 4; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %ctaid.x; setp.eq.u32 %p3, %r5, 0;
sub.s32 %r6, -2147483647, %r4; selp.b32 %r7, %r6, 1, %p3;
atom.add.release.gpu.u32 %r8, [%rd4], %r7;
SPIN: ld.acquire.gpu.u32 %r9, [%rd4]; xor.b32 %r10, %r9, %r8; setp.gt.s32 %p4, %r10, -1; @%p4 bra SPIN;
DONE: barrier.sync 0;"""
# Each thread stores its number, then reads that of a thread of the next CTA.
BODY = """.version 9.0 .target sm_100a .address_size 64
.visible .entry k(.param .u64 out) {{ .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
ld.param.u64 %rd1, [out]; {workspace}
mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x; mov.u32 %r22, %tid.x; mad.lo.u32 %r23, %r20, %r21, %r22;
mul.wide.u32 %rd10, %r23, 4; add.u64 %rd11, %rd1, %rd10; st.global.u32 [%rd11], %r23;
{sync}
mov.u32 %r24, %nctaid.x; mul.lo.u32 %r25, %r24, %r21; add.u32 %r26, %r23, %r21; rem.u32 %r26, %r26, %r25;
mul.wide.u32 %rd12, %r26, 4; add.u64 %rd13, %rd1, %rd12; ld.global.u32 %r27, [%rd13];
mul.wide.u32 %rd14, %r25, 4; add.u64 %rd15, %rd11, %rd14; st.global.u32 [%rd15], %r27; ret; }}
"""
CTAS, THREADS = 5, 64


def ran(sync: str = SYNC, workspace: str = WORKSPACE, **how: object) -> tuple[RunResult, np.ndarray]:
    """The result of a grid, and what it wrote."""
    memory = Memory()
    out = memory.buffer(np.zeros(2 * CTAS * THREADS, np.uint32))
    module = Module.from_ptx(BODY.format(sync=sync, workspace=workspace))
    shape = {"grid": (CTAS, 1, 1), "block": (THREADS, 1, 1)}
    result = module.launch("k", args=[out], memory=memory, races=True, **shape, **how)  # type: ignore[arg-type]
    if how.get("cooperative"):  # a workspace of its own for each launch
        again = module.launch("k", args=[out], memory=memory, **shape, **how)  # type: ignore[arg-type]
        assert not again.findings or result.findings
    return result, out.numpy()


@pytest.mark.parametrize("schedule", ["early", "late", "random:seed=7", "starve:seed=7"])
def test_a_grid_that_waits_for_all_its_ctas(schedule: str) -> None:
    result, out = ran(cooperative=True, resident=1, schedule=Schedule.parse(schedule))
    assert not result.findings
    numbers = np.arange(CTAS * THREADS)
    np.testing.assert_array_equal(out, np.concatenate([numbers, np.roll(numbers, -THREADS)]))


def test_a_grid_that_is_not_cooperative_has_no_workspace() -> None:
    """As on a card: `this_grid().sync()` of a plain launch ends in a trap."""
    assert [finding.code for finding in ran()[0].errors] == ["trap"]


def test_without_the_barrier_it_is_a_race() -> None:
    result, _ = ran(sync="barrier.sync 0;", cooperative=True)
    assert "race" in {finding.code.split("-")[0] for finding in result.errors}


def test_other_registers_of_the_driver_are_refused() -> None:
    with pytest.raises(UnsupportedInstruction, match="%envreg3 has a value that only the driver defines"):
        ran(workspace="mov.u32 %r1, %envreg3;", sync="")
