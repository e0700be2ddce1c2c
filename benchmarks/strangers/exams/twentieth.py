# ruff: noqa: E501 - log lines are kept whole
"""The twentieth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import Names, Style, barriers, plain, replaced
from benchmarks.strangers.kernels import Case

GERMAN_STATES = {
    "full": "voll", "empty": "frei", "free": "frei", "ready": "bereit", "done": "fertig", "read": "abgeholt",
}  # fmt: skip


# --- addresses of mbarriers, with init lines at the head


def _inits(case: Case, style: Style) -> list[str]:
    """What the thread that initialises the mbarriers prints, in each CTA."""
    rows = []
    for cta in range(ctas(case)):
        at = 0x1C400
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"cta {cta} mbarrier.init [{at:#x}], {count}   ({style.bar(name)}[{stage}])")
                at += 8
    return rows


def _layout(case: Case, style: Style) -> list[str]:
    """A row for each array of mbarriers: the shared-memory addresses of its stages."""
    rows, at = ["shared-memory addresses of the mbarriers (alike in all CTAs):"], 0x8000
    for name, (stages, _) in barriers(case).items():
        each = ", ".join(f"{style.bar(name)}[{stage}]={at + 8 * stage:#06x}" for stage in range(stages))
        rows.append("  " + each)
        at += 8 * stages
    return rows


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address that `legend` finds for it in the lines of the head."""

    def whole(lines: list[str]) -> list[str]:
        found = [match for line in lines for match in re.finditer(legend, line)]
        address = {match["name"]: match["at"] for match in found}
        return [re.sub(r"<(\w+\[\d+\])>", lambda match: address[match[1]], line) for line in lines]

    return whole


def _line(text: str) -> Callable[[Case, Style], list[str]]:
    return lambda case, style: [text]


# --- sessions of tools: where each warp is after the printf output


@dataclass
class _Warp:
    """A warp: how many lines it prints in a whole run and printed here, its open call, `needed` at a sync."""

    cta: int
    warp: int
    role: str
    total: int
    needed: int
    printed: int = 0
    inside: str = ""

    @property
    def left(self) -> bool:
        """The warp returned from the kernel."""
        return not self.inside and self.printed == self.total


def _totals(case: Case, style: Style) -> list[str]:
    """Lines of each role in a run that ends, and warps that a sync needs; `_session` takes these rows out."""
    needed = max([0, *(size for bar, size in case.kernel.syncs.items() if bar != "cluster")])
    blocking = ("wait", "sync", "cluster_wait", "alloc")
    return [
        f"~~{cta}~{style.role(role)}~{needed}~"
        + str(sum(2 if op.kind in blocking else op.kind not in ("stop", "silent") for op in program))
        for (role, cta), program in case.kernel.programs.items()
    ]


def _session(lines: list[str]) -> tuple[list[str], dict[tuple[int, str], _Warp]]:
    """Lines of the form cta~warp~role~edge~call~printf line, behind those of `_totals`."""
    output: list[str] = []
    warps: dict[tuple[int, str], _Warp] = {}
    for line in lines:
        if line.startswith("~~"):
            cta, role, needed, total = line[2:].split("~")
            warps[int(cta), role] = _Warp(int(cta), 0, role, int(total), int(needed))
            continue
        cta, number, role, edge, call, printed = line.split("~", 5)
        warp = warps[int(cta), role]
        warp.warp = int(number)
        warp.printed += 1
        warp.inside = call if edge == "in" else ""
        output.append(printed)
    return output, warps


def _debugger(lines: list[str]) -> list[str]:
    """A cuda-gdb session: the program's printf output, an interrupt, then a backtrace of each live warp."""
    output, warps = _session(lines)
    live = [warp for warp in warps.values() if not warp.left]
    if not live:
        return ["(cuda-gdb) run", *output, "[Inferior 1 (process 48213) exited normally]"]
    rows = ["(cuda-gdb) run", *output, "^C", "Program received signal SIGINT, Interrupt."]
    for warp in sorted(live, key=lambda warp: (warp.cta, warp.warp)):
        thread = 32 * warp.warp
        rows += [
            f"(cuda-gdb) cuda block {warp.cta} thread {thread}",
            f"[Switching focus to CUDA kernel 0, grid 1, block ({warp.cta},0,0), thread ({thread},0,0), device 0, sm {2 * warp.cta}, warp {warp.warp}, lane 0]",
            "(cuda-gdb) bt",
        ]
        frames = [warp.inside] if warp.inside else []
        frames += [f"{warp.role} (params=...)", "ws_kernel<<<...>>> (params=...)"]
        rows += [f"#{depth}  {frame}" for depth, frame in enumerate(frames)]
    return rows


