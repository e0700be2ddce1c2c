"""`tileproof explore`: a kernel under many schedules; each finding with its smallest schedule."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

import click
from rich.console import Console
from rich.markup import escape
from tileproof.conformance.cli.given import FILE_ONLY, KERNEL_ONLY, expect_option, reference_of, refuse
from tileproof.conformance.cli.options import (
    ALLOW,
    PLANT,
    RACES,
    SECONDS_LIMIT,
    STRICT,
    json_option,
    option,
    options,
)
from tileproof.conformance.cli.stopping import INCOMPLETE, INTERRUPTS, stoppable, this_command
from tileproof.conformance.cli.variants import one_chosen, variant_options
from tileproof.conformance.verdict.jsonform import dump
from tileproof.spec.machine.certificate import in_words, summary
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import brief, lines, place, printable

if TYPE_CHECKING:
    from tileproof.conformance.explore.case import ExploredCase
    from tileproof.emulator.explore import Exploration, ExploredCause
    from tileproof.emulator.hang import Names
    from tileproof.spec.machine.finding import Finding
    from tileproof.spec.machine.schedule import Policy, Schedule
    from tileproof.spec.machine.types import JsonObject

DEFECT = 1
ONE_ORDER = (
    "a Python function has a single schedule: use `tileproof check` (many problems), `tileproof gate` (also "
    "repeats a problem) or `tileproof trace` (prints its writes)"
)
LONG = 24  # decisions; a longer schedule is written to a file


@dataclass(frozen=True)
class ExploreOptions:
    """Options of `tileproof explore`."""

    schedules: int = option(
        "--schedules", default=100, show_default=True, type=click.IntRange(1),
        help="Number of schedules; a certified launch needs no second.",
    )  # fmt: skip
    sample: bool = option("--sample", is_flag=True, help="Run all schedules of a certified launch too.")
    policies: str | None = option(
        "--policies", metavar="A,B", help="Only schedules of these policies (default: all)."
    )
    seed: int = option("--seed", default=0, show_default=True, type=click.IntRange(0), help="First seed.")
    skip: int = option(
        "--skip", default=0, metavar="N", type=click.IntRange(0),
        help="Skip the first N schedules, which an interrupted run has completed.",
    )  # fmt: skip
    blocks: int | None = option(
        "--blocks",
        type=click.IntRange(1, 64),
        help="k-blocks of the problem; by default more than the deepest ring has stages.",
    )
    case_json: str | None = option(
        "--case", "case_json", metavar="JSON", help="Explore this case (see `tileproof check`)."
    )
    plant: str | None = option(PLANT)
    only: tuple[str, ...] = option(
        "--schedule",
        "only",
        multiple=True,
        metavar="SCHEDULE|@FILE",
        help="Run only this schedule (repeatable).",
    )
    races: bool = option(RACES)
    shrink_seconds: float = option(
        "--shrink", "shrink_seconds", default=20.0, show_default=True, metavar="SECONDS",
        help="CPU time for shrinking the schedule of a finding; 0 disables shrinking.",
    )  # fmt: skip
    processes: int = option(
        "--processes", default=2, show_default=True, type=click.IntRange(1, 64),
        help="Processes that run schedules in parallel.",
    )  # fmt: skip
    out: str = option(
        "--out", default=".", show_default=True, type=click.Path(file_okay=False),
        help="Folder for schedules that are too long for a command line.",
    )  # fmt: skip
    allow: tuple[str, ...] = option(ALLOW)
    seconds_limit: float = option(SECONDS_LIMIT)
    periods: bool = option(
        "--periods", is_flag=True,
        help="Only say which inputs control flow depends on and, for each class of them, from which k-block "
        "on the order of events repeats, with which period; then exit.",
    )  # fmt: skip
    strict: bool = option(STRICT)
    expect: str | None = option(expect_option)
    as_json: bool = option(json_option())


@click.command()
@click.argument("kernel", metavar="KERNEL|FILE")
@variant_options
@options(ExploreOptions)
def explore(kernel: str, variant: str | None, given: ExploreOptions) -> int:
    """Run one problem of KERNEL, or the launch file FILE, under many schedules; findings and outputs must not
    depend on the schedule. A launch that its first run certifies for all schedules runs once.

    KERNEL is listed by `tileproof kernels`, or is tutorial-01 to tutorial-05, NVIDIA's tutorials, with
    `--blocks` tiles along K. The values of the first schedule are compared stage by stage, tile by tile, as
    `check` does, also those of an example that `check --save` wrote; those of another launch file with
    `--expect`.
    Each distinct finding is printed once, with the smallest schedule that shows it, in words, and the command
    that replays it. Exit code 1 if there is an error.
    """
    if given.periods:
        return _print_periods(_explored(kernel, variant, given), given.blocks, given.as_json)
    explored, result, wrong = _run(kernel, variant, given)
    command = ["tileproof", "explore", kernel, *_replay_options(variant, given)]
    rows = [
        _row(number, found, explored.names, command, given.out)
        for number, found in enumerate(result.causes, 1)
    ]
    first = _first(explored, given)
    rows += [_value_row(found, str(first), command) for found in wrong]
    failed = result.failed or bool(wrong)
    skip = given.skip + result.schedules - len(result.reversals)
    resume = this_command(f"--skip={skip}", without=["--skip"])
    if given.as_json:
        _print_json(kernel, explored, result, rows, failed, resume)
    else:
        _print(explored.title, result, rows, failed)
        for line in explored.not_judged:
            print(f"not judged: {line}")
        if result.interrupted:
            print(f"interrupted: {result.schedules} of {result.planned} schedules ran; resume: {resume}")
    return DEFECT if failed else INCOMPLETE if result.interrupted else 0


def _run(
    kernel: str, variant: str | None, given: ExploreOptions
) -> tuple[ExploredCase, Exploration, Sequence[Finding]]:
    """Explore the schedules; return the case, its exploration, and the wrong values of the first schedule."""
    from tileproof.conformance.report.terminal import Progress
    from tileproof.emulator.causes import Allow
    from tileproof.emulator.explore import EXPLORED
    from tileproof.emulator.explore import explore as run
    from tileproof.spec.machine.schedule import Schedule

    policies = EXPLORED if given.policies is None else given.policies.split(",")
    with stoppable(), Progress(given.schedules) as progress:
        progress.start(f"{kernel}: building")
        explored = _explored(kernel, variant, given)

        def show(what: str, done: int, total: int) -> None:
            progress.start(f"{explored.title}: {what} of {total}")
            progress.show(done, what == "shrinking")

        result = run(
            explored,
            schedules=[Schedule.parse(_read(found)) for found in given.only] or given.schedules,
            policies=cast("Sequence[Policy]", policies),  # `run` rejects an unknown name
            seed=given.seed,
            compare=explored.compare,
            processes=given.processes,
            shrink_seconds=given.shrink_seconds,
            progress=show,
            races=given.races,
            allow=[Allow.parse(found) for found in given.allow],
            seconds_limit=given.seconds_limit,
            strict=given.strict,
            skip=given.skip,
            sample=given.sample,
            interrupts=INTERRUPTS,
        )
        wrong = () if result.interrupted else explored.wrong(_first(explored, given))
    return explored, result, wrong


def _first(explored: ExploredCase, given: ExploreOptions) -> Schedule:
    """Return the schedule whose values are judged."""
    from tileproof.spec.machine import schedule

    return schedule.Schedule.parse(_read(given.only[0])) if given.only else explored.schedule


def _replay_options(variant: str | None, given: ExploreOptions) -> list[str]:
    """Return the options of an exploration that the replay of a schedule needs too."""
    sizes = ["--variant", variant] if variant else []
    blocks = ["--blocks", str(given.blocks)] if given.blocks else []
    words = ["--case", given.case_json] if given.case_json else [*sizes, *blocks]
    words += [*(["--plant", given.plant] if given.plant else []), *([] if given.races else ["--no-races"])]
    words += ["--strict"] if given.strict else []
    words += [f"--allow={found}" for found in given.allow]
    words += [f"--seconds-limit={given.seconds_limit:g}"] if given.seconds_limit else []
    return words + (["--expect", given.expect] if given.expect else [])


def _explored(name: str, variant: str | None, given: ExploreOptions) -> ExploredCase:
    """Return the case to explore: a problem of a kernel, or a launch file."""
    from tileproof.conformance.cases import resolve
    from tileproof.conformance.cases.generators import from_json, small
    from tileproof.conformance.explore.explored import Explored
    from tileproof.conformance.explore.of_path import of_path
    from tileproof.conformance.planted.defects import build_planted, planted_on
    from tileproof.kernels.launch.model import LaunchFile

    found = resolve.compiled(name, ONE_ORDER)
    if isinstance(found, LaunchFile):
        asked = {
            "--variant": variant, "--blocks": given.blocks, "--case": given.case_json, "--plant": given.plant,
        }  # fmt: skip
        refuse("a launch file", asked, KERNEL_ONLY)
        return of_path(Path(name), found, reference_of(given.expect))
    refuse("a kernel with a plan", {"--expect": given.expect}, FILE_ONLY)
    planted = planted_on(found, given.plant)
    case = None if given.case_json is None else from_json(found.variants[0].problem, given.case_json)
    chosen = one_chosen(found, variant, case)
    case = case or small(found.plan(chosen), given.blocks)
    return Explored.of(found, build_planted(found, chosen, planted), case)


def _print_periods(explored: ExploredCase, blocks: int | None, as_json: bool) -> int:
    """Print what control flow depends on, and whether the order of events repeats; exit code 3 if it does
    not, or if a launch is not certified.
    """
    from tileproof.conformance.explore.control_flow import control_flow_of
    from tileproof.conformance.explore.explored import Explored

    if not isinstance(explored, Explored):
        raise TileproofError(
            "a launch file has no k-blocks",
            where="--periods",
            expected="a kernel with a plan",
            found=explored.text,
        )
    seen = control_flow_of(explored.kernel, explored.built, explored.plan, blocks)
    if as_json:
        verdict = "incomplete" if seen.wrong else "clean"
        print(json.dumps({"verdict": verdict, "kernel": explored.kernel.name, **seen.as_dict()}, indent=1))
    else:
        print("\n".join([explored.title, *(f"  {line}" for line in seen.lines())]))
    return INCOMPLETE if seen.wrong else 0


def _read(text: str) -> str:
    """Return the text of a schedule given on the command line or as @FILE."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TileproofError("the schedule cannot be read", where=text[1:], found=str(error)) from None


