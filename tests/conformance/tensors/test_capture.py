"""`tileproof.capture`: what a torch program saves is what `tileproof tensors` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileproof.conformance.tensors.files import read
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.spec.problems import problem_type
from tileproof.tools.site import executed

from tests.kit.dumps import BF16, dump, inputs, outputs_only
from tests.kit.paths import ROOT

torch: Any = pytest.importorskip("torch")
PROBLEM = problem_type("sparse_mla_bwd")


def tensor(array: Any) -> Any:
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


(CODE,) = (
    block.content
    for block in executed.blocks((ROOT / "docs" / "tensors.md").read_text(encoding="utf-8"))
    if "test" in block.attributes
)


def test_the_first_backward_of_a_function_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code of docs/tensors.md, which saves the tensors at hand and then those of a function."""
    right = outputs_only(dump(inputs(s_q=1, h_q=4, topk=64, lengths=False)))
    given = {name: tensor(value) for name, value in right.items() if name != "sm_scale"}
    calls = []

    class Attention(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, q: Any, kv: Any) -> Any:
            ctx.save_for_backward(q, kv, given["o"], given["lse"], given["indices"])
            return given["o"].clone()

        @staticmethod
        def backward(ctx: Any, dO: Any) -> Any:
            calls.append(dO)
            return given["dq"], given["dkv"].to(torch.bfloat16)

    monkeypatch.chdir(tmp_path)
    exec(CODE, {"SparseMLA": Attention, "scale": float(right["sm_scale"]), **given})
    path = tmp_path / "dump.safetensors"
    at_hand = read(path)
    assert judge_tensors(PROBLEM, named(PROBLEM, at_hand), "dump").verdict == "clean"
    path.unlink()
    for factor in (1, 2):
        q, kv = (given[name].clone().requires_grad_() for name in ("q", "kv"))
        Attention.apply(q, kv).backward(given["dO"] * factor)
    assert len(calls) == 2
    found = read(path)
    assert np.array_equal(found["dO"].view(np.uint16), right["dO"].view(np.uint16))
    assert judge_tensors(PROBLEM, named(PROBLEM, found), "dump").verdict == "clean"
