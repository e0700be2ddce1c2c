"""The emulator's verdict on a launch: its findings under several schedules, races included."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.gemm.problem import GEMM
from tileproof.tools.crosscheck.opinion import Opinion

TOOL = "tileproof"


def schedules(random: int) -> list[Schedule]:
    """Early, late, and `random` random schedules from seed 0."""
    return [
        Schedule("early"),
        Schedule("late"),
        *(Schedule("random", seed) for seed in range(random)),
    ]


def first_opinion(launch: LaunchFile, plan: KernelPlan | None, random: int) -> Opinion:
    """Runs `launch` under `schedules(random)`; `plan`, where given, names barriers and roles.

    Error: some schedule had a finding of severity error. Warnings and notes are remarks. An instruction
    that the emulator refuses is no opinion.
    """
    started = time.monotonic()
    tried = schedules(random)
    seen: dict[tuple[str, str, int], tuple[Finding, list[Schedule]]] = {}
    for schedule in tried:
        try:
            run_result = emulator.run(
                launch, plan or nameless(launch), schedule=schedule, taps=False, races=True
            )
        except TileproofError as error:
            seconds = time.monotonic() - started
            return Opinion(TOOL, "no opinion", ("refused",), (str(error),), (), seconds)
        for finding in run_result.findings:
            seen.setdefault((finding.severity, finding.code, finding.machine.ptx_line), (finding, []))[
                1
            ].append(schedule)
    errors = [pair for key, pair in seen.items() if key[0] == "error"]
    others = [pair for key, pair in seen.items() if key[0] != "error"]
    return Opinion(
        TOOL,
        "error" if errors else "fine",
        tuple(dict.fromkeys(defect.code for defect, _ in errors)),
        tuple(_line(defect, under, len(tried)) for defect, under in errors),
        (
            f"{len(tried)} schedules",
            *(f"{defect.severity}: {_line(defect, u, len(tried))}" for defect, u in others),
        ),
        time.monotonic() - started,
    )


def _line(finding: Finding, under: Sequence[Schedule], tried: int) -> str:
    names = dict.fromkeys(s.policy if s.policy != "random" else f"random {s.seed}" for s in under)
    when = "" if len(names) == tried else f", under {', '.join(list(names)[:3])}"
    cause = f"; {finding.cause}" if finding.cause else ""
    place = f"PTX line {finding.machine.ptx_line}" if finding.machine.ptx_line else "no line"
    return f"{finding.code}: {finding.message}{cause} ({place}{when})"


def nameless(file: LaunchFile) -> KernelPlan:
    """A plan that names nothing, for a launch without a plan."""
    launch = file.main
    x, y, z = (*launch.cluster, 1, 1, 1)[:3]
    return KernelPlan(
        name=launch.entry,
        problem=GEMM,  # not read: nothing of the plan is observed
        block=0,
        cluster=x * y * z,
        threads=math.prod(launch.block),
        smem_bytes=launch.shared_bytes,
        stages=(),
        observations=(),
        cluster_shape=(x, y, z),
    )
