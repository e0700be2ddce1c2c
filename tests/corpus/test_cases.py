# ruff: noqa: E501 - lists of rows are kept whole
"""The bug benchmark: the right form is clean in every order, the wrong form is found and named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.tools.bugs import (
    hand_written,
    interpreters,
    others,
    page,
    planted,
    registry,
    triton_cases,
    values,
)
from tileproof.tools.bugs.measure import measured, summary
from tileproof.tools.bugs.program import ProgramCase

from tests.corpus.test_found_since import EVERY_POLICY

PROGRAMS = {case.id: case for case in (*hand_written.cases(), *values.cases())}


@pytest.mark.corpus(
    "H20", "H22", "H23", "H25", "H30", "H31", "H32", "H33", "H34", "H35", "H36", "R20", "R31", "R32", "R33", "R34", "R35",
    "I5", "N26", "N27", "N28", "N29", "N30", "N31", "N33", "N34", "N35",
)  # fmt: skip
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_wrong_form_is_found_and_named_and_the_right_form_is_clean(name: str) -> None:
    case = PROGRAMS[name]
    every = EVERY_POLICY if case.form == "PTX" else EVERY_POLICY[::4]  # those of values run in few orders
    assert not case.alarms(every)
    for schedule in every:
        found = case.detected_under(schedule)
        assert found.code in case.codes, (schedule, found)
    assert case.detected().named, case.detected()


@pytest.mark.parametrize("name", ["delta-half-row", "h64-dq-without-proxy-fence"])
def test_a_planted_case_is_found_and_its_right_form_is_clean(name: str) -> None:
    case = registry.cases()[name]
    assert case.detected().named
    assert not case.alarms([Schedule("late")])


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.id for case in planted.stage_cases()])
def test_a_wrong_stage_is_found_on_its_stored_input(name: str) -> None:
    assert registry.cases()[name].detected().named


def test_every_planted_stage_has_a_stored_input_and_no_other_is_stored() -> None:
    assert set(planted.inputs()) == set(planted.stage_rows())


def test_cases_are_of_rows_and_every_row_without_a_case_has_a_reason() -> None:
    cases = registry.cases()
    assert len(cases) >= 60 and all({*case.rows} <= {*ROWS} for case in cases.values())
    assert all(case.rows or case.form in ("Triton", "Gluon") for case in cases.values())
    assert {case.id for case in registry.chosen(["R4"])} >= {"h64-dq-without-proxy-fence"}
    with pytest.raises(TileproofError, match="unknown case"):
        registry.chosen(["R99"])


@pytest.mark.parametrize("name", ["triton-add-mask", "gluon-early"])
def test_a_case_in_triton_is_found_at_its_line(name: str) -> None:
    case = registry.cases()[name]
    if case.skip:
        pytest.skip(case.skip)
    assert isinstance(case, triton_cases.TritonCase) and case.detected().named
    assert not replace(case, codes=("hang",)).detected().named
    if name == "triton-add-mask":
        assert not case.alarms([Schedule("late")])
        accepted, found, alarm, why = interpreters.interpreter(case)
        assert accepted and found and not alarm, why


def test_a_case_that_cannot_run_is_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_cases, "find_spec", lambda name: None)
    told: list[str] = []
    assert list(measured([registry.cases()["gluon-early"]], progress=told.append)) == []
    assert told == ["gluon-early: skipped: triton and torch not installed (requirements-outside.txt)"]


def test_cases_of_other_languages_are_not_for_triton_s_tools() -> None:
    assert interpreters.interpreter(PROGRAMS["lazy-rescale"]) == (False, False, False, "")


def test_the_forms_of_a_case_differ_and_a_right_form_has_other_answers() -> None:
    for case in PROGRAMS.values():
        assert case.launch(True) != case.launch(False), case.id


def test_what_is_found_elsewhere_or_not_at_all_is_not_named() -> None:
    case = PROGRAMS["p-stored-over-s"]
    assert isinstance(case, ProgramCase)
    for change in ({"at": "tcgen05.alloc"}, {"codes": ("hang",)}, {"missing": "a cluster barrier"}):
        assert case.detected().named and not replace(case, **change).detected().named  # type: ignore[arg-type]
    value = PROGRAMS["map-past-the-last-block"]
    assert value.detected().named and not replace(value, at="a0[41]").detected().named
    harmless = replace(case, other=case.right)
    (result,) = measured([harmless], tools=False)
    assert not result.right and result.detection.differs == "nothing is found"
    alarm = replace(case, right=case.other)
    (result,) = measured([alarm], tools=False)
    assert not result.right and len(result.alarms) >= 10


def test_what_the_other_tools_report() -> None:
    race, value, hang = (PROGRAMS[name] for name in ("p-stored-over-s", "lazy-rescale", "phase-of-the-tile"))
    results = list(measured([race, value, hang]))
    tests = [(result.tools["output test"], result.tools["ptxas"]) for result in results]
    assert [(outputs["found"], log["found"]) for outputs, log in tests] == [  # type: ignore[index, call-overload]
        (False, False),
        (True, False),
        (True, False),
    ]
    assert "hang" in results[2].tools["output test"]["why"]  # type: ignore[index, call-overload, operator]
    made = summary([result.as_dict() for result in results])
    assert made[:2] == [("Tileproof", "3", "3", "0"), ("output test", "3", "2", "-")]


def test_how_outputs_are_compared() -> None:
    assert others.close(np.array([1.0, np.nan]), np.array([1.009, np.nan]), np.array([True, True]))
    assert not others.close(np.array([1.0, 2.0]), np.array([1.0, np.nan]), np.array([True, True]))
    assert others.close(np.array([1.0, 2.0]), np.array([1.0, np.nan]), np.array([True, False]))


@pytest.mark.parametrize("wrong", [False, True])
def test_ptxas_accepts_every_program(wrong: bool) -> None:
    every = hand_written.cases()
    assert not [case.id for case in every[wrong::2] if others._ptxas(case.ptx(wrong))]


def test_the_stored_result_is_of_the_cases_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    stored = {row["id"]: (row["rows"], row["wrong"], row["base"], row["form"]) for row in page.stored()}
    cases = {case.id: ([*case.rows], case.wrong, case.base, case.form) for case in registry.cases().values()}
    assert stored == cases, "run tileproof corpus --run --tools --json again (docs/evidence/README.md)"
    assert page.main(["--check"]) == 0, capsys.readouterr().err
