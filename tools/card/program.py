"""A program of benchmarks/silicon, built for this card and run; its text is kept.

    python -m tileproof.tools.card.program NAME

`tools/calibration.py` reads such texts; the model's predictions for the card are made from the same sources.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tileproof.tools.card.facts import facts
from tileproof.tools.card.record import ROOT
from tileproof.tools.card.row import Answer
from tileproof.tools.card.rows import nvcc


def run(name: str) -> Answer:
    """Build NAME.cu for the card's own architecture and run it."""
    compiler = nvcc()
    try:
        found = facts()
    except (OSError, RuntimeError) as error:
        return Answer("not run", f"no CUDA card: {error}")
    if compiler is None:
        return Answer("not run", "nvcc is not installed")
    arch = f"{found['major']}{found['minor']}a"
    source = ROOT / "benchmarks" / "silicon" / f"{name}.cu"
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / name
        command = [compiler, "-O3", "-std=c++17", f"-gencode=arch=compute_{arch},code=sm_{arch}"]
        command += ["-cudart", "static", "-o", str(binary), str(source)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            return Answer("not run", f"does not compile for sm_{arch}", {"errors": built.stderr[:2000]})
        done = subprocess.run([str(binary)], capture_output=True, text=True, check=False)
    if done.returncode:
        return Answer("fault", f"exit code {done.returncode}", {"errors": done.stderr[:2000]})
    return Answer("recorded", data={"arch": f"sm_{arch}", "text": done.stdout})


if __name__ == "__main__":
    run(sys.argv[1]).print()
