"""Machine code read back as PTX, so that the emulator runs ptxas's output: a reference without a card.

Every SASS instruction becomes the PTX that says the same, over `.b32` registers of the same names. What an
instruction does is read from what ptxas -O0 makes of single PTX instructions; NVIDIA publishes no reference.
A kernel with an instruction that has no reading is refused, not skipped (`NotRead`). The reading and the
emulator share their arithmetic: the comparison shows what ptxas changed, and no mistake of the emulator.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from tileproof.kernels import toolchain

HALVES = 0x80008000  # the sign bits of two packed floats
PARAMETERS = 0x210  # where they begin in constant bank 0 of sm_90
_LINE = re.compile(
    r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/$"
)
_LABEL = re.compile(r"^(\.L_x_\d+):$")
_SPLIT = re.compile(r",\s*(?![^\[(]*[\])])")
_PLAIN = re.compile(r"^([-~!]?)(\|?)(U?R\d+|U?RZ)(\|?)((?:\.\w+)*)$")
_PREDICATE = re.compile(r"^(!?)(U?P(?:\d|T))$")


class NotRead(Exception):
    """An instruction, or a form of it, that has no reading."""


@dataclass(frozen=True)
class SassLine:
    """One instruction. `operands`: as printed; `word`: the 32 bits of its immediate, if any."""

    guard: str
    opcode: str
    operands: tuple[str, ...]
    word: int

    @property
    def root(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".", 1)[0]

    @property
    def flags(self) -> set[str]:
        """Its modifiers."""
        return set(self.opcode.split(".")[1:])

    def flag(self, *names: str) -> str:
        """The first of `names` that is among its modifiers, or ""."""
        return next((n for n in names if n in self.flags), "")


Handler = Callable[["Reader", SassLine, list[str]], None]
HANDLERS: dict[str, Handler] = {}


def sass(*roots: str) -> Callable[[Handler], Handler]:
    """Registers the reading of instructions."""

    def keep(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(roots, handler))
        return handler

    return keep


class Reader:
    """The PTX of one kernel, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.wide = self.narrow = self.predicates = self.halves = 0
        self.word = 0

    def emit(self, text: str) -> None:
        """Add a PTX statement."""
        self.lines.append(f"  {text};")

    def temporary(self) -> str:
        """A fresh 32-bit register."""
        self.narrow += 1
        return f"%t{self.narrow}"

    def temporary64(self) -> str:
        """A fresh 64-bit register."""
        self.wide += 1
        return f"%d{self.wide}"

    def temporary16(self) -> str:
        """A fresh 16-bit register."""
        self.halves += 1
        return f"%h{self.halves}"

    def flag(self) -> str:
        """A fresh predicate."""
        self.predicates += 1
        return f"%q{self.predicates}"

    def at(self, operand: str, sign: int | None = None) -> str:
        """A 32-bit source. `sign`: the sign bits of its format, where - and | | are of floats."""
        value = self._source(operand.replace(".reuse", "").strip(), sign)
        if sign is not None and not value.startswith(("R", "U", "%")):
            to = self.temporary()
            self.emit(f"mov.b32 {to}, {value}")
            return to
        return value

    def _source(self, operand: str, sign: int | None) -> str:
        match = _PLAIN.match(operand)
        if match is None:
            return self._constant(operand)
        minus, bar, name, _, tail = match.groups()
        value = "0" if name in ("RZ", "URZ") else name
        if tail in (".H0_H0", ".H1_H1"):
            to = self.temporary()
            self.emit(f"prmt.b32 {to}, {value}, 0, {'0x1010' if tail == '.H0_H0' else '0x3232'}")
            value = to
        elif tail and tail not in (".64",):
            raise NotRead(f"operand {operand}")
        if bar:
            if sign is None:
                raise NotRead(f"operand {operand}")
            to = self.temporary()
            self.emit(f"and.b32 {to}, {value}, {~sign & 0xFFFFFFFF:#x}")
            value = to
        if minus:
            to = self.temporary()
            if minus == "~":
                self.emit(f"not.b32 {to}, {value}")
            elif sign is not None:
                self.emit(f"xor.b32 {to}, {value}, {sign:#x}")
            else:
                self.emit(f"neg.s32 {to}, {value}")
            value = to
        return value

    def _constant(self, operand: str) -> str:
        if re.match(r"^[-~|]?c\[0x0\]\[", operand):
            if operand[0] != "c":
                raise NotRead(f"operand {operand}")
            found = re.match(r"^c\[0x0\]\[(0x[0-9a-f]+)\]$", operand)
            if found is None or int(found[1], 16) < PARAMETERS:
                raise NotRead(f"operand {operand}")
            to = self.temporary()
            self.emit(f"ld.param.b32 {to}, [parameters+{int(found[1], 16) - PARAMETERS}]")
            return to
        if re.match(r"^[-+]?(0x[0-9a-f]+|[0-9.e+-]+|INF|QNAN|SNAN)\s*$", operand):
            if operand.startswith(("0x", "-0x")):
                return f"{int(operand, 16) & 0xFFFFFFFF:#x}"
            return f"{self.word:#x}"
        raise NotRead(f"operand {operand}")

    def at64(self, operand: str, real: bool = False) -> str:
        """A 64-bit source: a pair of registers; `real`: - and | | are of f64, immediates are upper halves."""
        operand = operand.replace(".reuse", "").replace(".64", "").strip()
        match = re.match(r"^(-?)(\|?)(U?)R(\d+|Z)\|?$", operand)
        to = self.temporary64()
        if match is None:
            if not real or operand.startswith(("c[", "-c", "|c")):
                raise NotRead(f"operand {operand}")
            self.emit(f"mov.b64 {to}, {self.word << 32:#x}")
            return to
        minus, bar, uniform, number = match.groups()
        if number == "Z":
            self.emit(f"mov.b64 {to}, 0")
        else:
            self.emit(f"mov.b64 {to}, {{{uniform}R{number}, {uniform}R{int(number) + 1}}}")
        if bar:
            self.emit(f"and.b64 {to}, {to}, 0x7fffffffffffffff")
        if minus and real:
            self.emit(f"xor.b64 {to}, {to}, 0x8000000000000000")
        elif minus:
            self.emit(f"neg.s64 {to}, {to}")
        return to

    def to(self, operand: str) -> str:
        """A 32-bit destination."""
        return self.temporary() if operand in ("RZ", "URZ") else operand

    def to64(self, operand: str, value: str) -> None:
        """A pair of registers is set to a 64-bit value."""
        if operand in ("RZ", "URZ"):
            return
        stem, number = re.match(r"^(U?R)(\d+)$", operand).groups()  # type: ignore[union-attr]
        self.emit(f"mov.b64 {{{stem}{number}, {stem}{int(number) + 1}}}, {value}")

    def predicate(self, operand: str) -> str:
        """A predicate source as a register."""
        match = _PREDICATE.match(operand)
        if match is None:
            raise NotRead(f"operand {operand}")
        to = self.flag()
        if match[2] in ("PT", "UPT"):
            self.emit(f"setp.{'ne' if match[1] else 'eq'}.u32 {to}, 0, 0")
        else:
            self.emit(f"{'not' if match[1] else 'mov'}.pred {to}, {match[2]}")
        return to

    def set_predicate(self, operand: str, value: str) -> None:
        """A predicate destination; PT is none."""
        if operand not in ("PT", "UPT"):
            self.emit(f"mov.pred {operand}, {value}")

    def as_word(self, predicate: str) -> str:
        """1 where the predicate holds."""
        to = self.temporary()
        self.emit(f"selp.b32 {to}, 1, 0, {self.predicate(predicate)}")
        return to


