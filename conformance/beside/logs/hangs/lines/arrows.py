"""Rows with the barrier in front of an arrow and the actor behind it: `full.1/c1 <- mma.0 sleeps`."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.rows import Rows

SHARE = 0.6  # of the rows have such an arrow
_CTAS = r"(?:c|cta|b|block)?\s?\d+(?:[,+&](?:c|cta|b|block)?\d+)*"
_ROW = re.compile(
    r"(?P<front>^(?:.*?\s)??)(?P<bar>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:(?:[.:#]|\[\s*)(?P<stage>\d+)\s*\]?|(?P<call>\([^()]*\)))?"
    rf"(?:\s*[/@]\s*(?P<at>{_CTAS}))?\s*(?:<[-=~]+|\u2190)\s*"
    r"(?P<role>[^\W\d][\w-]*?)\s*[.:@/]\s*(?:c|cta|b|block)?(?P<cta>\d+)\b\s*[:,]?\s*(?P<rest>.*)$"
)


def with_actors_first(lines: Rows) -> Rows:
    """The rows with the actor in front, and the barrier with its stage and its CTA behind what happens."""
    found = [(number, text, _ROW.match(text)) for number, text in lines]
    rows = [number for number, _, row in found if row is not None]
    if len(rows) < 4 or len(rows) < SHARE * sum(bool(text.strip()) for _, text in lines):
        return lines
    return [(number, _turned(row) if row is not None else text) for number, text, row in found]


def _turned(row: re.Match[str]) -> str:
    stage = f"[{row['stage']}]" if row["stage"] else row["call"] or ""
    numbers = re.findall(r"\d+", row["at"] or "")
    at = f"@cta{','.join(numbers)}" if numbers else ""
    return f"{row['front']}cta{row['cta']} {row['role']}: {row['bar']}{stage}{at} {row['rest']}"
