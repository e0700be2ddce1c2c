"""The emulator's opinion on a launch: its findings under several schedules, races included."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tileproof.conformance.drivers import emulator
from tileproof.conformance.drivers.result import MachineFinding, RunSchedule
from tileproof.kernels.launch import Launch
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.tools.crosscheck.opinion import Opinion

TOOL = "tileproof"


def schedules(random: int) -> list[RunSchedule]:
    """Early, late, and `random` random ones from seed 0."""
    return [
        RunSchedule("early"),
        RunSchedule("late"),
        *(RunSchedule("random", seed) for seed in range(random)),
    ]


def first_opinion(launch: Launch, plan: KernelPlan | None, random: int) -> Opinion:
    """Runs `launch` under `schedules(random)`; `plan`, if there is one, names barriers and roles.

    Error: some schedule had a finding of severity error. Warnings and notes are remarks. An instruction
    that the emulator refuses is no opinion.
    """
    started = time.monotonic()
    tried = schedules(random)
    seen: dict[tuple[str, str, int], tuple[MachineFinding, list[RunSchedule]]] = {}
    for schedule in tried:
        try:
            run_result = emulator.run(
                launch, plan or nameless(launch), schedule=schedule, taps=False, races=True
            )
        except TileproofError as error:
            seconds = time.monotonic() - started
            return Opinion(TOOL, "no opinion", ("refused",), (str(error),), (), seconds)
        for one in run_result.findings:
            seen.setdefault((one.severity, one.code, one.ptx_line), (one, []))[1].append(schedule)
    errors = [pair for key, pair in seen.items() if key[0] == "error"]
    others = [pair for key, pair in seen.items() if key[0] != "error"]
    return Opinion(
        TOOL,
        "error" if errors else "fine",
        tuple(dict.fromkeys(one.code for one, _ in errors)),
        tuple(_line(one, under, len(tried)) for one, under in errors),
        (f"{len(tried)} schedules", *(f"{one.severity}: {_line(one, u, len(tried))}" for one, u in others)),
        time.monotonic() - started,
    )


def _line(one: MachineFinding, under: Sequence[RunSchedule], tried: int) -> str:
    names = dict.fromkeys(s.policy if s.policy != "random" else f"random {s.seed}" for s in under)
    when = "" if len(names) == tried else f", under {', '.join(list(names)[:3])}"
    cause = f"; {one.root[0]}" if one.root else ""
    place = f"PTX line {one.ptx_line}" if one.ptx_line else "no line"
    return f"{one.code}: {one.message}{cause} ({place}{when})"


def nameless(launch: Launch) -> KernelPlan:
    """A plan that names nothing, for a launch without one."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    return KernelPlan(
        name=launch.entry,
        problem="",
        block=0,
        cluster=cluster,
        threads=threads,
        smem_bytes=launch.shared_bytes,
        stages=(),
        observations=(),
        cluster_shape=launch.cluster,
    )
