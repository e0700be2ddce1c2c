"""`judge --isolate`: a launch file and a reference without network or writes; the verdict says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tileproof.kernels.launch import jsonform

from tests.kernels.foreign.test_isolation import ABLE
from tests.kit.judging import product
from tests.kit.launch_files import scale

HOSTILE = """
import os, socket
from pathlib import Path
HERE = Path(__file__).parent
def tried(call):
    try:
        call()
    except OSError:
        return
    print("HOLE")
for call in (
    lambda: socket.create_connection(("127.0.0.1", 22)),
    lambda: open(HERE / "ref.py", "a"), lambda: open(HERE / "out.json", "a"), lambda: open(HERE / "new", "w"),
    lambda: open(Path.home().parent / "beside", "w"),
    lambda: os.kill(os.getppid(), 9),
):
    tried(call)
(Path.home() / "own").write_text("this is allowed")
"""
LAUNCH = "from tileproof.launches import read\ndef launch():\n    return read(HERE / 'launch.json')\n"
REFERENCE = "def reference(x, factor):\n    return factor * x[:100]\n"


def judge(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tileproof", "judge", *words, "--isolate", "--schedules", "2"],
        cwd=folder, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@ABLE
def test_hostile_files_are_judged_and_reach_nothing(tmp_path: Path) -> None:
    jsonform.write(scale(), tmp_path / "launch.json")
    (tmp_path / "launch.py").write_text(HOSTILE + LAUNCH)
    (tmp_path / "ref.py").write_text(HOSTILE + REFERENCE)
    done = judge(tmp_path, "launch.py", "--expect", "ref.py", "--json", "out.json", "--dump", "arrays")
    assert done.returncode == 0 and "HOLE" not in done.stderr, done.stderr
    made = json.loads((tmp_path / "out.json").read_text())
    assert made["sections"]["trust"] == {
        "processes": "separate", "isolated": ["privileges", "network", "files", "signals"]
    }  # fmt: skip
    assert (tmp_path / "arrays" / "out.npy").exists() and not (tmp_path / "new").exists()


@ABLE
def test_cuda_sources_compile_in_isolation(tmp_path: Path) -> None:
    jsonform.write(product(tmp_path), tmp_path / "launch.json")
    (tmp_path / "ref.py").write_text("def reference(a, b):\n    return a @ b.T\n")
    done = judge(tmp_path, ".", "--expect", "ref.py")
    assert "values       passed" in done.stdout, done
