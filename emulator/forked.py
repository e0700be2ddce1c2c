"""Parallel work in forked processes, which share the decoded programs of the parent."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from tileproof.spec.machine.errors import TileproofError

T = TypeVar("T")
R = TypeVar("R")
_work: list[Callable[..., object]] = []


def _worker(item: object) -> tuple[bool, Any]:
    try:
        return True, _work[-1](item)
    except (
        TileproofError
    ) as error:  # send its fields: the exception cannot be pickled, its constructor takes keywords only
        return False, error.as_dict()


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal: the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def forked(work: Callable[[T], R], items: Sequence[T], processes: int) -> Iterator[R]:
    """Yield `work(item)` for each item, in order. Runs in this process if `processes` is 1 or fork is not
    available.

    Re-raises a TileproofError of `work`. The return values of `work` must be picklable.
    """
    processes = min(processes, len(items))
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, items)
        return
    _work.append(work)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _ignore_interrupts)
    try:
        pieces = max(1, min(8, len(items) // (4 * processes)))
        for fine, value in in_order(pool, _worker, items, pieces):
            if not fine:
                raise TileproofError(value.pop("what"), **value)
            yield value
    except BrokenProcessPool:
        raise TileproofError(
            "a process that ran launches ended without an answer", found="it crashed, or was killed"
        ) from None
    finally:
        end(pool)
        _work.pop()


def in_order(
    pool: ProcessPoolExecutor, work: Callable[[T], R], items: Sequence[T], size: int = 1
) -> Iterator[R]:
    """The results of `work`, which begins now, in the order of the items, `size` items at a time.

    The pool's `map` would cancel unawaited work, which its thread does not expect of an ended pool.
    """
    pieces = [items[first : first + size] for first in range(0, len(items), size)]
    waiting = deque(pool.submit(_piece, work, piece) for piece in pieces)

    def results() -> Iterator[R]:
        while waiting:
            yield from waiting.popleft().result()

    return results()


def _piece(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [work(item) for item in items]


def end(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's processes, whatever they do."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=False)
