# ruff: noqa: E501 - log lines are kept whole
"""The thirteenth exam: wordings that engineers print from hung kernels, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import calls, forms, plus, roles
from benchmarks.strangers.exams.styles import WARPS, Names, Style, barriers, who_of
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")

PLAIN = roles("load, mma, epilogue, softmax0, softmax1, accum, dscore, dq_reduce, sched")
BYTES = roles("tma_load, mma, epi, softmax0, softmax1, math, math, reduce, tile_sched")
PRODUCER = roles("producer, mma, epilogue, softmax0, softmax1, consumer, consumer, reducer, scheduler", "{} warp")  # fmt: skip
BEATS = roles("loader, mma, epilogue, sm_hi, sm_lo, consumer, compute, reducer, tiler")
SHORT = roles("tma, umma, epi, smx0, smx1, acc, ds, dq, sched")
TITLES = roles("Load, Mma, Epilogue, Softmax0, Softmax1, Main, Compute, Reduce, Scheduler")
RING = roles("load_warp, mma_warp, epi_warps, softmax0_warps, softmax1_warps, main_warps, compute_warps, reduce_warps, sched_warp")  # fmt: skip
KEYS = roles("load, mma, store, softmax_a, softmax_b, main, compute, dq, clc")
GERMAN = roles("Ladewarp, MMA-Warp, Epilogwarp, Softmaxwarp-0, Softmaxwarp-1, Rechenwarp, Rechenwarp, Summenwarp, Verteilerwarp")  # fmt: skip
CHINESE = roles("生产者, 矩阵乘, 写出, 软最大0, 软最大1, 消费者, 计算, 归约, 调度器")
JAPANESE = roles(
    "ロード, 行列積, エピローグ, ソフトマックス0, ソフトマックス1, 積算, 勾配, 総和, スケジューラ"
)
INITS = roles("loader, mma_issuer, epilogue, softmax0, softmax1, mainloop, math, reducer, scheduler")
CALLS = roles("producer, mma, epilogue, softmax0, softmax1, consumer, compute, dq_add, scheduler")
LOOPS = roles("load, mma, epilogue, softmax0, softmax1, main, compute, reduce, sched", "run_{}")
SANITIZED = roles("loader, issuer, writer, softmax0, softmax1, math, gradient, reducer, scheduler")
PIPES = roles("load, mma, epilogue, softmax0, softmax1, mainloop, compute, reduce, sched")


def _warp(role: str) -> tuple[str, ...]:
    """Names of warps by number and by their first thread, which the lines print beside the role."""
    return f"warp {WARPS[role]}", f"thread {32 * WARPS[role]}"


# --- addresses of mbarriers that the first lines give


def _addresses(case: Case, first: int) -> list[tuple[str, int, int, int]]:
    """(name, stage, address, count) of each mbarrier of a CTA."""
    rows, at = [], first
    for name, (stages, count) in barriers(case).items():
        for stage in range(stages):
            rows.append((name, stage, at, count))
            at += 8
    return rows


def _inits(case: Case, style: Style) -> list[str]:
    """The line that a wrapper of mbarrier.init prints, from each CTA."""
    return [
        f"cta {cta}: mbarrier.init {at:#x}, {case.kernel.more.get((name, cta), count)}  ({style.bar(name)}[{stage}])"
        for cta in sorted({cta for _, cta in who_of(case)})
        for name, stage, at, count in _addresses(case, 0x14400)
    ]


def _pointers(case: Case, style: Style) -> list[str]:
    """What printf("&%s[%d] = %#x") prints from one thread before the roles start."""
    return [f"&{style.bar(name)}[{stage}] = {at:#x}" for name, stage, at, _ in _addresses(case, 0x20010)]  # fmt: skip


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address that a line of the legend gives."""

    def whole(lines: list[str]) -> list[str]:
        known = {found["name"]: found["at"] for line in lines if (found := re.search(legend, line))}
        return [re.sub(r"<(\w+\[\d+\])>", lambda found: known[found[1]], line) for line in lines]

    return whole


# --- what a log says behind its events: which roles are in a call, which ended


