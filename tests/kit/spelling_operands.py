# ruff: noqa: E501 - tables are kept whole
"""Operands of the right kinds for any spelling of the table, so that ptxas judges the spelling."""

from __future__ import annotations

import re

from tileproof.emulator.spelling import SPACE, TYPE, Target

TABLE = "table: .branchtargets END;"
BEFORE = ".func nothing() { ret; }"
AFTER = "END:"


def declarations(target: Target) -> str:
    """Registers and variables that the operands name."""
    wide = ".reg .b128 %q<9>; " if target.version >= (8, 3) and target.number >= 70 else ""
    return (
        ".reg .pred %p<9>; .reg .b8 %b<9>; .reg .b16 %h<40>; .reg .b32 %r<140>; .reg .f32 %f<40>; .reg .b64 %rd<40>; "
        f".reg .f64 %fd<40>; {wide}.param .b64 slot;"
    )


# The widths of types that are not in their name.
_BITS = {"pred": 1, "bf16x2": 32, "f16x2": 32, "f32x2": 64, "tf32": 32, "ue8m0": 8, "e2m1x4": 16}


def bits(type_: str) -> int:
    """Bits of a PTX type: of its register, at least 16."""
    if type_ in _BITS:
        return _BITS[type_]
    if packed := re.match(r"(?:s|u|ue|e)(\d+)(?:m\d)?x(\d)$", type_):
        width = int(packed.group(1)) if type_[0] in "su" and type_[1] != "e" else 8
        return max(16, width * int(packed.group(2)))
    return max(16, int(re.search(r"\d+", type_).group()))  # type: ignore[union-attr]


def register(type_: str, number: int = 1) -> str:
    """A register for a value of this type."""
    if type_ == "pred":
        return f"%p{number % 9}"
    if type_ == "e2m1x2":
        return f"%b{number % 9}"
    if type_ in ("f32", "f64"):
        return f"%f{'d' if type_ == 'f64' else ''}{number % 40}"
    return {
        16: f"%h{number % 40}",
        32: f"%r{number % 140}",
        64: f"%rd{number % 40}",
        128: f"%q{number % 9}",
    }.get(bits(type_), f"%r{number % 140}")


