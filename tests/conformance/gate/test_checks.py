"""Each check of the gate passes on a right kernel and fails on one with a defect of its kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.cases.generators import edges
from tileproof.conformance.check import property as checking
from tileproof.conformance.check import runs
from tileproof.conformance.check.run import run_case
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.emulator import EmulatorDriver
from tileproof.conformance.gate.checks import controls, elsewhere, release, stages, static
from tileproof.conformance.gate.checks.controls import choose, expected
from tileproof.conformance.gate.failing import levels, unpacked
from tileproof.conformance.gate.model import CheckReport, GatedVariant, checks
from tileproof.conformance.observe.tiles import Reference, StageTile
from tileproof.emulator.result import Counters
from tileproof.kernels import places
from tileproof.kernels.compile import Resources
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.image import Ptx
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.run_result import Output, RunResult
from tileproof.spec.plan import Products
from tileproof.spec.problems.base import TileCoord
from tileproof.spec.problems.gemm.problem import GEMM, GEMM_BIAS
from tileproof.spec.problems.relation import Relation, relations_of, same

KERNEL = kernel("head128-part0")
RIGHT = GatedVariant(KERNEL, KERNEL.variants[0])


def ran(name: str, gated: GatedVariant = RIGHT) -> CheckReport:
    return checks()[name].run(gated)


def with_ptx(*changes: tuple[str, str]) -> GatedVariant:
    """The kernel as PTX, with these texts in it replaced."""
    text = RIGHT.built.ptx
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    image = Ptx(lambda variant, probe: text, lambda variant, probe: RIGHT.built.entry)
    return GatedVariant(replace(KERNEL, image=image, probe=False), KERNEL.variants[0])


def planted(*changes: tuple[str, str], id: str = "test-planted") -> GatedVariant:
    edits = tuple(Edit(Place(old), new) for old, new in changes)
    return replace(RIGHT, planted=PlantedDefect(id, "a test's", "", KERNEL.name, edits, InStage("P", "")))


@pytest.mark.parametrize(
    "name",
    ["build provenance", "resource budgets", "operand constraints", "metamorphic relations", "determinism"],
)
def test_a_right_kernel_passes(name: str) -> None:
    report = ran(name)
    assert report.outcome == "passed" and not report.reason and not report.findings


def test_every_profile_runs_what_the_ones_before_it_run() -> None:
    every = checks().values()
    assert all(check.wanted("nightly") and check.wanted("full") for check in every if check.wanted("quick"))
    assert all(check.about.endswith(".") for check in every)


# ---- build provenance, resources, operands


def test_an_instruction_that_is_not_executed_fails_provenance() -> None:
    report = ran("build provenance", with_ptx(("prefetch.tensormap ", "frobnicate.tensormap ")))
    assert report.outcome == "failed" and "frobnicate" in report.reason


def test_a_cluster_that_is_not_the_plans_fails_provenance() -> None:
    wrong = with_ptx((".reqnctapercluster 2", ".reqnctapercluster 4"))
    assert "cluster" in ran("build provenance", wrong).reason


def test_sources_that_give_another_ptx_fail_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "compiled_anew", lambda gated: gated.built.ptx + "// another\n")
    full = replace(RIGHT, profile="full")
    assert "different PTX" in ran("build provenance", full).reason
    monkeypatch.setattr(static, "compiled_anew", lambda gated: gated.built.ptx)
    assert ran("build provenance", full).outcome == "passed"


def test_known_wrong_code_of_ptxas_is_listed() -> None:
    selected = """{ .reg .b64 %wa; .reg .f32 %wf<3>; .reg .pred %wp;
mov.u64 %wa, 64; ld.global.f32 %wf1, [%wa]; setp.lt.f32 %wp, %wf1, 0f40000000;
selp.f32 %wf2, 0f80000000, 0f3F800000, %wp; st.global.f32 [%wa], %wf2; }
ret;"""
    (listed,) = ran("build provenance", replace(with_ptx(("ret;", selected)), profile="full")).details[
        "wrong_code"
    ]
    assert "selected-negative-zero" in listed
    assert ran("build provenance", replace(with_ptx(), profile="full")).details["wrong_code"] == []


@pytest.mark.parametrize(
    ("use", "smem", "tmem", "says"),
    [
        (Resources(255, 0, 0, 0, 0), 1000, 512, "registers need"),
        (Resources(32, 0, 0, 16, 16), 1000, 512, "spill"),
        (Resources(32, 1000, 0, 0, 0), 232000, 512, "shared memory"),
        (Resources(32, 0, 0, 0, 0), 1000, 96, "tensor memory"),
    ],
)
def test_what_does_not_fit_into_an_sm_fails(use: Resources, smem: int, tmem: int, says: str) -> None:
    (wrong,) = static.over_budget(use, 416, smem, tmem)
    assert says in wrong
    assert not static.over_budget(Resources(152, 0, 0, 0, 0), 416, 200_000, 256)


def test_a_spill_is_read_from_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    built = replace(RIGHT.built, resources=Resources(40, 0, 32, 32, 32))
    gated = replace(RIGHT)
    object.__setattr__(gated, "under_test", replace(RIGHT.under_test, production=built))
    assert "spill" in ran("resource budgets", gated).reason


def test_a_plan_that_breaks_the_rules_of_the_machine_fails() -> None:
    plan = KERNEL.plan(KERNEL.variants[0])
    mma = replace(plan.mmas[0], n=plan.mmas[0].n + 4)  # N is a multiple of 16 at M 256 (PTX ISA 9.7.16.2.1)
    wrong = replace(KERNEL, plan_of=lambda variant: replace(plan, mmas=(mma, *plan.mmas[1:])))
    report = ran("operand constraints", replace(RIGHT, kernel=wrong))
    assert report.outcome == "failed" and report.reason


def test_the_number_of_a_compilers_run_is_no_difference() -> None:
    name = "_ZN39_INTERNAL_{}_9_kernel_cu_e29296084cute1_E, _GLOBAL__N__{}_9_kernel_cu_e2929608"
    first, second = (places.without_run(name.format(run, run)) for run in ("00271a6f", "7d1cedca"))
    assert first == second != places.without_run(name.format("00271a6f", "00271a6f").replace("e292", "f292"))
    headers = '\t.file\t3 "{}/include/sm_30_intrinsics.hpp"\n\t.file\t1 "kernels/sm90/kernel.cu"\n'
    here, there = (places.without_run(headers.format(at)) for at in ("/a/.venv/bin/..", "/b"))
    assert here == there and "kernels/sm90/kernel.cu" in here
    assert here != places.without_run(headers.replace("sm_30", "sm_20").format("/b"))
    text = places.without_run(RIGHT.built.ptx)
    assert RIGHT.built.ptx.count("_INTERNAL_") > 0 and ".section" not in text
    assert text.count("tcgen05.mma") == RIGHT.built.ptx.count("tcgen05.mma") and text.count("ret;")


# ---- stages, determinism, relations, schedules, controls


@pytest.fixture(scope="module")
def failed() -> CheckReport:
    """Stage conformance of a kernel whose tile of P is wrong in its first k-step."""
    mutants = {defect.id: defect for defect in KERNEL.defects()}
    from tileproof.conformance.planted.defects import planted_reference

    with planted_reference(mutants["scale-in-p"]):
        return ran("stage conformance", replace(RIGHT, planted=mutants["scale-in-p"]))


def test_a_wrong_stage_fails_with_its_tile_trace_and_replay(failed: CheckReport) -> None:
    assert failed.outcome == "failed" and failed.findings[0].problem.stage == "P"
    assert failed.findings[0].replay.startswith("tileproof check head128-part0 '--case=")
    shown = failed.details["failure"]
    tile = shown["tile"]
    assert tile["stage"] == "P" and tile["wrong"] == failed.findings[0].wrong and tile["values"]
    assert (unpacked(tile) > 127).sum() == tile["wrong"]
    assert len(shown["trace"]) > 10 and shown["case"] in shown["replay"].replace("'", "")


def test_shades_of_a_tile() -> None:
    value = np.array([[0, 0.5, 1.0, 1.1, 5.0, np.nan, 3.0]], np.float32)
    written = np.array([[True] * 6 + [False]])
    tile = StageTile("P", TileCoord(0, 0, 0), slice(0, 1), slice(0, 7), value, written)
    shade = levels(tile, Reference(np.zeros((1, 7)), np.ones((1, 7))))[0]
    assert shade[0] == 0 and shade[1] == 63 and shade[2] == 127
    assert 127 < shade[3] < shade[4] < shade[5] == 254 and shade[6] == 255


def test_another_result_of_the_same_launch_is_seen() -> None:
    array, marks = np.ones(3, np.float32), np.ones(3, bool)
    result = RunResult({"P": Output(array, marks)}, counters=Counters(mma_macs=1))
    assert not stages.different(result, replace(result))
    assert stages.different(result, replace(result, outputs={"P": Output(array * 2, marks)})) == ["output P"]
    assert stages.different(result, replace(result, outputs={"P": Output(array, ~marks)})) == ["output P"]
    assert stages.different(result, replace(result, counters=Counters(mma_macs=2))) == ["counters"]


def test_outputs_have_the_same_bits_in_their_shape_and_in_chosen_rows() -> None:
    values, marks = np.array([[1.0], [2.0]], np.float32), np.ones((2, 1), bool)
    output, changed = Output(values, marks), Output(values * [[1], [3]], marks)
    assert output.same_bits(Output(values.copy(), marks))
    assert not output.same_bits(Output(values.T, marks.T))
    assert not output.same_bits(Output(values.astype(np.float64), marks))
    assert not output.same_bits(Output(-0.0 * values, marks)) and not output.same_bits(changed)
    assert output.same_bits(Output(changed.values.astype(np.float32), marks), np.array([0]))
    assert Output(np.array(1), np.array(True)).same_bits(Output(np.array(1), np.array(True)))


def test_a_relation_that_does_not_hold_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileproof.conformance.gate.checks import relations

    wrong = Relation("kept", "a zero gradient changes nothing", _zero_gradient, _unchanged)
    monkeypatch.setattr(relations, "relations_of", lambda problem: (wrong,))
    report = ran("metamorphic relations")
    (found,) = report.findings
    assert report.outcome == "failed" and found.problem.stage == "delta"
    assert found.replay.startswith("tileproof gate head128-part0") and "metamorphic" in found.replay


def _zero_gradient(inputs: Any, seed: int) -> Any:
    return replace(inputs, dO=np.zeros_like(inputs.dO))


def _unchanged(inputs: Any, seed: int, base: Any, moved: Any) -> str:
    return same({"delta": base["delta"]}, moved)


def test_a_problem_without_relations_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileproof.conformance.gate.checks import relations

    monkeypatch.setattr(relations, "relations_of", lambda problem: ())
    assert ran("metamorphic relations").outcome == "unsupported"
    assert relations_of(GEMM) == relations_of(GEMM_BIAS) and len(relations_of(GEMM)) == 2


def test_a_lost_order_fails_schedules_and_races() -> None:
    mutants = {defect.id: defect for defect in KERNEL.defects()}
    report = ran("schedules and races", replace(RIGHT, planted=mutants["p0-p-not-free"]))
    found = report.findings[0]
    assert report.outcome == "failed" and found.code.startswith(("race-", "phase-"))
    assert found.machine.race is not None and found.cause.startswith("missing: ") and found.machine.source
    assert found.machine.isa_section and found.machine.instruction and found.machine.ptx_line
    assert found.replay.startswith("tileproof explore head128-part0 '--case=")
    assert "--plant" in found.replay


def test_a_control_that_is_not_found_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "edge_runs", lambda *_: [])
    monkeypatch.setattr(controls, "EXAMPLES", 2)
    harmless = PlantedDefect(
        "harmless", "a comment", "", KERNEL.name, (Edit(Place("ret;", count=-1), "ret ;"),), InStage("P", "")
    )
    target = replace(KERNEL, defects=lambda: (harmless,))
    report = ran("planted controls", replace(RIGHT, kernel=target))
    assert report.outcome == "failed" and not report.controls[0].fired
    assert "harmless was found as nothing, not as P" in report.reason


def test_the_edge_that_a_control_names_is_all_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of a far token is not found at another edge, and no edge but its own runs."""
    ran_cases: list[object] = []
    first = run_case

    def counted(under: object, case: object, *rest: object, **how: object) -> object:
        ran_cases.append(case)
        return first(under, case, *rest, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "run_case", counted)
    known = edges(RIGHT.plan)
    name = list(known)[1]
    found = ((defect, defect.expected) for defect in KERNEL.defects())
    defect, stage = next((each, wanted) for each, wanted in found if isinstance(wanted, InStage))
    chosen = replace(defect, expected=replace(stage, edge=name))
    report = ran("planted controls", replace(RIGHT, kernel=replace(KERNEL, defects=lambda: (chosen,))))
    assert report.controls and set(ran_cases) == {known[name].case}
    with pytest.raises(TileproofError, match="no such edge case"):
        checking.check(RIGHT.under_test, examples=1, seed=0, edge="far lands")


