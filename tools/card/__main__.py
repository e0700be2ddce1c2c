"""The first hour on a card: `python -m tileproof.tools.card EVIDENCE.json.xz`.

Asks every question of docs/card.md, each in its own process with a time limit, and writes one evidence file,
which is complete after each row. Without recorded launches (`--recorded`), they are made first.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from pathlib import Path

import click
from tileproof import __version__
from tileproof.spec.machine.types import JsonObject
from tileproof.tools import evidence
from tileproof.tools.card.launches import DRIVERS
from tileproof.tools.card.record import FILES, record
from tileproof.tools.card.row import Row, ask
from tileproof.tools.card.rows import matching, rows

WRONG = ("differs", "hang", "fault")


def recorded(folder: Path) -> dict[str, str]:
    """Record what is missing in `folder`; why a file was not recorded."""
    folder.mkdir(parents=True, exist_ok=True)
    return {file: why for file in FILES if (why := record(folder.resolve(), file))}


def run(out: Path, driver: str, chosen: list[Row], head: JsonObject) -> Counter[str]:
    """Ask the rows and write the evidence after each; the number of rows by outcome."""
    start, answered = time.monotonic(), []
    counts = Counter[str]()
    for number, row in enumerate(chosen, 1):
        answer, seconds = ask(row)
        counts[answer.outcome] += 1
        answered.append({"group": row.group, "row": row.name, "seconds": round(seconds, 1)} | vars(answer))
        body = {"driver": driver, "seconds": round(time.monotonic() - start, 1), "outcomes": dict(counts)}
        evidence.write_json(out, head | body | {"rows": answered})
        reason = f": {answer.reason}" if answer.reason else ""
        click.echo(
            f"{number:3d} of {len(chosen)}  {answer.outcome}  {row.group}: {row.name[:70]}{reason[:160]}"
        )
    return counts


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--driver", default="cuda", show_default=True, type=click.Choice(DRIVERS),
    help="cuda: this card. emulator: no card. dry-run: on the card what an sm_90 card can run, the rest on "
    "the emulator.",
)  # fmt: skip
@click.option(
    "--recorded", "folder", default=Path("build/card"), show_default=True,
    type=click.Path(path_type=Path, file_okay=False), help="Recorded launches (tools/card/record.py).",
)  # fmt: skip
@click.option("--only", default="", metavar="REGEX", help="Rows whose 'group: name' matches.")
@click.option("--examples", default=10, show_default=True, type=click.IntRange(1), help="Problems a kernel.")
def main(out: Path, driver: str, folder: Path, only: str, examples: int) -> None:
    """Write the evidence file OUT (.json or .json.xz).

    Exit code 0: no row differs, hangs or faults; 1: some do.
    """
    chosen = matching(rows(folder.resolve(), driver, examples), only)
    head: JsonObject = {"tileproof": __version__, "date": datetime.date.today().isoformat()}
    if any("tileproof.tools.card.launches" in row.program for row in chosen):
        head["not recorded"] = recorded(folder)
    counts = run(out, driver, chosen, head)
    click.echo(", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()) + f": {out}")
    raise SystemExit(int(any(counts[word] for word in WRONG)))


if __name__ == "__main__":
    main()
