"""How a kernel uses its parameters, read from its PTX: which bytes are pointers, and to what."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileproof.emulator.ptx import Address, Entry, Instruction, Name, Operand, PtxModule, Vector, parse_body

_VECTOR = re.compile(r"v([248])$")
_TYPE = re.compile(r"(?:[busf](?:8|16|32|64|128)|bf16|f16x2|bf16x2)$")
_RANK = re.compile(r"\.tensor\.([1-5])d\b")
# Instructions whose result is an address where one of their operands is.
_CARRIES = ("mov", "cvta", "add", "sub", "mad", "and", "or", "selp", "cvt")


@dataclass
class ParameterUse:
    """One piece of a parameter that is read: `bytes` at `offset`, loaded as `type` ("u64", "f32").

    `loads`, `stores`, `atomics`: the types of global accesses through it; empty of a number.
    """

    parameter: str
    offset: int
    bytes: int
    type: str
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    atomics: set[str] = field(default_factory=set)

    @property
    def is_pointer(self) -> bool:
        """Whether memory is accessed through it."""
        return bool(self.loads or self.stores or self.atomics)


@dataclass
class MapUse:
    """A parameter that tensor copies take as a tensor map: their ranks, and whether they read or write."""

    ranks: set[int] = field(default_factory=set)
    loads: bool = False
    stores: bool = False


@dataclass
class EntryUse:
    """What is known of an entry: pieces by (parameter, offset), tensor maps by parameter, and the shared
    variables that are initialised as mbarriers.
    """

    pieces: dict[tuple[str, int], ParameterUse] = field(default_factory=dict)
    maps: dict[str, MapUse] = field(default_factory=dict)
    barriers: list[str] = field(default_factory=list)


def uses(module: PtxModule, entry: Entry) -> EntryUse:
    """How an entry uses its parameters, in one pass through its code in the order of the text.

    A pointer that is kept in memory, or computed in a way that the pass does not follow, is not recognised.
    """
    walk = _Walk({parameter.name for parameter in entry.parameters})
    for statement in parse_body(module, entry):
        if isinstance(statement, Instruction):
            walk.step(statement)
    return walk.found


class _Walk:
    def __init__(self, parameters: set[str]) -> None:
        self.parameters = parameters
        self.found = EntryUse()
        self.holds: dict[str, tuple[str, int]] = {}  # register -> the piece that its address comes from
        self.points: dict[str, tuple[str, int]] = {}  # register -> a place in the parameters themselves
        self.symbols: dict[str, str] = {}  # register -> the shared variable whose address it has

    def step(self, ins: Instruction) -> None:
        words = ins.opcode.split(".")
        if words[0] == "ld" and "param" in words:
            self._parameter(ins, words)
            return
        if ins.opcode.startswith("mbarrier.init"):
            self._barrier(ins.operands[0])
        if rank := _RANK.search(ins.opcode):
            self._map(ins, int(rank[1]))
        self._accesses(ins, words)
        self._carried(ins, words)

    def _parameter(self, ins: Instruction, words: list[str]) -> None:
        """A load of a parameter's bytes: of each register the piece that it has now."""
        target, where = ins.operands
        if not isinstance(where, Address) or where.base is None:
            return
        name, offset = self.points.get(where.base, (where.base, 0))
        if name not in self.parameters:
            return
        type_ = next((word for word in reversed(words) if _TYPE.fullmatch(word)), "b64")
        size = int(re.sub(r"\D", "", type_.split("x")[0])) // 8
        parts = target.parts if isinstance(target, Vector) else (target,)
        for number, part in enumerate(parts):
            key = name, offset + where.offset + number * size
            self.found.pieces.setdefault(key, ParameterUse(*key, size, type_))
            if isinstance(part, Name):
                self._forget(part.name)
                self.holds[part.name] = key

    def _barrier(self, operand: Operand) -> None:
        base = operand.base if isinstance(operand, Address) else getattr(operand, "name", None)
        symbol = self.symbols.get(str(base), "" if base is None or base.startswith("%") else base)
        if symbol and symbol not in self.found.barriers and not getattr(operand, "offset", 0):
            self.found.barriers.append(symbol)

    def _map(self, ins: Instruction, rank: int) -> None:
        for operand in ins.operands:
            base = operand.base if isinstance(operand, Address) else None
            name = self.points.get(str(base), (base, 0))[0]
            if name in self.parameters:
                use = self.found.maps.setdefault(str(name), MapUse())
                use.ranks.add(rank)
                to_global = ".global.shared" in ins.opcode or "reduce" in ins.opcode
                use.stores, use.loads = use.stores or to_global, use.loads or not to_global

    def _accesses(self, ins: Instruction, words: list[str]) -> None:
        """Global accesses through what a register holds."""
        if words[0] not in ("ld", "ldu", "st", "red", "atom", "cp", "multimem") or "shared" in words[1:2]:
            return
        type_ = next((word for word in reversed(words) if _TYPE.fullmatch(word)), "bytes")
        addresses = [operand for operand in ins.operands if isinstance(operand, Address)]
        for number, operand in enumerate(addresses):
            use = self.found.pieces.get(self.holds.get(str(operand.base), ("", 0)))
            if use is None or operand.coordinates:
                continue
            if words[0] in ("red", "atom"):
                use.atomics.add(type_)
            elif words[0] == "st" or (words[0] == "cp" and number == 0):
                use.stores.add(type_)
            else:
                use.loads.add(type_)

    def _carried(self, ins: Instruction, words: list[str]) -> None:
        """What the target register holds from now on."""
        if not ins.operands or not isinstance(ins.operands[0], Name) or words[0] in ("st", "red", "bra"):
            return
        target, sources = ins.operands[0].name, ins.operands[1:]
        names = [name.name for name in sources if isinstance(name, Name)] if words[0] in _CARRIES else []
        held = next(
            (self.holds[name] for name in names if name in self.holds and not self._number(name)), None
        )
        place = next(
            (self._place(source) for source in sources if isinstance(source, Name) and self._place(source)),
            None,
        )
        symbol = next(
            (
                self.symbols.get(name, name)
                for name in names
                if name in self.symbols or not name.startswith("%")
            ),
            "",
        )
        self._forget(target)
        if held is not None:
            self.holds[target] = held
        if place is not None and words[0] in ("mov", "cvta", "add"):
            self.points[target] = place
        if symbol and symbol not in self.parameters and words[0] in ("mov", "cvta", "cvt"):
            self.symbols[target] = symbol

    def _place(self, name: Name | str) -> tuple[str, int] | None:
        text = name.name if isinstance(name, Name) else name
        if text in self.parameters:
            return text, name.offset if isinstance(name, Name) else 0
        return self.points.get(text)

    def _number(self, register: str) -> bool:
        """Whether what a register holds was loaded as a number of other than 8 bytes: no address."""
        use = self.found.pieces.get(self.holds[register])
        return use is not None and (use.bytes != 8 or use.type.startswith("f"))

    def _forget(self, register: str) -> None:
        for known in (self.holds, self.points, self.symbols):
            known.pop(register, None)  # type: ignore[attr-defined]
