"""`tileproof.triton.emulate`: what a launch may be, what is put back after the block, what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

import torch
import triton
import triton._internal_testing
from tileproof.conformance.beside.frontends import versions
from tileproof.emulator.errors import LaunchError
from tileproof.triton import KernelDefects, emulate
from triton import knobs
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.kit.outside import host_kernels as kernels
from tests.kit.outside import triton_kernels
from tests.kit.paths import ROOT


def summed(**how: Any) -> tuple[bool, Any]:
    x, y, out = torch.arange(1000.0), torch.ones(1000), torch.zeros(1000)
    with emulate(**how) as run:
        kernels.add[(4,)](x, y, out, 1000, BLOCK=256)
    return torch.equal(out, x + y), run


def test_views_and_strides_are_the_tensor_s_own() -> None:
    whole = torch.zeros(40, 60)
    with emulate():
        kernels.grid_fill[(3,)](whole[5:35:2, 7:27].t(), *whole[5:35:2, 7:27].t().stride(), 20, 15, BLOCK=8)
    expected = torch.zeros(40, 60)
    expected[5:35:2, 7:27] = torch.arange(300.0).reshape(20, 15).t()
    assert torch.equal(whole, expected)


def test_numpy_arrays_are_written_in_place() -> None:
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, dtype=np.float32)
    with emulate():
        kernels.add[(4,)](x, x, out, 1000, BLOCK=256)
    assert (out == 2 * x).all()


def test_two_tensors_of_one_storage_are_one_memory() -> None:
    both = torch.arange(2000.0)
    with emulate():
        kernels.add[(4,)](both[:1000], both[1000:], both[:1000], 1000, BLOCK=256)
    assert torch.equal(both[:1000], torch.arange(1000.0) * 2 + 1000)


def test_descriptors_made_on_the_device_and_scratch() -> None:
    x, out = torch.randn(128, 128), torch.zeros(128, 128)
    with emulate() as run:
        kernels.doubled[(2,)](x, out, 128, 128, 64, 64)
    assert torch.equal(out, 2 * x) and "global scratch" in {buffer.name for buffer in run.last.launch.buffers}


def test_numbers_of_every_type() -> None:
    out = torch.zeros(6, dtype=torch.float64)
    with emulate():
        kernels.numbers[(1,)](out, True, -7, 1 << 40, 0.1, (3, (4, out)))
    assert out.tolist() == [1, -7, float(1 << 40), float(np.float32(0.1)), 3, 4]


def test_heuristics_autotuners_and_their_first_configuration() -> None:
    x, out = torch.arange(1000.0), torch.full((1000,), 5.0)

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        return (triton.cdiv(1000, meta["BLOCK"]),)

    with emulate() as run:
        kernels.tuned[grid](x, out, 1000)  # reset_to_zero, once
        kernels.tuned[grid](x, out, 1000)
        assert kernels.tuned.best_config.kwargs["BLOCK"] == 128
    assert torch.equal(out, 2 * x)
    assert [launch.launch.grid for launch in run.launches] == [(8, 1, 1)] * 2
    assert len(run.notes) == 1 and "first of 2 configurations: BLOCK: 128" in run.notes[0]
    assert not kernels.tuned.cache  # a GPU would have to measure still


def test_warmup_compiles_and_runs_nothing() -> None:
    with emulate() as run:
        compiled = kernels.add.warmup(*[torch.float32] * 3, 1000, BLOCK=256, grid=(1,))
    assert ".target sm_100a" in compiled.asm["ptx"] and not run.launches


def test_device_print_and_assert(capsys: pytest.CaptureFixture[str]) -> None:
    with emulate(raises=False) as run:
        kernels.told[(3,)](2, debug=True)
    assert "pid (1, 0, 0) idx () number: 1" in capsys.readouterr().out
    (found,) = run.errors
    assert (
        found.code == "device-assert"
        and "too far" in found.message
        and "host_kernels.py:" in found.machine.source
    )


def test_clusters_and_schedules() -> None:
    for policy in ("late", "random", "pct:depth=4"):
        right, run = summed(policy=policy, seed=3)
        assert right and run.schedule.seed == 3 and run.schedule.policy == policy.split(":")[0]
    with emulate() as run:
        kernels.add[(2,)](*(torch.zeros(1000),) * 3, 1000, BLOCK=512, num_ctas=2)
    assert run.last.launch.cluster == (2, 1, 1) and run.last.launch.grid == (4, 1, 1)


def test_strict_takes_the_isa_by_the_letter() -> None:
    def severities(strict: bool) -> set[str]:
        with emulate(strict=strict, raises=False) as run:
            kernels.squared[(1,)](torch.zeros(64, 64, dtype=torch.float16), torch.zeros(64, 64), 64)
        return {finding.severity for finding in run.findings if finding.code == "race-commit-fence"}

    assert severities(False) == {"warning"} and severities(True) == {"error"}


def test_findings_are_raised_kept_or_added_to_what_the_block_raises() -> None:
    short = torch.zeros(900)
    with (
        pytest.raises(KernelDefects, match=r"1 defect in 1 of 2 launches(.|\n)*host_kernels.py") as raised,
        emulate(),
    ):
        kernels.add[(1,)](short, short, short, 256, BLOCK=256)
        kernels.add[(4,)](short, short, short, 1000, BLOCK=256)
    assert raised.value.findings[0].code == "global-out-of-bounds"
    with emulate(raises=False) as run:
        kernels.add[(4,)](short, short, short, 1000, BLOCK=256)
    assert len(run.errors) == 1
    with pytest.raises(ValueError, match="own") as other, emulate():
        kernels.add[(4,)](short, short, short, 1000, BLOCK=256)
        raise ValueError("the block's own")
    assert "global-out-of-bounds" in "".join(other.value.__notes__)
    with emulate(allow=["global-out-of-bounds"]) as run:
        kernels.add[(4,)](short, short, short, 1000, BLOCK=256)
    assert not run.errors


def test_what_was_set_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def hook(*stages: Any) -> tuple[str, str]:
        seen.append(len(stages))
        return "a", "a"

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    driver, capability = triton.runtime.driver._active, torch.cuda.get_device_capability
    is_cuda, before = triton._internal_testing.is_cuda, triton._internal_testing.is_cuda()
    settings = dict(knobs.runtime.__dict__), dict(os.environ)
    with pytest.raises(ValueError, match="out"), emulate():
        assert not knobs.runtime.interpret
        assert triton.runtime.driver.active.get_current_target().arch == 100
        assert torch.cuda.get_device_capability() == (10, 0)
        assert is_cuda()
        out = torch.zeros(1000)
        kernels.add[(4,)](out + 1, out, out, 1000, BLOCK=256)
        assert out.sum() == 1000
        raise ValueError("out")
    assert triton.runtime.driver._active is driver and torch.cuda.get_device_capability is capability
    assert is_cuda() == before
    assert (dict(knobs.runtime.__dict__), dict(os.environ)) == settings and knobs.runtime.interpret
    assert 0 in seen  # the user's hook for the stages was asked


def test_another_driver_keeps_its_kernels() -> None:
    """Triton keeps compiled kernels by the device: none of the emulator's is launched on another."""
    with emulate():
        kernels.add[(4,)](*(torch.zeros(1000),) * 3, 1000, BLOCK=256)
        from tileproof.conformance.beside.frontends.triton_driver import DEVICE

        compiled = next(iter(kernels.add.device_caches[DEVICE][0].values()))
    assert set(kernels.add.device_caches) == {DEVICE}
    with pytest.raises(LaunchError, match="outside its block"):
        compiled.run(
            1, 1, 1, 0, compiled.function, None, None, None, None, *(torch.zeros(1000),) * 3, 1000, 256
        )


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (torch.zeros(1000, device="meta"), "the argument x is not on the CPU"),
        ("words", "failed to specialize argument"),
    ],
)
def test_arguments_that_no_kernel_takes(argument: Any, text: str) -> None:
    out = torch.zeros(1000)
    with pytest.raises((LaunchError, TypeError), match=text), emulate():
        kernels.add[(4,)](argument, out, out, 1000, BLOCK=256)