def test_a_defect_that_changes_nothing_of_a_variant_is_not_planted_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in RoPE columns where the width has none: the next one of its stage is taken."""
    of_source = [
        defect for defect in KERNEL.defects() if any(edit.place.kind == "source" for edit in defect.edits)
    ]
    gone, there = [defect for defect in of_source if expected(defect) == "P"][:2]
    ptx = RIGHT.built.ptx
    moved, other = ptx.replace(".loc\t1 ", ".loc\t1 1", 1), ptx.replace("ret;", "trap;", 1)
    assert ptx not in (moved, other)
    built = {gone.id: moved, there.id: other}
    monkeypatch.setattr(
        controls, "build_planted", lambda kernel, variant, defect: replace(RIGHT.built, ptx=built[defect.id])
    )
    into = partial(controls.changes, RIGHT)
    assert choose((gone, there), 1, compile_free=False) == [gone]
    assert choose((gone, there), 1, compile_free=False, into=into) == [there]
    assert into(next(defect for defect in KERNEL.defects() if defect not in of_source))


def test_code_that_a_variant_lacks_is_the_same_code() -> None:
    """The RoPE columns' MMAs, of which d_qk 512 has none, by the builds themselves."""
    rope = next(defect for defect in KERNEL.defects() if defect.id == "rope-not-multiplied")
    assert controls.changes(RIGHT, rope)
    assert not controls.changes(replace(RIGHT, variant=KERNEL.variant(d_qk=512)), rope)


