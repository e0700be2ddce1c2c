"""Wordings that are drawn: each log combines a head, verbs, and ways to print a barrier, its CTA and numbers.

Every part is what somebody prints; a seed gives a wording that nobody has read before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.strangers.machine import Event, Op
from benchmarks.strangers.wordings import WARPS, Wording, mask, peer, remote, warp_name

HEADS = (
    "CTA{c} {r}: k={k} ", "[cta={c} role={r} k={k}] ", "{r}[cta {c}] k={k} ", "<cta{c}> {r}: k_iter {k}: ",
    "{r}, cta {c}, tile {k} -- ", "blockIdx.x={c} warp_id={w} k={k}: ", "dbg: cta={c}, wid={w}, kb={k}: ",
    "{r}(cta={c}) [kb {k}] ", "cta {c} | {r} | k {k} | ", "printf> block {c} warp {w} iteration {k} ",
    "[{r}@cta{c} k={k}] ", "{r} warp of CTA {c}, k-block {k}: ",
)  # fmt: skip
WAITS = (
    ("waiting for {b} {p}", "done waiting for {b} {p}"), ("wait({b}, {n})", "wait({b}, {n}) done"),
    ("blocking on {b} {p}", "passed {b} {p}"), ("enter wait {b} {p}", "exit wait {b} {p}"),
    ("{b} {p} wait...", "{b} {p} wait ok"), ("acquiring {b} {p}", "acquired {b} {p}"),
    ("before waiting on {b} {p}", "after waiting on {b} {p}"), ("stuck? {b} {p}", "not stuck: {b} {p}"),
    ("sleeping until {b} {p}", "woke up from {b} {p}"), ("begin mbar_wait {b} {p}", "end mbar_wait {b} {p}"),
)  # fmt: skip
PHASES = ("phase {n}", "parity={n}", "ph={n}", "phase_bit={n}", "(phase {n})", "parity: {n}")
BARRIERS = ("{b}[{s}]", "{b}.{s}", "{b} stage {s}", "{b}/{s}", "{b} (slot {s})", "{b}[stage={s}]")
OWNERS = (" of CTA {o}", "@cta{o}", " (CTA {o})", " in cta {o}", " [owner_cta={o}]")
ARRIVALS = (
    "arrive {b}{m}{x}", "signal {b}{m}{x}", "commit -> {b}{m}{x}", "arrives at {b}{m}{x}",
    "arrive({b}){m}{x}", "releasing {b}{m}{x}", "notify {b}{m}{x}", "mbar_arrive {b}{m}{x}",
)  # fmt: skip
MASKS = (" mask={m:#x}", " to CTA {l}", " multicast mask {m:#x}", " cta_mask={m:#b}")
BYTES = (" expect_tx={n}", ", {n} bytes expected", " tx={n}", " (expects {n} bytes)", " tx_bytes={n}")
COPIES = (
    "TMA load {n} bytes -> {b}", "copy {b} bytes={n}", "issued bulk copy, {n} bytes, {b}",
    "cp.async.bulk into {b} ({n} bytes)", "tma copy {b} size={n}",
)  # fmt: skip
NAMED = ("bar.sync {i}, {n}", "named barrier {i}", "NamedBarrier {i}", "barrier.sync {i}, {n}")
THREADS = ("__syncthreads()", "syncthreads", "__syncthreads")
CLUSTERS = (
    ("barrier.cluster.arrive", "barrier.cluster.wait"), ("cluster_arrive()", "cluster_wait()"),
    ("cluster.arrive", "cluster.wait"),
)  # fmt: skip
ALLOCATIONS = (
    ("tcgen05.alloc {n} columns", "tcgen05.dealloc {n} columns"), ("tmem_alloc({n})", "tmem_dealloc({n})"),
)  # fmt: skip


@dataclass(frozen=True)
class Mixed:
    """A drawn way to print; calling it prints an event."""

    head: str
    wait: tuple[str, str]
    phase: str
    barrier: str
    owner: str
    arrive: str
    mask: str
    bytes: str
    copy: str
    named: str
    threads: str
    cluster: tuple[str, str]
    alloc: tuple[str, str]

    def __call__(self, e: Event) -> str:
        op, (role, cta) = e.op, e.who
        k = 0 if op.k is None else op.k
        return self.head.format(c=cta, r=role, w=WARPS[role], k=k) + self.event(e)

    def event(self, e: Event) -> str:
        op = e.op
        bar = self.barrier.format(b=op.bar, s=op.stage)
        if op.kind == "wait":
            bar += self.owner.format(o=op.owner) if peer(e) else ""
            said = self.wait[e.end].format(b=bar, p=self.phase.format(n=op.parity), n=op.parity)
            return said.rstrip()
        if op.kind == "arrive":
            reach = self.mask.format(m=mask(op), l=" and ".join(map(str, op.to))) if remote(e) else ""
            return self.arrive.format(b=bar, m=reach, x=self.bytes.format(n=op.size) if op.size else "")
        if op.kind == "copy":
            return self.copy.format(b=bar, n=op.size)
        if op.kind in ("note", "cluster_arrive", "dealloc"):
            return op.text if op.kind == "note" else self.call(op)
        return self.wait[e.end].format(b=self.call(op), p="", n="").replace(", )", ")").rstrip()

    def call(self, op: Op) -> str:
        """An operation that is no mbarrier's."""
        if op.kind == "sync":
            return self.named.format(i=op.number, n=op.size) if op.number >= 0 else self.threads
        if op.kind in ("alloc", "dealloc"):
            return self.alloc[op.kind == "dealloc"].format(n=op.size)
        return self.cluster[op.kind == "cluster_wait"]


