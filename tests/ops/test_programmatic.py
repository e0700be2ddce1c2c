"""The launches of a call with programmatic stream serialization: each kernel waits for the kernel before it.

Every kernel is changed to let the next one begin as early as it can (`launch_dependents` behind its own wait,
or at its start), which no kernel does by itself. Then a missing wait is a race between grids.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import torch
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.model import KernelLaunch, LaunchFile, LaunchModule, PtxText
from tileproof.kernels.sm90.mla_around import launches
from tileproof.ops.plan import CallPlan, planned
from tileproof.spec.machine.certificate import SUMS_BEFORE
from tileproof.spec.machine.schedule import Schedule

S_KV, TOPK = 8, 64
MAIN, WAIT, TRIGGER = "tileproof_head64_d576", "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
CONVERT = launches.CONVERT["bfloat16"]
DTYPES = {torch.bfloat16: ml_dtypes.bfloat16, torch.float32: np.float32, torch.int32: np.int32}


def call(sink: bool, deterministic: bool) -> CallPlan:
    """The plan of one token of 64 heads."""
    return planned(
        (1, 64, 576), torch.bfloat16, S_KV, TOPK, 576**-0.5, False, sink, deterministic, torch.bfloat16
    )


def early(ptx: str, without: str) -> str:
    """The entries of a module with early triggers, the entry `without` without its wait."""
    parts = re.split(r"(?=^\.visible \.entry|^\s*\.entry)", ptx, flags=re.MULTILINE)
    made = []
    for part in parts:
        if re.search(rf"\.entry {without}\(", part) and without:
            assert WAIT in part
            part = part.replace(WAIT, TRIGGER)
        elif WAIT in part:
            part = part.replace(WAIT, f"{WAIT}\n\t{TRIGGER}")
        elif ".entry" in part:
            part = part.replace("\n{\n", f"\n{{\n\t{TRIGGER}\n", 1)
        made.append(part)
    return "".join(made)


def chain(plan: CallPlan, without: str = "") -> LaunchFile:
    """The launches of a plan over random inputs."""
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for name, shape in {
            "q": (1, 64, 576),
            "kv": (S_KV, 576),
            "o": (1, 64, 512),
            "dO": (1, 64, 512),
        }.items()
    }
    inputs["lse"], inputs["sink"] = np.full((1, 64), 5, np.float32), np.zeros(64, np.float32)
    inputs["indices"] = rng.integers(-1, S_KV, (1, TOPK)).astype(np.int32)
    made, modules, steps = LaunchBuilder("chain", ""), dict[str, str](), list[KernelLaunch]()
    buffers = {name: made.input(name, array) for name, array in inputs.items()}
    for step in plan.steps:
        for fresh in step.fresh:
            buffers[fresh.name] = made.output(fresh.name, fresh.shape, DTYPES[fresh.dtype])
        given = {name: None if of is None else buffers[of] for name, of in step.tensors.items()}
        alone = LaunchBuilder("step", ptx := step.entry.built().ptx)
        for buffer in buffers.values():
            alone.add(buffer)
        step.entry.layout.launch(alone, step.entry.name, given, step.sizes)
        name = modules.setdefault(ptx, f"module {len(modules)}")
        (launch,) = alone.file().launches
        steps.append(replace(launch, module=name, programmatic=step.programmatic))
    named = tuple(LaunchModule(name, PtxText(early(ptx, without))) for ptx, name in modules.items())
    return LaunchFile("chain", named, tuple(buffers.values()), tuple(steps))


def test_every_launch_but_the_first_and_those_that_clear_may_begin_early() -> None:
    for sink in (False, True):
        for deterministic in (False, True):
            steps = call(sink, deterministic).steps
            early = {step.entry.name for step in steps if step.programmatic}
            assert early == {step.entry.name for step in steps} - {launches.CLEAR, launches.EXPAND}


@pytest.mark.parametrize(("sink", "deterministic"), [(False, False), (True, False), (True, True)])
def test_the_launches_of_a_call_have_no_race(sink: bool, deterministic: bool) -> None:
    file = chain(call(sink, deterministic))
    run, placed = emulator.launch_on(file, schedule=Schedule("early"), races=True)
    assert not run.errors, run.errors[0]
    # Each launch is certified. The backward adds floats, which a later launch reads.
    assert run.certificate is not None and {doubt.text for doubt in run.certificate.doubts} == {SUMS_BEFORE}
    outputs = emulator.outputs_of(file, placed)
    wide = np.asarray(outputs["dKV" if deterministic else "wide_dKV"].values)
    assert np.array_equal(np.asarray(outputs["narrow_dKV"].values), wide.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("entry", "sink", "deterministic"),
    [
        (MAIN, False, False), (CONVERT, False, False), (launches.D_SINK, True, False),
        (launches.COLLECT, False, True),
    ],
)  # fmt: skip
def test_a_missing_wait_is_a_race_between_grids(entry: str, sink: bool, deterministic: bool) -> None:
    run, _ = emulator.launch_on(chain(call(sink, deterministic), entry), schedule=Schedule("early"))
    assert {each.code for each in run.errors} == {"race-grids"}
