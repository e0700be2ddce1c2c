"""`tileproof vectors`: writes a set of inputs with every stage in float64 and its bound."""

from __future__ import annotations

from pathlib import Path

import click
from tileproof.conformance.cli.exit_codes import CLEAN
from tileproof.spec.machine.errors import TileproofError, did_you_mean


@click.command()
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--problem", "problems", multiple=True, metavar="NAME", help="Only cases of this problem (repeatable)."
)
@click.option("--first", type=click.IntRange(1), metavar="N", help="Only the first N cases of each problem.")
def vectors(folder: Path, problems: tuple[str, ...], first: int | None) -> int:
    """Write released vectors into FOLDER: cases with inputs, and of each stage float64 values and bounds.

    docs/vectors.md describes the format, and the two readers that judge a dump against it.
    """
    from tileproof.conformance.report import terminal as text
    from tileproof.conformance.vectors.cases import cases
    from tileproof.conformance.vectors.writing import write

    by_problem = cases()
    for name in problems:
        if name not in by_problem:
            raise TileproofError(
                "this problem has no vectors", where="--problem", expected=", ".join(by_problem),
                found=name, do=did_you_mean(name, by_problem),
            )  # fmt: skip
    wanted = [(name, case) for name in problems or by_problem for case in by_problem[name][:first]]
    with text.Progress(0) as progress:
        size = write(folder, wanted, progress.start)
    click.echo(f"{len(wanted)} cases, {size / 1e6:.1f} MB in {folder}")
    return CLEAN
