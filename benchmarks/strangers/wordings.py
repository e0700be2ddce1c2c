# ruff: noqa: E501, RUF001 - a log line is kept whole; role names in Cyrillic
"""How events are printed: wordings that were written before the explainer's rules were looked at.

`FIRST` are the wordings on which the explainer was improved; `HELD` were not looked at until the last
measurement.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.strangers.machine import Event, Op, Who

WARPS = {
    "load": 0, "mma": 4, "epi": 8, "softmax0": 8, "softmax1": 12, "main": 1,
    "tma": 0, "issue": 1, "compute": 4, "reduce": 8, "sched": 3, "loader": 0, "tensor": 1, "epilogue": 4,
    "fetch": 2, "head": 0,
}  # fmt: skip
ORDER = (
    "smem_full", "smem_empty", "acc_full", "acc_empty", "kv_full", "kv_empty", "scores0", "scores1", "probs0", "probs1",
    "part_full", "part_empty", "in_full", "in_empty",
    "bar_k_full", "bar_k_free", "bar_s_ready", "bar_p_ready", "bar_dk_done", "bar_dk_read", "work_full", "work_empty",
    "ab_full", "ab_empty", "d_full", "d_empty", "keys_full", "keys_empty", "partial",
)  # fmt: skip
GERMAN = {
    "load": "Lader", "mma": "Rechner", "epi": "Ausgabe", "softmax0": "Softmax0", "softmax1": "Softmax1", "main": "Summierer",
}  # fmt: skip
CHINESE = {
    "load": "加载",
    "mma": "矩阵乘",
    "epi": "写回",
    "softmax0": "归一化甲",
    "softmax1": "归一化乙",
    "main": "归约",
}
RUSSIAN = {
    "load": "загрузчик", "mma": "умножитель", "epi": "выгрузка", "softmax0": "софтмакс0", "softmax1": "софтмакс1",
    "main": "сумматор",
}  # fmt: skip


def address(op: Op) -> int:
    """The shared-memory address of a barrier's stage."""
    return 0x38000 + 64 * ORDER.index(op.bar) + 8 * op.stage


def peer(event: Event) -> bool:
    """Whether the waiting role's CTA is not the barrier's."""
    return event.op.kind == "wait" and event.op.owner != event.who[1]


def mask(op: Op) -> int:
    """The CTAs that an arrival reaches, as bits."""
    return sum(1 << cta for cta in op.to)


def remote(event: Event) -> bool:
    """Whether an arrival goes to other CTAs than the role's own."""
    return event.op.to != (event.who[1],)


def in_cluster(op: Op, cta: int) -> int:
    """The address of a CTA's copy of a barrier in the cluster's shared memory, as mapa returns it."""
    return cta << 24 | address(op) & 0xFFFF


def step(op: Op, text: str) -> str:
    """The iteration in a template; nothing where there is none."""
    return "" if op.k is None else text.format(op.k)


Say = Callable[[Event], str | None]


@dataclass(frozen=True)
class Wording:
    """`shows`: which of phase, bytes, to, stage it prints; `role` and `barrier`: how it names those."""

    say: Say
    role: Callable[[Who], str] = lambda who: who[0]
    barrier: Callable[[Op], str] = lambda op: op.bar
    shows: tuple[str, ...] = ("phase", "bytes", "to", "stage")
    head: str = ""


def warp_name(who: Who) -> str:
    """A role where a log prints its first warp."""
    return f"warp {WARPS[who[0]]}"


def _hex(op: Op) -> str:
    return f"{address(op):#x}" if op.bar in ORDER else op.bar


# --- first set


