"""Builds build/silicon/export_loop: the export loop of head64 for a Hopper card (see export_loop.cu)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec import header
from tileproof.spec.plans.head64 import plan

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Writes the plan's header beside the program and compiles it for sm_90a, with the runtime linked in."""
    out = ROOT / "build" / "silicon"
    out.mkdir(parents=True, exist_ok=True)
    (out / header.FILE_NAME).write_text(header.render(plan(576)))
    tools = toolchain.find()
    command = [str(tools.nvcc), "-O3", "-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG"]
    command += ["-gencode=arch=compute_90a,code=sm_90a", "-cudart", "static"]
    command += [f"-I{ROOT / 'kernels'}", f"-I{out}", f"-I{tools.cutlass_include}"]
    command += [f"-L{tools.nvcc.parents[1] / 'lib'}", "-o", str(out / "export_loop")]
    subprocess.run([*command, str(Path(__file__).with_suffix(".cu"))], check=True)
    print(f"built {(out / 'export_loop').relative_to(ROOT)}: run it on the card")


if __name__ == "__main__":
    main()
