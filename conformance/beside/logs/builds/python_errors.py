"""Layout errors of compilers that are written in Python: Triton and Gluon, TileLang, CuTe DSL.

Their text has little information: a message, sometimes with layouts. The explanation restates it and draws
no further conclusion. Sources of the forms: the output of Triton 3.9 and TileLang
0.1.15, and public issues of CUTLASS for CuTe DSL.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tileproof.conformance.beside.logs.builds.cause import BuildCause, ErrorCase
from tileproof.conformance.beside.logs.builds.frames import SourcePlace, number
from tileproof.conformance.beside.logs.builds.messages import MAX_TEXT, Diagnostic

TOOLS = ("triton", "tilelang", "cutedsl")
MAX_LINES = 60

_TRITON = re.compile(r"\btriton\.compiler\.errors\.\w+: at (?P<line>\d+):\d+:\s*$")
_TILELANG = re.compile(
    r"(?:\btvm\.(?:error\.)?\w*Error|\bInternalError): (?P<text>.*(?:[Ll]ayout|Check failed).*)$"
    r"|AssertionError: (?P<gemm>T\.\w+ .*check failed.*)$"
)
_CUTE = re.compile(
    r"^(?:\s*error: |\S*(?:OpError|MLIRError|DSLRuntimeError): (?!.*(?:Verification|creation) failed))"
    r"(?:\"[^\"]*\"\(\"(?P<file>[^\"]+)\":(?P<line>\d+):\d+\): |unknown: )?"
    r"(?P<text>.*(?:'cute|!cute|cute[._]).*)$"
)
_MEMREF = re.compile(r"!cute\.memref<(?P<parts>[^\"<>]*), \"(?P<layout>[^\"]+)\">")
_LAYOUT = re.compile(r"!cute\.layout<\"(?P<layout>[^\"]+)\">")
_PLACE = re.compile(r"^\s*--> (?P<file>.+):(?P<line>\d+):\d+\s*$")


def take(lines: list[str], at: int) -> tuple[Diagnostic, int] | None:
    """The error of such a compiler that begins on line `at`, and the index after its lines, or None."""
    line = lines[at]
    if "rror" not in line:
        return None
    if match := _TRITON.search(line):
        return _triton(lines, at, number(match["line"]))
    if match := _TILELANG.search(line):
        return _tilelang(lines, at, (match["text"] or match["gemm"]).strip())
    if match := _CUTE.search(line):
        place = SourcePlace(match["file"], number(match["line"])) if match["file"] else None
        made = Diagnostic("cutedsl", "error", place, match["text"].strip()[:MAX_TEXT], 0)
        end = at + 1
        while end < len(lines) and end - at < MAX_LINES and re.match(r"\s*note: ", lines[end]):
            made.notes.append(lines[end].strip())
            end += 1
        return made, end
    return None


def _triton(lines: list[str], at: int, row: int) -> tuple[Diagnostic, int]:
    """The source down to the caret, then the message up to an empty line or the next traceback."""
    caret = next(
        (n for n in range(at + 1, min(len(lines), at + MAX_LINES)) if re.fullmatch(r"\s*\^\s*", lines[n])), at
    )
    end, message = caret + 1, []
    while (
        end < len(lines) and lines[end].strip() and not re.match(r"Traceback|nanobind:|\s+File ", lines[end])
    ):
        message.append(lines[end].strip())
        end += 1
    named = next((found[1] for line in lines[at:caret] if (found := re.match(r"\s*def (\w+)", line))), "")
    made = Diagnostic("triton", "error", None, " ".join(message)[:MAX_TEXT], 0)
    made.echo = [lines[caret - 1].strip()] if caret > at + 1 else []
    made.notes = [f"line {row} of {named}"] if named else []
    return made, end


def _tilelang(lines: list[str], at: int, text: str) -> tuple[Diagnostic, int]:
    """The message with the following indented lines, which may name the place."""
    made, end = Diagnostic("tilelang", "error", None, text[:MAX_TEXT], 0), at + 1
    while end < len(lines) and end - at < MAX_LINES and re.match(r"\s+\S", lines[end]):
        if match := _PLACE.match(lines[end]):
            made.place = SourcePlace(match["file"], number(match["line"]))
        elif "Fragment(" in lines[end] or "ayout" in lines[end]:
            made.notes.append(lines[end].strip())
        end += 1
    return made, end


def by_compiler(case: ErrorCase) -> BuildCause | None:
    """The cause in such a compiler's message."""
    if case.diagnostic.tool not in TOOLS:
        return None
    for tool, pattern, make in _RULES:
        if case.diagnostic.tool == tool and (match := pattern.search(case.diagnostic.text)):
            return make(match, case)
    layouts = _layouts(case)
    return BuildCause("unknown", case.diagnostic.text + (f" (layouts: {layouts})" if layouts else ""))


def _where(case: ErrorCase) -> str:
    """The place in Triton's text: a line of a function, counted from the function's first line."""
    note = next((note for note in case.diagnostic.notes if note.startswith("line ")), "")
    return f" ({note}: {case.diagnostic.echo[0]})" if note and case.diagnostic.echo else ""


