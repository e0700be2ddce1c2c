"""The stage graph is complete, ordered, and what the reference executes."""

from __future__ import annotations

import inspect

import pytest
from tileproof.reference import stages as reference
from tileproof.spec import numerics
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd.stages import GROUND, STAGES, stage, upstream


def test_every_input_is_ground_or_an_earlier_stage() -> None:
    seen: set[str] = set(GROUND)
    for name, entry in STAGES.items():
        assert set(entry.inputs) <= seen, name
        seen.add(name)


@pytest.mark.parametrize("name", STAGES)
def test_reference_and_bound_take_the_inputs_that_the_graph_names(name: str) -> None:
    extra = {"rounding", "accumulator"}
    assert set(inspect.signature(getattr(reference, name)).parameters) - extra == set(stage(name).inputs)
    assert set(inspect.signature(numerics.BOUNDS[name]).parameters) - {"operand", "out"} == set(
        stage(name).inputs
    )


@pytest.mark.parametrize("name", STAGES)
def test_four_steps_are_said_and_done_in_order(name: str) -> None:
    entry = stage(name)
    assert all((entry.steps.load, entry.steps.compute, entry.steps.round, entry.steps.store))
    source = inspect.getsource(getattr(reference, name))
    comments = [line.strip() for line in source.splitlines() if line.strip().startswith("#")]
    words = [w for line in comments for w in line.lstrip("# ").split(":")[0].split(", ")]
    assert words == ["LOAD", "COMPUTE", "ROUND", "STORE"]


def test_upstream() -> None:
    assert upstream("P") == ()
    assert upstream("dS") == ("delta", "P", "S", "dP")
    assert upstream("dKV") == ("delta", "P", "S", "dP", "dS")


def test_unknown_stage_names_the_known_ones() -> None:
    with pytest.raises(TileproofError, match="unknown stage") as caught:
        stage("dV")
    assert "dKV" in caught.value.expected
