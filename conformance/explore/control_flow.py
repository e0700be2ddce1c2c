"""Which inputs the order of a kernel's events depends on, and a run of each class of these inputs
(docs/certificate.md, Periods).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
import numpy.typing as npt
from tileproof.conformance.cases.generators import control_flow, small
from tileproof.conformance.drivers import emulator
from tileproof.conformance.explore.periods import (
    Periods,
    blocks_needed,
    by_thread,
    ordered,
    periods,
    ring_period,
)
from tileproof.emulator.trace import Trace
from tileproof.kernels.compile import Built
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.certificate import Certificate
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import JsonObject
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import ProblemInputs

MAX_EVENTS = 1 << 22  # of a trace; one with more is incomplete
_EVENT = ["cta", "warp", "lane", "pc", "kind", "object", "barrier", "phase", "lanes"]


@dataclass(frozen=True)
class FlowClass:
    """What a launch of a class of inputs shows: its certificate, and its order from k-block to k-block."""

    certificate: Certificate | None
    order: Periods

    @property
    def wrong(self) -> str:
        """Why it is not certified, or its order does not repeat; "" for neither."""
        if self.certificate is None:
            return "not certified: the launch was not checked for races"
        if not self.certificate:
            return f"not certified: {self.certificate.doubts[0]}"
        return "" if self.order else str(self.order)

    def __str__(self) -> str:
        return self.wrong or f"certified; {self.order}"


@dataclass(frozen=True)
class FlowReport:
    """The control flow of a kernel: `inputs` are those that its problem states, `others` the arrays whose
    values did not change the order of events (`CHANGES`). `found`: arrays whose values did change it, by
    name, with the change and the place. `classes` by name.
    """

    inputs: tuple[str, ...]
    others: tuple[str, ...]
    found: Mapping[str, str]
    classes: Mapping[str, FlowClass]

    @property
    def wrong(self) -> str:
        """The first thing that contradicts the problem's statement, or that a class does not satisfy."""
        for name, where in self.found.items():
            return f"control flow depends on {name}, of which the problem states no class: {where}"
        return next(
            (f"{name or 'every input'}: {seen.wrong}" for name, seen in self.classes.items() if seen.wrong),
            "",
        )

    def as_dict(self) -> JsonObject:
        """The report as JSON; `wrong` is "" if nothing is."""
        classes: JsonObject = {
            name: {"certified": bool(seen.certificate), "order": str(seen.order), **asdict(seen.order)}
            for name, seen in self.classes.items()
        }
        return {
            "wrong": self.wrong,
            "inputs": list(self.inputs),
            "no dependence seen": list(self.others),
            "changes": list(CHANGES),
            "found": dict(self.found),
            "classes": classes,
        }

    def lines(self) -> Iterator[str]:
        """The report as text."""
        stated = " and ".join(self.inputs) or "sizes alone"
        seen = f"{', '.join(self.others) or 'no array'} ({len(CHANGES)} changes)"
        yield f"control flow depends on {stated}; no dependence was seen on {seen}"
        yield from (f"control flow depends on {name}: {where}" for name, where in self.found.items())
        yield from (f"{name or 'every input'}: {seen}" for name, seen in self.classes.items())


def control_flow_of(kernel: Kernel, built: Built, plan: KernelPlan, blocks: int | None = None) -> FlowReport:
    """The control flow of a build: launches of a small case with other values of each array that is not
    stated, and one launch of each class over `blocks` k-blocks: by default the least that show a period.
    TileproofError for a plan without a ring of mbarriers.
    """
    if not ring_period(plan):
        raise TileproofError("the plan has no ring", where="k-blocks", expected="a ring of mbarriers")
    stated = control_flow(plan, blocks or blocks_needed(plan))
    case = small(plan)
    inputs = case.inputs()
    first = _order(kernel, built, plan, inputs)
    others = tuple(name for name in _arrays(inputs) if name not in stated.inputs)
    found: dict[str, str] = {}
    for how, change in CHANGES.items():
        changed = {name: change(getattr(inputs, name)) for name in others}
        if not _difference(first, _order(kernel, built, plan, replace(inputs, **changed))):
            continue
        for name, values in changed.items():
            if where := _difference(first, _order(kernel, built, plan, replace(inputs, **{name: values}))):
                found.setdefault(name, f"{how}, {where}")
    classes = {}
    for name, case in stated.classes.items():
        inputs = case.inputs()
        result, trace = _traced(kernel, built, plan, inputs, races=True)
        classes[name] = FlowClass(result.certificate, periods(trace, plan, inputs))
    unchanged = tuple(name for name in others if name not in found)
    return FlowReport(stated.inputs, unchanged, found, classes)


def _traced(
    kernel: Kernel, built: Built, plan: KernelPlan, inputs: ProblemInputs, races: bool = False
) -> tuple[RunResult, Trace]:
    launch = kernel.launch(inputs, built)
    return emulator.run_traced(launch, plan, schedule=Schedule("early"), limit=MAX_EVENTS, races=races)


def _arrays(inputs: ProblemInputs) -> list[str]:
    """The names of the input arrays."""
    return [field.name for field in fields(inputs) if isinstance(getattr(inputs, field.name), np.ndarray)]


def _reordered(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    order = np.random.default_rng(0).permutation(values.size)
    return values.reshape(-1)[order].reshape(values.shape)


def _not_numbers(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return values if np.issubdtype(values.dtype, np.integer) else np.full_like(values, np.nan)


# Other values of an array that is not stated.
CHANGES: Mapping[str, Callable[[npt.NDArray[np.generic]], npt.NDArray[np.generic]]] = {
    "its elements in another order": _reordered,
    "zeros": np.zeros_like,
    "NaN": _not_numbers,
}


@dataclass(frozen=True)
class _Order:
    """What a launch does: events thread by thread (`rows`, of `trace`), and the number of instructions."""

    trace: Trace
    rows: npt.NDArray[np.void]
    instructions: int


def _order(kernel: Kernel, built: Built, plan: KernelPlan, inputs: ProblemInputs) -> _Order:
    result, trace = _traced(kernel, built, plan, inputs)
    rows = ordered(trace)
    return _Order(trace, rows[by_thread(rows)[0]], result.counters.warp_instructions)


def _difference(first: _Order, second: _Order) -> str:
    """The place at which a thread does something else in the second launch, or how many instructions it
    executes; "" if there is no difference.
    """
    before, after = first.rows, second.rows
    length = min(len(before), len(after))
    odd = np.flatnonzero(before[_EVENT][:length] != after[_EVENT][:length])
    if not len(odd) and len(before) == len(after):
        same = first.instructions == second.instructions
        return "" if same else f"{second.instructions:,} warp instructions for {first.instructions:,}"
    at = int(odd[0]) if len(odd) else length
    event = first.trace.event(before[at]) if at < len(before) else second.trace.event(after[at])
    return event.source or f"PTX line {event.ptx_line}"
