"""The verdict on what a command or a call names: a kernel, a saved example, or a launch file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.cases.generators import from_json, small
from tileproof.conformance.check import saved
from tileproof.conformance.check.stage_case import StageCase
from tileproof.conformance.check.under_test import on_driver
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.conformance.judging.case import Case, Progress
from tileproof.conformance.judging.judging import Interrupts, JudgeOptions, judge_case
from tileproof.conformance.judging.launch_case import LaunchCase
from tileproof.conformance.judging.record import refused
from tileproof.conformance.judging.reference import ReferenceFunction
from tileproof.conformance.planted.defects import planted_on, planted_reference
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.emulator.causes import Allow
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import parse_sizes, select
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult


@dataclass(frozen=True)
class KernelChoice:
    """Which case of a kernel: a variant's sizes ("size=64"), a case as JSON, the id of a defect to plant; by
    default the first variant, a small case, and no defect.
    """

    variant: str | None = None
    case: str | None = None
    plant: str | None = None


@dataclass(frozen=True)
class Judging:
    """How a verdict is made, beside its options: the words of the command that repeats it, what takes
    progress lines, the exceptions that interrupt it, and what takes the first run of a launch file.
    """

    command: Sequence[str] = ()
    progress: Progress = lambda line: None
    interrupts: Interrupts = (KeyboardInterrupt,)
    first: Callable[[RunResult], None] = lambda run: None

    def of(self, case: Case, options: JudgeOptions, *more: str) -> VerdictRecord:
        """The verdict on a case; `more` words follow the command."""
        command = (*self.command, *more) if self.command else ()
        return judge_case(
            case,
            options,
            command=command,
            progress=self.progress,
            interrupts=self.interrupts,
            first=self.first,
        )


def judge_kernel(
    kernel: Kernel, choice: KernelChoice, options: JudgeOptions, judging: Judging
) -> VerdictRecord:
    """The verdict on one case of a kernel with a plan; TileproofError for a choice that it does not have."""
    planted = planted_on(kernel, choice.plant)
    given = None if choice.case is None else from_json(kernel.variants[0].problem, choice.case)
    sizes = {} if choice.variant is None else parse_sizes(choice.variant)
    if given is not None:
        variant = kernel.variant_of_case(given)
    else:
        variant = select(kernel.name, kernel.variants, sizes)[0]
    case = given or small(kernel.plan(variant))
    more = [f"--case={case.as_json()}", *([f"--plant={choice.plant}"] if choice.plant else [])]
    with planted_reference(planted):
        judging.progress(f"{kernel.title(variant)}: building")
        under_test = on_driver(kernel, variant, _emulator(options), planted=planted)
        return judging.of(StageCase(under_test, case), options, *more)


def judge_file(
    file: LaunchFile,
    path: Path | None,
    reference: ReferenceFunction | None,
    options: JudgeOptions,
    judging: Judging,
) -> VerdictRecord:
    """The verdict on a launch file; of an example that `check --save` wrote into the folder `path`, without a
    reference, on its stages, first under the schedule it was saved for.

    Where a saved example's problem type is not installed, its launch alone is judged, and the stages are
    listed as not judged.
    """
    try:
        found = saved.named(path, reference is not None, lambda: _emulator(options))
    except TileproofError as error:
        return refused(str(path), options.seed, error)
    if isinstance(found, saved.SavedCase):
        return judging.of(StageCase(found.under_test, found.case, found.schedule), options)
    made = judging.of(LaunchCase(file, reference, options.run), options)
    return made if path is None or found is None else saved.without_stages(made, found, path)


def _emulator(options: JudgeOptions) -> EmulatorDriver:
    run = options.run
    return EmulatorDriver(run.mma, run.races, tuple(map(Allow.parse, run.allow)), run.strict)
