"""Barriers of threads under any name, by a number and a count of threads: `cute.arch.barrier(2, 256)`."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.rows import Rows

_HINT = re.compile(r"sync|barrier", re.IGNORECASE)
# A call that names threads or a barrier, with its number and a count of threads in either order.
_COUNTED = re.compile(
    r"(?<![\w.])(?P<call>(?:[^\W\d]\w*(?:\.|::))*[^\W\d]\w*)\s*[(<\[]\s*(?P<arguments>[^()<>\[\]]*?\d[^()<>\[\]]*)[)>\]]"
)
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WARP = 32  # threads: a count is a multiple of it
_BARRIERS = 16  # of a CTA


def with_syncs(lines: Rows) -> Rows:
    """The rows with `bar.sync` in place of such calls."""
    return [(number, _COUNTED.sub(_counted, text) if _HINT.search(text) else text) for number, text in lines]


def _counted(found: re.Match[str]) -> str:
    """`cute.arch.barrier(2, 256)`, `NamedBarrier(256, 2)` as `bar.sync(2,256)`."""
    parts = {part.lower() for part in _PARTS.findall(found["call"])}
    numbers = [int(number) for number in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", found["arguments"])]
    threads = [number for number in numbers if number and number % _WARP == 0]
    rest = [number for number in numbers if number not in threads]
    of_threads = "barrier" in parts or (
        "sync" in parts and parts & {"bar", "thread", "threads", "named", "group"}
    )
    if not of_threads or "mbarrier" in parts or len(threads) != 1 or len(rest) != 1 or rest[0] >= _BARRIERS:
        return found[0]
    arrives = "arrive" in parts and "wait" not in parts
    return f"{'bar.arrive' if arrives else 'bar.sync'}({rest[0]},{threads[0]})"
