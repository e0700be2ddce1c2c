"""Many trials in one order, on one process or several, with the same outcome."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence

from tileproof.conformance.check.run import KernelUnderTest, RunVerdict, run_case
from tileproof.conformance.drivers.capture import Schedule
from tileproof.spec.problems.cases import AnyCase

Trial = tuple[AnyCase, Schedule]
Again = Callable[[int], bool]  # of a trial's number: whether it is launched again under another schedule

_subject: KernelUnderTest | None = (
    None  # of a worker: inherited by fork, since builds and drivers do not pickle
)


def verdicts(
    subject: KernelUnderTest, trials: Sequence[Trial], jobs: int = 1, again: Again = lambda number: True
) -> Iterator[RunVerdict]:
    """The verdict of each trial, in order, without causes. With `jobs` > 1 later trials run ahead; closing
    the iterator ends them.
    """
    if jobs <= 1 or len(trials) <= 1:
        for number, (case, schedule) in enumerate(trials):
            yield run_case(subject, case, schedule, explain=False, again=again(number))
        return
    global _subject
    _subject = subject
    if subject.probe is not None:
        subject.probe()  # once, and not once per worker
    with multiprocessing.get_context("fork").Pool(min(jobs, len(trials)), _ignore_interrupts) as pool:
        yield from pool.imap(_one, ((trial, again(number)) for number, trial in enumerate(trials)))


def _ignore_interrupts() -> None:
    """Ctrl-C goes to every process of the terminal: the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _one(given: tuple[Trial, bool]) -> RunVerdict:
    assert _subject is not None
    trial, again = given
    return run_case(_subject, *trial, explain=False, again=again)
