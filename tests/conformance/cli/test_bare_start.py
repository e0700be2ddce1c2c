"""Commands that need no compiler, no torch and no pictures start without the packages of the extras."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = ("pycute", "cutlass_library", "torch", "matplotlib", "sentryward", "pytest")
START = (
    "import sys; sys.modules.update(dict.fromkeys({extras!r}));"
    "from tileproof.conformance.cli.app import main; main()"
)


def bare(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that cannot import the extras."""
    line = [sys.executable, "-c", START.format(extras=EXTRAS), *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    ["--version", "kernels", "stages", "explain --help", "layout --help", "instructions ld", "defects"],
)
def test_it_starts(words: str) -> None:
    done = bare(*words.split())
    assert done.returncode == 0 and done.stdout, done.stderr


def test_what_needs_an_extra_says_which() -> None:
    done = bare("check", "head128-part0", "--examples", "1")
    assert done.returncode == 2 and "nvidia-cutlass" in done.stderr and "Traceback" not in done.stderr
