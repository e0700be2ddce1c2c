"""Splits a file into logs: of several ranks by a launcher's prefix, of consecutive runs by the lines at which
the actors begin again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.log import Actor, Log, LogEvent

_RANK = re.compile(
    r"^\s*(?:\[(?:rank|default|gpu|proc|worker)[ _-]?(?P<a>\d+)\]\s?:?\s?|\[(?P<b>\d+)\]:\s?|(?P<c>\d+):\s|"
    r"\[\d+,\s*(?P<d>\d+)\]\s?<std(?:out|err)>:\s?|(?:rank|gpu|worker|proc)[ _-]?(?P<e>\d+)\s*[|:>]\s?|"
    r"\((?:Ray)?\w*[Ww]orker\w* (?:pid=)?(?P<f>\d+)[^)]*\)\s?)",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"^\s*(?:\^C|terminated|killed|aborted|traceback \(most|keyboardinterrupt)|\bexit (?:code|status)\b|"
    r"^\S*[$#] \S|\blaunch(?:ing|ed)?\b.*\bkernel|\bkernel launch",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"(?<![\w'])\d*'s?(?P<base>[bodh])(?P<value>[0-9a-f_]+)(?![\w'])", re.IGNORECASE)
_BASES = {"b": 2, "o": 8, "d": 10, "h": 16}
_DIGITS = re.compile(r"\d+")
_OWN_CTA = re.compile(r"(?<![^\W_])(?:cta|block|blk|bid|bx|b)[\w.]*?\W{0,3}\d", re.IGNORECASE)
_OTHER_CTA = re.compile(
    r"(?<![^\W_])(?:cta|ctas|block|peer|remote|cluster|multicast|rank)(?![^\W\d_])", re.IGNORECASE
)
SHARE = 0.6  # of the actors that speak after a place must begin again there

Members = list[tuple[int, str]]


_STAMP = re.compile(r"\d\d?:\d\d:\d\d")
_SPEAKS = re.compile(r"cta|warp|wg|block|blk|role|thread|rank|\bk\b", re.IGNORECASE)


def _stamp_of(lines: list[str]) -> re.Pattern[str] | None:
    """The timestamp prefix that a logger put before every line (it hides indentation), or None."""
    sample = [line for line in lines[:400] if line.strip()][:200]
    if len(sample) < 3 or _STAMP.search(sample[0][:64]) is None:
        return None
    flat = [_DIGITS.sub("0", line) + " " for line in sample]
    first, last = min(flat), max(flat)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    ends = [
        first.rfind(end, 0, same) + len(end) for end in (": ", "] ", "| ", "> ", " ") if end in first[:same]
    ]
    text = first[: max(ends[:1] or [0])]
    if _STAMP.search(text.replace("0", "00")) is None or _SPEAKS.search(text):
        return None
    return re.compile("^" + re.escape(text.rstrip()).replace("0", r"\d+") + " ?")


def unstamped(members: Members) -> Members:
    """The lines without a logger's timestamp prefix."""
    stamp = _stamp_of([line for _, line in members])
    return members if stamp is None else [(number, stamp.sub("", line, count=1)) for number, line in members]


def with_values(members: Members) -> Members:
    """The lines with literals of hardware languages as their values: `1'b0` is 0, `8'hff` is 255."""
    return [
        (number, _LITERAL.sub(_value, line) if "'" in line else line)  # most lines have none
        for number, line in members
    ]


def _value(found: re.Match[str]) -> str:
    base = _BASES[found["base"].lower()]
    try:
        return str(int(found["value"], base))
    except ValueError:
        return found[0]


def split_streams(lines: list[str]) -> list[tuple[str, Members]]:
    """(rank, its numbered lines without the prefix); a single unnamed stream if no prefix names ranks."""
    sample = [line for line in lines[:2000] if line.strip()]
    found = sum(_RANK.match(line) is not None for line in sample)
    if found < SHARE * len(sample) or not found:
        return [("", list(enumerate(lines, 1)))]
    streams: dict[str, Members] = {}
    for number, line in enumerate(lines, 1):
        prefix = _RANK.match(line)
        if prefix is None:
            streams.setdefault("", []).append((number, line))
            continue
        rank = next(group for group in prefix.groups() if group is not None)
        streams.setdefault(f"rank {rank}", []).append((number, line[prefix.end() :]))
    named = [name for name in streams if name]
    if len(named) > 1 and _of_cluster([text for some in streams.values() for _, text in some]):
        return [("", [(number, _RANK.sub(_as_cta, line)) for number, line in enumerate(lines, 1)])]
    if len(named) == 1:
        both = sorted(streams.get("", []) + streams[named[0]])
        return [("", both)]
    return sorted(streams.items(), key=lambda stream: stream[1][0][0])


