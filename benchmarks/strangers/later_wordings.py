# ruff: noqa: E501, RUF001 - a log line is kept whole; words in Chinese and Cyrillic
"""How other people print the same events, written blind: from how kernels are debugged, not from the readers.

`SEEN` may be used to improve the explainer. `HELD` are for the measurement: an explainer is not changed for
them. Addresses in a cluster's shared memory have the CTA's rank in bits 24 and up, as `mapa` returns them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.strangers.machine import Event, Op, Who
from benchmarks.strangers.wordings import ORDER, WARPS, Wording, address, mask, peer, remote

TALK_DE = {
    "tma": "Holer", "issue": "Matrixwarp", "compute": "Rechenwarp", "reduce": "Summenwarp", "sched": "Planer",
    "loader": "Zubringer", "tensor": "Multiplizierer", "epilogue": "Abschluss", "fetch": "Leser", "head": "Kopf",
}  # fmt: skip
TALK_ZH = {
    "tma": "搬运", "issue": "发射", "compute": "计算", "reduce": "累加", "sched": "调度", "loader": "读取", "tensor": "张量",
    "epilogue": "收尾", "fetch": "取数", "head": "主线程",
}  # fmt: skip
TALK_KO = {
    "tma": "로더", "issue": "행렬", "compute": "연산", "reduce": "합산", "sched": "스케줄러", "loader": "적재", "tensor": "텐서",
    "epilogue": "마무리", "fetch": "읽기", "head": "본체",
}  # fmt: skip


def _cluster(op: Op, cta: int) -> str:
    """The address of a CTA's copy of a barrier in the cluster's shared memory."""
    return f"{cta << 24 | address(op) & 0xFFFF:#x}"


def _seen_from(op: Op, cta: int, owner: int) -> str:
    """The address in a CTA's own shared memory; for another CTA's barrier as mapa maps it."""
    at = f"{address(op) & 0xFFFF:#010x}"
    if owner == cta:
        return at
    return f"{owner << 24 | address(op) & 0xFFFF:#010x}" if owner else f"mapa({at}, 0)"


def _sync(e: Event) -> str:
    """The source text of an operation that is no mbarrier's."""
    op = e.op
    return {
        "sync": f"bar.sync {op.number}, {op.size}" if op.number >= 0 else "__syncthreads()",
        "cluster_arrive": "barrier.cluster.arrive",
        "cluster_wait": "barrier.cluster.wait",
        "alloc": f"tcgen05.alloc({op.size} columns)",
        "dealloc": f"tcgen05.dealloc({op.size} columns)",
    }[op.kind]


def _k(op: Op, text: str) -> str:
    return "" if op.k is None else text.format(op.k)


# --- seen


