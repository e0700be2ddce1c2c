"""The path of each warp through the PTX, diverged lanes included."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.conformance.beside.timing.path import Run, paths
from tileproof.emulator import Memory, Module
from tileproof.emulator.trace import Trace
from tileproof.spec.machine.errors import TileproofError

# Lanes below 8 run instructions 4 and 5, the others 7; then a loop of three rounds from 9 to 11.
PTX = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry kernel(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 8;
    mov.u32 %r2, 0;
    @!%p1 bra OTHERS;
    add.u32 %r2, %r2, 1;
    add.u32 %r2, %r2, 2;
    bra MEET;
OTHERS:
    add.u32 %r2, %r2, 3;
MEET:
    mov.u32 %r3, 0;
LOOP:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 3;
    @%p2 bra LOOP;
    ret;
}
"""
ALL, FEW, MANY = 0xFFFFFFFF, 0x000000FF, 0xFFFFFF00


def traced(trace_limit: int = 1000) -> tuple[Trace, list[int], int]:
    """The trace of one warp, each instruction's target, and how many there are."""
    module = Module.from_ptx(PTX)
    out = Memory().buffer(np.zeros(1, np.uint64))
    result = module.launch(
        "kernel", grid=(1,), block=(32,), args=[out], trace=True, path=True, trace_limit=trace_limit
    )
    assert result.trace is not None
    code = module.decode("kernel").code
    return result.trace, code["target"].tolist(), len(code)


def test_diverged_lanes_run_alone_and_meet_again() -> None:
    runs = paths(*traced())[(0, 0, 0, 0)]
    found = [(run.first, run.last, run.lanes) for run in runs]
    assert found[0] == (0, 3, ALL)
    assert {(4, 6, FEW), (7, 7, MANY)} < set(found)
    assert found[-4:] == [(8, 11, ALL), (9, 11, ALL), (9, 11, ALL), (12, 12, ALL)]
    counted = sum((run.last - run.first + 1) for run in runs)
    assert counted == 4 + 3 + 1 + 4 + 3 + 3 + 1


def test_without_path_there_are_no_branches() -> None:
    module = Module.from_ptx(PTX)
    out = Memory().buffer(np.zeros(1, np.uint64))
    result = module.launch("kernel", grid=(1,), block=(32,), args=[out], trace=True)
    assert result.trace is not None and not [event for event in result.trace if event.kind == "branch"]


def test_a_trace_with_a_hole_is_refused() -> None:
    with pytest.raises(TileproofError, match="does not cover the whole run"):
        paths(*traced(trace_limit=2))


def test_a_run_is_of_instructions_in_order() -> None:
    for run in paths(*traced())[(0, 0, 0, 0)]:
        assert isinstance(run, Run) and run.first <= run.last and run.lanes