def _synccheck(lines: list[str]) -> list[str]:
    """compute-sanitizer's report: warps at a barrier of threads that other warps of the block left out."""
    output, warps = _session(lines)
    found = []
    live = Counter(warp.cta for warp in warps.values() if not warp.left)
    for warp in warps.values():
        if re.match(r"__syncthreads|bar\.sync|barrier\.sync", warp.inside) and live[warp.cta] < warp.needed:
            found += [
                "========= Barrier error detected. Divergent thread(s) in block.",
                f"=========     at {warp.inside} in ws_kernel.cu",
                f"=========     by thread ({32 * warp.warp},0,0) in block ({warp.cta},0,0)",
                f"=========     Device Frame: {warp.role}",
                "=========",
            ]
    hung = any(not warp.left for warp in warps.values())
    rows = ["$ timeout -v -s INT 120 compute-sanitizer --tool synccheck ./ws_kernel"]
    rows += ["========= COMPUTE-SANITIZER", *output, *found]
    if hung:
        rows.append("timeout: sending signal INT to command 'compute-sanitizer'")
    errors = len(found) // 5
    return [*rows, f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}"]


def _told(prefix: str, **kinds: str) -> dict[str, str]:
    """Templates for `_session` from edge~frame of the call~printf line of each kind."""
    told = {kind: text.rpartition("~") for kind, text in kinds.items()}
    before = "{cta}~{warp}~{role}~"
    return {kind: f"{before}{call}~{prefix}{line}" for kind, (call, _, line) in told.items()}


# --- what the styles have in common


def _upper(name: str) -> str:
    return replaced({"smem": "stage", "d": "acc"})(name).upper()


def _pipe(name: str) -> str:
    """smem_full and smem_empty as ab_pipe."""
    what = re.sub(r"_(full|empty|free|ready|done|read)$", "", name)
    return replaced({"smem": "ab", "d": "acc"})(what) + "_pipe"


@dataclass(frozen=True)
class _Who:
    """Names of roles and barriers, other names of roles, and how a line shows the CTA of a barrier."""

    roles: Names
    aka: Callable[[str], tuple[str, ...]]
    bar: Callable[[str], str] = plain
    where: str = ""


def _named(names: str, form: str = "{}", parts: str = "", **short: str) -> _Who:
    return _Who(roles(names, form), forms(roles(names, form), parts, **short))


def _who(who: _Who, bar: Callable[[str], str], where: str) -> _Who:
    return replace(who, bar=bar, where=where)


def _style(who: _Who, base: Style | None = None, **say: str) -> Style:
    """A style; in `say`, `calls` is a prefix ~~ the templates of enter ~ leave ~ call ~ note."""
    kinds = {kind.replace("_", " "): template for kind, template in say.items()}
    prefix, _, templates = kinds.pop("calls", "").partition(" ~~ ")
    if templates:
        kinds |= calls(prefix, templates, " ~ ")
    own, _, to = who.where.partition(" / ")
    own, to = own.replace("{at}", "{owner}"), (to or own).replace("{at}", "{to}")
    return replace(base or Style({}), say=kinds, roles=who.roles, bar=who.bar, own=own, to=to, aka=who.aka)