def test_a_block_is_one_thread_s() -> None:
    out, errors = torch.zeros(1000), list[LaunchError]()

    def other(work: Any) -> None:
        try:
            work()
        except LaunchError as error:
            errors.append(error)

    def launched() -> None:
        kernels.add[(4,)](out, out, out, 1000, BLOCK=256)

    def opened() -> None:
        with emulate():
            raise AssertionError("opened")

    with emulate() as run:
        for work in (launched, opened):
            thread = threading.Thread(target=other, args=(work,))
            thread.start()
            thread.join()
        with pytest.raises(LaunchError, match="already open"):
            opened()
    assert ["thread that opened it" in str(errors[0]), "already open" in str(errors[1])] == [True, True]
    assert not run.launches
    summed()  # the next block opens


def test_bad_words() -> None:
    for how, text in (
        ({"policy": "never"}, "policy"),
        ({"seed": -1}, "seed"),
        ({"keep": -1}, "keep"),
        ({"allow": ["no-such"]}, "no finding has this code"),
    ):
        with pytest.raises(LaunchError, match=text), emulate(**how):  # type: ignore[arg-type]
            raise AssertionError("opened")


def test_a_benchmark_is_refused() -> None:
    with pytest.raises(LaunchError, match="no clock"), emulate():
        triton.testing.do_bench(lambda: None)


