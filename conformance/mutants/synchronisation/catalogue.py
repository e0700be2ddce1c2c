"""The catalogue of synchronisation mutants: hangs and races, and what the emulator must say of each.

A row plants one mistake in a kernel (in its source or its PTX) or in a small program, and states the finding
that names its root: code, both accesses, the missing edge, or the barrier and who failed it. `run`
plants and judges, `tileproof synchronisation` prints the outcome, docs/synchronisation.md lists the rows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tileproof.kernels.edit import Mutant, Reported
from tileproof.kernels.registry import own
from tileproof.spec.machine.pages import write_or_check

PAGE = Path(__file__).resolve().parents[3] / "docs" / "synchronisation.md"
CLASSES = (*(f"H{n}" for n in range(1, 8)), *(f"R{n}" for n in range(1, 15)))


# Classes of which part cannot happen inside one launch, and the form in which they are planted here.
NEAREST = MappingProxyType(
    {
        "R6": "the bug is a dependent launch that starts early; in one launch a "
        "griddepcontrol.wait cannot be missed (in a stream it can: corpus row R27). "
        "Planted: a second phase of the same launch that reads what "
        "other warps, or another cluster, wrote",
        "R7": "the bug is memory left over from an earlier launch. Planted: memory that this launch should "
        "have written and did not, which reads as never written",
        "R8": "the bug is the compiler's. Planted: what it made, two live tiles in the same bytes",
        "H4": "of the two bugs the scheduler's needs clusterlaunchcontrol, which the emulator refuses. "
        "Planted: the register pool of setmaxnreg",
    }
)


def catalogue() -> Mapping[str, Mutant]:
    """All rows by id, in the order of the table: of the kernels, what a launch must report; then programs."""
    from tileproof.conformance.mutants.synchronisation import barriers, copies, memory, tensor

    every = (
        *(one for target in own().values() for one in target.mutants() if isinstance(one.expected, Reported)),
        *copies.ROWS,
        *memory.ROWS,
        *tensor.ROWS,
        *barriers.ROWS,
    )
    rows = {row.id: row for row in every}
    assert len(rows) == len(every), "two rows have the same id"
    return MappingProxyType(rows)


def expected_of(row: Mutant) -> Reported:
    """What the row's launch must report."""
    assert isinstance(row.expected, Reported)
    return row.expected


def where(row: Mutant) -> str:
    """Where the row is planted, in words."""
    files = dict.fromkeys(
        f"{edit.place.kind} of {edit.place.file.rpartition('/')[2]}" for edit in row.edits if edit.place.file
    )
    return f"{row.target}: {', '.join(files)}" if files else f"program {row.target}"


def names(expected: Reported) -> list[str]:
    """What the finding must name, in words."""
    parts = []
    for label, opcode, at in (
        ("first", expected.first, expected.first_at),
        ("then", expected.second, expected.second_at),
    ):
        if opcode or at:
            place = at.rpartition("\n")[2]
            parts.append(
                " ".join(x for x in (label, opcode and f"`{opcode}`", place and f"at `{place}`") if x)
            )
    if expected.missing:
        parts.append(f"missing: {expected.missing}")
    parts += [f'"{text}"' for text in expected.says]
    return parts


def per_class(rows: Sequence[Mutant]) -> dict[str, int]:
    """How many rows stand for each class of the corpus."""
    seen = Counter(name for row in rows for name in row.classes)
    return {name: seen[name] for name in CLASSES}


def page(rows: Sequence[Mutant]) -> str:
    """docs/synchronisation.md."""
    kernels = sum(bool(row.edits[0].place.file) for row in rows)
    lines = [
        "# Synchronisation mutants: planted races and hangs",
        "",
        "Generated from the kernels' mutants and `conformance/mutants/synchronisation/` by `python -m "
        "tileproof.conformance.mutants.synchronisation.catalogue`. Edit "
        "those, not this page. `tileproof synchronisation` plants every row, runs it with race checking and "
        "prints what was found; it fails when a row is missed or found under another name.",
        "",
        f"{len(rows)} defects: {kernels} in the kernels (their source, or their PTX at a source line), "
        f"{len(rows) - kernels} in small programs. Each program is also run as it should be, and must then "
        "be clean under every schedule; so must both kernels.",
        "",
        "The first error of the first schedule that shows any (the first warning, when there is no error; "
        "a note only where one is expected) must be the expected one and name what the row says. Where it "
        "only says that something was read before it was there, the first finding that says more may be the "
        'expected one instead. "schedule" is that schedule: early (each asynchronous operation completes '
        "when issued), late, or random.",
        "",
        "| id | what is planted | corpus | where | found as | names | schedule |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        expected = expected_of(row)
        told = "; ".join(names(expected)).replace("|", "\\|").replace("\n", " ")
        code = f"`{expected.code}`" + ("" if expected.severity == "error" else f" ({expected.severity})")
        cells = (f"`{row.id}`", row.title, ", ".join(row.classes), where(row), code, told, row.policy)
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## How often each class of the corpus is planted", "", "| class | rows |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in per_class(rows).items()]
    lines += ["", "## What cannot happen inside one launch", ""]
    lines += [f"- **{name}**: {text}." for name, text in NEAREST.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 when the one on disk is stale."""
    # With `python -m` this module runs under another name than the rows import it by.
    from tileproof.conformance.mutants.synchronisation import catalogue

    return write_or_check(
        "tileproof.conformance.mutants.synchronisation.catalogue",
        PAGE,
        lambda: catalogue.page(tuple(catalogue.catalogue().values())),
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
