# ruff: noqa: E501 - log lines are kept whole
"""The twenty-first exam: prints as engineers put them into hanging kernels, by an author who has not seen the reader."""

from __future__ import annotations

import random
import re
from functools import partial

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles
from benchmarks.strangers.exams.styles import WARPS, Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case
from benchmarks.strangers.machine import Op, Run, Who

_calls = partial(calls, between=" ~ ")


PLAIN = roles("load, mma, epilogue, softmax0, softmax1, main, compute, reduce, scheduler")
WARPS_OF = roles("TMA warp, MMA warp, epilogue warp, softmax warp 0, softmax warp 1, main warp, compute warp, reduce warp, scheduler warp")  # fmt: skip
PRODUCERS = roles("producer, mma, epilogue, softmax0, softmax1, consumer, consumer, reducer, scheduler")
CAPITALS = roles("LOAD, MMA, EPI, SFTMX0, SFTMX1, MATH, MATH, REDUCE, SCHED")
SHORT = roles("ld, mma, st, sm0, sm1, math, math, red, sched")
OWNERS = roles("loader, tensor, writer, softmax_top, softmax_bottom, math, math, reducer, tile_picker")
JSON = roles("tma_load, mma, epilogue, softmax0, softmax1, mainloop, compute, reduce, tile_scheduler")
LOGFMT = roles("dma, mma, epilogue, softmax-0, softmax-1, math, math, dq-reduce, sched")
GERMAN = roles("Ladewarp, MMA-Warp, Epilogwarp, Softmaxwarp 0, Softmaxwarp 1, Rechenwarp, Gradientenwarp, Summierwarp, Verteilerwarp")  # fmt: skip
CHINESE = roles("加载, 矩阵乘, 写回, softmax上半, softmax下半, 主循环, 计算, 规约, 调度", "{}warp")
VIETNAMESE = roles("nạp, nhân ma trận, ghi ra, softmax trên, softmax dưới, tính chính, tính chính, cộng dồn, điều phối")  # fmt: skip
HEXES = roles("load, mma, epi, smax0, smax1, main, math, red, clc")
CALLERS = roles("tma_producer, umma, epilogue, softmax_wg0, softmax_wg1, math_wg, math_wg, reduce_wg, sched")
FRAMES = roles("load, mma, epilogue, softmax0, softmax1, main, compute, reduce, sched", "{}_loop")
CHECKED = roles("loader, issuer, epilogue, softmax0, softmax1, mainloop, math, reducer, scheduler")
CUTE = roles("load, mma, epilogue, softmax0, softmax1, main, compute, reduce, sched", "{}_warp")


# --- barriers by their address, with the legend that the kernel prints first


def _inits(case: Case, style: Style) -> list[str]:
    """The line that thread 0 of each CTA prints at each mbarrier.init."""
    rows = []
    for cta in range(ctas(case)):
        at = 0x32C00
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"cta{cta} thread0: init {style.bar(name)}[{stage}] at {at:#x}, count {count}")
                at += 8
    return rows


def _table(case: Case, style: Style) -> list[str]:
    """What thread 0 of the first CTA prints about the barriers: the address of each stage."""
    rows, at = ["barriers in shared memory (the same offsets in each cta):"], 0x180
    for name, (stages, _) in barriers(case).items():
        rows += [f"  addr {at + 8 * stage:#06x} is {style.bar(name)}[{stage}]" for stage in range(stages)]
        at += 8 * stages
    return rows


def _addressed(legend: str, lines: list[str]) -> list[str]:
    """<name[stage]> becomes the address that the legend gives."""
    found = [match for line in lines if (match := re.search(legend, line))]
    at = {f"<{match['name']}>": match["at"] for match in found}
    return [re.sub(r"<\w+\[\d+\]>", lambda match: at[match[0]], line) for line in lines]


def _pipe(name: str) -> str:
    """The pipeline of a barrier: acc_full and acc_empty as acc_pipe."""
    return re.sub(r"_(full|empty|free|ready|done|read)$", "", name) + "_pipe"