def _group(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _address(words: list[str], where: int = 0) -> str:
    spaces = [word for word in words if SPACE.match(word)]
    space = spaces[where] if where < len(spaces) else ""
    return "[%r8]" if space.startswith("shared") else "[%rd8]"


_WMMA = {
    "f16": (8, 8, 8), "bf16": (4, 8, 2), "s8": (2, 4, 1), "u8": (2, 4, 1), "tf32": (4, 4, 4), "f64": (1, 1, 1),
    "s4": (1, 1, 1), "u4": (1, 1, 1), "b1": (1, 1, 1),
}  # fmt: skip


def _wmma(rest: list[str], types: list[str]) -> str | None:
    """Fragments: A and B of m16n16, m32n8 and m8n32, in this order and its reverse."""
    shape = next((word for word in rest if re.match(r"m\d+n\d+k\d+$", word)), None)
    if shape is None or not types:
        return None
    at = {"m32n8k16": 1, "m8n32k16": 2}.get(shape, 0)

    def fragment(which: str, type_: str, first: int) -> str:
        if which in ("c", "d"):
            count = 2 if shape.startswith("m8n8") else 4 if type_ == "f16" else 8
            kind = {"f32": "f", "f64": "fd"}.get(type_, "r")
        else:
            count = _WMMA.get(type_, (1, 1, 1))[at if which == "a" else -at % 3]
            kind = "fd" if type_ == "f64" else "r"
        return _group([f"%{kind}{first + k}" for k in range(count)])

    which = next((word for word in rest if word in ("a", "b", "c", "d")), "")
    if "load" in rest:
        return f"{fragment(which, types[-1], 1)}, [%rd8], %r3"
    if "store" in rest:
        return f"[%rd8], {fragment('d', types[-1], 1)}, %r3"
    of_a, of_b = (types[1], types[2]) if len(types) == 4 else ("f16", "f16")
    parts = (("d", types[0], 1), ("a", of_a, 10), ("b", of_b, 20), ("c", types[-1], 1))
    return ", ".join(fragment(*part) for part in parts)


def operands(opcode: str) -> str | None:
    """The operands to write after `opcode`, None when its base has no entry here."""
    words = opcode.split(".")
    base, rest = words[0], words[1:]
    types = [word for word in rest if TYPE.match(word)]
    vector = next((int(word[1:]) for word in rest if re.match(r"v\d$", word)), 1)
    type_ = types[-1] if types else "b32"
    if (of_mine := _arithmetic(base, rest, types)) is not None:
        return of_mine
    if base == "wmma":
        return _wmma(rest, types)
    if base == "wgmma":
        return _wgmma(rest, types)
    hint = ", %rd9" if "L2::cache_hint" in rest else ""
    if base in ("add", "sub", "fma") and len(types) == 2:  # the addend has the type of the result
        return ", ".join(
            [
                register(types[0], 1),
                *(register(types[1], k) for k in range(2, _COUNTS[base])),
                register(types[0], 8),
            ]
        )
    if base in _COUNTS:
        return ", ".join(register(type_, k) for k in range(_COUNTS[base]))
    if base in ("mul", "mad"):
        wide = register(type_[0] + str(2 * bits(type_)), 1) if "wide" in rest else register(type_, 1)
        last = [wide] if base == "mad" else []
        return ", ".join([wide, register(type_, 2), register(type_, 3), *last])
    if base in ("shl", "shr"):
        return f"{register(type_, 1)}, {register(type_, 2)}, %r3"
    if base in ("popc", "clz"):
        return f"%r1, {register(type_, 2)}"
    if base == "redux":
        return f"{register(type_, 1)}, {register(type_, 2)}, %r3"
    if base == "match":
        return f"%r1{'|%p1' if 'all' in rest else ''}, {register(type_, 2)}, %r3"
    if base == "lop3":
        return "%r1|%p1, %r2, %r3, %r4, 5, %p2" if {"and", "or"} & set(rest) else "%r1, %r2, %r3, %r4, 5"
    if base == "setp":
        tail = ", %p3" if {"and", "or", "xor"} & set(rest) else ""
        pair = "|%p4" if type_ in ("f16x2", "bf16x2") else ""
        return f"%p1{pair}, {register(type_, 2)}, {register(type_, 3)}{tail}"
    if base == "set":
        tail = ", %p3" if {"and", "or", "xor"} & set(rest) else ""
        return f"{register(types[0], 1)}, {register(types[1], 2)}, {register(types[1], 3)}{tail}"
    if base in ("vabsdiff2", "vabsdiff4"):
        return "%r1, %r2, %r3, %r4"
    if base == "selp":
        return f"{register(type_, 1)}, {register(type_, 2)}, {register(type_, 3)}, %p1"
    if base == "cvt" and "pack" in rest:
        return "%r1, %r2, %r3" + (", %r4" if "b32" in rest else "")
    if base == "cvt" and "rs" in rest:
        sources = "{%f1, %f2, %f3, %f4}" if types[0].endswith("x4") else "%f1, %f2"
        return f"{register(types[0], 1)}, {sources}, %r2"
    if base == "cvt":
        if len(types) != 2:
            return f"{register(type_, 1)}, {register(type_, 2)}"
        two = types[0].endswith("x2") and not types[1].endswith("x2")
        return ", ".join(
            [register(types[0], 1), register(types[1], 2), *([register(types[1], 3)] if two else [])]
        )
    if (
        base in ("st", "red") and "async" in rest and "mbarrier::complete_tx::bytes" not in rest
    ):  # st takes 8-bit registers here
        eight = type_ in ("b8", "u8", "s8")
        return f"[%rd8], {'%b1' if eight else register(type_)}"
    if base == "createpolicy":
        ranged = "[%rd8], %r1, %r2"
        return f"%rd9, {ranged if 'range' in rest else '%rd1' if 'cvt' in rest else '0.5'}"
    if base in ("st", "red") and "async" in rest:
        names = [register(type_, k) for k in range(vector)]
        return f"{_address(rest)}, {_group(names) if vector > 1 else names[0]}, {_address(rest)}"
    if base == "st" and "bulk" in rest:
        return f"{_address(rest)}, %rd4, 0"
    if base in ("ld", "st"):
        names = [register(type_, k) for k in range(vector)]
        value = _group(names) if vector > 1 else names[0]
        spaces = [word for word in rest if word.startswith("param")]
        called = base == "st" or "param::func" in spaces
        address = ("[slot]" if called else "[whole]") if spaces else _address(rest)
        return f"{value}, {address}{hint}" if base == "ld" else f"{address}, {value}{hint}"
    if base in ("atom", "red"):
        names = [register(type_, k) for k in range(vector)]
        value = _group(names) if vector > 1 else names[0]
        more = f", {register(type_, 5)}" if "cas" in rest else ""
        return (f"{value}, " if base == "atom" else "") + f"{_address(rest)}, {value}{more}{hint}"
    if base == "getctarank":
        return f"%r1, {register(type_, 2)}"
    if base == "isspacep":
        return "%p1, %rd2"
    if base in ("cvta", "mapa"):
        return f"{register(type_, 1)}, {register(type_, 2)}" + (", %r3" if base == "mapa" else "")
    if base == "prefetch" or base == "prefetchu":
        return "[%rd8]"
    if base in ("applypriority", "discard"):
        return "[%rd8], 128"
    if base in ("bra", "ret", "exit", "trap", "griddepcontrol", "call"):
        return {"bra": "END", "call": "nothing"}.get(base, "")
    if base == "brx":
        return "%r1, table"
    if base == "clusterlaunchcontrol":
        if rest[0] == "try_cancel":
            return "[%r8], [%r9]"
        if "is_canceled" in rest:
            return "%p1, %q1"
        return "{%r1, %r2, %r3, _}, %q1" if "v4" in rest else "%r1, %q1"
    if base in ("ldmatrix", "stmatrix"):
        count = next((int(word[1]) for word in rest if re.match(r"x\d$", word)), 1)
        count *= 2 if "m16n16" in rest else 1
        values = _group([f"%r{k + 10}" for k in range(count)])
        return f"{values}, [%r8]" if base == "ldmatrix" else f"[%r8], {values}"
    if base == "movmatrix":
        return "%r1, %r2"
    if base == "mma":
        return _mma(rest, types)
    if base == "setmaxnreg":
        return "64"
    if base == "nanosleep":
        return "%r1"
    if base == "pmevent":
        return "1"
    if base == "elect":
        return "%r1|%p1, %r2"
    if base == "shfl":
        return "%r1|%p1, %r2, %r3, %r4, %r5"
    if base == "vote":
        return f"{register(type_, 1)}, %p2, %r2"
    if base == "activemask":
        return "%r1"
    if base in ("bar", "barrier"):
        if "cluster" in rest:
            return ""
        if "warp" in rest:
            return "%r1"
        if "red" in rest:
            return f"{'%p2' if type_ == 'pred' else '%r2'}, 0, %p1"
        return "0, 64" if "arrive" in rest else "0"
    if base == "mbarrier":
        return _mbarrier(rest)
    if base in ("fence", "membar"):
        return "[%rd8], 128" if "tensormap::generic" in rest and "acquire" in rest else ""
    if base == "cp":
        return _copy(rest, hint)
    if base == "tensormap":
        return _tensormap(rest)
    if base == "tcgen05":
        return _tcgen05(rest)
    return None


def _arithmetic(base: str, rest: list[str], types: list[str]) -> str | None:
    """Instructions whose sources are not all of their last type."""
    type_ = types[-1] if types else "b32"
    d, a, b, c = (register(type_, k) for k in range(1, 5))
    if base in ("min", "max") and type_ == "f32" and "abs" in rest and "xorsign" not in rest:
        return f"{d}, {a}, {b}, {c}"
    if base in ("add", "sub", "fma") and len(types) == 2:
        return f"%f1, {a}, " + (f"{b}, %f4" if base == "fma" else "%f3")
    if base == "mad" and not {"lo", "hi", "wide"} & set(rest):
        return f"{d}, {a}, {b}, {c}"
    if base == "testp":
        return f"%p1, {a}"
    if base == "bfe":
        return f"{d}, {a}, %r3, %r4"
    if base == "bfi":
        return f"{d}, {a}, {b}, %r4, %r5"
    if base == "bfind":
        return f"%r1, {a}"
    if base in ("mad24", "shf", "dp4a", "dp2a", "fns", "sad", "madc", "prmt"):
        return f"{d}, {a}, {b}, {c}"
    if base in ("mul24", "szext", "bmsk", "addc", "subc", "copysign"):
        return f"{d}, {a}, {b}"
    if base == "setp" and type_.endswith("x2"):
        return f"%p1|%p2, {a}, {b}" + (", %p3" if {"and", "or", "xor"} & set(rest) else "")
    if base in ("sin", "cos", "tanh", "cnot"):
        return f"{d}, {a}"
    return None


_COUNTS = {
    "add": 3, "sub": 3, "div": 3, "rem": 3, "min": 3, "max": 3, "neg": 2, "abs": 2, "fma": 4, "ex2": 2, "lg2": 2, "rsqrt": 2,
    "sqrt": 2, "rcp": 2, "and": 3, "or": 3, "xor": 3, "not": 2, "brev": 2, "prmt": 4, "mov": 2,
}  # fmt: skip


def _wgmma(rest: list[str], types: list[str]) -> str | None:
    if "mma_async" not in rest:
        return "0" if "wait_group" in rest else ""
    shape = next((found for word in rest if (found := re.fullmatch(r"m64n(\d+)k(\d+)", word))), None)
    if not shape or len(types) != 3:
        return None
    count = min(int(shape.group(1)), 256) // (4 if types[0] == "f16" else 2)
    metadata = ["%r130", "0"] if "sp" in rest else []
    # Signs of A and B, and their majors, which only 16-bit elements have.
    scales = [] if types[0] == "s32" else ["1", "1", *["0", "0"] * (types[1] in ("f16", "bf16"))]
    return ", ".join([_group([f"%r{i}" for i in range(count)]), "%rd1", "%rd2", *metadata, "%p1", *scales])


def _mma(rest: list[str], types: list[str]) -> str | None:
    shape = next(
        (re.fullmatch(r"m(\d+)n8k(\d+)", word) for word in rest if word.startswith(("m1", "m8"))),
        None,
    )
    if not shape or len(types) != 4:
        return None
    rows, k = int(shape.group(1)), int(shape.group(2))
    result, a = types[0], types[1]
    digits = re.search(r"\d+", a)
    assert digits is not None
    width = {"tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "u4": 4, "s4": 4, "b1": 1}.get(a) or int(
        digits.group()
    )
    per = 32 * max(1, 32 // width)
    names = "%fd" if a == "f64" else "%r"
    sums = {"f64": "%fd", "f32": "%f"}.get(result, "%r")
    many = rows * 8 // (64 if result == "f16" else 32)
    groups = [(sums, many, 0), (names, rows * k // per, 4), (names, 8 * k // per, 20), (sums, many, 8)]
    return ", ".join(_group([f"{n}{first + i}" for i in range(c)]) for n, c, first in groups)


def _mbarrier(rest: list[str]) -> str:
    address = _address(rest)
    if rest[0] == "init":
        return f"{address}, 1"
    if rest[0] == "inval":
        return address
    if rest[0] == "pending_count":
        return "%r1, %rd1"
    if rest[0] in ("expect_tx", "complete_tx"):
        return f"{address}, 16"
    if rest[0] in ("try_wait", "test_wait"):
        return f"%p1, {address}, {'%r2' if 'parity' in rest else '%rd2'}"
    if not {"expect_tx", "release", "relaxed", "noComplete", "shared::cluster"} & set(rest):
        return f"%rd3, {address}"
    state = "%rd3" if "noComplete" in rest else "_"
    return f"{state}, {address}, 16"


def _tensormap(rest: list[str]) -> str:
    if "replace" not in rest:
        return "[%rd8], [%r8], 128"
    indexed = {"box_dim", "global_dim", "global_stride", "element_stride"} & set(rest)
    ordinal = ", 0" if indexed else ""
    if {"elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"} & set(rest):
        return f"{_address(rest)}, 0"
    return f"{_address(rest)}{ordinal}, {'%rd2' if 'b64' in rest else '%r2'}"


def _copy(rest: list[str], hint: str) -> str | None:
    if "commit_group" in rest:
        return ""
    if "wait_group" in rest:
        return "0"
    if "wait_all" in rest:
        return ""
    if "bulk" not in rest:
        return _address(rest) if "arrive" in rest else f"[%r8], [%rd8], 16{hint}"
    spaces = [word for word in rest if SPACE.match(word)]
    loads = bool(spaces) and spaces[0].startswith("shared")
    if "tensor" in rest:
        dimensions = next((int(word[0]) for word in rest if re.match(r"\dd$", word)), 1)
        count = 5 if {"tile::gather4", "tile::scatter4"} & set(rest) else dimensions
        coordinates = _group([f"%r{k + 10}" for k in range(count)])
        offsets = ", " + _group([f"%h{k + 2}" for k in range(dimensions - 2)]) if "im2col" in rest else ""
        if "prefetch" in rest:
            return f"[%rd8, {coordinates}]{offsets}{hint}"
        if loads:
            hint = ("" if "multicast::cluster" not in rest else ", %h1") + hint
            return f"[%r8], [%rd8, {coordinates}], [%r9]{offsets}{hint}"
        return f"[%rd8, {coordinates}], [%r8]{hint}"
    if "prefetch" in rest:
        return f"[%rd8], %r6{hint}"
    if "multicast::cluster" in rest:
        hint = f", %h1{hint}"
    if "cp_mask" in rest:
        hint += ", %h1"
    source = "%rd8" if "global" in spaces[1:] else "%r8"
    barrier = ", [%r9]" if "mbarrier::complete_tx::bytes" in rest else ""
    return f"[{'%r7' if loads else '%rd7'}], [{source}], %r6{barrier}{hint}"


def _tcgen05(rest: list[str]) -> str | None:
    kind = rest[0]
    if kind == "alloc":
        return "[%r8], 32"
    if kind == "dealloc":
        return "%r8, 32"
    if kind in ("ld", "st"):
        count = next((int(word[1:]) for word in rest if re.match(r"x\d+$", word)), 1)
        shape = next((word for word in rest if re.match(r"\d+x\d+b", word)), "32x32b")
        many = count * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
        second = ", 8" if shape == "16x32bx2" else ""
        values = _group([f"%r{k + 10}" for k in range(many)])
        reduced = ", %r5" if "red" in rest else ""
        return f"{values}{reduced}, [%r8]{second}" if kind == "ld" else f"[%r8]{second}, {values}"
    if kind == "mma" and "block_scale" in rest:
        return "[%r8], %rd1, %rd2, %r9, [%r6], [%r7], %p1"
    if kind == "mma" and "ashift" in rest:
        return "[%r8], [%r6], %rd2, %r9, %p1"
    if kind == "mma":
        return f"[%r8], %rd1, %rd2, {'[%r7], ' if 'sp' in rest else ''}%r9, %p1"
    if kind == "commit":
        return "[%r8]" + (", %h1" if "multicast::cluster" in rest else "")
    if kind == "cp":
        return "[%r8], %rd1"
    if kind == "shift":
        return "[%r8]"
    if kind.startswith(("wait", "fence", "relinquish")):
        return ""
    return None
