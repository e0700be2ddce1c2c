"""A launch that goes on: a time limit ends it with a finding, Ctrl-C with KeyboardInterrupt."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tileproof.emulator import LaunchError, Schedule

from tests.kit.paths import ROOT
from tests.kit.ptx import Memory, clean, line_of, only, run

ENDLESS = "L: st.global.u32 [%a0], %r1;\nadd.u32 %r1, %r1, 1;\nbra.uni L;"
SHORT = """mov.u32 %r1, 0;
L: st.global.u32 [%a0], %r1;
add.u32 %r1, %r1, 1;
setp.lt.u32 %p1, %r1, 3000;
@%p1 bra L;"""


def launched(body: str, seconds: float, policy: str = "early"):  # type: ignore[no-untyped-def]
    memory = Memory()
    return run(
        body, [memory.buffer(np.zeros(1, np.uint32))], memory=memory, threads=64, seconds_limit=seconds,
        schedule=Schedule(policy),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["early", "late", "random"])
def test_the_time_limit_stops_an_endless_loop_that_stores(policy: str) -> None:
    began = time.monotonic()
    finding = only(launched(ENDLESS, 0.2, policy), "time-limit")
    assert time.monotonic() - began < 5
    assert (
        finding.machine.ptx_line == line_of(ENDLESS, "bra.uni L", [False])
        and "0.2 seconds" in finding.message
    )


def test_work_inside_the_limit_is_no_finding() -> None:
    clean(launched(SHORT, 60))
    clean(launched(SHORT, 0))


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(LaunchError):
        launched(SHORT, seconds)


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
from tests.emulator.test_interrupt import ENDLESS, launched
print("ready", flush=True)
try:
    launched(ENDLESS, 0 if sys.argv[1] == "endless" else 1.0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    launched("mov.u32 %r1, 0;", 0)  # the engine is as usable as before
    sys.exit(7)
print("ended", flush=True)
"""


@pytest.mark.parametrize("case", ["endless", "limited"])
def test_ctrl_c_ends_a_launch(case: str) -> None:
    """The twin without the signal ends by its limit."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, case], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert child.stdout and child.stdout.readline() == "ready\n"
        if case == "endless":
            time.sleep(0.7)
            assert child.poll() is None
            child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        assert (child.returncode, out) == ((7, "interrupted\n") if case == "endless" else (0, "ended\n"))
    finally:
        child.kill()
