"""The result of ptxas for a PTX text: refused, or machine code, by which two texts are compared."""

from __future__ import annotations

import hashlib
import re
import resource
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.places import without_places
from tileproof.spec.machine.errors import TileproofError

PROCESSOR_S = 120  # seconds of processor time that ptxas may take, however long the clock runs meanwhile
ASLEEP_S = 3600
_ERROR = re.compile(r"error\s*: (.*)|fatal\s*: (.*)")


@dataclass(frozen=True)
class Assembled:
    """`refused` is the first error of ptxas, empty if it accepted the text; `digest` that of the object made
    without source places.
    """

    refused: str = ""
    digest: str = ""


def assemble(ptx: str, arch: str) -> Assembled:
    """Assembles a PTX text for `arch`; TileproofError when ptxas does not run."""
    bare = without_places(ptx)
    with tempfile.TemporaryDirectory(prefix="tileproof-mutate-") as folder:
        source, made = Path(folder) / "m.ptx", Path(folder) / "m.cubin"
        source.write_text(bare)
        command = [str(toolchain.find().ptxas), f"-arch={arch}", str(source), "-o", str(made)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=ASLEEP_S, check=False, preexec_fn=_limited
            )
        except subprocess.TimeoutExpired:
            return Assembled(refused=f"ptxas did not finish in {ASLEEP_S} s")
        except OSError as error:
            raise TileproofError("ptxas does not run", where=command[0], found=str(error)) from error
        if done.returncode == -signal.SIGXCPU:
            return Assembled(refused=f"ptxas did not finish in {PROCESSOR_S} s of processor time")
        if done.returncode:
            found = _ERROR.search(done.stdout + done.stderr)
            text = next(part for part in (*(found.groups() if found else ()), "refused") if part)
            return Assembled(refused=text.strip())
        return Assembled(digest=hashlib.sha256(made.read_bytes()).hexdigest())


def _limited() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    seconds = PROCESSOR_S if hard == resource.RLIM_INFINITY else min(PROCESSOR_S, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
