"""Times under a label that may stand for threads: `"t":1037` that rises from row to row is a clock."""

from __future__ import annotations

import re
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.general.lexicon import field
from tileproof.conformance.beside.logs.hangs.general.rows import Rows

ROWS = 8  # with the label, at least
RISES = 0.9  # of the rows have a higher number than the row before: threads take turns
_LABELLED = re.compile(
    r"(?<![\w.])(?P<quote>[\"']?)(?P<label>[^\W\d]\w*)(?P=quote)\s*[=:]\s*(?P<value>\d+)(?![\w.])"
)


def without_clocks(lines: Rows) -> Rows:
    """The rows without numbers that rise under a label of threads or warps."""
    values: dict[str, list[int]] = {}
    for _, text in lines:
        for each in _LABELLED.finditer(text):
            if field(each["label"]) in ("thread", "warp"):
                values.setdefault(each["label"], []).append(int(each["value"]))
    clocks = [label for label, some in values.items() if _is_clock(some, len(lines))]
    if not clocks:
        return lines
    known = "|".join(map(re.escape, clocks))
    clock = re.compile(rf"(?<![\w.])([\"']?)(?:{known})\1\s*[=:]\s*\d+(?![\w.])\s*,?")
    return [(number, clock.sub("", text)) for number, text in lines]


def _is_clock(values: list[int], rows: int) -> bool:
    rises = sum(then > at for at, then in pairwise(values))
    return len(values) >= max(ROWS, rows / 2) and rises >= RISES * (len(values) - 1)
