# ruff: noqa: E501 - log lines are kept whole
"""The sixteenth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Style, barriers, replaced
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")

ACQUIRE = roles("mainloop_load, mma, epilogue, softmax_0, softmax_1, mainloop, dscore, dq_accum, tile_scheduler")  # fmt: skip
NUMBERED = {role: f"warp {warp}" for role, warp in WARPS.items()}
INTO = roles("load, mma, drain, softmax0, softmax1, accum, dsm, reduce, sched", "{}_warp")
LANDED = roles("loader, issuer, writer, smaxA, smaxB, math, math, reducer, tiler")
THREADS = roles("load, mma, epilogue, softmax0, softmax1, accumulate, grad, dq_reduce, schedule")
GATED = roles("LoadWarp, MmaWarp, StoreWarp, SoftmaxWG0, SoftmaxWG1, MathWG, MathWG, ReduceWG, SchedWarp")
TRACED = roles("tma-load, mma-issue, epilogue, softmax-0, softmax-1, mainloop, compute, dq-reduce, tile-sched")  # fmt: skip
KEYED = roles("load, mma, store, softmax_lo, softmax_hi, combine, dscore, dqsum, sched")
GERMAN = roles("Kopier-Warp, MMA-Warp, Ausgabe-Warp, Softmax0-Gruppe, Softmax1-Gruppe, Summen-Gruppe, Gradienten-Gruppe, Reduktions-Gruppe, Kachel-Warp")  # fmt: skip
CHINESE = roles("拷贝, 矩阵, 输出, 甲softmax, 乙softmax, 汇总, 梯度, 累加, 分块", "{}组")
JAPANESE = roles("転送, 行列積, 書き出し, ソフトマックス0, ソフトマックス1, 集計, 勾配, 縮約, 割り当て", "{}ワープ")  # fmt: skip
INITS = roles("producer, mma, epilogue, softmax0, softmax1, consumer, math, dq, scheduler")
CALLS = roles("ld, mma, st, softmax0, softmax1, acc, ds, dq, clc")
FRAMES = roles("load, mma, epilogue, softmax0, softmax1, mainloop, compute, reduce, scheduler", "run_{}")
CHECKED = roles("copier, mma, epilogue, softmax0, softmax1, mainloop, compute, reducer, scheduler")
GERMAN_STATES = {"full": "voll", "empty": "leer", "free": "frei", "ready": "bereit", "done": "fertig", "read": "gelesen"}  # fmt: skip
PIPED = roles("TmaLoader, MmaIssuer, EpilogueStorer, SoftmaxRow0, SoftmaxRow1, Accumulator, DScore, DqReducer, TileScheduler")  # fmt: skip

# What stands in front of every line of some styles.
BUILTIN = "blockIdx.x={cta} threadIdx.x={tid} {role}"
RECORD = '{{"clock": {t}, "block": {cta}, "warp": {warp}, "role": "{role}", "event": '
LOGFMT = "level=debug clk={t} cta={cta} role={role} "
WHO = "{cta}~{warp}~{role}~"


def _warp(role: str) -> tuple[str, ...]:
    """The number of a role's first warp, as a name."""
    return (f"warp {WARPS[role]}",)


# --- addresses of mbarriers, and legends at the head that name them


def _inits(case: Case, style: Style) -> list[str]:
    """The lines that thread 0 of each CTA prints at each mbarrier.init."""
    rows = []
    for cta in range(ctas(case)):
        at = 0x2C010
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"cta {cta} thread 0: init mbar {at:#x} = {style.bar(name)}[{stage}], count {count}")  # fmt: skip
                at += 8
    return rows


