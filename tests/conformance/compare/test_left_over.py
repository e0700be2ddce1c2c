"""`mbarrier-left-over`, which a strict launch remarks on, of both kernels and of NVIDIA's tutorials: none."""

from __future__ import annotations

import re

import pytest
from tileproof.conformance.drivers import emulator
from tileproof.emulator import RunResult, Schedule
from tileproof.kernels.registry import kernel
from tileproof.spec.problems.sparse_mla_bwd.case import one_token

from tests.kit import tutorials

LATE = Schedule("late")


def codes(result: RunResult) -> set[str]:
    return {finding.code for finding in result.findings}


@pytest.mark.parametrize("tutorial", tutorials.TUTORIALS, ids=lambda t: t.source[:2])
def test_the_tutorials_leave_nothing_over(tutorial: tutorials.Tutorial) -> None:
    inputs = tutorials.product(tutorial, 2, 7, 2.0, -1.0)
    # By the letter alone: those of a cluster meet at its .aligned barrier behind `if (elect_one)`.
    letter = {"tmem-ld-not-waited"} | ({"cluster-barrier-parted"} if tutorial.source[:2] >= "03" else set())
    assert codes(tutorials.run(tutorial, inputs, LATE, strict=True)[1]) == letter
    assert codes(tutorials.run(tutorial, inputs, LATE)[1]) == {"tmem-ld-not-waited"}


@pytest.mark.parametrize("name", ["head64", "head128-part0"])
def test_the_kernels_leave_nothing_over_unless_it_is_planted(name: str) -> None:
    entry = kernel(name)
    variant = entry.variant(d_qk=512)
    launch = entry.launch(one_token(512, 3, entry.variants[0]["h_q"]).inputs(), entry.build(variant))
    assert not emulator.launch_on(launch, schedule=LATE, strict=True)[0].findings
    # One arrival more at the end, at a barrier of several.
    barrier = next(b for b in entry.plan(variant).barriers if b.count > 1)
    at = emulator.shared_offset(launch) + barrier.offset
    more = (
        "{ .reg .pred last; .reg .b32 me; mov.u32 me, %tid.x; setp.eq.u32 last, me, 0;"
        f" @last mbarrier.arrive.shared::cta.b64 _, [{at}]; }}"
    )
    image = re.sub(r"\bret;", f"{more} ret;", launch.ptx)
    planted = launch.with_ptx(image)
    assert not emulator.launch_on(planted, schedule=LATE)[0].findings
    findings = emulator.launch_on(planted, schedule=LATE, strict=True)[0].findings
    assert {f.code for f in findings} == {"mbarrier-left-over"}
    assert all(f"has 1 of {barrier.count} arrivals" in f.message for f in findings)
