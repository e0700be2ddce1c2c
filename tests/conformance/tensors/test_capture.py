"""`tileproof.capture`: what a torch program saves is what `tileproof tensors` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tileproof import capture
from tileproof.conformance.tensors.files import read
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.spec.problems import problem_type

from tests.kit.dumps import BF16, dump, inputs, outputs_only

torch: Any = pytest.importorskip("torch")
PROBLEM = problem_type("sparse_mla_bwd")


def tensor(array: Any) -> Any:
    if array.dtype == BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def test_the_first_backward_of_a_function_is_saved(tmp_path: Path) -> None:
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

    path = tmp_path / "dump.safetensors"
    capture.backward(
        Attention,
        path,
        saved=("q", "kv", "o", "lse", "indices"),
        gradients=("dO",),
        returns=("dq", "dkv"),
        sm_scale=float(right["sm_scale"]),
    )
    for factor in (1, 2):
        q, kv = (given[name].clone().requires_grad_() for name in ("q", "kv"))
        Attention.apply(q, kv).backward(given["dO"] * factor)
    assert len(calls) == 2
    found = read(path)
    assert np.array_equal(found["dO"].view(np.uint16), right["dO"].view(np.uint16))
    assert judge_tensors(PROBLEM, named(PROBLEM, found), "dump").verdict == "clean"
