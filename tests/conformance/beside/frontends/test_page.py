"""The example of docs/triton.md runs and ends as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

from tests.kit.paths import ROOT

PAGE = (ROOT / "docs" / "triton.md").read_text()


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program as a file of its own, as Triton asks for."""
    (folder / "add.py").write_text(program)
    return subprocess.run(
        [sys.executable, "add.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )


def test_the_example_of_the_page(tmp_path: Path) -> None:
    program, judging = re.findall(r"```python[^\n]*\n(.*?)```", PAGE, re.S)
    (said,) = re.findall(r"```text[^\n]*\n(.*?)```", PAGE, re.S)
    done = ran(program, tmp_path)
    # Parts that depend on the version of Triton are not compared.
    known = [line.split(" at 0x")[0].split(", Triton")[0] for line in said.splitlines()[:-1]]
    assert done.returncode == 1 and all(line in done.stderr for line in known), done.stderr
    assert "add.py:12, CTA (3, 0, 0), warp 3, lane 20: st.global" in done.stderr and "add.py:12" in said
    mended = program.replace("tl.load(y + at, mask))  # the mask is missing", "tl.load(y + at, mask), mask)")
    assert mended != program
    saving = 'run.save("launches")\n'
    assert saving.strip() in PAGE
    done = ran(f"{mended}\n{judging}\n{saving}", tmp_path)
    assert (done.returncode, done.stdout) == (0, "clean 0\n"), done.stderr
    # "tileproof judge launches/1-add", without Triton and without a reference.
    assert "tileproof judge launches/1-add" in PAGE
    words = [sys.executable, "-m", "tileproof", "judge", "launches/1-add", "--schedules", "3"]
    judged = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert judged.returncode == 3 and "no reference was given" in judged.stdout, judged.stdout + judged.stderr