def _layout(case: Case, style: Style) -> list[str]:
    """The layout of the struct in shared memory, as the host prints it."""
    rows, at = ["SharedStorage (same offsets in every CTA; a barrier has 8 bytes):"], 0x0C00
    for name, (stages, _) in barriers(case).items():
        rows.append(f"    offset {at:#06x}: uint64_t {style.bar(name)}[{stages}]")
        at += 8 * stages
    return rows


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address; `legend` finds the first address and the name of an array."""

    def whole(lines: list[str]) -> list[str]:
        base: dict[str, str] = {}
        for line in lines:
            if found := re.search(legend, line):
                base.setdefault(found["name"], found["at"])

        def address(found: re.Match[str]) -> str:
            first = base[found[1]]
            return f"{int(first, 16) + 8 * int(found[2]):#0{len(first)}x}"

        return [re.sub(r"<(\w+)\[(\d+)\]>", address, line) for line in lines]

    return whole


# --- tools that stand behind the printf lines


def _standing(lines: list[str]) -> tuple[list[str], dict[tuple[int, int, str], str]]:
    """The printed lines, and by (CTA, warp, role) the call in which a warp stands.

    A line is cta~warp~role~edge~printed~call; edge: in (begins a call), out (ends it) or at.
    """
    printed: list[str] = []
    inside: dict[tuple[int, int, str], str] = {}
    for line in lines:
        cta, warp, role, edge, text, call = line.split("~", 5)
        who = int(cta), int(warp), role
        if text:
            printed.append(text)
        if edge == "in":
            inside[who] = call
        elif edge == "out":
            inside.pop(who)
    return printed, dict(sorted(inside.items()))


def _session(lines: list[str]) -> list[str]:
    """A cuda-gdb session: the kernel's output, an interrupt, the warps that have not exited, their stacks."""
    printed, inside = _standing(lines)
    start = ["(cuda-gdb) run", "Starting program: /home/dev/ws/build/ws_test", *printed]
    if not inside:
        return [*start, "[Inferior 1 (process 20817) exited normally]"]
    pcs = {function: 0x7FFFD8F2B000 + 0x460 * at for at, function in enumerate({who[2]: 0 for who in inside})}
    table = [
        "^C",
        'Thread 1 "ws_test" received signal SIGINT, Interrupt.',
        "(cuda-gdb) info cuda warps",
        "  Wp Active Lanes Mask Divergent Lanes Mask          Physical PC Kernel BlockIdx First Active ThreadIdx",
    ]
    stacks = []
    for sm in sorted({who[0] for who in inside}):
        table.append(f"Device 0 SM {sm}")
        for cta, warp, function in inside:
            if cta == sm:
                table.append(f"  {warp:>2}       0xffffffff           0x00000000 {pcs[function]:#018x}      0  ({cta},0,0)                ({32 * warp},0,0)")  # fmt: skip
    for (cta, warp, function), call in inside.items():
        stacks += [
            f"(cuda-gdb) cuda block ({cta},0,0) thread ({32 * warp},0,0)",
            f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({32 * warp},0,0), device 0, sm {cta}, warp {warp}, lane 0]",
            "(cuda-gdb) bt",
            f"#0  {call} at sync.cuh:57",
            f"#1  {function} () at ws_kernel.cuh:{180 + 30 * warp}",
            "#2  ws_kernel () at ws_kernel.cuh:502",
        ]
    return [*start, *table, *stacks]


def _synccheck(lines: list[str]) -> list[str]:
    """The kernel's output and what synccheck reports: barriers of a CTA that some of its warps will not reach.

    It reports none while a warp that takes part (has come to the barrier before) is in a wait on an mbarrier.
    """
    printed, inside = _standing(lines)
    came = {tuple(line.split("~", 5)[at] for at in (0, 2, 5)) for line in lines}
    found = []
    for (cta, warp, _), call in inside.items():
        late = {
            role for (other, _, role), at in inside.items() if other == cta and at == "mbar"
            and (call == "__syncthreads()" or (str(cta), role, call) in came)
        }  # fmt: skip
        if call.startswith(("bar.sync", "__syncthreads")) and not late:
            found += [
                "========= Barrier error detected. Divergent thread(s) in block.",
                f"=========     at {call} in ws_kernel.cuh:{180 + 30 * warp}",
                f"=========     by thread ({32 * warp},0,0) in block ({cta},0,0)",
                "=========",
            ]
    errors = len(found) // 4
    if inside and not errors:
        found.append("^C========= Error: process didn't terminate successfully")
    total = f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}"
    return ["========= COMPUTE-SANITIZER", *printed, *found, total]