class ExploredRow(TypedDict):
    """A finding of an exploration as data; `finding` is its published form (`Finding` in docs/formats.md)."""

    code: str
    place: str
    severity: str
    places: list[str]
    runs: int
    by_policy: Mapping[str, int]
    text: str
    schedule: str
    preemptions: int
    replay: str
    finding: JsonObject
    reversed_by: NotRequired[str]
    in_words: NotRequired[list[str]]
    recorded: NotRequired[int]
    launches_of_shrinking: NotRequired[int]
    minimal: NotRequired[bool]


def _row(
    number: int, found: ExploredCause, names: Names | None, command: Sequence[str], out: str
) -> ExploredRow:
    """Return a finding as data; write a long schedule into the folder `out`."""
    schedule = found.shrunk.schedule if found.shrunk else found.schedules[0]
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
    replay = shlex.join([*command, "--schedule", text])
    row: ExploredRow = {
        "code": found.signature.code,
        "place": found.signature.place,
        "severity": found.severity,
        "places": list(found.places) or [found.signature.place],
        "runs": found.runs,
        "by_policy": found.by_policy,
        "text": brief(found.smallest),
        "schedule": text,
        "preemptions": len(schedule.decisions),
        "replay": replay,
        "finding": dump(replace(found.smallest, replay=replay)),
    }
    if (race := found.finding.machine.race) and race.reversed_by:
        row["reversed_by"] = race.reversed_by
    if found.shrunk:
        row["in_words"] = found.shrunk.lines(names)
        row["recorded"] = found.shrunk.recorded
        row["launches_of_shrinking"] = found.shrunk.tries
        row["minimal"] = found.shrunk.minimal
    return row


