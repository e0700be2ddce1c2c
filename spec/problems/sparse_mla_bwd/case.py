"""A test case as a small structure, drawn and shrunk by Hypothesis and named by replay commands.

`SparseCase.inputs` makes the arrays from the structure and its seed, so that examples are cheap to draw and a
shrunken case is readable in one line.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.lazy import lazy_zeros
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import Spread
from tileproof.spec.problems.sparse_mla_bwd.forward import forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import (
    B_TOPK,
    DENSE_ROWS,
    OPERANDS,
    Inputs,
    Problem,
    key_mask,
    selected_rows,
    validate,
)
from tileproof.spec.problems.sparse_mla_bwd.values import (
    INTEGER_LSE,
    LSE_STEPS,
    OUTLIERS,
    SM_SCALES,
    VALUES,
    Outliers,
    Values,
    draw,
)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1


# "runs": of 1 to 16 neighbouring rows. "recent": the last rows. "shared": neighbouring tokens share most
# keys. "far": rows around the ends of narrow types (`far_rows`).
Order = Literal[
    "identity", "reversed", "same", "permuted", "repeated", "random", "runs", "recent", "shared", "far"
]
ORDERS: tuple[Order, ...] = get_args(Order)


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
    `garbage_tail`: slots past topk_length hold arbitrary int32. `outliers`: magnitudes put over the values.
    `scale`: sm_scale, 0 for that of the value class. `lse_extremes`: `LSE_STEPS` are added to the lse;
    of a token without a key it is -inf in every other head.

    `s_q`: the case is part of a problem of so many tokens, of which its own are at the places `at`, and only
    they run (`spread`); 0: they are all. `form`: of q, kv, o and dO.
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
    outliers: Outliers = ""
    scale: float = 0.0
    lse_extremes: bool = False
    s_q: int = 0
    at: tuple[int, ...] = ()
    form: str = "bf16"

    def sizes(self) -> dict[str, int]:
        """The sizes that a kernel's variant is chosen by."""
        return {"d_qk": self.d_qk, "h_q": self.h_q, "f16": int(self.form == "f16")}

    @property
    def topk(self) -> int:
        """Slots of a token."""
        return self.blocks * B_TOPK

    def inputs(self) -> Inputs:
        """The arrays of this case, validated; equal cases give equal arrays."""
        rng = np.random.default_rng(self.seed)
        s_q = len(self.tokens)
        sm_scale = self.scale or SM_SCALES.get(self.values, float(self.d_qk) ** -0.5)
        problem = Problem(s_q, self.s_kv, self.h_q, self.d_qk, self.topk, sm_scale, form=self.form)
        indices = np.stack([self._row(token, rng) for token in range(s_q)]).astype(np.int32)
        lengths = None if self.lengths is None else np.array(self.lengths, dtype=np.int32)
        rows = self._rows_drawn(indices, lengths, problem)
        q, kv, o, dO = self._arrays(problem, rows, rng)
        blank = np.zeros((s_q, self.h_q), dtype=np.float32)
        clean = Inputs(problem, q, kv, o, dO, blank, indices, lengths)
        lse = forward(clean)[1].astype(np.float32)
        if self.values in INTEGER_LSE:
            lse = np.where(np.isfinite(lse), rng.integers(0, 4, lse.shape), lse).astype(np.float32)
        if self.lse_extremes:
            lse = lse + rng.choice(LSE_STEPS, lse.shape).astype(np.float32)
            lse[:, 1::2] = np.where(np.isposinf(lse[:, 1::2]), -np.inf, lse[:, 1::2])
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
        }.get(pattern.order, slot)
        row = _real(pattern.order, token, self.topk, self.s_kv, self.seed, row).astype(np.int64)
        for block in pattern.dead_blocks:
            row[block * B_TOPK : (block + 1) * B_TOPK] = -1
        for where, value in pattern.holes:
            row[where] = value
        if self.garbage_tail and self.lengths is not None:
            end = min(max(self.lengths[token], 0), self.topk)
            row[end:] = rng.integers(INT_MIN, INT_MAX, self.topk - end, endpoint=True)
        return row

    def _arrays(self, p: Problem, rows: Array, rng: np.random.Generator) -> tuple[Array, ...]:
        q, kv, o, dO = draw(self.values, self.outliers, p, rows, rng)
        if rows.size == self.s_kv:
            return q, kv, o, dO
        whole = lazy_zeros((self.s_kv, self.d_qk), kv.dtype)
        whole[rows] = kv
        return q, whole, o, dO

    def spread(self, inputs: Inputs) -> Spread | None:
        """The problem of `s_q` tokens that holds these inputs at `at`; None without `s_q`."""
        if not self.s_q:
            return None
        wide = replace(inputs, problem=replace(inputs.problem, s_q=self.s_q))
        arrays: dict[str, Array] = {}
        for name in ("q", "o", "dO", "lse", "indices", "topk_length"):
            own = getattr(inputs, name)
            if own is not None:
                arrays[name] = lazy_zeros((self.s_q, *own.shape[1:]), own.dtype)
                arrays[name][list(self.at)] = own
        return Spread(
            replace(wide, problem=wide.problem, **arrays), self.s_q, self.at, {"s_q": np.array(self.at)}
        )

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case; fields at their default are left out."""
        default = SparseCase(self.d_qk)
        whole = asdict(self)
        changed = {
            f.name: whole[f.name] for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)
        }
        return json.dumps({"d_qk": self.d_qk, **changed}, separators=(",", ":"))

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
            raw["at"] = tuple(int(n) for n in raw.get("at", ()))
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
    if case.form not in OPERANDS or (case.form, case.values) == ("f16", "coordinates"):
        raise ValueError("unknown form, or f16 whose range has no coordinates")
    flags = (case.poison, case.nan_key, case.garbage_tail, case.lse_extremes)
    if case.outliers not in OUTLIERS or not 0 <= case.scale < math.inf or set(map(type, flags)) != {bool}:
        raise ValueError(
            "unknown outliers, a scale that is not a number from 0, or a flag that is not true or false"
        )
    places = case.at if case.s_q else tuple(range(len(case.tokens)))
    if type(case.s_q) is not int or len(places) != len(case.tokens) or (case.at and not case.s_q):
        raise ValueError("expected s_q and one place for each token, or neither")
    if case.s_q and (sorted(set(places)) != list(places) or not 0 <= places[0] <= places[-1] < case.s_q):
        raise ValueError("the places of tokens increase, below s_q")
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


def _real(order: Order, token: int, topk: int, s_kv: int, seed: int, row: Array) -> Array:
    """Index sets like those of models, where `order` is one of them; else `row`."""
    slot = np.arange(topk)
    own = np.random.default_rng((abs(seed), token))
    if order == "recent":
        return np.asarray((s_kv - 1 - token - slot) % s_kv)
    if order == "runs":
        lengths = own.integers(1, 17, topk)
        ends = np.searchsorted(np.cumsum(lengths), slot, side="right")
        starts = own.integers(0, s_kv, topk)
        return np.asarray((starts[ends] + slot) % s_kv)
    if order == "shared":
        common = np.random.default_rng((abs(seed), -1 & 0xFFFF)).integers(0, s_kv, topk)
        return np.where(own.random(topk) < 1 / 16, own.integers(0, s_kv, topk), common)
    return row


def far_tokens(d_qk: int, h_q: int, d_v: int, s_q: int) -> tuple[int, ...]:
    """Of `s_q` tokens the first, the last, and those around byte offsets 2^31 and 2^32 of q, dQ, o and dO."""
    ends = {0, s_q - 1}
    for columns in (d_qk, d_v):
        first = [-(-(1 << bits) // (2 * h_q * columns)) for bits in (31, 32)]
        ends |= {token + step for token in first for step in (-2, -1, 0)}
    return tuple(sorted(token for token in ends if 0 <= token < s_q))


def far_rows(s_kv: int, d_qk: int) -> Array:
    """Rows around the ends of narrow types: those of an offset in 31 or 32 bits (elements, bytes of bf16 and
    of f32), those of an index (2^13, 2^15, 2^16), and the last rows of `s_kv`, which come first.
    """
    ends = [s_kv, *(-(-(1 << bits) // (d_qk * size)) for bits in (32, 31) for size in (1, 2, 4))]
    ends += [1 << 16, 1 << 15, 1 << 13]
    rows = [end + step for end in ends for step in (-2, -1, 0, 1)]
    return np.array(list(dict.fromkeys(row for row in rows if 0 <= row < s_kv)), np.int64)
