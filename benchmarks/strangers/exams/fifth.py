# ruff: noqa: E501 - log lines are kept whole
"""The fifth exam: more styles of authors who did not look at the reader of logs, none of the fourth's wordings."""

from __future__ import annotations

from benchmarks.strangers.exams.styles import Style, barriers, replaced, who_of
from benchmarks.strangers.kernels import Case

CS = {
    "load": "nakladač", "mma": "násobička", "epi": "zapisovač", "softmax0": "softmax_a",
    "softmax1": "softmax_b", "main": "hlavní", "tma": "přivaděč", "issue": "spouštěč", "compute": "počtář",
    "reduce": "sčítač", "sched": "rozdělovač", "loader": "nakladač", "tensor": "tenzor",
    "epilogue": "doslov", "fetch": "čtenář", "head": "vedoucí",
}  # fmt: skip
KO = {
    "load": "적재", "mma": "곱셈", "epi": "저장", "softmax0": "소프트맥스A", "softmax1": "소프트맥스B",
    "main": "본체", "tma": "운반", "issue": "지시", "compute": "연산", "reduce": "누적", "sched": "분배",
    "loader": "공급", "tensor": "텐서코어", "epilogue": "후처리", "fetch": "수집", "head": "대표",
}  # fmt: skip
BR = {
    "load": "carga", "mma": "matmul", "epi": "gravador", "softmax0": "softmax_esq", "softmax1": "softmax_dir",
    "main": "mestre", "tma": "entregador", "issue": "lançador", "compute": "contas", "reduce": "redutor",
    "sched": "escalonador", "loader": "alimentador", "tensor": "tensores", "epilogue": "final",
    "fetch": "coletor", "head": "chefe",
}  # fmt: skip
HU = {
    "load": "betöltő", "mma": "szorzó", "epi": "kiíró", "softmax0": "softmax_a", "softmax1": "softmax_b",
    "main": "fő", "tma": "hordár", "issue": "indító", "compute": "számoló", "reduce": "összegző",
    "sched": "ütemező", "loader": "betöltő", "tensor": "tenzor", "epilogue": "utómunka", "fetch": "olvasó",
    "head": "vezető",
}  # fmt: skip
WARP = {
    "load": "w0", "mma": "w1", "epi": "w4", "softmax0": "w4", "softmax1": "w8", "main": "w4", "tma": "w0",
    "issue": "w1", "compute": "w4", "reduce": "w8", "sched": "w3", "loader": "w0", "tensor": "w1",
    "epilogue": "w4", "fetch": "w0", "head": "w4",
}  # fmt: skip


def _warps(case: Case, style: Style) -> list[str]:
    rows = sorted({(WARP[role], role) for role, _ in who_of(case)})
    return ["--- c = CTA rank, w = first warp: " + ", ".join(f"{warp} is {role}" for warp, role in rows)]


def _sql(case: Case, style: Style) -> list[str]:
    return [
        "CREATE TABLE trace(seq INT, cta INT, role TEXT, step TEXT, mbar TEXT, slot INT, parity INT, k INT, bytes INT, mbar_cta TEXT);"
    ]


def _sizes(case: Case, style: Style) -> list[str]:
    return [
        f"Each phase of {style.bar(name)} takes {count} arrival{'s' if count > 1 else ''}; it has {stages} slot{'s' if stages > 1 else ''}."
        for name, (stages, count) in barriers(case).items()
    ]


def _compiler(lines: list[str]) -> list[str]:
    return [
        "python repro.py  # TRITON_ALWAYS_COMPILE=1",
        "/usr/lib/python3.12/site-packages/triton/language/semantic.py:1548: UserWarning: tl.device_print in a hot loop",
        "[autotune] config BLOCK_M: 128, BLOCK_N: 128, num_stages: 3, num_warps: 8",
        *lines,
    ]


def _todo(case: Case, style: Style) -> list[str]:
    return ["## who wants what (ticked = got it)", ""]


