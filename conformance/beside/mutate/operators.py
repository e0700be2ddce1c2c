"""The changes that drawn mutants make in PTX: an operator per kind of mistake.

An operator lists the possible changes of an instruction. Changes that certainly have no effect (a fence or a
store executed twice by a thread) are not proposed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tileproof.conformance.beside.mutate.code import CodeLine, PtxCode

TRIED = 5  # instructions from a wait to the branch of its loop
REACH = 60  # lines between two side effects that may be exchanged

EFFECT = re.compile(
    r"cp\.(?:async|reduce)|tcgen05\.|mbarrier\.(?!test_wait|try_wait|pending)|barrier\.|bar\.|fence|membar|st\.|"
    r"red\.|atom\.|griddepcontrol|setmaxnreg|wgmma"
)
SYNC = re.compile(
    r"mbarrier\.(?!pending)|barrier\.|bar\.|fence|membar|tcgen05\.(?:fence|wait|commit)|griddepcontrol|"
    r"cp\.async\.(?:commit|wait|mbarrier|bulk\.commit|bulk\.wait)|wgmma\.(?:fence|commit|wait)"
)
WAIT = re.compile(r"mbarrier\.(?:try|test)_wait")
# Twice is once, when the same thread executes both with nothing between.
IDEMPOTENT = re.compile(
    r"fence|membar|tcgen05\.(?:fence|wait|ld|st)|bar\.warp|st\.|mbarrier\.(?:try|test)_wait|griddepcontrol|"
    r"cp\.async\.(?:wait|commit|bulk\.wait|bulk\.commit)|wgmma\.(?:fence|commit|wait)|setmaxnreg"
)


@dataclass(frozen=True)
class Variation:
    """One way to change the code: what was done in words, and the lines replaced ("" is a line removed)."""

    what: str
    lines: Mapping[int, str]


Operator = Callable[[PtxCode, CodeLine], Iterator[Variation]]
OPERATORS: dict[str, Operator] = {}


def operator(name: str) -> Callable[[Operator], Operator]:
    """Registers an operator under its name."""

    def add(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return add


def short(at: CodeLine) -> str:
    """The instruction in few words."""
    text = ".".join(at.opcode.split(".")[:4])
    return f"{text} {', '.join(at.operands)}"[:90]


def instead(at: CodeLine, what: str, **parts: object) -> Variation:
    """The instruction with some of its parts replaced."""
    return Variation(what, {at.number: at.text(**parts)})  # type: ignore[arg-type]


def through(at: CodeLine, place: int, operand: str, width: str, make: str, what: str) -> Variation:
    """The instruction with a new register, made by `make` (with {new}), in place of an operand."""
    new = "%mutated"
    operands = tuple(operand if n == place else text for n, text in enumerate(at.operands))
    body = at.text(operands=tuple(operand.replace("{new}", new) for operand in operands))
    return Variation(
        what, {at.number: f"\t{{\n\t.reg .{width} {new};\n\t{make.replace('{new}', new)};\n{body}\n\t}}"}
    )


# ---- side effects


@operator("remove-sync")
def remove_sync(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A synchronising instruction is not there; a wait is taken as over."""
    if WAIT.match(at.opcode):
        done = CodeLine(at.number, at.guard, "setp.eq.u32", (at.operands[0], "0", "0"), (), 0, at.span)
        yield Variation(f"removed the wait {short(at)}", {at.number: done.text()})
    elif SYNC.match(at.opcode):
        yield Variation(f"removed {short(at)}", {at.number: ""})


