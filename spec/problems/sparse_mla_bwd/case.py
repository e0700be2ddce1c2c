"""A test case as a small structure: what Hypothesis draws and shrinks, what a replay command names.

`SparseCase.inputs` makes the arrays from the structure and its seed, so that examples are cheap to draw and a
shrunken case is readable in one line.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.lazy import lazy_zeros
from tileproof.spec.problems.sparse_mla_bwd import coordinates
from tileproof.spec.problems.sparse_mla_bwd.forward import forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import (
    B_TOPK,
    Inputs,
    Problem,
    key_mask,
    selected_rows,
    validate,
)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
DENSE_ROWS = 8192  # kv rows that all hold values; of more only those that are selected

Array = npt.NDArray[Any]

Order = Literal["identity", "reversed", "same", "permuted", "repeated", "random", "far"]
Values = Literal["zeros", "coordinates", "integers", "exact", "normal", "large", "tiny"]
ORDERS: tuple[Order, ...] = get_args(Order)
VALUES: tuple[Values, ...] = get_args(Values)

# Magnitudes: the largest P is below 2^12 * 2^12 * 2^10, far under the f32 maximum; tiny products reach f32's
# subnormal range (2^-70 * 2^-66), which the tensor core keeps.
SCALES = {"normal": 1.0, "large": 2.0**10, "tiny": 2.0**-68}

# Coordinate codes span 2^-22 .. 2^22 and their products far more: a small scale keeps S near 1 / keys. With
# "exact" every factor is a power of two.
SM_SCALES = {"coordinates": 2.0**-64, "exact": 2.0**-3}


@dataclass(frozen=True)
class Indices:
    """One token's indices: an order of kv rows, `holes` (slot, index) put over it, whole k-blocks of -1."""

    order: Order = "identity"
    holes: tuple[tuple[int, int], ...] = ()
    dead_blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class SparseCase:
    """One problem: sizes, index patterns (one per token), lengths, value class and seed of the arrays.

    `lengths` may hold values outside 0..topk, which a kernel clamps. `poison`: kv rows that no token selects
    hold NaN or inf. `nan_key`: the first key of the first token that has one holds NaN.
    `garbage_tail`: slots past topk_length hold arbitrary int32.
    """

    d_qk: int
    s_kv: int = B_TOPK
    blocks: int = 1
    tokens: tuple[Indices, ...] = (Indices(),)
    lengths: tuple[int, ...] | None = None
    values: Values = "zeros"
    poison: bool = False
    nan_key: bool = False
    garbage_tail: bool = False
    seed: int = 0
    h_q: int = 128

    def sizes(self) -> dict[str, int]:
        """The sizes that a kernel's variant is chosen by."""
        return {"d_qk": self.d_qk, "h_q": self.h_q}

    @property
    def topk(self) -> int:
        """Slots of a token."""
        return self.blocks * B_TOPK

    def inputs(self) -> Inputs:
        """The arrays of this case, validated; equal cases give equal arrays."""
        rng = np.random.default_rng(self.seed)
        s_q = len(self.tokens)
        sm_scale = SM_SCALES.get(self.values, float(self.d_qk) ** -0.5)
        problem = Problem(s_q, self.s_kv, self.h_q, self.d_qk, self.topk, sm_scale)
        indices = np.stack([self._row(token, rng) for token in range(s_q)]).astype(np.int32)
        lengths = None if self.lengths is None else np.array(self.lengths, dtype=np.int32)
        rows = self._rows_drawn(indices, lengths, problem)
        q, kv, o, dO = self._arrays(problem, rows, rng)
        blank = np.zeros((s_q, self.h_q), dtype=np.float32)
        clean = Inputs(problem, q, kv, o, dO, blank, indices, lengths)
        lse = forward(clean)[1].astype(np.float32)
        if self.values == "exact":
            lse = np.where(np.isfinite(lse), rng.integers(0, 4, lse.shape), lse).astype(np.float32)
        if self.poison:
            others = np.setdiff1d(_candidates(rows, self.s_kv), selected_rows(clean), assume_unique=True)
            kv[others] = np.where(others % 2, np.inf, np.nan)[:, None]
        result = Inputs(problem, q, kv, o, dO, lse, indices, lengths)
        validate(result, B_TOPK, poisoned_rows=self.poison)
        if self.nan_key and key_mask(clean).any():
            row = int(indices[key_mask(clean)][0])
            kv[row, int(rng.integers(self.d_qk))] = np.nan
        return result

    def _rows_drawn(self, indices: Array, lengths: Array | None, problem: Problem) -> Array:
        """The kv rows that hold values: of a large kv those that some token selects. The others are zeros
        that take no memory.
        """
        if self.s_kv <= DENSE_ROWS:
            return np.arange(self.s_kv)
        blank = np.empty(0)
        return selected_rows(Inputs(problem, blank, blank, blank, blank, blank, indices, lengths))

    def _row(self, token: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        pattern, slot = self.tokens[token], np.arange(self.topk)
        if self.s_kv <= DENSE_ROWS:
            shuffled = rng.permutation(max(self.topk, self.s_kv)) % self.s_kv
        else:
            shuffled = rng.choice(self.s_kv, self.topk, replace=self.topk > self.s_kv)
        row: npt.NDArray[np.int64] = {
            "far": np.concatenate([far_rows(self.s_kv, self.d_qk), shuffled])[: self.topk],
            "identity": slot % self.s_kv,
            "reversed": (self.topk - 1 - slot) % self.s_kv,
            "same": np.full(self.topk, token % self.s_kv),
            "permuted": shuffled[: self.topk],
            "repeated": shuffled[slot // 3],
            "random": rng.integers(0, self.s_kv, self.topk),
        }[pattern.order].astype(np.int64)
        for block in pattern.dead_blocks:
            row[block * B_TOPK : (block + 1) * B_TOPK] = -1
        for where, value in pattern.holes:
            row[where] = value
        if self.garbage_tail and self.lengths is not None:
            end = min(max(self.lengths[token], 0), self.topk)
            row[end:] = rng.integers(INT_MIN, INT_MAX, self.topk - end, endpoint=True)
        return row

    def _arrays(self, p: Problem, rows: Array, rng: np.random.Generator) -> tuple[npt.NDArray[Any], ...]:
        q, kv, o, dO = self._drawn(p, rows, rng)
        if rows.size == self.s_kv:
            return q, kv, o, dO
        whole = lazy_zeros((self.s_kv, self.d_qk), kv.dtype)
        whole[rows] = kv
        return q, whole, o, dO

    def _drawn(self, p: Problem, rows: Array, rng: np.random.Generator) -> tuple[npt.NDArray[Any], ...]:
        """q, the `rows` of kv, o and dO."""
        shapes = [p.shapes()[name][0] for name in ("q", "kv", "o", "dO")]
        shapes[1] = rows.size, p.d_qk
        if self.values == "zeros":
            return tuple(np.zeros(shape, dtype=ml_dtypes.bfloat16) for shape in shapes)
        if self.values == "coordinates":
            offset = int(rng.integers(p.d_qk))
            return (
                coordinates.to_bf16(coordinates.one_hot(p.s_q, p.h_q, p.d_qk, offset)),
                coordinates.to_bf16(coordinates.rows(rows, p.d_qk)),
                coordinates.to_bf16(coordinates.one_hot(p.s_q, p.h_q, p.d_v, offset)),
                coordinates.to_bf16(
                    coordinates.rows(np.arange(p.s_q * p.h_q), p.d_v).reshape(p.s_q, p.h_q, p.d_v)
                ),
            )
        if self.values == "integers":
            return tuple(rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in shapes)
        if self.values == "exact":
            return _exact(p, rows.size, rng)
        scale = SCALES[self.values]
        return tuple(
            (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)).astype(ml_dtypes.bfloat16)
            for shape in shapes
        )

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case; fields at their default are left out."""
        default = SparseCase(self.d_qk)
        whole = asdict(self)
        kept = {
            f.name: whole[f.name] for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)
        }
        return json.dumps({"d_qk": self.d_qk, **kept}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> SparseCase:
        """The case of `as_json`; TileproofError says what is wrong with the text."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict):
                raise TypeError("not an object")
            unknown = set(raw) - {f.name for f in fields(SparseCase)}
            if unknown:
                raise TypeError(f"unknown field {sorted(unknown)[0]!r}")
            if "tokens" in raw:
                raw["tokens"] = tuple(
                    Indices(
                        token.get("order", "identity"),
                        tuple((int(slot), int(index)) for slot, index in token.get("holes", ())),
                        tuple(int(block) for block in token.get("dead_blocks", ())),
                    )
                    for token in raw["tokens"]
                )
            if raw.get("lengths") is not None:
                raw["lengths"] = tuple(int(n) for n in raw["lengths"])
            case = SparseCase(**raw)
            _check(case)
        except TileproofError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            raise TileproofError(
                "not a case that Tileproof wrote",
                where="--case",
                expected='JSON such as {"d_qk":576,"values":"integers"}',
                found=f"{text[:80]} ({error})",
                do="copy it from the replay command of a finding",
            ) from None
        return case


def _exact(p: Problem, rows: int, rng: np.random.Generator) -> tuple[npt.NDArray[Any], ...]:
    """q, `rows` rows of kv, o, dO on which every stage is exact in f32 and bf16, given an integer lse.

    Neighbouring columns of q cancel against equal columns of kv, so that P = 0 and S = 2^-lse; few
    columns of dO are not zero, so that dS keeps 8 bits.
    """
    half = rng.integers(-3, 4, (p.s_q, p.h_q, p.d_qk // 2))
    q = np.stack([half, -half], axis=-1).reshape(p.s_q, p.h_q, p.d_qk)
    kv = np.repeat(rng.integers(-2, 3, (rows, p.d_qk // 2)), 2, axis=-1)
    shape = (p.s_q, p.h_q, p.d_v)
    o, dO = rng.integers(-1, 2, shape), rng.integers(-1, 2, shape) * (rng.random(shape) < 1 / 16)
    return tuple(x.astype(np.float32).astype(ml_dtypes.bfloat16) for x in (q, kv, o, dO))


def _check(case: SparseCase) -> None:
    hints = get_type_hints(SparseCase)
    for name in ("d_qk", "s_kv", "blocks", "seed", "h_q"):
        value = getattr(case, name)
        if isinstance(value, bool) or not isinstance(value, hints[name]) or value < (name != "seed"):
            raise ValueError(f"{name} is {value!r}")
    if (
        case.values not in VALUES
        or any(token.order not in ORDERS for token in case.tokens)
        or not case.tokens
    ):
        raise ValueError("unknown value class or index order, or no token")
    if case.lengths is not None and len(case.lengths) != len(case.tokens):
        raise ValueError("expected one length per token")
    for token in case.tokens:
        if any(not 0 <= slot < case.topk or not INT_MIN <= index <= INT_MAX for slot, index in token.holes):
            raise ValueError("a hole is outside the indices or not an int32")


def one_token(d_qk: int, blocks: int, h_q: int = 128) -> SparseCase:
    """One token that selects every row of kv once, in some order, over `blocks` k-blocks; normal values."""
    return SparseCase(d_qk, blocks * B_TOPK, blocks, (Indices("permuted"),), values="normal", h_q=h_q)


def past_the_rings(d_qk: int, depth: int, h_q: int = 128) -> SparseCase:
    """Two tokens whose k-blocks are one and two more than `depth`, the stages of a kernel's deepest ring:
    its slots are used again, under the other parity; and one that has none, where kernels wait elsewhere.
    """
    blocks = depth + 2
    lengths = ((depth + 1) * B_TOPK, blocks * B_TOPK, 0)
    return SparseCase(
        d_qk, blocks * B_TOPK, blocks, (Indices("permuted"),) * 3, lengths, values="normal", h_q=h_q
    )


def selected(inputs: Inputs) -> npt.NDArray[np.bool_]:
    """``bool [s_kv]``: which kv rows some token has as a key."""
    rows = np.zeros(inputs.problem.s_kv, dtype=bool)
    rows[selected_rows(inputs)] = True
    return rows


def _candidates(rows: Array, s_kv: int) -> Array:
    """All kv rows, or of a large kv the neighbours of `rows`: those among which poison is put."""
    if s_kv <= DENSE_ROWS:
        return np.arange(s_kv)
    near = np.unique(np.concatenate([rows - 1, rows + 1]))
    return near[(near >= 0) & (near < s_kv)]


def far_rows(s_kv: int, d_qk: int) -> Array:
    """Rows around the ends of narrow types: those of an offset in 31 or 32 bits (elements, bytes of bf16 and
    of f32), those of an index (2^13, 2^15, 2^16), and the last rows of `s_kv`, which come first.
    """
    ends = [s_kv, *(-(-(1 << bits) // (d_qk * size)) for bits in (32, 31) for size in (1, 2, 4))]
    ends += [1 << 16, 1 << 15, 1 << 13]
    rows = [end + step for end in ends for step in (-2, -1, 0, 1)]
    return np.array(list(dict.fromkeys(row for row in rows if 0 <= row < s_kv)), np.int64)
