"""`tileproof.tilelang.emulate`: TileLang's own ways to compile and to launch, on the emulator."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

import pytest

pytest.importorskip("tilelang", reason="tilelang is not installed: requirements-outside.txt")

import tilelang
import torch
from tileproof.emulator.errors import LaunchError
from tileproof.tilelang import KernelDefects, emulate

from tests.kit.outside import tilelang_kernels as kernels


def test_two_kernels_symbolic_extents_and_outputs() -> None:
    a = torch.randn(100, 128).half()
    with emulate() as run:
        kernel = tilelang.compile(kernels.scaled(), out_idx=[1])
        b = kernel(a, 3.0)
        again = kernel(a[:50], 3.0)
    right = ((a.float() * 3).half() + 1).half()
    assert torch.equal(b, right) and torch.equal(again, right[:50])
    assert [launch.launch.grid[0] for launch in run.launches] == [4, 4, 2, 2]
    assert "__global__" in kernel.get_kernel_source()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((torch.zeros(100, 128), 1.0), "element type of a tensor"),
        ((torch.zeros(100, 64).half(), 1.0), "shape of a tensor"),
        ((torch.zeros(128, 100).half().t(), 1.0), "strides of a tensor"),
        ((torch.zeros(100).half(), 1.0), "rank of a tensor"),
        ((torch.zeros(100, 128).half(),), "wrong number of arguments"),
        (("words", 1.0), "is not a tensor"),
        ((torch.zeros(100, 128, device="meta").half(), 1.0), "not on the CPU"),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, text: str) -> None:
    with pytest.raises(LaunchError, match=text), emulate():
        tilelang.compile(kernels.scaled(), out_idx=[1])(*arguments)


def test_an_autotuner_takes_its_first_configuration_and_forgets_it() -> None:
    a, c = torch.zeros(128), torch.zeros(1)
    with emulate() as run:
        kernels.numbered(a, c)
    assert torch.equal(a, torch.arange(4.0).repeat_interleave(32)) and c[0] == 4 * 32
    assert run.notes == ["numbered: autotuning took the first of 2 configurations: {'BM': 32}"]
    assert not kernels.numbered.jit_impl._kernel_cache


def test_a_race_is_found_with_the_generated_line() -> None:
    with pytest.raises(KernelDefects, match="race-clusters") as raised, emulate():
        kernels.numbered(torch.zeros(128), torch.zeros(1), wrong="race")
    assert "C[0] = (C[0] + " in str(raised.value)


def test_what_was_set_is_put_back_and_old_kernels_are_refused() -> None:
    jit = importlib.import_module("tilelang.jit")
    before = jit.cached, jit.JITImpl.__call__, jit.JITKernel.__call__
    with emulate():
        kernel = tilelang.compile(kernels.scaled())
        old = object.__new__(jit.JITKernel)
        old.prim_func = kernel.prim_func
        with pytest.raises(LaunchError, match="compiled outside the block"):
            old(torch.zeros(1))
    assert (jit.cached, jit.JITImpl.__call__, jit.JITKernel.__call__) == before
    with pytest.raises(LaunchError, match="outside its block"):
        kernel(torch.zeros(32, 128).half(), torch.zeros(32, 128).half(), 1.0)


def test_a_version_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.1.16")
    with pytest.raises(LaunchError, match="not tested") as raised, emulate():
        raise AssertionError("opened")
    assert raised.value.expected == "0.1.15" and "tileproof[tilelang]" in raised.value.do
