"""The changes that drawn mutants make in a kernel's source: index arithmetic, off by one, last block, stage
order.

Only lines that the compiled kernel was made of are changed, one statement or token each; what does not
compile is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from random import Random

from tileproof.conformance.beside.mutate.code import Frame, PtxCode

Change = tuple[str, str]  # what in words, and the new text of the line
Proposal = Callable[[list[str], int], Iterator[Change]]
SOURCE_OPERATORS: dict[str, Proposal] = {}

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_BINARY = re.compile(r" ([-+*/%]) ")
_OTHER = {"+": "-", "-": "+", "*": "+", "/": "%", "%": "/"}
_COMPARED = re.compile(r" (<|<=|>|>=|==|!=) ")
_UNLIKE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_LOOP = re.compile(
    r"for \(\w+ (?P<name>\w+) = (?P<first>[^;]+); (?P=name) < (?P<end>[^;]+); "
    r"(?:\+\+(?P=name)|(?P=name)\+\+|(?P=name) \+= (?P<step>[^;)]+))\)"
)
# Two of one kind by one thread with nothing between mean the same in either order: inits, waits (behind them
# both phases are complete), commits (each covers the same work), copies, loads into different registers.
# And so do a copy and the arrival that announces bytes, which keeps its phase open until it comes.
_KIND = re.compile(
    r"^\s*(?:[^=;]*(?<=[.>])(init|wait|arrive_and_expect_tx)\w*"
    r"|(?:\w+::)*(init|wait|arrive_and_expect_tx|commit|tma_load|load_tmem)\w*)\("
)
_COMMUTE = ({"tma_load", "arrive_and_expect_tx"},)
_INTO = re.compile(r"load_tmem\w*\(.*,\s*(\S+)\)")
# Wherever they stand, and without them, the same is done: a prefetch, and assembly without an instruction,
# which only keeps a value in a register (with "memory" it keeps accesses in their order).
_NOTHING = re.compile(
    r"""^\s*(?:(?:\w+::)*prefetch\w*\(|asm volatile\(""(?![^;]*"memory"))[^;]*;\s*(?://.*)?$"""
)
_STATEMENT = re.compile(
    r"^\s+(?!const|auto|int|float|uint|using|static|return|struct|template|typename)[\w:]+[^=]*;\s*(//.*)?$"
)


def proposes(name: str) -> Callable[[Proposal], Proposal]:
    """Registers an operator on sources under its name."""

    def add(proposal: Proposal) -> Proposal:
        SOURCE_OPERATORS[name] = proposal
        return proposal

    return add


def _code(line: str) -> str:
    """The line without its comment."""
    return line.split("//")[0]


@proposes("source-index")
def index(lines: list[str], n: int) -> Iterator[Change]:
    """Another operation of index arithmetic."""
    for match in _BINARY.finditer(_code(lines[n])):
        other = _OTHER[match[1]]
        text = f"{lines[n][: match.start(1)]}{other}{lines[n][match.end(1) :]}"
        yield f"{other} instead of {match[1]}", text


@proposes("source-off-by-one")
def off_by_one(lines: list[str], n: int) -> Iterator[Change]:
    """A number one more or one less."""
    for match in _NUMBER.finditer(_code(lines[n])):
        for step in (1, -1):
            value = int(match[0]) + step
            text = f"{lines[n][: match.start()]}{value}{lines[n][match.end() :]}"
            yield f"{value} instead of {match[0]}", text


@proposes("source-compare")
def compare(lines: list[str], n: int) -> Iterator[Change]:
    """Another comparison."""
    for match in _COMPARED.finditer(_code(lines[n])):
        text = f"{lines[n][: match.start(1)]}{_UNLIKE[match[1]]}{lines[n][match.end(1) :]}"
        yield f"{_UNLIKE[match[1]]} instead of {match[1]}", text


@proposes("source-last-block")
def last_block(lines: list[str], n: int) -> Iterator[Change]:
    """A loop that leaves out its first or last turn, or makes one too many: off by its step."""
    match = _LOOP.search(lines[n])
    if match is None:
        return
    step = match["step"] or "1"
    step = step if step.isalnum() else f"({step})"
    for words, group, sign in (
        ("without the first iteration", "first", "+"),
        ("without the last iteration", "end", "-"),
        ("one iteration too many", "end", "+"),
    ):
        text = f"({match[group]}) {sign} {step}"
        yield words, f"{lines[n][: match.start(group)]}{text}{lines[n][match.end(group) :]}"


@proposes("source-stage-order")
def stage_order(lines: list[str], n: int) -> Iterator[Change]:
    """Two statements exchanged."""
    if n + 1 < len(lines) and _STATEMENT.match(lines[n]) and _STATEMENT.match(lines[n + 1]):
        here, after = _code(lines[n]).rstrip(), _code(lines[n + 1]).rstrip()
        if _indent(here) == _indent(after) and here != after and not _alike(here, after):
            yield f"{after.strip()} before {here.strip()}", f"{after}\n{here}\x00"


def _alike(here: str, after: str) -> bool:
    """Whether two statements mean the same in either order."""
    if _NOTHING.match(here) or _NOTHING.match(after):
        return True
    if _into(here) == _into(after):
        return False
    this_kind, other = (match and (match[1] or match[2]) for match in (_KIND.match(here), _KIND.match(after)))
    return bool(this_kind and other) and (
        (this_kind == other != "arrive_and_expect_tx") or {this_kind, other} in _COMMUTE
    )


@proposes("source-remove")
def remove(lines: list[str], n: int) -> Iterator[Change]:
    """A statement that is not there."""
    if _STATEMENT.match(lines[n]) and not _NOTHING.match(lines[n]):
        yield f"without {lines[n].strip()}", ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _into(statement: str) -> str:
    """The registers that a load goes into; of anything else all of it."""
    match = _INTO.search(statement)
    return match[1] if match else statement


def walk(
    code: PtxCode, sources: Mapping[str, str], prefix: str, name: str, seed: int
) -> Iterator[tuple[str, Frame, dict[str, str]]]:
    """What, where and the changed sources of one operator, in an order of the seed: a line at a time."""
    random = Random(f"{seed}/{name}")
    made = {frame for at in code.code for frame in at.frames}
    pending: list[tuple[str, int, list[Change]]] = []
    for path, text in sorted(sources.items()):
        lines = text.split("\n")
        for n in range(len(lines)):
            if (prefix + path, n + 1) in made:
                changes = list(SOURCE_OPERATORS[name](lines, n))
                if changes:
                    pending.append((path, n, changes))
    while pending:
        random.shuffle(pending)
        for path, n, changes in pending:
            what, text = changes.pop(random.randrange(len(changes)))
            yield (
                f"{what} in `{sources[path].splitlines()[n].strip()}`",
                (prefix + path, n + 1),
                {path: _applied(sources[path], n, text)},
            )
        pending = sorted((step for step in pending if step[2]), key=lambda step: step[:2])


def _applied(source: str, n: int, text: str) -> str:
    lines = source.split("\n")
    if text.endswith("\x00"):  # it stands for the next line too
        return "\n".join([*lines[:n], text[:-1], *lines[n + 2 :]])
    return "\n".join([*lines[:n], text, *lines[n + 1 :]])
