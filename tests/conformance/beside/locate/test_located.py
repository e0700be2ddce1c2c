"""Stages found in registers by their values: a product that a kernel holds in f32 and stores in another form,
with one thread per element.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.locate.located import BufferTensor, Location, locate
from tileproof.conformance.cli.locate import locate as command
from tileproof.launches import read
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems import problem_type

M, N, K = 8, 32, 16
# A thread computes D[y, x] = 2 * sum of A[y, k] B[x, k], from the last k down. {first} is the first k.
PTX = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{{
 .reg .pred p; .reg .b16 h<3>; .reg .u32 r<9>; .reg .f32 f<5>; .reg .u64 x<9>;
 ld.param.u64 x1, [a]; ld.param.u64 x2, [b]; ld.param.u64 x3, [d];
 mov.u32 r1, %tid.x; mov.u32 r2, %ctaid.x;
 mul.wide.u32 x4, r2, {row}; add.u64 x1, x1, x4;
 mul.wide.u32 x4, r1, {row}; add.u64 x2, x2, x4;
 mov.f32 f1, 0f00000000; mov.u32 r3, {last};
loop:
 mul.wide.u32 x4, r3, 2; add.u64 x5, x1, x4; add.u64 x6, x2, x4;
 ld.global.b16 h1, [x5]; ld.global.b16 h2, [x6]; cvt.f32.f16 f2, h1; cvt.f32.f16 f3, h2;
 fma.rn.f32 f1, f2, f3, f1;
 setp.eq.u32 p, r3, {first}; sub.u32 r3, r3, 1; @!p bra loop;
 add.f32 f4, f1, f1; {more}
 mad.lo.u32 r4, r2, {n}, r1; mul.wide.u32 x4, r4, 4; add.u64 x3, x3, x4; st.global.f32 [x3], f4;
 ret;
}}
"""


def launch(folder: Path, first: int = 0, more: str = "") -> Path:
    rng = np.random.default_rng(3)
    arrays = {name: rng.standard_normal((rows, K)).astype(np.float16) for name, rows in (("A", M), ("B", N))}
    (folder / "product.ptx").write_text(PTX.format(row=2 * K, last=K - 1, first=first, n=N, more=more))
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    file: dict[str, Any] = {"schema": "tileproof-launch", "schema_version": 1, "name": "product"}
    file["modules"] = [{"name": "m", "code": {"kind": "ptx file", "path": "product.ptx"}}]
    file["buffers"] = [
        {"name": name, "dtype": "float16", "shape": list(array.shape), "role": "input"}
        | {"content": {"kind": "file", "path": f"{name}.npy"}}
        for name, array in arrays.items()
    ]
    file["buffers"].append({"name": "D", "dtype": "float32", "shape": [M, N], "role": "output"})
    step: dict[str, Any] = {"kind": "launch", "entry": "product", "grid": [M], "block": [N]}
    step["arguments"] = [{"kind": "pointer", "buffer": name} for name in "ABD"]
    file["steps"] = [step]
    path = folder / "launch.json"
    path.write_text(json.dumps(file))
    return path


TENSORS = [
    BufferTensor("A", "A", "float16", (M, K)),
    BufferTensor("B", "B", "float16", (N, K)),
    BufferTensor("D", "D", "float32", (M, N)),
]
SCALARS = {"alpha": 2.0, "beta": 0.0}


def located(path: Path) -> Location:
    return locate(read(path), problem_type("gemm"), TENSORS, SCALARS)


def test_a_product_is_found_where_its_last_term_is_added(tmp_path: Path) -> None:
    found = located(launch(tmp_path))
    (product,) = found.stages
    assert product.whole and product.elements == M * N
    assert [place.split()[0] for place in product.places()] == ["fma.rn.f32"]
    A, B = (np.load(tmp_path / f"{name}.npy").astype(np.float64) for name in "AB")
    assert np.allclose(found.dump["product"], A @ B.T, atol=1e-5)
    assert (found.dump["D"] == 2 * found.dump["product"]).all()


@pytest.mark.parametrize("first", [1, 2])
def test_a_product_without_its_last_term_is_not_found(first: int, tmp_path: Path) -> None:
    (product,) = located(launch(tmp_path, first)).stages
    assert not product.found and product.covered == 0


def options(path: Path, *more: str) -> list[str]:
    words = [str(path), "--problem", "gemm", "--set", "alpha=2", "--set", "beta=0", *more]
    return [*words, *(word for name in "ABD" for word in ("--tensor", f"{name}={name}"))]


def test_the_command_says_where_and_judges(tmp_path: Path) -> None:
    dump = tmp_path / "found.npz"
    ran = CliRunner().invoke(command, options(launch(tmp_path), "--dump", str(dump)), standalone_mode=False)
    assert ran.return_value == 0, ran.output
    assert "product: fma.rn.f32" in ran.output and "CLEAN product: gemm" in ran.output
    assert set(np.load(dump)) == {"A", "B", "D", "alpha", "beta", "product"}


def test_a_wrong_stage_of_the_launch_itself_is_a_finding(tmp_path: Path) -> None:
    """The kernel takes 150 for 300, which the draws do not have."""
    path = launch(tmp_path)
    text = (tmp_path / "product.ptx").read_text()
    term = "fma.rn.f32 f1, f2, f3, f1;"
    assert text.count(term) == 1
    wrong = f"setp.eq.f32 p, f2, 0f43960000; @p mov.f32 f2, 0f43160000; {term}"
    (tmp_path / "product.ptx").write_text(text.replace(term, wrong))
    A = np.load(tmp_path / "A.npy")
    A[3, 5] = 300
    np.save(tmp_path / "A.npy", A)
    ran = CliRunner().invoke(command, options(path), standalone_mode=False)
    assert ran.return_value == 1, ran.output
    assert "product differs from the spec" in ran.output and "row 3" in ran.output


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--tensor", "C=elsewhere"), "no such buffer"),
        (("--tensor", "bias=A"), "the problem has no such tensor"),
        (("--layout", "BSHD"), "unknown layout"),
        (("--launch", "3"), "no such launch"),
        (("--tensor", "C=A:float32[99,99]"), "smaller than its tensor"),
    ],
)
def test_bad_input_is_named(words: tuple[str, ...], what: str, tmp_path: Path) -> None:
    ran = CliRunner().invoke(command, options(launch(tmp_path), *words), standalone_mode=False)
    assert isinstance(ran.exception, TileproofError) and what in str(ran.exception)
