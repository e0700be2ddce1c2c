# ruff: noqa: E501 - log lines are kept whole
"""The eighth exam: prints of kernel engineers in a hurry, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

HASTY = {
    "load": "TMAld", "mma": "UMMA", "epi": "EPIst", "softmax0": "SFM0", "softmax1": "SFM1", "main": "WGMATH",
    "tma": "TMAld", "issue": "UMMA", "compute": "ELTWISE", "reduce": "DQRED", "sched": "TSCHED",
    "loader": "TMAld", "tensor": "UMMA", "epilogue": "EPIst", "fetch": "TMAld", "head": "WGMATH",
}  # fmt: skip
GROUPS = {
    "load": "producer_wg", "mma": "issuer_wg", "epi": "storer_wg", "softmax0": "consumer_wg0",
    "softmax1": "consumer_wg1", "main": "consumer_wg", "tma": "producer_wg", "issue": "issuer_wg",
    "compute": "consumer_wg", "reduce": "dq_writer_wg", "sched": "persistent_sched", "loader": "producer_wg",
    "tensor": "issuer_wg", "epilogue": "storer_wg", "fetch": "producer_wg", "head": "consumer_wg",
}  # fmt: skip
CAMEL = {
    "load": "TmaLoad", "mma": "MmaIssue", "epi": "EpilogueStore", "softmax0": "SoftmaxTop",
    "softmax1": "SoftmaxBottom", "main": "Accumulate", "tma": "TmaLoad", "issue": "MmaIssue",
    "compute": "ElementWise", "reduce": "ReduceDq", "sched": "TileScheduler", "loader": "TmaLoad",
    "tensor": "MmaIssue", "epilogue": "EpilogueStore", "fetch": "TmaLoad", "head": "Combine",
}  # fmt: skip
SPACED = {
    "load": "TMA load warp", "mma": "MMA issue warp", "epi": "epilogue warp", "softmax0": "softmax-0 warp",
    "softmax1": "softmax-1 warp", "main": "math warp", "tma": "TMA load warp", "issue": "MMA issue warp",
    "compute": "math warp", "reduce": "reduce warp", "sched": "scheduler warp", "loader": "TMA load warp",
    "tensor": "MMA issue warp", "epilogue": "epilogue warp", "fetch": "TMA load warp", "head": "math warp",
}  # fmt: skip
FWD = {
    "load": "loader", "mma": "mma_issue", "epi": "out_store", "softmax0": "softmax_lo", "softmax1": "softmax_hi",
    "main": "accumulate", "tma": "load_k_do", "issue": "mma_bwd", "compute": "ds_compute",
    "reduce": "dq_reduce", "sched": "tile_fetcher", "loader": "load_ab", "tensor": "mma_ab",
    "epilogue": "store_d", "fetch": "load_kv", "head": "merge_splits",
}  # fmt: skip
WARPS = {
    "load": "dma_warp", "mma": "mma_warp", "epi": "st_warp", "softmax0": "sfx_a_warp",
    "softmax1": "sfx_b_warp", "main": "acc_warp", "tma": "dma_warp", "issue": "mma_warp",
    "compute": "ew_warp", "reduce": "red_warp", "sched": "clc_warp", "loader": "dma_warp",
    "tensor": "mma_warp", "epilogue": "st_warp", "fetch": "dma_warp", "head": "acc_warp",
}  # fmt: skip
PLAIN = {
    "load": "producer", "mma": "mma", "epi": "epilogue", "softmax0": "softmax0", "softmax1": "softmax1",
    "main": "math", "tma": "producer", "issue": "mma", "compute": "math", "reduce": "reduction",
    "sched": "scheduler", "loader": "producer", "tensor": "mma", "epilogue": "epilogue",
    "fetch": "producer", "head": "math",
}  # fmt: skip


def _bare(name: str) -> str:
    return name.removeprefix("bar_")


def _state_first(name: str) -> str:
    """kv_full as full_kv."""
    what, _, state = _bare(name).rpartition("_")
    return f"{state}_{what}" if what else state


def _named(suffix: str = "", **pairs: str) -> Callable[[str], str]:
    """Parts of a name replaced, and a suffix added."""
    part = replaced(pairs)
    return lambda name: part(_bare(name)) + suffix


def _deep(name: str) -> str:
    """smem_full as full_barriers, acc_full as tmem_full_barriers."""
    return replaced({"acc": "tmem", "d": "tmem"})(_bare(name).removeprefix("smem_")) + "_barriers"


def _no_warp(role: str) -> tuple[str, ...]:
    """The name without its ending, which a log may give as a mere description."""
    return (re.sub(r"[ _](warp|wg)$", "", role),)


# --- waits that print how long they took


def _took(lines: list[str]) -> list[str]:
    begun: dict[str, int] = {}
    found = []
    for line in lines:
        clock, who = line[1:].split("] ")[0], line.split("] ")[1].split(" :: ")[0]
        if "{took}" in line:
            line = line.replace("{took}", str(int(clock) - begun[who]))
        begun[who] = int(clock)
        found.append(line)
    return found


# --- calls with addresses of mbarriers, and a legend that names each address


def _legend(case: Case, style: Style) -> list[str]:
    rows, at = [], 0x38000
    for name, (stages, _) in barriers(case).items():
        for stage in range(stages):
            rows.append(f"//   0x{at + 8 * stage:05x} {style.bar(name)}[{stage}]")
        at += 8 * stages + 8 * (stages & 1)
    return [
        "// cvta_shared of the mbarriers, same in all CTAs:",
        *rows,
        "// wait(addr, parity): 'enter' before the spin, 'leave' after it. mapa(addr, r) = that of cluster rank r,",
        "// cta_mask = multicast to those ranks, plain addr = our own",
    ]


def _addresses(lines: list[str]) -> list[str]:
    """The names of barriers in the lines become the addresses of the legend."""
    known = {found[2]: found[1] for line in lines if (found := re.match(r"//   (0x\w+) (\S+)$", line))}

    def address(found: re.Match[str]) -> str:
        at, ranks = known[found[1]], (found[2] or "").removeprefix(" of ")
        if "," in ranks:
            return f"{at}, cta_mask={sum(1 << int(rank) for rank in ranks.split(',')):#x}"
        return f"mapa({at}, {ranks})" if ranks else at

    return [re.sub(r"<(\w+\[\d+\])>( of \d+(?:,\d+)*)?", address, line) for line in lines]


# --- a YAML dump by warp, a wait with both of its times


def _by_warp(lines: list[str]) -> list[str]:
    warps: dict[tuple[str, str], list[list[str]]] = {}
    for line in lines:
        cta, role, clock, edge, text = line.split("|", 4)
        rows = warps.setdefault((cta, role), [])
        if edge == "out":
            rows[-1][1] = clock
        else:
            rows.append([clock, "~" if edge == "in" else "", text])
    found = [
        "# one list per warp, in program order; out: ~ means it was still in there when we killed the job"
    ]
    for (cta, role), rows in sorted(warps.items()):
        found.append(f"cta{cta}_{role}:")
        found += [
            f"  - {{{text}, in: {begin}, out: {end}}}" if end else f"  - {{{text}, at: {begin}}}"
            for begin, end, text in rows
        ]
    return found


# --- a table for each CTA


def _by_cta(lines: list[str]) -> list[str]:
    ctas: dict[str, list[str]] = {}
    for line in lines:
        cta, _, row = line.partition("|")
        ctas.setdefault(cta, []).append(row.rstrip())
    found = []
    for cta, rows in sorted(ctas.items()):
        found += [
            f"======== CTA {cta} ({len(rows)} records; seq counts over all CTAs) ========",
            "  seq  group             what      mbarrier         slot  pbit  iter",
            *rows,
            "",
        ]
    return found


def _launch(case: Case, style: Style) -> list[str]:
    ctas = 1 + max(cta for _, cta in case.kernel.programs)
    return [f"grid=({ctas},1,1) cluster=({ctas},1,1) block=(384,1,1) smem=227KB dbg=1"]


STYLES: dict[str, Style] = {
    "thru": Style(
        {
            "wait": "c{cta} {role} #{k} wait {bar}({st}) par{ph}{own}",
            "done": "c{cta} {role} #{k} thru {bar}({st}) par{ph}{own}",
            "arrive": "c{cta} {role} #{k} sig {bar}({st}){far}",
            "expect": "c{cta} {role} #{k} sig+tx {bar}({st}) {bytes}B{far}",
            "copy": "c{cta} {role} #{k} tma ld {bar}({st}) {bytes}B{far}",
            "enter": "c{cta} {role} wait {api}",
            "leave": "c{cta} {role} thru {api}",
            "call": "c{cta} {role} {api}",
            "note": "c{cta} {role} {text}",
        },
        roles=HASTY,
        bar=_named(smem="ab", acc="tmem", d="tmem"),
        own=" on c{owner}",
        to=" on c{to}",
        head=_launch,
        sync="bar.sync id={number} nthr={size}",
    ),
    "took": Style(
        {
            "wait": "[{t}] blk{cta}.w{warp}.{role} :: wait for {bar} buf{st} (parity {ph}){own}{kk}",
            "done": "[{t}] blk{cta}.w{warp}.{role} :: wait for {bar} buf{st} (parity {ph}){own}{kk} took {{took}} clk",
            "arrive": "[{t}] blk{cta}.w{warp}.{role} :: mbar arrive {bar} buf{st}{far}{kk}",
            "expect": "[{t}] blk{cta}.w{warp}.{role} :: mbar arrive+expect_tx {bar} buf{st}{far}{kk}",
            "copy": "[{t}] blk{cta}.w{warp}.{role} :: tma fire, lands on {bar} buf{st}{far}{kk}",
            "enter": "[{t}] blk{cta}.w{warp}.{role} :: wait for {api}",
            "leave": "[{t}] blk{cta}.w{warp}.{role} :: wait for {api} took {{took}} clk",
            "call": "[{t}] blk{cta}.w{warp}.{role} :: {api}",
            "note": "[{t}] blk{cta}.w{warp}.{role} :: {text}",
        },
        roles=PLAIN,
        bar=_state_first,
        own=" in blk{owner}",
        to=" in blk{to}",
        k=" i={k}",
        whole=_took,
        shows=("phase", "stage", "to"),
        sync="NamedBarrier(id={number}, threads={size}).sync()",
    ),
    "wait-addr": Style(
        {
            "wait": "cta_rank={cta} wid={warp:<2} {role}: wait(<{bar}[{st}]>{own}, {ph}) enter",
            "done": "cta_rank={cta} wid={warp:<2} {role}: wait(<{bar}[{st}]>{own}, {ph}) leave",
            "arrive": "cta_rank={cta} wid={warp:<2} {role}: arrive(<{bar}[{st}]>{far})",
            "expect": "cta_rank={cta} wid={warp:<2} {role}: arrive_and_expect_tx(<{bar}[{st}]>{far}, {bytes})",
            "copy": "cta_rank={cta} wid={warp:<2} {role}: tma_load_3d(mbar=<{bar}[{st}]>{far}, nbytes={bytes})",
            "enter": "cta_rank={cta} wid={warp:<2} {role}: {api} enter",
            "leave": "cta_rank={cta} wid={warp:<2} {role}: {api} leave",
            "call": "cta_rank={cta} wid={warp:<2} {role}: {api}",
            "note": "cta_rank={cta} wid={warp:<2} {role}: {text}",
        },
        roles=WARPS,
        bar=_named("_bar", smem="tile"),
        own=" of {owner}",
        to=" of {to}",
        head=_legend,
        whole=_addresses,
        aka=_no_warp,
        sync="bar_sync(id {number}, {size} thr)",
    ),
    "rfc5424": Style(
        {
            "wait": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 MBWAIT_ENTRY [k cta="{cta}" wg="{role}" bar="{bar}" ix="{st}" par="{ph}"{own}{kk}]',
            "done": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 MBWAIT_EXIT [k cta="{cta}" wg="{role}" bar="{bar}" ix="{st}" par="{ph}"{own}{kk}]',
            "arrive": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 MBARRIVE [k cta="{cta}" wg="{role}" bar="{bar}" ix="{st}"{far}{kk}]',
            "expect": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 MBARRIVE [k cta="{cta}" wg="{role}" bar="{bar}" ix="{st}" expect_tx="{bytes}"{far}{kk}]',
            "copy": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 TMALOAD [k cta="{cta}" wg="{role}" bar="{bar}" ix="{st}" bytes="{bytes}"{far}{kk}]',
            "enter": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 CALL_ENTRY [k cta="{cta}" wg="{role}" fn="{api}"]',
            "leave": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 CALL_EXIT [k cta="{cta}" wg="{role}" fn="{api}"]',
            "call": '<15>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 CALL [k cta="{cta}" wg="{role}" fn="{api}"]',
            "note": '<14>1 2026-06-02T10:41:07.{n:06d}Z gb200-07 wsdump 22114 TEXT [k cta="{cta}" wg="{role}"] {text}',
        },
        roles=GROUPS,
        own=' bar_cta="{owner}"',
        to=' bar_cta="{to}"',
        k=' it="{k}"',
        bar=_named(full="filled", empty="drained"),
        aka=_no_warp,
        sync="named_barrier_sync(id={number}, n={size})",
    ),
    "boost-log": Style(
        {
            "wait": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]   ENT mbar_wait  rank={cta} {role} {bar}:{st}{own} ph:{ph}{kk}",
            "done": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]   RET mbar_wait  rank={cta} {role} {bar}:{st}{own} ph:{ph}{kk}",
            "arrive": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]       mbar_arv   rank={cta} {role} {bar}:{st}{far}{kk}",
            "expect": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]       mbar_arvtx rank={cta} {role} {bar}:{st}{far} tx:{bytes}{kk}",
            "copy": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]       tma_g2s    rank={cta} {role} {bar}:{st}{far} sz:{bytes}{kk}",
            "enter": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]   ENT {api}  rank={cta} {role}",
            "leave": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]   RET {api}  rank={cta} {role}",
            "call": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [trace]       {api}  rank={cta} {role}",
            "note": "[2026-06-02 10:41:07.{n:06d}] [0x00007f2ac41ff6c0] [info]        rank={cta} {role} says {text}",
        },
        roles=FWD,
        bar=camel,
        own="(rank={owner})",
        to="(rank={to})",
        k=" kb:{k}",
        sync="barrier_sync<{number}>({size})",
    ),
    "structlog": Style(
        {
            "wait": "2026-06-02T10:41:07.{n:06d}Z [debug    ] mbarrier spin begins           [kernels.wsdebug] blk={cta} {kk}mbar={bar}{own} parity={ph} stg={st} warp={role}",
            "done": "2026-06-02T10:41:07.{n:06d}Z [debug    ] mbarrier spin over             [kernels.wsdebug] blk={cta} {kk}mbar={bar}{own} parity={ph} stg={st} warp={role}",
            "arrive": "2026-06-02T10:41:07.{n:06d}Z [debug    ] mbarrier arrive                [kernels.wsdebug] blk={cta} {kk}mbar={bar}{far} stg={st} warp={role}",
            "expect": "2026-06-02T10:41:07.{n:06d}Z [debug    ] mbarrier arrive.expect_tx      [kernels.wsdebug] blk={cta} {kk}mbar={bar}{far} nbytes={bytes} stg={st} warp={role}",
            "copy": "2026-06-02T10:41:07.{n:06d}Z [debug    ] tma load                       [kernels.wsdebug] blk={cta} {kk}mbar={bar}{far} nbytes={bytes} stg={st} warp={role}",
            "enter": "2026-06-02T10:41:07.{n:06d}Z [debug    ] call begins                    [kernels.wsdebug] blk={cta} fn='{api}' warp={role}",
            "leave": "2026-06-02T10:41:07.{n:06d}Z [debug    ] call over                      [kernels.wsdebug] blk={cta} fn='{api}' warp={role}",
            "call": "2026-06-02T10:41:07.{n:06d}Z [debug    ] call                           [kernels.wsdebug] blk={cta} fn='{api}' warp={role}",
            "note": "2026-06-02T10:41:07.{n:06d}Z [info     ] {text:<30} [kernels.wsdebug] blk={cta} warp={role}",
        },
        roles=PLAIN,
        bar=_named("_mb", smem="ab", acc="accum", d="accum"),
        own=" mbar_blk={owner}",
        to=" mbar_blk=[{to}]",
        k="ki={k} ",
        sync="barrier(id={number}, threads={size})",
    ),
    "perfetto-text": Style(
        {
            "wait": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_SLICE_BEGIN name: "wait {bar}[{st}]{own} phase={ph}{kk}" }}',
            "done": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_SLICE_END }}',
            "arrive": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_INSTANT name: "arrive {bar}[{st}]{far}{kk}" }}',
            "expect": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_INSTANT name: "arrive {bar}[{st}]{far} expect_tx={bytes}{kk}" }}',
            "copy": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_INSTANT name: "tma_load {bar}[{st}]{far} bytes={bytes}{kk}" }}',
            "enter": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_SLICE_BEGIN name: "{api}" }}',
            "leave": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_SLICE_END }}',
            "call": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_INSTANT name: "{api}" }}',
            "note": 'track_event {{ timestamp: {t} track: "cta{cta}/{role}" type: TYPE_INSTANT name: "{text}" }}',
        },
        roles=WARPS,
        bar=_named(),
        own=" owner=cta{owner}",
        to=" dst=cta{to}",
        k=" it={k}",
        aka=_no_warp,
        sync="bar.sync {number} ({size} threads)",
    ),
    "jsonl-edge": Style(
        {
            "wait": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"mbarWait","edge":"begin","mbar":{{"id":"{bar}","i":{st},"blk":{owner}}},"bit":{ph},"it":{k}}}',
            "done": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"mbarWait","edge":"end","mbar":{{"id":"{bar}","i":{st},"blk":{owner}}},"bit":{ph},"it":{k}}}',
            "arrive": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"mbarArrive","mbar":{{"id":"{bar}","i":{st},"blks":[{to}]}},"it":{k}}}',
            "expect": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"mbarArriveExpectTx","mbar":{{"id":"{bar}","i":{st},"blks":[{to}]}},"txBytes":{bytes},"it":{k}}}',
            "copy": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"tmaLoad","mbar":{{"id":"{bar}","i":{st},"blks":[{to}]}},"boxBytes":{bytes},"it":{k}}}',
            "enter": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"{api}","edge":"begin"}}',
            "leave": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"{api}","edge":"end"}}',
            "call": '{{"clk":{t},"blk":{cta},"wg":"{role}","fn":"{api}"}}',
            "note": '{{"clk":{t},"blk":{cta},"wg":"{role}","txt":"{text}"}}',
        },
        roles=CAMEL,
        bar=lambda name: camel(_state_first(name)),
        sync="namedBarrier({number},{size})",
    ),
    "yaml-warps": Style(
        {
            "wait": "{cta}|{role}|{t}|in|op: wait, bar: {bar}, buf: {st}, ph: {ph}{own}{kk}",
            "done": "{cta}|{role}|{t}|out|",
            "arrive": "{cta}|{role}|{t}|once|op: arrive, bar: {bar}, buf: {st}{far}{kk}",
            "expect": "{cta}|{role}|{t}|once|op: arrive_expect_tx, bar: {bar}, buf: {st}, tx: {bytes}{far}{kk}",
            "copy": "{cta}|{role}|{t}|once|op: tma_load, bar: {bar}, buf: {st}, size: {bytes}{far}{kk}",
            "enter": '{cta}|{role}|{t}|in|op: "{api}"',
            "leave": "{cta}|{role}|{t}|out|",
            "call": '{cta}|{role}|{t}|once|op: "{api}"',
            "note": '{cta}|{role}|{t}|once|msg: "{text}"',
        },
        roles=FWD,
        bar=_named(full="ready", empty="released", free="released"),
        own=", bar_cta: {owner}",
        to=", bar_cta: [{to}]",
        k=", i: {k}",
        whole=_by_warp,
        sync="named_barrier {number} x{size}",
    ),
    "tsv": Style(
        {
            "wait": "{t}\t{cta}\t{role}\tWBEG\t{bar}\t{st}\t{ph}\t{k}\t-\t{owner}",
            "done": "{t}\t{cta}\t{role}\tWEND\t{bar}\t{st}\t{ph}\t{k}\t-\t{owner}",
            "arrive": "{t}\t{cta}\t{role}\tARRIVE\t{bar}\t{st}\t-\t{k}\t-\t{to}",
            "expect": "{t}\t{cta}\t{role}\tARRIVE_TX\t{bar}\t{st}\t-\t{k}\t{bytes}\t{to}",
            "copy": "{t}\t{cta}\t{role}\tTMA_G2S\t{bar}\t{st}\t-\t{k}\t{bytes}\t{to}",
            "enter": "{t}\t{cta}\t{role}\tWBEG\t{api}\t-\t-\t-\t-\t-",
            "leave": "{t}\t{cta}\t{role}\tWEND\t{api}\t-\t-\t-\t-\t-",
            "call": "{t}\t{cta}\t{role}\tEXEC\t{api}\t-\t-\t-\t-\t-",
            "note": "{t}\t{cta}\t{role}\tMSG\t{text}\t-\t-\t-\t-\t-",
        },
        roles=HASTY,
        bar=_state_first,
        head=lambda case, style: [
            "clock64\tctaRank\twarpRole\tevent\tmbarrier\tslot\tparity\tkIter\tbytes\tmbarCtaRank"
        ],
        sync="bar.sync {number} {size}",
    ),
    "stringized": Style(
        {
            "wait": "KTRACE mainloop_ws.cuh:188 <{cta}/{role}> calling {bar}[stage].wait(phase) | stage={st} phase={ph}{own}{kk}",
            "done": "KTRACE mainloop_ws.cuh:188 <{cta}/{role}> survived {bar}[stage].wait(phase) | stage={st} phase={ph}{own}{kk}",
            "wait back": "KTRACE mainloop_ws.cuh:131 <{cta}/{role}> calling {bar}[stage].wait(phase) | stage={st} phase={ph}{own}{kk}",
            "done back": "KTRACE mainloop_ws.cuh:131 <{cta}/{role}> survived {bar}[stage].wait(phase) | stage={st} phase={ph}{own}{kk}",
            "arrive": "KTRACE mainloop_ws.cuh:207 <{cta}/{role}> did {bar}[stage].arrive(dst_cta) | stage={st}{far}{kk}",
            "arrive back": "KTRACE mainloop_ws.cuh:203 <{cta}/{role}> did {bar}[stage].arrive(dst_cta) | stage={st}{far}{kk}",
            "expect": "KTRACE mainloop_ws.cuh:134 <{cta}/{role}> did {bar}[stage].arrive_and_expect_tx(nbytes) | stage={st} nbytes={bytes}{far}{kk}",
            "copy": "KTRACE mainloop_ws.cuh:137 <{cta}/{role}> did tma_load(desc, {bar}[stage], nbytes) | stage={st} nbytes={bytes}{far}{kk}",
            "enter": "KTRACE mainloop_ws.cuh:240 <{cta}/{role}> calling {api} |",
            "leave": "KTRACE mainloop_ws.cuh:240 <{cta}/{role}> survived {api} |",
            "call": "KTRACE mainloop_ws.cuh:244 <{cta}/{role}> did {api} |",
            "note": "KTRACE mainloop_ws.cuh:251 <{cta}/{role}> {text} |",
        },
        roles=GROUPS,
        bar=_named("_bar", smem="tile"),
        own=" bar_cta={owner}",
        to=" dst_cta={to}",
        k=" k_tile={k}",
        head=lambda case, style: ["# <blockIdx.x/role>; dst_cta only printed when it is not our own"],
        aka=_no_warp,
        sync="named_bar_sync(/*id=*/{number}, /*threads=*/{size})",
    ),
    "cta-tables": Style(
        {
            "wait": "{cta}|{n:5}  {role:<16}  blocks    {bar:<15}  {st:>4}  {ph:>4}  {k:>4}  {own}",
            "done": "{cta}|{n:5}  {role:<16}  clears    {bar:<15}  {st:>4}  {ph:>4}  {k:>4}  {own}",
            "arrive": "{cta}|{n:5}  {role:<16}  arrives   {bar:<15}  {st:>4}     .  {k:>4}  {far}",
            "expect": "{cta}|{n:5}  {role:<16}  arrives   {bar:<15}  {st:>4}     .  {k:>4}  expect_tx={bytes} {far}",
            "copy": "{cta}|{n:5}  {role:<16}  tma       {bar:<15}  {st:>4}     .  {k:>4}  bytes={bytes} {far}",
            "enter": "{cta}|{n:5}  {role:<16}  blocks    {api}",
            "leave": "{cta}|{n:5}  {role:<16}  clears    {api}",
            "call": "{cta}|{n:5}  {role:<16}  calls     {api}",
            "note": "{cta}|{n:5}  {role:<16}  says      {text}",
        },
        roles=GROUPS,
        bar=_named(acc="tmem", d="tmem"),
        own="mbarrier of CTA {owner}",
        to="mbarrier of CTA {to}",
        whole=_by_cta,
        aka=_no_warp,
        sync="barrier.sync({number}, {size})",
    ),
    "deep-gemm": Style(
        {
            "wait": "[dg] cta {cta} | {role} | k_iter {k} | will wait {bar}[{st}] phase {ph}{own}",
            "done": "[dg] cta {cta} | {role} | k_iter {k} | did wait {bar}[{st}] phase {ph}{own}",
            "arrive": "[dg] cta {cta} | {role} | k_iter {k} | {bar}[{st}] arrive{far}",
            "expect": "[dg] cta {cta} | {role} | k_iter {k} | {bar}[{st}] arrive_and_expect_tx {bytes}{far}",
            "copy": "[dg] cta {cta} | {role} | k_iter {k} | {bar}[{st}] tma_copy {bytes} bytes{far}",
            "enter": "[dg] cta {cta} | {role} | will wait {api}",
            "leave": "[dg] cta {cta} | {role} | did wait {api}",
            "call": "[dg] cta {cta} | {role} | {api}",
            "note": "[dg] cta {cta} | {role} | {text}",
        },
        roles=SPACED,
        bar=_deep,
        own=" (cta {owner} smem)",
        to=" (cta {to} smem)",
        aka=_no_warp,
        sync="NamedBarrier::sync({size} threads, id {number})",
    ),
    "py-logging": Style(
        {
            "wait": "DEBUG:fa_sm100.devlog:{role} cta {cta} gonna wait {bar} idx {st}{own} phase {ph}{kk}",
            "done": "DEBUG:fa_sm100.devlog:{role} cta {cta} wait ok {bar} idx {st}{own} phase {ph}{kk}",
            "arrive": "DEBUG:fa_sm100.devlog:{role} cta {cta} mbarrier_arrive {bar} idx {st}{far}{kk}",
            "expect": "DEBUG:fa_sm100.devlog:{role} cta {cta} mbarrier_arrive_and_expect_tx {bar} idx {st}{far} bytes {bytes}{kk}",
            "copy": "DEBUG:fa_sm100.devlog:{role} cta {cta} tma copy kicked {bar} idx {st}{far} bytes {bytes}{kk}",
            "enter": "DEBUG:fa_sm100.devlog:{role} cta {cta} gonna wait {api}",
            "leave": "DEBUG:fa_sm100.devlog:{role} cta {cta} wait ok {api}",
            "call": "DEBUG:fa_sm100.devlog:{role} cta {cta} {api}",
            "note": "DEBUG:fa_sm100.devlog:{role} cta {cta} {text}",
        },
        roles=FWD,
        bar=lambda name: _bare(name) + "_mbar",
        own=" @ cta {owner}",
        to=" @ cta {to}",
        k=" n_block {k}",
        head=lambda case, style: [
            "INFO:fa_sm100.devlog:kernel did not return after 20 s, copying the device log back"
        ],
        sync="cute.arch.barrier(barrier_id={number}, number_of_threads={size})",
    ),
    "zh-in-out": Style(
        {
            "wait": "blk{cta} {role} 第{k}轮: 进 wait {bar}[{st}]{own} phase={ph}",
            "done": "blk{cta} {role} 第{k}轮: 出 wait {bar}[{st}]{own} phase={ph}",
            "arrive": "blk{cta} {role} 第{k}轮: 打了 arrive {bar}[{st}]{far}",
            "expect": "blk{cta} {role} 第{k}轮: 打了 arrive(带 expect_tx) {bar}[{st}]{far}",
            "copy": "blk{cta} {role} 第{k}轮: 下发 TMA load, barrier 是 {bar}[{st}]{far}",
            "enter": "blk{cta} {role}: 进 {api}",
            "leave": "blk{cta} {role}: 出 {api}",
            "call": "blk{cta} {role}: 执行 {api}",
            "note": "blk{cta} {role}: {text}",
        },
        roles=PLAIN,
        bar=_named("_barrier", smem="ab"),
        own="(在blk{owner})",
        to="(在blk{to})",
        shows=("phase", "stage", "to"),
        sync="named_barrier_sync({size}, id={number})",
    ),
    "pl-printf": Style(
        {
            "wait": "[cta {cta}, {role}] stoję na {bar}({st}){own}, parzystość {ph}{kk}",
            "done": "[cta {cta}, {role}] puściło {bar}({st}){own}, parzystość {ph}{kk}",
            "arrive": "[cta {cta}, {role}] zrobiłem arrive na {bar}({st}){far}{kk}",
            "expect": "[cta {cta}, {role}] zrobiłem arrive na {bar}({st}){far}, expect_tx {bytes} B{kk}",
            "copy": "[cta {cta}, {role}] poszła kopia TMA na {bar}({st}){far}, {bytes} B{kk}",
            "enter": "[cta {cta}, {role}] stoję na {api}",
            "leave": "[cta {cta}, {role}] puściło {api}",
            "call": "[cta {cta}, {role}] wołam {api}",
            "note": "[cta {cta}, {role}] {text}",
        },
        roles=WARPS,
        bar=_named("_mbar"),
        own=" w cta {owner}",
        to=" w cta {to}",
        k=", iteracja {k}",
        aka=_no_warp,
        sync="bar.sync id {number}, {size} wątków",
    ),
}
