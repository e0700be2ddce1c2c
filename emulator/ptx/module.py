"""Reads the module level of PTX text: entries, variables, files (PTX ISA 5, 11).

Entry bodies are skipped here and parsed when an entry is launched: a module of library code holds far more
text than its kernel.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np
from tileproof.emulator.errors import PtxError
from tileproof.emulator.ptx.operands import parse_number
from tileproof.emulator.ptx.syntax import (
    IDENTIFIER,
    TYPE_BYTES,
    Entry,
    Function,
    Immediate,
    Parameter,
    PtxModule,
    Variable,
    alignment,
    fail,
)
from tileproof.emulator.spelling import Target

# What one module-level variable may take here; device memory is larger, a host's need not be.
MAX_VARIABLE = 1 << 32


def strip_comments(text: str) -> str:
    """Comments become blanks; line numbers and offsets stay."""

    def blank(match: re.Match[str]) -> str:
        found = match.group(0)
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    return re.sub(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.S)


# The values of the directives that lead a module (PTX ISA 11.1); a `.target` may carry options after commas.
_VALUE = {
    ".version": re.compile(r"\s*(\d+\.\d+)(?![\w.])"),
    ".target": re.compile(r"\s*([A-Za-z]\w*(?:\s*,\s*[A-Za-z]\w*)*)"),
    ".address_size": re.compile(r"\s*(64)(?!\w)"),
}
_EXPECTED = {".version": "MAJOR.MINOR", ".target": "sm_NUMBER, as in sm_100a", ".address_size": "64"}


def _check_target(module: PtxModule, at: int) -> None:
    """A target of PTX, in a version that supports it."""
    try:
        target = Target.of(module.target, module.version)
    except ValueError:
        raise fail(
            module, at, ".target cannot be read (.version comes first)", _EXPECTED[".target"]
        ) from None
    since = target.since
    if since and target.version < since:
        raise fail(
            module,
            at,
            f"PTX {module.version} has no target sm_{target.number}{target.suffix}",
            f".version {since[0]}.{since[1]} or newer",
        )


_TOP = re.compile(r"\s*(\.[a-z_]+|;)")
_BRACE = re.compile(r"[{}]")


_DIGITS = re.compile(r"\d{600}")  # Python converts no more than that on any setting


def parse_module(text: str) -> PtxModule:
    """The module's entries and variables; raises `PtxError` with line and token."""
    if not isinstance(text, str):
        raise PtxError(
            "PTX is text",
            expected="a str",
            found=f"{type(text).__name__}",
            do="decode bytes, or give the path to Module.from_file",
        )
    module = PtxModule(strip_comments(text))
    text = module.text
    if digits := _DIGITS.search(text):
        raise fail(module, digits.start(), "a number has too many digits", "fewer than 600 digits")
    at, end = 0, len(text.rstrip().rstrip("\0"))
    while at < end:
        match = _TOP.match(text, at)
        if not match:
            raise fail(
                module, at, "this is not a PTX directive", "a directive such as .version, .entry or .global"
            )
        read = _DIRECTIVES.get(match.group(1))
        if read is None:
            raise fail(module, match.start(1), f"unknown directive {match.group(1)}")
        at = read(module, match.end(), match.group(1))
    for word, value in ((".version", module.version), (".target", module.target)):
        if not value:
            raise PtxError(
                f"the text has no {word} directive",
                where="line 1",
                expected=f"{word} {_EXPECTED[word]}",
                found=repr(text.strip()[:40]),
                do="give PTX text, as nvcc -ptx writes it",
            )
    return module


def _value(module: PtxModule, at: int, word: str) -> int:
    """`.version`, `.target` or `.address_size`."""
    given = _VALUE[word].match(module.text, at)
    if not given:
        raise fail(module, at, f"{word} cannot be read", _EXPECTED[word])
    if word == ".version":
        module.version = given.group(1)
    elif word == ".target":
        module.target = given.group(1)
        _check_target(module, given.start(1))
    return given.end()


def _file(module: PtxModule, at: int, word: str) -> int:
    found = re.compile(r'\s*(\d+)\s+"((?:[^"\\]|\\.)*)"[^\n]*').match(module.text, at)
    if not found:
        raise fail(module, at, ".file cannot be read", '.file NUMBER "PATH"')
    module.files[int(found.group(1))] = found.group(2)
    return found.end()