@operator("remove-effect")
def remove_effect(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A store, copy, product, allocation or reduction is not there."""
    if EFFECT.match(at.opcode) and not SYNC.match(at.opcode):
        yield Variation(f"removed {short(at)}", {at.number: ""})


@operator("wait-once")
def wait_once(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """The loop around a wait is gone: it is tried once."""
    n = code.at[at.number]
    if not WAIT.match(at.opcode):
        return
    for branch in code.code[n + 1 : n + 1 + TRIED]:
        if branch.opcode.startswith("bra"):
            if branch.guard:
                yield Variation(f"tries once: {short(at)}", {branch.number: ""})
            return


@operator("duplicate")
def duplicate(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A side effect happens twice."""
    if EFFECT.match(at.opcode) and not IDEMPOTENT.match(at.opcode):
        text = code.lines[at.number - 1]
        yield Variation(f"twice: {short(at)}", {at.number: f"{text}\n{text}"})


@operator("move")
def move(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A side effect changes places with the next one of its basic block."""
    n = code.at[at.number]
    if not _stands(at):
        return
    between: list[CodeLine] = []
    for other in code.code[n + 1 :]:
        if other.block != at.block or other.number - at.number > REACH:
            return
        if _stands(other) and other.span != at.span:
            break
        between.append(other)
    else:
        return
    if code.held(other.span) == code.held(at.span) or _alike(at, other):
        return
    made = frozenset().union(*(code_line.defines for code_line in between))
    needed = {
        name for line in code.code if other.span[0] <= line.number <= other.span[1] for name in line.uses
    }
    if not made & needed:
        yield Variation(
            f"{short(other)} before {short(at)}",
            {**_gone(other.span), **_put(code, at.span, other.span, before=True)},
        )
    if not at.defines:
        yield Variation(
            f"{short(at)} after {short(other)}",
            {**_gone(at.span), **_put(code, other.span, at.span, before=False)},
        )


def _stands(at: CodeLine) -> bool:
    return bool(EFFECT.match(at.opcode) or WAIT.match(at.opcode))


# Two of one kind by one thread mean the same in either order: copies (those of cp.async are in no order, PTX
# ISA 9.7.9.25), products into other cells, stores, inits, announced bytes, commits with nothing between; and
# so do a copy and the arrival that announces bytes, which keeps its phase open until it comes.
_KINDS = re.compile(
    r"(cp\.async\.(?:bulk\.tensor|c[ag]\.)|mbarrier\.(?:init|expect_tx|arrive\.expect_tx)|st\.|red\.|"
    r"tcgen05\.(?:mma|ld|st|commit))"
)
_COMMUTE = ({"cp.async.bulk.tensor", "mbarrier.arrive.expect_tx"},)
_RELEASES = re.compile(r"(st|red)(\.async)?\..*\b(release|acq_rel|mmio)\b")


def _alike(a: CodeLine, b: CodeLine) -> bool:
    x, y = _KINDS.match(a.opcode), _KINDS.match(b.opcode)
    # A release covers what stands before it.
    if x is None or y is None or _RELEASES.match(a.opcode) or _RELEASES.match(b.opcode):
        return False
    # Bytes that are announced before the arrival, not behind it, keep the phase open as long or longer.
    if a.opcode.startswith("mbarrier.arrive.expect_tx") and b.opcode.startswith("mbarrier.expect_tx"):
        return True
    # A commit behind products that were issued after it covers more, never less.
    if (x[1], y[1]) == ("tcgen05.commit", "tcgen05.mma"):
        return True
    return (x[1] == y[1] and x[1] != "mbarrier.arrive.expect_tx") or {x[1], y[1]} in _COMMUTE


def _gone(span: tuple[int, int]) -> dict[int, str]:
    return dict.fromkeys(range(span[0], span[1] + 1), "")


def _put(code: PtxCode, at: tuple[int, int], moved: tuple[int, int], before: bool) -> dict[int, str]:
    text = "\n".join(code.held(moved))
    if before:
        return {at[0]: f"{text}\n{code.lines[at[0] - 1]}"}
    return {at[1]: f"{code.lines[at[1] - 1]}\n{text}"}


# ---- what synchronises: parity, counts, bytes, scope


@operator("parity")
def parity(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A wait with the other phase."""
    if WAIT.match(at.opcode) and ".parity" in at.opcode and len(at.operands) > 2:
        make = f"xor.b32 {{new}}, {at.operands[2]}, 1"
        yield through(at, 2, "{new}", "b32", make, f"the other parity: {short(at)}")


@operator("count")
def count(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """An mbarrier or a named barrier counts other arrivals."""
    place = None
    if at.opcode.startswith("mbarrier.init") or re.match(r"bar(rier)?(\.cta)?\.(sync|arrive)", at.opcode):
        place = 1 if len(at.operands) > 1 else None
    elif at.opcode.startswith("mbarrier.arrive") and "expect_tx" not in at.opcode and len(at.operands) > 2:
        place = 2
    if place is None:
        return
    step = 32 if at.opcode.startswith("bar") else 1
    for make, word in (("add.s32", f"{step} more"), ("sub.s32", f"{step} fewer")):
        yield through(
            at, place, "{new}", "b32", f"{make} {{new}}, {at.operands[place]}, {step}", f"{word}: {short(at)}"
        )


@operator("bytes")
def bytes_(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A phase expects other bytes."""
    if "expect_tx" not in at.opcode or len(at.operands) < 2:
        return
    place = len(at.operands) - 1
    for make, word in (
        ("add.s32 {new}, {was}, 16", "16 bytes more"),
        ("sub.s32 {new}, {was}, 16", "16 bytes fewer"),
        ("shr.u32 {new}, {was}, 1", "half the bytes"),
        ("shl.b32 {new}, {was}, 1", "twice the bytes"),
    ):
        yield through(
            at,
            place,
            "{new}",
            "b32",
            make.replace("{was}", at.operands[place]),
            f"{word}: {short(at)}",
        )


_SCOPES = (
    (".release.cluster", ".release.cta"),
    (".acquire.cluster", ".acquire.cta"),
    (".release.", ".relaxed."),
    (".acquire.", ".relaxed."),
    (".acq_rel.", ".relaxed."),
    (".gpu", ".cta"),
    (".sys", ".cta"),
    (".cta_group::2", ".cta_group::1"),
    (".cta_group::1", ".cta_group::2"),
    ("shared::cluster.b64", "shared::cta.b64"),
    ("proxy.async.shared::cta", "proxy.async.global"),
    ("proxy.async.global", "proxy.async.shared::cta"),
    ("before_thread_sync", "after_thread_sync"),
    ("after_thread_sync", "before_thread_sync"),
    ("wait::ld", "wait::st"),
    ("wait::st", "wait::ld"),
    ("wait_group", "wait_group.read"),
    ("barrier.cluster.arrive.aligned", "barrier.cluster.arrive.relaxed.aligned"),
    ("mbarrier_init.release.cluster", "acq_rel.cta"),
)


@operator("scope")
def scope(code: PtxCode, at: CodeLine) -> Iterator[Variation]:
    """A narrower scope, a weaker order, another kind of fence or wait, another CTA group."""
    if not _stands(at):
        return
    for was, becomes in _SCOPES:
        if was in at.opcode and becomes not in at.opcode:
            changed = at.opcode.replace(was, becomes)
            # A relaxed operation has a scope and no second order.
            yield instead(at, f"{was} is {becomes}: {short(at)}", opcode=changed)
