"""The gate draws mutants itself: their score in the evidence, a ledger of seeds, draws that go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.mutate.draw import wanted
from tileproof.conformance.beside.mutate.ledger import enter
from tileproof.conformance.beside.mutate.score import into
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli import gate_mutants
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.gate_mutants import LEDGER, NAME, MutantDraws, carried, draw_mutants
from tileproof.conformance.gate import evidence
from tileproof.conformance.gate.difference import MUTATION
from tileproof.conformance.gate.evidence import ReleaseEvidence
from tileproof.conformance.gate.page import page
from tileproof.conformance.gate.reports import write_all
from tileproof.conformance.gate.store import CannotWrite
from tileproof.conformance.verdict import junit
from tileproof.conformance.verdict.contract import VerdictRecord
from tileproof.spec.machine.errors import TileproofError

from tests.kit.evidences import mutated, record, release
from tests.kit.paths import ROOT

KERNEL = "sm90-gemm"
ONE = "schedules and races"


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_the_score_is_in_the_evidence_and_the_seed_in_the_ledger(tmp_path: Path) -> None:
    gate = ("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path))
    shown = run(*gate, "--mutants", "2", "--seed", "5")
    assert shown.exit_code == 3, shown.output  # the other checks were left out
    (kernel_record,) = evidence.read(tmp_path).kernels
    part = kernel_record.sections[MUTATION]
    assert part["drawn"] == 2 and part["seed"] == 5 and part["killed"] + part["refused"] <= 2
    # Only schedules were explored: their launches are what covered the kernel.
    assert [check.name for check in kernel_record.checks if check.outcome == "passed"] == [ONE]
    assert {c.reason for c in kernel_record.checks if c.outcome != "passed"} == {"not selected (--only)"}
    assert (
        kernel_record.coverage is not None
        and not kernel_record.coverage.missing()
        and kernel_record.coverage.instructions_covered > 100
    )

    (journal,) = tmp_path.glob("mutants *.jsonl")
    judged = journal.read_text().splitlines()
    assert len(judged) == 3  # whose draw it is, and two judgements
    journal.write_text("\n".join(judged[:2]) + "\n")  # as if it had been interrupted
    assert run(*gate, "--mutants", "3", "--seed", "5", "--resume").exit_code == 3
    again = journal.read_text().splitlines()
    assert again[1] == judged[1] and len(again) == 4  # the first was kept, two more were judged
    ledger = [json.loads(line) for line in (tmp_path / LEDGER).read_text().splitlines()]
    assert [(row["seed"], row["drawn"]) for row in ledger] == [(5, 2), (5, 3)]

    # By hand, another seed takes the place of the score.
    mutate = run("mutate", KERNEL, "--seed", "6", "--count", "1", "--into", str(tmp_path))
    assert mutate.exit_code in (0, 1, 3), mutate.output  # 3: that mutant is equivalent
    (kernel_record,) = evidence.read(tmp_path).kernels
    assert kernel_record.sections[MUTATION]["seed"] == 6 and kernel_record.sections[MUTATION]["drawn"] == 1


def test_no_score_is_drawn_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert run("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path)).exit_code == 3
    assert MUTATION not in evidence.read(tmp_path).kernels[0].sections and not (tmp_path / LEDGER).exists()


def test_an_evidence_that_does_not_judge_the_kernel_is_named(tmp_path: Path) -> None:
    assert run("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path)).exit_code == 3
    shown = run("mutate", "sm90-gemm-bias", "--count", "1", "--into", str(tmp_path))
    assert shown.exit_code == 2 and "has no verdict on this kernel" in shown.stderr


# ---- what ends or spoils a night


VARIANTS = ("head128-part0", "head64")


def night(tmp_path: Path, **how: Any) -> tuple[ReleaseEvidence, MutantDraws]:
    """An evidence of two kernels in a folder, and the draws of four mutants of each."""
    draws = MutantDraws(tmp_path, 5, 4, 1, how.pop("resume", False))
    made = release(*(replace(record(name, **how), sections={}) for name in VARIANTS), sections={})
    write_all(made, tmp_path)
    return made, draws


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """In place of judging: what `name` raises, else a score into the evidence; `asked` are the names."""
    does: dict[str, Any] = {"asked": []}

    def judged(verdict: VerdictRecord, draws: MutantDraws) -> None:
        does["asked"].append(verdict.program.kernel)
        if action := does.get(verdict.program.kernel):
            action()
        part = mutated(verdict).sections[MUTATION] | {
            "operators": wanted(None), "ptx": verdict.program.ptx_sha256, "seed": draws.seed,
            "count": draws.count,
        }  # fmt: skip
        made = evidence.read(draws.out)
        write_all(into(made, verdict.program.kernel, verdict.program.variant, part), draws.out)

    monkeypatch.setattr(gate_mutants, "_judge", judged)
    return does


def raising(error: BaseException) -> Any:
    def action() -> None:
        raise error

    return action


def outcomes(made: ReleaseEvidence) -> list[str]:
    """What became of the draw of each variant."""
    checks = [{check.name: check for check in kernel.checks}.get(NAME) for kernel in made.kernels]
    return [f"not run: {c.fault or c.reason}" if c else "scored" for c in checks]


def test_a_kernel_that_cannot_be_judged_is_named_in_the_evidence(
    tmp_path: Path, judge: dict[str, Any]
) -> None:
    made, draws = night(tmp_path)
    judge[VARIANTS[0]] = raising(TileproofError("the checks find a defect in it"))
    made = draw_mutants(made, draws, None, lambda line: None)
    assert outcomes(made) == ["not run: the checks find a defect in it", "scored"]
    assert made.verdict == "clean"  # a score makes no verdict
    assert MUTATION in made.kernels[1].sections and evidence.read(tmp_path) == made
    assert NAME in junit.text(made.kernels, made.checks) and "the checks find a defect in it" in page(made)


def test_a_bug_in_the_judging_is_an_error_and_the_others_go_on(tmp_path: Path, judge: dict[str, Any]) -> None:
    made, draws = night(tmp_path)
    judge[VARIANTS[0]] = raising(IndexError("off by one"))
    made = draw_mutants(made, draws, None, lambda line: None)
    assert made.verdict == "error" and "IndexError: off by one" in outcomes(made)[0]
    assert outcomes(made)[1] == "scored"


def test_a_kernel_that_fails_its_checks_is_not_mutated(tmp_path: Path, judge: dict[str, Any]) -> None:
    made, draws = night(tmp_path, wrong=True)
    made = draw_mutants(made, draws, None, lambda line: None)
    assert not judge["asked"] and all("its verdict is defect" in outcome for outcome in outcomes(made))


def test_a_full_disk_ends_the_night(tmp_path: Path, judge: dict[str, Any]) -> None:
    made, draws = night(tmp_path)
    judge[VARIANTS[0]] = raising(CannotWrite("the results cannot be written"))
    with pytest.raises(CannotWrite):
        draw_mutants(made, draws, None, lambda line: None)
    assert judge["asked"] == [VARIANTS[0]]


@pytest.mark.parametrize("ends", [KeyboardInterrupt, Stopped, None])
def test_a_night_that_ends_early_is_incomplete_and_goes_on(
    tmp_path: Path, judge: dict[str, Any], ends: type[BaseException] | None
) -> None:
    whole, draws = night(tmp_path)
    end = None if ends else time.monotonic() + 1.0  # --max-seconds
    judge[VARIANTS[1]] = raising(ends()) if ends else lambda: time.sleep(30)
    made = draw_mutants(whole, draws, end, lambda line: None)
    assert made.verdict == "incomplete" and not made.complete
    assert outcomes(made)[0] == "scored" and "--resume continues it" in outcomes(made)[1]

    # The checks are printed again from their results; scores that are there are kept.
    del judge[VARIANTS[1]]
    judge["asked"].clear()
    before = evidence.read(tmp_path)
    clean = replace(whole.tool, changed=False)
    again, before = replace(whole, tool=clean), replace(before, tool=clean)
    again = carried(again, before, draws)
    write_all(again, tmp_path)
    made = draw_mutants(again, replace(draws, resume=True), None, lambda line: None)
    assert judge["asked"] == [VARIANTS[1]] and made.verdict == "clean"
    assert outcomes(made) == ["scored", "scored"]
    # Not those of another seed, of another count, or of a state that no commit holds.
    for other in (replace(draws, seed=6), replace(draws, count=5)):
        assert not carried(replace(whole, tool=clean), before, other).kernels[0].sections
    changed = replace(clean, changed=True)
    assert not carried(replace(whole, tool=changed), replace(before, tool=changed), draws).kernels[0].sections


def test_a_signal_while_the_kernel_itself_runs_ends_the_draw(tmp_path: Path) -> None:
    """Not of a stand-in: `tileproof gate` in a process, stopped in its draw, and gone on with."""
    words = [sys.executable, "-m", "tileproof", "gate", KERNEL, "--only", ONE, "-j", "1", "--mutants", "3"]
    words += ["--seed", "5", "--out", str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stderr and ran.stdout
        for line in ran.stderr:
            if "3 mutants" in line:
                break
        ran.stderr.close()
        ran.stdout.close()
        ran.send_signal(signal.SIGTERM)
        assert ran.wait(200) == 3
    made = evidence.read(tmp_path)
    assert not made.complete and "--resume" in outcomes(made)[0]
    shown = run(*words[3:], "--resume")
    assert outcomes(evidence.read(tmp_path)) == ["scored"], shown.output
    assert evidence.read(tmp_path).complete
    assert "mutants killed" in shown.stdout


# ---- the ledger


def test_a_draw_has_one_line_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "ledger.jsonl"
    assert enter(path, {"score": 1.0}, kernel="a", seed=5)
    assert not enter(path, {"score": 1.0}, kernel="a", seed=5)  # it was gone on with
    assert enter(path, {"score": 0.9}, kernel="a", seed=5) and enter(path, {"score": 1.0}, kernel="a", seed=6)
    path.write_bytes(path.read_bytes()[:-9])  # cut off
    assert enter(path, {"score": 1.0}, kernel="a", seed=7)
    lines = path.read_text().splitlines()
    assert len(lines) == 4 and json.loads(lines[3])["seed"] == 7 and json.loads(lines[0])["date"]


def test_a_ledger_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "ledger", tmp_path):
        with pytest.raises(CannotWrite, match="ledger of draws cannot be written"):
            enter(path, {}, kernel="a")
