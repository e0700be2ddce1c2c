"""Runs of head64, as it is or with a defect planted, and what they show: findings, the first wrong stage."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tileproof.conformance.drivers import emulator
from tileproof.kernels.compile import ROOT, Built
from tileproof.kernels.launch.arguments import PlacedItem, ScalarArgument
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs
from tileproof.spec.problems.sparse_mla_bwd.tiling import k_blocks

from tests.kit import launches
from tests.kit.backward_runs import KERNEL, Run, _tiles, first_wrong

Array = np.ndarray[Any, Any]
FOLDER = "sm100/head64"
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SCHEDULES = [Schedule("early"), Schedule("late"), Schedule("random", 1)]


@dataclass(frozen=True)
class Plant:
    """A defect: in `file` of the kernel each `old` becomes `new` at `times` places; `ptx` edits the PTX."""

    file: str = ""
    edits: tuple[tuple[str, str], ...] = ()
    times: int = 1
    ptx: Callable[[str], str] | None = None

    def overrides(self) -> dict[str, str]:
        """Source overrides for `Kernel.build`; fails where an edit does not fit `times` times."""
        if not self.file:
            return {}
        path = posixpath.normpath(f"{FOLDER}/{self.file}")
        text = (ROOT / path).read_text()
        for old, new in self.edits:
            assert text.count(old) == self.times, f"{path} holds {text.count(old)} times: {old}"
            text = text.replace(old, new)
        return {path: text}


def source(file: str, *edits: tuple[str, str], times: int = 1) -> Plant:
    """A defect in one source file."""
    return Plant(file, edits, times)


def in_ptx(pattern: str, replacement: str) -> Plant:
    """A defect in the PTX: every match of the regular expression `pattern` is replaced."""
    return Plant(ptx=lambda text: re.sub(pattern, replacement, text))


# The ballot that says which slots are keys is all ones: no slot is masked.
UNMASKED = in_ptx(r"vote\.sync\.ballot\.b32\s+(%r\d+), %p\d+, [^;]+;", r"mov.b32 \1, -1;")


def far_below_zero(case: Inputs, q: float = 480.0, kv: float = -500.0) -> Inputs:
    """`case` (d_qk 576) with q * kv * sm_scale added to every score through the last RoPE column."""
    queries, keys = case.q.copy(), case.kv.copy()
    queries[..., -1], keys[:, -1] = q, kv
    return with_forward(
        case.problem,
        q=queries,
        kv=keys,
        dO=case.dO,
        indices=case.indices,
        topk_length=case.topk_length,
    )


@dataclass(frozen=True)
class Seen:
    """A run, with what is wrong with it."""

    run: Run

    @property
    def outputs(self) -> Mapping[str, Array]:
        return self.run.outputs

    @property
    def codes(self) -> set[str]:
        """Codes of the machine's errors and warnings."""
        return {f.code for f in self.run.findings if f.severity != "note"}

    @property
    def waits(self) -> set[str]:
        """Names of the plan's barriers that somebody waits for in vain."""
        return {w.name.split("[")[0] for f in self.run.findings for w in f.machine.waiting if w.name}

    @property
    def wrong(self) -> str | None:
        """The first stage that is outside its bound or was never published; None when none is."""
        inputs, plan = self.run.inputs, self.run.plan
        blocks = [
            (t, cta, k)
            for t in range(inputs.problem.s_q)
            for cta in range(plan.cluster)
            for k in range(k_blocks(inputs, t, plan.block))
        ]
        for stage in ("P", "S", "dP", "dS", "dKV"):
            if any((stage, *at) not in self.run.tiles for at in blocks):
                return f"{stage} not published"
        return first_wrong(self.run)

    @property
    def clean(self) -> bool:
        return not self.codes and self.wrong is None


def build(inputs: Inputs, plant: Plant) -> Built:
    """head64 for `inputs` with `plant` in it."""
    built = KERNEL.build(KERNEL.variant(d_qk=inputs.problem.d_qk), source_overrides=plant.overrides())
    if plant.ptx is None:
        return built
    changed = plant.ptx(built.ptx)
    assert changed != built.ptx, "the PTX edit changes nothing"
    return dataclasses.replace(built, ptx=changed)


def run(
    inputs: Inputs,
    plant: Plant | None = None,
    *,
    schedule: Schedule = SCHEDULES[0],
    prefill: Mapping[str, Array] | None = None,
    scalars: Mapping[str, float] | None = None,
    taps: bool = True,
) -> Seen:
    """Launch head64 on `inputs`, with `plant` in it.

    `prefill` is what outputs hold before (else dKV is zeros and the others are unwritten), `scalars`
    replaces scalar parameters of the launch; both by name.
    """
    plan = KERNEL.plan(KERNEL.variant(d_qk=inputs.problem.d_qk))
    launch = KERNEL.launch(inputs, build(inputs, plant or Plant()))
    seen = emulator.run(with_items(launch, prefill or {}, scalars or {}), plan, schedule=schedule, taps=taps)
    shown = Run(
        inputs,
        plan,
        {name: output.values for name, output in seen.outputs.items()},
        {name: output.written for name, output in seen.outputs.items()},
        _tiles(plan, seen.captures),
        seen.findings,
        dict(seen.counters),
    )
    return Seen(shown)


def with_items(launch: LaunchFile, arrays: Mapping[str, Array], scalars: Mapping[str, float]) -> LaunchFile:
    """`launch` with these contents of buffers and values of scalars, by name."""
    for name, array in arrays.items():
        launch = launch.with_array(name, np.array(array))

    def other(placed: PlacedItem) -> PlacedItem:
        item = placed.item
        if not isinstance(item, ScalarArgument) or item.name not in scalars:
            return placed
        return dataclasses.replace(placed, item=dataclasses.replace(item, value=scalars[item.name]))

    items = [item.item for item in launches.struct_of(launch).items]
    named = {item.name for item in items if isinstance(item, ScalarArgument)}
    assert {*scalars} <= named
    return launches.with_items(launch, other)


def changed(inputs: Inputs, **arrays: Any) -> Inputs:
    """`inputs` with other arrays."""
    return dataclasses.replace(inputs, **arrays)
