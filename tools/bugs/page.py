# ruff: noqa: E501 - rows of tables are kept whole
"""Writes docs/benchmark.md from the stored result: `python -m tileproof.tools.bugs.page`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tileproof.conformance.beside.corpus.rows import ROWS, link
from tileproof.spec.machine.pages import wrapped, write_or_check
from tileproof.spec.machine.types import UncheckedObject
from tileproof.tools.bugs.measure import HEAD, counts, summary
from tileproof.tools.bugs.others import TOOLS
from tileproof.tools.bugs.registry import WITHOUT, rows_without
from tileproof.tools.evidence import read_text

STORED = "2026-11-29-bug-benchmark.json.xz"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmark.md"
Row = UncheckedObject
FORMS = {
    "PTX": "small programs in PTX",
    "CUDA": "small kernels in CUDA",
    "kernel": "a kernel with a planted defect",
    "Triton": "kernels in Triton",
    "Gluon": "a kernel in Gluon",
}
MARKS = {"Triton's interpreter": "i", "Triton-Viz": "v"}

TEXT = """# The bug benchmark

A case is a bug of the [corpus](corpus.md) in two forms: a wrong form, and a right form that differs in the
bug alone. The benchmark runs both and records what each tool reports. It measures detection on the wrong forms
and false alarms on the right forms.

```sh exit=0
tileproof corpus --run R4 H31             # cases by row of the corpus
tileproof corpus --run p-stored-over-s    # a case
```

```sh needs=minutes exit=0
tileproof corpus --run --tools            # all cases, by all tools: the tables of this page (ten minutes)
```

This page is generated from {stored} (docs/evidence) by `python -m tileproof.tools.bugs.page`.

## Detection and false alarms

{tools}

{names}

Cases that only Tileproof finds: {only}. Cases that the output test in a single order misses: {missed_one}, in ten
orders: {missed_ten}.

| tool | what it is given |
|---|---|
| Tileproof | both forms with race checking: the wrong form until a schedule shows an error or a warning, the right form under ten schedules (early, late, six random, two that starve a warp) |
| output test | what tests of kernels do today, on the emulator without race checking: the outputs of the wrong form beside those of the right form, with an absolute and relative tolerance of 1e-2, in the order in which asynchronous operations complete as early as possible. A hang, or an error that ends the launch, counts as found. A case whose bug changes no output (a program without an output, or P of head128-part0) is accepted only where it is found |
| output test, 10 orders | the same under the ten schedules: a machine that happens to choose each of them |
| ptxas | {ptxas}: an error or a warning that the right form does not have |
| sentryward | [sentryward](crosscheck.md) 0.1.1, a static verifier. It accepts a case if it has an opinion of its wrong form within 60 s |
| Triton's interpreter | Triton 3.9.0 with `TRITON_INTERPRET=1`, on the cases in Triton: the program's own test of values fails, or the process ends with an error |
| Triton-Viz | [Triton-Viz](related.md) 3.0, its sanitizer, with Triton 3.6.0 (it does not start with Triton 3.9), on the cases in Triton: it reports an access outside of a tensor. It does not accept tensor descriptors |

