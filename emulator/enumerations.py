"""Enumerations shared with the engine: waits, events, state spaces, formats. A word's index is its number.

A file of `emulator/` or `emulator/isa/` declares an enumeration at module level, with literals or an alias of
`Literal`:

    MODES = enumeration("TensorMode", "tile four im2col")

and uses the returned tuple. The build reads the same line without importing the file and generates
`enumerations/<file>.hpp` with `enum class TensorMode : int32_t { Tile, Four, Im2col }`, so that every list is
written once. `names` gives the C++ names where they differ from the words.

The build runs this module, so it imports only the standard library.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, overload

_TYPES = {8: "uint8_t", 32: "int32_t"}


@dataclass(frozen=True)
class Enumeration:
    """An enumeration: its words, its enumerators in C++, and the bits of its type."""

    enum: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    bits: int
    spelled: bool = False


ENUMERATIONS: dict[str, Enumeration] = {}


@overload
def enumeration(
    enum: str, words: str | tuple[str, ...], *, names: str = "", bits: int = 32, spelled: bool = False
) -> tuple[str, ...]: ...
@overload
def enumeration(
    enum: str, words: object, *, names: str = "", bits: int = 32, spelled: bool = False
) -> tuple[Any, ...]: ...
def enumeration(
    enum: str, words: Any, *, names: str = "", bits: int = 32, spelled: bool = False
) -> tuple[Any, ...]:
    """Declare the words of `enum` in order: a string separated by blanks, a tuple, or a `Literal`. With
    `spelled` the header also contains the words, as `kEnumWords`. ValueError for an inconsistent declaration.
    """
    found = tuple(words.split()) if isinstance(words, str) else words
    found = found if isinstance(found, tuple) else get_args(found)
    made = Enumeration(enum, found, tuple(names.split()) or tuple(map(enumerator, found)), bits, spelled)
    if not found or len(set(found)) != len(found):
        raise ValueError(f"the words of {enum} are not distinct, or missing")
    if len(made.names) != len(found) or len(set(made.names)) != len(found):
        raise ValueError(f"the enumerators of {enum} do not fit its words")
    if bits not in _TYPES or len(found) > 1 << (bits - 1):
        raise ValueError(f"{enum} does not fit {bits} bits")
    if ENUMERATIONS.get(enum, made) != made:
        raise ValueError(f"{enum} is declared twice")
    ENUMERATIONS[enum] = made
    return made.words


def enumerator(word: str) -> str:
    """The C++ name of a PTX word: `%tid.x` TidX, `shared::cta` SharedCta, `32x32b` k32x32b, "" None."""
    joined = "".join(part[0].upper() + part[1:] for part in re.split(r"[\W_]+", word) if part)
    return f"k{joined}" if joined[:1].isdigit() else joined or "None"


def declared(file: Path) -> list[Enumeration]:
    """Return the declarations in a file, without importing it."""
    found: list[Enumeration] = []
    aliases: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(file.read_text()).body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Literal":
            words = ast.literal_eval(value.slice)
            for target in getattr(node, "targets", []):
                aliases[target.id] = words if isinstance(words, tuple) else (words,)
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == "enumeration"
        ):
            enum, given = value.args
            words = aliases[given.id] if isinstance(given, ast.Name) else ast.literal_eval(given)
            options = {k.arg: ast.literal_eval(k.value) for k in value.keywords if k.arg}
            enumeration(ast.literal_eval(enum), words, **options)
            found.append(ENUMERATIONS[ast.literal_eval(enum)])
    return found


def generate(folders: Iterable[Path], into: Path) -> None:
    """Write one header for each file with declarations. An unchanged header keeps its time stamp."""
    into.mkdir(parents=True, exist_ok=True)
    written: set[str] = set()
    for file in sorted(path for folder in folders for path in folder.glob("*.py")):
        found = declared(file)
        if found:
            header = f"{file.stem}.hpp"
            if header in written:
                raise ValueError(f"two files would write {header}")
            written.add(header)
            text = _header(file.name, found)
            if not (into / header).exists() or (into / header).read_text() != text:
                (into / header).write_text(text)
    for stale in into.glob("*.hpp"):
        if stale.name not in written:
            stale.unlink()


def _header(source: str, found: list[Enumeration]) -> str:
    lines = [
        f"// Generated from {source} by emulator/enumerations.py.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
    ]
    lines.append("namespace tileproof {")
    for made in found:
        lines.append(f"enum class {made.enum} : {_TYPES[made.bits]} {{ {', '.join(made.names)} }};")
        if made.spelled:
            words = ", ".join(f'"{word}"' for word in made.words)
            lines.append(f"inline constexpr const char* k{made.enum}Words[] = {{{words}}};")
    return "\n".join([*lines, "}  // namespace tileproof", ""])


if __name__ == "__main__":
    *given, target = map(Path, sys.argv[1:])
    generate(given, target)
