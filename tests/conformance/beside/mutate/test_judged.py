"""Mutants of a kernel, each judged in a process of its own: outcomes, places, and processes that go wrong."""

from __future__ import annotations

import itertools
import json
import os
import time

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.mutate import judged
from tileproof.conformance.beside.mutate.assembled import assemble
from tileproof.conformance.beside.mutate.code import PtxCode
from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.conformance.beside.mutate.judged import Judgement, judge_all
from tileproof.conformance.beside.mutate.runs import Original, original
from tileproof.conformance.beside.mutate.score import by_check, score
from tileproof.conformance.cli.mutate import mutate
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError

KERNEL = "head128-part0"


@pytest.fixture(scope="module")
def base() -> Original:
    """The kernel on the quick profile."""
    found = kernel(KERNEL)
    return original(found, found.variants[0], "quick")


@pytest.fixture(scope="module")
def digest(base: Original) -> str:
    """Its machine code."""
    return assemble(base.built.ptx, base.kernel.arch).digest


def changed(base: Original, part: str, replacement: str, operator: str = "immediate") -> Drawn:
    """A mutant of the first instruction whose line has `part`."""
    code = PtxCode(base.built.ptx, base.built.entry)
    line = next(at for at in code.code if part in code.lines[at.number - 1])
    text = replacement and code.lines[line.number - 1].replace(part, replacement)
    return Drawn(0, operator, part, line.frames, line.opcode, {line.number: text})


def outcome(base: Original, drawn: Drawn, digest: str, seconds: float = 60) -> Judgement:
    """What becomes of one mutant."""
    (result,) = judge_all(base, [drawn], digest, 1, seconds)
    return result


def test_a_removed_wait_is_killed_at_its_place(base, digest):
    code = PtxCode(base.built.ptx, base.built.entry)
    wait = next(at for at in code.code if at.opcode.startswith("mbarrier.try_wait") and len(at.frames) > 3)
    done = f"setp.eq.u32 {wait.operands[0]}, 0, 0;"
    result = outcome(
        base, Drawn(0, "remove-sync", "wait", wait.frames, wait.opcode, {wait.number: done}), digest
    )
    assert result.outcome == "killed" and result.kind == "machine" and result.place


def test_a_wrong_value_is_killed_in_its_stage(base, digest):
    result = outcome(base, changed(base, "shfl.sync.bfly", "", "remove-effect"), digest)
    assert result.outcome == "killed" and result.stage == result.differs == "delta"


def test_what_ptxas_refuses_is_refused(base, digest):
    result = outcome(base, changed(base, "fma.rn.f32", "fma.nothing.f32"), digest)
    assert result.outcome == "refused" and result.by == "ptxas" and "nothing" in result.message


def test_the_same_machine_code_is_equivalent(base, digest):
    result = outcome(base, changed(base, "prefetch.tensormap", "prefetch.tensormap "), digest)
    assert result.outcome == "equivalent" and "machine code" in result.argument


def test_a_survivor_tells_whether_its_bits_are_equal(base, digest):
    result = outcome(base, changed(base, "prefetch.tensormap", "", "remove-effect"), digest)
    assert result.outcome == "survived" and result.same


def test_a_loop_without_end_is_killed(base, digest):
    code = PtxCode(base.built.ptx, base.built.entry)
    ret = next(at for at in code.code if at.opcode == "ret")
    endless = Drawn(
        0, "predicate", "loops", ret.frames, "ret", {ret.number: "$forever:\n\tbra $forever;\n\tret;"}
    )
    result = outcome(base, endless, digest)
    assert result.outcome == "killed" and result.by in ("livelock", "instruction-limit", "hang")


@pytest.mark.parametrize(
    ("does", "by", "says", "told"),
    [
        (lambda *_: os.abort(), "crash", "SIGABRT", "killed"),
        (lambda *_: os._exit(7), "crash", "exit code 7", "killed"),
        (lambda *_: time.sleep(60), "time limit", "no answer", "survived"),
        (lambda *_: [None for _ in itertools.count()], "time limit", "processor time", "survived"),
    ],
)
def test_whatever_its_process_does_the_tool_goes_on(base, digest, monkeypatch, does, by, says, told):
    """A crash is noticed by any check; a stopped mutant was not found."""
    monkeypatch.setattr(judged, "judge_one", does)
    found = outcome(base, changed(base, "fma.rn.f32", "fma.rz.f32"), digest, seconds=1)
    assert found.outcome == told and found.by == by and says in found.message
    assert score([found])["crashed or stopped"] == 1 and score([found])["survived"] == (told == "survived")
    assert by_check([found]) == ([{"check": by, "killed": 1}] if told == "killed" else [])


def test_a_busy_machine_stops_no_mutant(base, digest, monkeypatch):
    """More of the clock than is given, as long as some processor time is used."""

    def slow(base: Original, drawn: Drawn, digest: str) -> Judgement:
        for _ in range(25):
            time.sleep(0.04)
            began = time.process_time()
            while time.process_time() < began + 0.012:  # a tick or more
                pass
        return Judgement(drawn, "killed", by="late")

    monkeypatch.setattr(judged, "judge_one", slow)
    monkeypatch.setattr(judged, "_limited", lambda base, drawn, digest, _: slow(base, drawn, digest))
    found = outcome(base, changed(base, "fma.rn.f32", "fma.rz.f32"), digest, seconds=0.2)
    assert found.by == "late"


def test_a_kernel_that_is_not_clean_has_no_score(monkeypatch):
    found = kernel(KERNEL)
    built = found.build(found.variants[0])
    wrong = built.ptx.replace("shfl.sync.bfly.b32", "shfl.sync.up.b32", 1)
    monkeypatch.setattr(type(found), "build", lambda *_: judged.replace(built, ptx=wrong))  # type: ignore[attr-defined]
    with pytest.raises(TileproofError, match="not clean"):
        original(found, found.variants[0], "quick")


def test_the_command_scores_a_small_draw(tmp_path):
    """The fixed sample of CI; what survives it must be in the file of arguments."""
    ledger = tmp_path / "ledger.jsonl"
    draw = ["--seed", "5", "--count", "10", "--operators", SAMPLE]
    journal = tmp_path / "draw.jsonl"
    kept = ["--ledger", str(ledger), "--resume", str(journal)]
    done = CliRunner().invoke(mutate, [KERNEL, *draw, "--json", *kept])
    result = json.loads(done.stdout)
    assert result["score"]["drawn"] == 10 and result["score"]["crashed or stopped"] == 0
    assert [load["number"] for load in result["mutants"]] == list(range(10))
    survived = [load for load in result["mutants"] if load["outcome"] == "survived"]
    assert not survived and result["verdict"] == "clean"
    (line,) = ledger.read_text().splitlines()
    head, *rows = map(json.loads, journal.read_text().splitlines())
    assert head["seed"] == 5 and [row["number"] for row in rows] == list(range(10))
    assert json.loads(line)["seed"] == 5 and json.loads(line)["killed"] == result["score"]["killed"]


SAMPLE = "remove-sync,remove-effect,parity,count,bytes,coordinate,predicate,opcode"
