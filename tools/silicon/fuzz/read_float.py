"""Floating-point instructions and conversions of SASS as PTX (read_back.py)."""

from __future__ import annotations

import re

from tileproof.tools.silicon.fuzz.read_back import HALVES, NotRead, Reader, SassLine, sass
from tileproof.tools.silicon.fuzz.read_integer import combine

F32 = 0x80000000
_WAYS = {"RP": "rp", "RM": "rm", "RZ": "rz", "": "rn"}
_WHOLE = {"TRUNC": "rzi", "FLOOR": "rmi", "CEIL": "rpi", "": "rni"}
_COMPARE = frozenset(
    ("lt", "le", "gt", "ge", "eq", "ne", "ltu", "leu", "gtu", "geu", "equ", "neu", "num", "nan")
)
_FLOATS = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16"}
_BITS = {
    "f64": 64,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "s16": 16,
    "u16": 16,
    "s32": 32,
    "u32": 32,
    "s64": 64,
    "u64": 64,
}


def _known(line: SassLine, *names: str) -> None:
    if line.flags - set(names):
        raise NotRead(line.opcode)


def _tail(line: SassLine) -> str:
    """`.ftz` and `.sat` of an f32 operation."""
    return (".ftz" if line.flag("FTZ") else "") + (".sat" if line.flag("SAT") else "")


@sass("FADD", "FMUL", "FFMA")
def single(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "FTZ", "SAT", "RP", "RM", "RZ")
    name = {"FADD": "add", "FMUL": "mul", "FFMA": "fma"}[line.root]
    way = _WAYS[line.flag("RP", "RM", "RZ")]
    r.emit(f"{name}.{way}{_tail(line)}.f32 {r.to(ops[0])}, {', '.join(r.at(op, F32) for op in ops[1:])}")


@sass("DADD", "DMUL", "DFMA")
def double(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "RP", "RM", "RZ")
    name, to = {"DADD": "add", "DMUL": "mul", "DFMA": "fma"}[line.root], r.temporary64()
    given = ", ".join(r.at64(op, True) for op in ops[1:])
    r.emit(f"{name}.{_WAYS[line.flag('RP', 'RM', 'RZ')]}.f64 {to}, {given}")
    r.to64(ops[0], to)


def _way(line: SassLine) -> str:
    for part in line.opcode.split(".")[1:]:
        if part.lower() in _COMPARE:
            return part.lower()
    raise NotRead(line.opcode)


@sass("FSETP", "DSETP")
def compare(r: Reader, line: SassLine, ops: list[str]) -> None:
    holds = r.flag()
    if line.root == "FSETP":
        ftz = ".ftz" if line.flag("FTZ") else ""
        r.emit(f"setp.{_way(line)}{ftz}.f32 {holds}, {r.at(ops[2], F32)}, {r.at(ops[3], F32)}")
    else:
        r.emit(f"setp.{_way(line)}.f64 {holds}, {r.at64(ops[2], True)}, {r.at64(ops[3], True)}")
    combine(r, line, ops, holds, ops[4])


@sass("FSET")
def set_(r: Reader, line: SassLine, ops: list[str]) -> None:
    holds, ftz = r.flag(), ".ftz" if line.flag("FTZ") else ""
    r.emit(f"setp.{_way(line)}{ftz}.f32 {holds}, {r.at(ops[1], F32)}, {r.at(ops[2], F32)}")
    way = {"AND": "and", "OR": "or", "XOR": "xor"}[line.flag("AND", "OR", "XOR")]
    r.emit(f"{way}.pred {holds}, {holds}, {r.predicate(ops[3])}")
    r.emit(f"selp.b32 {r.to(ops[0])}, {'0x3f800000' if line.flag('BF') else '0xffffffff'}, 0, {holds}")


@sass("FMNMX")
def extreme(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "FTZ", "NAN", "XORSIGN")
    if ops[-1] not in ("PT", "!PT"):
        raise NotRead(f"{line.opcode} by a predicate")
    name = "min" if ops[-1] == "PT" else "max"
    tail = (".ftz" if line.flag("FTZ") else "") + (".NaN" if line.flag("NAN") else "")
    tail += ".xorsign.abs" if line.flag("XORSIGN") else ""
    if line.flag("XORSIGN"):  # the signs come from the sources before their | |
        ops = [ops[0], *(op.replace("|", "") for op in ops[1:])]
    r.emit(f"{name}{tail}.f32 {r.to(ops[0])}, {r.at(ops[1], F32)}, {r.at(ops[2], F32)}")


