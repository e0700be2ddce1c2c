"""Triton's and Gluon's output on the emulator: right values under every policy, every finding explained."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

from tileproof.emulator import Module

from tests.kit.outside.explained import POLICIES, written_up
from tests.kit.outside.triton_cases import CASES, Case
from tests.kit.outside.triton_host import emulated


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_right_under_every_policy(case: Case) -> None:
    for schedule in POLICIES:
        ran = case.run(schedule=schedule)
        assert ran.right, str(schedule)
        assert not ran.launched.result.errors, str(schedule)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_finding_is_explained(case: Case) -> None:
    found = set()
    for schedule in POLICIES:
        ran = case.run(schedule=schedule, races=True)
        assert ran.right and not ran.launched.result.errors, str(schedule)
        found |= {finding.code for finding in ran.launched.result.distinct}
    assert found == written_up(case.name)


@pytest.mark.parametrize(("edit", "by"), [("@!complete bra.uni waitLoop;", ""), ("fence.proxy.async", "// ")])
def test_a_wrong_kernel_is_found(edit: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits take what they are told at once; the tile of C is stored without its proxy fence."""
    case = next(case for case in CASES if case.name == "gluon-matmul-ws")
    text = case.run().launched.ptx
    assert edit in text
    broken = Module.from_ptx(text.replace(edit, by))
    run = Module.launch
    monkeypatch.setattr(Module, "launch", lambda _, entry, **how: run(broken, entry, **how))
    errors = set()
    for schedule in POLICIES:
        ran = case.run(schedule=schedule, races=True)
        errors |= {finding.code for finding in ran.launched.result.errors}
    early = {"race-copy-unwaited", "shared-pending", "tmem-pending"}
    assert errors & ({"race-proxy-fence"} if "fence" in edit else early)


def test_the_driver_is_put_back() -> None:
    import triton

    before = triton.runtime.driver._active
    with emulated():
        assert triton.runtime.driver.active.get_current_target().arch == 100
    assert triton.runtime.driver._active is before