def _json_flat(e: Event) -> str:
    op = e.op
    row: dict[str, object] = {"cta": e.who[1], "warp": WARPS[e.who[0]], "role": e.who[0]}
    if op.k is not None:
        row["k"] = op.k
    if op.kind == "wait":
        row |= {
            "event": "wait_done" if e.end else "wait",
            "barrier": op.bar,
            "stage": op.stage,
            "parity": op.parity,
        }
        if peer(e):
            row["barrier_cta"] = op.owner
    elif op.kind == "arrive":
        row |= {"event": "arrive", "barrier": op.bar, "stage": op.stage}
        if op.size:
            row["tx_bytes"] = op.size
        if remote(e):
            row["target_ctas"] = list(op.to)
    elif op.kind == "copy":
        row |= {"event": "tma_issue", "barrier": op.bar, "stage": op.stage, "bytes": op.size}
    elif op.kind == "sync":
        row |= {"event": "bar_sync_done" if e.end else "bar_sync"}
        row |= {"id": op.number, "threads": op.size} if op.number >= 0 else {"id": 0}
    elif op.kind == "cluster_arrive":
        row |= {"event": "cluster_arrive"}
    elif op.kind == "cluster_wait":
        row |= {"event": "cluster_wait_done" if e.end else "cluster_wait"}
    elif op.kind in ("alloc", "dealloc"):
        row |= {"event": f"tcgen05.{op.kind}" + ("_done" if e.end else ""), "columns": op.size}
    else:
        row |= {"event": "note", "msg": op.text}
    return json.dumps(row)


def _json_address(e: Event) -> str:
    op = e.op
    row: dict[str, object] = {"blk": [e.who[1], 0, 0], "warp": WARPS[e.who[0]]}
    if op.kind == "wait":
        row |= {"op": "try_wait_ok" if e.end else "try_wait", "mbar": _hex(op), "phase": op.parity}
        if peer(e):
            row["peer"] = True
    elif op.kind == "arrive":
        row |= {"op": "arrive_expect_tx" if op.size else "arrive", "mbar": _hex(op)}
        if op.size:
            row["bytes"] = op.size
        if remote(e):
            row["cta_mask"] = mask(op)
    elif op.kind == "copy":
        row |= {"op": "bulk_copy", "mbar": _hex(op), "bytes": op.size}
    elif op.kind == "sync":
        row |= {"op": "barrier_passed" if e.end else "barrier_enter", "id": max(op.number, 0)}
    elif op.kind in ("cluster_arrive", "cluster_wait"):
        row |= {"op": op.kind.replace("_", ".") + (".ok" if e.end else "")}
    elif op.kind in ("alloc", "dealloc"):
        row |= {"op": f"tmem_{op.kind}" + ("_ok" if e.end else ""), "cols": op.size}
    else:
        row |= {"op": "log", "text": op.text}
    if op.k is not None:
        row["it"] = op.k
    return json.dumps(row)


def _german(e: Event) -> str:
    op, role = e.op, GERMAN[e.who[0]]
    head = f"[CTA {e.who[1]}] {role}:"
    k = f", Block k={op.k}" if op.k is not None else ""
    name = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        where = " der Nachbar-CTA" if peer(e) else ""
        said = f"{name}{where} erreicht, weiter" if e.end else f"warte auf {name}{where}"
        return f"{head} {said} (Phase {op.parity}){k}"
    if op.kind == "arrive":
        tx = f", erwarte {op.size} Byte" if op.size else ""
        whom = f" an CTA {', '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} melde {name}{whom}{tx}{k}"
    if op.kind == "copy":
        return f"{head} Kopie gestartet: {op.size} Byte -> {name}{k}"
    if op.kind == "sync":
        what = f"benannte Barriere {op.number} ({op.size} Threads)" if op.number >= 0 else "__syncthreads"
        return f"{head} {what} passiert{k}" if e.end else f"{head} warte an {what}{k}"
    if op.kind == "cluster_arrive":
        return f"{head} Cluster-Barriere: angekommen"
    if op.kind == "cluster_wait":
        return f"{head} Cluster-Barriere passiert" if e.end else f"{head} warte an Cluster-Barriere"
    if op.kind == "alloc":
        return f"{head} tcgen05.alloc {op.size} Spalten " + ("fertig" if e.end else "...")
    if op.kind == "dealloc":
        return f"{head} tcgen05.dealloc {op.size} Spalten"
    return f"{head} {op.text}"


