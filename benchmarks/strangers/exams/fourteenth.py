# ruff: noqa: E501 - log lines are kept whole
"""The fourteenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

from benchmarks.strangers.exams.names import Forms, calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Names, Style, barriers
from benchmarks.strangers.exams.twelfth import _resolved
from benchmarks.strangers.kernels import Case
from benchmarks.strangers.machine import Run, Who

_calls = partial(calls, between=" ~ ")

LOADERS = roles("tma_load, mma, epilogue, softmax_0, softmax_1, mainloop, compute, reduce, scheduler")
SHORT = roles("ldg, mma, epi, sm_lo, sm_hi, acc, dsoft, dqred, sched")
UNITS = roles("Loader, TensorCore, Writer, SoftmaxLow, SoftmaxHigh, Splitter, Gradient, DqSummer, TileQueue")
BUFFERS = roles("load_warp, mma_warp, epi_wg, smax0_wg, smax1_wg, math_wg, math_wg, dq_wg, sched_warp")
GROUPS = roles("dma, umma, store, softmaxA, softmaxB, math, math, dqadd, clc")
WORDS = roles("loader, mma issuer, epilogue, softmax A, softmax B, main loop, dS math, dQ adder, tile queue")
TRACED = roles("producer, mma, epilogue, softmax0, softmax1, consumer, consumer, reducer, scheduler")
FIELDS = roles("load, mma, epi, smx0, smx1, main, comp, red, sched", "{}_warp")
GERMAN = roles("Lade, MMA, Ausgabe, Softmax0, Softmax1, Haupt, Gradienten, Summen, Verteiler", "{}-Warp")
CHINESE = roles("加载, MMA, 写出, softmax0, softmax1, 主循环, 梯度, 累加, 调度", "{}warp")
JAPANESE = roles("読込, MMA, 書出, ソフトマックス0, ソフトマックス1, 本体, 勾配, 集計, 配布", "{}ワープ")
POINTED = roles("ld, tc, st, sm0, sm1, main, grad, red, tile")
FUNCTIONS = roles("loadTiles, issueMma, storeTiles, softmaxA, softmaxB, mainLoop, computeGrad, reduceDq, nextTile")  # fmt: skip
DEBUGGED = roles("tma, mma, epilogue, softmax0, softmax1, main, compute, reduce, sched")
CHECKED = roles("copy, gemm, output, softmax_a, softmax_b, split_k, dsoftmax, dqsum, tiles")
PYTHON = roles("load, mma, epilogue, softmax0, softmax1, main, compute, reduce, scheduler", "{}_warp")


class _Other(TypedDict):
    own: str
    to: str


class _Named(TypedDict):
    roles: Names
    aka: Forms


def _other(form: str) -> _Other:
    """The CTA of another CTA's barrier: `own` where it is waited on, `to` where an arrival goes there."""
    return {"own": form.replace("{}", "{owner}"), "to": form.replace("{}", "{to}")}


def _named(names: Names, parts: str = "", **short: str) -> _Named:
    """`roles` and `aka`: the names of the roles, these without `parts`, and short forms."""
    return {"roles": names, "aka": forms(names, parts, **short)}


# --- addresses of mbarriers, and legends ahead of the events


def _inits(case: Case, style: Style) -> list[str]:
    """The mbarrier.init of each mbarrier of each CTA, as thread 0 prints them."""
    rows = ["# same shared memory layout in every CTA; no `at cta` behind an address: in the own CTA"]
    for cta in range(ctas(case)):
        at = 0x23400
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"cta {cta}: mbarrier.init [{at:#07x}], {count}  ({style.bar(name)}[{stage}])")
                at += 8
    return rows


def _offsets(case: Case, style: Style) -> list[str]:
    """The offsets of the arrays of mbarriers in the struct of shared memory."""
    rows, at = [], 0x400
    for name, (stages, _) in barriers(case).items():
        rows.append(f"offsetof(SharedStorage, {style.bar(name)}) = {at:#x}  // uint64_t[{stages}]")
        at += 8 * stages
    return rows


# --- what a debugger or a checker shows behind the events


