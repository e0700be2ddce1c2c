# ruff: noqa: E501 - log lines are kept whole
"""The tenth exam: prints and dumps of hung warp-specialised kernels, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re

from benchmarks.strangers.exams.names import calls, ctas, forms, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case


def _polls(found: re.Match[str]) -> str:
    return str(2 + 37 * int(found[0]) % 211)


POLLS = roles("loader, mma, epilog, smax_a, smax_b, accum, dsmath, dqred, tilesched")
WARPS = roles("load_warp, mma_warp, store_warp, sm0_warp, sm1_warp, acc_warp, ds_warp, dq_warp, clc_warp")
ROLES = roles("Load, MMA, Epilogue, Softmax0, Softmax1, Correction, Compute, Reduce, Sched", "WarpRole::{}")
KITTENS = roles("producer, launcher, storer, consumer_0, consumer_1, consumer, consumer, reducer, scheduler")
QUILL = roles("Producer, Mma, Store, SoftmaxA, SoftmaxB, Math, Math, Reduce, Clc", "{}Warp")
GROUPS = roles("load-warp, mma-warp, epi-warp, softmax0-wg, softmax1-wg, acc-wg, dp-wg, dq-wg, sched-warp")
SPACED = roles(
    "producer warp, MMA warp, epilogue warpgroup, softmax-A warpgroup, softmax-B warpgroup, math warpgroup, dS warpgroup, dQ-reduce warpgroup, scheduler warp"
)
ZH = roles("ld, mma, epi, softmax0, softmax1, math, math, reduce, sched", "{}_warp")
CODED = roles("tma_load, mma_issue, epilogue, softmax_0, softmax_1, math, math, dq_reduce, tile_sched")
CODES = list(dict.fromkeys(CODED.values()))
EVENTS = ["-", "wait_begin", "wait_end", "arrive", "arrive_expect_tx", "tma_copy", "call_begin", "call_end", "call", "message"]  # fmt: skip
GDB = roles("LOAD, MMA, EPI, SOFTMAX0, SOFTMAX1, MATH, MATH, REDUCE, SCHED", "ROLE_{}")
NONE = ', bar = BAR_NONE, stage = -1, parity = -1, iter = -1, bytes = 0, bar_cta_mask = 0, msg = "{api}"'


def _legend(case: Case, style: Style) -> list[str]:
    """The legend of records with numbers for roles, events and barriers."""

    def numbered(what: str, names: list[str]) -> str:
        return f"{what:<5} " + " ".join(f"{at}={name}" for at, name in enumerate(names) if name != "-")

    return [
        "trace_buf: one record per event, oldest first",
        numbered("role:", CODES),
        numbered("ev:", EVENTS),
        numbered("bar:", [style.bar(name) for name in barriers(case)]),
        "dst:  mask of the CTAs whose barrier it is",
    ]


def _numbers(lines: list[str]) -> list[str]:
    codes = {
        found[1]: {name: at for at, name in (item.split("=") for item in found[2].split(" "))}
        for line in lines
        if (found := re.match(r"(role|ev|bar): +(0=.*|1=.*)$", line))
    }
    coded = re.compile(r"\b(role|ev|bar)=<(\w+)>")
    return _masks([coded.sub(lambda at: f"{at[1]}={codes[at[1]][at[2]]}", line) for line in lines], "{:#x}")


def _masks(lines: list[str], form: str = "{}") -> list[str]:
    """<0,1> as the mask 3."""

    def mask(found: re.Match[str]) -> str:
        return form.format(sum(1 << int(cta) for cta in found[1].split(",")))

    return [re.sub(r"<([\d,]+)>", mask, line) for line in lines]


def _code_forms(role: str) -> tuple[str, ...]:
    """Short forms of the names of the legend, and the number that a line prints."""
    short = {"tma_load": "load", "mma_issue": "mma", "dq_reduce": "reduce", "tile_sched": "sched"}
    name, number = CODED[role], CODES.index(CODED[role])
    return short.get(name, name.replace("_", "")), f"role {number}", f"role={number}"


def _inits(case: Case, style: Style) -> list[str]:
    """Addresses of the mbarriers, which their inits print."""
    rows = []
    for cta in range(ctas(case)):
        at = 0x30400
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            for stage in range(stages):
                rows.append(f"[c{cta}] mbarrier.init {at:#x} count={count}  // {style.bar(name)}[{stage}]")
                at += 8
    return rows


def _addresses(lines: list[str]) -> list[str]:
    known = {found[2]: found[1] for line in lines if (found := re.search(r"init (0x\w+) .*// (\S+)$", line))}
    return [re.sub(r"<(\w+\[\d+\])>", lambda at: known[at[1]], line) for line in lines]


def _frame(lines: list[str]) -> list[str]:
    """A data frame as Python prints it."""
    head = ["", "clk", "cta", "role", "event", "target", "stage", "phase", "k", "bytes", "bar_cta"]
    rows = [head, *([str(at), *line.split("~")] for at, line in enumerate(lines))]
    width = [max(len(row[at]) for row in rows) for at in range(len(head))]
    found = [
        "  ".join(f"{cell:<{size}}" if not at else f"{cell:>{size}}" for at, (cell, size) in enumerate(zip(row, width, strict=True)))
        for row in rows
    ]  # fmt: skip
    return [">>> print(read_trace(buf).fillna('-').to_string())", *found]


def _watchdog(lines: list[str]) -> list[str]:
    """A watchdog on the host that dumps what each warp did."""
    warps: dict[tuple[str, str], list[list[str]]] = {}
    for line in lines:
        cta, role, clock, edge, text = line.split("~", 4)
        rows = warps.setdefault((cta, role), [])
        if edge == "out":
            rows[-1][2] = f"  [{int(clock) - int(rows[-1][0])} clk]"
        else:
            rows.append([clock, text, "  [still in here]" if edge == "in" else ""])
    stuck = any("still" in rows[-1][2] for rows in warps.values())
    state = "made no progress for 15 s" if stuck else "finished"
    found = [f"WATCHDOG: ws_kernel {state}, history of every warp follows"]
    for (cta, role), rows in sorted(warps.items()):
        begin, text, after = rows[-1]
        state = f"not in a barrier call, last seen at clk {begin}"
        if after.endswith("here]"):
            state = f"blocked in {text.split(' it=')[0]}"
        found.append(f"CTA {cta} {role}: {state}")
        found += [f"    {clock:>6}  {what}{spent}" for clock, what, spent in rows]
    return [*found, "WATCHDOG: end of history"]


def _by_barrier(lines: list[str]) -> list[str]:
    """Records sorted by mbarrier."""
    places: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        owners, name, row = line.split("~", 2)
        for owner in owners.split(","):
            places.setdefault((owner, name), []).append(row)
    found = ["# ring buffers of all warps, sorted by (CTA of the mbarrier, mbarrier, clk)"]
    for (owner, name), rows in sorted(places.items(), key=lambda item: (item[0][1] == "", item[0])):
        found.append(f"--- CTA {owner}: {name} ---" if name else "--- everything that is not an mbarrier ---")
        found += rows
    return found


def _printed(lines: list[str]) -> list[str]:
    """An array of records that cuda-gdb prints."""
    rows = [f"  [{at}] = {{{line}}}," for at, line in enumerate(_masks(lines))]
    rows[-1] = rows[-1][:-1] + "}"
    return [
        "(cuda-gdb) print g_trace.head",
        f"$1 = {len(rows)}",
        f"(cuda-gdb) print -array on -array-indexes on -null-stop on -elements unlimited -- g_trace.rec[0]@{len(rows)}",
        "$2 = {" + rows[0].lstrip(),
        *rows[1:],
    ]


STYLES: dict[str, Style] = {
    "polls": Style(
        {
            "wait": "(b{cta} {role}) wait {bar}[{st}]{own} ph={ph}{kk}",
            "done": "(b{cta} {role}) wait {bar}[{st}]{own} ph={ph}{kk} done after {n} polls",
            "arrive": "(b{cta} {role}) arrive {bar}[{st}]{far}{kk}",
            "expect": "(b{cta} {role}) arrive_expect_tx {bar}[{st}]{far} bytes={bytes}{kk}",
            "copy": "(b{cta} {role}) tma_load -> {bar}[{st}]{far} bytes={bytes}{kk}",
            **calls("(b{cta} {role}) ", "wait {api}|wait {api} done|{api}|{text}"),
        },
        roles=POLLS,
        bar=state_first(smem="ab", d="acc"),
        own=" on b{owner}",
        to=" cta_mask={to}",
        k=" ki={k}",
        mask=True,
        whole=lambda lines: [re.sub(r"(?<=after )\d+", _polls, line) for line in lines],
        sync="bar_sync({number}, {size})",
        aka=lambda role: {"tilesched": ("sched",), "loader": ("load",)}.get(POLLS[role], ()),
    ),
    "init-addr": Style(
        {
            "wait": "[c{cta}] {role:<4} k={k} mbarrier.wait.parity <{bar}[{st}]>{own}, {ph}  {{",
            "done": "[c{cta}] {role:<4} k={k} mbarrier.wait.parity <{bar}[{st}]>{own}, {ph}  }}",
            "arrive": "[c{cta}] {role:<4} k={k} mbarrier.arrive <{bar}[{st}]>{far}",
            "expect": "[c{cta}] {role:<4} k={k} mbarrier.arrive.expect_tx <{bar}[{st}]>{far}, {bytes}",
            "copy": "[c{cta}] {role:<4} k={k} cp.async.bulk.tensor <{bar}[{st}]>{far}, {bytes}",
            **calls("[c{cta}] {role:<4} ", "{api}  {{|{api}  }}|{api}|{text}"),
        },
        roles=roles("LD, MMA, EPI, SMX0, SMX1, MATH, MATH, RED, SCH"),
        bar=plus(smem="ab"),
        own=" of c{owner}",
        to=" of c{to}",
        head=_inits,
        whole=_addresses,
        sync="barrier.sync {number}, {size}",
    ),
    "kv-codes": Style(
        {
            "wait": "#{n:04d} clk={t} cta={cta} role=<{role}> ev=<wait_begin> bar=<{bar}> st={st} ph={ph} it={k} dst=<{owner}>",
            "done": "#{n:04d} clk={t} cta={cta} role=<{role}> ev=<wait_end> bar=<{bar}> st={st} ph={ph} it={k} dst=<{owner}>",
            "arrive": "#{n:04d} clk={t} cta={cta} role=<{role}> ev=<arrive> bar=<{bar}> st={st} it={k} dst=<{to}>",
            "expect": "#{n:04d} clk={t} cta={cta} role=<{role}> ev=<arrive_expect_tx> bar=<{bar}> st={st} it={k} tx={bytes} dst=<{to}>",
            "copy": "#{n:04d} clk={t} cta={cta} role=<{role}> ev=<tma_copy> bar=<{bar}> st={st} it={k} tx={bytes} dst=<{to}>",
            **calls(
                "#{n:04d} clk={t} cta={cta} role=<{role}> ",
                'ev=<call_begin> arg="{api}"|ev=<call_end> arg="{api}"|ev=<call> arg="{api}"|ev=<message> arg="{text}"',
            ),
        },
        roles=CODED,
        bar=mbarriers(camel),
        head=_legend,
        whole=_numbers,
        aka=_code_forms,
        sync="bar.sync {number},{size}",
    ),
    "jsonl-mb": Style(
        {
            "wait": '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":"mbar_wait","st":"pend","mb":"{bar}","slot":{st},"par":{ph},"k":{k}{own}}}',
            "done": '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":"mbar_wait","st":"done","mb":"{bar}","slot":{st},"par":{ph},"k":{k}{own}}}',
            "arrive": '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":"mbar_arrive","mb":"{bar}","slot":{st},"k":{k}{far}}}',
            "expect": '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":"mbar_arrive_tx","mb":"{bar}","slot":{st},"tx":{bytes},"k":{k}{far}}}',
            "copy": '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":"tma_load","mb":"{bar}","slot":{st},"tx":{bytes},"k":{k}{far}}}',
            **calls(
                '{{"clk":{t},"blk":{cta},"wrp":"{role}","op":',
                '"{api}","st":"pend"}}|"{api}","st":"done"}}|"{api}"}}|"print","text":"{text}"}}',
            ),
        },
        roles=roles("tma_ld, mma, store, softmax_lo, softmax_hi, rescale, grad, dq_add, clc"),
        bar=plus("mb_", smem="ab", d="acc"),
        own=',"mb_blk":{owner}',
        to=',"mb_blk":[{to}]',
        sync="bar.sync {number} {size}",
    ),
    "logfmt-evt": Style(
        {
            "wait": "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} evt=bar_wait_start bar={bar} stage={st} phase={ph}{own}{kk}",
            "done": "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} evt=bar_wait_stop bar={bar} stage={st} phase={ph}{own}{kk}",
            "arrive": "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} evt=bar_arrive bar={bar} stage={st}{far}{kk}",
            "expect": "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} evt=bar_arrive_expect bar={bar} stage={st} tx_bytes={bytes}{far}{kk}",
            "copy": "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} evt=tma_issue bar={bar} stage={st} tx_bytes={bytes}{far}{kk}",
            **calls(
                "lvl=trace mod=wsdbg clk={t} cta={cta} warp={role} ",
                'evt=sync_start fn="{api}"|evt=sync_stop fn="{api}"|evt=call fn="{api}"|evt=msg msg="{text}"',
            ),
        },
        roles=WARPS,
        bar=plus(full="ready", empty="avail", free="avail"),
        own=" bar_cta={owner}",
        to=" bar_cta={to}",
        k=" iter={k}",
        aka=forms(WARPS, "_warp"),
        sync="named_barrier_sync({number},{size})",
    ),
    "pandas": Style(
        {
            "wait": "{t}~{cta}~{role}~wait_enter~{bar}~{st}~{ph}~{k}~-~{owner}",
            "done": "{t}~{cta}~{role}~wait_return~{bar}~{st}~{ph}~{k}~-~{owner}",
            "arrive": "{t}~{cta}~{role}~arrive~{bar}~{st}~-~{k}~-~{to}",
            "expect": "{t}~{cta}~{role}~arrive_tx~{bar}~{st}~-~{k}~{bytes}~{to}",
            "copy": "{t}~{cta}~{role}~tma~{bar}~{st}~-~{k}~{bytes}~{to}",
            **calls(
                "{t}~{cta}~{role}~",
                "sync_enter~{api}~-~-~-~-~-|sync_return~{api}~-~-~-~-~-|call~{api}~-~-~-~-~-|log~{text}~-~-~-~-~-",
            ),
        },
        roles=roles("load, mma, epilogue, softmax0, softmax1, accumulate, dsoftmax, dq_reduce, scheduler"),
        bar=plus(d="tmem", acc="tmem"),
        whole=_frame,
        sync="bar_sync({number},{size})",
    ),
    "watchdog": Style(
        {
            "wait": "{cta}~{role}~{t}~in~mbar_wait {bar}[{st}]{own} parity={ph} it={k}",
            "done": "{cta}~{role}~{t}~out~",
            "arrive": "{cta}~{role}~{t}~at~mbar_arrive {bar}[{st}]{far} it={k}",
            "expect": "{cta}~{role}~{t}~at~mbar_expect_tx_arrive {bar}[{st}]{far} bytes={bytes} it={k}",
            "copy": "{cta}~{role}~{t}~at~tma_load {bar}[{st}]{far} bytes={bytes} it={k}",
            **calls("{cta}~{role}~{t}~", "in~{api}|out~|at~{api}|at~printf: {text}"),
        },
        roles=SPACED,
        bar=plus("", "_mbar"),
        own="@cta{owner}",
        to="@cta{to}",
        whole=_watchdog,
        aka=forms(SPACED, " warp(group)?"),
        sync="bar.sync {number}, {size}",
    ),
    "by-barrier": Style(
        {
            "wait": "{owner}~{bar}[{st}]~{t:>6} cta{cta}.{role:<10} wait parity {ph} (k={k})",
            "done": "{owner}~{bar}[{st}]~{t:>6} cta{cta}.{role:<10} wait parity {ph} (k={k}) returned",
            "arrive": "{to}~{bar}[{st}]~{t:>6} cta{cta}.{role:<10} arrive (k={k}){far}",
            "expect": "{to}~{bar}[{st}]~{t:>6} cta{cta}.{role:<10} arrive + expect_tx {bytes} (k={k}){far}",
            "copy": "{to}~{bar}[{st}]~{t:>6} cta{cta}.{role:<10} tma load of {bytes} bytes (k={k}){far}",
            **calls("-~~{t:>6} cta{cta}.{role:<10} ", 'enter {api}|{api} returned|{api}|"{text}"'),
        },
        roles=roles("load, mma, epilogue, softmax-0, softmax-1, math, math, reduction, scheduler"),
        bar=plus("bar_", smem="tile", d="acc"),
        to="  -> CTA {to}",
        whole=_by_barrier,
        sync="bar.sync({number}, {size})",
    ),
    "warp-role": Style(
        {
            "wait": "[blockIdx.x={cta}] {role} ClusterBarrier::wait({bar}[{st}], {ph}){own}{kk} -- spinning",
            "done": "[blockIdx.x={cta}] {role} ClusterBarrier::wait({bar}[{st}], {ph}){own}{kk} -- acquired",
            "arrive": "[blockIdx.x={cta}] {role} ClusterBarrier::arrive({bar}[{st}]){far}{kk}",
            "expect": "[blockIdx.x={cta}] {role} ClusterTransactionBarrier::arrive_and_expect_tx({bar}[{st}], {bytes}){far}{kk}",
            "copy": "[blockIdx.x={cta}] {role} SM90_TMA_LOAD::copy({bar}[{st}]) {bytes} bytes{far}{kk}",
            **calls("[blockIdx.x={cta}] {role} ", "{api} -- spinning|{api} -- acquired|{api}|// {text}"),
        },
        roles=ROLES,
        bar=plus("storage.", "_mbar", smem="mainloop", d="acc"),
        own=" cta_id={owner}",
        to=" cta_id={to}",
        k=" k_tile={k}",
        aka=forms(ROLES, "WarpRole::"),
        sync="NamedBarrier::sync({size}, {number})",
    ),
    "tk-arrived": Style(
        {
            "wait": "tk> cta {cta} {role} iter {k}: wait({bar}[{st}], {ph}){own} blocked",
            "done": "tk> cta {cta} {role} iter {k}: wait({bar}[{st}], {ph}){own} cleared",
            "arrive": "tk> cta {cta} {role} iter {k}: arrive({bar}[{st}]{far})",
            "expect": "tk> cta {cta} {role} iter {k}: tma::expect({bar}[{st}]{far})",
            "copy": "tk> cta {cta} {role} iter {k}: tma::load_async({bar}[{st}]{far})",
            **calls("tk> cta {cta} {role}: ", "{api} blocked|{api} cleared|{api}|{text}"),
        },
        roles=KITTENS,
        bar=plus(full="arrived", empty="finished", free="finished", smem="in", acc="out", d="out"),
        own=" of cta {owner}",
        to=", cta {to}",
        head=lambda case, style: [
            f"tk> cluster of {ctas(case)}, blocked/cleared = before/after the call; tma::expect is the arrive of the producer"
        ],
        shows=("phase", "stage", "to"),
        sync="group::sync({number}) of {size} threads",
        aka=lambda role: (KITTENS[role].replace("_", ""),),
    ),
    "quill": Style(
        {
            "wait": "11:20:33.{t:09d} [3071] trace_drain.cpp:88   LOG_DEBUG     wsk   cta {cta} {role} parked on {bar}[{st}]{own}{kk}",
            "done": "11:20:33.{t:09d} [3071] trace_drain.cpp:91   LOG_DEBUG     wsk   cta {cta} {role} resumed from {bar}[{st}]{own}{kk}",
            "arrive": "11:20:33.{t:09d} [3071] trace_drain.cpp:96   LOG_DEBUG     wsk   cta {cta} {role} arrives on {bar}[{st}]{far}{kk}",
            "expect": "11:20:33.{t:09d} [3071] trace_drain.cpp:99   LOG_DEBUG     wsk   cta {cta} {role} arrives on {bar}[{st}]{far} with tx {bytes}{kk}",
            "copy": "11:20:33.{t:09d} [3071] trace_drain.cpp:104  LOG_DEBUG     wsk   cta {cta} {role} TMA into {bar}[{st}]{far} of {bytes}{kk}",
            **calls(
                "11:20:33.{t:09d} [3071] trace_drain.cpp:112  LOG_DEBUG     wsk   cta {cta} {role} ",
                "parked on {api}|resumed from {api}|calls {api}|says: {text}",
            ),
        },
        roles=QUILL,
        bar=mbarriers(lambda name: camel(name) + "Bar"),
        own=" of cta {owner}",
        to=" of cta {to}",
        k=", tile {k}",
        shows=("bytes", "stage", "to"),
        aka=forms(QUILL, "Warp"),
        sync="namedBarrier({number}, {size})",
    ),
    "globaltimer": Style(
        {
            "wait": "{t:>7} c{cta} {role:<4} WAIT {bar}[{st}] p{ph}{own}{kk}",
            "done": "{t:>7} c{cta} {role:<4} CONT {bar}[{st}] p{ph}{own}{kk}",
            "arrive": "{t:>7} c{cta} {role:<4} ARRV {bar}[{st}]{far}{kk}",
            "expect": "{t:>7} c{cta} {role:<4} ARTX {bar}[{st}] {bytes}{far}{kk}",
            "copy": "{t:>7} c{cta} {role:<4} LOAD {bar}[{st}] {bytes}{far}{kk}",
            **calls("{t:>7} c{cta} {role:<4} ", "WAIT {api}|CONT {api}|CALL {api}|INFO {text}"),
        },
        roles=roles("dma, mma, stg, sx0, sx1, alu, alu, dqr, clc"),
        bar=plus("", "_mb", smem="ab"),
        own=" @c{owner}",
        to=" @c{to}",
        k=" i{k}",
        head=lambda case, style: ["# globaltimer - t0 (ns), CTA rank, warp, op; ARTX = arrive.expect_tx"],
        sync="bar.sync {number} {size}",
    ),
    "csv-edge": Style(
        {
            "wait": "{t},{cta},{role},mbar_wait,B,{bar},{st},{ph},{k},,{own}",
            "done": "{t},{cta},{role},mbar_wait,E,{bar},{st},{ph},{k},,{own}",
            "arrive": "{t},{cta},{role},mbar_arrive,,{bar},{st},,{k},,{far}",
            "expect": "{t},{cta},{role},mbar_arrive_expect_tx,,{bar},{st},,{k},{bytes},{far}",
            "copy": "{t},{cta},{role},tma_load,,{bar},{st},,{k},{bytes},{far}",
            **calls(
                "{t},{cta},{role},", '"{api}",B,,,,,,|"{api}",E,,,,,,|"{api}",,,,,,,|"printf: {text}",,,,,,,'
            ),
        },
        roles=GROUPS,
        bar=plus(smem="stage", acc="accum", d="accum"),
        own="{owner}",
        to='"{to}"',
        head=lambda case, style: [
            "# edge: B before the call, E after it; peer_block: CTA of the mbarrier, empty = own",
            "clk,block,role,fn,edge,mbar,idx,parity,ktile,bytes,peer_block",
        ],
        whole=lambda lines: [re.sub(r'"(\d+)"', r"\1", line) for line in lines],
        aka=forms(GROUPS, "-(warp|wg)"),
        sync="bar_sync({number},{size})",
    ),
    "gdb-array": Style(
        {
            "wait": 'clk = {t}, cta = {cta}, role = {role}, ev = EV_WAIT_BEGIN, bar = {bar}, stage = {st}, parity = {ph}, iter = {k}, bytes = 0, bar_cta_mask = <{owner}>, msg = ""',
            "done": 'clk = {t}, cta = {cta}, role = {role}, ev = EV_WAIT_END, bar = {bar}, stage = {st}, parity = {ph}, iter = {k}, bytes = 0, bar_cta_mask = <{owner}>, msg = ""',
            "arrive": 'clk = {t}, cta = {cta}, role = {role}, ev = EV_ARRIVE, bar = {bar}, stage = {st}, parity = -1, iter = {k}, bytes = 0, bar_cta_mask = <{to}>, msg = ""',
            "expect": 'clk = {t}, cta = {cta}, role = {role}, ev = EV_ARRIVE_TX, bar = {bar}, stage = {st}, parity = -1, iter = {k}, bytes = {bytes}, bar_cta_mask = <{to}>, msg = ""',
            "copy": 'clk = {t}, cta = {cta}, role = {role}, ev = EV_TMA_LOAD, bar = {bar}, stage = {st}, parity = -1, iter = {k}, bytes = {bytes}, bar_cta_mask = <{to}>, msg = ""',
            **calls(
                "clk = {t}, cta = {cta}, role = {role}, ev = ",
                f"EV_SYNC_BEGIN{NONE}|EV_SYNC_END{NONE}|EV_CALL{NONE}|EV_MSG{NONE.replace('api', 'text')}",
            ),
        },
        roles=GDB,
        bar=mbarriers(lambda name: "BAR_" + replaced({"smem": "ab", "d": "acc"})(name).upper()),
        whole=_printed,
        aka=forms(GDB, "ROLE_"),
        sync="bar.sync {number}, {size}",
    ),
    "zh-stuck": Style(
        {
            "wait": "[{role}@{cta}] k={k} 卡在 {bar}[{st}]{own} ph={ph}",
            "done": "[{role}@{cta}] k={k} 过了 {bar}[{st}]{own} ph={ph}",
            "arrive": "[{role}@{cta}] k={k} arrive了 {bar}[{st}]{far}",
            "expect": "[{role}@{cta}] k={k} arrive了 {bar}[{st}]{far} expect_tx={bytes}",
            "copy": "[{role}@{cta}] k={k} TMA发了 {bar}[{st}]{far} bytes={bytes}",
            **calls("[{role}@{cta}] ", "卡在 {api}|过了 {api}|调了 {api}|打印: {text}"),
        },
        roles=ZH,
        bar=plus("", "_bar", smem="ab", acc="tmem", d="tmem"),
        own="(cta{owner}上的)",
        to="(cta{to}上的)",
        head=lambda case, style: ["# [角色@cta号], 等之前打印 卡在, 等到之后打印 过了"],
        aka=forms(ZH, "_warp"),
        sync="bar.sync {number},{size}",
    ),
    "fr-printf": Style(
        {
            "wait": "bloc {cta}, {role}, it {k}: bloque sur {bar}[{st}]{own} (parite {ph})",
            "done": "bloc {cta}, {role}, it {k}: c'est bon pour {bar}[{st}]{own} (parite {ph})",
            "arrive": "bloc {cta}, {role}, it {k}: arrive sur {bar}[{st}]{far}",
            "expect": "bloc {cta}, {role}, it {k}: arrive + expect_tx sur {bar}[{st}]{far}",
            "copy": "bloc {cta}, {role}, it {k}: chargement TMA lance, signale {bar}[{st}]{far}",
            **calls("bloc {cta}, {role}: ", "bloque sur {api}|c'est bon pour {api}|appel de {api}|{text}"),
        },
        roles=roles("chargeur, mma, epilogue, softmax0, softmax1, calcul, calcul, reduction, ordonnanceur"),
        bar=state_first("mbar_", smem="ab", d="acc"),
        own=" du bloc {owner}",
        to=" du bloc {to}",
        shows=("phase", "stage", "to"),
        sync="bar.sync {number}, {size}",
    ),
}
