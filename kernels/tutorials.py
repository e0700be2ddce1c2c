"""NVIDIA's CuTe Blackwell tutorial kernels, compiled from the installed package.

The kernels are D = alpha A B^T + beta C, A [M, K] and B [N, K] f16, C and D [M, N] f32, row-major. Their
parameters are CuTe objects passed by value; the layouts below were read off the sources and the compiled
loads of parameters.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from tileproof.kernels import toolchain
from tileproof.kernels.compile import Built, compile_error
from tileproof.kernels.image import Ptx
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import LaunchArgument, ScalarArgument, StructArgument
from tileproof.kernels.launch.builder import LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.cache_folder import cache_root
from tileproof.spec.machine.descriptors import InstructionDescriptor
from tileproof.spec.plan import (
    Barrier,
    KernelPlan,
    Mma,
    OutputObservation,
    SmemTile,
    TmemObservation,
    TmemTile,
    WarpRole,
)
from tileproof.spec.problems.cases import ProblemInputs
from tileproof.spec.problems.gemm.inputs import Inputs, validate_sizes
from tileproof.spec.problems.gemm.problem import GEMM

FLAGS = ("-ptx", "-arch=sm_100a", "-std=c++17", "--expt-relaxed-constexpr", "-lineinfo")


@dataclass(frozen=True)
class Tutorial:
    """One tutorial: MMA shape (of the pair for 2 SMs), TMA boxes (rows), cluster and shared memory."""

    number: int
    source: str
    mma_m: int
    cluster: tuple[int, int, int]
    pair: bool
    a_rows: int  # rows of one TMA box of A and of B; 0: no TMA
    b_rows: int
    shared_bytes: int
    epilogue_tma: bool = False

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return f"tutorial-{self.number:02}"

    @property
    def step_m(self) -> int:
        """Rows of D that one cluster covers."""
        return self.mma_m * self.cluster[0] // (2 if self.pair else 1)

    @property
    def step_n(self) -> int:
        return TILE_N * self.cluster[1]


# One CTA holds a 128 x 64 tile of A and of B 256 x 64 (128 x 64 with two SMs), then two barriers and the
# TMEM base.
# Multicast splits a tile among the CTAs that share it: 4 along N and 4 along M (2 pairs along M with two
# SMs).
TUTORIALS = (
    Tutorial(1, "01_mma_sm100.cu", 128, (1, 1, 1), False, 0, 0, 49152 + 128),
    Tutorial(2, "02_mma_tma_sm100.cu", 128, (1, 1, 1), False, 128, 256, 49152 + 128),
    Tutorial(3, "03_mma_tma_multicast_sm100.cu", 128, (4, 4, 1), False, 32, 64, 49152 + 128),
    Tutorial(4, "04_mma_tma_2sm_sm100.cu", 256, (4, 4, 1), True, 32, 64, 32768 + 128),
    Tutorial(5, "05_mma_tma_epi_sm100.cu", 256, (4, 4, 1), True, 32, 64, 32768 + 128, True),
)


def ptx_of(tutorial: Tutorial) -> Path:
    """The tutorial's PTX, compiled when it is not cached; the cache stands beside the kernels'."""
    tools = toolchain.find()
    root = tools.cutlass_include.parent
    folder = root / "examples/cute/tutorial/blackwell"
    source = folder / tutorial.source
    content = source.read_bytes() + (folder / "example_utils.hpp").read_bytes()
    key = hashlib.sha256(content + " ".join((tools.version, *FLAGS)).encode()).hexdigest()[:24]
    target = cache_root() / "tutorials" / f"{key}.ptx"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            fresh = Path(work) / "tutorial.ptx"
            includes = [f"-I{tools.cutlass_include}", f"-I{root / 'tools/util/include'}", f"-I{folder}"]
            done = subprocess.run(
                [tools.nvcc, *FLAGS, *includes, str(source), "-o", str(fresh)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise compile_error("nvcc", done.stderr)
            os.replace(fresh, target)
    return target


@dataclass(frozen=True)
class ProductKernel(Kernel):
    """A kernel that multiplies matrices of any multiple of its cluster's tile."""

    def variant_of(self, inputs: ProblemInputs) -> Variant:
        return self.variants[0]

    def launch(self, inputs: ProblemInputs, built: Built, probe: bool = False) -> LaunchFile:
        variant = self.variants[0]
        validate_sizes(inputs, {"M": variant["step_m"], "N": variant["step_n"], "K": K_TILE})
        return super().launch(inputs, built, probe)


K_TILE = 64
TILE_N = 256  # columns of D per instruction
F16_BYTES = 2


