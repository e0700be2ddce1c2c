"""The C example on the stub driver and the emulator, judged by the stages of the problem."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tileproof.conformance.beside.record import recorder
from tileproof.conformance.compare.compare import within_bound
from tileproof.kernels import manifest
from tileproof.kernels.registry import kernel
from tileproof.reference.chain import outputs_of
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd import sink as contract
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import of_operands

from tests.kernels.launcher.conftest import EXAMPLE, compiled


def given(data: Path, form: str = "bf16") -> tuple[Any, npt.NDArray[Any]]:
    """Inputs of two tokens, and a sink, in files."""
    x = SparseCase(576, tokens=(Indices(),) * 2, values="normal", h_q=64, seed=3, form=form).inputs()
    sink = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    for name in ("q", "kv", "o", "dO", "lse", "indices"):
        np.ascontiguousarray(getattr(x, name)).tofile(data / f"{name}.bin")
    sink.tofile(data / "sink.bin")
    return x, sink


def call(program: Path, folder: Path, data: Path, x: Any) -> recorder.Recorded:
    """The program on the emulator."""
    problem = x.problem
    sizes = (problem.s_q, problem.s_kv, 64, 576, problem.topk, float(np.float32(problem.sm_scale)))
    words = [str(program), str(folder), str(data), *map(str, sizes), "sink", problem.form]
    return recorder.record(words, run=True, quiet=True)


def wrong(data: Path, x: Any, sink: npt.NDArray[Any]) -> list[str]:
    """Outputs outside their bounds."""
    problem, found = x.problem, {}
    rows, dkv = (problem.s_q, 64), (problem.s_kv, 576)
    found["delta"] = np.fromfile(data / "delta.bin", np.float32).reshape(rows)
    found["dQ"] = np.fromfile(data / "dq.bin", problem.dtype).reshape(*rows, 576)
    found["dKV"] = np.fromfile(data / "dkv_f32.bin", np.float32).reshape(dkv)
    bad = []
    for name, values in found.items():
        known = outputs_of(x, name, problem=of_operands(problem.form == "f16"), tiling=Tiling(64, 64))
        if not within_bound(values, known.value, known.error).all():
            bad.append(name)
    narrow = np.fromfile(data / "dkv.bin", problem.dtype).reshape(dkv)
    if not (narrow.view(np.uint16) == found["dKV"].astype(problem.dtype).view(np.uint16)).all():
        bad.append("dkv")
    d_sink = np.fromfile(data / "d_sink.bin", np.float32)
    arguments = (x.lse, found["delta"], sink)
    if not within_bound(d_sink, contract.d_sink(*arguments), contract.bound_d_sink(*arguments)).all():
        bad.append("d_sink")
    return bad


def test_the_example_computes_the_backward(folder: Path, tmp_path: Path) -> None:
    x, sink = given(tmp_path)
    done = call(compiled(folder, tmp_path / "example", "c99"), folder, tmp_path, x)
    assert done.problem is None and done.exit_code == 0, (done.problem, done.stderr, done.failed)
    assert not done.findings and not done.failed and not done.unknown
    plan = kernel("head64").plan(kernel("head64").variant(d_qk=576))
    entries = [launch.entry for launch in done.recording.launches]
    assert entries == [
        "tileproof_mla_clear", "tileproof_head64_d576", "tileproof_mla_bf16", "tileproof_mla_d_sink"
    ]  # fmt: skip
    main = done.recording.launches[1]
    assert (main.block[0], main.shared_bytes) == (plan.threads, plan.smem_bytes)
    assert len({launch.stream for launch in done.recording.launches}) == 1
    assert [launch.overlaps for launch in done.recording.launches] == [False, True, True, True]
    assert wrong(tmp_path, x, sink) == []


@pytest.mark.slow
def test_the_form_chooses_the_kernel(folder: Path, tmp_path: Path) -> None:
    """A folder with the kernels of both forms, and a folder without f16."""
    both, head64 = tmp_path / "kernels", kernel("head64")
    made = (manifest.packaged(head64, head64.variant(d_qk=576, f16=form), both) for form in (0, 1))
    manifest.write([row for rows in made for row in rows], both)
    program = compiled(both, tmp_path / "example", "c99")
    for form, entry in (("f16", "tileproof_head64_d576_f16"), ("bf16", "tileproof_head64_d576")):
        x, sink = given(tmp_path, form)
        done = call(program, both, tmp_path, x)
        assert done.exit_code == 0 and not done.findings, (done.stderr, done.failed)
        assert done.recording.launches[1].entry == entry and wrong(tmp_path, x, sink) == []
    x, _ = given(tmp_path, "f16")
    done = call(compiled(folder, tmp_path / "narrow", "c99"), folder, tmp_path, x)
    assert done.exit_code == 1 and "h_q, d_qk and is_f16: no kernel in the folder" in done.stderr


# A first call writes dq elsewhere: the cached tensor maps may not serve the second.
TWICE = """
  if (tileproof_open(&library, words[1])) return 1;
  tileproof_mla_call other = call;
  other.dq = output(2 * rows * call.d_qk);
  if (tileproof_mla_backward(&library, &other, stream)) return 1;
  if (tileproof_mla_backward(&library, &call, stream)) {"""
ONCE = re.compile(r"\n  if \(tileproof_open.*\{")
PLANTED = {
    "nothing": ("", ""),
    "dKV is not cleared": (
        r'status = tileproof_start\(library, tileproof_named\("tileproof_mla_clear".*\n', ""
    ),
    "maps of another address": (r"slot->address == address && ", ""),
    "q in the place of kv": (
        r"sizes\[value->name\];", "sizes[value->name == TILEPROOF_N_kv ? TILEPROOF_N_q : value->name];"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_launcher_is_found(name: str, folder: Path, tmp_path: Path) -> None:
    pattern, instead = PLANTED[name]
    header = (folder / "tileproof_launch.h").read_text()
    if pattern:
        header, count = re.subn(pattern, instead, header)
        assert count == 1
    (tmp_path / "tileproof_launch.h").write_text(header)
    source, count = ONCE.subn(TWICE, EXAMPLE.read_text())
    assert count == 1
    (tmp_path / "twice.c").write_text(source)
    x, sink = given(tmp_path)
    program = compiled(tmp_path, tmp_path / "twice", "c99", tmp_path / "twice.c")
    done = call(program, folder, tmp_path, x)
    found = bool(done.findings or done.exit_code or wrong(tmp_path, x, sink))
    assert found == (name != "nothing")


# A change of a right call, and the message.
BAD = {
    "call.s_q = 0": "s_q: expected a positive number, found 0",
    "call.s_kv = -1": "s_kv: expected a positive number, found -1",
    "call.topk = 63": "topk: expected a multiple of 64, found 63",
    "call.h_q = 65": "h_q, d_qk and is_f16: no kernel in the folder",
    "call.d_qk = 544": "h_q, d_qk and is_f16: no kernel in the folder",
    "call.s_q = 1 << 25": "s_q * h_q: expected at most 2147483647, found 2147483648",
    "call.sm_scale = 0": "sm_scale: expected a finite number above 0, found 0",
    'call.sm_scale = -strtof("nan", NULL)': "sm_scale: expected a finite number above 0, found",
    'call.sm_scale = strtof("inf", NULL)': "sm_scale: expected a finite number above 0, found inf",
    "call.lse = 0": "lse: expected an address, found 0",
    "call.d_sink = 0": "d_sink: expected an address, found 0",
    "call.indices += 4": "indices: expected a multiple of 16, found 0x",
    "call.topk_length = 8": "topk_length: expected a multiple of 16, found 0x8",
    "call.dq = call.q": "dq: expected memory of its own, found q in it",
    "call.dkv = call.dkv_f32 + 16": "dkv: expected memory of its own, found dkv_f32 in it",
    "call.delta = call.lse - 16": "delta: expected memory of its own, found lse in it",
}
REFUSED = """
  const tileproof_mla_call right = call;
%s
  return 3;
  if (tileproof_mla_backward(&library, &call, stream)) {"""


def test_bad_input_is_named_and_nothing_is_launched(folder: Path, tmp_path: Path) -> None:
    attempt = ', tileproof_mla_backward(&library, &call, stream), fprintf(stderr, "%s\\n", library.message);'
    lines = "\n".join(f"  call = right, {change}{attempt}" for change in BAD)
    start = "  if (tileproof_open(&library, words[1])) return 1;\n"
    source, count = ONCE.subn(lambda _: start + REFUSED % lines, EXAMPLE.read_text())
    assert count == 1
    (tmp_path / "bad.c").write_text(source)
    x, _ = given(tmp_path)
    done = call(compiled(folder, tmp_path / "bad", "c99", tmp_path / "bad.c"), folder, tmp_path, x)
    assert done.exit_code == 3 and not done.recording.launches, done.stderr
    for said, message in zip(done.stderr.splitlines()[-len(BAD) :], BAD.values(), strict=True):
        assert said.startswith(message)


def test_the_header_is_cplusplus_too(folder: Path, tmp_path: Path) -> None:
    compiled(folder, tmp_path / "example", "c++17", EXAMPLE)


def test_the_manifest_states_the_launch_of_the_plan(folder: Path) -> None:
    stated = json.loads((folder / "manifest.json").read_text())
    (main,) = [row for row in stated["entries"] if row["kernel"] == "head64"]
    plan = kernel("head64").plan(kernel("head64").variant(d_qk=576))
    launch = main["launch"]
    assert tuple(launch["cluster"]) == plan.cluster_dims
    assert (launch["threads"], launch["shared_bytes"]) == (plan.threads, plan.smem_bytes)
    (parameter,) = launch["parameters"]
    kinds = [value["kind"] for value in parameter["values"]]
    assert kinds[:5] == ["tensor map"] * 4 + ["pointer"] and kinds[-2:] == ["f32", "f32"]