_pipe: Callable[[str], str] = mbarriers(lambda name: re.sub(r"_(full|empty|free|ready|done|read)$", "", name) + "_pipe")  # fmt: skip


# Without the formatter: a template of a log line stands in a line.
# fmt: off
STYLES: dict[str, Style] = {
    # --- printf lines of events
    # A CUTLASS author: debug prints around the pipeline's steps, so the words are those of acquire and release.
    "acquiring": Style(
        {
            "wait": "[blk {cta} {role}] k_tile={k} acquiring {bar}[{st}]{own}, phase {ph}",
            "done": "[blk {cta} {role}] k_tile={k} acquired {bar}[{st}]{own}, phase {ph}",
            "arrive": "[blk {cta} {role}] k_tile={k} signalled {bar}[{st}]{far}",
            "arrive back": "[blk {cta} {role}] k_tile={k} released {bar}[{st}]{far}",
            "expect": "[blk {cta} {role}] k_tile={k} signalled {bar}[{st}]{far}, expect_tx {bytes}",
            "copy": "[blk {cta} {role}] k_tile={k} issued TMA load of {bytes} bytes to {bar}[{st}]{far}",
            **_calls("[blk {cta} {role}] ", "entering {api} ~ left {api} ~ called {api} ~ {text}{kk}"),
        },
        roles=ACQUIRE, bar=plus(smem="ab", d="acc"),
        own=" of blk {owner}", to=" of blk {to}",
        k=" (k_tile={k})",
        aka=forms(ACQUIRE, "_(load|accum|scheduler)", load="load", main="main"),
        sync="NamedBarrier::sync({size}, {number})",
    ),
    # An engineer who has no role names at hand in the kernel: lane 0 of each warp prints %warpid and what it came to.
    "blk-warp": Style(
        {
            "wait": "[blk {cta} {role}] it {k}: reached wait on {bar}[{st}]{own} (phase {ph})",
            "done": "[blk {cta} {role}] it {k}: made it past wait on {bar}[{st}]{own} (phase {ph})",
            "arrive": "[blk {cta} {role}] it {k}: issued arrive on {bar}[{st}]{far}",
            "expect": "[blk {cta} {role}] it {k}: issued arrive on {bar}[{st}]{far} with expect_tx {bytes}",
            "copy": "[blk {cta} {role}] it {k}: issued TMA load of {bytes} bytes, mbarrier {bar}[{st}]{far}",
            **_calls("[blk {cta} {role}] ", "reached {api} ~ made it past {api} ~ issued {api} ~ says: {text}"),
        },
        roles=NUMBERED, bar=plus("", "_bar", smem="tile"),
        own=" in blk {owner}", to=" in blk {to}",
    ),
    # A quick hack of three printf: before a wait, after a wait, at an arrival; no loads, no bytes.
    "into-wait": Style(
        {
            "wait": "cta{cta} {role} k{k} | into wait {bar}[{st}]{own} ph={ph}",
            "done": "cta{cta} {role} k{k} | out of wait {bar}[{st}]{own} ph={ph}",
            "arrive": "cta{cta} {role} k{k} | arrival at {bar}[{st}]{far}",
            "expect": "cta{cta} {role} k{k} | arrival at {bar}[{st}]{far}",
            **_calls("cta{cta} {role} | ", "into {api} ~ out of {api} ~ {api} ~ {text}"),
        },
        roles=INTO, bar=plus("", "_mbar", d="acc"),
        own=" @cta{owner}", to=" @cta{to}",
        shows=("phase", "stage", "to"),
        aka=forms(INTO, "_warp", epi="drain, epi"),
    ),
    # The author of a loader that copies with threads and does complete_tx itself, so that it sees the bytes land.
    "bytes-landed": Style(
        {
            "wait": "{t:>6} b{cta}.{role} #{k}: {bar}[{st}]{own}: holding until phase {ph} is complete",
            "done": "{t:>6} b{cta}.{role} #{k}: {bar}[{st}]{own}: phase {ph} is complete, continuing",
            "arrive": "{t:>6} b{cta}.{role} #{k}: {bar}[{st}]{far}: one arrival",
            "expect": "{t:>6} b{cta}.{role} #{k}: {bar}[{st}]{far}: one arrival, expect_tx +{bytes} bytes",
            "copy": "{t:>6} b{cta}.{role} #{k}: {bar}[{st}]{far}: {bytes} bytes landed (complete_tx)",
            **_calls("{t:>6} b{cta}.{role}: ", "holding in {api} ~ continuing after {api} ~ {api} ~ {text}"),
        },
        roles=LANDED, bar=plus(smem="operands", acc="accum", d="accum"),
        own=" of b{owner}", to=" of b{to}",
        head=lambda case, style: ["# clock block.role #iteration: mbarrier[stage] [of another block]: what"],
        aka=forms(LANDED, load="load", mma="issue", reduce="reduce"),
    ),
    # A student who prints the built-in indices in front and plain words behind.
    "pause-continue": Style(
        {
            "wait": BUILTIN + "(i={k}): pause at {bar}[{st}]{own} for parity {ph}",
            "done": BUILTIN + "(i={k}): continue after {bar}[{st}]{own} with parity {ph}",
            "arrive": BUILTIN + "(i={k}): notify {bar}[{st}]{far}",
            "expect": BUILTIN + "(i={k}): notify {bar}[{st}]{far} and expect {bytes} bytes",
            "copy": BUILTIN + "(i={k}): start cp.async.bulk of {bytes} bytes on {bar}[{st}]{far}",
            **_calls(BUILTIN + ": ", "pause at {api} ~ continue after {api} ~ run {api} ~ {text}"),
        },
        roles=THREADS, bar=state_first("bar_", smem="tile", d="acc"),
        own=" in blockIdx.x={owner}", to=" in blockIdx.x={to}",
        aka=forms(THREADS, sched="sched", main="accum"),
    ),
    # An engineer who came from hardware: a barrier is a gate, and stage and phase are fields of their own.
    "gated": Style(
        {
            "wait": "{role}@{cta}  gated by {bar} stage {st} phase {ph}{own}  (iter {k})",
            "done": "{role}@{cta}  gate open {bar} stage {st} phase {ph}{own}  (iter {k})",
            "arrive": "{role}@{cta}  arrival sent {bar} stage {st}{far}  (iter {k})",
            "expect": "{role}@{cta}  arrival sent {bar} stage {st} tx {bytes}{far}  (iter {k})",
            "copy": "{role}@{cta}  tensor load {bar} stage {st} bytes {bytes}{far}  (iter {k})",
            **_calls("{role}@{cta}  ", "gated by {api} ~ gate open {api} ~ {api} ~ {text}{kk}"),
        },
        roles=GATED, bar=plus("m_", smem="tiles", acc="tmem", d="tmem"),
        own=" cta {owner}", to=" cta {to}",
        k="  (iter {k})",
        head=lambda case, style: ["# role@cta; the mbarrier is that cta's unless 'cta n' follows"],
        aka=forms(GATED, "Warp|WG", softmax0="softmax0", softmax1="softmax1"),
        sync="barrier.sync {number}, {size}",
    ),
    # --- JSON lines
    # A host thread drains a ring buffer of device records and writes each as an object with full key names.
    "jsonl-progress": Style(
        {
            "wait": RECORD + '"mbarrier_wait", "state": "in_progress", "mbarrier": "{bar}", "stage": {st}, "phase": {ph}{own}, "iteration": {k}}}',
            "done": RECORD + '"mbarrier_wait", "state": "complete", "mbarrier": "{bar}", "stage": {st}, "phase": {ph}{own}, "iteration": {k}}}',
            "arrive": RECORD + '"mbarrier_arrive", "mbarrier": "{bar}", "stage": {st}{far}, "iteration": {k}}}',
            "expect": RECORD + '"mbarrier_arrive_expect_tx", "mbarrier": "{bar}", "stage": {st}{far}, "tx_bytes": {bytes}, "iteration": {k}}}',
            "copy": RECORD + '"tma_load", "mbarrier": "{bar}", "stage": {st}{far}, "bytes": {bytes}, "iteration": {k}}}',
            **_calls(RECORD, '"{api}", "state": "in_progress"}} ~ "{api}", "state": "complete"}} ~ "{api}"}} ~ "print", "message": "{text}"}}'),
        },
        roles=TRACED, bar=plus(smem="ab"),
        own=', "mbarrier_block": {owner}', to=', "mbarrier_block": [{to}]',
        aka=forms(TRACED, "-(load|issue|sched)", load="load", mma="mma", sched="sched"),
        sync="bar.sync {number}, {size}",
    ),
    # --- key=value
    # A logging service reads logfmt: a message in quotes, then fields; a wait is a loop of try_wait.
    "logfmt-msg": Style(
        {
            "wait": LOGFMT + 'msg="entered try_wait loop" barrier={bar} stage={st} parity={ph}{own} iter={k}',
            "done": LOGFMT + 'msg="left try_wait loop" barrier={bar} stage={st} parity={ph}{own} iter={k}',
            "arrive": LOGFMT + 'msg="arrive on barrier" barrier={bar} stage={st}{far} iter={k}',
            "expect": LOGFMT + 'msg="arrive on barrier" barrier={bar} stage={st}{far} expect_tx={bytes} iter={k}',
            "copy": LOGFMT + 'msg="bulk load issued" barrier={bar} stage={st}{far} bytes={bytes} iter={k}',
            **_calls(LOGFMT, 'msg="entered call" call="{api}" ~ msg="left call" call="{api}" ~ msg="call" call="{api}" ~ msg="{text}"'),
        },
        roles=KEYED, bar=plus(smem="ab", acc="accum", d="accum"),
        own=" barrier_cta={owner}", to=" barrier_cta={to}",
        aka=forms(KEYED),
    ),
    # --- German, Chinese, Japanese
    # A German group's debug build: words in German, identifiers of barriers translated as in their code.
    "de-haelt": Style(
        {
            "wait": "[Block {cta}, {role}] k={k}: hält bei {bar}[{st}]{own}, Parität {ph}",
            "done": "[Block {cta}, {role}] k={k}: läuft weiter nach {bar}[{st}]{own}, Parität {ph}",
            "arrive": "[Block {cta}, {role}] k={k}: signalisiert {bar}[{st}]{far}",
            "expect": "[Block {cta}, {role}] k={k}: signalisiert {bar}[{st}]{far}, erwartet {bytes} Bytes",
            "copy": "[Block {cta}, {role}] k={k}: startet TMA-Kopie, {bytes} Bytes für {bar}[{st}]{far}",
            **_calls("[Block {cta}, {role}] ", "hält bei {api} ~ läuft weiter nach {api} ~ führt {api} aus ~ Hinweis: {text}"),
        },
        roles=GERMAN, bar=plus(**GERMAN_STATES, smem="kachel"),
        own=" von Block {owner}", to=" von Block {to}",
        aka=forms(GERMAN, "-(Warp|Gruppe)"),
    ),
    # A Chinese colleague's printf: the wait is a polling loop, so it says that polling begins and succeeds.
    "zh-polling": Style(
        {
            "wait": "CTA{cta} {role} k={k}: 开始轮询 {bar}[{st}]{own}, 相位 {ph}",
            "done": "CTA{cta} {role} k={k}: 轮询成功 {bar}[{st}]{own}, 相位 {ph}",
            "arrive": "CTA{cta} {role} k={k}: 发出到达信号 {bar}[{st}]{far}",
            "expect": "CTA{cta} {role} k={k}: 发出到达信号 {bar}[{st}]{far}, 预期 {bytes} 字节",
            "copy": "CTA{cta} {role} k={k}: 发起TMA拷贝 {bytes} 字节, 屏障 {bar}[{st}]{far}",
            **_calls("CTA{cta} {role}: ", "进入 {api} ~ 离开 {api} ~ 调用 {api} ~ 信息: {text}"),
        },
        roles=CHINESE, bar=plus("mbar_", smem="tile"),
        own=" (属于CTA{owner})", to=" (属于CTA{to})",
        aka=forms(CHINESE, "组$", softmax0="甲", softmax1="乙"),
    ),
    # A Japanese colleague's printf: full sentences, barrier names as in the code.
    "ja-kanryou": Style(
        {
            "wait": "[ブロック{cta} {role} k={k}] {bar}[{st}]{own} のフェーズ {ph} の完了を待っています",
            "done": "[ブロック{cta} {role} k={k}] {bar}[{st}]{own} のフェーズ {ph} の完了を確認しました",
            "arrive": "[ブロック{cta} {role} k={k}] {bar}[{st}]{far} へ到着通知を送りました",
            "expect": "[ブロック{cta} {role} k={k}] {bar}[{st}]{far} へ到着通知を送りました (予定 {bytes} バイト)",
            "copy": "[ブロック{cta} {role} k={k}] {bar}[{st}]{far} へ TMA 転送を発行しました ({bytes} バイト)",
            **_calls("[ブロック{cta} {role}] ", "{api} の完了を待っています ~ {api} の完了を確認しました ~ {api} を実行しました ~ メッセージ: {text}"),
        },
        roles=JAPANESE, bar=plus(smem="ab", d="acc"),
        own=" (ブロック{owner}側)", to=" (ブロック{to}側)",
        aka=forms(JAPANESE, "ワープ"),
    ),
    # --- addresses, and calls with addresses
    # Helper functions get only the shared address (cvta), so they print it; the init code prints their barriers.
    "hex-init": Style(
        {
            "wait": "cta {cta} {role} k {k}: checking mbar <{bar}[{st}]>{own} for parity {ph}",
            "done": "cta {cta} {role} k {k}: got mbar <{bar}[{st}]>{own} parity {ph}",
            "arrive": "cta {cta} {role} k {k}: arrive mbar <{bar}[{st}]>{far}",
            "expect": "cta {cta} {role} k {k}: arrive mbar <{bar}[{st}]>{far} expect_tx {bytes}",
            "copy": "cta {cta} {role} k {k}: tma load {bytes} bytes mbar <{bar}[{st}]>{far}",
            **_calls("cta {cta} {role}: ", "before {api} ~ after {api} ~ {api} ~ {text}"),
        },
        roles=INITS, bar=plus(smem="ab", d="acc"),
        own=" of cta {owner}", to=" of cta {to}",
        head=_inits,
        whole=_resolved(r"init mbar (?P<at>0x\w+) = (?P<name>\w+)\[0\]"),
        aka=forms(INITS),
        sync="bar.sync({number}, {size})",
    ),
    # A macro prints the call before it is made and once it is through: #define STEP(call).
    "next-through": Style(
        {
            "wait": "cta {cta}, {role}, step {k}: next: wait(<{bar}[{st}]>, {ph}){own}",
            "done": "cta {cta}, {role}, step {k}: through: wait(<{bar}[{st}]>, {ph}){own}",
            "arrive": "cta {cta}, {role}, step {k}: arrive(<{bar}[{st}]>){far}",
            "expect": "cta {cta}, {role}, step {k}: arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
            "copy": "cta {cta}, {role}, step {k}: bulk_load(<{bar}[{st}]>, {bytes}){far}",
            **_calls("cta {cta}, {role}: ", "next: {api} ~ through: {api} ~ {api} ~ {text}"),
        },
        roles=CALLS, bar=plus("", "_mbar", smem="ab"),
        own=" in cta {owner}", to=" in cta {to}",
        head=_layout,
        whole=_resolved(r"offset (?P<at>0x\w+): uint64_t (?P<name>\w+)\["),
        aka=forms(CALLS, load="load", epi="store", sched="sched"),
        sync="bar_sync({number}, {size})",
    ),
    # --- tools
    # A debugging session: printf says only what is over, the backtraces say where the warps that live still stand.
    "gdb-session": Style(
        {
            "wait": WHO + "in~~mbar_wait (bar={bar}, stage={st}, parity={ph}, cta={owner}, k={k})",
            "done": WHO + "out~[cta {cta}] {role} k={k}: passed {bar}[{st}]{own} parity {ph}~",
            "arrive": WHO + "at~[cta {cta}] {role} k={k}: arrived {bar}[{st}]{far}~",
            "expect": WHO + "at~[cta {cta}] {role} k={k}: arrived {bar}[{st}]{far}, expect_tx {bytes}~",
            "copy": WHO + "at~[cta {cta}] {role} k={k}: loading {bytes} bytes for {bar}[{st}]{far}~",
            **_calls(WHO, "in~~{api} ~ out~[cta {cta}] {role}: passed {api}~ ~ at~[cta {cta}] {role}: {api}~ ~ at~[cta {cta}] {role}: {text}~"),
        },
        roles=FRAMES, bar=mbarriers(lambda name: replaced({"smem": "ab", "d": "acc"})(name).upper()),
        own=" of cta {owner}", to=" of cta {to}",
        whole=_session,
        aka=lambda role: (*forms(FRAMES, "run_")(role), *_warp(role)),
        sync="named_sync (id={number}, threads={size})",
    ),
    # compute-sanitizer --tool synccheck on a build with printf: its report comes behind the kernel's output.
    "synccheck": Style(
        {
            "wait": WHO + "in~block {cta} {role} iter={k}: sitting on {bar}[{st}]{own} phase={ph}~mbar",
            "done": WHO + "out~block {cta} {role} iter={k}: off {bar}[{st}]{own} phase={ph}~",
            "arrive": WHO + "at~block {cta} {role} iter={k}: arrive {bar}[{st}]{far}~",
            "expect": WHO + "at~block {cta} {role} iter={k}: arrive {bar}[{st}]{far} expect_tx={bytes}~",
            "copy": WHO + "at~block {cta} {role} iter={k}: load {bar}[{st}]{far} bytes={bytes}~",
            **_calls(WHO, "in~block {cta} {role}: sitting on {api}~{api} ~ out~block {cta} {role}: off {api}~ ~ at~block {cta} {role}: {api}~ ~ at~block {cta} {role}: {text}~"),
        },
        roles=CHECKED, bar=plus("", "_barrier", smem="tile"),
        own=" of block {owner}", to=" of block {to}",
        whole=_synccheck,
        aka=lambda role: (*forms(CHECKED, load="copy", reduce="reduce")(role), f"thread {32 * WARPS[role]}"),
    ),
    # --- calls of pipelines
    # A Python DSL with a tracing decorator on the pipeline classes: each call on entry and on exit.
    "pipe-decorator": Style(
        {
            "wait": "{role}[cta={cta}] k={k} entering {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "done": "{role}[cta={cta}] k={k} exiting {bar}.consumer_wait(stage={st}, phase={ph}{own})",
            "wait back": "{role}[cta={cta}] k={k} entering {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "done back": "{role}[cta={cta}] k={k} exiting {bar}.producer_acquire(stage={st}, phase={ph}{own})",
            "arrive": "{role}[cta={cta}] k={k} {bar}.producer_commit(stage={st}{far})",
            "arrive back": "{role}[cta={cta}] k={k} {bar}.consumer_release(stage={st}{far})",
            "expect": "{role}[cta={cta}] k={k} {bar}.producer_commit(stage={st}, expect_tx={bytes}{far})",
            "copy": "{role}[cta={cta}] k={k} {bar}.tma_load(stage={st}, num_bytes={bytes}{far})",
            **_calls("{role}[cta={cta}] ", "entering {api} ~ exiting {api} ~ {api} ~ print: {text}"),
        },
        roles=PIPED, bar=_pipe,
        own=", cta={owner}", to=", cta=[{to}]",
        head=lambda case, style: ["# producer_commit and consumer_release arrive on the barrier of a stage"],
        aka=forms(PIPED, "Row|er$", load="load", mma="mma"),
        sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})",
    ),
}
# fmt: on
