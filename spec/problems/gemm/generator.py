"""Cases of a matrix product, as small structures that Hypothesis draws and shrinks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args

import numpy as np
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.lazy import MAX_BYTES, lazy_zeros
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import F32_MAX
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import WIDEST, AnyCase, EdgeCase, Spread
from tileproof.spec.problems.gemm.inputs import Inputs, validate

Values = Literal["zeros", "coordinates", "integers", "wide", "normal", "tiny"]
VALUES: tuple[Values, ...] = get_args(Values)
K_TILE = 64
MAX_ELEMENTS = 2**26  # of a matrix: what a machine of ordinary size draws and multiplies
SCALARS = (1.0, 0.0, -1.0, 0.7, 1.3)
FAR_ELEMENTS = 2**32  # of an operand and of D in a larger problem: places beyond 32 bits, in elements too


def steps(plan: KernelPlan) -> tuple[int, int]:
    """Rows and columns of D that one cluster of the plan's kernel writes."""
    rows, columns = (elements * ctas for _, elements, ctas in plan.shape)
    return rows, columns


@dataclass(frozen=True)
class GemmCase:
    """Clusters along M and N, tiles along K, scalars, value class and seed of the arrays.

    `of` > 0: the case is part of a larger problem with so many clusters along the axis `far`, of which the
    case's are those `at`.
    """

    step_m: int
    step_n: int
    m: int = 1
    n: int = 1
    k_tiles: int = 1
    alpha: float = 1.0
    beta: float = 0.0
    values: Values = "zeros"
    seed: int = 0
    bias: bool = False  # in the place of beta C
    far: Literal["M", "N"] = "M"
    of: int = 0
    at: tuple[int, ...] = ()

    def sizes(self) -> dict[str, int]:
        """The sizes that choose a kernel's variant."""
        return {"step_m": self.step_m, "step_n": self.step_n}

    def inputs(self) -> Inputs:
        """The arrays of this case, validated; equal cases give equal arrays."""
        rng = np.random.default_rng(self.seed)
        m, n, k = self.m * self.step_m, self.n * self.step_n, self.k_tiles * K_TILE
        A, B, C = (self._draw(rng, *shape) for shape in ((m, k), (n, k), (m, n)))
        left, right = A.astype(np.float16), B.astype(np.float16)
        if self.bias:
            inputs = Inputs(left, right, bias=C[0].astype(np.float32), alpha=self.alpha)
        else:
            inputs = Inputs(left, right, C.astype(np.float32), None, self.alpha, self.beta)
        validate(inputs, {"M": self.step_m, "N": self.step_n, "K": K_TILE})
        return inputs

    def _draw(self, rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
        if self.values == "zeros":
            return np.zeros((rows, columns))
        if self.values == "coordinates":  # differ in each row and column, and stay exact in f16
            return (np.arange(rows)[:, None] % 31 - 15) * 32.0 + np.arange(columns)[None, :] % 29 - 14
        if self.values == "wide":
            return rng.integers(-WIDEST, WIDEST + 1, (rows, columns)).astype(np.float64)
        if self.values == "integers":
            return rng.integers(-4, 5, (rows, columns)).astype(np.float64)
        return rng.standard_normal((rows, columns)) * (2.0**-16 if self.values == "tiny" else 1.0)

    def spread(self, inputs: Inputs) -> Spread | None:
        """The product of `of` clusters along `far` that holds these inputs at `at`; None without `of`."""
        if not self.of:
            return None
        along_m = self.far == "M"
        step, own = (self.step_m, self.m) if along_m else (self.step_n, self.n)
        places = (np.array(self.at)[:, None] * step + np.arange(step)).reshape(-1)

        def wide(array: Array, axis: int) -> Array:
            shape = list(array.shape)
            shape[axis] = self.of * step
            made = lazy_zeros(tuple(shape), array.dtype)
            made[(slice(None),) * axis + (places,)] = array
            return made

        C, bias = inputs.C, inputs.bias
        if along_m:
            larger = replace(inputs, A=wide(inputs.A, 0), C=C if C is None else wide(C, 0))
            numbers = [at + other * self.of for other in range(self.n) for at in self.at]
        else:
            larger = replace(
                inputs, B=wide(inputs.B, 0), C=C if C is None else wide(C, 1),
                bias=bias if bias is None else wide(bias, 0),
            )  # fmt: skip
            numbers = [other + at * self.m for at in self.at for other in range(self.m)]
        return Spread(larger, self.of * self.m * self.n // own, tuple(numbers), {self.far: places})

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case; of a case that is whole without `of`."""
        stated = {name: value for name, value in asdict(self).items() if self.of or name not in LARGER}
        return json.dumps({"problem": "gemm", **stated}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> GemmCase:
        """The case of `as_json`; TileproofError says what is wrong with the text."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict) or raw.pop("problem", "") != "gemm":
                raise ValueError('not of the problem "gemm"')
            if unknown := set(raw) - {field.name for field in fields(GemmCase)}:
                raise ValueError(f"unknown field {min(unknown)!r}")
            case = GemmCase(**{**raw, "at": tuple(raw.get("at", ()))})
            _check(case)
            return case
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise TileproofError(
                "not a case that Tileproof wrote", where="--case", found=f"{text[:80]} ({error})",
                expected='JSON such as {"problem":"gemm","step_m":64,"step_n":64,"values":"integers"}',
                do="copy it from the replay command of a finding",
            ) from None  # fmt: skip


def _check(case: GemmCase) -> None:
    """TypeError or ValueError says what is no case."""
    whole = (case.step_m, case.step_n, case.m, case.n, case.k_tiles)
    if (
        any(type(number) is not int or number < 1 for number in whole)
        or type(case.seed) is not int
        or case.seed < 0
    ):
        raise TypeError("sizes are integers from 1, a seed is an integer from 0")
    if case.values not in VALUES or type(case.bias) is not bool:
        raise ValueError(f"values are one of {', '.join(VALUES)}, bias is true or false")
    if not all(
        isinstance(scalar, int | float) and abs(scalar) <= F32_MAX for scalar in (case.alpha, case.beta)
    ):
        raise ValueError("alpha and beta are numbers that f32 holds")
    m, n, k = case.m * case.step_m, case.n * case.step_n, case.k_tiles * K_TILE
    if max(m * k, n * k, m * n) > MAX_ELEMENTS:
        raise ValueError(f"a matrix has at most {MAX_ELEMENTS} elements")
    if (case.of, case.at, case.far) != (0, (), "M"):
        _check_larger(case)


def _check_larger(case: GemmCase) -> None:
    """The same of a case that is part of a larger problem."""
    if case.far not in ("M", "N") or type(case.of) is not int:
        raise ValueError("far is M or N, of an integer")
    own, step, other = (
        (case.m, case.step_m, case.n * case.step_n)
        if case.far == "M"
        else (case.n, case.step_n, case.m * case.step_m)
    )
    if any(type(place) is not int for place in case.at) or len(case.at) != own:
        raise ValueError(f"at has {own} integers")
    if sorted(set(case.at)) != list(case.at) or min(case.at) < 0 or max(case.at) >= case.of:
        raise ValueError(f"at increases and is below {case.of}")
    if case.of * step * max(other, case.k_tiles * K_TILE) * 4 > MAX_BYTES:
        raise ValueError(f"a matrix of the larger problem has at most {MAX_BYTES} bytes")


def drawn(plan: KernelPlan) -> st.SearchStrategy[GemmCase]:
    """Cases for the kernel of `plan`."""
    return cases(steps(plan), plan.problem.name == "gemm_bias")


LARGER = ("far", "of", "at")
LONG = 20  # k-blocks past every ring's second turn
PRODUCTION = 128  # k-blocks of a row of 8,192 elements


def edges(plan: KernelPlan) -> dict[str, EdgeCase]:
    """One k-block, two more than the deepest ring has stages, and many; tiles in both directions, unlike in
    number, whose elements say where they stand; scalars and C; subnormals of f16; integers whose sums show
    every lost bit; K of production size; rows and columns whose places in operands and D need more than 32
    bits.
    """
    whole, biased = steps(plan), plan.problem.name == "gemm_bias"
    few = _few(whole)
    plain = GemmCase(*whole, values="normal", bias=biased)
    across = replace(plain, m=2 if few else 1, n=3 if few else 1, values="coordinates")
    found: dict[str, AnyCase] = {f"{blocks} k-blocks": small(plan, blocks) for blocks in (1, plan.depth + 2)}
    found |= {
        "scalars": replace(plain, alpha=-1.3, beta=0.7, values="integers", seed=1),
        "tiny": replace(plain, values="tiny", beta=1.0, seed=2),
        "tiles": across,
        f"{LONG if few else 2 * plan.depth + 3} k-blocks": small(plan, LONG if few else 2 * plan.depth + 3),
        "wide integers": replace(plain, k_tiles=4, values="wide", seed=3),
        "K of production size": replace(small(plan, PRODUCTION), seed=4),
        "far rows": _far(plain, "M"),
        "far columns": _far(plain, "N"),
    }
    return {name: EdgeCase(case) for name, case in found.items()}


def _far(plain: GemmCase, axis: Literal["M", "N"]) -> GemmCase:
    """Two k-blocks of the clusters along `axis` where places in clusters, elements of D and its bytes pass
    16, 31 and 32 bits, of the first and the last, where D and an operand go beyond all of them.
    """
    k_tiles = 2
    step, other = (plain.step_m, plain.step_n) if axis == "M" else (plain.step_n, plain.step_m)
    of = FAR_ELEMENTS // (step * min(other, k_tiles * K_TILE)) + 2
    ends = {2**16, *(2**bits // (step * other * size) for bits in (31, 32) for size in (1, 2, 4))}
    at = tuple(sorted({0, of - 1, *(end for end in ends if end < of)}))
    larger = replace(plain, k_tiles=k_tiles, beta=0.7, seed=5, far=axis, of=of)
    return _at(larger, at)


def _at(case: GemmCase, at: tuple[int, ...]) -> GemmCase:
    """The clusters `at` of the larger problem."""
    return replace(case, m=len(at), at=at) if case.far == "M" else replace(case, n=len(at), at=at)


def smaller(case: GemmCase) -> Iterator[GemmCase]:
    """Simpler by one size, by a scalar or by the value class; by itself, or of one cluster."""
    if case.of:
        yield replace(case, far="M", of=0, at=())
        if len(case.at) > 1:
            yield from (_at(case, (place,)) for place in case.at)
        return
    for name in ("m", "n", "k_tiles"):
        size = getattr(case, name)
        for less in sorted({1, size // 2, size - 1} - {0, size}):
            yield replace(case, **{name: less})
    plainer = (
        replace(case, alpha=1.0),
        replace(case, beta=0.0),
        replace(case, seed=0),
        replace(case, values="zeros"),
    )
    yield from (simpler for simpler in plainer if simpler != case)


def _few(step: tuple[int, int]) -> bool:
    """Whether several tiles of a cluster are few elements."""
    return step[0] * step[1] <= 2**16


def small(plan: KernelPlan, blocks: int | None = None) -> GemmCase:
    """One cluster's tile with `blocks` k-blocks; None: two more than the deepest ring has stages."""
    tiles, bias = blocks or plan.depth + 2, plan.problem.name == "gemm_bias"
    return GemmCase(*steps(plan), k_tiles=tiles, values="normal", bias=bias)


def from_json(text: str) -> GemmCase:
    """The case of `GemmCase.as_json`."""
    return GemmCase.from_json(text)


@st.composite
def cases(draw: st.DrawFn, step: tuple[int, int], bias: bool = False) -> GemmCase:
    """A case for a kernel whose cluster writes `step` rows and columns of D."""
    several = _few(step)
    return GemmCase(
        *step,
        m=draw(st.integers(1, 2)) if several else 1,
        n=draw(st.integers(1, 2)) if several else 1,
        k_tiles=draw(st.integers(1, 4 if several else 2)),
        alpha=draw(st.sampled_from(SCALARS)),
        beta=draw(st.sampled_from(SCALARS[1:] + SCALARS[:1])),
        values=draw(st.sampled_from(VALUES)),
        seed=draw(st.integers(0, 2**16 - 1)),
        bias=bias,
    )