def _chinese(e: Event) -> str:
    op = e.op
    head = f"[块{e.who[1]}/{CHINESE[e.who[0]]}]"
    if op.k is not None:
        head += f" 第{op.k}次迭代"
    name = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        where = "对端 " if peer(e) else ""
        return (
            f"{head} {where}{name} 等待完成 相位 {op.parity}"
            if e.end
            else f"{head} 等待 {where}{name} 相位 {op.parity}"
        )
    if op.kind == "arrive":
        tx = f", 期望 {op.size} 字节" if op.size else ""
        whom = f" 掩码 {mask(op):#x}" if remote(e) else ""
        return f"{head} 到达 {name}{whom}{tx}"
    if op.kind == "copy":
        return f"{head} 发起拷贝 {op.size} 字节 → {name}"
    if op.kind == "sync":
        what = f"命名屏障 {op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head} {what} 通过" if e.end else f"{head} 等待 {what}"
    if op.kind == "cluster_arrive":
        return f"{head} 到达 集群屏障"
    if op.kind == "cluster_wait":
        return f"{head} 集群屏障 等待完成" if e.end else f"{head} 等待 集群屏障"
    if op.kind == "alloc":
        return f"{head} tcgen05.alloc {op.size} 列 " + ("完成" if e.end else "开始")
    if op.kind == "dealloc":
        return f"{head} tcgen05.dealloc {op.size} 列"
    return f"{head} {op.text}"


def _calls(e: Event) -> str:
    op = e.op
    head = f"cta{e.who[1]} w{WARPS[e.who[0]]}"
    tail = f"  ; k={op.k}" if op.k is not None else ""
    if op.kind == "wait":
        where = "peer " if peer(e) else ""
        return f"{head} wait({where}{_hex(op)}, {op.parity})" + (" = ok" if e.end else "") + tail
    if op.kind == "arrive":
        if op.size:
            return f"{head} arrive_expect_tx({_hex(op)}, {op.size}){tail}"
        if len(op.to) > 1:
            return f"{head} commit_multicast({_hex(op)}, {mask(op):#x}){tail}"
        return f"{head} arrive({_hex(op)}" + (f", cta {op.to[0]})" if remote(e) else ")") + tail
    if op.kind == "copy":
        return f"{head} tma_load({_hex(op)}, {op.size}){tail}"
    if op.kind == "sync":
        call = f"bar.sync({op.number}, {op.size})" if op.number >= 0 else "__syncthreads()"
        return f"{head} {call}" + (" = ok" if e.end else "") + tail
    if op.kind == "cluster_arrive":
        return f"{head} barrier.cluster.arrive()"
    if op.kind == "cluster_wait":
        return f"{head} barrier.cluster.wait()" + (" = ok" if e.end else "")
    if op.kind in ("alloc", "dealloc"):
        return f"{head} tcgen05.{op.kind}({op.size})" + (" = ok" if e.end else "")
    return f"{head} // {op.text}"


def _peer_dot(e: Event) -> str:
    op = e.op
    head = f"{e.who[0]}@{e.who[1]}" + (f" k{op.k}:" if op.k is not None else ":")
    name = f"{op.bar}.{op.stage}"
    if op.kind == "wait":
        return f"{head} {'got' if e.end else 'wait'} {'peer.' if peer(e) else ''}{name} ph{op.parity}"
    if op.kind == "arrive":
        verb = "expect_tx" if op.size else "commit" if e.who[0] == "mma" else "arrive"
        whom = f" -> cta {op.to[0]}" if remote(e) and len(op.to) == 1 else ""
        return f"{head} {verb} {name}" + (f" {op.size}" if op.size else "") + whom
    if op.kind == "copy":
        return f"{head} tma -> {name} {op.size}B"
    if op.kind == "sync":
        call = f"named_barrier {op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head} {'left' if e.end else 'enter'} {call}"
    if op.kind == "cluster_arrive":
        return f"{head} cluster_arrive"
    if op.kind == "cluster_wait":
        return f"{head} {'left' if e.end else 'enter'} cluster_wait"
    if op.kind == "alloc":
        return f"{head} {'left' if e.end else 'enter'} tcgen05.alloc {op.size}"
    if op.kind == "dealloc":
        return f"{head} tcgen05.dealloc {op.size}"
    return f"{head} {op.text}"


