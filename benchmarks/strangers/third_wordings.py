# ruff: noqa: E501, RUF001 - a log line is kept whole; words in Chinese and Greek
"""A third set of wordings, written when the explainer had been improved on the sets of `later_wordings`."""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.strangers.machine import Event, Op, Run, Who
from benchmarks.strangers.snapshots import Snapshot
from benchmarks.strangers.wordings import WARPS, Wording, address, mask, peer, remote

_NAMES = {
    "load": ("Lader", "加载", "φορτωτής"), "mma": ("Rechner", "乘加", "πολλαπλασιαστής"), "epi": ("Ausgabe", "输出", "έξοδος"),
    "softmax0": ("SoftmaxA", "甲", "άλφα"), "softmax1": ("SoftmaxB", "乙", "βήτα"), "main": ("Haupt", "主", "κύριος"),
    "tma": ("Holer", "搬运", "μεταφορέας"), "issue": ("Geber", "发射", "εκδότης"), "compute": ("Rechenwerk", "计算", "υπολογιστής"),
    "reduce": ("Addierer", "累加", "αθροιστής"), "sched": ("Planer", "调度", "δρομολογητής"), "loader": ("Zubringer", "供数", "τροφοδότης"),
    "tensor": ("Tensorwarp", "张量", "τανυστής"), "epilogue": ("Abschluss", "收尾", "επίλογος"), "fetch": ("Leser", "读数", "αναγνώστης"),
    "head": ("Kopf", "主控", "κεφαλή"),
}  # fmt: skip


def _other(op: Op) -> str:
    """An operation that is no mbarrier's, as it is written in a kernel."""
    return {
        "sync": f"named_barrier_sync(id={op.number}, threads={op.size})"
        if op.number >= 0
        else "__syncthreads",
        "cluster_arrive": "cluster_arrive_relaxed()",
        "cluster_wait": "cluster_wait()",
        "alloc": f"tcgen05.alloc ncols={op.size}",
        "dealloc": f"tcgen05.dealloc ncols={op.size}",
    }[op.kind]


_FREE = ("cluster_arrive", "dealloc")  # do not block


def _k(op: Op, text: str) -> str:
    return "" if op.k is None else text.format(op.k)


def _bars(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"{cta}/{role}{_k(op, ' kb={}')} | "
    if op.kind == "wait":
        whose = f" of cta {op.owner}" if peer(e) else ""
        return f"{head}{op.bar}[{op.stage}]{whose} | try_wait parity={op.parity} | {'acquired' if e.end else 'pending'}"
    if op.kind == "arrive":
        return f"{head}{op.bar}[{op.stage}] | arrive{f' expect_tx={op.size}' if op.size else ''}{f' cta_mask={mask(op):#x}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}{op.bar}[{op.stage}] | tma copy bytes={op.size}"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_other(op)}{'' if op.kind in _FREE else ' | acquired' if e.end else ' | pending'}"


