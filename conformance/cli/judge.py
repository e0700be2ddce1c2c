"""`tileproof judge`: a stranger's launch file, judged within a budget of time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.report import terminal as text
from tileproof.spec.machine.errors import TileproofError


@click.command()
@click.argument("launch", type=click.Path(path_type=Path))
@click.option(
    "--expect", metavar="REF.py[:FUNCTION]",
    help="A function from the inputs, in float64, to what the outputs should be (docs/judging.md).",
)  # fmt: skip
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True),
    help="Of wall time for all runs; compiling comes on top.",
)  # fmt: skip
@click.option(
    "--schedules", default=100, show_default=True, type=click.IntRange(2), help="To explore, at most."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of all that is drawn.")
@click.option(
    "--policy", "policies", multiple=True, metavar="POLICY|SCHEDULE",
    help='Run only this: "late", "random:seed=7" (repeatable).',
)  # fmt: skip
@click.option(
    "--races/--no-races", default=True, show_default=True,
    help="Check that conflicting accesses are ordered (docs/races.md).",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Take the PTX ISA by the letter: some findings weigh more.")
@click.option(
    "--allow", multiple=True, metavar="CODE[:PLACE]",
    help="Accept this machine finding on purpose; it is listed, and is no defect (repeatable).",
)  # fmt: skip
@click.option(
    "--mma", default="fast", show_default=True, type=click.Choice(["fast", "exact"]),
    help="Tensor core: blocked f32 product, or its block arithmetic bit for bit.",
)  # fmt: skip
@click.option(
    "--dump", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
    help="Write outputs and captured stages of the first run as .npy.",
)  # fmt: skip
@click.option("-j", "--jobs", default=0, type=click.IntRange(0), help="Runs at a time; 0 for one per core.")
@click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the verdict as JSON; - is standard output."
)
def judge(
    launch: Path,
    expect: str | None,
    seconds: float,
    schedules: int,
    seed: int,
    policies: tuple[str, ...],
    races: bool,
    strict: bool,
    allow: tuple[str, ...],
    mma: Any,
    dump: Path | None,
    jobs: int,
    json_path: str | None,
) -> int:
    """Judge the launch file LAUNCH (.json, .py, or a folder with launch.json): values, races, schedules.

    Exit code 0: clean; 1: a defect; 3: something was not shown (values without --expect); 2: it could not be
    judged. Ctrl-C and SIGTERM end it early with what is known.
    """
    from tileproof.conformance.check.property import Stopped
    from tileproof.conformance.judging.dumping import write_arrays
    from tileproof.conformance.judging.judging import JudgeOptions
    from tileproof.conformance.judging.judging import judge as judged
    from tileproof.conformance.judging.page import lines
    from tileproof.conformance.judging.record import refused
    from tileproof.conformance.judging.reference import load as load_reference
    from tileproof.conformance.judging.runs import RunOptions
    from tileproof.conformance.launches.reading import read
    from tileproof.conformance.verdict import jsonform

    words = ["tileproof", "judge", str(launch)]
    words += ["--expect", expect] if expect else []
    words += ["--seed", str(seed)] if seed else []
    words += [] if races else ["--no-races"]
    words += ["--strict"] if strict else []
    words += ["--mma=exact"] if mma == "exact" else []
    words += [f"--allow={one}" for one in allow]
    options = JudgeOptions(
        seconds, seed, schedules, policies, jobs or os.cpu_count() or 1, RunOptions(races, strict, allow, mma)
    )
    first: list[Any] = []
    with stoppable(), text.Progress(0) as progress:
        try:
            file = read(launch)
            reference = load_reference(expect) if expect else None
        except TileproofError as error:
            made = refused(str(launch), seed, error)
        else:
            made = judged(
                file,
                reference,
                options,
                command=words,
                progress=progress.start,
                interrupts=(KeyboardInterrupt, Stopped),
                first=first.append,
            )
    if dump is not None and first:
        write_arrays(first[0], dump)
    with closed_pipe_is_fine():
        if json_path == "-":
            print(jsonform.text(made), end="")
        else:
            if json_path:
                _write(Path(json_path), jsonform.text(made))
            print("\n".join(lines(made)))
    return made.exit_code


def _write(path: Path, text_: str) -> None:
    try:
        path.write_text(text_, encoding="utf-8")
    except OSError as error:
        raise TileproofError("the verdict cannot be written", where=str(path), found=str(error)) from None
