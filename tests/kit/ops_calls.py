"""Calls of `tileproof.ops` as Hypothesis strategies, and each as single sequences for the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from hypothesis import strategies as st
from tileproof import ops
from tileproof.spec.numerics import LN_2
from tileproof.spec.problems.sparse_mla_bwd import forward as plain
from tileproof.spec.problems.sparse_mla_bwd import sink_exact
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, OPERANDS, Inputs, Problem
from tileproof.spec.problems.sparse_mla_bwd.tensors import FORMS, TENSORS
from tileproof.spec.problems.tensors import base_2

Layout = Literal["flat", "batched", "packed", "packed pair"]
Array = npt.NDArray[Any]
# As functions of any arguments: tests make these by name.
sparse_mla: Callable[..., Any] = ops.sparse_mla
sparse_mla_backward: Callable[..., Any] = ops.sparse_mla_backward
INDICES = next(form for form in FORMS if form.name == "indices")
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class OpsCall:
    """The sequences of a call, its layout and options. o and lse of a sequence are in `dtype` and float32, or
    in float64; lse is to base 2 and holds the sink.
    """

    sequences: tuple[Inputs, ...]
    layout: Layout
    sink: Array | None
    lse_base: str
    strided: bool
    wide_index: bool
    sink_in_lse: bool
    lengths: bool

    def tensors(self) -> dict[str, Any]:
        """Positional and keyword arguments of `sparse_mla_backward` by name."""
        stacked = self.layout == "batched"
        given: dict[str, Any] = {}
        for name in ("q", "kv", "o", "dO", "lse", "indices", "topk_length"):
            if name == "topk_length" and not self.lengths:
                continue
            arrays = [getattr(each, name) for each in self.sequences]
            given[name] = as_tensor(np.stack(arrays) if stacked else np.concatenate(arrays))
        if self.sink is not None:
            given["sink"] = as_tensor(self.sink)
            if not self.sink_in_lse:
                keys = [plain.forward(each)[1].astype(each.lse.dtype) for each in self.sequences]
                given["lse"] = as_tensor(np.stack(keys) if stacked else np.concatenate(keys))
        if self.lse_base == "e":
            given["lse"] = given["lse"] * LN_2
        if self.wide_index:
            given["indices"] = given["indices"].long()
        if self.layout.startswith("packed"):
            ends = {
                axis: torch.tensor(np.cumsum([0, *(getattr(each.problem, axis) for each in self.sequences)]))
                for axis in ("s_q", "s_kv")
            }
            given["cu_seqlens"] = tuple(ends.values()) if "pair" in self.layout else ends["s_q"].int()
        if self.strided:
            given = {name: strided(value) for name, value in given.items()}
        given |= {"lse_base": self.lse_base, "sm_scale": self.sequences[0].problem.sm_scale}
        return given | {"sink_in_lse": self.sink_in_lse}

    def received(self) -> list[Inputs]:
        """Each sequence as a kernel gets it: the call's lse with the sink in it, to base 2 in float32, and
        whole k-blocks.
        """
        lse = self.tensors()["lse"]
        if self.sink is not None and not self.sink_in_lse:
            lse = ops.fold_sink(lse, as_tensor(self.sink), self.lse_base)
        pieces = [part.numpy() for part in self.parts(lse, "s_q")]
        return [
            replace(
                each,
                problem=replace(each.problem, topk=-(-each.problem.topk // B_TOPK) * B_TOPK),
                lse=base_2(piece) if self.lse_base == "e" else piece,
                indices=TENSORS.padded(INDICES, each.indices, None),
                topk_length=np.minimum(np.asarray(each.topk_length), each.problem.topk),
            )
            for each, piece in zip(self.sequences, pieces, strict=True)
        ]

    def parts(self, made: torch.Tensor, rows: str) -> Iterator[torch.Tensor]:
        """A result cut into that of each sequence; `rows`: s_q or s_kv."""
        if self.layout == "batched":
            yield from made
            return
        yield from made.split([getattr(each.problem, rows) for each in self.sequences])


def strided(value: Any) -> Any:
    """The same values with gaps between them and the axes in another order in memory."""
    if not isinstance(value, torch.Tensor) or value.dim() < 2:
        return value
    wide = value.transpose(0, -1).repeat_interleave(2, dim=0)[::2]
    return wide.transpose(0, -1)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor of an array; bf16 too."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array).copy())


def small() -> OpsCall:
    """One sequence of two tokens in the kernels' sizes, with every argument; no token selects row 8."""
    rng = np.random.default_rng(3)
    problem = Problem(2, 40, 16, 576, 70, 576**-0.5)
    indices = rng.choice(np.delete(np.arange(40), 8), (2, 70)).astype(np.int32)
    indices[0, :4] = [-1, 40, 7, 7]
    arrays: dict[str, Any] = {
        name: rng.standard_normal(problem.shapes()[name][0]).astype(ml_dtypes.bfloat16)
        for name in ("q", "kv", "dO")
    }
    sink = rng.standard_normal(16).astype(np.float32)
    lengths = np.array([69, 1], np.int32)
    inputs = sink_exact.with_forward(problem, sink, **arrays, indices=indices, topk_length=lengths)
    return OpsCall((inputs,), "flat", sink, "e", False, False, True, True)


