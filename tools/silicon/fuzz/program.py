"""Random kernels: statements over typed variables, drawn from a seed, and their text in CUDA C++.

A kernel reads `INPUTS` words of each type per thread (`inputs`) and writes some of its variables, 64 bits
each, to `out[slot * THREADS + thread]`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from tileproof.tools.silicon.fuzz.operations import TYPES, WIDTH, CudaOperation, operations

THREADS, INPUTS, SLOTS = 64, 4, 6
PRELUDE = Path(__file__).with_name("prelude.cuh")
_SPECIAL = {
    "f32": (0, 1 << 31, 0x7F801FFF, 0xFFA00004, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001,
            0xFFFFFFFF, 1, 0x807FFFFF, 0x7F7FFFFF, 0x4F000000, 0xCF000001, 0x3F000000,
            0x40490FDB, 0x477FE000, 0x43E00000),
    "f64": (0, 1 << 63, 0x3FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001, 1,
            0x7FEFFFFFFFFFFFFF, 0xFFF8000000000002, 0x7FF0000000000003, 0xFFF4A5A5A5A5A5A5,
            0x41DFFFFFFFC00000,
            0xC1E0000000000000, 0x3810000000000000, 0xBFE0000000000000),
    "f16": (0, 0x8000, 0xFD04, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E01, 0xFFFF, 1, 0x83FF, 0x7BFF, 0x3800,
            0x5F00),
    "bf16": (0, 0x8000, 0xFFA4, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC1, 0xFFFF, 1, 0x807F, 0x7F7F, 0x3F00,
             0x43E0),
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """An operand: the name of a variable, or the bits of a constant (`hidden`: from NVVM, ptxas sees it)."""

    type: str
    name: str = ""
    bits: int = 0
    hidden: bool = False

    def text(self) -> str:
        """The value in C++."""
        if self.name:
            return self.name
        if self.hidden:
            return f"hidden<{TYPES[self.type]}>({self.bits:#x}ull)"
        if self.type == "f32":
            return f"__uint_as_float({self.bits:#x}u)"
        if self.type in ("f16", "bf16", "f16x2", "bf16x2", "f64"):
            return f"load<{TYPES[self.type]}>({self.bits:#x}ull)"
        return f"({TYPES[self.type]}){self.bits:#x}ull"


@dataclass(frozen=True)
class Statement:
    """`name` = the operation on `operands`; `form`: "plain", "loop" (up to 7 times on the variable) or
    "branch" (only where the condition holds, else the first value of its type).
    """

    name: str
    operation: CudaOperation
    operands: tuple[Value, ...]
    form: str = "plain"
    condition: Value | None = None
    otherwise: Value | None = None

    @property
    def type(self) -> str:
        """The type of the variable."""
        return self.operation.result

    @property
    def used(self) -> tuple[Value, ...]:
        """Every operand."""
        extra = tuple(v for v in (self.condition, self.otherwise) if v is not None)
        return self.operands + extra

    def text(self) -> str:
        """The statement in C++."""
        kind = TYPES[self.type]
        expression = self.operation.text([v.text() for v in self.operands])
        if self.form == "plain":
            return f"const {kind} {self.name} = {expression};"
        assert self.condition is not None and self.otherwise is not None
        if self.form == "branch":
            return (
                f"{kind} {self.name} = {self.otherwise.text()}; "
                f"if ({self.condition.text()}) {self.name} = {expression};"
            )
        first, *rest = self.operands
        again = self.operation.text([self.name, *(v.text() for v in rest)])
        count = f"({self.condition.text()} & 7)"
        return (
            f"{kind} {self.name} = {first.text()}; "
            f"for (unsigned n_ = 0; n_ < {count}; ++n_) {self.name} = {again};"
        )


@dataclass(frozen=True)
class RandomKernel:
    """A kernel: its statements, and the variables that it writes."""

    name: str
    steps: tuple[Statement, ...]
    outputs: tuple[Value, ...]

    def text(self) -> str:
        """The kernel in CUDA C++."""
        names = {v.name for s in self.steps for v in s.used} | {v.name for v in self.outputs}
        lines = [f'extern "C" __global__ void __launch_bounds__({THREADS}) {self.name}(']
        lines += ["    const unsigned long long* in, unsigned long long* out, char* scratch) {"]
        lines += ["  const unsigned tid = threadIdx.x;"]
        text = "\n".join(f"  {step.text()}" for step in self.steps)
        if "SHARED" in text:
            lines += [f"  __shared__ __align__(16) char shared[{THREADS} * 16];"]
        text = text.replace("SHARED", "shared + 16 * tid").replace("GLOBAL", "scratch + 16 * tid")
        for row, (kind, n) in enumerate(_rows()):
            if (name := _input(kind, n)) in names:
                lines += [f"  const {TYPES[kind]} {name} = load<{TYPES[kind]}>(in[{row * THREADS} + tid]);"]
        lines += [text]
        lines += [f"  out[{i * THREADS} + tid] = bits({v.text()});" for i, v in enumerate(self.outputs)]
        return "\n".join([*lines, "}"]) + "\n"

    def without_nan(self) -> RandomKernel:
        """With 1.5 for each constant that is a NaN."""

        def plain(value: Value | None) -> Value | None:
            if value is None or value.name:
                return value
            return replace(value, bits=without_nan(value.type, value.bits))

        steps = [
            replace(
                step,
                operands=tuple(v for v in map(plain, step.operands) if v),
                condition=plain(step.condition),
                otherwise=plain(step.otherwise),
            )
            for step in self.steps
        ]
        return replace(self, steps=tuple(steps))

    def needed(self) -> RandomKernel:
        """Without the statements that no output depends on."""
        wanted, steps = {v.name for v in self.outputs}, []
        for step in reversed(self.steps):
            if step.name in wanted:
                steps.append(step)
                wanted |= {v.name for v in step.used}
        return replace(self, steps=tuple(reversed(steps)))


def _rows() -> list[tuple[str, int]]:
    return [(kind, n) for kind in TYPES for n in range(INPUTS)]


def _input(kind: str, n: int) -> str:
    return f"in_{kind}_{n}"


def constant(kind: str, draw: random.Random) -> int:
    """Bits of a value of the type: of those near an edge, small numbers, or any."""
    if kind.endswith("x2"):
        half = kind[:-2]
        return constant(half, draw) | constant(half, draw) << 16
    bits = WIDTH[kind]
    if kind in _SPECIAL and draw.random() < 0.5:
        return draw.choice(_SPECIAL[kind])
    if kind == "f32" and draw.random() < 0.6:
        return int(np.float32(draw.gauss(0, 1) * 2.0 ** draw.choice((-8, 0, 0, 5, 14))).view(np.uint32))
    if kind == "f64" and draw.random() < 0.6:
        return int(np.float64(draw.gauss(0, 1) * 2.0 ** draw.choice((-8, 0, 5, 20, 40))).view(np.uint64))
    if kind in ("s16", "u16", "s32", "u32", "s64", "u64") and draw.random() < 0.5:
        edges = (
            0,
            1,
            2,
            -1,
            -2,
            31,
            32,
            255,
            1 << (bits - 1),
            (1 << (bits - 1)) - 1,
            0x8000,
            0x80008000,
            0x7FFF,
        )
        return draw.choice(edges) % (1 << bits)
    return draw.getrandbits(bits)


@cache
def inputs(seed: int = 0) -> np.ndarray:
    """The words that every kernel of a campaign reads: [types x INPUTS, THREADS] u64."""
    draw = random.Random(f"inputs {seed}")
    return np.array([[constant(kind, draw) for _ in range(THREADS)] for kind, _ in _rows()], np.uint64)


_NAN = {
    "f32": (0x7FFFFFFF, 0x7F800000, 0x3FC00000),
    "f64": ((1 << 63) - 1, 0x7FF0000000000000, 0x3FF8000000000000),
    "f16": (0x7FFF, 0x7C00, 0x3E00),
    "bf16": (0x7FFF, 0x7F80, 0x3FC0),
}


def without_nan(kind: str, word: int) -> int:
    """The bits of a value, 1.5 for a NaN."""
    if kind.endswith("x2"):
        half = kind[:-2]
        return without_nan(half, word & 0xFFFF) | without_nan(half, word >> 16) << 16
    if kind not in _NAN:
        return word
    magnitude, infinity, other = _NAN[kind]
    return other if word & magnitude > infinity else word


@cache
def inputs_without_nan() -> np.ndarray:
    """`inputs()` with 1.5 for each NaN of a floating-point type."""
    rows = zip(_rows(), inputs().tolist(), strict=True)
    return np.array([[without_nan(kind, word) for word in row] for (kind, _), row in rows], np.uint64)


@cache
def _by_family(families: tuple[str, ...], plain: bool) -> dict[str, list[CudaOperation]]:
    out: dict[str, list[CudaOperation]] = {}
    for operation in operations():
        if operation.family in families and not (plain and operation.collective):
            out.setdefault(operation.family, []).append(operation)
    return out


FAMILIES = ("integer", "packed", "float", "half", "small", "warp", "atomic")


def program(seed: str, name: str, families: Sequence[str] = FAMILIES) -> RandomKernel:
    """The kernel of a seed: the same for the same seed and families."""
    draw = random.Random(seed)
    chosen = tuple(f for f in families if draw.random() < 0.6) or tuple(families)
    constants = draw.choice((0.1, 0.3, 0.6))
    pool: dict[str, list[str]] = {kind: [_input(kind, n) for n in range(INPUTS)] for kind in TYPES}
    steps: list[Statement] = []

    def operand(kind: str) -> Value:
        if draw.random() < constants:
            return Value(kind, bits=constant(kind, draw), hidden=draw.random() < 0.5)
        names = pool[kind]
        late = names[-3:] if draw.random() < 0.7 else names
        return Value(kind, draw.choice(late))

    for number in range(draw.randint(6, 28)):
        form = draw.choices(("plain", "branch", "loop"), (8, 1, 1))[0]
        found = _by_family(chosen, form != "plain")
        if not found:
            form, found = "plain", _by_family(chosen, False)
        operation = draw.choice(found[draw.choice(sorted(found))])
        if form == "loop" and operation.operands[:1] != (operation.result,):
            form = "plain"
        values = tuple(operand(kind) for kind in operation.operands)
        extra = {}
        if form != "plain":
            extra = {
                "condition": operand("bool" if form == "branch" else "u32"),
                "otherwise": operand(operation.result),
            }
        step = Statement(f"v{number}", operation, values, form, **extra)
        steps.append(step)
        pool[operation.result].append(step.name)
    used = {v.name for s in steps for v in s.used}
    ends = [Value(s.type, s.name) for s in steps if s.name not in used]
    return RandomKernel(name, tuple(steps), tuple(ends[-SLOTS:])).needed()
