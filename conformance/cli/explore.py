"""`tileproof explore`: a kernel under many schedules, each finding with the least schedule that shows it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.spec.machine.errors import TileproofError

DEFECT = 1
ONE_ORDER = (
    "it has one order, its own: `tileproof check` calls it on many problems, `tileproof gate` also twice on "
    "one, and `tileproof trace` shows what it writes"
)
LONG = 24  # decisions; a longer schedule goes into a file


@click.command()
@click.argument("kernel")
@click.option("--schedules", default=100, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--policies", metavar="A,B", help="Of these policies only; all without it.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
@variant_options
@click.option(
    "--blocks",
    type=click.IntRange(1, 64),
    help="k-blocks of the problem; by default more than the deepest ring has stages.",
)
@click.option("--case", "case_json", metavar="JSON", help="Explore this case (see `tileproof check`).")
@click.option("--plant", metavar="ID", help="Plant a defect first (see `tileproof defects`).")
@click.option(
    "--schedule", "given", multiple=True, metavar="SCHEDULE|@FILE", help="Run this one only (repeatable)."
)
@click.option(
    "--races/--no-races", default=True, show_default=True, help="Check the order of all accesses as well."
)
@click.option(
    "--shrink", "shrink_seconds", default=20.0, show_default=True, metavar="SECONDS",
    help="CPU time for making the schedule of one finding small; 0 for none.",
)  # fmt: skip
@click.option("--processes", default=2, show_default=True, type=click.IntRange(1, 64))
@click.option(
    "--out", default=".", show_default=True, type=click.Path(file_okay=False),
    help="Folder for schedules that are too long for a command line.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this finding on purpose; it is listed, and is no defect (repeatable).",
)  # fmt: skip
@click.option(
    "--seconds-limit", default=0.0, metavar="SECONDS", type=click.FloatRange(0),
    help="Stop a launch that runs longer, with a finding; 0 for no limit.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Take the PTX ISA by the letter: some findings weigh more.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON on standard output.")
def explore(
    kernel: str,
    schedules: int,
    policies: str | None,
    seed: int,
    variant: str | None,
    blocks: int | None,
    case_json: str | None,
    plant: str | None,
    given: tuple[str, ...],
    races: bool,
    shrink_seconds: float,
    processes: int,
    out: str,
    allow: tuple[str, ...],
    seconds_limit: float,
    strict: bool,
    as_json: bool,
) -> int:
    """Run one problem of KERNEL under many schedules; findings and outputs must not depend on the schedule.

    KERNEL is one of `tileproof kernels`, or tutorial-01 to tutorial-05: NVIDIA's, with `--blocks` tiles
    along K. The values of the first schedule are judged stage by stage, tile by tile, as `check` does.
    Each distinct finding is shown once, with the smallest schedule that shows it, in words, and the command
    that replays it. Exit code 1 when there is an error.
    """
    from tileproof.conformance.report.terminal import Progress
    from tileproof.emulator.causes import Allow
    from tileproof.emulator.explore import EXPLORED
    from tileproof.emulator.explore import explore as run
    from tileproof.emulator.schedule import Schedule

    chosen: Any = EXPLORED if policies is None else tuple(policies.split(","))
    deep = ["--blocks", str(blocks)] if blocks else []
    words = ["--case", case_json] if case_json else [*_sizes(variant), *deep]
    words += [*(["--plant", plant] if plant else []), *([] if races else ["--no-races"])]
    words += ["--strict"] if strict else []
    words += [f"--allow={one}" for one in allow]
    words += [f"--seconds-limit={seconds_limit:g}"] if seconds_limit else []

    with Progress(schedules) as progress:
        progress.start(f"{kernel}: building")
        explored = _kernel(kernel, variant, blocks, case_json, plant)

        def show(what: str, done: int, total: int) -> None:
            progress.start(f"{explored.title}: {what} of {total}")
            progress.show(done, what == "shrinking")

        result = run(
            explored.launch,
            schedules=[Schedule.parse(_read(one)) for one in given] if given else schedules,
            policies=chosen,
            seed=seed,
            compare=explored.compare,
            names=explored.words,
            processes=processes,
            shrink_seconds=shrink_seconds,
            progress=show,
            races=races,
            allow=[Allow.parse(one) for one in allow],
            seconds_limit=seconds_limit,
            strict=strict,
        )
        first = _read(given[0]) if given else "early"
        wrong = explored.launch.wrong_values(Schedule.parse(first))
    command = ["tileproof", "explore", kernel, *words]
    rows = [_row(number, one, explored.names, command, out) for number, one in enumerate(result.defects, 1)]
    rows += [_value_row(one, first, command) for one in wrong]
    failed = result.failed or bool(wrong)
    if as_json:
        verdict = "defect" if failed else "pass"
        whole = {
            "verdict": verdict, "kernel": kernel, "problem": explored.problem, "schedules": result.schedules,
            "policies": result.policies, "scheduling_points": result.points,
            "seconds": round(result.seconds, 3), "findings": rows,
        }  # fmt: skip
        print(json.dumps(whole, indent=1))
    else:
        _print(explored.title, result, rows, failed)
    return DEFECT if failed else 0


@dataclass(frozen=True)
class _ToExplore:
    title: str
    problem: str
    launch: Any
    compare: Any
    words: Any
    names: Any


def _sizes(variant: str | None) -> list[str]:
    """The option that chose the variant, for a replay."""
    return ["--variant", variant] if variant else []


def _kernel(
    name: str,
    variant: str | None,
    blocks: int | None,
    case_json: str | None,
    plant: str | None,
) -> _ToExplore:
    from tileproof.conformance.explore.explored import Explored
    from tileproof.conformance.mutants.defects import build_planted, planted_on
    from tileproof.conformance.problems.generators import from_json, small
    from tileproof.kernels.registry import compiled as find_kernel

    found = find_kernel(name, ONE_ORDER)
    planted = planted_on(found, plant)
    given = None if case_json is None else from_json(found.variants[0].problem, case_json)
    chosen = one_chosen(found, variant, given)
    plan = found.plan(chosen)
    case = given or small(plan, blocks)
    built = build_planted(found, chosen, planted)
    one = Explored.of(found, built, case)
    return _ToExplore(found.title(chosen), case.as_json(), one, one.compare, one.words, one.names)


def _read(text: str) -> str:
    """A schedule given on the command line, or as @FILE."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError("the schedule cannot be read", where=text[1:], found=str(error)) from None


