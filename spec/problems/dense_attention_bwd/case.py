"""A test case of dense attention as a small structure, drawn by Hypothesis and named by replay commands."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.cases import WIDEST, Spread
from tileproof.spec.problems.dense_attention_bwd.forward import with_forward
from tileproof.spec.problems.dense_attention_bwd.inputs import (
    DTYPES,
    DenseProblem,
    Dropout,
    Inputs,
    validate,
    validate_problem,
)
from tileproof.spec.problems.dense_attention_bwd.larger import Larger
from tileproof.spec.problems.dense_attention_bwd.masks import Align, Mask

Values = Literal["zeros", "integers", "wide", "normal", "large", "tiny", "low", "zero keys"]
VALUES: tuple[Values, ...] = get_args(Values)
# Of q, k, v and dO: large logits make one key own a query; tiny values reach what a form of operands keeps no
# more. Low logits share a column that makes every logit about `LOW`, so that e^-lse is beyond f32's range.
# Every other key is zero: its exponent is -lse without a rounding, of tens, so that S shows what exp2 loses.
SCALES = {"normal": 1.0, "large": 8.0, "tiny": 2.0**-12, "low": 1.0, "zero keys": 3.0}
LOW = -120.0
WIDE_SCALE = 2.0**-15  # makes sums of wide integers logits of ordinary size
# Of sizes: a sequence of a model, with a tail; tile counts above 64, offsets above 16 bits.
PRODUCTION = 2**13 + 1


@dataclass(frozen=True)
class DenseCase:
    """One problem: sizes, mask, value class and seed of the arrays. `scale` 0: 1 / sqrt(d_qk), of wide
    integers `WIDE_SCALE`.

    `packed`: (queries, keys) of each sequence in the place of b, m and n; `heads`: query heads per KV head.
    """

    form: str = "bf16"
    b: int = 1
    m: int = 64
    n: int = 64
    h_kv: int = 1
    heads: int = 1
    d_qk: int = 64
    d_v: int = 64
    scale: float = 0.0
    align: Align = "top left"
    left: int | None = None
    right: int | None = None
    packed: tuple[tuple[int, int], ...] | None = None
    bias: bool = False
    dropout: float = 0.0
    stream: tuple[int, int] = (0, 0)  # seed and offset of the dropout
    by_block: bool = False  # how it is drawn (`Dropout`)
    values: Values = "normal"
    seed: int = 0
    splits: int = 1  # runs into which the keys are cut
    larger: Larger | None = None  # the problem that the case is part of

    def sizes(self) -> dict[str, int]:
        """The sizes that choose a kernel's variant: none, a kernel takes any."""
        return {}

    @property
    def problem(self) -> DenseProblem:
        """Sizes, mask and dropout."""
        m, n = (self.m, self.n) if self.packed is None else (sum(x) for x in zip(*self.packed, strict=True))
        return DenseProblem(
            self.b, m, n, self.h_kv * self.heads, self.h_kv, self.d_qk, self.d_v, self.form,
            self.scale or (WIDE_SCALE if self.values == "wide" else float(self.d_qk) ** -0.5),
            Mask(self.align, self.left, self.right),
            Dropout(self.dropout, *self.stream, self.by_block), self.packed, self.splits,
        )  # fmt: skip

    def inputs(self) -> Inputs:
        """The arrays of this case, validated; equal cases give equal arrays."""
        problem = self.problem
        validate_problem(problem)
        rng = np.random.default_rng(self.seed)
        shapes = problem.shapes()
        names = ("q", "k", "v", "dO", *(("bias",) if self.bias else ()))
        arrays: dict[str, Array] = {name: self._draw(rng, shapes[name][0]) for name in names}
        if self.values == "low":
            shared = math.sqrt(-LOW / problem.sm_scale)
            arrays["q"][..., 0], arrays["k"][..., 0] = shared, -shared
        if self.values == "zero keys":
            arrays["k"][:, ::2] = 0
        result = with_forward(problem, exact=False, **arrays)
        validate(result)
        return result

    def spread(self, inputs: Inputs) -> Spread | None:
        """The larger problem that the case is part of; None: the case is all of it."""
        return None if self.larger is None else self.larger.spread(inputs)

    def _draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if self.values == "zeros":
            values = np.zeros(shape)
        elif self.values in ("integers", "wide"):
            largest = WIDEST if self.values == "wide" else 3
            values = rng.integers(-largest, largest + 1, shape).astype(np.float64)
        else:
            values = rng.standard_normal(shape) * SCALES[self.values]
        return values.astype(np.float32).astype(DTYPES[self.form])

    def as_json(self) -> str:
        """One line from which `from_json` makes an equal case; fields at their default are left out."""
        default, whole = DenseCase(), asdict(self)
        changed = {f.name: whole[f.name] for f in fields(self) if whole[f.name] != getattr(default, f.name)}
        return json.dumps({"form": self.form, **changed}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> DenseCase:
        """The case of `as_json`; TileproofError says what is wrong with the text."""
        try:
            raw = json.loads(text)
            for name, inner in (("packed", tuple), ("stream", int)):
                if raw.get(name) is not None:
                    raw[name] = tuple(inner(item) for item in raw[name])
            if raw.get("larger") is not None:
                raw["larger"] = Larger(**{**raw["larger"], "at": tuple(raw["larger"]["at"])})
            case = DenseCase(**raw)
            if case.values not in VALUES:
                raise ValueError("unknown value class")
            validate_problem(case.problem)
            if case.larger is not None:
                case.larger.check(case.problem)
        except (TypeError, ValueError, AttributeError) as error:
            raise TileproofError(
                "not a case that Tileproof wrote", where="--case",
                expected='JSON such as {"form":"bf16","m":65,"right":0}', found=f"{text[:80]} ({error})",
                do="copy it from the replay command of a finding",
            ) from None  # fmt: skip
        return case
