"""Operand and modifier slots of the engine's handlers, by name.

A family's file in `emulator/isa/` declares the slots of its handlers at module level, with literals only:

    slots("shfl", operands="dst inside a b c mask", modifiers="mode", writes="dst inside")
    slots("tma.load", operands="dst map barrier mask", modifiers="dimensions gather", visible=True)

The decoder then emits by name, `d.emit("tma.load", dst=..., gather=1)`. The build (CMakeLists.txt) runs this
module, which reads the same lines without importing anything and generates `slots/<family>.hpp`: there
`slot::tma_load::dst` and `slot::tma_load::gather` index the engine's `Instr::o` and `Instr::m`. So each slot
is declared once, and this module imports only the standard library.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

MAX_SLOTS = 8  # of each kind in one instruction (engine/program.hpp)
DEFAULT = "alu"  # the layout of handlers that declare none
_RESERVED = {"imm", "vec", "label"}


@dataclass(frozen=True)
class Slots:
    """`visible`: other threads or engines can observe that it ran, so the scheduler may choose before it.

    `writes`: the operands that are destination registers; the others are read. `fills`: the registers in
    vec are destinations too. If only some are, the decoder names them (`emit(written=)`).
    """

    handler: str
    operands: tuple[str, ...]
    modifiers: tuple[str, ...]
    visible: bool
    writes: tuple[str, ...] = ()
    fills: bool = False

    @property
    def written(self) -> int:
        """The bits of `writes` among the operands."""
        return sum(1 << self.operands.index(name) for name in self.writes)

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Of each name: 0 for an operand or 1 for a modifier, and its slot."""
        kinds = enumerate((self.operands, self.modifiers))
        return {name: (kind, slot) for kind, names in kinds for slot, name in enumerate(names)}

    @property
    def namespace(self) -> str:
        """The handler's name as a C++ identifier."""
        return re.sub(r"\W+", "_", self.handler)


SLOTS: dict[str, Slots] = {}


def slots(
    handler: str,
    *,
    operands: str = "",
    modifiers: str = "",
    visible: bool = False,
    writes: str = "",
    fills: bool = False,
) -> Slots:
    """Declares a handler's slots: names separated by spaces, in the order of `Instr::o` and `Instr::m`."""
    made = Slots(
        handler, tuple(operands.split()), tuple(modifiers.split()), visible, tuple(writes.split()), fills
    )
    if not set(made.writes) <= set(made.operands):
        raise ValueError(f"{handler} writes a slot that is not its operand")
    names = made.operands + made.modifiers
    if len(set(names)) != len(names) or _RESERVED & set(names):
        raise ValueError(f"the slots of {handler} are not distinct, or use one of {sorted(_RESERVED)}")
    if len(made.operands) > MAX_SLOTS or len(made.modifiers) > MAX_SLOTS:
        raise ValueError(f"{handler} has more than {MAX_SLOTS} operands or modifiers")
    if SLOTS.get(handler, made) != made:
        raise ValueError(f"the slots of {handler} are declared twice")
    SLOTS[handler] = made
    layout_of.cache_clear()
    return made


@cache  # of every handler that the engine has, for each instruction
def layout_of(handler: str) -> Slots:
    """The slots of a handler: its own, or those of its first word (`setp.lt.u32`: `setp`), or the default."""
    return SLOTS.get(handler) or SLOTS.get(handler.split(".")[0]) or SLOTS[DEFAULT]


def place(handler: str, given: dict[str, int], none: int) -> tuple[list[int], list[int]]:
    """The o and m arrays of named values: an operand not given is `none`, a modifier 0.

    Raises TypeError for a name that the handler has no slot of: a mistake of the decoder, not of the PTX.
    """
    layout = layout_of(handler)
    o, m = [none] * MAX_SLOTS, [0] * MAX_SLOTS
    at, kinds = layout.places, (o, m)
    try:
        for name, value in given.items():
            kind, slot = at[name]
            kinds[kind][slot] = value
    except KeyError:
        unknown = ", ".join(name for name in given if name not in at)
        raise TypeError(f"the handler {handler} has no slot {unknown}: see {layout}") from None
    return o, m


def declared(family: Path) -> list[Slots]:
    """The declarations of one family's file, read without importing it."""
    found = []
    for node in ast.parse(family.read_text()).body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "slots":
            args = [ast.literal_eval(a) for a in value.args]
            words = {k.arg: ast.literal_eval(k.value) for k in value.keywords if k.arg}
            found.append(slots(*args, **words))
    return found


def generate(folder: Path, into: Path) -> None:
    """Write a header per family, and `declared.hpp`; an unchanged header keeps its time stamp."""
    into.mkdir(parents=True, exist_ok=True)
    every: list[Slots] = []
    written = {"declared.hpp"}
    for family in sorted(folder.glob("*.py")):
        found = declared(family)
        if found:
            every += found
            written.add(f"{family.stem}.hpp")
            _write(into / f"{family.stem}.hpp", "\n".join(_header(family.stem, found)))
    lines = [
        "// Generated from emulator/isa/ by emulator/slots.py: handlers with slots of their own, whether",
        (
            "// other threads can observe that they ran, which operands they write (bit k: slot k), and if "
            "they fill vec."
        ),
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace slot {",
        "struct Declared {",
        "  const char* handler;",
        "  bool visible;",
        "  uint8_t written;",
        "  bool fills;",
        "};",
        "constexpr Declared kDeclared[] = {",
        *(
            f'    {{"{s.handler}", {str(s.visible).lower()}, {s.written}, {str(s.fills).lower()}}},'
            for s in every
        ),
        "};",
        "}  // namespace slot",
        "",
    ]
    _write(into / "declared.hpp", "\n".join(lines))
    for stale in into.glob("*.hpp"):
        if stale.name not in written:
            stale.unlink()


def _header(family: str, found: list[Slots]) -> list[str]:
    lines = [f"// Generated from emulator/isa/{family}.py by emulator/slots.py.", "#pragma once", ""]
    for s in found:
        lines.append(f"namespace slot::{s.namespace} {{")
        for kind, names in (("Operand", s.operands), ("Modifier", s.modifiers)):
            if names:
                lines.append(f"enum {kind} {{ {', '.join(f'{n} = {k}' for k, n in enumerate(names))} }};")
        lines += ["}", ""]
    return lines


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]), Path(sys.argv[2]))
