"""PTX without source places and names of the compiler's run, to compare two builds."""

from __future__ import annotations

import re
from collections import Counter

_PLACES = re.compile(r"^\s*(\.loc\b.*|\.file\b.*)$", re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\b[^{]*\{.*?^\s*\}", re.MULTILINE | re.DOTALL)
# nvcc names what has internal linkage after a number of its own for each run, and after the source's text.
_RUN = re.compile(r"(?<=_INTERNAL_)[0-9a-f]{8}(?=_)|(?<=_GLOBAL__N__)[0-9a-f]{8}(?=_)")
_FOLDER = re.compile(r'^(\s*\.file\s+\d+\s+")/[^"]*/', re.MULTILINE)
_TEXT = re.compile(r"(?<=_cu_)[0-9a-f]{8}")
_GLOBAL = re.compile(r"^\.global\b.*?\s([\w$]+)(?:\[\d*\])?;\n", re.MULTILINE)


def without_run(ptx: str) -> str:
    """A PTX text without the numbers of the compiler's run in its names, without the debug sections, which
    spell those names byte by byte, and without the folders in which headers that are not ours were installed.
    """
    return _RUN.sub("0" * 8, _FOLDER.sub(r"\1", _SECTION.sub("", ptx)))


def without_numbers(ptx: str) -> str:
    """A PTX text, line by line the same, without the numbers of the compiler's run and of the source's text
    in its names.
    """
    return _TEXT.sub("0" * 8, _RUN.sub("0" * 8, ptx))


def without_places(ptx: str) -> str:
    """And without `.loc`, `.file`, the number of the source's text, and globals without a value that nothing
    names, as headers leave them.
    """
    bare = _TEXT.sub("0" * 8, without_run(_PLACES.sub("", ptx)))
    gone = unnamed(bare)
    return _GLOBAL.sub(lambda found: "" if found[1] in gone else found[0], bare)


def unnamed(ptx: str) -> frozenset[str]:
    """The globals without a value that nothing names."""
    words = Counter(re.findall(r"[\w$]+", ptx))
    return frozenset(name for name in _GLOBAL.findall(ptx) if words[name] == 1)


def instructions(ptx: str) -> list[str]:
    """The lines of `without_places`, without labels of places, braces of scopes, and what inline assembly has
    of white space and comments: two texts that agree in it are the same code.
    """
    texts = (" ".join(re.sub(r"//.*", "", line).split()) for line in without_places(ptx).splitlines())
    return [text for text in texts if text not in ("", "{", "}") and not text.startswith("$L__tmp")]


def on_first_lines(ptx: str) -> str:
    """The PTX with each instruction that spans lines on its first line, and blank lines in place of the rest:
    ptxas notes the line on which an instruction ends, the emulator the line on which it begins.
    """
    out: list[str] = []
    begun = -1  # the line of an instruction that has not ended
    for line in ptx.splitlines():
        code = line.split("//")[0].strip()
        out.append(line)
        if begun >= 0:
            out[begun], out[-1] = f"{out[begun].split('//')[0].rstrip()} {code}", ""
        elif code and code[0] not in ".{}()" and not code.endswith((";", ":", "{", "}")):
            begun = len(out) - 1
        begun = -1 if code.endswith((";", "{", "}")) else begun
    return "\n".join(out) + "\n"


def target_of(ptx: str) -> str:
    """The `.target` of a module, empty when it has none."""
    stated = (line.split()[1] for line in ptx.splitlines() if line.startswith(".target"))
    return next(stated, "").rstrip(",")
