"""How the kernels of wrong/ are compiled."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import FLAGS, cache_root

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
    """Runs nvcc in the folder of the wrong kernels; what it said of the same text is kept beside the compiled
    kernels.
    """
    kept = cache_root() / "wrong" / f"{_key(words)}.json"
    if not kept.exists():
        done = subprocess.run(words, cwd=WRONG, capture_output=True, text=True, timeout=250, check=False)
        kept.parent.mkdir(parents=True, exist_ok=True)
        begun = kept.with_suffix(f".{os.getpid()}")
        begun.write_text(json.dumps([done.returncode, (done.stdout + done.stderr).replace(words[-1], "\0")]))
        begun.replace(kept)
    status, log = json.loads(kept.read_text())
    return Compiled(status, log.replace("\0", words[-1]))


def _key(words: list[str]) -> str:
    """The content hash of what nvcc is to compile: flags, the source, and all that it may include."""
    output = words.index("-o") + 1
    flags = [word for at, word in enumerate(words[:-1]) if at not in (0, output) and word[:2] != "-I"]
    # A source from elsewhere includes kernels, one of the folder headers.
    included = "*.cu*" if Path(words[-1]).is_absolute() else "*.cuh"
    files = [WRONG / words[-1], *sorted(WRONG.glob(included))]
    parts = [toolchain.find().version, *flags, *(f"{file.name}\0{file.read_text()}" for file in files)]
    return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()[:24]
