"""The example of docs/operator.md on two processes: the gradients of one process, within float64 bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tileproof.conformance.compare.compare import within_bound
from tileproof.spec.problems.sparse_mla_bwd.forward import with_forward
from tileproof.spec.problems.sparse_mla_bwd.inputs import Problem

from tests.kit.float64_bounds import bounds
from tests.kit.paths import ROOT

PAGE = (ROOT / "docs" / "operator.md").read_text()
(CODE,) = re.findall(r"```python file=two\.py\n(.*?)```", PAGE, re.S)
AXES = {"heads": 1, "queries": 0}


def example() -> dict[str, Any]:
    """The functions of the example."""
    names: dict[str, Any] = {"__name__": "two"}
    exec(compile(CODE, "two.py", "exec"), names)
    return names


def wrong(parts: list[dict[str, Any]]) -> list[str]:
    """The splits of which some process has other gradients than a process alone; `parts`: by rank."""
    two, found = example(), []
    q, kv, indices, dO = two["inputs"]()
    whole = two["gradients"](q, kv, indices, dO, lambda kv: kv)
    problem = Problem(6, 20, 4, 12, 5, 12**-0.5, 8)
    arrays = {"q": q.numpy(), "kv": kv.numpy(), "dO": dO.numpy(), "indices": indices.numpy().astype(np.int32)}
    within = bounds(with_forward(problem, exact=True, **arrays), None)  # type: ignore[arg-type]
    for name, axis in AXES.items():
        dq = torch.cat([part[name][0] for part in parts], axis)
        right = within_bound(dq.numpy(), whole[0].numpy(), within["dQ"]).all()
        for part in parts:
            right &= within_bound(part[name][1].numpy(), whole[1].numpy(), within["dKV"]).all()
        if not right:
            found.append(name)
    return found


def test_the_parts_of_dkv_add_up() -> None:
    """Without processes: the sum is made here."""
    parts = [example()["split"](rank, 2, lambda kv: kv) for rank in range(2)]
    assert wrong(parts) == ["heads", "queries"]  # nothing is added yet
    for name in AXES:
        total = parts[0][name][1] + parts[1][name][1]
        for part in parts:
            part[name] = part[name][0], total
    assert wrong(parts) == []


def two_processes(code: str, folder: Path) -> list[dict[str, Any]]:
    """What the processes of the example save."""
    (folder / "two.py").write_text(code)
    command = [sys.executable, str(folder / "two.py"), str(folder)]
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, timeout=120, capture_output=True, env=threads)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one(tmp_path: Path) -> None:
    assert wrong(two_processes(CODE, tmp_path)) == []


@pytest.mark.slow
def test_a_sum_that_is_left_out_is_seen(tmp_path: Path) -> None:
    assert "dist.all_reduce(total)" in CODE
    assert wrong(two_processes(CODE.replace("dist.all_reduce(total)", "pass"), tmp_path)) == [*AXES]