def _chat(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"{role} (CTA {cta}){_k(op, ', k block {}')}: "
    if op.kind == "wait":
        whose = f" of CTA {op.owner}" if peer(e) else ""
        if e.end:
            return f"{head}got through {op.bar}[{op.stage}]{whose}, phase {op.parity}"
        return f"{head}now waiting for {op.bar}[{op.stage}]{whose}, phase {op.parity}"
    if op.kind == "arrive":
        reach = f" of CTA {' and '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head}will arrive on {op.bar}[{op.stage}]{reach}{f', expecting {op.size} bytes' if op.size else ''}"
    if op.kind == "copy":
        return f"{head}copying {op.size} bytes, completes on {op.bar}[{op.stage}]"
    if op.kind == "note":
        return head + op.text
    return f"{head}{'' if op.kind in _FREE else 'got through ' if e.end else 'now waiting for '}{_other(op)}"


def _camel(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    row: dict[str, object] = {"ctaRank": cta, "role": role}
    if op.k is not None:
        row["kBlock"] = op.k
    names = {"wait": "WaitEnd" if e.end else "WaitBegin", "arrive": "Arrive", "copy": "Copy"}
    if op.kind in names:
        row |= {"event": names[op.kind], "barrier": op.bar, "stage": op.stage}
        if op.kind == "wait":
            row |= {"phase": op.parity} | ({"barrierCta": op.owner} if peer(e) else {})
        elif op.size:
            row["txBytes"] = op.size
        if op.kind == "arrive" and remote(e):
            row["ctaMask"] = mask(op)
    elif op.kind == "note":
        row["event"] = "Exit"
    else:
        row |= (
            {"event": "Call", "call": _other(op)}
            if op.kind in _FREE
            else {"event": "CallEnd" if e.end else "CallBegin", "call": _other(op)}
        )
    return json.dumps(row, separators=(",", ":"))


def _cutlass(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"[cta_rank {cta}][{role}]{_k(op, ' k_tile {}')} "
    bar = f"&{op.bar}[{op.stage}]"
    if op.kind == "wait":
        where = f"mapa({op.bar}[{op.stage}], {op.owner})" if peer(e) else bar
        return f"{head}ClusterBarrier::wait({where}, {op.parity}) {'END' if e.end else 'BEGIN'}"
    if op.kind == "arrive":
        if remote(e) and len(op.to) == 1:
            return f"{head}ClusterBarrier::arrive({bar}, cta_id={op.to[0]})"
        if remote(e):
            return f"{head}umma_arrive_multicast({bar}, {mask(op):#x})"
        return (
            f"{head}ClusterTransactionBarrier::arrive_and_expect_tx({bar}, {op.size})"
            if op.size
            else f"{head}ClusterBarrier::arrive({bar})"
        )
    if op.kind == "copy":
        return f"{head}tma_load({bar}, bytes={op.size})"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_other(op)}{'' if op.kind in _FREE else ' END' if e.end else ' BEGIN'}"


def _german(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"{_NAMES[role][0]} (CTA {cta}){_k(op, ' Durchlauf {}')}: "
    if op.kind == "wait":
        whose = f" von CTA {op.owner}" if peer(e) else ""
        return f"{head}{'weiter nach' if e.end else 'blockiert an'} {op.bar}[{op.stage}]{whose} Parität {op.parity}"
    if op.kind == "arrive":
        return f"{head}signalisiert {op.bar}[{op.stage}]{f' Bytes={op.size}' if op.size else ''}{f' Maske={mask(op):#x}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}kopiert nach {op.bar}[{op.stage}] Bytes={op.size}"
    if op.kind == "note":
        return f"{head}beendet"
    return f"{head}{'' if op.kind in _FREE else 'weiter nach ' if e.end else 'blockiert an '}{_other(op)}"


def _chinese(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"【CTA {cta} {_NAMES[role][1]}】{_k(op, '第{}次迭代，')}"
    if op.kind == "wait":
        whose = f"（CTA {op.owner}）" if peer(e) else ""
        return f"{head}{'已通过' if e.end else '正在等待'} {op.bar}[{op.stage}]{whose}，相位 {op.parity}"
    if op.kind == "arrive":
        return f"{head}到达 {op.bar}[{op.stage}]{f'，字节数 {op.size}' if op.size else ''}{f'，掩码 {mask(op):#x}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}拷贝到 {op.bar}[{op.stage}]，字节数 {op.size}"
    if op.kind == "note":
        return f"{head}退出"
    return f"{head}{'' if op.kind in _FREE else '已通过 ' if e.end else '正在等待 '}{_other(op)}"


def _greek(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"cta={cta} {_NAMES[role][2]}:{_k(op, ' i={}')} "
    if op.kind == "wait":
        whose = f" @cta{op.owner}" if peer(e) else ""
        return f"{head}{'leave' if e.end else 'enter'} wait {op.bar}[{op.stage}]{whose} phase={op.parity}"
    if op.kind == "arrive":
        return f"{head}signal {op.bar}[{op.stage}]{f' tx={op.size}' if op.size else ''}{f' mask={mask(op):#x}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}copy {op.bar}[{op.stage}] bytes={op.size}"
    if op.kind == "note":
        return f"{head}exit"
    return f"{head}{'' if op.kind in _FREE else 'leave ' if e.end else 'enter '}{_other(op)}"


def _tabs(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    if op.kind in ("wait", "arrive", "copy"):
        event = {"wait": "WAIT_LEAVE" if e.end else "WAIT_ENTER", "arrive": "ARRIVE", "copy": "TMA_ISSUE"}[
            op.kind
        ]
        whose = f"@{op.owner}" if peer(e) else ""
        cells = [
            event,
            f"{op.bar}[{op.stage}]{whose}",
            str(op.parity) if op.kind == "wait" else "",
            str(op.size or ""),
            f"{mask(op):#x}" if op.kind == "arrive" and remote(e) else "",
        ]
    elif op.kind == "note":
        cells = ["EXIT", "", "", "", ""]
    else:
        call = _other(op).replace("()", "")
        cells = [call + ("" if op.kind in _FREE else " LEAVE" if e.end else " ENTER"), "", "", "", ""]
    return "\t".join([str(cta), role, "" if op.k is None else str(op.k), *cells])


def _hexes(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"(block {cta}, warp {WARPS[role]}){_k(op, ' it {}')}: "

    def at(owner: int) -> str:
        return f"0x{owner << 24 | address(op) & 0xFFFF:08x}"

    if op.kind == "wait":
        return f"{head}mbarrier.try_wait.parity [{at(op.owner)}], {op.parity} {'done' if e.end else 'begin'}"
    if op.kind == "arrive":
        call = f"mbarrier.arrive.expect_tx [{{}}], {op.size}" if op.size else "mbarrier.arrive [{}]"
        return "\n".join(head + call.format(at(to)) for to in op.to)
    if op.kind == "copy":
        return f"{head}cp.async.bulk.tensor [{at(op.to[0])}], {op.size} bytes"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_other(op)}{'' if op.kind in _FREE else ' done' if e.end else ' begin'}"


def _named(which: int) -> Callable[[Who], str]:
    return lambda who: _NAMES[who[0]][which]


SAID = {
    "bars": Wording(_bars),
    "chat": Wording(_chat),
    "json-camel": Wording(_camel),
    "cutlass": Wording(_cutlass),
    "german-third": Wording(_german, _named(0)),
    "chinese-third": Wording(_chinese, _named(1)),
    "greek-roles": Wording(_greek, _named(2)),
    "tabs": Wording(_tabs, head="cta\trole\tk\tevent\tbarrier\tphase\tbytes\tmask"),
    "hex-ptx": Wording(_hexes, lambda who: f"warp {WARPS[who[0]]}"),
}


def gdb_disassembly(kernel: object, run: Run) -> str:
    """cuda-gdb: the focus and the statement of each warp, in another order of blocks."""
    lines = [
        "CUDA Exception: Warp Out-of-range Address not raised; interrupted by user",
        "(cuda-gdb) info cuda warps",
    ]
    for who, op in sorted(run.blocked.items(), key=lambda item: (-item[0][1], item[0][0])):
        first = 32 * WARPS[who[0]]
        bar = f"{op.bar}[{op.stage}]"
        call = {
            "wait": f"mbarrier_wait_parity({f'mapa({bar}, {op.owner})' if op.owner != who[1] else bar}, {op.parity});",
            "sync": f"named_barrier_sync({op.number}, {op.size});" if op.number >= 0 else "__syncthreads();",
            "cluster_wait": "cluster_wait();",
            "alloc": "tcgen05_alloc(base);",
        }.get(op.kind, "__nanosleep(100);")
        lines += [
            f"[Switching focus to CUDA kernel 3, grid 9, cluster (0,0,0), block ({who[1]},0,0), thread ({first},0,0), device 0, sm 1, warp 2, lane 0]",
            f"{200 + first}\t\t{call}",
        ]
    return "\n".join([*lines, ""])


SHOTS: dict[str, Snapshot] = {"gdb-statement": gdb_disassembly}
