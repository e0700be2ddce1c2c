# ruff: noqa: E501 - log lines are kept whole
"""The eighteenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Names, Style, barriers, camel
from benchmarks.strangers.kernels import Case
from benchmarks.strangers.machine import Op, Run

PLAIN = roles("load, mma, epilogue, softmax0, softmax1, math, dscore, dq_reduce, scheduler")
WARPS_OF = roles("load, mma, epilogue, softmax0, softmax1, math, dscore, dq_sum, tile_sched", "{}_warp")
PRODUCER = roles("producer, mma, epilogue, softmax_lo, softmax_hi, consumer, consumer, reducer, sched")
UPPER = roles("LOAD, MMA, EPI, SMAX0, SMAX1, MATH, GRAD, RED, SCHED")
TMA = roles("tma, umma, drain, sm_a, sm_b, gemm, grad, dq_red, tile_fetch")
CLASSES = roles("Loader, Mma, Store, SoftmaxA, SoftmaxB, Compute, Compute, DqReduce, TileScheduler")
SNAKE = roles("tma_load, tc_mma, tma_store, softmax_0, softmax_1, main_math, ds_math, dq_add, tile_sched")
DASHED = roles("loader, issuer, epilogue, softmax-0, softmax-1, consumer, gradient, dq-reduce, scheduler")
GERMAN = roles("Laden, MMA, Epilog, Softmax0, Softmax1, Rechnen, Rechnen, Reduktion, Zuteilung")
CHINESE = roles("读取, 矩阵乘, 存储, 软最大0, 软最大1, 运算, 梯度, 求和, 调度器")
JAPANESE = roles("読込, 行列積, 書出, ソフトマックス0, ソフトマックス1, 演算, 勾配, 集約, 割当")
SHORT = roles("ld, mma, epi, sm0, sm1, acc, ds, red, sched")
FUNCTIONS = roles(
    "load_loop, mma_loop, epilogue_loop, softmax0_loop, softmax1_loop, math_loop, ds_loop, dq_loop, sched_loop"
)
CUTLASS = roles("Load, Mma, Epilogue, Softmax0, Softmax1, Math, Compute, Reduction, Scheduler")
STATE = re.compile(r"_(full|empty|free|ready|done|read)$")


def _events(before: str, *events: str, bare: str = "") -> Names:
    """Templates of wait, done, arrive, expect, copy, and of the other operations, which begin with `bare`."""
    mbarrier = zip(("wait", "done", "arrive", "expect", "copy"), events[:5], strict=True)
    found = {kind: before + each for kind, each in mbarrier if each} | calls(bare or before, events[5])
    return {kind: template for kind, template in found.items() if template != before}


# --- addresses of mbarriers, and legends at the head that name them


def _placed(case: Case, base: int) -> list[tuple[str, int, int, int]]:
    """(name, first address, stages, arrivals) of each array of mbarriers."""
    found = []
    for name, (stages, count) in barriers(case).items():
        found.append((name, base, stages, count))
        base += 8 * stages
    return found


def _inits(case: Case, style: Style) -> list[str]:
    """A line for each mbarrier.init."""
    return [
        f"cta {cta} init: mbarrier_init(0x{at + 8 * stage:05x}, {case.kernel.more.get((name, cta), count)})  // {style.bar(name)}[{stage}]"
        for cta in range(ctas(case))
        for name, at, stages, count in _placed(case, 0x18000)
        for stage in range(stages)
    ]


def _arrays(case: Case, style: Style) -> list[str]:
    """A line for each array."""
    rows = [
        f"#   {style.bar(name):<12} @ 0x{at:05x}, depth {stages}"
        for name, at, stages, _ in _placed(case, 0x2E100)
    ]
    return ["# mbarriers in shared memory (same offsets in every CTA, stride 8):", *rows]


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address; `legend` finds the first address and the name of an array."""

    def whole(lines: list[str]) -> list[str]:
        matches = [found for line in lines if (found := re.search(legend, line))]
        base = {found["name"]: int(found["at"], 16) for found in matches}
        return [
            re.sub(r"<(\w+)\[(\d+)\]>", lambda found: f"0x{base[found[1]] + 8 * int(found[2]):05x}", line)
            for line in lines
        ]

    return whole


