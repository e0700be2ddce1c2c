"""Small kernels that run on real mbarrier rules until they end or hang, and say what they do.

Each role of each CTA is a generator of operations; barriers count arrivals and bytes and flip their phase as
the PTX ISA's mbarrier does. What happened is a list of `Said`, which `wordings` turns into log lines. The
analyser sees only those lines.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

Who = tuple[str, int]  # role, CTA


@dataclass(frozen=True)
class Said:
    """One line's content: `kind` is wait, done, arrive or note."""

    who: Who
    kind: str
    barrier: str = ""
    stage: int | None = None
    k: int | None = None
    phase: int | None = None
    tx: bool = False
    note: str = ""
    bytes: int = 0


@dataclass
class Mbarrier:
    """Pending arrivals and bytes of the phase under way."""

    count: int
    phase: int = 0
    pending: int = -1
    bytes: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    def arrive(self, expect: int = 0) -> None:
        self.bytes += expect
        self.pending -= 1
        self._flip()

    def complete(self, size: int) -> None:
        self.bytes -= size
        self._flip()

    def passed(self, parity: int) -> bool:
        return self.phase & 1 != parity

    def _flip(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count


@dataclass(frozen=True)
class Op:
    """wait / silent (a wait that prints nothing) / arrive / tma / note / exit; `to`: the CTAs that it
    reaches.
    """

    kind: str
    barrier: str = ""
    k: int | None = None
    stage: int | None = None
    parity: int = 0
    to: tuple[int, ...] = ()
    expect: int = 0
    note: str = ""


Program = Iterator[Op]


class Machine:
    """Runs programs round robin in random order until all end or none can go on."""

    def __init__(self, programs: dict[Who, Program], counts: dict[str, int], stages: dict[str, int]) -> None:
        self._programs = programs
        self._bars = {
            (name, stage, cta): Mbarrier(count)
            for name, count in counts.items()
            for stage in range(stages.get(name, 1))
            for cta in (0, 1)
        }
        self.said: list[Said] = []
        self.hung: dict[Who, Op] = {}

    def run(self, seed: int) -> list[Said]:
        """The log of one run; `seed` orders the actors."""
        rng = random.Random(seed)
        waiting: dict[Who, Op] = {}
        running = dict(self._programs)
        progress = True
        while progress and running:
            progress = False
            for who in rng.sample(sorted(running), len(running)):
                op = waiting.pop(who, None) or next(running[who], None)
                if op is None:
                    del running[who]
                    progress = True
                    continue
                if op.kind in ("wait", "silent"):
                    progress |= self._wait(who, op, waiting)
                    continue
                self._act(who, op)
                progress = True
        self.hung = waiting
        return self.said

    def _wait(self, who: Who, op: Op, waiting: dict[Who, Op]) -> bool:
        fresh = not op.note
        if fresh and op.kind == "wait":
            self._say(who, op, "wait")
        if self._bars[op.barrier, op.stage or 0, who[1]].passed(op.parity):
            if op.kind == "wait":
                self._say(who, op, "done")
            return True
        waiting[who] = replace(op, note="begun")
        return fresh

    def _act(self, who: Who, op: Op) -> None:
        if op.kind == "note":
            self.said.append(Said(who, "note", k=op.k, note=op.note))
            return
        for cta in op.to or (who[1],):
            bar = self._bars[op.barrier, op.stage or 0, cta]
            if op.kind == "tma":
                bar.complete(op.expect)
            else:
                bar.arrive(op.expect)
        if op.kind == "arrive":
            self._say(who, op, "arrive")

    def _say(self, who: Who, op: Op, kind: str) -> None:
        parity = op.parity if op.kind == "wait" else None
        self.said.append(
            Said(who, kind, op.barrier, op.stage, op.k, parity, tx=op.expect > 0, bytes=op.expect)
        )


BLOCKS = 5
STAGES = 2
COUNTS = {"kv_full": 2, "kv_empty": 1, "p_ready": 1, "s_ready": 2, "o_done": 1, "never": 1}


def kernel(defect: str = "") -> Machine:
    """A 2-CTA pipeline: both CTAs load and do softmax, CTA 0's mma issues for both and multicasts.

    kv_full and s_ready of CTA 0 hear both CTAs; kv_empty and p_ready are multicast to both.
    """
    programs: dict[Who, Program] = {("mma", 0): _mma(defect)}
    for cta in (0, 1):
        programs["load", cta] = _load(cta, defect)
        programs["softmax", cta] = _softmax(cta, defect)
    return Machine(programs, COUNTS, {"kv_full": STAGES, "kv_empty": STAGES})


def _load(cta: int, defect: str) -> Program:
    yield Op("note", note="started")
    blocks = 3 if defect == "k-count" and cta == 1 else BLOCKS
    for k in range(blocks):
        stage, parity = k % STAGES, k // STAGES & 1
        yield Op("wait", "kv_empty", k, stage, 1 - parity)
        if defect == "producer-stopped" and cta == 1 and k == 2:
            yield Op("note", k=k, note="computing addresses")
            yield Op("silent", "never")
        into = 1 - stage if defect == "wrong-stage" and cta == 1 and k == 1 else stage
        yield Op("arrive", "kv_full", k, into, to=(0,), expect=64)
        if not (defect == "bytes-missing" and cta == 1 and k == 1):
            yield Op("tma", "kv_full", k, into, to=(0,), expect=64)
    if defect == "k-count":
        yield Op("note", k=blocks - 1, note="tile loop finished")


def _mma(defect: str) -> Program:
    both = (0, 1)
    for k in range(BLOCKS):
        stage, parity = k % STAGES, k // STAGES & 1
        yield Op("wait", "kv_full", k, stage, parity)
        if not (defect == "skipped-arrive" and k == 2):
            reach = (0,) if defect == "one-cta" and k >= 1 else both
            yield Op("arrive", "p_ready", k, to=reach)
        yield Op("wait", "s_ready", k, parity=k & 1)
        if defect == "cycle" and k == 2:  # wants three buffers full before it frees one, and there are two
            for ahead in (k + 1, k + 2):
                yield Op("wait", "kv_full", ahead, ahead % STAGES, ahead // STAGES & 1)
        yield Op("arrive", "kv_empty", k, stage, to=both)
    if defect != "never-arrived":
        yield Op("arrive", "o_done", BLOCKS - 1, to=both)


def _softmax(cta: int, defect: str) -> Program:
    for k in range(BLOCKS):
        parity = k & 1
        if defect == "wrong-parity" and cta == 1 and k == 2:
            yield Op("silent", "p_ready", parity=parity)  # late: then the wrong parity blocks
            parity = 1 - parity
        yield Op("wait", "p_ready", k, parity=parity)
        yield Op("arrive", "s_ready", k, to=(0,))
    yield Op("wait", "o_done", BLOCKS - 1, parity=0)


# Defect: the actors that a careful reader would call the root, its barrier, the causes that may come first.
DEFECTS: dict[str, tuple[tuple[Who, ...], tuple[str, ...], tuple[str, ...]]] = {
    "one-cta": ((("softmax", 1),), ("p_ready",), ("one-cta",)),
    "wrong-parity": ((("softmax", 1),), ("p_ready",), ("wrong-parity",)),
    "k-count": ((("mma", 0),), ("kv_full",), ("k-count",)),
    "cycle": ((("mma", 0), ("load", 0), ("load", 1)), ("kv_full", "kv_empty"), ("cycle", "skipped-arrive")),
    "never-arrived": ((("softmax", 0), ("softmax", 1)), ("o_done",), ("never-arrived",)),
    "bytes-missing": ((("mma", 0),), ("kv_full",), ("bytes-missing",)),
    "wrong-stage": ((("mma", 0),), ("kv_full",), ("wrong-stage",)),
    "producer-stopped": ((("mma", 0),), ("kv_full",), ("producer-stopped",)),
    "skipped-arrive": ((("softmax", 0), ("softmax", 1)), ("p_ready",), ("skipped-arrive",)),
}