def lines_of(cubin: bytes) -> dict[str, list[SassLine | str]]:
    """The instructions and labels of each kernel of a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(toolchain.nvdisasm()), "-hex", "-c", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    out: dict[str, list[SassLine | str]] = {}
    here: list[SassLine | str] = []
    for line in text.splitlines():
        if line.startswith(".text.") and line.endswith(":"):
            here = out.setdefault(line[6:-1], [])
        elif match := _LABEL.match(line):
            here.append(match[1])
        elif match := _LINE.match(line):
            _, guard, opcode, operands, code = match.groups()
            given = tuple(part.strip() for part in _SPLIT.split(operands)) if operands else ()
            here.append(SassLine(guard or "", opcode, given, int(code, 16) >> 32))
    return out


def ptx_of(name: str, lines: list[SassLine | str], parameters: int = 3) -> str:
    """The kernel as PTX; NotRead with the first instruction that has no reading."""
    from tileproof.tools.silicon.fuzz import read_float, read_integer  # noqa: F401 - fill HANDLERS

    reader = Reader()
    for n, line in enumerate(lines):
        if isinstance(line, str):
            reader.lines.append(f"{line.replace('.', '$')}:")
            continue
        if line.root in ("NOP", "BSSY", "BSYNC", "WARPSYNC", "BREAK", "DEPBAR"):
            continue
        handler = HANDLERS.get(line.root)
        if handler is None:
            raise NotRead(line.opcode)
        skip = ""
        if line.guard and line.guard not in ("PT", "UPT"):
            skip = f"$skip_{n}"
            guard = line.guard.removeprefix("!")
            reader.lines.append(f"  @{'' if line.guard.startswith('!') else '!'}{guard} bra {skip};")
        reader.word = line.word
        handler(reader, line, list(line.operands))
        if skip:
            reader.lines.append(f"{skip}:")
    body = "\n".join(reader.lines)
    registers = (
        f"  .reg .b32 R<256>, UR<64>, %t<{reader.narrow + 1}>;\n  .reg .b64 %d<{reader.wide + 1}>;\n"
        f"  .reg .b16 %h<{reader.halves + 1}>;\n  .reg .pred P<8>, UP<8>, %q<{reader.predicates + 1}>;\n"
    )
    # Registers that a kernel never writes are read as 0: uninitialised bits do not differ between levels.
    return (
        f".visible .entry {name}(.param .align 8 .b8 parameters[{8 * parameters}])\n"
        f"{{\n{registers}{body}\n}}\n"
    )


@sass("EXIT", "RET")
def leave(r: Reader, line: SassLine, ops: list[str]) -> None:
    if line.root == "RET":
        raise NotRead("RET")
    r.emit("ret")


@sass("BRA")
def branch(r: Reader, line: SassLine, ops: list[str]) -> None:
    found = re.search(r"`\((\.L_x_\d+)\)", ops[-1])
    if found is None or line.flags or len(ops) > 2:
        raise NotRead(f"{line.opcode} {line.operands}")
    target = found[1].replace(".", "$")
    if len(ops) == 2:
        r.emit(f"@{r.predicate(ops[0])} bra {target}")
    else:
        r.emit(f"bra {target}")


@sass("LDC", "ULDC")
def load_constant(r: Reader, line: SassLine, ops: list[str]) -> None:
    found = re.match(r"^c\[0x0\]\[(?:(R\d+|RZ)\+?)?(0x[0-9a-f]+)?\]$", ops[1])
    if found is None:
        raise NotRead(f"{line.opcode} {ops[1]}")
    base, at = found[1], int(found[2] or "0", 16)
    if at < PARAMETERS:  # the stack pointer, the descriptor of global memory
        return
    if base and base != "RZ":
        start, address = r.temporary64(), r.temporary64()
        r.emit(f"cvt.u64.u32 {address}, {base}")
        r.emit(f"mov.u64 {start}, parameters")
        r.emit(f"add.u64 {address}, {address}, {start}")
        where = f"[{address}+{at - PARAMETERS}]"
    else:
        where = f"[parameters+{at - PARAMETERS}]"
    if line.flag("64"):
        to = r.temporary64()
        r.emit(f"ld.param.b64 {to}, {where}")
        r.to64(ops[0], to)
    else:
        if line.flags:
            raise NotRead(line.opcode)
        r.emit(f"ld.param.b32 {r.to(ops[0])}, {where}")


@sass("S2R", "S2UR", "CS2R")
def special(r: Reader, line: SassLine, ops: list[str]) -> None:
    if ops[1] == "SRZ":
        r.to64(ops[0], "0") if line.flag("32") == "" else r.emit(f"mov.b32 {r.to(ops[0])}, 0")
    elif ops[1] == "SR_TID.X":
        r.emit(f"mov.u32 {ops[0]}, %tid.x")
    else:
        raise NotRead(f"{line.opcode} {ops[1]}")


@sass("LDG", "STG", "LDS", "STS")
def memory(r: Reader, line: SassLine, ops: list[str]) -> None:
    stores, space = line.root.startswith("ST"), "global" if line.root.endswith("G") else "shared"
    place, value = (ops[0], ops[1]) if stores else (ops[1], ops[0])
    if line.flags - {"E", "64", "U16", "S16", "U8", "S8", "CONSTANT"}:
        raise NotRead(line.opcode)
    found = re.match(
        r"^(?:desc\[UR\d+\])?\[(R\d+|RZ)?(?:\.64|\.X\d)?\+?(UR\d+)?\+?(-?0x[0-9a-f]+)?\]$", place
    )
    if found is None or found[2] or ".X" in place:
        raise NotRead(f"{line.opcode} {place}")
    offset = int(found[3] or "0", 16)
    if space == "global":
        where = f"[{r.at64(found[1])}+{offset}]"
    else:
        where = f"[{found[1] if found[1] and found[1] != 'RZ' else 0}+{offset}]"
    size = line.flag("64", "U16", "S16", "U8", "S8").lower() or "32"
    if size == "64":
        if stores:
            r.emit(f"st.{space}.b64 {where}, {r.at64(value)}")
        else:
            to = r.temporary64()
            r.emit(f"ld.{space}.b64 {to}, {where}")
            r.to64(value, to)
    elif stores:
        r.emit(f"st.{space}.{'b' + size.lstrip('us')} {where}, {r.at(value)}")
    else:
        r.emit(f"ld.{space}.{size if size[0] in 'us' else 'b32'} {r.to(value)}, {where}")