@dataclass(frozen=True)
class Ended(Style):
    """A style whose log ends with what a tool says of the run."""

    end: Callable[[Case, Run], list[str]] = lambda case, run: []

    def text(self, case: Case, run: Run, rng: random.Random) -> str:
        """The log of a run, and its end."""
        return super().text(case, run, rng) + "\n".join(self.end(case, run)) + "\n"


FILES = {  # where a blocked warp stands: the line of the call that does not return
    "wait": ("mbarrier.cuh", 58), "silent": ("mbarrier.cuh", 58), "sync": ("named_barrier.cuh", 31),
    "cluster_wait": ("cluster.cuh", 44), "alloc": ("tmem.cuh", 22), "syncthreads": ("ws_kernel.cu", 417),
}  # fmt: skip


def _threads(case: Case, run: Run) -> list[str]:
    """The warps that are still there after an interrupt, each with its source line."""
    if not run.blocked:
        return ["[Inferior 1 (process 40127) exited normally]"]
    order: list[Who] = sorted(run.blocked, key=lambda who: (who[1], WARPS[who[0]]))
    role, cta = order[0]
    rows = [
        "^C",
        'Thread 1 "repro" received signal SIGINT, Interrupt.',
        f"[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block ({cta},0,0), thread ({32 * WARPS[role]},0,0), device 0, sm 0, warp {WARPS[role]}, lane 0]",
        "(cuda-gdb) info cuda threads",
        "  BlockIdx  ThreadIdx To BlockIdx To ThreadIdx Count                 PC          Filename  Line",
        "Kernel 0",
    ]
    for at, (role, cta) in enumerate(order):
        op = run.blocked[role, cta]
        name, number = FILES.get(op.bar) or FILES.get(op.kind) or (f"{DEBUGGED[role].rstrip('01')}.cuh", 133)
        threads = 32 if WARPS[role] < 4 else 128
        first = 32 * WARPS[role]
        begin, last = f"({first},0,0)", f"({first + threads - 1},0,0)"
        pc = 0x7FFFD5F8E200 + 16 * (number + len(name))
        rows.append(
            f"{'*' if not at else ' '} ({cta},0,0) {begin:>10}     ({cta},0,0) {last:>12} {threads:>5} {pc:#018x} {name:>17} {number:>5}"
        )
    return rows


def _synccheck(case: Case, run: Run) -> list[str]:
    """synccheck sees a __syncthreads() that some threads of the block do not reach, and no other hang."""
    rows = []
    for (role, cta), op in sorted(run.blocked.items()):
        if op.bar == "syncthreads":
            rows += [
                "========= Barrier error detected. Divergent thread(s) in block.",
                "=========     at ws_kernel(Params)+0x2c40 in ws_kernel.cu:417",
                f"=========     by thread ({32 * WARPS[role]},0,0) in block ({cta},0,0)",
                "=========",
            ]
    errors = len(rows) // 4
    if run.blocked:
        rows += ["========= Error: process didn't terminate successfully"]
        rows += ["========= Target application returned an error"]
    return [*rows, f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}"]


