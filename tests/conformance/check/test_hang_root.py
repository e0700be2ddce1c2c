"""Hangs planted in head128-part0: the root, in the plan's names, and what only follows from it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.drivers import emulator
from tileproof.conformance.planted.defects import build_planted, defect
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase

PART0 = "head128-part0"
# The first line of the root, and what its evidence says.
ROOTS = {
    "p-ready-to-one-cta": (
        "phase 0 (k-block 0) of p_ready[0] of CTA 1 lacks 1 of 1 arrival",
        "reached CTA 0 only",
    ),
    "p-ready-not-committed": (
        "phase 0 (k-block 0) of p_ready[0] of CTA",
        "nothing has ever arrived at it, in any CTA",
    ),
    "kv-free-not-committed": (
        "phase 0 (k-block 0) of kv_free[0] of CTA",
        "commit of rank 0's mma, multicast",
    ),
    "kv-ready-bytes": ("of kv_ready[0] of CTA 0 lacks nothing, but", "bytes more came than it expects"),
    "rope-not-loaded": (
        "phase 0 (k-block 0) of kv_ready[0] of CTA 0 lacks 8192 bytes",
        "73728 bytes were expected by",
    ),
}


def root(planted: str, schedule: Schedule) -> tuple[str, ...]:
    """The root of the hang of a planted defect on four k-blocks."""
    entry, plan = kernel(PART0), kernel(PART0).plan(kernel(PART0).variant(d_qk=576))
    inputs = SparseCase(576, s_kv=256, blocks=4, tokens=(Indices(),), values="integers").inputs()
    built = build_planted(entry, entry.variant(d_qk=576), defect(planted))
    seen = emulator.run(entry.launch(inputs, built), plan, schedule=schedule, taps=False)
    hangs = [finding for finding in seen.findings if finding.code == "hang"]
    assert len(hangs) == 1, [finding.message for finding in seen.findings]
    return (hangs[0].cause, *hangs[0].evidence)


@pytest.mark.parametrize("policy", ["early", "late", "random"])
@pytest.mark.parametrize("planted", sorted(ROOTS))
def test_root_of_a_planted_hang(planted: str, policy: str) -> None:
    if planted == "kv-ready-bytes" and policy != "early":
        return  # half of the bytes complete the phase then: the tile is wrong, and nothing hangs
    first, evidence = ROOTS[planted]
    lines = root(planted, Schedule(policy, 1))  # type: ignore[arg-type]
    assert first in lines[0], lines
    assert evidence in "\n".join(lines), lines


def test_check_prints_the_root_before_the_waits() -> None:
    args = ["check", PART0, "--d-qk=576", "--examples=2", "--policy=early", "--plant=p-ready-to-one-cta"]
    shown = CliRunner().invoke(main, args)
    assert shown.exit_code == 1, shown.output
    root, state, waits = (
        shown.stdout.index(text)
        for text in ("\n1. hang: phase 0 (k-block 0) of p_ready[0] of CTA 1 lacks", "state:", "waits:")
    )
    assert root < state < waits
    # The waits are few, and the values that the hang left behind are no second reason.
    assert shown.stdout.count("waits: ") == 4 and "waits: and " in shown.stdout
    after = shown.stdout.index("1 finding that may follow from it:\n     P was never written (stage P")
    assert waits < after and "\n2. " not in shown.stdout


def test_trace_of_a_clean_run(tmp_path: pytest.TempPathFactory) -> None:
    out = f"{tmp_path}/trace.json"
    shown = CliRunner().invoke(main, ["trace", PART0, "--blocks=2", f"--out={out}", "--text"])
    assert shown.exit_code == 0, shown.output
    assert "p_ready[1] phase 0 (k-block 1)" in shown.stdout and "mma (warp 12)" in shown.stdout
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"mma (warp 12)", "TMA", "tensor core"} <= tracks


def test_trace_of_a_hang_exits_with_1_and_marks_the_finding(tmp_path: pytest.TempPathFactory) -> None:
    out = f"{tmp_path}/trace.json"
    words = ["trace", PART0, "--blocks=2", "--plant=p-ready-to-one-cta", "--text", f"--out={out}"]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 1 and "p_ready[0] of CTA 1 lacks 1 of 1 arrival" in shown.stderr
    with open(out) as file:
        events = json.load(file)["traceEvents"]
    (mark,) = [event for event in events if event.get("cat") == "finding"]
    assert mark["name"] == "finding hang" and mark["ph"] == "i"
    assert "p_ready[0] of CTA 1" in mark["args"]["cause"]
    assert mark["ts"] <= max(event["ts"] for event in events if "ts" in event)


def test_trace_refuses_what_it_cannot_do() -> None:
    for options in (["--d-qk=77"], ["--plant=nothing"], ["--out=/nowhere/trace.json"]):
        shown = CliRunner().invoke(main, ["trace", PART0, *options])
        assert shown.exit_code == 2, options


def test_a_copy_that_is_no_further_is_no_evidence() -> None:
    """One arrival is lacking in both CTAs: neither copy explains the other."""
    shown = CliRunner().invoke(main, ["trace", "head128-columns", "--plant=cols-count-too-large"])
    assert shown.exit_code == 1 and "of p_free of CTA 0 lacks 1 of 9 arrivals" in shown.stderr
    assert "in this phase 8 arrivals came" in shown.stderr and "of the copy in CTA" not in shown.stderr
