"""A problem type and a kernel of it, in one folder elsewhere, pass through the commands with no edit here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tileproof.conformance.cli.app import main
from tileproof.spec import problems
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type, register

from tests.kit.paths import ROOT

# y[r] = the sum over k of x[r, k] w[r, k]: a group is 32 rows, a k-block 4 columns. The kernel is PTX.
PACKAGE = """
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st
from tileproof.kernels.image import Ptx
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.variant import Variant
from tileproof.spec.arithmetic import AsF32
from tileproof.spec.plan import KernelPlan, OutputObservation, WarpRole
from tileproof.spec.problems import register
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.problems.cases import EdgeCase
from tileproof.spec.stage import Graph

ROWS, BLOCK = 32, 4
graph = Graph({"x": ("rows", "k"), "w": ("rows", "k")}, {}, walked="k")


@graph.stage("rows", symbol="y", memory="global y [rows]")
def y(m, x: AsF32, w: AsF32):
    return m.rowsum(x, w)


@dataclass(frozen=True)
class Case:
    groups: int = 1
    blocks: int = 1
    values: str = "normal"
    seed: int = 0

    def inputs(self):
        rng, shape = np.random.default_rng(self.seed), (self.groups * ROWS, self.blocks * BLOCK)
        draw = rng.standard_normal if self.values == "normal" else lambda size: rng.integers(-3, 4, size)
        return SimpleNamespace(**{name: draw(size=shape).astype(np.float32) for name in "xw"})

    def as_json(self):
        return json.dumps(asdict(self))

    def sizes(self):
        return {}


class Generator:
    def drawn(self, plan):
        small = st.integers(1, 3)
        return st.builds(Case, small, small, st.sampled_from(["normal", "integers"]), st.integers(0, 99))

    def edges(self, plan):
        return {"one block": EdgeCase(Case()), "several": EdgeCase(Case(3, 5), ("early", "late"))}

    def smaller(self, case):
        if case.groups > 1:
            yield Case(1, case.blocks, case.values, case.seed)

    def small(self, plan, blocks=None):
        return Case(1, blocks or 2)

    def from_json(self, text):
        return Case(**json.loads(text))


