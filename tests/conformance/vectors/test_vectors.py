"""The set of vectors, and its two readers: on right dumps, on planted defects, on a kernel's outputs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.conformance.cli.vectors import vectors
from tileproof.conformance.vectors.cases import cases
from tileproof.conformance.vectors.writing import write

from tests.kit import backward_runs
from tests.kit.dense_dumps import dense_dump
from tests.kit.dumps import STAGES, dump

CASES = {f"{name}: {case.name}": (name, case) for name, listed in cases().items() for case in listed}
CHOSEN = (
    "sparse_mla_bwd: random keys, normal",
    "sparse_mla_bwd: invalid indices, normal",
    "sparse_mla_bwd: lengths, mixed",
    "sparse_mla_bwd: poisoned rows, integers",
    "dense_attention_bwd: grouped heads, normal",
    "dense_attention_bwd: packed, low",
    "gemm: all, with C scaled, normal",
    "gemm: production 4",
)
LIMIT = 50_000_000  # bytes


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors") / "set"
    write(folder, [CASES[name] for name in CHOSEN])
    return folder


@pytest.fixture(scope="module")
def reader(released: Path) -> Path:
    """The reader in C++, compiled from the set alone."""
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler
    made = released / "reader"
    source = released / "read_vectors.cpp"
    subprocess.run([compiler, "-std=c++17", "-Wall", "-Werror", str(source), "-o", str(made)], check=True)
    return made


def folder_of(released: Path, name: str) -> Path:
    return next(released.glob(f"{CHOSEN.index(name):03d}-*"))


def stages_of(name: str) -> dict[str, Any]:
    """What a right kernel leaves."""
    problem, case = CASES[name]
    x = case.inputs()
    if problem == "sparse_mla_bwd":
        return {name: value for name, value in dump(x).items() if name in (*STAGES, "dq", "dkv")}
    if problem == "gemm":
        product = (x.A.astype(float) @ x.B.astype(float).T).astype(np.float32)
        return {"product": product, "D": (x.alpha * product + x.beta * x.C).astype(np.float32)}
    made = dense_dump(case.case)  # type: ignore[arg-type]
    return {name: made[name] for name in (*STAGES, "dq", "dk", "dv")}


def verdicts(
    released: Path, reader: Path, name: str, stages: dict[str, Any], to: Path
) -> tuple[int, int, str]:
    """The exit codes of both readers, and what they say."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for stage, value in stages.items():
        np.save(to / f"{stage}.npy", np.ascontiguousarray(value))
    case = folder_of(released, name)
    done = subprocess.run([str(reader), str(case), str(to)], capture_output=True, text=True, check=False)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = runpy.run_path(str(released / "read_vectors.py"))["main"](case, to)
    return code, done.returncode, said.getvalue() + done.stdout + done.stderr


@pytest.mark.parametrize("name", CHOSEN)
def test_right_dumps_are_right_and_each_wrong_stage_is_found(
    name: str, released: Path, reader: Path, tmp_path: Path
) -> None:
    right = stages_of(name)
    *codes, said = verdicts(released, reader, name, right, tmp_path / "dump")
    assert codes == [0, 0], said
    case = folder_of(released, name)
    changed = {}
    for stage, value in right.items():
        narrow = value.dtype.itemsize == 2 and (case / "bound16" / f"{stage}.npy").exists()
        bound = np.load(case / ("bound16" if narrow else "bound") / f"{stage}.npy")
        first = case / "first" / f"{stage}.npy"
        start = np.load(first) if first.exists() else np.zeros(bound.ndim, int)
        at = tuple(np.argwhere(np.isfinite(bound))[-1] + start)
        changed[stage] = value.copy()
        changed[stage][at] = value[at] * 2 + 1
    *codes, said = verdicts(released, reader, name, changed, tmp_path / "dump")
    assert codes == [1, 1], said
    for stage in right:
        assert len(re.findall(rf"^{stage}(?:\.npy)?: 1 of ", said, re.MULTILINE)) == 2, said


def test_a_kernel_s_outputs(released: Path, reader: Path, tmp_path: Path) -> None:
    name = CHOSEN[0]
    made = backward_runs.run(CASES[name][1].inputs(), taps=False).outputs
    found = {"dq": made["dQ"], "dkv": made["dKV"]}
    *codes, said = verdicts(released, reader, name, found, tmp_path / "dump")
    assert codes == [0, 0], said
    *codes, said = verdicts(released, reader, name, found | {"dq": -found["dq"]}, tmp_path / "dump")
    assert codes == [1, 1], said


def test_what_cannot_be_judged(released: Path, reader: Path, tmp_path: Path) -> None:
    name = CHOSEN[0]
    right = stages_of(name)
    assert verdicts(released, reader, name, {"dx": right["dq"]}, tmp_path / "dump")[:2] == (2, 2)
    assert verdicts(released, reader, name, {"dq": right["dq"][:1]}, tmp_path / "dump")[:2] == (1, 1)
    short = tmp_path / "dump" / "dq.npy"
    short.write_bytes(short.read_bytes()[:500])
    case = folder_of(released, name)
    done = subprocess.run([str(reader), str(case), str(tmp_path / "dump")], capture_output=True, check=False)
    assert done.returncode == 2 and b"cut short" in done.stderr
    changed = case / "bound" / "dq.npy"
    before = changed.read_bytes()
    changed.write_bytes(before[:-4] + b"\0\0\x80\x7f")
    try:
        assert verdicts(released, reader, name, right, tmp_path / "dump")[0] == 2
    finally:
        changed.write_bytes(before)


def test_the_index_is_as_its_schema_says(released: Path) -> None:
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    index = json.loads((released / "vectors.json").read_text())
    library.validate(index, json.loads((released / "vectors.schema.json").read_text()))
    flags = {item["name"]: item["flags"] for item in index["cases"]}
    assert {"repeated key", "invalid index", "not finite"} <= set(flags["poisoned rows, integers"])
    assert "packed" in flags["packed, low"] and "subnormal" not in flags["random keys, normal"]


def test_the_cases_of_the_set() -> None:
    counts = Counter((problem, case.production) for problem, case in CASES.values())
    assert set(counts.values()) == {60, 5} and len(counts) == 6
    assert all(case.guards and set(case.guards) <= set(ROWS) for _, case in CASES.values())


def test_readers_are_short() -> None:
    from tileproof.conformance.vectors import writing

    readers = list((Path(writing.__file__).parent / "readers").glob("read_vectors.*"))
    assert len(readers) == 2
    assert all(len(reader.read_text().splitlines()) < 100 for reader in readers)


def test_the_command(tmp_path: Path) -> None:
    made = CliRunner().invoke(vectors, [str(tmp_path / "set"), "--problem", "gemm", "--first", "2"])
    assert "2 cases" in made.output
    again = CliRunner().invoke(vectors, [str(tmp_path / "set"), "--problem", "gemm"])
    assert "the folder exists" in str(again.exception)
    other = CliRunner().invoke(vectors, [str(tmp_path / "b"), "--problem", "gem"])
    assert "did you mean gemm" in str(other.exception)


@pytest.mark.slow
def test_the_whole_set_is_small(tmp_path: Path) -> None:
    assert write(tmp_path / "set", CASES.values()) < LIMIT
