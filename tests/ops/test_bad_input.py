"""Bad input: each error names the argument, what was expected and what was found, and nothing is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tileproof.conformance.drivers import emulator
from tileproof.ops import SparseMLA, fold_sink, reference
from tileproof.spec.machine.errors import TileproofError
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.kit.ops_calls import sparse_mla, sparse_mla_backward

S_Q, H, S_KV, D, D_V, TOPK = 4, 3, 9, 12, 8, 5
BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64
Change = Callable[[dict[str, Any]], object]


def right(batch: tuple[int, ...] = (), dtype: torch.dtype = BF16) -> dict[str, Any]:
    """Arguments that fit."""
    return {
        "q": torch.zeros(*batch, S_Q, H, D, dtype=dtype),
        "kv": torch.zeros(*batch, S_KV, D, dtype=dtype),
        "o": torch.zeros(*batch, S_Q, H, D_V, dtype=dtype),
        "dO": torch.zeros(*batch, S_Q, H, D_V, dtype=dtype),
        "lse": torch.zeros(*batch, S_Q, H),
        "indices": torch.zeros(*batch, S_Q, TOPK, dtype=torch.int32),
        "topk_length": torch.zeros(*batch, S_Q, dtype=torch.int32),
        "sink": torch.zeros(H),
        "backend": "reference",
    }


def for_the_kernels() -> dict[str, Any]:
    """Arguments that the emulator takes."""
    given = {
        "q": torch.zeros(2, 16, 576, dtype=BF16),
        "kv": torch.zeros(9, 576, dtype=BF16),
        "o": torch.zeros(2, 16, 512, dtype=BF16),
        "dO": torch.zeros(2, 16, 512, dtype=BF16),
    }
    rest = {"lse": torch.zeros(2, 16), "indices": torch.zeros(2, 5, dtype=torch.int32)}
    return {**given, **rest, "backend": "emulator"}


def tokens(count: int, heads: int, deterministic: bool = False) -> Change:
    """So many tokens that are the first token again, in its memory."""

    def change(given: dict[str, Any]) -> None:
        for name in ("q", "o", "dO", "lse"):
            given[name] = given[name][:1, :heads].expand(count, *given[name][:1, :heads].shape[1:])
        given["indices"] = given["indices"][:1, :1].expand(count, 130)
        given["deterministic"] = deterministic

    return change


def with_out(change: Callable[[dict[str, Any], list[Any]], object]) -> Change:
    """Right outputs, changed."""

    def changed(given: dict[str, Any]) -> None:
        out = [torch.zeros(S_Q, H, D, dtype=BF16), torch.zeros(S_KV, D, dtype=BF16), torch.zeros(H)]
        made = change(given, out)
        given["out"] = made if isinstance(made, tuple) else tuple(out)

    return changed


def put(name: str, value: Any) -> Change:
    """Another value of an argument; a function is applied to the right value."""
    return lambda given: given.update({name: value(given[name]) if callable(value) else value})


def at(number: int, value: Any) -> Change:
    """Another output."""
    return with_out(lambda given, out: out.__setitem__(number, value(out[number])))


def resized(change: Callable[[dict[str, Any]], Any]) -> Change:
    return lambda given: given.update(change(given))


INT = torch.int32
# The argument that the error names, a part of what it expects, a part of what it finds, and the change.
WRONG: dict[str, tuple[str, str, str, Change]] = {
    # types
    "q a list": ("q", "torch.Tensor", "list", put("q", lambda q: q.tolist())),
    "kv None": ("kv", "torch.Tensor", "NoneType", put("kv", None)),
    "o None": ("o", "torch.Tensor", "NoneType", put("o", None)),
    "indices a list": ("indices", "torch.Tensor", "list", put("indices", lambda x: x.tolist())),
    "topk_length a number": ("topk_length", "torch.Tensor", "int", put("topk_length", 3)),
    "sink a number": ("sink", "torch.Tensor", "float", put("sink", 1.0)),
    "kv sparse": ("kv", "torch.strided", "torch.sparse_coo", put("kv", lambda kv: kv.float().to_sparse())),
    # dtypes
    "q integers": ("q", "torch.bfloat16", "torch.int32", put("q", lambda q: q.int())),
    "kv f16": ("kv", "torch.bfloat16", "torch.float16", put("kv", lambda kv: kv.half())),
    "o f32": ("o", "torch.bfloat16", "torch.float32", put("o", lambda o: o.float())),
    "dO f32": ("dO", "torch.bfloat16", "torch.float32", put("dO", lambda dO: dO.float())),
    "lse bf16": ("lse", "torch.float32", "torch.bfloat16", put("lse", lambda lse: lse.bfloat16())),
    "lse f64": ("lse", "torch.float32", "torch.float64", put("lse", lambda lse: lse.double())),
    "sink bf16": ("sink", "torch.float32", "torch.bfloat16", put("sink", lambda x: x.bfloat16())),
    "indices f32": ("indices", "torch.int32", "torch.float32", put("indices", lambda x: x.float())),
    "indices i16": ("indices", "torch.int32", "torch.int16", put("indices", lambda x: x.short())),
    "indices u8": ("indices", "torch.int64", "torch.uint8", put("indices", lambda x: x.byte())),
    "topk_length i16": ("topk_length", "torch.int32", "torch.int16", put("topk_length", lambda x: x.short())),
    # shapes
    "q of 2 axes": ("q", "[s_q, h_q, d_qk]", "[12, 12]", put("q", lambda q: q.flatten(0, 1))),
    "q of 5 axes": ("q", "[b, s_q, h_q, d_qk]", "[1, 1, 4, 3, 12]", put("q", lambda q: q[None, None])),
    "q batched, kv not": ("kv", "[b, s_kv, d_qk] = [1, s_kv, 12]", "[9, 12]", put("q", lambda q: q[None])),
    "kv with a head": ("kv", "[s_kv, d_qk]", "[9, 1, 12]", put("kv", lambda kv: kv[:, None])),
    "kv narrower": ("kv", "[s_kv, 12]", "[9, 11]", put("kv", lambda kv: kv[:, :-1])),
    "o of other tokens": ("o", "[4, 3, d_v]", "[3, 3, 8]", put("o", lambda o: o[1:])),
    "o of other heads": ("o", "[4, 3, d_v]", "[4, 2, 8]", put("o", lambda o: o[:, 1:])),
    "o wider than kv": ("o", "d_qk = 12", "13", resized(lambda given: {
        name: torch.zeros(S_Q, H, 13, dtype=BF16) for name in ("o", "dO")})),
    "dO narrower": ("dO", "[4, 3, 8]", "[4, 3, 7]", put("dO", lambda dO: dO[..., 1:])),
    "lse transposed": ("lse", "[4, 3]", "[3, 4]", put("lse", lambda lse: lse.T)),
    "indices of other tokens": ("indices", "[4, topk]", "[5, 4]", put("indices", lambda x: x.T)),
    "indices of one axis": ("indices", "[4, topk]", "[20]", put("indices", lambda x: x.flatten())),
    "topk_length per slot": ("topk_length", "[4]", "[4, 5]", put("topk_length", torch.zeros(4, 5).int())),
    "sink of other heads": ("sink", "[3]", "[4]", put("sink", torch.zeros(4))),
    # devices
    "kv elsewhere": ("kv", "cpu, as q is", "meta", put("kv", lambda kv: kv.to("meta"))),
    "indices elsewhere": ("indices", "cpu, as q is", "meta", put("indices", lambda x: x.to("meta"))),
    "sink elsewhere": ("sink", "cpu, as q is", "meta", put("sink", lambda x: x.to("meta"))),
    # extents
    "rows of q": ("q", "at most 2147483647 rows", str(2**31), resized(lambda given: {
        "q": given["q"][:1, :1].expand(2**31, 1, D), "o": given["o"][:1, :1].expand(2**31, 1, D_V),
        "dO": given["dO"][:1, :1].expand(2**31, 1, D_V), "lse": given["lse"][:1, :1].expand(2**31, 1),
        "indices": given["indices"][:1].expand(2**31, TOPK), "topk_length": None, "sink": None})),
    "rows of kv": ("kv", "at most 2147483647 rows", str(2**31), put(
        "kv", lambda kv: kv[:1].expand(2**31, D))),
    "slots": ("indices", "at most 2147483647 slots", str(2**31), put(
        "indices", lambda x: x[:, :1].expand(S_Q, 2**31))),
    # numbers and choices
    "scale 0": ("sm_scale", "> 0", "0.0", put("sm_scale", 0.0)),
    "scale negative": ("sm_scale", "> 0", "-1.0", put("sm_scale", -1.0)),
    "scale nan": ("sm_scale", "> 0", "nan", put("sm_scale", float("nan"))),
    "scale inf": ("sm_scale", "> 0", "inf", put("sm_scale", float("inf"))),
    "scale a tensor": ("sm_scale", "a float", "tensor(1.)", put("sm_scale", torch.tensor(1.0))),
    "scale true": ("sm_scale", "a float", "True", put("sm_scale", True)),
    "base 10": ("lse_base", "'e' or '2'", "'10'", put("lse_base", "10")),
    "base 2, a number": ("lse_base", "'e' or '2'", "2", put("lse_base", 2)),
    "deterministic 1": ("deterministic", "False or True", "1", put("deterministic", 1)),
    "sink_in_lse None": ("sink_in_lse", "False or True", "None", put("sink_in_lse", None)),
    "backend unknown": ("backend", "'reference' or 'cuda' or 'emulator'", "'gpu'", put("backend", "gpu")),
    "dkv_dtype i32": ("dkv_dtype", "torch.bfloat16", "torch.int32", put("dkv_dtype", INT)),
    "dkv_dtype f64": ("dkv_dtype", "torch.float32", "torch.float64", put("dkv_dtype", F64)),
    # packed sequences
    "sequences a list": ("cu_seqlens", "or a tensor for each", "3 elements", put("cu_seqlens", [0, 1, 2])),
    "sequences f32": ("cu_seqlens", "torch.int32", "torch.float32", put("cu_seqlens", torch.zeros(2))),
    "sequences of 2 axes": ("cu_seqlens", "[n + 1]", "[1, 2]", put("cu_seqlens", torch.tensor([[0, 4]]))),
    "no sequence": ("cu_seqlens", "[n + 1]", "[1]", put("cu_seqlens", torch.tensor([0]))),
    "sequences that shrink": ("cu_seqlens", "not decreasing", "[0, 3, 2, 4]", put(
        "cu_seqlens", (torch.tensor([0, 3, 2, 4]), torch.tensor([0, 1, 1, 9])))),
    "sequences from -1": ("cu_seqlens", "0, ...", "[-1, 4]", put(
        "cu_seqlens", (torch.tensor([-1, 4]), torch.tensor([0, 9])))),
    "sequences end early": ("cu_seqlens", "9 (rows of kv)", "[0, 4]", put(
        "cu_seqlens", torch.tensor([0, 4]))),
    "sequences and batches": ("cu_seqlens", "q [s_q, h_q, d_qk]", "[1, 4, 3, 12]", resized(
        lambda given: {**right((1,)), "cu_seqlens": torch.tensor([0, 4])})),
    # outputs
    "out a tensor": ("out", "(dq, dkv, d_sink)", "Tensor", put("out", torch.zeros(1))),
    "out of two": ("out", "(dq, dkv, d_sink)", "2 elements", with_out(lambda given, out: tuple(out[:2]))),
    "out None": ("out[1] (dkv)", "torch.Tensor", "NoneType", at(1, lambda x: None)),
    "out shape": ("out[0] (dq)", "[4, 3, 12]", "[3, 3, 12]", at(0, lambda x: x[1:])),
    "out dtype": ("out[1] (dkv)", "torch.bfloat16", "torch.float32", at(1, lambda x: x.float())),
    "out device": ("out[2] (d_sink)", "cpu", "meta", at(2, lambda x: x.to("meta"))),
    "out a leaf": ("out[2] (d_sink)", "False", "True", at(2, lambda x: x.requires_grad_())),
    "out strides": ("out[1] (dkv)", "C order", "strides [1, 9]", at(
        1, lambda x: torch.zeros(D, S_KV, dtype=BF16).T)),
    "out expanded": ("out[0] (dq)", "C order", "strides [0, 12, 1]", at(
        0, lambda x: x[:1].expand(S_Q, H, D))),
    "out alignment": ("out[1] (dkv)", "multiple of 16", "(2 bytes past)", at(
        1, lambda x: torch.zeros(S_KV * D + 1, dtype=BF16)[1:].view(S_KV, D))),
    "out is q": ("out[0] (dq)", "memory of its own", "288 bytes of q", with_out(
        lambda given, out: out.__setitem__(0, given["q"]))),
    "out in lse": ("out[2] (d_sink)", "memory of its own", "12 bytes of lse", with_out(
        lambda given, out: out.__setitem__(2, given["lse"][0]))),
    "outputs overlap": ("out[1] (dkv)", "memory of its own", "of out[0] (dq)", with_out(
        lambda given, out: out.__setitem__(1, out[0].flatten()[: S_KV * D].view(S_KV, D)))),
}  # fmt: skip
OF_THE_KERNELS: dict[str, tuple[str, str, str, Change]] = {
    "f32": ("q", "torch.bfloat16 or torch.float16", "torch.float32", resized(
        lambda given: {name: given[name].float() for name in ("q", "kv", "o", "dO")})),
    "129 heads": ("q", "at most 128 heads", "129", resized(lambda given: {
        name: given[name][:, :1].repeat_interleave(129, 1) for name in ("q", "o", "dO", "lse")})),
    "d_qk 544": ("q", "d_qk 576 or 512", "544", resized(
        lambda given: {name: given[name][..., :544] for name in ("q", "kv")})),
    "d_v 500": ("o", "d_v 512", "500", resized(
        lambda given: {name: given[name][..., :500] for name in ("o", "dO")})),
    "rows with padded heads": ("q", "at most 2147483647 rows", str(2**26 * 64), tokens(2**26, 1)),
    "slots": ("deterministic", "at most 2147481599 slots", str(2**24 * 192), tokens(2**24, 1, True)),
    "lse below the sink": ("lse[0, 0]", "at least", "0", put("sink", torch.full((16,), 9.0))),
}  # fmt: skip


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ran, of both backends."""
    ran: list[str] = []

    def noted(own: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            ran.append("ran")
            return own(*given, **named)

        return run

    for module, name in ((reference, "backward"), (emulator, "run")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    return ran


def named(error: TileproofError, where: str, expected: str, found: str) -> bool:
    """Whether the error names the argument, what was expected, and what was found."""
    return error.where == where and expected in error.expected and found in error.found


@pytest.mark.parametrize("case", WRONG)
def test_an_argument_that_does_not_fit_is_named(case: str, launched: list[str]) -> None:
    where, expected, found, change = WRONG[case]
    sparse_mla_backward(**right())  # what is kept of a call that fits does not let this one pass
    launched.clear()
    given = right()
    change(given)
    with pytest.raises(TileproofError) as caught:
        sparse_mla_backward(**given)
    assert named(caught.value, where, expected, found), caught.value
    assert not launched


@pytest.mark.parametrize("case", OF_THE_KERNELS)
def test_what_the_kernels_do_not_compute_is_named(case: str, launched: list[str]) -> None:
    where, expected, found, change = OF_THE_KERNELS[case]
    given = for_the_kernels()
    change(given)
    with pytest.raises(TileproofError) as caught:
        sparse_mla_backward(**given)
    assert named(caught.value, where, expected, found), caught.value
    assert not launched


def test_arguments_that_fit_are_launched(launched: list[str]) -> None:
    for given in (right(), right((2,)), right(dtype=F32), right(dtype=torch.float16)):
        sparse_mla_backward(**given)
    out = with_out(lambda given, out: None)
    given = right()
    out(given)
    made = sparse_mla_backward(**given)
    assert all(mine is theirs for mine, theirs in zip(made, given["out"], strict=True))
    assert len(launched) == 5


@pytest.mark.parametrize("name", ["q", "kv", "indices", "topk_length", "sink"])
def test_the_forward_names_its_arguments(name: str) -> None:
    given = {key: value for key, value in right().items() if key not in ("o", "dO", "lse")}
    assert sparse_mla(**given, d_v=D_V)[0].shape == (S_Q, H, D_V)
    with pytest.raises(TileproofError) as caught:
        sparse_mla(**{**given, name: "x"}, d_v=D_V)
    assert named(caught.value, name, "torch.Tensor", "str")


def test_the_forward_names_what_the_gradient_does_not_compute() -> None:
    given = for_the_kernels()
    with pytest.raises(TileproofError) as caught:
        sparse_mla(given["q"].float(), given["kv"].float(), given["indices"], backend="emulator")
    assert named(caught.value, "q", "torch.bfloat16", "torch.float32")


@pytest.mark.parametrize("d_v", [-1, 13, True])
def test_a_width_that_is_none_is_named(d_v: Any) -> None:
    with pytest.raises(TileproofError) as caught:
        SparseMLA(H, d_v=d_v)(right()["q"], right()["kv"], right()["indices"])
    assert named(caught.value, "d_v", "d_qk = 12", str(d_v))


def test_a_device_without_a_kernel_is_named() -> None:
    with FakeTensorMode():
        given = {
            name: torch.empty(value.shape, dtype=value.dtype, device="cuda")
            for name, value in right().items()
            if name != "backend"
        }
        with pytest.raises(TileproofError) as caught:
            sparse_mla_backward(**given)
        assert named(caught.value, "backend", "reference: any device", "cuda")
        with pytest.raises(TileproofError) as caught:
            sparse_mla_backward(**given, backend="emulator")
        assert named(caught.value, "q", "a CPU tensor", "cuda")
        with pytest.raises(TileproofError) as caught:
            sparse_mla_backward(**given, backend="cuda")
        assert named(caught.value, "q", "compute capability 10.x", "cuda")
        with pytest.raises(TileproofError) as caught:
            sparse_mla_backward(**given, backend="reference", deterministic=True)
        assert named(caught.value, "deterministic", "CPU tensors", "cuda")
        assert sparse_mla_backward(**given, backend="reference")[0].device.type == "cuda"


def test_the_operator_itself_checks_its_arguments(launched: list[str]) -> None:
    given = right()
    names = ("q", "kv", "o", "dO", "lse", "indices", "topk_length", "sink")
    call = torch.ops.tileproof.sparse_mla_backward
    rest = (1.0, "e", False, BF16, "reference")
    call(*(given[name] for name in names), *rest)
    for bad in ({"lse": given["lse"].T}, {"q": given["q"][None]}, {"indices": given["indices"].float()}):
        with pytest.raises(TileproofError, match=next(iter(bad))):
            call(*({**given, **bad}[name] for name in names), *rest)
        with FakeTensorMode() as fake, pytest.raises(TileproofError):
            call(*(fake.from_tensor({**given, **bad}[name]) for name in names), *rest)
    assert len(launched) == 1


def test_a_sink_is_added_to_a_known_base_only() -> None:
    with pytest.raises(TileproofError, match="lse_base"):
        fold_sink(torch.zeros(1, 1), torch.zeros(1), "10")
