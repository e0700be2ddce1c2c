# ruff: noqa: E501 - PTX lines are kept whole
"""Runs a planted pipeline as PTX on the emulator; its trace, as what each role said.

A role is a warp whose lane 0 acts, its program unrolled; an arrival in another CTA goes through `mapa`, bytes
come by cp.async.bulk. Each event of the trace is told by the PTX line of its instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from tileproof.emulator import Memory, Module, Schedule

from tests.kit.hang_logs.programs import Planted
from tests.kit.pipelines import Op, Said, Who

LIVELOCK = 50_000
TILE, SOURCE = 4096, 8192  # first bytes of where the copies land, and of what goes to the other CTA


@dataclass(frozen=True)
class Emulated:
    """What was said, and who is in which wait at the end (empty: the run ended well)."""

    said: tuple[Said, ...]
    blocked: tuple[tuple[Who, Op], ...]


def _barriers(planted: Planted) -> dict[tuple[str, int], int]:
    """Byte offset from the window's start of each barrier's stage."""
    keys = [(name, stage) for name in planted.counts for stage in range(planted.stages.get(name, 1))]
    return {key: 1024 + 8 * at for at, key in enumerate(keys)}


def text(planted: Planted) -> tuple[str, dict[int, tuple[Who, Op]]]:
    """The PTX of entry `k`, and the operation at each PTX line (from 1)."""
    at = _barriers(planted)
    roles = sorted({role for role, _ in planted.programs})
    lines = [
        ".version 8.8", ".target sm_100a", ".address_size 64", ".visible .entry k(.param .u64 in)", "{",
        ".reg .pred %p<8>;", ".reg .b32 %r<8>, %t, %w, %rank, %own;", ".reg .b64 %in;", "ld.param.u64 %in, [in];",
        "mov.u32 %t, %tid.x;", "shr.u32 %w, %t, 5;", "mov.u32 %rank, %cluster_ctarank;",
        "shl.b32 %own, %rank, 24;",  # a shared address in a register holds the CTA's rank
        "setp.eq.u32 %p0, %t, 0;",
    ]  # fmt: skip
    for (name, stage), offset in at.items():
        lines.append(f"mov.u32 %r0, {planted.counts[name]};")
        for cta in range(planted.shape.ctas):
            if (name, cta) in planted.more:
                lines += [f"setp.eq.u32 %p1, %rank, {cta};", f"@%p1 mov.u32 %r0, {planted.more[name, cta]};"]
        lines += [f"add.u32 %r1, %own, {offset};", "@%p0 mbarrier.init.shared::cta.b64 [%r1], %r0;"]
        del stage
    lines.append(f"add.u32 %r1, %own, {SOURCE};")
    for byte in range(0, 256, 16):
        lines.append(f"@%p0 st.shared.v4.u32 [%r1+{byte}], {{%r0, %r0, %r0, %r0}};")
    lines += ["fence.proxy.async.shared::cta;", "fence.mbarrier_init.release.cluster;"]
    lines += ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]
    lines += ["and.b32 %r1, %t, 31;", "setp.ne.u32 %p2, %r1, 0;", "@%p2 bra END;"]
    for (role, cta), _ in planted.programs.items():
        lines += [f"setp.eq.u32 %p1, %w, {roles.index(role)};", f"setp.eq.and.u32 %p1, %rank, {cta}, %p1;"]
        lines.append(f"@%p1 bra {role}{cta};")
    lines.append("bra END;")
    ops: dict[int, tuple[Who, Op]] = {}
    label = 0
    for who, program in planted.programs.items():
        lines.append(f"{who[0]}{who[1]}:")
        for op in program:
            first = len(lines) + 1
            if op.kind in ("wait", "silent"):
                offset = at[op.barrier, op.stage or 0]
                lines += [
                    f"add.u32 %r2, %own, {offset};",
                    f"W{label}:",
                    f"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r2], {op.parity};",
                    f"@!%p3 bra W{label};",
                ]
                label += 1
            elif op.kind in ("arrive", "tma"):
                offset = at[op.barrier, op.stage or 0]
                for cta in op.to or (who[1],):
                    lines += [f"add.u32 %r2, %own, {offset};", f"mapa.shared::cluster.u32 %r3, %r2, {cta};"]
                    if op.kind == "tma":
                        lines += [
                            f"add.u32 %r4, %own, {TILE + 1024 * (op.stage or 0)};",
                            f"mapa.shared::cluster.u32 %r5, %r4, {cta};",
                        ]
                        if cta == who[1]:
                            lines.append(
                                f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%in], {op.expect}, [%r3];"
                            )
                        else:
                            lines += [
                                f"add.u32 %r6, %own, {SOURCE};",
                                f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r6], {op.expect}, [%r3];",
                            ]
                    elif op.expect:
                        lines.append(
                            f"mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r3], {op.expect};"
                        )
                    else:
                        lines.append("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];")
            elif op.kind == "exit":
                lines.append("bra END;")
            else:
                lines.append(f"mov.u32 %r7, {label};")
            for line in range(first, len(lines) + 1):
                ops[line] = (who, op)
        lines.append("bra END;")
    lines += ["END: barrier.cluster.arrive;", "barrier.cluster.wait;", "ret;", "}"]
    return "\n".join(lines) + "\n", ops


@lru_cache(maxsize=32)
def _module(ptx: str) -> Module:
    return Module.from_ptx(ptx)


def run(planted: Planted, seed: int) -> Emulated:
    """One launch of the pipeline under a random schedule of that seed."""
    ptx, ops = text(planted)
    memory = Memory()
    source = memory.buffer(np.zeros(1024, dtype=np.uint32), name="in")
    roles = {role for role, _ in planted.programs}
    ctas = planted.shape.ctas
    result = _module(ptx).launch(
        "k", grid=(ctas, 1, 1), block=(32 * len(roles), 1, 1), cluster=(ctas, 1, 1), args=[source],
        shared_bytes=16384, memory=memory, schedule=Schedule("random", seed), trace=True,
        livelock_limit=LIVELOCK,
    )  # fmt: skip
    assert result.trace is not None
    if any(finding.code != "hang" for finding in result.errors):
        return Emulated((), ())  # it breaks a rule before it hangs
    return told([(event.kind, event.ptx_line) for event in result.trace], ops, planted)


def told(events: list[tuple[str, int]], ops: dict[int, tuple[Who, Op]], planted: Planted) -> Emulated:
    """The said lines of (kind, PTX line) events, in order; notes come before their role's next operation."""
    said: list[Said] = []
    open_: dict[Who, Op] = {}
    seen: set[int] = set()  # operations told, by identity
    position = dict.fromkeys(planted.programs, 0)

    def notes(who: Who, op: Op | None) -> None:
        program = planted.programs[who]
        while position[who] < len(program) and program[position[who]] is not op:
            step = program[position[who]]
            if step.kind == "note":
                said.append(Said(who, "note", k=step.k, note=step.note))
            position[who] += 1

    for kind, line in events:
        if kind == "exit":
            continue
        if line not in ops:
            continue
        who, op = ops[line]
        if kind == "wait" and op.kind in ("wait", "silent"):
            notes(who, op)
            if who not in open_ or open_[who] is not op:
                open_[who] = op
                if op.kind == "wait":
                    said.append(_said(who, op, "wait"))
        elif kind == "pass":
            notes(who, op)
            if op.kind == "wait":
                if open_.get(who) is not op:
                    said.append(_said(who, op, "wait"))
                said.append(_said(who, op, "done"))
            open_.pop(who, None)
        elif kind in ("arrive", "expect") and op.kind == "arrive" and id(op) not in seen:
            notes(who, op)
            seen.add(id(op))
            said.append(_said(who, op, "arrive"))
    for who in planted.programs:
        if who not in open_ and position[who] < len(planted.programs[who]):
            rest = planted.programs[who][position[who] :]
            if any(op.kind == "exit" for op in rest) is False:
                notes(who, None)
    return Emulated(tuple(said), tuple(sorted(open_.items(), key=lambda item: item[0])))


def _said(who: Who, op: Op, kind: str) -> Said:
    phase = op.parity if op.kind == "wait" else None
    # A line with a number of bytes has the announced number.
    return replace(Said(who, kind, op.barrier, op.stage, op.k, phase, tx=op.expect > 0), bytes=op.expect)
