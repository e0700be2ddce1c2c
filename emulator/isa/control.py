"""Branches, calls, exit (PTX ISA 9.7.12, 9.7.19)."""

from __future__ import annotations

from tileproof.emulator.decode import Decoder
from tileproof.emulator.program import NONE, Register
from tileproof.emulator.ptx import Immediate, Instruction, Name, Vector
from tileproof.emulator.registry import Modifiers, Unknown, instruction, refused
from tileproof.emulator.slots import slots


@instruction(
    "bra",
    group="control flow",
    forms="[.uni]",
    section="9.7.12.3",
    note="diverged lanes meet again at the immediate post-dominator; each side is scheduled on its own",
)
def bra(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.drop("uni")
    (target,) = i.operands
    if not isinstance(target, Name):
        raise ValueError("a label is needed")
    d.emit("bra", label=target.name)


slots("call.vprintf", operands="dst format arguments", visible=True, writes="dst")
slots("call.assertfail", operands="message file line function")
slots("brx.case", operands="matches index", writes="matches")
slots("brx.none", operands="index", modifiers="targets")


@instruction(
    "brx",
    group="control flow",
    forms=".idx[.uni] @sm_30 @ptx6.0",
    section="9.7.12.4",
    note="as one branch per target in the order of the list; an index outside the list is a finding",
)
def brx(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.need("idx")
    m.drop("uni")
    index, table = i.operands
    if not isinstance(table, Name) or table.name not in d.branch_targets:
        raise ValueError("a label of a .branchtargets list is needed")
    labels = d.branch_targets[table.name]
    after = d.jump_unguarded()
    slot, matches = d.src(index, "u32"), d.temporary(4)
    for number, label in enumerate(labels):
        d.emit("brx.case", matches=matches, index=slot, imm=number, predicate=-1)
        d.emit("bra", label=label, predicate=matches)
    d.emit("brx.none", index=slot, targets=len(labels), label=labels[-1], predicate=-1)
    if after:
        d.place_label(after)


@instruction(
    "ret",
    group="control flow",
    forms="[.uni]",
    section="9.7.12.6",
    note="from the kernel: the thread exits; from a function: back to its call",
)
@instruction("exit", group="control flow", forms="", section="9.7.12.7")
def ret(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.drop("uni")
    if i.opcode.startswith("ret") and d.inlined:
        d.leave()
    else:
        d.emit("ret")


@instruction(
    "trap", group="control flow", forms="", section="9.7.19.4", note="stops the launch with a finding"
)
def trap(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("trap")


@instruction(
    "call",
    group="control flow",
    forms="[.uni]",
    section="9.7.12.5",
    note="vprintf, __assertfail and the functions of the module, decoded in place of each call; through a "
    "register, the functions whose address the module takes and whose arguments fit, any other address is a "
    "trap; recursion and structures by value are rejected by name",
)
def call(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.drop("uni")
    operands = list(i.operands)
    result = operands.pop(0) if isinstance(operands[0], Vector) else None
    target = operands[0]
    arguments = operands[1].parts if len(operands) > 1 and isinstance(operands[1], Vector) else ()
    if isinstance(target, Name) and target.name in d.module.functions:
        d.call(target.name, arguments, result.parts if isinstance(result, Vector) else ())
        return
    if isinstance(target, Name) and isinstance(d.lookup(target.name), Register):
        d.call_indirect(target, arguments, result.parts if isinstance(result, Vector) else ())
        return
    if not isinstance(target, Name) or target.name not in ("vprintf", "__assertfail"):
        raise Unknown(
            "only vprintf and __assertfail, and functions of the module, can be called, not "
            f"{getattr(target, 'name', target)}"
        )
    values = [d.register(argument).offset for argument in arguments]
    out = d.register(result.parts[0]).offset if isinstance(result, Vector) and result.parts else NONE
    if target.name == "vprintf":
        d.emit("call.vprintf", dst=out, format=values[0], arguments=values[1])
    else:
        message, file, line, function, *_ = values
        d.emit("call.assertfail", message=message, file=file, line=line, function=function)


@instruction(
    "pmevent", group="hints", forms="[.mask]", section="9.7.19.3", grade="order only", note="no effect"
)
def sleep(d: Decoder, i: Instruction, m: Modifiers) -> None:
    m.types()
    d.emit("nop")


slots("griddepcontrol", modifiers="wait")


@instruction(
    "griddepcontrol",
    group="hints",
    forms=".{wait,launch_dependents} @sm_90 @ptx7.8",
    section="9.7.12.12",
    grade="order only",
    note="its ordering between the grids of a `Stream` is checked; otherwise no effect",
)
def griddepcontrol(d: Decoder, i: Instruction, m: Modifiers) -> None:
    d.emit("griddepcontrol", wait=int(m.need("wait", "launch_dependents") == "wait"))


slots("setmaxnreg", modifiers="inc")


@instruction(
    "setmaxnreg",
    group="control flow",
    forms=".{inc,dec}.sync.aligned.u32 @sm_90a|sm_100a|sm_120a @ptx8.0",
    section="9.7.19.5",
    note=".inc waits for the CTA's register pool; no effect without .maxnreg, or .maxntid with .minnctapersm",
)
def setmaxnreg(d: Decoder, i: Instruction, m: Modifiers) -> None:
    way = m.need("inc", "dec")
    for word in ("sync", "aligned", "u32"):
        m.need(word)
    (count,) = i.operands
    if not isinstance(count, Immediate):
        raise Unknown("takes its count as a literal")
    value = d.immediate(count, "u32")
    if value % 8 or not 24 <= value <= 256:
        raise Unknown(f"takes multiples of 8 from 24 to 256, not {value}")
    d.emit("setmaxnreg", inc=int(way == "inc"), imm=value)


refused("tex", group="memory", forms="*", section="9.7.10", note="textures")