GEMM = _named("load, mma, epilogue, softmax0, softmax1, mainloop, math, reduce, scheduler", epi="epi", main="main", sched="sched")  # fmt: skip
WARPS_OF = _named("producer, mma, store, softmax_lo, softmax_hi, consumer, ds_math, dq_reduce, tile_sched", mma="mma", reduce="reduce", sched="sched")  # fmt: skip
UPPER = _named("TMA, UMMA, EPI, SMAX0, SMAX1, MAIN, MATH, REDUCE, SCHED", load="tma, load", mma="mma", main="main")  # fmt: skip
THREADS = _named("loader, issuer, writer, softmax A, softmax B, accumulator, gradient, reducer, scheduler", load="load", reduce="reduce", sched="sched", softmax0="softmaxa", softmax1="softmaxb")  # fmt: skip
SLASHED = _named("tma, tcgen, epi, sm0, sm1, main, bwd_math, dq_red, clc", form="{}_warp", parts="_warp", load="tma")  # fmt: skip
CUTE = _named("load_warp, mma_warp, epi_warps, softmax0_warps, softmax1_warps, main_warps, math_warps, reduce_warps, sched_warp", parts="_warps?")  # fmt: skip
TRACED = _named("TmaLoad, MmaIssue, Epilogue, Softmax0, Softmax1, Mainloop, GradMath, DqReduce, Scheduler", load="load, tma", mma="mma, issue", main="main", reduce="reduce")  # fmt: skip
LOGFMT = _named("dma, mma, epilogue, softmax-0, softmax-1, main, math, reduce, sched", parts="-", load="dma")  # fmt: skip
GERMAN = _named("Lade-Warp, MMA-Warp, Epilog-Warp, Softmax-Warp-0, Softmax-Warp-1, Haupt-Warp, Rechen-Warp, Reduktions-Warp, Verteil-Warp", parts="-Warp")  # fmt: skip
CHINESE = _named("加载, 矩阵乘, 写回, 软最大0, 软最大1, 主循环, 计算, 归约, 调度", form="{}warp", parts="warp")  # fmt: skip
JAPANESE = _named("ロード, 行列積, 書き出し, ソフトマックス0, ソフトマックス1, 主ループ, 勾配計算, 集約, スケジューラ")  # fmt: skip
HEXED = _named("load, mma, epi, softmax0, softmax1, main, compute, reduce, sched", form="{}_wg", parts="_wg")  # fmt: skip
CALLED = _named("prod, mma, epi, smax0, smax1, cons, grad, red, sched", reduce="reduce")  # fmt: skip
LOOPS = _named("load_loop, mma_loop, epilogue_loop, softmax0_loop, softmax1_loop, main_loop, math_loop, reduce_loop, sched_loop", parts="_loop")  # fmt: skip
CHECKED = _named("producer, mma, epilogue, softmax0, softmax1, consumer, compute, reducer, scheduler", load="load", sched="sched", reduce="reduce")  # fmt: skip
PIPED = _named("load, mma, epilogue, softmax_a, softmax_b, main, compute, reduce, tile_scheduler", softmax0="softmaxa", softmax1="softmaxb", sched="sched")  # fmt: skip

