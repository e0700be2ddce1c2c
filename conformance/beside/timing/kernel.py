"""The time of a kernel of the registry, from two small problems of its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileproof.conformance.beside.timing.model import Played, play
from tileproof.conformance.beside.timing.report import TimeNames, TimeReport, plan_names, report
from tileproof.conformance.beside.timing.shape import USUAL, LaunchShape
from tileproof.conformance.cases.generators import small
from tileproof.kernels.edit import Edit
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.places import target_of
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.timing import Timing

BLOCKS = (2, 6)


@dataclass(frozen=True)
class TimedKernel:
    """The report and its two runs; timelines are drawn from the longer run."""

    report: TimeReport
    short: Played
    run: Played
    timing: Timing
    names: TimeNames


def time_kernel(
    kernel: Kernel,
    variant: Variant,
    blocks: tuple[int, int] = BLOCKS,
    alone: bool = False,
    values: Mapping[str, float] | None = None,
    edits: Sequence[Edit] = (),
    shape: LaunchShape = USUAL,
) -> TimedKernel:
    """Runs `blocks[0]` and `blocks[1]` k-blocks of the kernel with `edits`, with some figures at these
    `values`, for a launch of this `shape`; TileproofError if there is no time."""
    plan, built = kernel.plan(variant), kernel.build(variant, edits=edits)
    timing = shape.timing(target_of(built.ptx)).fixed(values or {})
    problems = [small(plan, count) for count in blocks]
    few, many = (play(kernel.launch(problem.inputs(), built), timing.arch) for problem in problems)
    by_token = all(len(getattr(problem, "tokens", ())) == 1 for problem in problems)
    names = plan_names(plan)
    runs = (blocks[0], few), (blocks[1], many)
    made = report(kernel.title(variant), *runs, timing, alone, names, by_token, shape)
    return TimedKernel(made, few, many, timing, names)
