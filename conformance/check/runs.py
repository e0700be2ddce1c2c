"""Many runs in a fixed order; the outcome does not depend on the number of processes."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterator, MutableSequence, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.cases import AnyCase

Run = tuple[AnyCase, Schedule]
Again = Callable[[int], bool]  # of a run's number: whether it is launched again under another schedule

# Of a worker: inherited by fork, since builds and drivers do not pickle.
_under_tests: Sequence[KernelUnderTest] = ()
_over: MutableSequence[int] = []  # by kernel under test: 1 when nobody waits for its runs any more


def judged_runs(
    under_test: KernelUnderTest, runs: Sequence[Run], jobs: int = 1, again: Again = lambda number: True
) -> Generator[JudgedRun]:
    """Each run judged, in order, without causes. With `jobs` > 1 later runs run ahead; closing the iterator
    ends them.
    """
    with Ahead([under_test], lambda _: (runs, again), jobs) as ahead:
        yield from ahead.judged_runs(under_test)


def _in_turn(under_test: KernelUnderTest, runs: Sequence[Run], again: Again) -> Generator[JudgedRun]:
    """The runs, computed on request."""
    with settled() as settle:
        for number, (case, schedule) in enumerate(runs):
            yield run_case(under_test, case, schedule, explain=False, again=again(number))
            if number == 0:
                settle()


class Ahead:
    """Processes that run the cases of several kernels under test, one after the other, so that none waits
    while the last case of another kernel is under way. They start with the first question; with `jobs` 1
    there are none.

    `plan` gives the runs of one, and which of them are launched again.
    """

    def __init__(
        self,
        under_tests: Sequence[KernelUnderTest],
        plan: Callable[[KernelUnderTest], tuple[Sequence[Run], Again]],
        jobs: int,
    ) -> None:
        self._under_tests, self._plan, self._jobs = under_tests, plan, jobs
        self._pool: ProcessPoolExecutor | None = None
        self._results: list[Iterator[JudgedRun]] = []
        self._over: MutableSequence[int] = []

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            from tileproof.emulator.forked import end  # a card needs no engine

            end(self._pool)

    def judged_runs(self, under_test: KernelUnderTest) -> Generator[JudgedRun]:
        """The runs of a kernel, in order, without causes; closing the iterator drops the rest."""
        if self._jobs <= 1:
            yield from _in_turn(under_test, *self._plan(under_test))
            return
        if self._pool is None:
            self._start()
        number = next(n for n, candidate in enumerate(self._under_tests) if candidate is under_test)
        try:
            yield from self._results[number]
        except BrokenProcessPool:
            raise TileproofError(
                "a process that runs cases ended without an answer",
                where=under_test.kernel.title(under_test.variant),
                found="it was killed, or the kernel's own code ended it",
                do="run it again with --jobs 1 to find the cause",
            ) from None
        finally:
            self._over[number] = 1

    def _start(self) -> None:
        global _under_tests, _over
        planned = [self._plan(under_test) for under_test in self._under_tests]
        for under_test in self._under_tests:
            if under_test.probe is not None:
                under_test.probe()  # once, and not once per worker
        context = multiprocessing.get_context("fork")
        self._over = context.Array("b", len(planned), lock=False)
        _under_tests, _over = self._under_tests, self._over
        self._pool = ProcessPoolExecutor(self._jobs, context, _ignore_interrupts)
        from tileproof.emulator.forked import in_order

        self._results = [
            in_order(self._pool, _one, [(number, run, again(n)) for n, run in enumerate(runs)])
            for number, (runs, again) in enumerate(planned)
        ]


@contextmanager
def settled() -> Iterator[Callable[[], None]]:
    """From the call of the yielded function to the end, the garbage collector ignores the objects that exist
    then: modules and decoded kernels, many small objects that no example drops. If the caller has frozen
    objects before, nothing changes, because thawing is all or nothing.
    """
    if gc.get_freeze_count():
        yield lambda: None
        return
    try:
        yield gc.freeze
    finally:
        gc.unfreeze()


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal: the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _one(given: tuple[int, Run, bool]) -> JudgedRun:
    number, run, again = given
    if _over[number]:
        return JudgedRun()  # which nobody reads
    return run_case(_under_tests[number], *run, explain=False, again=again)
