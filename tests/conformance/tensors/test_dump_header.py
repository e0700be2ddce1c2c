"""tileproof_dump.cuh: what a kernel dumps on the emulator is what `tileproof tensors` judges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.tensors.files import read
from tileproof.conformance.tensors.judging import judge_tensors
from tileproof.conformance.tensors.named import named
from tileproof.emulator import Memory, Module
from tileproof.emulator.arguments import Fields
from tileproof.kernels import toolchain
from tileproof.spec import header
from tileproof.spec.plans import sm90_gemm
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.gemm.problem import GEMM

from tests.kit.paths import ROOT

SOURCES = Path(__file__).parent / "dump_header"
SM100_SHARED = 128 * 128 * 2 + 64 * 128 + 1024
# Program, plant: the problem, whether elements are lost, the first stage that is wrong, words of its finding.
PROGRAMS = {
    ("sm100_product", 0): ("gemm_bias", False, "", ""),
    ("sm100_product", 1): ("gemm_bias", False, "product", "1 row before"),
    ("sm100_product", 2): ("gemm_bias", False, "D", "congruent to 1, 2, 3, 4, 5, 6, 7 modulo 8"),
    ("sm100_product", 3): ("gemm_bias", True, "product", "every wrong element is NaN"),
    ("sm100_product", 4): ("gemm_bias", False, "D", "the bias is that of the next column"),
    ("sm90_gemm", 0): ("gemm", False, "", ""),
    ("sm90_gemm", 1): ("gemm", False, "product", "contribution of columns 256..319 is missing"),
    ("sm90_gemm", 2): ("gemm", False, "D", "row 71"),
    ("sm90_gemm", 3): ("gemm", True, "D", "row 127"),
}


def compiled(folder: Path, name: str, *flags: str) -> Path:
    """The program, or with -ptx its PTX."""
    plan = sm90_gemm.plan(sm90_gemm.NAME, GEMM)
    (folder / header.FILE_NAME).write_text(header.render(plan))
    out = folder / name
    include = [f"-I{path}" for path in (ROOT / "kernels" / "include", ROOT / "kernels", folder)]
    command = [str(toolchain.find().nvcc), "-std=c++17", *include, "-DTILEPROOF_ENTRY=unused", *flags]
    subprocess.run([*command, str(SOURCES / f"{name}.cu"), "-o", str(out)], check=True, timeout=300)
    return out


def tile(memory: Memory, shape: tuple[int, int], dtype: Any) -> tuple[Fields, Any, Any]:
    """A DumpTile as the kernel is given it, its elements, and the count of those outside it."""
    data: Any = np.full(shape, np.nan).astype(dtype)
    outside = np.zeros(1, np.uint32)
    raw = data.view(np.uint16 if data.dtype.itemsize == 2 else np.uint32)
    pointers = memory.buffer(raw), memory.buffer(outside)
    fields: Any = {0: pointers[0], 8: np.int32(shape[0]), 12: np.int32(shape[1]), 16: pointers[1]}
    return Fields(24, fields), data, outside


def test_tensor_memory_registers_and_a_swizzled_tile_are_dumped(tmp_path: Path) -> None:
    module = Module.from_ptx(compiled(tmp_path, "sm100_product", "-arch=sm_100a", "-ptx").read_text())
    rng, memory = np.random.default_rng(1), Memory()
    A, B = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((128, 64), (64, 64)))
    bias = rng.integers(-4, 5, 64).astype(np.float32)
    inputs = [memory.buffer(array) for array in (A, B, bias)]
    tiles = [tile(memory, (64, 64), np.float32) for _ in range(2)]
    tiles.append(tile(memory, (128, 64), ml_dtypes.bfloat16))
    result = module.launch(
        "dumping", grid=(1, 1, 1), block=(128, 1, 1), memory=memory, shared_bytes=SM100_SHARED,
        args=[*inputs, *(fields for fields, *_ in tiles), np.int32(0)],
    )  # fmt: skip
    assert not result.findings
    product = A.astype(np.float32) @ B.astype(np.float32).T
    assert np.array_equal(np.concatenate([tiles[0][1], tiles[1][1]]), product)
    assert np.array_equal(tiles[2][1], (product + bias).astype(ml_dtypes.bfloat16))
    assert [int(outside[0]) for *_, outside in tiles] == [0, 0, 0]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dump")
    flags = CliRunner().invoke(main, ["record", "--flags"]).output.split()
    return {name: compiled(folder, name, *flags) for name in ("sm100_product", "sm90_gemm")}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "plant"), PROGRAMS)
def test_a_dump_is_judged(programs: dict[str, Path], tmp_path: Path, name: str, plant: int) -> None:
    problem, lost, stage, words = PROGRAMS[name, plant]
    ran = subprocess.run(
        [sys.executable, "-m", "tileproof", "record", "--run", "-o", str(tmp_path / "recorded"), "--",
         str(programs[name]), str(tmp_path / "dump"), str(plant)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == int(lost), ran.stderr
    assert ("were not put" in ran.stderr) == lost
    kind = problem_type(problem)
    made = judge_tensors(kind, named(kind, read(tmp_path / "dump")), "dump")
    assert made.verdict == ("defect" if stage else "clean")
    if stage:
        first = made.findings[0]
        assert first.problem.stage == stage
        assert words in f"{first.cause} {first.pattern}", first


@pytest.mark.slow
def test_tensor_memory_is_refused_by_name_where_there_is_none(tmp_path: Path) -> None:
    source = tmp_path / "old.cu"
    source.write_text(
        "#include <tileproof_dump.cuh>\n__global__ void k(tileproof::DumpTile<float> tile) {\n"
        "  tile.put(0, 0, 1.0f);\n#ifdef TMEM\n  tile.tmem(0, [](int lane) { return lane; });\n#endif\n}\n"
    )
    command = [str(toolchain.find().nvcc), "-std=c++17", f"-I{ROOT / 'kernels' / 'include'}", "-arch=sm_90a"]
    for define, code in (("-DNONE", 0), ("-DTMEM", 1)):
        ran = subprocess.run(
            [*command, define, "-ptx", str(source), "-o", str(tmp_path / "out.ptx")],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (ran.returncode != 0) == bool(code), ran.stderr
        assert ("tensor memory needs an architecture that has it" in ran.stderr) == bool(code)
