"""Integer instructions of SASS as PTX (read_back.py)."""

from __future__ import annotations

from tileproof.tools.silicon.fuzz.read_back import NotRead, Reader, SassLine, sass

_BOOL = {"AND": "and", "OR": "or", "XOR": "xor"}


@sass("MOV", "UMOV", "R2UR", "IMAD.MOV")
def move(r: Reader, line: SassLine, ops: list[str]) -> None:
    if line.root == "R2UR" and len(ops) != 2:
        raise NotRead("R2UR with a predicate")
    r.emit(f"mov.b32 {r.to(ops[0])}, {r.at(ops[1])}")


def _outputs(ops: list[str]) -> tuple[str, list[str], list[str]]:
    """The register, the predicates that receive carries, and the other operands."""
    carries = []
    rest = ops[1:]
    while rest and rest[0] in ("PT", "UPT", *(f"{u}P{n}" for u in ("", "U") for n in range(8))):
        carries.append(rest.pop(0))
    return ops[0], carries, rest


def _wide(r: Reader, value: str) -> str:
    to = r.temporary64()
    r.emit(f"cvt.u64.u32 {to}, {value}" if value[0] not in "0-" else f"mov.b64 {to}, {value}")
    return to


@sass("IADD3", "UIADD3")
def add3(r: Reader, line: SassLine, ops: list[str]) -> None:
    if line.flags - {"X"}:
        raise NotRead(line.opcode)
    to, carries, rest = _outputs(ops)
    total, carry = r.temporary64(), r.temporary64()
    r.emit(f"mov.b64 {total}, 0")
    for operand in rest[:3]:
        negative = operand.startswith(("-R", "-U"))
        value = r.at("~" + operand[1:]) if negative else r.at(operand)
        r.emit(f"add.u64 {total}, {total}, {_wide(r, value)}")
        if negative:
            r.emit(f"add.u64 {total}, {total}, 1")
    for predicate in rest[3:]:
        r.emit(f"cvt.u64.u32 {carry}, {r.as_word(predicate)}")
        r.emit(f"add.u64 {total}, {total}, {carry}")
    _split_carries(r, total, carries)
    r.emit(f"cvt.u32.u64 {r.to(to)}, {total}")


def _split_carries(r: Reader, total: str, carries: list[str]) -> None:
    for n, predicate in enumerate(carries):
        value = r.flag()
        r.emit(f"setp.ge.u64 {value}, {total}, {(n + 1) << 32:#x}")
        r.set_predicate(predicate, value)


@sass("VIADD")
def add(r: Reader, line: SassLine, ops: list[str]) -> None:
    kind = {"": "add.u32", "16x2": "add.u16x2"}.get(".".join(line.opcode.split(".")[1:]))
    if kind is None:
        raise NotRead(f"{line.opcode} {ops}")
    a, b = (_signed(r, op, kind != "add.u32") for op in ops[1:])
    r.emit(f"{kind} {r.to(ops[0])}, {a}, {b}")


def _signed(r: Reader, operand: str, pairs: bool) -> str:
    """An integer source whose minus sign holds for each half."""
    if not pairs or not operand.startswith("-R"):
        return r.at(operand)
    to = r.temporary()
    r.emit(f"not.b32 {to}, {r.at(operand[1:])}")
    r.emit(f"add.u16x2 {to}, {to}, 0x10001")
    return to


