"""`tileproof time`: kernel time by the model, and what the kernel waits for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import refuse
from tileproof.conformance.cli.options import json_option, option, options
from tileproof.conformance.cli.trace import write
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.beside.timing.kernel import TimedKernel
    from tileproof.conformance.beside.timing.report import TimeNames
    from tileproof.conformance.beside.timing.simulate import Timed
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.launch.model import LaunchFile

BLOCKS = (2, 6)


@dataclass(frozen=True)
class TimeOptions:
    """Options of `tileproof time`."""

    blocks: tuple[int, int] | None = option(
        "--blocks", nargs=2, type=click.IntRange(1, 64),
        help="k-blocks of the two runs whose difference is the steady state (default: 2 6).",
    )  # fmt: skip
    tokens: int | None = option(
        "--tokens", type=click.IntRange(1, 1 << 24), help="Query tokens of the launch (default: 4096)."
    )
    topk: int | None = option(
        "--topk", type=click.IntRange(1, 1 << 20), help="Keys of a token of the launch (default: 2048)."
    )
    card: str | None = option("--card", help="The card of the launch: B200, GB200, GB300, H200, H100.")
    alone: bool = option(
        "--alone", is_flag=True, help="Run a single cluster on the card instead of filling every SM."
    )
    compare: str | None = option(
        "--compare", metavar="OTHER", help="Time this kernel too, and report the differences."
    )
    settings: tuple[str, ...] = option(
        "--set", "settings", metavar="FIGURE=VALUE", multiple=True,
        help="Set a timing figure of the machine to this value (repeatable).",
    )  # fmt: skip
    sensitivity: bool = option(
        "--sensitivity", is_flag=True, help="List the figures by their effect on the result, and exit."
    )
    peers: bool = option(
        "--peers", is_flag=True, help="Compare published kernels with the model's intervals, and exit."
    )
    figures: bool = option(
        "--figures", is_flag=True, help="Print the machine's figures with their sources, and exit."
    )
    out: str | None = option(
        "--out",
        type=click.Path(dir_okay=False),
        help="Write Chrome trace JSON with clocks (for ui.perfetto.dev).",
    )
    picture: str | None = option(
        "--picture", type=click.Path(dir_okay=False), help="Draw the timeline into an image."
    )
    as_json: bool = option(json_option())


@click.command()
@click.argument("kernel", required=False, metavar="[KERNEL|FILE]")
@variant_options
@options(TimeOptions)
def time(kernel: str | None, variant: str | None, given: TimeOptions) -> int:
    """Estimate the clocks per k-block of KERNEL, or the clocks of each launch of the launch file FILE: the
    likely value, and the interval from the best to the worst figures.

    The emulator runs the kernel. A discrete-event model executes ptxas's machine code with its stall counts
    and scoreboards, using the latencies and rates of spec/machine/timing.py. The exit code is 2 if an
    instruction has no figure. A launch far from every row of the model is reported as its interval, with a
    warning.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.kernels.launch.model import LaunchFile

    if given.peers:
        return _print_peers(given.as_json)
    if kernel is None:
        raise TileproofError(
            "no kernel is given", where="KERNEL", expected="a name from `tileproof kernels`, or --peers"
        )
    found = resolve.compiled(kernel)
    values = dict(_setting(text) for text in given.settings)
    if isinstance(found, LaunchFile):
        asked = {
            "--variant": variant, "--blocks": given.blocks, "--compare": given.compare,
            "--sensitivity": given.sensitivity, "--tokens": given.tokens, "--topk": given.topk,
            "--card": given.card,
        }  # fmt: skip
        refuse("a launch file", asked, "omit the options: each launch is timed completely")
        return _time_launches(found, values, given)
    if given.figures:
        return _print_figures(found.build(one_chosen(found, variant)).ptx, given.as_json)
    others = [resolve.kernel(given.compare, "two kernels are compared per k-block")] if given.compare else []
    made = [_timed(other, variant, values, given) for other in (found, *others)]
    if given.sensitivity:
        return _print_sensitivity(made[0], given.alone, given.as_json)
    reports = [launch.report for launch in made]
    if given.out or given.picture:
        drawn = made[0].run.clocks(made[0].timing, "likely", given.alone)
        title = f"{reports[0].kernel}, {_blocks(given)[1]} k-blocks, {reports[0].arch}"
        _draw([(title, drawn, made[0].names)], given.out, given.picture)
    if given.as_json:
        rows = [report.as_dict() for report in reports]
        print(json.dumps(rows if given.compare else rows[0], indent=1))
    elif given.compare:
        from tileproof.conformance.beside.timing.compare import compare as side_by_side

        click.echo("\n".join(side_by_side(*reports)))
    else:
        click.echo("\n".join(reports[0].lines()))
    return 0


def _blocks(given: TimeOptions) -> tuple[int, int]:
    """Return the k-blocks of the two runs; TileproofError unless the second is longer."""
    first, second = given.blocks or BLOCKS
    if first >= second:
        raise TileproofError(
            "the second run is not longer than the first", where="--blocks", found=f"{first} {second}"
        )
    return first, second


