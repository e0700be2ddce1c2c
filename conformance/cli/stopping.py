"""Interruptions of a run: SIGTERM, a time limit, and a closed pipe."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from tileproof.conformance.check.stopped import Stopped

INTERRUPTS = (KeyboardInterrupt, Stopped)
INCOMPLETE = 3  # the exit code of what was interrupted and is no defect so far


def this_command(*more: str, without: Sequence[str] = ()) -> str:
    """The command that runs, with more options, and without those options of its own that have a value."""
    words: list[str] = []
    skipping = False
    for word in sys.argv[1:]:
        name = word.partition("=")[0]
        if skipping or name in without:
            skipping = not skipping and name == word
        else:
            words.append(word)
    return shlex.join(["tileproof", *words, *more])


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on SIGTERM, so that results so far are reported; a second SIGTERM ends the process."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Stopped

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: signals are its caller's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def ends_after(seconds: float | None) -> Iterator[None]:
    """Raise `Stopped` in the body after this number of seconds; None for no limit."""
    if seconds is None:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    # Repeat every second: an exception raised by a handler inside a finaliser is lost.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def closed_pipe_is_fine() -> Iterator[None]:
    """Ignore a closed standard output; the exit code still gives the result."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the first into the second
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
