"""How the kernels of wrong/ are compiled."""

import fcntl
import hashlib
import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import FLAGS
from tileproof.spec.machine.cache_folder import cache_root

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

# What has a translation unit of its own: its command is its own, it ends the reading of the source
# (missing_header), another's header would heal it (not_included), another's instantiation is counted with
# its own (ws_m32_plain_fragment), it is reported only where no error stands before (host_function), or its
# many errors would fill nvcc's limit of 100 (tma_box, tmem_registers).
ALONE = {
    *COMMAND,
    "b_not_transposed",
    "host_function",
    "missing_header",
    "not_included",
    "tma_box",
    "tmem_registers",
    "two_kernels",
    "ws_m32_plain_fragment",
}


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


def in_one_unit() -> list[str]:
    """The kernels that one translation unit holds, since the headers of CuTe take most of a compilation."""
    return sorted({path.stem for path in WRONG.glob("*.cu")} - ALONE)


def compile_in_one_unit(folder: Path) -> dict[str, Compiled]:
    """`in_one_unit` compiled from copies in an empty folder: each kernel with what nvcc said of it, its
    status 0 where that is nothing.
    """
    for path in WRONG.glob("*.cu*"):
        (folder / path.name).write_text(path.read_text())
    names = in_one_unit()
    (folder / "together.cu").write_text("".join(f'#include "{name}.cu"\n' for name in names))
    done = run(command("together", "together.cu", folder / "out"), folder)
    told = said_of(done.log, names)
    return {name: Compiled(done.status if name in told else 0, told.get(name, "")) for name in names}


def said_of(log: str, names: list[str]) -> Mapping[str, str]:
    """The diagnostics of each kernel in the log of a unit that includes `names`, apart by the source that
    they lie in or were instantiated from.

    ValueError: a diagnostic is of no kernel, or of two.
    """
    told: dict[str, str] = defaultdict(str)
    for diagnostic in re.split(r"^(?=\S+\(\d+\): (?!note))", log, flags=re.M)[1:]:
        text = re.sub(r"^\d+ errors? detected in the compilation of .*\n", "", diagnostic, flags=re.M)
        of = {name for name in re.findall(r"\b(\w+)\.cu\b", text) if name in names}
        if len(of) != 1:
            raise ValueError(f"a diagnostic of {sorted(of) or 'no kernel'}: {text}")
        told[of.pop()] += text
    return told


def run(words: list[str], folder: Path = WRONG) -> Compiled:
    """Runs nvcc in the folder of the wrong kernels or of copies; what it said of the same text is kept beside
    the compiled kernels.
    """
    kept = cache_root() / "wrong" / f"{_key(words, folder)}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run at once compile a text once
        if not kept.exists():
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=250, check=False)
            begun = kept.with_suffix(f".{os.getpid()}")
            said = (done.stdout + done.stderr).replace(words[-1], "\0")
            begun.write_text(json.dumps([done.returncode, said]))
            begun.replace(kept)
    status, log = json.loads(kept.read_text())
    return Compiled(status, log.replace("\0", words[-1]))


def _key(words: list[str], folder: Path) -> str:
    """The content hash of what nvcc is to compile: flags, the source, and all that it may include."""
    output = words.index("-o") + 1
    flags = [word for at, word in enumerate(words[:-1]) if at not in (0, output) and word[:2] != "-I"]
    # A source from elsewhere includes kernels, one of the folder headers.
    included = "*.cu*" if Path(words[-1]).is_absolute() or folder != WRONG else "*.cuh"
    files = [folder / words[-1], *sorted(WRONG.glob(included))]
    parts = [toolchain.find().version, *flags, *(f"{file.name}\0{file.read_text()}" for file in files)]
    return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()[:24]
