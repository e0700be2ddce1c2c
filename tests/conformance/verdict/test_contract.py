"""The verdict contract: its words, its schema, reading it back, and what it refuses."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.verdict import contract, jsonform, schema, versions
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    NotCovered,
    OrderOnly,
    PlantedControl,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
    decided,
    worst,
)
from tileproof.conformance.verdict.program import covered, program, tool_identity
from tileproof.emulator import Memory
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.finding_text import place

from tests.kit.ptx import kernel_text, parsed, run

PASSED = CheckOutcome("stages", True, "passed")
WHOLE = ProgramCoverage(10, 10, 2, 2)
FIRED = PlantedControl("c", "a lost store", "dQ", "dQ", True)


def record(**other: Any) -> VerdictRecord:
    parts: dict[str, Any] = {
        "checks": (PASSED,), "findings": (), "coverage": WHOLE, "controls": (FIRED,)
    } | other  # fmt: skip
    word, why = decided(**parts)
    return VerdictRecord(
        verdict=word,
        exit_code=contract.EXIT_CODES[word],
        why=why,
        program=program("k", {"m": 128}, "entry", "ptx"),
        tool=tool_identity(),
        seed=0,
        schedules=(SchedulesRun("early", 3),),
        order_only=(OrderOnly("membar.cta", "9.7.13.4", 1),),
        sections={"mutation": {"killed": 3}},
        **parts,
    )


DEFECT = Finding("value", "wrong", check="stages", expected=1.0, found=float("nan"), bound=float("inf"))


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({}, "clean"),
        ({"findings": (DEFECT,)}, "defect"),
        ({"checks": (replace(PASSED, outcome="failed", reason="too many registers"),)}, "defect"),
        ({"checks": (replace(PASSED, outcome="failed", required=False),)}, "clean"),
        ({"checks": (PASSED, replace(PASSED, name="card", outcome="not run"))}, "incomplete"),
        ({"checks": (replace(PASSED, outcome="unsupported"),)}, "incomplete"),
        ({"checks": (PASSED, replace(PASSED, outcome="not run", required=False))}, "clean"),
        ({"checks": (replace(PASSED, outcome="not run", fault="its process died"),)}, "error"),
        (
            {
                "checks": (replace(PASSED, outcome="not run", fault="its process died"),),
                "findings": (DEFECT,),
            },
            "defect",
        ),
        ({"checks": ()}, "incomplete"),
        ({"coverage": None}, "incomplete"),
        ({"controls": (replace(FIRED, fired=False, found="P"),)}, "incomplete"),
    ],
)
def test_the_word(parts: dict[str, Any], word: str) -> None:
    made = record(**parts)
    assert made.verdict == word and bool(made.why) == (word != "clean")
    assert made.exit_code == {"clean": 0, "defect": 1, "error": 2, "incomplete": 3}[word]


@pytest.mark.parametrize("kind", ["mma", "copy", "output"])
def test_an_mma_copy_or_output_that_never_ran_is_incomplete(kind: str) -> None:
    missing = NotCovered(7, "op", kind, "a.cu:3")
    made = record(coverage=replace(WHOLE, instructions_covered=9, not_covered=(missing,)))
    assert made.verdict == "incomplete" and made.why == (f"{kind} at PTX line 7 never ran: op (a.cu:3)",)


@pytest.mark.parametrize("kind", ["branch", "other"])
def test_another_instruction_that_never_ran_is_listed_only(kind: str) -> None:
    missing = NotCovered(7, "op", kind, "", "taken" if kind == "branch" else "")
    assert record(coverage=replace(WHOLE, not_covered=(missing,))).verdict == "clean"


def test_an_interrupted_run_is_incomplete() -> None:
    assert decided(checks=(PASSED,), coverage=WHOLE, interrupted=True)[0] == "incomplete"


def test_the_worst_word_is_that_of_all() -> None:
    assert worst(["clean", "incomplete", "error"]) == "error" and worst(["error", "defect"]) == "defect"
    assert worst(["clean", "clean"]) == "clean" and worst([]) == "incomplete"


# ---- the schema


def test_the_published_schema_is_that_of_the_classes() -> None:
    assert schema.PATH.read_text(encoding="utf-8") == schema.rendered()


def validator() -> Any:
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    published = json.loads(schema.PATH.read_text(encoding="utf-8"))
    library.Draft202012Validator.check_schema(published)
    return library.Draft202012Validator(published)


@pytest.mark.parametrize(
    "parts", [{}, {"findings": (DEFECT,)}, {"coverage": None}, {"checks": (replace(PASSED, fault="x"),)}]
)
def test_a_verdict_fits_the_schema(parts: dict[str, Any]) -> None:
    validator().validate(json.loads(jsonform.text(record(**parts))))


def broken() -> dict[str, Any]:
    """Verdicts that the schema and the reader must both refuse."""
    right = json.loads(jsonform.text(record(findings=(DEFECT,))))

    def changed(change: Any) -> Any:
        data = copy.deepcopy(right)
        change(data)
        return data

    return {
        "not a seed": changed(lambda d: d.pop("seed")),
        "another field": changed(lambda d: d.update(speed=3)),
        "a word": changed(lambda d: d.update(verdict="fine")),
        "a text for a number": changed(lambda d: d["coverage"].update(instructions="10")),
        "a boolean for a number": changed(lambda d: d.update(seed=True)),
        "a number for a list": changed(lambda d: d.update(findings=3)),
        "a bad bound": changed(lambda d: d["findings"][0].update(bound="much")),
        "null for a text": changed(lambda d: d["program"].update(entry=None)),
    }


@pytest.mark.parametrize("name", broken())
def test_what_is_no_verdict_is_refused(name: str) -> None:
    with pytest.raises(TileproofError):
        jsonform.parse(VerdictRecord, broken()[name], "verdict")
    assert not validator().is_valid(broken()[name])


def test_the_exit_code_belongs_to_the_word() -> None:
    data = json.loads(jsonform.text(record()))
    assert not validator().is_valid(data | {"exit_code": 1})


# ---- reading it back


def read(path: Path) -> VerdictRecord:
    version, what = contract.SCHEMA_VERSION, "the verdict"
    return jsonform.load(path, VerdictRecord, contract.SCHEMA, version, what, versions.VERDICT)


def test_a_verdict_is_read_back_whole(tmp_path: Path) -> None:
    made = record(findings=(replace(DEFECT, found=2.0),))
    (tmp_path / "v.json").write_text(jsonform.text(made))
    assert read(tmp_path / "v.json") == made


def version_1() -> dict[str, Any]:
    """A verdict that an earlier Tileproof wrote: a wrong value and a race."""
    data = json.loads((Path(__file__).parent / "data" / "evidence-1.json").read_text(encoding="utf-8"))
    verdict: dict[str, Any] = data["kernels"][0]
    return verdict


def test_a_verdict_of_version_1_is_read_with_all_that_it_says(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps(version_1()))
    made = read(tmp_path / "v.json")
    value, race = made.findings
    assert (made.schema_version, made.verdict, made.program.kernel) == (3, "defect", "head64")
    assert (value.kind, value.problem.k_block, value.problem.lane, value.count) == ("value", 1, 2, 3)
    assert place(value) == version_1()["findings"][0]["where"] and value.evidence == ("a fact",)
    assert (race.machine.source, race.machine.isa_section) == ("b.cuh:9", "9.7.9.8")
    assert race.evidence == ("before it: a.cuh:3", "missing: a barrier between both")
    validator().validate(json.loads(jsonform.text(made)))


def test_mutants_of_a_verdict_of_version_2_have_outcomes(tmp_path: Path) -> None:
    """Version 2 called what became of a mutant its verdict."""
    rows = [{"number": 1, "verdict": "survived"}]
    part = {"killed": 3, "survivors": rows, "equivalents": []}
    data = json.loads(jsonform.text(replace(record(), sections={"mutation": part, "other": rows})))
    (tmp_path / "v.json").write_text(json.dumps(data | {"schema_version": 2}))
    made = read(tmp_path / "v.json")
    assert made.schema_version == 3 and made.sections["other"] == rows
    assert made.sections["mutation"]["survivors"] == [{"number": 1, "outcome": "survived"}]


@pytest.mark.parametrize("change", [{"surprise": 1}, {"count": "3"}])
def test_a_changed_verdict_of_version_1_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    data = version_1()
    data["findings"][0] |= change
    (tmp_path / "v.json").write_text(json.dumps(data))
    with pytest.raises(TileproofError, match="violates the schema"):
        read(tmp_path / "v.json")


def test_a_version_of_the_future_is_refused_with_both_versions(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text(json.dumps(version_1() | {"schema_version": 4}))
    with pytest.raises(TileproofError) as refused:
        read(tmp_path / "v.json")
    assert (refused.value.expected, refused.value.found) == ("1 or 2 or 3", "4")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "corrupt or truncated"),
        ('{"schema": "tileproof-ver', "corrupt or truncated"),
        ("[1]", "has another schema"),
        ('{"schema": "another"}', "has another schema"),
        ('{"schema": "tileproof-verdict", "schema_version": 99}', "another schema version"),
        ('{"schema": "tileproof-verdict", "schema_version": [1]}', "another schema version"),
        ('{"schema": "tileproof-verdict", "schema_version": 3}', "violates the schema"),
        ('{"schema": "tileproof-verdict", "schema_version": 1}', "violates its schema"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "v.json"
    path.write_text(text)
    with pytest.raises(TileproofError, match=what):
        read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TileproofError, match="cannot be read"):
        read(tmp_path / "none.json")


# ---- what it says of findings and programs

RACE = """st.shared.u32 [buf], %t;
setp.ne.u32 %p1, %t, 40;
@%p1 bra DONE;
ld.shared.u32 %r1, [buf];
DONE:"""


def test_a_race_keeps_both_places_the_edge_and_the_section() -> None:
    result = run(RACE, module=".shared .align 4 .b8 buf[4];", threads=64, races=True)
    found = next(cause.sample for cause in result.causes if cause.code == "race-unordered")
    race = found.machine.race
    assert race is not None and race.missing and race.ptx_line and found.machine.ptx_line
    assert found.cause == f"missing: {race.missing}" and found.machine.isa_section.startswith("9.7.9")


def test_the_coverage_of_launches() -> None:
    body = "setp.eq.u32 %p1, %t, 99;\n@%p1 bra NO;\nbra.uni END;\nNO: st.global.u32 [%a0], 1;\nEND:"
    decoded = parsed(kernel_text(body, [False])).decode("k")
    assert covered(decoded, []) is None
    import numpy as np

    memory = Memory()
    result = run(body, [memory.buffer(np.zeros(1, np.uint32))], memory=memory)
    seen = covered(decoded, [result.executed])
    assert seen is not None and seen.branch_ways == 3 and seen.branch_ways_covered == 2
    assert seen.instructions - seen.instructions_covered == 1
    assert [(missed.kind, missed.way) for missed in seen.not_covered] == [
        ("branch", "taken"),
        ("output", ""),
    ]
    assert [missed.opcode for missed in seen.missing()] == ["st.global.u32"]
