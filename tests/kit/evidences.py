"""Evidences of the gate, made by hand: clean and defective, without running a kernel."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import Judgement
from tileproof.conformance.beside.mutate.score import as_json
from tileproof.conformance.gate.difference import MUTATION
from tileproof.conformance.gate.evidence import ReleaseEvidence, evidence
from tileproof.conformance.verdict import contract
from tileproof.conformance.verdict.contract import (
    CheckOutcome,
    NotCovered,
    OrderOnly,
    PlantedControl,
    ProgramCoverage,
    SchedulesRun,
    VerdictRecord,
    decided,
)
from tileproof.conformance.verdict.program import program, tool_identity
from tileproof.spec.machine.finding import Finding, MachinePlace, ProblemPlace, Race

WRITTEN = {"tiles": 4, "elements": 4096, "exact_elements": 0, "elements_without_bound": 0}
STAGES = {
    "P": {**WRITTEN, "worst_error_over_bound": 0.31},
    "delta": {**WRITTEN, "worst_error_over_bound": 0.02},
}
CASE = '{"d_qk":576,"values":"integers"}'
REPLAY = f"tileproof check a-kernel '--case={CASE}' --policy=early"


def failure() -> dict[str, Any]:
    """A tile of 8 by 16 elements of which three are wrong and one was not written."""
    shades = np.zeros((8, 16), np.uint8)
    shades[2, 3], shades[2, 4], shades[5, 9], shades[7, 15] = 254, 140, 200, 255
    return {
        "case": CASE,
        "schedule": {"policy": "early", "seed": 0},
        "replay": REPLAY,
        "text": [
            "P differs from the spec",
            "where:    stage P, token 0, CTA 0",
            "cause:    <none> & nothing",
        ],
        "trace": [f"   {n}  token 0 CTA 0, mma (warp 12) lane 0  mma-issue #{n}" for n in range(30)],
        "tile": {
            "stage": "P",
            "title": "stage P, token 0, CTA 0, k-block 1",
            "rows": [64, 72],
            "columns": [0, 16],
            "axes": ["head", "slot"],
            "wrong": 4,
            "elements": 128,
            "levels": base64.b64encode(zlib.compress(shades.tobytes())).decode(),
            "values": [
                {"row": 66, "column": 3, "expected": 1.5, "found": -145.0, "bound": 1e-6},
                {"row": 71, "column": 15, "expected": 2.0, "found": None, "bound": 1e-6},
                {"row": 66, "column": 4, "expected": "inf", "found": "nan", "bound": 1e-6},
            ],
        },
    }


DEFECT = Finding(
    "value", "P differs from <script>alert(1)</script>", check="stage conformance",
    problem=ProblemPlace("P", group=0, unit="token", cta=0),
    expected=1.5, found=float("nan"), bound=1e-6, wrong=4, elements=128,
    cause="every value is the expected one times 1 / sm_scale", replay=REPLAY,
)  # fmt: skip
RACE = Finding(
    "race-unordered", "a read that nothing orders", check="schedules and races",
    machine=MachinePlace(
        isa_section="9.7.9.8", instruction="ld.shared.b32", ptx_line=40, source="b.cuh:9", cta=(0, 0, 0),
        cluster_rank=0, warp=1, lane=2,
        race=Race(
            12, "a.cuh:3", "st.shared.b32", (0, 0, 0), 0, 0, 1, True, 1, False, 1, "a barrier between both"
        ),
    ),
    cause="missing: a barrier between both",
)  # fmt: skip

LEFT = NotCovered(7, "add.s32", "other", "a.cu:3"), NotCovered(9, "bra", "branch", "", "taken")


def record(kernel: str = "a-kernel", *, wrong: bool = False, **other: Any) -> VerdictRecord:
    """The verdict on one variant, clean or with a wrong tile and a race; `other` replaces parts of it."""
    details: dict[str, Any] = {"examples": 7, "stages": STAGES, **({"failure": failure()} if wrong else {})}
    outcome: Any = "failed" if wrong else "passed"
    parts: dict[str, Any] = {
        "checks": (
            CheckOutcome("resource budgets", True, "passed"),
            CheckOutcome("stage conformance", True, outcome, "P differs" if wrong else "", "", details),
            CheckOutcome("card results", False, "not run", "this machine has no CUDA card"),
        ),
        "findings": (DEFECT, RACE) if wrong else (),
        "coverage": ProgramCoverage(100, 99, 10, 9, LEFT),
        "controls": (PlantedControl("lost", "a lost store", "P", "P", True, "stage conformance"),),
    } | other  # fmt: skip
    word, why = decided(**parts)
    return VerdictRecord(
        verdict=word,
        exit_code=contract.EXIT_CODES[word],
        why=why,
        program=program(kernel, {"width": 576}, "entry", "ptx", "nvcc 13"),
        tool=tool_identity(),
        seed=0,
        schedules=(SchedulesRun("early", 3), SchedulesRun("random", 4, 3)),
        order_only=(OrderOnly("membar.cta", "9.7.13.4", 1),),
        sections={"mutation": {"score": 0.98, "drawn": 100, "killed": 98, "survived": 2}},
        **parts,
    )


def release(*records: VerdictRecord, **other: Any) -> ReleaseEvidence:
    """The evidence of these verdicts."""
    docs = CheckOutcome("docs in step", True, "passed")
    parts: dict[str, Any] = {
        "profile": "quick", "seed": 0, "strict": False, "complete": True, "sections": {}
    } | other  # fmt: skip
    return evidence(records or (record(),), (docs,), **parts)


def mutated(verdict: VerdictRecord, survivors: int = 1) -> VerdictRecord:
    """With the score of a draw of five, of which so many survived and one is equivalent, as `tileproof mutate
    --into` writes it.
    """
    frames = (("/usr/include/ptx.cuh", 7), ("kernel.cuh", 30))
    drawn = [Drawn(n, "scope", f".sys is <.cta> of {n}", frames, "fence") for n in range(4)]
    judged = [
        *(Judgement(mutant, "survived", same=True) for mutant in drawn[:survivors]),
        *(
            Judgement(mutant, "killed", by="value P", kind="value", stage="P", differs="P", cause="a step")
            for mutant in drawn[survivors:]
        ),
        Judgement(Drawn(4, "move", "a fence", frames, "fence"), "equivalent", argument="rule x: <as> it was"),
    ]
    of = {"seed": 5, "profile": "full", "operators": ["scope", "move"], "count": 5}
    return replace(verdict, sections={MUTATION: as_json(judged, **of)})


def scored(verdict: VerdictRecord, score: float) -> VerdictRecord:
    """With another mutation score."""
    return replace(verdict, sections={"mutation": {**verdict.sections["mutation"], "score": score}})
