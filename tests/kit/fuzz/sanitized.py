"""The engine under sanitizers (`setup.py build_ext --sanitize`) in the place of the checkout's.

As a plugin of pytest it runs any test so: `python -m tests.kit.fuzz --pytest tests/emulator/test_fuzz.py`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_FILE = f"_engine{sysconfig.get_config_var('EXT_SUFFIX')}"
ENGINE = ROOT / "build" / "sanitized" / str(sys.implementation.cache_tag) / _FILE
_NAME = "tileproof.emulator._engine"
_RUNTIMES = ("libasan.so", "libubsan.so", "libstdc++.so")
# Leaks: Python itself never frees some of its memory. 99: not an exit code of Python.
_OPTIONS = "detect_leaks=0:exitcode=99:detect_stack_use_after_return=1:max_allocation_size_mb=8192"


def environment(sanitized: bool = True) -> dict[str, str]:
    """The environment of a process that runs the engine; the sanitizers' runtimes are loaded first."""
    made = dict(os.environ, PYTHONPATH=str(ROOT), OPENBLAS_NUM_THREADS="1")
    if not sanitized:
        return made
    paths = []
    for name in _RUNTIMES:
        command = ["g++", f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_absolute():
            raise SystemExit(f"g++ has no {name}: install its sanitizers (libgcc's development files)")
        paths.append(path)
    return made | {
        "LD_PRELOAD": ":".join(paths),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def load() -> None:
    """Import that engine; before anything imports the emulator."""
    spec = importlib.util.spec_from_file_location(_NAME, ENGINE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)


if "libasan" in os.environ.get("LD_PRELOAD", ""):
    load()
