"""The problem: attention backward over all keys that a mask lets through, its inputs, and what they must be.

Shapes: ``q [b, m, h, d_qk]``, ``k [b, n, h_kv, d_qk]``, ``v [b, n, h_kv, d_v]``, ``o, dO [b, m, h, d_v]`` and
``bias [b, h, m, n]`` (or None) bf16, f16 or f32, all alike; ``lse [b, h, m]`` f32, natural. Query head g of
`h` uses KV head ``g // (h / h_kv)``. Outputs are judged head by head: ``dQ [b, h, m, d_qk]``.

Packed sequences: b is 1, m and n are the sums of their lengths, and ``cu_q, cu_k`` int32 say where each
begins; a query sees keys of its own sequence only. ``lse[i] = log(sum over seen keys of e^(P sm_scale +
bias))``; a query that sees none has ``lse = +inf`` by definition, o = 0, and S = 0 whatever `lse` says.

`splits`: the key blocks of each sequence are cut into that many runs, each of ``ceil(blocks / splits)`` whole
blocks but the last, which may have fewer (and those behind it none). Each run has a part of dQ of its own;
dQ is their sum in f32, first run first.

Dropout keeps element (batch, head, i, j) when uniform number ``offset + ((batch h + head) m + i) n + j`` of
the Philox stream of `seed` is greater than p (as an f32), and multiplies what it keeps by 1 / (1 - p). Drawn
by `block` it is kept when its byte (`philox.block_bytes`) is at most ``floor(255 (1 - p))``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import ml_dtypes
import numpy as np
from tileproof.spec.arithmetic import BF16, F16, F32, Form
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array, DType
from tileproof.spec.problems.dense_attention_bwd import philox
from tileproof.spec.problems.dense_attention_bwd.masks import Bool, Mask
from tileproof.spec.problems.logits import require_logits

DTYPES: dict[str, DType] = {
    BF16.name: np.dtype(ml_dtypes.bfloat16),
    F16.name: np.dtype(np.float16),
    F32.name: np.dtype(np.float32),
}
FORMS: dict[str, Form] = {form.name: form for form in (BF16, F16, F32)}
LARGEST_HEAD = 512
MAX_SPLITS = 4


@dataclass(frozen=True)
class Sequence:
    """One sequence: its batch, and where its queries and keys lie."""

    batch: int
    queries: slice
    keys: slice

    @property
    def m(self) -> int:
        """Its queries."""
        return self.queries.stop - self.queries.start

    @property
    def n(self) -> int:
        """Its keys."""
        return self.keys.stop - self.keys.start


@dataclass(frozen=True)
class Dropout:
    """Probability of an element to be dropped, and the stream that decides: one number an element, or by
    `block` as FlashAttention draws it.
    """

    p: float = 0.0
    seed: int = 0
    offset: int = 0
    block: bool = False

    @property
    def rescale(self) -> float:
        """What is kept is multiplied by it; 0 where nothing is kept."""
        return 1.0 / (1.0 - self.p) if self.p < 1 else 0.0

    def kept(self, shape: tuple[int, int, int, int]) -> Bool:
        """``bool [b, h, m, n]``: what is kept; all of it when p is 0."""
        if self.p == 0:
            return np.broadcast_to(np.True_, shape)
        if self.block:
            share = np.float32(1) - np.float32(self.p)
            return philox.block_bytes(self.seed, self.offset, shape) <= math.floor(share * 255.0)
        drawn = philox.words(self.seed, self.offset, math.prod(shape))
        return (philox.uniform(drawn) > np.float32(self.p)).reshape(shape)


@dataclass(frozen=True)
class DenseProblem:
    """The sizes of one problem, its form of operands, mask, scale (a plain factor of P) and dropout.

    `packed`: (queries, keys) of each sequence, when b is 1 and they are stored in sequence.
    """

    b: int
    m: int
    n: int
    h: int
    h_kv: int
    d_qk: int
    d_v: int
    form: str
    sm_scale: float
    mask: Mask = field(default_factory=Mask)
    dropout: Dropout = field(default_factory=Dropout)
    packed: tuple[tuple[int, int], ...] | None = None
    splits: int = 1

    @property
    def heads(self) -> int:
        """Query heads per KV head."""
        return self.h // self.h_kv

    @cached_property
    def sequences(self) -> tuple[Sequence, ...]:
        """Every sequence."""
        if self.packed is None:
            return tuple(Sequence(b, slice(0, self.m), slice(0, self.n)) for b in range(self.b))
        starts_q = np.cumsum([0, *(queries for queries, _ in self.packed)])
        starts_k = np.cumsum([0, *(keys for _, keys in self.packed)])
        return tuple(
            Sequence(0, slice(int(q), int(q) + m), slice(int(k), int(k) + n))
            for q, k, (m, n) in zip(starts_q, starts_k, self.packed, strict=False)
        )

    def shapes(self) -> dict[str, tuple[tuple[int, ...], DType]]:
        """Name -> (shape, dtype) of every input array, `bias` among them."""
        own = DTYPES[self.form]
        q, k, v = ((self.b, self.m, self.h), (self.b, self.n, self.h_kv), (self.b, self.n, self.h_kv))
        return {
            "q": ((*q, self.d_qk), own),
            "k": ((*k, self.d_qk), own),
            "v": ((*v, self.d_v), own),
            "o": ((*q, self.d_v), own),
            "dO": ((*q, self.d_v), own),
            "lse": ((self.b, self.h, self.m), DTYPES[F32.name]),
            "bias": ((self.b, self.h, self.m, self.n), own),
        }


@dataclass(frozen=True)
class Inputs:
    """The input arrays of one problem. `validate` says whether a kernel may be given them."""

    problem: DenseProblem
    q: Array
    k: Array
    v: Array
    o: Array
    dO: Array
    lse: Array
    bias: Array | None = None

    @property
    def cu_q(self) -> Array | None:
        """Where each packed sequence's queries begin, and their end; None when nothing is packed."""
        packed = self.problem.packed
        return None if packed is None else np.cumsum([0, *(m for m, _ in packed)]).astype(np.int32)

    @property
    def cu_k(self) -> Array | None:
        """The same of its keys."""
        packed = self.problem.packed
        return None if packed is None else np.cumsum([0, *(n for _, n in packed)]).astype(np.int32)

    @cached_property
    def masks(self) -> tuple[Bool, ...]:
        """What each query sees of the keys, per sequence: ``bool [m, n]``."""
        p = self.problem
        return tuple(p.mask.seen(sequence.m, sequence.n) for sequence in p.sequences)

    @cached_property
    def kept(self) -> Bool:
        """``bool [b, h, m, n]``: what dropout keeps; all of it without dropout."""
        p = self.problem
        return p.dropout.kept((p.b, p.h, p.m, p.n))