def _peer_paren(e: Event) -> str:
    op = e.op
    head = f"[{e.who[0].upper()} CTA{e.who[1]}]" + (f" it {op.k}" if op.k is not None else "")
    name = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        where = f" (peer CTA {op.owner})" if peer(e) else ""
        return f"{head} {'passed' if e.end else 'waiting for'} {name}{where} phase {op.parity}"
    if op.kind == "arrive":
        tx = f" expecting {op.size} bytes" if op.size else ""
        whom = f" in CTA {' and '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} signal {name}{whom}{tx}"
    if op.kind == "copy":
        return f"{head} issue copy of {op.size} bytes to {name}"
    if op.kind == "sync":
        call = f"NamedBarrier {op.number}" if op.number >= 0 else "__syncthreads()"
        return f"{head} {'passed' if e.end else 'waiting at'} {call}"
    if op.kind == "cluster_arrive":
        return f"{head} arrived at cluster barrier"
    if op.kind == "cluster_wait":
        return f"{head} {'passed' if e.end else 'waiting at'} cluster barrier"
    if op.kind == "alloc":
        return f"{head} TMEM allocation of {op.size} columns " + ("succeeded" if e.end else "requested")
    if op.kind == "dealloc":
        return f"{head} TMEM of {op.size} columns freed"
    return f"{head} {op.text}"


def _logfmt(e: Event) -> str:
    op = e.op
    parts = [f"cta={e.who[1]}", f"who={e.who[0]}"]
    if op.k is not None:
        parts.append(f"it={op.k}")
    if op.kind == "wait":
        parts += [
            f"op=wait.{'end' if e.end else 'begin'}",
            f"bar={op.bar}",
            f"slot={op.stage}",
            f"par={op.parity}",
        ]
        parts += [f"at={op.owner}"] if peer(e) else []
    elif op.kind == "arrive":
        parts += ["op=arrive", f"bar={op.bar}", f"slot={op.stage}"]
        parts += [f"tx={op.size}"] if op.size else []
        parts += [f"mask={mask(op):#x}"] if remote(e) else []
    elif op.kind == "copy":
        parts += ["op=tma", f"bar={op.bar}", f"slot={op.stage}", f"bytes={op.size}"]
    elif op.kind == "sync":
        parts += [f"op=barrier.{'end' if e.end else 'begin'}", f"id={max(op.number, 0)}"]
    elif op.kind == "cluster_arrive":
        parts += ["op=cluster.arrive"]
    elif op.kind == "cluster_wait":
        parts += [f"op=cluster.wait.{'end' if e.end else 'begin'}"]
    elif op.kind == "alloc":
        parts += [f"op=tmem_alloc.{'end' if e.end else 'begin'}", f"cols={op.size}"]
    elif op.kind == "dealloc":
        parts += ["op=tmem_dealloc", f"cols={op.size}"]
    else:
        parts += [f'msg="{op.text}"']
    return " ".join(parts)


def _sentence(e: Event) -> str:
    op = e.op
    role = {"mma": "MMA", "load": "load", "epi": "epilogue"}.get(e.who[0], e.who[0])
    head = f"CTA {e.who[1]}: the {role} warp"
    k = f" in iteration {op.k}" if op.k is not None else ""
    if op.kind == "wait":
        where = f" of CTA {op.owner}" if peer(e) else ""
        verb = "got" if e.end else "waits for"
        return f"{head} {verb} {op.bar}{where} (stage {op.stage}, parity {op.parity}){k}"
    if op.kind == "arrive":
        tx = f" and expects {op.size} bytes" if op.size else ""
        whom = f" of CTA {' and '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} signals {op.bar}{whom} (stage {op.stage}){tx}{k}"
    if op.kind == "copy":
        return f"{head} starts a copy of {op.size} bytes for {op.bar} (stage {op.stage}){k}"
    if op.kind == "sync":
        call = f"named barrier {op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head} {'got past' if e.end else 'waits at'} {call}{k}"
    if op.kind == "cluster_arrive":
        return f"{head} arrives at the cluster barrier"
    if op.kind == "cluster_wait":
        return f"{head} {'got past' if e.end else 'waits at'} the cluster barrier"
    if op.kind == "alloc":
        return f"{head} {'got' if e.end else 'asks for'} {op.size} columns of tensor memory"
    if op.kind == "dealloc":
        return f"{head} frees {op.size} columns of tensor memory"
    return f"{head} says {op.text}"


