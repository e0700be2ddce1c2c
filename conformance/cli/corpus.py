"""`tileproof corpus`: the rows of the corpus with their tests; with `--run`, its cases in both forms."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from tileproof.conformance.cli.exit_codes import CLEAN, DEFECT
from tileproof.conformance.cli.options import json_option
from tileproof.conformance.report import terminal as text


@click.command()
@click.argument("names", nargs=-1, metavar="[CASE | ROW]...")
@click.option("--run", "runs", is_flag=True, help="Run cases: all, or those given by their id or row.")
@click.option("--tools", is_flag=True, help="With --run: judge the cases by other tools without a card, too.")
@json_option()
def corpus(names: Sequence[str], runs: bool, tools: bool, as_json: bool) -> int:
    """List the public bugs of the corpus and the tests that cover each; exit 1 if a bug has no test.

    With --run: run bugs in a wrong and a right form, and print what is found, where, and whether the finding
    names the place and the cause; exit 1 if a bug is missed or a right form has a finding.
    An installed package has no tests; it lists only the bugs.
    """
    if runs:
        return _run(names, tools, as_json)
    if names or tools:
        raise click.UsageError("a case, a row or --tools needs --run")
    return _listed(as_json)


def _listed(as_json: bool) -> int:
    from tileproof.conformance.beside.corpus.rows import ROWS, TESTS, coverage, missing

    if not TESTS.is_dir():
        alone = [
            {"row": row.id, "what went wrong": row.bug, "links": ", ".join(row.links)}
            for row in ROWS.values()
        ]
        text.print_rows("Corpus (its tests are in the repository)", alone, as_json)
        return CLEAN
    covered = coverage()
    rows = [
        {
            "row": bug.row.id,
            "what went wrong": bug.row.bug,
            "links": ", ".join(bug.row.links),
            "status": bug.status if as_json else bug.row.why_not or bug.status,
            **({"why not": bug.row.why_not} if as_json else {}),
            "tests": list(bug.tests) if as_json else "\n".join(t.rpartition("::")[2] for t in bug.tests),
        }
        for bug in covered
    ]
    text.print_rows("Corpus", rows, as_json)
    return DEFECT if missing(covered) else CLEAN


def _run(names: Sequence[str], tools: bool, as_json: bool) -> int:
    from tileproof.tools.bugs.measure import HEAD, CaseResult, measured, summary
    from tileproof.tools.bugs.registry import chosen

    results: list[CaseResult] = []
    for result in measured(chosen(names), tools, lambda name: click.echo(name, err=True)):
        results.append(result)
    if as_json:
        print(json.dumps([result.as_dict() for result in results], indent=1))
    else:
        rows = [
            {
                "case": result.id,
                "rows": " ".join(result.rows),
                "found": result.detection.code or "missed",
                "where": result.detection.where,
                "place and cause": result.detection.differs or "named",
                "right form": "; ".join(result.alarms[:1]) or "clean",
                "seconds": str(result.seconds),
                **{
                    name: ("found" if answer["found"] else "not found") if answer["accepted"] else "-"  # type: ignore[index, call-overload]
                    for name, answer in result.tools.items()
                },
            }
            for result in results
        ]
        text.print_rows("Cases", rows, False)
        made = summary([result.as_dict() for result in results])
        text.print_rows("Tools", [dict(zip(HEAD, row, strict=True)) for row in made], False)
    return CLEAN if all(result.right for result in results) else DEFECT