def _value_row(found: Finding, schedule: str, command: Sequence[str]) -> ExploredRow:
    """Return a wrong value of the first schedule as data."""
    replay = shlex.join([*command, "--schedule", schedule])
    return {
        "code": f"wrong-{found.code}" if found.code in ("value", "chain") else found.code,
        "place": place(found),
        "severity": "error",
        "places": [place(found)],
        "runs": 1,
        "by_policy": {schedule.split(":")[0]: 1},
        "text": "\n".join(lines(found)),
        "schedule": schedule,
        "preemptions": 0,
        "replay": replay,
        "finding": dump(replace(found, replay=replay)),
    }


def _covered(result: Exploration) -> list[str]:
    """Return the text of the certificate of the run under `early`; empty without race checking."""
    if not result.certificate:
        return in_words(summary([result.certificate]), True, result.schedules)
    more = "; --sample runs the other schedules" if result.covered else ""
    return [f"{result.certificate}{more}"]


def _print_json(
    kernel: str,
    explored: ExploredCase,
    result: Exploration,
    rows: Sequence[ExploredRow],
    failed: bool,
    resume: str,
) -> None:
    verdict = "defect" if failed else "incomplete" if result.interrupted else "clean"
    whole = {
        "verdict": verdict, "kernel": kernel, "problem": explored.text, "schedules": result.schedules,
        "policies": result.policies, "scheduling_points": result.points,
        "certificate": summary([result.certificate]),
        "reversals": [
            {"reason": made.reason, "schedule": str(made.schedule), "shows": list(map(str, made.shows))}
            for made in result.reversals
        ],
        "not_judged": list(explored.not_judged),
        "seconds": round(result.seconds, 3), "findings": rows,
        **({"interrupted": True, "resume": resume} if result.interrupted else {}),
    }  # fmt: skip
    print(json.dumps(whole, indent=1))


