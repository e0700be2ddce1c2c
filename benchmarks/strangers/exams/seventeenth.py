# ruff: noqa: E501 - log lines are kept whole
"""The seventeenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import calls, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Names, Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")
Thread = tuple[int, int]  # a block and the first thread of a warp
FILES = {
    "mbarrier": ("mbarrier_wait.cuh", 41), "cluster": ("cluster_wait.cuh", 27), "tcgen05": ("tmem_alloc.cuh", 33),
    "own": ("ws_kernel.cu", 268),
}  # fmt: skip

PLAIN = roles("load, mma, epilogue, softmax0, softmax1, consumer, compute, reduce, scheduler")
WARPED = roles("tma_warp, mma_warp, epi_warp, softmax_wg0, softmax_wg1, math_wg, math_wg, reduce_wg, sched_warp")  # fmt: skip
COPIER = roles("producer, mma, store, smax0, smax1, consumer, math, dq_reduce, tile_sched")
SHORT = roles("ld, mma, epi, sm0, sm1, main, cmp, red, sch")
CAPITAL = roles("Load, Mma, Epilogue, Softmax0, Softmax1, Mainloop, Compute, Reduce, Scheduler")
BRACED = roles("tma, umma, epilogue, softmax-0, softmax-1, consumer, compute, reduction, tile-scheduler")
TRACED = roles("tma_load, mma_issue, epilogue, softmax_0, softmax_1, mainloop, grad, reduce, clc_sched")
GROUPS = roles("loader, tensor, storer, softmax_a, softmax_b, consumer, math, reducer, scheduler")
GERMAN = roles("Ladewarp, MMA-Warp, Schreibwarp, Softmaxgruppe 0, Softmaxgruppe 1, Rechenwarp, Rechenwarp, Summierwarp, Verteilwarp")  # fmt: skip
CHINESE = roles("加载, 矩阵乘, 写出, 软最大0, 软最大1, 消费, 计算, 规约, 调度", "{}warp")
JAPANESE = roles("読込, 行列積, 書出, ソフトマックス0, ソフトマックス1, 演算, 演算, 集約, 割当", "{}ワープ")
WGS = roles("load, mma, epi, smA, smB, acc, math, red, sched", "{}_wg")
PARTS = roles("dma, mma, epilogue, softmax0, softmax1, math, math, reduce, scheduler")
FUNCTIONS = roles("load_loop, mma_loop, epilogue_loop, softmax0_loop, softmax1_loop, main_loop, grad_loop, reduce_loop, sched_loop")  # fmt: skip
CHECKED = roles("producer, issuer, epilogue, softmax0, softmax1, consumer, consumer, reducer, scheduler")
DSL = roles("load_warp, mma_warp, epilogue_warps, softmax0_warps, softmax1_warps, consumer_warps, compute_warps, reduce_warps, sched_warp")  # fmt: skip
STATES = {"full": "voll", "empty": "leer", "free": "leer", "ready": "bereit", "done": "fertig", "read": "gelesen"}  # fmt: skip


def _numbered(names: Names, parts: str = "", **short: str) -> Callable[[str], tuple[str, ...]]:
    """The forms of a role whose lines also print its warp."""
    of = forms(names, parts, **short)
    return lambda role: (f"warp {WARPS[role]}", *of(role))


# --- addresses of mbarriers, with the names in the head of the log


def _init_lines(case: Case, style: Style) -> list[str]:
    """A line for each mbarrier that thread 0 initializes; the CTAs of a cluster have the same layout."""
    rows, at = [], 0x1C400
    for name, (stages, count) in barriers(case).items():
        for stage in range(stages):
            more = [f"{n} in cta {cta}" for (bar, cta), n in case.kernel.more.items() if bar == name]
            counts = ", ".join([f"count {count}", *more])
            rows.append(f"[init] {style.bar(name)}[{stage}] at {at:#x}, {counts}")
            at += 8
    return ["[init] shared memory offsets are the same in every cta", *rows]


def _arrays(case: Case, style: Style) -> list[str]:
    """A line for each array of mbarriers, with the address of each element."""
    rows, at = [], 0x30C00
    for name, (stages, _) in barriers(case).items():
        each = "  ".join(f"[{stage}]={at + 8 * stage:#x}" for stage in range(stages))
        rows.append(f"{style.bar(name):<16} {each}")
        at += 8 * stages
    return ["mbarriers in shared memory (same addresses in each block of the cluster):", *rows, ""]


def _addresses(first: int, rows: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address that the head gives: the elements lie one behind the other."""

    def whole(lines: list[str]) -> list[str]:
        found: dict[str, str] = {}
        for line in lines:
            if (row := re.match(rows, line)) is not None:
                for stage in re.findall(r"\[(\d+)\]", line):
                    found[f"{row['name']}[{stage}]"] = f"{first + 8 * len(found):#x}"
        return [re.sub(r"<(\w+\[\d+\])>", lambda hit: found[hit[1]], line) for line in lines]

    return whole


