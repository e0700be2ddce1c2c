"""Pages do what they say: their files go into an empty folder, and their commands run there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.judging import plugin_is_installed
from tests.kit.paths import ROOT

PAGES = {"judging.md": 9, "tensors.md": 3}  # and how many commands they have
BLOCK = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, str, str, str]]:
    """(language, attribute, its value, content) of each block."""
    return [(m[1], m[2] or "", m[3] or "", m[4]) for m in BLOCK.finditer(text)]


def holds(shown: str, printed: str) -> str:
    """The first shown line that was not printed, in order; "" when all were."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() and not any(line.strip() in other for other in lines):
            return line
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stranger")
    (made / "bin").mkdir()
    for name, module in (("tileproof", "tileproof"), ("pytest", "pytest -p no:cacheprovider")):
        script = made / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    return made


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page(page: str, folder: Path) -> None:
    found = blocks((ROOT / "docs" / page).read_text())
    plugin = {} if plugin_is_installed() else {"PYTEST_PLUGINS": "tileproof.conformance.api.plugin"}
    environment = {
        **os.environ,
        **plugin,
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = 0
    for at, (language, key, value, content) in enumerate(found):
        if key == "file":
            (folder / value).write_text(content)
        elif language == "sh":
            script = "set -e\n" + content
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == int(value), done.stdout + done.stderr
            shown = found[at + 1]
            assert shown[0] == "text"
            assert holds(shown[3], done.stdout) == "", done.stdout
            ran += 1
    assert ran == PAGES[page] and shutil.which("sed")


def test_what_is_not_printed_is_seen() -> None:
    assert holds("a\nb\n", "x a\nb y\n") == ""
    assert holds("b\na\n", "a\nb\n") == "a"