def _print(title: str, result: Exploration, rows: Sequence[ExploredRow], failed: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    passed = "[bold yellow]INCOMPLETE[/]" if result.interrupted else "[bold green]CLEAN[/]"
    verdict = "[bold red]DEFECT[/]" if failed else passed
    of = ", ".join(f"{number} {policy}" for policy, number in result.policies.items())
    schedules = "1 schedule" if result.schedules == 1 else f"{result.schedules} schedules"
    console.print(
        f"{verdict} {title}: {schedules} ({of}) of {result.points} scheduling points in "
        f"{result.seconds:.1f} s"
    )
    for line in [] if failed else _covered(result):
        console.print(escape(line))
    for reversal in result.reversals:
        console.print(escape(str(reversal)))
    for number, row in enumerate(rows, 1):
        seen = ", ".join(f"{count} {policy}" for policy, count in row["by_policy"].items())
        head, *more = str(row["text"]).split("\n")
        console.print(f"[bold]{number}. {escape(head)}[/]")
        for line in more:
            console.print("   " + escape(printable(line.strip())))
        if len(row["places"]) > 1:
            console.print(f"   also at {len(row['places']) - 1} more place(s): --json lists them")
        console.print(f"   seen under {seen}")
        if "reversed_by" in row:
            console.print(f"   schedule that reverses the two events: {escape(row['reversed_by'])}")
        if "in_words" in row:
            least = "" if row["minimal"] else " (possibly not minimal)"
            many = f"{row['preemptions']} preemption" + ("" if row["preemptions"] == 1 else "s")
            console.print(f"   smallest schedule, {many}{least}:")
            for line in row["in_words"][:LONG]:
                console.print("     " + escape(line))
            if len(row["in_words"]) > LONG:
                console.print(f"     and {len(row['in_words']) - LONG} more")
        console.print("   replay: " + escape(row["replay"]))
