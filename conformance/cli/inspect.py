"""`tileproof inspect` and `tileproof instructions`: what a kernel holds, and what the emulator executes."""

from __future__ import annotations

import json
from pathlib import Path

import click
from tileproof.spec.machine.errors import TileproofError

COULD_NOT_CHECK = 2


@click.command()
@click.argument("kernel", type=click.Path(dir_okay=False))
@click.option("--entry", metavar="NAME", help="This kernel of the file only.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def inspect(kernel: str, entry: str | None, as_json: bool) -> int:
    """Say what the PTX file KERNEL holds: parameters and which bytes are read, shared memory, barriers, CTA
    groups, and every form that the emulator does not execute. Exit code 2 when there is one.
    """
    from dataclasses import replace

    from tileproof.emulator import Module

    found = Module.from_file(Path(kernel)).inspect()
    if entry is not None:
        chosen = tuple(one for one in found.entries if one.name == entry)
        if not chosen:
            known = ", ".join(one.name for one in found.entries) or "none"
            raise TileproofError("the file has no such kernel", where=kernel, expected=known, found=entry)
        found = replace(found, entries=chosen)
    print(json.dumps(found.as_dict(), indent=1) if as_json else "\n".join(found.lines()))
    return 0 if found.runs else COULD_NOT_CHECK


@click.command()
@click.argument("base", required=False)
@click.option("--findings", is_flag=True, help="The codes of findings in place of instructions.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def instructions(base: str | None, findings: bool, as_json: bool) -> int:
    """List what the emulator executes and what it refuses; with BASE, instructions that begin with it."""
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.emulator import isa
    from tileproof.emulator.codes import CODES
    from tileproof.emulator.registry import ROWS

    assert isa  # importing the families fills the registry
    if findings:
        rows = [
            {
                "code": c.code,
                "severity": c.severity,
                "launch": "stops" if c.stops else "goes on",
                "means": c.meaning,
            }
            for c in CODES.values()
        ]
    else:
        rows = [
            {"instruction": r.base, "forms": r.forms, "grade": r.grade, "ISA": r.section, "note": r.note}
            for r in sorted(ROWS, key=lambda r: r.base)
        ]
    if base is not None:
        first = "code" if findings else "instruction"
        rows = [row for row in rows if row[first].startswith(base)]
        if not rows:
            raise TileproofError(
                "nothing is known under this name",
                where=base,
                expected="the beginning of an instruction, or with --findings of a code",
                do="`tileproof instructions` lists all",
            )
    print_rows("Findings" if findings else "Instructions", rows, as_json)
    return 0