# --- what tools print behind the events


@dataclass(frozen=True)
class Tool(Style):
    """A style with the output of a tool behind the events, which knows where each role is in the end."""

    tail: Callable[[Case, Run, Style], list[str]] | None = None

    def text(self, case: Case, run: Run, rng: random.Random) -> str:
        assert self.tail is not None
        return super().text(case, run, rng) + "\n".join(self.tail(case, run, self)) + "\n"


def _frame(op: Op, style: Style) -> list[str]:
    """The innermost frame of a warp that is in an operation."""
    if op.kind in ("wait", "silent"):
        arguments = f'name="{style.bar(op.bar)}", stage={op.stage}, parity={op.parity}, cta={op.owner}'
        return [f"mbar_wait ({arguments}) at mbarrier.cuh:57"]
    if op.kind == "sync" and op.number >= 0:
        return [f"named_sync (id={op.number}, threads={op.size}) at barrier.cuh:22"]
    where = {"sync": "__syncthreads () at barrier.cuh:9", "cluster_wait": "cluster_wait () at cluster.cuh:31"}
    where["alloc"] = f"tmem_alloc (columns={op.size}) at tmem.cuh:18"
    return [where[op.kind]] if op.kind in where else []


def _gdb(case: Case, run: Run, style: Style) -> list[str]:
    """The session after Ctrl-C: every resident warp and its frames."""
    if not run.blocked:
        return ["[Inferior 1 (process 20417) exited normally]", "(cuda-gdb)"]
    found = ["^C", 'Thread 1 "kernel_test" received signal SIGINT, Interrupt.', "(cuda-gdb) set print address off"]  # fmt: skip
    for (role, cta), op in sorted(run.blocked.items(), key=lambda item: (item[0][1], WARPS[item[0][0]])):
        warp, line = WARPS[role], 100 + 40 * WARPS[role]
        frames = [*_frame(op, style), f"{style.role(role)} () at kernel.cu:{line}", f"kernel<<<({ctas(case)},1,1),(384,1,1)>>> () at kernel.cu:88"]  # fmt: skip
        sm = 0 if case.family in ("tenants", "decode") else 2 * cta  # these share the SM's Tensor Memory
        focus = f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({32 * warp},0,0), device 0, sm {sm}, warp {warp}, lane 0]"
        found += [f"(cuda-gdb) cuda block {cta} thread {32 * warp}", focus, "(cuda-gdb) bt"]
        found += [f"#{at}  {frame}" for at, frame in enumerate(frames)]
    return [*found, "(cuda-gdb)"]


def _synccheck(case: Case, run: Run, style: Style) -> list[str]:
    """synccheck reports a __syncthreads that some threads of the block have left the kernel without."""
    errors = 0
    found: list[str] = []
    for (role, cta), op in sorted(run.blocked.items()):
        left = [who for who in case.kernel.programs if who[1] == cta and who not in run.blocked]
        if op.kind != "sync" or op.number >= 0 or not left:  # named: not of all threads
            continue
        errors += 1
        found += [
            "========= Barrier error detected. Divergent thread(s) in block",
            f"=========     at kernel(Params)+0x{0x940 + 0x120 * WARPS[role]:x} in kernel.cu:{100 + 40 * WARPS[role]}",
            f"=========     by thread ({32 * WARPS[role]},0,0) in block ({cta},0,0)",
            "=========",
        ]
    if run.blocked:
        found += ["========= Error: process didn't terminate successfully", "========= Target application returned an error"]  # fmt: skip
    return [*found, f"========= ERROR SUMMARY: {errors} error{'s' * (errors != 1)}"]