def _low(r: Reader, operand: str, sign: int | None = None) -> str:
    """The low half of a 32-bit source."""
    value, to = r.at(operand, sign), r.temporary16()
    full = r.temporary()
    r.emit(f"mov.b32 {full}, {value}")
    r.emit(f"cvt.u16.u32 {to}, {full}")
    return to


def _source(r: Reader, operand: str, kind: str) -> str:
    real = kind in _FLOATS.values()
    if _BITS[kind] == 64:
        return r.at64(operand, real)
    if _BITS[kind] == 16:
        return _low(r, operand, HALVES if real else None)
    value, to = r.at(operand, F32 if real else None), r.temporary()
    r.emit(f"mov.b32 {to}, {value}")
    return to


def _convert(r: Reader, to: str, operand: str, kinds: tuple[str, str], way: str) -> None:
    """`kinds`: of the result and of the source."""
    source = _source(r, operand, kinds[1])
    into = {64: r.temporary64, 32: r.temporary, 16: r.temporary16}[_BITS[kinds[0]]]()
    r.emit(f"cvt{way}.{kinds[0]}.{kinds[1]} {into}, {source}")
    if _BITS[kinds[0]] == 64:
        r.to64(to, into)
    elif _BITS[kinds[0]] == 16:
        r.emit(f"cvt.{'s32.s16' if kinds[0] == 's16' else 'u32.u16'} {r.to(to)}, {into}")
    else:
        r.emit(f"mov.b32 {r.to(to)}, {into}")


@sass("F2F")
def float_to_float(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, *_FLOATS, "RP", "RM", "RZ", "FTZ")
    found = [_FLOATS[p] for p in line.opcode.split(".")[1:] if p in _FLOATS]
    to, source = found
    ftz = ".ftz" if line.flag("FTZ") else ""
    way = "" if _BITS[to] > _BITS[source] else "." + _WAYS[line.flag("RP", "RM", "RZ")]
    _convert(r, ops[0], ops[1], (to, source), way + ftz)


@sass("F2I")
def float_to_integer(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "FTZ", "NTZ", "U32", "S64", "U64", "U16", "S16", "F64", "F16", "BF16", *_WHOLE)
    to = (line.flag("U32", "S64", "U64", "U16", "S16") or "S32").lower()
    source = _FLOATS[line.flag("F64", "F16", "BF16") or "F32"]
    way = "." + _WHOLE[line.flag("TRUNC", "FLOOR", "CEIL")] + (".ftz" if line.flag("FTZ") else "")
    _convert(r, ops[0], ops[1], (to, source), way)


@sass("I2F", "I2FP")
def integer_to_float(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "F64", "F16", "BF16", "F32", "U16", "S16", "U32", "S32", "S64", "U64", "RP", "RM", "RZ")
    source = (line.flag("U16", "S16", "U32", "S32", "S64", "U64") or "S32").lower()
    _convert(r, ops[0], ops[1], (_FLOATS[line.flag("F64", "F16", "BF16") or "F32"], source),
             "." + _WAYS[line.flag("RP", "RM", "RZ")])  # fmt: skip


@sass("FRND")
def rounded(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "F64", "F16", "BF16", "FTZ", *_WHOLE)
    kind = _FLOATS[line.flag("F64", "F16", "BF16") or "F32"]
    way = "." + _WHOLE[line.flag("TRUNC", "FLOOR", "CEIL")] + (".ftz" if line.flag("FTZ") else "")
    _convert(r, ops[0], ops[1], (kind, kind), way)


@sass("F2FP")
def packed_conversion(r: Reader, line: SassLine, ops: list[str]) -> None:
    small = line.flag("E4M3", "E5M2").lower()
    relu = ".relu" if line.flag("RELU") else ""
    if line.flag("PACK_AB"):
        _known(line, "F16", "BF16", "F32", "PACK_AB", "RZ", "RELU")
        kind = "bf16x2" if line.flag("BF16") else "f16x2"
        way = "rz" if line.flag("RZ") else "rn"
        a, b = r.at(ops[1], F32), r.at(ops[2], F32)
        r.emit(f"cvt.{way}{relu}.{kind}.f32 {r.to(ops[0])}, {a}, {b}")
        return
    _known(
        line,
        "SATFINITE",
        "E4M3",
        "E5M2",
        "F32",
        "F16",
        "PACK_AB_MERGE_C",
        "UNPACK_B_MERGE_C",
        "UNPACK_B",
        "RELU",
    )
    if line.flag("UNPACK_B"):
        to = r.temporary()
        r.emit(f"cvt.rn{relu}.f16x2.{small}x2 {to}, {_low(r, ops[1])}")
        r.emit(f"mov.b32 {r.to(ops[0])}, {to}")
        return
    if ops[-1] != "RZ" or not small:
        raise NotRead(f"{line.opcode} {ops}")
    to = r.temporary16()
    if line.flag("PACK_AB_MERGE_C"):
        given = f"f32 {to}, {r.at(ops[1], F32)}, {r.at(ops[2], F32)}"
    else:
        given = f"f16x2 {to}, {r.at(ops[1], HALVES)}"
    r.emit(f"cvt.rn.satfinite{relu}.{small}x2.{given}")
    r.emit(f"cvt.u32.u16 {r.to(ops[0])}, {to}")


