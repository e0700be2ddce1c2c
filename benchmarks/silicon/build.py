"""Builds a program of this folder for a Hopper card: `python benchmarks/silicon/build.py latency`.

The binary is build/silicon/NAME, with the runtime linked in; run it on the card.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tileproof.kernels import toolchain

ROOT = Path(__file__).resolve().parents[2]


def main(name: str) -> None:
    """Compiles NAME.cu for sm_90a."""
    out = ROOT / "build" / "silicon"
    out.mkdir(parents=True, exist_ok=True)
    tools = toolchain.find()
    command = [str(tools.nvcc), "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"]
    command += ["-cudart", "static", f"-L{tools.nvcc.parents[1] / 'lib'}", "-o", str(out / name)]
    subprocess.run([*command, str(Path(__file__).with_name(f"{name}.cu"))], check=True)
    print(f"built {(out / name).relative_to(ROOT)}: run it on the card")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "latency")
