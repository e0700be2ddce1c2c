"""`tileproof locate`: the stages that a kernel holds in registers only, found by their values and judged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tileproof.conformance.cli.options import JSON_FILE, options
from tileproof.conformance.cli.stopping import closed_pipe_is_fine, stoppable
from tileproof.conformance.cli.tensors import numbers, pairs, problem_of, rounded
from tileproof.conformance.cli.views import ViewOptions, write_views
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.beside.locate.located import BufferTensor, Location

TENSOR = re.compile(r"(?P<buffer>.+?)(?::(?P<dtype>\w+)\[(?P<shape>\d+(?:,\d+)*)\])?")


@click.command()
@click.argument("launch", metavar="LAUNCH", type=click.Path(path_type=Path))
@click.option(
    "--problem", metavar="NAME|KERNEL", required=True,
    help="The problem type that the kernel computes, or another kernel that computes it, such as a path to a "
    "kernel.py.",
)  # fmt: skip
@click.option(
    "--tensor", "tensors", multiple=True, required=True, metavar="NAME=BUFFER[:DTYPE[SHAPE]]",
    help="The buffer of an input or output, such as 'q=allocation 0:float16[1,96,2,64]'; dtype and shape "
    "if the launch file has only bytes (repeatable).",
)  # fmt: skip
@click.option(
    "--set", "scalars", multiple=True, metavar="NAME=VALUE",
    help="A scalar argument of the kernel, such as sm_scale=0.125 (repeatable).",
)  # fmt: skip
@click.option("--layout", metavar="NAME", help="The order of axes, such as BSHD (docs/tensors.md).")
@click.option("--rounding", metavar="KERNEL|PLAN", help="The kernel's rounding, as for `tileproof tensors`.")
@click.option(
    "--launch", "number", default=0, show_default=True, type=click.IntRange(0),
    help="The number of the launch in the launch file.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the draws.")
@click.option(
    "--dump", metavar="FILE.npz", type=click.Path(path_type=Path, dir_okay=False),
    help="Write inputs, outputs and located stages, as `tileproof tensors` reads them.",
)  # fmt: skip
@JSON_FILE
@options(ViewOptions)
def locate(
    launch: Path,
    problem: str,
    tensors: tuple[str, ...],
    scalars: tuple[str, ...],
    layout: str | None,
    rounding: str | None,
    number: int,
    seed: int,
    dump: Path | None,
    json_path: str | None,
    given: ViewOptions,
) -> int:
    """Find the stages of a problem in a kernel's registers, and compare them with the reference.

    LAUNCH is a launch file (docs/judging.md). The kernel runs unchanged, on three draws of its inputs and on
    its own. A register that has the value of one element of a stage in every draw holds that element; what
    these registers have for the launch's own inputs is judged, tile by tile.

    Exit code 0: clean; 1: a defect; 2: an error; 3: interrupted.
    """
    import numpy as np
    from tileproof.conformance.beside.locate.located import locate as located
    from tileproof.conformance.cases.resolve import launch_file
    from tileproof.conformance.cli.judge import print_verdict
    from tileproof.conformance.report import terminal as text
    from tileproof.conformance.tensors.judging import judge_tensors
    from tileproof.conformance.tensors.named import named

    kind = rounded(problem_of(problem), rounding)
    file = launch_file(launch)
    known = {buffer.name: (buffer.dtype, buffer.shape) for buffer in file.buffers}
    numbers_given = numbers(pairs("--set", scalars))
    with stoppable(), text.Progress(0) as progress:
        found = located(
            file, kind, [_tensor(name, where, known) for name, where in pairs("--tensor", tensors).items()],
            numbers_given, layout=layout, number=number, seed=seed, progress=progress.start,
        )  # fmt: skip
        verdict = judge_tensors(
            kind, named(kind, found.dump, layout=layout), file.name, progress=progress.start
        )
    if dump is not None:
        np.savez(dump, allow_pickle=False, **found.dump)
    write_views([verdict], given)
    if json_path != "-":
        with closed_pipe_is_fine():
            print("\n".join(_lines(found)))
    return print_verdict(verdict, json_path)


def _tensor(name: str, where: str, known: dict[str, tuple[str, tuple[int, ...]]]) -> BufferTensor:
    from tileproof.conformance.beside.locate.located import BufferTensor

    match = TENSOR.fullmatch(where)
    assert match is not None
    buffer = match["buffer"]
    if buffer not in known:
        raise TileproofError(
            "the launch file has no such buffer, or the dtype and shape are not readable",
            where=f"--tensor {name}", expected=f"one of {', '.join(known)}, with :DTYPE[SHAPE] where needed",
            found=where,
        )  # fmt: skip
    dtype, shape = known[buffer]
    if match["dtype"]:
        dtype, shape = match["dtype"], tuple(int(size) for size in match["shape"].split(","))
    return BufferTensor(name, buffer, dtype, shape)


def _lines(found: Location) -> list[str]:
    """Where each stage was found, or that it was not."""
    lines = ["Stages in registers:"]
    for stage in found.stages:
        name = stage.form.name
        if not stage.found:
            lines.append(f"  {name}: not found in the registers")
            continue
        part = "" if stage.whole else f"; {stage.covered} of {stage.elements} elements, too few to be judged"
        first, *others = stage.places()
        lines.append(f"  {name}: {first}{part}")
        lines += [f"     also {other}" for other in others]
    if found.lost:
        lines.append(f"First stages that are not found: {', '.join(found.lost)}")
    return [*lines, ""]
