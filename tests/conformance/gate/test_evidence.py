"""The evidence: its schema, JUnit form, reading it back, two of them compared, and the same for a seed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tileproof.conformance.check.stopped import Stopped
from tileproof.conformance.cli.app import main
from tileproof.conformance.gate import schema
from tileproof.conformance.gate.difference import AGAINST, changes, of_release, worse
from tileproof.conformance.gate.evidence import read, without_run
from tileproof.conformance.gate.gate import GateOptions, compared, gate
from tileproof.conformance.gate.reports import write_all
from tileproof.conformance.gate.store import write_whole
from tileproof.conformance.verdict import jsonform, junit
from tileproof.conformance.verdict.contract import CheckOutcome, VerdictRecord
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

from tests.kit.evidences import STAGES, mutated, record, release, scored
from tests.kit.paths import ROOT

KERNEL = kernel("head128-part0")
SUBJECTS = [(KERNEL, KERNEL.variants[0])]
CHEAP = ("operand constraints", "determinism", "metamorphic relations", "timing budget")


# ---- forms


def test_the_published_schema_is_that_of_the_classes() -> None:
    assert schema.PATH.read_text(encoding="utf-8") == schema.rendered()


@pytest.mark.parametrize("wrong", [False, True])
def test_an_evidence_fits_the_schema_and_is_read_back(tmp_path: Path, wrong: bool) -> None:
    made = release(record(), record("b-kernel", wrong=wrong))
    paths = write_all(made, tmp_path)
    again = read(tmp_path)
    assert jsonform.dump(again) == jsonform.dump(made) and read(paths["evidence"]).verdict == made.verdict
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    published = json.loads(schema.PATH.read_text(encoding="utf-8"))
    library.Draft202012Validator.check_schema(published)
    library.Draft202012Validator(published).validate(json.loads(paths["evidence"].read_text()))
    runs = json.loads(paths["sarif"].read_text())["runs"]
    assert [len(run["results"]) for run in runs] == [0, 2 * wrong]


def test_the_release_is_as_bad_as_its_worst_part() -> None:
    assert release().verdict == "clean" and release().exit_code == 0
    assert release(record(), record("b", wrong=True)).exit_code == 1
    assert release(record(), record("b", coverage=None)).exit_code == 3
    died = CheckOutcome(
        "stage conformance", True, "not run", "died", fault="its process was killed by SIGSEGV"
    )
    assert release(record(), record("b", checks=(died,))).exit_code == 2
    assert release(complete=False).verdict == "incomplete"


def test_junit_has_each_check_with_its_outcome() -> None:
    died = CheckOutcome("a\0b", True, "not run", "died", fault="its process died \x07 <here>")
    made = release(record(wrong=True), record("b", checks=(died,)))
    text = junit.text(made.kernels, made.checks)
    root = ElementTree.fromstring(text)
    cases = {(c.get("classname"), c.get("name")): [child.tag for child in c] for c in root.iter("testcase")}
    assert cases["a-kernel width=576", "stage conformance"] == ["failure"]
    assert cases["a-kernel width=576", "resource budgets"] == []
    assert cases["a-kernel width=576", "card results"] == ["skipped"]
    assert cases["b width=576", "a?b"] == ["error"]
    assert [suite.get("errors") for suite in root] == ["0", "1", "0"]
    failure = next(root.iter("failure"))
    assert "--case=" in (failure.text or "")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "there is no such file"),
        ("{", "corrupt or truncated"),
        ('{"schema": "tileproof-verdict"}', "another schema"),
        ('{"schema": "tileproof-evidence", "schema_version": 0}', "another schema version"),
        ('{"schema": "tileproof-evidence", "schema_version": 3, "verdict": "fine"}', "violates the schema"),
        ("[" * 100_000, "is not readable JSON"),
    ],
)
def test_a_baseline_that_is_none_is_named_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, what: str
) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    out = tmp_path / "out"
    words = ("gate", KERNEL.name, "--against", str(path), "--out", str(out), "--json")
    assert called(*words) == 2 and not out.exists()
    assert what in json.loads(capsys.readouterr().out)["error"]["what"]


def called(*words: str) -> int:
    """The exit code of the command line, in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def tileproof(*words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tileproof", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, **how)


def test_evidence_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    write_whole(path, "old")
    (tmp_path / "evidence.json.part").mkdir()
    with pytest.raises(TileproofError, match="cannot be written"):
        write_whole(path, "new")
    assert path.read_text() == "old"


# ---- comparing


def worst_of(ratio: float) -> VerdictRecord:
    stages = {**STAGES, "P": {**STAGES["P"], "worst_error_over_bound": ratio}}
    checks = tuple(
        replace(c, details={**c.details, "stages": stages}) if "stages" in c.details else c
        for c in record().checks
    )
    return replace(record(), checks=checks)


@pytest.mark.parametrize(
    ("after", "what", "is_worse"),
    [
        (record(wrong=True), "verdict", True),
        (record(coverage=None), "verdict", True),
        (scored(record(), 0.9), "mutants: score", True),
        (scored(record(), 0.99), "mutants: score", False),
        (worst_of(0.5), "worst error / bound of P", False),
        (worst_of(1.5), "worst error / bound of P", True),
        (replace(record(), program=replace(record().program, ptx_sha256="f" * 64)), "PTX", False),
        (replace(record(), checks=record().checks[1:]), "resource budgets", True),
    ],
)
def test_what_changed_is_reported(after: VerdictRecord, what: str, is_worse: bool) -> None:
    found = {change.what: change.worse for change in changes([record()], [after])}
    assert found[what] is is_worse
    assert bool(worse([record()], [after])) is any(found.values())


def test_nothing_changed_and_kernels_that_come_and_go() -> None:
    assert not changes([record()], [record()])
    (gone,) = changes([record(), record("b")], [record()])
    assert gone.worse and (gone.before, gone.after) == ("clean", None)
    (new,) = changes([record()], [record(), record("b")])
    assert not new.worse and (new.before, new.after) == (None, "clean")


@pytest.mark.parametrize(
    ("section", "stages"),
    [({"score": "good"}, STAGES), ([1], STAGES), ({}, {"P": {}}), ({}, ["P"]), ({}, {"P": 3})],
)
def test_figures_that_no_gate_wrote_are_named(tmp_path: Path, section: Any, stages: Any) -> None:
    checks = [replace(c, details={"stages": stages}) if c.details else c for c in record().checks]
    bad = replace(record(), checks=tuple(checks), sections={"mutation": section})
    for pair in ((bad, record()), (record(), bad)):
        with pytest.raises(TileproofError, match="figures of the evidence"):
            changes(*([record_] for record_ in pair))


def drawn_by(seed: int, killed: int, of: int, ptx: str = "a") -> VerdictRecord:
    part = {"seed": seed, "count": of, "profile": "full", "operators": ["scope"], "ptx": ptx}
    return replace(
        record(), sections={"mutation": {**part, "killed": killed, "of": of, "score": killed / of}}
    )


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        (drawn_by(1, 98, 98), drawn_by(1, 97, 98), True),  # the same mutants
        (drawn_by(1, 98, 98), drawn_by(2, 96, 98), False),  # others: chance
        (drawn_by(1, 98, 98), drawn_by(1, 96, 98, "b"), False),
        (drawn_by(1, 98, 98), drawn_by(2, 90, 98), True),
        (drawn_by(1, 3, 4), drawn_by(2, 2, 4), False),
    ],
)
def test_a_score_of_other_mutants_is_worse_beyond_chance(
    before: VerdictRecord, after: VerdictRecord, is_worse: bool
) -> None:
    assert bool(worse([before], [after])) is is_worse
    told = {change.what for change in changes([before], [after])}
    assert "mutants: score" in told  # in any case


