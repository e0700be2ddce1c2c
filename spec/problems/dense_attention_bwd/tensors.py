"""Dense attention's tensors by name: what a dump may hold, and the conventions of other projects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import VectorCase
from tileproof.spec.problems.dense_attention_bwd.inputs import (
    DTYPES,
    DenseProblem,
    Inputs,
    Sequence,
    validate_problem,
)
from tileproof.spec.problems.dense_attention_bwd.masks import Align, Mask
from tileproof.spec.problems.tensors import Convention, TensorForm, TensorForms, check_lse, narrowed

if TYPE_CHECKING:
    from tileproof.spec.problems.dense_attention_bwd.problem import DenseAttentionBwd

BLOCK = 64  # queries, and keys, of a tile of the comparison
PROBED_QUERIES = 4  # that lse is compared with the forward on
NAMES = {"dQ": "dq", "dK": "dk", "dV": "dv"}
_ENDS = ("sequences + 1",)
# Of the axes of every tensor in the order b, h, sequence, d: where another layout has them.
_HEADS = ("q", "o", "dO", "dq", "k", "v", "dk", "dv")


def _layout(forms: tuple[TensorForm, ...], order: str) -> dict[str, tuple[str, ...]]:
    """The axes of each tensor of heads in the order `order`: letters b, h, s, d; without b: packed."""
    found = {}
    for form in forms:
        if form.name in _HEADS:
            axes = dict(zip("bhsd", form.axes, strict=True))
            found[form.name] = tuple(axes[letter] for letter in order)
        elif "b" not in order and form.axes[0] == "b":
            found[form.name] = form.axes[1:]
    return found


@dataclass(frozen=True)
class DenseTensors(TensorForms):
    """Any sizes; packed sequences by cu_seqlens_q and cu_seqlens_k. Without dropout."""

    problem: DenseAttentionBwd
    scalars: tuple[str, ...] = ("sm_scale", "causal")
    optional_scalars: tuple[str, ...] = ("bottom_right", "window_left", "window_right")

    @cached_property
    def forms(self) -> tuple[TensorForm, ...]:
        """Inputs, then every stage of the problem."""
        floats = tuple(dict.fromkeys((DTYPES[self.problem.operand.name].name, "float32")))
        rows, keys = ("b", "h", "m"), ("b", "h_kv", "n")
        inputs = (
            TensorForm("q", (*rows, "d_qk"), floats, "input"),
            TensorForm("k", (*keys, "d_qk"), floats, "input"),
            TensorForm("v", (*keys, "d_v"), floats, "input"),
            TensorForm("o", (*rows, "d_v"), floats, "input"),
            TensorForm("dO", (*rows, "d_v"), floats, "input"),
            TensorForm("lse", rows, ("float32",), "input"),
            TensorForm("bias", (*rows, "n"), floats, "input", optional=True),
            TensorForm("cu_seqlens_q", _ENDS, ("int32", "int64"), "input", optional=True),
            TensorForm("cu_seqlens_k", _ENDS, ("int32", "int64"), "input", optional=True),
        )
        stages = (
            TensorForm(
                NAMES.get(name, name),
                self.problem.output(name),
                floats if stage.has_copy else ("float32",),
                "output" if name in NAMES else "stage",
                name,
            )
            for name, stage in self.problem.stages.items()
        )
        return inputs + tuple(stages)

    @property
    def layouts(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """BSHD and BHSD; THD and HTD are packed, without a batch axis."""
        letters = {"BHSD": "bhsd", "BSHD": "bshd", "SBHD": "sbhd", "THD": "shd", "HTD": "hsd"}
        return {name: _layout(self.forms, order) for name, order in letters.items()}

    @property
    def conventions(self) -> tuple[Convention, ...]:
        own = {form.name: form.name for form in self.forms}
        return (
            Convention("tileproof", own, "docs/tensors.md", "e", layout="BSHD"),
            Convention(
                "flash-attention",
                own | {"o": "out", "dO": "dout", "lse": "softmax_lse", "sm_scale": "softmax_scale"},
                "Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py; THD: its varlen functions",
                "e",
                layout="BSHD",
                scalars={"bottom_right": 1.0},
            ),
            Convention(
                "torch",
                own
                | {"q": "query", "k": "key", "v": "value", "o": "out", "dO": "grad_out", "lse": "logsumexp"}
                | {"dq": "grad_query", "dk": "grad_key", "dv": "grad_value", "sm_scale": "scale"}
                | {"causal": "is_causal"},
                "aten::_scaled_dot_product_flash_attention_backward, its schema",
                "e",
                layout="BHSD",
                scalars={"bottom_right": 0.0},
            ),
        )

    def cut(self, inputs: Inputs) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        """Blocks of queries and of keys."""
        return BLOCK, (("n", BLOCK, 1),)

    def inputs(self, tensors: Mapping[str, Array], scalars: Mapping[str, float], lse_base: str) -> Inputs:
        """The inputs; lse is brought to base e and compared with the forward on a few queries."""
        (b, h, m, d_qk), (_, h_kv, n, _), d_v = (
            tensors["q"].shape, tensors["k"].shape, tensors["v"].shape[-1],
        )  # fmt: skip
        packed = _packed(tensors, b, m, n)
        problem = DenseProblem(
            b, m, n, h, h_kv, d_qk, d_v, self.problem.operand.name, scalars["sm_scale"],
            _mask(scalars, packed or ((m, n),)), packed=packed,
        )  # fmt: skip
        validate_problem(problem)
        dtype = DTYPES[self.problem.operand.name]
        arrays = {name: narrowed(name, tensors[name], dtype) for name in ("q", "k", "v", "o", "dO")}
        bias = narrowed("bias", tensors["bias"], dtype) if "bias" in tensors else None
        lse = (
            tensors["lse"] if lse_base == "e" else (tensors["lse"] * np.float32(np.log(2))).astype(np.float32)
        )
        made = Inputs(
            problem, **{name: array.swapaxes(1, 2) for name, array in arrays.items()}, lse=lse, bias=bias
        )
        self._check_lse(made, lse_base)
        return made

    def _check_lse(self, inputs: Inputs, base: str) -> None:
        """TileproofError where lse is not the forward's on the first queries that see a key."""
        p = inputs.problem
        for number, sequence in enumerate(p.sequences[:PROBED_QUERIES]):
            seen = inputs.masks[number]
            for query in np.flatnonzero(seen.any(axis=1))[:PROBED_QUERIES]:
                row = sequence.queries.start + int(query)
                k = inputs.k[sequence.batch, sequence.keys, 0].astype(np.float64)
                logits = inputs.q[sequence.batch, row, 0].astype(np.float64) @ k.T * p.sm_scale
                if inputs.bias is not None:
                    logits = logits + inputs.bias[sequence.batch, 0, row, sequence.keys].astype(np.float64)
                logits = logits[seen[query]]
                right = np.array([np.logaddexp.reduce(logits)])
                given = inputs.lse[sequence.batch, :1, row].astype(np.float64)
                check_lse(f"lse of query {row}", given, right, base, "e", "q, k, the mask and sm_scale")

    def completed(self, inputs: Inputs) -> Inputs:
        """o and lse are those of the forward."""
        from tileproof.spec.problems.dense_attention_bwd.forward import with_forward

        names = ("q", "k", "v", "dO", *(("bias",) if inputs.bias is not None else ()))
        return with_forward(inputs.problem, exact=False, **{name: getattr(inputs, name) for name in names})

    def vector_cases(self) -> Iterator[VectorCase]:
        from tileproof.spec.problems.dense_attention_bwd.vectors import vector_cases

        return vector_cases() if self.problem.name == "dense_attention_bwd" else iter(())

    def sizes(self, inputs: Inputs) -> Mapping[str, int]:
        return {name: getattr(inputs.problem, name) for name in ("b", "m", "n", "h", "h_kv", "d_qk", "d_v")}

    def dumped(self, inputs: Inputs) -> Mapping[str, Array]:
        """BSHD; a packed problem has a batch of 1."""
        p, mask = inputs.problem, inputs.problem.mask
        found = {name: getattr(inputs, name) for name in ("q", "k", "v", "o", "dO", "lse", "bias")}
        found |= {"cu_seqlens_q": inputs.cu_q, "cu_seqlens_k": inputs.cu_k}
        left, right = (-1 if side is None else side for side in (mask.left, mask.right))
        numbers = {"sm_scale": p.sm_scale, "causal": 0.0, "window_left": left, "window_right": right}
        numbers["bottom_right"] = mask.align == "bottom right"
        return {name: array for name, array in found.items() if array is not None} | {
            name: np.array(number, np.float64) for name, number in numbers.items()
        }

    def flags(self, inputs: Inputs) -> tuple[str, ...]:
        """Of the mask, and of what else the problem has."""
        p = inputs.problem
        flags = {
            "query without a key": not all(seen.any(axis=1).all() for seen in inputs.masks),
            "packed": p.packed is not None,
            "grouped heads": p.heads > 1,
            "bias": inputs.bias is not None,
        }
        return tuple(name for name, found in flags.items() if found)

    def groups(self, inputs: Inputs) -> int:
        """KV heads of all sequences."""
        return len(inputs.problem.sequences) * inputs.problem.h_kv

    def _of(self, inputs: Inputs, group: int) -> tuple[Sequence, int, slice]:
        """The group's sequence, KV head and heads."""
        p = inputs.problem
        number, head = divmod(group, p.h_kv)
        return p.sequences[number], head, slice(head * p.heads, (head + 1) * p.heads)

    def group_index(self, form: TensorForm, inputs: Inputs, group: int) -> tuple[slice, ...]:
        sequence, head, heads = self._of(inputs, group)
        own = {
            "b": slice(sequence.batch, sequence.batch + 1),
            "h": heads,
            "h_kv": slice(head, head + 1),
            "m": sequence.queries,
            "n": sequence.keys,
        }
        sizes = self.sizes(inputs)
        return tuple(own[axis] if axis in own else slice(0, sizes[axis]) for axis in form.axes)

    def group_inputs(self, inputs: Inputs, group: int) -> Inputs:
        """A problem of one KV head of one sequence."""
        sequence, head, heads = self._of(inputs, group)
        at, rows, keys = slice(sequence.batch, sequence.batch + 1), sequence.queries, sequence.keys
        p = inputs.problem
        # Packed, as a sequence may be empty.
        problem = replace(
            p, b=1, m=sequence.m, n=sequence.n, h=p.heads, h_kv=1, packed=((sequence.m, sequence.n),)
        )
        arrays: dict[str, Array] = {name: getattr(inputs, name)[at, rows, heads] for name in ("q", "o", "dO")}
        arrays |= {name: getattr(inputs, name)[at, keys, head : head + 1] for name in ("k", "v")}
        bias = None if inputs.bias is None else inputs.bias[at, heads, rows, keys]
        return Inputs(problem, lse=inputs.lse[at, heads, rows], bias=bias, **arrays)