@sass("IMAD", "UIMAD")
def multiply_add(r: Reader, line: SassLine, ops: list[str]) -> None:
    known = {"MOV", "SHL", "IADD", "U32", "WIDE", "HI", "X"}
    if line.flags - known:
        raise NotRead(line.opcode)
    to, carries, rest = _outputs(ops)
    sign = "u32" if line.flag("U32") or not line.flag("WIDE", "HI") else "s32"
    if line.flag("HI") and not (line.flag("X") or carries):
        product = r.temporary64()
        r.emit(f"mul.wide.{sign} {product}, {r.at(rest[0])}, {r.at(rest[1])}")
        r.emit(f"add.u64 {product}, {product}, {r.at64(rest[2])}")  # the addend is 64 bits wide
        r.emit(f"shr.u64 {product}, {product}, 32")
        r.emit(f"cvt.u32.u64 {r.to(to)}, {product}")
        return
    if line.flag("WIDE"):
        product, addend = r.temporary64(), r.at64(rest[2])
        r.emit(f"mul.wide.{sign} {product}, {r.at(rest[0])}, {r.at(rest[1])}")
        if line.flag("X"):  # the product is below 2^64 - 2^33, so it takes a carry
            r.emit(f"add.u64 {product}, {product}, {_wide(r, r.as_word(rest[3]))}")
        r.emit(f"add.u64 {product}, {product}, {addend}")
        for predicate in carries:
            carry = r.flag()
            r.emit(f"setp.lt.u64 {carry}, {product}, {addend}")
            r.set_predicate(predicate, carry)
        r.to64(to, product)
        return
    if carries or line.flag("HI"):
        raise NotRead(f"{line.opcode} {ops}")
    result = r.temporary()
    r.emit(f"mad.lo.u32 {result}, {r.at(rest[0])}, {r.at(rest[1])}, {r.at(rest[2])}")
    if line.flag("X"):
        r.emit(f"add.u32 {result}, {result}, {r.as_word(rest[3])}")
    r.emit(f"mov.b32 {r.to(to)}, {result}")


def logic(r: Reader, a: str, b: str, c: str, table: int) -> str:
    """A register with the bitwise function `table` of three."""
    to = r.temporary()
    first = r.temporary()
    r.emit(f"mov.b32 {first}, {a}")
    r.emit(f"lop3.b32 {to}, {first}, {b}, {c}, {table:#x}")
    return to


@sass("LOP3", "ULOP3")
def logic3(r: Reader, line: SassLine, ops: list[str]) -> None:
    predicate = ops.pop(0) if ops[0].lstrip("U")[0] == "P" else ""
    value = logic(r, r.at(ops[1]), r.at(ops[2]), r.at(ops[3]), int(ops[4], 16))
    if predicate:
        holds = r.flag()
        r.emit(f"setp.ne.u32 {holds}, {value}, 0")
        way = "and" if line.flag("PAND") else "or"
        r.emit(f"{way}.pred {holds}, {holds}, {r.predicate(ops[5])}")
        r.set_predicate(predicate, holds)
    r.emit(f"mov.b32 {r.to(ops[0])}, {value}")


@sass("PLOP3", "UPLOP3")
def predicates3(r: Reader, line: SassLine, ops: list[str]) -> None:
    given = []
    for op in ops[2:5]:
        word = r.temporary()
        if op.endswith(".SIGN"):
            r.emit(f"shr.u32 {word}, {r.at(op.removesuffix('.SIGN'))}, 31")
        else:
            r.emit(f"mov.b32 {word}, {r.as_word(op)}")
        given.append(word)
    for to, table in zip(ops[:2], ops[5:7], strict=True):
        value, holds, bit = logic(r, given[0], given[1], given[2], int(table, 16)), r.flag(), r.temporary()
        r.emit(f"and.b32 {bit}, {value}, 1")
        r.emit(f"setp.ne.u32 {holds}, {bit}, 0")
        r.set_predicate(to, holds)


@sass("SHF", "USHF")
def shift(r: Reader, line: SassLine, ops: list[str]) -> None:
    left, kind = bool(line.flag("L")), line.flag("U32", "S32", "U64", "S64")
    if line.flags - {"L", "R", "W", "HI", "U32", "S32", "U64", "S64"} or not kind:
        raise NotRead(line.opcode)
    both, amount, result = r.temporary64(), r.temporary(), r.temporary64()
    low, high = r.temporary(), r.temporary()
    r.emit(f"mov.b32 {low}, {r.at(ops[1])}")
    r.emit(f"mov.b32 {high}, {r.at(ops[3])}")
    r.emit(f"mov.b64 {both}, {{{low}, {high}}}")
    width = 32 if kind.endswith("32") else 64
    r.emit(f"mov.b32 {amount}, {r.at(ops[2])}")
    if line.flag("W"):
        r.emit(f"and.b32 {amount}, {amount}, {width - 1}")
    else:
        r.emit(f"min.u32 {amount}, {amount}, {width}")
    way = "shl.b64" if left else "shr.s64" if kind[0] == "S" else "shr.u64"
    r.emit(f"{way} {result}, {both}, {amount}")
    r.emit(f"mov.b64 {{{low}, {high}}}, {result}")
    r.emit(f"mov.b32 {r.to(ops[0])}, {high if line.flag('HI') else low}")