STYLES: dict[str, Style] = {
    # Lines of events.
    # A macro that puts a printf before and after each wait of thread 0 of a warp; block and thread tell who it is.
    "pre-post-wait": Style(
        _events(
            "[blk {cta} tid {tid} {role}] ",
            "pre-wait {bar}[{st}]{own} phase={ph} k={k}",
            "post-wait {bar}[{st}]{own} phase={ph} k={k}",
            "arrived {bar}[{st}]{far} k={k}",
            "arrived {bar}[{st}]{far} expect_tx={bytes} k={k}",
            "TMA load -> {bar}[{st}]{far} bytes={bytes} k={k}",
            "pre-wait {api}|post-wait {api}|{api}|{text}",
        ),
        roles=PLAIN,
        own=" (blk {owner})",
        to=" (blk {to})",
        aka=forms(PLAIN, reduce="reduce", sched="sched"),
    ),
    # Someone who reads the log aloud to a colleague: block and warp, then a short English sentence.
    "sitting-at": Style(
        _events(
            "b{cta}/w{warp} {role} | ",
            "sitting at {bar} #{st}{own}, parity {ph}{kk}",
            "got past {bar} #{st}{own}, parity {ph}{kk}",
            "notified {bar} #{st}{far}{kk}",
            "notified {bar} #{st}{far} and promised {bytes} bytes{kk}",
            "sent off TMA for {bar} #{st}{far}, {bytes} bytes{kk}",
            "sitting at {api}|got past {api}|ran {api}|note: {text}",
        ),
        roles=WARPS_OF,
        bar=plus("mbar_", smem="ab", d="acc"),
        own=" in b{owner}",
        to=" in b{to}",
        k=", iter {k}",
        aka=forms(WARPS_OF, "_warp", epi="epi", reduce="dq", sched="tile"),
        sync="bar.sync {number} ({size} threads)",
    ),
    # A writer of a ring buffer: acquire before use, publish for the consumers, release to the producer.
    "acquire-publish": Style(
        _events(
            "[cta {cta}][{role}] it={k} ",
            "acquiring {bar}[{st}]{own} ph={ph}",
            "acquired {bar}[{st}]{own} ph={ph}",
            "published {bar}[{st}]{far}",
            "published {bar}[{st}]{far} tx={bytes}",
            "bulk copy into {bar}[{st}]{far} nbytes={bytes}",
            "acquiring {api}|acquired {api}|{api}|msg: {text}",
            bare="[cta {cta}][{role}] ",
        )
        | {"arrive back": "[cta {cta}][{role}] it={k} released {bar}[{st}]{far}"},
        roles=PRODUCER,
        bar=plus(smem="tile", acc="accum", d="accum"),
        own=" on peer cta {owner}",
        to=" cta_mask={to}",
        mask=True,
        aka=forms(PRODUCER, sched="sched"),
        sync="NamedBarrier[{number}].sync({size})",
    ),
    # The least that finds a hang: clock, entering and leaving each wait, and each arrival; no bytes, no messages.
    "entering-leaving": Style(
        _events(
            "{t} CTA{cta} {role} ",
            "entering wait {bar}[{st}]{own} phase {ph} iter {k}",
            "leaving wait {bar}[{st}]{own} phase {ph} iter {k}",
            "arrival on {bar}[{st}]{far} iter {k}",
            "arrival on {bar}[{st}]{far} iter {k}",
            "",
            "entering {api}|leaving {api}|{api}|",
        ),
        roles=UPPER,
        bar=mbarriers(camel),
        own=" of CTA{owner}",
        to=" of CTA{to}",
        shows=("phase", "stage", "to"),
        aka=forms(UPPER, epi="epi"),
        sync="bar.sync({number}, {size})",
    ),
    # Someone who suspects the transaction count: what was armed, what landed (copies by st.async, counted by the loader).
    "armed-landed": Style(
        _events(
            "{role}.{cta}: ",
            "watching {bar}/{st}{own} for phase {ph} (round {k})",
            "{bar}/{st}{own} fired, phase {ph} (round {k})",
            "one arrival to {bar}/{st}{far} (round {k})",
            "armed {bar}/{st}{far}, one arrival, expect_tx {bytes} B (round {k})",
            "landed {bytes} B on {bar}/{st}{far} (round {k})",
            "watching {api}|{api} fired|{api}|said: {text}",
        ),
        roles=TMA,
        bar=state_first(smem="ab", d="acc"),
        own=" in cta {owner}",
        to=" in cta {to}",
        head=lambda case, style: ["# role.cta; watching: before a wait, fired: after it"],
        aka=forms(TMA, mma="mma", sched="fetch"),
    ),
    # Prints of a C++ class for each role, with the iteration in front and the clock behind.
    "pausing-continuing": Style(
        _events(
            "{role}@{cta} ",
            "pausing at {bar}({st}){own}, phase bit {ph}, step {k} [clk {t}]",
            "continuing after {bar}({st}){own}, phase bit {ph}, step {k} [clk {t}]",
            "checked in at {bar}({st}){far}, step {k} [clk {t}]",
            "checked in at {bar}({st}){far}, {bytes} bytes to come, step {k} [clk {t}]",
            "started tensor copy of {bytes} bytes for {bar}({st}){far}, step {k} [clk {t}]",
            "pausing at {api} [clk {t}]|continuing after {api} [clk {t}]|{api} [clk {t}]|{text} [clk {t}]",
        ),
        roles=CLASSES,
        bar=plus("", "_mbar", smem="operands", d="acc"),
        own=" of block {owner}",
        to=" of block {to}",
        aka=forms(CLASSES, load="load", reduce="reduce", sched="sched"),
        sync="named_barrier_sync({number}, {size})",
    ),
    # JSON lines: a tracing tool that sees a wait as a span of stall.
    "jsonl-stall": Style(
        _events(
            '{{"clock": {t}, "cta": {cta}, "role": "{role}", ',
            '"event": "stall_begin", "mbarrier": "{bar}", "index": {st}{own}, "phase": {ph}, "iteration": {k}}}',
            '"event": "stall_end", "mbarrier": "{bar}", "index": {st}{own}, "phase": {ph}, "iteration": {k}}}',
            '"event": "signal", "mbarrier": "{bar}", "index": {st}{far}, "iteration": {k}}}',
            '"event": "signal", "mbarrier": "{bar}", "index": {st}{far}, "expect_tx": {bytes}, "iteration": {k}}}',
            '"event": "bulk_copy", "mbarrier": "{bar}", "index": {st}{far}, "bytes": {bytes}, "iteration": {k}}}',
            '"event": "stall_begin", "call": "{api}"}}|"event": "stall_end", "call": "{api}"}}|"event": "call", "call": "{api}"}}|"event": "message", "text": "{text}"}}',
        ),
        roles=SNAKE,
        bar=plus(smem="ab", d="acc"),
        own=', "mbarrier_cta": {owner}',
        to=', "mbarrier_cta": [{to}]',
        aka=forms(SNAKE, "(tma|tc|main)_", reduce="dq", sched="tile"),
    ),
    # key=value: what a host thread drains from a ring of records, for grep and for Loki.
    "logfmt-try-ok": Style(
        _events(
            "cycle={t} cta={cta} role={role} ",
            "event=acquire.try mbar={bar} idx={st}{own} parity={ph} iter={k}",
            "event=acquire.ok mbar={bar} idx={st}{own} parity={ph} iter={k}",
            "event=arrive mbar={bar} idx={st}{far} iter={k}",
            "event=arrive_tx mbar={bar} idx={st}{far} tx_bytes={bytes} iter={k}",
            "event=tma_load mbar={bar} idx={st}{far} bytes={bytes} iter={k}",
            'event=acquire.try call="{api}"|event=acquire.ok call="{api}"|event=call call="{api}"|event=message msg="{text}"',
        ),
        roles=DASHED,
        bar=plus("", "_bar", smem="stage"),
        own=" mbar_cta={owner}",
        to=" mbar_cta={to}",
        aka=forms(DASHED, mma="mma, issue", epi="epi", sched="sched"),
    ),
    # A German engineer's printf: a whole sentence, with the English names of the code's barriers.
    "de-wartet-auf": Style(
        _events(
            "[Block {cta}, {role}] ",
            "wartet auf {bar}[{st}]{own}, Parität {ph}, Iteration {k}",
            "hat {bar}[{st}]{own} bekommen, Parität {ph}, Iteration {k}",
            "signalisiert {bar}[{st}]{far}, Iteration {k}",
            "signalisiert {bar}[{st}]{far} und erwartet {bytes} Bytes, Iteration {k}",
            "startet TMA-Kopie nach {bar}[{st}]{far}, {bytes} Bytes, Iteration {k}",
            "wartet auf {api}|hat {api} verlassen|{api}|Hinweis: {text}",
        )
        | {"arrive back": "[Block {cta}, {role}] gibt {bar}[{st}]{far} frei, Iteration {k}"},
        roles=GERMAN,
        own=" auf Block {owner}",
        to=" auf Block {to}",
        aka=forms(GERMAN, load="lade", main="rechn", reduce="reduk"),
    ),
    # A Chinese engineer's printf: Chinese words, the names of the code's barriers.
    "zh-got": Style(
        _events(
            "块 {cta} {role}: ",
            "等待 {bar}[{st}]{own} 相位 {ph} (第 {k} 次)",
            "拿到 {bar}[{st}]{own} 相位 {ph} (第 {k} 次)",
            "通知 {bar}[{st}]{far} (第 {k} 次)",
            "通知 {bar}[{st}]{far} 并期望 {bytes} 字节 (第 {k} 次)",
            "发起 TMA 拷贝到 {bar}[{st}]{far} 共 {bytes} 字节 (第 {k} 次)",
            "等待 {api}|拿到 {api}|调用 {api}|信息 {text}",
        ),
        roles=CHINESE,
        bar=plus(smem="ab"),
        own=" [属于块 {owner}]",
        to=" [属于块 {to}]",
        aka=forms(CHINESE, "器"),
    ),
    # A Japanese engineer's printf: the wait's start and its release, roles in Japanese.
    "ja-release": Style(
        _events(
            "[ブロック{cta} {role}] 反復{k} ",
            "待機開始: {bar}[{st}]{own} 位相={ph}",
            "待機解除: {bar}[{st}]{own} 位相={ph}",
            "到着: {bar}[{st}]{far}",
            "到着: {bar}[{st}]{far} 予定バイト数={bytes}",
            "TMA転送: {bar}[{st}]{far} バイト数={bytes}",
            "待機開始: {api}|待機解除: {api}|呼出: {api}|メモ: {text}",
            bare="[ブロック{cta} {role}] ",
        ),
        roles=JAPANESE,
        own=" (ブロック{owner}側)",
        to=" (ブロック{to}側)",
        aka=forms(JAPANESE, softmax0="softmax0", softmax1="softmax1"),
    ),
    # Addresses: the wait function has only the shared address; each mbarrier_init prints address, count and name.
    "hex-init-lines": Style(
        _events(
            "cta {cta} {role} i{k}: ",
            "waits at <{bar}[{st}]>{own}, parity {ph}",
            "leaves <{bar}[{st}]>{own}, parity {ph}",
            "arrive <{bar}[{st}]>{far}",
            "arrive <{bar}[{st}]>{far} + expect_tx {bytes}",
            "tma <{bar}[{st}]>{far} {bytes} bytes",
            "waits at {api}|leaves {api}|{api}|{text}",
            bare="cta {cta} {role}: ",
        ),
        roles=SHORT,
        own=" of cta {owner}",
        to=" of cta {to}",
        head=_inits,
        whole=_resolved(r"init\((?P<at>0x\w+), \d+\)  // (?P<name>\w+)\[0\]"),
        aka=forms(SHORT, load="load", reduce="reduce"),
    ),
    # wait(addr, phase): a wrapper that prints its call as issued and as completed; addresses of the arrays at the head.
    "issued-completed": Style(
        _events(
            "{role}:{cta} (k {k})  ",
            "issued    wait(<{bar}[{st}]>, {ph}){own}",
            "completed wait(<{bar}[{st}]>, {ph}){own}",
            "arrive(<{bar}[{st}]>){far}",
            "arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
            "tma_load(<{bar}[{st}]>, {bytes}){far}",
            'issued    {api}|completed {api}|{api}|print("{text}")',
            bare="{role}:{cta}  ",
        ),
        roles=PLAIN,
        bar=mbarriers(lambda name: name.replace("smem", "ab")),
        own=" on cta {owner}",
        to=" on cta {to}",
        head=lambda case, style: [*_arrays(case, style), "# role:cta (k iteration)  call"],
        whole=_resolved(r"^#   (?P<name>\w+) +@ (?P<at>0x\w+)"),
        aka=forms(PLAIN, reduce="reduce", sched="sched"),
    ),
    # cuda-gdb: the kernel's own printf until Ctrl-C, then a backtrace of each warp that is still resident.
    "gdb-backtraces": Tool(
        _events(
            "block {cta} warp {warp} {role} k={k}: ",
            "in mbar_wait {bar}[{st}]{own} parity {ph}",
            "out of mbar_wait {bar}[{st}]{own} parity {ph}",
            "mbar_arrive {bar}[{st}]{far}",
            "mbar_arrive_expect_tx {bar}[{st}]{far} {bytes} bytes",
            "tma_load for {bar}[{st}]{far} {bytes} bytes",
            "in {api}|out of {api}|{api}|{text}",
            bare="block {cta} warp {warp} {role}: ",
        ),
        roles=FUNCTIONS,
        own=" of block {owner}",
        to=" of block {to}",
        head=lambda case, style: ["(cuda-gdb) run", "Starting program: /home/dev/build/kernel_test"],
        tail=_gdb,
        aka=lambda role: (f"warp {WARPS[role]}", *forms(FUNCTIONS, "_loop")(role)),
        sync="named_sync {number} {size}",
    ),
    # compute-sanitizer: the run under synccheck; block and thread as the tool prints them, to match its report.
    "synccheck-report": Tool(
        _events(
            "block ({cta},0,0) thread ({tid},0,0) {role}: ",
            "begins waiting on {bar}[{st}]{own} phase {ph}{kk}",
            "finished waiting on {bar}[{st}]{own} phase {ph}{kk}",
            "arrives on {bar}[{st}]{far}{kk}",
            "arrives on {bar}[{st}]{far} expecting {bytes} bytes{kk}",
            "issues bulk load of {bytes} bytes to {bar}[{st}]{far}{kk}",
            "begins waiting on {api}|finished waiting on {api}|{api}|{text}",
        ),
        roles=PRODUCER,
        bar=state_first("mbar_", smem="ab", acc="tmem", d="tmem"),
        own=" of block ({owner},0,0)",
        to=" of block {to}",
        k=" iter {k}",
        head=lambda case, style: [
            "$ timeout -s INT 60 compute-sanitizer --tool synccheck ./kernel_test",
            "========= COMPUTE-SANITIZER",
        ],
        tail=_synccheck,
        aka=forms(PRODUCER, sched="sched"),
    ),
    # CUTLASS's pipelines: a mixin logs each call before it enters and after it exits.
    "pipe-enter-exit": Style(
        {
            "wait": "[cta{cta}] {role} #{k} enter {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "[cta{cta}] {role} #{k} exit  {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "wait back": "[cta{cta}] {role} #{k} enter {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "[cta{cta}] {role} #{k} exit  {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "arrive": "[cta{cta}] {role} #{k} {bar}.producer_commit(stage={st}{far})",
            "arrive back": "[cta{cta}] {role} #{k} {bar}.consumer_release(stage={st}{far})",
            "expect": "[cta{cta}] {role} #{k} {bar}.producer_expect_transaction(stage={st}, tx_bytes={bytes}{far})",
            "copy": "[cta{cta}] {role} #{k} tma_load(barrier={bar}.producer_get_barrier(stage={st}), bytes={bytes}{far})",
            **calls("[cta{cta}] {role} ", 'enter {api}|exit  {api}|{api}|print("{text}")'),
        },
        roles=CUTLASS,
        bar=mbarriers(lambda name: STATE.sub("", name).replace("smem", "mainloop") + "_pipe"),
        own=", cta={owner}",
        to=", cta=({to})",
        aka=forms(CUTLASS, reduce="reduc"),
        sync="arch.barrier(id={number}, threads={size})",
    ),
}
