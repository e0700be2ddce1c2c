"""How the kernels of wrong/ are compiled."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import FLAGS

WRONG = Path(__file__).parent / "wrong"

# What the mistake is in the command line, not in the source; ptxas's errors need it to run.
COMMAND = {
    "arch_without_a": {"-ptx": "-cubin", "-arch=sm_100a": "-arch=sm_100"},
    "too_much_smem": {"-ptx": "-cubin"},
    "constexpr_host": {"--expt-relaxed-constexpr": ""},
    "no_such_arch": {"-arch=sm_100a": "-arch=sm_100b"},
    "spills": {"-ptx": "-cubin"},
}
EXTRA = {"spills": ["-maxrregcount=24", "-Xptxas=-v"]}


@dataclass(frozen=True)
class Compiled:
    """nvcc's exit status and all that it printed."""

    status: int
    log: str


def command(name: str, source: str, out: Path) -> list[str]:
    """The nvcc command for a kernel of wrong/."""
    tools = toolchain.find()
    flags = [COMMAND.get(name, {}).get(flag, flag) for flag in FLAGS]
    words = [str(tools.nvcc), *(flag for flag in flags if flag), *EXTRA.get(name, [])]
    return [*words, f"-I{WRONG}", f"-I{tools.cutlass_include}", "-o", str(out), source]


def run(words: list[str]) -> Compiled:
    """Runs nvcc in the folder of the wrong kernels."""
    done = subprocess.run(words, cwd=WRONG, capture_output=True, text=True, timeout=250, check=False)
    return Compiled(done.returncode, done.stdout + done.stderr)
