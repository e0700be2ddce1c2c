"""NVIDIA's own kernels are the referee: were a layout rule wrong here, their products would be wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.emulator import RunResult, Schedule
from tileproof.kernels.launch.arguments import (
    LaunchArgument,
    PlacedItem,
    StructArgument,
    TensorMapArgument,
    items_of,
)
from tileproof.kernels.launch.model import LaunchFile

from tests.kit import tutorials
from tests.kit.launches import with_arguments
from tests.kit.paths import ROOT
from tests.kit.sampled import sampled

POLICIES = ("early", "late", "random")


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS, ids=lambda t: t.source[:2])
@pytest.mark.parametrize("policy", sampled(POLICIES, 3))
def test_exact_product(tutorial: tutorials.Tutorial, policy: str) -> None:
    problem = tutorials.product(tutorial, 2, 7, 2.0, -1.0)
    d, result = tutorials.run(tutorial, problem, Schedule(policy, seed=3))  # type: ignore[arg-type]
    assert not result.errors
    np.testing.assert_array_equal(d, tutorials.expected(problem))
    # The tutorials read TMEM without tcgen05.wait::ld: remarked on, not an error.
    assert {f.code for f in result.findings if f.severity == "note"} == {"tmem-ld-not-waited"}
    assert {f.severity for f in result.findings} == {"note"}


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS[:2], ids=lambda t: t.source[:2])
def test_exact_mode_agrees_on_integers(tutorial: tutorials.Tutorial) -> None:
    problem = tutorials.product(tutorial, 1, 11, 1.0, 0.0)
    d, _ = tutorials.run(tutorial, problem, mma="exact")
    np.testing.assert_array_equal(d, tutorials.expected(problem))


@settings(max_examples=15, deadline=None)
@given(
    tutorial=st.sampled_from(tutorials.TUTORIALS[:2]),
    tiles_k=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    alpha=st.sampled_from((1.0, 0.5, -3.0)),
    beta=st.sampled_from((0.0, 1.0, 2.0)),
    policy=st.sampled_from(POLICIES),
)
def test_products_of_any_depth(
    tutorial: tutorials.Tutorial, tiles_k: int, seed: int, alpha: float, beta: float, policy: str
) -> None:
    problem = tutorials.product(tutorial, tiles_k, seed, alpha, beta)
    d, result = tutorials.run(tutorial, problem, Schedule(policy, seed))  # type: ignore[arg-type]
    assert not result.errors
    np.testing.assert_array_equal(d, tutorials.expected(problem))


FINDINGS = ROOT / "docs" / "findings.md"
EXPLORED = (Schedule(), Schedule("late"), Schedule("random", 3))


def lapped(tutorial: tutorials.Tutorial) -> Schedule:
    """Holds back one warp that issues nothing, from its start."""
    return Schedule.parse(f"replay:base=late:w{0 if tutorial.number < 3 else 13}.1.0@0")


def written_up() -> set[tuple[str, str, str]]:
    """(tutorial, severity, code) of each finding in the table of docs/findings.md."""
    rows = re.findall(r"^\| ([\d ]+) \| `([\w-]+)` \| (\w+) \|", FINDINGS.read_text(), re.M)
    return {(number, severity, code) for numbers, code, severity in rows for number in numbers.split()}


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS, ids=lambda t: t.source[:2])
@pytest.mark.parametrize("tiles_k", [2, 3])
def test_every_finding_is_written_up(tutorial: tutorials.Tutorial, tiles_k: int) -> None:
    number = tutorial.source[:2]
    inputs = tutorials.product(tutorial, tiles_k, 7, 2.0, -1.0)
    found = {
        (number, finding.severity, finding.code)
        for schedule in (*EXPLORED, lapped(tutorial))
        for finding in tutorials.run(tutorial, inputs, schedule, races=True)[1].findings
    }
    assert found == {row for row in written_up() if row[0] == number}


def test_tutorial_01_with_its_proxy_fence() -> None:
    result = planted(1, 2, "bar.sync \t0;", "fence.proxy.async.shared::cta;\nbar.sync \t0;", races=True)
    assert {finding.code for finding in result.errors} == {"race-tmem-released"}


def planted(number: int, tiles_k: int, find: str, replace: str, **how: Any) -> RunResult:
    """A tutorial's launch with every `find` in its PTX replaced."""
    tutorial = tutorials.TUTORIALS[number - 1]
    inputs = tutorials.product(tutorial, tiles_k, 0, 1.0, 0.0)
    launch = tutorials.launch_of(tutorial, inputs, find, replace)
    return tutorials.run(tutorial, inputs, launch=launch, **how)[1]


def test_a_kernel_that_never_frees_tmem_is_found() -> None:
    result = planted(2, 1, "tcgen05.dealloc.cta_group::1", "// tcgen05.dealloc.cta_group::1")
    assert [f.code for f in result.errors] == ["tmem-leak"]


def test_a_commit_of_the_wrong_pair_hangs() -> None:
    (hang,) = planted(2, 1, "tcgen05.commit.cta_group::1", "// tcgen05.commit.cta_group::1").errors
    assert hang.code == "hang"
    assert all(
        w.barrier is not None and w.pending == 1 for w in hang.machine.waiting if "mbarrier" in w.waits_for
    )
    assert any(w.barrier is not None for w in hang.machine.waiting)


def unswizzled(launch: LaunchFile) -> LaunchFile:
    """The launch with a tensor map of A that does not swizzle."""

    def changed(argument: LaunchArgument) -> LaunchArgument:
        items = list(items_of(argument))
        if not any(isinstance(item, TensorMapArgument) and item.buffer == "A" for item in items):
            return argument
        assert isinstance(argument, StructArgument) and isinstance(items[0], TensorMapArgument)
        assert items[0].swizzle == "128B"
        return replace(argument, items=(PlacedItem(0, replace(items[0], swizzle="none")),))

    return with_arguments(launch, tuple(map(changed, launch.main.arguments)))


def test_a_wrong_swizzle_of_one_operand_gives_a_wrong_product() -> None:
    tutorial = tutorials.TUTORIALS[1]
    inputs = tutorials.product(tutorial, 1, 0, 1.0, 0.0)
    launch = unswizzled(tutorials.launch_of(tutorial, inputs))
    d, result = tutorials.run(tutorial, inputs, launch=launch)
    assert not result.errors
    assert (d != tutorials.expected(inputs)).mean() > 0.5