def _statement_end(module: PtxModule, at: int) -> int:
    """The offset after the next ';'."""
    end = module.text.find(";", at)
    if end < 0:
        raise fail(module, at, "a statement has no ';'", "';'")
    return end + 1


def _bits(value: Immediate, type_: str) -> int:
    """The bits of an initialiser for a variable of PTX type `type_`."""
    if type_ in ("f32", "f64"):
        number = float(value.value)
        if value.float_bits:
            code = "<If" if value.float_bits == 32 else "<Qd"
            number = struct.unpack("<" + code[2], struct.pack(code[:2], value.value))[0]
        with np.errstate(over="ignore"):
            return (
                int(np.float32(number).view(np.uint32))
                if type_ == "f32"
                else int(np.float64(number).view(np.uint64))
            )
    return value.value


def _matching_brace(module: PtxModule, start: int) -> int:
    """Return the offset after the brace that closes the brace at `start`."""
    if start < 0:
        raise fail(module, len(module.text), "the text ends where '{' was expected")
    depth = 0
    for match in _BRACE.finditer(module.text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    raise PtxError(
        "a '{' is never closed",
        where=f"line {module.line_of(start)}",
        expected="'}'",
        found="the end of the text",
    )


_PARAM = re.compile(
    rf"\s*\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+(?:\.ptr\s*(?:\.[a-z]+\s*)*(?:\.align\s+\d+\s+)?)?"
    rf"({IDENTIFIER})\s*(?:\[(\d+)\])?\s*(,|(?=\)))"
)


def _parameters(module: PtxModule, at: int) -> tuple[tuple[Parameter, ...], int]:
    text = module.text
    opening = re.compile(r"\s*\(").match(text, at)
    if not opening:
        return (), at
    at, found = opening.end(), []
    while not (closing := re.compile(r"\s*\)").match(text, at)):
        match = _PARAM.match(text, at)
        if not match or match.group(2) not in TYPE_BYTES:
            raise fail(module, at, "a kernel parameter cannot be read", ".param [.align N] .TYPE NAME[SIZE]")
        size = TYPE_BYTES[match.group(2)]
        count = int(match.group(4) or 1)
        found.append(Parameter(match.group(3), size * count, alignment(module, at, match.group(1), size)))
        at = match.end()
    return tuple(found), closing.end()


_DIRECTIVE = re.compile(r"\s*\.([a-z]+)((?:\s*\d+\s*,?)*)")


def _entry(module: PtxModule, at: int) -> int:
    text = module.text
    match = re.compile(rf"\s*({IDENTIFIER})").match(text, at)
    if not match:
        raise fail(module, at, ".entry without a name")
    name, line = match.group(1), module.line_of(match.start(1))
    parameters, at = _parameters(module, match.end())
    directives: dict[str, tuple[int, ...]] = {}
    while not (opening := re.compile(r"\s*([{;])").match(text, at)):
        found = _DIRECTIVE.match(text, at)
        if not found:
            raise fail(
                module, at, f"the body of entry {name} does not begin", "'{' or a directive such as .maxntid"
            )
        directives[found.group(1)] = tuple(int(n) for n in re.findall(r"\d+", found.group(2)))
        at = found.end()
    if opening.group(1) == ";":
        return opening.end()
    start = opening.start(1)
    end = _matching_brace(module, start)
    if name in module.entries:
        raise fail(module, match.start(1), f"a second body of entry {name}", "one body")
    module.entries[name] = Entry(name, line, parameters, directives, start, end)
    return end


def _function(module: PtxModule, at: int) -> int:
    """Read the head of a .func. A function without a readable head or body is rejected at its call."""
    text = module.text
    semicolon, brace = text.find(";", at), text.find("{", at)
    if semicolon >= 0 and (brace < 0 or semicolon < brace):
        return semicolon + 1
    end = _matching_brace(module, brace)
    if head := _HEAD.fullmatch(text, at, brace):
        lists = [_arguments(module, at, head.group(k) or "") for k in (1, 3)]
        if lists[0] is not None and lists[1] is not None:
            body = Entry(head.group(2), module.line_of(head.start(2)), lists[1], {}, brace, end)
            module.functions[body.name] = Function(body, lists[0])
    return end


_HEAD = re.compile(
    rf"\s*(?:\.attribute\([^)]*\)\s*)?(?:\(([^)]*)\)\s*)?({IDENTIFIER})\s*(?:\(([^)]*)\)\s*)?(?:\.noreturn\s*)?"
)
_ARGUMENT = re.compile(
    rf"\s*\.(?:param|reg)\s+(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+"
    rf"(?:\.ptr\s*(?:\.[a-z]+\s*)*(?:\.align\s+\d+\s+)?)?({IDENTIFIER})\s*(?:\[(\d+)\])?\s*"
)


def _arguments(module: PtxModule, at: int, text: str) -> tuple[Parameter, ...] | None:
    """The parameters or results of a .func; None unless each is a number of 8 to 64 bits."""
    found = []
    for part in filter(str.strip, text.split(",")):
        match = _ARGUMENT.fullmatch(part)
        if not match or match.group(2) not in TYPE_BYTES:
            return None
        size = TYPE_BYTES[match.group(2)]
        found.append(
            Parameter(
                match.group(3), size * int(match.group(4) or 1), alignment(module, at, match.group(1), size)
            )
        )
    return tuple(found)


_VARIABLE = re.compile(
    rf"\s*(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?\.([a-z0-9]+)\s+({IDENTIFIER})\s*((?:\[\d*\])*)\s*(=|;)"
)


def _variable(module: PtxModule, at: int, space: str) -> int:
    text = module.text
    match = _VARIABLE.match(text, at)
    if not match or match.group(2) not in TYPE_BYTES:
        raise fail(module, at, f"a .{space} variable cannot be read", ".TYPE NAME[SIZE] [= {...}];")
    size = TYPE_BYTES[match.group(2)]
    count = 1
    for extent in re.findall(r"\[(\d*)\]", match.group(4)):
        count *= int(extent or 0)
    if size * count > MAX_VARIABLE:
        raise fail(module, match.start(3), "a variable is too large", f"at most {MAX_VARIABLE} bytes")
    align = alignment(module, at, match.group(1), size)
    data, end, addresses = None, match.end(), []
    if match.group(5) == "=":
        end = _statement_end(module, match.end())
        values = [v.strip() for v in text[match.end() : end - 1].strip().strip("{}").split(",") if v.strip()]
        out = bytearray()
        for value in values:
            try:
                number = parse_number(value)
            except ValueError:
                symbol = re.sub(r"^generic\((.*)\)$", r"\1", value)
                if size != 8 or not re.fullmatch(IDENTIFIER, symbol):
                    raise fail(
                        module,
                        text.find(value, match.end()),
                        "an initialiser cannot be read",
                        "numbers or 64-bit addresses",
                    ) from None
                addresses.append((len(out), symbol))
                number = Immediate(0)
            out += (_bits(number, match.group(2)) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        out += bytes(max(0, size * count - len(out)))
        data, count = out, max(count, len(out) // size)
    name = match.group(3)
    module.variables[name] = Variable(
        name,
        space,
        align,
        size * count,
        data,
        module.line_of(match.start(3)),
        tuple(addresses),
    )
    return end


# What reads a directive: from (module, offset behind it, its word) to the offset behind what belongs to it.
_DIRECTIVES: dict[str, Callable[[PtxModule, int, str], int]] = {
    ".file": _file,
    ".section": lambda module, at, _: _matching_brace(module, module.text.find("{", at)),
    ".entry": lambda module, at, _: _entry(module, at),
    ".func": lambda module, at, _: _function(module, at),
    **dict.fromkeys((".version", ".target", ".address_size"), _value),
    **dict.fromkeys((";", ".visible", ".weak", ".extern", ".common"), lambda module, at, _: at),
    **dict.fromkeys(
        (".global", ".const", ".shared"), lambda module, at, word: _variable(module, at, word[1:])
    ),
    **dict.fromkeys((".pragma", ".alias"), lambda module, at, _: _statement_end(module, at)),
}
