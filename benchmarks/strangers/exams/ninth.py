# ruff: noqa: E501 - log lines are kept whole
"""The ninth exam: prints of projects that debug hung kernels, by an author who did not look at the reader of logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from benchmarks.strangers.exams.names import ctas, mbarriers, plus, roles, state_first
from benchmarks.strangers.exams.styles import WARPS, Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

PARTS = roles(
    "load warp, mma issuer, epilogue wg, softmax wg 0, softmax wg 1, math warp, compute wg, reduce wg, tile scheduler"
)
ENUM = roles("LOAD, UMMA, EPILOGUE, SOFTMAX_0, SOFTMAX_1, MATH, MATH, DQ_REDUCE, TILE_SCHED")
ENUM_ROLES = list(dict.fromkeys(ENUM.values()))
ENUM_EVENTS = (
    "NONE", "WAIT_IN", "WAIT_OUT", "ARRIVE", "ARRIVE_TX", "TMA", "CALL_IN", "CALL_OUT", "CALL", "MSG",
)  # fmt: skip
SHORT = "load, mma, epi, smax0, smax1, math, math, dqred, sched"
LOWER = roles(SHORT)
TASKS = roles("producer, mma, epilogue, softmax_m0, softmax_m1, default, default, reduction, scheduler")
GROUPS = roles("producer, mma, epilogue, softmax_wg0, softmax_wg1, consumer, math, reduction, scheduler")
LOOPS = roles("load, mma, epilogue, softmax0, softmax1, accum, compute, reduce, sched", "{}_loop")
TRT = roles(
    "LoadWarp, MmaWarp, EpilogueWarp, SoftmaxTask0, SoftmaxTask1, CorrectionTask, ComputeTask, DqReduceTask, SchedWarp"
)
CUTE = roles("MainloopLoad, MMA, Epilogue, Softmax0, Softmax1, Correction, Compute, Reduce, Sched")
THREADS = roles("Load, MMA, Epilogue, Softmax0, Softmax1, Math, Math, Reduce, Sched", "{}线程")
DM = roles("dm, mma, st, sfm0, sfm1, acc, ds, dq, sch")
DM_LONG = roles(
    "data mover (TMA), tcgen05.mma issuer, epilogue/store, softmax rows 0-127, softmax rows 128-255, accumulate, dS math, dQ reduce, tile scheduler"
)
NCCL = "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : "
VLOG = "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:82] [cta{cta}] [{role}] "
LLM = "[TensorRT-LLM][TRACE][cta {cta}] {role}: "


def _kind(names: dict[str, str]) -> Callable[[str], tuple[str, ...]]:
    """The roles without the word for what they are: warp, task or loop."""
    return lambda role: (re.sub(r"_loop|Warp|Task|_wg|线程", "", names[role]),)


def _first_words(role: str) -> tuple[str, ...]:
    """Short forms of the names of a legend, and the warp or thread that a line prints."""
    words = PARTS[role].removeprefix("tile ").split()
    short = words[0] + (words[-1] if words[-1].isdigit() else "")
    at = WARPS[role]
    return short, f"warp {at}", f"thr {32 * at}", f"thread {32 * at}", f"t{32 * at}"


def _calls(prefix: str, enter: str, leave: str, call: str = "{api}", note: str = "{text}") -> dict[str, str]:
    """The templates of operations other than an mbarrier's."""
    return {"enter": prefix + enter, "leave": prefix + leave, "call": prefix + call, "note": prefix + note}


# --- lines by thread; the legend says which threads are which role


def _threads(case: Case, style: Style) -> list[str]:
    rows = {}
    for role, _ in case.kernel.programs:
        first = 32 * WARPS[role]
        last = first + (127 if WARPS[role] >= 4 else 31)
        rows[first] = f"#   thr {first:>3}..{last:<3} {style.role(role)}"
    return ["# an elected thread prints for each role:", *(rows[at] for at in sorted(rows))]


# --- numbers of a ring of records, with the enums of the kernel


