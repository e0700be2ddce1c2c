"""The problem: sparse MLA attention backward with one KV head, its inputs, and what counts as a key.

Shapes: ``q [s_q, h_q, d_qk]`` and ``kv [s_kv, d_qk]`` bf16 (or f16, as o and dO), V is the first ``d_v``
columns of ``kv``; ``o, dO [s_q, h_q, d_v]`` bf16; ``lse [s_q, h_q]`` f32 in base 2; ``indices [s_q, topk]``
int32; ``topk_length [s_q]`` int32 or None.

Slot ``j`` of token ``t`` is a key when ``j < clamp(topk_length[t], 0, topk)`` and ``0 <= indices[t, j] <
s_kv``. Indices may repeat; each occurrence counts. ``lse[t, h] = log2(sum over keys of 2^(P * sm_scale *
log2(e)))``; a token without any key has ``lse = +inf`` by definition (-inf, the logarithm of the empty sum,
is accepted too), and since no slot of it is a key its S is 0 whatever ``lse`` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.lazy import LAZY_BYTES
from tileproof.spec.machine.types import Array, DType
from tileproof.spec.problems.logits import require_logits

OPERANDS = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
F32 = np.dtype(np.float32)
I32 = np.dtype(np.int32)

H_Q_SUPPORTED = (128, 64)
D_QK_SUPPORTED = (576, 512)
D_V = 512
B_TOPK = 64
DENSE_ROWS = 8192  # kv rows that all hold values in a case; of more only those that are selected


@dataclass(frozen=True)
class Problem:
    """The sizes of one problem, its softmax scale (a plain factor of P, before the base-2 conversion) and the
    form of q, kv, o and dO, of `OPERANDS`.
    """

    s_q: int
    s_kv: int
    h_q: int
    d_qk: int
    topk: int
    sm_scale: float
    d_v: int = D_V
    form: str = "bf16"

    @property
    def dtype(self) -> DType:
        """That of q, kv, o and dO."""
        return OPERANDS[self.form]

    @property
    def d_rope(self) -> int:
        """Columns of q and kv past V: 64 or 0."""
        return self.d_qk - self.d_v

    def shapes(self) -> dict[str, tuple[tuple[int, ...], DType]]:
        """Name -> (shape, dtype) of every input array (``topk_length`` included)."""
        return {
            "q": ((self.s_q, self.h_q, self.d_qk), self.dtype),
            "kv": ((self.s_kv, self.d_qk), self.dtype),
            "o": ((self.s_q, self.h_q, self.d_v), self.dtype),
            "dO": ((self.s_q, self.h_q, self.d_v), self.dtype),
            "lse": ((self.s_q, self.h_q), F32),
            "indices": ((self.s_q, self.topk), I32),
            "topk_length": ((self.s_q,), I32),
        }


@dataclass(frozen=True)
class Inputs:
    """The input arrays of one problem. `validate` says whether a kernel may be given them."""

    problem: Problem
    q: Array
    kv: Array
    o: Array
    dO: Array
    lse: Array
    indices: Array
    topk_length: Array | None = None


def lengths(inputs: Inputs) -> npt.NDArray[np.int64]:
    """``[s_q]``: how many slots count, ``clamp(topk_length, 0, topk)``; topk without a topk_length."""
    p = inputs.problem
    if inputs.topk_length is None:
        return np.full(p.s_q, p.topk, dtype=np.int64)
    return np.clip(inputs.topk_length.astype(np.int64), 0, p.topk)


def key_mask(inputs: Inputs, tokens: slice = slice(None)) -> npt.NDArray[np.bool_]:
    """``bool [s_q, topk]``: which slots are keys; of some `tokens` their rows."""
    p = inputs.problem
    index = inputs.indices[tokens].astype(np.int64)
    inside = (index >= 0) & (index < p.s_kv)
    counted = np.arange(p.topk)[None, :] < lengths(inputs)[tokens, None]
    return inside & counted


def keys_of(inputs: Inputs, token: int) -> npt.NDArray[np.bool_]:
    """``bool [topk]``: which slots of a token are keys."""
    return np.asarray(key_mask(inputs, slice(token, token + 1))[0])


def selected_rows(inputs: Inputs) -> npt.NDArray[np.int64]:
    """The kv rows that some token has as a key, increasing."""
    return np.unique(inputs.indices[key_mask(inputs)].astype(np.int64))


def validate(
    inputs: Inputs, b_topk: int = B_TOPK, *, poisoned_rows: bool = False, owned: Array | None = None
) -> None:
    """Raise TileproofError unless a kernel with tiles of `b_topk` keys may be given these inputs.

    With ``poisoned_rows`` the rows of kv that no token selects may hold NaN or inf (a test that they are not
    read into any result). Of a large kv, rows that no token selects are not looked at. `owned` is ``bool
    [h_q]``: heads whose attention sink owns all mass, where lse is +inf (see `sink`).
    """
    validate_problem(inputs.problem, b_topk)
    for name, (shape, dtype) in inputs.problem.shapes().items():
        array = getattr(inputs, name)
        if array is None and name == "topk_length":
            continue
        _check_array(name, array, shape, dtype)
    rows = selected_rows(inputs)
    _check_finite(inputs, rows, poisoned_rows, owned)
    require_logits(inputs.q, inputs.kv[rows], inputs.problem.sm_scale, _logits(inputs))


def _logits(inputs: Inputs) -> Iterator[tuple[str, Array, Array]]:
    """Queries and keys of each token."""
    for token in range(inputs.problem.s_q):
        keys = inputs.indices[token][keys_of(inputs, token)]
        yield f"token {token}", inputs.q[token], inputs.kv[keys]


def validate_problem(problem: Problem, b_topk: int = B_TOPK) -> None:
    """Raise TileproofError if the backward is not defined for the sizes."""
    for name, least in (("s_q", 1), ("s_kv", 1), ("topk", 1)):
        value = getattr(problem, name)
        if not isinstance(value, (int, np.integer)) or value < least:
            raise TileproofError(
                f"{name} must be a positive integer",
                where=f"problem.{name}",
                expected=f">= {least}",
                found=repr(value),
            )
    for name, known in (("h_q", H_Q_SUPPORTED), ("d_qk", D_QK_SUPPORTED), ("d_v", (D_V,))):
        value = getattr(problem, name)
        if value not in known:
            raise TileproofError(
                f"unsupported {name}",
                where=f"problem.{name}",
                expected=" or ".join(map(str, known)),
                found=repr(value),
                do=f"choose one of the supported values of {name}",
            )
    if problem.topk % b_topk:
        raise TileproofError(
            "topk is not a multiple of B_TOPK",
            where="problem.topk",
            expected=f"a multiple of {b_topk}",
            found=str(problem.topk),
            do="pad the indices with -1 up to a multiple of B_TOPK",
        )
    if not (math.isfinite(problem.sm_scale) and problem.sm_scale > 0):
        raise TileproofError(
            "sm_scale is not a positive finite number",
            where="problem.sm_scale",
            expected="finite and > 0",
            found=repr(problem.sm_scale),
        )


def _check_array(name: str, array: object, shape: tuple[int, ...], dtype: DType) -> None:
    if not isinstance(array, np.ndarray):
        raise TileproofError(
            f"{name} is not a numpy array",
            where=name,
            expected=f"{dtype} {list(shape)}",
            found=type(array).__name__,
        )
    if array.dtype != dtype:
        raise TileproofError(
            f"{name} has the wrong dtype",
            where=name,
            expected=str(dtype),
            found=str(array.dtype),
            do=f"convert it with .astype({dtype})",
        )
    if array.shape != shape:
        raise TileproofError(
            f"{name} has the wrong shape", where=name, expected=str(list(shape)), found=str(list(array.shape))
        )
    if not array.flags["C_CONTIGUOUS"]:
        raise TileproofError(
            f"{name} is not contiguous",
            where=name,
            expected="C order without gaps",
            found=f"strides {array.strides}",
            do="pass numpy.ascontiguousarray of it",
        )


def _check_finite(
    inputs: Inputs, selected: npt.NDArray[np.int64], poisoned_rows: bool, owned: Array | None
) -> None:
    """Of large or poisoned kv the `selected` rows alone are read."""
    mask = key_mask(inputs)
    for name in ("q", "kv", "o", "dO", "lse"):
        array = getattr(inputs, name)
        some = name == "kv" and (poisoned_rows or array.nbytes >= LAZY_BYTES)
        rows = selected if some else None
        values = (array if rows is None else array[rows]).astype(np.float32)
        bad = ~np.isfinite(values)
        if name == "lse":
            empty = ~mask.any(axis=1, keepdims=True)
            bad &= ~(np.isinf(values) & empty)
            if owned is not None:
                bad &= ~(np.isposinf(values) & owned[None, :])
        if bad.any():
            first = tuple(int(i) for i in np.argwhere(bad)[0])
            at = first if rows is None else (int(rows[first[0]]), first[1])
            raise TileproofError(
                f"{name} has {int(bad.sum())} non-finite value(s)",
                where=f"{name}[{', '.join(map(str, at))}]",
                expected="finite numbers" + (" where the token has a key" if name == "lse" else ""),
                found=str(values[first]),
                do="clean the input; only rows of lse without any key may be infinite",
            )