def _draw(timed: Sequence[tuple[str, Timed, TimeNames]], out: str | None, picture: str | None) -> None:
    """Write timelines into a Chrome trace, and draw the longest."""
    from tileproof.conformance.beside.timing.chrome import chrome
    from tileproof.conformance.beside.timing.picture import draw
    from tileproof.conformance.cli.trace import joined

    if out:
        write(out, json.dumps(joined([(title, chrome(clocks, names)) for title, clocks, names in timed])))
    if picture:
        title, clocks, names = max(timed, key=lambda entry: entry[1].clocks)
        draw(clocks, names, Path(picture), title)


def _time_launches(file: LaunchFile, values: dict[str, float], given: TimeOptions) -> int:
    """Time each launch of a launch file, run once."""
    from tileproof.conformance.beside.timing.launch import time_launches
    from tileproof.conformance.explore.launch_file import ExploredLaunch

    case = ExploredLaunch(file)
    if given.figures:
        return _print_figures(case.module_of(file.launches[0]).ptx, given.as_json)
    made = time_launches(case, given.alone, values)
    if given.out or given.picture:
        timed = [
            (
                timed.report.launch,
                timed.played.clocks(timed.timing, "likely", given.alone),
                timed.names,
            )
            for timed in made
        ]
        _draw(timed, given.out, given.picture)
    if given.as_json:
        whole = {"launch_file": file.name, "launches": [timed.report.as_dict() for timed in made]}
        print(json.dumps(whole, indent=1))
    else:
        click.echo("\n\n".join("\n".join(timed.report.lines()) for timed in made))
    return 0


def _setting(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise TileproofError(
            "invalid setting of a figure",
            where="--set",
            found=text,
            expected="FIGURE=VALUE, such as copy_latency=900",
        ) from None


def _timed(found: Kernel, variant: str | None, values: dict[str, float], given: TimeOptions) -> TimedKernel:
    from tileproof.conformance.beside.timing.kernel import time_kernel
    from tileproof.conformance.beside.timing.shape import USUAL, LaunchShape

    blocks = _blocks(given)
    shape = LaunchShape(given.tokens or USUAL.tokens, given.topk or USUAL.topk, given.card or USUAL.card)
    chosen = one_chosen(found, variant)
    if not given.as_json:
        click.echo(f"{found.title(chosen)}: runs with {blocks[0]} and {blocks[1]} k-blocks", err=True)
    return time_kernel(found, chosen, blocks, given.alone, values, shape=shape)


def _at_once(work: Sequence[Callable[[], list[float]]]) -> list[list[float]]:
    """The results of pieces of work, each in a process."""
    from tileproof.conformance.processes.children import in_children

    found = dict(in_children(work, processes=len(work)))
    out = []
    for number in range(len(work)):
        result = found[number]
        if result.value is None:
            raise result.error or TileproofError("a run of the model ended", found=result.fault)
        out.append(result.value)
    return out


def _print_sensitivity(timed: TimedKernel, alone: bool, as_json: bool) -> int:
    from tileproof.conformance.beside.timing.sensitivity import headline, sensitivity
    from tileproof.conformance.report.terminal import print_rows

    likely, found = timed.report.clocks.likely, sensitivity(timed, alone, _at_once, os.cpu_count() or 1)
    rows = [
        {
            "figure": moved.name,
            "clocks at its best": f"{moved.best:,.0f}",
            "at its worst": f"{moved.worst:,.0f}",
            "moves": f"{moved.span / likely:.1%}",
            "source": moved.figure.source,
        }
        for moved in found
    ]
    if not as_json:
        click.echo("\n".join([*headline(timed, found), *timed.report.warnings()]))
    print_rows(f"{len(found)} figures, alone", rows, as_json)
    return 0


def _print_peers(as_json: bool) -> int:
    from tileproof.conformance.beside.timing.peers import peers
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.spec.published import ASSUMED

    found = peers()
    rows = [
        {
            "kernel": peer.peer.name,
            "published ms": f"{peer.peer.published_ms:.3f}",
            "TFLOPS": f"{peer.published_tflops:.0f}",
            "likely ms": f"{peer.ms.likely:.3f}",
            "off": f"{peer.off:+.0%}",
            "best to worst": f"{peer.ms.best:.3f} to {peer.ms.worst:.3f}",
            "width": f"{peer.width:.1f}",
            "held": "yes" if peer.held else "NO",
            "clocks a block": str(peer.block),
            "source": f"{peer.peer.source}; "
            + (f"fitted: {peer.peer.fitted}" if peer.peer.fitted else "held out"),
        }
        for peer in found
    ]
    print_rows("Published kernels, the model's time for their designs", rows, as_json)
    if not as_json:
        for name, fitted in (("fitted", True), ("held out", False)):
            offs = [abs(peer.off) for peer in found if bool(peer.peer.fitted) == fitted]
            mean = sum(offs) / len(offs)
            click.echo(f"{len(offs)} rows {name}: off by {mean:.0%} on average, {max(offs):.0%} at most")
        click.echo("Assumed: " + "; ".join(ASSUMED))
    return 0


def _print_figures(ptx: str, as_json: bool) -> int:
    from tileproof.conformance.report.terminal import print_rows
    from tileproof.kernels.places import target_of
    from tileproof.spec.machine.timing import timing_of

    timing = timing_of(target_of(ptx))
    rows = [{"figure": key, **asdict(figure)} for key, figure in timing.figures().items()]
    print_rows(f"Figures of {timing.arch}", rows, as_json)
    return 0
