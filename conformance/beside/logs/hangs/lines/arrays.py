"""Arrays of records as a debugger prints them, `[3] = {cta = 1, ev = WAIT, ...}`: a row for each record."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.rows import Rows

SHARE = 0.6  # of the lines are records
_RECORD = re.compile(r"^(?:.*\{)?\s*\[(?:\d+|0x[0-9a-fA-F]+)\]\s*=\s*\{(?P<row>[^{}]*=[^{}]*=[^{}]*)\}")
_TIED = re.compile(r"\s*=\s*")
_UNSET = re.compile(
    r"(?<![^\s,])(?:[^\W\d]\w*=(?:-1|\"\"|\w*_NONE|None|NONE)|\w*(?:mask|bytes)=(?:0x)?0)(?=\s*(?:,|$))\s*,?",
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<![^\s,])\w*mask=(?P<value>\d+)\b", re.IGNORECASE)


def records(lines: Rows) -> Rows:
    """The fields of each record as a row, without those that are not set; other lines where there are few."""
    found = [(number, _RECORD.match(text)) for number, text in lines]
    rows = [(number, row["row"]) for number, row in found if row is not None]
    if len(rows) < 4 or len(rows) < SHARE * sum(bool(text.strip()) for _, text in lines):
        return lines
    return [(number, _plain(row)) for number, row in rows]


def _plain(row: str) -> str:
    text = _UNSET.sub("", _TIED.sub("=", row))
    return _FLAG.sub(lambda flag: f"cta_mask={int(flag['value']):#x}", text).strip(" ,")
