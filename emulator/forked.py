"""Work spread over forked processes, which share what the parent has decoded."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tileproof.spec.machine.errors import TileproofError

T = TypeVar("T")
R = TypeVar("R")
_work: list[Callable[[Any], Any]] = []


def _one(item: Any) -> tuple[bool, Any]:
    try:
        return True, _work[-1](item)
    except TileproofError as error:  # its parts travel; the exception itself is made from keywords only
        return False, error.as_dict()


def forked(work: Callable[[T], R], items: Sequence[T], processes: int) -> Iterator[R]:
    """`work` of each item, in their order. One process, or a system without fork: in this one.

    A TileproofError of `work` is raised here; what `work` returns must pickle.
    """
    processes = min(processes, len(items))
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, items)
        return
    _work.append(work)
    try:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for fine, value in pool.imap(
                _one, items, chunksize=max(1, min(8, len(items) // (4 * processes)))
            ):
                if not fine:
                    raise TileproofError(value.pop("what"), **value)
                yield value
    finally:
        _work.pop()
