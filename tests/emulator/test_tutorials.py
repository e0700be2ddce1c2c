"""NVIDIA's own kernels are the referee: were a layout rule wrong here, their products would be wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tileproof.conformance.explore import tutorials
from tileproof.emulator import Module, Schedule

from tests.kit.paths import ROOT

POLICIES = ("early", "late", "random")


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS, ids=lambda t: t.source[:2])
@pytest.mark.parametrize("policy", POLICIES)
def test_exact_product(tutorial: tutorials.Tutorial, policy: str) -> None:
    problem = tutorials.problem(tutorial, 2, 7, 2.0, -1.0)
    d, result = tutorials.run(tutorial, problem, Schedule(policy, seed=3))  # type: ignore[arg-type]
    assert not result.errors
    np.testing.assert_array_equal(d, problem.expected)
    # The tutorials read TMEM without tcgen05.wait::ld: remarked on, not an error.
    assert {f.code for f in result.findings if f.severity == "note"} == {"tmem-ld-not-waited"}
    assert {f.severity for f in result.findings} == {"note"}


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS[:2], ids=lambda t: t.source[:2])
def test_exact_mode_agrees_on_integers(tutorial: tutorials.Tutorial) -> None:
    problem = tutorials.problem(tutorial, 1, 11, 1.0, 0.0)
    d, _ = tutorials.run(tutorial, problem, mma="exact")
    np.testing.assert_array_equal(d, problem.expected)


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
    problem = tutorials.problem(tutorial, tiles_k, seed, alpha, beta)
    d, result = tutorials.run(tutorial, problem, Schedule(policy, seed))  # type: ignore[arg-type]
    assert not result.errors
    np.testing.assert_array_equal(d, problem.expected)


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
    launch = tutorials.Launched(tutorial, tutorials.problem(tutorial, tiles_k, 7, 2.0, -1.0))
    found = {
        (number, finding.severity, finding.code)
        for schedule in (*EXPLORED, lapped(tutorial))
        for finding in launch(schedule=schedule, races=True)[0].distinct
    }
    assert found == {row for row in written_up() if row[0] == number}


def test_tutorial_01_with_its_proxy_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = tutorials.TUTORIALS[0]
    planted(tutorial, "bar.sync \t0;", "fence.proxy.async.shared::cta;\nbar.sync \t0;", monkeypatch)
    _, result = tutorials.run(tutorial, tutorials.problem(tutorial, 2), races=True)
    assert {finding.code for finding in result.errors} == {"race-tmem-released"}


def planted(tutorial: tutorials.Tutorial, find: str, replace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `tutorials.compiled` return the tutorial with every `find` in its PTX replaced."""
    text = tutorials.ptx_of(tutorial).read_text()
    assert find in text
    module = Module.from_ptx(text.replace(find, replace))
    monkeypatch.setattr(tutorials, "compiled", lambda _: module)


def test_a_kernel_that_never_frees_tmem_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = tutorials.TUTORIALS[1]
    planted(tutorial, "tcgen05.dealloc.cta_group::1", "// tcgen05.dealloc.cta_group::1", monkeypatch)
    _, result = tutorials.run(tutorial, tutorials.problem(tutorial, 1, 0, 1.0, 0.0))
    assert [f.code for f in result.errors] == ["tmem-leak"]


def test_a_commit_of_the_wrong_pair_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = tutorials.TUTORIALS[1]
    planted(tutorial, "tcgen05.commit.cta_group::1", "// tcgen05.commit.cta_group::1", monkeypatch)
    _, result = tutorials.run(tutorial, tutorials.problem(tutorial, 1, 0, 1.0, 0.0))
    (hang,) = result.errors
    assert hang.code == "hang"
    assert all(w.barrier is not None and w.pending == 1 for w in hang.waiting if "mbarrier" in w.waits_for)
    assert any(w.barrier is not None for w in hang.waiting)


def test_a_wrong_swizzle_of_one_operand_gives_a_wrong_product(monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = tutorials.TUTORIALS[1]
    atom = tutorials._atom

    def unswizzled(buffer: tutorials.Buffer, columns: int, rows: int) -> bytes:
        if buffer.name != "A":
            return atom(buffer, columns, rows)
        extent, inner = buffer.numpy().shape
        return tutorials.TensorMap.tiled(
            buffer, shape=(inner, extent), strides=(2 * inner,), box=(columns, rows), swizzle="none"
        ).encode() + bytes(128)

    monkeypatch.setattr(tutorials, "_atom", unswizzled)
    problem = tutorials.problem(tutorial, 1, 0, 1.0, 0.0)
    d, result = tutorials.run(tutorial, problem)
    assert not result.errors
    assert (d != problem.expected).mean() > 0.5
