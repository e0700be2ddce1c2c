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
@click.argument("kernel", required=False)
@variant_options
@click.option(
    "--blocks", nargs=2, default=(2, 6), show_default=True, type=click.IntRange(1, 64),
    help="k-blocks of the two runs whose difference is the steady state.",
)  # fmt: skip
@click.option("--alone", is_flag=True, help="One cluster on the whole card, in place of every SM busy.")
@click.option("--compare", metavar="OTHER", help="Time this kernel too, and say what differs, on one page.")
@click.option(
    "--set", "settings", metavar="FIGURE=VALUE", multiple=True,
    help="What if: one figure of the machine at this value in all cases. May be repeated.",
)  # fmt: skip
@click.option("--sensitivity", is_flag=True, help="Which figure moves the answer most, and end.")
@click.option("--peers", is_flag=True, help="Published kernels beside the model's interval, and end.")
@click.option("--figures", is_flag=True, help="Print the machine's figures with their sources, and end.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="Write Chrome trace JSON with clocks (for ui.perfetto.dev).",
)
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the timeline into an image.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def time(
    kernel: str | None,
    variant: str | None,
    blocks: tuple[int, int],
    alone: bool,
    compare: str | None,
    settings: tuple[str, ...],
    sensitivity: bool,
    peers: bool,
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
    if peers:
        return _print_peers(as_json)
    if kernel is None:
        raise TileproofError("no kernel is named", where="KERNEL", expected="a name of `kernels`, or --peers")
    if figures:
        return _print_figures(kernel, variant, as_json)
    values = dict(_setting(text) for text in settings)
    made = [
        _timed(name, variant, blocks, alone, values, as_json)
        for name in ([kernel, compare] if compare else [kernel])
    ]
    if sensitivity:
        return _print_sensitivity(made[0], alone, as_json)
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
    elif compare:
        from tileproof.conformance.timing.compare import compare as side_by_side

        click.echo("\n".join(side_by_side(*reports)))
    else:
        click.echo("\n".join(reports[0].lines()))
    return 0


def _setting(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise TileproofError(
            "this sets no figure",
            where="--set",
            found=text,
            expected="FIGURE=VALUE, as copy_latency=900",
        ) from None


def _timed(
    name: str,
    variant: str | None,
    blocks: tuple[int, int],
    alone: bool,
    values: dict[str, float],
    quiet: bool,
) -> TimedKernel:
    from tileproof.conformance.timing.kernel import time_kernel
    from tileproof.kernels.registry import kernel as find_kernel

    found = find_kernel(name)
    chosen = one_chosen(found, variant)
    if not quiet:
        click.echo(f"{found.title(chosen)}: runs with {blocks[0]} and {blocks[1]} k-blocks", err=True)
    return time_kernel(found, chosen, blocks, alone, values)


def _print_sensitivity(timed: TimedKernel, alone: bool, as_json: bool) -> int:
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.conformance.timing.sensitivity import sensitivity

    likely = timed.report.clocks.likely
    rows = [
        {
            "figure": one.figure,
            "clocks at its best": f"{one.best:,.0f}",
            "at its worst": f"{one.worst:,.0f}",
            "moves": f"{one.span / likely:.1%}",
            "source": one.source,
        }
        for one in sensitivity(timed, alone)
    ]
    print_rows(f"{timed.report.kernel}: {likely:,.0f} clocks per k-block, likely", rows, as_json)
    return 0


def _print_peers(as_json: bool) -> int:
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.conformance.timing.peers import peers
    from tileproof.spec.published import ASSUMED

    found = peers()
    rows = [
        {
            "kernel": one.peer.name,
            "published ms": f"{one.peer.published_ms:.3f}",
            "TFLOPS": f"{one.published_tflops:.0f}",
            "likely ms": f"{one.ms.likely:.3f}",
            "off": f"{one.off:+.0%}",
            "best to worst": f"{one.ms.best:.3f} to {one.ms.worst:.3f}",
            "width": f"{one.width:.1f}",
            "held": "yes" if one.held else "NO",
            "clocks a block": str(one.block),
            "source": f"{one.peer.source}; "
            + (f"fitted: {one.peer.fitted}" if one.peer.fitted else "held out"),
        }
        for one in found
    ]
    print_rows("Published kernels, the model's time for their designs", rows, as_json)
    if not as_json:
        for name, fitted in (("a figure was chosen from", True), ("held out", False)):
            offs = [abs(one.off) for one in found if bool(one.peer.fitted) == fitted]
            mean = sum(offs) / len(offs)
            click.echo(f"{len(offs)} rows {name}: off by {mean:.0%} on average, {max(offs):.0%} at most")
        click.echo("Assumed: " + "; ".join(ASSUMED))
    return 0


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