STYLES: dict[str, Style] = {
    # The debug macro of a GEMM: block and warp in brackets, as the elected lane prints them around a spin loop.
    "blk-warp-loops": _style(
        _who(GEMM, plus(smem="ab", d="acc"), " of blk {at}"),
        wait="[blk {cta} warp {warp}] {role} k={k}: looping on {bar}[{st}]{own}, phase {ph}",
        done="[blk {cta} warp {warp}] {role} k={k}: out of the loop on {bar}[{st}]{own}, phase {ph}",
        arrive="[blk {cta} warp {warp}] {role} k={k}: posted an arrival to {bar}[{st}]{far}",
        expect="[blk {cta} warp {warp}] {role} k={k}: posted an arrival to {bar}[{st}]{far} with expect_tx {bytes}",
        copy="[blk {cta} warp {warp}] {role} k={k}: launched TMA load of {bytes} bytes for {bar}[{st}]{far}",
        calls="[blk {cta} warp {warp}] {role}:  ~~ going into {api} ~ out of {api} ~ {api} ~ {text}",
    ),
    # Somebody who instruments the wait and arrive helpers only: a line before and after a wait, a line at an arrival.
    "entering-leaving": _style(
        _who(WARPS_OF, state_first(smem="tile", acc="tmem", d="tmem"), " in cta {at}"),
        Style({}, shows=("phase", "stage", "to"), sync="named_barrier_sync({size}, {number})"),
        wait="{role}/{cta} entering wait {bar} stage {st} parity {ph}{own}",
        done="{role}/{cta} leaving wait {bar} stage {st} parity {ph}{own}",
        arrive="{role}/{cta} arriving {bar} stage {st}{far}",
        expect="{role}/{cta} arriving {bar} stage {st}{far}",
        calls="{role}/{cta}  ~~ entering {api} ~ leaving {api} ~ calling {api} ~ prints: {text}",
    ),
    # Somebody who suspects byte counts: what an mbarrier's tx-count is to get, and what each bulk copy brings.
    "tx-accounting": _style(
        _who(UPPER, mbarriers(_upper), "@CTA{at}"),
        Style(
            {},
            head=_line("CTA role #iteration barrier.slot[@CTA of the barrier]: what"),
            sync="bar.sync {number},{size}",
        ),
        wait="CTA{cta} {role:<6} #{k} {bar}.{st}{own}: need phase {ph}",
        done="CTA{cta} {role:<6} #{k} {bar}.{st}{own}: okay phase {ph}",
        arrive="CTA{cta} {role:<6} #{k} {bar}.{st}{far}: arrive, tx 0",
        expect="CTA{cta} {role:<6} #{k} {bar}.{st}{far}: arrive, expect_tx {bytes} bytes",
        copy="CTA{cta} {role:<6} #{k} {bar}.{st}{far}: bulk copy landed {bytes} bytes",
        calls="CTA{cta} {role:<6}  ~~ {api}: need ~ {api}: okay ~ {api} ~ says {text}",
    ),
    # printf with clock64() and threadIdx.x, sentences that can be read in a terminal while the kernel hangs.
    "clock-thread": _style(
        _who(THREADS, plus("", "_bar", smem="operands", d="acc"), " of block {at}"),
        Style({}, k=", k={k}", sync="barrier.sync {number}, {size}"),
        wait="@{t} block {cta} thread {tid} ({role}) stops at {bar}({st}){own} until phase {ph} completes{kk}",
        done="@{t} block {cta} thread {tid} ({role}) moves past {bar}({st}){own}, phase {ph} completed{kk}",
        arrive="@{t} block {cta} thread {tid} ({role}) signs in at {bar}({st}){far}{kk}",
        expect="@{t} block {cta} thread {tid} ({role}) signs in at {bar}({st}){far}, expecting {bytes} bytes{kk}",
        copy="@{t} block {cta} thread {tid} ({role}) starts a copy of {bytes} bytes that reports to {bar}({st}){far}{kk}",
        calls="@{t} block {cta} thread {tid} ({role})  ~~ stops at {api} ~ moves past {api} ~ runs {api} ~ prints: {text}",
    ),
    # A short trace through a tcgen05 kernel: cluster rank and loop count as a prefix, verbs of three to five letters.
    "rank-watch": _style(
        _who(SLASHED, plus("mbar_", smem="ab", d="acc"), "@r{at}"),
        Style({}, head=_line("# r<rank>:<role>:<loop>; watch: a wait starts, fired: it returned")),
        wait="r{cta}:{role}:{k} watch {bar}[{st}]{own} ph={ph}",
        done="r{cta}:{role}:{k} fired {bar}[{st}]{own} ph={ph}",
        arrive="r{cta}:{role}:{k} arrive {bar}[{st}]{far}",
        expect="r{cta}:{role}:{k} arrive {bar}[{st}]{far} tx={bytes}",
        copy="r{cta}:{role}:{k} tma {bar}[{st}]{far} nbytes={bytes}",
        calls="r{cta}:{role}  ~~ watch {api} ~ fired {api} ~ call {api} ~ msg {text}",
    ),
    # cute.printf in a CuTe DSL kernel: the fields that the author passes, with their names in the format string.
    "cute-printf": _style(
        _who(CUTE, plus("", "_mbar_ptr", smem="ab", d="acc"), ", peer bidx {at}"),
        Style({}, sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})"),
        wait="{role} | bidx {cta} | it {k} | acquiring {bar}, stage {st}, phase {ph}{own}",
        done="{role} | bidx {cta} | it {k} | acquired {bar}, stage {st}, phase {ph}{own}",
        arrive="{role} | bidx {cta} | it {k} | arrived {bar}, stage {st}{far}",
        expect="{role} | bidx {cta} | it {k} | arrived {bar}, stage {st}, tx_count {bytes}{far}",
        copy="{role} | bidx {cta} | it {k} | cute.copy on {bar}, stage {st}, {bytes} bytes{far}",
        calls="{role} | bidx {cta} |  ~~ acquiring {api} ~ acquired {api} ~ {api} ~ {text}",
    ),
    # JSON lines of a tracing tool that decodes a ring buffer of the kernel; names after PTX's acquire and release.
    "jsonl-acquire": _style(
        _who(TRACED, plus(smem="tile", d="acc"), ',"mbar_cta":{at} / ,"mbar_ctas":[{at}]'),
        wait='{{"ns":{t},"event":"mbar.acquire.try","cta":{cta},"role":"{role}","loop":{k},"mbar":"{bar}","slot":{st},"parity":{ph}{own}}}',
        done='{{"ns":{t},"event":"mbar.acquire.ok","cta":{cta},"role":"{role}","loop":{k},"mbar":"{bar}","slot":{st},"parity":{ph}{own}}}',
        arrive='{{"ns":{t},"event":"mbar.arrive","cta":{cta},"role":"{role}","loop":{k},"mbar":"{bar}","slot":{st}{far}}}',
        expect='{{"ns":{t},"event":"mbar.arrive","cta":{cta},"role":"{role}","loop":{k},"mbar":"{bar}","slot":{st},"expect_tx_bytes":{bytes}{far}}}',
        copy='{{"ns":{t},"event":"tma.load","cta":{cta},"role":"{role}","loop":{k},"mbar":"{bar}","slot":{st},"tx_bytes":{bytes}{far}}}',
        calls='{{"ns":{t},"event":" ~~ sync.try","cta":{cta},"role":"{role}","call":"{api}"}} ~ sync.ok","cta":{cta},"role":"{role}","call":"{api}"}} ~ call","cta":{cta},"role":"{role}","call":"{api}"}} ~ print","cta":{cta},"role":"{role}","text":"{text}"}}',
    ),
    # key=value lines that a host thread writes from a pinned buffer, so that grep and a log viewer can filter them.
    "kv-try-ok": _style(
        _who(LOGFMT, state_first(smem="ab", d="acc"), " mbar_blk={at}"),
        Style({}, sync="bar.sync {number} {size}"),
        wait="clk={t} blk={cta} wg={role} iter={k} call=mbar_wait result=try mbar={bar} idx={st} phase={ph}{own}",
        done="clk={t} blk={cta} wg={role} iter={k} call=mbar_wait result=ok mbar={bar} idx={st} phase={ph}{own}",
        arrive="clk={t} blk={cta} wg={role} iter={k} call=mbar_arrive mbar={bar} idx={st}{far}",
        expect="clk={t} blk={cta} wg={role} iter={k} call=mbar_arrive_expect_tx mbar={bar} idx={st} bytes={bytes}{far}",
        copy="clk={t} blk={cta} wg={role} iter={k} call=tma_load mbar={bar} idx={st} bytes={bytes}{far}",
        calls='clk={t} blk={cta} wg={role}  ~~ call="{api}" result=try ~ call="{api}" result=ok ~ call="{api}" ~ call=printf msg="{text}"',
    ),
    # German printf lines of a team that names the spin loop: it is entered and left.
    "de-warteschleife": _style(
        _who(GERMAN, plus(**GERMAN_STATES), " von Block {at}"),
        wait="Block {cta}, {role}, Durchlauf {k}: betritt Warteschleife an {bar}[{st}]{own}, Phase {ph}",
        done="Block {cta}, {role}, Durchlauf {k}: verlässt Warteschleife an {bar}[{st}]{own}, Phase {ph}",
        arrive="Block {cta}, {role}, Durchlauf {k}: arrive auf {bar}[{st}]{far}",
        expect="Block {cta}, {role}, Durchlauf {k}: arrive auf {bar}[{st}]{far}, erwartet {bytes} Bytes",
        copy="Block {cta}, {role}, Durchlauf {k}: startet TMA-Kopie für {bar}[{st}]{far}, {bytes} Bytes",
        calls="Block {cta}, {role}:  ~~ betritt {api} ~ verlässt {api} ~ Aufruf {api} ~ Text: {text}",
    ),
    # Chinese printf lines: the wait is a polling loop, printed at its start and its end.
    "zh-poll": _style(
        _who(CHINESE, plus(smem="ab", d="acc"), " (属于 cta{at})"),
        wait="cta{cta} {role} iter {k}: 开始轮询 {bar}[{st}]{own}, 相位 {ph}",
        done="cta{cta} {role} iter {k}: 轮询成功 {bar}[{st}]{own}, 相位 {ph}",
        arrive="cta{cta} {role} iter {k}: 发出 arrive 到 {bar}[{st}]{far}",
        expect="cta{cta} {role} iter {k}: 发出 arrive 到 {bar}[{st}]{far}, expect_tx {bytes} 字节",
        copy="cta{cta} {role} iter {k}: 发出 TMA 拷贝 {bytes} 字节, 通知 {bar}[{st}]{far}",
        calls="cta{cta} {role}:  ~~ 进入 {api} ~ 离开 {api} ~ 调用 {api} ~ 打印: {text}",
    ),
    # Japanese printf lines: the completion of a phase is waited for, and then confirmed.
    "ja-phase": _style(
        _who(JAPANESE, plus(smem="tile", d="acc"), "(ブロック{at}側)"),
        wait="[ブロック{cta}:{role}] k={k} {bar}[{st}]{own} のフェーズ{ph}完了を待つ",
        done="[ブロック{cta}:{role}] k={k} {bar}[{st}]{own} のフェーズ{ph}完了を確認",
        arrive="[ブロック{cta}:{role}] k={k} {bar}[{st}]{far} へ arrive を発行",
        expect="[ブロック{cta}:{role}] k={k} {bar}[{st}]{far} へ arrive を発行、{bytes} バイト受信予定",
        copy="[ブロック{cta}:{role}] k={k} {bar}[{st}]{far} へ TMA 転送 {bytes} バイトを発行",
        calls="[ブロック{cta}:{role}]  ~~ {api} の完了を待つ ~ {api} の完了を確認 ~ {api} を実行 ~ 表示: {text}",
    ),
    # Addresses as a PTX wrapper has them: it prints its operand, and the init lines say what lies there.
    "hex-init-head": _style(
        _who(HEXED, plus("bar_", smem="ab", d="acc"), " (mapa cta {at})"),
        Style({}, head=_inits, whole=_resolved(r"\[(?P<at>0x\w+)\], \d+   \((?P<name>\w+\[\d+\])\)")),
        wait="cta {cta} {role} it {k} mbarrier.test_wait.parity [<{bar}[{st}]>], {ph}{own} : busy",
        done="cta {cta} {role} it {k} mbarrier.test_wait.parity [<{bar}[{st}]>], {ph}{own} : complete",
        arrive="cta {cta} {role} it {k} mbarrier.arrive [<{bar}[{st}]>]{far}",
        expect="cta {cta} {role} it {k} mbarrier.arrive.expect_tx [<{bar}[{st}]>], {bytes}{far}",
        copy="cta {cta} {role} it {k} cp.async.bulk.tensor [<{bar}[{st}]>], {bytes} bytes{far}",
        calls="cta {cta} {role}  ~~ {api} : busy ~ {api} : complete ~ {api} ~ note: {text}",
    ),
    # wait(addr, phase) helpers: the call as it is in the source, with values; the table of addresses is printed first.
    "wait-addr": _style(
        _who(CALLED, state_first(smem="in", acc="out", d="out"), " on cta {at}"),
        Style(
            {},
            head=_layout,
            whole=_resolved(r"(?P<name>\w+\[\d+\])=(?P<at>0x\w+)"),
            sync="bar_sync({number}, {size})",
        ),
        wait="[{role}.{cta}] k={k} at wait(<{bar}[{st}]>, {ph}){own}",
        done="[{role}.{cta}] k={k} through wait(<{bar}[{st}]>, {ph}){own}",
        arrive="[{role}.{cta}] k={k} arrive(<{bar}[{st}]>){far}",
        expect="[{role}.{cta}] k={k} arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
        copy="[{role}.{cta}] k={k} tma_load_2d(<{bar}[{st}]>, {bytes}){far}",
        calls='[{role}.{cta}]  ~~ at {api} ~ through {api} ~ {api} ~ printf("{text}")',
    ),
    # cuda-gdb: the kernel's printf output, then an interrupt and a backtrace for a thread of each warp.
    "gdb-backtraces": _style(
        _who(LOOPS, plus(smem="ab", d="acc"), ", block={at}"),
        Style({}, head=_totals, whole=_debugger, sync="bar_sync (id={number}, threads={size})"),
        **_told(
            "block {cta} {role} ",
            wait="in~mbar_wait (bar=&smem.{bar}[{st}], phase={ph}{own})~k={k}: wait for {bar}[{st}] phase {ph}{own} ...",
            done="out~~k={k}: wait for {bar}[{st}] phase {ph}{own} ended",
            arrive="at~~k={k}: arrive on {bar}[{st}]{far}",
            expect="at~~k={k}: arrive on {bar}[{st}]{far}, expect {bytes} bytes",
            copy="at~~k={k}: tma_load {bytes} bytes, {bar}[{st}]{far}",
            enter="in~{api}~{api} ...",
            leave="out~~{api} ended",
            call="at~~{api}",
            note='at~~"{text}"',
        ),
    ),
    # compute-sanitizer: the tool's report comes behind what the kernel printed till the time limit.
    "synccheck-report": _style(
        _who(CHECKED, plus(smem="tile", d="acc"), " of block ({at},0,0) /  of block {at}"),
        Style({}, head=_totals, whole=_synccheck),
        **_told(
            "block ({cta},0,0) thread ({tid},0,0) {role} ",
            wait="in~mbar_wait~pauses on {bar}[{st}]{own} for phase {ph}, k {k}",
            done="out~~continues after {bar}[{st}]{own} for phase {ph}, k {k}",
            arrive="at~~arrives on {bar}[{st}]{far}, k {k}",
            expect="at~~arrives on {bar}[{st}]{far}, expects {bytes} bytes, k {k}",
            copy="at~~loads {bytes} bytes by TMA, completing on {bar}[{st}]{far}, k {k}",
            enter="in~{api}~pauses on {api}",
            leave="out~~continues after {api}",
            call="at~~calls {api}",
            note="at~~prints {text}",
        ),
    ),
    # Calls of Python pipelines, as a decorator around the methods of a pipeline object prints them.
    "py-pipeline": _style(
        _who(PIPED, mbarriers(_pipe), ", of_cta={at} / , to_ctas=[{at}]"),
        Style({}, sync="NamedBarrier(barrier_id={number}, num_threads={size}).arrive_and_wait()"),
        wait="cta {cta} {role} i={k} {bar}.consumer_wait(stage={st}, phase={ph}{own}) -- entering",
        done="cta {cta} {role} i={k} {bar}.consumer_wait(stage={st}, phase={ph}{own}) -- complete",
        wait_back="cta {cta} {role} i={k} {bar}.producer_acquire(stage={st}, phase={ph}{own}) -- entering",
        done_back="cta {cta} {role} i={k} {bar}.producer_acquire(stage={st}, phase={ph}{own}) -- complete",
        arrive="cta {cta} {role} i={k} {bar}.producer_commit(stage={st}{far})",
        arrive_back="cta {cta} {role} i={k} {bar}.consumer_release(stage={st}{far})",
        expect="cta {cta} {role} i={k} {bar}.producer_commit(stage={st}, expect_tx={bytes}{far})",
        copy="cta {cta} {role} i={k} tma_copy(pipeline={bar}, stage={st}, bytes={bytes}{far})",
        calls="cta {cta} {role}  ~~ {api} -- entering ~ {api} -- complete ~ {api} ~ print: {text}",
    ),
}
