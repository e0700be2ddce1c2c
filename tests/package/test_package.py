"""`import tileproof`: its version, its marker for type checkers, and that it starts as a module."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
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


def test_extras_that_messages_and_pages_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    folders = ("conformance", "emulator", "kernels", "ops", "package", "spec")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        name for path in [*sources, *pages] for name in re.findall(r"tileproof\[(\w+)\]", path.read_text())
    }
    assert {"cuda", "ops", "pictures"} <= named <= set(extras)
