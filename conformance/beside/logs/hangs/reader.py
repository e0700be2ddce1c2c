"""Reads a printf log: the named fields of each line, and the events (wait, done, arrive) that they form.

The grammar describes fields, not lines: a role or warpgroup, a CTA, a k-block, a barrier, a phase and a verb
are recognised at any position. A line with only some of them continues the previous record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tileproof.conformance.beside.logs.hangs.collect import Collector
from tileproof.conformance.beside.logs.hangs.forms import tabled
from tileproof.conformance.beside.logs.hangs.general.choose import better
from tileproof.conformance.beside.logs.hangs.grammar.choose import learned
from tileproof.conformance.beside.logs.hangs.line import LineReader
from tileproof.conformance.beside.logs.hangs.lines.arrays import records
from tileproof.conformance.beside.logs.hangs.lines.prepare import prepared
from tileproof.conformance.beside.logs.hangs.lines.sections import with_histories
from tileproof.conformance.beside.logs.hangs.log import LONG, Log, load
from tileproof.conformance.beside.logs.hangs.merged import unmerge
from tileproof.conformance.beside.logs.hangs.printed import is_printed, printed_runs, read_printed
from tileproof.conformance.beside.logs.hangs.rewrite import NO_WORDS, Words
from tileproof.conformance.beside.logs.hangs.role_names import name_roles
from tileproof.conformance.beside.logs.hangs.runs import (
    Members,
    split_runs,
    split_streams,
    unstamped,
    with_values,
)
from tileproof.conformance.beside.logs.hangs.snapshots import (
    debugger_lines,
    is_debugger,
    is_sanitizer,
    kernel_lines,
    look_for_timeouts,
    read_sanitizer,
)
from tileproof.conformance.beside.logs.hangs.words import Vocabulary, key_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")

Progress = Callable[[int, int], None]


def read(path: Path, plan: KernelPlan | None = None) -> Log:
    """Return the log in `path`; TileproofError if it cannot be read, is not text, or names no barrier."""
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
    lines, cut = _cleaned(text)
    long = sum(len(line) > LONG for line in lines)
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
        members = with_values(unstamped(members))
        if is_printed(members):
            whole.runs += [read_printed(Log(path, lines), part) for part in printed_runs(name, members)]
            continue
        if is_sanitizer(members):
            whole.runs.append(read_sanitizer(Log(path, lines, title=name), members))
            continue
        if is_debugger(members):
            members = kernel_lines(members) or members
        told = with_histories(records(members), whole.moved)
        debugged = told is members and is_debugger(members)
        plain = members if debugged else prepared(told)
        members = debugger_lines(plain) if debugged else list(tabled(plain))
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
        if debugged:
            reader.log.snapshot = True
        else:
            look_for_timeouts(reader.log)
            inferred = (
                _inferred(reader.log, plain, members, known) if plan is None and words is NO_WORDS else None
            )
            if inferred is not None:
                whole.runs += split_runs(inferred)
                continue
        whole.runs += [reader.log] if reader.log.snapshot else split_runs(reader.log)
    for log in whole.runs:
        log.moved = whole.moved
        if not (log.exact or log.snapshot or plan is not None):
            name_roles(log)
        unmerge(log)
    return _joined(whole)


def _cleaned(text: str) -> tuple[list[str], bool]:
    """The lines without colours, and whether the last line is cut, without a line end."""
    raw = _lines(text)
    cut = bool(raw[-1].strip())
    if not raw[-1]:
        raw.pop()
    return [_ANSI.sub("", line).rstrip() if "\x1b" in line else line.rstrip() for line in raw], cut


def _joined(whole: Log) -> Log:
    """The log of the runs with events; of a single run its own. TileproofError where no run has any."""
    told = [log for log in whole.runs if log.events]
    if not told:
        lines = whole.lines
        raise TileproofError(
            "no line of the log names a barrier",
            where=whole.path,
            expected="lines that name a role or warpgroup, a barrier, and wait, done or arrive",
            found=f"{len(lines)} lines, " + (f"such as: {_sample(lines)}" if lines else "none"),
            do="print one such line before and after each wait and after each arrive",
        )
    if len(told) == 1:
        told[0].unread = sorted({*told[0].unread, *(line for log in whole.runs for line in log.unread)})
        told[0].host |= {line for log in whole.runs for line in log.host}
        told[0].title = ""
        return told[0]
    whole.runs = told
    whole.events = sorted((event for log in told for event in log.events), key=lambda event: event.line)
    whole.notes = sorted(note for log in told for note in log.notes)
    whole.unread = sorted(line for log in told for line in log.unread)
    for log in told:
        whole.names |= log.names
    return whole


def _inferred(log: Log, plain: Members, members: Members, known: Vocabulary) -> Log | None:
    """The reading by fields, or by the order of lines, where it explains more than the words do."""
    general = better(log, plain)
    return general or learned(log, members, known)


def _lines(text: str) -> list[str]:
    """The lines of a text, also of a log that was stored as a single string with escaped line ends."""
    raw = re.split(r"\r\n|\n|\r", text) if "\r" in text else text.split("\n")
    if len(raw) <= 3 and max(map(len, raw)) > LONG and text.count("\\n") > 10:
        raw = text.replace("\\r", "").replace('\\"', '"').split("\\n")
    return raw


def _sample(lines: list[str]) -> str:
    return next((line.strip()[:80] for line in lines if line.strip()), "")