def _row(number: int, one: Any, names: Any, command: Sequence[str], out: str) -> dict[str, Any]:
    """One finding as data; a long schedule is written into `out`."""
    schedule = one.shrunk.schedule if one.shrunk else one.schedules[0]
    text = str(schedule)
    if len(schedule.decisions) > LONG:
        path = Path(out) / f"explore-{number}.schedule"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        except OSError as error:
            raise TileproofError(
                "the schedule cannot be written", where=str(path), found=str(error)
            ) from None
        text = f"@{path}"
    row = {
        "code": one.signature.code,
        "place": one.signature.place,
        "severity": one.severity,
        "places": list(one.places) or [one.signature.place],
        "runs": one.runs,
        "by_policy": one.by_policy,
        "text": one.shrunk.text if one.shrunk and one.shrunk.text else one.text,
        "schedule": text,
        "preemptions": len(schedule.decisions),
        "replay": shlex.join([*command, "--schedule", text]),
    }
    if one.shrunk:
        row["in_words"] = one.shrunk.lines(names)
        row["recorded"] = one.shrunk.recorded
        row["launches_of_shrinking"] = one.shrunk.tries
        row["minimal"] = one.shrunk.minimal
    return row


def _value_row(found: Any, schedule: str, command: Sequence[str]) -> dict[str, Any]:
    """A wrong value of the first schedule as data."""
    return {
        "code": f"wrong-{found.kind}" if found.kind in ("value", "chain") else found.kind,
        "place": found.place,
        "severity": "error",
        "places": [found.place],
        "runs": 1,
        "by_policy": {schedule.split(":")[0]: 1},
        "text": "\n".join(found.lines()),
        "schedule": schedule,
        "preemptions": 0,
        "replay": shlex.join([*command, "--schedule", schedule]),
    }


def _print(title: str, result: Any, rows: Sequence[dict[str, Any]], failed: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    verdict = "[bold red]DEFECT[/]" if failed else "[bold green]PASS[/]"
    of = ", ".join(f"{number} {policy}" for policy, number in result.policies.items())
    console.print(
        f"{verdict} {title}: {result.schedules} schedules ({of}) of {result.points} scheduling points in "
        f"{result.seconds:.1f} s"
    )
    for number, row in enumerate(rows, 1):
        seen = ", ".join(f"{count} {policy}" for policy, count in row["by_policy"].items())
        head, *more = str(row["text"]).split("\n")
        console.print(f"[bold]{number}. {escape(head)}[/]")
        for line in more:
            console.print("   " + escape(line.strip()))
        if len(row["places"]) > 1:
            console.print(f"   the same at {len(row['places']) - 1} more place(s): --json lists them")
        console.print(f"   seen under {seen}")
        if "in_words" in row:
            least = "" if row["minimal"] else " (not known to be the least)"
            many = f"{row['preemptions']} preemption" + ("" if row["preemptions"] == 1 else "s")
            console.print(f"   smallest schedule, {many}{least}:")
            for line in row["in_words"][:LONG]:
                console.print("     " + escape(line))
            if len(row["in_words"]) > LONG:
                console.print(f"     and {len(row['in_words']) - LONG} more")
        console.print("   replay: " + escape(row["replay"]))