def test_controls_are_chosen_by_what_they_are_found_as() -> None:
    every = KERNEL.defects()
    one_each = choose(every, 1, compile_free=False)
    assert len({expected(defect) for defect in one_each}) == len(one_each) < len(every)
    assert choose(every, 0, compile_free=False) == sorted(
        every, key=lambda m: [expected(o) for o in one_each].index(expected(m))
    )
    assert all(edit.place.kind != "source" for m in choose(every, 1, compile_free=True) for edit in m.edits)
    assert (
        ran("planted controls", replace(RIGHT, kernel=replace(KERNEL, defects=tuple))).outcome
        == "unsupported"
    )


# ---- the release


def test_a_stale_page_fails_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_page")
    module.main = lambda arguments: print("docs/page.md is stale") or 1  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "a_page", module)
    monkeypatch.setattr(release, "PAGES", ("a_page",))
    assert ran("docs in step").reason == "docs/page.md is stale"
    module.main = lambda arguments: 0  # type: ignore[attr-defined]
    assert ran("docs in step").outcome == "passed"


def test_a_row_without_a_test_fails_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release.corpus_rows, "coverage", list)  # type: ignore[attr-defined]
    assert ran("corpus rows").outcome == "passed"
    monkeypatch.setattr(release.corpus_rows, "missing", lambda covered: ["A9"])  # type: ignore[attr-defined]
    assert ran("corpus rows").reason == "no test covers A9"


