"""Cases of a matrix product, as small structures that Hypothesis draws and shrinks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args

import numpy as np
from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.numerics import F32_MAX
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import AnyCase, EdgeCase
from tileproof.spec.problems.gemm.inputs import Inputs, validate

Values = Literal["zeros", "coordinates", "integers", "normal", "tiny"]
VALUES: tuple[Values, ...] = get_args(Values)
K_TILE = 64
MAX_ELEMENTS = 2**26  # of a matrix: what a machine of ordinary size draws and multiplies
SCALARS = (1.0, 0.0, -1.0, 0.7, 1.3)


def steps(plan: KernelPlan) -> tuple[int, int]:
    """Rows and columns of D that one cluster of the plan's kernel writes."""
    rows, columns = (elements * ctas for _, elements, ctas in plan.shape)
    return rows, columns


@dataclass(frozen=True)
class GemmCase:
    """Clusters along M and N, tiles along K, scalars, value class and seed of the arrays."""

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
        if self.values == "integers":
            return rng.integers(-4, 5, (rows, columns)).astype(np.float64)
        return rng.standard_normal((rows, columns)) * (2.0**-16 if self.values == "tiny" else 1.0)

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case."""
        return json.dumps({"problem": "gemm", **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> GemmCase:
        """The case of `as_json`; TileproofError says what is wrong with the text."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict) or raw.pop("problem", "") != "gemm":
                raise ValueError('not of the problem "gemm"')
            if unknown := set(raw) - {field.name for field in fields(GemmCase)}:
                raise ValueError(f"unknown field {min(unknown)!r}")
            case = GemmCase(**raw)
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
    if any(type(one) is not int or one < 1 for one in whole) or type(case.seed) is not int or case.seed < 0:
        raise TypeError("sizes are integers from 1, a seed is an integer from 0")
    if case.values not in VALUES or type(case.bias) is not bool:
        raise ValueError(f"values are one of {', '.join(VALUES)}, bias is true or false")
    if not all(isinstance(one, int | float) and abs(one) <= F32_MAX for one in (case.alpha, case.beta)):
        raise ValueError("alpha and beta are numbers that f32 holds")
    m, n, k = case.m * case.step_m, case.n * case.step_n, case.k_tiles * K_TILE
    if max(m * k, n * k, m * n) > MAX_ELEMENTS:
        raise ValueError(f"a matrix has at most {MAX_ELEMENTS} elements")


def drawn(plan: KernelPlan) -> st.SearchStrategy[GemmCase]:
    """Cases for the kernel of `plan`."""
    return cases(steps(plan), plan.problem.name == "gemm_bias")


LONG = 20  # k-blocks past every ring's second turn


def edges(plan: KernelPlan) -> dict[str, EdgeCase]:
    """One k-block, two more than the deepest ring has stages, and many; tiles in both directions, unlike in
    number, whose elements say where they stand; scalars and C; subnormals of f16.
    """
    whole, biased = steps(plan), plan.problem.name == "gemm_bias"
    few = _few(whole)
    one = GemmCase(*whole, values="normal", bias=biased)
    across = replace(one, m=2 if few else 1, n=3 if few else 1, values="coordinates")
    found: dict[str, AnyCase] = {f"{blocks} k-blocks": small(plan, blocks) for blocks in (1, plan.depth + 2)}
    found |= {
        "scalars": replace(one, alpha=-1.3, beta=0.7, values="integers", seed=1),
        "tiny": replace(one, values="tiny", beta=1.0, seed=2),
        "tiles": across,
        f"{LONG if few else 2 * plan.depth + 3} k-blocks": small(plan, LONG if few else 2 * plan.depth + 3),
    }
    return {name: EdgeCase(case) for name, case in found.items()}


def smaller(case: GemmCase) -> Iterator[GemmCase]:
    """Simpler by one size, by a scalar or by the value class."""
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
    yield from (one for one in plainer if one != case)


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
