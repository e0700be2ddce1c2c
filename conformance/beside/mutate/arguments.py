"""Why a surviving mutant is equivalent: arguments that people wrote down, each of one place and operator.

They stand in a TOML file beside the kernel (`equivalent.toml`), one table a claim, for a reviewer to dispute:

    [[argument]]
    kernels = ["name"]            # whose mutants it is about
    file = "path of a source"     # relative to the kernel's root; with `at`, tokens that stand there once
    at = "barrier.wait(0);"
    operator = "remove-sync"      # or several: ["scope", "remove-sync"]
    opcode = "fence"              # what the changed instruction begins with; may be left out
    what = "regex"                # what the change's words must match; may be left out
    differs = false               # true: runs need not be the original's bit for bit, `because` says why
    because = "..."

An argument holds only for mutants that survive every run, and unless it says otherwise only where no bit
of any launch differs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileproof.conformance.beside.mutate.draw import Drawn
from tileproof.kernels import edit
from tileproof.kernels.kernel import Kernel
from tileproof.spec.machine.errors import TileproofError

FILE_NAME = "equivalent.toml"
_KEYS = {"kernels", "file", "at", "operator", "opcode", "what", "differs", "because"}
_NEEDED = {"kernels", "file", "at", "operator", "because"}


@dataclass(frozen=True)
class Argument:
    """One claim; `lines` are where `at` stands in `file`, whose path in the PTX begins with the prefix."""

    path: str
    lines: range
    operators: tuple[str, ...]
    opcode: str
    what: str
    differs: bool
    because: str

    def covers(self, drawn: Drawn, same: bool) -> bool:
        """Whether it is about this mutant, of which no launch differed (`same`)."""
        return (
            (same or self.differs)
            and drawn.operator in self.operators
            and drawn.opcode.startswith(self.opcode)
            and bool(re.search(self.what, drawn.what))
            and any(file == self.path and line in self.lines for file, line in drawn.frames)
        )


def arguments(kernel: Kernel, files: Sequence[Path]) -> tuple[Argument, ...]:
    """The claims about a kernel's mutants; TileproofError if a claim no longer matches the sources."""
    found = []
    for path in files:
        try:
            rows = tomllib.loads(path.read_text()).get("argument", [])
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TileproofError(
                "the arguments for equivalent mutants cannot be read", where=str(path), found=str(error)
            ) from error
        found += [
            _argument(kernel, path, n, row) for n, row in enumerate(rows) if kernel.name in row["kernels"]
        ]
    return tuple(found)


def _argument(kernel: Kernel, path: Path, number: int, row: Mapping[str, Any]) -> Argument:
    where = f"{path.name}, argument {number + 1}"
    if set(row) - _KEYS or _NEEDED - set(row):
        raise TileproofError(
            "not an argument for an equivalent mutant",
            where=where,
            expected=", ".join(sorted(_KEYS)),
            found=", ".join(sorted(row)),
        )
    file = row["file"]
    if file not in kernel.sources:
        raise TileproofError(
            "there is no such source", where=where, expected=", ".join(kernel.sources), found=file
        )
    lines = edit.lines_at(where, file, row["at"], kernel.sources[file])
    operators = (row["operator"],) if isinstance(row["operator"], str) else tuple(row["operator"])
    return Argument(
        kernel.image.prefix + file,
        lines,
        operators,
        row.get("opcode", ""),
        row.get("what", ""),
        bool(row.get("differs", False)),
        row["because"],
    )


def argued(known: Sequence[Argument], drawn: Drawn, same: bool) -> str:
    """Why the mutant is equivalent, by the first claim that covers it; "" when none does."""
    return next((one.because for one in known if one.covers(drawn, same)), "")
