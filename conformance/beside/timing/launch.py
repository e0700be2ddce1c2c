"""The modelled time of a launch of a launch file, as a whole: a launch file has no k-blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import mean

from tileproof.conformance.beside.timing.model import EVENTS, Played, played, require_right
from tileproof.conformance.beside.timing.noise import SEEDS, Noise, nearest, noise_of
from tileproof.conformance.beside.timing.report import (
    Interval,
    RoleTime,
    Share,
    TimeNames,
    critical_of,
    roles_of,
    units_of,
)
from tileproof.conformance.beside.timing.simulate import Timed
from tileproof.conformance.explore.launch_file import ExploredLaunch
from tileproof.emulator import Schedule
from tileproof.emulator.options import RunKeywords
from tileproof.emulator.trace import TraceNames
from tileproof.kernels.places import target_of
from tileproof.spec.machine.timing import CASES, Case, Timing, timing_of


@dataclass(frozen=True)
class RunTime:
    """Clocks of one whole launch, from its first instruction to its last. `ctas` begin at once, each on its
    own SM; if the card has fewer SMs (`rounds` above 1), the launch takes at least so many times as long.
    `ms` is the time of a round. Roles, units and critical path are those of the run `likely`.
    """

    launch: str
    arch: str
    alone: bool
    ctas: int
    rounds: int
    clocks: Interval
    noise: Noise
    ms: Interval
    tflops: Interval | None
    roles: tuple[RoleTime, ...]
    units: tuple[Share, ...]
    critical: tuple[Share, ...]

    def as_dict(self) -> dict[str, object]:
        """As JSON takes it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The report as text."""
        where = "alone on the card" if self.alone else "every SM busy with the same"
        out = [
            f"{self.launch}, {self.arch}, {self.ctas} CTAs, {where}",
            f"clocks of the launch  {self.clocks}    likely (best to worst)",
            f"noise of the likely value  {self.noise}",
            f"microseconds  {self.ms.likely * 1e3:,.2f} ({self.ms.best * 1e3:,.2f} to "
            f"{self.ms.worst * 1e3:,.2f})",
        ]
        if self.rounds > 1:
            out.append(f"the card has fewer SMs than the launch has CTAs: {self.rounds} rounds at least")
        if self.tflops is not None:
            out.append(f"TFLOPS of MMAs  {self.tflops}")
        out += ["", "warp                    warps   issues   stalls    waits  for"]
        for role in self.roles:
            total = sum(share.clocks for share in role.waits)
            longest = ", ".join(f"{share.name} {share.clocks:,.0f}" for share in role.waits[:3])
            out.append(
                f"{role.role:22s} {role.warps:6d} {role.issues:8,.0f} {role.stalls:8,.0f} {total:8,.0f}"
                f"  {longest}"
            )
        out += ["", "unit                              clocks  share"]
        for unit in self.units:
            out.append(f"{unit.name:30s} {unit.clocks:9,.0f}  {unit.clocks / self.clocks.likely:5.0%}")
        out += ["", "critical path, clocks"]
        return out + [f"{share.clocks:9,.0f}  {share.name}" for share in self.critical]


def _number(role: RoleTime) -> tuple[int, str]:
    """Warps by their number, not by its digits."""
    return len(role.role), role.role


def ptx_names(names: TraceNames) -> TimeNames:
    """Warps by number, barriers by the names that a trace has for them."""

    def cause(what: object) -> str:
        if isinstance(what, tuple) and what[0] == "mbarrier":
            return names.mbarrier(what[3])
        return str(what[0]) if isinstance(what, tuple) else str(what)

    return TimeNames(lambda warp: f"warp {warp[3]}", cause)


@dataclass(frozen=True)
class TimedLaunch:
    """The report of a launch, and what its timeline is drawn from."""

    report: RunTime
    played: Played
    timing: Timing
    names: TimeNames


def time_launches(case: ExploredLaunch, alone: bool, values: Mapping[str, float]) -> list[TimedLaunch]:
    """Each launch of a launch file, run once with completions as early as they may, with some figures at
    these `values`; TileproofError when a launch has an error, or an instruction has no figure.
    """
    out = []
    several = len(case.file.launches) > 1
    early: RunKeywords = {"schedule": Schedule("early"), "path": True, "trace_limit": EVENTS}
    for number, step, result, trace in case.recorded(**early):
        require_right(result)
        loaded = case.module_of(step)
        timing = timing_of(target_of(loaded.ptx)).fixed(values)
        run = played(loaded.module, loaded.ptx, step.entry, timing.arch, result, trace)
        title = f"{case.title}, launch {number} ({step.entry})" if several else case.title
        names = ptx_names(trace.names())
        out.append(TimedLaunch(run_time(title, run, timing, alone, names), run, timing, names))
    return out


def run_time(launch: str, run: Played, timing: Timing, alone: bool, names: TimeNames) -> RunTime:
    """The time of one launch that was played; TileproofError where the model cannot time it."""
    drawn = [run.clocks(timing, "likely", alone, order) for order in range(SEEDS)]
    values = [run.clocks for run in drawn]
    shown, nothing = drawn[nearest(values)], Timed()
    noise = noise_of(values)
    clocks: dict[Case, float] = {
        "best": min(run.clocks(timing, "best", alone, 0).clocks, noise.smallest),
        "likely": mean(values),
        "worst": max(run.clocks(timing, "worst", alone, 0).clocks, noise.largest),
    }
    ms = {case: clocks[case] / float(getattr(timing.clock, case)) * 1e-6 for case in CASES}
    ctas = len({warp[:3] for warp in run.streams})
    macs = run.result.counters.mma_macs
    return RunTime(
        launch, timing.arch, alone, ctas, -(-ctas // timing.sms), Interval(**clocks), noise, Interval(**ms),
        Interval(**{case: 2 * macs / ms[case] * 1e-9 for case in CASES}) if macs else None,
        tuple(sorted(roles_of(nothing, shown, 1, clocks["likely"], names), key=_number)),
        units_of(nothing, shown, 1),
        critical_of(nothing, shown, 1, names, run.source),
    )  # fmt: skip
