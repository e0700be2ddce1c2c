"""Translate the statements of an entry into the engine's program: handlers, guards, branch targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tileproof.emulator import _engine, registry
from tileproof.emulator.cfg import BasicBlocks, basic_blocks, immediate_post_dominators
from tileproof.emulator.errors import PtxError, UnsupportedInstruction
from tileproof.emulator.operands import Operands
from tileproof.emulator.program import NONE, PACKED, SPECIALS, Parts, Register, Symbol
from tileproof.emulator.ptx import (
    BranchTargets,
    Declaration,
    Instruction,
    Label,
    Name,
    Operand,
    Parameter,
    Scope,
    Sink,
    Statement,
    parse_body,
)
from tileproof.emulator.reach import registers_of_barriers
from tileproof.emulator.register_slots import register_file
from tileproof.emulator.slots import layout_of, place
from tileproof.emulator.spelling import Target
from tileproof.emulator.unused_waits import unused_waits
from tileproof.spec.machine.limits import RESERVED_SHARED_BYTES

# Engine instructions of one entry, including the functions that it calls; calls inside each other; characters
# of an opcode.
MAX_ROWS = 1 << 19
MAX_CALLS = 100
MAX_OPCODE = 300


class Decoder(Operands):
    """Decodes one entry. The `isa` modules call its operand helpers and `emit`."""

    def emit(
        self,
        handler: str,
        *,
        vec: list[int] | tuple[int, ...] = (),
        imm: int = 0,
        label: str | None = None,
        predicate: int | None = None,
        written: tuple[int, int] | None = None,
        **slots: int,
    ) -> None:
        """Append an engine instruction with the guard and the location of the current PTX instruction.

        `slots`: operands and modifiers by name (`emulator/slots.py`). `predicate`: a register in place of the
        guard. `written`: the range [first, end) of the destinations in `vec`, for handlers whose layout does
        not declare `fills`.
        """
        ins = self.current
        assert ins is not None
        number = _HANDLERS.get(handler)
        if number is None:
            raise self._unsupported(f"no handler {handler}")
        pred, negated = -1, 0
        if predicate is not None:
            pred = predicate
        elif ins.guard:
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
        operands, modifiers = map(tuple, place(handler, slots, NONE))
        if written is None:
            written = (0, len(vec)) if layout_of(handler).fills else (0, 0)
        first = len(self.vec)
        self.vec.extend(vec)
        if label is not None:
            self.pending_targets.append((len(self.rows), self.label_scopes[-1], label, ins.line))
        signed = (imm + (1 << 63)) % (1 << 64) - (1 << 63)
        self.rows.append(
            (
                signed,
                number,
                pred,
                negated,
                operands,
                modifiers,
                first,
                len(vec),
                -1,
                -1,
                ins.line,
                source,
                self._name_at[ins.opcode],
                written,
            )
        )

    # --- the walk

    def run(self) -> Parts:
        """Decode the whole body."""
        self.target = Target.of(self.module.target, self.module.version)
        statements = parse_body(self.module, self.entry)
        for variable in self._dynamic:
            self.dynamic_align = max(self.dynamic_align, variable.align)
        static = self._static_shared(statements)
        base = RESERVED_SHARED_BYTES + static
        base = -(-base // self.dynamic_align) * self.dynamic_align
        for variable in self._dynamic:
            self.scopes[0][variable.name] = Symbol("shared", base)
            self.shared_symbols[variable.name] = (base, 0)
        self.branch_targets = {s.name: s.labels for s in statements if isinstance(s, BranchTargets)}
        self.label_scopes = [-1]
        self._walk(statements)
        # Falling off the end is a return.
        self.current = Instruction(self.module.line_of(self.entry.body_end), "", "", False, "ret", ())
        self.emit("ret")
        if not self.target.runs():
            raise PtxError(
                "the module is for another target",
                where=f".target {self.module.target}",
                expected="a target that runs on SM100 (its family, or generic up to sm_103), SM90a or SM120",
                found=f"a module for {self.target}",
            )
        code = np.array(self.rows, dtype=PACKED)
        for index, scope, name, line in self.pending_targets:
            code[index]["target"] = self._resolve(scope, name, line)
        blocks = self._reconvergence(code)
        for index in unused_waits(code, self.vec):
            code[index]["m"][layout_of("mbarrier.wait").modifiers.index("unused")] = 1
        names = {number: name for name, number in _HANDLERS.items()}
        own = {*self.specials.values(), *registers_of_barriers(code, names)}
        file = register_file(code, self.vec, names, blocks, bytes(self.register_widths), own)
        return Parts(
            code=code,
            vec=np.asarray(self.vec, dtype="<i4"),
            constants=bytes(self.constants),
            names=self.names,
            sources=self.sources,
            specials=[(slot, SPECIALS[name]) for name, slot in self.specials.items()],
            registers=file,
            local_bytes=self.local_bytes,
            static_shared=base - RESERVED_SHARED_BYTES,
            dynamic_align=self.dynamic_align,
            opcodes=self.opcodes,
            uses_pairs=self.uses_pairs,
            shared_symbols=self.shared_symbols,
        )

    def _walk(self, statements: list[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, Scope):
                if statement.opens:
                    self.scopes.append({})
                    self.scope_parent[self._label_scopes] = self.label_scopes[-1]
                    self.label_scopes.append(self._label_scopes)
                    self._label_scopes += 1
                else:
                    self.scopes.pop()
                    self.label_scopes.pop()
            elif isinstance(statement, Label):
                self.labels[(self.label_scopes[-1], statement.name)] = len(self.rows)
            elif isinstance(statement, BranchTargets):
                continue  # already collected
            elif isinstance(statement, Declaration):
                self.current = Instruction(statement.line, "", "", False, f".{statement.space}", ())
                self.declare(statement)
            else:
                self.current = statement
                self._instruction(statement)

    def call(self, name: str, arguments: tuple[Operand, ...], results: tuple[Operand, ...]) -> None:
        """Decode the body of a .func in place of a call. Each call has its own registers, labels and local
        memory. `ret` branches to the end of the inlined body, where the lanes of the call reconverge.
        """
        function, ins = self.module.functions[name], self.current
        assert ins is not None
        parameters = function.body.parameters
        if name in self.inlined:
            raise registry.Unknown(f"a recursive call of {name[:60]} is not executed")
        if len(self.inlined) >= MAX_CALLS:
            raise registry.Unknown(f"more than {MAX_CALLS} nested calls are not executed")
        if len(arguments) != len(parameters) or len(results) != len(function.results):
            raise ValueError(
                f"{name[:60]} has {len(parameters)} parameters and returns {len(function.results)}"
            )
        statements = parse_body(self.module, function.body)
        if any(isinstance(s, Declaration) and s.space == "shared" for s in statements):
            raise registry.Unknown(f"{name[:60]} declares shared memory")
        if any(p.bytes not in (1, 2, 4, 8) for p in (*parameters, *function.results)):
            raise registry.Unknown(f"{name[:60]} passes a structure by value")
        if len(self.rows) > MAX_ROWS:
            raise registry.Unknown(f"nested calls expand to more than {MAX_ROWS} instructions")
        number = self._label_scopes
        self._label_scopes += 1
        after = self.jump_unguarded()
        outer = self.scopes, self.label_scopes, self.branch_targets
        scope: dict[str, Register | Symbol | list[int]] = {}
        for parameter in (*parameters, *function.results):
            scope[parameter.name] = Register(self._allocate(parameter.bytes), parameter.bytes)
            self.call_parameters.add(parameter.name)
        for parameter, argument in zip(parameters, arguments, strict=True):
            source = self.src(argument, f"b{8 * parameter.bytes}")
            to = scope[parameter.name]
            assert isinstance(to, Register)
            self.emit(f"mov.{8 * to.bytes}", dst=to.offset, a=source, predicate=-1)
        self.scope_parent[number] = -1
        self.scopes, self.label_scopes = [self.scopes[0], scope], [-1, number]
        self.branch_targets = {s.name: s.labels for s in statements if isinstance(s, BranchTargets)}
        self.inlined.append(name)
        self._walk(statements)
        self.inlined.pop()
        self.labels[(number, "return")] = len(self.rows)
        (self.scopes, self.label_scopes, self.branch_targets), self.current = outer, ins
        for result, operand in zip(function.results, results, strict=True):
            if not isinstance(operand, Sink):
                made = scope[result.name]
                assert isinstance(made, Register)
                to = self.register(operand, result.bytes)
                self.emit(f"mov.{8 * result.bytes}", dst=to.offset, a=made.offset, predicate=-1)
        if after:
            self.place_label(after)

    def call_indirect(
        self, target: Operand, arguments: tuple[Operand, ...], results: tuple[Operand, ...]
    ) -> None:
        """Decode a call through a register: comparisons with the addresses of the functions that fit the
        arguments, each with its body. Lanes with any other address trap.
        """
        address = self.src(target, "b64")
        after, end = self.jump_unguarded(), f"called {len(self.rows)}"
        for name, at in self.module.function_addresses.items():
            function = self.module.functions[name]
            fits = self._fits(arguments, function.body.parameters) and self._fits(results, function.results)
            if not fits or name in self.inlined:
                continue
            other, missed = self.temporary(0), f"not {name} {len(self.rows)}"
            self.emit("setp.ne.u64", dst=other, a=address, b=self.constant(at, 8), predicate=-1)
            self.emit("bra", label=missed, predicate=other)
            self.call(name, arguments, results)
            self.emit("bra", label=end, predicate=-1)
            self.place_label(missed)
        self.emit("trap", predicate=-1)
        self.place_label(end)
        if after:
            self.place_label(after)

    def _fits(self, operands: tuple[Operand, ...], parameters: tuple[Parameter, ...]) -> bool:
        """Whether the operands have the number and, where they are registers, the sizes of the parameters."""
        return len(operands) == len(parameters) and all(
            not isinstance(operand, Name) or self.register(operand).bytes == parameter.bytes
            for operand, parameter in zip(operands, parameters, strict=True)
        )

    def jump_unguarded(self) -> str | None:
        """Emit a branch for the lanes that the guard disables, for an instruction that is decoded into
        several.

        Returns the label that they branch to, which the caller must place; None without a guard.
        """
        ins = self.current
        assert ins is not None
        if not ins.guard:
            return None
        after = f"after {len(self.rows)}"  # no label of PTX has a space
        skip = guard = self.predicate(Name(ins.guard))[0]
        if not ins.guard_negated:
            skip = self.temporary(4)
            self.emit("not.pred", dst=skip, a=guard, predicate=-1)
        self.emit("bra", label=after, predicate=skip)
        return after

    def place_label(self, name: str) -> None:
        """Place a label before the next instruction."""
        self.labels[(self.label_scopes[-1], name)] = len(self.rows)

    def leave(self) -> None:
        """Decode `ret` of an inlined function: branch to the end of its body."""
        assert self.inlined
        number = self.label_scopes[1]
        self.pending_targets.append(
            (len(self.rows), number, "return", self.current.line if self.current else 0)
        )
        self.emit("bra")

    def _static_shared(self, statements: list[Statement]) -> int:
        """Bytes of static shared memory: module-level variables so far plus those declared in the body."""
        total = self.shared_bytes
        for statement in statements:
            if isinstance(statement, Declaration) and statement.space == "shared":
                total = -(-total // statement.align) * statement.align + statement.bytes
        return total

    def _instruction(self, ins: Instruction) -> None:
        if len(ins.opcode) > MAX_OPCODE:
            found = f"{len(ins.opcode)} characters"
            raise self.bad("an opcode is too long", f"at most {MAX_OPCODE} characters", found)
        spelled = registry.spell(ins.opcode, self.target)
        if spelled is None:
            raise self._no_spelling()
        row = spelled.row
        if spelled.requires:
            raise self._wrong_target(spelled.requires)
        if row.decode is None:
            raise self._unsupported(f"it is PTX, but not executed here: {row.note}")
        self.opcodes[ins.opcode] = self.opcodes.get(ins.opcode, 0) + 1
        modifiers = registry.Modifiers(spelled.modifiers)
        if spelled.opcode != ins.opcode:  # decoders expect the words in the order of the ISA
            ins = replace(ins, opcode=spelled.opcode)
        if self.vectors:
            ins = replace(ins, operands=tuple(map(self.expanded, ins.operands)))
        try:
            row.decode(self, ins, modifiers)
            modifiers.done()
        except registry.Unknown as why:
            raise self._unsupported(str(why)) from None
        except (IndexError, ValueError) as error:
            raise self.bad(
                f"the operands of {ins.opcode} do not fit it", found=f"{len(ins.operands)} operands ({error})"
            ) from None

    def _no_spelling(self) -> UnsupportedInstruction:
        assert self.current is not None
        opcode = self.current.opcode
        near = registry.nearest(opcode)
        hint = f"; the nearest known spelling is {near}" if near else ""
        rows = registry.rows_of(opcode)
        if not rows:
            return self._unsupported(f"it is not in the instruction table{hint}")
        return self._unsupported(f"no known spelling of {rows[0].base}{hint}")

    def _wrong_target(self, requires: str) -> PtxError:
        assert self.current is not None
        need = requires.replace("ptx", "PTX ").replace("|", " or ").replace("=", "exactly ")
        return self.bad(
            f"{self.current.opcode} needs {need}; the module is for {self.target}",
            f"{need} (`.target`, `.version`)",
            f"a module for {self.target}",
        )

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

    def _reconvergence(self, code: np.ndarray) -> BasicBlocks:
        """Set `rpc` of every conditional branch to its immediate post-dominator; return the blocks."""
        branch, leave = _HANDLERS["bra"], _HANDLERS["ret"]
        stops, astray = (leave, _HANDLERS["trap"]), _HANDLERS["brx.none"]
        kinds = []
        handlers, predicates, targets = (
            code["handler"].tolist(),
            code["pred"].tolist(),
            code["target"].tolist(),
        )
        for handler, predicate, target in zip(handlers, predicates, targets, strict=True):
            if handler == branch:
                kinds.append(("branch", target, predicate >= 0))
            elif (
                handler == astray
            ):  # stops the launch: treated as the last target, so that lanes reconverge after it
                kinds.append(("branch", target, False))
            elif handler in stops and predicate < 0:
                kinds.append(("exit", -1, False))
            else:
                kinds.append(("next", -1, False))
        blocks = basic_blocks(kinds)
        for index, meet in immediate_post_dominators(blocks, kinds).items():
            code[index]["rpc"] = meet
        return blocks


_HANDLERS: dict[str, int] = _engine.handlers()