def _arrows(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"[blk {cta}][{role}]{_k(op, ' kb {}')}:"
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "note":
        return f"{head} {op.text}"
    if op.kind == "wait":
        whose = f" of blk {op.owner}" if peer(e) else ""
        return f"{head} {'<- got' if e.end else '-> wait on'} {bar}{whose} (ph {op.parity})"
    if op.kind == "arrive":
        tx = f", expect {op.size} bytes" if op.size else ""
        reach = f" to blks {','.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} arrive {bar}{reach}{tx}"
    if op.kind == "copy":
        return f"{head} issued TMA into {bar}, {op.size} bytes"
    return f"{head} {'<- got past' if e.end else '-> wait on'} {_sync(e)}"


def _calls_hex(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"b{cta} t{32 * WARPS[role]:03}{_k(op, ' i={}')} "
    at = _cluster(op, op.owner) if op.bar in ORDER else ""
    if op.kind == "wait":
        return f"{head}wait({at}, {op.parity}){' ok' if e.end else ' ...'}"
    if op.kind == "arrive":
        call = f"arrive_expect_tx({at}, {op.size})" if op.size else f"arrive({at})"
        if remote(e):
            return "\n".join(f"{head}arrive({_cluster(op, to)})" for to in op.to)
        return head + call
    if op.kind == "copy":
        return f"{head}tma_load(bar={at}, bytes={op.size})"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_sync(e)}{' ok' if e.end else ' ...' if op.kind not in ('cluster_arrive', 'dealloc') else ''}"


def _json_dots(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    row: dict[str, object] = {"blk": cta, "who": role}
    if op.k is not None:
        row["step"] = op.k
    if op.kind == "note":
        return json.dumps(row | {"ev": "note", "text": op.text})
    if op.kind in ("wait", "arrive", "copy"):
        row |= {"bar": op.bar, "slot": op.stage}
    if op.kind == "wait":
        row |= {"ev": "wait.end" if e.end else "wait.begin", "par": op.parity}
        if peer(e):
            row["bar_blk"] = op.owner
    elif op.kind == "arrive":
        row |= (
            {"ev": "arrive"}
            | ({"expect_bytes": op.size} if op.size else {})
            | ({"to": list(op.to)} if remote(e) else {})
        )
    elif op.kind == "copy":
        row |= {"ev": "copy", "bytes": op.size}
    else:
        row["ev"] = _sync(e) + (".end" if e.end else "")
    return json.dumps(row)


def _german(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"Block {cta}, {TALK_DE[role]}{_k(op, ', Runde {}')}:"
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "note":
        return f"{head} fertig"
    if op.kind == "wait":
        whose = f" von Block {op.owner}" if peer(e) else ""
        return (
            f"{head} {'Warten auf' if not e.end else 'fertig mit Warten auf'} {bar}{whose}, Phase {op.parity}"
        )
    if op.kind == "arrive":
        reach = f" in Block {' und '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} melde {bar}{reach}" + (f", erwarte {op.size} Bytes" if op.size else "")
    if op.kind == "copy":
        return f"{head} kopiere {op.size} Bytes nach {bar}"
    if op.kind in ("cluster_arrive", "dealloc"):
        return f"{head} {_sync(e)}"
    return f"{head} {'fertig mit Warten auf' if e.end else 'Warten auf'} {_sync(e)}"


def _chinese(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"[CTA{cta}][{TALK_ZH[role]}]{_k(op, '第{}轮')}"
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "note":
        return f"{head} 结束"
    if op.kind == "wait":
        whose = f"(CTA{op.owner}的)" if peer(e) else ""
        return f"{head} {'等到了' if e.end else '等待'} {bar}{whose} 相位={op.parity}"
    if op.kind == "arrive":
        reach = f" 到 CTA {','.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} 通知 {bar}{reach}" + (f" 预期字节={op.size}" if op.size else "")
    if op.kind == "copy":
        return f"{head} 拷贝 {bar} 字节={op.size}"
    if op.kind in ("cluster_arrive", "dealloc"):
        return f"{head} {_sync(e)}"
    return f"{head} {'等到了' if e.end else '等待'} {_sync(e)}"


def _member(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"{role}@{cta}{_k(op, ' #{}')}: "
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        return f"{head}{'peer.' if peer(e) else ''}{bar}.wait({op.parity}){' returned' if e.end else ''}"
    if op.kind == "arrive":
        what = f".arrive_and_expect_tx({op.size})" if op.size else ".arrive()"
        if remote(e):
            what = f".commit_multicast(mask={mask(op):#x})"
        return head + bar + what
    if op.kind == "copy":
        return f"{head}copy_async({bar}, {op.size} bytes)"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_sync(e)}{' returned' if e.end else ''}"


def _sentence(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"The {role} warp in CTA {cta}"
    bar = f"{op.bar} stage {op.stage}"
    turn = _k(op, " (iteration {})")
    if op.kind == "wait":
        whose = f" of CTA {op.owner}" if peer(e) else ""
        verb = "is about to wait for" if not e.end else "no longer waits for"
        return f"{head} {verb} {bar}{whose}, parity {op.parity}{turn}"
    if op.kind == "arrive":
        reach = f" in CTAs {' and '.join(map(str, op.to))}" if remote(e) else ""
        return f"{head} arrives on {bar}{reach}{f' and expects {op.size} bytes' if op.size else ''}{turn}"
    if op.kind == "copy":
        return f"{head} starts a copy of {op.size} bytes for {bar}{turn}"
    if op.kind == "note":
        return f"{head}: {op.text}"
    if op.kind in ("cluster_arrive", "dealloc"):
        return f"{head} executes {_sync(e)}{turn}"
    return f"{head} {'no longer waits for' if e.end else 'is about to wait for'} {_sync(e)}{turn}"


def _csv(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    kind = {"wait": "wait", "arrive": "arrive", "copy": "copy", "note": "exit"}.get(
        op.kind, _sync(e) if op.kind != "note" and op.kind not in ("wait", "arrive", "copy") else ""
    )
    kind = kind.split(",")[0]  # a comma would be another cell
    if e.end:
        kind += "_done"
    bar = f"{op.bar}{f'@cta{op.owner}' if peer(e) else ''}" if op.kind in ("wait", "arrive", "copy") else "-"
    phase = op.parity if op.kind == "wait" else ""
    to = f"{mask(op):#x}" if op.kind == "arrive" and remote(e) else ""
    stage = op.stage if bar != "-" else ""
    return f"{cta},{role},{'' if op.k is None else op.k},{kind},{bar},{stage},{phase},{op.size if op.kind in ('arrive', 'copy') and op.size else ''},{to}"


def _ranked(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"<{cta}:{role}>{_k(op, ' j={}')} "
    bar = f"{op.bar}.{op.stage}"
    if op.kind == "wait":
        whose = f"(rank {op.owner})" if peer(e) else ""
        return f"{head}{'unblocked' if e.end else 'blocked'} on {bar}{whose} p{op.parity}"
    if op.kind == "arrive":
        reach = f" mask {mask(op):#b}" if remote(e) else ""
        return f"{head}signal {bar}{reach}{f' tx {op.size}' if op.size else ''}"
    if op.kind == "copy":
        return f"{head}bulk copy {op.size} B -> {bar}"
    if op.kind == "note":
        return head + op.text
    return f"{head}{'' if op.kind in ('cluster_arrive', 'dealloc') else 'unblocked on ' if e.end else 'blocked on '}{_sync(e)}"


# --- held back


def _logfmt(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    row = f"level=debug cta={cta} warp={WARPS[role]} role={role}{_k(op, ' iter={}')}"
    if op.kind == "note":
        return f'{row} op=exit msg="{op.text}"'
    if op.kind == "wait":
        owner = f" owner_cta={op.owner}" if peer(e) else ""
        return f"{row} op=wait bar={op.bar} slot={op.stage} parity={op.parity}{owner} state={'end' if e.end else 'begin'}"
    if op.kind == "arrive":
        return (
            f"{row} op=arrive bar={op.bar} slot={op.stage}"
            + (f" tx_bytes={op.size}" if op.size else "")
            + (f" mask={mask(op):#x}" if remote(e) else "")
        )
    if op.kind == "copy":
        return f"{row} op=copy bar={op.bar} slot={op.stage} bytes={op.size}"
    state = f" state={'end' if e.end else 'begin'}" if op.kind not in ("cluster_arrive", "dealloc") else ""
    return f'{row} op="{_sync(e)}"{state}'


def _columns(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"{role.upper():10} CTA={cta} {_k(op, 'IT={:04} ')}"
    bar = f"{op.bar.upper()}.{op.stage}"
    if op.kind == "wait":
        return f"{head}{'PASS' if e.end else 'WAIT'}   {'PEER ' if peer(e) else ''}{bar}  PH={op.parity}"
    if op.kind == "arrive":
        return f"{head}ARRIVE {bar}{f'  TX={op.size}' if op.size else ''}{f'  MASK={mask(op):#x}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}COPY   {bar}  BYTES={op.size}"
    if op.kind == "note":
        return f"{head}EXIT"
    word = "" if op.kind in ("cluster_arrive", "dealloc") else "PASS   " if e.end else "WAIT   "
    return f"{head}{word}{_sync(e)}"


def _glog(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"I1124 12:01:{(op.k or 0) % 60:02}.123456 77 kernel.cu:{100 + WARPS[role]}] [cta {cta}] {role}{_k(op, ' k_block {}')}: "
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        whose = f" (in cta {op.owner})" if peer(e) else ""
        return f"{head}{'wait complete' if e.end else 'waiting'}, {bar}{whose} phase {op.parity}"
    if op.kind == "arrive":
        reach = f", multicast mask {mask(op):#x}" if remote(e) else ""
        return f"{head}committed {bar}{reach}{f', {op.size} bytes expected' if op.size else ''}"
    if op.kind == "copy":
        return f"{head}TMA copy for {bar} issued, {op.size} bytes"
    if op.kind == "note":
        return head + op.text
    if op.kind in ("cluster_arrive", "dealloc"):
        return head + _sync(e)
    return f"{head}{'wait complete' if e.end else 'waiting'}, {_sync(e)}"


def _nested(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    row: dict[str, object] = {"actor": {"cta": cta, "warp": WARPS[role], "role": role}}
    if op.k is not None:
        row["k"] = op.k
    if op.kind in ("wait", "arrive", "copy"):
        row["barrier"] = {"name": op.bar, "stage": op.stage} | ({"cta": op.owner} if peer(e) else {})
    if op.kind == "wait":
        row |= {"event": "leave_wait" if e.end else "enter_wait", "parity": op.parity}
    elif op.kind == "arrive":
        row |= (
            {"event": "arrive"}
            | ({"tx": op.size} if op.size else {})
            | ({"mask": mask(op)} if remote(e) else {})
        )
    elif op.kind == "copy":
        row |= {"event": "copy", "bytes": op.size}
    elif op.kind == "note":
        row |= {"event": "exit", "message": op.text}
    else:
        row["event"] = f"{'leave ' if e.end else 'enter '}{_sync(e)}"
    return json.dumps(row)


def _german_again(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"(CTA {cta}) {TALK_DE[role]}{_k(op, ' Schritt {}')}"
    bar = f"Barriere {op.bar} Stufe {op.stage}"
    if op.kind == "wait":
        whose = f" der CTA {op.owner}" if peer(e) else ""
        return f"{head} {'hat gewartet auf' if e.end else 'wartet auf'} {bar}{whose}, Parität {op.parity}"
    if op.kind == "arrive":
        reach = f", Maske {mask(op):#x}" if remote(e) else ""
        return f"{head} signalisiert {bar}{reach}" + (f", {op.size} Byte angekündigt" if op.size else "")
    if op.kind == "copy":
        return f"{head} startet Kopie von {op.size} Byte für {bar}"
    if op.kind == "note":
        return f"{head} beendet"
    if op.kind in ("cluster_arrive", "dealloc"):
        return f"{head} {_sync(e)}"
    return f"{head} {'hat gewartet auf' if e.end else 'wartet auf'} {_sync(e)}"


def _chinese_again(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"块{cta} {TALK_ZH[role]}{_k(op, ' k={}')}："
    bar = f"屏障{op.bar} 阶段{op.stage}"
    if op.kind == "wait":
        whose = f" 属于块{op.owner}" if peer(e) else ""
        return f"{head}{'通过' if e.end else '开始等待'}{bar}{whose} 奇偶{op.parity}"
    if op.kind == "arrive":
        reach = f" 掩码{mask(op):#x}" if remote(e) else ""
        return f"{head}到达{bar}{reach}" + (f" 期望{op.size}字节" if op.size else "")
    if op.kind == "copy":
        return f"{head}复制{op.size}字节 {bar}"
    if op.kind == "note":
        return f"{head}退出"
    if op.kind in ("cluster_arrive", "dealloc"):
        return f"{head}{_sync(e)}"
    return f"{head}{'通过' if e.end else '开始等待'}{_sync(e)}"


def _korean(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"[{TALK_KO[role]} cta{cta}]{_k(op, ' k={}')} "
    bar = f"{op.bar}[{op.stage}]"
    if op.kind == "wait":
        return f"{head}{'end' if e.end else 'begin'} wait {bar}{f'@cta{op.owner}' if peer(e) else ''} phase={op.parity}"
    if op.kind == "arrive":
        return f"{head}arrive {bar}{f' expect_tx={op.size}' if op.size else ''}{f' ctas={list(op.to)}' if remote(e) else ''}"
    if op.kind == "copy":
        return f"{head}copy {bar} bytes={op.size}"
    if op.kind == "note":
        return f"{head}exit"
    word = "" if op.kind in ("cluster_arrive", "dealloc") else "end " if e.end else "begin "
    return f"{head}{word}{_sync(e)}"


def _lambda_hex(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"cta_rank={cta} warp_idx={WARPS[role]}{_k(op, ' kb={}')} | "
    if op.bar in ORDER:
        at = _seen_from(op, cta, op.owner)
    if op.kind == "wait":
        return f"{head}{'after' if e.end else 'before'} mbar_wait(addr={at}, parity={op.parity})"
    if op.kind == "arrive":
        if remote(e):
            return "\n".join(f"{head}mbar_arrive_cluster(addr={_seen_from(op, cta, to)})" for to in op.to)
        return f"{head}mbar_arrive{'_expect_tx' if op.size else ''}(addr={at}{f', bytes={op.size}' if op.size else ''})"
    if op.kind == "copy":
        return f"{head}cp_async_bulk(mbar={at}, bytes={op.size})"
    if op.kind == "note":
        return head + op.text
    word = "" if op.kind in ("cluster_arrive", "dealloc") else "after " if e.end else "before "
    return f"{head}{word}{_sync(e)}"


def _warp(who: Who) -> str:
    return f"warp {WARPS[who[0]]}"


def _translated(words: dict[str, str]) -> Callable[[Who], str]:
    return lambda who: words[who[0]]


SEEN = {
    "arrows": Wording(_arrows),
    "calls-hex": Wording(_calls_hex, _warp),
    "json-dots": Wording(_json_dots),
    "german-prose": Wording(_german, _translated(TALK_DE)),
    "chinese-prose": Wording(_chinese, _translated(TALK_ZH)),
    "member": Wording(_member),
    "sentence": Wording(_sentence),
    "csv": Wording(_csv, head="cta,role,k,event,barrier,stage,phase,bytes,mask"),
    "ranked": Wording(_ranked),
}
HELD = {
    "logfmt": Wording(_logfmt),
    "columns": Wording(_columns),
    "glog": Wording(_glog),
    "json-nested": Wording(_nested),
    "german-again": Wording(_german_again, _translated(TALK_DE)),
    "chinese-again": Wording(_chinese_again, _translated(TALK_ZH)),
    "korean-roles": Wording(_korean, _translated(TALK_KO)),
    "hex-cluster": Wording(_lambda_hex, _warp),
}