# --- tools that report behind the printf lines: each line comes in as thread~cta~edge~line


def _stopped(case: Case, style: Style) -> list[str]:
    """The warps that stand in code of their own, for `_last`, which takes these lines away."""
    stops = [who for who, ops in case.kernel.programs.items() if any(op.kind == "stop" for op in ops)]
    return [f"{32 * WARPS[role]}~{cta}~stop~" for role, cta in stops]


def _threads(case: Case, style: Style) -> list[str]:
    """The first thread of each role, as the host prints it before the launch."""
    found = {role: 32 * WARPS[role] for role, _ in sorted(case.kernel.programs)}
    first = ", ".join(f"{style.role(role)} {tid}" for role, tid in found.items())
    return [*_stopped(case, style), f"0~0~at~first thread of each role: {first}"]


def _last(lines: list[str]) -> tuple[list[str], dict[Thread, str], set[int]]:
    """The printed lines, what each warp that hangs is in (block, thread), and blocks of which a warp returned."""
    printed: list[str] = []
    stops: set[Thread] = set()
    gone: set[Thread] = set()
    inside: dict[Thread, str] = {}
    for each in lines:
        tid, cta, edge, line = each.split("~", 3)
        who = int(cta), int(tid)
        if edge == "stop":
            stops.add(who)
            continue
        printed.append(line)
        inside.pop(who, None)
        if edge == "exit":
            gone.add(who)
        elif edge != "at":
            inside[who] = edge
    hangs = bool(inside)
    inside |= {who: "own" for who in stops - inside.keys() - gone if hangs}
    return printed, inside, {cta for cta, _ in gone}


def _gdb(lines: list[str]) -> list[str]:
    """A session: what the kernel printed, an interrupt, and the threads by warp."""
    printed, inside, _ = _last(lines)
    start = ["(cuda-gdb) run", "Starting program: /home/dev/ws/test_ws"]
    if not inside:
        return [*start, *printed, "[Inferior 1 (process 48213) exited normally]", "(cuda-gdb) quit"]
    rows = [
        "^C",
        'Thread 1 "test_ws" received signal SIGINT, Interrupt.',
        "(cuda-gdb) info cuda threads",
        "  BlockIdx ThreadIdx To BlockIdx To ThreadIdx Count         Virtual PC             Filename  Line",
        "Kernel 0",
    ]
    for n, ((cta, tid), call) in enumerate(sorted(inside.items())):
        name, at = next((file for part, file in FILES.items() if part in call), ("bar_sync.cuh", 18))
        block, pc = f"({cta},0,0)", f"{0x7FFFD4FA2000 + 16 * at:#018x}"
        rows.append(
            f"{' ' if n else '*'} {block:>8} {f'({tid},0,0)':>9} {block:>11} {f'({tid + 31},0,0)':>12} {32:>5} {pc} {name:>20} {at:>5}"
        )
    return [*start, *printed, *rows, "(cuda-gdb) kill"]


