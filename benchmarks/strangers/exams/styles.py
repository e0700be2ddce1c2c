"""A style of printing events: a template for each kind of event, and names of roles and barriers.

A style knows scenarios only (machine.py, kernels.py); it shares nothing with the reader of logs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.strangers.kernels import Case
from benchmarks.strangers.machine import Event, Op, Run, Who

WARPS = {
    "load": 0, "mma": 1, "epi": 4, "softmax0": 4, "softmax1": 8, "main": 2, "tma": 0, "issue": 1,
    "compute": 4, "reduce": 8, "sched": 3, "loader": 0, "tensor": 1, "epilogue": 4, "fetch": 2, "head": 0,
}  # fmt: skip
Names = dict[str, str]


def plain(name: str) -> str:
    """The name itself."""
    return name


def camel(name: str) -> str:
    """kv_full as kvFull."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def replaced(pairs: Names) -> Callable[[str], str]:
    """Parts of a name replaced, such as full by voll."""
    return lambda name: "_".join(pairs.get(part, part) for part in name.split("_"))


@dataclass(frozen=True)
class Style:
    """`say`: a template by event: wait, done, arrive, expect, copy, enter, leave, call, note.

    Templates have {role} {cta} {warp} {tid} {bar} {st} {ph} {k} {to} {bytes} {api} {text} {t} {n}; `own`,
    `to` and `k` are added behind where a barrier is another CTA's, an arrival is remote, or a round is known.
    A template named `wait back` or `arrive back` is for barriers that give a buffer back (empty, free, read).
    `head`: lines before. `whole`: changes the lines as a whole. `aka`: other names of a role that a legend in
    the head or the line itself gives.
    """

    say: Names
    roles: Names = field(default_factory=dict)
    bar: Callable[[str], str] = plain
    own: str = ""
    to: str = ""
    k: str = ""
    mask: bool = False
    head: Callable[[Case, Style], list[str]] | None = None
    whole: Callable[[list[str]], list[str]] | None = None
    shows: tuple[str, ...] = ("bytes", "phase", "stage", "to")
    sync: str = "bar.sync {number}, {size}"
    aka: Callable[[str], tuple[str, ...]] = lambda role: ()

    def role(self, who: str) -> str:
        """The role as the style prints it."""
        return self.roles.get(who, who)

    def api(self, op: Op) -> str:
        """The call of an operation other than an mbarrier's."""
        if op.kind == "sync":
            return self.sync.format(number=op.number, size=op.size) if op.number >= 0 else "__syncthreads()"
        names = {"cluster_arrive": "cluster_arrive", "cluster_wait": "cluster_wait"}
        return names.get(op.kind) or f"tcgen05.{op.kind}({op.size})"

    def line(self, event: Event, at: int, rng: random.Random) -> str | None:
        """The line of an event; None: the style prints none."""
        op = event.op
        kind = op.kind
        if kind == "wait":
            kind = "done" if event.end else "wait"
        elif kind == "arrive":
            kind = "expect" if op.size else "arrive"
        elif kind in ("sync", "cluster_wait", "alloc"):
            kind = "leave" if event.end else "enter"
        elif kind in ("cluster_arrive", "dealloc"):
            kind = "call"
        back = op.bar.endswith(("_empty", "_free", "_read"))
        template = (self.say.get(f"{kind} back") if back else None) or self.say.get(kind)
        if template is None:
            return None
        if "||" in template:
            template = rng.choice(template.split("||"))
        role, cta = event.who
        values = {
            "role": self.role(role), "cta": cta, "warp": WARPS[role], "tid": 32 * WARPS[role],
            "bar": self.bar(op.bar), "st": op.stage, "ph": op.parity, "k": "" if op.k is None else op.k,
            "bytes": op.size, "api": self.api(op), "text": op.text, "t": 1000 + 37 * at, "n": at,
            "to": _ctas(op, self.mask), "owner": op.owner if op.kind == "wait" else cta, "own": "", "kk": "",
            "far": "",
        }  # fmt: skip
        if op.kind == "wait" and op.owner != cta:
            values["own"] = self.own.format(**values)
        if op.kind in ("arrive", "copy") and op.to != (cta,):
            values["far"] = self.to.format(**values)
        if op.k is not None:
            values["kk"] = self.k.format(**values)
        return template.format(**values)

    def text(self, case: Case, run: Run, rng: random.Random) -> str:
        """The log of a run."""
        lines = [
            line for at, event in enumerate(run.events) if (line := self.line(event, at, rng)) is not None
        ]
        if self.head is not None:
            lines = self.head(case, self) + lines
        if self.whole is not None:
            lines = self.whole(lines)
        return "\n".join(lines) + "\n"


def _ctas(op: Op, mask: bool) -> str:
    return hex(sum(1 << cta for cta in op.to)) if mask else ",".join(map(str, op.to))


def barriers(case: Case) -> dict[str, tuple[int, int]]:
    """(stages, arrivals of a phase) of each mbarrier."""
    found: dict[str, tuple[int, int]] = {}
    for program in case.kernel.programs.values():
        for op in program:
            if op.kind in ("wait", "arrive"):
                stages = max(found.get(op.bar, (1, 0))[0], op.stage + 1)
                found[op.bar] = stages, case.kernel.counts.get(op.bar, 1)
    return found


def who_of(case: Case) -> list[Who]:
    """The roles of a case."""
    return sorted(case.kernel.programs)
