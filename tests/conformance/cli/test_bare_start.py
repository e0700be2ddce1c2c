"""Commands that need no compiler, no torch and no pictures start without the packages of the extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tileproof.conformance.cli.app import COMMANDS
from tileproof.kernels.launch import jsonform

from tests.kit.launch_files import scale

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


def test_a_command_imports_no_other_and_judging_no_hypothesis(tmp_path: Path) -> None:
    """Tests, and those who judge many, start the command line thousands of times."""
    jsonform.write(scale(), tmp_path / "launch.json")
    code = (
        "import sys\nfrom tileproof.conformance.cli.app import COMMANDS, main\n"
        "try: main(['judge', 'launch.json', '--schedules', '2'])\n"
        "finally: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "tileproof.conformance.cli.judge" in loaded and "hypothesis" not in loaded
    others = {f"tileproof.conformance.cli.{module}" for module in COMMANDS.values()} & loaded
    assert others == {"tileproof.conformance.cli.judge"}