def _synccheck(lines: list[str]) -> list[str]:
    """The printf lines, and each warp in a __syncthreads() of a block of which another warp returned."""
    printed, inside, gone = _last(lines)
    found = []
    for (cta, tid), call in sorted(inside.items()):
        if call == "__syncthreads()" and cta in gone:
            found += [
                "========= Barrier error detected. Divergent thread(s) in block",
                "=========     at ws_kernel(Params)+0x2b40 in ws_kernel.cu:231",
                f"=========     by thread ({tid},0,0) in block ({cta},0,0)",
                "=========",
            ]
    errors = len(found) // 4
    found += ["========= Error: process didn't terminate successfully"] if inside else []
    total = f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}"
    return ["========= COMPUTE-SANITIZER", *printed, *found, total]


def _tool(before: str, **say: str) -> Names:
    """The templates of printf lines, with what `_last` needs in front."""
    edges = {"wait": "mbarrier", "enter": "{api}", "note": "exit"}
    return {kind: f"{{tid}}~{{cta}}~{edges.get(kind, 'at')}~{before}{line}" for kind, line in say.items()}


def _each(start: str, at: str, end: str = "", **say: str) -> Names:
    """Templates that begin and end alike; {at} is the place of an mbarrier's event."""
    return {kind: start + line.replace("{at}", at) + end for kind, line in say.items()}


def _pipe(name: str) -> str:
    """The pipeline of a pair of full and empty barriers: acc_full as acc_pipe."""
    return re.sub(r"_(full|empty|free|ready|done|read)$", "", name) + "_pipe"


