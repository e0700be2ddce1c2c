"""Offsets of 32 bits in dense attention: planted, and found by the far edge cases only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.judging.judged_run import JudgedRun
from tileproof.kernels.edit import ANY, Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.cutlass_fmha_bwd import library
from tileproof.kernels.sm100.cutlass_fmha_bwd.defects import SUM
from tileproof.kernels.sm100.cutlass_fmha_bwd.image import MAIN_SOURCE
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.cases import AnyCase
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.spec.problems.dense_attention_bwd.far import smaller

KERNEL = kernel("cutlass-fmha-bwd-mended")
VARIANT = KERNEL.variant(d_tile=64, causal=0)
CASES = KERNEL.plan(VARIANT).problem.generator
PLAN = KERNEL.plan(VARIANT)
FAR = {name: edge.case for name, edge in CASES.edges(PLAN).items() if name.startswith("far")}
# An offset in elements of 2 bytes becomes what an int holds of it in bytes.
CUT = r"\1\nshl.b64 \2, \2, 33;\nshr.s64 \2, \2, 33;"
OFFSET = r"(cvt\.u64\.u32 \t(%rd\d+), %r\d+;)"
PLANTED = {
    "far batches": (
        "auto ptr_dO_bh = params.ptr_dO + blockIdx.y * get<2,0,0>(params.stride_dO)"
        " + blockIdx.z * get<2,1>(params.stride_dO);",
        SUM,
        "delta",
    ),
    "far keys": (
        "tDVtDV.data() = TmemAllocation::kDV; auto mDV_in = make_tensor(make_gmem_ptr(epilogue_args.ptr_dv),"
        " make_shape(K, TileShapeDVO{}, HB), epilogue_args.stride_dv);"
        " auto mDV = domain_offset(select<1,3,4>(blk_offset), mDV_in);"
        " auto gDV = local_tile(mDV, TileShapePDO{}, make_coord(_,_,_), Step<_1, _1, X>{})"
        " (_, _, blk_coord_k, _0{}, blk_coord_batch);",
        MAIN_SOURCE,
        "dV",
    ),
}


def judged(case: AnyCase, edge: str = "") -> JudgedRun:
    """The kernel, with the defect that the edge case finds, on a case."""
    planted = None
    if edge:
        text, file, stage = PLANTED[edge]
        edit = Edit(Place(text, file, ANY, "cvt.u64.u32", OFFSET), CUT)
        planted = PlantedDefect("fmha-far", "", "", KERNEL.name, (edit,), InStage(stage, ""))
    return run_case(on_emulator(KERNEL, VARIANT, planted=planted), case, Schedule("late"), again=False)


@pytest.mark.parametrize("edge", PLANTED)
def test_an_offset_in_an_int_is_found_by_its_far_edge(edge: str) -> None:
    run = judged(FAR[edge], edge)
    assert run.findings and any("did not run are not judged" in remark for remark in run.remarks)
    case = FAR[edge]
    assert isinstance(case, DenseCase)
    assert not judged(next(smaller(case)), edge).findings, "near by, the same batches and keys are right"


@pytest.mark.slow
@pytest.mark.parametrize("edge", PLANTED)
def test_no_edge_nearby_finds_it(edge: str) -> None:
    for name, other in CASES.edges(PLAN).items():
        if name not in FAR:
            assert not judged(other.case, edge).findings, name


def test_what_the_examples_host_code_does_beyond_its_limits() -> None:
    """docs/findings.md: it clears a part of dQ, and its last grid has more CTAs along z than CUDA allows."""
    strides = [library.TensorStrides(64, 0, 0, 0)] * 8
    far = library.Sizes(128, 128, 64, 64, 1, 9, 58256, 128, 128, 1.0)
    filled = next(event for event in library.events(PLAN, far, strides) if event["event"] == "fill")
    assert 58256 * 9 * 128 * 64 > 2**32 and filled["bytes"] == 524288
    for keys, fits in ((524_280, True), (524_281, False)):
        sizes = library.Sizes(128, keys, 64, 64, 1, 1, 1, 128, keys, 1.0)
        launches = [event for event in library.events(PLAN, sizes, strides) if event["event"] == "launch"]
        assert (launches[-1]["grid"][2] <= 65535) == fits


def test_a_problem_beyond_the_plans_elements_is_refused() -> None:
    case = FAR["far batches"]
    assert isinstance(case, DenseCase) and case.larger is not None
    case = replace(case, larger=replace(case.larger, of=2 * case.larger.of))
    with pytest.raises(TileproofError, match="does not compute this problem"):
        judged(case)


@pytest.mark.parametrize("edge", FAR)
def test_cases_are_written_and_read(edge: str) -> None:
    case = FAR[edge]
    assert CASES.from_json(case.as_json()) == case
    for less in CASES.smaller(case):
        assert CASES.from_json(less.as_json()) == less
    for wrong in ('"at":[5,1]', '"at":[]', '"heads":0', '"of":1'):
        name = wrong.partition(":")[0]
        start = case.as_json().index(name)
        ends = [case.as_json().find(end, start + len(name)) for end in ("]", ",", "}")]
        end = ends[0] + 1 if "at" in name else min(place for place in ends[1:] if place > 0)
        with pytest.raises(TileproofError, match="not a case"):
            CASES.from_json(case.as_json()[:start] + wrong + case.as_json()[end:])
