"""One PTX entry as basic blocks: registers by unique names, successors, what each block reads and writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from tileproof.emulator.ptx import (
    Address,
    BranchTargets,
    Declaration,
    Immediate,
    Instruction,
    Label,
    Name,
    Operand,
    Pair,
    Scope,
    Statement,
    Vector,
    parse_body,
    parse_module,
)
from tileproof.emulator.ptx.syntax import TYPE_BYTES

END, TRAP = -1, -2  # targets that are no block
_LEAVES = re.compile(r"(bra|brx|ret|exit|trap)\b")


class Unsupported(Exception):
    """A form that the proof does not cover."""


@dataclass(frozen=True)
class CodeBlock:
    """Instructions, then a branch to `targets` if `leaves` is taken, else to `behind` (None: no such way)."""

    steps: tuple[Instruction, ...]
    leaves: Instruction | None
    targets: tuple[int, ...]
    behind: int | None

    @property
    def successors(self) -> tuple[int, ...]:
        """Blocks that may follow."""
        every = (*self.targets, *(() if self.behind is None else (self.behind,)))
        return tuple(dict.fromkeys(block for block in every if block >= 0))


@dataclass(frozen=True)
class EntryCode:
    """The blocks of an entry. `widths`: bits of its registers, 0 of a predicate; `aligned`: of its symbols;
    `directives`: `.reqntid` and others; `declared`: parameters and variables.
    """

    blocks: tuple[CodeBlock, ...]
    widths: Mapping[str, int]
    aligned: Mapping[str, int]
    directives: Mapping[str, tuple[int, ...]]
    declared: tuple[object, ...]

    @cached_property
    def definitions(self) -> Mapping[str, list[tuple[int, int]]]:
        """CodeBlock and position of each instruction that writes a register."""
        found: dict[str, list[tuple[int, int]]] = {}
        for number, block in enumerate(self.blocks):
            for place, step in enumerate(block.steps):
                for name in written(step):
                    found.setdefault(name, []).append((number, place))
        return found

    def live(self, number: int, behind: set[str]) -> frozenset[str]:
        """The registers that are read from a block on, where those are read after it."""
        asked, made = self._summaries[number]
        return asked | (behind - made)

    @cached_property
    def _summaries(self) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Of each block the registers that it reads before it writes them, and those that it writes."""
        return [self._summary(block) for block in self.blocks]

    def _summary(self, block: CodeBlock) -> tuple[frozenset[str], frozenset[str]]:
        asked, made = set[str](), set[str]()
        for step in (*block.steps, *(() if block.leaves is None else (block.leaves,))):
            asked.update(name for name in read(step) if name not in made)
            if not step.guard:
                made.update(written(step))
        return frozenset(asked & self.widths.keys()), frozenset(made)


# ---- what instructions read and write

# The first operand is the result of these, unless it is an address.
PURE = frozenset(
    re.findall(
        r"\w+",
        "abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns "
        "getctarank isspacep lg2 lop3 mad mad24 mapa max min mov mul mul24 neg not or popc prmt rcp rem "
        "rsqrt sad selp set setp shf shl shr sin slct sqrt sub szext tanh testp xor",
    )
)
_RESULT = re.compile(
    r"(ld|ldu|atom|shfl|vote|match|redux|activemask|elect|mbarrier\.(arrive|test_wait|try_wait|pending_count)\w*|"
    r"tcgen05\.ld(?!.*\.red\b)|ldmatrix|movmatrix|mma|wmma\.(load|mma)|wgmma\.mma_async|createpolicy|"
    r"clusterlaunchcontrol\.query_cancel|multimem\.ld_reduce|(bar|barrier)(\.\w+)*\.red|addc|subc|madc)\b"
)
_NONE = re.compile(
    r"(st|red|(bar|barrier)(?!.*\.red\b)|fence|membar|cp|prefetchu?|griddepcontrol|setmaxnreg|nanosleep|discard|"
    r"applypriority|stmatrix|tensormap|tcgen05\.(?!ld)|wgmma\.(fence|commit_group|wait_group)|"
    r"mbarrier\.(init|inval|expect_tx|complete_tx)|clusterlaunchcontrol\.try_cancel|wmma\.store|multimem\.(st|red))\b"
)
# Results that arrive later: a register holds them behind the wait alone.
LATE = re.compile(r"(tcgen05\.ld|wgmma\.mma_async)\b")
WAITS = re.compile(r"(tcgen05\.wait|wgmma\.wait_group)\b")
_HINTS = ("prefetch", "prefetchu")  # they change nothing (PTX ISA 9.7.9.15)
_VOLATILE = re.compile(r"%(clock|globaltimer|warpid|smid|pm\d)")


