"""Which errors follow from another error: of its call or statement, or by a name or type that it broke.

Any other error has a finding of its own, also at a line that another error is about.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tileproof.conformance.beside.logs.builds.messages import Diagnostic

# What follows from an error before it, and says nothing by itself.
_FOLLOWS = re.compile(
    r'cannot deduce "?auto|<error-type>|<error-constant>|name followed by "::" must be'
    r"|too many initializer values"
    r"|incomplete type|cannot deduce class template arguments|invalid type conversion|aborted due to errors"
    r"|function \"\S+\" cannot be referenced -- it is a deleted|cannot be used to initialize"
    r"|cannot be assigned to|has no member \"(?:type|value)\"|tuple index must be in range|Index out of range"
    r"|expression must have a constant value"
)
# Messages that name two whole types or a value: in another instantiation they are mistakes of their own.
_WHOLE = re.compile(
    r"cannot be used to initialize|cannot be assigned to|invalid type conversion|too many initializer values"
    r"|expression must have a constant value|cannot be referenced -- it is a deleted|incomplete type"
)
# What a compiler prints when it reads on in a statement of which it does not know a name.
_READS_ON = re.compile(
    r"type name is not allowed|qualified name is required|global-scope qualifier|^expected "
)
_UNKNOWN_NAME = re.compile(
    r"is undefined|not declared|has no member|must be a class or namespace|not a (?:template|type)"
)
_DECLARES = re.compile(
    r"(?<![\w.])(?!(?:return|throw|goto|case|else|delete|typename|new|co_return|co_yield)\b)"
    r"[\w:]+(?:<[^;]*>)?[\s&*]+(\w+)\s*[=;({\[]"
)
_MISFIT = re.compile(r"because argument #(\d+) does not match")
NEAR = 40  # lines
_UNDEFINED = re.compile(r"identifier \"(?P<edg>\w+)\" is undefined|'(?P<host>\w+)' was not declared")


def trail(diagnostic: Diagnostic) -> tuple[object, ...]:
    """The instantiation trail of an error, to be compared."""
    return tuple((frame.entity, frame.inside, frame.place) for frame in diagnostic.frames)


def broken(diagnostic: Diagnostic) -> bool:
    """Whether a type or an argument in the message is missing, because an earlier error took it."""
    notes = (note for note in diagnostic.notes if note.startswith("argument types are:"))
    frames = (frame.inside for frame in diagnostic.frames)
    return any("<error-" in text for text in (diagnostic.text, *notes, *frames))


def own_mismatch(diagnostic: Diagnostic) -> bool:
    """Whether an argument with a known type does not fit: a mistake beside the broken arguments."""
    types = next((note for note in diagnostic.notes if note.startswith("argument types are: (")), "")
    numbers = [int(found[1]) for note in diagnostic.notes if (found := _MISFIT.search(note))]
    if not numbers or any("failed deduction" in note for note in diagnostic.notes):
        return False
    arguments = _split(types.partition("(")[2].rpartition(")")[0])
    return all(number <= len(arguments) and "<error-" not in arguments[number - 1] for number in numbers)


def _split(types: str) -> list[str]:
    """The types of a list, which commas separate outside brackets."""
    found, depth = [""], 0
    for sign in types:
        depth += (sign in "<([{") - (sign in ">)]}")
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def may_belong(first: Diagnostic, diagnostic: Diagnostic) -> bool:
    """Whether an error at the place of `first` may be of the same statement, or is inside templates."""
    if first.frames or diagnostic.frames or first.statement < 0 or diagnostic.statement < 0:
        return True
    return first.statement == diagnostic.statement


def same_call(first: Diagnostic, diagnostic: Diagnostic) -> bool:
    """Whether two errors at a place of the user's are of one call, which fails in several of its templates.

    ptxas names no place: its errors of one file come together.
    """
    return bool(first.frames and diagnostic.frames) or first.tool == diagnostic.tool == "ptxas"


def follows(diagnostic: Diagnostic, first: Diagnostic, trails: Collection[object]) -> bool:
    """Whether an error without a cause of its own follows from `first`, at the same place of the user's.

    `trails`: the instantiations in which `first` was reported. A message about whole types follows in the
    same instantiation only, and words of a compiler that reads on follow a name that it does not know.
    """
    if _READS_ON.search(diagnostic.text) and _UNKNOWN_NAME.search(first.text):
        return trail(diagnostic) == trail(first)
    if _FOLLOWS.search(diagnostic.text) is None:
        return False
    if _WHOLE.search(diagnostic.text) is None:
        return True
    return not diagnostic.frames or not trails or trail(diagnostic) in trails


def declared(diagnostic: Diagnostic) -> list[str]:
    """The variables that the statement of an error declares."""
    if not diagnostic.echo or diagnostic.statement < 0:
        return []
    return _DECLARES.findall(diagnostic.echo[0][diagnostic.statement :].split(";")[0] + ";")


def undefined(diagnostic: Diagnostic) -> str:
    """The name that an error calls undefined, or ""."""
    found = _UNDEFINED.search(diagnostic.text)
    return str(found["edg"] or found["host"]) if found else ""


def scope(diagnostic: Diagnostic) -> tuple[object, ...]:
    """The file and instantiation in which a name of an error is looked up."""
    return diagnostic.place and diagnostic.place.file, trail(diagnostic)


def near(first: Diagnostic, diagnostic: Diagnostic) -> bool:
    """Whether a variable of `first` may be in scope: further down, a name may be another function's."""
    if first.place is None or diagnostic.place is None:
        return False
    return 0 <= diagnostic.place.line - first.place.line <= NEAR


def statement_words(diagnostic: Diagnostic) -> list[str]:
    """The words of the statement of an error."""
    if not diagnostic.echo or diagnostic.statement < 0:
        return []
    return re.findall(r"(?<![\w.])[A-Za-z_]\w*", diagnostic.echo[0][diagnostic.statement :].split(";")[0])


def words_read_on(diagnostic: Diagnostic) -> list[str]:
    """The words of the statement in which a compiler reads on."""
    return re.findall(r"\w+", " ".join(diagnostic.echo[:1])) if _READS_ON.search(diagnostic.text) else []
