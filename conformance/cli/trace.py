"""`tileproof trace`: the events of a small launch, with the names of the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.given import KERNEL_ONLY, refuse
from tileproof.conformance.cli.options import PLANT, RACES, SECONDS_LIMIT, option, options
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import headline, root
from tileproof.spec.machine.types import UncheckedObject

if TYPE_CHECKING:
    from tileproof.conformance.explore.case import ExploredCase, TracedLaunch
    from tileproof.conformance.explore.explored import Explored
    from tileproof.kernels.kernel import Kernel
    from tileproof.spec.machine.schedule import Policy

DEFECT = 1
BLOCKS = 4  # default number of k-blocks


@dataclass(frozen=True)
class TraceOptions:
    """Options of `tileproof trace`."""

    blocks: int | None = option(
        "--blocks", default=None, type=click.IntRange(1, 64), help="k-blocks of the problem (default: 4)."
    )
    number: int | None = option(
        "--launch", "number", metavar="N", type=click.IntRange(0),
        help="Trace only this launch of a launch file, counted from 0.",
    )  # fmt: skip
    policy: Policy = option(
        "--policy",
        default="random",
        show_default=True,
        type=click.Choice(["early", "late", "random"]),
        help="When asynchronous operations complete.",
    )
    schedule_seed: int = option(
        "--schedule-seed", default=0, show_default=True, help="Seed of the random schedule."
    )
    schedule: str | None = option(
        "--schedule",
        metavar="SCHEDULE",
        help="A schedule from `tileproof explore`, instead of --policy and --schedule-seed.",
    )
    plant: str | None = option(PLANT)
    races: bool = option(RACES)
    seconds_limit: float = option(SECONDS_LIMIT)
    limit: int = option(
        "--limit",
        default=1_000_000,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum number of recorded events.",
    )
    out: str | None = option(
        "--out", type=click.Path(dir_okay=False), help="Write Chrome trace JSON (for ui.perfetto.dev)."
    )
    picture: str | None = option(
        "--picture", type=click.Path(dir_okay=False), help="Draw the trace into an image."
    )
    roles: tuple[str, ...] = option(
        "--role", "roles", multiple=True, metavar="NAME", help="Only events of this role (repeatable)."
    )
    barriers: tuple[str, ...] = option(
        "--barrier", "barriers", multiple=True, metavar="NAME", help="Only this barrier (repeatable)."
    )
    as_text: bool = option("--text", "as_text", is_flag=True, help="The timeline as text on standard output.")
    as_json: bool = option(
        "--json", "as_json", is_flag=True, help="Numbers of events and errors of each launch as JSON."
    )


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@options(TraceOptions)
def trace(kernel: str, variant: str | None, given: TraceOptions) -> int:
    """Run KERNEL on one small problem, or the launch file FILE, and record its waits, arrivals, phases and
    asynchronous operations.

    Exit code 1 if a launch has an error, such as a race or a hang; the trace then shows it at its
    instruction, and the waits that never end. For a kernel that is a Python function, the trace lists its
    writes in order.
    """
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.explore.of_path import of_path
    from tileproof.kernels.called import HOST
    from tileproof.kernels.launch.model import LaunchFile

    found = resolve.resolve(kernel)
    if isinstance(found, LaunchFile):
        refuse(
            "a launch file",
            {"--variant": variant, "--blocks": given.blocks, "--plant": given.plant},
            KERNEL_ONLY,
        )
        launches = _traced(of_path(Path(kernel), found), given)
    else:
        refuse("a kernel with a plan", {"--launch": given.number is not None})
        if found.arch == HOST:
            _trace_function(found, variant, given)
            return 0
        launches = _traced(_small_case(found, variant, given), given)
    if given.out:
        traces = [(launch.title, launch.trace.to_chrome(launch.names, launch.errors)) for launch in launches]
        write(given.out, json.dumps(joined(traces)))
    if given.picture:
        _draw(
            launches, "" if isinstance(found, LaunchFile) else f", {given.blocks or BLOCKS} k-blocks", given
        )
    for launch in launches:
        if given.as_text:
            click.echo(f"{launch.title}\n" if len(launches) > 1 else "", nl=False)
            click.echo(launch.trace.to_text(launch.names), nl=False)
    if given.as_json:
        _print_counts(launches)
    where = ", ".join(place for place in (given.out, given.picture) if place)
    events = sum(len(launch.trace) for launch in launches)
    click.echo(f"{events} events" + (f" in {where}" if where else ""), err=True)
    for note in filter(None, (launch.trace.note for launch in launches)):
        click.echo(note, err=True)
    errors = [error for launch in launches for error in launch.errors]
    for error in errors:
        cause = error.message if root(error) else error.cause
        click.echo("\n  ".join([headline(error), *filter(None, (cause, *error.evidence))]), err=True)
    return DEFECT if errors else 0


def _small_case(kernel: Kernel, variant: str | None, given: TraceOptions) -> Explored:
    """Return a problem of a few k-blocks for the chosen variant."""
    from tileproof.conformance.cases.generators import small
    from tileproof.conformance.explore.explored import Explored
    from tileproof.conformance.planted.defects import build_planted, planted_on

    chosen, planted = one_chosen(kernel, variant), planted_on(kernel, given.plant)
    case = small(kernel.plan(chosen), given.blocks or BLOCKS)
    return Explored.of(kernel, build_planted(kernel, chosen, planted), case)


def _traced(case: ExploredCase, given: TraceOptions) -> list[TracedLaunch]:
    """Trace the launches of a case; return the chosen launches with the chosen events."""
    from tileproof.emulator import Schedule
    from tileproof.emulator.trace_links import chosen as chosen_events

    by_policy = Schedule(given.policy, given.schedule_seed)
    schedule = Schedule.parse(given.schedule) if given.schedule is not None else by_policy
    launches = list(case.traced(schedule, given.limit, given.seconds_limit, given.races))
    if given.number is not None:
        launches = [_one_of(launches, given.number)]
    if not given.roles and not given.barriers:
        return launches
    return [
        replace(launch, trace=chosen_events(launch.trace, launch.names, given.roles, given.barriers))
        for launch in launches
    ]


def _draw(launches: Sequence[TracedLaunch], about: str, given: TraceOptions) -> None:
    """Draw the launch with the most events."""
    from tileproof.conformance.report.trace_picture import draw

    assert given.picture is not None
    shown = max(launches, key=lambda launch: len(launch.trace))
    how = given.schedule or given.policy
    draw(shown.trace, shown.names, Path(given.picture), f"{shown.title}{about}, schedule {how}")


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


def _trace_function(kernel: Kernel, variant: str | None, given: TraceOptions) -> None:
    """Print or save the writes of a Python function; TileproofError for options that do not apply."""
    from tileproof.conformance.cases.generators import small
    from tileproof.conformance.drivers import host_trace
    from tileproof.conformance.planted.defects import build_planted, planted_on, planted_reference

    options = {
        "--schedule": given.schedule, "--picture": given.picture, "--role": given.roles,
        "--barrier": given.barriers, "--seconds-limit": given.seconds_limit, "--json": given.as_json,
    }  # fmt: skip
    if wrong := [name for name, value in options.items() if value]:
        raise TileproofError(
            "a Python function has no schedule, roles or barriers", where=f"kernel {kernel.name}",
            found=", ".join(wrong), do="omit the options; --text and --out show its writes",
        )  # fmt: skip
    chosen, planted = one_chosen(kernel, variant), planted_on(kernel, given.plant)
    inputs = small(kernel.plan(chosen), given.blocks or BLOCKS).inputs()
    launch = kernel.launch(inputs, build_planted(kernel, chosen, planted))
    with planted_reference(planted):
        events = host_trace.writes(launch)
    if given.out:
        write(given.out, json.dumps(host_trace.to_chrome(events)))
    else:
        click.echo(host_trace.to_text(events), nl=False)
    click.echo(f"{len(events)} writes" + (f" in {given.out}" if given.out else ""), err=True)


def write(path: str, text: str) -> None:
    """Writes a file; TileproofError when it cannot be written."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise TileproofError("the trace cannot be written", where=path, found=str(error)) from None
