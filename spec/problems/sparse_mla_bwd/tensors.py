"""Sparse MLA's tensors by name: what a dump may hold, and the conventions of other projects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np
from tileproof.spec.arithmetic import BF16, F16, F32, Form
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import VectorCase
from tileproof.spec.problems.sparse_mla_bwd.forward import forward, with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import B_TOPK, Inputs, Problem, key_mask
from tileproof.spec.problems.sparse_mla_bwd.stages import PLAIN, MlaRoundingPlan
from tileproof.spec.problems.tensors import (
    K_BLOCKS,
    Convention,
    TensorForm,
    TensorForms,
    base_2,
    check_lse,
    narrowed,
)

INTS = ("int32", "int64")
DTYPES = {BF16: np.dtype(ml_dtypes.bfloat16), F16: np.dtype(np.float16), F32: np.dtype(np.float32)}
_KEYS = ("s_q", "h_q", "topk")


def forms_of(plan: MlaRoundingPlan) -> tuple[TensorForm, ...]:
    """The tensors of a kernel that rounds as `plan` says; what it holds in 16 bits may be dumped in f32."""

    def floats(*of: Form | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(DTYPES[form or plan.operand].name for form in (*of, F32)))

    own = floats(plan.operand)
    return (
        TensorForm("q", ("s_q", "h_q", "d_qk"), own, "input"),
        TensorForm("kv", ("s_kv", "d_qk"), own, "input"),
        TensorForm("o", ("s_q", "h_q", "d_v"), own, "input"),
        TensorForm("dO", ("s_q", "h_q", "d_v"), own, "input"),
        TensorForm("lse", ("s_q", "h_q"), ("float32",), "input"),
        TensorForm("indices", ("s_q", "topk"), INTS, "input"),
        TensorForm("topk_length", ("s_q",), INTS, "input", optional=True),
        TensorForm("delta", ("s_q", "h_q"), ("float32",), "stage", "delta"),
        TensorForm("P", _KEYS, ("float32",), "stage", "P"),
        TensorForm("S", _KEYS, floats(plan.softmax), "stage", "S"),
        TensorForm("dP", _KEYS, ("float32",), "stage", "dP"),
        TensorForm("dS", _KEYS, floats(plan.gradient), "stage", "dS"),
        TensorForm("dq_sums", ("s_q", K_BLOCKS, "h_q", "d_qk"), ("float32",), "stage", "dQ"),
        TensorForm("dq", ("s_q", "h_q", "d_qk"), own, "output", "dQ"),
        TensorForm("dkv", ("s_kv", "d_qk"), floats(plan.rows), "output", "dKV"),
    )


FORMS = forms_of(PLAIN)
OWN = {form.name: form.name for form in FORMS}
CONVENTIONS = (
    Convention("tileproof", OWN, "docs/tensors.md", "2"),
    # The base changed: log2 before the prefill kernels of 2026, natural since.
    Convention(
        "flashmla",
        OWN | {"o": "out", "dO": "d_out", "dq": "d_q", "dkv": "d_kv"},
        "deepseek-ai/FlashMLA, flash_mla/flash_mla_interface.py, and its pull request 198",
        "",
        {"kv": 1, "indices": 1, "dkv": 1},
    ),
    Convention(
        "cudnn-frontend",
        OWN | {"o": "out", "dO": "dout", "indices": "topk_idxs"},
        "nvidia-cudnn-frontend 1.32.0, cudnn/deepseek_sparse_attention/sparse_attention_backward/api.py",
        "e",
    ),
    Convention(
        "tilelang",
        OWN | {"dO": "do"},
        "tile-ai/tilelang, examples/deepseek_v32/sparse_mla_bwd.py",
        "2",
        {"kv": -2, "indices": -2, "dkv": -2},
        batched=True,
    ),
)
PROBED_TOKENS = 4  # that lse is compared with the forward on


class SparseMlaTensors(TensorForms):
    """Any numbers of heads, slots and rows; topk is padded with -1 to whole k-blocks."""

    conventions = CONVENTIONS
    scalars = ("sm_scale",)

    def __init__(self, plan: MlaRoundingPlan) -> None:
        self._plan, self._forms = plan, forms_of(plan)

    @property
    def forms(self) -> tuple[TensorForm, ...]:
        return self._forms

    def inputs(self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str) -> Inputs:
        """The inputs; lse is brought to base 2 and compared with the forward on a few tokens."""
        (s_q, h_q, d_qk), (s_kv, _), (*_, d_v) = (tensors[name].shape for name in ("q", "kv", "o"))
        indices = self.padded(FORMS[5], _int32("indices", tensors["indices"]), None)
        problem = Problem(
            s_q, s_kv, h_q, d_qk, indices.shape[1], scalars["sm_scale"], d_v, self._plan.operand.name
        )
        lengths = tensors.get("topk_length")
        lse = tensors["lse"] if lse_base == "2" else base_2(tensors["lse"])
        dtype = DTYPES[self._plan.operand]
        q, kv, o, dO = (narrowed(name, tensors[name], dtype) for name in ("q", "kv", "o", "dO"))
        made = Inputs(
            problem,
            q,
            kv,
            o,
            dO,
            lse,
            indices,
            # Padded slots are beyond the length in any case.
            None
            if lengths is None
            else np.minimum(_int32("topk_length", lengths), tensors["indices"].shape[1]),
        )
        _check_lse(self, made, lse_base)
        return made

    def flattened(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Batches one after another; indices count rows of all batches' kv, and those of no key stay so."""
        flat = super().flattened(tensors)
        if "indices" in tensors and "kv" in tensors:
            rows, index = tensors["kv"].shape[1], tensors["indices"].astype(np.int64)
            first = np.arange(len(index)).reshape(-1, *[1] * (index.ndim - 1)) * rows
            moved = np.where((index >= 0) & (index < rows), index + first, -1)
            flat["indices"] = moved.reshape(-1, *index.shape[2:])
        return flat

    def cut(self, inputs: Inputs) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """Slots of a k-block."""
        del inputs
        return B_TOPK, ()

    def completed(self, inputs: Inputs) -> Inputs:
        """o and lse are those of the forward."""
        names = ("q", "kv", "dO", "indices", "topk_length")
        return with_forward(inputs.problem, **{name: getattr(inputs, name) for name in names})

    def vector_cases(self) -> Iterator[VectorCase]:
        from tileproof.spec.problems.sparse_mla_bwd.vectors import vector_cases

        return vector_cases()

    def sizes(self, inputs: Inputs) -> Mapping[str, int]:
        """topk is padded."""
        p = inputs.problem
        names = ("s_q", "s_kv", "h_q", "d_qk", "d_v", "topk")
        return {name: getattr(p, name) for name in names} | {K_BLOCKS: p.topk // B_TOPK}

    def dumped(self, inputs: Inputs) -> Mapping[str, Array]:
        """lse in base 2."""
        found = {
            name: getattr(inputs, name) for name in ("q", "kv", "o", "dO", "lse", "indices", "topk_length")
        }
        return {name: array for name, array in found.items() if array is not None} | {
            "sm_scale": np.array(inputs.problem.sm_scale)
        }

    def flags(self, inputs: Inputs) -> tuple[str, ...]:
        """Of the keys of each token."""
        mask, p = key_mask(inputs), inputs.problem
        valid = (inputs.indices >= 0) & (inputs.indices < p.s_kv)
        repeated = any(
            len(np.unique(row[keys])) < keys.sum() for row, keys in zip(inputs.indices, mask, strict=True)
        )
        flags = {
            "token without a key": not mask.any(axis=1).all(),
            "repeated key": repeated,
            "invalid index": not valid.all(),
            "length below topk": bool((mask != valid).any()),
        }
        return tuple(name for name, found in flags.items() if found)

    def groups(self, inputs: Inputs) -> int:
        """Query tokens."""
        return inputs.problem.s_q

    def group_inputs(self, inputs: Inputs, group: int) -> Inputs:
        """A problem of one token."""
        p, at = inputs.problem, slice(group, group + 1)
        problem = replace(p, s_q=1)
        o, dO, lse, indices = (getattr(inputs, name)[at] for name in ("o", "dO", "lse", "indices"))
        length = None if inputs.topk_length is None else inputs.topk_length[at]
        return Inputs(problem, inputs.q[at], inputs.kv, o, dO, lse, indices, length)

    def padded(self, form: TensorForm, tensor: Array, inputs: Inputs | None) -> Array:
        """Slots up to whole k-blocks: indices -1, stages 0, which is what a slot without a key holds."""
        if "topk" not in form.axes or not (short := -tensor.shape[-1] % B_TOPK):
            return tensor
        fill = -1 if form.name == "indices" else 0
        widths = [(0, 0)] * (tensor.ndim - 1) + [(0, short)]
        return np.pad(tensor, widths, constant_values=fill)


def _int32(name: str, tensor: Array) -> Array:
    """Indices in int32; values outside it are no keys, and become -1 (lengths: clipped)."""
    if tensor.dtype == np.int32:
        return tensor
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    if name != "indices":
        return np.clip(tensor, low, high).astype(np.int32)
    return np.where((tensor < 0) | (tensor > high), -1, tensor).astype(np.int32)


def _check_lse(forms: SparseMlaTensors, inputs: Inputs, base: str) -> None:
    """TileproofError where lse is not the forward's on the first tokens that have a key."""
    mask = key_mask(inputs)
    for token in np.flatnonzero(mask.any(axis=1))[:PROBED_TOKENS]:
        given = inputs.lse[token].astype(np.float64)
        right = forward(forms.group_inputs(inputs, int(token)))[1][0]
        check_lse(f"lse[{token}]", given, right, base, "2", "q, kv, indices and sm_scale")


@cache
def tensors_of(plan: MlaRoundingPlan) -> SparseMlaTensors:
    """The tensors of a kernel that rounds as `plan` says."""
    return SparseMlaTensors(plan)


TENSORS = tensors_of(PLAIN)
