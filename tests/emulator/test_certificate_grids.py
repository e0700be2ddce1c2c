# ruff: noqa: E501 - PTX lines are kept whole
"""The certificate of launches that may overlap earlier launches (docs/certificate.md, Grids that overlap)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule, Stream

from tests.kit.grid_chains import certified, generated, launched, outcomes, stream_of
from tests.kit.ptx import ELECT, POLICIES, alloc, clean, dealloc, kernel_text, parsed

COVERS = "griddepcontrol"
WAIT, TRIGGER = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
OWN = "mad.wide.u32 %rd1, %t, 4, %a0;"
FILL = "st.global.u32 [%rd1], %t;"
COPY = "ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd1+128], %r2;"
OTHER = "st.global.u32 [%rd1+256], %t;"


def chain(*bodies: str, **how: Any) -> list[RunResult]:
    return stream_of([OWN + body for body in bodies], words=128, **how)[0]


def reasons(result: RunResult) -> list[str]:
    assert result.certificate is not None
    return [str(doubt) for doubt in result.certificate.doubts]


def why(result: RunResult, reason: str, *words: str) -> None:
    """The launch has no finding, and one reason, with these words."""
    clean(result)
    (text,) = reasons(result)
    assert text.startswith(reason + ": ") and all(word in text for word in words), text


RIGHT = {
    "the wait before the read": (TRIGGER + FILL, WAIT + COPY),
    "other bytes before the wait": (TRIGGER + FILL, OTHER + WAIT + COPY),
    "no wait, other bytes": (TRIGGER + FILL, OTHER),
    "no trigger": (FILL, COPY),
    "a thread waits, a barrier follows": (TRIGGER + FILL, f"{ELECT} @%p0 {WAIT} bar.sync 0; {COPY}"),
    "three grids, each waits": (TRIGGER + FILL, TRIGGER + WAIT + COPY, WAIT + COPY),
    "the trigger after the wait": (TRIGGER + FILL, WAIT + TRIGGER + OTHER, COPY),
    "no wait in the middle, other bytes": (
        TRIGGER + FILL,
        TRIGGER + OTHER,
        WAIT + "ld.global.u32 %r2, [%rd1+256];",
    ),
    "reductions of one kind": (TRIGGER + "red.global.add.u32 [%rd1], 1;", "red.global.add.u32 [%rd1], 2;"),
}


@pytest.mark.parametrize("bodies", RIGHT.values(), ids=RIGHT)
def test_launches_that_share_nothing_before_the_wait_are_certified(bodies: tuple[str, ...]) -> None:
    results = chain(*bodies)
    assert certified(results), [reasons(result) for result in results]


WRONG = {
    "no wait": (TRIGGER + FILL, COPY),
    "the wait after the read": (TRIGGER + FILL, COPY + WAIT),
    "a write over what the earlier grid reads": (TRIGGER + COPY, FILL + WAIT),
    "a thread waits, no barrier follows": (TRIGGER + FILL, f"{ELECT} @%p0 {WAIT} {COPY}"),
    "three grids, the middle one never waits": (TRIGGER + FILL, TRIGGER + OTHER, WAIT + COPY),
    "the trigger before the wait": (TRIGGER + FILL, TRIGGER + WAIT + OTHER, COPY),
}


@pytest.mark.parametrize("bodies", WRONG.values(), ids=WRONG)
def test_a_conflict_that_no_wait_orders_is_a_race_and_a_reason(bodies: tuple[str, ...]) -> None:
    *before, last = chain(*bodies)
    assert certified(before)
    assert {found.code for found in last.errors} == {"race-grids"}
    assert any(text.startswith("open: race-grids") for text in reasons(last))


ADD, MAX = "red.global.add.u32 [%a0], 1;", "red.global.max.u32 [%a0], 1;"
SWAP = "atom.global.exch.b32 %r1, [%rd1], 7;"


@pytest.mark.parametrize(
    ("first", "second"),
    [(ADD, MAX), (MAX, ADD), (SWAP, SWAP), (ADD, SWAP), (f"{ELECT} @%p0 {ADD} bar.sync 0; @%p0 {MAX}", ADD),
     (f"{ELECT} @%p0 {ADD} bar.sync 0; @%p0 {MAX}", MAX), (ADD, "atom.global.add.u32 %r1, [%a0], 1;")],
)  # fmt: skip
def test_atomics_whose_order_matters(first: str, second: str) -> None:
    """They do not race; of several kinds on a word, none commutes with all."""
    *before, last = chain(TRIGGER + first, f"{ELECT} @%p0 bra ON; exit; ON: {second}")
    assert certified(before), reasons(before[0])
    why(last, "order-decides", "of an earlier grid (k0)", "nothing orders them")
    assert certified(chain(TRIGGER + first, f"{ELECT} @%p0 bra ON; exit; ON: {WAIT} {second}"))


def test_an_earlier_grid_that_is_not_certified() -> None:
    """Its accesses may be others in another schedule; a grid that has ended is a matter of its own."""
    clock = "mov.u32 %r1, %clock;"
    first, second = chain(TRIGGER + clock, OTHER)
    assert not first.certified
    why(second, "unsupported", "may still run is not certified: k0")
    assert chain(clock, OTHER)[1].certified
    third = chain(TRIGGER + clock, TRIGGER + OTHER, FILL)[2]
    assert len(reasons(third)) == 2
    memory = Memory()
    words = memory.buffer(np.zeros(128, np.uint32), "words")
    stream = Stream(memory)
    for races in (False, True):
        module = parsed(kernel_text(OWN + TRIGGER + OTHER.replace("256", "0" if races else "256"), [False]))
        last = stream.launch(
            module, "k", programmatic=True, grid=(1,), block=(32,), args=[words], races=races
        )
    why(last, "unsupported", "may still run is not certified: k")


def test_an_earlier_grid_of_which_chosen_clusters_ran() -> None:
    memory = Memory()
    words = memory.buffer(np.zeros(128, np.uint32), "words")
    stream = Stream(memory)
    module = parsed(kernel_text(OWN + TRIGGER + "ld.global.u32 %r1, [%rd1];", [False]))
    results = [
        stream.launch(
            module, "k", programmatic=True, grid=(2,), block=(32,), args=[words], races=True, clusters=clusters
        )
        for clusters in ((0,), None)
    ]  # fmt: skip
    assert certified(results)
    assert [result.certificate is not None and result.certificate.part for result in results] == [True, True]


SMALL, LARGE = {"shared_bytes": 0x1000, "threads": 32}, {"shared_bytes": 120 << 10, "threads": 32}
ALLOCATE, FREE = alloc(64), dealloc(64)


class TestColumns:
    """A CTA of the later grid holds columns and waits for a grid whose CTA waits for columns."""

    def test_the_allocation_before_the_trigger_or_after_the_wait(self) -> None:
        for first, second in (
            (ALLOCATE + TRIGGER + FREE, ALLOCATE + WAIT + FREE),
            (TRIGGER + ALLOCATE + FREE, WAIT + ALLOCATE + FREE),
            (ALLOCATE + FREE, ALLOCATE + WAIT + FREE),
        ):
            results = chain(first, second, **SMALL)
            assert certified(results), [reasons(result) for result in results]

    def test_the_allocation_after_the_trigger(self) -> None:
        late = TRIGGER + ALLOCATE + FREE
        first, second = chain(late, ALLOCATE + WAIT + FREE, **SMALL)
        assert first.certified
        why(
            second, "open", "tcgen05.alloc before griddepcontrol.wait", "k0 allocates after launch_dependents"
        )
        # The grid between them is not the grid that allocates late.
        *_, third = chain(late, TRIGGER + WAIT + OTHER, ALLOCATE + WAIT + FREE, **SMALL)
        why(third, "open", "k0 allocates after launch_dependents")
        *_, third = chain(late, WAIT + TRIGGER + OTHER, ALLOCATE + WAIT + FREE, **SMALL)
        assert third.certified

    @pytest.mark.parametrize("schedule", POLICIES, ids=str)
    def test_nothing_orders_the_allocation_and_the_trigger(self, schedule: Schedule) -> None:
        """Warp 1 triggers while warp 0 allocates."""
        how = {**SMALL, "threads": 64, "schedule": schedule}
        apart = "shr.u32 %r9, %t, 5; setp.eq.u32 %p6, %r9, 1;"
        first, second = chain(f"{apart} @%p6 {TRIGGER} {ALLOCATE} {FREE}", ALLOCATE + WAIT + FREE, **how)
        assert first.certified, reasons(first)
        why(second, "open", "k0 allocates after launch_dependents")
        assert certified(chain(f"{apart} {ALLOCATE} @%p6 {TRIGGER} {FREE}", ALLOCATE + WAIT + FREE, **how))

    def test_ctas_that_do_not_fit_beside_each_other(self) -> None:
        assert certified(chain(TRIGGER + ALLOCATE + FREE, ALLOCATE + WAIT + FREE, **LARGE))

    def test_a_schedule_without_other_kernels(self) -> None:
        """`alone` excludes other kernels' columns, but not columns of the grid that may still run."""
        constant = ALLOCATE + "setp.ne.u32 %p6, %r100, 0; @%p6 trap;" + FREE
        how = {**SMALL, "schedule": Schedule.parse("early:alone=1")}
        first, second = chain(constant + TRIGGER, WAIT + constant, **how)
        assert first.certified, reasons(first)
        assert "setp.ne.u32" in reasons(second)[0]
        *_, third = chain(TRIGGER + constant, TRIGGER + OTHER, ALLOCATE + FREE, **how)
        why(third, "order-decides", "tcgen05.alloc beside k0")


