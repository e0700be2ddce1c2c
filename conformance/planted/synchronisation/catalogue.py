"""The catalogue of planted synchronisation defects: hangs and races, and the finding that the emulator must
report for each.

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

from tileproof.kernels.edit import PlantedDefect, Reported
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
        "have written and did not, which is reported as never written",
        "R8": "the bug is in the compiler. Planted: its effect, two live tiles in the same bytes",
        "H4": "of the two bugs the scheduler's needs clusterlaunchcontrol, which the emulator rejects. "
        "Planted: the register pool of setmaxnreg",
    }
)


def catalogue() -> Mapping[str, PlantedDefect]:
    """All rows by id, in the order of the table: of the kernels, what a launch must report; then programs."""
    from tileproof.conformance.planted.synchronisation import barriers, copies, memory, tensor

    every = (
        *(
            defect
            for kernel in own().values()
            for defect in kernel.defects()
            if isinstance(defect.expected, Reported)
        ),
        *copies.ROWS,
        *memory.ROWS,
        *tensor.ROWS,
        *barriers.ROWS,
    )
    rows = {row.id: row for row in every}
    assert len(rows) == len(every), "two rows have the same id"
    return MappingProxyType(rows)


def expected_of(row: PlantedDefect) -> Reported:
    """What the row's launch must report."""
    assert isinstance(row.expected, Reported)
    return row.expected


def where(row: PlantedDefect) -> str:
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


def per_class(rows: Sequence[PlantedDefect]) -> dict[str, int]:
    """How many rows stand for each class of the corpus."""
    seen = Counter(name for row in rows for name in row.classes)
    return {name: seen[name] for name in CLASSES}


def page(rows: Sequence[PlantedDefect]) -> str:
    """docs/synchronisation.md."""
    kernels = sum(bool(row.edits[0].place.file) for row in rows)
    lines = [
        "# Planted synchronisation defects: races and hangs",
        "",
        "The module `tileproof.conformance.planted.synchronisation.catalogue`, run with `python -m`, "
        "generates this page from the kernels' planted defects and `conformance/planted/synchronisation/`. "
        "`tileproof synchronisation` "
        "plants every row, runs it with race checking and prints the finding. It fails if a row has no "
        "finding or another finding.",
        "",
        f"{len(rows)} defects: {kernels} in the kernels (their source, or their PTX at a source line), "
        f"{len(rows) - kernels} in small programs. Each program also runs without its defect, and must "
        "then be clean under every schedule. The same holds for the kernels.",
        "",
        "The column *found as* has the expected finding: the first error of the first schedule with an "
        "error. Without errors it is the first warning; it is a note only if the row expects a note. If "
        "the first finding only reports a read before the data arrived, the first more specific finding "
        "is also accepted. The finding must contain the texts of the column *names*. *schedule* is the "
        "first such schedule: early (each asynchronous operation completes when issued), late, or random.",
        "",
        "| id | defect | corpus | place | found as | names | schedule |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        expected = expected_of(row)
        expectation = "; ".join(names(expected)).replace("|", "\\|").replace("\n", " ")
        code = f"`{expected.code}`" + ("" if expected.severity == "error" else f" ({expected.severity})")
        cells = (f"`{row.id}`", row.title, ", ".join(row.classes), where(row), code, expectation, row.policy)
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Rows per class of the corpus", "", "| class | rows |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in per_class(rows).items()]
    lines += ["", "## Classes that a single launch cannot contain", ""]
    lines += [f"- **{name}**: {text}." for name, text in NEAREST.items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 when the page on disk is stale."""
    # With `python -m` this module runs under another name than the rows import it by.
    from tileproof.conformance.planted.synchronisation import catalogue

    return write_or_check(
        "tileproof.conformance.planted.synchronisation.catalogue",
        PAGE,
        lambda: catalogue.page(tuple(catalogue.catalogue().values())),
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