def _pairs(ops: list[str]) -> list[str]:
    """Operands of packed halves: the two numbers of an immediate are one operand."""
    out: list[str] = []
    for op in ops:
        number = re.match(r"^[-+]?(\d|INF|QNAN|SNAN)", op) is not None
        if number and out and out[-1] == "1.0":
            continue
        out.append("1.0" if number else op)  # the value comes from the encoding
    return out


def _kind(line: SassLine) -> str:
    return "bf16x2" if line.flag("BF16_V2", "BF16") else "f16x2"


@sass("HADD2", "HMUL2", "HFMA2")
def halves(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "F32", "BF16_V2", "SAT", "RELU", "MMA", "FTZ")
    given = [r.at(op, HALVES) for op in _pairs(ops[1:])]
    to = r.to(ops[0])
    if line.flag("F32"):
        if line.root != "HADD2" or ops[1] != "-RZ" or line.flag("BF16_V2"):
            raise NotRead(f"{line.opcode} {ops}")
        r.emit(f"cvt.f32.f16 {to}, {_low(r, ops[2], HALVES)}")
        return
    name = {"HADD2": "add.rn", "HMUL2": "mul.rn", "HFMA2": "fma.rn"}[line.root]
    tail = _tail(line) + (".relu" if line.flag("RELU") else "")
    r.emit(f"{name}{tail}.{_kind(line)} {to}, {', '.join(given)}")


@sass("HSETP2")
def compare_halves(r: Reader, line: SassLine, ops: list[str]) -> None:
    ops = ops[:2] + _pairs(ops[2:])
    low, high = r.flag(), r.flag()
    a, b = r.at(ops[2], HALVES), r.at(ops[3], HALVES)
    first, second = r.temporary(), r.temporary()
    r.emit(f"mov.b32 {first}, {a}")
    r.emit(f"mov.b32 {second}, {b}")
    ftz = ".ftz" if line.flag("FTZ") else ""
    r.emit(f"setp.{_way(line)}{ftz}.{_kind(line)} {low}|{high}, {first}, {second}")
    way, other = {"AND": "and", "OR": "or", "XOR": "xor"}[line.flag("AND", "OR", "XOR")], r.predicate(ops[4])
    for value in (low, high):
        r.emit(f"{way}.pred {value}, {value}, {other}")
    for to, value in zip(ops[:2], (low, high), strict=True):
        r.set_predicate(to, value)


@sass("HSET2")
def set_halves(r: Reader, line: SassLine, ops: list[str]) -> None:
    ops = ops[:1] + _pairs(ops[1:])
    if ops[3] != "PT" or not line.flag("AND"):
        raise NotRead(f"{line.opcode} {ops}")
    kind, to = _kind(line), r.temporary()
    first, second = r.temporary(), r.temporary()
    r.emit(f"mov.b32 {first}, {r.at(ops[1], HALVES)}")
    r.emit(f"mov.b32 {second}, {r.at(ops[2], HALVES)}")
    ftz = ".ftz" if line.flag("FTZ") else ""
    r.emit(f"set.{_way(line)}{ftz}.{kind if line.flag('BF') else 'u32'}.{kind} {to}, {first}, {second}")
    r.emit(f"mov.b32 {r.to(ops[0])}, {to}")


@sass("HMNMX2", "VHMNMX")
def extreme_halves(r: Reader, line: SassLine, ops: list[str]) -> None:
    _known(line, "BF16_V2", "NAN", "XORSIGN", "FTZ")
    if ops[-1] not in ("PT", "!PT"):
        raise NotRead(f"{line.opcode} by a predicate")
    name = "min" if ops[-1] == "PT" else "max"
    tail = (".ftz" if line.flag("FTZ") else "") + (".NaN" if line.flag("NAN") else "")
    tail += ".xorsign.abs" if line.flag("XORSIGN") else ""
    given = [r.at(op, HALVES) for op in _pairs(ops[1:-1])]
    to = r.temporary()
    r.emit(f"mov.b32 {to}, {given[0]}")
    for value in given[1:]:
        r.emit(f"{name}{tail}.{_kind(line)} {to}, {to}, {value}")
    r.emit(f"mov.b32 {r.to(ops[0])}, {to}")