Tools that accept no case of the benchmark: the TIRx harness checks programs in TIRx, and CUTLASS's TaskManager
kernels of its own framework ([related tools](related.md)). Compute Sanitizer, ConSan, FpSan and CUTracer need a
card of the kernel's architecture. The [labelled programs of ConSan's tests](outside.md#programs-of-tritons-race-checker)
have a table of their own.

## What a case is made of

{forms}

- The **right form** is the wrong form without the bug, on the same input. It must have no error under all ten
  schedules, and the right values where the case or its plan states values. A warning counts as an alarm.
  {alarms}
- The **input** of a wrong stage is the first on which `tileproof check` found it. It is stored, so that every
  tool gets an input on which the bug shows. This favours the output tests: a test that draws its own inputs
  may not contain it.
- A detection **names the bug** if its first finding is at the place and of the cause that the case states:
  for order, both accesses and the missing edge, or the barrier that hangs; for a stage, the first wrong
  stage. {named} of {found} detections do.
- Most cases are planted defects that this project's tests already required to be found. That Tileproof finds
  all of them shows that each bug is in its reach, and is no estimate for bugs that nobody planted:
  [mutation](mutate.md) estimates that.
- The bugs come from public threads, except those in Triton and Gluon. The programs were written for this project, by the authors of the checker. A case reproduces the cause in a thread, or its nearest form in a small program, as the
  [corpus](corpus.md) says; it does not contain the thread's code.

## The cases

*where* is the place that the finding names. *o* is the output test in a single order, *10* in ten orders, *p*
ptxas, *s* sentryward, *i* Triton's interpreter, *v* Triton-Viz: **x** found, . not found, empty: not accepted.

{cases}

## Rows of the corpus without a case

{without}
"""


@cache
def stored() -> list[Row]:
    """The rows of the stored result."""
    read: list[Row] = json.loads(read_text(STORED))
    return read


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def missed(tool: str) -> int:
    """Wrong forms that a tool accepts and does not find."""
    accepted, found, _ = counts(stored(), tool)
    return accepted - found


def finders(row: Row) -> list[str]:
    """The tools that find a case."""
    others = [tool for tool in TOOLS if row["tools"].get(tool, {}).get("found")]
    return (["Tileproof"] if row["detection"]["code"] else []) + others


def _cell(row: Row, tool: str) -> str:
    answer = row["tools"].get(tool)
    if answer is None or not answer["accepted"]:
        return ""
    return "**x**" if answer["found"] else "."


def _place(row: Row) -> str:
    return str(row["detection"]["where"]).partition(" (")[0] or "missed"


def _alarms(rows: Sequence[Row]) -> str:
    """The right forms with an alarm, in words."""
    alarmed = {(row["form"], row["base"]): row["alarms"] for row in rows if row["alarms"]}
    if not alarmed:
        return "None has any."
    codes = sorted({alarm.split(": ")[1] for alarms in alarmed.values() for alarm in alarms})
    forms = sorted(f"{base} in {form}" for form, base in alarmed)
    return (
        f"Right forms with warnings: {', '.join(forms)} ({', '.join(f'`{code}`' for code in codes)}). They are "
        "idioms of the compiler's code ([readings](assumptions.md))."
    )


def _cases(own: Sequence[Row]) -> str:
    """The table of some cases; the columns of Triton's tools only where they accept a case."""
    tools = [
        t
        for t in TOOLS
        if t not in MARKS or any(row["tools"][t]["accepted"] for row in own if t in row["tools"])
    ]
    marks = [
        {"output test": "o", "output test, 10 orders": "10", "ptxas": "p", "sentryward": "s", **MARKS}[t]
        for t in tools
    ]
    head = ("case", "rows", "what is wrong", "found as", "where", *marks)
    body = [
        (
            f"`{row['id']}`",
            " ".join(row["rows"]),
            row["wrong"],
            row["detection"]["code"] or "missed",
            _place(row),
            *(_cell(row, tool) for tool in tools),
        )
        for row in own
    ]
    return _table(head, body)


def page() -> str:
    """The page as Markdown."""
    rows = stored()
    named = sum(row["named"] for row in rows)
    covered = {name for row in rows for name in row["rows"]}
    names = (
        f"{len(rows)} cases stand for {len(covered)} of the {len(ROWS)} rows of the corpus. The median time of "
        f"Tileproof on a wrong form is {sorted(row['seconds'] for row in rows)[len(rows) // 2]:.1f} s, the "
        f"longest {max(row['seconds'] for row in rows):.0f} s (2 cores, shared with other work)."
    )
    not_found = [row["id"] for row in rows if not row["detection"]["code"]]
    if not_found:
        names += f" Tileproof misses {', '.join(not_found)}."
    forms = Counter((row["form"], row["base"]) for row in rows)
    form_rows = [
        (
            FORMS[form],
            f"{len({base for other, base in forms if other == form})}",
            f"{sum(count for (other, _), count in forms.items() if other == form)}",
        )
        for form in FORMS
    ]  # fmt: skip
    parts = []
    for group in dict.fromkeys(row.group for row in ROWS.values()):
        own = [row for row in rows if row["rows"] and ROWS[row["rows"][0]].group == group]
        if not own:
            continue
        links = ", ".join(
            dict.fromkeys(link(each) for row in own for name in row["rows"] for each in ROWS[name].links)
        )
        parts += [f"### {group.capitalize()}", _cases(own), f"Threads: {links}."]
    own = [row for row in rows if not row["rows"]]
    parts += [
        "### Triton and Gluon",
        "Common mistakes in kernels of our own, without a public thread.",
        _cases(own),
    ]
    without = [
        (name, ROWS[name].bug.strip(), WITHOUT.get(name, "its test is not a case")) for name in rows_without()
    ]
    return wrapped(
        TEXT.format(
            stored=f"[{STORED}](evidence/{STORED})",
            tools=_table(HEAD, summary(rows)),
            names=names,
            only=sum(finders(row) == ["Tileproof"] for row in rows),
            missed_one=missed("output test"),
            missed_ten=missed("output test, 10 orders"),
            ptxas="ptxas 13.0.88",
            forms=_table(("form", "programs or kernels", "cases"), form_rows),
            named=named,
            found=counts(rows, "Tileproof")[1],
            cases="\n\n".join(parts),
            alarms=_alarms(rows),
            without=_table(("row", "bug", "why"), without),
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk is stale."""
    return write_or_check("tileproof.tools.bugs.page", PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main())