def _enums(case: Case, style: Style) -> list[str]:
    def enum(name: str, items: Sequence[str]) -> str:
        return f"enum {name} {{ {', '.join(f'{item}={at}' for at, item in enumerate(items))} }};"

    return [
        enum("Ev", ENUM_EVENTS),
        enum("Role", ENUM_ROLES),
        enum("Bar", [style.bar(name) for name in barriers(case)]),
        "peer: WAIT_* rank of the CTA that owns the mbarrier, ARRIVE*/TMA mask of the CTAs signalled; - = not set",
        "  idx cta role ev bar stage parity iter bytes peer",
    ]


def _enum_forms(role: str) -> tuple[str, ...]:
    """Short forms of the names of the enum, and the number that a line prints."""
    short = {"UMMA": "mma", "DQ_REDUCE": "reduce", "TILE_SCHED": "sched"}
    name = ENUM[role]
    number = ENUM_ROLES.index(name)
    return short.get(name, name.replace("_", "")), f"role {number}", f"role={number}"


def _coded(lines: list[str]) -> list[str]:
    """Names between < and > become the numbers of the enums."""
    codes: dict[str, dict[str, str]] = {}
    for line in lines:
        if found := re.match(r"enum (\w+) \{ (.*) \};", line):
            codes[found[1]] = dict(item.split("=") for item in found[2].split(", "))

    def code(found: re.Match[str]) -> str:
        return codes[found[1]][found[2]].rjust({"Ev": 2, "Role": 4, "Bar": 3}[found[1]])

    return [re.sub(r"<(\w+):(\w+)>", code, line) for line in lines]


# --- waits print when they return; a wait that does not is printed by its timeout, at the end


def _timeouts(lines: list[str]) -> list[str]:
    found: list[str] = []
    pending: dict[str, str] = {}
    for line in lines:
        edge, _, rest = line.partition("~")
        if not rest:
            found.append(line)
            continue
        who, _, text = rest.partition("~")
        if edge == "in":
            pending[who] = text
        else:
            del pending[who]
            found.append(text)
    return found + list(pending.values())


# --- a row for each call, with the times of its begin and of its end


def _spans(lines: list[str]) -> list[str]:
    rows: list[list[str]] = []
    last: dict[str, list[str]] = {}
    for line in lines:
        edge, _, row = line.partition("~")
        head, _, clock = row.rpartition(",")
        who = ",".join(row.split(",")[:2])
        if edge == "out":
            last[who][2] = clock
        elif edge in ("in", "at"):
            rows.append([head, clock, clock if edge == "at" else ""])
            last[who] = rows[-1]
    return [
        "# t_end empty = the call had not returned when the trace was copied back; mbar_cta empty = own CTA",
        "cta,warp_role,call,mbar,slot,parity,iter,bytes,mbar_cta,t_begin,t_end",
        *(re.sub(r'"(\d+)"', r"\1", ",".join(row)) for row in rows),
    ]


# --- a debugger that stops at each warp: the call that it is in, and the calls that have returned


def _focus(lines: list[str]) -> list[str]:
    warps: dict[tuple[int, int, str], list[tuple[str, str]]] = {}
    inside: dict[tuple[int, int, str], str] = {}
    for line in lines:
        cta, thread, role, clock, edge, call = line.split("~", 5)
        who = int(cta), int(thread), role
        calls = warps.setdefault(who, [])
        if edge == "in":
            inside[who] = call
        else:
            inside.pop(who, None)
            calls.append((clock, call))
    found = []
    for who, calls in sorted(warps.items()):
        block, first, name = who
        found += [
            f"[Switching focus to CUDA kernel 0, grid 1, cluster (0,0,0), block ({block},0,0), thread ({first},0,0), device 0, sm {2 * block}, warp {first // 32}, lane 0]",
            f"#0  {inside[who]} at mbar_dbg.cuh:61"
            if who in inside
            else "#0  (no barrier call on the stack)",
            f"#1  {name} () at ws_kernel.cu:{200 + first}",
            f"{name} history, {len(calls)} calls that returned, oldest first:",
            *(f"  clk {clock}  {call}" for clock, call in calls),
            "",
        ]
    return found


# --- addresses of shared::cluster: the rank in the top byte, the offset below


def _offsets(case: Case, style: Style) -> list[str]:
    rows, at = [], 0x32000
    for name, (stages, _) in barriers(case).items():
        last = f"..0x{at + 8 * stages - 8:06x}" if stages > 1 else ""
        rows.append(f"; 0x{at:06x}{last:<10} {style.bar(name)}[{stages}]")
        at += 8 * stages
    return [
        "; mbarriers are printed as shared::cluster addresses: cta rank << 24 | smem offset, 8 bytes per stage",
        *rows,
    ]