# Parts that were written after the explainer had been improved on those above.
HELD = (
    (
        "[CTA {c}] [{r}] [k {k}] ", "{r} (cta{c}) k={k} - ", "cta{c}/{r} k{k}: ", "(cta {c}; {r}; k {k}) ",
        "{r} on CTA {c} at k={k}: ", "block={c} wid={w} step={k} ", "## cta {c} -- warp {w} -- tile {k}: ",
    ),
    (
        ("waits at {b} {p}", "continues after {b} {p}"), ("WAIT {b} {p}", "WAIT-DONE {b} {p}"),
        ("about to wait: {b} {p}", "finished waiting: {b} {p}"), ("spinning on {b} {p}", "completed {b} {p}"),
        ("try_wait {b} {p} start", "try_wait {b} {p} success"), ("wait {b} {p} {{", "}} wait {b} {p}"),
    ),
    ("phase={n}", "p={n}", "with parity {n}", "phase bit {n}"),
    ("{b}[{s}]", "{b} [slot {s}]", "{b}#{s}", "{b} buf {s}", "{b}<{s}>"),
    (" on CTA {o}", " (remote, cta {o})", ":cta{o}", " owned by CTA {o}"),
    ("arrived on {b}{m}{x}", "committing {b}{m}{x}", "arrive: {b}{m}{x}", "signals {b}{m}{x}",
     "posts {b}{m}{x}"),
    (" multicast to CTAs {l}", " (mask {m:#x})", " cluster_mask={m:#x}"),
    (" with {n} tx bytes", " bytes={n}", " expecting {n} bytes"),
    ("tma {b} bytes={n}", "loads {n} bytes, signals {b}", "bulk tensor copy {n} bytes to {b}"),
    ("bar.sync {i}", "named_barrier_sync({i}, {n})", "named barrier #{i}"),
    ("__syncthreads()", "cta sync (__syncthreads)"),
    (("cluster.arrive", "cluster.wait"), ("cluster barrier arrive", "cluster barrier wait")),
    (("tcgen05.alloc {n}", "tcgen05.dealloc {n}"), ("TMEM alloc {n} cols", "TMEM dealloc {n} cols")),
)  # fmt: skip


def mixed(rng: random.Random, held: bool = False) -> Wording:
    """Draw a wording; `held`: of the parts held back."""
    pools = HELD if held else (
        HEADS, WAITS, PHASES, BARRIERS, OWNERS, ARRIVALS, MASKS, BYTES, COPIES, NAMED, THREADS, CLUSTERS,
        ALLOCATIONS,
    )  # fmt: skip
    said = Mixed(*(rng.choice(pool) for pool in pools))
    if "{r}" in said.head:
        return Wording(said)
    return Wording(said, warp_name)
