# ruff: noqa: E501, RUF001 - a log line is kept whole; words in Chinese and Cyrillic
"""How other people print the same events, written blind: from how kernels are debugged, not from the readers.

`SEEN` may be used to improve the explainer. `HELD` are for the measurement: an explainer is not changed for
them. Addresses in a cluster's shared memory have the CTA's rank in bits 24 and up, as `mapa` returns them.
"""

from __future__ import annotations

import json

from benchmarks.strangers.machine import Event, Op
from benchmarks.strangers.prose import Prose
from benchmarks.strangers.wordings import (
    ORDER,
    WARPS,
    Wording,
    address,
    in_cluster,
    mask,
    peer,
    remote,
    step,
    warp_name,
)  # fmt: skip

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


def _seen_from(op: Op, cta: int, owner: int) -> str:
    """The address in a CTA's own shared memory; for another CTA's barrier as mapa maps it."""
    at = f"{address(op) & 0xFFFF:#010x}"
    if owner == cta:
        return at
    return f"{in_cluster(op, owner):#010x}" if owner else f"mapa({at}, 0)"


def _sync(op: Op) -> str:
    """The source text of an operation that is no mbarrier's."""
    return {
        "sync": f"bar.sync {op.number}, {op.size}" if op.number >= 0 else "__syncthreads()",
        "cluster_arrive": "barrier.cluster.arrive",
        "cluster_wait": "barrier.cluster.wait",
        "alloc": f"tcgen05.alloc({op.size} columns)",
        "dealloc": f"tcgen05.dealloc({op.size} columns)",
    }[op.kind]


# --- seen


