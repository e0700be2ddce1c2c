"""Outputs that a launch leaves unwritten, whole or in part."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import LaunchError, RunResult, Schedule

from tests.kit.ptx import POLICIES, Memory, clean, run

STORE = "mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %t;"


def launched(body: str, schedule: Schedule) -> RunResult:
    memory = Memory()
    out, other = memory.empty(32, np.uint32), memory.empty(4, np.uint32)
    return run(body, [out, other], memory=memory, outputs=[out], schedule=schedule)


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_an_output_written_whole_is_clean_and_others_are_not_asked_about(schedule: Schedule) -> None:
    clean(launched(STORE, schedule))


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
@pytest.mark.parametrize(
    ("body", "left", "first"),
    [
        ("", 128, 0),
        (f"setp.eq.u32 %p0, %t, 5; @%p0 exit; {STORE}", 4, 20),
        ("st.global.u8 [%a0], 1;", 127, 1),
    ],
)
def test_what_is_left_is_reported(body: str, left: int, first: int, schedule: Schedule) -> None:
    (finding,) = launched(body, schedule).errors
    assert finding.code == "output-unwritten"
    assert f"{left} of 128 bytes, the first at offset {first}" in finding.message


def test_a_launch_that_stops_is_not_asked() -> None:
    assert [f.code for f in launched("trap;", Schedule()).errors] == ["trap"]


def test_an_initialised_buffer_is_no_output() -> None:
    memory = Memory()
    with pytest.raises(LaunchError, match="starts initialised"):
        run("", [], memory=memory, outputs=[memory.buffer(np.zeros(4, np.uint32))])
