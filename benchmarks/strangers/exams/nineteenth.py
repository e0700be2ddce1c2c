# ruff: noqa: E501, RUF001 - log lines are kept whole, with the punctuation of their languages
"""The nineteenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import SYNCS, calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Style, barriers
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")

PLAIN = roles("load, mma, epi, softmax0, softmax1, main, math, reduce, sched")
LOOPS = roles("producer, mma, epilogue, softmax0, softmax1, consumer, dsoftmax, dq, scheduler")
WARPS_OF = roles("tma, mma, store, smax0, smax1, math, grad, reduce, sched", "{}_warp")
DEEP = roles("tma_load, mma_issue, epilogue, softmax_a, softmax_b, mainloop, bwd_math, bwd_reduce, clc_sched")
CUTLASS = roles("MainloopLoad, MMA, Epilogue, Softmax0, Softmax1, Mainloop, Compute, Reduction, Scheduler")
GERMAN = roles("Laden, MMA, Ausgabe, Softmax0, Softmax1, Rechnen, Gradient, Summieren, Verteilen")
CHINESE = roles("加载, 矩阵乘, 写回, softmax0, softmax1, 计算, 反向计算, 规约, 调度")
JAPANESE = roles("ロード, MMA発行, エピローグ, ソフトマックス0, ソフトマックス1, メイン, 勾配計算, リダクション, スケジューラ")  # fmt: skip
FUNCTIONS = roles("load_loop, mma_loop, store_loop, softmax0_loop, softmax1_loop, main_loop, grad_loop, dq_loop, sched_loop")  # fmt: skip


def _by_warp(more: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    """Other names of a role whose lines print the number of its warp."""
    return lambda role: (f"warp {WARPS[role]}", *more(role))


def _counts(row: str) -> Callable[[Case, Style], list[str]]:
    """A row for each mbarrier of each CTA, as the thread prints it that calls mbarrier.init."""

    def head(case: Case, style: Style) -> list[str]:
        rows = []
        for cta in range(ctas(case)):
            at = 0x1C00
            for name, (stages, count) in barriers(case).items():
                count = case.kernel.more.get((name, cta), count)
                for st in range(stages):
                    rows.append(row.format(cta=cta, at=f"{at:#06x}", bar=style.bar(name), st=st, count=count))
                    at += 8
        return rows

    return head


def _addresses(lines: list[str]) -> list[str]:
    """<name[stage]> becomes the address that the init lines give."""
    rows = (re.match(r"init cta \d+: (0x\w+) = (\w+\[\d+\])", line) for line in lines)
    at = {row[2]: row[1] for row in rows if row}
    return [re.sub(r"<(\w+\[\d+\])>", lambda found: at[found[1]], line) for line in lines]


def _timeouts(lines: list[str]) -> list[str]:
    """A wait that ends prints a line; a wait that does not end prints a line when its polls run out."""
    kept: list[str] = []
    open_waits: dict[str, str] = {}
    for line in lines:
        if not line.startswith(("?", "!")):
            kept.append(line)
            continue
        who, text = line[1:].split("~", 1)
        if line[0] == "?":
            open_waits[who] = text
        else:
            del open_waits[who]
            kept.append(text)
    return kept + list(open_waits.values())


def _session(lines: list[str]) -> list[str]:
    """printf lines of what is over, Ctrl-C, then the warps that are still there and a backtrace of each."""
    printed: list[str] = []
    frames: dict[tuple[int, int, str], str] = {}
    for line in lines:
        cta, warp, function, edge, text = line.split("~", 4)
        who = int(cta), int(warp), function
        if edge == "in":
            frames[who] = text
            continue
        if edge == "out":
            frames.pop(who, None)
        printed.append(text.rstrip())
    blocks = 1 + max(int(line.split("~", 1)[0]) for line in lines)
    if not frames:
        return [*printed, "[Inferior 1 (process 20417) exited normally]"]
    found = [
        *printed,
        "^C",
        'Thread 1 "ws_test" received signal SIGINT, Interrupt.',
        "(cuda-gdb) info cuda warps",
        "  Wp Active Lanes Mask Divergent Lanes Mask  Active Physical PC Kernel BlockIdx First Active ThreadIdx",
    ]
    for row, (cta, warp, _) in enumerate(sorted(frames)):
        mark = " " if row else "*"
        found.append(
            f"{mark} {warp:>2}        0xffffffff           0x00000000 0x0000000000001a40      0  ({cta},0,0) {f'({32 * warp},0,0)':>22}"
        )
    for (cta, warp, function), frame in sorted(frames.items()):
        found += [
            f"(cuda-gdb) cuda block ({cta},0,0) thread ({32 * warp},0,0)",
            f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({32 * warp},0,0), device 0, sm {2 * cta}, warp {warp}, lane 0]",
            "(cuda-gdb) bt",
            f"#0  {frame if '(' in frame else frame + ' ()'} at ws_common.cuh:57",
            f"#1  {function} () at ws_test.cu:{140 + 40 * warp}",
            f"#2  ws_kernel<<<({blocks},1,1),(384,1,1)>>> () at ws_test.cu:96",
        ]
    return found


def _synccheck(lines: list[str]) -> list[str]:
    """The report behind the printed lines: threads that are left alone at a barrier of threads.

    synccheck knows no hang on mbarriers, so the report names a barrier only where no mbarrier is waited on.
    """
    syncs: list[str] = []
    waits: list[str] = []
    for line in lines:
        if match := re.match(r"(\[b\d+ t\d+\]) \w+ ?(.*)", line):
            who, text = match.groups()
            state, _, what = text.partition(" ")
            if what.startswith(("bar.sync", "__syncthreads")):
                open_at = syncs
            elif ", parity " in what:
                open_at = waits
            else:
                continue
            if state == "at":
                open_at.append(who)
            else:
                open_at.remove(who)
    report = []
    for who in () if waits else syncs:
        cta, tid = re.findall(r"\d+", who)
        report += [
            "========= Barrier error detected. Divergent thread(s) in block",
            "=========     at ws_kernel(Params)+0x1a40 in ws_sync.cuh:31",
            f"=========     by thread ({tid},0,0) in block ({cta},0,0)",
            "=========",
        ]
    errors = len(report) // 4
    return [
        "========= COMPUTE-SANITIZER",
        *lines,
        *report,
        f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}",
    ]


def _pipe(name: str) -> str:
    """acc_full and acc_empty as acc_pipe."""
    if SYNCS.match(name):
        return name
    return re.sub(r"_(full|empty|free|ready|done|read)$", "", name.removeprefix("bar_")) + "_pipe"


# fmt: off
STYLES: dict[str, Style] = {
    # Lane 0 of each warp prints; block and warp first, so that `grep "blk 0 warp 1"` gives one warp.
    "blk-warp-held": Style(
        {
            "wait": "[blk {cta} warp {warp} {role}]{kk} held at {bar}[{st}]{own} phase {ph}",
            "done": "[blk {cta} warp {warp} {role}]{kk} let past {bar}[{st}]{own} phase {ph}",
            "arrive": "[blk {cta} warp {warp} {role}]{kk} signalled {bar}[{st}]{far}",
            "expect": "[blk {cta} warp {warp} {role}]{kk} signalled {bar}[{st}]{far}, {bytes} bytes to come",
            "copy": "[blk {cta} warp {warp} {role}]{kk} launched tma load, {bytes} bytes, to {bar}[{st}]{far}",
            **_calls(
                "[blk {cta} warp {warp} {role}]{kk} ",
                "held at {api} ~ let past {api} ~ called {api} ~ {text}",
            ),
        },
        roles=PLAIN, bar=plus(smem="ab"),
        own=" of blk {owner}", to=" of blk {to}", k=" k={k}",
        aka=_by_warp(forms(PLAIN)),
    ),
    # Someone who tunes and debugs at once prints clock() first, so that the gaps show where time goes.
    "syncing-synced": Style(
        {
            "wait": "t={t:<6} cta {cta} {role:<12}{kk} syncing on {bar}.{st}{own} (par {ph})",
            "done": "t={t:<6} cta {cta} {role:<12}{kk} synced on {bar}.{st}{own} (par {ph})",
            "arrive": "t={t:<6} cta {cta} {role:<12}{kk} post {bar}.{st}{far}",
            "expect": "t={t:<6} cta {cta} {role:<12}{kk} post {bar}.{st}{far} (tx {bytes})",
            "copy": "t={t:<6} cta {cta} {role:<12}{kk} tma {bytes} B to {bar}.{st}{far}",
            **_calls(
                "t={t:<6} cta {cta} {role:<12}{kk} ",
                "syncing on {api} ~ synced on {api} ~ {api} ~ msg: {text}",
            ),
        },
        roles=WARPS_OF, bar=plus("mb_", smem="tile", d="acc"),
        own=" of cta {owner}", to=" of cta {to}", k=" i{k}",
        aka=forms(WARPS_OF, "_warp", load="load", epi="epi"),
        sync="bar.sync {number} {size}",
    ),
    # A scope guard in the wait function prints where it is made and destroyed; arrivals print one line.
    "into-out-of": Style(
        {
            "wait": "<{cta}:{role}> going into wait {bar}[{st}]{own} phase={ph}{kk}",
            "done": "<{cta}:{role}> came out of wait {bar}[{st}]{own} phase={ph}{kk}",
            "arrive": "<{cta}:{role}> arriving at {bar}[{st}]{far}{kk}",
            "expect": "<{cta}:{role}> arriving at {bar}[{st}]{far}{kk}",
            **_calls("<{cta}:{role}> ", "going into {api} ~ came out of {api} ~ doing {api} ~ {text}"),
        },
        roles=LOOPS, bar=state_first(smem="ab", acc="acc", d="acc"),
        own=" of cta {owner}", to=" of cta {to}", k=" iter={k}",
        head=lambda case, style: ["<cta:role>"],
        shows=("phase", "stage", "to"),
        aka=forms(LOOPS, epi="epi", sched="sched"),
    ),
    # For a wrong byte count: the bytes that each barrier expects, and those that the copies bring.
    "tx-landed": Style(
        {
            "wait": "rank{cta} {role}: stalled until {bar}[{st}]{own} completes parity {ph}{kk}",
            "done": "rank{cta} {role}: {bar}[{st}]{own} completed parity {ph}, running again{kk}",
            "arrive": "rank{cta} {role}: arrive {bar}[{st}]{far}, no tx{kk}",
            "expect": "rank{cta} {role}: arrive {bar}[{st}]{far}, expect_tx +{bytes} bytes{kk}",
            "copy": "rank{cta} {role}: {bytes} bytes landed at {bar}[{st}]{far}{kk}",
            **_calls(
                "rank{cta} {role}: ", "stalled in {api} ~ {api} completed, running again ~ {api} ~ {text}"
            ),
        },
        roles=DEEP, bar=plus("", "_bar", smem="operands", d="accum", acc="accum"),
        own="@rank{owner}", to="@rank{to}", k=" (k_block {k})",
        aka=forms(DEEP, "_(load|issue|sched)|bwd_", sched="sched"),
        sync="named_barrier_sync(threads={size}, id={number})",
    ),
    # Prints in terms of buffers: a full barrier is data, an empty barrier is room for data; tid as CUDA gives it.
    "data-and-room": Style(
        {
            "wait": "({cta},{tid}) {role}{kk}: no data yet, {bar} stage {st} phase {ph}{own}",
            "done": "({cta},{tid}) {role}{kk}: data is here, {bar} stage {st} phase {ph}{own}",
            "wait back": "({cta},{tid}) {role}{kk}: no room yet, {bar} stage {st} phase {ph}{own}",
            "done back": "({cta},{tid}) {role}{kk}: room is here, {bar} stage {st} phase {ph}{own}",
            "arrive": "({cta},{tid}) {role}{kk}: publish, arrive {bar} stage {st}{far}",
            "arrive back": "({cta},{tid}) {role}{kk}: hand back, arrive {bar} stage {st}{far}",
            "expect": "({cta},{tid}) {role}{kk}: arrive.expect_tx {bar} stage {st}{far} {bytes} bytes",
            "copy": "({cta},{tid}) {role}{kk}: issue tma {bar} stage {st}{far} {bytes} bytes",
            **_calls("({cta},{tid}) {role}{kk}: ", "before {api} ~ after {api} ~ {api} ~ {text}"),
        },
        roles=PLAIN, bar=plus(smem="ab"),
        own=" in cta {owner}", to=" in cta {to}", k=" #{k}",
        head=lambda case, style: ["(blockIdx.x,threadIdx.x) role #iteration"],
        aka=_by_warp(forms(PLAIN)),
    ),
    # The wait loop has a limit of polls: it prints when it ends well, or once when it gives up (a known debugging aid).
    "gave-up": Style(
        {
            "wait": "?{cta}.{role}~!!! cta={cta} {role} gave up on {bar}[{st}]{own} phase={ph}{kk} after 10000000 polls",
            "done": "!{cta}.{role}~cta={cta} {role} passed {bar}[{st}]{own} phase={ph}{kk}",
            "arrive": "cta={cta} {role} arrive {bar}[{st}]{far}{kk}",
            "expect": "cta={cta} {role} arrive {bar}[{st}]{far} tx={bytes}{kk}",
            "copy": "cta={cta} {role} tma {bar}[{st}]{far} bytes={bytes}{kk}",
            **_calls("cta={cta} {role} ", "at {api}{kk} ~ passed {api}{kk} ~ {api} ~ {text}"),
        },
        roles=LOOPS, bar=plus(smem="sAB", d="tAcc", acc="tAcc"),
        own=" (barrier in cta {owner})", to=" (barrier in cta {to})", k=" k={k}",
        whole=_timeouts,
        aka=forms(LOOPS, epi="epi", sched="sched"),
        sync="bar.sync({number}, {size})",
    ),
    # A host tool drains a ring buffer of records and writes one JSON object for each.
    "jsonl-pre-post": Style(
        {
            "wait": '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, "event": "mbar.wait.pre", "mbar": "{bar}", "stage": {st}, "parity": {ph}{own}}}',
            "done": '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, "event": "mbar.wait.post", "mbar": "{bar}", "stage": {st}, "parity": {ph}{own}}}',
            "arrive": '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, "event": "mbar.arrive", "mbar": "{bar}", "stage": {st}{far}}}',
            "expect": '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, "event": "mbar.arrive", "mbar": "{bar}", "stage": {st}, "expect_tx": {bytes}{far}}}',
            "copy": '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, "event": "tma.load", "mbar": "{bar}", "stage": {st}, "bytes": {bytes}{far}}}',
            **_calls(
                '{{"clock": {t}, "block": {cta}, "role": "{role}"{kk}, ',
                '"event": "sync.pre", "op": "{api}"}} ~ "event": "sync.post", "op": "{api}"}} ~ "event": "sync", "op": "{api}"}} ~ "event": "printf", "text": "{text}"}}',
            ),
        },
        roles=DEEP, bar=plus(smem="ab", d="acc"),
        own=', "mbar_block": {owner}', to=', "mbar_blocks": [{to}]', k=', "iter": {k}',
        aka=forms(DEEP, "_(load|issue|sched)|bwd_", sched="sched"),
    ),
    # key=value lines that a log viewer can filter; `passed` tells the line before a wait from that after it.
    "kv-passed": Style(
        {
            "wait": "clk={t} blk={cta} role={role}{kk} op=mbar_wait bar={bar} slot={st} phase={ph}{own} passed=0",
            "done": "clk={t} blk={cta} role={role}{kk} op=mbar_wait bar={bar} slot={st} phase={ph}{own} passed=1",
            "arrive": "clk={t} blk={cta} role={role}{kk} op=mbar_arrive bar={bar} slot={st}{far}",
            "expect": "clk={t} blk={cta} role={role}{kk} op=mbar_arrive_expect_tx bar={bar} slot={st}{far} bytes={bytes}",
            "copy": "clk={t} blk={cta} role={role}{kk} op=tma_load bar={bar} slot={st}{far} bytes={bytes}",
            **_calls(
                "clk={t} blk={cta} role={role}{kk} ",
                'op="{api}" passed=0 ~ op="{api}" passed=1 ~ op="{api}" ~ msg="{text}"',
            ),
        },
        roles=WARPS_OF, bar=state_first(smem="ab", d="acc"),
        own=" bar_blk={owner}", to=" bar_blk={to}", k=" k={k}",
        aka=forms(WARPS_OF, "_warp", load="load", epi="epi"),
    ),
    # A German engineer's printf, in the first person as such debugging lines often are.
    "de-fange-an": Style(
        {
            "wait": "CTA {cta} | {role}{kk} | fange an zu warten: {bar}[{st}]{own}, Parität {ph}",
            "done": "CTA {cta} | {role}{kk} | fertig gewartet: {bar}[{st}]{own}, Parität {ph}",
            "arrive": "CTA {cta} | {role}{kk} | signalisiere {bar}[{st}]{far}",
            "expect": "CTA {cta} | {role}{kk} | signalisiere {bar}[{st}]{far} und erwarte {bytes} Byte",
            "copy": "CTA {cta} | {role}{kk} | starte TMA-Kopie, {bytes} Byte, Barriere {bar}[{st}]{far}",
            **_calls(
                "CTA {cta} | {role}{kk} | ",
                "fange an zu warten: {api} ~ fertig gewartet: {api} ~ rufe {api} ~ Text: {text}",
            ),
        },
        roles=GERMAN, bar=plus(full="voll", empty="leer", free="frei", ready="bereit", done="fertig", read="gelesen"),
        own=" von CTA {owner}", to=" von CTA {to}", k=" | k={k}",
        aka=forms(GERMAN),
    ),
    # A Chinese engineer's printf: API words in English, verbs in Chinese.
    "zh-zhengzai": Style(
        {
            "wait": "CTA {cta} <{role}>{kk} 正在等 mbarrier {bar}[{st}]{own}，parity {ph}",
            "done": "CTA {cta} <{role}>{kk} 等完了 mbarrier {bar}[{st}]{own}，parity {ph}",
            "arrive": "CTA {cta} <{role}>{kk} 通知 mbarrier {bar}[{st}]{far}",
            "expect": "CTA {cta} <{role}>{kk} 通知 mbarrier {bar}[{st}]{far}，预期 {bytes} 字节",
            "copy": "CTA {cta} <{role}>{kk} 发起 TMA 拷贝 {bytes} 字节，mbarrier {bar}[{st}]{far}",
            **_calls("CTA {cta} <{role}>{kk} ", "正在等 {api} ~ 等完了 {api} ~ 调用 {api} ~ 打印：{text}"),
        },
        roles=CHINESE, bar=plus(smem="smem", d="acc"),
        own="（属于 CTA {owner}）", to="（属于 CTA {to}）", k=" 迭代 {k}",
        aka=forms(CHINESE),
    ),
    # A Japanese engineer's printf, with the roles as the comments of the source name them.
    "ja-matsu": Style(
        {
            "wait": "【CTA{cta} {role}】{kk}{bar}[{st}]{own} のパリティ {ph} を待つ",
            "done": "【CTA{cta} {role}】{kk}{bar}[{st}]{own} のパリティ {ph} が来た",
            "arrive": "【CTA{cta} {role}】{kk}{bar}[{st}]{far} に到着を通知",
            "expect": "【CTA{cta} {role}】{kk}{bar}[{st}]{far} に到着を通知、{bytes} バイトを予告",
            "copy": "【CTA{cta} {role}】{kk}{bar}[{st}]{far} へ TMA 転送 {bytes} バイトを発行",
            **_calls("【CTA{cta} {role}】{kk}", "{api} を待つ ~ {api} が来た ~ {api} を実行 ~ メモ: {text}"),
        },
        roles=JAPANESE, bar=plus(smem="ab", d="acc"),
        own="（CTA{owner} 側）", to="（CTA{to} 側）", k="k={k}: ",
        aka=forms(JAPANESE, "発行"),
    ),
    # The wait helper knows only the shared address; the init code prints once which barrier lies where.
    "hex-init-head": Style(
        {
            "wait": "cta {cta} {role}{kk}: block on <{bar}[{st}]>{own} parity {ph}",
            "done": "cta {cta} {role}{kk}: pass <{bar}[{st}]>{own} parity {ph}",
            "arrive": "cta {cta} {role}{kk}: arrive on <{bar}[{st}]>{far}",
            "expect": "cta {cta} {role}{kk}: arrive on <{bar}[{st}]>{far} with expect_tx {bytes}",
            "copy": "cta {cta} {role}{kk}: bulk copy of {bytes} bytes on <{bar}[{st}]>{far}",
            **_calls("cta {cta} {role}{kk}: ", "block on {api} ~ pass {api} ~ {api} ~ {text}"),
        },
        roles=PLAIN, bar=plus(smem="ab"),
        own=" of cta {owner}", to=" of cta {to}", k=" k={k}",
        head=_counts("init cta {cta}: {at} = {bar}[{st}], count {count}"),
        whole=_addresses,
        aka=forms(PLAIN),
    ),
    # A macro prints the call as it stands in the source, then who called; before and after.
    "call-from": Style(
        {
            "wait": "before mbar_wait(&{bar}[{st}]{own}, {ph}) in {role}, cta {cta}{kk}",
            "done": "after  mbar_wait(&{bar}[{st}]{own}, {ph}) in {role}, cta {cta}{kk}",
            "arrive": "mbar_arrive(&{bar}[{st}]{far}) in {role}, cta {cta}{kk}",
            "expect": "mbar_arrive_expect_tx(&{bar}[{st}]{far}, {bytes}) in {role}, cta {cta}{kk}",
            "copy": "tma_load_2d(&{bar}[{st}]{far}, {bytes} /*bytes*/) in {role}, cta {cta}{kk}",
            "enter": "before {api} in {role}, cta {cta}{kk}",
            "leave": "after  {api} in {role}, cta {cta}{kk}",
            "call": "{api} in {role}, cta {cta}{kk}",
            "note": 'printf("{text}") in {role}, cta {cta}',
        },
        roles=FUNCTIONS, bar=mbarriers(lambda name: "s_" + name),
        own=" @cta{owner}", to=" @cta{to}", k=", k={k}",
        aka=forms(FUNCTIONS, "_loop", load="load", epi="store"),
        sync="bar_sync({number}, {size})",
    ),
    # printf tells what is over; at the hang, Ctrl-C in cuda-gdb and a backtrace of each warp tell where it stands
    # (`what` is the string that the wait helper of the debug build is given).
    "gdb-backtraces": Style(
        {
            "wait": '{cta}~{warp}~{role}~in~mbar_wait (what=0x7f1e3a "{bar}", stage={st}, parity={ph}, bar_cta={owner}, {kk})',
            "done": "{cta}~{warp}~{role}~out~b{cta} w{warp} {role}: waited for {bar} stage={st} parity={ph} bar_cta={owner} {kk}",
            "arrive": "{cta}~{warp}~{role}~at~b{cta} w{warp} {role}: arrive {bar} stage={st} bar_cta={to} {kk}",
            "expect": "{cta}~{warp}~{role}~at~b{cta} w{warp} {role}: arrive {bar} stage={st} expect_tx={bytes} bar_cta={to} {kk}",
            "copy": "{cta}~{warp}~{role}~at~b{cta} w{warp} {role}: tma {bar} stage={st} bytes={bytes} bar_cta={to} {kk}",
            "enter": "{cta}~{warp}~{role}~in~{api}",
            "leave": "{cta}~{warp}~{role}~out~b{cta} w{warp} {role}: waited for {api} {kk}",
            "call": "{cta}~{warp}~{role}~at~b{cta} w{warp} {role}: {api}",
            "note": "{cta}~{warp}~{role}~at~b{cta} w{warp} {role}: {text}",
        },
        roles=FUNCTIONS, bar=plus(smem="ab", d="acc"),
        own=" bar_cta={owner}", to=" bar_cta={to}", k="k={k}",
        whole=_session,
        aka=_by_warp(forms(FUNCTIONS, "_loop", load="load", epi="store")),
        sync="bar_sync (id={number}, threads={size})",
    ),
    # A hanging test under `compute-sanitizer --tool synccheck`: the kernel's printf lines, then the report.
    "synccheck-behind": Style(
        {
            "wait": "[b{cta} t{tid}] {role} at {bar}[{st}]{own}, parity {ph}{kk}",
            "done": "[b{cta} t{tid}] {role} after {bar}[{st}]{own}, parity {ph}{kk}",
            "arrive": "[b{cta} t{tid}] {role} arrives, {bar}[{st}]{far}{kk}",
            "expect": "[b{cta} t{tid}] {role} arrives, {bar}[{st}]{far}, expects {bytes} bytes{kk}",
            "copy": "[b{cta} t{tid}] {role} copies {bytes} bytes, {bar}[{st}]{far}{kk}",
            **_calls("[b{cta} t{tid}] {role} ", "at {api}{kk} ~ after {api}{kk} ~ {api} ~ says: {text}"),
        },
        roles=LOOPS, bar=plus("mbar_", smem="tile", d="acc"),
        own=" of b{owner}", to=" of b{to}", k=", it {k}",
        head=lambda case, style: ["# [block thread] role: `at` before a wait, `after` behind it"],
        whole=_synccheck,
        aka=_by_warp(forms(LOOPS, epi="epi", sched="sched")),
        sync="bar.sync {number}, {size}",
    ),
    # A wrapper around the pipeline classes of CUTLASS or its DSL prints each call, `try` before and `ok` after.
    "pipe-try-ok": Style(
        {
            "wait": "cta{cta}.{role}{kk} try {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "cta{cta}.{role}{kk} ok  {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "wait back": "cta{cta}.{role}{kk} try {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "cta{cta}.{role}{kk} ok  {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "arrive": "cta{cta}.{role}{kk}     {bar}.producer_commit(stage={st}{far})",
            "arrive back": "cta{cta}.{role}{kk}     {bar}.consumer_release(stage={st}{far})",
            "expect": "cta{cta}.{role}{kk}     {bar}.producer_arrive_and_expect_tx(stage={st}{far}, tx_bytes={bytes})",
            "copy": "cta{cta}.{role}{kk}     tma_copy(bytes={bytes}, mbar={bar}.producer_get_barrier(stage={st}{far}))",
            **_calls("cta{cta}.{role}{kk} ", "try {api} ~ ok  {api} ~     {api} ~     # {text}"),
        },
        roles=CUTLASS, bar=_pipe,
        own=", cta_rank={owner}", to=", dst_cta=[{to}]", k=" k={k}",
        aka=forms(CUTLASS, "Mainloop", load="load", reduce="reduc"),
        sync="NamedBarrier(id={number}, threads={size}).arrive_and_wait()",
    ),
}
# fmt: on
