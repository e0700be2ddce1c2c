"""The machine's limits stand once, in spec/machine/limits.py; C++ takes them from the header made of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tileproof.spec.machine import limits

from tests.kit.paths import ROOT

# 227 KiB in every spelling, and the names that limits.py gives.
AGAIN = re.compile(
    r"\b(?:232448|0x38c00|227 ?(?:\* ?1024|<< ?10)|233472)\b"
    r"|^(?:constexpr.*\b)?k?_?(?:MAX_(?:THREADS|(?:LARGE_)?CLUSTER|SHARED_BYTES|SMEM_BYTES)|PROCESSORS)"
    r" *= *\d",
    re.IGNORECASE | re.MULTILINE,
)
OWN = "spec/machine/limits.py"
FOLDERS = ("spec", "reference", "kernels", "emulator", "conformance", "ops", "tools", "benchmarks")
CODE = (".py", ".cpp", ".hpp", ".cuh", ".cu")


def repeated(text: str) -> list[str]:
    """Where a text writes a limit down again."""
    return AGAIN.findall(text)


def test_no_other_file_repeats_a_limit() -> None:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in CODE and path != ROOT / OWN:
                assert not repeated(path.read_text()), path


@pytest.mark.parametrize(
    "text",
    [
        "SHARED = 232448", "x = 227 * 1024", "constexpr uint32_t kLimit = 0x38C00;", "MAX_THREADS = 1024",
        "constexpr int kProcessors = 148;", "227 << 10", "MAX_SMEM_BYTES = 7",
    ],
)  # fmt: skip
def test_a_repeated_limit_is_found(text: str) -> None:
    assert repeated(text)


def test_the_header_has_every_number(tmp_path: Path) -> None:
    """Made as the build makes it: by a Python that knows nothing of the project."""
    path = tmp_path / "generated" / "limits.hpp"
    subprocess.run([sys.executable, "-I", str(ROOT / OWN), str(path)], check=True)
    found = dict(re.findall(r"constexpr int k(\w+) = (\d+);", path.read_text()))
    assert found["MaxSharedBytes"] == str(limits.MAX_SHARED_BYTES) == "232448"
    assert found["MaxThreads"] == "1024" and found["Processors"] == "148" and "MaxGrid" not in found
    before = path.stat().st_mtime_ns
    subprocess.run([sys.executable, "-I", str(ROOT / OWN), str(path)], check=True)
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "file", ["emulator/engine/program.hpp", "conformance/beside/record/runtime/device.hpp"]
)
def test_both_libraries_include_the_header(file: str) -> None:
    assert '#include "limits.hpp"' in (ROOT / file).read_text()
