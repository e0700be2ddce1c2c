# ruff: noqa: E501 - log lines are kept whole
"""The twelfth exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from benchmarks.strangers.exams.names import calls, forms, mbarriers, plus, roles, state_first, used
from benchmarks.strangers.exams.styles import WARPS, Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

_calls = partial(calls, between=" ~ ")


FLASH = roles("load, mma, epilogue, softmax0, softmax1, correction, compute, dq_reduce, tile_scheduler")
WANTS = roles("producer, mma_issuer, cd_store, softmax_a, softmax_b, math, math, reducer, tile_sched")
TILELANG = roles("producer, tcgen, store, softmax0, softmax1, consumer, gradient, dq_add, scheduler")
WARPED = roles("load warp, mma warp, store wg, softmax wg A, softmax wg B, math wg, math wg, dQ wg, tile warp")  # fmt: skip
STUDENT = roles("load, mma, epilogue, sm0, sm1, consumer, math, reduce, sched", "{} warp")
KLOG = roles("Loader, MmaIssuer, Epilogue, SoftmaxA, SoftmaxB, Accumulator, GradMath, DqReducer, TileSched")
UMMA = roles("tma_load, umma, tma_store, softmax_lo, softmax_hi, math, math, dq_reduce, clc")
UPPER = roles("LOAD, MMA, EPI, SOFTMAX_0, SOFTMAX_1, MAIN, GRAD, REDUCE, SCHED")
GROUPS = roles("ld, mma, out, smx0, smx1, acc, dsm, dqr, sched", "{}_wg")
GERMAN = roles("Lader, MMA-Starter, Epilog, Softmax-A, Softmax-B, Rechner, Rechner, Reduzierer, Planer")
CHINESE = roles("搬运, MMA, 收尾, softmax0, softmax1, 累加, 求导, 归并, 派发", "{}线程束")
CODES = roles("LDR, TC, EPI, SM0, SM1, ACC, DSM, DQR, SCH")
MEANINGS = roles("loader, tensor core issue, epilogue, softmax 0, softmax 1, math, dS math, dQ reduce, scheduler")  # fmt: skip
PLANNED = roles("producer, issuer, drain, smax0, smax1, consumer, consumer, reducer, planner")
STORERS = roles("loader, launcher, storer, softmax-0, softmax-1, consumer, grad, dq-adder, tile-fetch")
CUTLASS = roles("TmaLoad, Mma, Epilogue, Softmax0, Softmax1, Mainloop, Compute, Reduce, Sched")
LOOPS = roles("load_tiles, issue_mma, store_tiles, softmax_lo, softmax_hi, accum, ds_math, reduce_dq, get_tiles")  # fmt: skip
SCORES = {"scores0": "S0_full", "scores1": "S1_full", "probs0": "P0_full", "probs1": "P1_full"}
STATES = {
    "full": "belegt", "empty": "geleert", "free": "geleert", "ready": "bereit", "done": "erledigt", "read": "gelesen",
}  # fmt: skip


# --- addresses of mbarriers, and legends that name them


def _strides(case: Case, style: Style) -> list[str]:
    """A row for each array, with its first address, and what the names of the warps mean."""
    names = used(case, style).items()
    rows = [
        "line: cta/warp/iter mbarrier[@cta] what (poll: the first poll of a wait, saw: the wait is over)",
        "warp: " + ", ".join(f"{name} = {MEANINGS[role]}" for name, role in names),
        "mbarrier (smem offsets, s: the stage):",
    ]
    at = 0x400
    for name, (stages, _) in barriers(case).items():
        first, more = f"{at:#06x}", f" + 8*s, s = 0..{stages - 1}" if stages > 1 else ""
        rows.append(f"  {style.bar(name)} = {first}{more}")
        at += 8 * stages
    return rows


def _inits(case: Case, style: Style) -> list[str]:
    """A row for each mbarrier of each CTA, with its count."""
    rows = ["---- mbarriers, as mbarrier.init set them up ----"]
    for cta in range(1 + max(cta for _, cta in case.kernel.programs)):
        at = 0x28C00
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"cta{cta}  {at:#x}  {style.bar(name)}[{stage}]  count {count}")
                at += 8
    return rows


def _lists(case: Case, style: Style) -> list[str]:
    """A row for each array, with all its addresses."""
    rows, at = [], 0x1E000
    for name, (stages, _) in barriers(case).items():
        rows.append(f"// {style.bar(name)}: " + ", ".join(f"{at + 8 * each:#x}" for each in range(stages)))
        at += 8 * stages
    return ["// mbarriers (every CTA has them at these addresses, by stage)", *rows]


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address; `legend` finds the first address and the name of an array."""

    def whole(lines: list[str]) -> list[str]:
        matches = [found for line in lines if (found := re.search(legend, line))]
        base = {found["name"]: found["at"] for found in matches}

        def address(found: re.Match[str]) -> str:
            first = base[found[1]]
            return f"{int(first, 16) + 8 * int(found[2]):#0{len(first)}x}"

        return [re.sub(r"<(\w+)\[(\d+)\]>", address, line) for line in lines]

    return whole


