"""The emulator needs numpy alone and imports quickly: in processes that refuse every other package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.kit.paths import ROOT

SECONDS = 0.5
# Modules with a leading underscore are parts of the interpreter and the finder of an editable install.
REFUSE = """
import importlib.abc, sys

class OnlyNumpy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names or top in ("numpy", "tileproof") or top.startswith("_")
        ours = not name.startswith("tileproof.") or name.startswith(("tileproof.emulator", "tileproof.spec"))
        if not known or not ours or (name.startswith("tileproof.spec.") and "machine" not in name):
            raise ImportError(f"{name} is refused here")

sys.meta_path.insert(0, OnlyNumpy())
"""
EVERY_MODULE = """
import importlib, pkgutil
import tileproof.emulator
for module in pkgutil.walk_packages(tileproof.emulator.__path__, "tileproof.emulator."):
    importlib.import_module(module.name)
    print(module.name)
"""
# bfloat16 without a package that has it: the map's type, over a buffer of 16-bit words.
BFLOAT16 = """
import numpy as np
from tileproof.emulator import Memory, TensorMap
words = Memory().buffer(np.zeros(64, np.uint16))
print(TensorMap.tiled(words, shape=(64,), strides=(), box=(64,), dtype="bfloat16").dtype)
"""
TIMED = """
import numpy, time
began = time.process_time()
import tileproof.emulator
print(time.process_time() - began)
"""


def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_every_module_imports_with_numpy_alone() -> None:
    done = run(REFUSE + EVERY_MODULE)
    assert done.returncode == 0, done.stderr
    assert {"tileproof.emulator.explore", "tileproof.emulator.hang"} < set(done.stdout.split())


def test_the_example_of_the_page_runs_with_numpy_alone() -> None:
    page = (ROOT / "docs" / "emulator-alone.md").read_text()
    (example,) = re.findall(r"```python[^\n]*\n(.*?)```", page, re.S)
    done = run(REFUSE + example)
    assert done.returncode == 0, done.stderr
    assert "shared-pending" in done.stdout


def test_a_map_of_bfloat16_needs_no_other_package() -> None:
    done = run(REFUSE + BFLOAT16)
    assert (done.returncode, done.stdout.strip()) == (0, "bfloat16"), done.stderr


def test_the_refusal_is_real() -> None:
    for name in ("ml_dtypes", "click", "rich", "hypothesis", "jinja2", "tileproof.conformance"):
        done = run(f"{REFUSE}import {name}")
        assert done.returncode == 1 and f"{name} is refused here" in done.stderr


def test_it_imports_in_half_a_second(tmp_path: Path) -> None:
    """Processor time beside numpy's own import, from cached bytecode: the least of five."""
    cached = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    run(TIMED, **cached)
    assert min(float(run(TIMED, **cached).stdout) for _ in range(5)) < SECONDS