def _packed(tensors: Mapping[str, Array], b: int, m: int, n: int) -> tuple[tuple[int, int], ...] | None:
    """The lengths of packed sequences; None without them."""
    names = ("cu_seqlens_q", "cu_seqlens_k")
    given = [name for name in names if name in tensors]
    if not given:
        return None
    if len(given) < 2 or b != 1:
        raise TileproofError(
            "packed sequences are not complete",
            where=" and ".join(given),
            expected="both cu_seqlens_q and cu_seqlens_k, and no batch (--layout THD)",
            found=f"{', '.join(given)}, batch {b}",
        )
    lengths = []
    for name, total in zip(names, (m, n), strict=True):
        ends = tensors[name].astype(np.int64)
        if ends[0] != 0 or ends[-1] != total or (np.diff(ends) < 0).any():
            raise TileproofError(
                f"{name} does not divide the sequences",
                where=name,
                expected=f"ascending, from 0 to {total}",
                found=str(ends.tolist()[:8]),
            )
        lengths.append(np.diff(ends).tolist())
    return tuple(zip(*lengths, strict=True))


def _mask(scalars: Mapping[str, float], lengths: tuple[tuple[int, int], ...]) -> Mask:
    """The mask; TileproofError where it depends on an alignment that is not given."""
    left, right = (scalars.get(f"window_{side}", -1.0) for side in ("left", "right"))
    limits = [None if side < 0 else int(side) for side in (left, right)]
    if scalars["causal"]:
        limits[1] = 0 if limits[1] is None else min(limits[1], 0)
    corner = scalars.get("bottom_right")
    if corner is None and limits != [None, None] and any(m != n for m, n in lengths):
        raise TileproofError(
            "the alignment of the mask is not known",
            where="--set bottom_right=VALUE",
            expected="0: aligned at query 0 and key 0; 1: aligned at the last query and the last key",
            found="queries and keys of different number",
        )
    align: Align = "bottom right" if corner else "top left"
    return Mask(align, *limits)
