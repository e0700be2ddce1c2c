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
from tileproof.conformance.beside.logs.hangs.lines.syncs import with_syncs
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
    add_stands,
    debugger_lines,
    functions_of_warps,
    is_debugger,
    is_sanitizer,
    kernel_lines,
    look_for_timeouts,
    read_sanitizer,
)
from tileproof.conformance.beside.logs.hangs.warp_names import name_warps
from tileproof.conformance.beside.logs.hangs.words import Vocabulary, key_of
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")

HISTORY = 6  # events that the kernel printed in the output of a tool
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
    reader = _Reader(path, lines, cut, plan, words, cluster, progress)
    streams = split_streams(reader.lines)
    if len(streams) == 1:  # a rank may stand behind the time
        streams = split_streams([line for _, line in unstamped(streams[0][1])])
    whole = reader.whole
    whole.runs = [log for name, members in streams for log in reader.stream(name, members)]
    for log in whole.runs:
        log.moved = whole.moved
        if not (log.exact or log.snapshot or plan is not None):
            name_roles(log)
            name_warps(log)
        unmerge(log)
    return _joined(whole)


class _Reader:
    """Reads the streams of a text."""

    def __init__(
        self, path: str, lines: list[str], cut: bool, plan: KernelPlan | None, words: Words, cluster: int,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self.long = sum(len(line) > LONG for line in lines)
        self.lines = [line[:LONG] for line in lines]
        self.cut, self.plan, self.words, self.cluster, self.progress = cut, plan, words, cluster, progress
        barriers = [barrier.name for barrier in plan.barriers] if plan else []
        self.known = Vocabulary(
            frozenset(map(key_of, barriers)),
            frozenset(role.name.lower() for role in plan.roles) if plan else frozenset(),
            words.single,
        )
        self.parsed = LineReader(self.known, words)
        self.whole = Log(path, self.lines)

    def _log(self, title: str = "") -> Log:
        return Log(self.whole.path, self.lines, title=title)

    def stream(self, name: str, members: Members) -> list[Log]:
        """The runs of a stream."""
        members = with_values(unstamped(members))
        if is_printed(members):
            return [read_printed(self._log(), part) for part in printed_runs(name, members)]
        reported, debugged = is_sanitizer(members), is_debugger(members)
        history = self._history(name, members) if reported or debugged else []
        if reported:
            return [read_sanitizer(self._log(name), members, history)]
        if history and debugged:
            stands = self._by_words(name, with_syncs(debugger_lines(members)))
            add_stands(history[-1], stands, functions_of_warps(members))
        if history:
            return history
        told = with_histories(records(members), self.whole.moved)
        if debugged and told is members:
            log = self._by_words(name, debugger_lines(members))
            log.snapshot = True
            return [log]
        return self._events(name, prepared(told))

    def _history(self, name: str, members: Members) -> list[Log]:
        """The runs that the kernel printed in the output of a tool; none where its lines tell no history."""
        lines = kernel_lines(members)
        found = self._events(name, prepared(lines, seen=True)) if len(lines) >= HISTORY else []
        events = [event for log in found for event in log.events]
        kinds = {event.kind for event in events}
        told = "arrive" in kinds and kinds & {"wait", "done"}
        return found if len(events) >= HISTORY and told else []

    def _events(self, name: str, plain: Members) -> list[Log]:
        """The runs of lines of events, by the reading that explains most of them."""
        members = list(tabled(plain))
        log = self._by_words(name, members)
        look_for_timeouts(log)
        if self.plan is None and self.words is NO_WORDS:
            log = better(log, plain) or learned(log, members, self.known) or log
        return [log] if log.snapshot else split_runs(log)

    def _by_words(self, name: str, members: Members) -> Log:
        reader = Collector(self._log(name), self.plan, self.parsed, self.cluster)
        for number, line in members:
            reader.take(number, line)
            if self.progress is not None and not number & 0xFFFF:
                self.progress(number, len(self.lines))
        reader.finish(self.cut and members[-1][0] == len(self.lines) if members else False)
        if self.long:
            reader.log.remarks.append(
                f"{self.long} lines are longer than {LONG} characters: the rest of each is not read"
            )
        return reader.log


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


def _lines(text: str) -> list[str]:
    """The lines of a text, also of a log that was stored as a single string with escaped line ends."""
    raw = re.split(r"\r\n|\n|\r", text) if "\r" in text else text.split("\n")
    if len(raw) <= 3 and max(map(len, raw)) > LONG and text.count("\\n") > 10:
        raw = text.replace("\\r", "").replace('\\"', '"').split("\\n")
    return raw


def _sample(lines: list[str]) -> str:
    return next((line.strip()[:80] for line in lines if line.strip()), "")
