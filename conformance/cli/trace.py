"""`tileproof trace`: the events of a small launch, with the names of the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import KERNEL_ONLY, refuse
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import headline, root
from tileproof.spec.machine.types import UncheckedObject

if TYPE_CHECKING:
    from tileproof.conformance.explore.case import ExploredCase, TracedLaunch
    from tileproof.kernels.edit import PlantedDefect
    from tileproof.kernels.kernel import Kernel
    from tileproof.kernels.variant import Variant
    from tileproof.spec.machine.schedule import Policy

DEFECT = 1
BLOCKS = 4  # default number of k-blocks


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@click.option(
    "--blocks", default=None, type=click.IntRange(1, 64), help="k-blocks of the problem (default: 4)."
)
@click.option(
    "--launch", "number", metavar="N", type=click.IntRange(0),
    help="Trace only this launch of a launch file, counted from 0.",
)  # fmt: skip
@click.option(
    "--policy",
    default="random",
    show_default=True,
    type=click.Choice(["early", "late", "random"]),
    help="When asynchronous operations complete.",
)
@click.option("--schedule-seed", default=0, show_default=True, help="Seed of the random schedule.")
@click.option(
    "--schedule",
    "given",
    metavar="SCHEDULE",
    help="A schedule from `tileproof explore`, instead of --policy and --schedule-seed.",
)
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--seconds-limit", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="Stop a launch that runs longer, with a finding; 0 for no limit.",
)  # fmt: skip
@click.option(
    "--limit",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of recorded events.",
)
@click.option("--out", type=click.Path(dir_okay=False), help="Write Chrome trace JSON (for ui.perfetto.dev).")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the trace into an image.")
@click.option("--role", "roles", multiple=True, metavar="NAME", help="Only events of this role (repeatable).")
@click.option("--barrier", "barriers", multiple=True, metavar="NAME", help="Only this barrier (repeatable).")
@click.option("--text", "as_text", is_flag=True, help="The timeline as text on standard output.")
@click.option("--json", "as_json", is_flag=True, help="Numbers of events and errors of each launch as JSON.")
def trace(
    kernel: str,
    variant: str | None,
    blocks: int | None,
    number: int | None,
    policy: Policy,
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
    as_json: bool,
) -> int:
    """Run KERNEL on one small problem, or the launch file FILE, and record its waits, arrivals, phases and
    asynchronous operations.

    Exit code 1 if a launch has an error, such as a hang; the trace then shows the waits that never end. For a
    kernel that is a Python function, the trace lists its writes in order.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.cases.generators import small
    from tileproof.conformance.explore.explored import Explored
    from tileproof.conformance.explore.launch_file import ExploredLaunch
    from tileproof.conformance.planted.defects import build_planted, planted_on
    from tileproof.emulator import Schedule
    from tileproof.emulator.trace_links import chosen as chosen_events
    from tileproof.kernels.called import HOST
    from tileproof.kernels.launch.model import LaunchFile

    found = resolve.resolve(kernel)
    schedule = Schedule(policy, schedule_seed) if given is None else Schedule.parse(given)
    case: ExploredCase
    if isinstance(found, LaunchFile):
        asked = {"--variant": variant, "--blocks": blocks, "--plant": plant}
        refuse("a launch file", asked, KERNEL_ONLY)
        case, about = ExploredLaunch(found), ""
    else:
        refuse("a kernel with a plan", {"--launch": number is not None})
        chosen, planted = one_chosen(found, variant), planted_on(found, plant)
        blocks = blocks or BLOCKS
        if found.arch == HOST:
            without = {
                "--schedule": given, "--picture": picture, "--role": roles, "--barrier": barriers,
                "--seconds-limit": seconds_limit, "--json": as_json,
            }  # fmt: skip
            wrong = [name for name, value in without.items() if value]
            _trace_function(found, chosen, planted, blocks, wrong, out)
            return 0
        case = Explored.of(found, build_planted(found, chosen, planted), small(found.plan(chosen), blocks))
        about = f", {blocks} k-blocks"
    launches = list(case.traced(schedule, limit, seconds_limit))
    if number is not None:
        launches = [_one_of(launches, number)]
    if roles or barriers:
        launches = [
            replace(launch, trace=chosen_events(launch.trace, launch.names, roles, barriers))
            for launch in launches
        ]
    if out:
        traces = [(launch.title, launch.trace.to_chrome(launch.names, launch.errors)) for launch in launches]
        write(out, json.dumps(joined(traces)))
    if picture:
        from tileproof.conformance.report.trace_picture import draw

        shown = max(launches, key=lambda launch: len(launch.trace))
        how = given or policy
        draw(shown.trace, shown.names, Path(picture), f"{shown.title}{about}, schedule {how}")
    for launch in launches:
        if as_text:
            click.echo(f"{launch.title}\n" if len(launches) > 1 else "", nl=False)
            click.echo(launch.trace.to_text(launch.names), nl=False)
    if as_json:
        _print_counts(launches)
    where = ", ".join(place for place in (out, picture) if place)
    events = sum(len(launch.trace) for launch in launches)
    click.echo(f"{events} events" + (f" in {where}" if where else ""), err=True)
    for note in filter(None, (launch.trace.note for launch in launches)):
        click.echo(note, err=True)
    errors = [error for launch in launches for error in launch.errors]
    for error in errors:
        cause = error.message if root(error) else error.cause
        click.echo("\n  ".join([headline(error), *filter(None, (cause, *error.evidence))]), err=True)
    return DEFECT if errors else 0


