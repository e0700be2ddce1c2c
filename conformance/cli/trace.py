"""`tileproof trace`: the events of one small launch, in the plan's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

DEFECT = 1


@click.command()
@click.argument("kernel")
@variant_options
@click.option(
    "--blocks", default=4, show_default=True, type=click.IntRange(1, 64), help="k-blocks of the problem."
)
@click.option(
    "--policy",
    default="random",
    show_default=True,
    type=click.Choice(["early", "late", "random"]),
    help="When asynchronous operations complete.",
)
@click.option("--schedule-seed", default=0, show_default=True, help="Seed of the random schedule.")
@click.option("--schedule", "given", metavar="SCHEDULE", help="Of `tileproof explore`, in place of both.")
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--seconds-limit", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="Stop a launch that runs longer, with a finding; 0 for no limit.",
)  # fmt: skip
@click.option("--limit", default=1_000_000, show_default=True, type=click.IntRange(1), help="Events kept.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write Chrome trace JSON (for ui.perfetto.dev).")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the trace into an image.")
@click.option("--role", "roles", multiple=True, metavar="NAME", help="Only events of this role; repeatable.")
@click.option("--barrier", "barriers", multiple=True, metavar="NAME", help="Only this barrier; repeatable.")
@click.option("--text", "as_text", is_flag=True, help="The timeline as text on standard output.")
def trace(
    kernel: str,
    variant: str | None,
    blocks: int,
    policy: Any,
    schedule_seed: int,
    given: str | None,
    plant: str | None,
    seconds_limit: float,
    limit: int,
    out: str | None,
    picture: str | None,
    roles: tuple[str, ...],
    barriers: tuple[str, ...],
    as_text: bool,
) -> int:
    """Run KERNEL on one small problem and record its waits, arrivals, phases and asynchronous operations.

    Exit code 1 when the launch has an error, such as a hang: the trace then shows the waits never over. Of a
    kernel that is a Python function: what it writes, output by output, in order.
    """
    from tileproof.conformance.drivers import emulator
    from tileproof.conformance.drivers.names import PlanTraceNames
    from tileproof.conformance.drivers.result import RunSchedule
    from tileproof.conformance.mutants.defects import build_planted, planted_on
    from tileproof.conformance.problems.generators import small
    from tileproof.emulator import Schedule
    from tileproof.emulator.trace_links import chosen as chosen_events
    from tileproof.kernels.called import HOST
    from tileproof.kernels.registry import kernel as find_kernel

    found = find_kernel(kernel)
    chosen = one_chosen(found, variant)
    planted = planted_on(found, plant)
    if found.arch == HOST:
        asked = {
            "--schedule": given, "--picture": picture, "--role": roles, "--barrier": barriers,
            "--seconds-limit": seconds_limit,
        }  # fmt: skip
        _trace_function(found, chosen, planted, blocks, [name for name, value in asked.items() if value], out)
        return 0
    plan = found.plan(chosen)
    built = build_planted(found, chosen, planted)
    inputs = small(plan, blocks).inputs()
    launch = found.launch(inputs, built)
    schedule = RunSchedule(policy, schedule_seed) if given is None else Schedule.parse(given)
    run_result, events = emulator.run_traced(
        launch, plan, schedule=schedule, limit=limit, seconds_limit=seconds_limit
    )
    names = PlanTraceNames(plan, inputs)
    if roles or barriers:
        events = chosen_events(events, names, roles, barriers)
    if out:
        write(out, json.dumps(events.to_chrome(names)))
    if picture:
        from tileproof.conformance.report.trace_picture import draw

        how = given or policy
        draw(events, names, Path(picture), f"{found.title(chosen)}, {blocks} k-blocks, schedule {how}")
    if as_text:
        click.echo(events.to_text(names), nl=False)
    errors = [one for one in run_result.findings if one.severity == "error"]
    where = ", ".join(place for place in (out, picture) if place)
    click.echo(f"{len(events)} events" + (f" in {where}" if where else ""), err=True)
    if events.note:
        click.echo(events.note, err=True)
    for one in errors:
        click.echo("\n  ".join([f"{one.code}: {one.message}", *one.root]), err=True)
    return DEFECT if errors else 0


def _trace_function(
    kernel: Any, variant: Any, planted: Any, blocks: int, asked: list[str], out: str | None
) -> None:
    """Prints or writes what a Python function writes; TileproofError for options that have no meaning."""
    from tileproof.conformance.drivers import host_trace
    from tileproof.conformance.mutants.defects import build_planted, planted_reference
    from tileproof.conformance.problems.generators import small

    if asked:
        raise TileproofError(
            "a Python function has no schedule, roles or barriers", where=f"kernel {kernel.name}",
            found=", ".join(asked), do="leave the options out; --text and --out show what it writes",
        )  # fmt: skip
    inputs = small(kernel.plan(variant), blocks).inputs()
    launch = kernel.launch(inputs, build_planted(kernel, variant, planted))
    with planted_reference(planted):
        events = host_trace.writes(launch)
    if out:
        write(out, json.dumps(host_trace.to_chrome(events)))
    else:
        click.echo(host_trace.to_text(events), nl=False)
    click.echo(f"{len(events)} writes" + (f" in {out}" if out else ""), err=True)


def write(path: str, text: str) -> None:
    """Writes a file; TileproofError when it cannot be written."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise TileproofError("the trace cannot be written", where=path, found=str(error)) from None