STYLES: dict[str, Style] = {
    "tilelang": Style(
        {
            "wait": "bx={cta} T.ws({role}){kk} T.mbarrier_wait_parity(mbarrier={bar}[{st}], parity={ph}){own} [in]",
            "done": "bx={cta} T.ws({role}){kk} T.mbarrier_wait_parity(mbarrier={bar}[{st}], parity={ph}){own} [out]",
            "arrive": "bx={cta} T.ws({role}){kk} T.mbarrier_arrive(mbarrier={bar}[{st}]{far})",
            "expect": "bx={cta} T.ws({role}){kk} T.mbarrier_arrive_expect_tx(mbarrier={bar}[{st}], {bytes}{far})",
            "copy": "bx={cta} T.ws({role}){kk} T.tma_load(desc, mbarrier={bar}[{st}], {bytes} bytes{far})",
            "enter": "bx={cta} T.ws({role}) {api} [in]",
            "leave": "bx={cta} T.ws({role}) {api} [out]",
            "call": "bx={cta} T.ws({role}) {api}",
            "note": "bx={cta} T.ws({role}) {text}",
        },
        own=" # peer bx={owner}",
        to=", cta_id=({to})",
        k=" ko={k}",
        sync="T.sync_threads(barrier_id={number}, arrive_count={size})",
    ),
    "ptx-polls": Style(
        {
            "wait": "{role} of block {cta} -- cuda::ptx::mbarrier_try_wait_parity(&{bar}[{st}], {ph}u){own} first poll{kk}",
            "done": "{role} of block {cta} -- cuda::ptx::mbarrier_try_wait_parity(&{bar}[{st}], {ph}u){own} true after {n} polls{kk}",
            "arrive": "{role} of block {cta} -- cuda::ptx::mbarrier_arrive(sem_release, &{bar}[{st}]){far}{kk}",
            "expect": "{role} of block {cta} -- cuda::ptx::mbarrier_arrive_expect_tx(sem_release, &{bar}[{st}], {bytes}u){far}{kk}",
            "copy": "{role} of block {cta} -- cuda::ptx::cp_async_bulk(space_cluster, {bytes}u, &{bar}[{st}]){far}{kk}",
            "enter": "{role} of block {cta} -- {api} first poll",
            "leave": "{role} of block {cta} -- {api} true after {n} polls",
            "call": "{role} of block {cta} -- {api}",
            "note": "{role} of block {cta} -- {text}",
        },
        own=" via map_shared_rank({owner})",
        to=" via map_shared_rank({to})",
        k=" -- i = {k}",
        sync="cuda::ptx::barrier_sync({number}, {size})",
    ),
    "triton-ws": Style(
        {
            "wait": "pid ({cta}, 0, 0) idx () async_task {role}: wait_barrier (consumer) {bar}%{st}{own} phase: {ph}{kk} issued",
            "done": "pid ({cta}, 0, 0) idx () async_task {role}: wait_barrier (consumer) {bar}%{st}{own} phase: {ph}{kk} retired",
            "wait back": "pid ({cta}, 0, 0) idx () async_task {role}: wait_barrier (producer acquire) {bar}%{st}{own} phase: {ph}{kk} issued",
            "done back": "pid ({cta}, 0, 0) idx () async_task {role}: wait_barrier (producer acquire) {bar}%{st}{own} phase: {ph}{kk} retired",
            "arrive": "pid ({cta}, 0, 0) idx () async_task {role}: arrive_barrier (producer commit) {bar}%{st}{far}{kk}",
            "arrive back": "pid ({cta}, 0, 0) idx () async_task {role}: arrive_barrier (consumer release) {bar}%{st}{far}{kk}",
            "expect": "pid ({cta}, 0, 0) idx () async_task {role}: barrier_expect {bar}%{st}{far} size: {bytes}{kk}",
            "copy": "pid ({cta}, 0, 0) idx () async_task {role}: async_tma_copy_global_to_local {bar}%{st}{far} size: {bytes}{kk}",
            "enter": "pid ({cta}, 0, 0) idx () async_task {role}: {api} issued",
            "leave": "pid ({cta}, 0, 0) idx () async_task {role}: {api} retired",
            "call": "pid ({cta}, 0, 0) idx () async_task {role}: {api}",
            "note": "pid ({cta}, 0, 0) idx () async_task {role}: {text}",
        },
        own=" in cta {owner}",
        to=" in ctas {to}",
        k=" accum_cnt: {k}",
        whole=_compiler,
    ),
    "lttng": Style(
        {
            "wait": '[14:22:01.{n:06d}037] (+0.000000412) h200 mbar:block: {{ cta_rank = {cta}, role = "{role}" }}, {{ name = "{bar}", idx = {st}, parity_bit = {ph}{own}{kk} }}',
            "done": '[14:22:01.{n:06d}037] (+0.000000412) h200 mbar:unblock: {{ cta_rank = {cta}, role = "{role}" }}, {{ name = "{bar}", idx = {st}, parity_bit = {ph}{own}{kk} }}',
            "arrive": '[14:22:01.{n:06d}037] (+0.000000412) h200 mbar:arrive: {{ cta_rank = {cta}, role = "{role}" }}, {{ name = "{bar}", idx = {st}{far}{kk} }}',
            "expect": '[14:22:01.{n:06d}037] (+0.000000412) h200 mbar:arrive: {{ cta_rank = {cta}, role = "{role}" }}, {{ name = "{bar}", idx = {st}, expect_tx = {bytes}{far}{kk} }}',
            "copy": '[14:22:01.{n:06d}037] (+0.000000412) h200 tma:submit: {{ cta_rank = {cta}, role = "{role}" }}, {{ name = "{bar}", idx = {st}, box_bytes = {bytes}{far}{kk} }}',
            "enter": '[14:22:01.{n:06d}037] (+0.000000412) h200 call:block: {{ cta_rank = {cta}, role = "{role}" }}, {{ what = "{api}" }}',
            "leave": '[14:22:01.{n:06d}037] (+0.000000412) h200 call:unblock: {{ cta_rank = {cta}, role = "{role}" }}, {{ what = "{api}" }}',
            "call": '[14:22:01.{n:06d}037] (+0.000000412) h200 call:plain: {{ cta_rank = {cta}, role = "{role}" }}, {{ what = "{api}" }}',
            "note": '[14:22:01.{n:06d}037] (+0.000000412) h200 text:say: {{ cta_rank = {cta}, role = "{role}" }}, {{ msg = "{text}" }}',
        },
        own=", mbar_rank = {owner}",
        to=", rank_mask = {to}",
        mask=True,
        k=", seqno = {k}",
    ),
    "uvm": Style(
        {
            "wait": "UVM_INFO ws_kernel.sv(212) @ {t} ns: top.cta{cta}.{role} [STALL] {bar}({st}){own} parity 1'b{ph} outstanding{kk}",
            "done": "UVM_INFO ws_kernel.sv(219) @ {t} ns: top.cta{cta}.{role} [GO] {bar}({st}){own} parity 1'b{ph} observed{kk}",
            "arrive": "UVM_INFO ws_kernel.sv(240) @ {t} ns: top.cta{cta}.{role} [ARRIVE] {bar}({st}){far} driven{kk}",
            "expect": "UVM_INFO ws_kernel.sv(244) @ {t} ns: top.cta{cta}.{role} [ARRIVE] {bar}({st}){far} driven, tx_count += {bytes}{kk}",
            "copy": "UVM_INFO ws_kernel.sv(251) @ {t} ns: top.cta{cta}.{role} [TMA] {bar}({st}){far} burst of {bytes} bytes launched{kk}",
            "enter": "UVM_INFO ws_kernel.sv(270) @ {t} ns: top.cta{cta}.{role} [STALL] {api} outstanding",
            "leave": "UVM_INFO ws_kernel.sv(271) @ {t} ns: top.cta{cta}.{role} [GO] {api} observed",
            "call": "UVM_INFO ws_kernel.sv(275) @ {t} ns: top.cta{cta}.{role} [CALL] {api}",
            "note": "UVM_INFO ws_kernel.sv(299) @ {t} ns: top.cta{cta}.{role} [NOTE] {text}",
        },
        own=" of top.cta{owner}",
        to=" of top.cta{{{to}}}",
        k=", beat {k}",
    ),
    "nvtx": Style(
        {
            "wait": '{t:>7} cta {cta} lane "{role}"  range_push("wait {bar} #{st}{own} parity {ph}{kk}")',
            "done": '{t:>7} cta {cta} lane "{role}"  range_pop("wait {bar} #{st}{own} parity {ph}{kk}")',
            "arrive": '{t:>7} cta {cta} lane "{role}"  mark("arrive {bar} #{st}{far}{kk}")',
            "expect": '{t:>7} cta {cta} lane "{role}"  mark("arrive {bar} #{st}{far}{kk}, expect {bytes} bytes")',
            "copy": '{t:>7} cta {cta} lane "{role}"  mark("tma load {bar} #{st}{far}{kk}, {bytes} bytes")',
            "enter": '{t:>7} cta {cta} lane "{role}"  range_push("{api}")',
            "leave": '{t:>7} cta {cta} lane "{role}"  range_pop("{api}")',
            "call": '{t:>7} cta {cta} lane "{role}"  mark("{api}")',
            "note": '{t:>7} cta {cta} lane "{role}"  mark("{text}")',
        },
        own=" from cta {owner}",
        to=" into cta {to}",
        k=" @k{k}",
    ),
    "go-struct": Style(
        {
            "wait": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Park On:{bar}/{st}{own} Bit:{ph} Iter:{k}}}",
            "done": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Unpark On:{bar}/{st}{own} Bit:{ph} Iter:{k}}}",
            "arrive": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Arrive On:{bar}/{st}{far} Iter:{k}}}",
            "expect": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Arrive On:{bar}/{st}{far} Expect:{bytes} Iter:{k}}}",
            "copy": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:BulkCopy On:{bar}/{st}{far} Len:{bytes} Iter:{k}}}",
            "enter": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Park On:{api}}}",
            "leave": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:Unpark On:{api}}}",
            "call": "2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Op:{api}}}",
            "note": '2026/05/11 09:14:22.{n:06d} trace.go:88: &{{Blk:{cta} Fn:{role} Msg:"{text}"}}',
        },
        own=" Home:{owner}",
        to=" Homes:[{to}]",
    ),
    "sql": Style(
        {
            "wait": "INSERT INTO trace VALUES({n}, {cta}, '{role}', 'await begins', '{bar}', {st}, {ph}, {k}, NULL, '{owner}');",
            "done": "INSERT INTO trace VALUES({n}, {cta}, '{role}', 'await ends', '{bar}', {st}, {ph}, {k}, NULL, '{owner}');",
            "arrive": "INSERT INTO trace VALUES({n}, {cta}, '{role}', 'arrive', '{bar}', {st}, NULL, {k}, NULL, '{to}');",
            "expect": "INSERT INTO trace VALUES({n}, {cta}, '{role}', 'arrive + expect_tx', '{bar}', {st}, NULL, {k}, {bytes}, '{to}');",
            "copy": "INSERT INTO trace VALUES({n}, {cta}, '{role}', 'tma copy', '{bar}', {st}, NULL, {k}, {bytes}, '{to}');",
            "enter": "INSERT INTO trace VALUES({n}, {cta}, '{role}', '{api} begins', NULL, NULL, NULL, NULL, NULL, NULL);",
            "leave": "INSERT INTO trace VALUES({n}, {cta}, '{role}', '{api} ends', NULL, NULL, NULL, NULL, NULL, NULL);",
            "call": "INSERT INTO trace VALUES({n}, {cta}, '{role}', '{api}', NULL, NULL, NULL, NULL, NULL, NULL);",
            "note": "INSERT INTO trace VALUES({n}, {cta}, '{role}', '{text}', NULL, NULL, NULL, NULL, NULL, NULL);",
        },
        head=_sql,
    ),
    "checkboxes": Style(
        {
            "wait": "- [ ] {role} (block {cta}){kk} wants {bar}, buffer {st}{own}, phase bit {ph}",
            "done": "- [x] {role} (block {cta}){kk} wants {bar}, buffer {st}{own}, phase bit {ph}",
            "arrive": "- {role} (block {cta}){kk} hands in {bar}, buffer {st}{far}",
            "expect": "- {role} (block {cta}){kk} hands in {bar}, buffer {st}{far}, with {bytes} bytes outstanding",
            "copy": "- {role} (block {cta}){kk} kicks off a {bytes}-byte TMA load for {bar}, buffer {st}{far}",
            "enter": "- [ ] {role} (block {cta}) wants `{api}`",
            "leave": "- [x] {role} (block {cta}) wants `{api}`",
            "call": "- {role} (block {cta}) runs `{api}`",
            "note": "- {role} (block {cta}) _{text}_",
        },
        own=" (kept by block {owner})",
        to=" (kept by block {to})",
        k=" round {k}",
        head=_todo,
    ),
    "cestina": Style(
        {
            "wait": "{role}, blok {cta}: čeká na bariéru {bar}[{st}]{own}, parita {ph}{kk}",
            "done": "{role}, blok {cta}: dočkal se bariéry {bar}[{st}]{own}, parita {ph}{kk}",
            "arrive": "{role}, blok {cta}: hlásí příchod na bariéru {bar}[{st}]{far}{kk}",
            "expect": "{role}, blok {cta}: hlásí příchod na bariéru {bar}[{st}]{far}, má dorazit {bytes} bajtů{kk}",
            "copy": "{role}, blok {cta}: spouští kopii {bytes} bajtů pro bariéru {bar}[{st}]{far}{kk}",
            "enter": "{role}, blok {cta}: čeká na {api}",
            "leave": "{role}, blok {cta}: dočkal se {api}",
            "call": "{role}, blok {cta}: volá {api}",
            "note": "{role}, blok {cta}: {text}",
        },
        roles=CS,
        bar=replaced({"full": "plna", "empty": "prazdna"}),
        own=" v bloku {owner}",
        to=" v bloku {to}",
        k=", kolo {k}",
    ),
    "korean-polite": Style(
        {
            "wait": "{cta}번 블록 {role} 워프가 {own}{bar} {st}번 칸을 기다립니다 (패리티 {ph}{kk})",
            "done": "{cta}번 블록 {role} 워프가 {own}{bar} {st}번 칸을 통과했습니다 (패리티 {ph}{kk})",
            "arrive": "{cta}번 블록 {role} 워프가 {far}{bar} {st}번 칸에 신호를 보냈습니다{kk}",
            "expect": "{cta}번 블록 {role} 워프가 {far}{bar} {st}번 칸에 신호를 보내고 {bytes}바이트를 예약했습니다{kk}",
            "copy": "{cta}번 블록 {role} 워프가 {far}{bar} {st}번 칸으로 {bytes}바이트 복사를 걸었습니다{kk}",
            "enter": "{cta}번 블록 {role} 워프가 {api} 을 기다립니다",
            "leave": "{cta}번 블록 {role} 워프가 {api} 을 통과했습니다",
            "call": "{cta}번 블록 {role} 워프가 {api} 을 호출했습니다",
            "note": "{cta}번 블록 {role} 워프: {text}",
        },
        roles=KO,
        own="{owner}번 블록에 있는 ",
        to="{to}번 블록에 있는 ",
        k=", {k}회차",
    ),
    "brasil": Style(
        {
            "wait": "[bloco {cta}] [{role}] travou esperando {bar}[{st}]{own}, paridade {ph}{kk}",
            "done": "[bloco {cta}] [{role}] destravou, veio {bar}[{st}]{own}, paridade {ph}{kk}",
            "arrive": "[bloco {cta}] [{role}] deu arrive em {bar}[{st}]{far}{kk}",
            "expect": "[bloco {cta}] [{role}] deu arrive em {bar}[{st}]{far} com {bytes} bytes a caminho{kk}",
            "copy": "[bloco {cta}] [{role}] disparou TMA de {bytes} bytes pra {bar}[{st}]{far}{kk}",
            "enter": "[bloco {cta}] [{role}] travou esperando {api}",
            "leave": "[bloco {cta}] [{role}] destravou, veio {api}",
            "call": "[bloco {cta}] [{role}] chamou {api}",
            "note": "[bloco {cta}] [{role}] {text}",
        },
        roles=BR,
        own=" lá do bloco {owner}",
        to=" lá do bloco {to}",
        k=" (volta {k})",
    ),
    "magyar": Style(
        {
            "wait": "{cta}. blokk {role} | {bar}[{st}]{own} | {ph}. fázisbit | várakozik{kk}",
            "done": "{cta}. blokk {role} | {bar}[{st}]{own} | {ph}. fázisbit | továbbment{kk}",
            "arrive": "{cta}. blokk {role} | {bar}[{st}]{far} | megérkezést jelez{kk}",
            "expect": "{cta}. blokk {role} | {bar}[{st}]{far} | megérkezést jelez, {bytes} bájt jön{kk}",
            "copy": "{cta}. blokk {role} | {bar}[{st}]{far} | {bytes} bájt másolását indítja{kk}",
            "enter": "{cta}. blokk {role} | {api} | várakozik",
            "leave": "{cta}. blokk {role} | {api} | továbbment",
            "call": "{cta}. blokk {role} | {api} | meghívja",
            "note": "{cta}. blokk {role} | {text}",
        },
        roles=HU,
        own=" ({owner}. blokké)",
        to=" ({to}. blokké)",
        k=", {k}. kör",
    ),
    "warp-polls": Style(
        {
            "wait": "c{cta}{role} {bar}.{st}{own} parity {ph}: miss, keep polling{kk}",
            "done": "c{cta}{role} {bar}.{st}{own} parity {ph}: hit{kk}",
            "arrive": "c{cta}{role} {bar}.{st}{far} <- 1 arrival{kk}",
            "expect": "c{cta}{role} {bar}.{st}{far} <- 1 arrival and tx {bytes}{kk}",
            "copy": "c{cta}{role} {bar}.{st}{far} <- bulk copy started{kk}",
            "enter": "c{cta}{role} {api}: miss, keep polling",
            "leave": "c{cta}{role} {api}: hit",
            "call": "c{cta}{role} {api}",
            "note": "c{cta}{role} {text}",
        },
        roles=WARP,
        aka=lambda role: (role, f"warp {WARP[role][1:]}"),
        own=" of c{owner}",
        to=" of c{to}",
        k=" (k{k})",
        head=_warps,
        shows=("phase", "stage", "to"),
    ),
    "told": Style(
        {
            "wait": "At {t} ns the {role} warp of block {cta} asked for phase {ph} of {bar}, slot {st}{own}{kk}.||At {t} ns the {role} warp of block {cta} stood before {bar}, slot {st}{own}, asking for phase {ph}{kk}.",
            "done": "At {t} ns the {role} warp of block {cta} was granted phase {ph} of {bar}, slot {st}{own}{kk}.||At {t} ns the {role} warp of block {cta} was let through by {bar}, slot {st}{own}, phase {ph}{kk}.",
            "arrive": "At {t} ns the {role} warp of block {cta} reported its arrival to {bar}, slot {st}{far}{kk}.",
            "expect": "At {t} ns the {role} warp of block {cta} reported its arrival to {bar}, slot {st}{far}, and announced {bytes} bytes{kk}.",
            "copy": "At {t} ns the {role} warp of block {cta} sent the copy engine for {bytes} bytes on account of {bar}, slot {st}{far}{kk}.",
            "enter": "At {t} ns the {role} warp of block {cta} stood before {api}.",
            "leave": "At {t} ns the {role} warp of block {cta} was let through by {api}.",
            "call": "At {t} ns the {role} warp of block {cta} executed {api}.",
            "note": "At {t} ns the {role} warp of block {cta} noted: {text}.",
        },
        own=" (the one of block {owner})",
        to=" (the one of block {to})",
        k=" while on step {k}",
        head=_sizes,
    ),
    "log4j": Style(
        {
            "wait": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Mbarrier - await() called: {bar}, ring position {st}{own}, parity flag {ph}{kk}",
            "done": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Mbarrier - await() satisfied: {bar}, ring position {st}{own}, parity flag {ph}{kk}",
            "arrive": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Mbarrier - countDown() called: {bar}, ring position {st}{far}{kk}",
            "expect": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Mbarrier - countDown() called: {bar}, ring position {st}{far}, bytes to come {bytes}{kk}",
            "copy": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Tma - transfer() called: {bar}, ring position {st}{far}, bytes {bytes}{kk}",
            "enter": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Sync - {api} called",
            "leave": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Sync - {api} satisfied",
            "call": "09:14:22.{n:03d} [cta-{cta}/{role}] TRACE c.a.gpu.Sync - {api}",
            "note": "09:14:22.{n:03d} [cta-{cta}/{role}] INFO  c.a.gpu.Role - {text}",
        },
        own=" at cta-{owner}",
        to=" at cta-{to}",
        k=", step {k}",
    ),
}