def test_checks_of_the_release_are_compared() -> None:
    docs, failed = (CheckOutcome("docs in step", True, word) for word in ("passed", "failed"))  # type: ignore[arg-type]
    against = CheckOutcome(AGAINST, True, "passed")
    (change,) = of_release([docs, against], [failed])
    assert (change.kernel, change.what, change.before, change.after, change.worse) == (
        "release", "docs in step", "passed", "failed", True,
    )  # fmt: skip
    assert not of_release([docs], [docs, against]) and not of_release([failed], [docs])[0].worse


def test_diff_says_what_got_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, kernel_record in (("a", record()), ("b", record(wrong=True))):
        write_all(release(kernel_record), tmp_path / name)
    assert called("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["worse"] and said["after"] == "defect"
    assert called("diff", str(tmp_path / "a"), str(tmp_path / "a")) == 0
    (tmp_path / "b" / "evidence.json").write_text("{")
    assert called("diff", str(tmp_path / "a"), str(tmp_path / "b")) == 2


# ---- whole runs


def text_of(out: Path, **options: Any) -> str:
    made = gate(SUBJECTS, out, GateOptions(keep_going=True, only=CHEAP, **options))
    return write_all(made, out)["evidence"].read_text()


def test_the_evidence_is_the_same_for_a_seed_whatever_the_workers(tmp_path: Path) -> None:
    alone, spread = text_of(tmp_path / "a"), text_of(tmp_path / "b", workers=3)
    assert without_run(alone) == without_run(spread) and alone != spread
    other = without_run(text_of(tmp_path / "c", seed=5))
    assert other != without_run(alone) and other["verdict"] == without_run(alone)["verdict"]
    resumed = without_run(text_of(tmp_path / "a", resume=True))
    assert resumed == without_run(alone)


def test_a_baseline_that_was_better_fails_the_gate(tmp_path: Path) -> None:
    better = record(KERNEL.name)
    program = replace(better.program, variant=dict(KERNEL.variants[0].sizes))
    baseline = release(replace(better, program=program))
    options = GateOptions(keep_going=True, only=("operand constraints",))
    made = gate(SUBJECTS, tmp_path, options, baseline=baseline)
    against = next(c for c in made.checks if c.name == "against the baseline")
    assert against.outcome == "failed" and made.verdict == "defect"
    again = gate(SUBJECTS, tmp_path, options, baseline=made)
    assert next(c for c in again.checks if c.name == "against the baseline").outcome == "passed"


def test_scores_that_come_after_the_run_are_compared_with_the_baseline() -> None:
    """Mutants are drawn when the checks have run: what was compared before then is compared again."""
    baseline = release(mutated(record(), 1))
    bare = compared(release(replace(record(), sections={})), baseline)
    fell = compared(release(mutated(record(), 2)), baseline)
    kept = compared(release(mutated(record(), 1)), baseline)
    for made, words in ((bare, "score was 0.75, is None"), (fell, "score was 0.75, is 0.5")):
        (against,) = (c for c in made.checks if c.name == AGAINST)
        assert (made.verdict, against.outcome) == ("defect", "failed") and words in against.reason
    assert kept.verdict == "clean" == compared(fell, release(mutated(record(), 3))).verdict
    assert [c.name for c in compared(fell, baseline).checks].count(AGAINST) == 1


def test_a_kernel_that_cannot_be_built_is_an_error_and_the_others_are_judged(tmp_path: Path) -> None:
    def broken(*_: Any) -> Any:
        raise TileproofError("no such plan")

    bad = replace(KERNEL, name="broken", plan_of=broken)
    made = gate([(bad, bad.variants[0]), *SUBJECTS], tmp_path, GateOptions(only=("operand constraints",)))
    assert [record_.verdict for record_ in made.kernels] == ["error", "incomplete"] and made.exit_code == 2
    (passed,) = (check for check in made.kernels[1].checks if check.outcome == "passed")
    assert passed.name == "operand constraints"
    assert any("determinism was not run: not selected (--only)" in line for line in made.kernels[1].why)


def test_a_run_that_ends_while_kernels_are_built_is_incomplete(tmp_path: Path) -> None:
    def stops(*_: Any) -> Any:
        raise Stopped

    last = replace(KERNEL, name="last", plan_of=stops)
    made = gate([*SUBJECTS, (last, last.variants[0])], tmp_path, GateOptions())
    assert made.exit_code == 3 and not made.complete and not (tmp_path / "results.jsonl").exists()
    assert {record_.checks[0].reason for record_ in made.kernels} == {
        "the run was ended before any check began"
    }


def test_an_unwritable_folder_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    words = ("gate", KERNEL.name, "--only", "operand constraints", "--out", str(tmp_path / "file" / "x"))
    assert called(*words) == 2 and "cannot be written" in capsys.readouterr().err


WAITS = ("gate", KERNEL.name, "--variant", "d_qk=576", "-j", "1", "--only", "operand constraints",
         "--only", "stage conformance")  # fmt: skip


def test_sigterm_and_closed_pipes_lose_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tileproof", *WAITS, "--out", str(out)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr and process.stdout
        for line in process.stderr:
            if "operand constraints" in line:
                break
        process.stderr.close()
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 3
    made = read(out)
    assert not made.complete and made.verdict == "incomplete"
    told = {check.name: (check.outcome, check.reason) for check in made.kernels[0].checks}
    assert told["operand constraints"][0] == "passed" and told["determinism"][1] == "not selected (--only)"
    assert told["stage conformance"] == ("not run", "the run was ended")
    again = tileproof(*WAITS, "--out", str(out), "--resume", env={**os.environ})
    assert again.stderr.count("operand constraints: passed") == 0 and "[2/2]" in again.stderr
    assert read(out).complete
