"""Work in children: a signal whose exception Python drops is not lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from tileproof.conformance.processes.children import in_children


class Dropped:
    """Its finaliser is where the signal comes; Python drops what a finaliser raises."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


class Faulty:
    def __del__(self) -> None:
        raise ValueError


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A shell's background jobs begin with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_in_a_finaliser_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the other exception that Python drops is printed as ignored."""
    before, printed = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: printed.append(ignored.exc_type))
    done = []
    with pytest.raises(KeyboardInterrupt):
        for number, _ in in_children([lambda: 1] * 50, processes=1):
            done.append(number)
            if number == 2:
                Dropped()
                Faulty()
    assert printed == [ValueError]
    assert len(done) < 6
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_signal_all_work_is_done() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert sorted(number for number, _ in in_children([lambda: 1] * 5, processes=2)) == [0, 1, 2, 3, 4]
    assert signal.getsignal(signal.SIGINT) is before
