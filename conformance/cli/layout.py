"""`tileproof layout`: a layout, a swizzle or a TMEM data path as a table or a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.beside.layouts.table import Table

MAX_ROWS = 64
MAX_COLUMNS = 32


@click.command()
@click.argument("spec", required=False)
@click.option("--mn", type=int, help="Operand: rows, M or N.")
@click.option("--k", type=int, help="Operand: columns, K.")
@click.option("--major", type=click.Choice(["K", "MN"]), help="Operand: the contiguous mode.")
@click.option(
    "--swizzle", type=click.Choice(["none", "32B", "64B", "128B"]), help="Operand: swizzle of the tile."
)
@click.option("--dtype", help="Element type (operand: bf16 unless given; layout: index only unless given).")
@click.option("--tmem", "tmem_name", metavar="A..G", help="TMEM data path of an accumulator.")
@click.option("--n", type=int, help="TMEM: N of the accumulator (default: 64).")
@click.option("--lane-offset", type=int, help="TMEM layouts C and F: first lane, 0 or 16.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw into an SVG, PNG or PDF file.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="The place of every element as JSON on standard output."
)
def layout(
    spec: str | None,
    mn: int | None,
    k: int | None,
    major: str | None,
    swizzle: str | None,
    dtype: str | None,
    tmem_name: str | None,
    n: int | None,
    lane_offset: int | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Show where each element of a tile lies: a CuTe layout, an MMA operand or an accumulator.

    \b
    SPEC is a CuTe layout as CuTe prints it:
      tileproof layout "(8,64):(64,1)"
      tileproof layout "Sw<3,4,3> o smem_ptr[16b] o (8,64):(64,1)" -o atom.svg
    An operand in shared memory, tiled with the swizzle's atom, element to byte address:
      tileproof layout --mn 64 --k 64 --major K --swizzle 128B -o operand.svg
    An accumulator in tensor memory, element to lane and column (layouts of the PTX ISA):
      tileproof layout --tmem E --n 64 -o tmem.png

    Exit code 2 for an invalid layout.
    """
    operand = {"mn": mn, "k": k, "major": major, "swizzle": swizzle}
    given = [name for name, value in operand.items() if value is not None]
    asked = [what for what, yes in (("SPEC", spec), ("--tmem", tmem_name), ("--mn, --k", given)) if yes]
    if len(asked) != 1:
        raise TileproofError(
            "the arguments select more than one layout" if asked else "nothing to show",
            expected="a CuTe layout, or --mn and --k, or --tmem",
            found=" and ".join(asked) or "none of them",
            do="see tileproof layout --help",
        )
    if tmem_name is None and (n is not None or lane_offset is not None):
        raise TileproofError("--n and --lane-offset belong to --tmem", do="see tileproof layout --help")
    table = _table(
        spec, mn, k, major or "K", swizzle or "128B", dtype, tmem_name, 64 if n is None else n, lane_offset
    )
    if output is not None:
        from tileproof.conformance.beside.layouts.picture import draw

        draw(table, output)
    if as_json:
        print(json.dumps(table.as_dict() | ({"picture": str(output)} if output else {})))
    elif output is not None:
        print(f"{table.title}: {output}")
    else:
        print(text(table))
    return 0


def _table(
    spec: str | None,
    mn: int | None,
    k: int | None,
    major: str,
    swizzle: str,
    dtype: str | None,
    tmem_name: str | None,
    n: int,
    lane_offset: int | None,
) -> Table:
    # Not at the top: the other commands run without numpy tables and without CuTe's algebra installed.
    from tileproof.conformance.beside.layouts.table import of_layout, of_operand, of_tmem

    if spec is not None:
        return of_layout(spec, dtype)
    if tmem_name is not None:
        if dtype is not None:
            raise TileproofError("an accumulator is f32: --dtype does not apply to --tmem", found=dtype)
        return of_tmem(tmem_name, n, lane_offset or 0)
    if mn is None or k is None:
        missing = "--mn" if mn is None else "--k"
        raise TileproofError(
            "an operand needs both --mn and --k", where=missing, expected="--mn and --k", found="one"
        )
    return of_operand(mn, k, major, swizzle, dtype or "bf16")


def text(table: Table) -> str:
    """Return the table as text: blocks for tensor memory, otherwise a grid of addresses (hex) or indices."""
    lines = [table.title, *(f"  {note}" for note in table.notes), ""]
    if table.kind == "tmem":
        rows: list[tuple[str, ...]] = [("m", "n", "CTA", "lanes", "columns")]
        rows += [
            (
                f"{b.m[0]}..{b.m[1] - 1}",
                f"{b.n[0]}..{b.n[1] - 1}",
                str(b.cta),
                f"{b.lane}..{b.lane + b.m[1] - b.m[0] - 1}",
                f"{b.column}..{b.column + b.n[1] - b.n[0] - 1}",
            )
            for b in table.blocks()
        ]
        return "\n".join(lines + _aligned(rows))
    down, across = table.chunk
    if table.kind == "operand":
        values = table.places["byte"][::down, ::across]
        lines.append(
            f"byte address (hex) of each run of {max(down, across)} elements along {table.axes[down == 1]}"
        )
    else:
        values = table.places["index"]
        lines.append("index of each element")
    part = values[:MAX_ROWS, :MAX_COLUMNS]
    form = "x" if table.kind == "operand" else "d"
    head = (f"{table.axes[0]} \\ {table.axes[1]}", *(str(j * across) for j in range(part.shape[1])))
    body = [(str(i * down), *(format(value, form) for value in row)) for i, row in enumerate(part.tolist())]
    lines += _aligned([head, *body])
    if part.shape != values.shape:
        lines.append(
            f"  the first {part.shape[0]} x {part.shape[1]} of {values.shape[0]} x {values.shape[1]}; "
            "all with --json"
        )
    return "\n".join(lines)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
