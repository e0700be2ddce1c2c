"""`tileproof corpus`: list the rows of the corpus with their tests and status, without running the tests."""

from __future__ import annotations

import click
from tileproof.conformance.report import terminal as text


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def corpus(as_json: bool) -> int:
    """List the public bugs of the corpus and the tests that cover each; exit 1 if a bug has no test.

    An installed package has no tests; it lists only the bugs.
    """
    from tileproof.conformance.beside.corpus.rows import ROWS, TESTS, coverage, missing

    if not TESTS.is_dir():
        alone = [
            {"row": row.id, "what went wrong": row.bug, "links": ", ".join(row.links)}
            for row in ROWS.values()
        ]
        text.print_rows("Corpus (its tests are in the repository)", alone, as_json)
        return 0
    covered = coverage()
    rows = [
        {
            "row": one.row.id,
            "what went wrong": one.row.bug,
            "links": ", ".join(one.row.links),
            "status": one.status if as_json else one.row.why_not or one.status,
            **({"why not": one.row.why_not} if as_json else {}),
            "tests": list(one.tests) if as_json else "\n".join(t.rpartition("::")[2] for t in one.tests),
        }
        for one in covered
    ]
    text.print_rows("Corpus", rows, as_json)
    return 1 if missing(covered) else 0
