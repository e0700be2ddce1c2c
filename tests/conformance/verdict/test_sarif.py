"""SARIF: valid by the official schema, with places, rules and fingerprints that code scanning can use."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog
from tileproof.conformance.verdict import sarif
from tileproof.conformance.verdict.contract import CheckOutcome
from tileproof.emulator.codes import CODES
from tileproof.spec.machine.finding import Finding

from tests.kit.evidences import DEFECT, RACE, record


def log(*findings: Finding, folders: tuple[Path, ...] = ()) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(sarif.text([record(findings=findings)], folders))
    return made


def results(*findings: Finding, folders: tuple[Path, ...] = ()) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log(*findings, folders=folders)["runs"][0]["results"]
    return found


def faults(data: dict[str, Any]) -> list[str]:
    """What in a log does not fit the schema of OASIS: pydantic-sarif is generated from it."""
    try:
        SarifLog.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        return [str(fault["loc"]) for fault in error.errors()]
    return []


@pytest.mark.parametrize("findings", [(), (DEFECT,), (DEFECT, RACE)])
def test_a_log_fits_the_official_schema(findings: tuple[Finding, ...]) -> None:
    assert faults(log(*findings)) == []


@pytest.mark.parametrize(
    ("where", "value"),
    [("level", "fatal"), ("message", "text"), ("ruleIndex", "0"), ("locations", {}), ("surprise", 1)],
)
def test_a_planted_fault_is_caught_by_the_schema(where: str, value: object) -> None:
    data = log(DEFECT)
    data["runs"][0]["results"][0][where] = value
    assert faults(data)


def test_a_race_has_both_places_its_rule_and_its_section(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name in ("a.cuh", "b.cuh"):
        (tmp_path / "kernels" / name).write_text("")
    (race,) = results(RACE, folders=(tmp_path,))
    place = race["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "kernels/b.cuh"}, "region": {"startLine": 9}}
    (earlier,) = race["relatedLocations"]
    assert earlier["physicalLocation"]["artifactLocation"]["uri"] == "kernels/a.cuh"
    assert earlier["physicalLocation"]["region"]["startLine"] == 3
    (rule,) = log(RACE)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["id"] == race["ruleId"] == "race-unordered" and race["level"] == "error"
    assert CODES["race-unordered"].meaning[1:] in rule["shortDescription"]["text"]
    assert rule["properties"]["isaSections"] == ["9.7.9.8"]
    assert race["properties"]["machine"]["race"]["missing"] == "a barrier between both"


def test_a_wrong_value_has_its_stage_and_k_block() -> None:
    value = replace(DEFECT, problem=replace(DEFECT.problem, k_block=7))
    (found,) = results(value)
    assert [location["fullyQualifiedName"] for location in found["locations"][0]["logicalLocations"]] == [
        "entry", "entry/P", "entry/P/k-block 7"
    ]  # fmt: skip
    assert found["properties"]["found"] == "nan" and found["properties"]["problem"]["k_block"] == 7


def test_an_inlined_line_has_its_callers_and_a_line_of_the_ptx_stands_in_for_a_source() -> None:
    inlined = replace(
        RACE, machine=replace(RACE.machine, source="ptx.cuh:98 (inlined at mma.cuh:109, k.cu:7)")
    )
    (found,) = results(inlined)
    related = [location["physicalLocation"]["region"]["startLine"] for location in found["relatedLocations"]]
    assert related == [3, 109, 7]
    (found,) = results(replace(RACE, machine=replace(RACE.machine, source="")))
    place = found["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("a-kernel.ptx", 40)


def test_fingerprints_stay_from_run_to_run_and_tell_findings_apart() -> None:
    other_run = replace(
        DEFECT, found=3.0, expected=2.0, wrong=9, count=4, message="P differs", evidence=("under late",),
        replay="another", problem=replace(DEFECT.problem, group=5, k_block=2, row=1),
    )  # fmt: skip
    stage = replace(DEFECT, problem=replace(DEFECT.problem, stage="dP"))
    line = replace(RACE, machine=replace(RACE.machine, source="b.cuh:10"))
    prints = [
        result["partialFingerprints"][sarif.FINGERPRINT]
        for result in results(DEFECT, other_run, stage, RACE, line)
    ]
    assert prints[0] == prints[1] and len(set(prints)) == 4


def test_what_was_not_judged_is_a_notification() -> None:
    left = CheckOutcome("values", True, "not run", "no reference was given")
    (run,) = json.loads(sarif.text([record(checks=(left,))]))["runs"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] and run["properties"]["verdict"] == "incomplete"
    assert "no reference" in invocation["toolExecutionNotifications"][0]["message"]["text"]
