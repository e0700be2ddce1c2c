"""Ends of a run that are not its own: SIGTERM, and a reader that has closed the pipe."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from tileproof.conformance.check.property import Stopped


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM raises `Stopped` inside, so that what is known is told; twice, and the process ends."""

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
    """Raises `Stopped` inside when so many seconds have passed; None for no limit."""
    if seconds is None:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    # Again each second: what a handler raises in a finaliser is lost.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def closed_pipe_is_fine() -> Iterator[None]:
    """Whoever reads standard output may have gone: the exit code still says what was found."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the first into the second
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
