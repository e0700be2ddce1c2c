"""The contents of a PTX module, and whether the emulator can execute it, without running anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tileproof.emulator.decode import Decoder
from tileproof.emulator.errors import PtxError, UnsupportedInstruction
from tileproof.emulator.ptx import Address, Entry, Immediate, Instruction, Name, Operand, PtxModule
from tileproof.emulator.ptx.syntax import TYPE_BYTES
from tileproof.spec.machine.types import JsonObject

_BARRIERS = re.compile(r"(bar|barrier)(\.cta)?\.(sync|arrive|red)\b")
_GROUP = re.compile(r"\.cta_group::([12])\b")
LINES = 20  # PTX lines of a form that the text lists


@dataclass(frozen=True)
class ParameterInfo:
    """A kernel parameter. `offset`, `bytes`, `align`: bytes in the parameter block.

    `read`: byte ranges [start, stop) of the parameter that `ld.param` reads. `address_taken`: its address is
    used as a value (a tensor map passed by value, an indexed struct), so that any byte may be read.
    """

    name: str
    offset: int
    bytes: int
    align: int
    read: tuple[tuple[int, int], ...]
    address_taken: bool


@dataclass(frozen=True)
class NotExecuted:
    """An instruction form that is not executed or not valid for the target: reason, count and PTX lines."""

    form: str
    why: str
    count: int
    lines: tuple[int, ...]


@dataclass(frozen=True)
class EntryInfo:
    """A kernel. `static_shared`: bytes. `dynamic_shared`: it uses dynamic shared memory. `named_barriers`:
    barrier numbers given as literals, or in registers that only receive literals. `computed_barriers`: it
    also uses computed barrier numbers. `problems`: other reasons why it cannot run. `directives`: as written
    (`.reqntid`, `.maxntid`, `.reqnctapercluster`, ...).
    """

    name: str
    parameters: tuple[ParameterInfo, ...]
    directives: dict[str, tuple[int, ...]]
    instructions: int
    static_shared: int
    dynamic_shared: bool
    named_barriers: tuple[int, ...]
    computed_barriers: bool
    cta_groups: tuple[int, ...]
    not_executed: tuple[NotExecuted, ...]
    problems: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether the emulator executes every instruction."""
        return not self.not_executed and not self.problems


@dataclass(frozen=True)
class ModuleInfo:
    """A module: `.version`, `.target` and its kernels."""

    version: str
    target: str
    entries: tuple[EntryInfo, ...]

    @property
    def runs(self) -> bool:
        """Whether every kernel can be executed."""
        return all(entry.runs for entry in self.entries)

    def as_dict(self) -> JsonObject:
        """Return the module as plain data, for `--json`."""
        raw = asdict(self)
        for entry, data in zip(self.entries, raw["entries"], strict=True):
            data["runs"] = entry.runs
        return {**raw, "runs": self.runs}

    def lines(self) -> list[str]:
        """Return the module as lines of text."""
        out = [f"PTX {self.version} for {self.target}, {len(self.entries)} kernel(s)"]
        for entry in self.entries:
            out += ["", *_entry_lines(entry)]
        return out


def _entry_lines(entry: EntryInfo) -> list[str]:
    directives = ", ".join(
        f".{name} {' '.join(map(str, n))}".rstrip() for name, n in entry.directives.items()
    )
    dynamic = ", and dynamic shared memory" if entry.dynamic_shared else ""
    numbers = [*map(str, entry.named_barriers), *(["computed numbers"] if entry.computed_barriers else [])]
    barriers = ", ".join(numbers) or "none"
    groups = " and ".join(f"cta_group::{g}" for g in entry.cta_groups) or "no tcgen05 CTA group"
    out = [entry.name]
    out += [f"  directives:     {directives}"] if directives else []
    out += [
        f"  instructions:   {entry.instructions}",
        f"  shared memory:  {entry.static_shared} bytes static{dynamic}",
        f"  named barriers: {barriers}",
        f"  tensor core:    {groups}",
        "  parameters:" + ("" if entry.parameters else " none"),
    ]
    for p in entry.parameters:
        read = ", ".join(f"{a}..{b - 1}" for a, b in p.read) or "nothing"
        taken = "; its address is taken" if p.address_taken else ""
        out.append(f"    {p.offset:>5}  {p.name}: {p.bytes} bytes, align {p.align}; reads {read}{taken}")
    if entry.runs:
        return [*out, "  every instruction is executed"]
    if entry.not_executed:
        total = sum(form.count for form in entry.not_executed)
        out.append(f"  not executed: {total} instruction(s) of {len(entry.not_executed)} form(s)")
    for form in entry.not_executed:
        more = f" and {len(form.lines) - LINES} more" if len(form.lines) > LINES else ""
        out.append(f"    {form.form} ({form.count}): {form.why}")
        word = "line" if len(form.lines) == 1 else "lines"
        out.append(f"      PTX {word} {', '.join(map(str, form.lines[:LINES]))}{more}")
    return out + [f"  problem: {line}" for problem in entry.problems for line in problem.splitlines()]


