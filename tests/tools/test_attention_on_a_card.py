"""The tool that judges PyTorch's kernels on a card, with the CPU's own; without a card the others say so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from tileproof.conformance.check.under_test import on_own_driver
from tileproof.kernels.host.torch_cuda import worker
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.dense_attention_bwd.case import DenseCase
from tileproof.tools.silicon import attention


def test_a_right_kernel_passes_and_every_control_is_found() -> None:
    result = attention.judged("torch-cpu-flash", 3, 0, 60.0)
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
import os, pickle, sys
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
def test_what_is_refused_is_told_from_what_is_wrong() -> None:
    assert worker.refusal("a", 1) == ""
    assert worker.refusal("refused", 1) == "no such head"
    assert "SIGABRT" in worker.refusal("bad", 1)
    with pytest.raises(worker.Raised, match="NameError"):
        worker.refusal("mistaken", 1)


def test_the_worker_answers_without_a_card() -> None:
    own = worker.Worker()
    with pytest.raises(worker.Raised):
        own.call("flash", DenseCase(m=8, n=8, d_qk=16, d_v=16).inputs())
    own.close()