# --- tools that print behind the events: a debugger, and compute-sanitizer


class _Session(Style):
    """A session of cuda-gdb: the output of the kernel, then where each warp that is still alive stands."""

    def text(self, case: Case, run: Run, rng: random.Random) -> str:
        """The printed events, then a backtrace of each warp that has not exited."""
        output = super().text(case, run, rng)
        found = ["(cuda-gdb) run"]
        if not run.blocked:
            return "\n".join([*found, output + "[Inferior 1 (process 40117) exited normally]", ""])
        found += [output.rstrip("\n"), "^C", 'Thread 1 "gemm_test" received signal SIGINT, Interrupt.']
        # CTAs that contend for Tensor Memory are on the same SM.
        apart = all(op.kind != "alloc" for program in case.kernel.programs.values() for op in program)
        for who, op in sorted(run.blocked.items(), key=lambda item: (item[0][1], WARPS[item[0][0]])):
            found += self.stands(who, op, who[1] if apart else 0)
        return "\n".join(found) + "\n"

    def stands(self, who: Who, op: Op, sm: int) -> list[str]:
        """The focus and the backtrace of a warp."""
        role, cta = who
        frames = [f"{self.role(role)} () at kernel.cu:{200 + 20 * WARPS[role]}", "kernel_main () at kernel.cu:64"]  # fmt: skip
        if op.kind in ("wait", "silent"):
            where = f"bar={self.bar(op.bar)}, stage={op.stage}, rank={op.owner}, parity={op.parity}"
            frames.insert(0, f"mbar_wait ({where}) at mbar.cuh:31")
        elif op.kind != "stop":
            frames.insert(0, re.sub(r"^\w+$", r"\g<0> ()", self.api(op)) + " at sync.cuh:18")
        thread = 32 * WARPS[role]
        return [
            f"(cuda-gdb) cuda block {cta} thread {thread}",
            f"[Switching focus to CUDA kernel 0, grid 1, block ({cta},0,0), thread ({thread},0,0), device 0, sm {sm}, warp {WARPS[role]}, lane 0]",
            "(cuda-gdb) bt",
            *(f"#{at}  {frame}" for at, frame in enumerate(frames)),
        ]


class _Synccheck(Style):
    """The output of the kernel under compute-sanitizer, then the report of synccheck."""

    def text(self, case: Case, run: Run, rng: random.Random) -> str:
        """The printed events, then an error for each thread at a barrier that an exited role has not reached."""
        found, errors = ["========= COMPUTE-SANITIZER", super().text(case, run, rng).rstrip("\n")], 0
        for (role, cta), op in sorted(run.blocked.items()):
            roles_of = [item for item in case.kernel.programs.items() if item[0][1] == cta]
            able = sum(who in run.blocked or any(at.bar == op.bar for at in ops) for who, ops in roles_of)
            if op.kind == "sync" and able < case.kernel.syncs[op.bar]:
                errors += 1
                found += [
                    "========= Barrier error detected. Divergent thread(s) in block",
                    f"=========     at {self.role(role)}()+0x{0x410 + 0x70 * WARPS[role]:x} in kernel.cu:{90 + 10 * WARPS[role]}",
                    f"=========     by thread ({32 * WARPS[role]},0,0) in block ({cta},0,0)",
                    "=========",
                ]
        if run.blocked:
            found.append("========= Error: process didn't terminate successfully")
        return "\n".join([*found, f"========= ERROR SUMMARY: {errors} error{'s' * (errors != 1)}"]) + "\n"