def _mapped(lines: list[str]) -> list[str]:
    bases = {
        found[2]: int(found[1], 16) for line in lines if (found := re.match(r"; (0x\w+)\S* +(\w+)\[", line))
    }

    def address(found: re.Match[str]) -> str:
        at = bases[found[1]] + 8 * int(found[2])
        return " ".join(f"0x{int(rank) << 24 | at:08x}" for rank in found[3].split(","))

    return [re.sub(r"<(\w+)\|(\d+)\|([\d,]+)>", address, line) for line in lines]


# --- a column for each warp, side by side


def _lanes(lines: list[str]) -> list[str]:
    rows = [tuple(line.split("~", 2)) for line in lines]
    names = sorted({name for name, _, _ in rows})
    width = {name: max(len(name), *(len(text) for each, _, text in rows if each == name)) for name in names}
    found = [
        "|".join(["   clk ", *(f" {name:<{width[name]}} " for name in names)]).rstrip(),
        "+".join(["-" * 7, *("-" * (width[name] + 2) for name in names)]),
    ]
    for name, clock, text in rows:
        cells = [f" {text if each == name else '':<{width[each]}} " for each in names]
        found.append("|".join([f"{clock:>6} ", *cells]).rstrip())
    return found


# --- counts of mbarriers, as each CTA initialises them


def _inits(case: Case, style: Style) -> list[str]:
    used = {style.role(role): DM_LONG[role] for role, _ in case.kernel.programs}
    rows = ["mb: " + ", ".join(f"{short} = {long}" for short, long in used.items())]
    for cta in range(ctas(case)):
        for name, (stages, count) in barriers(case).items():
            count = case.kernel.more.get((name, cta), count)
            rows.append(f"mb c{cta} init {style.bar(name)} x{stages} cnt={count}")
    return rows


def _long_forms(role: str) -> tuple[str, ...]:
    """What the legend says of a role, and a word of it."""
    words = {"dm": ("data mover",), "st": ("epilogue", "store"), "sch": ("scheduler",)}
    return DM_LONG[role], *words.get(DM[role], ())