def _csv(e: Event) -> str:
    op = e.op
    what = {
        "wait": "wait_end" if e.end else "wait_begin", "arrive": "arrive", "copy": "tma", "dealloc": "tmem_dealloc",
        "sync": "sync_end" if e.end else "sync_begin", "cluster_arrive": "cluster_arrive",
        "cluster_wait": "cluster_wait_end" if e.end else "cluster_wait_begin",
        "alloc": "tmem_alloc_end" if e.end else "tmem_alloc_begin",
    }.get(op.kind, op.text.replace(",", ";"))  # fmt: skip
    mbarrier = op.kind in ("wait", "arrive", "copy")
    bar = (
        op.bar
        if mbarrier
        else f"named{op.number}"
        if op.number >= 0
        else "syncthreads"
        if op.kind == "sync"
        else ""
    )
    owner = str(op.owner) if op.kind == "wait" else "+".join(map(str, op.to))
    cells = [
        e.who[1], e.who[0], op.k if op.k is not None else "", what, bar, owner if mbarrier else "",
        op.stage if mbarrier else "", op.parity if op.kind == "wait" else "", op.size or "",
    ]  # fmt: skip
    return ",".join(map(str, cells))


FIRST: dict[str, Wording] = {
    "json-flat": Wording(_json_flat),
    "json-address": Wording(_json_address, warp_name, _hex),
    "german": Wording(_german, lambda who: GERMAN[who[0]]),
    "chinese": Wording(_chinese, lambda who: CHINESE[who[0]]),
    "calls": Wording(_calls, warp_name, _hex),
    "peer-dot": Wording(_peer_dot, shows=("phase", "bytes", "stage")),
    "peer-paren": Wording(_peer_paren),
    "logfmt": Wording(_logfmt),
    "sentence": Wording(_sentence, lambda who: "epilogue" if who[0] == "epi" else who[0]),
    "csv": Wording(_csv, head="cta,role,iter,event,barrier,barrier_cta,stage,phase,bytes"),
}


# --- held back until the last measurement


def _json_nested(e: Event) -> str:
    op = e.op
    event: dict[str, object] = {}
    if op.kind == "wait":
        event = {
            "type": "mbar_wait_leave" if e.end else "mbar_wait_enter",
            "name": op.bar,
            "idx": op.stage,
            "ph": op.parity,
        }
        if peer(e):
            event["owner_cta"] = op.owner
    elif op.kind == "arrive":
        event = {"type": "mbar_arrive", "name": op.bar, "idx": op.stage}
        event |= {"expect_bytes": op.size} if op.size else {}
        event |= {"dst_mask": f"{mask(op):#x}"} if remote(e) else {}
    elif op.kind == "copy":
        event = {"type": "tma_copy", "name": op.bar, "idx": op.stage, "nbytes": op.size}
    elif op.kind == "sync":
        event = {"type": "cta_sync_leave" if e.end else "cta_sync_enter", "barrier_id": max(op.number, 0)}
    elif op.kind == "cluster_arrive":
        event = {"type": "cluster_sync_arrive"}
    elif op.kind == "cluster_wait":
        event = {"type": "cluster_sync_wait_leave" if e.end else "cluster_sync_wait_enter"}
    elif op.kind in ("alloc", "dealloc"):
        event = {
            "type": f"tmem_{op.kind}" + ("_leave" if e.end else "_enter" if op.kind == "alloc" else ""),
            "ncols": op.size,
        }
    else:
        event = {"type": "message", "text": op.text}
    row: dict[str, object] = {"ctx": {"cta_rank": e.who[1], "warp_id": WARPS[e.who[0]]}, "ev": event}
    if op.k is not None:
        row["iter"] = op.k
    return json.dumps(row, separators=(",", ":"))


