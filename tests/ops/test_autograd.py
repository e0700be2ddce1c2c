"""Gradients, fake tensors and torch.compile: `gradcheck`, `opcheck`, compiled calls, the module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tileproof.ops import SparseMLA, reference
from tileproof.spec.machine.errors import TileproofError
from torch.autograd import grad, gradcheck
from torch.library import opcheck
from torch.testing._internal.optests.generate_tests import OpCheckError

from tests.kit.ops_calls import small, sparse_mla, sparse_mla_backward

F64 = torch.float64
INDICES = torch.tensor([[0, 1, -1, 3], [6, 6, 9, 2], [-1, 7, -5, 8]], dtype=torch.int32)  # the last: no key


def leaves(*batch: int, seed: int = 0, heads: int = 3) -> tuple[torch.Tensor, ...]:
    """q, kv and sink in float64, of which gradients are asked."""
    torch.manual_seed(seed)
    shapes = ((*batch, 3, heads, 7), (*batch, 7, 7), (heads,))
    return tuple(torch.randn(shape, dtype=F64, requires_grad=True) for shape in shapes)


@pytest.mark.parametrize("with_sink", [False, True])
@pytest.mark.parametrize("lse_base", ["e", "2"])
def test_gradcheck(with_sink: bool, lse_base: str) -> None:
    q, kv, sink = leaves(heads=2)
    length = torch.tensor([4, 3, 4])

    def o(*x: torch.Tensor) -> torch.Tensor:
        own = x[2] if with_sink else None
        return sparse_mla(*x[:2], INDICES, d_v=5, sink=own, topk_length=length, lse_base=lse_base)[0]

    assert gradcheck(o, (q, kv, *[sink] * with_sink))


@pytest.mark.parametrize("factor", [1 + 1e-4, -1.0])
def test_gradcheck_sees_a_wrong_gradient(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    own = reference.backward
    monkeypatch.setattr(reference, "backward", lambda *x: tuple(part * factor for part in own(*x)))
    q, kv, _ = leaves(heads=2)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(lambda q, kv: sparse_mla(q, kv, INDICES, d_v=5)[0], (q, kv), atol=1e-7, rtol=1e-5)


def test_batches_and_packed_sequences_are_their_sequences() -> None:
    q, kv, sink = leaves(2)
    indices = torch.stack([INDICES, INDICES.flip(0)])
    o, lse = sparse_mla(q, kv, indices, d_v=5, sink=sink)
    of_batches = grad(o.sin().sum(), (q, kv, sink))
    ends = torch.tensor([0, 3, 6]), torch.tensor([0, 7, 14])
    packed = q.flatten(0, 1), kv.flatten(0, 1), indices.flatten(0, 1)
    packed_o, packed_lse = sparse_mla(*packed, d_v=5, sink=sink, cu_seqlens=ends)
    of_packed = grad(packed_o.sin().sum(), (q, kv, sink))
    assert torch.equal(o.flatten(0, 1), packed_o) and torch.equal(lse.flatten(0, 1), packed_lse)
    assert all(torch.equal(a, b) for a, b in zip(of_batches, of_packed, strict=True))
    for number in range(2):
        alone, _ = sparse_mla(q[number], kv[number], indices[number], d_v=5, sink=sink)
        assert torch.equal(alone, o[number])
        (dq,) = grad(alone.sin().sum(), q)
        assert torch.equal(dq[number], of_batches[0][number])


def test_lse_has_no_gradient() -> None:
    q, kv, _ = leaves()
    _, lse = sparse_mla(q, kv, INDICES, d_v=5)
    assert not lse.requires_grad


def arguments(with_sink: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Of the forward's and of the backward's operator."""
    q, kv, sink = leaves()
    own = sink if with_sink else None
    o, lse = sparse_mla(q, kv, INDICES, d_v=5, sink=own)
    given = [x.detach() for x in (q, kv, o, o.cos(), lse)]
    closed = None if own is None else own.detach()
    forward = (q, kv, INDICES, None, own, 0.3, 5, "e", "reference")
    return forward, (*given, INDICES, None, closed, 0.3, "e", False, F64, "reference")


@pytest.mark.parametrize("with_sink", [False, True])
def test_opcheck(with_sink: bool) -> None:
    forward, backward = arguments(with_sink)
    for operator, given in (("sparse_mla_forward", forward), ("sparse_mla_backward", backward)):
        done = opcheck(getattr(torch.ops.tileproof, operator).default, given)
        assert set(done.values()) == {"SUCCESS"} and len(done) == 4


def test_opcheck_sees_a_result_of_another_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    own = reference.forward
    monkeypatch.setattr(reference, "forward", lambda *x: (own(*x)[0], own(*x)[1].float()))
    with pytest.raises(OpCheckError):
        opcheck(torch.ops.tileproof.sparse_mla_forward.default, arguments(False)[0])


def test_a_compiled_call_is_the_same() -> None:
    q, kv, sink = leaves(2)
    indices = torch.stack([INDICES, INDICES.flip(0)])

    def loss(q: torch.Tensor, kv: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
        return sparse_mla(q * 2, kv, indices, d_v=5, sink=sink)[0].sin().sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    right, made = (grad(f(q, kv, sink), (q, kv, sink)) for f in (loss, compiled))
    assert all(torch.equal(a, b) for a, b in zip(right, made, strict=True))


def test_a_compiled_backward_is_the_same_and_checks_its_arguments() -> None:
    given = small().tensors()
    compiled = torch.compile(sparse_mla_backward, backend="aot_eager", fullgraph=True)
    for backend in ("reference", "emulator"):
        right, made = (f(**given, backend=backend) for f in (sparse_mla_backward, compiled))
        assert all(torch.equal(a, b) for a, b in zip(right, made, strict=True))
    partly = torch.compile(sparse_mla_backward, backend="aot_eager")  # may run outside its graph
    with pytest.raises(TileproofError, match="o has the wrong shape"):
        partly(**{**given, "o": given["o"][:1]})


def test_a_second_gradient_is_an_error() -> None:
    q, kv, _ = leaves()
    o, _ = sparse_mla(q, kv, INDICES, d_v=5)
    (dq,) = grad(o.sin().sum(), q, create_graph=True)
    with pytest.raises(TileproofError, match="has no gradient"):
        grad(dq.sum(), kv)


def test_meta_tensors_have_the_shapes_of_the_results() -> None:
    call = small().tensors()
    given = {n: x.to("meta") if isinstance(x, torch.Tensor) else x for n, x in call.items()}
    made, right = sparse_mla_backward(**given), sparse_mla_backward(**call)
    assert [(x.shape, x.dtype) for x in made] == [(x.shape, x.dtype) for x in right]


def test_the_module_trains_its_sink_through_the_kernels() -> None:
    given = small().tensors()
    q, kv = (given[name].requires_grad_() for name in ("q", "kv"))
    gradients = []
    for backend in ("reference", "emulator"):
        module = SparseMLA(16, sink=True, backend=backend)
        o = module(q, kv, given["indices"], given["topk_length"])
        gradients.append(grad(o, (q, kv, *module.parameters()), given["dO"]))
    for reference_gradient, kernel_gradient in zip(*gradients, strict=True):
        apart = (reference_gradient - kernel_gradient).float().norm()
        assert 0 < apart < 2.0**-6 * reference_gradient.float().norm()  # S and dS in bf16
    assert list(SparseMLA(16).parameters()) == []
