"""setmaxnreg moves registers between the warps of a CTA: counts, waits, and the hang when they never come."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import (
    LaunchError,
    Memory,
    Module,
    PtxError,
    RunResult,
    Schedule,
    UnsupportedInstruction,
)
from tileproof.emulator.registers import largest_request, launch_registers

from tests.kit.ptx import REGISTERS, clean, only

COVERS = "setmaxnreg"

BOUNDS = ".maxntid 384, 1, 1 .minnctapersm 1"


def run(first: str, rest: str, bounds: str = BOUNDS, schedule: Schedule | None = None) -> RunResult:
    """384 threads; warps 0-3 run `first`, the others `rest`, then each writes its number."""
    text = f""".version 8.8
    .target sm_100a
    .address_size 64
    .visible .entry k(.param .u64 out) {bounds}
    {{ {REGISTERS}
    mov.u32 %t, %tid.x; ld.param.u64 %a0, [out]; mad.wide.u32 %rd1, %t, 4, %a0;
    setp.lt.u32 %p1, %t, 128; @%p1 bra FIRST;
    {rest}
    bra MEET;
    FIRST: {first}
    MEET: bar.sync 0; st.global.u32 [%rd1], %t; ret; }}"""
    memory = Memory()
    out = memory.empty(384, np.uint32)
    result = Module.from_ptx(text).launch(
        "k", grid=(1, 1, 1), block=(384, 1, 1), schedule=schedule, args=[out], memory=memory
    )
    assert result.errors or (out.numpy() == np.arange(384)).all()
    return result


def dec(count: int) -> str:
    return f"setmaxnreg.dec.sync.aligned.u32 {count};"


def inc(count: int) -> str:
    return f"setmaxnreg.inc.sync.aligned.u32 {count};"


@pytest.mark.parametrize(
    "schedule", [Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("starve", 2)]
)
def test_registers_move(schedule: Schedule) -> None:
    # 168 registers per thread: 3 * 168 = 40 + 2 * 232.
    clean(run(dec(40), inc(232), schedule=schedule))
    clean(run(dec(24) + inc(40), inc(232), schedule=schedule))
    found = only(run(dec(40), inc(240), schedule=schedule), "hang")
    assert found.machine.root is not None and found.machine.root.node.kind == "registers"
    assert "are wanted" in found.machine.root.message and "no warp that still runs" in "\n".join(
        found.machine.root.evidence
    )


def test_a_warp_that_may_still_give_is_not_blamed() -> None:
    """The givers wait for a barrier that the takers never reach: that is the cause, not the pool."""
    found = only(run(f"bar.sync 1, 384; {dec(40)}", inc(232)), "hang")
    assert found.machine.root is not None and found.machine.root.node.kind == "named barrier"


def test_counts_of_the_wrong_way() -> None:
    assert "has 168" in only(run(inc(160), dec(40) + inc(232)), "setmaxnreg-count").message
    assert "setmaxnreg.dec to 176" in only(run(dec(176), ""), "setmaxnreg-count").message


def test_a_kernel_begins_with_no_more_than_its_warps_ask_for() -> None:
    """Of 384 threads each could have 168; ptxas launches with 160 or 104 where no .inc asks for more."""
    clean(run(inc(160), dec(40)))
    clean(run(dec(24), inc(104)))
    assert "has 104" in only(run(dec(112), inc(104)), "setmaxnreg-count").message


def test_without_a_fixed_count_it_does_nothing() -> None:
    """ptxas then leaves the instruction out (its note C7508)."""
    clean(run("", inc(240), bounds=".maxntid 384, 1, 1"))
    clean(run("", inc(240), bounds=""))
    only(run("", inc(240), bounds=".maxnreg 168"), "hang")


@pytest.mark.parametrize("count", ["41", "16", "264", "%r1"])
def test_illegal_counts_are_refused(count: str) -> None:
    with pytest.raises((UnsupportedInstruction, PtxError)):
        run(f"setmaxnreg.dec.sync.aligned.u32 {count};", "")


def test_registers_of_a_launch() -> None:
    assert launch_registers({}, 384) == 0
    assert launch_registers({"maxntid": (384, 1, 1)}, 384) == 0
    assert launch_registers({"maxntid": (384, 1, 1), "minnctapersm": (1,)}, 384) == 168
    assert launch_registers({"reqntid": (128,), "minnctapersm": (2,)}, 128) == 256
    assert launch_registers({"maxnreg": (100,)}, 384) == 104
    assert launch_registers({"maxntid": (256,), "minnctapersm": (1,)}, 256, asked=240) == 240
    assert launch_registers({"maxntid": (384,), "minnctapersm": (1,)}, 384, asked=240) == 168
    assert (
        largest_request("setmaxnreg.inc.sync.aligned.u32 \t104; setmaxnreg.dec.sync.aligned.u32 200;") == 104
    )
    with pytest.raises(LaunchError, match="more registers"):
        launch_registers({"maxnreg": (200,)}, 384)
