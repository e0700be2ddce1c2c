"""Calls of pipelines, which have both sides under a name: `k_pipe.producer_acquire` waits on `k_empty`."""

from __future__ import annotations

import re
from collections import defaultdict

from tileproof.conformance.beside.logs.hangs.general.rows import Rows

_CALL = re.compile(
    r"(?<![\w.])(?P<name>[^\W\d]\w*)(?:\.|->)(?P<call>(?P<side>producer|consumer)_\w+|[^\W\d]\w*)(?=\s*\()"
)
_AFFIX = re.compile(r"^(?:pipeline|pipe)_+|_*(?:pipeline|pipe)$", re.IGNORECASE)
_EMPTY = {"producer_acquire", "producer_try_acquire", "producer_tail", "consumer_release"}
_WAITS = {"acquire", "wait", "tail"}


def with_sides(lines: Rows) -> Rows:
    """The rows with the barriers of pipelines: `wait k_empty (stage=0)`, `tma_load k_full (stage=0)`."""
    sides: dict[str, set[bool]] = defaultdict(set)
    for _, text in lines:
        if "producer_" in text or "consumer_" in text:
            for found in _CALL.finditer(text):
                if found["side"]:
                    sides[found["name"]].add(found["call"] in _EMPTY)
    if not any(len(some) == 2 for some in sides.values()):  # each barrier has a name of its own
        return lines

    def barrier(found: re.Match[str]) -> str:
        if found["name"] not in sides:
            return found[0]
        call = found["call"]
        parts = call.removeprefix(f"{found['side']}_").split("_") if found["side"] else [call]
        said = (
            "wait" if {*parts} & _WAITS else "arrive" if {*parts} & {"release", "commit"} else "_".join(parts)
        )
        if "expect" in parts:
            said = "arrive_expect_tx"
        said = "" if "get" in parts else f"{said} "
        name = _AFFIX.sub("", found["name"]) or "pipeline"
        return f"{said}{name}_{'empty' if call in _EMPTY else 'full'} "

    return [(number, _CALL.sub(barrier, text)) for number, text in lines]
