"""Reads a printf log: each line's named fields, and the events (wait, done, arrive) that they make.

The grammar is one of fields, not of lines: a role or warpgroup, a CTA, a k-block, a barrier, a phase and a
verb are each found wherever they stand. A line that says only some of them goes on with the record before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tileproof.conformance.logs.hangs.collect import Collector
from tileproof.conformance.logs.hangs.line import LineReader
from tileproof.conformance.logs.hangs.log import Log, load
from tileproof.conformance.logs.hangs.merged import unmerge
from tileproof.conformance.logs.hangs.printed import is_printed, printed_runs, read_printed
from tileproof.conformance.logs.hangs.rewrite import NO_WORDS, Words
from tileproof.conformance.logs.hangs.runs import split_runs, split_streams, unstamped
from tileproof.conformance.logs.hangs.words import Vocabulary, key_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
LONG = 4096  # characters of a line that are read; what is longer is no line of a printf
Progress = Callable[[int, int], None]


def read(path: Path, plan: KernelPlan | None = None) -> Log:
    """The log in `path`; TileproofError when it cannot be read, is no text, or tells of no barrier."""
    return read_text(load(path), str(path), plan)


def read_text(
    text: str,
    path: str = "log",
    plan: KernelPlan | None = None,
    words: Words = NO_WORDS,
    cluster: int = 0,
    progress: Progress | None = None,
) -> Log:
    """The events of `text`; names of `plan`'s barriers and roles are known beforehand.

    `words`: a user's own. `cluster`: CTAs of a cluster, 0 to find out. `progress` is called with lines read
    and their number. Where the text holds several runs, `runs` of the log are theirs.
    """
    raw = _lines(text)
    cut = bool(raw[-1].strip())
    if not raw[-1]:
        raw.pop()
    lines = [_ANSI.sub("", line).rstrip() if "\x1b" in line else line.rstrip() for line in raw]
    long = sum(len(line) > LONG for line in lines)
    if long:
        lines = [line[:LONG] for line in lines]
    barriers = [barrier.name for barrier in plan.barriers] if plan else []
    known = Vocabulary(
        frozenset(map(key_of, barriers)),
        frozenset(role.name.lower() for role in plan.roles) if plan else frozenset(),
        words.single,
    )
    parsed = LineReader(known, words)
    streams = split_streams(lines)
    if len(streams) == 1:  # a rank may stand behind the time
        streams = split_streams([line for _, line in unstamped(streams[0][1])])
    whole = Log(path, lines)
    for name, members in streams:
        members = unstamped(members)
        if is_printed(members):
            whole.runs += [read_printed(Log(path, lines), part) for part in printed_runs(name, members)]
            continue
        reader = Collector(Log(path, lines, title=name), plan, parsed, cluster)
        for number, line in members:
            reader.take(number, line)
            if progress is not None and not number & 0xFFFF:
                progress(number, len(lines))
        reader.finish(cut and members[-1][0] == len(lines) if members else False)
        if long:
            reader.log.remarks.append(
                f"{long} lines are longer than {LONG} characters: the rest of each is not read"
            )
        whole.runs += split_runs(reader.log)
    for log in whole.runs:
        unmerge(log)
    told = [log for log in whole.runs if log.events]
    if not told:
        raise TileproofError(
            "nothing in the log tells of a barrier",
            where=path,
            expected="lines that name a role or warpgroup, a barrier, and wait, done or arrive",
            found=f"{len(lines)} lines, " + (f"such as: {_sample(lines)}" if lines else "none"),
            do="print one such line before and after each wait and after each arrive",
        )
    if len(told) == 1:
        told[0].unread = sorted({*told[0].unread, *(line for log in whole.runs for line in log.unread)})
        told[0].title = ""
        return told[0]
    whole.runs = told
    whole.events = sorted((event for log in told for event in log.events), key=lambda event: event.line)
    whole.notes = sorted(note for log in told for note in log.notes)
    whole.unread = sorted(line for log in told for line in log.unread)
    for log in told:
        whole.names |= log.names
    return whole


def _lines(text: str) -> list[str]:
    """The lines of a text; those of a log that was stored as one string with escaped ends, too."""
    raw = re.split(r"\r\n|\n|\r", text) if "\r" in text else text.split("\n")
    if len(raw) <= 3 and max(map(len, raw)) > LONG and text.count("\\n") > 10:
        raw = text.replace("\\r", "").replace('\\"', '"').split("\\n")
    return raw


def _sample(lines: list[str]) -> str:
    return next((line.strip()[:80] for line in lines if line.strip()), "")