class TestStreams:
    """Launches of two streams that no event orders."""

    @staticmethod
    def beside(first: str, *second: str, **how: Any) -> list[RunResult]:
        """Launch `first` in a stream, the others in another stream, unordered with it."""
        memory = Memory()
        words = memory.buffer(np.zeros(128, np.uint32), "words")
        stream, other = Stream(memory), Stream(memory)
        options = {"grid": (1,), "block": (32,), "args": [words], "races": True, **how}
        results = [
            stream.launch(parsed(kernel_text(OWN + first, [False])), "k", where="the first", **options)
        ]
        assert stream.last is not None
        for number, body in enumerate(second):
            module = parsed(kernel_text(OWN + body, [False]))
            results.append(
                other.launch(
                    module, "k", programmatic=number > 0, unordered=[stream.last], where="a later", **options
                )
            )
        return results

    def test_launches_that_share_nothing_are_certified(self) -> None:
        assert certified(self.beside(FILL, OTHER))
        assert certified(self.beside(FILL, TRIGGER + OTHER, WAIT + "ld.global.u32 %r1, [%rd1+256];"))
        assert certified(self.beside(ADD, ADD))

    def test_no_wait_orders_launches_of_two_streams(self) -> None:
        *_, last = self.beside(FILL, WAIT + COPY)
        assert {found.code for found in last.errors} == {"race-launches"} and not last.certified
        *_, last = self.beside(MAX, WAIT + f"{ELECT} @%p0 bra ON; exit; ON: {ADD}")
        why(last, "order-decides", "nothing orders them")

    def test_the_earlier_launch_is_not_certified(self) -> None:
        *_, last = self.beside("mov.u32 %r1, %clock;", OTHER)
        why(last, "unsupported", "may still run is not certified: the first")

    def test_columns_of_a_third_grid(self) -> None:
        """Two CTAs that do not fit beside each other: a CTA of another stream may fit beside both."""
        how = {"shared_bytes": 120 << 10}
        late, early = TRIGGER + ALLOCATE + FREE, ALLOCATE + WAIT + FREE
        *_, last = self.beside("mov.u32 %r1, 0;", late, early, **how)
        why(last, "open", "allocates after launch_dependents")


@pytest.mark.parametrize("seed", range(4))
def test_certified_chains_agree_in_all_interleavings(seed: int) -> None:
    """Each rule alone refutes some chain that does not agree."""
    draw = random.Random(seed)
    certified_chains, refuted = 0, set[frozenset[str]]()
    for _ in range(150):
        grids = generated(draw)
        reasons, words = launched(grids)
        ends = outcomes(grids)
        assert ends is not None
        if not reasons:
            assert ends == {words}, (grids, ends, words)
            certified_chains += 1
        elif len(ends) > 1:
            refuted.add(reasons)
    assert certified_chains > 50
    assert {frozenset(["race-grids"]), frozenset(["grids exchange"])} <= refuted