def validate(inputs: Inputs) -> None:
    """Raise TileproofError unless a kernel may be given these inputs."""
    p = inputs.problem
    validate_problem(p)
    for name, (shape, dtype) in p.shapes().items():
        array = getattr(inputs, name)
        if array is None and name == "bias":
            continue
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            raise TileproofError(
                f"{name} does not match the backward's inputs",
                where=name,
                expected=f"{dtype} {list(shape)}",
                found=f"{getattr(array, 'dtype', type(array).__name__)} {list(np.shape(array))}",
            )
        if name == "lse":
            continue
        if not np.isfinite(array.astype(np.float64)).all():
            raise TileproofError(f"{name} has a non-finite value", where=name)
    require_logits(inputs.q, inputs.k, p.sm_scale, _logits(inputs))
    for sequence, seen in zip(p.sequences, inputs.masks, strict=True):
        lse = inputs.lse[sequence.batch, :, sequence.queries]
        if not (np.isfinite(lse) | ~seen.any(axis=1)).all():
            raise TileproofError(
                "lse has a non-finite value", where="lse",
                expected="finite numbers for queries with a visible key",
            )  # fmt: skip


def _logits(inputs: Inputs) -> Iterator[tuple[str, Array, Array]]:
    """Queries of each head and the keys of its sequence."""
    p = inputs.problem
    for number, sequence in enumerate(p.sequences):
        for head in range(p.h):
            queries = inputs.q[sequence.batch, sequence.queries, head]
            keys = inputs.k[sequence.batch, sequence.keys, head // p.heads]
            yield f"sequence {number}, head {head}", queries, keys


def validate_problem(p: DenseProblem) -> None:
    """Raise TileproofError if the backward is not defined for the sizes."""

    def require(holds: bool, what: str, where: str, expected: str, found: object) -> None:
        if not holds:
            raise TileproofError(what, where=f"problem.{where}", expected=expected, found=repr(found))

    for name in ("b", "m", "n", "h", "h_kv", "d_qk", "d_v"):
        value = getattr(p, name)
        least = 0 if name in "mn" and p.packed is not None else 1
        require(isinstance(value, int) and value >= least, f"{name} is no size", name, f">= {least}", value)
    for name in ("d_qk", "d_v"):
        value = getattr(p, name)
        require(value <= LARGEST_HEAD, f"{name} is too large", name, f"<= {LARGEST_HEAD}", value)
    require(p.h % p.h_kv == 0, "the KV heads do not divide the heads", "h_kv", f"a divisor of {p.h}", p.h_kv)
    require(p.form in DTYPES, "unknown form of operands", "form", ", ".join(DTYPES), p.form)
    require(math.isfinite(p.sm_scale) and p.sm_scale > 0, "no scale", "sm_scale", "finite, > 0", p.sm_scale)
    require(0 <= p.dropout.p < 1, "no probability of dropout", "dropout.p", "0 <= p < 1", p.dropout.p)
    require(p.mask.align in ("top left", "bottom right"), "no alignment", "mask.align", "", p.mask.align)
    require(p.splits in range(1, MAX_SPLITS + 1), "no number of splits", "splits",
        f"1 to {MAX_SPLITS}", p.splits)  # fmt: skip
    if p.packed is not None:
        sums = tuple(sum(lengths[at] for lengths in p.packed) for at in (0, 1))
        fits = sums == (p.m, p.n) and p.b == 1 and min(min(lengths) for lengths in p.packed) >= 0
        require(fits, "the sequences do not fit", "packed", f"sums {(p.m, p.n)}, b = 1", p.packed)
        require(p.dropout.p == 0, "dropout has no place of packed elements", "dropout", "p = 0", p.dropout.p)
