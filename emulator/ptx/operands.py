"""Reads literals and operands (PTX ISA 4.5, 6.4)."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from tileproof.emulator.ptx.syntax import IDENTIFIER, Address, Immediate, Name, Operand, Pair, Sink, Vector

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?$")
_FLOAT_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})$|0[dD]([0-9a-fA-F]{16})$")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")


def parse_number(text: str) -> Immediate:
    """A PTX literal (PTX ISA 4.5); raises ValueError for other text."""
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


# Operators of a constant expression by precedence (PTX ISA 4.5.5, table 5); unary operators bind tighter.
_OPERATORS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"),
    ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+U?|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%~!<>&^|()])"
)
_EXPRESSION = re.compile(r"[-+~!(\s]*[0-9][0-9a-fA-FxXU\s()+\-*/%~!<>&^|=]*$")
DEEPEST = 64  # parentheses and braces inside one another; PTX itself needs few


def parse_expression(text: str) -> Immediate:
    """A constant integer expression; raises ValueError for other text, or if nested too deep."""
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise ValueError(text)
        tokens.append(match.group(1))
        at = match.end()
    tokens.reverse()

    def unary(depth: int) -> int:
        if depth > DEEPEST or not tokens:
            raise ValueError("a constant expression is nested too deep, or ends early")
        token = tokens.pop()
        if token == "(":
            value = binary(0, depth + 1)
            if not tokens or tokens.pop() != ")":
                raise ValueError(text)
            return value
        if token in "+-~!":
            value = unary(depth + 1)
            return {"+": value, "-": -value, "~": ~value, "!": int(not value)}[token]
        return parse_number(token).value

    def binary(level: int, depth: int) -> int:
        if level == len(_OPERATORS):
            return unary(depth)
        left = binary(level + 1, depth)
        while tokens and tokens[-1] in _OPERATORS[level]:
            operator = tokens.pop()
            left = _apply(operator, left, binary(level + 1, depth))
        return left

    value = binary(0, 0)
    if tokens:
        raise ValueError(text)
    return Immediate(value)


def _apply(operator: str, a: int, b: int) -> int:
    if operator in ("/", "%"):
        if not b:
            raise ValueError("a division by zero")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if operator == "/" else a - quotient * b
    if operator in ("<<", ">>"):
        return _wrap(a << (b & 63)) if operator == "<<" else a >> (b & 63)
    if operator in ("&&", "||"):
        return int(bool(a) and bool(b)) if operator == "&&" else int(bool(a) or bool(b))
    simple = {
        "+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b, "==": int(a == b),
        "!=": int(a != b), "<": int(a < b), ">": int(a > b), "<=": int(a <= b), ">=": int(a >= b),
    }  # fmt: skip
    return _wrap(simple[operator])


def _wrap(value: int) -> int:
    """Constants have 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63) if not 0 <= value < 1 << 64 else value


_NAME = re.compile(rf"(!?)\s*({IDENTIFIER})\s*(?:([+-])\s*([0-9xXa-fA-F]+))?$")


_BRACKETS = frozenset("{[()]}")


def split_operands(text: str) -> list[str]:
    """Splits at the commas outside braces, brackets and parentheses."""
    if _BRACKETS.isdisjoint(text):
        return [part for part in map(str.strip, text.split(",")) if part]
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "{[(":
            depth += 1
            if depth > DEEPEST:
                raise ValueError("nested too deep")
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


# A base and an expression of more than one term; a single number is the common case below.
_DISPLACED = re.compile(rf"({IDENTIFIER})\s*\+\s*([0-9(~!][^\[\]{{}}]*[-+*/%<>&^|()][^\[\]{{}}]*)$")


def _wrapped(text: str) -> bool:
    """Whether the first parenthesis closes at the end: then it is a list of arguments."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return index == len(text) - 1
    return False


def _address(text: str) -> Address:
    """`[base]` or `[base, {coordinates}]`; raises ValueError when it cannot be read."""
    parts = split_operands(text[1:-1])
    coordinates: tuple[Operand, ...] = ()
    if len(parts) == 2 and parts[1].startswith("{"):
        coordinates = tuple(parse_operand(part) for part in split_operands(parts[1][1:-1]))
    elif len(parts) != 1:
        raise ValueError(text)
    displaced = _DISPLACED.match(parts[0])
    if displaced:
        return Address(displaced.group(1), parse_expression(displaced.group(2)).value, coordinates)
    base = parse_operand(re.sub(r"\+\s*-", "-", parts[0]))
    if isinstance(base, Immediate):
        return Address(None, base.value, coordinates)
    if isinstance(base, Name) and not base.negated:
        return Address(base.name, base.offset, coordinates)
    raise ValueError(text)


@lru_cache(maxsize=2**14)  # a kernel names a register in several instructions
def parse_operand(text: str) -> Operand:
    """One operand; raises ValueError when it cannot be read."""
    first = text[0]
    if text == "_":
        return Sink()
    if text == "WARP_SZ":
        return Immediate(32)
    if first == "{" and text[-1] == "}":
        return Vector(tuple(parse_operand(part) for part in split_operands(text[1:-1])))
    if first == "[" and text[-1] == "]":
        return _address(text)
    if first in "0123456789+-~!." and _EXPRESSION.match(text):
        try:
            return parse_number(text)
        except ValueError:
            return parse_expression(text)
    if first == "(" and _EXPRESSION.match(text) and not _wrapped(text):
        return parse_expression(text)
    if text.count("|") > 1:
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
