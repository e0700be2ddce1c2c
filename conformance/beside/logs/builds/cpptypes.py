"""Parses C++ types as compilers print them in template instantiation trails.

Tolerant: text that ends early, or that is not a type, gives the understood part, marked `cut`. Source
of the spellings: output of nvcc 12 and 13 (EDG), g++ and clang for CuTe programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_DEPTH = 120  # CuTe types nest a few tens deep; deeper text is skipped as a whole

_TOKEN = re.compile(
    r"\s+|<auto-\d+>|<(?:error-type|error-constant|unnamed[^<>]*|unnamed>|lambda[^<>]*)>|\{lambda[^{}]*\}"
    r"|\"[^\"]*\"|'[^']*'|::|->|\.\.\.|[A-Za-z_~$][\w$]*|\d[\w.']*|."
)
_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = frozenset(")]}>")


@dataclass(frozen=True)
class Type:
    """A type, value or pack: `name` without template arguments, `args` those, `tail` what follows (`*`, `&`).

    A pack has the name "". `cut`: the text ended, or could not be followed, inside it. `cast`: the type of a
    value that is written `(type)value`.
    """

    name: str
    args: tuple[Type, ...] = ()
    tail: str = ""
    cut: bool = False
    cast: str = ""

    @property
    def base(self) -> str:
        """The name without its namespaces."""
        return self.name.rsplit("::", 1)[-1]

    def walk(self) -> Iterator[Type]:
        """This type and all inside it, outermost first."""
        stack = [self]
        while stack:
            part = stack.pop()
            yield part
            stack.extend(reversed(part.args))

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.args)) + (" ..." if self.cut else "")
        text = (
            f"{self.name}<{inner}>" if self.args or not self.name else self.name + ("..." if self.cut else "")
        )
        return text + (f" {self.tail}" if self.tail else "")


@dataclass
class _Tokens:
    """The tokens of a text with positions, without spaces."""

    items: list[str]
    at: int = 0

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def skip_balanced(self) -> str:
        """What lies between the bracket here and its partner, both passed."""
        closers, start = [_OPEN.get(self.next(), ">")], self.at
        while closers and self.at < len(self.items):
            token = self.next()
            if token == closers[-1]:
                closers.pop()
            elif token in _OPEN:
                closers.append(_OPEN[token])
        end = self.at - 1 if not closers else self.at
        return " ".join(self.items[start:end])


def parse(text: str) -> Type:
    """The type that `text` spells; what follows it is ignored."""
    tokens = _tokens(text)
    found = _type(tokens, 0)
    return replace(found, cut=True) if tokens.at < len(tokens.items) and not found.name else found


def bindings(text: str) -> dict[str, Type]:
    """The template arguments of `A=type, B=<pack>, ...`, the inside of a compiler's `[with ...]`.

    g++ writes `A = type; B = {pack}`. The first of two equal names counts.
    """
    tokens = _tokens(text)
    found: dict[str, Type] = {}
    while tokens.at < len(tokens.items):
        name = tokens.next()
        if not re.fullmatch(r"[A-Za-z_$][\w$]*|<auto-\d+>", name):
            continue
        if tokens.peek() == "...":
            tokens.next()
        if tokens.peek() != "=":
            continue
        tokens.next()
        if tokens.peek() in ("<", "{"):
            close = ">" if tokens.next() == "<" else "}"
            args, cut = _arguments(tokens, 1, close)
            value = Type("", args, cut=cut)
        else:
            value = _type(tokens, 0)
        found.setdefault(name, value)
    return found


def _tokens(text: str) -> _Tokens:
    return _Tokens([token for token in _TOKEN.findall(text) if not token.isspace()])


_STOP = frozenset({",", ";", ">", ")", "]", "}", "="})
_QUALIFIERS = frozenset(
    {"const", "volatile", "class", "struct", "enum", "typename", "__restrict__", "__restrict"}
)
_POINTER = frozenset({"*", "&", "...", "^"})


def _type(tokens: _Tokens, depth: int) -> Type:
    words: list[str] = []
    args: tuple[Type, ...] = ()
    tail: list[str] = []
    cut, cast = False, ""
    while tokens.at < len(tokens.items) and tokens.peek() not in _STOP:
        token = tokens.peek()
        if token == "<" and words:
            tokens.next()
            args, more = _arguments(tokens, depth + 1, ">")
            cut = cut or more
        elif token in _OPEN:
            inside = tokens.skip_balanced()
            if words:  # decltype(...), a function's parameters, an array's extent
                words.append(f"({inside})" if token == "(" else f"[{inside}]")
            else:
                cast = inside
        elif token in _QUALIFIERS:
            tokens.next()
        elif token in _POINTER:
            tail.append(tokens.next())
        else:
            words.append(tokens.next())
    if tokens.at >= len(tokens.items) and depth > 0:
        cut = True
    return Type(_joined(words), args, " ".join(tail), cut, cast)


def _joined(words: list[str]) -> str:
    text = ""
    for word in words:
        space = text and text[-1:].isalnum() and (word[:1].isalnum() or word[:1] == "_")
        text += (" " if space else "") + word
    return text


def _arguments(tokens: _Tokens, depth: int, close: str) -> tuple[tuple[Type, ...], bool]:
    """The arguments up to `close`, which is passed, and whether the text ended before it."""
    found: list[Type] = []
    if depth > MAX_DEPTH:
        nesting = 1
        while nesting and tokens.at < len(tokens.items):
            token = tokens.next()
            nesting += (token == "<") - (token == ">")
        return (), True
    while tokens.at < len(tokens.items):
        token = tokens.peek()
        if token == close:
            tokens.next()
            return tuple(found), False
        if token in (",", ";", "="):
            tokens.next()
        elif token in _CLOSE:
            return tuple(found), True
        else:
            found.append(_type(tokens, depth))
    return tuple(found), True
