"""Results on a terminal: the verdict, the stage table, a finding, progress."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tileproof.conformance.check.result import Report
from tileproof.spec.machine.certificate import in_words, summary
from tileproof.spec.machine.finding_text import folded, following, lines, printable
from tileproof.spec.machine.types import Json

REFRESH_S = 0.2
PIPE_WIDTH = 160
LOG_S = 30.0  # without a terminal: one line in this time


def print_progress(line: str) -> None:
    """Writes a line of progress to standard error, as long as it is read."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class Progress:
    """One status line on standard error; a line every 30 s if it is not a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._label = ""
        self._last = time.monotonic()

    def __enter__(self) -> Progress:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def start(self, label: str) -> None:
        """Names what is going on now."""
        self._label = label
        if self._status:
            self._status.update(escape(label))

    def show(self, done: int, shrinking: bool) -> None:
        """`done` examples have run; `shrinking`: a failing example is being shrunk."""
        now = time.monotonic()
        if now - self._last < (REFRESH_S if self._status else LOG_S):
            return
        self._last = now
        line = f"{self._label}: " + ("shrinking a failing example" if shrinking else f"{done}/{self._total}")
        if self._status:
            self._status.update(escape(line))
        else:
            print_progress(line)


def print_report(report: Report, replay: str) -> None:
    """The verdict of one variant: the stage table, or the finding and how to replay it."""
    console = Console(highlight=False, soft_wrap=True)
    title = report.title if report.driver in ("", "emulator") else f"{report.title} on {report.driver}"
    if report.failure is None and report.interrupted:
        console.print(
            f"[bold yellow]INCOMPLETE[/] {title}: interrupted; no defect in {report.examples} examples, "
            f"{report.seconds:.1f} s"
        )
        _print_not_judged(console, report)
        return
    if report.failure is None:
        console.print(f"[bold green]CLEAN[/] {title}: {report.examples} examples in {report.seconds:.1f} s")
        console.print(_stage_table(report))
        if report.agreed:
            console.print(f"{report.agreed} tiles have equal bits in the production and the probe build")
        if report.again:
            which = "under another schedule" if report.chosen_schedules else "in any order"
            console.print(f"{report.again} examples ran again {which}, with the same outputs")
        for text in in_words(summary(report.certificates), False):
            console.print(escape(text))
        for code, count in sorted(report.remarks.items()):
            console.print(f"remark: {code} ({count} times)")
        _print_not_judged(console, report)
        return
    failure = report.failure
    console.print(
        f"[bold red]DEFECT[/] {title}: found after {report.examples} examples, {report.seconds:.1f} s "
        "with shrinking" + (", interrupted" if report.interrupted else "")
    )
    for number, (finding, after) in enumerate(folded(failure.findings)):
        head, *facts = lines(finding)
        console.print(f"[bold]{number + 1}. {escape(head)}[/]")
        for line in (*facts, *following(after)):
            console.print("   " + escape(printable(line)))
    schedule = f", schedule {failure.schedule.policy}" if report.chosen_schedules else ""
    console.print(f"smallest failing case: {escape(failure.case.as_json())}{schedule}")
    if not failure.repeated:
        console.print("not repeated: nothing was wrong when the same case ran again")
    console.print("replay: " + escape(replay))
    _print_not_judged(console, report)


def _print_not_judged(console: Console, report: Report) -> None:
    for words in report.not_judged:
        console.print(f"not judged: {escape(words)}")


def _stage_table(report: Report) -> Table:
    table = Table("stage", "tiles", "elements", "of these exact", "largest error / bound", "without a bound")
    for name, score in report.scores.items():
        worst = f"{score.worst:.3g}" if score.exact < score.elements else "-"
        counts = (str(number) for number in (score.tiles, score.elements, score.exact))
        table.add_row(name, *counts, worst, str(score.unbounded))
    return table


def print_rows(title: str, rows: Sequence[Mapping[str, Json]], as_json: bool) -> None:
    """Rows with the same keys, as a table or as JSON."""
    if as_json:
        print(json.dumps(list(rows), indent=1))
        return
    if not rows:
        print(f"{title}: none")
        return
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, overflow="fold")  # nothing is cut
    for row in rows:
        table.add_row(*(escape(str(value)) for value in row.values()))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    console.print(table)