# What belongs together stays on a line.
# fmt: off
STYLES: dict[str, Style] = {
    # An author of attention kernels, from an elected thread of each warp: "waiting on" before, "got" after.
    "blk-warp-got": Style(
        {
            "wait": "[blk {cta} warp {warp}] {role} it={k} waiting on {bar}[{st}]{own} ph={ph}",
            "done": "[blk {cta} warp {warp}] {role} it={k} got {bar}[{st}]{own} ph={ph}",
            "arrive": "[blk {cta} warp {warp}] {role} it={k} signalled {bar}[{st}]{far}",
            "expect": "[blk {cta} warp {warp}] {role} it={k} signalled {bar}[{st}]{far}, expect_tx={bytes}",
            "copy": "[blk {cta} warp {warp}] {role} it={k} issued TMA load, {bytes} bytes onto {bar}[{st}]{far}",
            **_calls("[blk {cta} warp {warp}] {role} ", "waiting on {api} ~ got {api} ~ did {api} ~ {text}"),
        },
        roles=PLAIN, bar=plus("", "_mbar", smem="ab", d="acc"),
        own=" of blk {owner}", to=" of blk {to}",
        aka=_numbered(PLAIN, sched="sched"),
    ),
    # Someone who wraps the wait and the arrive functions alone, with clock64() in front, to see who never comes back.
    "clock-enter-leave": Style(
        {
            "wait": "{t:>8} {role} (cta {cta}) enter wait {bar}[{st}]{own} phase {ph}, iter {k}",
            "done": "{t:>8} {role} (cta {cta}) leave wait {bar}[{st}]{own} phase {ph}, iter {k}",
            "arrive": "{t:>8} {role} (cta {cta}) arrive {bar}[{st}]{far}, iter {k}",
            "expect": "{t:>8} {role} (cta {cta}) arrive.expect_tx {bar}[{st}]{far}, iter {k}",
            "enter": "{t:>8} {role} (cta {cta}) enter {api}",
            "leave": "{t:>8} {role} (cta {cta}) leave {api}",
            "call": "{t:>8} {role} (cta {cta}) {api}",
        },
        roles=WARPED, bar=plus("bar_", smem="tile", d="accum", acc="accum"),
        own=" on cta {owner}", to=" on cta {to}",
        shows=("phase", "stage", "to"),
        aka=forms(WARPED, "_(warp|wg)", load="load"),
    ),
    # Someone who suspects the transaction count: every expect_tx and every TMA box with its bytes.
    "tx-bytes": Style(
        {
            "wait": "cta{cta}/{role} k={k}: acquire {bar}[{st}]{own} parity={ph}",
            "done": "cta{cta}/{role} k={k}: acquired {bar}[{st}]{own} parity={ph}",
            "arrive": "cta{cta}/{role} k={k}: release {bar}[{st}]{far}",
            "expect": "cta{cta}/{role} k={k}: arrive + expect_tx {bar}[{st}]{far} bytes_expected={bytes}",
            "copy": "cta{cta}/{role} k={k}: tma box landed {bar}[{st}]{far} bytes_landed={bytes}",
            **_calls("cta{cta}/{role}: ", "before {api} ~ after {api} ~ {api} ~ msg: {text}"),
        },
        roles=COPIER, bar=state_first("", "_bar", smem="tiles", acc="tmem", d="tmem"),
        own="@cta{owner}", to="@cta{to}",
        aka=forms(COPIER, epi="epi", reduce="reduce", sched="sched"),
        sync="named_bar_sync(id={number}, threads={size})",
    ),
    # A short printf so that the 1 MB buffer of printf lasts: thread, block, and a verb of two or three letters.
    "thread-try-ok": Style(
        {
            "wait": "t{tid:03d} b{cta} {role} i{k} try {bar}[{st}]{own} ph{ph}",
            "done": "t{tid:03d} b{cta} {role} i{k} ok  {bar}[{st}]{own} ph{ph}",
            "arrive": "t{tid:03d} b{cta} {role} i{k} arv {bar}[{st}]{far}",
            "expect": "t{tid:03d} b{cta} {role} i{k} arv {bar}[{st}]{far} tx={bytes}",
            "copy": "t{tid:03d} b{cta} {role} i{k} tma {bar}[{st}]{far} n={bytes}",
            **_calls("t{tid:03d} b{cta} {role} ", "try {api} ~ ok  {api} ~ did {api} ~ # {text}"),
        },
        roles=SHORT, bar=plus(smem="s", d="acc"),
        own="@b{owner}", to="@b{to}",
        head=lambda case, style: ["# try: before a wait, ok: behind it, arv: arrive, tma: bulk load"],
        aka=_numbered(SHORT, load="load", softmax0="softmax0", softmax1="softmax1", reduce="reduce"),
    ),
    # A kernel library's debug macro: it says in words what the warp blocks until, and that this happened.
    "blocks-until": Style(
        {
            "wait": "[{t}] CTA {cta} {role}, tile {k}: blocks until phase {ph} of {bar}[{st}]{own} completes",
            "done": "[{t}] CTA {cta} {role}, tile {k}: phase {ph} of {bar}[{st}]{own} completed",
            "arrive": "[{t}] CTA {cta} {role}, tile {k}: notifies {bar}[{st}]{far}",
            "expect": "[{t}] CTA {cta} {role}, tile {k}: notifies {bar}[{st}]{far} and expects {bytes} bytes",
            "copy": "[{t}] CTA {cta} {role}, tile {k}: starts a TMA copy of {bytes} bytes to {bar}[{st}]{far}",
            **_calls("[{t}] CTA {cta} {role}: ", "blocks in {api} ~ returned from {api} ~ executes {api} ~ {text}"),
        },
        roles=CAPITAL, bar=mbarriers(lambda name: camel(replaced({"smem": "operands", "d": "acc"})(name)) + "Barrier"),
        own=" in CTA {owner}", to=" in CTA {to}",
        aka=forms(CAPITAL, sched="sched"),
        sync="NamedBarrier::sync({size}, {number})",
    ),
    # Someone who asks "where does each warp stop?": stops at, goes past, with the source line of the printf.
    "stops-at": Style(
        {
            "wait": "gemm_ws.cu:118 <{role}, block {cta}> stops at {bar}[{st}]{own}, phase {ph}, k_tile {k}",
            "done": "gemm_ws.cu:120 <{role}, block {cta}> goes past {bar}[{st}]{own}, phase {ph}, k_tile {k}",
            "arrive": "gemm_ws.cu:141 <{role}, block {cta}> arrives at {bar}[{st}]{far}, k_tile {k}",
            "expect": "gemm_ws.cu:133 <{role}, block {cta}> arrives at {bar}[{st}]{far} with expect_tx {bytes}, k_tile {k}",
            "copy": "gemm_ws.cu:136 <{role}, block {cta}> loads {bytes} bytes for {bar}[{st}]{far}, k_tile {k}",
            "enter": "gemm_ws.cu:160 <{role}, block {cta}> stops at {api}",
            "leave": "gemm_ws.cu:162 <{role}, block {cta}> goes past {api}",
            "call": "gemm_ws.cu:164 <{role}, block {cta}> {api}",
            "note": "gemm_ws.cu:170 <{role}, block {cta}> {text}",
        },
        roles=BRACED, bar=plus("", "_barrier", smem="ab", d="tmem", acc="tmem"),
        own=" of block {owner}", to=" of block {to}",
        aka=forms(BRACED, softmax0="softmax0", softmax1="softmax1", reduce="reduce", sched="scheduler"),
    ),
    # A tracing tool that copies a ring of records back and dumps JSON: a stall has a begin and an end record.
    "jsonl-stall": Style(
        _each(
            '{{"clk": {t}, "cta": {cta}, "warp": {warp}, "role": "{role}", "event": ',
            '"barrier": "{bar}", "stage": {st}, "iter": {k}',
            "}}",
            wait='"stall_begin", {at}, "phase": {ph}{own}',
            done='"stall_end", {at}, "phase": {ph}{own}',
            arrive='"signal", {at}{far}',
            expect='"signal", {at}, "expect_bytes": {bytes}{far}',
            copy='"bulk_copy", {at}, "bytes": {bytes}{far}',
            enter='"stall_begin", "call": "{api}"',
            leave='"stall_end", "call": "{api}"',
            call='"call", "call": "{api}"',
            note='"message", "text": "{text}"',
        ),
        roles=TRACED, bar=plus(smem="ab", d="acc"),
        own=', "barrier_cta": {owner}', to=', "barrier_ctas": [{to}]',
        aka=_numbered(TRACED, load="load", mma="mma", sched="sched"),
    ),
    # A host thread that drains the device's records through a structured logger (logfmt with a message).
    "logfmt-msg": Style(
        _each(
            "level=debug clock={t} cta={cta} wg={role} msg=",
            "iter={k} barrier={bar} slot={st}",
            wait='"wait on barrier" {at} parity={ph}{own}',
            done='"wait returned" {at} parity={ph}{own}',
            arrive='"arrived on barrier" {at}{far}',
            expect='"arrived on barrier" {at}{far} expect_tx={bytes}',
            copy='"tma load issued" {at}{far} bytes={bytes}',
            enter='"call" call="{api}"',
            leave='"call returned" call="{api}"',
            call='"call without blocking" call="{api}"',
            note='"{text}"',
        ),
        roles=GROUPS, bar=plus(full="filled", empty="drained", free="drained", smem="operand", d="accum", acc="accum"),
        own=" barrier_cta={owner}", to=" barrier_cta={to}",
        aka=forms(GROUPS, load="load", softmax0="softmax0", softmax1="softmax1", reduce="reduce"),
    ),
    # A German developer's printf: who waits for what from now on, and who got it.
    "de-wartet-jetzt": Style(
        {
            "wait": "[Block {cta}, {role}] k={k}: wartet jetzt auf {bar}[{st}]{own}, Phase {ph}",
            "done": "[Block {cta}, {role}] k={k}: hat {bar}[{st}]{own} bekommen, Phase {ph}",
            "arrive": "[Block {cta}, {role}] k={k}: signalisiert {bar}[{st}]{far}",
            "expect": "[Block {cta}, {role}] k={k}: signalisiert {bar}[{st}]{far} und erwartet {bytes} Bytes",
            "copy": "[Block {cta}, {role}] k={k}: startet TMA-Kopie, {bytes} Bytes für {bar}[{st}]{far}",
            **_calls("[Block {cta}, {role}] ", "wartet jetzt in {api} ~ ist aus {api} zurück ~ macht {api} ~ {text}"),
        },
        roles=GERMAN, bar=plus(smem="kachel", d="akku", acc="akku", **STATES),
        own=" von Block {owner}", to=" von Block {to}",
        aka=forms(GERMAN, "-?[Ww]arp", softmax0="softmax 0, softmax0", softmax1="softmax 1, softmax1"),
    ),
    # A Chinese developer's printf on both sides of each wait.
    "zh-before-after": Style(
        {
            "wait": "[block {cta}][{role}] k={k} 等{own} {bar}[{st}] 之前, phase={ph}",
            "done": "[block {cta}][{role}] k={k} 等{own} {bar}[{st}] 之后, phase={ph}",
            "arrive": "[block {cta}][{role}] k={k} 通知{far} {bar}[{st}]",
            "expect": "[block {cta}][{role}] k={k} 通知{far} {bar}[{st}], expect_tx={bytes}字节",
            "copy": "[block {cta}][{role}] k={k} 发出TMA拷贝{bytes}字节, 完成后通知{far} {bar}[{st}]",
            **_calls("[block {cta}][{role}] ", "等 {api} 之前 ~ 等 {api} 之后 ~ 调用 {api} ~ 打印: {text}"),
        },
        roles=CHINESE, bar=plus("", "_bar", smem="ab", d="acc"),
        own="block {owner}的", to="block {to}的",
        aka=forms(CHINESE, "warp"),
    ),
    # A Japanese developer's printf in whole sentences; the owner of a barrier stands in front of its name.
    "ja-kanryou": Style(
        {
            "wait": "[CTA {cta}] {role} k={k}: {own}{bar}[{st}] の完了を待っています (parity={ph})",
            "done": "[CTA {cta}] {role} k={k}: {own}{bar}[{st}] の完了を確認しました (parity={ph})",
            "arrive": "[CTA {cta}] {role} k={k}: {far}{bar}[{st}] に到着しました",
            "expect": "[CTA {cta}] {role} k={k}: {far}{bar}[{st}] に到着しました (expect_tx={bytes} バイト)",
            "copy": "[CTA {cta}] {role} k={k}: TMA 転送を発行しました ({bytes} バイト, 通知先 {far}{bar}[{st}])",
            **_calls("[CTA {cta}] {role}: ", "{api} を待っています ~ {api} から戻りました ~ {api} を実行しました ~ メッセージ: {text}"),
        },
        roles=JAPANESE, bar=plus(smem="tile", d="acc"),
        own="CTA {owner} の ", to="CTA {to} の ",
        aka=forms(JAPANESE, "ワープ"),
    ),
    # A helper that has only the address of the mbarrier and prints it with %#x; init prints which is which.
    "hex-init": Style(
        {
            "wait": "[cta {cta} {role} k={k}] spin on <{bar}[{st}]>{own}, phase {ph}",
            "done": "[cta {cta} {role} k={k}] spin done <{bar}[{st}]>{own}, phase {ph}",
            "arrive": "[cta {cta} {role} k={k}] arrive <{bar}[{st}]>{far}",
            "expect": "[cta {cta} {role} k={k}] arrive <{bar}[{st}]>{far}, expect_tx {bytes}",
            "copy": "[cta {cta} {role} k={k}] bulk tensor load <{bar}[{st}]>{far}, {bytes} bytes",
            **_calls("[cta {cta} {role}] ", "{api} ... ~ {api} done ~ {api} issued ~ {text}"),
        },
        roles=WGS, bar=state_first("", "", smem="ab", d="acc"),
        own=" in cta {owner}", to=" in cta {to}",
        head=_init_lines,
        whole=_addresses(0x1C400, r"\[init\] (?P<name>\w+)\[\d+\] at"),
        aka=forms(WGS, "_wg", softmax0="softmaxa", softmax1="softmaxb", reduce="reduce"),
    ),
    # The calls as in the source, wait(addr, phase), with the map of shared memory printed once at the start.
    "wait-addr-phase": Style(
        {
            "wait": "{role}@{cta} #{k} wait(<{bar}[{st}]>, {ph}){own} polling",
            "done": "{role}@{cta} #{k} wait(<{bar}[{st}]>, {ph}){own} phase complete",
            "arrive": "{role}@{cta} #{k} arrive(<{bar}[{st}]>){far}",
            "expect": "{role}@{cta} #{k} arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
            "copy": "{role}@{cta} #{k} tma_load(<{bar}[{st}]>, {bytes} bytes){far}",
            **_calls("{role}@{cta} ", "{api} polling ~ {api} complete ~ {api} ~ // {text}"),
        },
        roles=PARTS, bar=plus("", "_mbar", smem="stage", d="acc"),
        own=" of block {owner}", to=" of block {to}",
        head=lambda case, style: [*_arrays(case, style), "role@block #iteration call"],
        whole=_addresses(0x30C00, r"(?P<name>\w+) +\[0\]="),
        aka=forms(PARTS),
        sync="bar_sync({number}, {size})",
    ),
    # A cuda-gdb session: the kernel's own printf lines, ^C, then `info cuda threads` with the line of each warp.
    "gdb-threads": Style(
        _tool(
            "{role}({cta}): ",
            wait="k {k}, mbarrier_wait {bar}[{st}]{own} phase {ph}",
            done="k {k}, mbarrier_wait {bar}[{st}]{own} phase {ph} returned",
            arrive="k {k}, mbarrier_arrive {bar}[{st}]{far}",
            expect="k {k}, mbarrier_arrive_expect_tx {bar}[{st}]{far} {bytes} bytes",
            copy="k {k}, tma_load {bar}[{st}]{far} {bytes} bytes",
            **_calls("", "{api} ~ {api} returned ~ {api} issued ~ {text}"),
        ),
        roles=FUNCTIONS, bar=state_first("mbar_", smem="ab", d="acc"),
        own=" of block {owner}", to=" of block {to}",
        head=_threads,
        whole=_gdb,
        aka=_numbered(FUNCTIONS, "_loop", epi="epi"),
    ),
    # compute-sanitizer --tool synccheck over the same binary: its lines are mixed with those of printf, the report is last.
    "synccheck-printf": Style(
        _tool(
            "block {cta} thread {tid} [{role}] ",
            wait="pass {k}: blocked on {bar}[{st}]{own} for phase {ph}",
            done="pass {k}: woken by {bar}[{st}]{own} for phase {ph}",
            arrive="pass {k}: arrive on {bar}[{st}]{far}",
            expect="pass {k}: arrive on {bar}[{st}]{far}, expecting {bytes} bytes",
            copy="pass {k}: bulk copy of {bytes} bytes, completes on {bar}[{st}]{far}",
            **_calls("", "blocked in {api} ~ back from {api} ~ called {api} ~ {text}"),
        ),
        roles=CHECKED, bar=plus(smem="tile", d="acc"),
        own=" of block {owner}", to=" of block {to}",
        head=_stopped,
        whole=_synccheck,
        aka=lambda role: (f"thread {32 * WARPS[role]}", *_numbered(CHECKED, mma="mma")(role)),
        sync="barrier.sync {number}, {size}",
    ),
    # A Python DSL whose pipeline objects print each call twice: when it is made, and with "ok" once it returned.
    "dsl-pipeline": Style(
        {
            "wait": "[{role} cta={cta}] k={k} {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "[{role} cta={cta}] k={k} {bar}.consumer_wait(stage={st}, phase={ph}{own}) -> ok",
            "wait back": "[{role} cta={cta}] k={k} {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "[{role} cta={cta}] k={k} {bar}.producer_acquire(stage={st}, phase={ph}{own}) -> ok",
            "arrive": "[{role} cta={cta}] k={k} {bar}.producer_commit(stage={st}{far})",
            "arrive back": "[{role} cta={cta}] k={k} {bar}.consumer_release(stage={st}{far})",
            "expect": "[{role} cta={cta}] k={k} {bar}.producer_commit(stage={st}, expect_tx={bytes}{far})",
            "copy": "[{role} cta={cta}] k={k} tma_load(pipe={bar}, stage={st}, bytes={bytes}{far})",
            **_calls("[{role} cta={cta}] ", '{api} ~ {api} -> ok ~ {api} ~ print("{text}")'),
        },
        roles=DSL, bar=mbarriers(lambda name: _pipe(replaced({"smem": "ab", "d": "acc"})(name))),
        own=", barrier_cta={owner}", to=", barrier_cta=[{to}]",
        head=lambda case, style: [
            "# a blocking call is printed when it is made, and again with -> ok when it returns"
        ],
        aka=forms(DSL, "_warps?", epi="epi", sched="sched"),
        sync="named_barrier(id={number}, threads={size}).arrive_and_wait()",
    ),
}
# fmt: on