def _of_cluster(texts: list[str]) -> bool:
    """Whether ranks are a cluster's CTAs: few lines name a CTA, and some another CTA or a cluster."""
    own = sum(_OWN_CTA.search(text) is not None for text in texts)
    return own < 0.5 * len(texts) and sum(_OTHER_CTA.search(text) is not None for text in texts) > 1


def _as_cta(found: re.Match[str]) -> str:
    return f"[cta {next(group for group in found.groups() if group is not None)}] "


def split_runs(log: Log) -> list[Log]:
    """The consecutive runs of a stream; `[log]` if it holds a single run."""
    places = _boundaries(log)
    if not places:
        return [log]
    edges = [0, *places, len(log.lines) + 1]
    logs: list[Log] = []
    for first, last in pairwise(edges):
        events = [event for event in log.events if first <= event.line < last]
        notes = [note for note in log.notes if first <= note[0] < last]
        unread = [line for line in log.unread if first <= line < last]
        if not events:
            continue
        title = f"{log.title} " if log.title else ""
        final = last > len(log.lines)
        # Only the first run can lack its head, and only the last run its end.
        head = log.head_missing and not logs
        remarks = [
            remark
            for remark in log.remarks
            if (final or "no end" not in remark) and (head or "head of the log" not in remark)
        ]
        run = replace(
            log, events=events, notes=notes, unread=unread, remarks=remarks, head_missing=head,
            title=f"{title}run {len(logs) + 1} (lines {events[0].line} to {events[-1].line})",
        )  # fmt: skip
        logs.append(run)
    return logs


def _boundaries(log: Log) -> list[int]:
    """The lines at which a new run begins."""
    if not log.events:
        return []
    of: dict[Actor, list[LogEvent]] = {}
    for event in log.events:
        of.setdefault(event.actor, []).append(event)
    candidates = sorted({*_marks(log), *_restarts(of)})
    found: list[int] = []
    positions = dict.fromkeys(of, 0)
    for line in candidates:
        since = found[-1] if found else 0
        if _begins_again(of, positions, since, line):
            found.append(line)
    return found


def _marks(log: Log) -> list[int]:
    """Host lines after the first event that look like the end or the launch of a run, or that also occur
    before it.
    """
    first = log.events[0].line
    head = Counter(_DIGITS.sub("0", log.lines[line - 1].strip()) for line in log.unread if line < first)
    marks: list[int] = []
    before = 0
    for line in log.unread:
        if line <= first:
            continue
        text = log.lines[line - 1].strip()
        known = len(text) > 3 and head.get(_DIGITS.sub("0", text), 0) > 0
        if (known or _MARK.search(text)) and line > before + 1:
            marks.append(line)
        if known or _MARK.search(text):
            before = line
    return marks


def _restarts(of: dict[Actor, list[LogEvent]]) -> list[int]:
    """Lines at which an actor repeats its first step although it was in a wait."""
    found = []
    for events in of.values():
        first = _sign(events[0])
        for before, event in pairwise(events):
            if (
                before.kind == "wait"
                and _sign(event) == first
                and _sign(before) != first
                and event.kind != "done"
            ):
                found.append(event.line)
    return found


def _sign(event: LogEvent) -> tuple[object, ...]:
    return event.kind, event.barrier, event.stage, event.k, event.phase


def _begins_again(
    of: dict[Actor, list[LogEvent]], positions: dict[Actor, int], since: int, line: int
) -> bool:
    """Whether most actors that print after `line` begin again there, at least one of them from a wait or from
    its end.
    """
    again = speak = broken = 0
    for actor, events in of.items():
        at = positions[actor]
        while at < len(events) and events[at].line < line:
            at += 1
        positions[actor] = at
        if at == 0 or at == len(events) or events[at - 1].line < since:
            continue
        before, after, first = events[at - 1], events[at], events[0]
        speak += 1
        back = before.k is not None and after.k is not None and after.k < before.k
        if _sign(after) == _sign(first) or (back and after.kind != "done"):
            again += 1
            broken += before.kind == "wait"
    return speak > 0 and again >= SHARE * speak and (broken > 0 or again > 1)
