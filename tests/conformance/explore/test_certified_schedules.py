"""The benchmark of certified schedules finds a contradiction where a certificate is false."""

from __future__ import annotations

import pytest
from tileproof.conformance.cases.generators import small
from tileproof.conformance.planted.defects import build_planted, defect
from tileproof.emulator import launch_result
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.certificate import Certificate

from benchmarks.certified_schedules import Task, run
from benchmarks.outside_schedules import other_schedules
from tests.kit.programs import Program, ring

HEAD64 = kernel("head64")
TASK = Task("head64", 0, small(HEAD64.plan(HEAD64.variants[0])).as_json(), 0, 12)


def test_schedules_agree_with_a_certificate() -> None:
    answer = run(TASK)
    assert "refused" not in answer and answer["differ"] == []
    assert sum(answer["policies"].values()) == 12


def test_a_false_certificate_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that frees its keys too early, in a launch that is certified without a look."""
    planted = build_planted(HEAD64, HEAD64.variants[0], defect("h64-keys-freed-by-arrival"))
    monkeypatch.setattr(Kernel, "build", lambda *_: planted)
    assert "refused" in run(TASK)
    monkeypatch.setattr(launch_result, "certificate", lambda *_: Certificate())
    answer = run(TASK)
    assert "refused" not in answer and answer["differ"]


def test_schedules_of_a_launch_of_another_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch leaves what its first run left; a false certificate is contradicted."""
    add = Program("setp.eq.u32 %p0, %t, 0;\n@%p0 red.global.add.u32 [%a0], 7;\nbar.sync 0;")
    with other_schedules("programs", 12) as answers:
        _, outputs = add(races=True)
        ring(1)(races=True)
    right, wrong = answers
    assert "refused" not in right and right["differ"] == [] and sum(right["policies"].values()) == 12
    assert outputs["out"][0] == 7
    assert "refused" in wrong and wrong["differ"]
    monkeypatch.setattr(launch_result, "certificate", lambda *_: Certificate())
    with other_schedules("ring", 12) as answers:
        ring(1)(races=True)
    assert "refused" not in answers[0] and answers[0]["differ"]