def _print_counts(launches: Sequence[TracedLaunch]) -> None:
    from tileproof.conformance.verdict import jsonform

    rows = [
        {"launch": traced.title, "events": len(traced.trace), "dropped": traced.trace.dropped,
         "errors": list(traced.errors)}
        for traced in launches
    ]  # fmt: skip
    failed = any(traced.errors for traced in launches)
    click.echo(jsonform.text({"verdict": "defect" if failed else "clean", "launches": rows}), nl=False)


def _one_of(launches: Sequence[TracedLaunch], number: int) -> TracedLaunch:
    if number < len(launches):
        return launches[number]
    raise TileproofError(
        "the launch file has no such launch",
        where="--launch",
        expected=f"0 to {len(launches) - 1}",
        found=str(number),
    )


def joined(traces: Sequence[tuple[str, UncheckedObject]]) -> UncheckedObject:
    """Join Chrome traces of several launches: the CTAs of each launch are separate processes, and start when
    the preceding launch has ended.
    """
    if len(traces) == 1:
        return traces[0][1]
    events: list[UncheckedObject] = []
    first_process, begin = 0, 0.0
    for title, whole in traces:
        own = [
            {
                **event,
                "pid": event["pid"] + first_process,
                **({"ts": event["ts"] + begin} if "ts" in event else {}),
            }
            for event in whole["traceEvents"]
        ]
        for event in own:
            if event.get("name") == "process_name":
                event["args"] = {"name": f"{title}: {event['args']['name']}"}
            if event["ph"] in "sf":  # an arrow's number is its own launch's
                event["id"] = f"{first_process}.{event['id']}"
        first_process = max((event["pid"] for event in own), default=first_process) + 1
        begin = max((event["ts"] + event.get("dur", 0) for event in own if "ts" in event), default=begin)
        events += own
    return {**traces[0][1], "traceEvents": events}


def _trace_function(
    kernel: Kernel,
    variant: Variant,
    planted: PlantedDefect | None,
    blocks: int,
    asked: list[str],
    out: str | None,
) -> None:
    """Print or save the writes of a Python function; TileproofError for options that do not apply."""
    from tileproof.conformance.cases.generators import small
    from tileproof.conformance.drivers import host_trace
    from tileproof.conformance.planted.defects import build_planted, planted_reference

    if asked:
        raise TileproofError(
            "a Python function has no schedule, roles or barriers", where=f"kernel {kernel.name}",
            found=", ".join(asked), do="omit the options; --text and --out show its writes",
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