def _german_fields(e: Event) -> str:
    op = e.op
    head = (
        f"Rolle={GERMAN[e.who[0]]} CTA={e.who[1]}" + (f" Schritt={op.k}" if op.k is not None else "") + " |"
    )
    if op.kind == "wait":
        where = f" (CTA {op.owner})" if peer(e) else ""
        said = "freigegeben von" if e.end else "blockiert an"
        return f"{head} {said} Barriere {op.bar}{where} Stufe {op.stage} Parität {op.parity}"
    if op.kind == "arrive":
        tx = f", {op.size} Bytes erwartet" if op.size else ""
        whom = f" in CTA {' und '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} signalisiert Barriere {op.bar}{whom} Stufe {op.stage}{tx}"
    if op.kind == "copy":
        return f"{head} TMA kopiert {op.size} Bytes, Barriere {op.bar} Stufe {op.stage}"
    if op.kind == "sync":
        what = f"Barriere Nr. {op.number}" if op.number >= 0 else "Block-Barriere"
        return f"{head} {'verlässt' if e.end else 'betritt'} {what}"
    if op.kind == "cluster_arrive":
        return f"{head} signalisiert Cluster-Barriere"
    if op.kind == "cluster_wait":
        return f"{head} {'verlässt' if e.end else 'blockiert an'} Cluster-Barriere"
    if op.kind == "alloc":
        return f"{head} TMEM-Anforderung {op.size} Spalten {'erfüllt' if e.end else 'gestellt'}"
    if op.kind == "dealloc":
        return f"{head} TMEM {op.size} Spalten freigegeben"
    return f"{head} {op.text}"


def _chinese_fields(e: Event) -> str:
    op = e.op
    head = f"{CHINESE[e.who[0]]}(cta={e.who[1]})" + (f" k={op.k}" if op.k is not None else "")
    name = f"{op.bar} 第{op.stage}级"
    if op.kind == "wait":
        where = f"CTA{op.owner}的 " if peer(e) else ""
        return f"{head} {'已等到' if e.end else '正在等'} {where}{name} 奇偶={op.parity}"
    if op.kind == "arrive":
        tx = f" 预期字节={op.size}" if op.size else ""
        whom = f" 目标CTA={','.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} {'提交' if e.who[0] == 'mma' else '通知'} {name}{whom}{tx}"
    if op.kind == "copy":
        return f"{head} TMA搬运 {name} 字节={op.size}"
    if op.kind == "sync":
        what = f"屏障{op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head} {'离开' if e.end else '进入'} {what}"
    if op.kind == "cluster_arrive":
        return f"{head} 通知 cluster屏障"
    if op.kind == "cluster_wait":
        return f"{head} {'已等到' if e.end else '正在等'} cluster屏障"
    if op.kind == "alloc":
        return f"{head} 申请TMEM {op.size}列" + (" 成功" if e.end else "")
    if op.kind == "dealloc":
        return f"{head} 释放TMEM {op.size}列"
    return f"{head} {op.text}"


def _ptx(e: Event) -> str:
    op = e.op
    head = f"<cta {e.who[1]} thread {32 * WARPS[e.who[0]]}>"
    tail = f"  // iter {op.k}" if op.k is not None else ""
    end = " : true" if e.end else ""
    if op.kind == "wait":
        space = f"@cta{op.owner}" if peer(e) else ""
        return f"{head} mbarrier.try_wait.parity [{_hex(op)}{space}], {op.parity}{end}{tail}"
    if op.kind == "arrive":
        if op.size:
            return f"{head} mbarrier.arrive.expect_tx [{_hex(op)}], {op.size}{tail}"
        if len(op.to) > 1:
            return f"{head} tcgen05.commit.multicast::cluster [{_hex(op)}], {mask(op):#x}{tail}"
        space = f"@cta{op.to[0]}" if remote(e) else ""
        return f"{head} mbarrier.arrive [{_hex(op)}{space}]{tail}"
    if op.kind == "copy":
        return f"{head} cp.async.bulk.tensor [{_hex(op)}], {op.size} bytes{tail}"
    if op.kind == "sync":
        call = f"barrier.sync {op.number}, {op.size}" if op.number >= 0 else "bar.sync 0"
        return f"{head} {call}{end}{tail}"
    if op.kind in ("cluster_arrive", "cluster_wait"):
        return f"{head} barrier.{op.kind.replace('_', '.')}{end}"
    if op.kind in ("alloc", "dealloc"):
        return f"{head} tcgen05.{op.kind} {op.size}{end}"
    return f"{head} // {op.text}"


