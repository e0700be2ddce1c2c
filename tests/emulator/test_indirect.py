# ruff: noqa: E501 - PTX lines are kept whole
"""brx.idx with .branchtargets: each lane goes where its own index says, and an index outside the list is reported."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import Module, Schedule
from tileproof.spec.machine.errors import TileproofError

from tests.kit.ptx import POLICIES, outputs, run, store

COVERS = "brx"

TABLE = "LIST: .branchtargets A, B, C, B;"
CASES = f"A: add.u32 %r2, %t, 100; bra.uni OUT; B: add.u32 %r2, %t, 200; bra.uni OUT; C: add.u32 %r2, %t, 300; OUT: activemask.b32 %r3; setp.ne.u32 %p1, %r3, -1; @%p1 trap; {store('%r2')}"
STEP = np.array([100, 200, 300, 200])


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("before", [True, False], ids=["list first", "list last"])
@pytest.mark.parametrize("uni", ["", ".uni"])
def test_each_lane_by_its_index(schedule: Schedule, before: bool, uni: str) -> None:
    """The lanes meet again behind the cases."""
    shift = 3 if uni else 0  # with .uni all lanes have one index
    index = "and.b32 %r1, %t, 3;" if not uni else "mov.u32 %r1, 2;"
    branch = f"{index} brx.idx{uni} %r1, LIST;"
    body = TABLE + branch + CASES if before else branch + CASES + TABLE
    t = np.arange(32)
    want = t + (300 if shift else STEP[t & 3])
    assert outputs(body, schedule=schedule).tolist() == want.tolist()


@pytest.mark.parametrize(("guard", "taken"), [("@%p2", True), ("@!%p2", False)])
def test_a_guard_keeps_lanes_from_branching(guard: str, taken: bool) -> None:
    body = f"{TABLE} setp.lt.u32 %p2, %t, 10; and.b32 %r1, %t, 3; mov.u32 %r2, 7; {guard} brx.idx %r1, LIST; bra.uni OUT; {CASES}"
    t = np.arange(32)
    want = np.where((t < 10) == taken, t + STEP[t & 3], 7)
    assert outputs(body).tolist() == want.tolist()


def test_a_list_in_a_block_with_its_own_labels() -> None:
    body = f"""
    mov.u32 %r2, 0; mov.u32 %r9, 0;
    AGAIN: {{ LIST: .branchtargets A, B; and.b32 %r1, %r9, 1; brx.idx %r1, LIST; A: add.u32 %r2, %r2, 1; bra OUT; B: add.u32 %r2, %r2, 16; OUT: }}
    add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 5; @%p1 bra AGAIN; {store("%r2")}"""
    assert outputs(body).tolist() == [3 + 32] * 32


@pytest.mark.parametrize("index", ["4", "0xffffffff"])
def test_an_index_outside_the_list(index: str) -> None:
    result = run(f"{TABLE} mov.u32 %r1, {index}; brx.idx %r1, LIST; {CASES}")
    (error,) = result.errors
    assert error.code == "branch-index"
    assert f"index {int(index, 0)}" in error.message
    assert "4 targets" in error.message


def test_the_last_index_of_the_list_is_inside() -> None:
    assert outputs(f"{TABLE} mov.u32 %r1, 3; brx.idx %r1, LIST; {CASES}").tolist() == [
        t + 200 for t in range(32)
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("brx.idx %r1, NONE; ret;", "branchtargets list"),
        (".branchtargets A, B; A: B: ret;", "no label"),
        ("L: .branchtargets A, B; brx.idx %r1, L; A: ret;", "'B' is not defined"),
        ("L: .branchtargets A; brx %r1, L; A: ret;", "brx"),
    ],
)
def test_what_cannot_be_read(body: str, words: str) -> None:
    text = (
        f".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<3>; {body} }}"
    )
    with pytest.raises(TileproofError, match=words):
        Module.from_ptx(text).decode("k")