def test_kernels_of_the_interpreter_are_refused() -> None:
    program = (
        "import torch\nfrom tests.kit.outside import host_kernels as k\n"
        "from tileproof.triton import emulate\n"
        "x = torch.zeros(1000)\n"
        "with emulate(): k.add[(4,)](x, x, x, 1000, BLOCK=256)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode and "made for Triton's interpreter" in done.stderr


@pytest.mark.parametrize("version", ["3.7.1", "3.10.0", "4.0.0"])
def test_a_version_that_was_not_tested_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: version)
    with pytest.raises(LaunchError, match="not tested") as raised, emulate():
        raise AssertionError("opened")
    assert raised.value.found == version and "tileproof[triton]" in raised.value.do


def test_without_triton_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(LaunchError, match="not installed") as raised, emulate():
        raise AssertionError("opened")
    assert "tileproof[triton]" in raised.value.do


def test_the_extra_names_the_tested_versions() -> None:
    import tomllib

    extras = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "triton>=3.8,<3.10" in extras["triton"] and versions.TESTED["triton"] == ("3.8", "3.9")


@pytest.mark.parametrize("waits", [True, False])
def test_launches_that_overlap(waits: bool) -> None:
    """A programmatic launch that does not wait for the grid before it reads what that one writes."""
    x, out = torch.zeros(1000), torch.zeros(1000)
    with emulate(raises=False) as run:
        kernels.started[(4,)](x, 1000, BLOCK=256, launch_pdl=True)
        kernels.following[(4,)](x, out, 1000, BLOCK=256, WAITS=waits, launch_pdl=True)
    assert {error.code for error in run.errors} == (set() if waits else {"race-grids"})
    assert torch.equal(out, x + 1) == waits
    assert all("host_kernels.py:" in error.machine.source for error in run.errors)


def test_a_cooperative_grid_runs_at_once_or_is_refused() -> None:
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(300)
    with emulate(seconds_limit=60) as run:
        kernels.met[(24,)](count, out, 24, num_warps=1, launch_cooperative_grid=True)
    assert run.last.launch.resident == 24 and out.sum() == 24
    with pytest.raises(LaunchError, match="more CTAs than can run at once"), emulate():
        kernels.met[(148 * 32 + 1,)](count, out, 160, num_warps=1, launch_cooperative_grid=True)


@pytest.mark.slow
def test_a_product_of_1024_cubed_takes_less_than_three_seconds() -> None:
    """Of processor time with races, compiling left out: 0.7 s on the machine where it was written."""
    a, b = (torch.ones(1024, 1024, dtype=torch.float16) for _ in range(2))
    c = torch.zeros(1024, 1024)
    maps = [
        TensorDescriptor.from_tensor(tensor, list(box))
        for tensor, box in ((a, (128, 64)), (b, (128, 64)), (c, (128, 128)))
    ]
    with emulate() as run:
        triton_kernels.matmul[(1, 1)](*maps, 1024, 128, 128, 64, False)  # compiles
        began = time.process_time()
        triton_kernels.matmul[(8, 8)](*maps, 1024, 128, 128, 64, False)
        taken = time.process_time() - began
    assert (c == 1024).all() and not run.errors and taken < 3
