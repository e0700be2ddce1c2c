"""The tool that judges PyTorch's kernels on a card, with the CPU's own; without a card the others say so."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.host.torch_cuda import worker
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.tools.silicon import attention, attention_by_hand, attention_judged


def test_a_right_kernel_passes_and_every_control_is_found() -> None:
    result = attention_judged.judged("torch-cpu-flash", 3, 0, 60.0)
    assert result["failing"] == {} and result["examples"] > 3
    assert result["controls"] == dict.fromkeys(("LSE", "O", "dQ", "dK", "dV"), True)


def test_without_the_engine_the_check_starts() -> None:
    code = (
        "import sys; sys.modules['tileproof.emulator'] = None\nfrom tileproof.tools.silicon import attention"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
@pytest.mark.parametrize("name", ["torch-efficient", "torch-flash-f16", "torch-cudnn"])
def test_without_a_card_it_is_refused(name: str) -> None:
    target = kernel(name)
    with pytest.raises(TileproofError, match="no CUDA card"):
        on_own_driver(target, target.variants[0])


# A process that answers as the worker does: it ends at "bad", raises at "refused".
SERVE = """
import os, pickle, sys, time
out = os.fdopen(os.dup(1), "wb")
def say(*message):
    pickle.dump(message, out)
    out.flush()
while True:
    try:
        operator, inputs = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    say("at", "the_backward")
    if operator == "bad": os.abort()
    if operator == "endless": time.sleep(60)
    if operator == "refused": say("raised", "RuntimeError", "no such head")
    elif operator == "mistaken": say("raised", "NameError", "no name")
    else: say("found", {"dQ": inputs})
    if operator == "last": sys.exit(0)
"""


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[worker.Worker]:
    found = worker.Worker((sys.executable, "-c", SERVE))
    monkeypatch.setattr(worker, "of_process", lambda pid: found)
    yield found
    found.close()


@pytest.mark.usefixtures("serving")
def test_an_operator_that_ends_its_process_is_named_and_the_next_call_is_answered() -> None:
    assert worker.call("a", 3) == {"dQ": 3}
    with pytest.raises(worker.OperatorEnded, match=r"ends its process \(SIGABRT in the_backward\)"):
        worker.call("bad", 3)
    assert worker.call("last", 4) == {"dQ": 4}
    assert worker.call("a", 5) == {"dQ": 5}


@pytest.mark.usefixtures("serving")
def test_what_is_refused_is_distinguished_from_what_is_wrong() -> None:
    assert worker.refusal("a", 1) == ""
    assert worker.refusal("refused", 1) == "no such head"
    assert "SIGABRT" in worker.refusal("bad", 1)
    with pytest.raises(worker.Raised, match="NameError"):
        worker.refusal("mistaken", 1)


def test_an_operator_that_does_not_end_is_ended_and_named() -> None:
    own = worker.Worker((sys.executable, "-c", SERVE), seconds=1.0)
    with pytest.raises(worker.OperatorEnded, match=r"does not end \(1 s in the_backward\)"):
        own.call("endless", 3)
    assert own.call("a", 3) == {"dQ": 3} and own.starts == 2
    own.close()


def run_of(folder: Path, *words: str) -> dict[str, Any]:
    out = folder / "evidence.json"
    command = [sys.executable, "-m", attention.__name__, str(out), *words, "--no-hand", "--jobs", "1"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(out.read_text())["kernels"]
    return found


def test_kernels_are_judged_side_by_side_and_one_that_is_refused_is_named(tmp_path: Path) -> None:
    found = run_of(tmp_path, "blocked", "torch-cudnn", "--examples", "1")
    assert found["blocked"]["complete"] and found["blocked"]["examples"] == found["blocked"]["of"] > 8
    assert found["blocked"]["failing"] == {}
    assert "no CUDA card" in found["torch-cudnn"]["refused"]


def test_a_kernel_at_its_limit_is_incomplete_with_what_it_has(tmp_path: Path) -> None:
    found = run_of(tmp_path, "blocked", "--examples", "1", "--kernel-seconds", "0")["blocked"]
    assert not found["complete"] and found["ended"] == "its limit of 0 s of processes"
    assert 0 < found["examples"] < found["of"] and found["stages"]["dQ"]["elements"] > 0


def test_a_worker_that_is_started_too_often_ends_its_kernel() -> None:
    progress = attention.KernelProgress("a", {"found": {}}, ["case"], attention_judged.Tally(starts=61))
    run = attention.SideBySide(
        [], argparse.Namespace(seconds=100.0, kernel_seconds=9.0, jobs=1), lambda run: None
    )
    run.progress.append(progress)
    no_pool: Any = None
    assert not run._give(no_pool, deque())
    assert (
        progress.ended == "its worker was started more than 60 times" and not progress.as_dict()["complete"]
    )


def test_three_tf32_products_are_what_the_kernel_gave() -> None:
    case = DenseCase.from_json(attention_by_hand.SPLIT_CASE[0])
    inputs = case.inputs()
    q, k, dO = (np.asarray(getattr(inputs, name), np.float32)[0, :, 0] for name in ("q", "k", "dO"))
    logits = q.astype(np.float64) @ k.astype(np.float64).T * case.problem.sm_scale
    S = np.exp(logits - np.asarray(inputs.lse, np.float64)[0, 0][:, None]).astype(np.float32)
    split = attention_by_hand.three_products(S.T, dO)[0, 73]
    assert np.float32(split) == np.float32(0.000128506391774863)  # docs/evidence, seed 90210
    assert abs(split / (S.T.astype(np.float64) @ dO)[0, 73] - 1) > 4.8e-7


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_the_worker_answers_without_a_card() -> None:
    own = worker.Worker()
    with pytest.raises(worker.Raised):
        own.call("flash", DenseCase(m=8, n=8, d_qk=16, d_v=16).inputs())
    own.close()
