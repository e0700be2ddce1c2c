"""Many runs in one order, on one process or several, with the same outcome."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tileproof.conformance.check.run import KernelUnderTest, RunVerdict, run_case
from tileproof.conformance.drivers.result import RunSchedule
from tileproof.spec.problems.cases import AnyCase

Run = tuple[AnyCase, RunSchedule]
Again = Callable[[int], bool]  # of a run's number: whether it is launched again under another schedule

# Of a worker: inherited by fork, since builds and drivers do not pickle.
_under_test: KernelUnderTest | None = None


def verdicts(
    under_test: KernelUnderTest, runs: Sequence[Run], jobs: int = 1, again: Again = lambda number: True
) -> Iterator[RunVerdict]:
    """The verdict of each run, in order, without causes. With `jobs` > 1 later ones run ahead; closing
    the iterator ends them.
    """
    if jobs <= 1 or len(runs) <= 1:
        with settled() as settle:
            for number, (case, schedule) in enumerate(runs):
                yield run_case(under_test, case, schedule, explain=False, again=again(number))
                if number == 0:
                    settle()
        return
    global _under_test
    _under_test = under_test
    if under_test.probe is not None:
        under_test.probe()  # once, and not once per worker
    with multiprocessing.get_context("fork").Pool(min(jobs, len(runs)), _ignore_interrupts) as pool:
        yield from pool.imap(_one, ((run, again(number)) for number, run in enumerate(runs)))


@contextmanager
def settled() -> Iterator[Callable[[], None]]:
    """From the call of what it gives to its end the garbage collector leaves alone what was there by then:
    modules and decoded kernels, many small objects that no example drops.
    """
    try:
        yield gc.freeze
    finally:
        gc.unfreeze()


def _ignore_interrupts() -> None:
    """Ctrl-C goes to every process of the terminal: the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _one(given: tuple[Run, bool]) -> RunVerdict:
    assert _under_test is not None
    run, again = given
    return run_case(_under_test, *run, explain=False, again=again)
