"""Single calls of the operator: chunks, dtypes, empty inputs, outputs of the caller, the sink, the judge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tileproof.capture import save
from tileproof.conformance.tensors.files import read
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.ops import fold_sink, reference
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from torch.utils._python_dispatch import TorchDispatchMode

from tests.kit.ops_calls import small, sparse_mla, sparse_mla_backward

F64 = torch.float64


def drawn(*sizes: int, dtype: torch.dtype = F64, seed: int = 0) -> dict[str, Any]:
    """s_q, heads, rows, d_qk, d_v, topk; o and lse of the forward."""
    s_q, heads, rows, d_qk, d_v, topk = sizes
    torch.manual_seed(seed)
    q, kv = torch.randn(s_q, heads, d_qk).to(dtype), torch.randn(rows, d_qk).to(dtype)
    indices = torch.randint(-1, rows + 1, (s_q, topk), dtype=torch.int32)
    o, lse = sparse_mla(q, kv, indices, d_v=d_v)
    return {
        "q": q,
        "kv": kv,
        "o": o,
        "dO": torch.randn(s_q, heads, d_v).to(dtype),
        "lse": lse,
        "indices": indices,
    }


@pytest.mark.parametrize("limit", [1, 1 << 12, 1 << 26])
def test_chunks_do_not_change_a_bit_of_dq(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = drawn(7, 3, 20, 12, 8, 9)
    right = sparse_mla_backward(**given, dkv_dtype=F64)
    monkeypatch.setattr(reference, "CHUNK_BYTES", limit)
    made = sparse_mla_backward(**given, dkv_dtype=F64)
    assert torch.equal(made[0], right[0])
    torch.testing.assert_close(made[1], right[1], rtol=1e-14, atol=1e-14)


def test_deterministic_calls_have_the_same_bits() -> None:
    given = drawn(64, 3, 20, 12, 8, 50)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        first, *others = (sparse_mla_backward(**given, dkv_dtype=F64, deterministic=True) for _ in range(4))
    finally:
        torch.set_num_threads(threads)
    for made in others:
        assert torch.equal(made[0], first[0]) and torch.equal(made[1], first[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("dkv_dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_each_result_is_the_float64_result_rounded_once(dtype: torch.dtype, dkv_dtype: torch.dtype) -> None:
    given = drawn(4, 3, 20, 12, 8, 9, dtype=dtype)
    exact = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
    dq, dkv, _ = sparse_mla_backward(**given, dkv_dtype=dkv_dtype)
    wide_dq, wide_dkv, _ = sparse_mla_backward(**exact, dkv_dtype=F64)
    assert torch.equal(dq, wide_dq.to(dtype)) and torch.equal(dkv, wide_dkv.to(dkv_dtype))


@pytest.mark.parametrize("dkv_dtype", [torch.bfloat16, torch.float16])
def test_the_kernels_dkv_is_rounded_once(dkv_dtype: torch.dtype) -> None:
    given = small().tensors() | {"backend": "emulator"}
    wide = sparse_mla_backward(**given, dkv_dtype=torch.float32)[1]
    assert torch.equal(sparse_mla_backward(**given, dkv_dtype=dkv_dtype)[1], wide.to(dkv_dtype))


SIZES = {"s_q": 0, "h_q": 1, "s_kv": 2, "topk": 5}


@pytest.mark.parametrize("backend", ["reference", "emulator"])
@pytest.mark.parametrize("empty", SIZES)
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_empty_inputs_give_zeros(empty: str, batch: tuple[int, ...], backend: str) -> None:
    s_q, heads, rows, d_qk, d_v, topk = (
        0 if number == SIZES[empty] else size for number, size in enumerate((2, 3, 4, 576, 512, 5))
    )
    q = torch.full((*batch, s_q, heads, d_qk), 1.0, dtype=torch.bfloat16)
    kv = torch.full((*batch, rows, d_qk), 1.0, dtype=torch.bfloat16)
    indices = torch.zeros(*batch, s_q, topk, dtype=torch.int32)
    sink = torch.zeros(heads)
    o, lse = sparse_mla(q, kv, indices, d_v=d_v, sink=sink)
    dq, dkv, d_sink = sparse_mla_backward(q, kv, o, o + 1, lse, indices, sink=sink, backend=backend)
    assert dq.shape == q.shape and dkv.shape == kv.shape and d_sink is not None and d_sink.shape == sink.shape
    assert not dq.any() and not dkv.any() and not d_sink.any() and not o.any()


def test_results_are_written_to_the_tensors_of_the_caller() -> None:
    given = drawn(4, 3, 20, 12, 8, 9)
    right = sparse_mla_backward(**given, dkv_dtype=torch.float32)
    out = torch.full_like(given["q"], 7), torch.full(given["kv"].shape, 7.0)
    made = sparse_mla_backward(**given, dkv_dtype=torch.float32, out=out)
    assert made[0] is out[0] and made[1] is out[1] and made[2] is None
    assert torch.equal(out[0], right[0]) and torch.equal(out[1], right[1])


def test_inputs_may_be_unaligned_and_are_not_changed() -> None:
    given = small().tensors()
    odd = {
        name: torch.cat([value.flatten()[:1], value.flatten()])[1:].view(value.shape)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in given.items()
    }
    assert odd["q"].data_ptr() % 16
    before = {name: value.clone() for name, value in odd.items() if isinstance(value, torch.Tensor)}
    for backend in ("reference", "emulator"):
        first = sparse_mla_backward(**given, backend=backend)
        second = sparse_mla_backward(**odd, backend=backend)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(torch.equal(odd[name], value) for name, value in before.items())


def test_rows_that_no_token_selects_may_hold_nan() -> None:
    given = small().tensors()
    right = sparse_mla_backward(**given)
    given["kv"][8] = float("nan")
    for backend in ("reference", "emulator"):
        dq, dkv, _ = sparse_mla_backward(**given, backend=backend)
        assert not dq.isnan().any() and not dkv.isnan().any()
    assert torch.equal(sparse_mla_backward(**given)[0], right[0])


def test_a_nan_in_a_key_is_not_hidden() -> None:
    given = drawn(2, 3, 20, 12, 8, 9)
    given["kv"][int(given["indices"][given["indices"].clamp(0, 19) == given["indices"]][0])] = float("nan")
    assert sparse_mla(given["q"], given["kv"], given["indices"], d_v=8)[0].isnan().any()
    assert sparse_mla_backward(**given)[0].isnan().any()


@pytest.mark.parametrize("lse_base", ["e", "2"])
def test_the_sink_is_added_as_the_spec_says(lse_base: str) -> None:
    rng = np.random.default_rng(0)
    lse = rng.standard_normal((6, 4)).astype(np.float32) * 20
    lse[0], lse[1] = -np.inf, np.inf
    sink = np.array([-np.inf, np.inf, 30.0, 0.5], np.float32)
    right = contract.fold_lse(lse if lse_base == "2" else lse.astype(float) / LN_2, sink)
    found = fold_sink(torch.tensor(lse), torch.tensor(sink), lse_base).double().numpy()
    found = found if lse_base == "2" else found / LN_2
    assert np.array_equal(np.isposinf(found), np.isposinf(right))
    finite = np.isfinite(right)
    # Each f32 operation (product, exp, sum, log) is within 4 units of 2^-24 of its operands' size.
    assert (np.abs(found[finite] - right[finite]) <= 2.0**-22 * (4 + np.abs(right[finite]))).all()


def test_a_dump_of_a_call_is_judged_clean_and_a_wrong_result_is_not(tmp_path: Path) -> None:
    given = small().tensors()
    given = {name: given[name] for name in ("q", "kv", "dO", "indices", "topk_length", "sm_scale")}
    forward = {name: given[name] for name in ("q", "kv", "indices", "topk_length", "sm_scale")}
    given["o"], given["lse"] = sparse_mla(**forward)
    dq, dkv, _ = sparse_mla_backward(**given, backend="emulator")
    for name, factor in (("right", 1.0), ("wrong", 1.5)):
        path = tmp_path / f"{name}.safetensors"
        save(path, **given, dq=dq * factor, dkv=dkv)
        dump = named(SPARSE_MLA_BWD, read(path), lse_base="e")
        verdict = judge_tensors(SPARSE_MLA_BWD, dump, name).verdict
        assert verdict == ("clean" if name == "right" else "defect")


def test_a_finding_of_the_emulator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileproof.conformance.drivers import emulator

    own = emulator.launch_on
    monkeypatch.setattr(emulator, "launch_on", lambda *a, **k: own(*a, **k, instruction_limit=1000))
    with pytest.raises(TileproofError, match="failed on the emulator"):
        sparse_mla_backward(**small().tensors(), backend="emulator")


def test_without_torch_the_extra_is_named_and_only_this_package_needs_it() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import tileproof, tileproof.launches; import tileproof.ops"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'tileproof[ops]'" in done.stderr.splitlines()[-1]
    code = "import sys, tileproof.conformance.cli.app; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class Operators(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def test_the_operator_is_seen_by_whoever_listens() -> None:
    given, name = drawn(2, 3, 20, 12, 8, 9), "tileproof.sparse_mla_backward.default"
    alone = sparse_mla_backward(**given)
    with Operators() as seen:
        made = sparse_mla_backward(**given)
    assert name in seen.names and all(torch.equal(x, y) for x, y in zip(made[:2], alone[:2], strict=True))
    with torch.profiler.profile() as profile:
        sparse_mla_backward(**given)
    assert any(event.key == "tileproof::sparse_mla_backward" for event in profile.key_averages())
    leaf = given["q"].requires_grad_()
    assert not sparse_mla_backward(**given | {"q": leaf.detach()})[0].requires_grad
    with pytest.raises(TileproofError, match="has no gradient"):
        sparse_mla_backward(**given)[0].sum().backward()


def test_a_deterministic_call_on_the_emulator_is_the_same_gradient() -> None:
    given = drawn(3, 2, 5, 576, 512, 40, dtype=torch.bfloat16)
    given["topk_length"] = torch.tensor([40, 0, 17], dtype=torch.int32)
    known = sparse_mla_backward(**given, dkv_dtype=torch.float32)
    made = sparse_mla_backward(**given, dkv_dtype=torch.float32, backend="emulator", deterministic=True)
    usual = sparse_mla_backward(**given, dkv_dtype=torch.float32, backend="emulator")
    assert torch.equal(made[0], usual[0])
    assert (made[1] - known[1]).norm() < 0.01 * known[1].norm()