def _tagged(wait: str, say: Names) -> Names:
    """Templates with the edge of a call, the role, and the call in front, for `_told`."""
    edges = {"wait": "in", "enter": "in", "done": "out", "leave": "out"}
    call = {"wait": wait, "enter": "{api}"}
    tag = "\t{cta}\t{warp}\t{role}\t"
    return {
        kind: edges.get(kind.split()[0], "at") + tag + call.get(kind.split()[0], "") + "\t" + text
        for kind, text in say.items()
    }


def _lengths(case: Case, style: Style) -> list[str]:
    """How many lines a role prints if it ends."""
    lines = {"wait": 2, "sync": 2, "cluster_wait": 2, "alloc": 2, "silent": 0, "stop": 1 << 20}
    return [
        f"end\t{cta}\t{WARPS[role]}\t{style.role(role)}\t{sum(lines.get(op.kind, 1) for op in case.kernel.programs[role, cta])}\t"
        for role, cta in who_of(case)
    ]


class _Told:
    """The printed lines, the calls in which roles are, and the roles that have not ended (by CTA and warp)."""

    def __init__(self, lines: list[str]) -> None:
        self.printed: list[str] = []
        self.inside: dict[tuple[int, int], str] = {}
        self.used: set[tuple[int, str]] = set()  # (warp, call of threads)
        self.names: dict[tuple[int, int], str] = {}
        left: dict[tuple[int, int], int] = {}
        for line in lines:
            edge, cta, warp, role, call, text = line.split("\t", 5)
            who = int(cta), int(warp)
            if edge == "end":
                self.names[who], left[who] = role, int(call)
                continue
            self.printed.append(text)
            left[who] -= 1
            self.inside.pop(who, None)
            if edge == "in":
                self.inside[who] = call
                self.used.add((who[1], call))
        self.alive = [who for who in sorted(left) if left[who] > 0]


def _beats(lines: list[str]) -> list[str]:
    """Waits that do not end print once more every 2^24 polls."""
    told = _Told(lines)
    stuck = [(who, call) for who, call in told.inside.items() if call.startswith("mbar ")]
    beats = [
        f"blk {cta} tid {32 * warp} {told.names[cta, warp]}: still waiting, {call.removeprefix('mbar ')}, {turn}x16M polls"
        for turn in (1, 2)
        for (cta, warp), call in stuck
    ]
    return told.printed + beats


def _gdb(lines: list[str]) -> list[str]:
    """A session: what the kernel printed, ^C, the threads of the kernel, and the frames of each warp."""
    told = _Told(lines)
    found = ["(cuda-gdb) run", "Starting program: /home/dev/ws/build/ws_test", *told.printed]
    if not told.alive:
        return [*found, "[Inferior 1 (process 20713) exited normally]", "(cuda-gdb) quit"]
    found += ["^C", 'Thread 1 "ws_test" received signal SIGINT, Interrupt.', "(cuda-gdb) info cuda threads"]
    found += ["  BlockIdx ThreadIdx To BlockIdx To ThreadIdx Count         Virtual PC     Filename  Line", "Kernel 0"]  # fmt: skip
    names: dict[str, int] = {}
    frames: list[str] = []
    for cta, warp in told.alive:
        call, role, at = told.inside.get((cta, warp), ""), told.names[cta, warp], 140 + 11 * warp
        first, size = 32 * warp, 128 if warp >= 4 else 32
        where = ("dbg_sync.cuh", 31 if call.startswith("dbg_wait") else 58) if call else ("ws_kernel.cu", at)
        pc = 0x7FFFC9258A00 + 0x10 * where[1]
        found.append(
            f"  ({cta},0,0)  {f'({first},0,0)':>9}     ({cta},0,0)  {f'({first + size - 1},0,0)':>12} {size:5} {pc:#018x} {where[0]:>12} {where[1]:5}"
        )
        frames.append(f"(cuda-gdb) cuda block ({cta},0,0) thread ({first},0,0)")
        frames.append(
            f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({first},0,0), device 0, sm {2 * cta}, warp {warp}, lane 0]"
        )
        frames.append("(cuda-gdb) bt")
        if call:
            call = re.sub(r"\((?=.)", " (", call, count=1) if "(" in call else call + " ()"
            call = re.sub(
                r'"(\w+)"',
                lambda name: f"{0x7FFFC9A00100 + 16 * names.setdefault(name[1], len(names)):#x} {name[0]}",
                call,
            )
            frames.append(f"#0  {call} at {where[0]}:{where[1]}")
            frames.append(f"#1  {role} (params=...) at ws_kernel.cu:{at}")
        else:
            frames.append(f"#0  {role} (params=...) at ws_kernel.cu:{at}")
        frames.append(f"#{1 + bool(call)}  ws_kernel<<<({1 + max(c for c, _ in told.names)},1,1),(384,1,1)>>> (params=...) at ws_kernel.cu:402")  # fmt: skip
    return [*found, *frames, "(cuda-gdb) quit"]


