"""Reads literals and operands (PTX ISA 4.5, 6.4)."""

from __future__ import annotations

import re
import struct

from tileproof.emulator.ptx.syntax import IDENTIFIER, Address, Immediate, Name, Operand, Pair, Sink, Vector

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?$")
_FLOAT_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})$|0[dD]([0-9a-fA-F]{16})$")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")


def parse_number(text: str) -> Immediate:
    """A PTX literal (PTX ISA 4.5); raises ValueError when it is none."""
    if match := _INTEGER.match(text):
        digits = match.group(2)
        base = (
            16
            if digits[:2] in ("0x", "0X")
            else 2
            if digits[:2] in ("0b", "0B")
            else 8
            if digits[0] == "0"
            else 10
        )
        value = int(digits[2:] if base in (2, 16) else digits, base)
        return Immediate(-value if match.group(1) == "-" else value)
    if match := _FLOAT_BITS.match(text):
        digits = match.group(1) or match.group(2)
        return Immediate(int(digits, 16), 4 * len(digits))
    if not _DECIMAL.match(text):
        raise ValueError(text)
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)


_NAME = re.compile(rf"(!?)\s*({IDENTIFIER})\s*(?:([+-])\s*([0-9xXa-fA-F]+))?$")


def split_operands(text: str) -> list[str]:
    """Splits at the commas outside braces, brackets and parentheses."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def parse_operand(text: str) -> Operand:
    """One operand; raises ValueError when it cannot be read."""
    first = text[0]
    if text == "_":
        return Sink()
    if first == "{" and text[-1] == "}":
        return Vector(tuple(parse_operand(part) for part in split_operands(text[1:-1])))
    if first == "[" and text[-1] == "]":
        parts = split_operands(text[1:-1])
        coordinates: tuple[Operand, ...] = ()
        if len(parts) == 2 and parts[1].startswith("{"):
            coordinates = tuple(parse_operand(part) for part in split_operands(parts[1][1:-1]))
        elif len(parts) != 1:
            raise ValueError(text)
        base = parse_operand(re.sub(r"\+\s*-", "-", parts[0]))
        if isinstance(base, Immediate):
            return Address(None, base.value, coordinates)
        if isinstance(base, Name) and not base.negated:
            return Address(base.name, base.offset, coordinates)
        raise ValueError(text)
    if "|" in text:
        left, right = text.split("|", 1)
        return Pair(parse_operand(left.strip()), parse_operand(right.strip()))
    if first == "(" and text[-1] == ")":
        inner = text[1:-1].strip()
        return Vector(tuple(parse_operand(part) for part in split_operands(inner)) if inner else ())
    if match := _NAME.match(text):
        offset = parse_number(match.group(4)).value if match.group(4) else 0
        return Name(match.group(2), -offset if match.group(3) == "-" else offset, bool(match.group(1)))
    return parse_number(text)
