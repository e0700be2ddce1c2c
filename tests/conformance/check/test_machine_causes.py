"""A wrong value without a cause of its own names what the machine found about its data, and only that."""

from __future__ import annotations

from tileproof.conformance.check.machine_causes import with_machine
from tileproof.conformance.diagnose.arrays import SOME_NAN
from tileproof.spec.machine.finding import Finding, MachinePlace, ProblemPlace

STAGES = ("P", "S", "dKV")


def value(stage: str = "S", cause: str = "") -> Finding:
    return Finding("value", "differs", problem=ProblemPlace(stage, "production"), cause=cause)


def machine(code: str, stage: str, build: str = "production") -> Finding:
    machine = MachinePlace(source="kernel.cuh:7")
    return Finding(code, code, machine=machine, problem=ProblemPlace(stage, build))


def cause(first: Finding, *others: Finding) -> str:
    return with_machine([first, *others], STAGES)[0].cause


def test_the_machines_finding_about_the_same_data_is_the_cause() -> None:
    lanes = machine("tmem-lane-quarter", "dKV")
    assert cause(value("dKV"), lanes).startswith("tmem-lane-quarter at kernel.cuh:7")
    both = cause(value("dKV"), machine("race-unordered", "P"), lanes)
    assert both.startswith("tmem-lane-quarter"), "the nearest stage's"
    assert cause(value("dKV"), machine("race-unordered", "P")).startswith("race-unordered")


def test_a_cause_that_explains_little_is_reported_beside_the_machines_finding() -> None:
    weak = cause(value("S", SOME_NAN), machine("global-out-of-bounds", "S"))
    assert weak.startswith(f"{SOME_NAN}; global-out-of-bounds at kernel.cuh:7")
    assert cause(value("S", SOME_NAN)) == SOME_NAN


def test_what_explains_no_value_is_no_cause() -> None:
    assert cause(value("S")) == ""
    assert cause(value("S"), machine("race-unordered", "dKV")) == "", "of a later stage"
    assert cause(value("S"), machine("race-unordered", "")) == "", "of no stage"
    assert cause(value("S"), machine("tmem-leak-of-nothing", "S")) == "", "no code of the machine"
    assert cause(value("S"), machine("race-unordered", "S", "probe")) == "", "of another build"
    assert cause(value("S"), machine("mbarrier-count", "S")) == "", "not about data"
    assert (
        cause(value("S", cause="sm_scale is missing"), machine("race-unordered", "S"))
        == "sm_scale is missing"
    )
    assert cause(machine("hang", "S"), machine("race-unordered", "S")) == ""