def _sanitizer(lines: list[str]) -> list[str]:
    """synccheck reports threads in a barrier that others of their block have left the kernel without."""
    told = _Told(lines)
    errors: list[str] = []
    gone = [who for who in told.names if who not in told.alive]
    for (cta, warp), call in sorted(told.inside.items()):
        threads = call == "__syncthreads()"
        if not (threads or call.startswith("bar.sync")):
            continue
        if any(block == cta and (threads or (other, call) in told.used) for block, other in gone):
            for thread in (32 * warp, 32 * warp + 1):
                errors += [
                    "========= Barrier error detected. Divergent thread(s) in block",
                    f"=========     at ws_kernel(Params)+0x{0x1A0 + 0x40 * warp:x} in ws_kernel.cu:{140 + 11 * warp}",
                    f"=========     by thread ({thread},0,0) in block ({cta},0,0)",
                    "=========     Saved host backtrace up to driver entry point at kernel launch time",
                    "=========         Host Frame: main in ws_test.cu:77 [0x9c41] in ws_test",
                    "=========",
                ]
    found = ["$ compute-sanitizer --tool synccheck ./ws_test", "========= COMPUTE-SANITIZER"]
    found += told.printed + errors
    if told.alive:
        found += ["^C", "========= Error: process didn't terminate successfully", "========= Target application returned an error"]  # fmt: skip
    count = sum("error detected" in line for line in errors)
    return [*found, f"========= ERROR SUMMARY: {count} error{'' if count == 1 else 's'}"]


def _pipe(name: str) -> str:
    """The pipeline of an mbarrier: smem_full and smem_empty are of mainloop_pipe."""
    if name.startswith(("cluster", "syncthreads", "turn", "tmem", "named")):
        return name
    what = re.sub(r"^bar_|_(full|empty|ready|free|done|read)$", "", name)
    return {"smem": "mainloop", "ab": "mainloop", "d": "acc", "work": "tile"}.get(what, what) + "_pipe"


GERMAN_STATES = {"full": "voll", "empty": "leer", "free": "frei", "ready": "bereit", "done": "fertig", "read": "gelesen"}  # fmt: skip