def _legend_last(lines: list[str]) -> list[str]:
    """The legend of addresses behind the events."""
    lines = _resolved(r"(?P<at>0x\w+)  (?P<name>\w+)\[0\]  count")(lines)
    legend = [line for line in lines if line.startswith("----") or re.match(r"cta\d+  0x", line)]
    return [line for line in lines if line not in legend] + legend


# --- other forms of a log as a whole


def _masks(lines: list[str]) -> list[str]:
    """<0,1> as the mask 0x3."""

    def mask(found: re.Match[str]) -> str:
        return hex(sum(1 << int(cta) for cta in found[1].split(",")))

    return [re.sub(r"<([\d,]+)>", mask, line) for line in lines]


def _warps(lines: list[str]) -> list[str]:
    """A list of warps in a debugger: the frames of each, and its calls that are over, the oldest first."""
    calls: dict[tuple[int, int, str], list[str]] = {}
    inside: dict[tuple[int, int, str], tuple[str, str]] = {}
    for line in lines:
        cta, warp, function, clock, edge, call = line.split("~", 5)
        who = int(cta), int(warp), function
        done = calls.setdefault(who, [])
        if edge == "in":
            inside[who] = clock, call
        elif edge == "out":
            done.append(f"{inside.pop(who)[0]:>6}..{clock:<6}  {call}")
        else:
            done.append(f"{clock:>6}          {call}")
    found = ["(cuda-gdb) source ws_history.py", "(cuda-gdb) ws-history"]
    for who, done in sorted(calls.items()):
        clock, call = inside.get(who, ("", ""))
        found.append(f"block ({who[0]},0,0), warp {who[1]}:")
        if call:
            found += [f"  #0  {call}", f"  #1  {who[2]} ()", f"  in #0 since clock {clock}"]
        else:
            found += [f"  #0  {who[2]} ()", "  in no call of a barrier"]
        found += [f"  returned calls, oldest first, clocks of begin..end ({len(done)}):"]
        found += [f"    {each}" for each in done]
    return found


