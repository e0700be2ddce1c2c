# ruff: noqa: E501 - log lines are kept whole
"""The eleventh exam: new wordings of printed hang logs, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.strangers.exams.names import calls, forms, mbarriers, plus, roles, state_first, used
from benchmarks.strangers.exams.styles import WARPS, Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

SHORT = roles("ld, mma, epi, smA, smB, mth, mth, red, sch")
LONG = roles(
    "TMA load, MMA issue, epilogue, softmax rows 0-63, softmax rows 64-127, math, math, dQ reduce, tile scheduler"
)
DMA = roles("DMA, MMA, EpilogueStore, SoftmaxStage0, SoftmaxStage1, Math, Math, Reduction, Scheduler")
SPACED = roles(
    "TMA load warp, MMA issue warp, epilogue warps, softmax 0 warps, softmax 1 warps, math warps, dS warps, dQ reduce warps, scheduler warp"
)
KITTENS = roles(
    "loader warp, tensor warp, storer warp, softmax wg 0, softmax wg 1, consumer wg, consumer wg, reduce wg, scheduler warp"
)
WARP_WG = roles(
    "producer_warp, issuer_warp, store_wg, softmax_wg_a, softmax_wg_b, accum_wg, ds_wg, dq_wg, clc_warp"
)
CAMEL = roles(
    "tmaLoad, mmaIssue, epilogueStore, softmaxLo, softmaxHi, mathMain, mathGrad, dqReduce, tileSched"
)
GERMAN = roles(
    "Lade-Warp, MMA-Warp, Epilog-Warp, Softmax-0-Warp, Softmax-1-Warp, Rechen-Warp, Rechen-Warp, Reduktions-Warp, Verteiler-Warp"
)
CHINESE = roles("加载, 乘加, 写回, 归一化0, 归一化1, 计算, 计算, 归约, 调度", "{}warp")
NUMBERED = roles("load, mma, epilogue, softmax0, softmax1, accumulate, dscore, dq_reduce, scheduler")
MAINS = roles(
    "load_warp, mma_warp, store_warp, softmax0_wg, softmax1_wg, math_wg, ds_wg, dq_wg, sched_warp", "{}_main"
)
WGS = roles("load, mma, store, sm0, sm1, math, dsoft, dqsum, sched", "wg_{}")


# --- addresses of mbarriers, and legends that name them


def _map(case: Case, style: Style) -> list[str]:
    """All addresses in a line."""
    at, found = 0x1C400, []
    for name, (stages, _) in barriers(case).items():
        for stage in range(stages):
            found.append(f"{at:#x}={style.bar(name)}[{stage}]")
            at += 8
    return ["mbar map (smem offsets, same in every CTA): " + " ".join(found)]


def _layout(case: Case, style: Style) -> list[str]:
    """The warps, and a table of pointers."""
    warps = sorted((WARPS[role], name) for name, role in used(case, style).items())
    rows = [
        "warps: " + ", ".join(f"w{warp:02d} = {name}" for warp, name in warps),
        "mbarriers (same pointers in every CTA, element i is at +8*i):",
    ]
    at = 0x7FE3F8032000
    for name, (stages, _) in barriers(case).items():
        rows.append(f"  {at:#x}  {style.bar(name)}[{stages}]")
        at += 8 * stages
    return rows


def _offsets(case: Case, style: Style) -> list[str]:
    """A comment for each array of mbarriers."""
    rows, at = [], 0x400
    for name, (stages, _) in barriers(case).items():
        last = f"..{at + 8 * stages - 8:#06x}" if stages > 1 else ""
        slots = f"slots 0..{stages - 1}" if stages > 1 else "slot 0"
        rows.append(f"// {style.bar(name)} = {at:#06x}{last} ({slots})")
        at += 8 * stages
    return [
        "// started / finished: before / after the call; cta n in the arguments: the mbarrier of CTA n",
        *rows,
    ]


def _resolved(legend: str) -> Callable[[list[str]], list[str]]:
    """<name[stage]> becomes the address; `legend` finds the first address and the name of an array."""

    def whole(lines: list[str]) -> list[str]:
        matches = (found for line in lines for found in re.finditer(legend, line))
        base = {found["name"]: int(found["at"], 16) for found in matches}

        def address(found: re.Match[str]) -> str:
            return f"{base[found[1]] + 8 * int(found[2]):#06x}"

        return [re.sub(r"<(\w+)\[(\d+)\]>", address, line) for line in lines]

    return whole


# --- a list of warps in a debugger: what each is in, and its calls from the latest back


def _warps(lines: list[str]) -> list[str]:
    calls: dict[tuple[int, int, str], list[tuple[str, str]]] = {}
    inside: dict[tuple[int, int, str], tuple[str, str]] = {}
    for line in lines:
        cta, warp, function, clock, edge, call = line.split("~", 5)
        who = int(cta), int(warp), function
        done = calls.setdefault(who, [])
        if edge == "in":
            inside[who] = clock, call
        else:
            inside.pop(who, None)
            done.append((clock, call))
    found = ["(cuda-gdb) source ws_warps.py", "(cuda-gdb) ws-warps --calls all"]
    for who, done in sorted(calls.items()):
        found.append(f"* CTA {who[0]}  warp {who[1]}  {who[2]} ()")
        clock, call = inside.get(who, ("", ""))
        found.append(
            f"    waits in  {call}  since clk {clock}" if call else "    waits in  (no barrier call)"
        )
        found.append(f"    finished calls, latest first ({len(done)}):")
        found += [f"      -{at:<3} clk {clock:>5}  {call}" for at, (clock, call) in enumerate(done[::-1], 1)]
    return found


STYLES: dict[str, Style] = {
    # Lines of events.
    "cutlass-pipe": Style(
        {
            "wait": "<cta {cta} {role}> k_tile {k}: {bar}.consumer_wait(stage={st}, phase={ph}){own} called",
            "done": "<cta {cta} {role}> k_tile {k}: {bar}.consumer_wait(stage={st}, phase={ph}){own} returned",
            "wait back": "<cta {cta} {role}> k_tile {k}: {bar}.producer_acquire(stage={st}, phase={ph}){own} called",
            "done back": "<cta {cta} {role}> k_tile {k}: {bar}.producer_acquire(stage={st}, phase={ph}){own} returned",
            "arrive": "<cta {cta} {role}> k_tile {k}: {bar}.producer_commit(stage={st}){far}",
            "arrive back": "<cta {cta} {role}> k_tile {k}: {bar}.consumer_release(stage={st}){far}",
            "expect": "<cta {cta} {role}> k_tile {k}: {bar}.arrive_and_expect_tx(stage={st}, bytes={bytes}){far}",
            "copy": "<cta {cta} {role}> k_tile {k}: {bar}.tma_copy(stage={st}, bytes={bytes}){far}",
            **calls("<cta {cta} {role}> ", "{api} called|{api} returned|{api}|{text}"),
        },
        roles=DMA,
        bar=plus("pipe_", smem="mainloop", acc="accum", d="accum"),
        own=" of block_rank {owner}",
        to=" -> block_rank {to}",
        head=lambda case, style: [
            "pipeline trace: producer_commit and consumer_release are the mbarrier arrives of a stage"
        ],
        aka=forms(DMA, "Stage|Store"),
        sync="arch::NamedBarrier::sync({size}, {number})",
    ),
    "stage-first": Style(
        {
            "wait": "cta_idx {cta}, {role}, k_block {k}, stage {st}, phase {ph} | {bar}{own}: going to wait",
            "done": "cta_idx {cta}, {role}, k_block {k}, stage {st}, phase {ph} | {bar}{own}: done waiting",
            "arrive": "cta_idx {cta}, {role}, k_block {k}, stage {st} | {bar}{far}: arrive",
            "expect": "cta_idx {cta}, {role}, k_block {k}, stage {st} | {bar}{far}: arrive_and_expect_tx {bytes}",
            "copy": "cta_idx {cta}, {role}, k_block {k}, stage {st} | {bar}{far}: tma_copy {bytes}",
            **calls("cta_idx {cta}, {role} | ", "{api}: going to wait|{api}: done waiting|{api}|{text}"),
        },
        roles=SPACED,
        bar=mbarriers(lambda name: replaced({"smem": "ab", "acc": "tmem", "d": "tmem"})(name) + "_barriers"),
        own=" (cta_idx {owner}'s)",
        to=" (to cta_idx {to})",
        aka=forms(SPACED, " warps?", load="load", mma="mma", reduce="reduce"),
        sync="NamedBarrier({number}).sync({size})",
    ),
    "student-stuck": Style(
        {
            "wait": "#### {role} blk{cta} i={k}: stuck at {bar} buf={st} phase={ph}{own} ????",
            "done": "#### {role} blk{cta} i={k}: not stuck at {bar} buf={st} phase={ph}{own} anymore",
            "arrive": "#### {role} blk{cta} i={k}: arrived {bar} buf={st}{far}",
            "expect": "#### {role} blk{cta} i={k}: arrived (expect_tx) {bar} buf={st}{far}",
            "copy": "#### {role} blk{cta} i={k}: tma fired -> {bar} buf={st}{far}",
            **calls("#### {role} blk{cta}: ", "stuck at {api} ????|not stuck at {api} anymore|{api}|{text}"),
        },
        roles=roles("loader, mma, epilogue, softmaxA, softmaxB, consumer, math, reducer, scheduler"),
        bar=mbarriers(camel),
        own=" of blk{owner}",
        to=" of blk{to}",
        shows=("phase", "stage", "to"),
        sync="bar.sync {number},{size}",
    ),
    "ttng-ops": Style(
        {
            "wait": '[ws "{role}" cluster_cta={cta} iv={k}] ttng.wait_barrier %{bar}[{st}]{own}, phase={ph} // reached',
            "done": '[ws "{role}" cluster_cta={cta} iv={k}] ttng.wait_barrier %{bar}[{st}]{own}, phase={ph} // passed',
            "arrive": '[ws "{role}" cluster_cta={cta} iv={k}] ttng.arrive_barrier %{bar}[{st}]{far}, 1',
            "expect": '[ws "{role}" cluster_cta={cta} iv={k}] ttng.barrier_expect %{bar}[{st}]{far}, {bytes}',
            "copy": '[ws "{role}" cluster_cta={cta} iv={k}] ttng.async_tma_copy_global_to_local %{bar}[{st}]{far}, {bytes} bytes',
            **calls('[ws "{role}" cluster_cta={cta}] ', '{api} // reached|{api} // passed|{api}|// "{text}"'),
        },
        roles=roles(
            "load, mma, epilogue, softmax0, softmax1, computation, computation, reduction, tile_scheduler"
        ),
        bar=plus(full="ready", empty="free", smem="ab"),
        own=" @cta {owner}",
        to=" @cta {to}",
        head=lambda case, style: [
            "// printed before (reached) and after (passed) every wait; ttng.barrier_expect arrives once"
        ],
        sync="nvvm.barrier id={number} threads={size}",
    ),
    "bar-first": Style(
        {
            "wait": "{t:>6} {bar}.{st}{own} <- {role}.{cta} sleeps, wants p{ph} (#{k})",
            "done": "{t:>6} {bar}.{st}{own} <- {role}.{cta} woken, had p{ph} (#{k})",
            "arrive": "{t:>6} {bar}.{st}{far} <- {role}.{cta} arrives (#{k})",
            "expect": "{t:>6} {bar}.{st}{far} <- {role}.{cta} arrives with tx {bytes} (#{k})",
            "copy": "{t:>6} {bar}.{st}{far} <- {role}.{cta} sends bulk copy of {bytes} (#{k})",
            **calls(
                "{t:>6} ",
                "{api} <- {role}.{cta} sleeps|{api} <- {role}.{cta} woken|{api} <- {role}.{cta}|-- {role}.{cta} {text}",
            ),
        },
        roles=SHORT,
        bar=plus(smem="tile", d="acc"),
        own="/c{owner}",
        to="/c{to}",
        head=lambda case, style: [
            "# clk mbar.slot[/cta of the mbar if another] <- role.cta what (#iteration)",
            "# " + ", ".join(f"{name} {LONG[role]}" for name, role in used(case, style).items()),
        ],
        aka=forms(LONG, load="load", mma="mma", reduce="reduce", sched="scheduler"),
        sync="bar.sync({number},{size})",
    ),
    "tk-semaphore": Style(
        {
            "wait": "[tk cta {cta}] {role} @ task_iter {k} | semaphore {bar}[{st}]{own} phasebit {ph}: not yet",
            "done": "[tk cta {cta}] {role} @ task_iter {k} | semaphore {bar}[{st}]{own} phasebit {ph}: there",
            "arrive": "[tk cta {cta}] {role} @ task_iter {k} | semaphore {bar}[{st}]{far}: arrive",
            "expect": "[tk cta {cta}] {role} @ task_iter {k} | semaphore {bar}[{st}]{far}: expect_bytes {bytes} (+ arrive)",
            "copy": "[tk cta {cta}] {role} @ task_iter {k} | semaphore {bar}[{st}]{far}: load_async {bytes} bytes",
            **calls("[tk cta {cta}] {role} | ", "{api}: not yet|{api}: there|{api}|{text}"),
        },
        roles=KITTENS,
        bar=plus(
            full="arrived", empty="finished", free="finished", smem="inputs", acc="outputs", d="outputs"
        ),
        own=" (cta {owner})",
        to=" (cta {to})",
        head=lambda case, style: [
            "[tk] 'not yet' prints once when a thread begins to wait, 'there' when it is through"
        ],
        aka=forms(KITTENS, " (warp|wg)"),
        sync="warpgroup::sync(id {number}, {size} threads)",
    ),
    # JSON lines.
    "jsonl-keyed": Style(
        {
            "wait": '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}","iter":{k}}},"wait":{{"barrier":"{bar}","index":{st},"parity":{ph}{own}}},"status":"started"}}',
            "done": '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}","iter":{k}}},"wait":{{"barrier":"{bar}","index":{st},"parity":{ph}{own}}},"status":"finished"}}',
            "arrive": '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}","iter":{k}}},"arrive":{{"barrier":"{bar}","index":{st}{far}}}}}',
            "expect": '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}","iter":{k}}},"arrive":{{"barrier":"{bar}","index":{st},"expect_tx":{bytes}{far}}}}}',
            "copy": '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}","iter":{k}}},"tma_load":{{"barrier":"{bar}","index":{st},"bytes":{bytes}{far}}}}}',
            **calls(
                '{{"clock":{t},"from":{{"cta":{cta},"role":"{role}"}},',
                '"sync":"{api}","status":"started"}}|"sync":"{api}","status":"finished"}}|"call":"{api}"}}|"text":"{text}"}}',
            ),
        },
        roles=WARP_WG,
        bar=state_first(smem="ab"),
        own=',"at_cta":{owner}',
        to=',"at_cta":[{to}]',
        aka=forms(WARP_WG, "_(warp|wg)"),
        sync="bar.sync {number}, {size}",
    ),
    "jsonl-camel": Style(
        {
            "wait": '{{"seq":{n},"event":"BarrierWaitBegin","ctaRank":{cta},"warpRole":"{role}","barrierName":"{bar}","stageIdx":{st},"phaseBit":{ph},"loopIdx":{k}{own}}}',
            "done": '{{"seq":{n},"event":"BarrierWaitEnd","ctaRank":{cta},"warpRole":"{role}","barrierName":"{bar}","stageIdx":{st},"phaseBit":{ph},"loopIdx":{k}{own}}}',
            "arrive": '{{"seq":{n},"event":"BarrierArrive","ctaRank":{cta},"warpRole":"{role}","barrierName":"{bar}","stageIdx":{st},"loopIdx":{k}{far}}}',
            "expect": '{{"seq":{n},"event":"BarrierArriveExpectTx","ctaRank":{cta},"warpRole":"{role}","barrierName":"{bar}","stageIdx":{st},"txBytes":{bytes},"loopIdx":{k}{far}}}',
            "copy": '{{"seq":{n},"event":"TmaCopyIssued","ctaRank":{cta},"warpRole":"{role}","barrierName":"{bar}","stageIdx":{st},"txBytes":{bytes},"loopIdx":{k}{far}}}',
            **calls(
                '{{"seq":{n},"event":',
                '"CallBegin","ctaRank":{cta},"warpRole":"{role}","call":"{api}"}}|"CallEnd","ctaRank":{cta},"warpRole":"{role}","call":"{api}"}}|"Call","ctaRank":{cta},"warpRole":"{role}","call":"{api}"}}|"Message","ctaRank":{cta},"warpRole":"{role}","text":"{text}"}}',
            ),
        },
        roles=CAMEL,
        bar=mbarriers(lambda name: camel(replaced({"smem": "smemAb", "acc": "tmemAcc", "d": "tmemD"})(name))),
        own=',"barrierCtaRank":{owner}',
        to=',"destCtaMask":"{to}"',
        mask=True,
        aka=forms(
            CAMEL,
            load="load",
            mma="mma",
            epi="epilogue",
            main="math",
            compute="math",
            reduce="reduce",
            sched="sched",
        ),
        sync="namedBarrierSync(id={number}, threads={size})",
    ),
    # logfmt.
    "logfmt-when": Style(
        {
            "wait": "mod=ktrace clk={t} what=wait when=before barrier={bar} slot={st} parity={ph} block={cta} role={role} i={k}{own}",
            "done": "mod=ktrace clk={t} what=wait when=after barrier={bar} slot={st} parity={ph} block={cta} role={role} i={k}{own}",
            "arrive": "mod=ktrace clk={t} what=arrive barrier={bar} slot={st} block={cta} role={role} i={k}{far}",
            "expect": "mod=ktrace clk={t} what=arrive_expect_tx barrier={bar} slot={st} tx={bytes} block={cta} role={role} i={k}{far}",
            "copy": "mod=ktrace clk={t} what=tma_load barrier={bar} slot={st} bytes={bytes} block={cta} role={role} i={k}{far}",
            **calls(
                "mod=ktrace clk={t} what=",
                '"{api}" when=before block={cta} role={role}|"{api}" when=after block={cta} role={role}|"{api}" block={cta} role={role}|print block={cta} role={role} text="{text}"',
            ),
        },
        roles=roles("producer, mma, epilogue, softmax_up, softmax_down, consumer, grad, dq, tilesched"),
        bar=plus("", "_mbar", smem="tile", d="acc"),
        own=" of_block={owner}",
        to=" to_block={to}",
        sync="bar_sync({number}, {size})",
    ),
    # German and Chinese.
    "de-blockiert": Style(
        {
            "wait": "[Block {cta}] {role}: blockiert an {bar}[{st}]{own}, Phase {ph} (Schritt {k})",
            "done": "[Block {cta}] {role}: weiter hinter {bar}[{st}]{own}, Phase {ph} (Schritt {k})",
            "arrive": "[Block {cta}] {role}: Ankunft gemeldet an {bar}[{st}]{far} (Schritt {k})",
            "expect": "[Block {cta}] {role}: Ankunft gemeldet an {bar}[{st}]{far}, erwartet {bytes} Bytes (Schritt {k})",
            "copy": "[Block {cta}] {role}: TMA-Kopie von {bytes} Bytes gestartet, Ziel {bar}[{st}]{far} (Schritt {k})",
            **calls(
                "[Block {cta}] {role}: ",
                'blockiert an {api}|weiter hinter {api}|Aufruf {api}|Ausgabe "{text}"',
            ),
        },
        roles=GERMAN,
        bar=plus(full="voll", empty="leer", free="frei", ready="bereit", done="fertig", read="gelesen"),
        own=" von Block {owner}",
        to=" von Block {to}",
        aka=forms(GERMAN, "-Warp", softmax0="softmax0, softmax 0", softmax1="softmax1, softmax 1"),
        sync="bar.sync {number}, {size}",
    ),
    "zh-blocked": Style(
        {
            "wait": "块{cta} {role} 迭代{k} | 阻塞在 {bar}[{st}]{own}, 相位 {ph}",
            "done": "块{cta} {role} 迭代{k} | 通过了 {bar}[{st}]{own}, 相位 {ph}",
            "arrive": "块{cta} {role} 迭代{k} | 到达 {bar}[{st}]{far}",
            "expect": "块{cta} {role} 迭代{k} | 到达 {bar}[{st}]{far}, 预期 {bytes} 字节",
            "copy": "块{cta} {role} 迭代{k} | 发起 TMA 拷贝 {bytes} 字节, 完成后通知 {bar}[{st}]{far}",
            **calls("块{cta} {role} | ", "阻塞在 {api}|通过了 {api}|调用 {api}|输出: {text}"),
        },
        roles=CHINESE,
        bar=plus("mbar_", smem="ab", d="acc"),
        own=" (属于块{owner})",
        to=" (发给块{to})",
        aka=forms(CHINESE, "warp"),
        sync="bar.sync {number}, {size}",
    ),
    # Addresses of mbarriers.
    "hex-map": Style(
        {
            "wait": "mb <{bar}[{st}]>{own} par {ph} -- {role} cta{cta} k{k} -- spin",
            "done": "mb <{bar}[{st}]>{own} par {ph} -- {role} cta{cta} k{k} -- flip seen",
            "arrive": "mb <{bar}[{st}]>{far} -- {role} cta{cta} k{k} -- arrive",
            "expect": "mb <{bar}[{st}]>{far} -- {role} cta{cta} k{k} -- arrive + expect_tx {bytes}",
            "copy": "mb <{bar}[{st}]>{far} -- {role} cta{cta} k{k} -- tma {bytes} B",
            **calls(
                "",
                "{api} -- {role} cta{cta} -- spin|{api} -- {role} cta{cta} -- done|{api} -- {role} cta{cta}|-- {role} cta{cta} -- {text}",
            ),
        },
        roles=roles("LOAD, MMA, STORE, SMAX0, SMAX1, ACC, DSOFT, DQSUM, SCHED"),
        bar=state_first(after="_bar", smem="ab", d="tmem", acc="tmem"),
        own="@cta{owner}",
        to="@cta{to}",
        head=_map,
        whole=_resolved(r"(?P<at>0x\w+)=(?P<name>\w+)\[0\]"),
        sync="barrier.sync {number}, {size}",
    ),
    "hex-pointers": Style(
        {
            "wait": "cta {cta} w{warp:02d} <{bar}[{st}]>{own} try_wait ph={ph} it={k} BLOCK",
            "done": "cta {cta} w{warp:02d} <{bar}[{st}]>{own} try_wait ph={ph} it={k} RESUME",
            "arrive": "cta {cta} w{warp:02d} <{bar}[{st}]>{far} arrive it={k}",
            "expect": "cta {cta} w{warp:02d} <{bar}[{st}]>{far} arrive.expect_tx bytes={bytes} it={k}",
            "copy": "cta {cta} w{warp:02d} <{bar}[{st}]>{far} cp.async.bulk bytes={bytes} it={k}",
            **calls("cta {cta} w{warp:02d} ", "{api} BLOCK|{api} RESUME|{api}|({text})"),
        },
        roles=NUMBERED,
        bar=plus(smem="stage"),
        own=" of cta {owner}",
        to=" of cta {to}",
        head=_layout,
        whole=_resolved(r"^  (?P<at>0x\w+)  (?P<name>\w+)\["),
        aka=lambda role: (f"warp {WARPS[role]}", f"w{WARPS[role]}", f"w{WARPS[role]:02d}"),
        sync="bar.sync {number}, {size}",
    ),
    # Calls of wait(addr, phase).
    "call-ret": Style(
        {
            "wait": "c{cta}:{role}:{k}: CALL mbar_wait(&{bar}[{st}]{own}, {ph})",
            "done": "c{cta}:{role}:{k}: RET  mbar_wait(&{bar}[{st}]{own}, {ph})",
            "arrive": "c{cta}:{role}:{k}: mbar_arrive(&{bar}[{st}]{far})",
            "expect": "c{cta}:{role}:{k}: mbar_arrive_expect_tx(&{bar}[{st}]{far}, {bytes})",
            "copy": "c{cta}:{role}:{k}: tma_load_tile(&{bar}[{st}]{far}, {bytes})",
            **calls("c{cta}:{role}: ", "CALL {api}|RET  {api}|{api}|/* {text} */"),
        },
        roles=WGS,
        bar=plus("mb_", smem="ab", acc="d"),
        own="@c{owner}",
        to="@c{to}",
        aka=forms(WGS, "wg_"),
        sync="bar_sync({number}, {size})",
    ),
    "wait-started": Style(
        {
            "wait": "{t:>6}  cta={cta} {role:<10} wait(<{bar}[{st}]>, {ph}{own})  started",
            "done": "{t:>6}  cta={cta} {role:<10} wait(<{bar}[{st}]>, {ph}{own})  finished",
            "arrive": "{t:>6}  cta={cta} {role:<10} arrive(<{bar}[{st}]>{far})",
            "expect": "{t:>6}  cta={cta} {role:<10} arrive_expect_tx(<{bar}[{st}]>, {bytes}{far})",
            "copy": "{t:>6}  cta={cta} {role:<10} tma_load(<{bar}[{st}]>, {bytes}{far})",
            **calls("{t:>6}  cta={cta} {role:<10} ", "{api}  started|{api}  finished|{api}|# {text}"),
        },
        roles=roles("producer, issuer, drain, softmax-lo, softmax-hi, combine, dscore, dq-accum, sched"),
        bar=plus(full="filled", empty="drained", free="drained", smem="operand", acc="result", d="result"),
        own=", cta {owner}",
        to=", cta {to}",
        head=_offsets,
        whole=_resolved(r"^// (?P<name>\w+) = (?P<at>0x\w+)"),
        sync="bar_sync({number}, {size})",
    ),
    # A list of warps.
    "gdb-warps": Style(
        {
            "wait": "{cta}~{warp}~{role}~{t}~in~mbarrier_wait (&smem->{bar}[{st}]{own}, phase={ph}) k={k}",
            "done": "{cta}~{warp}~{role}~{t}~out~mbarrier_wait (&smem->{bar}[{st}]{own}, phase={ph}) k={k}",
            "arrive": "{cta}~{warp}~{role}~{t}~at~mbarrier_arrive (&smem->{bar}[{st}]{far}) k={k}",
            "expect": "{cta}~{warp}~{role}~{t}~at~mbarrier_arrive_expect_tx (&smem->{bar}[{st}]{far}, bytes={bytes}) k={k}",
            "copy": "{cta}~{warp}~{role}~{t}~at~tma_load (&smem->{bar}[{st}]{far}, bytes={bytes}) k={k}",
            **calls("{cta}~{warp}~{role}~{t}~", 'in~{api}|out~{api}|at~{api}|at~printf ("{text}")'),
        },
        roles=MAINS,
        bar=plus("", "_mbar", smem="ab"),
        own=", cta={owner}",
        to=", cta={to}",
        whole=_warps,
        aka=forms(MAINS, "_(warp|wg)_main"),
        sync="named_barrier_sync (id={number}, threads={size})",
    ),
}
