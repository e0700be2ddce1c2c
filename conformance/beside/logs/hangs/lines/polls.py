"""Results of polled waits, such as `-> 0` and `-> 1`: a failure begins a wait, a success ends it."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.rows import Rows, verbs_of

PAIRED = 0.5  # of the successes come behind a failure with the same words
_RESULT = re.compile(
    r"(?P<sign>\s*(?:->|=>|\u2192|\breturn(?:s|ed)?\b|\b(?:ok|ret|result|res|success|done|ready|got)\s*[=:])\W{0,4})"
    r"(?P<result>0|1|true|false|yes|no)\b(?P<rest>[\s,;()].*|\W*)$",
    re.IGNORECASE,
)
_TRUE = {"1", "true", "yes"}


def with_results(lines: Rows) -> Rows:
    """Polls by their result: the row of a success ends its wait; of repeated failures the first is kept."""
    found = [_poll(text) for _, text in lines]
    failed: set[str] = set()
    ends = paired = fails = 0
    for poll in found:
        if poll is not None and poll[1]:
            ends += 1
            paired += poll[0] in failed
            failed.discard(poll[0])
        elif poll is not None:
            fails += 1
            failed.add(poll[0])
    if ends < 2 or fails < 2 or paired < PAIRED * ends:
        return lines
    out: Rows = []
    failed.clear()
    for (number, text), poll in zip(lines, found, strict=True):
        if poll is None:
            out.append((number, text))
        elif poll[1]:
            out.append((number, f"{poll[0]} done"))
            failed.discard(poll[0])
        elif poll[0] not in failed:
            out.append((number, poll[0]))
            failed.add(poll[0])
    return out


def _poll(text: str) -> tuple[str, bool] | None:
    """The words of a row in front of its result, and whether it is a success; None for other rows."""
    result = _RESULT.search(text)
    if result is None:
        return None
    before = text[: result.start()].rstrip(" ,;")
    return (before, result["result"].lower() in _TRUE) if "wait" in verbs_of(before) else None
