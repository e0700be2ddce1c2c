# ruff: noqa: E501 - log lines are kept whole
"""The seventh exam: prints as kernel engineers type them, by authors who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.strangers.exams.styles import Style, barriers, replaced
from benchmarks.strangers.kernels import Case

CUTLASS = {
    "load": "producer", "mma": "mma", "epi": "epilogue", "softmax0": "softmax_wg0",
    "softmax1": "softmax_wg1", "main": "consumer", "tma": "mainloop_load", "issue": "mma",
    "compute": "math_wg", "reduce": "reduce_wg", "sched": "clc_scheduler", "loader": "mainloop_load",
    "tensor": "mma", "epilogue": "epilogue_store", "fetch": "producer", "head": "consumer",
}  # fmt: skip
WARP = {
    "load": "tma_warp", "mma": "mma_warp", "epi": "epi_warp", "softmax0": "sm_warp0",
    "softmax1": "sm_warp1", "main": "math_warp", "tma": "tma_warp", "issue": "mma_warp",
    "compute": "math_warp", "reduce": "red_warp", "sched": "sched_warp", "loader": "tma_warp",
    "tensor": "mma_warp", "epilogue": "epi_warp", "fetch": "tma_warp", "head": "math_warp",
}  # fmt: skip
KITTENS = {
    "load": "producer", "mma": "launcher", "epi": "storer", "softmax0": "consumer0",
    "softmax1": "consumer1", "main": "consumer", "tma": "producer", "issue": "launcher",
    "compute": "consumer", "reduce": "reducer", "sched": "scheduler", "loader": "producer",
    "tensor": "launcher", "epilogue": "storer", "fetch": "producer", "head": "consumer",
}  # fmt: skip
SHORT = {
    "load": "ldwarp", "mma": "umma", "epi": "epi", "softmax0": "sfx0", "softmax1": "sfx1", "main": "math",
    "tma": "ldwarp", "issue": "umma", "compute": "math", "reduce": "red", "sched": "tilesched",
    "loader": "ldwarp", "tensor": "umma", "epilogue": "epi", "fetch": "ldwarp", "head": "math",
}  # fmt: skip
UPPER = {
    "load": "TMA", "mma": "MMA", "epi": "EPI", "softmax0": "SOFTMAX_A", "softmax1": "SOFTMAX_B",
    "main": "MATH", "tma": "TMA", "issue": "MMA", "compute": "MATH", "reduce": "REDUCE", "sched": "SCHED",
    "loader": "TMA", "tensor": "MMA", "epilogue": "EPI", "fetch": "TMA", "head": "MATH",
}  # fmt: skip
DMA = {
    "load": "dma", "mma": "matmul", "epi": "store", "softmax0": "softmax_lo", "softmax1": "softmax_hi",
    "main": "accum", "tma": "dma", "issue": "matmul", "compute": "pointwise", "reduce": "dq_accum",
    "sched": "tile_sched", "loader": "dma", "tensor": "matmul", "epilogue": "store", "fetch": "dma",
    "head": "combine",
}  # fmt: skip
FLASH = {
    "load": "load_warp", "mma": "mma_warp", "epi": "epilogue_warp", "softmax0": "softmax_wg_0",
    "softmax1": "softmax_wg_1", "main": "correction", "tma": "load_warp", "issue": "mma_warp",
    "compute": "compute_wg", "reduce": "dkdv_reduce", "sched": "scheduler_warp", "loader": "load_warp",
    "tensor": "mma_warp", "epilogue": "epilogue_warp", "fetch": "load_kv_warp", "head": "correction",
}  # fmt: skip
TMEM = {
    "smem": "ab", "acc": "tmem", "d": "tmem", "scores0": "s0_ready", "scores1": "s1_ready",
    "probs0": "p0_ready", "probs1": "p1_ready",
}  # fmt: skip
DE = {
    "load": "Lade-Warp", "mma": "MMA-Warp", "epi": "Epilog-Warp", "softmax0": "Softmax-Gruppe-0",
    "softmax1": "Softmax-Gruppe-1", "main": "Rechen-Warp", "tma": "TMA-Warp", "issue": "MMA-Warp",
    "compute": "Rechen-Warp", "reduce": "Summen-Warp", "sched": "Planer-Warp", "loader": "Lade-Warp",
    "tensor": "MMA-Warp", "epilogue": "Epilog-Warp", "fetch": "Lade-Warp", "head": "Rechen-Warp",
}  # fmt: skip


def _bare(name: str) -> str:
    return name.removeprefix("bar_")


def _behind(name: str) -> str:
    """kv_full as full_bar_kv."""
    what, _, state = _bare(name).rpartition("_")
    return f"{state}_bar_{what}" if what else f"bar_{state}"


def _suffixed(suffix: str, pairs: dict[str, str] | None = None) -> Callable[[str], str]:
    named = replaced(pairs or {})
    return lambda name: named(_bare(name)) + suffix


# --- addresses in shared memory, with a legend


def _storage(case: Case, style: Style) -> list[str]:
    rows, at = [], 0x1C400
    for name, (stages, _) in barriers(case).items():
        rows.append(f"  {style.bar(name):<14} {at:#07x}  {stages} x 8 B")
        at += 8 * stages
    return [
        "barrier storage (same smem offsets in each CTA; [addr]@r = the copy in CTA rank r, default own):",
        *rows,
    ]


def _addressed(lines: list[str]) -> list[str]:
    """The names of barriers in the lines become the addresses of the legend."""
    bases = {found[1]: int(found[2], 16) for line in lines if (found := re.match(r"  (\S+) +(0x\w+) ", line))}
    return [
        re.sub(r"<(\w+)#(\d+)>", lambda at: f"[{bases[at[1]] + 8 * int(at[2]):#07x}]", line) for line in lines
    ]


# --- a dump of each warp's ring of events, a wait with both of its times


def _rings(lines: list[str]) -> list[str]:
    rings: dict[tuple[str, int, str], list[list[str]]] = {}
    for line in lines:
        cta, number, role, clock, edge, text = line.split("|", 5)
        ring = rings.setdefault((cta, int(number), role), [])
        if edge == "end":
            ring[-1][1] = clock
        else:
            ring.append([clock, "(open)" if edge == "begin" else "", text.rstrip()])
    found = ["dbg rings, oldest first; start..end in clock ticks since launch, (open) = has not ended"]
    for (cta, warp, role), ring in sorted(rings.items()):
        found.append(f"-- cta {cta} warp {warp} {role}: {len(ring)} entries")
        found += [f"   {begin:>6}{'..' if end else '  '}{end:<6}  {text}" for begin, end, text in ring]
    return found


# --- lines before


def _grid(case: Case, style: Style) -> list[str]:
    ctas = 1 + max(cta for _, cta in case.kernel.programs)
    return [f"launching ws_kernel<<<{ctas}, 384>>> built with -DWS_DEBUG=1"]


def _columns(case: Case, style: Style) -> list[str]:
    return [
        "  clk blk wid role      op       bar                idx par   it",
        "----- --- --- --------- -------- ------------------ --- --- ----",
    ]


STYLES: dict[str, Style] = {
    "dbg-macro": Style(
        {
            "wait": "DBG ws_collective.hpp:318 [bid {cta} tid {tid}] {role}: about to wait {bar}, s={st} ph={ph}{own}{kk}",
            "done": "DBG ws_collective.hpp:320 [bid {cta} tid {tid}] {role}: wait returned {bar}, s={st} ph={ph}{own}{kk}",
            "wait back": "DBG ws_collective.hpp:241 [bid {cta} tid {tid}] {role}: about to wait {bar}, s={st} ph={ph}{own}{kk}",
            "done back": "DBG ws_collective.hpp:243 [bid {cta} tid {tid}] {role}: wait returned {bar}, s={st} ph={ph}{own}{kk}",
            "arrive": "DBG ws_collective.hpp:355 [bid {cta} tid {tid}] {role}: ClusterBarrier::arrive {bar}, s={st}{far}{kk}",
            "arrive back": "DBG ws_collective.hpp:349 [bid {cta} tid {tid}] {role}: ClusterBarrier::arrive {bar}, s={st}{far}{kk}",
            "expect": "DBG ws_collective.hpp:246 [bid {cta} tid {tid}] {role}: ClusterTransactionBarrier::arrive_and_expect_tx {bar}, s={st} tx={bytes}{far}{kk}",
            "copy": "DBG ws_collective.hpp:251 [bid {cta} tid {tid}] {role}: SM90_TMA_LOAD issued on {bar}, s={st} sz={bytes}{far}{kk}",
            "enter": "DBG ws_collective.hpp:402 [bid {cta} tid {tid}] {role}: about to call {api}",
            "leave": "DBG ws_collective.hpp:404 [bid {cta} tid {tid}] {role}: returned from {api}",
            "call": "DBG ws_collective.hpp:410 [bid {cta} tid {tid}] {role}: {api}",
            "note": "DBG ws_collective.hpp:421 [bid {cta} tid {tid}] {role}: {text}",
        },
        roles=CUTLASS,
        bar=_suffixed("_mbar", TMEM),
        own=" cta_id={owner}",
        to=" cta_id={to}",
        k=" k_tile={k}",
        head=_grid,
        sync="arch::NamedBarrier({size}, {number}).sync()",
    ),
    "spdlog": Style(
        {
            "wait": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: stalls on mbarrier {bar} (slot {st}, bit {ph}){own}{kk}",
            "done": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: proceeds past mbarrier {bar} (slot {st}, bit {ph}){own}{kk}",
            "arrive": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: arrives, mbarrier {bar} (slot {st}){far}{kk}",
            "expect": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: arrives, mbarrier {bar} (slot {st}, expect_tx {bytes}){far}{kk}",
            "copy": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: issues TMA, mbarrier {bar} (slot {st}, {bytes} bytes){far}{kk}",
            "enter": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: stalls on {api}",
            "leave": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: proceeds past {api}",
            "call": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [trace] cta_rank:{cta} {role}: issues {api}",
            "note": "[2026-03-18 16:42:07.{n:03d}] [kdbg] [info] cta_rank:{cta} {role}: {text}",
        },
        roles=DMA,
        bar=_suffixed("", TMEM),
        own=" in cta_rank:{owner}",
        to=" in cta_rank:{to}",
        k=" iter {k}",
        head=lambda case, style: ["[2026-03-18 16:42:06.971] [kdbg] [info] draining device log ring"],
    ),
    "glog": Style(
        {
            "wait": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) awaiting {bar} @ stage {st}{own}, phase_bit {ph}",
            "done": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) obtained {bar} @ stage {st}{own}, phase_bit {ph}",
            "arrive": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) posted to {bar} @ stage {st}{far}",
            "expect": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) posted to {bar} @ stage {st}{far} with expect_tx",
            "copy": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) launched TMA load onto {bar} @ stage {st}{far}",
            "enter": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) awaiting {api}",
            "leave": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) cleared {api}",
            "call": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) ran {api}",
            "note": "I20260318 16:42:07.{t:06d}  9127 device_log.cc:57] {role} (block {cta}) {text}",
        },
        roles=WARP,
        own=" of peer block {owner}",
        to=" of block {to}",
        bar=_suffixed("_barrier"),
        head=lambda case, style: ["Log file created at: 2026/03/18 16:42:06", "Running on machine: b200-03"],
        shows=("phase", "stage", "to"),
    ),
    "loguru": Style(
        {
            "wait": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=wait.in bar={bar} buf={st} par={ph}{own}{kk}",
            "done": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=wait.out bar={bar} buf={st} par={ph}{own}{kk}",
            "arrive": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=arrive bar={bar} buf={st}{far}{kk}",
            "expect": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=arrive.tx bar={bar} buf={st} tx={bytes}{far}{kk}",
            "copy": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=tma.load bar={bar} buf={st} nb={bytes}{far}{kk}",
            "enter": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=call.in fn={api}",
            "leave": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=call.out fn={api}",
            "call": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=call fn={api}",
            "note": "2026-03-18 16:42:07.{n:03d} | DEBUG    | ws_debug:drain:91 - cta={cta} who={role} what=msg {text}",
        },
        roles=FLASH,
        bar=lambda name: "mbar_" + _bare(name),
        own=" at_cta={owner}",
        to=" at_cta={to}",
        k=" it={k}",
        sync="barrier(id={number},threads={size})",
    ),
    "jsonl-ok": Style(
        {
            "wait": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"mbar_wait","mbar":"{bar}","stage":{st},"phase":{ph},"own_ctaid":{owner},"iter":{k},"ok":false}}',
            "done": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"mbar_wait","mbar":"{bar}","stage":{st},"phase":{ph},"own_ctaid":{owner},"iter":{k},"ok":true}}',
            "arrive": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"mbar_arrive","mbar":"{bar}","stage":{st},"dst_ctaids":[{to}],"iter":{k}}}',
            "expect": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"mbar_arrive_expect_tx","mbar":"{bar}","stage":{st},"dst_ctaids":[{to}],"iter":{k},"tx_bytes":{bytes}}}',
            "copy": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"tma_load","mbar":"{bar}","stage":{st},"dst_ctaids":[{to}],"iter":{k},"tx_bytes":{bytes}}}',
            "enter": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"{api}","ok":false}}',
            "leave": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"{api}","ok":true}}',
            "call": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","fn":"{api}"}}',
            "note": '{{"seq":{n},"ctaid":{cta},"warp_role":"{role}","msg":"{text}"}}',
        },
        roles=WARP,
        bar=_suffixed("", {"full": "ready", "empty": "consumed"}),
    ),
    "csv-events": Style(
        {
            "wait": "{t},{cta},{role},wait_issue,{bar},{st},{ph},{k},,{own}",
            "done": "{t},{cta},{role},wait_ret,{bar},{st},{ph},{k},,{own}",
            "arrive": "{t},{cta},{role},arrive,{bar},{st},,{k},,{far}",
            "expect": "{t},{cta},{role},arrive_expect,{bar},{st},,{k},{bytes},{far}",
            "copy": "{t},{cta},{role},tma_issue,{bar},{st},,{k},{bytes},{far}",
            "enter": '{t},{cta},{role},call_issue,"{api}",,,,,',
            "leave": '{t},{cta},{role},call_ret,"{api}",,,,,',
            "call": '{t},{cta},{role},call,"{api}",,,,,',
            "note": '{t},{cta},{role},"{text}",,,,,,',
        },
        roles=SHORT,
        own="{owner}",
        to="{to}",
        mask=True,
        head=lambda case, style: [
            "# remote: rank that owns the barrier (waits), ctaMask of the barriers hit (arrivals); empty = own CTA",
            "globaltimer,cta_rank,warp,event,mbarrier,stage,phase,k_iter,bytes,remote",
        ],
    ),
    "smem-addresses": Style(
        {
            "wait": "cta{cta} w{warp} {role}: test_wait.parity <{bar}#{st}>{own} parity={ph} -> 0, looping",
            "done": "cta{cta} w{warp} {role}: test_wait.parity <{bar}#{st}>{own} parity={ph} -> 1",
            "arrive": "cta{cta} w{warp} {role}: mbarrier.arrive <{bar}#{st}>{far}",
            "expect": "cta{cta} w{warp} {role}: mbarrier.arrive.expect_tx <{bar}#{st}>{far}, {bytes:#x}",
            "copy": "cta{cta} w{warp} {role}: cp.async.bulk.tensor mbar=<{bar}#{st}>{far} size={bytes:#x}",
            "enter": "cta{cta} w{warp} {role}: {api} -> blocking",
            "leave": "cta{cta} w{warp} {role}: {api} -> through",
            "call": "cta{cta} w{warp} {role}: {api}",
            "note": "cta{cta} w{warp} {role}: {text}",
        },
        roles=UPPER,
        bar=_suffixed("_bar"),
        own="@{owner}",
        to="@{to}",
        head=_storage,
        whole=_addressed,
        sync="barrier.sync {number}, {size}",
    ),
    "tk-waits": Style(
        {
            "wait": "(blk {cta}) {role}: wait({bar}[{st}], {ph}){own}{kk} ...",
            "done": "(blk {cta}) {role}: wait({bar}[{st}], {ph}){own}{kk} ... done",
            "arrive": "(blk {cta}) {role}: arrive({bar}[{st}]){far}{kk}",
            "expect": "(blk {cta}) {role}: tma::expect_bytes({bar}[{st}], {bytes}){far}{kk}",
            "copy": "(blk {cta}) {role}: tma::load_async(.., {bar}[{st}]){far}{kk} [{bytes} bytes]",
            "enter": "(blk {cta}) {role}: {api} ...",
            "leave": "(blk {cta}) {role}: {api} ... done",
            "call": "(blk {cta}) {role}: {api}",
            "note": "(blk {cta}) {role}: {text}",
        },
        roles=KITTENS,
        bar=_suffixed("", {"full": "arrived", "empty": "finished", "free": "finished"}),
        own=" <- blk {owner} smem",
        to=" -> blk {to} smem",
        k=" i={k}",
        head=lambda case, style: [
            "note: expect_bytes is the arrival too (mbarrier.arrive.expect_tx), semaphores are mbarriers"
        ],
        sync="group<8>::sync({number})",
    ),
    "warp-rings": Style(
        {
            "wait": "{cta}|{warp}|{role}|{t}|begin|mbar_wait {bar}[{st}]{own} phase={ph}{kk}",
            "done": "{cta}|{warp}|{role}|{t}|end|",
            "arrive": "{cta}|{warp}|{role}|{t}|once|mbar_arrive {bar}[{st}]{far}{kk}",
            "expect": "{cta}|{warp}|{role}|{t}|once|mbar_arrive_expect_tx {bar}[{st}]{far} tx={bytes}{kk}",
            "copy": "{cta}|{warp}|{role}|{t}|once|tma_load {bar}[{st}]{far} bytes={bytes}{kk}",
            "enter": "{cta}|{warp}|{role}|{t}|begin|{api}",
            "leave": "{cta}|{warp}|{role}|{t}|end|",
            "call": "{cta}|{warp}|{role}|{t}|once|{api}",
            "note": "{cta}|{warp}|{role}|{t}|once|{text}",
        },
        roles=WARP,
        bar=_suffixed("_mb"),
        own=" of cta {owner}",
        to=" of cta {to}",
        k=" k={k}",
        whole=_rings,
    ),
    "op-columns": Style(
        {
            "wait": "{t:5} {cta:3} {warp:3} {role:<9} HOLD     {bar:<18} {st:3} {ph:3} {k:4}  {own}",
            "done": "{t:5} {cta:3} {warp:3} {role:<9} PASS     {bar:<18} {st:3} {ph:3} {k:4}  {own}",
            "arrive": "{t:5} {cta:3} {warp:3} {role:<9} ARV      {bar:<18} {st:3}   - {k:4}  {far}",
            "expect": "{t:5} {cta:3} {warp:3} {role:<9} ARV_TX   {bar:<18} {st:3}   - {k:4}  tx={bytes} {far}",
            "copy": "{t:5} {cta:3} {warp:3} {role:<9} TMA_LD   {bar:<18} {st:3}   - {k:4}  sz={bytes} {far}",
            "enter": "{t:5} {cta:3} {warp:3} {role:<9} HOLD     {api}",
            "leave": "{t:5} {cta:3} {warp:3} {role:<9} PASS     {api}",
            "call": "{t:5} {cta:3} {warp:3} {role:<9} CALL     {api}",
            "note": "{t:5} {cta:3} {warp:3} {role:<9} MSG      {text}",
        },
        roles=SHORT,
        bar=_behind,
        own="bar_in_blk={owner}",
        to="bar_in_blk={to}",
        head=_columns,
    ),
    "tl-print": Style(
        {
            "wait": "msg='{role} at wait_parity({bar}[{st}]{own}), parity' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0): dtype=int value={ph}",
            "done": "msg='{role} past wait_parity({bar}[{st}]{own}), parity' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0): dtype=int value={ph}",
            "arrive": "msg='{role} did arrive({bar}[{st}]{far}), ko' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0): dtype=int value={k}",
            "expect": "msg='{role} did arrive_expect_tx({bar}[{st}]{far}), bytes' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0): dtype=int value={bytes}",
            "copy": "msg='{role} did tma_load({bar}[{st}]{far}), bytes' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0): dtype=int value={bytes}",
            "enter": "msg='{role} at {api}' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0)",
            "leave": "msg='{role} past {api}' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0)",
            "call": "msg='{role} did {api}' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0)",
            "note": "msg='{role}: {text}' BlockIdx=({cta}, 0, 0), ThreadIdx=({tid}, 0, 0)",
        },
        roles=DMA,
        bar=_suffixed("_mbar", {"full": "loaded", "empty": "released", "free": "released"}),
        own=", cta={owner}",
        to=", cta={to}",
        sync="sync_threads({number}, {size})",
    ),
    "zh-printf": Style(
        {
            "wait": "[blk{cta}][{role} warp] 准备等 {bar}[{st}]{own}, phase={ph}{kk}",
            "done": "[blk{cta}][{role} warp] 等到了 {bar}[{st}]{own}, phase={ph}{kk}",
            "arrive": "[blk{cta}][{role} warp] arrive 一次 {bar}[{st}]{far}{kk}",
            "expect": "[blk{cta}][{role} warp] arrive 一次 {bar}[{st}]{far}, expect_tx={bytes}{kk}",
            "copy": "[blk{cta}][{role} warp] 发出 TMA, 挂在 {bar}[{st}]{far}, 大小={bytes}{kk}",
            "enter": "[blk{cta}][{role} warp] 准备等 {api}",
            "leave": "[blk{cta}][{role} warp] 等到了 {api}",
            "call": "[blk{cta}][{role} warp] 调用 {api}",
            "note": "[blk{cta}][{role} warp] {text}",
        },
        roles=UPPER,
        bar=_suffixed("_bar", TMEM),
        own=" (blk{owner} 上的)",
        to=" (blk{to} 上的)",
        k=", k={k}",
    ),
    "ja-printf": Style(
        {
            "wait": "cta={cta} {role}: {bar}[{st}]{own} wait入る ph={ph}{kk}",
            "done": "cta={cta} {role}: {bar}[{st}]{own} wait抜けた ph={ph}{kk}",
            "arrive": "cta={cta} {role}: {bar}[{st}]{far} arriveした{kk}",
            "expect": "cta={cta} {role}: {bar}[{st}]{far} arrive_expect_txした tx={bytes}{kk}",
            "copy": "cta={cta} {role}: {bar}[{st}]{far} TMA投げた size={bytes}{kk}",
            "enter": "cta={cta} {role}: {api} 入る",
            "leave": "cta={cta} {role}: {api} 抜けた",
            "call": "cta={cta} {role}: {api} 呼んだ",
            "note": "cta={cta} {role}: {text}",
        },
        roles=WARP,
        own="(cta={owner}側)",
        to="(cta={to}側)",
        k=" k={k}",
        bar=_behind,
    ),
    "de-printf": Style(
        {
            "wait": "B{cta} {role}, Runde {k}: haenge an {bar}, Puffer {st}{own}",
            "done": "B{cta} {role}, Runde {k}: vorbei an {bar}, Puffer {st}{own}",
            "arrive": "B{cta} {role}, Runde {k}: arrive auf {bar}, Puffer {st}{far}",
            "expect": "B{cta} {role}, Runde {k}: arrive auf {bar}, Puffer {st}{far}, {bytes} Byte sollen kommen",
            "copy": "B{cta} {role}, Runde {k}: TMA gestartet auf {bar}, Puffer {st}{far}, {bytes} Byte",
            "enter": "B{cta} {role}: haenge an {api}",
            "leave": "B{cta} {role}: vorbei an {api}",
            "call": "B{cta} {role}: rufe {api}",
            "note": "B{cta} {role}: {text}",
        },
        roles=DE,
        bar=_suffixed("_bar"),
        own=" (liegt in B{owner})",
        to=" (liegt in B{to})",
        shows=("bytes", "stage", "to"),
        aka=lambda role: (DE[role].removesuffix("-Warp"),),
    ),
    "ko-printf": Style(
        {
            "wait": "{role} cta{cta} > {bar}[{st}]{own} wait 걸림, phase {ph}{kk}",
            "done": "{role} cta{cta} > {bar}[{st}]{own} wait 풀림, phase {ph}{kk}",
            "arrive": "{role} cta{cta} > {bar}[{st}]{far} arrive 함{kk}",
            "expect": "{role} cta{cta} > {bar}[{st}]{far} arrive 함, expect_tx {bytes}{kk}",
            "copy": "{role} cta{cta} > {bar}[{st}]{far} TMA 쐈음, {bytes} B{kk}",
            "enter": "{role} cta{cta} > {api} 걸림",
            "leave": "{role} cta{cta} > {api} 풀림",
            "call": "{role} cta{cta} > {api} 호출함",
            "note": "{role} cta{cta} > {text}",
        },
        roles=FLASH,
        bar=lambda name: "mbar_" + _bare(name),
        own=" (cta{owner} 꺼)",
        to=" (cta{to} 꺼)",
        k=", iter {k}",
    ),
    "ru-printf": Style(
        {
            "wait": "блок {cta} {role}{kk}: жду {bar}[{st}]{own} фаза={ph}",
            "done": "блок {cta} {role}{kk}: прошёл {bar}[{st}]{own} фаза={ph}",
            "arrive": "блок {cta} {role}{kk}: сделал arrive на {bar}[{st}]{far}",
            "expect": "блок {cta} {role}{kk}: сделал arrive.expect_tx на {bar}[{st}]{far} байт={bytes}",
            "copy": "блок {cta} {role}{kk}: пустил TMA на {bar}[{st}]{far} байт={bytes}",
            "enter": "блок {cta} {role}: жду {api}",
            "leave": "блок {cta} {role}: прошёл {api}",
            "call": "блок {cta} {role}: сделал {api}",
            "note": "блок {cta} {role}: {text}",
        },
        roles=SHORT,
        own=" (блок {owner})",
        to=" (блок {to})",
        k=" итер {k}",
        bar=_suffixed("", {"full": "ready", "empty": "free"}),
    ),
}
