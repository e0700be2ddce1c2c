"""RMS-norm backward as a package outside of Tileproof: an operation, stages, a problem type, a CUDA kernel.

A group is 32 rows of x; a k-block is 4 columns. Nothing in Tileproof names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import Edit, InStage, Place, PlantedDefect
from tileproof.kernels.image import Sources
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import Given, LaunchBuilder
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.arithmetic import Arithmetic, AsF32, Operation
from tileproof.spec.arithmetic import register as register_operation
from tileproof.spec.arithmetic.formula import PRODUCT, Formula, wrap
from tileproof.spec.plan import KernelPlan, OutputObservation, WarpRole
from tileproof.spec.problems import register
from tileproof.spec.problems.base import ProblemType, TileCoord, Tiling
from tileproof.spec.problems.cases import EdgeCase
from tileproof.spec.problems.field_tensors import FieldTensors
from tileproof.spec.problems.tensors import TensorForms
from tileproof.spec.stage import Graph

ROWS, BLOCK, EPS = 32, 4, 1e-5
SCALES = {"zeros": 0.0, "small": 2.0**-8, "normal": 1.0, "large": 64.0}
F32 = npt.NDArray[np.float32]


# ---- an operation


class Cube(Operation):
    """``a^3``, two products in f32."""

    name = "cube"
    error = "that of mul of three factors"

    def exact(self, m: Any, a: Any) -> Any:
        return a * a * a

    def rounded(self, m: Any, a: Any) -> Any:
        return m.mul(a, a, a)

    bound = rounded

    def text(self, m: Any, a: Formula) -> Formula:
        m.operations.append("cube")
        m.roundings.append("two products to f32")
        plain, latex = wrap(a, PRODUCT)
        return Formula(f"{plain}^3", f"{latex}^3", a.axes)


register_operation(Cube())

# ---- stages

graph = Graph(
    {
        "x": ("rows", "k"),
        "dy": ("rows", "k"),
        "w": ("k",),
        "columns": (),
        "eps": (),
    },
    {"dy": r"\mathrm{d}y", "eps": r"\epsilon", "columns": "n"},
    walked="k",
)


@graph.stage("rows", symbol=r"\rho", memory="global rstd [rows]")
def rstd(m: Arithmetic, x: AsF32, columns: AsF32, eps: AsF32) -> Any:
    return m.rsqrt(m.add(m.div(m.rowsum(x, x), columns), eps))


@graph.stage("rows", symbol=r"\mu", memory="global mean [rows]")
def mean(m: Arithmetic, x: AsF32, dy: AsF32, w: AsF32, columns: AsF32) -> Any:
    return m.div(m.rowsum(m.mul(dy, w), x), columns)


@graph.stage("rows", "k", symbol=r"\mathrm{d}x", memory="global dx [rows, k]")
def dx(m: Arithmetic, x: AsF32, dy: AsF32, w: AsF32, rstd: AsF32, mean: AsF32) -> Any:
    along = m.mul(x, m.column(m.mul(m.cube(rstd), mean)))
    return m.sub(m.mul(dy, w, m.column(rstd)), along)


@graph.stage("k", symbol=r"\mathrm{d}w", memory="global dw [blocks, k]")
def dw(m: Arithmetic, x: AsF32, dy: AsF32, rstd: AsF32) -> Any:
    return m.colsum(dy, m.mul(x, m.column(rstd)))


# ---- cases


@dataclass(frozen=True)
class Inputs:
    """x, dy ``[rows, k]`` and w ``[k]`` f32; eps is added to the mean square."""

    x: F32
    dy: F32
    w: F32
    eps: float


@dataclass(frozen=True)
class Case:
    """`groups` times 32 rows, `blocks` times 4 columns; of `values` "small" eps is what counts."""

    groups: int = 1
    blocks: int = 1
    values: str = "normal"
    seed: int = 0

    def inputs(self) -> Inputs:
        rng, shape = np.random.default_rng(self.seed), (self.groups * ROWS, self.blocks * BLOCK)
        x, dy = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
        w = rng.uniform(0.5, 2.0, shape[1]).astype(np.float32)
        return Inputs(x * np.float32(SCALES[self.values]), dy, w, EPS)

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    def sizes(self) -> dict[str, int]:
        return {}


class Cases:
    """How cases are drawn."""

    def drawn(self, plan: KernelPlan) -> st.SearchStrategy[Case]:
        small = st.integers(1, 3)
        return st.builds(Case, small, small, st.sampled_from(sorted(SCALES)), st.integers(0, 99))

    def edges(self, plan: KernelPlan) -> Mapping[str, EdgeCase]:
        return {
            "one block": EdgeCase(Case()),
            "zeros": EdgeCase(Case(values="zeros")),
            "several": EdgeCase(Case(2, 3, "small"), ("early", "late")),
        }

    def smaller(self, case: Case) -> Iterator[Case]:
        if case.groups > 1:
            yield replace(case, groups=1)
        if case.blocks > 1:
            yield replace(case, blocks=1)

    def small(self, plan: KernelPlan, blocks: int | None = None) -> Case:
        return Case(1, blocks or 2)

    def from_json(self, text: str) -> Case:
        return Case(**json.loads(text))


# ---- the problem type


class RmsNormBackward(ProblemType):
    """A group is 32 rows; all its columns are walked."""

    @property
    def tensors(self) -> TensorForms:
        return FieldTensors(self, Inputs)

    name, walked, shared, unit = "rms_norm_bwd", "k", ("rows",), "row block"
    words = MappingProxyType({"rows": "row", "k": "column"})
    stages = graph.stages()
    generator = Cases()

    def groups(self, inputs: Inputs, tiling: Tiling) -> range:
        return range(len(inputs.x) // ROWS)

    def k_blocks(self, inputs: Inputs, tiling: Tiling, group: int) -> int:
        return self.size(inputs, "k") // tiling.block

    def size(self, inputs: Inputs, axis: str) -> int:
        return {"rows": len(inputs.x), "k": len(inputs.w), "blocks": len(inputs.x) // ROWS}[axis]

    def extent(self, inputs: Inputs, tiling: Tiling, group: int, axis: str) -> slice:
        return slice(group * ROWS, (group + 1) * ROWS) if axis == "rows" else slice(0, len(inputs.w))

    def region(self, inputs: Inputs, tiling: Tiling, coord: TileCoord, axis: str) -> slice:
        if axis == "k" and coord.k_block is not None:
            return slice(coord.k_block * tiling.block, (coord.k_block + 1) * tiling.block)
        return self.extent(inputs, tiling, coord.group, axis)

    def ground(self, inputs: Inputs, tiling: Tiling, group: int, name: str) -> Any:
        if name in ("x", "dy"):
            return getattr(inputs, name)[group * ROWS : (group + 1) * ROWS]
        return len(inputs.w) if name == "columns" else getattr(inputs, name)

    def output(self, stage: str) -> tuple[str, ...]:
        return ("blocks", "k") if stage == "dw" else self.stages[stage].tile

    def place(
        self, inputs: Inputs, tiling: Tiling, coord: TileCoord, axes: tuple[str, ...]
    ) -> tuple[Any, ...]:
        return tuple(
            coord.group if axis == "blocks" else self.region(inputs, tiling, coord, axis) for axis in axes
        )


PROBLEM = RmsNormBackward()
register(PROBLEM)

# ---- the kernel


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    rows, columns = inputs.x.shape
    made = LaunchBuilder("rms-norm-backward", built.ptx)
    arguments: list[Given] = [
        *(made.input(name, getattr(inputs, name)) for name in ("x", "dy", "w")),
        *(made.output(name, (rows,), np.float32) for name in ("rstd", "mean")),
        made.output("dx", (rows, columns), np.float32),
        made.output("dw", (rows // ROWS, columns), np.float32),
        ScalarArgument("s32", columns, "columns"),
        ScalarArgument("f32", inputs.eps, "eps"),
    ]
    made.launch(built.entry, grid=(rows // ROWS, 1, 1), block=(ROWS, 1, 1), arguments=arguments)
    return made.file()


PLAN = KernelPlan(
    name="rms-norm-backward",
    problem=PROBLEM,
    block=BLOCK,
    cluster=1,
    threads=ROWS,
    smem_bytes=0,
    stages=tuple(PROBLEM.stages),
    observations=(
        OutputObservation("rstd", "rstd", "[rows]"),
        OutputObservation("mean", "mean", "[rows]"),
        OutputObservation("dx", "dx", "[rows, k]"),
        OutputObservation("dw", "dw", "[blocks, k]"),
    ),
    roles=(WarpRole("all", 0, 1, (0,), "a row per lane"),),
)


def _defect(id: str, title: str, find: str, replace: str, stage: str) -> PlantedDefect:
    edit = Edit(Place(find, "rms_norm.cu"), replace)
    return PlantedDefect(id, title, "", PLAN.name, (edit,), InStage(stage, "all rows"))


DEFECTS = (
    _defect("no-eps", "eps is not added", "squares / columns + eps", "squares / columns", "rstd"),
    _defect("no-mean", "the sum is not divided", "dot / columns", "dot", "mean"),
    _defect("square", "rstd enters squared, not cubed", "r * r * r * m", "r * r * m", "dx"),
    _defect("one-row-short", "the last lanes are not summed", "lanes = 16", "lanes = 8", "dw"),
    _defect("fast-root", "a root of 11 bits", "rsqrtf(", "(1 + 0.0005f) * rsqrtf(", "rstd"),
)
KERNELS = Kernel(
    name=PLAN.name,
    variants=(Variant.of(PROBLEM.name),),
    plan_of=lambda variant: PLAN,
    image=Sources(main="rms_norm.cu", folders=(".",), root=Path(__file__).parent),
    describe=describe,
    probe=False,
    defects=lambda: DEFECTS,
)
