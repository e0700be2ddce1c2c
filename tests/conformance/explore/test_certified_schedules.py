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

HEAD64 = kernel("head64")
TASK = Task("head64", 0, small(HEAD64.plan(HEAD64.variants[0])).as_json(), 0, 12)


def test_schedules_agree_with_a_certificate() -> None:
    answer = run(TASK)
    assert "refused" not in answer and answer["wrong"] == []
    assert sum(answer["policies"].values()) == 12


def test_a_false_certificate_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that frees its keys too early, in a launch that is certified without a look."""
    planted = build_planted(HEAD64, HEAD64.variants[0], defect("h64-keys-freed-by-arrival"))
    monkeypatch.setattr(Kernel, "build", lambda *_: planted)
    assert "refused" in run(TASK)
    monkeypatch.setattr(launch_result, "certificate", lambda *_: Certificate())
    answer = run(TASK)
    assert "refused" not in answer and answer["wrong"]
