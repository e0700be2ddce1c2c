"""Machine code of a built kernel: one cubin for each target that its PTX is assembled for.

PTX for sm_100a is assembled for the sm_100f family as well: a cubin for sm_100a loads on compute capability
10.0 alone, one for sm_100f also on later members of the family, such as 10.3 of a B300 (CUDA programming
guide, family-specific features). PTX for sm_90 is assembled for that family too. The text is the same but for
its `.target`; ptxas refuses what not every member of the family has.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.compile import TIMEOUT_S, Built, Resources, compile_error, parse_resources
from tileproof.spec.machine.errors import TileproofError

FAMILIES = {"sm_100a": "sm_100f", "sm_90": "sm_100f"}
_TARGET = re.compile(r"^(\s*\.target\s+)(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Cubin:
    """The machine code of a module for `target`, called by one of its entries; `log` is what ptxas said."""

    entry: str
    target: str
    image: bytes = field(repr=False)
    log: str = field(repr=False)

    @property
    def resources(self) -> Resources:
        """What the entry needs."""
        return self.resources_of(self.entry)

    def resources_of(self, entry: str) -> Resources:
        """What an entry of the module needs."""
        return parse_resources(self.log, entry)

    @property
    def sha256(self) -> str:
        """Of the image."""
        return hashlib.sha256(self.image).hexdigest()

    @property
    def file_name(self) -> str:
        """What the file is called."""
        return f"{self.entry}.{self.target}.cubin"


def target_of(ptx: str) -> str:
    """The target that the PTX names; TileproofError where it names none."""
    found = _TARGET.search(ptx)
    if found is None:
        raise TileproofError("the PTX names no .target", where="PTX", found=ptx[:80])
    return found[2]


def targets_of(ptx: str) -> tuple[str, ...]:
    """The PTX's own target, and the family that it is assembled for too; TileproofError as of `target_of`."""
    own = target_of(ptx)
    return (own, FAMILIES[own]) if own in FAMILIES else (own,)


def cubin(built: Built, target: str) -> Cubin:
    """`built` assembled for `target`; TileproofError with what ptxas says when it refuses."""
    with tempfile.TemporaryDirectory(prefix="tileproof-cubin-") as folder:
        ptx, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        ptx.write_text(_TARGET.sub(rf"\g<1>{target}", built.ptx, count=1))
        command = [str(toolchain.find().ptxas), f"-arch={target}", "-v", ptx.name, "-o", out.name]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TileproofError(
                "the assembler did not finish", where=f"ptxas for {target}", found=str(error)
            ) from error
        said = done.stdout + done.stderr
        if done.returncode:
            raise compile_error(f"ptxas for {target}", said)
        return Cubin(built.entry, target, out.read_bytes(), said)


def cubins(built: Built) -> tuple[Cubin, ...]:
    """`built` for each of its targets."""
    return tuple(cubin(built, target) for target in targets_of(built.ptx))
