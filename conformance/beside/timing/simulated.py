"""What a simulation on the engine shows, as `Timed`: `simulate.Model`, the same figures bit by bit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from functools import cached_property

from tileproof.conformance.beside.timing.path import Warp
from tileproof.conformance.beside.timing.simulate import Span, Timed
from tileproof.conformance.beside.timing.tables import RunTables
from tileproof.conformance.beside.timing.units import Origin
from tileproof.conformance.beside.timing.work import Phase
from tileproof.emulator._engine import TIMING_FIGURES, TimingResult
from tileproof.spec.machine.timing import Case, Timing


class Simulated(Timed):
    """`Timed` of the engine; what it holds beside the clocks is made when it is asked for."""

    def __init__(self, tables: RunTables, found: TimingResult) -> None:
        self._tables, self._found = tables, found
        self._warps, self._phases = tables.warps.all(), tables.phases.all()
        self.clocks = found.clocks
        self.ends = {self._warps[warp]: end for warp, end in found.ends}
        self.used = {name for name, used in zip(TIMING_FIGURES, found.used, strict=True) if used}
        self.remaining = Counter()
        for line, missing in found.remaining:
            self.remaining[line] += missing

    @cached_property
    def issued(self) -> Counter[Warp]:  # type: ignore[override]
        return Counter(
            {warp: count for warp, count in zip(self._warps, self._found.issued, strict=True) if count}
        )

    @cached_property
    def log(self) -> dict[Warp, list[tuple[float, int]]]:  # type: ignore[override]
        out: dict[Warp, list[tuple[float, int]]] = defaultdict(list)
        for number, warp in enumerate(self._warps):
            if warp in self.issued:
                out[warp] = list(zip(*self._found.log(number), strict=True))
        return out

    @cached_property
    def waits(self) -> dict[Warp, list[Span]]:  # type: ignore[override]
        opcodes = self._tables.opcodes.all()
        out: dict[Warp, list[Span]] = defaultdict(list)
        for warp, phase, opcode, line, begin, end in self._found.waits:
            cause: Hashable = opcodes[opcode] if phase < 0 else self._phases[phase]
            out[self._warps[warp]].append(Span(begin, end, cause, line))
        return out

    @cached_property
    def completed(self) -> dict[Phase, float]:  # type: ignore[override]
        return {self._phases[phase]: time for phase, time, _ in self._found.completed}

    @cached_property
    def by(self) -> dict[Phase, Origin]:  # type: ignore[override]
        return {
            self._phases[phase]: Origin(self._warps[by[0]], *by[1:]) for phase, _, by in self._found.completed
        }

    @cached_property
    def busy(self) -> Counter[tuple[Hashable, str]]:  # type: ignore[override]
        ctas = self._tables.ctas.all()
        return Counter({(ctas[cta], unit): clocks for cta, unit, clocks in self._found.busy})  # type: ignore[misc]

    @cached_property
    def spans(self) -> list[tuple[str, Hashable, float, float, int]]:  # type: ignore[override]
        ctas = self._tables.ctas.all()
        return [(unit, ctas[cta], begin, end, line) for unit, cta, begin, end, line in self._found.spans]


def simulated(
    tables: RunTables,
    timing: Timing,
    case: Case,
    alone: bool,
    order: int | None = None,
    working_set: float = 0,
) -> Simulated:
    """`Model(...).run(...)` of the run that is in these tables."""
    values = timing.values(case)
    figures = [values[name] for name in TIMING_FIGURES]
    seed = -1 if order is None else order
    return Simulated(tables, tables.program.simulate(figures, alone, seed, working_set))
