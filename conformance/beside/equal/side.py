"""The values of an entry's registers as terms: what a step computes, and what a thread keeps for good."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import z3
from tileproof.conformance.beside.equal.entry import (
    EntryCode,
    Unsupported,
    immediate,
    pure,
    results,
    sources,
)
from tileproof.conformance.beside.equal.extents import Extents
from tileproof.conformance.beside.equal.meaning import Term, converted, fit, form, number
from tileproof.emulator.ptx import Address, Immediate, Instruction, Name, Operand, Vector

Look = Callable[[str], Term]
MOST_THREADS, MOST_BLOCKS = 1024, (1 << 31) - 1
_WIDE = {"%gridid": 64}
_EXTENT = {
    "%tid": "%ntid", "%ctaid": "%nctaid", "%cluster_ctaid": "%cluster_nctaid", "%clusterid": "%nclusterid",
}  # fmt: skip
_FLOAT = re.compile(r"\.f(16|32|64)$")
_PARAMETER = re.compile(r"ld\.param(?:\.v[24])?\.([busf])(8|16|32|64)$")


def variable(name: str, width: int) -> Term:
    """A value that is not known."""
    return z3.Bool(name) if width == 0 else z3.BitVec(name, width)


@dataclass
class Thread:
    """What both entries find: special registers, parameters, symbols; `facts` bounds them."""

    extents: Extents
    aligned: dict[str, int]
    facts: list[Term] = field(default_factory=list)
    known: dict[tuple[str, int], Term] = field(default_factory=dict)

    def special(self, name: str) -> Term:
        """A special register, within the declared sizes."""
        width = _WIDE.get(name, 64 if name.endswith("64") else 32)
        if (name, width) not in self.known:
            self.known[name, width] = self._special(name, width)
        return self.known[name, width]

    def _special(self, name: str, width: int) -> Term:
        head, _, axis = name.partition(".")
        along = "xyz".find(axis or "-")
        if head == "%ntid" and self.extents.block is not None:
            return number(self.extents.block[along], 32)
        if name == "%cluster_nctarank" and self.extents.cluster is not None:
            return number(self.extents.cluster, 32)
        if name == "%laneid" and self.extents.warps_in_a_row:
            return self.special("%tid.x") & 31
        made = variable(name, width)
        if head in _EXTENT and along >= 0:
            self.facts.append(z3.ULT(made, self.special(f"{_EXTENT[head]}.{axis}")))
        elif name == "%cluster_ctarank":
            self.facts.append(z3.ULT(made, self.special("%cluster_nctarank")))
        elif head in ("%ntid", "%nctaid", "%nclusterid", "%cluster_nctaid", "%cluster_nctarank"):
            limit = MOST_THREADS if head == "%ntid" else MOST_BLOCKS
            self.facts.append(z3.And(z3.UGE(made, 1), z3.ULE(made, limit)))
        elif name == "%laneid":
            self.facts.append(z3.ULT(made, 32))
        return made

    def symbol(self, name: str, width: int) -> Term:
        """The address of a variable; in 64 bits and in 32 bits apart."""
        if (name, width) not in self.known:
            made = self.known[name, width] = variable(f"&{name}", width)
            align = self.aligned.get(name, 1)
            if align > 1:
                self.facts.append(made & (align - 1) == 0)
        return self.known[name, width]


@dataclass
class Side:
    """One of the two entries. `dominates[b]`: the blocks that every path to block b passes."""

    code: EntryCode
    thread: Thread
    dominates: Sequence[frozenset[int]]
    _invariants: dict[str, Term | None] = field(default_factory=dict)

    # ---- operands

    def value(self, item: Operand, width: int, look: Look) -> Term | None:
        """An operand of an interpreted instruction; None where its width is another."""
        literal = immediate(item)
        if literal is not None:
            return None if width == 0 else number(literal, width)
        if isinstance(item, Immediate):
            return number(item.value, width) if item.float_bits == width else None
        if not isinstance(item, Name):
            return None
        if item.name in self.code.widths:
            if self.code.widths[item.name] != width or item.offset:
                return None
            term = look(item.name)
            return z3.Not(term) if item.negated else term
        if item.name.startswith("%"):
            term = self.thread.special(item.name)
            return term if term.size() == width else None
        return self.thread.symbol(item.name, width) + item.offset if width else None

    def any_value(self, item: Operand, look: Look) -> Term:
        """An operand of a computation that is not interpreted."""
        if isinstance(item, Immediate):
            return variable(f"literal {item.value} {item.float_bits}", 64)
        if not isinstance(item, Name):
            raise Unsupported(f"the operand {item}")
        width = self.code.widths.get(item.name, 64 if not item.name.startswith("%") else 32)
        if item.name.startswith("%") and item.name not in self.code.widths:
            width = self.thread.special(item.name).size()
        term = self.value(item, width, look)
        if term is None:
            raise Unsupported(f"the operand {item.name}")
        return term

    def address(self, item: Address, look: Look) -> Term:
        """Where an access goes, in 64 bits."""
        if item.base is None:
            return number(item.offset, 64)
        base = self.any_value(Name(item.base), look)
        return fit(base, 64) + item.offset

    # ---- pure steps

    def compute(self, step: Instruction, look: Look) -> list[Term]:
        """The terms of the results of a pure step."""
        made, asked = results(step), sources(step)
        if not made:
            return []
        widths = [self.code.widths[item.name] if isinstance(item, Name) else None for item in made]
        found = self._interpreted(step, widths, asked, look)
        return found if found is not None else self._function(step, widths, asked, look)

    def _interpreted(
        self, step: Instruction, widths: list[int | None], asked: tuple[Operand, ...], look: Look
    ) -> list[Term] | None:
        opcode = step.opcode
        if opcode.startswith("ld.param"):
            return self._parameter(step, widths, look)
        if opcode.startswith("mov.b") and any(isinstance(item, Vector) for item in step.operands):
            return self._packed(int(opcode[5:]), step, widths, asked[0], look)
        if opcode.startswith("cvt."):
            source = self.any_value(asked[0], look) if isinstance(asked[0], Name) else None
            into = widths[0]
            if source is None or not into or z3.is_bool(source):
                return None
            made = converted(opcode, source, into)
            return None if made is None else [made]
        if opcode == "lop3.b32":
            table = immediate(asked[-1])
            if table is None:
                return None
            opcode, asked = f"lop3.b32:{table & 0xFF}", asked[:-1]
        if _FLOAT.search(opcode) and any(immediate(item) is not None for item in asked):
            return None  # an integer literal in the place of a float
        meaning = form(opcode)
        if meaning is None or len(meaning[1]) != len(asked) or len(meaning[0]) < len(widths):
            return None
        if any(has is not None and has != width for has, width in zip(widths, meaning[0], strict=False)):
            return None
        given = [self.value(item, width, look) for item, width in zip(asked, meaning[1], strict=True)]
        return None if any(item is None for item in given) else meaning[2](given)[: len(widths)]

    def _parameter(self, step: Instruction, widths: list[int | None], look: Look) -> list[Term]:
        match, place = _PARAMETER.match(step.opcode), sources(step)[0]
        if match is None or not isinstance(place, Address) or place.base is None:
            raise Unsupported(f"{step.opcode}, line {step.line}")
        size = int(match[2])
        if place.base in self.code.widths:  # parameters do not change: a function of the place
            at = self.address(place, look)
            load = z3.Function(f"parameter:{size}", at.sort(), z3.BitVecSort(size))
            values = [load(at + n * size // 8) for n in range(len(widths))]
        else:
            places = [place.offset + n * size // 8 for n in range(len(widths))]
            values = [variable(f"{place.base}+{offset}:{size}", size) for offset in places]
        return [fit(item, into or size, match[1] == "s") for item, into in zip(values, widths, strict=True)]

    def _packed(
        self, whole: int, step: Instruction, widths: list[int | None], source: Operand, look: Look
    ) -> list[Term] | None:
        if isinstance(source, Vector):
            if whole % len(source.parts) or widths != [whole]:
                return None
            parts = [self.value(item, whole // len(source.parts), look) for item in source.parts]
            return None if any(item is None for item in parts) else [z3.Concat(*reversed(parts))]
        value, size = self.value(source, whole, look), whole // len(widths)
        if value is None or any(width not in (None, size) for width in widths):
            return None
        return [z3.Extract(size * n + size - 1, size * n, value) for n in range(len(widths))]

    def _function(
        self, step: Instruction, widths: list[int | None], asked: tuple[Operand, ...], look: Look
    ) -> list[Term]:
        given = [self.any_value(item, look) for item in asked]
        sorts = [item.sort() for item in given]
        shape = ",".join(map(str, sorts))
        found = []
        for n, width in enumerate(widths):
            into = z3.BoolSort() if width == 0 else z3.BitVecSort(width or 32)
            name = f"{step.opcode}/{n}/{shape}/{width}"
            found.append(z3.Function(name, *sorts, into)(*given) if given else z3.Const(name, into))
        return found

    # ---- what a thread keeps

    def invariant(self, register: str, block: int) -> Term | None:
        """The value that a register always has in a block, as soon as it has any; None where it may change.

        A single instruction without a guard makes it, of what is kept: special registers, parameters, symbols
        and such registers. A register that holds such a value never holds another.
        """
        made = self.code.definitions.get(register, [])
        if len(made) != 1 or made[0][0] == block or made[0][0] not in self.dominates[block]:
            return None
        return self._constant(register)

    def _constant(self, register: str) -> Term | None:
        if register not in self._invariants:
            self._invariants[register] = None  # of a register that is made of itself
            self._invariants[register] = self._made_once(register)
        return self._invariants[register]

    def _made_once(self, register: str) -> Term | None:
        made = self.code.definitions.get(register, [])
        if len(made) != 1:
            return None
        block, place = made[0]
        step = self.code.blocks[block].steps[place]
        exchanged = self._lane(step)
        if step.guard or not (pure(step) or exchanged is not None):
            return None

        def look(name: str) -> Term:
            other = self.code.definitions.get(name, [])
            before = len(other) == 1 and (
                (other[0][0] == block and other[0][1] < place)
                or (other[0][0] != block and other[0][0] in self.dominates[block])
            )
            term = self._constant(name) if before else None
            if term is None:
                raise _Changes
            return term

        try:
            if exchanged is not None:
                return self._of_lane(self.value(sources(step)[0], 32, look), exchanged)
            terms = self.compute(step, look)
        except (_Changes, Unsupported):
            return None
        names = [item.name if isinstance(item, Name) else "" for item in results(step)]
        return terms[names.index(register)]

    def shuffled(self, step: Instruction) -> Term | None:
        """What a shuffle gives, if every lane finds the kept value of the same lane."""
        name = results(step)[0] if self._lane(step) is not None else None
        return self._constant(name.name) if isinstance(name, Name) else None

    def _lane(self, step: Instruction) -> int | None:
        """The lane whose value a shuffle gives to the whole warp; None of another instruction."""
        if step.opcode != "shfl.sync.idx.b32" or not self.thread.extents.warps_in_a_row:
            return None
        numbers = [immediate(item) for item in step.operands[2:]]
        whole = numbers[1:] == [31, -1] or numbers[1:] == [31, 0xFFFFFFFF]
        lane = numbers[0] if whole and isinstance(step.operands[0], Name) else None
        return lane if lane is not None and 0 <= lane <= 31 else None

    def _of_lane(self, term: Term | None, lane: int) -> Term | None:
        if term is None:
            return None
        thread = self.thread.special("%tid.x")
        return z3.substitute(term, (thread, (thread & ~number(31, 32)) | lane))


class _Changes(Exception):
    """A register that does not keep its value."""
