"""The f16 variants of the sparse MLA kernels: all stages conform, and defects of f16 alone are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.check import property as engine
from tileproof.conformance.check.run import run_case
from tileproof.conformance.check.under_test import on_emulator
from tileproof.conformance.drivers import emulator
from tileproof.conformance.gate.checks import controls
from tileproof.conformance.gate.model import GatedVariant
from tileproof.conformance.planted.defects import build_planted, defects
from tileproof.conformance.planted.synchronisation.run import variant_of
from tileproof.kernels.edit import InStage, PlantedDefect
from tileproof.kernels.places import instructions
from tileproof.kernels.registry import kernel
from tileproof.kernels.variant import select
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.relation import relations_of
from tileproof.spec.problems.sparse_mla_bwd.case import SparseCase
from tileproof.spec.problems.sparse_mla_bwd.generator import edges, in_form, small

from tests.kit.sampled import sampled

HEAD64 = kernel("head64")
F16 = HEAD64.variant(d_qk=576, f16=1)
BUILDS = [
    pytest.param(name, d_qk, marks=[pytest.mark.slow] if d_qk == 512 else [])
    for name in ("head64", "head128-columns")
    for d_qk in (576, 512)
]
EDGES = ("lengths", "indices", "wide exact")
PLANTED = [row for row in defects().values() if row.sizes.f16]


@pytest.mark.parametrize(("name", "d_qk"), BUILDS)
def test_the_machine_code_fits_and_has_no_bf16(name: str, d_qk: int) -> None:
    owner = kernel(name)
    built = owner.build(owner.variant(d_qk=d_qk, f16=1))
    assert built.resources is not None
    assert (built.resources.spill_stores, built.resources.stack) == (0, 0)
    assert "bf16" not in built.ptx and "cvt.rn.f16x2.f32" in built.ptx


@pytest.mark.parametrize(("name", "d_qk"), BUILDS)
def test_every_stage_conforms(name: str, d_qk: int) -> None:
    """MMA stages of small integers by their bits; under any schedule."""
    owner = kernel(name)
    report = engine.check(
        on_emulator(owner, owner.variant(d_qk=d_qk, f16=1)), examples=3, seed=3, with_edges=False
    )
    assert report.failure is None and report.certificates and all(report.certificates)


@pytest.mark.parametrize("name", EDGES)
def test_edges_have_f16_operands(name: str) -> None:
    plan, other = HEAD64.plan(F16), HEAD64.plan(HEAD64.variant(d_qk=576))
    case, own = edges(plan)[name].case, edges(other)[name].case
    assert case.inputs().q.dtype == np.float16 and SparseCase.from_json(case.as_json()) == case
    assert isinstance(own, SparseCase) and case == in_form(own, "f16")


def test_gradients_of_minus_dO_are_minus_the_gradients() -> None:
    """A larger factor moves dS out of f16's subnormal numbers, which changes bits."""
    scaled = next(each for each in relations_of(HEAD64.plan(F16).problem) if each.name == "scaled dO")
    base = small(HEAD64.plan(F16), 1).inputs()

    def outputs(inputs: ProblemInputs) -> dict[str, Array]:
        launch = HEAD64.launch(inputs, HEAD64.build(F16))
        run, placed = emulator.launch_on(launch, schedule=Schedule("early"))
        assert not run.errors
        return {name: np.asarray(out.values) for name, out in emulator.outputs_of(launch, placed).items()}

    first, second = outputs(base), outputs(scaled.change(base, 0))
    assert scaled.broken(base, 0, first, second) == ""
    assert scaled.broken(base, 0, first, first) == "delta"


@pytest.mark.parametrize("planted", sampled(PLANTED, 4), ids=lambda row: row.id)
def test_defects_of_f16_are_found_in_their_stage(planted: PlantedDefect) -> None:
    owner = kernel(planted.target)
    target = replace(
        on_emulator(owner, owner.variant(d_qk=576, f16=1), planted=planted, races=False), probe=None
    )
    plan = target.plan()
    for case in (small(plan, 1), edges(plan)["no keys"].case):  # normal values, then lse far from the sums
        findings = run_case(target, case, Schedule(), explain=False, again=False).findings
        if findings:
            break
    assert findings and isinstance(planted.expected, InStage)
    assert findings[0].problem.stage == planted.expected.stage


def test_a_defect_of_f16_changes_no_other_variant() -> None:
    planted = defects()["h64-f16-copies-bf16"]
    bf16 = HEAD64.variant(d_qk=576)
    assert instructions(build_planted(HEAD64, bf16, planted).ptx) == instructions(HEAD64.build(bf16).ptx)
    assert variant_of(HEAD64, planted.sizes) == F16
    assert controls.of_variant(GatedVariant(HEAD64, F16), planted)
    assert not controls.of_variant(GatedVariant(HEAD64, bf16), planted)


def test_inputs_choose_the_variant_of_their_form() -> None:
    case = SparseCase(576, h_q=64)
    f16 = in_form(case, "f16")
    assert HEAD64.variant_of(f16.inputs()) == HEAD64.variant_of_case(f16) == F16
    assert HEAD64.variant_of(case.inputs()) == HEAD64.variant_of_case(case) == HEAD64.variant(f16=0, d_qk=576)
    both = select("head64", HEAD64.variants, {"d_qk": 576})
    assert both == (HEAD64.variant(d_qk=576), F16)
    assert [select("head64", HEAD64.variants, dict(each.sizes)) for each in both] == [both[:1], both[1:]]
    plan = HEAD64.plan(F16)
    with pytest.raises(TileproofError, match="operands of this form"):
        plan.problem.require(case.inputs(), plan)
    with pytest.raises(TileproofError, match="not a case"):
        SparseCase.from_json('{"d_qk":576,"form":"f16","values":"coordinates"}')
    part0 = kernel("head128-part0")
    inputs = replace(f16, h_q=128).inputs()
    with pytest.raises(TileproofError, match="operands of this form"):
        part0.launch(inputs, part0.build(part0.variant(d_qk=576)))
    with pytest.raises(TileproofError, match="no such variant"):
        part0.variant(f16=0)