class _Collector(Decoder):
    """A decoder that continues after an error, and records parameters, barriers and CTA groups."""

    def __init__(self, module: PtxModule, entry: Entry, globals_: dict[str, int]) -> None:
        super().__init__(module, entry, globals_)
        self.refused: dict[tuple[str, str], list[int]] = {}
        self.read: dict[str, set[tuple[int, int]]] = {}
        self.taken: set[str] = set()
        self.barriers: set[int] = set()
        self.barrier_registers: set[str] = set()
        self.computed = False
        self.moved: dict[
            str, set[int | None]
        ] = {}  # register -> the literals moved to it, None for any other value
        self.groups: set[int] = set()
        self.holds: dict[str, str] = {}  # register -> the parameter whose address it holds
        self.seen = 0

    def _instruction(self, ins: Instruction) -> None:
        self.seen += 1
        self._note(ins)
        try:
            super()._instruction(ins)
        except (UnsupportedInstruction, PtxError) as error:
            self.refused.setdefault((ins.opcode, error.what), []).append(ins.line)

    def _note(self, ins: Instruction) -> None:
        if _BARRIERS.match(ins.opcode) and ins.operands:
            number = ins.operands[int(".red." in ins.opcode)]
            if isinstance(number, Immediate):
                self.barriers.add(number.value)
            elif isinstance(number, Name):
                self.barrier_registers.add(number.name)
        self.groups |= {int(g) for g in _GROUP.findall(ins.opcode)}
        words = ins.opcode.split(".")
        match ins.operands:
            case (Name(name=target), Immediate(value=literal)) if words[0] == "mov":
                self.moved.setdefault(target, set()).add(literal)
            case (Name(name=target), *_) if not _BARRIERS.match(ins.opcode):
                self.moved.setdefault(target, set()).add(None)
        if words[0] == "mov" and len(ins.operands) == 2:
            register, value = ins.operands
            match register, value:
                case Name(name=holder), Name(name=parameter, offset=0) if parameter in self.parameter_offsets:
                    self.holds[holder] = (
                        parameter  # a later instruction reads through it or takes its address
                    )
                    return
        for operand in ins.operands:
            self._parameter(operand, words)

    def _parameter(self, operand: Operand, words: Sequence[str]) -> None:
        name = operand.base if isinstance(operand, Address) else getattr(operand, "name", None)
        name = self.holds.get(str(name), name)
        if name not in self.parameter_offsets:
            return
        if isinstance(operand, Address) and words[:2] == ["ld", "param"]:
            vector = next((int(w[1:]) for w in words if re.fullmatch(r"v\d", w)), 1)
            size = TYPE_BYTES.get(words[-1], 8) * vector
            self.read.setdefault(str(name), set()).add((operand.offset, operand.offset + size))
        elif isinstance(operand, Address | Name):
            self.taken.add(str(name))

    def resolve_barriers(self) -> None:
        """Add the barrier numbers in registers that only receive literals."""
        for register in self.barrier_registers:
            values = self.moved.get(register, {None})
            self.barriers |= {value for value in values if value is not None}
            self.computed |= None in values


def _merged(ranges: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((start, stop))
    return tuple(out)


def inspect_entry(module: PtxModule, entry: Entry, globals_: dict[str, int]) -> EntryInfo:
    """Return the contents of a kernel. `globals_`: addresses of the module's variables.

    Raises PtxError if the body cannot be parsed.
    """
    found = _Collector(module, entry, globals_)
    problems = []
    try:
        found.run()
    except PtxError as error:
        problems.append(str(error))
    found.resolve_barriers()
    return EntryInfo(
        name=entry.name,
        parameters=tuple(
            ParameterInfo(
                p.name,
                found.parameter_offsets[p.name],
                p.bytes,
                p.align,
                _merged(found.read.get(p.name, set())),
                p.name in found.taken,
            )
            for p in entry.parameters
        ),
        directives=dict(entry.directives),
        instructions=found.seen,
        static_shared=found.shared_bytes,
        dynamic_shared=any(not size for _, size in found.shared_symbols.values()),
        named_barriers=tuple(sorted(found.barriers)),
        computed_barriers=found.computed,
        cta_groups=tuple(sorted(found.groups)),
        not_executed=tuple(
            NotExecuted(form, why, len(lines), tuple(lines)) for (form, why), lines in found.refused.items()
        ),
        problems=tuple(problems),
    )