def _layouts(case: ErrorCase) -> str:
    """The layouts that CuTe DSL's message and its notes name, each once, with the type and memory."""
    text = "\n".join([case.diagnostic.text, *case.diagnostic.notes])
    found = [
        f"{match['parts'].replace(', align<', ' align<')} {match['layout']}"
        for match in _MEMREF.finditer(text)
    ]
    found += [match["layout"] for match in _LAYOUT.finditer(text)]
    return "; ".join(dict.fromkeys(found))


def _fragment(text: str) -> str:
    """`thread _i, register (_j,)` of a TileLang fragment."""
    thread = re.search(r"forward_thread: (.*?), forward_index: (.*?)(?:, thread_range|\)$)", text)
    return f"thread {thread[1]}, register {thread[2]}" if thread else text


def _conflict(match: re.Match[str], case: ErrorCase) -> BuildCause:
    given = "; ".join(f"{note.split(' ', 1)[0]}: {_fragment(note)}" for note in case.diagnostic.notes)
    return BuildCause(
        "layout",
        f"{match['one']} and {match['other']} are used in the same loop, but have different thread layouts"
        + (f" ({given})" if given else ""),
        "the same layout for both, or a copy through shared memory between them",
    )


def _twice(match: re.Match[str], case: ErrorCase) -> BuildCause:
    said = {
        note.split(" layout:")[0]: _fragment(note) for note in case.diagnostic.notes if " layout:" in note
    }
    both = "; ".join(f"{name}: {text}" for name, text in said.items())
    return BuildCause(
        "layout",
        f"fragment {match['name']} is given two layouts" + (f" ({both})" if both else ""),
        "no annotation for it, so that the operation's own layout is used, or a second fragment and a copy",
    )


def _op_space(match: re.Match[str], case: ErrorCase) -> BuildCause:
    layouts = _layouts(case)
    return BuildCause(
        "space",
        f"{match['op']} takes its {match['side']} in {match['want']} memory, but it lies in {match['have']}"
        + (f" ({layouts})" if layouts else ""),
        f"a tensor with a pointer to {match['want']}",
    )


def _op_layouts(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "layout",
        f"{match['op']} does not accept operands of these layouts: {match['rest'].strip()}",
        "the fragments that the tiled MMA itself makes of the tiles (make_fragment_A, _B, _C)",
    )


def _triton_k(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "extent-k",
        f"the operands of tl.dot differ in K (the message has no extents){_where(case)}",
        "x of [M, K] and y of [K, N]",
    )


def _expand(match: re.Match[str], case: ErrorCase) -> BuildCause:
    want, have = match["want"], match["have"]
    return BuildCause(
        "layout",
        f"a tensor that is a slice of axis {have} is expanded along axis {want}{_where(case)}",
        f"a tensor of layout SliceLayout({want}, parent), or the expansion along axis {have}",
    )


def _operands(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "layout",
        f"{case.diagnostic.text}{_where(case)}",
        "gl.convert_layout of one operand to the other's layout",
    )


def _gemm_k(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "extent-k",
        f"K of A is {match['a']}, K of B is {match['b']}",
        "tiles that agree in K, or transpose_A or transpose_B according to their layout",
    )


def _composition(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "divide",
        f"two layouts cannot be composed: {_layouts(case) or match[0]}",
        "extents and strides that divide each other",
    )


def _descriptor(match: re.Match[str], case: ErrorCase) -> BuildCause:
    return BuildCause(
        "canonical",
        f"no matrix descriptor can be made of this operand's shared-memory layout ({match['op']})",
        "a layout tiled from the atom of a swizzle (make_smem_layout_atom and tile_to_shape)",
    )


_RULES: list[tuple[str, re.Pattern[str], Callable[[re.Match[str], ErrorCase], BuildCause]]] = [
    (tool, re.compile(pattern), make)
    for tool, pattern, make in (
        ("triton", r"equal reduction dimensions", _triton_k),
        ("triton", r"layout to be sliced in axis (?P<want>\d+) but got (?P<have>\d+)", _expand),
        ("triton", r"(?i)layout", _operands),
        ("tilelang", r"[Ll]ayout infer conflict between (?P<one>\w+) and (?P<other>\w+)", _conflict),
        ("tilelang", r"[Gg]et different layout for (?P<name>\w+)", _twice),
        ("tilelang", r"K_A = (?P<a>\S+), K_B = (?P<b>\S+)", _gemm_k),
        (
            "cutedsl",
            r"(?P<op>'[\w.]+') op (?P<side>\w+) expects (?P<want>\w+) based memref, but got (?P<have>\w+)",
            _op_space,
        ),
        ("cutedsl", r"(?P<op>'[\w.]+') op invalid layout of [\w/]+\.? ?(?P<rest>.*)", _op_layouts),
        ("cutedsl", r"unable to compute the following composition.*", _composition),
        ("cutedsl", r"failed to legalize operation '(?P<op>[\w.]*smem_desc)'", _descriptor),
    )
]
