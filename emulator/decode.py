"""Turns the statements of an entry into the engine's program: registers, constants, handlers, branch targets."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from tileproof.emulator import _engine, registry
from tileproof.emulator.cfg import immediate_post_dominators
from tileproof.emulator.errors import PtxError, UnsupportedInstruction
from tileproof.emulator.ptx import (
    Address,
    Declaration,
    Entry,
    Immediate,
    Instruction,
    Label,
    Name,
    Operand,
    PtxModule,
    Scope,
    Sink,
    Vector,
    parse_body,
)

NONE = -(2**31)
PARAM_WINDOW = 0x720000000000
LOCAL_WINDOW = 0x710000000000
SHARED_WINDOW = 0x700000000000
SHARED_RESERVED = 0x400

PACKED = np.dtype(
    [
        ("imm", "<i8"), ("handler", "<i4"), ("pred", "<i4"), ("pred_neg", "<i4"), ("o", "<i4", 8), ("m", "<i4", 8),
        ("vec", "<i4"), ("nvec", "<i4"), ("target", "<i4"), ("rpc", "<i4"), ("line", "<i4"), ("source", "<i4"),
        ("name", "<i4"), ("pad", "<i4", 2),
    ]
)  # fmt: skip

# Order of `enum class Special` in engine/program.hpp.
_SPECIALS = (
    "%tid.x %tid.y %tid.z %ntid.x %ntid.y %ntid.z %ctaid.x %ctaid.y %ctaid.z %nctaid.x %nctaid.y %nctaid.z "
    "%cluster_ctaid.x %cluster_ctaid.y %cluster_ctaid.z %cluster_nctaid.x %cluster_nctaid.y %cluster_nctaid.z "
    "%cluster_ctarank %cluster_nctarank %clusterid.x %clusterid.y %clusterid.z %nclusterid.x %nclusterid.y "
    "%nclusterid.z %laneid %warpid %nwarpid %lanemask_eq %lanemask_lt %lanemask_le %lanemask_gt %lanemask_ge "
    "%dynamic_smem_size %total_smem_size shared_base32 shared_base64"
).split()
SPECIALS = {name: index for index, name in enumerate(_SPECIALS)}

TYPE_BYTES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Register:
    """A register's slot: byte offset in the warp's file, bytes a lane (0 for a predicate)."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class Symbol:
    """A variable's address: `space` and offset, or absolute address for global and const."""

    space: str
    address: int


@dataclass
class Decoded:
    """A decoded entry: what the engine runs, and what a launch must provide."""

    entry: Entry
    program: object
    instructions: int
    static_shared: int
    dynamic_align: int
    opcodes: dict[str, int]
    uses_pairs: bool


