# ruff: noqa: E501, RUF001 - log lines are kept whole
"""The first exam: styles written before the general reader existed."""

from __future__ import annotations

import json

from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

DE = {
    "load": "Lader",
    "mma": "Rechenkern",
    "epi": "Ausschreiber",
    "softmax0": "Softmax_A",
    "softmax1": "Softmax_B",
    "main": "Haupt",
    "tma": "TMA",
    "issue": "Starter",
    "compute": "Rechner",
    "reduce": "Summierer",
    "sched": "Verteiler",
    "loader": "Lader",
    "tensor": "Tensorkern",
    "epilogue": "Nachlauf",
    "fetch": "Holer",
    "head": "Kopf",
}
FR = {
    "load": "chargeur",
    "mma": "produit",
    "epi": "ecriture",
    "softmax0": "softmax_a",
    "softmax1": "softmax_b",
    "main": "principal",
    "tma": "tma",
    "issue": "lanceur",
    "compute": "calcul",
    "reduce": "somme",
    "sched": "repartiteur",
    "loader": "chargeur",
    "tensor": "tenseur",
    "epilogue": "epilogue",
    "fetch": "lecture",
    "head": "tete",
}
ZH = {
    "load": "装载",
    "mma": "矩阵",
    "epi": "收尾",
    "softmax0": "归一甲",
    "softmax1": "归一乙",
    "main": "主线",
    "tma": "搬运工",
    "issue": "发射",
    "compute": "计算",
    "reduce": "规约",
    "sched": "调度",
    "loader": "装载",
    "tensor": "张量",
    "epilogue": "收尾",
    "fetch": "取数",
    "head": "首线",
}
JA = {
    "load": "ロード係",
    "mma": "行列積",
    "epi": "書き出し",
    "softmax0": "ソフト0",
    "softmax1": "ソフト1",
    "main": "メイン",
    "tma": "転送係",
    "issue": "発行",
    "compute": "演算",
    "reduce": "集約",
    "sched": "配分",
    "loader": "ロード係",
    "tensor": "テンソル",
    "epilogue": "後処理",
    "fetch": "取得",
    "head": "先頭",
}
ES = {
    "load": "cargador",
    "mma": "producto",
    "epi": "salida",
    "softmax0": "suave0",
    "softmax1": "suave1",
    "main": "principal",
    "tma": "traedor",
    "issue": "emisor",
    "compute": "calculo",
    "reduce": "suma",
    "sched": "reparto",
    "loader": "cargador",
    "tensor": "tensor",
    "epilogue": "cierre",
    "fetch": "lector",
    "head": "cabeza",
}


def _addresses(case: Case, style: Style) -> list[str]:
    rows, at = [], 0
    for name, (stages, count) in barriers(case).items():
        for stage in range(stages):
            rows.append(f"    smem+{0x400 + 8 * at:#06x}  {style.bar(name)}[{stage}]  init({count})")
            at += 1
    return ["smem layout of mbarriers:", *rows]


def _counts(case: Case, style: Style) -> list[str]:
    return [
        f"init {style.bar(name)}[{stage}] count={count}"
        for name, (stages, count) in barriers(case).items()
        for stage in range(stages)
    ]


def _json(kind: str, **more: str) -> str:
    row = {
        "lvl": "dbg",
        "t": "{t}",
        "unit": {"cta": "@{cta}@", "warp": "@{warp}@", "role": "{role}"},
        "ev": kind,
        **more,
    }
    return (
        json.dumps(row)
        .replace("{", "{{")
        .replace("}", "}}")
        .replace('"@{{', "{")
        .replace('}}@"', "}")
        .replace("{{t}}", "{t}")
        .replace("{{role}}", "{role}")
        .replace("{{bar}}", "{bar}")
        .replace("{{api}}", "{api}")
        .replace("{{text}}", "{text}")
        .replace("{{to}}", "{to}")
        .replace('"[{to}]"', "[{to}]")
    )