# fmt: off
STYLES: dict[str, Style] = {
    # --- printf lines in English
    # Someone who bisects: the same printf in front of and behind every wait, and at every arrive; no copies.
    "entering-leaving": Style(
        {
            "wait": "[blk {cta} warp {warp} {role}] entering wait {bar}[{st}]{own} parity {ph}, k {k}",
            "done": "[blk {cta} warp {warp} {role}] leaving wait {bar}[{st}]{own} parity {ph}, k {k}",
            "arrive": "[blk {cta} warp {warp} {role}] arrive {bar}[{st}]{far}, k {k}",
            "expect": "[blk {cta} warp {warp} {role}] arrive {bar}[{st}]{far}, k {k}",
            **_calls("[blk {cta} warp {warp} {role}] ", "entering {api} ~ leaving {api} ~ {api} ~ {text}"),
        },
        roles=PLAIN, own=" of blk {owner}", to=" of blk {to}", shows=("phase", "stage", "to"), aka=_warp,
    ),
    # Someone who suspects a wrong byte count of TMA: what is armed and what lands, in bytes.
    "arm-landed": Style(
        {
            "wait": "{role}.{cta} k={k}: {bar}[{st}]{own} phase {ph} has not landed, wait",
            "done": "{role}.{cta} k={k}: {bar}[{st}]{own} phase {ph} landed",
            "wait back": "{role}.{cta} k={k}: {bar}[{st}]{own} phase {ph} is not free, wait",
            "done back": "{role}.{cta} k={k}: {bar}[{st}]{own} phase {ph} free",
            "arrive": "{role}.{cta} k={k}: arrive on {bar}[{st}]{far}",
            "expect": "{role}.{cta} k={k}: arm {bar}[{st}]{far} with arrive.expect_tx of {bytes} bytes",
            "copy": "{role}.{cta} k={k}: TMA load of {bytes} bytes in flight to {bar}[{st}]{far}",
            **_calls("{role}.{cta}: ", "in {api} ~ out of {api} ~ {api} ~ {text}"),
        },
        roles=BYTES, own=" on cta {owner}", to=" on cta {to}", head=lambda case, style: ["role.cta, k: index of the role's loop"],
    ),
    # Someone who explains a ring of buffers to a colleague: data and slots instead of barriers' verbs.
    "data-and-slots": Style(
        {
            "wait": "CTA {cta}, {role}, iter {k}: waiting until data is in, {bar}[{st}]{own}, phase {ph}",
            "done": "CTA {cta}, {role}, iter {k}: data is in, {bar}[{st}]{own}, phase {ph}",
            "wait back": "CTA {cta}, {role}, iter {k}: waiting until the slot is free, {bar}[{st}]{own}, phase {ph}",
            "done back": "CTA {cta}, {role}, iter {k}: slot is free, {bar}[{st}]{own}, phase {ph}",
            "arrive": "CTA {cta}, {role}, iter {k}: published {bar}[{st}]{far}",
            "arrive back": "CTA {cta}, {role}, iter {k}: handed back {bar}[{st}]{far}",
            "expect": "CTA {cta}, {role}, iter {k}: arrive_and_expect_tx({bytes}) on {bar}[{st}]{far}",
            "copy": "CTA {cta}, {role}, iter {k}: TMA of {bytes} B started, signals {bar}[{st}]{far}",
            **_calls("CTA {cta}, {role}: ", "waiting in {api} ~ through {api} ~ called {api} ~ says: {text}"),
        },
        roles=PRODUCER, own=" in CTA {owner}", to=" in CTA {to}", aka=forms(PRODUCER, " warp"),
    ),
    # Someone whose spin loop prints again every 2^24 polls, so that a hang shows itself without a debugger.
    "still-waiting": Style(
        _tagged("mbar {bar}[{st}]{own} phase {ph} j={k}", {
            "wait": "blk {cta} tid {tid} {role}: wait, {bar}[{st}]{own} phase {ph} j={k}",
            "done": "blk {cta} tid {tid} {role}: wait complete, {bar}[{st}]{own} phase {ph} j={k}",
            "arrive": "blk {cta} tid {tid} {role}: arrive, {bar}[{st}]{far} j={k}",
            "expect": "blk {cta} tid {tid} {role}: arrive, {bar}[{st}]{far} j={k} expect_tx={bytes}",
            "copy": "blk {cta} tid {tid} {role}: bulk copy, {bar}[{st}]{far} j={k} bytes={bytes}",
            **_calls("blk {cta} tid {tid} {role}: ", "wait, {api} ~ wait complete, {api} ~ {api} ~ {text}"),
        }),
        roles=BEATS, own=" (blk {owner})", to=" (blk {to})", head=_lengths, whole=_beats, aka=_warp,
    ),
    # Someone who thinks in the memory model: a wait acquires, an arrival releases; %globaltimer in front.
    "acquire-release": Style(
        {
            "wait": "[{t} ns] cta{cta}.w{warp} {role} acquiring {bar}.{st}{own} parity={ph} it={k}",
            "done": "[{t} ns] cta{cta}.w{warp} {role} acquired {bar}.{st}{own} parity={ph} it={k}",
            "arrive": "[{t} ns] cta{cta}.w{warp} {role} release-arrive {bar}.{st}{far} it={k}",
            "expect": "[{t} ns] cta{cta}.w{warp} {role} release-arrive {bar}.{st}{far} it={k} tx={bytes}",
            "copy": "[{t} ns] cta{cta}.w{warp} {role} cp.async.bulk.tensor {bar}.{st}{far} it={k} bytes={bytes}",
            **_calls("[{t} ns] cta{cta}.w{warp} {role} ", "entering {api} ~ returned from {api} ~ {api} ~ {text}"),
        },
        roles=SHORT, own="@cta{owner}", to="@cta{to}", aka=_warp,
    ),
    # Someone who prints whole sentences from a debug build, because several people read the output.
    "goes-into": Style(
        {
            "wait": "{role} (cluster rank {cta}) at k_tile {k} goes into the wait for {bar}[{st}]{own}, phase {ph}",
            "done": "{role} (cluster rank {cta}) at k_tile {k} comes back from the wait for {bar}[{st}]{own}, phase {ph}",
            "arrive": "{role} (cluster rank {cta}) at k_tile {k} sends an arrive to {bar}[{st}]{far}",
            "expect": "{role} (cluster rank {cta}) at k_tile {k} sends an arrive to {bar}[{st}]{far} and expects {bytes} bytes",
            "copy": "{role} (cluster rank {cta}) at k_tile {k} launches a TMA copy of {bytes} bytes for {bar}[{st}]{far}",
            **_calls("{role} (cluster rank {cta}) ", "goes into {api} ~ comes back from {api} ~ calls {api} ~ prints: {text}"),
        },
        roles=TITLES, own=" of rank {owner}", to=" of rank {to}",
    ),
    # --- JSON lines and key=value
    # A host tool that drains a ring buffer of records: a span is opened and closed, an arrival is an instant.
    "jsonl-span": Style(
        {
            "wait": '{{"ns":{t},"cta":{cta},"role":"{role}","span":"open","name":"mbar_wait","mbar":"{bar}","stage":{st}{own},"parity":{ph},"k":{k}}}',
            "done": '{{"ns":{t},"cta":{cta},"role":"{role}","span":"close","name":"mbar_wait","mbar":"{bar}","stage":{st}{own},"parity":{ph},"k":{k}}}',
            "arrive": '{{"ns":{t},"cta":{cta},"role":"{role}","instant":"mbar_arrive","mbar":"{bar}","stage":{st}{far},"k":{k}}}',
            "expect": '{{"ns":{t},"cta":{cta},"role":"{role}","instant":"mbar_arrive_expect_tx","mbar":"{bar}","stage":{st}{far},"tx_bytes":{bytes},"k":{k}}}',
            "copy": '{{"ns":{t},"cta":{cta},"role":"{role}","instant":"tma_copy","mbar":"{bar}","stage":{st}{far},"bytes":{bytes},"k":{k}}}',
            **_calls('{{"ns":{t},"cta":{cta},"role":"{role}",', '"span":"open","name":"{api}"}} ~ "span":"close","name":"{api}"}} ~ "instant":"{api}"}} ~ "instant":"message","text":"{text}"}}'),
        },
        roles=RING, own=',"mbar_cta":{owner}', to=',"mbar_cta":[{to}]', aka=forms(RING, "_warps?"),
    ),
    # A logger that greps well: done=0 is logged in front of a blocking call, done=1 behind it.
    "logfmt-done": Style(
        {
            "wait": "clk={t} cta={cta} wg={role} op=wait done=0 bar={bar}[{st}]{own} phase={ph} k={k}",
            "done": "clk={t} cta={cta} wg={role} op=wait done=1 bar={bar}[{st}]{own} phase={ph} k={k}",
            "arrive": "clk={t} cta={cta} wg={role} op=arrive bar={bar}[{st}]{far} k={k}",
            "expect": "clk={t} cta={cta} wg={role} op=arrive_expect_tx bar={bar}[{st}]{far} tx={bytes} k={k}",
            "copy": "clk={t} cta={cta} wg={role} op=tma_load bar={bar}[{st}]{far} bytes={bytes} k={k}",
            **_calls("clk={t} cta={cta} wg={role} ", 'op="{api}" done=0 ~ op="{api}" done=1 ~ op="{api}" ~ msg="{text}"'),
        },
        roles=KEYS, own=" bar_cta={owner}", to=" bar_cta={to}",
        head=lambda case, style: ["# done=0: logged before the call, done=1: after it"],
    ),
    # --- other languages
    # A German group's debug build: whole words, because the output goes into a ticket.
    "de-warten-beendet": Style(
        {
            "wait": "CTA {cta} {role} k={k}: beginnt zu warten, {bar}[{st}]{own}, Phase {ph}",
            "done": "CTA {cta} {role} k={k}: Warten beendet, {bar}[{st}]{own}, Phase {ph}",
            "arrive": "CTA {cta} {role} k={k}: signalisiert {bar}[{st}]{far}",
            "expect": "CTA {cta} {role} k={k}: signalisiert {bar}[{st}]{far} und erwartet {bytes} Bytes",
            "copy": "CTA {cta} {role} k={k}: startet TMA-Kopie, {bytes} Bytes nach {bar}[{st}]{far}",
            **_calls("CTA {cta} {role}: ", "beginnt zu warten, {api} ~ Warten beendet, {api} ~ {api} ~ {text}"),
        },
        roles=GERMAN, bar=plus(**GERMAN_STATES), own=" von CTA {owner}", to=" von CTA {to}",
        aka=forms(GERMAN, "-?[Ww]arp", softmax0="softmax-0, softmax0", softmax1="softmax-1, softmax1"),
    ),
    # A Chinese kernel author's printf: words in Chinese, names of barriers as in the source.
    "zh-waiting": Style(
        {
            "wait": "[CTA {cta} {role} k={k}] 正在等 {bar}[{st}]{own}, phase={ph}",
            "done": "[CTA {cta} {role} k={k}] 等完了 {bar}[{st}]{own}, phase={ph}",
            "arrive": "[CTA {cta} {role} k={k}] 通知 {bar}[{st}]{far}",
            "expect": "[CTA {cta} {role} k={k}] 通知 {bar}[{st}]{far}, 预期 {bytes} 字节",
            "copy": "[CTA {cta} {role} k={k}] 发起 TMA 拷贝 {bytes} 字节, 完成后通知 {bar}[{st}]{far}",
            **_calls("[CTA {cta} {role}] ", "正在等 {api} ~ 等完了 {api} ~ 调用 {api} ~ 打印: {text}"),
        },
        roles=CHINESE, own=" (CTA {owner} 的)", to=" (CTA {to} 的)",
    ),
    # A Japanese kernel author's printf: roles in katakana and kanji, as in the design document.
    "ja-confirm": Style(
        {
            "wait": "ブロック{cta} {role} k={k}: {bar}[{st}]{own} の完了を待つ (位相 {ph})",
            "done": "ブロック{cta} {role} k={k}: {bar}[{st}]{own} の完了を確認 (位相 {ph})",
            "arrive": "ブロック{cta} {role} k={k}: {bar}[{st}]{far} に arrive を送る",
            "expect": "ブロック{cta} {role} k={k}: {bar}[{st}]{far} に arrive を送る (expect_tx {bytes} バイト)",
            "copy": "ブロック{cta} {role} k={k}: {bar}[{st}]{far} に TMA コピー {bytes} バイトを発行",
            **_calls("ブロック{cta} {role}: ", "{api} の完了を待つ ~ {api} の完了を確認 ~ {api} を呼ぶ ~ メモ: {text}"),
        },
        roles=JAPANESE, own=" (ブロック{owner}側)", to=" (ブロック{to}側)",
    ),
    # --- addresses and calls
    # Someone whose wrappers know shared-memory addresses only; init prints what each address is.
    "hex-watching": Style(
        {
            "wait": "cta {cta} {role} k {k}: watching mbarrier <{bar}[{st}]>{own} for phase {ph}",
            "done": "cta {cta} {role} k {k}: saw mbarrier <{bar}[{st}]>{own} finish phase {ph}",
            "arrive": "cta {cta} {role} k {k}: mbarrier.arrive <{bar}[{st}]>{far}",
            "expect": "cta {cta} {role} k {k}: mbarrier.arrive.expect_tx <{bar}[{st}]>{far}, {bytes} bytes",
            "copy": "cta {cta} {role} k {k}: cp.async.bulk of {bytes} bytes, mbarrier <{bar}[{st}]>{far}",
            **_calls("cta {cta} {role}: ", "entering {api} ~ leaving {api} ~ {api} ~ {text}"),
        },
        roles=INITS, own=" of cta {owner}", to=" of cta {to}", head=_inits,
        whole=_resolved(r"mbarrier\.init (?P<at>0x\w+), \d+  \((?P<name>\w+\[\d+\])\)"), aka=forms(INITS, "_issuer"),
    ),
    # Someone who prints each call as it is in the source, with %#x of the barrier's address.
    "inside-wait": Style(
        {
            "wait": "blk{cta} {role} i={k} | inside wait(<{bar}[{st}]>, {ph}){own}",
            "done": "blk{cta} {role} i={k} | through wait(<{bar}[{st}]>, {ph}){own}",
            "arrive": "blk{cta} {role} i={k} | arrive(<{bar}[{st}]>){far}",
            "expect": "blk{cta} {role} i={k} | arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
            "copy": "blk{cta} {role} i={k} | tma_load(<{bar}[{st}]>, {bytes}){far}",
            **_calls("blk{cta} {role} | ", "inside {api} ~ through {api} ~ {api} ~ {text}"),
        },
        roles=CALLS, own=" in blk{owner}", to=" in blk{to}", head=_pointers,
        whole=_resolved(r"^&(?P<name>\w+\[\d+\]) = (?P<at>0x\w+)"), sync="bar_sync({number}, {size})",
    ),
    # --- tools
    # A cuda-gdb session of a program whose debug wrappers print: events, ^C, threads, frames of each warp.
    "gdb-session": Style(
        _tagged('dbg_wait(name="{bar}", stage={st}, parity={ph}, cta={owner})', {
            "wait": "b{cta} w{warp} {role} k={k}: waiting at {bar}[{st}]{own} parity={ph}",
            "done": "b{cta} w{warp} {role} k={k}: done at {bar}[{st}]{own} parity={ph}",
            "arrive": "b{cta} w{warp} {role} k={k}: arrived at {bar}[{st}]{far}",
            "expect": "b{cta} w{warp} {role} k={k}: arrived at {bar}[{st}]{far}, expect_tx {bytes} bytes",
            "copy": "b{cta} w{warp} {role} k={k}: TMA load for {bar}[{st}]{far}, {bytes} bytes",
            **_calls("b{cta} w{warp} {role}: ", "waiting at {api} ~ done at {api} ~ {api} ~ note: {text}"),
        }),
        roles=LOOPS, own=" of b{owner}", to=" of b{to}", head=_lengths, whole=_gdb,
        aka=lambda role: (*forms(LOOPS, "run_")(role), *_warp(role)), sync="named_sync(id={number}, threads={size})",
    ),
    # compute-sanitizer on the same kind of program: device printf goes to stdout, the report comes behind it.
    "synccheck-report": Style(
        _tagged("", {
            "wait": "block {cta} thread {tid} {role} k={k}: blocks till {bar}[{st}]{own} completes phase {ph}",
            "done": "block {cta} thread {tid} {role} k={k}: continues, {bar}[{st}]{own} completed phase {ph}",
            "arrive": "block {cta} thread {tid} {role} k={k}: arrives on {bar}[{st}]{far}",
            "expect": "block {cta} thread {tid} {role} k={k}: arrives on {bar}[{st}]{far}, expects {bytes} bytes",
            "copy": "block {cta} thread {tid} {role} k={k}: TMA load, {bytes} bytes to {bar}[{st}]{far}",
            **_calls("block {cta} thread {tid} {role}: ", "blocks in {api} ~ continues after {api} ~ {api} ~ {text}"),
        }),
        roles=SANITIZED, own=" of block {owner}", to=" of block {to}", head=_lengths, whole=_sanitizer, aka=_warp,
    ),
    # --- calls of pipelines
    # Someone who works in CuTe DSL and traces the methods of the pipelines on entry and on exit.
    "pipe-methods": Style(
        {
            "wait": "[rank {cta}] {role} k={k} enter {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "[rank {cta}] {role} k={k} exit {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "wait back": "[rank {cta}] {role} k={k} enter {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "[rank {cta}] {role} k={k} exit {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "arrive": "[rank {cta}] {role} k={k} {bar}.producer_commit(stage={st}{far})",
            "arrive back": "[rank {cta}] {role} k={k} {bar}.consumer_release(stage={st}{far})",
            "expect": "[rank {cta}] {role} k={k} {bar}.producer_arrive_expect_tx(stage={st}, tx_bytes={bytes}{far})",
            "copy": "[rank {cta}] {role} k={k} {bar}.tma_copy(stage={st}, bytes={bytes}{far})",
            **_calls("[rank {cta}] {role} ", 'enter {api} ~ exit {api} ~ {api} ~ print("{text}")'),
        },
        roles=PIPES, bar=_pipe, own=", cta={owner}", to=", cta=[{to}]",
        sync="named_barrier_sync(id={number}, threads={size})",
    ),
}
# fmt: on