class RowDot(ProblemType):
    name, walked, shared, unit = "row_dot", "k", ("rows",), "row block"
    words = {"rows": "row"}
    stages = graph.stages()
    generator = Generator()

    def groups(self, inputs, tiling):
        return range(len(inputs.x) // ROWS)

    def k_blocks(self, inputs, tiling, group):
        return self.size(inputs, "k") // tiling.block

    def size(self, inputs, axis):
        return inputs.x.shape[axis == "k"]

    def extent(self, inputs, tiling, group, axis):
        return slice(group * ROWS, (group + 1) * ROWS) if axis == "rows" else slice(0, inputs.x.shape[1])

    def region(self, inputs, tiling, coord, axis):
        return self.extent(inputs, tiling, coord.group, axis)

    def ground(self, inputs, tiling, group, name):
        return getattr(inputs, name)[group * ROWS : (group + 1) * ROWS]


ROW_DOT = RowDot()
register(ROW_DOT)


def describe(inputs, plan, built, probe):
    rows, columns = inputs.x.shape
    made = LaunchBuilder("row-dot", built.ptx)
    x, w = made.input("x", inputs.x), made.input("w", inputs.w)
    y = made.output("y", (rows,), np.float32)
    arguments = [x, w, y, ScalarArgument("u32", columns, "columns")]
    made.launch(built.entry, grid=(rows // ROWS, 1, 1), block=(ROWS, 1, 1), arguments=arguments)
    return made.file()


PLAN = KernelPlan(
    name="row-dot", problem=ROW_DOT, block=BLOCK, cluster=1, threads=ROWS, smem_bytes=0, stages=("y",),
    observations=(OutputObservation("y", "y", "[rows]"),),
    roles=(WarpRole("all", 0, 1, (0,), "one row per lane"),),
)
KERNELS = Kernel(
    "row-dot", (Variant.of("row_dot"),), lambda variant: PLAN,
    Ptx(lambda variant, probe: Path(__file__).with_name("row_dot.ptx"), lambda variant, probe: "row_dot"),
    describe, probe=False,
)
"""

PTX = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry row_dot(.param .u64 px, .param .u64 pw, .param .u64 py, .param .u32 pn)
{
    .reg .u64 %rd<8>;
    .reg .u32 %r<8>;
    .reg .f32 %f<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [pw];
    ld.param.u64 %rd3, [py];
    ld.param.u32 %r1, [pn];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r2, %r3, 32, %r2;
    mul.lo.u32 %r4, %r2, %r1;
    mul.wide.u32 %rd4, %r4, 4;
    add.u64 %rd1, %rd1, %rd4;
    add.u64 %rd2, %rd2, %rd4;
    mul.wide.u32 %rd4, %r2, 4;
    add.u64 %rd3, %rd3, %rd4;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r5, FIRST;
again:
    ld.global.f32 %f2, [%rd1];
    ld.global.f32 %f3, [%rd2];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u64 %rd1, %rd1, 4;
    add.u64 %rd2, %rd2, 4;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p, %r5, %r1;
    @%p bra again;
    st.global.f32 [%rd3], %f1;
    ret;
}
"""


@pytest.fixture(autouse=True)
def _known_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(problems, "_registered", {})


def toy(folder: Path, ptx: str = PTX.replace("FIRST", "0")) -> str:
    """The path of the package with this PTX."""
    (folder / "toy").mkdir()
    (folder / "toy" / "__init__.py").write_text(PACKAGE)
    (folder / "toy" / "row_dot.ptx").write_text(ptx)
    return str(folder / "toy")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), standalone_mode=True)


def result_of(seen: Result) -> dict[str, Any]:
    (result,) = json.loads(seen.stdout)["results"]
    return dict(result)


def test_the_description_is_the_one_of_the_documents() -> None:
    page = (ROOT / "docs/adding-a-kernel.md").read_text(encoding="utf-8")
    block = page.partition("```python ")[2].partition("\n")[2].partition("```")[0]
    assert block.startswith("def describe(") and block in PACKAGE


def test_a_right_kernel_passes(tmp_path: Path) -> None:
    path = toy(tmp_path)
    seen = run("check", path, "--examples", "8", "--json")
    assert seen.exit_code == 0, seen.output
    result = result_of(seen)
    assert result["examples"] == 8 + 3 and result["stages"]["y"]["tiles"] >= 16
    explored = run("explore", path, "--schedules", "4")
    assert explored.exit_code == 0, explored.output
    assert run("trace", path, "--text").exit_code == 0
    assert "row_dot" in run("stages").output


def test_a_wrong_kernel_is_found_and_made_smaller(tmp_path: Path) -> None:
    """The last column is left out: every row is wrong, of the smallest case too."""
    path = toy(tmp_path, PTX.replace("FIRST", "1"))
    seen = run("check", path, "--examples", "4", "--json")
    assert seen.exit_code == 1, seen.output
    result = result_of(seen)
    finding = result["findings"][0]
    place = finding["problem"]
    assert (place["stage"], place["unit"], place["group"], place["axes"][0]) == (
        "y", "row block", 0, "row"
    )  # fmt: skip
    assert json.loads(result["case"])["groups"] == 1
    replayed = run("check", path, "--case", result["case"], "--policy", "late", "--json")
    assert replayed.exit_code == 1 and result_of(replayed)["findings"][0] == finding


def test_a_row_block_that_another_one_overwrites_is_named(tmp_path: Path) -> None:
    """All clusters work on row block 0: the others are never written."""
    path = toy(tmp_path, PTX.replace("FIRST", "0").replace("mov.u32 %r3, %ctaid.x;", "mov.u32 %r3, 0;"))
    seen = run("check", path, "--examples", "1", "--no-races", "--json")
    assert seen.exit_code == 1, seen.output
    first = result_of(seen)["findings"][0]
    assert (first["code"], first["problem"]["group"]) == ("missing", 1)


def test_names_of_the_projects_own_stay_its_own(tmp_path: Path) -> None:
    with pytest.raises(TileproofError, match="own has this name"):
        register(problem_type("gemm"))
    with pytest.raises(TileproofError, match="unknown problem type"):
        problem_type("row_dot")
