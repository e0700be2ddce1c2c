"""The launches of the backend `cuda` that a card of sm_90 can run, beside torch on that card.

TILEPROOF_KERNELS names a folder of `tileproof build head64 --cubins`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tileproof.kernels.sm90.mla_around import launches
from tileproof.ops import around, cuda, reference, sparse_mla, sparse_mla_backward, steps
from tileproof.ops.plan import CallStep, beside_entry
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import LN_2, LOG2_E
from torch import Tensor

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")
HALF = {torch.bfloat16: launches.CONVERT["bfloat16"], torch.float16: launches.CONVERT["float16"]}
ROWS, HEADS, TOKENS, D_QK = 1000, 64, 37, 576


@pytest.fixture
def card() -> Iterator[cuda.CudaLauncher]:
    """A launcher on the current stream."""
    torch.manual_seed(0)
    yield cuda.CudaLauncher(torch.device("cuda", 0), torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()


def start(card: cuda.CudaLauncher, name: str, tensors: dict[str, Tensor | None], **sizes: int) -> None:
    """A launch of an entry beside the backward, which may begin early where the operator lets it."""
    names = {buffer: None if tensor is None else buffer for buffer, tensor in tensors.items()}
    entry = beside_entry(name)
    card.start(CallStep(entry, names, sizes, programmatic=entry.layout.programmatic), tensors)


def sink_case() -> tuple[dict[str, Tensor | None], Tensor]:
    """Inputs of d_sink with an output, and d_sink in float64."""
    lse, delta = torch.randn(TOKENS, HEADS, device="cuda"), torch.randn(TOKENS, HEADS, device="cuda")
    sink = torch.randn(HEADS, device="cuda")
    lse = torch.maximum(lse, sink * LOG2_E)
    exact = reference._d_sink(lse.double() * LN_2, delta.double(), sink)
    return {"lse": lse, "delta": delta, "sink": sink, "d_sink": torch.empty_like(sink)}, exact


@pytest.mark.parametrize("dtype", HALF)
def test_clear_and_convert(card: cuda.CudaLauncher, dtype: torch.dtype) -> None:
    wide = torch.randn(ROWS, D_QK, device="cuda") * 100
    narrow = card.empty((ROWS, D_QK), dtype)
    start(card, HALF[dtype], {"wide": wide, "narrow": narrow}, count=wide.numel())
    assert torch.equal(narrow.view(torch.int16), wide.to(dtype).view(torch.int16))
    start(card, launches.CLEAR, {"values": wide}, count=wide.numel() - 5)
    assert not wide.flatten()[:-5].any() and wide.flatten()[-5:].all()


def test_d_sink(card: cuda.CudaLauncher) -> None:
    tensors, exact = sink_case()
    start(card, launches.D_SINK, tensors, s_q=TOKENS, h_q=HEADS)
    assert tensors["d_sink"] is not None
    assert torch.allclose(tensors["d_sink"].double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("with_length", [False, True])
def test_expand_and_collect(card: cuda.CudaLauncher, with_length: bool) -> None:
    topk = 64
    kv = torch.randn(ROWS, D_QK, device="cuda").bfloat16()
    indices = torch.randint(-1, ROWS + 1, (TOKENS, topk), dtype=torch.int32, device="cuda")
    lengths = torch.randint(0, topk + 1, (TOKENS,), dtype=torch.int32, device="cuda")
    slots, rows = card.empty((TOKENS, topk), torch.int32), card.empty((TOKENS * topk, D_QK), torch.bfloat16)
    sizes = {"s_q": TOKENS, "s_kv": ROWS, "topk": topk, "d_qk": D_QK}
    given = {"kv": kv, "indices": indices, "topk_length": lengths if with_length else None}
    start(card, launches.EXPAND, {**given, "slots": slots, "rows": rows}, **sizes)
    keys = (indices >= 0) & (indices < ROWS)
    if with_length:
        keys &= torch.arange(topk, device="cuda") < lengths[:, None]
    number = torch.arange(TOKENS * topk, device="cuda").view(TOKENS, topk)
    assert torch.equal(slots.long(), torch.where(keys, number, -1))
    flat = keys.flatten()
    assert torch.equal(rows[flat], kv[indices.flatten()[flat].long()])
    wide, sums = torch.randn(TOKENS * topk, D_QK, device="cuda"), card.empty((ROWS, D_QK), torch.float32)
    start(card, launches.COLLECT, {"wide": wide, "indices": indices, "slots": slots, "dKV": sums}, **sizes)
    exact = torch.zeros(ROWS, D_QK, dtype=torch.float64, device="cuda")
    exact.index_add_(0, indices.flatten()[flat].long(), wide[flat].double())
    assert torch.allclose(sums.double(), exact, rtol=1e-5, atol=1e-4)
    again = torch.empty_like(sums)
    start(card, launches.COLLECT, {"wide": wide, "indices": indices, "slots": slots, "dKV": again}, **sizes)
    assert torch.equal(sums, again)


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.mem_get_info()[1] < 40 * 2**30, reason="needs 40 GiB on the card"
)
def test_more_than_2_to_31_elements(card: cuda.CudaLauncher) -> None:
    """Offsets beyond int32: the last elements and rows are those of torch."""
    count = 2**31 + 1029
    wide, narrow = torch.full((count,), 1.0, device="cuda"), card.empty((count,), torch.bfloat16)
    wide[-4:] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    start(card, HALF[torch.bfloat16], {"wide": wide, "narrow": narrow}, count=count)
    assert narrow[-5:].tolist() == [1, 1, 2, 3, 4] and narrow[2**31].item() == 1
    assert int(narrow.eq(1).count_nonzero()) == count - 3
    start(card, launches.CLEAR, {"values": wide}, count=count - 1)
    assert int(wide.count_nonzero()) == 1 and wide[-1].item() == 4
    del wide, narrow
    s_q, topk = 2048, 2048
    kv = torch.randint(-8, 9, (ROWS, D_QK), device="cuda").bfloat16()
    indices = torch.randint(0, ROWS, (s_q, topk), dtype=torch.int32, device="cuda")
    slots, rows = around.expand(kv, indices)
    assert rows.numel() > 2**31 and torch.equal(rows[-topk:], kv[indices[-1].long()])
    kept = torch.arange(s_q * topk, device="cuda") >= s_q * topk - 3 * topk
    wide = rows.float().mul_(kept[:, None])
    del rows
    known = torch.zeros(ROWS, D_QK, device="cuda")  # sums of integers are exact in any order
    known.index_add_(0, indices[-3:].flatten().long(), wide[-3 * topk :])
    assert torch.equal(around.collect(wide, indices, slots, ROWS), known)


def test_launches_in_a_graph_and_on_another_stream() -> None:
    torch.manual_seed(1)
    stream = torch.cuda.Stream()
    wide = torch.randn(ROWS, D_QK, device="cuda")
    narrow = torch.empty(ROWS, D_QK, dtype=torch.bfloat16, device="cuda")
    tensors, _ = sink_case()

    def work() -> None:
        card = cuda.CudaLauncher(torch.device("cuda", 0), torch.cuda.current_stream().cuda_stream)
        start(card, HALF[torch.bfloat16], {"wide": wide, "narrow": narrow}, count=wide.numel())
        start(card, launches.D_SINK, tensors, s_q=TOKENS, h_q=HEADS)
        start(card, launches.CLEAR, {"values": wide}, count=wide.numel())

    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    assert narrow.any() and not wide.any()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for seed in range(3):
        torch.manual_seed(seed)
        wide.copy_(torch.randn(ROWS, D_QK, device="cuda"))
        want = wide.bfloat16()
        other, exact = sink_case()
        for name in ("lse", "delta", "sink"):
            tensors[name].copy_(other[name])  # type: ignore[union-attr, arg-type]
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(narrow, want) and not wide.any()
        assert torch.allclose(tensors["d_sink"].double(), exact, rtol=1e-5, atol=1e-5)  # type: ignore[union-attr]


def between(kv: Tensor, indices: Tensor, lse: Tensor, sink: Tensor, factor: Tensor) -> tuple[Tensor, ...]:
    """All operators, between operations of torch."""
    slots, rows = around.expand(kv * 2, indices)
    wide = torch.randn_like(factor).expand(rows.shape).contiguous()
    around.clear_(wide)
    sums = around.collect(wide + rows.float() * factor, indices, slots, kv.shape[0])
    gradient = around.d_sink(torch.maximum(lse, sink * LOG2_E), (lse * factor).abs(), sink)
    return around.convert(sums + 1, torch.bfloat16) * 2, gradient + 1


def test_a_compiled_function_has_the_bits_of_the_uncompiled() -> None:
    """The whole graph, by inductor, on another stream too and in a CUDA graph. Products are by powers of two,
    so that torch's fused operations round as its single operations do.
    """
    torch.manual_seed(3)
    kv = torch.randn(ROWS, D_QK, device="cuda").bfloat16()
    indices = torch.randint(-1, ROWS + 1, (TOKENS, 64), dtype=torch.int32, device="cuda")
    lse, sink = torch.randn(TOKENS, HEADS, device="cuda"), torch.randn(HEADS, device="cuda")
    given = kv, indices, lse, sink, torch.full((1,), 0.5, device="cuda")
    compiled = torch.compile(between, fullgraph=True)
    known, made = between(*given), compiled(*given)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = compiled(*given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = compiled(*given)
    graph.replay()
    torch.cuda.synchronize()
    for each in (made, other, replayed):
        assert all(torch.equal(x, y) for x, y in zip(known, each, strict=True))
    assert known[0].isfinite().all() and known[1].isfinite().all()


def test_the_reference_is_that_of_the_cpu_and_the_kernels_are_refused_by_name() -> None:
    torch.manual_seed(2)
    q, kv = torch.randn(3, 16, D_QK).bfloat16(), torch.randn(50, D_QK).bfloat16()
    indices = torch.randint(-1, 51, (3, 40), dtype=torch.int32)
    dO = torch.randn(3, 16, 512).bfloat16()
    o, lse = sparse_mla(q, kv, indices)
    there = [each.cuda() for each in (q, kv, o, dO, lse, indices)]
    for x, y in zip(
        sparse_mla_backward(q, kv, o, dO, lse, indices)[:2],
        sparse_mla_backward(*there, backend="reference")[:2],
        strict=True,
    ):
        assert torch.allclose(x.float(), y.cpu().float(), rtol=2**-7, atol=1e-3)
    if cuda.runs_on(there[0].device):
        made, known = sparse_mla_backward(*there), sparse_mla_backward(*there, backend="reference")
        for x, y in zip(made[:2], known[:2], strict=True):
            assert x is not None and y is not None and (x - y).norm() < 0.01 * y.norm()
        return
    with pytest.raises(TileproofError, match="no kernel for this device") as error:
        sparse_mla_backward(*there, backend="cuda")
    assert "compute capability" in error.value.found
    with pytest.raises(TileproofError, match="no backend runs kernels"):
        sparse_mla_backward(*there)
    call = steps.Call(
        there[0],
        there[1],
        there[2],
        there[3],
        there[4],
        there[5],
        None,
        None,
        0.04,
        "e",
        torch.bfloat16,
        False,
    )
    with pytest.raises(TileproofError, match="a call of the CUDA driver failed"):
        cuda.backward(call)
