"""Edges of matrix products: what they reach, how they shrink, and mistakes that only they show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.drivers.driver import Driver
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.registry import kernel, kernels
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.gemm.generator import GemmCase, edges, smaller, steps

KERNEL = kernel("sm90-gemm")
SOURCE = "sm90/gemm/kernel.cu"
# What stands in the source, and what is planted: only the edge of that name shows it.
CODE = "global-out-of-bounds"  # rows and columns exchanged leave C
ONLY_EDGES = {
    "20 k-blocks": ("ptx::mma_m16n8k16(acc", "if (k < 16) ptx::mma_m16n8k16(acc"),
    "tiles": ("down = params.rows / TileA::rows", "down = params.columns / TileB::rows"),
}


@pytest.mark.parametrize(
    "name", [n for n, kernel in kernels().items() if "gemm" in kernel.variants[0].problem]
)
def test_edges_reach_past_the_ring_and_keep_their_inputs(name: str) -> None:
    target = kernel(name)
    plan = target.plan(target.variants[0])
    found = [edge.case for edge in edges(plan).values()]
    assert all(isinstance(case, GemmCase) for case in found)
    lengths = {case.k_tiles for case in found if isinstance(case, GemmCase)}
    assert {1, plan.depth + 2} < lengths and max(lengths) > 2 * plan.depth
    assert {case.values for case in found} >= {"coordinates", "integers", "normal", "tiny", "wide"}
    assert all(GemmCase.from_json(case.as_json()) == case for case in found)


@pytest.mark.parametrize("axis", ["M", "N"])
def test_far_tiles_lie_where_places_pass_32_bits(axis: str) -> None:
    case = edges(KERNEL.plan(KERNEL.variants[0]))["far rows" if axis == "M" else "far columns"].case
    assert isinstance(case, GemmCase)
    inputs = case.inputs()
    spread = case.spread(inputs)
    assert spread is not None and spread.count == case.of and spread.groups == case.at
    places = spread.places[axis]
    other = inputs.sizes["N" if axis == "M" else "M"]
    for bits in (16, 31, 32):
        assert 1 << bits in {
            *(places * other).tolist(),
            *places[::64].tolist(),
            *(places[::64] // 64).tolist(),
        }
    far, own = (spread.inputs.A, inputs.A) if axis == "M" else (spread.inputs.B, inputs.B)
    assert far.size >= 2**32 and (far[places] == own).all() and not far[places[-1] - 200].any()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"at": (0,)}, "at has 2 integers"),
        ({"at": (5, 0)}, "at increases"),
        ({"at": (0, 10)}, "at increases and is below 10"),
        ({"far": "K"}, "far is M or N"),
        ({"of": 2**40}, "at most 70368744177664 bytes"),
    ],
)
def test_a_larger_problem_that_cannot_be_is_named(changed: dict[str, object], says: str) -> None:
    case = replace(GemmCase(64, 64, m=2, of=10, at=(0, 9)), **changed)  # type: ignore[arg-type]
    with pytest.raises(TileproofError) as caught:
        GemmCase.from_json(case.as_json())
    assert says in str(caught.value)


def test_tiles_of_a_larger_problem_run_by_themselves_with_a_remark() -> None:
    under_test = on_emulator(KERNEL, KERNEL.variants[0], races=False)
    case = GemmCase(64, 64, m=2, values="normal", of=10, at=(0, 9))
    run = run_case(under_test, case, Schedule())
    assert run.findings == [] and run.remarks == {
        "output tiles of a larger problem that did not run are not judged": 8
    }
    chooses_no_clusters = replace(under_test, driver=_Card(under_test.driver))
    alone = run_case(chooses_no_clusters, case, Schedule())
    assert alone.findings == [] and alone.remarks == {
        "output tiles of a larger problem ran as a small problem: far offsets are not judged": 2
    }


class _Card:
    """A driver without chosen clusters."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.capabilities = driver.capabilities - {"clusters"}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


def test_smaller_cases_differ_in_one_respect_and_come_to_an_end() -> None:
    case = GemmCase(64, 64, 2, 3, 20, -1.3, 0.7, "integers", 1)
    steps = 0
    while less := next(smaller(case), None):
        changed = [name for name, value in vars(case).items() if getattr(less, name) != value]
        assert len(changed) == 1, changed
        case, steps = less, steps + 1
    assert case == GemmCase(64, 64) and steps < 20


@pytest.mark.parametrize("edge", ONLY_EDGES)
def test_what_only_an_edge_shows_is_found_and_shrunk(edge: str) -> None:
    find, planted = ONLY_EDGES[edge]
    defect = PlantedDefect(
        "edge", "planted", "", KERNEL.name, (Edit(Place(find, SOURCE), planted),), InStage("D", "")
    )
    under_test = on_emulator(KERNEL, KERNEL.variants[0], planted=defect, races=False)
    report = engine.check(under_test, examples=1, seed=0, shrink_seconds=20.0)
    assert report.failure is not None
    case = report.failure.case
    finding = report.failure.findings[0]
    assert isinstance(case, GemmCase) and (finding.problem.stage or finding.code) in ("product", "D", CODE)
    first = edges(KERNEL.plan(KERNEL.variants[0]))[edge].case
    assert isinstance(first, GemmCase) and case != first and case.m * case.n * case.k_tiles <= 17
    drawn = engine.check(under_test, examples=3, seed=0, shrink_seconds=0.0, with_edges=False)
    assert edge == "tiles" or drawn.failure is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not of the problem"),
        ('{"d_qk":576}', "not of the problem"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"width":1}', "unknown field 'width'"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"m":0}', "integers from 1"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"seed":-1}', "a seed is an integer from 0"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"k_tiles":100000000}', "a matrix has at most"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"alpha":1e60}', "numbers that f32 holds"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"alpha":NaN}', "numbers that f32 holds"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"bias":1}', "bias is true or false"),
        ('{"problem":"gemm","step_m":64,"step_n":64,"values":"odd"}', "values are one of"),
    ],
)
def test_a_text_that_is_no_case_is_named(text: str, says: str) -> None:
    with pytest.raises(TileproofError) as caught:
        GemmCase.from_json(text)
    assert says in caught.value.found and "step_m" in caught.value.expected


def test_a_kernel_refuses_what_is_added_otherwise() -> None:
    target = kernel("sm100-gemm-bias")
    case = GemmCase(*steps(target.plan(target.variants[0])))
    built = target.build(target.variants[0])
    with pytest.raises(TileproofError, match=r"not made for these inputs[^$]*a bias"):
        target.launch(case.inputs(), built)