@sass("LEA", "ULEA")
def scaled(r: Reader, line: SassLine, ops: list[str]) -> None:
    to, carries, rest = _outputs(ops)
    if line.flags - {"HI", "X", "SX32"}:
        raise NotRead(line.opcode)
    total, addend = r.temporary64(), r.at(rest[1])
    a = r.at(rest[0])
    if line.flag("HI"):
        both = r.temporary64()
        if line.flag("SX32"):
            high, count = r.temporary(), rest[2]
            r.emit(f"shr.s32 {high}, {a}, 31")
        else:
            high, count = r.at(rest[2]), rest[3]
        r.emit(f"mov.b64 {both}, {{{a}, {high}}}")
        r.emit(f"shl.b64 {both}, {both}, {int(count, 16)}")
        r.emit(f"shr.u64 {total}, {both}, 32")
    else:
        shifted, negative = r.temporary(), rest[0].startswith("-")
        r.emit(f"shl.b32 {shifted}, {r.at(rest[0].removeprefix('-'))}, {int(rest[2], 16)}")
        if negative:
            r.emit(f"not.b32 {shifted}, {shifted}")
        r.emit(f"cvt.u64.u32 {total}, {shifted}")
        if negative:
            r.emit(f"add.u64 {total}, {total}, 1")
    r.emit(f"add.u64 {total}, {total}, {_wide(r, addend)}")
    if line.flag("X"):
        r.emit(f"add.u64 {total}, {total}, {_wide(r, r.as_word(rest[-1]))}")
    _split_carries(r, total, carries)
    r.emit(f"cvt.u32.u64 {r.to(to)}, {total}")


@sass("ISETP", "UISETP")
def compare(r: Reader, line: SassLine, ops: list[str]) -> None:
    parts = line.opcode.split(".")[1:]
    way, unsigned, low = parts[0].lower(), "U32" in parts, "EX" in parts
    a, b, holds = r.at(ops[2]), r.at(ops[3]), r.flag()
    kind = "u32" if unsigned else "s32"
    if way == "t" or way == "f":
        raise NotRead(line.opcode)
    first = r.temporary()
    r.emit(f"mov.b32 {first}, {a}")
    if low:
        same, before = r.flag(), r.predicate(ops[5])
        strict = {"le": "lt", "ge": "gt", "eq": "ne", "ne": "ne"}.get(way, way)
        r.emit(f"setp.eq.u32 {same}, {first}, {b}")
        r.emit(f"and.pred {same}, {same}, {before}")
        if way == "eq":
            r.emit(f"mov.pred {holds}, {same}")
        else:
            r.emit(f"setp.{strict}.{kind} {holds}, {first}, {b}")
            # "not equal" holds where the upper halves differ or the lower halves do
            r.emit(f"or.pred {holds}, {holds}, {before if way == 'ne' else same}")
    else:
        r.emit(f"setp.{way}.{kind} {holds}, {first}, {b}")
    combine(r, line, ops, holds, ops[4])


def combine(r: Reader, line: SassLine, ops: list[str], holds: str, other: str) -> None:
    """Both predicates of a comparison, combined with another."""
    way, second, third = _BOOL[line.flag("AND", "OR", "XOR")], r.flag(), r.predicate(other)
    r.emit(f"not.pred {second}, {holds}")
    for value in (holds, second):
        r.emit(f"{way}.pred {value}, {value}, {third}")
    for to, value in zip(ops[:2], (holds, second), strict=True):
        r.set_predicate(to, value)


@sass("SEL", "USEL", "FSEL")
def select(r: Reader, line: SassLine, ops: list[str]) -> None:
    sign = 0x80000000 if line.root == "FSEL" else None
    if line.flags:
        raise NotRead(line.opcode)
    a, b = r.at(ops[1], sign), r.at(ops[2], sign)
    r.emit(f"selp.b32 {r.to(ops[0])}, {a}, {b}, {r.predicate(ops[3])}")