def _tsv(case: Case, style: Style) -> list[str]:
    return ["time\tcta\twarp\trole\toperation\tbarrier\tslot\tparity\titer\tbytes\ttarget"]


def _markdown(case: Case, style: Style) -> list[str]:
    return [
        "### trace before the hang",
        "",
        "| # | block | who | what happened | mbarrier | idx | parity bit | kblk | note |",
        "|---|---|---|---|---|---|---|---|---|",
    ]


STYLES: dict[str, Style] = {
    "terse": Style(
        {
            "wait": "b{cta} w{warp} {role}: -> wait {bar}[{st}]{own} p{ph}{kk}",
            "done": "b{cta} w{warp} {role}: <- wait {bar}[{st}]{own} p{ph}{kk}",
            "arrive": "b{cta} w{warp} {role}: arv {bar}[{st}]{far}{kk}",
            "expect": "b{cta} w{warp} {role}: arv+tx {bar}[{st}] {bytes}{far}{kk}",
            "copy": "b{cta} w{warp} {role}: tma ld {bytes} -> {bar}[{st}]{far}{kk}",
            "enter": "b{cta} w{warp} {role}: -> {api}",
            "leave": "b{cta} w{warp} {role}: <- {api}",
            "call": "b{cta} w{warp} {role}: {api}",
            "note": "b{cta} w{warp} {role}: {text}",
        },
        own="@b{owner}",
        to=" to b{to}",
        k=" k{k}",
    ),
    "python-dict": Style(
        {
            "wait": "{{'cta': {cta}, 'role': '{role}', 'ev': 'wait_enter', 'bar': '{bar}', 'slot': {st}, 'parity': {ph}{own}{kk}}}",
            "done": "{{'cta': {cta}, 'role': '{role}', 'ev': 'wait_exit', 'bar': '{bar}', 'slot': {st}, 'parity': {ph}{own}{kk}}}",
            "arrive": "{{'cta': {cta}, 'role': '{role}', 'ev': 'arrive', 'bar': '{bar}', 'slot': {st}{far}{kk}}}",
            "expect": "{{'cta': {cta}, 'role': '{role}', 'ev': 'arrive_expect_tx', 'bar': '{bar}', 'slot': {st}, 'tx': {bytes}{far}{kk}}}",
            "copy": "{{'cta': {cta}, 'role': '{role}', 'ev': 'cp_async_bulk', 'bar': '{bar}', 'slot': {st}, 'nbytes': {bytes}{far}{kk}}}",
            "enter": "{{'cta': {cta}, 'role': '{role}', 'ev': 'enter', 'what': '{api}'}}",
            "leave": "{{'cta': {cta}, 'role': '{role}', 'ev': 'exit', 'what': '{api}'}}",
            "call": "{{'cta': {cta}, 'role': '{role}', 'ev': '{api}'}}",
            "note": "{{'cta': {cta}, 'role': '{role}', 'ev': 'note', 'msg': '{text}'}}",
        },
        own=", 'bar_cta': {owner}",
        to=", 'dst': [{to}]",
        k=", 'iter': {k}",
    ),
    "spreadsheet": Style(
        {
            "wait": "{t}\t{cta}\t{warp}\t{role}\twait begin\t{bar}\t{st}\t{ph}\t{k}\t\t{own}",
            "done": "{t}\t{cta}\t{warp}\t{role}\twait end\t{bar}\t{st}\t{ph}\t{k}\t\t{own}",
            "arrive": "{t}\t{cta}\t{warp}\t{role}\tarrive\t{bar}\t{st}\t\t{k}\t\t{far}",
            "expect": "{t}\t{cta}\t{warp}\t{role}\tarrive expect\t{bar}\t{st}\t\t{k}\t{bytes}\t{far}",
            "copy": "{t}\t{cta}\t{warp}\t{role}\tTMA load\t{bar}\t{st}\t\t{k}\t{bytes}\t{far}",
            "enter": "{t}\t{cta}\t{warp}\t{role}\t{api} begin\t\t\t\t\t\t",
            "leave": "{t}\t{cta}\t{warp}\t{role}\t{api} end\t\t\t\t\t\t",
            "call": "{t}\t{cta}\t{warp}\t{role}\t{api}\t\t\t\t\t\t",
            "note": "{t}\t{cta}\t{warp}\t{role}\t{text}\t\t\t\t\t\t",
        },
        own="cta{owner}",
        to="cta{to}",
        head=_tsv,
    ),
    "deutsch": Style(
        {
            "wait": "CTA {cta}, {role} (Warp {warp}): Warten auf {bar}[{st}]{own}, Paritätsbit {ph}{kk}",
            "done": "CTA {cta}, {role} (Warp {warp}): {bar}[{st}]{own} mit Paritätsbit {ph} ist gekommen{kk}",
            "arrive": "CTA {cta}, {role} (Warp {warp}): trifft ein bei {bar}[{st}]{far}{kk}",
            "expect": "CTA {cta}, {role} (Warp {warp}): trifft ein bei {bar}[{st}]{far} und kündigt {bytes} Bytes an{kk}",
            "copy": "CTA {cta}, {role} (Warp {warp}): startet Kopie von {bytes} Bytes für {bar}[{st}]{far}{kk}",
            "enter": "CTA {cta}, {role} (Warp {warp}): vor {api}",
            "leave": "CTA {cta}, {role} (Warp {warp}): hinter {api}",
            "call": "CTA {cta}, {role} (Warp {warp}): {api}",
            "note": "CTA {cta}, {role} (Warp {warp}): {text}",
        },
        roles=DE,
        bar=replaced(
            {"full": "belegt", "empty": "leer", "free": "frei", "ready": "bereit", "done": "fertig"}
        ),
        own=" von CTA {owner}",
        to=" in CTA {to}",
        k=" (Block {k})",
    ),
    "chinese": Style(
        {
            "wait": "[CTA{cta}][{role}] 开始等 {bar}[{st}]{own} 相位={ph}{kk}",
            "done": "[CTA{cta}][{role}] {bar}[{st}]{own} 相位={ph} 已就绪，继续{kk}",
            "arrive": "[CTA{cta}][{role}] 对 {bar}[{st}]{far} 执行 arrive{kk}",
            "expect": "[CTA{cta}][{role}] 对 {bar}[{st}]{far} 执行 arrive，预计 {bytes} 字节{kk}",
            "copy": "[CTA{cta}][{role}] 启动 TMA 传输 {bytes} 字节，通知 {bar}[{st}]{far}{kk}",
            "enter": "[CTA{cta}][{role}] 进入 {api}",
            "leave": "[CTA{cta}][{role}] 走出 {api}",
            "call": "[CTA{cta}][{role}] {api}",
            "note": "[CTA{cta}][{role}] {text}",
        },
        roles=ZH,
        own="（位于CTA{owner}）",
        to="（目标CTA{to}）",
        k=" 迭代={k}",
    ),
    "francais": Style(
        {
            "wait": "{t} | bloc {cta} | {role} | en attente de {bar}({st}){own}, bit de phase {ph}{kk}",
            "done": "{t} | bloc {cta} | {role} | attente finie sur {bar}({st}){own}, bit de phase {ph}{kk}",
            "arrive": "{t} | bloc {cta} | {role} | signale {bar}({st}){far}{kk}",
            "expect": "{t} | bloc {cta} | {role} | signale {bar}({st}){far}, {bytes} octets attendus{kk}",
            "copy": "{t} | bloc {cta} | {role} | copie TMA de {bytes} octets vers {bar}({st}){far}{kk}",
            "enter": "{t} | bloc {cta} | {role} | entre dans {api}",
            "leave": "{t} | bloc {cta} | {role} | sort de {api}",
            "call": "{t} | bloc {cta} | {role} | {api}",
            "note": "{t} | bloc {cta} | {role} | {text}",
        },
        roles=FR,
        bar=replaced({"full": "plein", "empty": "vide", "free": "libre", "ready": "pret", "done": "fini"}),
        own=" du bloc {owner}",
        to=" du bloc {to}",
        k=", tour {k}",
    ),
    "japanese": Style(
        {
            "wait": "CTA{cta} {role}：{bar}[{st}]{own} 待ち（フェーズ {ph}）{kk}",
            "done": "CTA{cta} {role}：{bar}[{st}]{own} 待ち完了（フェーズ {ph}）{kk}",
            "arrive": "CTA{cta} {role}：{bar}[{st}]{far} に到着{kk}",
            "expect": "CTA{cta} {role}：{bar}[{st}]{far} に到着、{bytes} バイト予告{kk}",
            "copy": "CTA{cta} {role}：{bar}[{st}]{far} へ {bytes} バイト転送開始{kk}",
            "enter": "CTA{cta} {role}：{api} 開始",
            "leave": "CTA{cta} {role}：{api} 終了",
            "call": "CTA{cta} {role}：{api}",
            "note": "CTA{cta} {role}：{text}",
        },
        roles=JA,
        own="（CTA{owner} 側）",
        to="（CTA{to} 宛）",
        k=" 反復{k}",
    ),
    "logfmt": Style(
        {
            "wait": "ts={t} src=kernel blk={cta} actor={role} op=mbar.wait state=pending mbar={bar} slot={st} parity={ph}{own}{kk}",
            "done": "ts={t} src=kernel blk={cta} actor={role} op=mbar.wait state=satisfied mbar={bar} slot={st} parity={ph}{own}{kk}",
            "arrive": "ts={t} src=kernel blk={cta} actor={role} op=mbar.arrive mbar={bar} slot={st}{far}{kk}",
            "expect": "ts={t} src=kernel blk={cta} actor={role} op=mbar.expect_tx mbar={bar} slot={st} bytes={bytes}{far}{kk}",
            "copy": "ts={t} src=kernel blk={cta} actor={role} op=tma.load mbar={bar} slot={st} bytes={bytes}{far}{kk}",
            "enter": 'ts={t} src=kernel blk={cta} actor={role} op="{api}" state=pending',
            "leave": 'ts={t} src=kernel blk={cta} actor={role} op="{api}" state=satisfied',
            "call": 'ts={t} src=kernel blk={cta} actor={role} op="{api}"',
            "note": 'ts={t} src=kernel blk={cta} actor={role} msg="{text}"',
        },
        own=" home={owner}",
        to=" cta_mask={to}",
        k=" it={k}",
        mask=True,
    ),
    "markdown": Style(
        {
            "wait": "| {n} | {cta} | {role} | waiting | {bar} | {st} | {ph} | {k} | {own} |",
            "done": "| {n} | {cta} | {role} | wait over | {bar} | {st} | {ph} | {k} | {own} |",
            "arrive": "| {n} | {cta} | {role} | arrived | {bar} | {st} | | {k} | {far} |",
            "expect": "| {n} | {cta} | {role} | arrived, expects tx | {bar} | {st} | | {k} | {bytes} bytes {far} |",
            "copy": "| {n} | {cta} | {role} | bulk copy issued | {bar} | {st} | | {k} | {bytes} bytes {far} |",
            "enter": "| {n} | {cta} | {role} | entering {api} | | | | | |",
            "leave": "| {n} | {cta} | {role} | left {api} | | | | | |",
            "call": "| {n} | {cta} | {role} | {api} | | | | | |",
            "note": "| {n} | {cta} | {role} | {text} | | | | | |",
        },
        own="barrier of block {owner}",
        to="to block {to}",
        head=_markdown,
        bar=camel,
    ),
    "chat": Style(
        {
            "wait": "{role}/{cta}: hanging around for {bar} slot {st}{own}, phase {ph}{kk}",
            "done": "{role}/{cta}: {bar} slot {st}{own} phase {ph} came through{kk}",
            "arrive": "{role}/{cta}: pinged {bar} slot {st}{far}{kk}",
            "expect": "{role}/{cta}: pinged {bar} slot {st}{far} with {bytes} bytes to come{kk}",
            "copy": "{role}/{cta}: fired tma for {bar} slot {st}{far}, {bytes} bytes{kk}",
            "enter": "{role}/{cta}: going into {api}",
            "leave": "{role}/{cta}: out of {api}",
            "call": "{role}/{cta}: did {api}",
            "note": "{role}/{cta}: {text}",
        },
        own=" over in cta {owner}",
        to=" in cta {to}",
        k=" (iter {k})",
    ),
    "nested-json": Style(
        {
            "wait": _json(
                "MBAR_WAIT_ENTER",
                mbar={"name": "{bar}", "slot": "@{st}@", "parity": "@{ph}@", "home": "@{owner}@"},
                i="{k}",
            ).replace("{{k}}", "{k}"),
            "done": _json(
                "MBAR_WAIT_LEAVE",
                mbar={"name": "{bar}", "slot": "@{st}@", "parity": "@{ph}@", "home": "@{owner}@"},
                i="{k}",
            ).replace("{{k}}", "{k}"),
            "arrive": _json("MBAR_ARRIVE", mbar={"name": "{bar}", "slot": "@{st}@"}, ctas="[{to}]"),
            "expect": _json(
                "MBAR_ARRIVE_TX", mbar={"name": "{bar}", "slot": "@{st}@"}, ctas="[{to}]", bytes="@{bytes}@"
            ),
            "copy": _json(
                "TMA_ISSUE", mbar={"name": "{bar}", "slot": "@{st}@"}, ctas="[{to}]", bytes="@{bytes}@"
            ),
            "enter": _json("SYNC_ENTER", call="{api}"),
            "leave": _json("SYNC_LEAVE", call="{api}"),
            "call": _json("CALL", call="{api}"),
            "note": _json("NOTE", text="{text}"),
        },  # type: ignore[arg-type]
    ),
    "rust-tracing": Style(
        {
            "wait": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: barrier: blocked name="{bar}" index={st} parity={ph}{own}{kk}',
            "done": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: barrier: unblocked name="{bar}" index={st} parity={ph}{own}{kk}',
            "arrive": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: barrier: signalled name="{bar}" index={st}{far}{kk}',
            "expect": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: barrier: signalled name="{bar}" index={st} expect_bytes={bytes}{far}{kk}',
            "copy": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: tma: issued name="{bar}" index={st} bytes={bytes}{far}{kk}',
            "enter": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: blocked in {api}',
            "leave": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: unblocked from {api}',
            "call": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: {api}',
            "note": '2026-10-03T08:11:42.{n:06d}Z TRACE kernel{{cta={cta} role="{role}"}}: {text}',
        },
        own=" owner_cta={owner}",
        to=" dest_ctas=[{to}]",
        k=" round={k}",
    ),
    "columns": Style(
        {
            "wait": "{n:06d} C{cta} W{warp:02d} {role:<9} WAIT     {bar}+{st}{own:<4} p={ph} it={k}",
            "done": "{n:06d} C{cta} W{warp:02d} {role:<9} WAITDONE {bar}+{st}{own:<4} p={ph} it={k}",
            "arrive": "{n:06d} C{cta} W{warp:02d} {role:<9} ARRIVE   {bar}+{st}{far:<4} it={k}",
            "expect": "{n:06d} C{cta} W{warp:02d} {role:<9} EXPECTTX {bar}+{st}{far:<4} n={bytes} it={k}",
            "copy": "{n:06d} C{cta} W{warp:02d} {role:<9} BULKCOPY {bar}+{st}{far:<4} n={bytes} it={k}",
            "enter": "{n:06d} C{cta} W{warp:02d} {role:<9} ENTER    {api}",
            "leave": "{n:06d} C{cta} W{warp:02d} {role:<9} LEAVE    {api}",
            "call": "{n:06d} C{cta} W{warp:02d} {role:<9} CALL     {api}",
            "note": "{n:06d} C{cta} W{warp:02d} {role:<9} NOTE     {text}",
        },
        own="@C{owner}",
        to="@C{to}",
        bar=str.upper,
        roles={"softmax0": "SMAX0", "softmax1": "SMAX1"},
    ),
    "xml": Style(
        {
            "wait": '<wait cta="{cta}" role="{role}" barrier="{bar}" stage="{st}" phase="{ph}"{own}{kk}/>',
            "done": '<waited cta="{cta}" role="{role}" barrier="{bar}" stage="{st}" phase="{ph}"{own}{kk}/>',
            "arrive": '<arrive cta="{cta}" role="{role}" barrier="{bar}" stage="{st}"{far}{kk}/>',
            "expect": '<arrive cta="{cta}" role="{role}" barrier="{bar}" stage="{st}" tx="{bytes}"{far}{kk}/>',
            "copy": '<copy cta="{cta}" role="{role}" barrier="{bar}" stage="{st}" bytes="{bytes}"{far}{kk}/>',
            "enter": '<enter cta="{cta}" role="{role}" call="{api}"/>',
            "leave": '<leave cta="{cta}" role="{role}" call="{api}"/>',
            "call": '<call cta="{cta}" role="{role}" call="{api}"/>',
            "note": '<note cta="{cta}" role="{role}">{text}</note>',
        },
        own=' of="{owner}"',
        to=' to="{to}"',
        k=' k="{k}"',
    ),
    "espanol": Style(
        {
            "wait": "<{cta}:{role}> espera {bar}[{st}]{own} con paridad {ph}{kk}",
            "done": "<{cta}:{role}> termina la espera de {bar}[{st}]{own} con paridad {ph}{kk}",
            "arrive": "<{cta}:{role}> avisa a {bar}[{st}]{far}{kk}",
            "expect": "<{cta}:{role}> avisa a {bar}[{st}]{far} y anuncia {bytes} bytes{kk}",
            "copy": "<{cta}:{role}> lanza copia de {bytes} bytes para {bar}[{st}]{far}{kk}",
            "enter": "<{cta}:{role}> entra en {api}",
            "leave": "<{cta}:{role}> sale de {api}",
            "call": "<{cta}:{role}> llama a {api}",
            "note": "<{cta}:{role}> {text}",
        },
        roles=ES,
        bar=replaced({"full": "lleno", "empty": "vacio", "free": "libre", "ready": "listo", "done": "hecho"}),
        own=" del bloque {owner}",
        to=" del bloque {to}",
        k=" en la vuelta {k}",
    ),
    "counts-head": Style(
        {
            "wait": "[{role}:{cta}] try_wait {bar}[{st}]{own} {ph} ...",
            "done": "[{role}:{cta}] try_wait {bar}[{st}]{own} {ph} returned true",
            "arrive": "[{role}:{cta}] mbarrier_arrive {bar}[{st}]{far}",
            "expect": "[{role}:{cta}] mbarrier_arrive_expect_tx {bar}[{st}]{far} {bytes}",
            "copy": "[{role}:{cta}] cp.async.bulk {bar}[{st}]{far} {bytes}",
            "enter": "[{role}:{cta}] {api} ...",
            "leave": "[{role}:{cta}] {api} returned",
            "call": "[{role}:{cta}] {api}",
            "note": "[{role}:{cta}] {text}",
        },
        own="@{owner}",
        to=" -> {to}",
        head=_counts,
        bar=lambda name: f"s.{name}",
    ),
}
