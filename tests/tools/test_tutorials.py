"""`tools/tutorials.py`: a program in the form of a tutorial runs in a block, with its sizes replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from tileproof.tools.tutorials import run  # noqa: E402

TUTORIAL = """
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def scaled(x):
    y = torch.empty_like(x)
    kernel = scale.warmup(x, y, x.numel(), BLOCK=64, grid=(1,))
    kernel._init_handles()
    assert x.is_cuda and 65536 // (kernel.n_regs * 128) > 0
    scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


@triton.testing.perf_report(triton.testing.Benchmark(["n"], [1], "p", ["a"], ["A"], [], "ms", "scale", {}))
def benchmark(n, provider):
    raise AssertionError("measured")


if __name__ == "__main__":
    x = torch.randn(1000000, device="cuda")
    assert (scaled(x) == 2 * x).all() and sys.argv[1:] == ["--small"]
    benchmark.run(print_data=True)
"""


def test_a_tutorial_and_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "00-scale.py"
    path.write_text(TUTORIAL)
    sizes = ("1000000", "200")
    found = run(path, [sizes], ["--small"])
    assert found.startswith("00-scale.py: ended, 1 launches, 0 errors"), found
    assert "AssertionError" in run(path, [sizes], [])
    assert "does not occur" in run(path, [("1000001", "200")], [])
    masked = "tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)"
    wrong = run(path, [sizes, (masked, "tl.store(y + at, at)")], ["--small"])
    assert "global-out-of-bounds" in wrong
