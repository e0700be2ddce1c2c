"""`import tileproof`: its version, its marker for type checkers, and that it starts as a module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tileproof

from tests.kit.paths import ROOT


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """This interpreter, in a folder that is not the checkout."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=cwd)


def test_the_module_and_its_version(tmp_path: Path) -> None:
    done = run("-m", "tileproof", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, f"tileproof, version {tileproof.__version__}")
    script = run("-c", "import tileproof; print(tileproof.__version__)", cwd=tmp_path)
    assert script.stdout.strip() == tileproof.__version__, script.stderr


def test_the_citation_has_the_version_and_the_license() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tileproof.__version__}\n" in text and "\nlicense: Apache-2.0\n" in text


def test_its_types_are_announced() -> None:
    assert tileproof.__file__ is not None
    assert (Path(tileproof.__file__).parent / "py.typed").exists()


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    assert run("-m", "tileproof", "no-such-command", cwd=tmp_path).returncode == 2
