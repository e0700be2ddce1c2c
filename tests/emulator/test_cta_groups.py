# ruff: noqa: E501 - PTX lines are kept whole
"""Kernels that mix the values of .cta_group, and .aligned instructions of warps that are not whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tileproof.emulator import RunResult, Schedule
from tileproof.kernels import toolchain

from tests.emulator.test_races import AFTER, BAR, COMMIT, ISSUER, LD, MMA, QUARTER, READY, SYNC, WAIT_LD
from tests.kit.ptx import POLICIES, alloc, clean, codes, dealloc, init_barrier, kernel_text, only, run, wait

every_schedule = pytest.mark.parametrize("schedule", POLICIES, ids=str)
OTHER = COMMIT.replace("cta_group::1", "cta_group::2")
FIRST = "mov.u32 %r90, %cluster_ctarank;\nsetp.ne.u32 %p9, %r90, 0;\n@%p9 exit;"
READ = f"{wait(BAR)}\n{AFTER}\n{LD} {WAIT_LD}\n{SYNC}"


def tensor(body: str, schedule: Schedule, strict: bool = False) -> RunResult:
    """As the one of test_races, by the first CTA of a pair alone."""
    text = f"{FIRST}\n{init_barrier(BAR)} {alloc(32)} {QUARTER} {ISSUER}\n{body}\n{dealloc(32)}"
    return run(
        text, threads=128, shared_bytes=0x4000, schedule=schedule, races=True, cluster=2, strict=strict
    )


@pytest.mark.corpus("R26")
@every_schedule
def test_R26_a_commit_of_the_other_group_covers_nothing(schedule: Schedule) -> None:
    right = tensor(f"{READY}\n{MMA}\n{COMMIT}\n{READ}", schedule)
    assert "cta-group-mixed" not in codes(right) and {f.severity for f in right.findings} <= {"note"}
    wrong = tensor(f"{READY}\n{MMA}\n{OTHER}\n{READ}", schedule)
    assert "race-mma-unwaited" in {f.code for f in wrong.findings if f.severity == "error"}


@pytest.mark.corpus("R26")
@every_schedule
def test_R26_a_mixed_kernel_runs_with_a_warning(schedule: Schedule) -> None:
    """Both commits, each of its own group: nothing but what ptxas says of it."""
    body = f"{READY}\n{MMA}\n{COMMIT}\n{READ}\n{OTHER}\n{wait(BAR, 1)}"
    mixed = tensor(body, schedule)
    assert {f.code for f in mixed.findings if f.severity != "note"} == {"cta-group-mixed"}
    assert only(mixed, "cta-group-mixed").severity == "warning"
    assert only(tensor(body, schedule, strict=True), "cta-group-mixed").severity == "error"


def test_ptxas_refuses_the_mixture(tmp_path: Path) -> None:
    def refusal(*groups: int) -> str:
        lines = (f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;" for group in groups)
        source = tmp_path / "kernel.ptx"
        source.write_text(kernel_text("\n".join(lines)))
        command = [str(toolchain.find().ptxas), "-arch=sm_100a", "-o", "/dev/null", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr if done.returncode else ""

    assert not refusal(1) and not refusal(2)
    assert "CTA pair granularity(.cta_group::2)" in refusal(1, 2)


LEAVE = "setp.ne.u32 %p9, %t, 0;\n@%p9 exit;"
ELECTED = "elect.sync _|%p9, 0xffffffff;\n@!%p9 bra NOT;\nBODY\nNOT: bar.warp.sync 0xffffffff;"
COLLECTIVE = {
    "alloc": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [1088], 32;",
    "relinquish": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "wait ld": "tcgen05.wait::ld.sync.aligned;",
    "wait st": "tcgen05.wait::st.sync.aligned;",
    "ldmatrix": "st.shared.u32 [1088], %t; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [1088];",
}


@pytest.mark.parametrize("name", COLLECTIVE)
def test_an_aligned_instruction_after_the_other_lanes_have_left(name: str) -> None:
    finding = only(run(f"{LEAVE}\n{COLLECTIVE[name]}", shared_bytes=256), "aligned-partial")
    assert "lanes 0xfffffffe of its warp have exited" in finding.message


@pytest.mark.parametrize("work", ["tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r100];", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r100], {%t};", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, 32;"])  # fmt: skip
def test_tensor_memory_after_the_other_lanes_have_left(work: str) -> None:
    only(run(f"{alloc(32)}\n{LEAVE}\n{work}", shared_bytes=256), "aligned-partial")


@pytest.mark.parametrize("name", COLLECTIVE)
def test_an_elected_lane_alone(name: str) -> None:
    assert codes(run(ELECTED.replace("BODY", COLLECTIVE[name]), shared_bytes=256)) & {
        "aligned-partial",
        "hang",
    }


def test_whole_warps_and_barriers_of_partial_ones() -> None:
    clean(
        run(
            f"{alloc(32)}\n{dealloc(32)}\n{COLLECTIVE['wait ld']}\n{COLLECTIVE['relinquish']}",
            shared_bytes=256,
        )
    )
    clean(run(f"{LEAVE}\nbar.sync 0;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"))