def _calls_hex(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"b{cta} t{32 * WARPS[role]:03}{step(op, ' i={}')} "
    at = f"{in_cluster(op, op.owner):#x}" if op.bar in ORDER else ""
    if op.kind == "wait":
        return f"{head}wait({at}, {op.parity}){' ok' if e.end else ' ...'}"
    if op.kind == "arrive":
        call = f"arrive_expect_tx({at}, {op.size})" if op.size else f"arrive({at})"
        if remote(e):
            return "\n".join(f"{head}arrive({in_cluster(op, to):#x})" for to in op.to)
        return head + call
    if op.kind == "copy":
        return f"{head}tma_load(bar={at}, bytes={op.size})"
    if op.kind == "note":
        return head + op.text
    return f"{head}{_sync(op)}{' ok' if e.end else ' ...' if op.kind not in ('cluster_arrive', 'dealloc') else ''}"


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
        row["ev"] = _sync(op) + (".end" if e.end else "")
    return json.dumps(row)


def _member(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"{role}@{cta}{step(op, ' #{}')}: "
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
    return f"{head}{_sync(op)}{' returned' if e.end else ''}"


def _csv(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    kind = {"wait": "wait", "arrive": "arrive", "copy": "copy", "note": "exit"}.get(
        op.kind, _sync(op) if op.kind != "note" and op.kind not in ("wait", "arrive", "copy") else ""
    )
    kind = kind.split(",")[0]  # a comma would be another cell
    if e.end:
        kind += "_done"
    bar = f"{op.bar}{f'@cta{op.owner}' if peer(e) else ''}" if op.kind in ("wait", "arrive", "copy") else "-"
    phase = op.parity if op.kind == "wait" else ""
    to = f"{mask(op):#x}" if op.kind == "arrive" and remote(e) else ""
    stage = op.stage if bar != "-" else ""
    return f"{cta},{role},{'' if op.k is None else op.k},{kind},{bar},{stage},{phase},{op.size if op.kind in ('arrive', 'copy') and op.size else ''},{to}"


# --- held back


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
        row["event"] = f"{'leave ' if e.end else 'enter '}{_sync(op)}"
    return json.dumps(row)


def _lambda_hex(e: Event) -> str | None:
    op, (role, cta) = e.op, e.who
    head = f"cta_rank={cta} warp_idx={WARPS[role]}{step(op, ' kb={}')} | "
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
    return f"{head}{word}{_sync(op)}"


SEEN = {
    "arrows": Prose(
        "[blk {cta}][{role}]{k}: ", " kb {}", call=_sync,
        waits=("-> wait on {bar}{whose} (ph {p})", "<- got {bar}{whose} (ph {p})"), whose=" of blk {o}",
        arrives="arrive {bar}{reach}{tx}", reach=" to blks {l}", tx=", expect {n} bytes",
        copies="issued TMA into {bar}, {n} bytes",
        blocks=("-> wait on {call}", "<- got past {call}"), free="-> wait on {call}",
    ).wording(),
    "calls-hex": Wording(_calls_hex, warp_name),
    "json-dots": Wording(_json_dots),
    "german-prose": Prose(
        "Block {cta}, {role}{k}: ", ", Runde {}", call=_sync, roles=TALK_DE,
        waits=("Warten auf {bar}{whose}, Phase {p}", "fertig mit Warten auf {bar}{whose}, Phase {p}"),
        whose=" von Block {o}",
        arrives="melde {bar}{reach}{tx}", reach=" in Block {l}", between=" und ", tx=", erwarte {n} Bytes",
        copies="kopiere {n} Bytes nach {bar}", note="fertig",
        blocks=("Warten auf {call}", "fertig mit Warten auf {call}"),
    ).wording(),
    "chinese-prose": Prose(
        "[CTA{cta}][{role}]{k} ", "第{}轮", call=_sync, roles=TALK_ZH,
        waits=("等待 {bar}{whose} 相位={p}", "等到了 {bar}{whose} 相位={p}"), whose="(CTA{o}的)",
        arrives="通知 {bar}{reach}{tx}", reach=" 到 CTA {l}", tx=" 预期字节={n}", copies="拷贝 {bar} 字节={n}",
        note="结束", blocks=("等待 {call}", "等到了 {call}"),
    ).wording(),
    "member": Wording(_member),
    "sentence": Prose(
        "The {role} warp in CTA {cta}", " (iteration {})", call=_sync, bar="{b} stage {s}",
        waits=(
            " is about to wait for {bar}{whose}, parity {p}{k}",
            " no longer waits for {bar}{whose}, parity {p}{k}",
        ),
        whose=" of CTA {o}",
        arrives=" arrives on {bar}{reach}{tx}{k}", reach=" in CTAs {l}", between=" and ",
        tx=" and expects {n} bytes", copies=" starts a copy of {n} bytes for {bar}{k}", note=": {text}",
        blocks=(" is about to wait for {call}{k}", " no longer waits for {call}{k}"), free=" executes {call}{k}",
    ).wording(),
    "csv": Wording(_csv, head="cta,role,k,event,barrier,stage,phase,bytes,mask"),
    "ranked": Prose(
        "<{cta}:{role}>{k} ", " j={}", call=_sync, bar="{b}.{s}",
        waits=("blocked on {bar}{whose} p{p}", "unblocked on {bar}{whose} p{p}"), whose="(rank {o})",
        arrives="signal {bar}{reach}{tx}", reach=" mask {m:#b}", tx=" tx {n}",
        copies="bulk copy {n} B -> {bar}", blocks=("blocked on {call}", "unblocked on {call}"),
    ).wording(),
}  # fmt: skip
HELD = {
    "logfmt": Prose(
        "level=debug cta={cta} warp={warp} role={role}{k} ", " iter={}", call=_sync, bar="bar={b} slot={s}",
        waits=("op=wait {bar} parity={p}{whose} state=begin", "op=wait {bar} parity={p}{whose} state=end"),
        whose=" owner_cta={o}", arrives="op=arrive {bar}{tx}{reach}", reach=" mask={m:#x}", tx=" tx_bytes={n}",
        copies="op=copy {bar} bytes={n}", note='op=exit msg="{text}"',
        blocks=('op="{call}" state=begin', 'op="{call}" state=end'), free='op="{call}"',
    ).wording(),
    "columns": Prose(
        "{ROLE:10} CTA={cta} {k}", "IT={:04} ", call=_sync, bar="{B}.{s}",
        waits=("WAIT   {whose}{bar}  PH={p}", "PASS   {whose}{bar}  PH={p}"), whose="PEER ",
        arrives="ARRIVE {bar}{tx}{reach}", reach="  MASK={m:#x}", tx="  TX={n}",
        copies="COPY   {bar}  BYTES={n}", note="EXIT", blocks=("WAIT   {call}", "PASS   {call}"),
    ).wording(),
    "glog": Prose(
        "I1124 12:01:{second:02}.123456 77 kernel.cu:{line}] [cta {cta}] {role}{k}: ", " k_block {}", call=_sync,
        waits=("waiting, {bar}{whose} phase {p}", "wait complete, {bar}{whose} phase {p}"),
        whose=" (in cta {o})",
        arrives="committed {bar}{reach}{tx}", reach=", multicast mask {m:#x}", tx=", {n} bytes expected",
        copies="TMA copy for {bar} issued, {n} bytes", blocks=("waiting, {call}", "wait complete, {call}"),
    ).wording(),
    "json-nested": Wording(_nested),
    "german-again": Prose(
        "(CTA {cta}) {role}{k} ", " Schritt {}", call=_sync, roles=TALK_DE, bar="Barriere {b} Stufe {s}",
        waits=("wartet auf {bar}{whose}, Parität {p}", "hat gewartet auf {bar}{whose}, Parität {p}"),
        whose=" der CTA {o}",
        arrives="signalisiert {bar}{reach}{tx}", reach=", Maske {m:#x}", tx=", {n} Byte angekündigt",
        copies="startet Kopie von {n} Byte für {bar}", note="beendet",
        blocks=("wartet auf {call}", "hat gewartet auf {call}"),
    ).wording(),
    "chinese-again": Prose(
        "块{cta} {role}{k}：", " k={}", call=_sync, roles=TALK_ZH, bar="屏障{b} 阶段{s}",
        waits=("开始等待{bar}{whose} 奇偶{p}", "通过{bar}{whose} 奇偶{p}"), whose=" 属于块{o}",
        arrives="到达{bar}{reach}{tx}", reach=" 掩码{m:#x}", tx=" 期望{n}字节", copies="复制{n}字节 {bar}",
        note="退出", blocks=("开始等待{call}", "通过{call}"),
    ).wording(),
    "korean-roles": Prose(
        "[{role} cta{cta}]{k} ", " k={}", call=_sync, roles=TALK_KO,
        waits=("begin wait {bar}{whose} phase={p}", "end wait {bar}{whose} phase={p}"), whose="@cta{o}",
        arrives="arrive {bar}{tx}{reach}", reach=" ctas=[{l}]", between=", ", tx=" expect_tx={n}",
        copies="copy {bar} bytes={n}", note="exit", blocks=("begin {call}", "end {call}"),
    ).wording(),
    "hex-cluster": Wording(_lambda_hex, warp_name),
}  # fmt: skip
