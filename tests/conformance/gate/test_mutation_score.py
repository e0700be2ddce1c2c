"""The gate draws mutants itself: their score in the evidence, a ledger of seeds, draws that go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.gate import LEDGER
from tileproof.conformance.gate import evidence
from tileproof.conformance.gate.difference import MUTATION

KERNEL = "sm90-gemm"
ONE = "schedules and races"


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_the_score_is_in_the_evidence_and_the_seed_in_the_ledger(tmp_path: Path) -> None:
    gate = ("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path))
    shown = run(*gate, "--mutants", "2", "--seed", "5")
    assert shown.exit_code == 0, shown.output
    (one,) = evidence.read(tmp_path).kernels
    part = one.sections[MUTATION]
    assert part["drawn"] == 2 and part["seed"] == 5 and part["killed"] + part["refused"] <= 2
    # Only schedules were explored: their launches are what covered the kernel.
    assert [check.name for check in one.checks] == [ONE]
    assert one.coverage is not None and not one.coverage.missing() and one.coverage.instructions_covered > 100

    (journal,) = tmp_path.glob("mutants *.jsonl")
    judged = journal.read_text().splitlines()
    assert len(judged) == 3  # whose draw it is, and two judgements
    journal.write_text("\n".join(judged[:2]) + "\n")  # as if it had been interrupted
    assert run(*gate, "--mutants", "3", "--seed", "5", "--resume").exit_code == 0
    again = journal.read_text().splitlines()
    assert again[1] == judged[1] and len(again) == 4  # the first was kept, two more were judged
    ledger = [json.loads(line) for line in (tmp_path / LEDGER).read_text().splitlines()]
    assert [(row["seed"], row["drawn"]) for row in ledger] == [(5, 2), (5, 3)]

    # By hand, another seed takes the place of the score.
    mutate = run("mutate", KERNEL, "--seed", "6", "--count", "1", "--into", str(tmp_path))
    assert mutate.exit_code in (0, 1), mutate.output
    (one,) = evidence.read(tmp_path).kernels
    assert one.sections[MUTATION]["seed"] == 6 and one.sections[MUTATION]["drawn"] == 1


def test_no_score_is_drawn_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert run("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path)).exit_code == 0
    assert MUTATION not in evidence.read(tmp_path).kernels[0].sections and not (tmp_path / LEDGER).exists()


def test_an_evidence_that_does_not_judge_the_kernel_is_named(tmp_path: Path) -> None:
    assert run("gate", KERNEL, "--only", ONE, "-j", "1", "--out", str(tmp_path)).exit_code == 0
    shown = run("mutate", "sm90-gemm-bias", "--count", "1", "--into", str(tmp_path))
    assert shown.exit_code == 2 and "does not judge this kernel" in shown.stderr