def pure(step: Instruction) -> bool:
    """Whether the result is a function of the operands, and there is no other effect."""
    head, *rest = step.opcode.split(".")
    if head in _HINTS:
        return True
    if head == "ld":
        return rest[:1] == ["param"]
    if head not in PURE or "cc" in rest:
        return False
    return not any(isinstance(item, Name) and _VOLATILE.match(item.name) for item in step.operands[1:])


def _split(step: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The operands that are written, and those that are read."""
    if step.opcode.split(".")[0] in PURE or step.opcode.startswith("ld.param"):
        return step.operands[:1], step.operands[1:]
    if _RESULT.match(step.opcode):
        made = step.operands[:1] if not isinstance(step.operands[0], Address) else ()
        adds = step.opcode.startswith("wgmma.mma_async")
        return made, step.operands if adds else step.operands[len(made) :]
    if _NONE.match(step.opcode) or _LEAVES.match(step.opcode):
        return (), step.operands
    raise Unsupported(f"{step.opcode}, line {step.line}")


def sources(step: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction reads, but for a cache policy, which is a hint (PTX ISA 9.7.9.2)."""
    asked = _split(step)[1]
    return asked[:-1] if ".L2::cache_hint" in step.opcode else asked


def results(step: Instruction) -> tuple[Operand, ...]:
    """The registers and sinks that an instruction writes, in order."""
    return tuple(_parts(_split(step)[0]))


def written(step: Instruction) -> tuple[str, ...]:
    """The names of the registers that it writes."""
    return tuple(item.name for item in results(step) if isinstance(item, Name))


def read(step: Instruction) -> Iterator[str]:
    """The names that it reads, its guard among them."""
    if step.guard:
        yield step.guard
    yield from (item.name for item in _parts(sources(step)) if isinstance(item, Name))


def _parts(operands: tuple[Operand, ...]) -> Iterator[Operand]:
    for item in operands:
        if isinstance(item, Vector):
            yield from _parts(item.parts)
        elif isinstance(item, Pair):
            yield from _parts((item.first, item.second))
        elif isinstance(item, Address):
            if item.base is not None:
                yield Name(item.base)
            yield from _parts(item.coordinates)
        else:
            yield item


# ---- from the text

_Path = tuple[int, ...]  # the scopes that a place is in


@dataclass
class _Reader:
    """Reads a body: names and labels are those of the scope that they stand in."""

    widths: dict[str, int] = field(default_factory=dict)
    aligned: dict[str, int] = field(default_factory=dict)
    local: list[tuple[str, str, int, int]] = field(default_factory=list)
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    path: _Path = ()
    opened: int = 0
    times: dict[str, int] = field(default_factory=dict)
    blocks: list[tuple[list[Instruction], Instruction | None, _Path]] = field(
        default_factory=lambda: [([], None, ())]
    )
    labels: dict[tuple[_Path, str], int] = field(default_factory=dict)
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, item: Statement) -> None:
        """The next statement."""
        if isinstance(item, Scope):
            self._scope(item.opens)
        elif isinstance(item, Declaration):
            self._declare(item)
        elif isinstance(item, Label):
            if self.blocks[-1][0] or self.blocks[-1][1] is not None:
                self.blocks.append(([], None, ()))
            self.labels[self.path, item.name] = len(self.blocks) - 1
        elif isinstance(item, BranchTargets):
            self.lists[item.name] = item.labels
        else:
            self._instruction(item)

    def _instruction(self, item: Instruction) -> None:
        if self.blocks[-1][1] is not None:
            self.blocks.append(([], None, ()))
        operands = tuple(map(self._operand, item.operands))
        made = replace(item, operands=operands, guard=self._name(item.guard))
        if _LEAVES.match(item.opcode):
            self.blocks[-1] = (self.blocks[-1][0], made, self.path)
        else:
            written(made)  # Unsupported where it is not known what it writes
            self.blocks[-1][0].append(made)

    def _scope(self, opens: bool) -> None:
        if opens:
            self.opened += 1
            self.scopes.append({})
            self.path = (*self.path, self.opened)
        else:
            self.scopes.pop()
            self.path = self.path[:-1]

    def _declare(self, item: Declaration) -> None:
        if item.elements != 1:
            raise Unsupported(f"a vector of registers, line {item.line}")
        names = [item.name] if item.count is None else [f"{item.name}{n}" for n in range(item.count)]
        for name in names:
            number = self.times[name] = self.times.get(name, 0) + 1
            unique = name if number == 1 else f"{name}'{number}"
            self.scopes[-1][name] = unique
            if item.space == "reg":
                self.widths[unique] = 0 if item.type == "pred" else 8 * TYPE_BYTES[item.type]
            else:
                self.aligned[unique] = item.align
                self.local.append((unique, item.space, item.align, item.bytes))

    def _name(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)

    def _operand(self, item: Operand) -> Operand:
        if isinstance(item, Name):
            return replace(item, name=self._name(item.name))
        if isinstance(item, Vector):
            return Vector(tuple(map(self._operand, item.parts)))
        if isinstance(item, Pair):
            return Pair(self._operand(item.first), self._operand(item.second))
        if isinstance(item, Address):
            base = None if item.base is None else self._name(item.base)
            return Address(base, item.offset, tuple(map(self._operand, item.coordinates)))
        return item

    def finished(self) -> tuple[CodeBlock, ...]:
        """The blocks, their branches resolved."""
        found = []
        for number, (steps, leaves, path) in enumerate(self.blocks):
            behind: int | None = number + 1 if number + 1 < len(self.blocks) else END
            if leaves is not None and not leaves.guard:
                behind = None
            targets = () if leaves is None else self._targets(leaves, path)
            found.append(CodeBlock(tuple(steps), leaves, targets, behind))
        return tuple(found)

    def _targets(self, leaves: Instruction, path: _Path) -> tuple[int, ...]:
        head = leaves.opcode.split(".")[0]
        names = [item.name for item in leaves.operands if isinstance(item, Name)]
        if head == "bra":
            return (self._block(path, names[0]),)
        if head == "brx":
            return tuple(self._block(path, label) for label in self.lists[names[-1]])
        return (TRAP if head == "trap" else END,)

    def _block(self, path: _Path, label: str) -> int:
        for n in range(len(path), -1, -1):
            if (path[:n], label) in self.labels:
                return self.labels[path[:n], label]
        raise Unsupported(f"the label {label}")


@lru_cache(maxsize=2)  # every mutant is compared with one original
def entry_of(text: str, name: str) -> EntryCode:
    """An entry of a PTX text; Unsupported for calls and others."""
    module = parse_module(text)
    entry = module.entries[name]
    reader = _Reader()
    reader.aligned.update({item.name: item.align for item in module.variables.values()})
    for statement in parse_body(module, entry):
        reader.read(statement)
    variables = [
        (item.name, item.space, item.align, item.bytes, bytes(item.data or b""), item.addresses)
        for item in module.variables.values()
    ]
    directives = tuple(sorted(entry.directives.items()))
    declared = (module.target, entry.parameters, directives, tuple(variables), tuple(reader.local))
    return EntryCode(reader.finished(), reader.widths, reader.aligned, entry.directives, declared)


def immediate(item: Operand) -> int | None:
    """The value of an integer literal."""
    return item.value if isinstance(item, Immediate) and not item.float_bits else None