class Decoder:
    """Decodes one entry. The `isa` modules call its operand helpers and `emit`."""

    def __init__(self, module: PtxModule, entry: Entry, globals_: dict[str, int]) -> None:
        self.module = module
        self.entry = entry
        self.code: list[np.void] = []
        self.rows: list[tuple] = []
        self.vec: list[int] = []
        self.constants = bytearray()
        self._constant_at: dict[tuple[int, int], int] = {}
        self.names: list[str] = []
        self._name_at: dict[str, int] = {}
        self.sources: list[str] = []
        self._source_at: dict[str, int] = {}
        self.specials: dict[str, int] = {}
        self.register_bytes = 0
        self.local_bytes = 0
        self.shared_bytes = 0
        self.dynamic_align = 16
        self.opcodes: dict[str, int] = {}
        self.uses_pairs = False
        self.scopes: list[dict[str, Register | Symbol | list]] = [{}]
        self.label_scopes: list[int] = []
        self.labels: dict[tuple[int, str], int] = {}
        self.scope_parent: dict[int, int] = {}
        self.pending_targets: list[tuple[int, int, str, int]] = []
        self.current: Instruction | None = None
        self.call_parameters: set[str] = set()

        offset = 0
        self.parameter_offsets: dict[str, int] = {}
        for parameter in entry.parameters:
            offset = -(-offset // parameter.align) * parameter.align
            self.parameter_offsets[parameter.name] = offset
            offset += parameter.bytes
        self.parameter_bytes = offset
        for name, at in self.parameter_offsets.items():
            self.scopes[0][name] = Symbol("param", at)
        dynamic = []
        for variable in module.variables.values():
            if variable.space != "shared":
                self.scopes[0][variable.name] = Symbol(variable.space, globals_[variable.name])
            elif variable.bytes:
                self._shared(variable.name, variable.bytes, variable.align)
            else:
                dynamic.append(variable)
        self._dynamic = dynamic

    # --- declarations and scopes ---------------------------------------------------------------------------

    def _shared(self, name: str, size: int, align: int) -> None:
        self.shared_bytes = -(-self.shared_bytes // align) * align
        self.scopes[-1][name] = Symbol("shared", SHARED_RESERVED + self.shared_bytes)
        self.shared_bytes += size

    def _allocate(self, bytes_: int) -> int:
        """A register's slot: 32 lanes, aligned for vector loads; predicates are one 32-bit mask."""
        at = self.register_bytes
        self.register_bytes += max(64, -(-bytes_ * 32 // 64) * 64)
        # tcgen05.ld marks two 64-byte units for every 32-bit register.
        return at

    def declare(self, declaration: Declaration) -> None:
        """Adds the declared names to the innermost scope."""
        scope = self.scopes[-1]
        if declaration.space == "reg":
            size = TYPE_BYTES[declaration.type]
            if declaration.count is None:
                scope[declaration.name] = Register(self._allocate(size), size)
            else:
                stride = max(64, -(-size * 32 // 64) * 64)
                base = self.register_bytes
                self.register_bytes += stride * declaration.count
                scope[declaration.name + "<>"] = [base, stride, declaration.count, size]
        elif declaration.space == "local":
            self.local_bytes = -(-self.local_bytes // declaration.align) * declaration.align
            scope[declaration.name] = Symbol("local", self.local_bytes)
            self.local_bytes += declaration.bytes
        elif declaration.space == "shared":
            self._shared(declaration.name, declaration.bytes, declaration.align)
        else:  # .param of a call: held in registers
            if declaration.bytes > 8:
                raise self._unsupported("a call passes a structure by value")
            self.call_parameters.add(declaration.name)
            scope[declaration.name] = Register(self._allocate(declaration.bytes), declaration.bytes)

    def lookup(self, name: str) -> Register | Symbol | None:
        """The innermost register or symbol of that name."""
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                return found  # type: ignore[return-value]
            stem = name.rstrip("0123456789")
            family = scope.get(stem + "<>") if len(stem) < len(name) else None
            if family:
                base, stride, count, size = family  # type: ignore[misc]
                index = int(name[len(stem) :])
                if index < count:
                    register = Register(base + stride * index, size)
                    scope[name] = register
                    return register
        if name in SPECIALS and name.startswith("%"):
            return Register(self.special(name), 4)
        return None

    def special(self, name: str) -> int:
        """Slot of a special register; the engine fills it when a warp starts."""
        if name not in self.specials:
            self.specials[name] = self._allocate(8 if name.endswith("64") else 4)
        return self.specials[name]

    # --- errors ----------------------------------------------------------------------------------------------

    def _where(self) -> str:
        assert self.current is not None
        place = f"line {self.current.line}, {self.current.opcode}"
        if self.current.source:
            place += f" ({self.current.source})"
        return f"{place}, in {self.entry.name[:80]}"

    def _unsupported(self, why: str) -> UnsupportedInstruction:
        assert self.current is not None
        return UnsupportedInstruction(
            f"the emulator does not execute {self.current.opcode}: {why}",
            where=self._where(),
            expected="an instruction of docs/instructions.md",
            do="`tileproof instructions` lists what is executed; the instruction is refused, never skipped",
        )

    def bad(self, what: str, expected: str = "", found: str = "") -> PtxError:
        """An operand that PTX itself does not allow here."""
        return PtxError(what, where=self._where(), expected=expected, found=found)

    # --- operands --------------------------------------------------------------------------------------------

    def register(self, operand: Operand, bytes_: int | None = None) -> Register:
        """A declared register; `bytes_` 0 asks for a predicate."""
        if not isinstance(operand, Name) or operand.negated or operand.offset:
            raise self.bad("an operand must be a register", "a register", str(operand))
        found = self.lookup(operand.name)
        if not isinstance(found, Register):
            if operand.name.startswith("%") and found is None:
                raise self._unsupported(f"unknown register {operand.name}")
            raise self.bad(f"{operand.name!r} is not a declared register", "a declared register", repr(operand.name))
        if bytes_ is not None and found.bytes != bytes_:
            kinds = {0: "a predicate", 2: "a 16-bit register", 4: "a 32-bit register", 8: "a 64-bit register"}
            raise self.bad(
                f"{operand.name} has the wrong size", kinds.get(bytes_, f"{8 * bytes_} bits"), kinds.get(found.bytes, "")
            )
        return found

    def constant(self, value: int, bytes_: int) -> int:
        """A constant broadcast to 32 lanes of `bytes_` bytes: its (negative) operand offset."""
        value &= (1 << (8 * bytes_)) - 1
        key = (bytes_, value)
        if key not in self._constant_at:
            self._constant_at[key] = ~len(self.constants)
            self.constants += value.to_bytes(bytes_, "little") * 32
            self.constants += bytes(-len(self.constants) % 64)
        return self._constant_at[key]

    def immediate(self, operand: Immediate, type_: str) -> int:
        """The bits of a literal for an operand of PTX type `type_`; a float literal fits float and same-width bit types."""
        if operand.float_bits and type_[0] in "su" or type_[0] == "b" and operand.float_bits not in (0, 8 * TYPE_BYTES[type_]):
            raise self.bad("a literal does not fit its operand", f"a literal of type .{type_}", "a floating-point literal")
        if type_ in ("f32", "f64"):
            value = operand
            if value.float_bits == 0:
                number = float(value.value)
            elif value.float_bits == 32:
                number = struct.unpack("<f", struct.pack("<I", value.value))[0]
                if type_ == "f32":
                    return value.value
            else:
                number = struct.unpack("<d", struct.pack("<Q", value.value))[0]
            if type_ == "f64":
                return struct.unpack("<Q", struct.pack("<d", number))[0]
            with np.errstate(over="ignore"):
                return int(np.float32(number).view(np.uint32))
        return operand.value

    def src(self, operand: Operand, type_: str) -> int:
        """Operand offset of a source of PTX type `type_`: a register or a literal."""
        bytes_ = TYPE_BYTES[type_]
        if isinstance(operand, Immediate):
            return self.constant(self.immediate(operand, type_), bytes_)
        if isinstance(operand, Name) and not operand.offset:
            found = self.lookup(operand.name)
            if isinstance(found, Symbol):
                return self.address_value(operand, bytes_)
        return self.register(operand, bytes_).offset

    def dst(self, operand: Operand, type_: str) -> int:
        """Operand offset of a destination register."""
        return self.register(operand, TYPE_BYTES[type_]).offset

    def dst_any(self, operand: Operand) -> int:
        """Operand offset of a destination register of any size."""
        return self.register(operand).offset

    def predicate(self, operand: Operand) -> tuple[int, int]:
        """Slot and negation of a predicate source."""
        if not isinstance(operand, Name):
            raise self.bad("an operand must be a predicate", "a predicate register", str(operand))
        return self.register(Name(operand.name), 0).offset, int(operand.negated)

    def temporary(self, bytes_: int) -> int:
        """A scratch slot for values computed between two emitted instructions."""
        return self._allocate(bytes_)

    def address_value(self, operand: Name, bytes_: int) -> int:
        """Offset of a slot that holds a symbol's address in its own state space."""
        found = self.lookup(operand.name)
        if not isinstance(found, Symbol):
            raise self.bad("only the address of a variable can be displaced", "a variable", repr(operand.name))
        if found.space == "shared":
            slot = self.temporary(bytes_)
            base = self.special("shared_base64" if bytes_ == 8 else "shared_base32")
            offset = self.constant(found.address + operand.offset, bytes_)
            self.emit(f"add.{8 * bytes_}", [slot, base, offset])
            return slot
        return self.constant(found.address + operand.offset, bytes_)

    def address(self, operand: Operand) -> tuple[int, int, int]:
        """(slot or NONE, displacement, bytes of the address register) of `[base+offset]`."""
        if not isinstance(operand, Address) or operand.coordinates:
            raise self.bad("an operand must be an address", "[register+offset]", str(operand))
        if operand.base is None:
            return NONE, operand.offset, 8
        found = self.lookup(operand.base)
        if isinstance(found, Symbol):
            if found.space == "shared":
                return self.special("shared_base32"), found.address + operand.offset, 4
            return NONE, found.address + operand.offset, 8
        if not isinstance(found, Register) or found.bytes not in (4, 8):
            raise self.bad(f"{operand.base!r} cannot be an address", "a 32- or 64-bit register or a symbol")
        return found.offset, operand.offset, found.bytes

    def address_slot(self, operand: Operand, bytes_: int) -> int:
        """A slot that holds the whole address, displacement included, in `bytes_` bytes."""
        slot, displacement, width = self.address(operand)
        if slot == NONE:
            return self.constant(displacement, bytes_)
        if width != bytes_:
            if width == 8 and bytes_ == 4:  # a generic or 64-bit shared address: its low half is the shared address
                narrow = self.temporary(4)
                self.emit("cvt.u32.u64", [narrow, slot], m=[4, 8])
                slot = narrow
            else:
                wide = self.temporary(8)
                self.emit("cvt.u64.u32", [wide, slot], m=[8, 4])
                slot = wide
        if displacement:
            out = self.temporary(bytes_)
            self.emit(f"add.{8 * bytes_}", [out, slot, self.constant(displacement, bytes_)])
            return out
        return slot

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of `{a, b}`, or the operand itself as the only part."""
        return operand.parts if isinstance(operand, Vector) else (operand,)

    # --- emission --------------------------------------------------------------------------------------------

    def emit(
        self,
        handler: str,
        o: list[int] | tuple[int, ...] = (),
        *,
        m: list[int] | tuple[int, ...] = (),
        vec: list[int] | tuple[int, ...] = (),
        imm: int = 0,
        label: str | None = None,
    ) -> None:
        """Appends one engine instruction with the guard and place of the current PTX instruction."""
        ins = self.current
        assert ins is not None
        number = _HANDLERS.get(handler)
        if number is None:
            raise self._unsupported(f"no handler {handler}")
        pred, negated = -1, 0
        if ins.guard:
            pred, negated = self.predicate(Name(ins.guard))[0], int(ins.guard_negated)
        if ins.opcode not in self._name_at:
            self._name_at[ins.opcode] = len(self.names)
            self.names.append(ins.opcode)
        source = -1
        if ins.source:
            if ins.source not in self._source_at:
                self._source_at[ins.source] = len(self.sources)
                self.sources.append(ins.source)
            source = self._source_at[ins.source]
        operands = (*o, *(NONE,) * (8 - len(o)))
        modifiers = (*m, *(0,) * (8 - len(m)))
        first = len(self.vec)
        self.vec.extend(vec)
        if label is not None:
            self.pending_targets.append((len(self.rows), self.label_scopes[-1], label, ins.line))
        signed = (imm + (1 << 63)) % (1 << 64) - (1 << 63)
        self.rows.append(
            (signed, number, pred, negated, operands, modifiers, first, len(vec), -1, -1, ins.line, source,
             self._name_at[ins.opcode], (0, 0))
        )  # fmt: skip

    # --- the walk --------------------------------------------------------------------------------------------

    def run(self) -> Decoded:
        """Decodes the whole body."""
        statements = parse_body(self.module, self.entry)
        for variable in self._dynamic:
            self.dynamic_align = max(self.dynamic_align, variable.align)
        static = self._static_shared(statements)
        base = SHARED_RESERVED + static
        base = -(-base // self.dynamic_align) * self.dynamic_align
        for variable in self._dynamic:
            self.scopes[0][variable.name] = Symbol("shared", base)
        scope_count = 0
        self.label_scopes = [-1]
        for statement in statements:
            if isinstance(statement, Scope):
                if statement.opens:
                    self.scopes.append({})
                    self.scope_parent[scope_count] = self.label_scopes[-1]
                    self.label_scopes.append(scope_count)
                    scope_count += 1
                else:
                    self.scopes.pop()
                    self.label_scopes.pop()
            elif isinstance(statement, Label):
                self.labels[(self.label_scopes[-1], statement.name)] = len(self.rows)
            elif isinstance(statement, Declaration):
                self.current = Instruction(statement.line, "", "", False, f".{statement.space}", ())
                self.declare(statement)
            else:
                self.current = statement
                self._instruction(statement)
        # Falling off the end is a return.
        self.current = Instruction(self.module.line_of(self.entry.body_end), "", "", False, "ret", ())
        self.emit("ret")
        code = np.zeros(len(self.rows), dtype=PACKED)
        for index, row in enumerate(self.rows):
            code[index] = row
        for index, scope, name, line in self.pending_targets:
            code[index]["target"] = self._resolve(scope, name, line)
        self._reconvergence(code)
        program = _engine.Program(
            kernel=self.entry.name,
            code=code.tobytes(),
            vec=np.asarray(self.vec, dtype="<i4").tobytes(),
            constants=bytes(self.constants),
            names=self.names,
            sources=self.sources,
            specials=[(slot, SPECIALS[name]) for name, slot in self.specials.items()],
            register_bytes=self.register_bytes + 128,
            local_bytes=self.local_bytes,
            static_shared_bytes=base - SHARED_RESERVED,
        )
        return Decoded(
            self.entry, program, len(code), base - SHARED_RESERVED, self.dynamic_align, self.opcodes, self.uses_pairs
        )

    def _static_shared(self, statements: list) -> int:
        """Bytes of static shared memory: module-level variables so far plus those declared in the body."""
        total = self.shared_bytes
        for statement in statements:
            if isinstance(statement, Declaration) and statement.space == "shared":
                total = -(-total // statement.align) * statement.align + statement.bytes
        return total

    def _instruction(self, ins: Instruction) -> None:
        found = registry.find(ins.opcode)
        if found is None:
            raise self._unsupported("it is not in the instruction table")
        row, rest = found
        if row.decode is None:
            raise self._unsupported(row.note)
        self.opcodes[ins.opcode] = self.opcodes.get(ins.opcode, 0) + 1
        modifiers = registry.Modifiers(rest)
        try:
            row.decode(self, ins, modifiers)
            modifiers.done()
        except registry.Unknown as why:
            raise self._unsupported(str(why)) from None
        except (IndexError, ValueError) as error:
            raise self.bad(
                f"the operands of {ins.opcode} do not fit it", found=f"{len(ins.operands)} operands ({error})"
            ) from None

    def _resolve(self, scope: int, name: str, line: int) -> int:
        at = scope
        while True:
            if (at, name) in self.labels:
                return self.labels[(at, name)]
            if at == -1:
                raise PtxError(
                    f"the label {name!r} is not defined",
                    where=f"line {line}, in {self.entry.name[:80]}",
                    expected="a label of this block or an enclosing one",
                    found=repr(name),
                )
            at = self.scope_parent[at]

    def _reconvergence(self, code: np.ndarray) -> None:
        """Sets `rpc` of every conditional branch to its immediate post-dominator."""
        branch, leave = _HANDLERS["bra"], _HANDLERS["ret"]
        trap = _HANDLERS["trap"]
        kinds = []
        handlers, predicates, targets = code["handler"].tolist(), code["pred"].tolist(), code["target"].tolist()
        for handler, predicate, target in zip(handlers, predicates, targets, strict=True):
            if handler == branch:
                kinds.append(("branch", target, predicate >= 0))
            elif handler in (leave, trap) and predicate < 0:
                kinds.append(("exit", -1, False))
            else:
                kinds.append(("next", -1, False))
        for index, meet in immediate_post_dominators(kinds).items():
            code[index]["rpc"] = meet


_HANDLERS: dict[str, int] = _engine.handlers()
