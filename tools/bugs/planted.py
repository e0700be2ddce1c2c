"""Cases of planted defects: mistakes of order in small programs and kernels, and wrong stages of kernels.

The right form of a planted defect is the same kernel without it, on the same input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tileproof.conformance.cases.generators import from_json
from tileproof.conformance.check.property import drawn, edge_runs
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.planted.defects import build_planted, defects
from tileproof.conformance.planted.synchronisation import run as order
from tileproof.conformance.planted.synchronisation.catalogue import catalogue
from tileproof.conformance.planted.synchronisation.run import SCHEDULES
from tileproof.kernels.edit import InStage, PlantedDefect
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernels
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import JsonObject
from tileproof.spec.problems.cases import AnyCase
from tileproof.tools.bugs.case import BugCase, Detection, place_of, severe

# The first input on which `check` finds a defect in a stage, as this module writes it.
INPUTS = Path(__file__).with_name("inputs.json")
EXAMPLES = 200
# A row whose wrong form ptxas refuses: it could not reach a card.
NOT_ASSEMBLED = frozenset({"cols-freed-by-one"})


@dataclass(frozen=True)
class WrongOrderCase(BugCase):
    """A row of the synchronisation catalogue: the finding must name both accesses and the missing edge."""

    row: PlantedDefect

    def launch(self, wrong: bool) -> LaunchFile:
        if self.base in order.programs():
            program = order.programs()[self.base]
            return program.launch(order.plant(self.row).text if wrong else program.text())
        kernel = kernels()[self.base]
        return order.described(
            kernel, self.row.sizes, build_planted(kernel, self._variant, self._planted(wrong))
        )

    def detected(self) -> Detection:
        outcome = order.run(self.row, SCHEDULES, to_first=True)
        if outcome.shown is None:
            return Detection()
        finding = outcome.shown.finding
        text = "; ".join((finding.message, *outcome.shown.root))
        return Detection(finding.code, place_of(finding), text, outcome.wrong, str(outcome.shown.schedule))

    def alarms(self, schedules: Sequence[Schedule] = SCHEDULES) -> list[str]:
        built = None
        if self.base not in order.programs():
            built = kernels()[self.base].build(self._variant)
            text = built.ptx
        else:
            text = order.programs()[self.base].text()
        found = []
        for schedule in schedules:
            findings = order.launch(self.base, text, schedule, self.row.sizes, built)
            found += [f"{schedule}: {each.code}: {each.message}" for each in severe(findings)]
        return found

    @property
    def right_key(self) -> object:
        return self.base, self.row.sizes

    @property
    def _variant(self):  # type: ignore[no-untyped-def]
        return order.variant_of(kernels()[self.base], self.row.sizes)

    def _planted(self, wrong: bool) -> PlantedDefect | None:
        return self.row if wrong else None


@dataclass(frozen=True)
class WrongStageCase(BugCase):
    """A planted defect that makes a stage wrong, on the input on which `check` finds it first."""

    row: PlantedDefect
    given: str
    when: str

    @property
    def _case(self) -> AnyCase:
        return from_json(kernels()[self.base].variants[0].problem, self.given)

    @property
    def _variant(self):  # type: ignore[no-untyped-def]
        kernel, case = kernels()[self.base], self._case
        return next(each for each in kernel.variants if fits(kernel.plan(each), case))

    def launch(self, wrong: bool) -> LaunchFile:
        kernel = kernels()[self.base]
        built = build_planted(kernel, self._variant, self.row if wrong else None)
        return kernel.launch(self._case.inputs(), built)

    def _findings(self, planted: PlantedDefect | None, schedule: Schedule) -> Sequence[Finding]:
        under_test = on_emulator(kernels()[self.base], self._variant, planted=planted)
        return run_case(under_test, self._case, schedule, again=False).findings

    def detected(self) -> Detection:
        schedule = Schedule.parse(self.when)
        found = self._findings(self.row, schedule)
        if not found:
            return Detection()
        first, expected = found[0], self.row.expected
        assert isinstance(expected, InStage)
        stage = first.problem.stage if first.problem else ""
        differs = (
            "" if expected.fits(stage or "", first.code) else f"found in stage {stage}, not {expected.stage}"
        )
        return Detection(
            first.code,
            place_of(first),
            "; ".join(filter(None, (first.message, first.cause))),
            differs,
            self.when,
        )

    def alarms(self, schedules: Sequence[Schedule] = SCHEDULES) -> list[str]:
        return [
            f"{schedule}: {each.code}: {each.message}"
            for schedule in schedules
            for each in self._findings(None, schedule)
        ]

    @property
    def right_key(self) -> object:
        return self.base, self.given


def fits(plan: object, case: AnyCase) -> bool:
    """Whether a case is of the plan's sizes."""
    wanted = {name: getattr(case, name) for name in ("d_qk", "h_q") if hasattr(case, name)}
    return all(plan.size(name) == value for name, value in wanted.items())  # type: ignore[attr-defined]


def order_cases() -> Iterator[WrongOrderCase]:
    """The rows of the synchronisation catalogue that stand for rows of the corpus."""
    for row in catalogue().values():
        if row.corpus and row.id not in NOT_ASSEMBLED:
            form = "PTX" if row.target in order.programs() else "kernel"
            yield WrongOrderCase(row.id, row.classes, row.title, row.target, form, row)


def stage_rows() -> Mapping[str, PlantedDefect]:
    """Planted defects in stages of the kernels for SM100 that stand for rows of the corpus."""
    return {
        row.id: row
        for row in defects().values()
        if row.corpus
        and isinstance(row.expected, InStage)
        and row.expected.stage
        and all(edit.place.kind != "module" for edit in row.edits)  # else the spec is wrong, not the kernel
    }


@cache
def inputs() -> Mapping[str, JsonObject]:
    """The stored inputs by defect."""
    read: dict[str, JsonObject] = json.loads(INPUTS.read_text(encoding="utf-8"))
    return read


def stage_cases() -> Iterator[WrongStageCase]:
    """The defects in stages, each on its stored input."""
    for row in stage_rows().values():
        if row.id not in inputs():
            raise TileproofError(
                "a defect has no stored input", where=row.id, do="run python -m tileproof.tools.bugs.planted"
            )
        stored = inputs()[row.id]
        yield WrongStageCase(
            row.id,
            row.classes,
            row.title,
            row.target,
            "kernel",
            row,
            json.dumps(stored["case"], separators=(",", ":")),
            str(stored["schedule"]),
        )


def found_first(row: PlantedDefect) -> JsonObject:
    """The first edge or drawn example of `check` on which the expected stage is wrong."""
    kernel = kernels()[row.target]
    assert isinstance(row.expected, InStage)
    for variant in kernel.variants:
        plan = kernel.plan(variant)
        under_test = replace(on_emulator(kernel, variant, planted=row, races=False), probe=None)
        policy = row.expected.policy
        for case, schedule in (*edge_runs(plan, policy, 0), *drawn(plan, policy, 0, EXAMPLES)):
            found = run_case(under_test, case, schedule, again=False, explain=False).findings
            stage = found[0].problem.stage if found and found[0].problem else ""
            if found and row.expected.fits(stage or "", found[0].code):
                return {"case": json.loads(case.as_json()), "schedule": str(schedule)}
    raise TileproofError("no example shows the defect", where=row.id)


def main() -> None:
    """Find the inputs that are not yet stored."""
    stored = dict(inputs()) if INPUTS.exists() else {}
    for row in stage_rows().values():
        if row.id not in stored:
            stored[row.id] = found_first(row)
            print(row.id, stored[row.id], flush=True)
            INPUTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
