"""Every MMA of every kernel plan fits its operands; a plan that is changed does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tileproof.spec.docs import known_plans
from tileproof.spec.plan import KernelPlan, Swizzle
from tileproof.spec.plans.consistency import PATTERN_BYTES

from tests.kit.plan_views import Operands, operands

PLANS = [plan for plan in known_plans() if plan.mmas]
CHAINS = [operand for plan in PLANS for operand in operands(plan)]


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.name)
def test_every_mma_of_the_plans_fits(chain: Operands) -> None:
    assert chain.misfits() == []


def test_the_plans_use_both_forms_and_both_majors() -> None:
    assert {plan.name for plan in PLANS} >= {"head64", "head128-columns", "head128-part0"}
    assert len(CHAINS) >= 25
    assert (
        {chain.form.ws for chain in CHAINS}
        == {chain.form.cta_group == 2 for chain in CHAINS}
        == {True, False}
    )
    assert {chain.form.b_major for chain in CHAINS} == {chain.form.a_major for chain in CHAINS} == {"K", "MN"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"m": 96}, "shape"),
        ({"n": 68}, "shape"),
        ({"k": "half"}, "extent-k"),
        ({"a_major": "flip"}, "major"),
        ({"b_major": "flip"}, "major"),
    ],
)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.name}-{plan.sizes}")
def test_a_changed_mma_does_not_fit(plan: KernelPlan, change: dict[str, Any], code: str) -> None:
    for operand in operands(plan):
        flipped = {"K": "MN", "MN": "K"}
        new = {
            key: flipped[getattr(operand.form, key)]
            if value == "flip"
            else getattr(operand.form, key) // 2
            if value == "half"
            else value
            for key, value in change.items()
        }
        wrong = replace(operand, form=replace(operand.form, **new))  # type: ignore[arg-type]
        assert code in {misfit.code for misfit in wrong.misfits()}, operand.name


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_tile_that_starts_off_its_boundary_is_seen(name: str) -> None:
    for chain in CHAINS:
        tile = getattr(chain, name)
        view: object = replace(tile, address=tile.address + PATTERN_BYTES[tile.swizzle] // 2)
        found = replace(chain, **{name: view}).misfits()  # type: ignore[arg-type]
        assert [(m.code, m.operand, m.at) for m in found] == [("alignment", name.upper(), "run")]


def test_a_tile_of_another_swizzle_is_seen() -> None:
    """The plan's swizzle is what makes these strides canonical: with the next narrower, or the narrowest in
    place of none, they are not.
    """
    other: dict[str | None, Swizzle] = {"128B": "64B", "64B": "32B", "none": "32B"}
    for chain in CHAINS:
        found = replace(chain, a=replace(chain.a, swizzle=other[chain.a.swizzle])).misfits()
        assert [m.code for m in found] == ["canonical"], chain.name