def _at_cta(e: Event) -> str:
    op = e.op
    head = f"(c{e.who[1]},{e.who[0].upper()})"
    tail = f" it={op.k}" if op.k is not None else ""
    if op.kind == "wait":
        where = f"@cta{op.owner}" if peer(e) else ""
        return f"{head} {'leave' if e.end else 'enter'} wait {op.bar}{where}[{op.stage}] p={op.parity}{tail}"
    if op.kind == "arrive":
        where = "@cta" + "+".join(map(str, op.to)) if remote(e) else ""
        tx = f" tx={op.size}" if op.size else ""
        return f"{head} arrive {op.bar}{where}[{op.stage}]{tx}{tail}"
    if op.kind == "copy":
        return f"{head} tma {op.bar}[{op.stage}] bytes={op.size}{tail}"
    if op.kind == "sync":
        call = f"bar{op.number}" if op.number >= 0 else "syncthreads"
        return f"{head} {'leave' if e.end else 'enter'} {call}{tail}"
    if op.kind == "cluster_arrive":
        return f"{head} arrive cluster"
    if op.kind == "cluster_wait":
        return f"{head} {'leave' if e.end else 'enter'} cluster_sync"
    if op.kind == "alloc":
        return f"{head} {'leave' if e.end else 'enter'} tmem_alloc cols={op.size}"
    if op.kind == "dealloc":
        return f"{head} tmem_dealloc cols={op.size}"
    return f"{head} {op.text}"


def _russian_roles(e: Event) -> str:
    op = e.op
    head = f"[{RUSSIAN[e.who[0]]} CTA{e.who[1]}]" + (f" k={op.k}" if op.k is not None else "")
    name = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        where = "peer " if peer(e) else ""
        return f"{head} {'wait done' if e.end else 'wait'} {where}{name} phase={op.parity}"
    if op.kind == "arrive":
        tx = f" tx={op.size}" if op.size else ""
        whom = f" mask={mask(op):#x}" if remote(e) else ""
        return f"{head} arrive {name}{whom}{tx}"
    if op.kind == "copy":
        return f"{head} copy {name} bytes={op.size}"
    if op.kind == "sync":
        call = f"named_barrier_sync id={op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head} {call}{' done' if e.end else ''}"
    if op.kind == "cluster_arrive":
        return f"{head} cluster_arrive"
    if op.kind == "cluster_wait":
        return f"{head} cluster_wait{' done' if e.end else ''}"
    if op.kind in ("alloc", "dealloc"):
        return f"{head} tcgen05.{op.kind} columns={op.size}{' done' if e.end else ''}"
    return f"{head} {op.text}"


def _arrows(e: Event) -> str:
    op = e.op
    head = f"C{e.who[1]} {e.who[0]:9} {op.k if op.k is not None else '-':>3} "
    if op.kind == "wait":
        where = f" (CTA{op.owner})" if peer(e) else ""
        return f"{head}{'<-- done' if e.end else '--> wait'} {op.bar}/{op.stage}{where} p{op.parity}"
    if op.kind == "arrive":
        whom = f" (CTA{'+'.join(map(str, op.to))})" if remote(e) else ""
        return f"{head}=== arrive {op.bar}/{op.stage}{whom}" + (f" +{op.size}B" if op.size else "")
    if op.kind == "copy":
        return f"{head}=== tma {op.bar}/{op.stage} {op.size}B"
    if op.kind == "sync":
        call = f"bar.sync {op.number}" if op.number >= 0 else "__syncthreads"
        return f"{head}{'<-- done' if e.end else '--> wait'} {call}"
    if op.kind == "cluster_arrive":
        return f"{head}=== arrive cluster"
    if op.kind == "cluster_wait":
        return f"{head}{'<-- done' if e.end else '--> wait'} cluster"
    if op.kind == "alloc":
        return f"{head}{'<-- done' if e.end else '--> wait'} tmem alloc {op.size}"
    if op.kind == "dealloc":
        return f"{head}=== tmem dealloc {op.size}"
    return f"{head}# {op.text}"


