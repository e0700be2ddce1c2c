"""Selects between the reading of a log by words and the general reading: the reading that explains more."""

from __future__ import annotations

from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general.read import read_general
from tileproof.conformance.beside.logs.hangs.grammar.choose import fit
from tileproof.conformance.beside.logs.hangs.log import Log

def better(log: Log, members: Sequence[tuple[int, str]]) -> Log | None:
    """The general reading of a log, where it explains the lines better than `log` does."""
    if log.snapshot or log.exact:
        return None
    other = read_general(log.path, log.lines, members)
    if other is None or not other.events or fit(other) < fit(log):
        return None
    other.title = log.title
    return other
