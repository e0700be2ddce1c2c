"""CUTLASS example 77's backward for heads whose values have columns of their own. Each mask is a
compilation of half a minute of one core: what needs one is slow.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tileproof.conformance.check.run import KernelUnderTest, run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.cutlass_fmha_bwd import image
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import lines
from tileproof.spec.machine.schedule import Policy, Schedule
from tileproof.spec.plans import cutlass_fmha_bwd
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.problems.dense_attention_bwd.key_block import KeyBlockCase, KeyBlockCases

SHIPPED, MENDED = "cutlass-fmha-bwd-mla", "cutlass-fmha-bwd-mla-mended"
BLOCKS = KeyBlockCase("f16", m=192, n=128, d_qk=192, d_v=128, seed=1)
DIAGONAL = KeyBlockCase("f16", m=256, n=256, d_qk=192, d_v=128, right=0, seed=1)
POLICIES: tuple[Policy, ...] = ("early", "late", "random", "starve", "pct")


def under_test(name: str, causal: int = 0, planted: PlantedDefect | None = None) -> KernelUnderTest:
    target = kernel(name)
    return on_emulator(target, target.variant(d_tile=192, causal=causal), planted=planted)


def ran(tested: KernelUnderTest, case: KeyBlockCase, policy: Policy = "late") -> JudgedRun:
    return run_case(tested, case, Schedule(policy), again=False)


def clean_at_the_edges(causal: int) -> None:
    tested = under_test(MENDED, causal)
    plan = tested.plan()
    for number, edge in enumerate(KeyBlockCases("f16").edges(plan).values()):
        assert isinstance(edge.case, KeyBlockCase)
        verdict = ran(tested, edge.case, POLICIES[number % len(POLICIES)])
        assert not verdict.findings, (edge.case, verdict.findings)
        assert set(plan.stages) <= set(verdict.scores)


def test_tiles_of_16_lanes_lie_side_by_side_in_the_same_columns() -> None:
    build = next(build for build in cutlass_fmha_bwd.BUILDS if build.mla)
    plan = cutlass_fmha_bwd.plan(192, 0, build.name, build)
    assert not contradictions(plan)
    below = tuple(
        replace(tmem_tile, lane=0) if tmem_tile.name == "P" else tmem_tile for tmem_tile in plan.tmem
    )
    assert any("overlaps" in contradiction for contradiction in contradictions(replace(plan, tmem=below)))
    odd = tuple(
        replace(tmem_tile, lane=16) if tmem_tile.name == "dK_acc" else tmem_tile for tmem_tile in plan.tmem
    )
    assert any(
        "cannot begin at lane 16" in contradiction
        for contradiction in contradictions(replace(plan, tmem=odd))
    )


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"d_qk": 128, "d_v": 128}, "problem.another_d_v"),
        ({"d_qk": 200}, "problem.d_qk"),
        ({"d_v": 136}, "problem.d_v"),
        ({"d_v": 60}, "problem.d_v"),
        ({"packed": ((3, 4), (5, 6))}, "problem.packed"),
        ({"left": 3, "right": 0}, "problem.mask"),
    ],
)
def test_what_it_does_not_compute_is_refused_by_name(change: dict[str, object], where: str) -> None:
    case = replace(BLOCKS, **change)  # type: ignore[arg-type]
    with pytest.raises(TileproofError) as caught:
        kernel(MENDED).variant_of(case.inputs())
    assert caught.value.where == where


def test_grouped_heads_are_refused_by_name() -> None:
    plan = kernel(MENDED).plan(kernel(MENDED).variant(causal=0))
    assert "grouped heads" in dict(plan.refuses)


@pytest.mark.slow
@pytest.mark.parametrize("causal", range(len(cutlass_fmha_bwd.MASKS)))
def test_every_stage_is_right_at_the_edges(causal: int) -> None:
    clean_at_the_edges(causal)


@pytest.mark.slow
def test_the_shipped_kernel_has_the_defects_of_its_sibling() -> None:
    tested = under_test(SHIPPED)
    late = {finding.code for finding in ran(tested, replace(BLOCKS, m=64)).findings}
    assert {"tmem-dealloc-in-flight", "tmem-not-allocated"} <= late
    assert "race-tcgen05-fence" in {finding.code for finding in ran(tested, BLOCKS, "early").findings}


@pytest.mark.slow
def test_the_shipped_kernel_does_not_mask_the_whole_diagonal() -> None:
    """Key blocks are twice as long as query blocks, and the block of the diagonal is found by its number."""
    machine = image.MLA_MEND[:-1]
    target = kernel(SHIPPED)
    planted = PlantedDefect("diagonal", "", "", SHIPPED, machine, InStage("S", ""))
    tested = on_emulator(target, target.variant(causal=1), planted=planted)
    first = ran(tested, DIAGONAL, "early").findings[0]
    assert first.problem.stage == "S" and "not masked" in " ".join(lines(first))
    assert not ran(under_test(MENDED, 1), DIAGONAL, "early").findings


@pytest.mark.slow
def test_a_planted_defect_is_found_in_its_stage() -> None:
    defects = kernel(MENDED).defects()
    for planted in defects:
        assert isinstance(planted.expected, InStage)
        first = ran(under_test(MENDED, planted=planted), BLOCKS).findings[0]
        assert planted.expected.fits(first.problem.stage or "", first.code or ""), (planted.id, first)
    stages = {defect.expected.stage for defect in defects if isinstance(defect.expected, InStage)}
    assert stages == set(under_test(MENDED).plan().stages)


@pytest.mark.slow
def test_a_missing_proxy_fence_is_a_race() -> None:
    for stage, stored in (
        ("S", "copy_aligned(tRT_rST, sP_pi_slice); })"),
        ("dS", "copy_aligned(tTR_rDST, sDS_pi_slice)"),
    ):
        text = f"{stored}; cutlass::arch::fence_view_async_shared();"
        edit = Edit(Place(text, image.MLA_SOURCE, opcode="fence.proxy.async"))
        planted = PlantedDefect("no-fence", "", "", MENDED, (edit,), InStage(stage, "", "race-proxy-fence"))
        first = ran(under_test(MENDED, planted=planted), BLOCKS).findings[0]
        assert first.code == "race-proxy-fence" and first.problem.stage == stage
