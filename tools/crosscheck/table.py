"""The defects that the emulator and sentryward find: ``python -m tileproof.tools.crosscheck.table`` measures
them.

It runs both tools on the programs of `programs` and on the kernels, and writes the tables between two
marks of docs/crosscheck.md. With --check they are compared with those on the page, but for their date and
seconds.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import wrapped
from tileproof.tools.crosscheck.opinion import Opinion, second_opinion, sentryward_version
from tileproof.tools.crosscheck.ours import first_opinion, schedules
from tileproof.tools.crosscheck.programs import PROGRAMS, launch_of, programs, title_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "crosscheck.md"
RANDOM = 8  # random schedules of a program, beside early and late
KERNEL_BLOCKS = 2
BEGIN, END = "<!-- tables: python -m tileproof.tools.crosscheck.table -->", "<!-- end of tables -->"
_VARIES = re.compile(r"\d+\.\d s\b|\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class TableRow:
    """What both tools say of one launch; `wrong` is empty when it is right."""

    name: str
    what: str
    wrong: str
    ours: Opinion
    theirs: Opinion


@cache
def row(name: str) -> TableRow:
    """Runs both on a program."""
    program = programs()[name]
    launch = launch_of(program)
    ours, theirs = first_opinion(launch, None, RANDOM), second_opinion(launch)
    return TableRow(name, title_of(program), program.wrong, ours, theirs)


def kernel_rows() -> Iterator[TableRow]:
    """Runs both on one cluster of every kernel and width."""
    from tileproof.conformance.cases.generators import small
    from tileproof.kernels.registry import all_compiled

    for found in all_compiled():
        for variant in found.variants:
            plan = found.plan(variant)
            inputs = small(plan, KERNEL_BLOCKS).inputs()
            launch = found.launch(inputs, found.build(variant))
            ours = first_opinion(launch, plan, 1)
            title = ", ".join(filter(None, (found.label(variant), f"{KERNEL_BLOCKS} k-blocks")))
            yield TableRow(found.name, title, "", ours, second_opinion(launch))


def tables(rows: Sequence[TableRow], kernels: Sequence[TableRow], today: date) -> str:
    """The generated part of docs/crosscheck.md."""
    tool = f"sentryward {sentryward_version()}"
    lines = [
        f"Measured on {today.isoformat()}: {tool}, and {len(schedules(RANDOM))} schedules of the emulator.",
        *_counts(rows),
    ]
    topics = {program.id: program.topic for program in PROGRAMS}
    for topic in dict.fromkeys(topics.values()):
        head = ("program", "what it is", "wrong with it", "Tileproof", tool)
        lines += ["", f"### {topic.capitalize()}", "", _line(head), _line(["---"] * len(head))]
        lines += [
            _line((f"`{row.name}`", row.what, row.wrong or "nothing", _cell(row.ours), _cell(row.theirs)))
            for row in rows
            if topics[row.name] == topic
        ]
    head = ("kernel", "launch", "Tileproof", tool, "seconds of each")
    lines += ["", "### The kernels", "", _line(head), _line(["---"] * len(head))]
    for kernel in kernels:
        seconds = f"{kernel.ours.seconds:.1f} s, {kernel.theirs.seconds:.1f} s"
        lines.append(
            _line((f"`{kernel.name}`", kernel.what, _cell(kernel.ours), _reasons(kernel.theirs), seconds))
        )
    return wrapped("\n".join(lines) + "\n")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _counts(rows: Iterable[TableRow]) -> list[str]:
    """Who finds how many of the wrong programs, and what is reported for the correct programs."""
    wrong = [row for row in rows if row.wrong]
    right = [row for row in rows if not row.wrong]

    def named(found: Iterable[TableRow]) -> str:
        return ", ".join(f"`{table_row.name}`" for table_row in found) or "none"

    both = [row for row in wrong if sees(row.ours) and sees(row.theirs)]
    only_us = [row for row in wrong if sees(row.ours) and not sees(row.theirs)]
    only_it = [row for row in wrong if sees(row.theirs) and not sees(row.ours)]
    neither = [row for row in wrong if not sees(row.ours) and not sees(row.theirs)]
    passed = [row for row in wrong if row.theirs.outcome == "fine"]
    alarms = [row for row in right if sees(row.theirs)]
    ours = [row for row in right if sees(row.ours) or row.ours.outcome != "fine"]
    return [
        "",
        f"- Of {len(wrong)} wrong programs both find {len(both)}.",
        f"- Only Tileproof finds {len(only_us)}: {named(only_us)}.",
        f"- Only sentryward finds {len(only_it)}: {named(only_it)}.",
        f"- Neither finds {len(neither)}: {named(neither)}.",
        f"- sentryward reports {len(passed)} wrong programs as race free: {named(passed)}.",
        f"- Of {len(right)} right programs sentryward rejects {len(alarms)}: {named(alarms)}; "
        f"Tileproof rejects {len(ours)}: {named(ours)}.",
    ]


def sees(opinion: Opinion) -> bool:
    """Whether it reports an error or a warning."""
    return opinion.outcome == "error" or any(remark.startswith("warning: ") for remark in opinion.remarks)


def _cell(opinion: Opinion) -> str:
    """The verdict with its first codes, and for the emulator its warnings and notes."""
    if opinion.outcome == "fine":
        lesser = (
            remark.split(": ") for remark in opinion.remarks if remark.startswith(("warning: ", "note: "))
        )
        return ", ".join(dict.fromkeys(["fine", *(f"{words[0]} `{words[1]}`" for words in lesser)]))
    codes = [kind for kind in opinion.kinds if kind not in ("unsupported", "tool_failure")] or list(
        opinion.kinds
    )
    return f"{opinion.outcome}: " + ", ".join(f"`{kind}`" for kind in codes[:2])


def _reasons(opinion: Opinion) -> str:
    """Every reason with its instruction."""
    return (
        _cell(opinion)
        if opinion.outcome != "no opinion"
        else "no opinion: " + "; ".join(_instructions(opinion))
    )


def _instructions(opinion: Opinion) -> list[str]:
    """The instructions that its lines name, up to the first modifiers; the whole line where it names none."""
    found = []
    for line in opinion.lines:
        text = line.rpartition(" (PTX line")[0] or line
        code, _, rest = text.partition(": ")
        opcode = rest.rpartition(": ")[2]
        found.append(f"`{opcode}` ({code})" if re.fullmatch(r"\w+(\.[\w:]+)+", opcode) else text)
    return list(dict.fromkeys(found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables into the page, or with --check return 1 when those on it are stale."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.crosscheck.table")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when the page is stale")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page (default: docs/crosscheck.md)")
    options = parser.parse_args(arguments)
    before, old, after = parts(options.output)
    new = tables([row(program.id) for program in PROGRAMS], list(kernel_rows()), date.today())
    if not options.check:
        options.output.write_text(f"{before}{BEGIN}\n{new}{END}{after}", encoding="utf-8")
        return 0
    if fixed(old) == fixed(new):
        return 0
    print(f"{options.output} is stale; run python -m tileproof.tools.crosscheck.table", file=sys.stderr)
    return 1


def parts(page: Path) -> tuple[str, str, str]:
    """The page before, between and after the marks; TileproofError when it lacks them."""
    try:
        before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    except OSError as error:
        raise TileproofError("the page cannot be read", where=str(page), found=str(error)) from None
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise TileproofError(
            "the page has no place for the tables", where=str(page), expected=f"{BEGIN} ... {END}"
        )
    return before, old.removeprefix("\n"), after


def fixed(text: str) -> str:
    """The tables without what differs from run to run."""
    return _VARIES.sub("", text)


if __name__ == "__main__":
    sys.exit(main())
