"""A deterministic dKV: its kernels certified, the same bits under every schedule, and planted defects."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tileproof
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.compare.compare import within_bound
from tileproof.conformance.drivers import emulator
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm90.mla_around import ordered
from tileproof.kernels.sm90.mla_around.launches import built
from tileproof.launches import write
from tileproof.reference.chain import outputs_of
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.spec.problems.base import Tiling
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD

SCHEDULES = (Schedule("early"), Schedule("late"), Schedule("random", 1), Schedule("random", 2))
COLUMNS, ROWS = 16, 21  # of the small problems of expand and collect: rows of two CTAs of collect


def inputs(tokens: int = 2) -> Any:
    """Rows that several tokens select, and one token several times."""
    x = SparseCase(576, tokens=(Indices(),) * tokens, values="normal", h_q=64, seed=5).inputs()
    indices = np.random.default_rng(5).integers(-1, 7, x.indices.shape).astype(np.int32)
    return replace(x, indices=indices)


def small(tokens: int = 5, topk: int = 70) -> Any:
    """Of a few columns, with lengths and with indices that are no keys."""
    x, rng = inputs(1), np.random.default_rng(tokens)
    problem = replace(x.problem, s_q=tokens, s_kv=ROWS, topk=topk, d_qk=COLUMNS)
    indices = rng.integers(-2, ROWS + 3, (tokens, topk)).astype(np.int32)
    length = rng.integers(-1, topk + 3, tokens).astype(np.int32)
    kv = np.ascontiguousarray(x.kv[:ROWS, :COLUMNS])
    return replace(x, problem=problem, kv=kv, indices=indices, topk_length=length)


def right(x: Any, wide: Array) -> tuple[Array, Array, Array]:
    """slots, rows and dKV, added in f32 slot by slot."""
    problem = x.problem
    slots = np.full(x.indices.size, -1, np.int32)
    rows = np.zeros((x.indices.size, COLUMNS), x.kv.dtype)
    dKV = np.zeros((problem.s_kv, COLUMNS), np.float32)
    for slot, index in enumerate(x.indices.flat):
        token, place = divmod(slot, problem.topk)
        if 0 <= index < problem.s_kv and place < x.topk_length[token]:
            slots[slot], rows[slot] = slot, x.kv[index]
            dKV[index] += wide[slot]
    return slots.reshape(x.indices.shape), rows, dKV


def is_wrong(ptx: str = "", tokens: int = 5) -> bool:
    x = small(tokens)
    wide = np.random.default_rng(1).standard_normal((x.indices.size, COLUMNS)).astype(np.float32)
    slots, rows, dKV = right(x, wide)
    before = tileproof.run(ordered.expand(x, ptx))
    after = tileproof.run(ordered.collect(wide, x, slots, ptx))
    if before.findings or after.findings:
        return True
    assert ptx or (before.certified and after.certified)
    found = (before.outputs["slots"], before.outputs["rows"], after.outputs["dKV"])
    same = [
        bool(each.written.all()) and each.values.tobytes() == known.tobytes()
        for each, known in zip(found, (slots, rows, dKV), strict=True)
    ]
    return not all(same)


def test_the_kernels_are_certified_and_have_the_bits_of_sums_in_order() -> None:
    assert not is_wrong()


def test_slots_of_many_chunks_wait_and_are_added_in_order() -> None:
    """A CTA of collect reads 2,048 indices at a time; more than 2,048 of its rows wait, and are added."""
    assert not is_wrong(tokens=250)


def in_entry(entry: str, pattern: str, instead: str) -> str:
    """The PTX with the first match in an entry replaced."""
    head, body = built().ptx.split(f".entry {entry}", 1)
    edited, count = re.subn(pattern, instead, body, count=1)
    assert count == 1
    return f"{head}.entry {entry}{edited}"


COLLECT, EXPAND = "tileproof_mla_collect", "tileproof_mla_expand"
PLANTED = {
    "collect without its first barrier": (COLLECT, r"bar\.sync\s+0;", ""),
    "collect of slots that are no keys": (COLLECT, r"(setp\.gt\.s32\s+\S+\s+\S+\s+)-1;", r"\g<1>-2;"),
    "collect of later slots first": (COLLECT, r"(setp\.gt\.s32\s+\S+\s+%r1, )63;", r"\g<1>2000;"),
    "collect without its last barrier": (COLLECT, r"(bar\.sync[^}]*)bar\.sync\s+0;", r"\g<1>"),
    "collect that adds before all have found": (COLLECT, r"(\s2049;[^}]*?)bar\.sync\s+0;", r"\g<1>"),
    "collect whose list is not emptied": (COLLECT, r"\s2049;", " 99999;"),
    "expand of the index s_kv": (EXPAND, r"setp\.lt\.s32", "setp.le.s32"),
}


LARGE = ("collect that adds before all have found", "collect whose list is not emptied")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == LARGE[1])) for name in PLANTED]
)
def test_planted_defects_are_found(name: str) -> None:
    assert is_wrong(in_entry(*PLANTED[name]), tokens=250 if name in LARGE else 5)


def deterministic(x: Any, schedule: Schedule) -> Array:
    """dKV of the whole chain; only the backward has a schedule that could show in its bits."""
    launch = ordered.expand(x)
    before, buffers = emulator.launch_on(launch, schedule=schedule)
    assert not before.errors
    made = emulator.outputs_of(launch, buffers)
    slots = made["slots"].values
    y = ordered.expanded(x, slots, made["rows"].values)
    wide = backward(y, schedule)
    launch = ordered.collect(wide, x, slots)
    after, buffers = emulator.launch_on(launch, schedule=schedule)
    assert not after.errors
    return emulator.outputs_of(launch, buffers)["dKV"].values


def backward(x: Any, schedule: Schedule) -> Array:
    head64 = kernel("head64")
    variant = head64.variant_of(x)
    run = emulator.run(
        head64.launch(x, head64.build(variant)), head64.plan(variant), schedule=schedule, taps=False
    )
    assert not run.errors
    return run.outputs["dKV"].values


@pytest.mark.slow
def test_every_schedule_gives_the_same_bits_and_the_usual_dkv_does_not() -> None:
    x = inputs(3)
    first, *others = (deterministic(x, schedule) for schedule in SCHEDULES)
    assert all(each.tobytes() == first.tobytes() for each in others)
    usual = {backward(x, schedule).tobytes() for schedule in SCHEDULES}
    assert len(usual) > 1
    known = outputs_of(x, "dKV", problem=SPARSE_MLA_BWD, tiling=Tiling(64, 64))
    rows = len(known.value)  # those that a token selects: the first
    assert within_bound(first[:rows], known.value, known.error).all() and not first[rows:].any()


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["expand", "collect"])
def test_the_cost_of_a_launch_is_estimated(entry: str, tmp_path: Path) -> None:
    x = small(1)
    wide = np.full((x.indices.size, COLUMNS), 1, np.float32)
    made = ordered.expand(x) if entry == "expand" else ordered.collect(wide, x, right(x, wide)[0])
    write(made, tmp_path / "launch.json")
    done = CliRunner().invoke(main, ["time", str(tmp_path / "launch.json"), "--json"])
    assert done.exit_code == 0, done.output