STYLES: dict[str, Style] = {
    "thr-legend": Style(
        {
            "wait": "blk={cta} thr={tid} t={t} mbar_wait({bar}, s={st}, p={ph}){own}{kk} go",
            "done": "blk={cta} thr={tid} t={t} mbar_wait({bar}, s={st}, p={ph}){own}{kk} ret",
            "arrive": "blk={cta} thr={tid} t={t} mbar_arrive({bar}, s={st}){far}{kk}",
            "expect": "blk={cta} thr={tid} t={t} mbar_arrive_expect_tx({bar}, s={st}, tx={bytes}){far}{kk}",
            "copy": "blk={cta} thr={tid} t={t} tma_load_2d({bar}, s={st}, bytes={bytes}){far}{kk}",
            **_calls("blk={cta} thr={tid} t={t} ", "{api} go", "{api} ret", "{api}", "# {text}"),
        },
        roles=PARTS,
        bar=plus(smem="ab", d="acc"),
        own=" of blk {owner}",
        to=" of blk {to}",
        k=" it={k}",
        head=_threads,
        aka=_first_words,
        sync="named_sync({number}, {size})",
    ),
    "enum-ring": Style(
        {
            "wait": "{n:5} {cta:3} <Role:{role}> <Ev:WAIT_IN> <Bar:{bar}> {st:5} {ph:6} {k:4}     - {owner:4}",
            "done": "{n:5} {cta:3} <Role:{role}> <Ev:WAIT_OUT> <Bar:{bar}> {st:5} {ph:6} {k:4}     - {owner:4}",
            "arrive": "{n:5} {cta:3} <Role:{role}> <Ev:ARRIVE> <Bar:{bar}> {st:5}      - {k:4}     - {to:>4}",
            "expect": "{n:5} {cta:3} <Role:{role}> <Ev:ARRIVE_TX> <Bar:{bar}> {st:5}      - {k:4} {bytes:5} {to:>4}",
            "copy": "{n:5} {cta:3} <Role:{role}> <Ev:TMA> <Bar:{bar}> {st:5}      - {k:4} {bytes:5} {to:>4}",
            "enter": "{n:5} {cta:3} <Role:{role}> <Ev:CALL_IN>   -     -      -    -     -    - {api}",
            "leave": "{n:5} {cta:3} <Role:{role}> <Ev:CALL_OUT>   -     -      -    -     -    - {api}",
            "call": "{n:5} {cta:3} <Role:{role}> <Ev:CALL>   -     -      -    -     -    - {api}",
            "note": '{n:5} {cta:3} <Role:{role}> <Ev:MSG>   -     -      -    -     -    - "{text}"',
        },
        roles=ENUM,
        bar=mbarriers(lambda name: replaced({"smem": "tile"})(name).upper()),
        mask=True,
        head=_enums,
        whole=_coded,
        aka=_enum_forms,
        sync="bar.sync {number},{size}",
    ),
    "timeout-trap": Style(
        {
            "wait": "in~{cta}{role}~!! mbar_wait timed out after 4.0 s: block {cta} {role} it {k}, {bar}[{st}]{own}, phase bit {ph}",
            "done": "out~{cta}{role}~block {cta} {role} it {k}: waited {bar}[{st}]{own} phase bit {ph}, ok",
            "arrive": "block {cta} {role} it {k}: arrive {bar}[{st}]{far}",
            "expect": "block {cta} {role} it {k}: arrive.expect_tx {bar}[{st}]{far} {bytes}",
            "copy": "block {cta} {role} it {k}: bulk copy -> {bar}[{st}]{far} {bytes}",
            **_calls("block {cta} {role}: ", "enter {api}", "leave {api}"),
        },
        roles=LOWER,
        bar=state_first(after="_bar", smem="ab", acc="tmem", d="tmem"),
        own=" (block {owner})",
        to=" (block {to})",
        whole=_timeouts,
        head=lambda case, style: [
            "MBAR_TIMEOUT=4s: a wait prints when it returns, or once when it has timed out"
        ],
        sync="bar.sync({number}, {size})",
    ),
    "csv-spans": Style(
        {
            "wait": "in~{cta},{role},wait,{bar},{st},{ph},{k},,{own},{t}",
            "done": "out~{cta},{role},{t}",
            "arrive": "at~{cta},{role},arrive,{bar},{st},,{k},,{far},{t}",
            "expect": "at~{cta},{role},arrive_expect_tx,{bar},{st},,{k},{bytes},{far},{t}",
            "copy": "at~{cta},{role},tma_load,{bar},{st},,{k},{bytes},{far},{t}",
            "enter": 'in~{cta},{role},"{api}",,,,,,,{t}',
            "leave": "out~{cta},{role},{t}",
            "call": 'at~{cta},{role},"{api}",,,,,,,{t}',
            "note": 'at~{cta},{role},"msg: {text}",,,,,,,{t}',
        },
        roles=CUTE,
        bar=plus(full="rdy", empty="free"),
        own="{owner}",
        to='"{to}"',
        whole=_spans,
        sync="bar_sync({number};{size})",
    ),
    "gdb-focus": Style(
        {
            "wait": "{cta}~{tid}~{role}~{t}~in~mbar_wait (bar={bar}[{st}], parity={ph}{own}{kk})",
            "done": "{cta}~{tid}~{role}~{t}~out~mbar_wait (bar={bar}[{st}], parity={ph}{own}{kk})",
            "arrive": "{cta}~{tid}~{role}~{t}~at~mbar_arrive (bar={bar}[{st}]{far}{kk})",
            "expect": "{cta}~{tid}~{role}~{t}~at~mbar_arrive_expect_tx (bar={bar}[{st}], bytes={bytes}{far}{kk})",
            "copy": "{cta}~{tid}~{role}~{t}~at~tma_load (bar={bar}[{st}], bytes={bytes}{far}{kk})",
            **_calls("{cta}~{tid}~{role}~{t}~", "in~{api}", "out~{api}", "at~{api}", 'at~log ("{text}")'),
        },
        roles=LOOPS,
        bar=plus(smem="stage", scores0="s0_full", scores1="s1_full", probs0="p0_full", probs1="p1_full"),
        own=", cta={owner}",
        to=", cta={{{to}}}",
        k=", k={k}",
        whole=_focus,
        aka=_kind(LOOPS),
        sync="named_barrier_sync (id={number}, threads={size})",
    ),
    "tlx-tasks": Style(
        {
            "wait": "tlx cta_rank={cta} task={role} i={k}: barrier_wait({bar}[{st}], phase={ph}){own} ->",
            "done": "tlx cta_rank={cta} task={role} i={k}: barrier_wait({bar}[{st}], phase={ph}){own} <-",
            "arrive": "tlx cta_rank={cta} task={role} i={k}: barrier_arrive({bar}[{st}]{far})",
            "expect": "tlx cta_rank={cta} task={role} i={k}: barrier_expect_bytes({bar}[{st}]{far})",
            "copy": "tlx cta_rank={cta} task={role} i={k}: async_descriptor_load(.., {bar}[{st}]{far})",
            **_calls("tlx cta_rank={cta} task={role}: ", "{api} ->", "{api} <-"),
        },
        roles=TASKS,
        bar=plus(after="_bars", smem="ab", acc="tmem", d="tmem"),
        own=" on cta_rank={owner}",
        to=", remote_cta_rank={to}",
        head=lambda case, style: [
            "# -> before the call, <- after it; barrier_expect_bytes counts as an arrive; i = loop index of the task"
        ],
        shows=("phase", "stage", "to"),
        sync="named_barrier_wait({number}, {size})",
    ),
    "nccl-info": Style(
        {
            "wait": "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : waitBegin {bar} slot {st} parity {ph}{own}",
            "done": "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : waitEnd {bar} slot {st} parity {ph}{own}",
            "arrive": "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : post {bar} slot {st}{far}",
            "expect": "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : post {bar} slot {st} expectTx {bytes}{far}",
            "copy": "h200-11:31877:31902 [0] WSK INFO cta {cta} {role} : tmaLoad {bar} slot {st} nbytes {bytes}{far}",
            **_calls(NCCL, "waitBegin {api}", "waitEnd {api}"),
        },
        roles=roles(SHORT, "{}Warp"),
        aka=lambda role: (LOWER[role],),
        bar=mbarriers(camel),
        own=" ctaOfBar {owner}",
        to=" ctaOfBar {to}",
        head=lambda case, style: [
            "h200-11:31877:31902 [0] WSK INFO WSK_DEBUG set by environment to TRACE",
            f"h200-11:31877:31902 [0] WSK INFO cluster size {ctas(case)}, post = mbarrier.arrive",
        ],
        sync="barrierSync {number} nThreads {size}",
    ),
    "torch-vlog": Style(
        {
            "wait": "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:64] [cta{cta}] [{role}] blocking on {bar}[{st}]{own}{kk}",
            "done": "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:66] [cta{cta}] [{role}] unblocked by {bar}[{st}]{own}{kk}",
            "arrive": "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:71] [cta{cta}] [{role}] arrived at {bar}[{st}]{far}{kk}",
            "expect": "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:73] [cta{cta}] [{role}] arrived at {bar}[{st}]{far} expecting {bytes} bytes{kk}",
            "copy": "V0914 11:20:33.{t:06d} 3071 ws_trace/replay.py:77] [cta{cta}] [{role}] TMA load of {bytes} bytes signals {bar}[{st}]{far}{kk}",
            **_calls(VLOG, "blocking on {api}", "unblocked by {api}", "called {api}"),
        },
        roles=GROUPS,
        bar=state_first(full="ready", empty="consumed", free="consumed"),
        own=" of cta{owner}",
        to=" of cta{to}",
        k=" (iter {k})",
        head=lambda case, style: [
            "W0914 11:20:33.000412 3071 ws_trace/replay.py:41] kernel still running after 30s, reading the trace buffer"
        ],
        shows=("bytes", "stage", "to"),
        sync="bar.sync({number}, {size})",
    ),
    "trtllm": Style(
        {
            "wait": "[TensorRT-LLM][TRACE][cta {cta}] {role}: {bar} idx {st}{own} tryWait(phase={ph}) pending{kk}",
            "done": "[TensorRT-LLM][TRACE][cta {cta}] {role}: {bar} idx {st}{own} tryWait(phase={ph}) completed{kk}",
            "arrive": "[TensorRT-LLM][TRACE][cta {cta}] {role}: {bar} idx {st}{far} arrive(){kk}",
            "expect": "[TensorRT-LLM][TRACE][cta {cta}] {role}: {bar} idx {st}{far} arriveExpectTx({bytes}){kk}",
            "copy": "[TensorRT-LLM][TRACE][cta {cta}] {role}: {bar} idx {st}{far} cpAsyncBulkTensor, {bytes} B{kk}",
            **_calls(LLM, "{api} pending", "{api} completed"),
        },
        roles=TRT,
        bar=mbarriers(lambda name: camel(name) + "Barrier"),
        own=" in cta {owner}",
        to=" in cta {to}",
        k=" [loop {k}]",
        head=lambda case, style: ["[TensorRT-LLM][INFO] Set logger level to TRACE"],
        aka=_kind(TRT),
        sync="NamedBarrier(id={number}, numThreads={size})",
    ),
    "jsonl-args": Style(
        {
            "wait": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"mbar.wait.enter","args":{{"bar":"{bar}","stage":{st},"parity":{ph}{own}{kk}}}}}',
            "done": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"mbar.wait.exit","args":{{"bar":"{bar}","stage":{st},"parity":{ph}{own}{kk}}}}}',
            "arrive": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"mbar.arrive","args":{{"bar":"{bar}","stage":{st}{far}{kk}}}}}',
            "expect": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"mbar.arrive_expect_tx","args":{{"bar":"{bar}","stage":{st},"tx":{bytes}{far}{kk}}}}}',
            "copy": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"tma.load","args":{{"bar":"{bar}","stage":{st},"bytes":{bytes}{far}{kk}}}}}',
            "enter": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"sync.enter","args":{{"call":"{api}"}}}}',
            "leave": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"sync.exit","args":{{"call":"{api}"}}}}',
            "call": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"call","args":{{"call":"{api}"}}}}',
            "note": '{{"ts":{t},"cta":{cta},"warp":"{role}","msg":"{text}"}}',
        },
        roles=LOWER,
        bar=state_first(full="filled", empty="drained"),
        own=',"bar_cta":{owner}',
        to=',"bar_ctas":[{to}]',
        k=',"k":{k}',
        sync="bar.sync {number}, {size}",
    ),
    "slog": Style(
        {
            "wait": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="mbarrier wait" edge=start cta={cta} agent={role} bar={bar}/{st} parity={ph}{own}{kk}',
            "done": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="mbarrier wait" edge=finish cta={cta} agent={role} bar={bar}/{st} parity={ph}{own}{kk}',
            "arrive": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="mbarrier arrive" cta={cta} agent={role} bar={bar}/{st}{far}{kk}',
            "expect": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="mbarrier arrive" cta={cta} agent={role} bar={bar}/{st} expect_tx={bytes}{far}{kk}',
            "copy": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="tma copy" cta={cta} agent={role} bar={bar}/{st} bytes={bytes}{far}{kk}',
            "enter": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="{api}" edge=start cta={cta} agent={role}',
            "leave": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="{api}" edge=finish cta={cta} agent={role}',
            "call": 'time=2026-09-14T11:20:33.{n:03d}Z level=DEBUG msg="{api}" cta={cta} agent={role}',
            "note": 'time=2026-09-14T11:20:33.{n:03d}Z level=INFO msg="{text}" cta={cta} agent={role}',
        },
        roles=LOOPS,
        bar=plus(after="_mbar"),
        own=" bar_cta={owner}",
        to=" bar_cta={to}",
        k=" iter={k}",
        aka=_kind(LOOPS),
        sync="barrier.sync {number} threads {size}",
    ),
    "mapa-hex": Style(
        {
            "wait": "r{cta} {role:<5} try_wait.parity <{bar}|{st}|{owner}> {ph} : spin",
            "done": "r{cta} {role:<5} try_wait.parity <{bar}|{st}|{owner}> {ph} : true",
            "arrive": "r{cta} {role:<5} arrive <{bar}|{st}|{to}>",
            "expect": "r{cta} {role:<5} arrive.expect_tx <{bar}|{st}|{to}> {bytes:#x}",
            "copy": "r{cta} {role:<5} cp.async.bulk <{bar}|{st}|{to}> {bytes:#x}",
            **_calls("r{cta} {role:<5} ", "{api} : in", "{api} : out"),
        },
        roles=roles(SHORT.upper()),
        bar=plus(after="_bar", smem="ab"),
        head=_offsets,
        whole=_mapped,
        sync="barrier.sync.aligned {number}, {size}",
    ),
    "lanes": Style(
        {
            "wait": "c{cta} {role}~{t}~wait {bar}[{st}]{own} p{ph}",
            "done": "c{cta} {role}~{t}~got {bar}[{st}]{own} p{ph}",
            "arrive": "c{cta} {role}~{t}~arrive {bar}[{st}]{far}",
            "expect": "c{cta} {role}~{t}~arrive+tx {bar}[{st}]{far} {bytes}",
            "copy": "c{cta} {role}~{t}~tma {bar}[{st}]{far} {bytes}",
            **_calls("c{cta} {role}~{t}~", "wait {api}", "got {api}"),
        },
        roles=LOWER,
        bar=plus(smem="ab", d="acc"),
        own="@c{owner}",
        to="@c{to}",
        whole=_lanes,
        sync="bar.sync {number},{size}",
    ),
    "mosaic-gpu": Style(
        {
            "wait": "(cluster_idx={cta}) {role} step {k}: before {bar}.at[{st}].wait_parity({ph}){own}",
            "done": "(cluster_idx={cta}) {role} step {k}: after  {bar}.at[{st}].wait_parity({ph}){own}",
            "arrive": "(cluster_idx={cta}) {role} step {k}: {bar}.at[{st}].arrive({far})",
            "expect": "(cluster_idx={cta}) {role} step {k}: {bar}.at[{st}].arrive_expect_tx({bytes}){far}",
            "copy": "(cluster_idx={cta}) {role} step {k}: async_copy(barrier={bar}.at[{st}], bytes={bytes}){far}",
            **_calls("(cluster_idx={cta}) {role}: ", "before {api}", "after  {api}"),
        },
        roles=roles(SHORT, "{}_wg"),
        bar=plus(after="_barriers", full="loaded", empty="released", free="released"),
        own=" [ref of cluster_idx={owner}]",
        to="cluster_idx={to}",
        aka=lambda role: (LOWER[role],),
        sync="named_barrier({number}, {size} threads)",
    ),
    "zh-probe": Style(
        {
            "wait": "[探针] cta={cta} {role}{kk} | 堵住 {bar}[{st}]{own} parity={ph}",
            "done": "[探针] cta={cta} {role}{kk} | 放行 {bar}[{st}]{own} parity={ph}",
            "arrive": "[探针] cta={cta} {role}{kk} | 已 arrive {bar}[{st}]{far}",
            "expect": "[探针] cta={cta} {role}{kk} | 已 arrive.expect_tx {bar}[{st}]{far} {bytes}字节",
            "copy": "[探针] cta={cta} {role}{kk} | TMA 已提交 {bar}[{st}]{far} {bytes}字节",
            **_calls("[探针] cta={cta} {role} | ", "堵住 {api}", "放行 {api}", "已调 {api}", "{text}"),
        },
        roles=THREADS,
        aka=_kind(THREADS),
        bar=state_first(smem="ab", acc="tmem", d="tmem"),
        own="<cta{owner}的>",
        to="<cta{to}的>",
        k=" k={k}",
        sync="bar.sync {number},{size}",
    ),
    "mb-inits": Style(
        {
            "wait": "mb c{cta} {role} {bar}#{st} wait p{ph}{own} ?",
            "done": "mb c{cta} {role} {bar}#{st} wait p{ph}{own} ok",
            "arrive": "mb c{cta} {role} {bar}#{st} arv{far}",
            "expect": "mb c{cta} {role} {bar}#{st} arv tx={bytes}{far}",
            "copy": "mb c{cta} {role} {bar}#{st} ld {bytes}{far}",
            **_calls("mb c{cta} {role} ", "{api} ?", "{api} ok"),
        },
        roles=DM,
        bar=plus(smem="ab"),
        own=" @c{owner}",
        to=" @c{to}",
        head=_inits,
        aka=_long_forms,
        sync="bar_sync({number},{size})",
    ),
}