@sass("PRMT", "UPRMT")
def permute(r: Reader, line: SassLine, ops: list[str]) -> None:
    mode = line.flag("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")
    a, select_, b = r.at(ops[1]), r.at(ops[2]), r.at(ops[3])
    r.emit(f"prmt.b32{'.' + mode.lower() if mode else ''} {r.to(ops[0])}, {a}, {b}, {select_}")


@sass("IABS")
def absolute(r: Reader, line: SassLine, ops: list[str]) -> None:
    r.emit(f"abs.s32 {r.to(ops[0])}, {r.at(ops[1])}")


@sass("VIADDMNMX", "VIMNMX", "VIMNMX3")
def extreme(r: Reader, line: SassLine, ops: list[str]) -> None:
    kind = (line.flag("S16x2", "U16x2", "U32") or "S32").lower()
    if line.flags - {"S16x2", "U16x2", "U32", "RELU"}:
        raise NotRead(line.opcode)
    values = [_signed(r, op, kind.endswith("x2")) for op in ops[1:-1]]
    if ops[-1] not in ("PT", "!PT"):
        raise NotRead(f"{line.opcode} by a predicate")
    way = "min" if ops[-1] == "PT" else "max"
    to = r.temporary()
    r.emit(f"mov.b32 {to}, {values[0]}")
    if line.root == "VIADDMNMX":
        r.emit(f"add.{'u16x2' if kind.endswith('x2') else 'u32'} {to}, {to}, {values[1]}")
        values = [to, values[2]]
    for value in values[1:]:
        r.emit(f"{way}.{kind} {to}, {to}, {value}")
    if line.flag("RELU"):
        r.emit(f"max.{kind} {to}, {to}, 0")
    r.emit(f"mov.b32 {r.to(ops[0])}, {to}")


@sass("VABSDIFF")
def difference(r: Reader, line: SassLine, ops: list[str]) -> None:
    kind = "u32" if line.flag("U32") else "s32"
    r.emit(f"sad.{kind} {r.to(ops[0])}, {r.at(ops[1])}, {r.at(ops[2])}, {r.at(ops[3])}")


@sass("VABSDIFF4")
def differences(r: Reader, line: SassLine, ops: list[str]) -> None:
    kind = {"U8": "u32", "S8": "s32"}[line.flag("U8", "S8")]
    adds = ".add" if line.flag("ACC") else ""
    if line.flags - {"U8", "S8", "ACC"}:
        raise NotRead(line.opcode)
    r.emit(f"vabsdiff4.u32.{kind}.{kind}{adds} {r.to(ops[0])}, {', '.join(r.at(op) for op in ops[1:4])}")


@sass("POPC", "BREV")
def bits(r: Reader, line: SassLine, ops: list[str]) -> None:
    r.emit(f"{line.root.lower()}.b32 {r.to(ops[0])}, {r.at(ops[1])}")


@sass("FLO")
def leading(r: Reader, line: SassLine, ops: list[str]) -> None:
    shift_ = ".shiftamt" if line.flag("SH") else ""
    r.emit(f"bfind{shift_}.{'u32' if line.flag('U32') else 's32'} {r.to(ops[0])}, {r.at(ops[-1])}")


@sass("BMSK", "SGXT", "UBMSK", "USGXT")
def masks(r: Reader, line: SassLine, ops: list[str]) -> None:
    mode = "wrap" if line.flag("W") else "clamp"
    kind = "bmsk" if "BMSK" in line.root else "szext"
    tail = "b32" if kind == "bmsk" else "u32" if line.flag("U32") else "s32"
    r.emit(f"{kind}.{mode}.{tail} {r.to(ops[0])}, {r.at(ops[1])}, {r.at(ops[2])}")


@sass("IDP")
def dot(r: Reader, line: SassLine, ops: list[str]) -> None:
    parts = line.opcode.split(".")[1:]
    types = [{"U": "u32", "S": "s32"}[p[0]] for p in parts if p in ("U8", "S8", "U16", "S16")]
    way = "dp4a" if "4A" in parts else "dp2a.hi" if "HI" in parts else "dp2a.lo"
    r.emit(f"{way}.{types[0]}.{types[1]} {r.to(ops[0])}, {', '.join(r.at(op) for op in ops[1:4])}")
