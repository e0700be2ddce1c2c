"""Finds the registers that hold the elements of a stage, from the values of several runs.

A *slot* is a lane of one execution, by one warp, of one instruction, and one of its result registers. If
control flow does not depend on values, a slot has the same element in every run. A slot whose values over
several runs with different inputs equal those of an element (times a constant) holds this element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.run_result import RecordedResults

F64 = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]  # of each slot, the flat index of its element; -1: none

# An element may be off by so much of itself, and by so much of the largest: sums of products in f32, which
# cancel; and values that were rounded to 16 bits on their way.
CLOSE = 2.0**-17, 2.0**-20
ROUNDED = 2.0**-7, 2.0**-9
NEIGHBOURS = 3  # elements on either side, in the order of values, that a slot may be
SCREENED = 500  # slots of a result that are looked at first
TRIED = 4  # executions of a result that are looked at first
LANES = 8  # that hold known elements, at least, in an arrangement


@dataclass(frozen=True)
class Result:
    """A result register of an instruction: its values in several runs.

    name: the instruction's; number: its number in the entry; register: its position among the results.
    warps: CTA and warp of each execution ``[executions, 2]``, in this order.
    values: ``f32 [runs, executions, 32]``; NaN in lanes that did not execute it.
    """

    name: str
    number: int
    register: int
    source: str
    warps: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True)
class ResultSlots:
    """The slots of one result that hold elements of a stage: register = element * `factor`."""

    result: Result
    factor: float
    places: Places  # [executions, 32]

    def elements(self, run: int) -> tuple[Places, F64]:
        """The flat indices of the elements that the slots hold, and their values in a run."""
        held = self.places >= 0
        return self.places[held], self.result.values[run][held].astype(np.float64) / self.factor


def results(runs: Sequence[Mapping[int, RecordedResults]]) -> Iterator[Result]:
    """The results that every run has, with executions in the order of CTAs and warps."""
    for number, first in runs[0].items():
        each, by_warp = [run[number] for run in runs], []
        for recorded in each:
            by_warp.append(np.lexsort((recorded.warp, recorded.cta)))
        warps = np.stack([first.cta, first.warp], axis=1)[by_warp[0]].astype(np.int64)
        same = all(
            len(recorded.cta) == len(first.cta)
            and (recorded.cta[order] == warps[:, 0]).all()
            and (recorded.warp[order] == warps[:, 1]).all()
            for recorded, order in zip(each, by_warp, strict=True)
        )
        if not same or not len(first.cta):
            continue  # its executions depend on values
        for register in range(first.values.shape[1]):
            values = np.stack(
                [
                    np.where(recorded.lanes[order], recorded.values[order, register].view(np.float32), np.nan)
                    for recorded, order in zip(each, by_warp, strict=True)
                ]
            )
            yield Result(first.instruction, number, register, first.source, warps, values)


class Elements:
    """The elements of a stage in several runs, sorted by their values in the first. A result may have more
    runs: those are not compared.
    """

    def __init__(self, runs: Sequence[F64]) -> None:
        self.flat = np.stack([run.reshape(-1) for run in runs])
        self.order = np.argsort(self.flat[0])
        self.sorted = self.flat[0][self.order]
        self.largest = np.abs(self.flat).max(axis=1)

    def near(
        self, values: F64, places: Places, run: int, close: tuple[float, float]
    ) -> npt.NDArray[np.bool_]:
        """Whether values of a run are the elements at `places`."""
        there = self.flat[run][places]
        return np.asarray(np.abs(values - there) <= close[0] * np.abs(there) + close[1] * self.largest[run])

    def find(self, values: npt.NDArray[np.float32]) -> Places:
        """The elements that slots with these values ``[runs, ...]`` hold; -1 where there is none or where
        several fit.
        """
        shape = values.shape[1:]
        wanted = values[: len(self.flat)].reshape(len(self.flat), -1).astype(np.float64)
        found, count = np.full(wanted.shape[1], -1, np.int64), np.zeros(wanted.shape[1], np.int64)
        slots = np.flatnonzero(np.isfinite(wanted).all(axis=0) & (wanted != 0).any(axis=0))
        at = np.searchsorted(self.sorted, wanted[0][slots])
        for step in range(-NEIGHBOURS, NEIGHBOURS + 1):
            rank = at + step
            inside = (rank >= 0) & (rank < len(self.sorted))
            here, place = slots[inside], self.order[rank[inside]]
            for run in range(len(self.flat)):
                near = self.near(wanted[run][here], place, run, CLOSE)
                here, place = here[near], place[near]
            found[here] = place
            count[here] += 1
        return np.where(count == 1, found, -1).reshape(shape)


def search(result: Result, elements: Elements, least: float = 0.02) -> ResultSlots | None:
    """The slots of a result that hold elements of a stage, of which at least this part must."""
    runs = result.values.shape[0]
    flat = result.values.reshape(runs, -1)
    step = max(1, flat.shape[1] // SCREENED)
    sample = flat[:, ::step]
    if (elements.find(sample) >= 0).mean() < least / 2:
        return None
    places = elements.find(result.values)
    enough = (places >= 0).mean() >= least and _once(result, places)
    return ResultSlots(result, 1.0, places) if enough else None


class Arrangements:
    """Which elements the lanes of a warp hold together, as known slots have them: rows of 32 places by CTA
    and warp.
    """

    def __init__(self, rows: Mapping[tuple[int, int], Places]) -> None:
        self._rows = {warp: np.unique(each, axis=0) for warp, each in rows.items()}

    @staticmethod
    def of(known: Sequence[ResultSlots]) -> Arrangements:
        rows: dict[tuple[int, int], list[Places]] = {}
        for found in known:
            for (cta, warp), places in zip(found.result.warps, found.places, strict=True):
                if (places >= 0).sum() >= LANES:
                    rows.setdefault((int(cta), int(warp)), []).append(places)
        return Arrangements({warp: np.stack(each) for warp, each in rows.items()})

    def of_elements(self, elements: Places) -> Arrangements:
        """The slots of a tensor; `elements` gives the element of each place."""
        return Arrangements(
            {warp: np.where(rows >= 0, elements[rows], -1) for warp, rows in self._rows.items()}
        )

    def find(self, result: Result, elements: Elements, factor: float) -> Places:
        """The elements of another stage that slots hold, if the lanes of an execution hold those that the
        lanes of a known execution of this warp hold: so do the results of an instruction that computes
        element by element.
        """
        found = np.full(result.values.shape[1:], -1, np.int64)
        for warp, rows in self._rows.items():
            mine = np.flatnonzero((result.warps == warp).all(axis=1))
            if not len(mine):
                continue
            values = result.values[: len(elements.flat), mine].astype(np.float64) / factor
            pairs = (values != 0).any(axis=2).all(axis=0)[:, None] & np.ones(len(rows), bool)
            for lanes in (slice(0, None, 8), slice(0, None)):  # most pairs end at the first lanes
                execution, row = np.nonzero(pairs)
                for run in range(len(elements.flat)):
                    places = rows[row, lanes]
                    near = elements.near(values[run][execution, lanes], places, run, ROUNDED)
                    fits = (near | (places < 0)).all(axis=1)
                    execution, row = execution[fits], row[fits]
                pairs = np.zeros_like(pairs)
                pairs[execution, row] = True
            for each in np.flatnonzero(pairs.sum(axis=1) == 1):
                found[mine[each]] = rows[pairs[each]][0]
        return found


def beside(
    result: Result, known: Arrangements, elements: Elements, factors: Sequence[float], least: float = 0.25
) -> ResultSlots | None:
    """The slots of a result that hold elements of a stage, of which at least this part of its executions
    must, in the arrangement of another stage.
    """
    step = max(1, len(result.warps) // TRIED)
    first = replace(result, warps=result.warps[::step], values=result.values[:, ::step])
    for factor in factors:
        if (known.find(first, elements, factor) < 0).all():
            continue
        places = known.find(result, elements, factor)
        if (places >= 0).any(axis=1).mean() >= least:
            return ResultSlots(result, factor, places)
    return None


def _once(result: Result, places: Places) -> bool:
    """Whether no element is held twice by one warp's execution, as chance would have it."""
    for row in places:
        held = row[row >= 0]
        if len(np.unique(held)) != len(held):
            return False
    return True
