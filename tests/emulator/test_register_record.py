"""Results of chosen instructions are recorded at each execution, with their lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Memory, Module, RunResult

PTX = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .pred p; .reg .u32 r<6>; .reg .u64 x<4>; .reg .f32 f<3>;
 ld.param.u64 x1, [out]; mov.u32 r1, %tid.x; mov.u32 r2, %ctaid.x; mov.u32 r3, 0;
loop:
 add.u32 r3, r3, 1; mad.lo.u32 r4, r2, 1000, r3;
 setp.lt.u32 p, r1, 40;
 @p mul.lo.u32 r5, r4, r1;
 setp.lt.u32 p, r3, 3; @p bra loop;
 mad.lo.u32 r4, r2, 64, r1; mul.wide.u32 x2, r4, 4; add.u64 x1, x1, x2; st.global.u32 [x1], r5;
 ret;
}
"""


def launched(**how: Any) -> RunResult:
    memory = Memory()
    out = memory.empty((128,), np.uint32, "out")
    return Module.from_ptx(PTX).launch("k", memory=memory, grid=(2,), block=(64,), args=(out,), **how)


def number(name: str, ptx: str = PTX) -> int:
    decoded = Module.from_ptx(ptx).decode("k")
    names = [decoded.names[k] for k in decoded.code["name"]]
    return names.index(name)


def test_each_execution_is_recorded_with_cta_warp_lanes_and_values() -> None:
    at = number("mul.lo.u32")
    result = launched(registers=[at])
    record = result.registers[at]
    assert record.instruction == "mul.lo.u32" and record.values.shape == (12, 1, 32)
    places = list(zip(record.cta.tolist(), record.warp.tolist(), strict=True))
    assert {place: places.count(place) for place in places} == {
        (cta, warp): 3 for cta in range(2) for warp in range(2)
    }
    seen: dict[tuple[int, int], int] = {}
    for place, lanes, values in zip(places, record.lanes, record.values, strict=True):
        seen[place] = seen.get(place, 0) + 1
        threads = np.arange(32) + 32 * place[1]
        assert (lanes == (threads < 40)).all()
        assert (values[0][lanes] == ((1000 * place[0] + seen[place]) * threads)[lanes]).all()


def test_nothing_is_recorded_unless_asked_for() -> None:
    assert launched().registers == {}


def test_results_of_another_width_are_left_out() -> None:
    at = number("mul.wide.u32")
    record = launched(registers=[at]).registers[at]
    assert record.values.shape == (4, 0, 32)


@pytest.mark.parametrize("bad", [[-1], [10_000], ["mul"], 3])
def test_numbers_that_the_entry_does_not_have_are_refused(bad: object) -> None:
    with pytest.raises(LaunchError):
        launched(registers=bad)