def plan_of(tutorial: Tutorial) -> KernelPlan:
    """The tutorial's plan, read off its source: the accumulator in TMEM, the operands in shared memory, and
    the two mbarriers behind them (16-byte aligned, `SharedStorage`).

    The barrier of the loads is left out where the epilogue loads through it as well (05): a phase then has
    other bytes.
    """
    x, y, _ = tutorial.cluster
    ctas, pair = x * y, 2 if tutorial.pair else 1
    ranks = tuple(range(ctas))
    a_rows, b_rows = tutorial.mma_m // pair, TILE_N // pair
    a_bytes, b_bytes = a_rows * K_TILE * F16_BYTES, b_rows * K_TILE * F16_BYTES
    # A commit reaches every CTA that shares a tile with the committing CTA; pairs count as one along M.
    commits = x // pair + y - 1
    barriers = [
        Barrier("mma", a_bytes + b_bytes, 1, commits, 0, ranks, "tcgen05.commit", "all warps", True),
    ]
    if tutorial.a_rows and not tutorial.epilogue_tma:
        leaders = tuple(rank for rank in ranks if rank % pair == 0)
        barriers.append(
            Barrier(
                "tma", a_bytes + b_bytes + 16, 1, 1, pair * (a_bytes + b_bytes), leaders,
                "TMA of A and B", "all warps", True,
            )
        )  # fmt: skip
    return KernelPlan(
        name=tutorial.name,
        problem=GEMM,
        block=K_TILE,
        cluster=ctas,
        threads=128,
        smem_bytes=tutorial.shared_bytes,
        stages=("product", "D"),
        observations=(
            TmemObservation("product", tile="accumulator", barrier="mma"),
            OutputObservation("D", "D", "[M, N]"),
        ),
        roles=(WarpRole("all", 0, 4, ranks, "loads, multiplies and writes its tile of D"),),
        barriers=tuple(barriers),
        smem=(
            SmemTile("A", 0, a_bytes, 1, a_rows, K_TILE, "f16", "128B", "K", "rows of A"),
            SmemTile("B", a_bytes, b_bytes, 1, b_rows, K_TILE, "f16", "128B", "K", "rows of B"),
        ),
        tmem=(TmemTile("accumulator", 0, TILE_N, 1, "A" if tutorial.pair else "D", "A B^T, f32"),),
        tmem_columns=512,
        mmas=(
            Mma("product", "f16", pair, tutorial.mma_m, TILE_N, K_TILE, "A", "B", "accumulator", "K", "K"),
        ),
        cluster_shape=tutorial.cluster,
        shape=(("M", tutorial.step_m // x, x), ("N", tutorial.step_n // y, y)),
    )


def _s32(*values: int) -> list[tuple[int, ScalarArgument]]:
    return [(4 * i, ScalarArgument("s32", value)) for i, value in enumerate(values)]


def _tensor(buffer: LaunchBuffer) -> StructArgument:
    """A row-major global tensor: shape, stride, pointer."""
    rows, columns = buffer.shape
    return struct(24, (*_s32(rows, columns, columns), (16, buffer)))


def _coordinates(buffer: LaunchBuffer) -> StructArgument:
    """A TMA coordinate tensor: its shape, and a layout with nothing dynamic."""
    return struct(12, _s32(*buffer.shape))


def _atom(buffer: LaunchBuffer, columns: int, rows: int) -> StructArgument:
    """A TMA copy atom: the tensor map, then strides that these kernels do not read."""
    extent, inner = buffer.shape
    return struct(256, ((0, tensor_map(buffer, (inner, extent), (columns, rows), "128B")),))


def _describe(tutorial: Tutorial, inputs: Inputs, plan: KernelPlan, built: Built) -> LaunchFile:
    assert inputs.C is not None
    made = LaunchBuilder(tutorial.name, built.ptx)
    a, b, c = made.input("A", inputs.A), made.input("B", inputs.B), made.input("C", inputs.C)
    (m, n) = c.shape
    d = made.output("D", (m, n), np.float32)
    idesc = InstructionDescriptor(m=tutorial.mma_m, n=256, a_type="f16", b_type="f16").encode()
    mma, empty = struct(8, ((0, ScalarArgument("u32", idesc)),)), struct(1, ())
    scales = [ScalarArgument("f32", inputs.alpha, "alpha"), ScalarArgument("f32", inputs.beta, "beta")]
    params: list[LaunchArgument]
    if not tutorial.a_rows:
        params = [*map(_tensor, (a, b, c, d)), empty, mma, empty, *scales]
    else:
        atoms = [_atom(a, 64, tutorial.a_rows), _atom(b, 64, tutorial.b_rows)]
        params = [_coordinates(a), _coordinates(b)]
        if tutorial.epilogue_tma:
            params += [_coordinates(c), _coordinates(d), empty]
            atoms += [_atom(c, 32, 128), _atom(d, 32, 128)]
        else:
            params += [_tensor(c), _tensor(d)]
        params += [empty, mma, empty, *atoms, *scales]
    x, y, _ = tutorial.cluster
    made.launch(
        built.entry,
        grid=(m // tutorial.step_m * x, n // tutorial.step_n * y, 1),
        cluster=tutorial.cluster,
        block=(128, 1, 1),
        shared_bytes=tutorial.shared_bytes,
        arguments=params,
    )
    return made.file()


@cache
def _entry(tutorial: Tutorial) -> str:
    (name,) = re.findall(r"\.entry (\w*gemm_device\w*)", ptx_of(tutorial).read_text())
    return str(name)


def _kernel(tutorial: Tutorial) -> Kernel:
    return ProductKernel(
        tutorial.name,
        (Variant.of("gemm", step_m=tutorial.step_m, step_n=tutorial.step_n),),
        lambda variant: plan_of(tutorial),
        Ptx(lambda variant, probe: ptx_of(tutorial), lambda variant, probe: _entry(tutorial)),
        lambda inputs, plan, built, probe: _describe(tutorial, inputs, plan, built),
        probe=False,
    )


@cache
def kernels() -> Mapping[str, Kernel]:
    """The tutorials by name; they are no part of `kernels`, which builds what it lists."""
    return {tutorial.name: _kernel(tutorial) for tutorial in TUTORIALS}