def test_what_this_machine_lacks_is_not_run() -> None:
    assert ran("timing budget").outcome == "not run" and "no clock budget" in ran("timing budget").reason
    assert not checks()["timing budget"].required


class Card(EmulatorDriver):
    """Hands back of a launch what a card does, from the emulator: outputs and marks, no captures."""

    name, capabilities = "cuda: a double", CudaDriver.capabilities
    products: Products | None = None

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def run(self, launch: Any, plan: Any, schedule: Any, taps: bool) -> RunResult:
        seen = super().run(launch, plan, schedule, False)
        return RunResult(outputs=seen.outputs, findings=())


class WithoutArch(Card):
    """A card for which the PTX does not assemble."""

    def run(self, launch: Any, plan: Any, schedule: Any, taps: bool) -> RunResult:
        raise TileproofError("the PTX does not assemble for this card", found="sm_90")


def test_card_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not run without a card; with one passed, failed with the finding, unsupported where it cannot run."""
    monkeypatch.setattr(elsewhere, "DEVICE", tmp_path / "none")
    assert ran("card results").outcome == "not run"
    monkeypatch.setattr(elsewhere, "DEVICE", tmp_path)
    wrong = next(m for m in KERNEL.defects() if getattr(m.expected, "stage", "") == "delta")
    for driver, gated, outcome in (
        (Card, RIGHT, "passed"),
        (Card, replace(RIGHT, planted=wrong), "failed"),
        (WithoutArch, RIGHT, "unsupported"),
    ):
        monkeypatch.setattr(elsewhere, "CudaDriver", driver)
        report = ran("card results", gated)
        assert (report.outcome, bool(report.findings)) == (outcome, outcome == "failed"), report.reason
        assert outcome != "failed" or report.findings[0].problem.stage == "delta"


def test_a_kernel_over_its_clocks_fails_the_timing_budget() -> None:
    found = ran("timing budget", replace(RIGHT, kernel=replace(KERNEL, clocks=lambda variant: 1e6)))
    assert found.outcome == "passed" and 0 < found.details["best"] < found.details["clocks"]
    clocks, noise = found.details["clocks"], found.details["noise"]
    assert 0 < noise < 0.02 * clocks
    inside = replace(RIGHT, kernel=replace(KERNEL, clocks=lambda variant: clocks - noise / 2))
    assert ran("timing budget", inside).outcome == "passed"
    slower = replace(RIGHT, kernel=replace(KERNEL, clocks=lambda variant: clocks - noise - 1))
    assert "clocks per k-block, budget" in ran("timing budget", slower).reason
