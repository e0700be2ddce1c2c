"""`tileproof time`: how long a kernel takes by the model, and what it waits for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.trace import write
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.timing.kernel import TimedKernel


@click.command()
@click.argument("kernel")
@variant_options
@click.option(
    "--blocks", nargs=2, default=(2, 6), show_default=True, type=click.IntRange(1, 64),
    help="k-blocks of the two runs whose difference is the steady state.",
)  # fmt: skip
@click.option("--alone", is_flag=True, help="One cluster on the whole card, in place of every SM busy.")
@click.option("--compare", metavar="OTHER", help="Time this kernel too, and print both side by side.")
@click.option("--figures", is_flag=True, help="Print the machine's figures with their sources, and end.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="Write Chrome trace JSON with clocks (for ui.perfetto.dev).",
)
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the timeline into an image.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def time(
    kernel: str,
    variant: str | None,
    blocks: tuple[int, int],
    alone: bool,
    compare: str | None,
    figures: bool,
    out: str | None,
    picture: str | None,
    as_json: bool,
) -> int:
    """Clocks per k-block of KERNEL by a discrete-event model: likely, and the interval of its figures.

    The emulator runs the kernel; the instructions, stall counts and scoreboards are those of ptxas's machine
    code; latencies and rates stand in spec/machine/timing.py with their sources. An instruction
    without a figure ends with exit code 2.
    """
    if blocks[0] >= blocks[1]:
        raise TileproofError(
            "the second run is not longer than the first", where="--blocks", found=f"{blocks[0]} {blocks[1]}"
        )
    if figures:
        return _print_figures(kernel, variant, as_json)
    made = [
        _timed(name, variant, blocks, alone, as_json) for name in ([kernel, compare] if compare else [kernel])
    ]
    reports = [one.report for one in made]
    if out or picture:
        drawn = made[0].run.clocks(made[0].timing, "likely", alone)
        if out:
            from tileproof.conformance.timing.chrome import chrome

            write(out, json.dumps(chrome(drawn, made[0].names)))
        if picture:
            from tileproof.conformance.report.time_picture import draw

            draw(
                drawn,
                made[0].names,
                Path(picture),
                f"{reports[0].kernel}, {blocks[1]} k-blocks, {reports[0].arch}",
            )
    if as_json:
        print(json.dumps([one.as_dict() for one in reports] if compare else reports[0].as_dict(), indent=1))
    else:
        click.echo("\n\n".join("\n".join(one.lines()) for one in reports))
        if compare:
            a, b = reports
            click.echo(
                f"\n{b.kernel} takes {b.clocks.likely / a.clocks.likely:.2f} of the clocks per k-block"
            )
    return 0


def _timed(name: str, variant: str | None, blocks: tuple[int, int], alone: bool, quiet: bool) -> TimedKernel:
    from tileproof.conformance.timing.kernel import time_kernel
    from tileproof.kernels.registry import kernel as find_kernel

    found = find_kernel(name)
    chosen = one_chosen(found, variant)
    if not quiet:
        click.echo(f"{found.title(chosen)}: runs with {blocks[0]} and {blocks[1]} k-blocks", err=True)
    return time_kernel(found, chosen, blocks, alone)


def _print_figures(name: str, variant: str | None, as_json: bool) -> int:
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.conformance.timing.kernel import target_of
    from tileproof.kernels.registry import kernel as find_kernel
    from tileproof.spec.machine.timing import timing_of

    found = find_kernel(name)
    timing = timing_of(target_of(found.build(one_chosen(found, variant)).ptx))
    rows = [{"figure": key, **asdict(one)} for key, one in timing.figures().items()]
    print_rows(f"Figures of {timing.arch}", rows, as_json)
    return 0
