"""Registers, symbols and constants of an entry: the offset of each operand in the register file."""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod

import numpy as np
from tileproof.emulator.errors import PtxError, UnsupportedInstruction
from tileproof.emulator.program import (
    CLOCKS,
    NONE,
    SHARED_SPAN,
    SPECIALS,
    TYPE_BYTES,
    WIDE_SPECIALS,
    WORKSPACE,
    Register,
    Symbol,
)
from tileproof.emulator.ptx import (
    Address,
    Declaration,
    Entry,
    Immediate,
    Instruction,
    Name,
    Operand,
    PtxModule,
    Vector,
)
from tileproof.emulator.register_slots import UNIT, units
from tileproof.emulator.spelling import Target
from tileproof.spec.machine.limits import RESERVED_SHARED_BYTES

# A warp's register file as this engine holds it; local memory of a thread (CUDA programming guide, technical
# specifications).
MAX_REGISTER_BYTES = 1 << 26
MAX_LOCAL_BYTES = 512 * 1024


class Operands(ABC):
    """The operand side of a decoder: declarations, scopes, operand offsets."""

    @abstractmethod
    def emit(
        self,
        handler: str,
        *,
        vec: list[int] | tuple[int, ...] = (),
        imm: int = 0,
        label: str | None = None,
        written: tuple[int, int] | None = None,
        **slots: int,
    ) -> None:
        """Append an engine instruction (`Decoder.emit`); an address may need arithmetic."""

    def __init__(self, module: PtxModule, entry: Entry, globals_: dict[str, int], workspace: int = 0) -> None:
        self.module = module
        self.entry = entry
        self.workspace = workspace  # of a cooperative grid
        self.rows: list[tuple[object, ...]] = []
        self.vec: list[int] = []
        self.constants = bytearray()
        self._constant_at: dict[tuple[int, int], int] = {}
        self.names: list[str] = []
        self._name_at: dict[str, int] = {}
        self.sources: list[str] = []
        self._source_at: dict[str, int] = {}
        self.specials: dict[str, int] = {}
        self.register_bytes = 0
        self.register_widths = bytearray()  # of each 64 bytes of the register file: bytes of a lane
        self.local_bytes = 0
        self.shared_bytes = 0
        self.shared_symbols: dict[str, tuple[int, int]] = {}
        self.dynamic_align = 16
        self.opcodes: dict[str, int] = {}
        self.uses_pairs = False
        self._carry = -1
        self.inlined: list[str] = []  # functions that are being inlined, outermost first
        self._label_scopes = 0
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self._clock_read: tuple[tuple[int, str], Register] = ((0, ""), Register(0, 0))
        self.scopes: list[dict[str, Register | Symbol | list[int]]] = [{}]
        self.label_scopes: list[int] = []
        self.labels: dict[tuple[int, str], int] = {}
        self.scope_parent: dict[int, int] = {}
        self.pending_targets: list[tuple[int, int, str, int]] = []
        self.current: Instruction | None = None
        self.call_parameters: set[str] = set()
        self.target: Target | None = None
        self.vectors: dict[str, Vector] = {}

        offset = 0
        self.parameter_offsets: dict[str, int] = {}
        for parameter in entry.parameters:
            offset = -(-offset // parameter.align) * parameter.align
            self.parameter_offsets[parameter.name] = offset
            offset += parameter.bytes
        for name, at in self.parameter_offsets.items():
            self.scopes[0][name] = Symbol("param", at)
        for name, address in module.function_addresses.items():
            self.scopes[0][name] = Symbol("code", address)
        dynamic = []
        for variable in module.variables.values():
            if variable.space != "shared":
                self.scopes[0][variable.name] = Symbol(variable.space, globals_[variable.name])
            elif variable.bytes:
                self._shared(variable.name, variable.bytes, variable.align)
            else:
                dynamic.append(variable)
        self._dynamic = dynamic

    # --- declarations and scopes

    def _shared(self, name: str, size: int, align: int) -> None:
        self.shared_bytes = -(-self.shared_bytes // align) * align
        self.scopes[-1][name] = Symbol("shared", RESERVED_SHARED_BYTES + self.shared_bytes)
        self.shared_symbols.setdefault(name, (RESERVED_SHARED_BYTES + self.shared_bytes, size))
        self.shared_bytes += size

    def _allocate(self, bytes_: int) -> int:
        """Allocate a register slot: 32 lanes, aligned for vector loads. A predicate is a 32-bit mask."""
        at = self.register_bytes
        self._extend(bytes_, 1)
        # tcgen05.ld marks two 64-byte units for every 32-bit register.
        return at

    def _extend(self, bytes_: int, count: int) -> int:
        """Add `count` registers to the register file; return the bytes of each."""
        stride = UNIT * units(bytes_)
        self.register_bytes += stride * count
        if self.register_bytes <= MAX_REGISTER_BYTES:  # else `declare` raises
            self.register_widths += bytes([bytes_]) * (units(bytes_) * count)
        return stride

    def declare(self, declaration: Declaration) -> None:
        """Add the declared names to the innermost scope."""
        scope = self.scopes[-1]
        if declaration.elements > 1:
            self._declare_vector(declaration)
        elif declaration.space == "reg":
            size = TYPE_BYTES[declaration.type]
            if declaration.count is None:
                scope[declaration.name] = Register(self._allocate(size), size)
            else:
                base = self.register_bytes
                stride = self._extend(size, declaration.count)
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
        if self.register_bytes > MAX_REGISTER_BYTES:
            raise self.bad("too many registers are declared", f"at most {MAX_REGISTER_BYTES // 128} a thread")
        if self.local_bytes > MAX_LOCAL_BYTES:
            raise self.bad(
                "too much local memory is declared",
                f"at most {MAX_LOCAL_BYTES} bytes per thread",
                str(self.local_bytes),
            )

    def _declare_vector(self, declaration: Declaration) -> None:
        """`.reg .v4 .f32 v` is four registers, v.x to v.w, also v.r to v.a (PTX ISA 5.4.2)."""
        size = TYPE_BYTES[declaration.type]
        if (declaration.count or 0) * size * 128 > MAX_REGISTER_BYTES:
            raise self.bad("too many registers are declared", f"at most {MAX_REGISTER_BYTES // 128} a thread")
        stem = declaration.name
        names = [stem] if declaration.count is None else [f"{stem}{k}" for k in range(declaration.count)]
        for name in names:
            parts = [f"{name}.{part}" for part in "xyzw"[: declaration.elements]]
            for part, other in zip(parts, "rgba", strict=False):
                register = Register(self._allocate(size), size)
                self.scopes[-1][part] = self.scopes[-1][f"{name}.{other}"] = register
            self.vectors[name] = Vector(tuple(Name(part) for part in parts))

    def expanded(self, operand: Operand) -> Operand:
        """Replace the name of a vector register by the list of its registers; keep other operands."""
        if isinstance(operand, Name) and not operand.offset:
            return self.vectors.get(operand.name, operand)
        return operand

    def lookup(self, name: str) -> Register | Symbol | None:
        """Return the innermost register or symbol with a name, None when it is not declared."""
        stem = ""
        for scope in reversed(self.scopes):
            if not scope:  # of a block without declarations, as most inline assembly is
                continue
            found = scope.get(name)
            if found is not None:
                return found  # type: ignore[return-value]
            stem = stem or name.rstrip("0123456789")
            family = scope.get(stem + "<>") if len(stem) < len(name) else None
            if family:
                base, stride, count, size = family  # type: ignore[misc]
                index = int(name[len(stem) :])
                if index < count:
                    register = Register(base + stride * index, size)
                    scope[name] = register
                    return register
        if name in SPECIALS and name.startswith("%"):
            return Register(self.special(name), 8 if name in WIDE_SPECIALS else 4)
        if name in CLOCKS:
            return self._clock(name)
        if name in WORKSPACE:
            half = self.workspace >> (32 * WORKSPACE.index(name)) & 0xFFFFFFFF
            return Register(self.constant(half, 4), 4)
        return None

    def _clock(self, name: str) -> Register:
        """Return a register with a clock's value, read by an extra instruction before the current
        instruction.
        """
        assert self.current is not None
        key = (id(self.current), name)
        if self._clock_read[0] != key:
            bytes_, high = CLOCKS[name]
            register = Register(self.temporary(bytes_), bytes_)
            self._clock_read = (key, register)
            self.emit("clock", dst=register.offset, bytes=bytes_, high=high)
        return self._clock_read[1]

    def special(self, name: str) -> int:
        """Return the slot of a special register; the engine fills it when a warp starts."""
        if name not in self.specials:
            self.specials[name] = self._allocate(8 if name in WIDE_SPECIALS else 4)
        return self.specials[name]

    # --- errors

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
            do="see `tileproof instructions` for the supported instructions; the emulator never skips any",
        )

    def bad(self, what: str, expected: str = "", found: str = "") -> PtxError:
        """Return the error for an operand that PTX does not allow here."""
        return PtxError(what, where=self._where(), expected=expected, found=found)

    # --- operands

    def register(self, operand: Operand, bytes_: int | None = None) -> Register:
        """Return a declared register of `bytes_` bytes; 0 for a predicate, None for any size."""
        if not isinstance(operand, Name) or operand.negated or operand.offset:
            raise self.bad("an operand must be a register", "a register", str(operand))
        found = self.lookup(operand.name)
        if not isinstance(found, Register):
            if re.match(r"%envreg\d+$", operand.name):
                raise self._unsupported(f"{operand.name} has a value that only the driver defines")
            if operand.name.startswith("%") and found is None:
                raise self._unsupported(f"unknown register {operand.name}")
            raise self.bad(
                f"{operand.name!r} is not a declared register", "a declared register", repr(operand.name)
            )
        if bytes_ is not None and found.bytes != bytes_:
            kinds = {0: "a predicate", 2: "a 16-bit register", 4: "a 32-bit register", 8: "a 64-bit register"}
            raise self.bad(
                f"{operand.name} has the wrong size",
                kinds.get(bytes_, f"{8 * bytes_} bits"),
                kinds.get(found.bytes, ""),
            )
        return found

    def constant(self, value: int, bytes_: int) -> int:
        """Return the (negative) operand offset of a constant, broadcast to 32 lanes of `bytes_` bytes."""
        value &= (1 << (8 * bytes_)) - 1
        key = (bytes_, value)
        if key not in self._constant_at:
            self._constant_at[key] = ~len(self.constants)
            self.constants += value.to_bytes(bytes_, "little") * 32
            self.constants += bytes(-len(self.constants) % 64)
        return self._constant_at[key]

    def immediate(self, operand: Immediate, type_: str) -> int:
        """Return the bits of a literal for an operand of PTX type `type_`. A float literal is valid for float
        types and for bit types of its width.
        """
        if (operand.float_bits and type_[0] in "su") or (
            type_[0] == "b" and operand.float_bits not in (0, 8 * TYPE_BYTES[type_])
        ):
            raise self.bad(
                "a literal does not fit its operand",
                f"a literal of type .{type_}",
                "a floating-point literal",
            )
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
        """Return the operand offset of a source of PTX type `type_`: a register or a literal."""
        bytes_ = TYPE_BYTES[type_]
        if isinstance(operand, Immediate):
            return self.constant(self.immediate(operand, type_), bytes_)
        if isinstance(operand, Name) and not operand.offset:
            found = self.lookup(operand.name)
            if isinstance(found, Symbol):
                return self.address_value(operand, bytes_)
            if found is not None and found.bytes == bytes_ and not operand.negated:
                return found.offset
        return self.register(operand, bytes_).offset

    def dst(self, operand: Operand, type_: str) -> int:
        """Return the operand offset of a destination register."""
        return self.register(operand, TYPE_BYTES[type_]).offset

    def dst_any(self, operand: Operand) -> int:
        """Return the operand offset of a destination register of any size."""
        return self.register(operand).offset

    def predicate(self, operand: Operand) -> tuple[int, int]:
        """Return slot and negation of a predicate source."""
        if not isinstance(operand, Name):
            raise self.bad("an operand must be a predicate", "a predicate register", str(operand))
        return self.register(Name(operand.name), 0).offset, int(operand.negated)

    def carry_flag(self) -> int:
        """The slot of the thread's condition code CC.CF, a predicate (PTX ISA 9.7.2)."""
        if self._carry < 0:
            self._carry = self._allocate(0)
        return self._carry

    def temporary(self, bytes_: int) -> int:
        """A scratch slot for values computed between two emitted instructions."""
        return self._allocate(bytes_)

    def address_value(self, operand: Name, bytes_: int) -> int:
        """Offset of a slot that holds a symbol's address in its own state space."""
        found = self.lookup(operand.name)
        if not isinstance(found, Symbol):
            raise self.bad(
                "only the address of a variable can have an offset", "a variable", repr(operand.name)
            )
        if found.space == "shared":
            slot = self.temporary(bytes_)
            base = self.special("shared_base64" if bytes_ == 8 else "shared_base32")
            offset = self.constant(found.address + operand.offset, bytes_)
            self.emit(f"add.{8 * bytes_}", dst=slot, a=base, b=offset)
            return slot
        return self.constant(found.address + operand.offset, bytes_)

    def address(self, operand: Operand) -> tuple[int, int, int]:
        """(slot or NONE, displacement, bytes of the address register) of `[base+offset]`."""
        if not isinstance(operand, Address) or operand.coordinates:
            raise self.bad("an operand must be an address", "[register+offset]", str(operand))
        if operand.base is None:
            # A number, which ptxas does not take, is an offset in the CTA's own shared window.
            if self.current and "shared" in self.current.opcode and operand.offset < SHARED_SPAN:
                return self.special("shared_base32"), operand.offset, 4
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
            if (
                width == 8 and bytes_ == 4
            ):  # a generic or 64-bit shared address: its low half is the shared address
                narrow = self.temporary(4)
                self.emit("cvt.u32.u64", dst=narrow, a=slot, to_bytes=4, from_bytes=8)
                slot = narrow
            else:
                wide = self.temporary(8)
                self.emit("cvt.u64.u32", dst=wide, a=slot, to_bytes=8, from_bytes=4)
                slot = wide
        if displacement:
            out = self.temporary(bytes_)
            self.emit(f"add.{8 * bytes_}", dst=out, a=slot, b=self.constant(displacement, bytes_))
            return out
        return slot

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of `{a, b}`, or the operand itself as the only part."""
        return operand.parts if isinstance(operand, Vector) else (operand,)
