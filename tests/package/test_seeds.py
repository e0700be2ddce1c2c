"""A seed means the same problems everywhere: in a checkout or installed, whatever else is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tileproof
from hypothesis import strategies as st
from tileproof.conformance.cases import draws
from tileproof.conformance.check.property import schedules
from tileproof.emulator import _engine
from tileproof.spec.problems.sparse_mla_bwd.strategies import cases

from tests.kit.paths import ROOT
from tests.kit.sampled import sampled

# Prints a hash over the cases and schedules of a seed; .ci/package runs it in each wheel.
PROGRAM = (ROOT / "tests/kit/seed_hash.py").read_text()
LITERALS = "a, b, c = 63, 65, 'early'\nd = [" + ", ".join(str(k) for k in range(2, 400)) + "]\n"


def outcome(*words: str, seed: int, before: str = "", cwd: Path, path: list[Path] | None = None) -> str:
    """The hash that a fresh interpreter prints."""
    environment = dict(os.environ)
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    line = [sys.executable, *words, "-c", before + PROGRAM, str(seed)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def installed(into: Path) -> Path:
    """The package as a wheel lays it out: one tree of its folders."""
    assert tileproof.__file__ is not None and _engine.__file__ is not None
    root = Path(_engine.__file__).resolve().parents[1]
    skip = shutil.ignore_patterns("__pycache__", "engine")
    shutil.copytree(Path(tileproof.__file__).parent, into / "tileproof", ignore=skip)
    for folder in ("spec", "reference", "kernels", "emulator", "conformance"):
        shutil.copytree(root / folder, into / "tileproof" / folder, ignore=skip)
    return into


@pytest.mark.parametrize("seed", sampled([0, 7], 2))
def test_three_processes_draw_the_same(seed: int, tmp_path: Path) -> None:
    here = outcome(seed=seed, cwd=tmp_path)
    # -S: no .pth file of an editable install is read; the other packages come by PYTHONPATH.
    site = [installed(tmp_path / "site"), Path(np.__file__).parents[1], Path(sysconfig.get_path("purelib"))]
    assert outcome("-S", seed=seed, cwd=tmp_path, path=site) == here
    (tmp_path / "literals.py").write_text(LITERALS)
    assert outcome(seed=seed, before="import literals, wave, sqlite3\n", cwd=tmp_path) == here
    assert outcome(seed=seed + 1, cwd=tmp_path) != here


def test_every_kind_of_problem_is_drawn() -> None:
    """200 examples: hardly one twice, and each schedule and kind of values in its share."""
    drawn = []
    draws.run(lambda *example: drawn.append(example), cases(576), schedules("all"), examples=200, seed=0)
    assert len(drawn) == 200 and len(set(drawn)) >= 190
    policies = Counter(schedule.policy for _, schedule in drawn)
    values = Counter(case.values for case, _ in drawn)
    assert len(policies) == 5 and min(policies.values()) >= 20
    assert len(values) == 10 and values.pop("zeros") and min(values.values()) >= 10


def test_what_fails_is_shrunk() -> None:
    seen: list[tuple[int, list[int]]] = []

    def fails(number: int, several: list[int]) -> None:
        seen.append((number, several))
        assert number < 1000 or len(several) < 2

    with pytest.raises(AssertionError):
        draws.run(fails, st.integers(0, 10**6), st.lists(st.integers(0, 9)), examples=200, seed=3)
    assert seen[-1] == (1000, [0, 0])


def test_every_sort_of_choice_keeps_its_bounds() -> None:
    text, blob = st.text("abc", min_size=2, max_size=4), st.binary(min_size=1, max_size=3)

    def holds(a: float, b: str, c: bytes, d: int, e: int) -> None:
        assert -2 <= a <= 3 and 2 <= len(b) <= 4 and set(b) <= set("abc") and 1 <= len(c) <= 3
        assert d >= 5 and e <= -5

    bounded = st.floats(-2, 3), text, blob, st.integers(min_value=5), st.integers(max_value=-5)
    draws.run(holds, *bounded, examples=300, seed=1)
