"""SASS with its control bits, and the PTX line of each instruction.

`nvdisasm -gp -hex` prints both. The 21 control bits of a 128-bit instruction are bits 105 to 125: stall
count, yield, write barrier, read barrier, barriers to wait for, reuse (Jia et al., arXiv 1804.06826, 2.1;
the same since Volta).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.kernels.places import on_first_lines
from tileproof.spec.machine.errors import TileproofError

NO_BARRIER = 7
_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt", line (\d+)')
_INSTRUCTION = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/$"
)
_SECOND = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/$")
_LABEL = re.compile(r"^(\.L_x_\d+):$")
_PREDICATE = re.compile(r"!?U?P\d")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_TARGETS = re.compile(r"BRANCH_TARGETS ((?:\.L_x_\d+,?)+)")


@dataclass(frozen=True)
class Sass:
    """One instruction. `line`: of the PTX, 0 when it has none. `targets`: where it may branch to, indices.

    `stall`: clocks until the warp may issue its next instruction; `writes`, `reads`: the scoreboard (0 to 5)
    released when the result is available, or when the sources are read (7: none); `waits`: a mask of
    scoreboards that must be released before this instruction issues.
    """

    address: int
    guard: str
    opcode: str
    operands: str
    line: int
    stall: int
    writes: int
    reads: int
    waits: int
    targets: tuple[int, ...] = ()

    @cached_property
    def root(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".", 1)[0]

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may follow: BRA.U has its predicate among the operands."""
        if self.guard or self.root not in ("EXIT", "RET", "KILL", "BRA", "JMP", "BRX"):
            return True
        return ".DIV" in self.opcode or bool(_PREDICATE.match(self.operands))

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {self.operands}".strip()


def assemble(ptx: str, arch: str, entry: str) -> list[Sass]:
    """The machine code of `entry` as ptxas makes it for `arch`; TileproofError when a tool refuses."""
    return parse(_disassembled(ptx, arch), entry)


@lru_cache(maxsize=2)  # a text has several entries
def _disassembled(ptx: str, arch: str) -> str:
    tools = toolchain.find()
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(on_first_lines(ptx))
        _run([str(tools.ptxas), f"-arch={arch}", "-lineinfo", str(source), "-o", str(cubin)], "ptxas")
        return _run([str(toolchain.nvdisasm()), "-gp", "-hex", "-c", str(cubin)], "nvdisasm")


def parse(text: str, entry: str) -> list[Sass]:
    """The instructions of one function of nvdisasm's text; TileproofError when it is not there."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == f".text.{entry}:":
            break
    else:
        raise TileproofError(
            "the machine code has no such function", where=entry, found="no .text section of the function"
        )
    found: list[tuple[Sass, list[str]]] = []
    labels: dict[str, int] = {}
    ptx_line, pending = 0, None
    for line in lines:
        if line.startswith((".text.", "//-----")):
            break
        if match := _LINE.search(line):
            ptx_line = int(match[1])
        elif match := _LABEL.match(line):
            labels[match[1]] = len(found)
        elif match := _INSTRUCTION.match(line):
            pending = match
        elif (match := _SECOND.match(line)) and pending is not None:
            control = int(match[1], 16) >> 41
            address, guard, opcode, operands, _ = pending.groups()
            jumps = _TARGETS.search(operands)  # of a jump table
            where = jumps[1].strip(",").split(",") if jumps else _TARGET.findall(operands)
            found.append(
                (
                    Sass(
                        int(address, 16), guard or "", opcode, operands, ptx_line,
                        control & 15, control >> 5 & 7, control >> 8 & 7, control >> 11 & 63,
                    ),
                    where,
                )
            )  # fmt: skip
            pending = None
    return [
        replace(instruction, targets=tuple(labels[label] for label in names if label in labels))
        if names
        else instruction
        for instruction, names in found
    ]


def _run(command: list[str], name: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TileproofError(
            f"{name} rejects the kernel", where=command[0], found=(done.stderr or done.stdout).strip()[:400]
        )
    return done.stdout
