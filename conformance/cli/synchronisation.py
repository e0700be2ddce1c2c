"""`tileproof synchronisation`: plant races and hangs, and print the findings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.drivers.names import code_place
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject

if TYPE_CHECKING:
    from tileproof.spec.machine.finding import Finding, MachinePlace, Race


MISSED = 1


@click.command()
@click.option("--only", metavar="ID", multiple=True, help="Only this row, or the rows of this corpus id.")
@json_option()
def synchronisation(only: tuple[str, ...], as_json: bool) -> int:
    """Plant each race and hang and print the emulator's finding; exit 1 if a defect has no finding or an
    unexpected finding.
    """
    from tileproof.conformance.planted.synchronisation.catalogue import catalogue, expected_of, where
    from tileproof.conformance.planted.synchronisation.run import run

    known = catalogue()
    rows = [row for row in known.values() if not only or {row.id, *row.classes} & set(only)]
    if not rows or set(only) - {name for row in rows for name in (row.id, *row.classes)}:
        raise TileproofError(
            "unknown row or corpus id",
            where="--only",
            expected=", ".join(known),
            found=", ".join(only),
            do="list them with `tileproof synchronisation`, or see docs/synchronisation.md",
        )
    table: list[JsonObject] = []
    wrong = []
    with text.Progress(len(rows)) as progress:
        for done, row in enumerate(rows):
            progress.start(f"{row.id} ({done + 1}/{len(rows)})")
            progress.show(done, False)
            outcome = run(row)
            shown = outcome.shown
            finding = shown.finding if shown else None
            if outcome.wrong:
                wrong.append(f"{row.id}: {outcome.wrong}")
            named = _root(shown.finding, shown.root) if shown else ""
            table.append(
                {
                    "id": row.id,
                    "planted": row.title,
                    "corpus": ", ".join(row.classes),
                    "where": where(row),
                    "found as": finding.code if finding else "nothing",
                    "root": named if not outcome.wrong else f"NOT {expected_of(row).code}: {named}",
                    "schedule": str(shown.schedule) if shown else "",
                    "shown under": " ".join(outcome.policies),
                    "seconds": round(outcome.seconds, 2),
                    **({"wrong": outcome.wrong, "message": str(finding or "")} if as_json else {}),
                }
            )
    if as_json:
        print(json.dumps({"verdict": "defect" if wrong else "clean", "rows": table}, indent=1))
    else:
        text.print_rows("Planted synchronisation defects", [_cells(row) for row in table], False)
        click.echo(f"{len(rows) - len(wrong)} of {len(rows)} found as expected")
    for line in wrong:
        click.echo(line, err=True)
    return MISSED if wrong else 0


def _cells(row: JsonObject) -> dict[str, str]:
    """Return a row for the printed table, with related values in the same cell."""
    return {
        "row": f"{row['id']}\n{row['corpus']}".strip(),
        "planted": f"{row['planted']} ({row['where']})",
        "found as": f"{row['found as']}\n{row['shown under']}".strip(),
        "named": str(row["root"]),
    }


def _root(finding: Finding, root: tuple[str, ...]) -> str:
    """Return the place that the finding names."""
    if root:
        return root[0] if "cycle" not in root[0] or len(root) < 2 else f"{root[0]}: {root[1]}"
    if finding.machine.race is None:
        return str(finding.message)
    race = finding.machine.race
    both = f"{_place(race)}, then {_place(finding.machine)}"
    return f"{both}; missing: {race.missing}"


def _place(access: MachinePlace | Race) -> str:
    """Return the opcode and place of an access."""
    opcode = ".".join(access.instruction.split(" ")[0].split(".")[:3])
    return f"{opcode} at {code_place(access.source, access.ptx_line)}"
