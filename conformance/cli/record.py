"""`tileproof record`: a CUDA host program's launches as a launch file, without a GPU."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.options import json_option
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.limits import PROCESSORS
from tileproof.spec.machine.types import JsonObject

if TYPE_CHECKING:
    from tileproof.conformance.beside.record.launchfile import Written
    from tileproof.conformance.beside.record.recorder import Recorded

RECORDED, DEFECT, ERROR = 0, 1, 2
_NOT_RUN = "No kernel ran: the program read back its own data (--run executes the kernels)."


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "-o", "--output", "folder", default="recorded", show_default=True, metavar="DIR",
    type=click.Path(file_okay=False), help="Folder of launch.json, its PTX and its buffers.",
)  # fmt: skip
@click.option(
    "--run", is_flag=True,
    help="Execute the launches on the emulator, so that the program reads their results.",
)  # fmt: skip
@click.option(
    "--kernel", metavar="TEXT",
    help="Record up to the last launch whose entry contains TEXT; with --run, from the first such launch.",
)  # fmt: skip
@click.option(
    "--processors", default=PROCESSORS, show_default=True, type=click.IntRange(1, PROCESSORS), metavar="N",
    help="Multiprocessors of the device that the program sees.",
)  # fmt: skip
@click.option(
    "--seconds", default=0.0, metavar="S", type=click.FloatRange(0),
    help="Stop the program after this time and write the launches recorded so far; 0 for no limit.",
)  # fmt: skip
@click.option("--hopper", is_flag=True, help="Present an H200, and record PTX for sm_90a.")
@json_option()
@click.option(
    "--flags", "print_flags", is_flag=True,
    help="Print the flags of nvcc that make a program recordable, and exit.",
)  # fmt: skip
@click.argument("program", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def record(
    folder: str,
    run: bool,
    kernel: str | None,
    processors: int,
    seconds: float,
    hopper: bool,
    as_json: bool,
    print_flags: bool,
    program: str | None,
    arguments: tuple[str, ...],
) -> int:
    """Record the launches of PROGRAM, which is linked with -cudart shared, as a launch file for `judge`.
    `nvcc $(tileproof record --flags) program.cu -o program` builds such a program with any CUDA 13 toolkit.

    A stub CUDA runtime and driver replace NVIDIA's. An unsupported function ends the program and is named
    (docs/recording.md). Exit codes: 0 a launch file was written; 1 with --run, the program failed or a launch
    had a finding; 2 the recording is incomplete; the launches recorded until then are written.
    """
    from tileproof.conformance.beside.record import launchfile, recorder

    if print_flags:
        click.echo(shlex.join(recorder.flags(hopper)))
        return RECORDED
    if program is None:
        raise click.UsageError("Missing argument 'PROGRAM'.")
    done = recorder.record(
        [program, *arguments],
        run=run,
        processors=processors,
        seconds=seconds,
        quiet=as_json,
        wanted=kernel,
        hopper=hopper,
    )
    written: Written | None = None
    problem = done.problem
    if done.recording.launches:
        try:
            written = launchfile.write(done, Path(folder), Path(program).name, kernel)
        except TileproofError as error:
            problem = problem or error
    if as_json:
        print(json.dumps(_as_dict(done, written, problem, run), indent=1))
    else:
        _print(done, written, problem, run)
    if problem is not None:
        return ERROR
    return DEFECT if run and (done.findings or done.exit_code) else RECORDED


def _as_dict(
    done: Recorded, written: Written | None, problem: TileproofError | None, run: bool
) -> JsonObject:
    return {
        "schema": "tileproof-record",
        "schema_version": 1,
        "launch_file": str(written.path) if written else None,
        "launches": list(written.launches) if written else [],
        "taken": list(written.taken) if written else [],
        "ran": run,
        "program_exit_code": done.exit_code,
        "seconds": round(done.seconds, 3),
        "problem": problem.as_dict() if problem else None,
        "failed_calls": [{"call": call.call, "code": call.code, "why": call.why} for call in done.failed],
        "assumed": done.assumed,
        "unknown_functions": done.unknown,
        "findings": [
            {
                "launch": number,
                "code": finding.code,
                "message": finding.message,
                "ptx_line": finding.machine.ptx_line,
            }
            for number, found in done.findings.items()
            for finding in found
        ],
        "printed": [{"launch": number, "text": text} for number, text in done.printed.items()],
        "stderr": done.stderr,
    }


def _print(done: Recorded, written: Written | None, problem: TileproofError | None, run: bool) -> None:
    sys.stdout.flush()
    for call in done.failed:
        click.echo(f"the program's call failed: {call.call}, error {call.code}: {call.why}", err=True)
    for line in done.unknown:
        click.echo(f"the program requested a function that CUDA 13.0 does not have: {line}", err=True)
    for line in done.assumed:
        click.echo(f"assumed: {line[: _columns()]}", err=True)
    for number, found in done.findings.items():
        for finding in found:
            click.echo(f"launch {number}: {finding}", err=True)
    if done.exit_code > 0 and problem is None:
        click.echo(f"the program ended with exit code {done.exit_code}", err=True)
    if written:
        click.echo(f"{written.path}: {len(written.launches)} launches, {written.buffers} buffers")
        for entry in dict.fromkeys(written.launches):
            click.echo(f"  {written.launches.count(entry)} x {entry[: _columns()]}")
        if not run:
            click.echo(_NOT_RUN)
    if problem is not None:
        click.echo(f"could not record: {problem}", err=True)


def _columns() -> int:
    try:
        return max(40, os.get_terminal_size().columns - 12)
    except OSError:
        return 100
