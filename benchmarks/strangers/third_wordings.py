# ruff: noqa: E501, RUF001 - a log line is kept whole; words in Chinese and Greek
"""A third set of wordings, written when the explainer had been improved on the sets of `later_wordings`."""

from __future__ import annotations

import json

from benchmarks.strangers.machine import Event, Op, Run
from benchmarks.strangers.prose import FREE, Prose
from benchmarks.strangers.snapshots import Snapshot
from benchmarks.strangers.wordings import WARPS, Wording, in_cluster, mask, peer, remote, step, warp_name

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
            if op.kind in FREE
            else {"event": "CallEnd" if e.end else "CallBegin", "call": _other(op)}
        )
    return json.dumps(row, separators=(",", ":"))


def _cutlass(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"[cta_rank {cta}][{role}]{step(op, ' k_tile {}')} "
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
    return f"{head}{_other(op)}{'' if op.kind in FREE else ' END' if e.end else ' BEGIN'}"


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
        cells = [call + ("" if op.kind in FREE else " LEAVE" if e.end else " ENTER"), "", "", "", ""]
    return "\t".join([str(cta), role, "" if op.k is None else str(op.k), *cells])


def _hexes(e: Event) -> str:
    op, (role, cta) = e.op, e.who
    head = f"(block {cta}, warp {WARPS[role]}){step(op, ' it {}')}: "

    def at(owner: int) -> str:
        return f"0x{in_cluster(op, owner):08x}"

    if op.kind == "wait":
        return f"{head}mbarrier.try_wait.parity [{at(op.owner)}], {op.parity} {'done' if e.end else 'begin'}"
    if op.kind == "arrive":
        call = f"mbarrier.arrive.expect_tx [{{}}], {op.size}" if op.size else "mbarrier.arrive [{}]"
        return "\n".join(head + call.format(at(to)) for to in op.to)
    if op.kind == "copy":
        return f"{head}cp.async.bulk.tensor [{at(op.to[0])}], {op.size} bytes"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_other(op)}{'' if op.kind in FREE else ' done' if e.end else ' begin'}"


def _roles(which: int) -> dict[str, str]:
    return {role: names[which] for role, names in _NAMES.items()}


SAID = {
    "bars": Prose(
        "{cta}/{role}{k} | ", " kb={}", call=_other,
        waits=(
            "{bar}{whose} | try_wait parity={p} | pending", "{bar}{whose} | try_wait parity={p} | acquired",
        ),
        whose=" of cta {o}",
        arrives="{bar} | arrive{tx}{reach}", reach=" cta_mask={m:#x}", tx=" expect_tx={n}",
        copies="{bar} | tma copy bytes={n}", blocks=("{call} | pending", "{call} | acquired"),
    ).wording(),
    "chat": Prose(
        "{role} (CTA {cta}){k}: ", ", k block {}", call=_other,
        waits=("now waiting for {bar}{whose}, phase {p}", "got through {bar}{whose}, phase {p}"),
        whose=" of CTA {o}",
        arrives="will arrive on {bar}{reach}{tx}", reach=" of CTA {l}", between=" and ",
        tx=", expecting {n} bytes", copies="copying {n} bytes, completes on {bar}",
        blocks=("now waiting for {call}", "got through {call}"),
    ).wording(),
    "json-camel": Wording(_camel),
    "cutlass": Wording(_cutlass),
    "german-third": Prose(
        "{role} (CTA {cta}){k}: ", " Durchlauf {}", call=_other, roles=_roles(0),
        waits=("blockiert an {bar}{whose} Parität {p}", "weiter nach {bar}{whose} Parität {p}"),
        whose=" von CTA {o}",
        arrives="signalisiert {bar}{tx}{reach}", reach=" Maske={m:#x}", tx=" Bytes={n}",
        copies="kopiert nach {bar} Bytes={n}", note="beendet", blocks=("blockiert an {call}", "weiter nach {call}"),
    ).wording(),
    "chinese-third": Prose(
        "【CTA {cta} {role}】{k}", "第{}次迭代，", call=_other, roles=_roles(1),
        waits=("正在等待 {bar}{whose}，相位 {p}", "已通过 {bar}{whose}，相位 {p}"), whose="（CTA {o}）",
        arrives="到达 {bar}{tx}{reach}", reach="，掩码 {m:#x}", tx="，字节数 {n}", copies="拷贝到 {bar}，字节数 {n}",
        note="退出", blocks=("正在等待 {call}", "已通过 {call}"),
    ).wording(),
    "greek-roles": Prose(
        "cta={cta} {role}:{k} ", " i={}", call=_other, roles=_roles(2),
        waits=("enter wait {bar}{whose} phase={p}", "leave wait {bar}{whose} phase={p}"), whose=" @cta{o}",
        arrives="signal {bar}{tx}{reach}", reach=" mask={m:#x}", tx=" tx={n}", copies="copy {bar} bytes={n}",
        note="exit", blocks=("enter {call}", "leave {call}"),
    ).wording(),
    "tabs": Wording(_tabs, head="cta\trole\tk\tevent\tbarrier\tphase\tbytes\tmask"),
    "hex-ptx": Wording(_hexes, warp_name),
}  # fmt: skip


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