STYLES: dict[str, Style] = {
    # Lines of events.
    "fa-tic": Style(
        {
            "wait": "bidx={cta} {role} n={k} tic wait {bar}[{st}]{own} phase={ph}",
            "done": "bidx={cta} {role} n={k} toc wait {bar}[{st}]{own} phase={ph}",
            "arrive": "bidx={cta} {role} n={k} mbarrier_arrive {bar}[{st}]{far}",
            "expect": "bidx={cta} {role} n={k} mbarrier_arrive_and_expect_tx {bar}[{st}]{far} nbytes={bytes}",
            "copy": "bidx={cta} {role} n={k} tma_copy {bar}[{st}]{far} nbytes={bytes}",
            **_calls("bidx={cta} {role} ", "tic {api} ~ toc {api} ~ {api} ~ # {text}"),
        },
        roles=FLASH,
        bar=plus("mbar_", smem="AB", d="acc", **SCORES),
        own=" at bidx={owner}",
        to=" at bidx={to}",
        head=lambda case, style: ["# n: loop index; tic before a blocking call, toc after it"],
        aka=forms(FLASH, reduce="reduce", sched="scheduler"),
        sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})",
    ),
    "want-have": Style(
        {
            "wait": "WANT {bar}[{st}]{own} par {ph} <{role} cta{cta} it{k}>",
            "done": "HAVE {bar}[{st}]{own} par {ph} <{role} cta{cta} it{k}>",
            "arrive": "GIVE {bar}[{st}]{far} <{role} cta{cta} it{k}>",
            "expect": "GIVE {bar}[{st}]{far} expect_tx {bytes} <{role} cta{cta} it{k}>",
            "copy": "LOAD {bar}[{st}]{far} bytes {bytes} <{role} cta{cta} it{k}>",
            "enter": "WANT {api} <{role} cta{cta}>",
            "leave": "HAVE {api} <{role} cta{cta}>",
            "call": "CALL {api} <{role} cta{cta}>",
            "note": 'TEXT "{text}" <{role} cta{cta}>',
        },
        roles=WANTS,
        bar=state_first("", "_barriers", smem="ab", acc="tmem", d="tmem"),
        own=" on cta{owner}",
        to=" on cta{to}",
        head=lambda case, style: ["# WANT/HAVE: before/after a wait, GIVE: arrive, LOAD: TMA load"],
        aka=forms(WANTS, mma="mma, issuer", epi="store", sched="sched"),
        sync="NamedBarrier({size}, {number}).sync()",
    ),
    "tl-halt": Style(
        {
            "wait": "[bx {cta}][{role}][ko {k}] halt: {bar}[{st}]{own}, parity {ph}",
            "done": "[bx {cta}][{role}][ko {k}] go on: {bar}[{st}]{own}, parity {ph}",
            "arrive": "[bx {cta}][{role}][ko {k}] mbarrier_arrive: {bar}[{st}]{far}",
            "expect": "[bx {cta}][{role}][ko {k}] mbarrier_arrive_expect_tx: {bar}[{st}]{far}, {bytes} bytes",
            "copy": "[bx {cta}][{role}][ko {k}] tma_load: {bar}[{st}]{far}, {bytes} bytes",
            **_calls("[bx {cta}][{role}] ", "halt: {api} ~ go on: {api} ~ {api} ~ print: {text}"),
        },
        roles=TILELANG,
        bar=plus(smem="ab_shared", acc="c_local", d="c_local", work="tile"),
        own=" of bx {owner}",
        to=" of bx {to}",
        aka=forms(TILELANG, mma="mma"),
        sync="tl::sync_thread_partial<{number}, {size}>()",
    ),
    "asks-gets": Style(
        {
            "wait": "{t:>6} {bar}, entry {st}{own}: {role} of block {cta} asks for phase {ph}, step {k}",
            "done": "{t:>6} {bar}, entry {st}{own}: {role} of block {cta} gets phase {ph}, step {k}",
            "arrive": "{t:>6} {bar}, entry {st}{far}: {role} of block {cta} arrives, step {k}",
            "expect": "{t:>6} {bar}, entry {st}{far}: {role} of block {cta} arrives and announces {bytes} bytes, step {k}",
            "copy": "{t:>6} {bar}, entry {st}{far}: {role} of block {cta} sends a TMA load of {bytes} bytes, step {k}",
            **_calls(
                "{t:>6} ",
                "{api}: {role} of block {cta} goes in ~ {api}: {role} of block {cta} comes out ~ {api}: {role} of block {cta} ~ message: {role} of block {cta}: {text}",
            ),
        },
        roles=WARPED,
        bar=plus("", "_ring", smem="operand", acc="accum", d="accum"),
        own=" in block {owner}",
        to=" in block {to}",
        aka=forms(WARPED, " (warp|wg)", softmax0="softmaxa", softmax1="softmaxb"),
    ),
    "student-ok": Style(
        {
            "wait": ">>> [{cta}] {role} i={k} waiting for {bar} #{st}{own} (ph {ph}) ...",
            "done": ">>> [{cta}] {role} i={k} OK got {bar} #{st}{own} (ph {ph})",
            "arrive": ">>> [{cta}] {role} i={k} arrive on {bar} #{st}{far}",
            "expect": ">>> [{cta}] {role} i={k} arrive + expect_tx on {bar} #{st}{far}",
            "copy": ">>> [{cta}] {role} i={k} tma load for {bar} #{st}{far}",
            **_calls(">>> [{cta}] {role} ", "waiting for {api} ... ~ OK got {api} ~ {api} ~ says: {text}"),
        },
        roles=STUDENT,
        bar=plus("", "_bar", smem="tile", d="acc"),
        own=" of [{owner}]",
        to=" of [{to}]",
        head=lambda case, style: ["[x] is the cluster cta rank"],
        shows=("phase", "stage", "to"),
        aka=forms(STUDENT, " warp", softmax0="softmax0, softmax 0", softmax1="softmax1, softmax 1"),
        sync="bar.sync {number} {size}",
    ),
    "klog-await": Style(
        {
            "wait": "V2 mbar.cuh:77] r{cta}.{role} {bar}({st}){own} await, it {k}",
            "done": "V2 mbar.cuh:79] r{cta}.{role} {bar}({st}){own} awaited, it {k}",
            "arrive": "V2 mbar.cuh:93] r{cta}.{role} {bar}({st}){far} arrive, it {k}",
            "expect": "V2 mbar.cuh:61] r{cta}.{role} {bar}({st}){far} arrive, tx {bytes}, it {k}",
            "copy": "V2 tma.cuh:140] r{cta}.{role} {bar}({st}){far} bulk load, {bytes} bytes, it {k}",
            "enter": "V2 sync.cuh:18] r{cta}.{role} {api} await",
            "leave": "V2 sync.cuh:20] r{cta}.{role} {api} awaited",
            "call": "V2 sync.cuh:25] r{cta}.{role} {api}",
            "note": "V1 role.cuh:52] r{cta}.{role} {text}",
        },
        roles=KLOG,
        bar=mbarriers(lambda name: "m" + camel("_" + replaced({"smem": "tile", "d": "acc"})(name))),
        own="@r{owner}",
        to="@r{to}",
        shows=("bytes", "stage", "to"),
        aka=forms(KLOG, load="load", mma="mma, issuer", reduce="reduce", sched="sched"),
        sync="namedBarrierSync({number}, {size})",
    ),
    # JSON lines.
    "jsonl-blocked": Style(
        {
            "wait": '{{"t":{t},"cta":{cta},"by":"{role}","it":{k},"op":"wait","on":["{bar}",{st}]{own},"phase":{ph},"blocked":true}}',
            "done": '{{"t":{t},"cta":{cta},"by":"{role}","it":{k},"op":"wait","on":["{bar}",{st}]{own},"phase":{ph},"blocked":false}}',
            "arrive": '{{"t":{t},"cta":{cta},"by":"{role}","it":{k},"op":"arrive","on":["{bar}",{st}]{far}}}',
            "expect": '{{"t":{t},"cta":{cta},"by":"{role}","it":{k},"op":"arrive","on":["{bar}",{st}]{far},"expect_tx":{bytes}}}',
            "copy": '{{"t":{t},"cta":{cta},"by":"{role}","it":{k},"op":"tma_load","on":["{bar}",{st}]{far},"bytes":{bytes}}}',
            **_calls(
                '{{"t":{t},"cta":{cta},"by":"{role}",',
                '"op":"{api}","blocked":true}} ~ "op":"{api}","blocked":false}} ~ "op":"{api}"}} ~ "op":"printf","text":"{text}"}}',
            ),
        },
        roles=UMMA,
        bar=plus(full="filled", empty="drained", free="drained", smem="ab"),
        own=',"on_cta":{owner}',
        to=',"on_cta":[{to}]',
        aka=forms(UMMA, load="load", mma="mma", epi="store", reduce="reduce"),
    ),
    "jsonl-satisfied": Style(
        {
            "wait": '{{"what": "wait_pending", "barrier": "{bar}/{st}"{own}, "parity": {ph}, "actor": "{role}", "rank": {cta}, "trip": {k}, "cycle": {t}}}',
            "done": '{{"what": "wait_satisfied", "barrier": "{bar}/{st}"{own}, "parity": {ph}, "actor": "{role}", "rank": {cta}, "trip": {k}, "cycle": {t}}}',
            "arrive": '{{"what": "arrived", "barrier": "{bar}/{st}"{far}, "actor": "{role}", "rank": {cta}, "trip": {k}, "cycle": {t}}}',
            "expect": '{{"what": "arrived", "barrier": "{bar}/{st}"{far}, "expects_bytes": {bytes}, "actor": "{role}", "rank": {cta}, "trip": {k}, "cycle": {t}}}',
            "copy": '{{"what": "tma_issued", "barrier": "{bar}/{st}"{far}, "bytes": {bytes}, "actor": "{role}", "rank": {cta}, "trip": {k}, "cycle": {t}}}',
            **_calls(
                '{{"what": ',
                '"call_pending", "call": "{api}", "actor": "{role}", "rank": {cta}, "cycle": {t}}} ~ "call_satisfied", "call": "{api}", "actor": "{role}", "rank": {cta}, "cycle": {t}}} ~ "call", "call": "{api}", "actor": "{role}", "rank": {cta}, "cycle": {t}}} ~ "text", "text": "{text}", "actor": "{role}", "rank": {cta}, "cycle": {t}}}',
            ),
        },
        roles=UPPER,
        bar=mbarriers(lambda name: replaced({"smem": "tile", "d": "acc"})(name).upper()),
        own=', "barrier_rank": {owner}',
        to=', "barrier_rank": [{to}]',
        aka=forms(UPPER, "_", main="main"),
        sync="bar.sync {number} {size}",
    ),
    # CSV.
    "csv-req-ack": Style(
        {
            "wait": "{t},{role},{cta},wait_req,{bar},{st},<{owner}>,{ph},{k},",
            "done": "{t},{role},{cta},wait_ack,{bar},{st},<{owner}>,{ph},{k},",
            "arrive": "{t},{role},{cta},arrive,{bar},{st},<{to}>,,{k},",
            "expect": "{t},{role},{cta},arrive_expect_tx,{bar},{st},<{to}>,,{k},{bytes}",
            "copy": "{t},{role},{cta},tma_load,{bar},{st},<{to}>,,{k},{bytes}",
            **_calls(
                "{t},{role},{cta},",
                'call_req,"{api}",,,,, ~ call_ack,"{api}",,,,, ~ call,"{api}",,,,, ~ print,"{text}",,,,,',
            ),
        },
        roles=GROUPS,
        bar=plus("mb_", smem="ab"),
        head=lambda case, style: [
            "# req: before the call, ack: after it; mbar_ctas: mask of the CTAs whose mbarrier it is",
            "cycle,wg,cta,event,mbar,slot,mbar_ctas,parity,iter,bytes",
        ],
        whole=_masks,
        aka=forms(GROUPS, "_wg", load="load", softmax0="softmax0", softmax1="softmax1"),
    ),
    # German and Chinese.
    "de-steht-vor": Style(
        {
            "wait": "{role} (Block {cta}), Umlauf {k}: steht vor {bar}[{st}]{own}, Phase {ph}",
            "done": "{role} (Block {cta}), Umlauf {k}: kommt durch {bar}[{st}]{own}, Phase {ph}",
            "arrive": "{role} (Block {cta}), Umlauf {k}: trägt sich ein bei {bar}[{st}]{far}",
            "expect": "{role} (Block {cta}), Umlauf {k}: trägt sich ein bei {bar}[{st}]{far}, angekündigt sind {bytes} Byte",
            "copy": "{role} (Block {cta}), Umlauf {k}: stößt TMA-Laden von {bytes} Byte an, Abschluss auf {bar}[{st}]{far}",
            **_calls(
                "{role} (Block {cta}): ",
                "steht vor {api} ~ kommt durch {api} ~ ruft {api} auf ~ Meldung: {text}",
            ),
        },
        roles=GERMAN,
        bar=plus(**STATES),
        own=" in Block {owner}",
        to=" in Block {to}",
        aka=forms(GERMAN, "-Starter", softmax0="softmax a, softmaxa", softmax1="softmax b, softmaxb"),
    ),
    "zh-suspend": Style(
        {
            "wait": "(cta {cta}, {role}, 第{k}步) 挂起, 等 {bar}[{st}]{own}, phase {ph}",
            "done": "(cta {cta}, {role}, 第{k}步) 恢复, {bar}[{st}]{own} 已完成, phase {ph}",
            "arrive": "(cta {cta}, {role}, 第{k}步) 给 {bar}[{st}]{far} 记一次到达",
            "expect": "(cta {cta}, {role}, 第{k}步) 给 {bar}[{st}]{far} 记一次到达, 登记 {bytes} 字节",
            "copy": "(cta {cta}, {role}, 第{k}步) TMA 开始搬 {bytes} 字节, 搬完记到 {bar}[{st}]{far}",
            **_calls(
                "(cta {cta}, {role}) ", "挂起, 等 {api} ~ 恢复, {api} 已完成 ~ 执行 {api} ~ 日志: {text}"
            ),
        },
        roles=CHINESE,
        bar=state_first(smem="tile", acc="tmem", d="tmem"),
        own=" (在cta {owner})",
        to=" (在cta {to})",
        head=lambda case, style: ["# 没写(在cta x)的都是本cta的barrier"],
        aka=forms(CHINESE, "线程束"),
    ),
    # Addresses of mbarriers.
    "hex-poll": Style(
        {
            "wait": "{cta}/{role}/{k} <{bar}[{st}]>{own} poll p{ph}",
            "done": "{cta}/{role}/{k} <{bar}[{st}]>{own} saw p{ph}",
            "arrive": "{cta}/{role}/{k} <{bar}[{st}]>{far} arrive",
            "expect": "{cta}/{role}/{k} <{bar}[{st}]>{far} arrive, expect_tx {bytes}",
            "copy": "{cta}/{role}/{k} <{bar}[{st}]>{far} tma load, {bytes} bytes",
            **_calls("{cta}/{role} ", '{api} begin ~ {api} end ~ {api} ~ "{text}"'),
        },
        roles=CODES,
        bar=plus(smem="ab", d="acc"),
        own="@{owner}",
        to="@{to}",
        head=_strides,
        whole=_resolved(r"^  (?P<name>\w+) = (?P<at>0x\w+)"),
        aka=forms(MEANINGS, " (core issue|math)", load="load", mma="mma, issue", reduce="reduce"),
    ),
    "hex-legend-last": Style(
        {
            "wait": "{t:>6} {role} cta{cta} it{k}: mbarrier.try_wait.parity [<{bar}[{st}]>{own}], {ph} -> retry",
            "done": "{t:>6} {role} cta{cta} it{k}: mbarrier.try_wait.parity [<{bar}[{st}]>{own}], {ph} -> complete",
            "arrive": "{t:>6} {role} cta{cta} it{k}: mbarrier.arrive [<{bar}[{st}]>{far}]",
            "expect": "{t:>6} {role} cta{cta} it{k}: mbarrier.arrive.expect_tx [<{bar}[{st}]>{far}], {bytes}",
            "copy": "{t:>6} {role} cta{cta} it{k}: cp.async.bulk.tensor [<{bar}[{st}]>{far}], {bytes}",
            **_calls("{t:>6} {role} cta{cta}: ", "{api} -> retry ~ {api} -> complete ~ {api} ~ // {text}"),
        },
        roles=PLANNED,
        bar=state_first("bar_", smem="ab", d="acc"),
        own=" cta{owner}",
        to=" cta{to}",
        head=_inits,
        whole=_legend_last,
        sync="barrier.cta.sync {number}, {size}",
    ),
    # Calls of wait(addr, phase).
    "calling-back": Style(
        {
            "wait": "cta {cta} {role} iter {k}: calling wait(<{bar}[{st}]>, {ph}){own}",
            "done": "cta {cta} {role} iter {k}: back from wait(<{bar}[{st}]>, {ph}){own}",
            "arrive": "cta {cta} {role} iter {k}: arrive(<{bar}[{st}]>){far}",
            "expect": "cta {cta} {role} iter {k}: expect_bytes_and_arrive(<{bar}[{st}]>, {bytes}){far}",
            "copy": "cta {cta} {role} iter {k}: load_async(<{bar}[{st}]>, {bytes}){far}",
            **_calls("cta {cta} {role}: ", 'calling {api} ~ back from {api} ~ {api} ~ printf("{text}")'),
        },
        roles=STORERS,
        bar=plus(full="arrived", empty="finished", free="finished", smem="in", acc="out", d="out"),
        own=" on cta {owner}",
        to=" on cta {to}",
        head=_lists,
        whole=_resolved(r"^// (?P<name>\w+): (?P<at>0x\w+)"),
        aka=forms(STORERS, load="load", reduce="adder", sched="fetch"),
        sync="group_sync({number}, {size})",
    ),
    "call-comment": Style(
        {
            "wait": "blk{cta} {role:<9} wait(&bars.{bar}[{st}], {ph});  // k_tile={k}{own}, incomplete",
            "done": "blk{cta} {role:<9} wait(&bars.{bar}[{st}], {ph});  // k_tile={k}{own}, complete",
            "arrive": "blk{cta} {role:<9} arrive(&bars.{bar}[{st}]);  // k_tile={k}{far}",
            "expect": "blk{cta} {role:<9} arrive_and_expect_tx(&bars.{bar}[{st}], {bytes});  // k_tile={k}{far}",
            "copy": "blk{cta} {role:<9} tma_load(&bars.{bar}[{st}], {bytes});  // k_tile={k}{far}",
            **_calls(
                "blk{cta} {role:<9} ", "{api};  // incomplete ~ {api};  // complete ~ {api}; ~ // {text}"
            ),
        },
        roles=CUTLASS,
        bar=plus(smem="mainloop", acc="accum", d="accum"),
        own=", bars of blk{owner}",
        to=", bars of blk{to}",
        head=lambda case, style: ["// a wait is traced before (incomplete) and after (complete) its loop"],
        aka=forms(CUTLASS, load="load"),
        sync="bar_sync({number}, {size})",
    ),
    # A list of warps.
    "gdb-history": Style(
        {
            "wait": "{cta}~{warp}~{role}~{t}~in~mbar_wait (bar=&sm.{bar}[{st}], parity={ph}{own}, k={k})",
            "done": "{cta}~{warp}~{role}~{t}~out~mbar_wait (bar=&sm.{bar}[{st}], parity={ph}{own}, k={k})",
            "arrive": "{cta}~{warp}~{role}~{t}~at~mbar_arrive (bar=&sm.{bar}[{st}]{far}, k={k})",
            "expect": "{cta}~{warp}~{role}~{t}~at~mbar_arrive_expect_tx (bar=&sm.{bar}[{st}], tx={bytes}{far}, k={k})",
            "copy": "{cta}~{warp}~{role}~{t}~at~tma_load_2d (bar=&sm.{bar}[{st}], bytes={bytes}{far}, k={k})",
            **_calls("{cta}~{warp}~{role}~{t}~", 'in~{api} ~ out~{api} ~ at~{api} ~ at~printf ("{text}")'),
        },
        roles=LOOPS,
        bar=state_first(smem="ab", d="acc"),
        own=", block={owner}",
        to=", block={to}",
        whole=_warps,
        aka=lambda role: (
            f"warp {WARPS[role]}",
            *forms(LOOPS, "_(tiles|mma|dq|math)", load="load", mma="mma", epi="store", sched="get_tile")(
                role
            ),
        ),
        sync="bar_sync (id={number}, threads={size})",
    ),
}