STYLES: dict[str, Style] = {
    # A developer of CUDA C++, with a macro DBG_PRINTF that has the location of an assert: editors jump to it.
    "assert-place": Style(
        {
            "wait": "ws_kernel.cu:141: block: [{cta},0,0], thread: [{tid},0,0] {role}: poll start {bar}[{st}]{own}, parity {ph}{kk}",
            "done": "ws_kernel.cu:143: block: [{cta},0,0], thread: [{tid},0,0] {role}: poll end {bar}[{st}]{own}, parity {ph}{kk}",
            "arrive": "ws_kernel.cu:160: block: [{cta},0,0], thread: [{tid},0,0] {role}: arrive {bar}[{st}]{far}{kk}",
            "expect": "ws_kernel.cu:152: block: [{cta},0,0], thread: [{tid},0,0] {role}: arrive.expect_tx {bar}[{st}]{far}, {bytes} bytes{kk}",
            "copy": "ws_kernel.cu:155: block: [{cta},0,0], thread: [{tid},0,0] {role}: bulk tensor load on {bar}[{st}]{far}, {bytes} bytes{kk}",
            "enter": "ws_kernel.cu:171: block: [{cta},0,0], thread: [{tid},0,0] {role}: {api} start",
            "leave": "ws_kernel.cu:173: block: [{cta},0,0], thread: [{tid},0,0] {role}: {api} end",
            "call": "ws_kernel.cu:176: block: [{cta},0,0], thread: [{tid},0,0] {role}: {api}",
            "note": "ws_kernel.cu:180: block: [{cta},0,0], thread: [{tid},0,0] {role}: {text}",
        },
        **_named(LOADERS, "tma_|_", sched="sched"),
        bar=plus("", "_mbar", smem="ab"),
        **_other(" in block {}"),
        k=", k {k}",
    ),
    # A developer who only wants to see in which wait each warp is: before and after a wait, and arrivals; no bytes.
    "entering-leaving": Style(
        {
            "wait": "c{cta}.w{warp} {role}: entering wait {bar}[{st}]{own} ph={ph}{kk}",
            "done": "c{cta}.w{warp} {role}: leaving wait {bar}[{st}]{own} ph={ph}{kk}",
            "arrive": "c{cta}.w{warp} {role}: arriving {bar}[{st}]{far}{kk}",
            "expect": "c{cta}.w{warp} {role}: arriving {bar}[{st}]{far}{kk}",
            **_calls("c{cta}.w{warp} {role}: ", "entering {api} ~ leaving {api} ~ {api} ~ {text}"),
        },
        **_named(SHORT, load="ld", softmax0="smlo", softmax1="smhi"),
        bar=state_first(smem="ab", acc="tmem", d="tmem"),
        **_other(" of c{}"),
        k=" k={k}",
        shows=("phase", "stage", "to"),
        sync="bar.sync {number}, {size}",
    ),
    # A simulator of the kernel, in which each warp is a coroutine: it knows when the bytes of a copy have landed.
    "sim-landed": Style(
        {
            "wait": "[sim {t:>6}] cta{cta}/{role} deschedule: {bar}[{st}]{own}, phase {ph}{kk}",
            "done": "[sim {t:>6}] cta{cta}/{role} reschedule: {bar}[{st}]{own}, phase {ph}{kk}",
            "arrive": "[sim {t:>6}] cta{cta}/{role} arrival: {bar}[{st}]{far}{kk}",
            "expect": "[sim {t:>6}] cta{cta}/{role} arrival: {bar}[{st}]{far}, expect_tx {bytes} bytes{kk}",
            "copy": "[sim {t:>6}] cta{cta}/{role} complete_tx: {bar}[{st}]{far}, {bytes} bytes landed{kk}",
            **_calls(
                "[sim {t:>6}] cta{cta}/{role} ",
                "deschedule: {api} ~ reschedule: {api} ~ call: {api} ~ print: {text}",
            ),
        },
        **_named(UNITS, load="load", mma="tensor", epi="writ", reduce="sum", sched="tile"),
        bar=plus(smem="operands", acc="accum", d="accum"),
        **_other(" of cta{}"),
        k=", round {k}",
        head=lambda case, style: ["# deschedule: the warp waits; reschedule: it runs again"],
    ),
    # A writer of a CUTLASS kernel, who thinks of buffers: acquired by a wait, committed when full, released when empty.
    "acquiring": Style(
        {
            "wait": "[blk {cta} | {role} | it {k}] acquiring {bar}[{st}]{own} phase {ph}",
            "done": "[blk {cta} | {role} | it {k}] acquired {bar}[{st}]{own} phase {ph}",
            "arrive": "[blk {cta} | {role} | it {k}] commit {bar}[{st}]{far}",
            "arrive back": "[blk {cta} | {role} | it {k}] release {bar}[{st}]{far}",
            "expect": "[blk {cta} | {role} | it {k}] commit {bar}[{st}]{far} expect_tx {bytes}",
            "copy": "[blk {cta} | {role} | it {k}] tma load {bar}[{st}]{far} bytes {bytes}",
            **_calls("[blk {cta} | {role}] ", "acquiring {api} ~ acquired {api} ~ {api} ~ {text}"),
        },
        **_named(BUFFERS, "_(warp|wg)", softmax0="softmax0", softmax1="softmax1"),
        bar=plus("bar_", smem="ab", d="acc"),
        **_other(" at blk {}"),
        sync="named_barrier_sync({number}, {size})",
    ),
    # A user of torchrun --tee 3: it puts [default0]: ahead of what the kernel of local rank 0 prints.
    "torchrun-loop": Style(
        {
            "wait": "[default0]:bx={cta} {role:<8} in wait loop {bar}.{st}{own} bit={ph} n={k}",
            "done": "[default0]:bx={cta} {role:<8} out of wait loop {bar}.{st}{own} bit={ph} n={k}",
            "arrive": "[default0]:bx={cta} {role:<8} arrive {bar}.{st}{far} n={k}",
            "expect": "[default0]:bx={cta} {role:<8} arrive {bar}.{st}{far} tx={bytes} n={k}",
            "copy": "[default0]:bx={cta} {role:<8} load {bar}.{st}{far} bytes={bytes} n={k}",
            **_calls("[default0]:bx={cta} {role:<8} ", "before {api} ~ after {api} ~ {api} ~ msg: {text}"),
        },
        **_named(GROUPS, load="load", mma="mma", reduce="dq"),
        bar=plus("mb_", smem="tiles", d="acc"),
        **_other(" bar_bx={}"),
        head=lambda case, style: ["[default0]:# mb_NAME.STAGE, bar_bx: CTA of the barrier if another's"],
        sync="barrier.sync {number}, {size}",
    ),
    # A developer who prints clock64() first, to sort the lines, and cluster masks as the multicast instructions have them.
    "clock-pausing": Style(
        {
            "wait": "{t:>7} clk  {role} (cta {cta}) pausing at {bar}[{st}]{own} phase {ph}{kk}",
            "done": "{t:>7} clk  {role} (cta {cta}) continuing after {bar}[{st}]{own} phase {ph}{kk}",
            "arrive": "{t:>7} clk  {role} (cta {cta}) adds an arrival to {bar}[{st}]{far}{kk}",
            "expect": "{t:>7} clk  {role} (cta {cta}) adds an arrival to {bar}[{st}]{far} with expect_tx of {bytes} B{kk}",
            "copy": "{t:>7} clk  {role} (cta {cta}) loads {bytes} B by TMA for {bar}[{st}]{far}{kk}",
            **_calls(
                "{t:>7} clk  {role} (cta {cta}) ",
                "pausing at {api} ~ continuing after {api} ~ calls {api} ~ says: {text}",
            ),
        },
        **_named(WORDS, " (issuer|loop|math|adder)", sched="tile", softmax0="softmaxa", softmax1="softmaxb"),
        bar=plus(smem="stage", full="filled", empty="vacant", free="vacant", d="acc"),
        own=" (of cta {owner})",
        to=" (cta_mask {to})",
        k=", loop {k}",
        mask=True,
    ),
    # A ring buffer of trace records that a script of the host writes as JSON lines; terms of PTX (phase completion).
    "jsonl-phase": Style(
        {
            "wait": '{{"clk":{t},"ev":"phase_pending","mbar":"{bar}","stage":{st}{own},"parity":{ph},"iter":{k},"cta":{cta},"warp":{warp},"role":"{role}"}}',
            "done": '{{"clk":{t},"ev":"phase_complete","mbar":"{bar}","stage":{st}{own},"parity":{ph},"iter":{k},"cta":{cta},"warp":{warp},"role":"{role}"}}',
            "arrive": '{{"clk":{t},"ev":"arrive","mbar":"{bar}","stage":{st}{far},"iter":{k},"cta":{cta},"warp":{warp},"role":"{role}"}}',
            "expect": '{{"clk":{t},"ev":"arrive_expect_tx","mbar":"{bar}","stage":{st}{far},"tx_bytes":{bytes},"iter":{k},"cta":{cta},"warp":{warp},"role":"{role}"}}',
            "copy": '{{"clk":{t},"ev":"tma_load","mbar":"{bar}","stage":{st}{far},"bytes":{bytes},"iter":{k},"cta":{cta},"warp":{warp},"role":"{role}"}}',
            **_calls(
                '{{"clk":{t},"ev":',
                '"call_pending","call":"{api}","cta":{cta},"warp":{warp},"role":"{role}"}} ~ "call_complete","call":"{api}","cta":{cta},"warp":{warp},"role":"{role}"}} ~ "call","call":"{api}","cta":{cta},"warp":{warp},"role":"{role}"}} ~ "message","text":"{text}","cta":{cta},"warp":{warp},"role":"{role}"}}',
            ),
        },
        **_named(TRACED, load="load", reduce="reduce", sched="sched"),
        bar=plus("", "_mbar", smem="ab", acc="tmem", d="tmem"),
        own=',"mbar_cta":{owner}',
        to=',"mbar_cta":[{to}]',
    ),
    # The bool of try_wait as a field of logfmt: 0 ahead of the loop, 1 behind it; grep ok=0 | tail finds the hang.
    "logfmt-ok": Style(
        {
            "wait": "clk={t} blk={cta} who={role} op=try_wait ok=0 mbar={bar} slot={st}{own} par={ph} i={k}",
            "done": "clk={t} blk={cta} who={role} op=try_wait ok=1 mbar={bar} slot={st}{own} par={ph} i={k}",
            "arrive": "clk={t} blk={cta} who={role} op=arrive mbar={bar} slot={st}{far} i={k}",
            "expect": "clk={t} blk={cta} who={role} op=arrive_expect_tx mbar={bar} slot={st}{far} bytes={bytes} i={k}",
            "copy": "clk={t} blk={cta} who={role} op=tma_load mbar={bar} slot={st}{far} bytes={bytes} i={k}",
            **_calls(
                "clk={t} blk={cta} who={role} ",
                'op="{api}" ok=0 ~ op="{api}" ok=1 ~ op="{api}" ~ op=print text="{text}"',
            ),
        },
        **_named(FIELDS, "_warp", softmax0="softmax0", softmax1="softmax1"),
        bar=state_first(smem="smem", acc="tmem", d="tmem"),
        **_other(" mbar_blk={}"),
        head=lambda case, style: ["# ok=0: printed before the wait loop, ok=1: printed after it"],
        sync="bar.sync {number} {size}",
    ),
    # A German developer: the words of his colleagues, the names of his code.
    "de-haelt": Style(
        {
            "wait": "Block {cta}, {role}: hält bei {bar}[{st}]{own}, Phase {ph}{kk}",
            "done": "Block {cta}, {role}: läuft weiter nach {bar}[{st}]{own}, Phase {ph}{kk}",
            "arrive": "Block {cta}, {role}: quittiert {bar}[{st}]{far}{kk}",
            "expect": "Block {cta}, {role}: quittiert {bar}[{st}]{far}, es folgen {bytes} Byte{kk}",
            "copy": "Block {cta}, {role}: lädt {bytes} Byte per TMA für {bar}[{st}]{far}{kk}",
            **_calls(
                "Block {cta}, {role}: ",
                "hält bei {api} ~ läuft weiter nach {api} ~ führt {api} aus ~ Ausgabe: {text}",
            ),
        },
        **_named(GERMAN, "-Warp"),
        bar=plus(smem="kachel", full="voll", empty="leer", free="leer", read="leer", d="acc"),
        **_other(" von Block {}"),
        k=", Schleife {k}",
    ),
    # A Chinese developer: a wait ends when the phase bit flips, which Chinese write-ups of mbarriers call 翻转.
    "zh-flip": Style(
        {
            "wait": "CTA {cta} {role} iter={k}: 等 {bar}[{st}]{own} 翻转, phase={ph}",
            "done": "CTA {cta} {role} iter={k}: {bar}[{st}]{own} 已翻转, phase={ph}, 往下走",
            "arrive": "CTA {cta} {role} iter={k}: 发 arrive 到 {bar}[{st}]{far}",
            "expect": "CTA {cta} {role} iter={k}: 发 arrive 到 {bar}[{st}]{far}, expect_tx={bytes} 字节",
            "copy": "CTA {cta} {role} iter={k}: 下发 TMA 加载 {bytes} 字节, mbar={bar}[{st}]{far}",
            **_calls("CTA {cta} {role}: ", "等 {api} 返回 ~ {api} 已返回 ~ 调用 {api} ~ 打印: {text}"),
        },
        **_named(CHINESE, "warp"),
        bar=plus(smem="ab", d="acc"),
        **_other(" (CTA {} 的)"),
    ),
    # A Japanese developer: polling of the barrier begins and ends, in the words of the Japanese CUDA manuals.
    "ja-polling": Style(
        {
            "wait": "【ブロック{cta} {role}】{bar}[{st}]{own} のポーリング開始 位相={ph}{kk}",
            "done": "【ブロック{cta} {role}】{bar}[{st}]{own} のポーリング完了 位相={ph}{kk}",
            "arrive": "【ブロック{cta} {role}】{bar}[{st}]{far} に arrive を発行{kk}",
            "expect": "【ブロック{cta} {role}】{bar}[{st}]{far} に arrive を発行 予定={bytes}バイト{kk}",
            "copy": "【ブロック{cta} {role}】{bar}[{st}]{far} に TMA ロードを発行 転送={bytes}バイト{kk}",
            **_calls("【ブロック{cta} {role}】", "{api} 開始 ~ {api} 完了 ~ {api} を発行 ~ 出力: {text}"),
        },
        **_named(JAPANESE, "ワープ"),
        bar=state_first(smem="tile", acc="tmem", d="tmem"),
        **_other("(ブロック{}側)"),
        k=" 反復={k}",
    ),
    # A developer of inline PTX has only 32-bit shared addresses in the wait; thread 0 prints each mbarrier.init.
    "hex-busy-wait": Style(
        {
            "wait": "cta {cta} {role} i={k}: busy-wait on <{bar}[{st}]>{own} parity {ph}",
            "done": "cta {cta} {role} i={k}: busy-wait over <{bar}[{st}]>{own} parity {ph}",
            "arrive": "cta {cta} {role} i={k}: mbarrier.arrive <{bar}[{st}]>{far}",
            "expect": "cta {cta} {role} i={k}: mbarrier.arrive.expect_tx <{bar}[{st}]>{far} bytes {bytes}",
            "copy": "cta {cta} {role} i={k}: cp.async.bulk.tensor <{bar}[{st}]>{far} bytes {bytes}",
            **_calls("cta {cta} {role}: ", "begin {api} ~ end {api} ~ {api} ~ text: {text}"),
        },
        **_named(POINTED, load="load", epi="store"),
        bar=plus(smem="ab", d="acc"),
        **_other(" at cta {}"),
        head=_inits,
        whole=_resolved(r"\[(?P<at>0x\w+)\], \d+  \((?P<name>\w+)\[0\]"),
    ),
    # Calls as in the code, with offsets in the struct of shared memory that the host prints with offsetof at the launch.
    "wait-offset": Style(
        {
            "wait": "b{cta} {role} #{k}: wait(smem + <{bar}[{st}]>, {ph}{own}) looping",
            "done": "b{cta} {role} #{k}: wait(smem + <{bar}[{st}]>, {ph}{own}) ready",
            "arrive": "b{cta} {role} #{k}: arrive(smem + <{bar}[{st}]>{far})",
            "expect": "b{cta} {role} #{k}: arrive_expect_tx(smem + <{bar}[{st}]>, {bytes}{far})",
            "copy": "b{cta} {role} #{k}: tma_load(smem + <{bar}[{st}]>, {bytes}{far})",
            **_calls("b{cta} {role}: ", '{api} looping ~ {api} ready ~ {api} ~ printf("{text}")'),
        },
        **_named(FUNCTIONS, "(Tiles|Loop|Grad|Dq)$|^issue|^next"),
        bar=mbarriers(lambda name: re.sub(r"_(\w)", lambda found: found[1].upper(), name) + "Bar"),
        own=", cta={owner}",
        to=", ctas=[{to}]",
        head=_offsets,
        whole=_resolved(r"Storage, (?P<name>\w+)\) = (?P<at>0x\w+)"),
        sync="barSync({number}, {size})",
    ),
    # cuda-gdb: the program prints until it hangs, then ^C and the threads that are left, each with its source line.
    "gdb-session": Ended(
        {
            "wait": "[blk {cta} warp {warp} {role}] sync on {bar}[{st}]{own} ph={ph}{kk}",
            "done": "[blk {cta} warp {warp} {role}] synced on {bar}[{st}]{own} ph={ph}{kk}",
            "arrive": "[blk {cta} warp {warp} {role}] signal {bar}[{st}]{far}{kk}",
            "expect": "[blk {cta} warp {warp} {role}] signal {bar}[{st}]{far} tx={bytes}{kk}",
            "copy": "[blk {cta} warp {warp} {role}] tma {bar}[{st}]{far} bytes={bytes}{kk}",
            **_calls("[blk {cta} warp {warp} {role}] ", "sync on {api} ~ synced on {api} ~ {api} ~ {text}"),
        },
        **_named(DEBUGGED, load="load"),
        bar=plus("", "_bar", smem="tile", d="acc"),
        **_other(" of blk {}"),
        k=" k={k}",
        head=lambda case, style: ["(cuda-gdb) run", "Starting program: /home/dev/ws/build/repro"],
        end=_threads,
    ),
    # compute-sanitizer --tool synccheck over a kernel that prints: the tool sees divergent __syncthreads() only.
    "synccheck-tail": Ended(
        {
            "wait": "block {cta} thread {tid} {role}, k {k}: reached the wait on {bar}[{st}]{own}, phase {ph}",
            "done": "block {cta} thread {tid} {role}, k {k}: crossed the wait on {bar}[{st}]{own}, phase {ph}",
            "arrive": "block {cta} thread {tid} {role}, k {k}: arrive on {bar}[{st}]{far}",
            "expect": "block {cta} thread {tid} {role}, k {k}: arrive on {bar}[{st}]{far}, expect_tx {bytes}",
            "copy": "block {cta} thread {tid} {role}, k {k}: tma load on {bar}[{st}]{far}, {bytes} bytes",
            **_calls("block {cta} thread {tid} {role}: ", "reached {api} ~ crossed {api} ~ {api} ~ {text}"),
        },
        **_named(CHECKED, load="load", softmax0="softmaxa", softmax1="softmaxb"),
        bar=plus(smem="ab", d="acc"),
        **_other(" of block {}"),
        head=lambda case, style: ["========= COMPUTE-SANITIZER"],
        end=_synccheck,
    ),
    # A tracer around the pipelines of a Python DSL: `await` before a call that may block, `done` behind it.
    "py-pipes": Style(
        {
            "wait": "cta={cta} {role:<14} await {bar}.consumer_wait(stage={st}, phase={ph}{own}){kk}",
            "wait back": "cta={cta} {role:<14} await {bar}.producer_acquire(stage={st}, phase={ph}{own}){kk}",
            "done": "cta={cta} {role:<14} done  {bar}.consumer_wait(stage={st}, phase={ph}{own}){kk}",
            "done back": "cta={cta} {role:<14} done  {bar}.producer_acquire(stage={st}, phase={ph}{own}){kk}",
            "arrive": "cta={cta} {role:<14} call  {bar}.producer_commit(stage={st}{far}){kk}",
            "arrive back": "cta={cta} {role:<14} call  {bar}.consumer_release(stage={st}{far}){kk}",
            "expect": "cta={cta} {role:<14} call  {bar}.producer_commit(stage={st}, expect_tx={bytes}{far}){kk}",
            "copy": "cta={cta} {role:<14} call  {bar}.tma_copy(stage={st}, nbytes={bytes}{far}){kk}",
            **_calls("cta={cta} {role:<14} ", 'await {api} ~ done  {api} ~ call  {api} ~ print("{text}")'),
        },
        **_named(PYTHON, "_warp", sched="sched"),
        bar=mbarriers(lambda name: re.sub(r"_(full|empty|free|ready|done|read)$", "", name) + "_pipe"),
        own=", peer_cta={owner}",
        to=", dst_ctas=[{to}]",
        k="  # k_tile {k}",
        sync="cute.arch.barrier({number}, {size})",
    ),
}
