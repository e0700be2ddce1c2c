"""Registers share places in the register file only where no path lets their values meet."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from tileproof.emulator import Module, _engine, register_slots
from tileproof.emulator.program import Decoded
from tileproof.emulator.slots import layout_of

from tests.kit.ptx import Memory, clean, kernel_text, run
from tests.kit.wgmma import Wgmma, kernel

NAMES = {number: name for name, number in _engine.handlers().items()}
REGISTERS, STEPS = 8, 250


def decoded(body: str) -> Decoded:
    """The decoded kernel `k` with this body."""
    module = Module.from_ptx(kernel_text(body, [False]))
    return module.decode(next(iter(module.entries)))


def drawn(seed: int) -> str:
    """A random body: moves, guards, loops, loads of tensor memory and their waits."""
    r = random.Random(seed)
    narrow = [f"%r{n}" for n in range(REGISTERS)]
    wide = [f"%b{n}" for n in range(4)]
    labels = [f"L{n}" for n in range(5)]
    lines = [f"setp.eq.u32 %p1, %t, {r.randrange(32)};", f"mov.b32 %r0, {r.randrange(9)};"]
    places = sorted(r.randrange(30) for _ in labels)
    for at in range(30):
        lines += [f"{label}:" for label, place in zip(labels, places, strict=True) if place == at]
        guard = r.choice(["", "", "", "@%p1 ", "@!%p2 "])
        a, b, c = (r.choice(narrow) for _ in range(3))
        x, y = r.choice(wide), r.choice(wide)
        lines.append(
            r.choice([
                f"{guard}mov.b32 {a}, {b};", f"{guard}add.u32 {a}, {b}, {c};", f"{guard}add.u64 {x}, {y}, 1;",
                f"{guard}cvt.u64.u32 {x}, {a};", f"{guard}mov.b64 {{{a}, {b}}}, {x};",
                f"setp.lt.u32 %p{r.randrange(1, 4)}, {a}, {b};", f"@%p2 bra {r.choice(labels)};",
                f"@%p1 bra {r.choice(labels)};", f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{{a}}}, [%r0];",
                "tcgen05.wait::ld.sync.aligned;", f"{guard}st.shared.b32 [2048], {a};",
            ])
        )  # fmt: skip
    return "\n".join([".reg .b64 %b<4>;", *lines, f"st.shared.b32 [2048], {r.choice(narrow)};"])


@dataclass
class Thread:
    """A thread that follows a random path: each write makes a new value, in both files."""

    program: Decoded
    random: random.Random
    named: dict[int, object] = field(default_factory=dict)
    placed: dict[int, object] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    reads: int = 0

    def write(self, register: int) -> None:
        value = object()
        self.named[register] = value
        self.placed[self.program.registers.of(register)] = value

    def arrive(self, registers: set[int]) -> None:
        for register in registers & self.pending:
            self.pending.remove(register)
            self.write(register)

    def read(self, register: int) -> bool:
        """Whether both files have the same value; a register that was never written has none in either."""
        self.arrive({register})
        self.reads += 1
        return self.named.get(register) is self.placed.get(self.program.registers.of(register))

    def touched(self, at: int) -> tuple[list[int], list[int]]:
        """The registers that an instruction reads and writes."""
        row = self.program.code[at]
        bits = layout_of(NAMES[int(row["handler"])]).written
        listed = self.program.vec[int(row["vec"]) : int(row["vec"]) + int(row["nvec"])]
        first, end = row["written"].tolist()
        pairs = [(offset, bool(bits >> k & 1)) for k, offset in enumerate(row["o"].tolist())]
        pairs += [(offset, first <= k < end) for k, offset in enumerate(listed)]
        pairs.append((int(row["pred"]), False))
        return [o for o, w in pairs if o >= 0 and not w], [o for o, w in pairs if o >= 0 and w]

    def walk(self) -> int | None:
        """The first instruction that reads another value than with a place for each register."""
        code, at = self.program.code, 0
        for _ in range(STEPS):
            if at >= len(code):
                break
            row, name = code[at], NAMES[int(code[at]["handler"])]
            read, written = self.touched(at)
            if not all(map(self.read, read)):
                return at
            runs = row["pred"] < 0 or self.random.random() < 0.5
            if runs and name == "tcgen05.ld":
                self.pending |= set(written)
            elif runs and name == "tcgen05.wait.ld":
                self.arrive(set(self.pending))
            elif runs:
                for register in written:
                    self.write(register)
            self.arrive({register for register in self.pending if self.random.random() < 0.1})
            if name == "ret" and runs:
                break
            at = int(row["target"]) if name == "bra" and runs else at + 1
        return None


def wrong_reads(seeds: range) -> list[int]:
    """The seeds of random bodies in which a path reads a value that another register left behind."""
    found, reads = [], 0
    for seed in seeds:
        program = decoded(drawn(seed))
        for path in range(4):
            thread = Thread(program, random.Random(path))
            if thread.walk() is not None:
                found.append(seed)
            reads += thread.reads
    assert reads > 100 * len(seeds)
    return found


def test_paths_read_what_their_registers_hold() -> None:
    assert not wrong_reads(range(60))


@pytest.mark.parametrize("defect", ["a load is over at once", "a guarded write ends a value", "no liveness"])
def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    liveness = register_slots._liveness

    def changed(code, names, touches, blocks):  # type: ignore[no-untyped-def]
        if defect == "a guarded write ends a value":
            code = code.copy()
            code["pred"] = -1
        live, pending = liveness(code, names, touches, blocks)
        nothing = [0] * len(live[0])
        if defect == "no liveness":
            return (live[0][:1] + nothing[1:], nothing), pending
        return live, (nothing, nothing) if defect == "a load is over at once" else pending

    monkeypatch.setattr(register_slots, "_liveness", changed)
    assert wrong_reads(range(60))


def test_places_are_shared() -> None:
    """A chain of 64 registers needs a place for the two of them that meet."""
    body = ".reg .b32 %c<65>;\nmov.b32 %c0, %t;\n"
    body += "\n".join(f"add.u32 %c{n + 1}, %c{n}, 1;" for n in range(64)) + "\nst.global.b32 [%a0], %c64;"
    program = decoded(body)
    assert len(program.registers.place) * register_slots.UNIT > 64 * 128
    assert program.registers.size < 24 * 128


def test_values_are_those_of_unshared_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs end with the same words in memory as with a place for each register."""

    def words(seed: int) -> bytes:
        r = random.Random(seed)
        lines = [".reg .b32 %c<40>;"] + [f"mov.b32 %c{n}, %t;" for n in range(4)]
        lines += [
            f"mad.lo.u32 %c{n}, %c{r.randrange(max(0, n - 6), n)}, {r.randrange(1, 99)}, %c{r.randrange(n)};"
            for n in range(4, 40)
        ]
        lines += ["mul.wide.u32 %rd1, %t, 4;", "add.u64 %rd1, %a0, %rd1;", "st.global.b32 [%rd1], %c39;"]
        memory = Memory()
        out = memory.buffer(np.zeros(32, np.uint32))
        clean(run("\n".join(lines), [out], memory=memory, threads=32))
        return bytes(np.asarray(out.numpy()).tobytes())

    shared = [words(seed) for seed in range(10)]
    monkeypatch.setattr(
        "tileproof.emulator.decode.register_file",
        lambda code, vec, names, blocks, widths, own: register_slots.as_declared(widths),
    )
    assert [words(seed) for seed in range(10)] == shared


def test_registers_of_wgmma_keep_their_places() -> None:
    """An mma_async writes its accumulators later than it runs."""
    module = Module.from_ptx(kernel(Wgmma(8), True))
    program = module.decode(next(iter(module.entries)))
    place = program.registers.place
    assert (place == np.arange(len(place)) * register_slots.UNIT).all()
    assert program.registers.size == len(place) * register_slots.UNIT