STYLES: dict[str, Style] = {
    # A student's or an engineer's first printf, before and behind each call, by thread 0 of a warp.
    "stopping-past": Style(
        {
            "wait": "(blk {cta}, tid {tid}) {role}: stopping at {bar}[{st}]{own}, phase {ph}, k = {k}",
            "done": "(blk {cta}, tid {tid}) {role}: made it past {bar}[{st}]{own}, phase {ph}, k = {k}",
            "arrive": "(blk {cta}, tid {tid}) {role}: arriving on {bar}[{st}]{far}, k = {k}",
            "expect": "(blk {cta}, tid {tid}) {role}: arriving on {bar}[{st}]{far} and expecting {bytes} bytes, k = {k}",
            "copy": "(blk {cta}, tid {tid}) {role}: starting TMA load of {bytes} bytes for {bar}[{st}]{far}, k = {k}",
            **_calls("(blk {cta}, tid {tid}) {role}: ", "stopping at {api} ~ past {api} ~ {api} ~ {text}"),
        },
        roles=PLAIN,
        bar=plus(smem="ab", d="acc"),
        own=" of blk {owner}",
        to=" of blk {to}",
        aka=forms(PLAIN, epi="epi", sched="sched"),
    ),
    # An author of a GEMM who timestamps with clock64 and names phases as PTX does ("waits for completion of the phase").
    "poll-complete": Style(
        {
            "wait": "[{t:>6}] {role}, cta {cta}, iter {k}: polls {bar}[{st}]{own} until phase {ph} completes",
            "done": "[{t:>6}] {role}, cta {cta}, iter {k}: stops polling {bar}[{st}]{own}, phase {ph} is complete",
            "arrive": "[{t:>6}] {role}, cta {cta}, iter {k}: mbarrier.arrive to {bar}[{st}]{far}",
            "expect": "[{t:>6}] {role}, cta {cta}, iter {k}: mbarrier.arrive.expect_tx to {bar}[{st}]{far}, {bytes} bytes",
            "copy": "[{t:>6}] {role}, cta {cta}, iter {k}: cp.async.bulk into {bar}[{st}]{far}, {bytes} bytes",
            **_calls("[{t:>6}] {role}, cta {cta}: ", "blocks in {api} ~ leaves {api} ~ {api} ~ text: {text}"),
        },
        roles=WARPS_OF,
        bar=plus("", "_mbar", smem="tile", d="tmem", acc="tmem"),
        own=" in cta {owner}",
        to=" in cta {to}",
        aka=forms(WARPS_OF, " warp", softmax0="softmax0, softmax 0", softmax1="softmax1, softmax 1"),
    ),
    # A macro pair TRACE_ENTER/TRACE_LEAVE inside of the wait function and a print in arrive(): copies and texts are not traced.
    "enter-leave": Style(
        {
            "wait": "ENTER wait {bar}[{st}]{own} ph {ph} | {role} cta {cta} k {k}",
            "done": "LEAVE wait {bar}[{st}]{own} ph {ph} | {role} cta {cta} k {k}",
            "arrive": "ARRIVE     {bar}[{st}]{far} | {role} cta {cta} k {k}",
            "expect": "ARRIVE     {bar}[{st}]{far} | {role} cta {cta} k {k}",
            "enter": "ENTER {api} | {role} cta {cta}",
            "leave": "LEAVE {api} | {role} cta {cta}",
            "call": "CALL  {api} | {role} cta {cta}",
        },
        roles=CAPITALS,
        bar=plus("bar_", smem="stage"),
        own="@cta{owner}",
        to="@cta{to}",
        shows=("phase", "stage", "to"),
        aka=forms(CAPITALS, softmax0="softmax0", softmax1="softmax1"),
    ),
    # An engineer who suspects the TMA bytes and so prints them at the barrier: announced, then landed.
    "bytes-landed": Style(
        {
            "wait": "cta{cta} w{warp} {role} k={k} | {bar}[{st}]{own}: hold for parity {ph}",
            "done": "cta{cta} w{warp} {role} k={k} | {bar}[{st}]{own}: go with parity {ph}",
            "arrive": "cta{cta} w{warp} {role} k={k} | {bar}[{st}]{far}: arrive, no bytes",
            "expect": "cta{cta} w{warp} {role} k={k} | {bar}[{st}]{far}: arrive, expect_tx += {bytes} bytes",
            "copy": "cta{cta} w{warp} {role} k={k} | {bar}[{st}]{far}: {bytes} bytes landed",
            **_calls("cta{cta} w{warp} {role} | ", "{api}: hold ~ {api}: go ~ {api} ~ text: {text}"),
        },
        roles=PRODUCERS,
        bar=plus("mbar_", smem="sA_sB", d="tmem"),
        own=" on cta{owner}",
        to=" on cta{to}",
        aka=forms(PRODUCERS, "r$", epi="epi"),
    ),
    # A kernel of many CTAs: short lines, so that the device's printf buffer does not overflow.
    "needs-sees": Style(
        {
            "wait": "b{cta} {role:<5} i{k} needs {bar}.{st}{own} ph{ph}",
            "done": "b{cta} {role:<5} i{k} sees  {bar}.{st}{own} ph{ph}",
            "arrive": "b{cta} {role:<5} i{k} arrives {bar}.{st}{far}",
            "expect": "b{cta} {role:<5} i{k} arrives {bar}.{st}{far} tx {bytes}",
            "copy": "b{cta} {role:<5} i{k} loads {bar}.{st}{far} bytes {bytes}",
            **_calls("b{cta} {role:<5} ", "needs {api} ~ sees  {api} ~ does {api} ~ {text}"),
        },
        roles=SHORT,
        bar=mbarriers(lambda name: camel(replaced({"smem": "ab", "d": "acc"})(name))),
        own="@b{owner}",
        to="@b{to}",
        head=lambda case, style: ["# needs/sees: before/behind a wait; @b: the block whose barrier it is"],
        aka=forms(SHORT, load="load", epi="store, epi", softmax0="softmax0", softmax1="softmax1"),
    ),
    # A writer of a persistent kernel who thinks of buffers that roles own and hand over.
    "acquire-handover": Style(
        {
            "wait": "{role} (block {cta}, warp {warp}) round {k}: acquiring {bar}[{st}]{own}, phase {ph} ...",
            "done": "{role} (block {cta}, warp {warp}) round {k}: now holds {bar}[{st}]{own}, phase {ph}",
            "arrive": "{role} (block {cta}, warp {warp}) round {k}: signalled {bar}[{st}]{far}",
            "expect": "{role} (block {cta}, warp {warp}) round {k}: signalled {bar}[{st}]{far}, {bytes} bytes to come",
            "copy": "{role} (block {cta}, warp {warp}) round {k}: TMA sends {bytes} bytes to {bar}[{st}]{far}",
            **_calls(
                "{role} (block {cta}, warp {warp}): ",
                "waiting in {api} ~ out of {api} ~ calls {api} ~ {text}",
            ),
        },
        roles=OWNERS,
        bar=plus("", "_barrier", smem="operands", d="result", acc="result"),
        own=" of block {owner}",
        to=" of block {to}",
        aka=forms(OWNERS, softmax0="softmaxtop", softmax1="softmaxbottom", sched="picker"),
    ),
    # A host thread drains a ring buffer of trace records to JSON lines: each record is a try_wait with its result.
    "jsonl-result": Style(
        {
            "wait": '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":"try_wait","mbarrier":"{bar}","stage":{st}{own},"parity":{ph},"iter":{k},"result":"not yet"}}',
            "done": '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":"try_wait","mbarrier":"{bar}","stage":{st}{own},"parity":{ph},"iter":{k},"result":"complete"}}',
            "arrive": '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":"arrive","mbarrier":"{bar}","stage":{st}{far},"iter":{k}}}',
            "expect": '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":"arrive_expect_tx","mbarrier":"{bar}","stage":{st}{far},"iter":{k},"tx_bytes":{bytes}}}',
            "copy": '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":"tma_load","mbarrier":"{bar}","stage":{st}{far},"iter":{k},"bytes":{bytes}}}',
            **_calls(
                '{{"clk":{t},"loc":{{"cta":{cta},"role":"{role}"}},"call":',
                '"{api}","result":"not yet"}} ~ "{api}","result":"complete"}} ~ "{api}"}} ~ "printf","text":"{text}"}}',
            ),
        },
        roles=JSON,
        bar=plus(smem="ab", d="acc"),
        own=',"mbarrier_cta":{owner}',
        to=',"mbarrier_cta":[{to}]',
        aka=forms(JSON, load="load", sched="scheduler"),
    ),
    # A logging header with key=value pairs, so that the log can be filtered with grep and awk.
    "logfmt-pre-post": Style(
        {
            "wait": "t={t} block={cta} warp={warp} role={role} k={k} fn=mbar_wait at=pre bar={bar} stage={st} phase={ph}{own}",
            "done": "t={t} block={cta} warp={warp} role={role} k={k} fn=mbar_wait at=post bar={bar} stage={st} phase={ph}{own}",
            "arrive": "t={t} block={cta} warp={warp} role={role} k={k} fn=mbar_arrive bar={bar} stage={st}{far}",
            "expect": "t={t} block={cta} warp={warp} role={role} k={k} fn=mbar_arrive_expect_tx bar={bar} stage={st} tx_bytes={bytes}{far}",
            "copy": "t={t} block={cta} warp={warp} role={role} k={k} fn=tma_load bar={bar} stage={st} bytes={bytes}{far}",
            **_calls(
                "t={t} block={cta} warp={warp} role={role} ",
                'fn="{api}" at=pre ~ fn="{api}" at=post ~ fn="{api}" ~ fn=printf msg="{text}"',
            ),
        },
        roles=LOGFMT,
        bar=plus(smem="smem_ab", acc="tmem", d="tmem"),
        own=" bar_block={owner}",
        to=" bar_block={to}",
        aka=forms(LOGFMT, "-reduce", softmax0="softmax0", softmax1="softmax1", load="load"),
    ),
    # A German engineer's printf: the wait as a span with a beginning and an end.
    "de-beginnt-endet": Style(
        {
            "wait": "[Block {cta}, {role}, Runde {k}] Warten beginnt: {bar}[{st}]{own}, Phase {ph}",
            "done": "[Block {cta}, {role}, Runde {k}] Warten endet: {bar}[{st}]{own}, Phase {ph}",
            "arrive": "[Block {cta}, {role}, Runde {k}] Ankunft: {bar}[{st}]{far}",
            "expect": "[Block {cta}, {role}, Runde {k}] Ankunft: {bar}[{st}]{far}, {bytes} Bytes erwartet",
            "copy": "[Block {cta}, {role}, Runde {k}] TMA-Kopie: {bar}[{st}]{far}, {bytes} Bytes geladen",
            **_calls(
                "[Block {cta}, {role}] ", "Warten beginnt: {api} ~ Warten endet: {api} ~ {api} ~ Text: {text}"
            ),
        },
        roles=GERMAN,
        bar=plus(full="voll", empty="leer", free="frei", ready="bereit", done="fertig", read="gelesen"),
        own=" in Block {owner}",
        to=" in Block {to}",
        aka=forms(GERMAN, "-?[Ww]arp", softmax0="softmax 0, softmax0", softmax1="softmax 1, softmax1"),
    ),
    # A Chinese engineer's printf, the English terms (barrier names, phase, TMA) kept, as in code reviews.
    "zh-ready-wait": Style(
        {
            "wait": "cta{cta} {role} iter{k}: 准备等待 {bar}[{st}]{own}, phase={ph}",
            "done": "cta{cta} {role} iter{k}: 等待结束 {bar}[{st}]{own}, phase={ph}",
            "arrive": "cta{cta} {role} iter{k}: 发出 arrive {bar}[{st}]{far}",
            "expect": "cta{cta} {role} iter{k}: 发出 arrive {bar}[{st}]{far}, 预期 {bytes} 字节",
            "copy": "cta{cta} {role} iter{k}: TMA 写入 {bytes} 字节, 通知 {bar}[{st}]{far}",
            **_calls("cta{cta} {role}: ", "准备等待 {api} ~ 等待结束 {api} ~ 调用 {api} ~ 输出: {text}"),
        },
        roles=CHINESE,
        bar=plus(smem="ab", d="acc"),
        own=" (位于cta{owner})",
        to=" (位于cta{to})",
        aka=forms(CHINESE, "warp"),
    ),
    # A Vietnamese engineer's printf: role names in Vietnamese, barrier names as in the source.
    "vi-cho": Style(
        {
            "wait": "khối {cta}, {role}, vòng {k}: bắt đầu chờ {bar}[{st}]{own}, pha {ph}",
            "done": "khối {cta}, {role}, vòng {k}: đã chờ xong {bar}[{st}]{own}, pha {ph}",
            "arrive": "khối {cta}, {role}, vòng {k}: báo đến {bar}[{st}]{far}",
            "expect": "khối {cta}, {role}, vòng {k}: báo đến {bar}[{st}]{far}, sẽ nhận {bytes} byte",
            "copy": "khối {cta}, {role}, vòng {k}: TMA chép {bytes} byte, báo cho {bar}[{st}]{far}",
            **_calls(
                "khối {cta}, {role}: ", "bắt đầu chờ {api} ~ đã chờ xong {api} ~ gọi {api} ~ in ra: {text}"
            ),
        },
        roles=VIETNAMESE,
        bar=plus(smem="ab", d="acc"),
        own=" của khối {owner}",
        to=" của khối {to}",
    ),
    # A wait function that only has the 32-bit shared address, and a print at each mbarrier.init that names it.
    "hex-init": Style(
        {
            "wait": "cta{cta} {role:<5} k={k} bar <{bar}[{st}]>{own} spin on phase {ph}",
            "done": "cta{cta} {role:<5} k={k} bar <{bar}[{st}]>{own} done with phase {ph}",
            "arrive": "cta{cta} {role:<5} k={k} bar <{bar}[{st}]>{far} arrive",
            "expect": "cta{cta} {role:<5} k={k} bar <{bar}[{st}]>{far} arrive and expect {bytes} bytes",
            "copy": "cta{cta} {role:<5} k={k} bar <{bar}[{st}]>{far} tma load of {bytes} bytes",
            **_calls("cta{cta} {role:<5} ", "{api} spin ~ {api} done ~ {api} ~ says {text}"),
        },
        roles=HEXES,
        bar=plus(smem="ab", d="acc"),
        own=" of cta{owner}",
        to=" of cta{to}",
        head=_inits,
        whole=partial(_addressed, r"init (?P<name>\S+) at (?P<at>0x\w+)"),
        aka=forms(HEXES, softmax0="softmax0", softmax1="softmax1", reduce="reduce", sched="sched"),
    ),
    # A print around the call in a wrapper of wait(addr, phase): the call itself, then whether it is in or out.
    "call-in-out": Style(
        {
            "wait": "block {cta} {role} it={k} in:  wait(<{bar}[{st}]>, {ph}){own}",
            "done": "block {cta} {role} it={k} out: wait(<{bar}[{st}]>, {ph}){own}",
            "arrive": "block {cta} {role} it={k} arrive(<{bar}[{st}]>){far}",
            "expect": "block {cta} {role} it={k} arrive_expect_tx(<{bar}[{st}]>, {bytes}){far}",
            "copy": "block {cta} {role} it={k} tma_load_2d(<{bar}[{st}]>, {bytes}){far}",
            **_calls("block {cta} {role} ", 'in:  {api} ~ out: {api} ~ {api} ~ printf("{text}")'),
        },
        roles=CALLERS,
        bar=plus(smem="tiles", acc="tmem", d="tmem"),
        own=" in block {owner}",
        to=" in block {to}",
        head=_table,
        whole=partial(_addressed, r"addr (?P<at>0x\w+) is (?P<name>\S+)"),
        aka=forms(CALLERS, "_wg", load="producer", softmax0="softmax0", softmax1="softmax1"),
        sync="bar_sync({number}, {size})",
    ),
    # A session of cuda-gdb: the kernel's printf output, Ctrl-C, then the focus and backtrace of each live warp.
    "gdb-focus": _Session(
        {
            "wait": "block {cta} warp {warp} {role}: k {k}, entering mbar_wait on {bar}[{st}]{own}, parity {ph}",
            "done": "block {cta} warp {warp} {role}: k {k}, exiting mbar_wait on {bar}[{st}]{own}, parity {ph}",
            "arrive": "block {cta} warp {warp} {role}: k {k}, mbar_arrive on {bar}[{st}]{far}",
            "expect": "block {cta} warp {warp} {role}: k {k}, mbar_arrive_expect_tx on {bar}[{st}]{far}, {bytes} bytes",
            "copy": "block {cta} warp {warp} {role}: k {k}, tma_load on {bar}[{st}]{far}, {bytes} bytes",
            **_calls(
                "block {cta} warp {warp} {role}: ", "entering {api} ~ exiting {api} ~ {api} ~ printf {text}"
            ),
        },
        roles=FRAMES,
        bar=plus(smem="ab", d="acc"),
        own=" of rank {owner}",
        to=" of rank {to}",
        aka=lambda role: (f"warp {WARPS[role]}", *forms(FRAMES, "_loop", epi="epi")(role)),
        sync="bar_sync (id={number}, threads={size})",
    ),
    # compute-sanitizer --tool synccheck on a kernel with printf: its report follows the kernel's output.
    "synccheck-tail": _Synccheck(
        {
            "wait": "block ({cta},0,0) thread ({tid},0,0) {role}: iteration {k}, start wait {bar}[{st}]{own} phase {ph}",
            "done": "block ({cta},0,0) thread ({tid},0,0) {role}: iteration {k}, wait finished {bar}[{st}]{own} phase {ph}",
            "arrive": "block ({cta},0,0) thread ({tid},0,0) {role}: iteration {k}, arrival at {bar}[{st}]{far}",
            "expect": "block ({cta},0,0) thread ({tid},0,0) {role}: iteration {k}, arrival at {bar}[{st}]{far} with {bytes} expected bytes",
            "copy": "block ({cta},0,0) thread ({tid},0,0) {role}: iteration {k}, bulk copy of {bytes} bytes to {bar}[{st}]{far}",
            **_calls(
                "block ({cta},0,0) thread ({tid},0,0) {role}: ",
                "start {api} ~ end {api} ~ call {api} ~ {text}",
            ),
        },
        roles=CHECKED,
        bar=plus("", "_bar", smem="ab", d="acc"),
        own=" in block {owner}",
        to=" in block {to}",
        aka=forms(CHECKED, "er$", softmax0="softmax 0", softmax1="softmax 1"),
    ),
    # The CuTe DSL: a print before and behind each call of a pipeline object, in the words of its methods.
    "cute-pipe": Style(
        {
            "wait": "[{role} cta={cta} k={k}] try  {bar}.consumer_wait(stage={st}, phase={ph}){own}",
            "done": "[{role} cta={cta} k={k}] pass {bar}.consumer_wait(stage={st}, phase={ph}){own}",
            "wait back": "[{role} cta={cta} k={k}] try  {bar}.producer_acquire(stage={st}, phase={ph}){own}",
            "done back": "[{role} cta={cta} k={k}] pass {bar}.producer_acquire(stage={st}, phase={ph}){own}",
            "arrive": "[{role} cta={cta} k={k}] call {bar}.producer_commit(stage={st}){far}",
            "arrive back": "[{role} cta={cta} k={k}] call {bar}.consumer_release(stage={st}){far}",
            "expect": "[{role} cta={cta} k={k}] call {bar}.producer_arrive_and_expect_tx(stage={st}, bytes={bytes}){far}",
            "copy": "[{role} cta={cta} k={k}] call cute.copy(tma_atom, {bar}.producer_get_barrier(stage={st}), bytes={bytes}){far}",
            **_calls("[{role} cta={cta}] ", 'try  {api} ~ pass {api} ~ call {api} ~ print("{text}")'),
        },
        roles=CUTE,
        bar=mbarriers(_pipe),
        own=" on cta {owner}",
        to=" on cta {to}",
        aka=forms(CUTE, "_warp", epi="epi"),
        sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})",
    ),
}