def _functions(e: Event) -> str:
    op = e.op
    head = f"{e.who[0]}_warp_main: "
    tail = f" [cta_rank {e.who[1]}" + (f", iter {op.k}]" if op.k is not None else "]")
    when = "after" if e.end else "before"
    if op.kind == "wait":
        name = f"{op.bar}_mbar[{op.stage}]"
        call = f"mapa({name}, {op.owner})" if peer(e) else name
        return f"{head}{when} mbarrier_wait({call}, {op.parity}){tail}"
    if op.kind == "arrive":
        name = f"{op.bar}_mbar[{op.stage}]"
        if op.size:
            return f"{head}mbarrier_arrive_expect_tx({name}, {op.size}){tail}"
        if len(op.to) > 1:
            return f"{head}umma_arrive_multicast({name}, {mask(op):#x}){tail}"
        return f"{head}mbarrier_arrive({f'mapa({name}, {op.to[0]})' if remote(e) else name}){tail}"
    if op.kind == "copy":
        return f"{head}tma_load({op.bar}_mbar[{op.stage}], {op.size}){tail}"
    if op.kind == "sync":
        call = f"named_barrier_sync({op.number}, {op.size})" if op.number >= 0 else "__syncthreads()"
        return f"{head}{when} {call}{tail}"
    if op.kind == "cluster_arrive":
        return f"{head}cluster_arrive(){tail}"
    if op.kind == "cluster_wait":
        return f"{head}{when} cluster_wait(){tail}"
    if op.kind == "alloc":
        return f"{head}{when} tmem_alloc({op.size}){tail}"
    if op.kind == "dealloc":
        return f"{head}tmem_dealloc({op.size}){tail}"
    return f"{head}{op.text}{tail}"


def _table(e: Event) -> str:
    op = e.op
    what = {
        "wait": "WAIT<" if e.end else "WAIT>", "arrive": "ARRIVE", "copy": "TMA", "dealloc": "TMEM_FREE",
        "sync": "BARSYNC<" if e.end else "BARSYNC>", "cluster_arrive": "CLUSTER_ARRIVE",
        "cluster_wait": "CLUSTER_WAIT<" if e.end else "CLUSTER_WAIT>",
        "alloc": "TMEM_ALLOC<" if e.end else "TMEM_ALLOC>",
    }.get(op.kind, op.text)  # fmt: skip
    mbarrier = op.kind in ("wait", "arrive", "copy")
    name = f"{op.bar}[{op.stage}]" if mbarrier else f"#{max(op.number, 0)}" if op.kind == "sync" else ""
    if mbarrier and (peer(e) or (op.kind == "arrive" and remote(e))):
        name += f"@{op.owner}" if op.kind == "wait" else "@" + "+".join(map(str, op.to))
    phase = f"ph={op.parity}" if op.kind == "wait" else f"{op.size}" if op.size else ""
    return f"| {e.who[1]} | {e.who[0]:8} | {'' if op.k is None else op.k:>3} | {what:14} | {name:16} | {phase:8} |"


HELD: dict[str, Wording] = {
    "json-nested": Wording(_json_nested, warp_name),
    "german-fields": Wording(_german_fields, lambda who: GERMAN[who[0]]),
    "chinese-fields": Wording(_chinese_fields, lambda who: CHINESE[who[0]]),
    "ptx": Wording(_ptx, lambda who: f"thread {32 * WARPS[who[0]]}", _hex),
    "at-cta": Wording(_at_cta),
    "russian-roles": Wording(_russian_roles, lambda who: RUSSIAN[who[0]]),
    "arrows": Wording(_arrows),
    "functions": Wording(_functions),
    "table": Wording(_table, head="| cta | role | it | event | barrier | info |"),
}
