# ruff: noqa: E501 - log lines are kept whole
"""The fifteenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles, state_first, used
from benchmarks.strangers.exams.styles import WARPS, Names, Style, barriers, replaced
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")
Warp = tuple[int, int, str]  # CTA, warp, role

WARPED = roles("tma load, mma issue, epilogue, softmax 0, softmax 1, mainloop, ds compute, dq reduce, tile scheduler")  # fmt: skip
LONG = roles("producer, mma, epilogue, softmax0, softmax1, consumer, compute, dq_reduce, scheduler")
BYTES = roles("loader, mma, storer, softmaxA, softmaxB, math, math, reducer, scheduler")
THREADS = roles("load, mma, epi, sm0, sm1, main, dsoft, dqacc, sched")
ACQUIRERS = roles("load, mma, store, softmax0, softmax1, math, math, reduce, sched", "{} warp")
CLOCKS = roles("TMA, UMMA, EPI, SMX0, SMX1, ACC, DS, DQ, CLC")
RECORDS = roles("load, mma, epilogue, softmax_0, softmax_1, accumulate, ds, dq, tile_scheduler")
FIELDS = roles("tma_load, mma, epilogue_store, softmax_top, softmax_bottom, mma_consumer, bwd_math, dq_reduce, tile_sched")  # fmt: skip
GERMAN = roles("Laden, Matmul, Ausgabe, Softmax0, Softmax1, Summe, Gradient, Reduktion, Verteiler")
CHINESE = roles("加载, 矩阵乘, 写出, softmax0, softmax1, 主循环, 求梯度, 求和, 分块调度")
JAPANESE = roles("ロード, 行列積, 書き出し, ソフトマックス0, ソフトマックス1, 累積, 勾配, 総和, タイル配分")
WATCHERS = roles("load, mma, epi, softmax0, softmax1, math, math, reduce, sched", "{}_warp")
CHECKED = roles("copy, mma, epilogue, softmax0, softmax1, math, math, reduce, scheduler", "{} warp")
PIPED = roles("tma_warp, mma_warp, epi_warps, softmax0_warps, softmax1_warps, main_warps, compute_warps, reduce_warps, sched_warp")  # fmt: skip


def _warp_of(role: str) -> tuple[str, ...]:
    """The number of the warp, which the line prints before the role."""
    return (f"warp {WARPS[role]}",)


def _pipe(name: str) -> str:
    """acc_full and acc_empty as acc_pipe."""
    return re.sub(r"_(full|empty|free|ready|done|read)$", "", replaced({"smem": "ab"})(name)) + "_pipe"


# --- heads: roles of warps, and addresses of mbarriers


def _warp_roles(case: Case, style: Style) -> list[str]:
    """What each warp does: its lines have the number alone."""
    names = sorted((WARPS[role], name) for name, role in used(case, style).items())
    return [
        "warp roles: " + ", ".join(f"warp {warp} = {name}" for warp, name in names),
        "mbarriers are of the printing block unless another is named",
    ]


def _inits(case: Case, style: Style) -> list[str]:
    """What the wrapper of mbarrier.init prints, in each CTA."""
    rows = []
    for cta in range(ctas(case)):
        at = 0x1C400
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"[blk {cta}] init mbarrier {at:#x}: {style.bar(name)}[{stage}], count {count}")
                at += 8
    return rows


def _layout(case: Case, style: Style) -> list[str]:
    """Offsets of all elements of an array, as the host prints them before the launch."""
    rows, at = ["// smem offsets of the mbarriers, the same in every CTA"], 0x400
    for name, (stages, _) in barriers(case).items():
        each = ", ".join(f"[{stage}] {at + 8 * stage:#x}" for stage in range(stages))
        rows.append(f"//   {style.bar(name)}: {each}")
        at += 8 * stages
    rows.append("// + before a blocking call, - after it, * other calls; @cta: an mbarrier of another CTA")
    return rows


def _addressed(lines: list[str]) -> list[str]:
    """<name[stage]> becomes the address that the head gives it."""
    found: dict[str, str] = {}
    for line in lines:
        if init := re.match(r"\[blk \d+\] init mbarrier (0x\w+): (\w+\[\d+\])", line):
            found[init[2]] = init[1]
        elif array := re.match(r"//   (\w+): (\[.*)", line):
            found |= {array[1] + stage: at for stage, at in re.findall(r"(\[\d+\]) (0x\w+)", array[2])}
    return [re.sub(r"<(\w+\[\d+\])>", lambda name: found[name[1]], line) for line in lines]


# --- a tool's report behind the printed lines; a line carries ~~cta~warp~role~edge~call for it


def _open(lines: list[str]) -> tuple[list[str], dict[Warp, str]]:
    """The lines as printed, and the call that each warp is in ('': none; a warp that printed its exit: gone)."""
    printed, inside = [], dict[Warp, str]()
    for line in lines:
        text, _, mark = line.partition("~~")
        printed.append(text)
        cta, warp, role, edge, call = mark.split("~", 4)
        who = int(cta), int(warp), role
        inside[who] = call if edge == "in" else ""
        if edge == "note":
            del inside[who]
    return printed, dict(sorted(inside.items()))


def _gdb(lines: list[str]) -> list[str]:
    """A session of cuda-gdb. A warp in no blocking call is behind its role's function, at the kernel's end."""
    printed, inside = _open(lines)
    found = ["(cuda-gdb) run", "Starting program: /home/dev/repro/ws_repro", *printed]
    if not any(inside.values()):
        return [*found, "[Inferior 1 (process 31877) exited normally]"]
    found += ["^C", "Thread 1 received signal SIGINT, Interrupt."]
    for (cta, warp, role), call in inside.items():
        found += [
            f"(cuda-gdb) cuda block ({cta},0,0) thread ({32 * warp},0,0)",
            f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({32 * warp},0,0), device 0, sm {2 * cta}, warp {warp}, lane 0]",
            "(cuda-gdb) bt",
        ]
        frames = (
            [f"{call} at sync.cuh:57", f"{role}_main () at ws_repro.cu:{140 + 20 * warp}"] if call else []
        )
        frames.append("ws_kernel () at ws_repro.cu:402")
        found += [f"#{at}  {frame}" for at, frame in enumerate(frames)]
    return found


def _synccheck(lines: list[str]) -> list[str]:
    """compute-sanitizer --tool synccheck: a record for a thread at a __syncthreads that others do not reach."""
    printed, inside = _open(lines)
    found = ["========= COMPUTE-SANITIZER", *printed]
    errors = 0
    for (cta, warp, _), call in inside.items():
        peers = [call for (block, _, _), call in inside.items() if block == cta]
        if call.startswith("__syncthreads") and not any(peer.startswith("mbarrier") for peer in peers):
            errors += 1
            found += [
                "========= Barrier error detected. Divergent thread(s) in block",
                f"=========     at ws_kernel()+0x{0x1A40 + 0x100 * warp:x} in ws_repro.cu:{140 + 20 * warp}",
                f"=========     by thread ({32 * warp},0,0) in block ({cta},0,0)",
                "=========",
            ]
    if any(inside.values()):
        found.append("========= Error: process didn't terminate successfully")
        found.append("========= Target application returned an error")
    return [*found, f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}"]


def _marked(call: str, say: Names) -> Names:
    """Templates with what the report needs behind the line: `call` is that of a wait."""
    edges = {"wait": f"in~{call}", "done": "out~", "enter": "in~{api}", "leave": "out~", "note": "note~"}
    return {kind: line + "~~{cta}~{warp}~{role}~" + edges.get(kind, "at~") for kind, line in say.items()}


def _own(text: str) -> Callable[[Case, Style], list[str]]:
    """A head that says whose mbarrier one without a CTA is."""
    return lambda case, style: [text]


STYLES: dict[str, Style] = {
    # An engineer who greps for a pre-wait with no post-wait: a device function knows block and warp, the head names the roles.
    "pre-post": Style(
        {
            "wait": "[blk {cta} warp {warp}] k={k} pre-wait  {bar}[{st}]{own} ph={ph}",
            "done": "[blk {cta} warp {warp}] k={k} post-wait {bar}[{st}]{own} ph={ph}",
            "arrive": "[blk {cta} warp {warp}] k={k} arrive    {bar}[{st}]{far}",
            "expect": "[blk {cta} warp {warp}] k={k} arrive    {bar}[{st}]{far} expect_tx={bytes}",
            "copy": "[blk {cta} warp {warp}] k={k} tma-load  {bar}[{st}]{far} bytes={bytes}",
            **_calls("[blk {cta} warp {warp}] ", "pre-wait  {api} ~ post-wait {api} ~ {api} ~ {text}"),
        },
        roles=WARPED,
        bar=plus(smem="ab", d="acc", work="tile"),
        own=" of blk {owner}",
        to=" of blk {to}",
        head=_warp_roles,
        aka=lambda role: (*_warp_of(role), *forms(WARPED, mma="mma", load="load", compute="compute")(role)),
    ),
    # A printf at both ends of the wait function and in the arrive function, nowhere else: the copies are TMA's.
    "entering-left": Style(
        {
            "wait": "CTA {cta} {role}: entering wait on {bar}[{st}] of CTA {owner}, parity {ph}, iteration {k}",
            "done": "CTA {cta} {role}: left wait on {bar}[{st}] of CTA {owner}, parity {ph}, iteration {k}",
            "arrive": "CTA {cta} {role}: arriving on {bar}[{st}] of CTA {to}, iteration {k}",
            "expect": "CTA {cta} {role}: arriving with expect_tx on {bar}[{st}] of CTA {to}, iteration {k}",
            **_calls("CTA {cta} {role}: ", "entering {api} ~ left {api} ~ calling {api} ~ {text}"),
        },
        roles=LONG,
        bar=state_first(smem="ab", acc="accumulator", d="accumulator"),
        shows=("phase", "stage", "to"),
        aka=forms(LONG, reduce="reduce"),
    ),
    # An engineer who suspects the byte counts: the line of the expect_tx and that of the TMA copy both have them.
    "armed-bytes": Style(
        {
            "wait": "{t:>6} cta{cta} {role} #{k} pauses at {bar}[{st}]{own}, phase {ph}",
            "done": "{t:>6} cta{cta} {role} #{k} moves on from {bar}[{st}]{own}, phase {ph}",
            "arrive": "{t:>6} cta{cta} {role} #{k} arrives at {bar}[{st}]{far}",
            "expect": "{t:>6} cta{cta} {role} #{k} arrives at {bar}[{st}]{far} and arms it for {bytes} bytes",
            "copy": "{t:>6} cta{cta} {role} #{k} starts TMA, {bytes} bytes will land on {bar}[{st}]{far}",
            **_calls("{t:>6} cta{cta} {role} ", "pauses at {api} ~ moves on from {api} ~ {api} ~ {text}"),
        },
        roles=BYTES,
        bar=plus(smem="tile", scores0="s0_full", scores1="s1_full", probs0="p0_full", probs1="p1_full"),
        own=" of cta{owner}",
        to=" of cta{to}",
        head=_own("# an mbarrier with no 'of ctaN' behind it is the printing CTA's own"),
        aka=forms(BYTES, reduce="reduce"),
    ),
    # printf under `if (threadIdx.x % 32 == 0)`, with the thread for the debugger; "hit" like a breakpoint.
    "hit-passed": Style(
        {
            "wait": "(b{cta},t{tid}) {role} it={k}: hit wait {bar}.{st} (in b{owner}), want phase {ph}",
            "done": "(b{cta},t{tid}) {role} it={k}: passed wait {bar}.{st} (in b{owner}), phase {ph}",
            "arrive": "(b{cta},t{tid}) {role} it={k}: sent arrive to {bar}.{st} (in b{to})",
            "expect": "(b{cta},t{tid}) {role} it={k}: sent arrive to {bar}.{st} (in b{to}), expect_tx {bytes}",
            "copy": "(b{cta},t{tid}) {role} it={k}: sent TMA load for {bar}.{st} (in b{to}), {bytes} B",
            **_calls("(b{cta},t{tid}) {role}: ", "hit {api} ~ passed {api} ~ did {api} ~ said '{text}'"),
        },
        roles=THREADS,
        bar=plus("mb_", smem="ab", acc="tmem", d="tmem"),
        aka=forms(THREADS, softmax0="softmax0", softmax1="softmax1", reduce="dq"),
        sync="barrier.sync {number}, {size}",
    ),
    # The words of CUTLASS's pipelines (acquire, commit, release) for plain mbarriers.
    "acquiring": Style(
        {
            "wait": "<cta {cta}, {role}, iter {k}> acquiring {bar} stage {st} phase {ph}{own}",
            "done": "<cta {cta}, {role}, iter {k}> acquired {bar} stage {st} phase {ph}{own}",
            "arrive": "<cta {cta}, {role}, iter {k}> commits {bar} stage {st}{far}",
            "arrive back": "<cta {cta}, {role}, iter {k}> releases {bar} stage {st}{far}",
            "expect": "<cta {cta}, {role}, iter {k}> commits {bar} stage {st}, expecting {bytes} bytes{far}",
            "copy": "<cta {cta}, {role}, iter {k}> issues TMA for {bar} stage {st}, {bytes} bytes{far}",
            **_calls("<cta {cta}, {role}> ", "acquiring {api} ~ acquired {api} ~ {api} ~ log: {text}"),
        },
        roles=ACQUIRERS,
        bar=plus("", "_mbar", smem="mainloop", acc="accum", d="accum"),
        own=" (mbarrier of cta {owner})",
        to=" (mbarrier of cta {to})",
        head=_own("# commit, release: arrive on that mbarrier, of the own cta unless the line names another"),
        aka=forms(ACQUIRERS, " warp"),
        sync="NamedBarrier::arrive_and_wait({size}, {number})",
    ),
    # clock64() first, so that the lines can be sorted after the run; the plainest words there are.
    "clk-got": Style(
        {
            "wait": "clk {t} | CTA{cta} {role} i{k} | waiting on {bar}[{st}]{own} p{ph}",
            "done": "clk {t} | CTA{cta} {role} i{k} | got {bar}[{st}]{own} p{ph}",
            "arrive": "clk {t} | CTA{cta} {role} i{k} | signalled {bar}[{st}]{far}",
            "expect": "clk {t} | CTA{cta} {role} i{k} | signalled {bar}[{st}]{far}, expect_tx {bytes}",
            "copy": "clk {t} | CTA{cta} {role} i{k} | tma load {bytes} B, signals {bar}[{st}]{far}",
            **_calls("clk {t} | CTA{cta} {role} | ", "waiting on {api} ~ got {api} ~ {api} ~ {text}"),
        },
        roles=CLOCKS,
        bar=state_first("bar_", smem="ab"),
        own=" on CTA{owner}",
        to=" on CTA{to}",
        head=_own("# 'on CTAn' behind a barrier: that of CTA n, else its own"),
        aka=forms(CLOCKS, mma="mma"),
        sync="bar.sync({number}, {size})",
    ),
    # A ring buffer in global memory that the host writes out with json.dumps; a wait is a stall that begins and ends.
    "jsonl-stall": Style(
        {
            "wait": '{{"clk": {t}, "cta": {cta}, "warp": "{role}", "iter": {k}, "event": "stall_begin", "mbar": "{bar}", "stage": {st}, "mbar_cta": {owner}, "phase": {ph}}}',
            "done": '{{"clk": {t}, "cta": {cta}, "warp": "{role}", "iter": {k}, "event": "stall_end", "mbar": "{bar}", "stage": {st}, "mbar_cta": {owner}, "phase": {ph}}}',
            "arrive": '{{"clk": {t}, "cta": {cta}, "warp": "{role}", "iter": {k}, "event": "arrive", "mbar": "{bar}", "stage": {st}, "mbar_cta": [{to}]}}',
            "expect": '{{"clk": {t}, "cta": {cta}, "warp": "{role}", "iter": {k}, "event": "arrive_expect_tx", "mbar": "{bar}", "stage": {st}, "mbar_cta": [{to}], "bytes": {bytes}}}',
            "copy": '{{"clk": {t}, "cta": {cta}, "warp": "{role}", "iter": {k}, "event": "tma_copy", "mbar": "{bar}", "stage": {st}, "mbar_cta": [{to}], "bytes": {bytes}}}',
            **_calls(
                '{{"clk": {t}, "cta": {cta}, "warp": "{role}", ',
                '"event": "stall_begin", "call": "{api}"}} ~ "event": "stall_end", "call": "{api}"}} ~ "event": "call", "call": "{api}"}} ~ "event": "printf", "text": "{text}"}}',
            ),
        },
        roles=RECORDS,
        bar=plus(smem="ab", d="acc"),
        aka=forms(RECORDS, softmax0="softmax0", softmax1="softmax1", sched="scheduler"),
    ),
    # logfmt of a host thread that drains the records into the service's logger; spans open and close there.
    "logfmt-span": Style(
        {
            "wait": "cycles={t} block={cta} warp_role={role} step={k} event=wait.open barrier={bar} slot={st} barrier_block={owner} phase={ph}",
            "done": "cycles={t} block={cta} warp_role={role} step={k} event=wait.close barrier={bar} slot={st} barrier_block={owner} phase={ph}",
            "arrive": "cycles={t} block={cta} warp_role={role} step={k} event=arrive barrier={bar} slot={st} barrier_block={to}",
            "expect": "cycles={t} block={cta} warp_role={role} step={k} event=arrive barrier={bar} slot={st} barrier_block={to} expect_tx={bytes}",
            "copy": "cycles={t} block={cta} warp_role={role} step={k} event=tma_load barrier={bar} slot={st} barrier_block={to} bytes={bytes}",
            **_calls(
                "cycles={t} block={cta} warp_role={role} ",
                'event=call.open call="{api}" ~ event=call.close call="{api}" ~ event=call call="{api}" ~ event=print text="{text}"',
            ),
        },
        roles=FIELDS,
        bar=plus(smem="stage", d="acc", work="tile"),
        aka=forms(FIELDS, load="load", epi="epilogue", main="consumer", compute="math", reduce="reduce"),
    ),
    # A German colleague's printf, in the first person.
    "de-warte-habe": Style(
        {
            "wait": "[Block {cta}, Warp {warp}, {role}] Schritt {k}: warte auf {bar}[{st}]{own}, Phase {ph}",
            "done": "[Block {cta}, Warp {warp}, {role}] Schritt {k}: habe {bar}[{st}]{own}, Phase {ph}",
            "arrive": "[Block {cta}, Warp {warp}, {role}] Schritt {k}: gebe Signal an {bar}[{st}]{far}",
            "expect": "[Block {cta}, Warp {warp}, {role}] Schritt {k}: gebe Signal an {bar}[{st}]{far}, erwarte {bytes} Byte",
            "copy": "[Block {cta}, Warp {warp}, {role}] Schritt {k}: starte TMA-Kopie von {bytes} Byte für {bar}[{st}]{far}",
            **_calls(
                "[Block {cta}, Warp {warp}, {role}] ", "warte in {api} ~ habe {api} ~ rufe {api} ~ {text}"
            ),
        },
        roles=GERMAN,
        bar=plus(
            smem="ab",
            d="acc",
            full="voll",
            empty="leer",
            free="frei",
            ready="bereit",
            done="fertig",
            read="gelesen",
        ),
        own=" von Block {owner}",
        to=" von Block {to}",
        head=_own("# ohne 'von Block n' ist es die mbarrier des eigenen Blocks"),
        aka=_warp_of,
    ),
    # A Chinese colleague's printf: API words stay English, the verbs do not.
    "zh-waiting-got": Style(
        {
            "wait": "[block {cta} {role}] k={k} 在等 {bar}[{st}]{own}, phase {ph}",
            "done": "[block {cta} {role}] k={k} 拿到 {bar}[{st}]{own}, phase {ph}",
            "arrive": "[block {cta} {role}] k={k} 通知 {bar}[{st}]{far}",
            "expect": "[block {cta} {role}] k={k} 通知 {bar}[{st}]{far}, expect_tx {bytes} 字节",
            "copy": "[block {cta} {role}] k={k} 发起 TMA 拷贝 {bytes} 字节, 完成后通知 {bar}[{st}]{far}",
            **_calls("[block {cta} {role}] ", "在等 {api} ~ 等完 {api} ~ 调用 {api} ~ 打印: {text}"),
        },
        roles=CHINESE,
        bar=plus(smem="smem", d="acc"),
        own="(block {owner} 的)",
        to="(block {to} 的)",
        head=_own("# 没有注明 block 的都是本 block 的 mbarrier"),
    ),
    # A Japanese colleague's printf, roles in katakana and kanji as in the design document.
    "ja-kakunin": Style(
        {
            "wait": "[CTA {cta}] {role} k={k}: {bar}[{st}]{own} の完了を待つ (フェーズ {ph})",
            "done": "[CTA {cta}] {role} k={k}: {bar}[{st}]{own} の完了を確認 (フェーズ {ph})",
            "arrive": "[CTA {cta}] {role} k={k}: {bar}[{st}]{far} に到着を送信",
            "expect": "[CTA {cta}] {role} k={k}: {bar}[{st}]{far} に到着を送信, expect_tx {bytes} バイト",
            "copy": "[CTA {cta}] {role} k={k}: TMA で {bytes} バイトをロード, 完了先 {bar}[{st}]{far}",
            **_calls("[CTA {cta}] {role}: ", "{api} を待つ ~ {api} の完了を確認 ~ {api} を実行 ~ {text}"),
        },
        roles=JAPANESE,
        bar=plus(smem="ab", d="acc"),
        own=" (CTA {owner} のもの)",
        to=" (CTA {to} のもの)",
        head=_own("# CTA の指定がない mbarrier は自 CTA のもの"),
    ),
    # mbarriers as 32-bit shared addresses, which is all that inline PTX has; the wrapper of mbarrier.init prints first.
    "hex-watching": Style(
        {
            "wait": "[blk {cta}] {role} k={k} watching <{bar}[{st}]> of blk {owner} for phase {ph}",
            "done": "[blk {cta}] {role} k={k} phase {ph} of <{bar}[{st}]> of blk {owner} complete",
            "arrive": "[blk {cta}] {role} k={k} arrive on <{bar}[{st}]> of blk {to}",
            "expect": "[blk {cta}] {role} k={k} arrive on <{bar}[{st}]> of blk {to}, expect_tx {bytes}",
            "copy": "[blk {cta}] {role} k={k} bulk copy of {bytes} bytes to mbarrier <{bar}[{st}]> of blk {to}",
            **_calls("[blk {cta}] {role} ", "watching {api} ~ {api} complete ~ {api} ~ text: {text}"),
        },
        roles=WATCHERS,
        bar=plus(smem="ab", d="acc"),
        head=_inits,
        whole=_addressed,
        aka=forms(WATCHERS, "_warp"),
    ),
    # A macro that prints the call it wraps, as `set -x` does: + before a call that may block, - behind it.
    "macro-calls": Style(
        {
            "wait": "cta{cta} {role} k={k} + wait(<{bar}[{st}]>{own}, {ph})",
            "done": "cta{cta} {role} k={k} - wait(<{bar}[{st}]>{own}, {ph})",
            "arrive": "cta{cta} {role} k={k} * arrive(<{bar}[{st}]>{far})",
            "expect": "cta{cta} {role} k={k} * arrive_expect_tx(<{bar}[{st}]>{far}, {bytes})",
            "copy": "cta{cta} {role} k={k} * tma_load(<{bar}[{st}]>{far}, {bytes})",
            **_calls("cta{cta} {role} ", '+ {api} ~ - {api} ~ * {api} ~ * printf("{text}")'),
        },
        roles=BYTES,
        bar=plus("bar_", smem="ab", d="acc"),
        own=" @cta{owner}",
        to=" @cta{to}",
        head=_layout,
        whole=_addressed,
        aka=forms(BYTES, load="load", reduce="reduce"),
        sync="bar_sync({number}, {size})",
    ),
    # A run under cuda-gdb: the program's own printf, Ctrl-C when it hangs, then a backtrace of each warp.
    "gdb-bt": Style(
        _marked(
            "mbar_wait (bar=&sm.{bar}[{st}], cta={owner}, phase={ph})",
            {
                "wait": "b{cta} w{warp} {role} k={k}: stands at {bar}[{st}] of b{owner}, phase {ph}",
                "done": "b{cta} w{warp} {role} k={k}: went past {bar}[{st}] of b{owner}, phase {ph}",
                "arrive": "b{cta} w{warp} {role} k={k}: arrives at {bar}[{st}] of b{to}",
                "expect": "b{cta} w{warp} {role} k={k}: arrives at {bar}[{st}] of b{to}, expects {bytes} bytes",
                "copy": "b{cta} w{warp} {role} k={k}: TMA copy, {bytes} bytes, to {bar}[{st}] of b{to}",
                **_calls(
                    "b{cta} w{warp} {role}: ", "stands at {api} ~ went past {api} ~ calls {api} ~ {text}"
                ),
            },
        ),
        roles=LONG,
        bar=plus(smem="ab", d="acc"),
        whole=_gdb,
        aka=lambda role: (*_warp_of(role), f"w{WARPS[role]}"),
        sync="named_sync (id={number}, threads={size})",
    ),
    # `timeout 60 compute-sanitizer --tool synccheck ./repro`: the program's printf, then what the tool found.
    "synccheck": Style(
        _marked(
            "mbarrier",
            {
                "wait": "block {cta} thread {tid} ({role}) iter {k}: syncing on {bar}[{st}] in block {owner}, parity {ph}",
                "done": "block {cta} thread {tid} ({role}) iter {k}: synced on {bar}[{st}] in block {owner}, parity {ph}",
                "arrive": "block {cta} thread {tid} ({role}) iter {k}: arrival on {bar}[{st}] in block {to}",
                "expect": "block {cta} thread {tid} ({role}) iter {k}: arrival on {bar}[{st}] in block {to}, {bytes} bytes expected",
                "copy": "block {cta} thread {tid} ({role}) iter {k}: TMA load on {bar}[{st}] in block {to}, {bytes} bytes",
                **_calls(
                    "block {cta} thread {tid} ({role}): ",
                    "syncing on {api} ~ synced on {api} ~ {api} ~ {text}",
                ),
            },
        ),
        roles=CHECKED,
        bar=state_first("mbar_", smem="ab", d="acc"),
        whole=_synccheck,
        aka=lambda role: (f"thread {32 * WARPS[role]}", *forms(CHECKED, " warp")(role)),
    ),
    # A subclass of the DSL's pipeline that prints each call: the barriers are its full and empty, the name is the pipeline's.
    "pipe-calls": Style(
        {
            "wait": "cta={cta} {role} k={k} enter {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "cta={cta} {role} k={k} exit  {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "wait back": "cta={cta} {role} k={k} enter {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "cta={cta} {role} k={k} exit  {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "arrive": "cta={cta} {role} k={k} call  {bar}.producer_commit(stage={st}{far})",
            "arrive back": "cta={cta} {role} k={k} call  {bar}.consumer_release(stage={st}{far})",
            "expect": "cta={cta} {role} k={k} call  {bar}.producer_arrive_and_expect_tx(stage={st}, tx_count={bytes}{far})",
            "copy": "cta={cta} {role} k={k} call  cute.copy(tma_atom, tma_bar_ptr={bar}.producer_get_barrier(stage={st}{far}), bytes={bytes})",
            **_calls("cta={cta} {role} ", 'enter {api} ~ exit  {api} ~ call  {api} ~ print "{text}"'),
        },
        roles=PIPED,
        bar=mbarriers(_pipe),
        own=", peer_cta={owner}",
        to=", ctas=[{to}]",
        head=_own("# no peer_cta, ctas: the barrier of the caller's own CTA"),
        aka=forms(PIPED, "_warps?"),
        sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})",
    ),
}