@st.composite
def calls(draw: st.DrawFn, kernel: bool) -> OpsCall:
    """`kernel`: sizes and dtype of the kernels; else small sizes in float64 with the exact o and lse."""
    layout: Layout = draw(st.sampled_from(["flat", "batched", "packed", "packed pair"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    heads = draw(st.sampled_from([1, 16, 63, 64, 65, 128] if kernel else [1, 2, 5]))
    d_v = 512 if kernel else draw(st.sampled_from([1, 8]))
    d_qk = d_v + draw(st.sampled_from([0, 64] if kernel else [0, 3]))
    topk = draw(st.sampled_from([1, 63, 64, 65, 130] if kernel else [1, 7, 40]))
    scale = draw(st.sampled_from([1.0, 1e-3, 4.0]))
    sink = draw(st.sampled_from([None, 0.0, 3.0, -np.inf, np.inf]))
    form = draw(st.sampled_from(["bf16", "f16"] if kernel else ["bf16"]))
    dtype = OPERANDS[form] if kernel else np.float64
    logits = None
    if sink is not None:
        logits = (rng.standard_normal(heads) + sink).astype(np.float32 if kernel else np.float64)
    count = 1 if layout == "flat" else draw(st.integers(1, 2 if kernel else 3))
    sizes = draw(st.sampled_from([1, 2] if kernel else [1, 4])), draw(st.sampled_from([1, 9, 100]))
    lengths = draw(st.booleans())
    sequences: list[Inputs] = []
    for _ in range(count):
        s_q, s_kv = sizes
        if layout == "packed":
            s_kv = s_q
        problem = Problem(s_q, s_kv, heads, d_qk, topk, draw(st.sampled_from([d_qk**-0.5, 0.25])), d_v, form)
        problem = replace(problem, sm_scale=sequences[0].problem.sm_scale) if sequences else problem
        indices = rng.integers(0, s_kv, (s_q, topk))
        if draw(st.booleans()):
            others = rng.choice([-1, s_kv, s_kv + 7, INT_MIN, INT_MAX], indices.shape)
            indices = np.where(rng.random(indices.shape) < draw(st.sampled_from([0.3, 1.0])), others, indices)
        ends = [0, 1, topk // 2, topk, topk + 1, -1, INT_MAX]
        arrays = {
            "q": rng.standard_normal((s_q, heads, d_qk)) * scale,
            "kv": rng.standard_normal((s_kv, d_qk)) * scale,
            "dO": rng.standard_normal((s_q, heads, d_v)),
        }
        typed: dict[str, Any] = {name: value.astype(dtype) for name, value in arrays.items()}
        whole = (rng.choice(ends, s_q) if lengths else np.full(s_q, topk)).astype(np.int32)
        given = {**typed, "indices": indices.astype(np.int32), "topk_length": whole}
        if logits is None:
            sequences.append(plain.with_forward(problem, exact=not kernel, **given))
        else:
            sequences.append(sink_exact.with_forward(problem, logits, exact=not kernel, **given))
        if not kernel and layout != "batched" and layout != "flat":
            sizes = draw(st.sampled_from([1, 4])), draw(st.sampled_from([1, 9]))
    return OpsCall(
        tuple(sequences),
        layout,
        logits,
        draw(st.sampled_from(["e", "2"])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()) if logits is not None and np.isfinite(logits).all() else True,
        lengths,
    )
