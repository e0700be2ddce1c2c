# ruff: noqa: E501, RUF001 - log lines are kept whole
"""The fourth exam: styles of authors who did not look at the reader of logs."""

from __future__ import annotations

from benchmarks.strangers.exams.styles import Style, camel, replaced, who_of
from benchmarks.strangers.kernels import Case

TR = {
    "load": "yükleyici", "mma": "çarpan", "epi": "yazıcı", "softmax0": "softmax_a", "softmax1": "softmax_b",
    "main": "ana", "tma": "getirici", "issue": "tetikleyici", "compute": "hesap", "reduce": "toplayıcı",
    "sched": "dağıtıcı", "loader": "yükleyici", "tensor": "tensör", "epilogue": "sonlandırıcı",
    "fetch": "okuyucu", "head": "baş",
}  # fmt: skip
VI = {
    "load": "nạp", "mma": "nhân", "epi": "ghi", "softmax0": "softmax_a", "softmax1": "softmax_b",
    "main": "chính", "tma": "kéo", "issue": "phát", "compute": "tính", "reduce": "gộp", "sched": "chia_việc",
    "loader": "nạp", "tensor": "tenxơ", "epilogue": "kết", "fetch": "đọc", "head": "đầu",
}  # fmt: skip
SV = {
    "load": "laddaren", "mma": "multiplikatorn", "epi": "skrivaren", "softmax0": "softmax_a",
    "softmax1": "softmax_b", "main": "huvudet", "tma": "hämtaren", "issue": "utfärdaren",
    "compute": "räknaren", "reduce": "summeraren", "sched": "fördelaren", "loader": "laddaren",
    "tensor": "tensorn", "epilogue": "avslutaren", "fetch": "läsaren", "head": "ledaren",
}  # fmt: skip
FR = {
    "load": "chargement", "mma": "matmul", "epi": "sortie", "softmax0": "softmax_gauche",
    "softmax1": "softmax_droite", "main": "principale", "tma": "transfert", "issue": "emission",
    "compute": "calculs", "reduce": "cumul", "sched": "ordonnanceur", "loader": "approvisionneur",
    "tensor": "tenseurs", "epilogue": "finition", "fetch": "lectrice", "head": "meneuse",
}  # fmt: skip
THREADS = {
    "load": "0", "mma": "32", "epi": "128", "softmax0": "128", "softmax1": "256", "main": "128", "tma": "0",
    "issue": "32", "compute": "128", "reduce": "256", "sched": "96", "loader": "0", "tensor": "32",
    "epilogue": "128", "fetch": "0", "head": "128",
}  # fmt: skip


def _threads(case: Case, style: Style) -> list[str]:
    rows = sorted({(int(THREADS[role]), role) for role, _ in who_of(case)})
    return ["launch ok, one elected thread prints per role:"] + [
        f"  thr {first} = {role}" for first, role in rows
    ]


def _thread_names(role: str) -> tuple[str, ...]:
    return role, f"warp {int(THREADS[role]) // 32}"


def _ftrace(case: Case, style: Style) -> list[str]:
    return [
        "# tracer: devprintf",
        "#",
        "#       TASK            SM        TIMESTAMP   FUNCTION",
        "#          |             |            |          |",
    ]


def _strace(case: Case, style: Style) -> list[str]:
    return ["$ ./ws_bench --debug-sync 2>&1 | tee sync.txt"]


def _uml(case: Case, style: Style) -> list[str]:
    return ["@startuml", "hide footbox"] + [f'participant "{role}@{cta}"' for role, cta in who_of(case)]


def _report(lines: list[str]) -> list[str]:
    return [
        "**Additional context**",
        "As asked above I now print every barrier operation of the warp-specialised path. One cluster,",
        "driver 580.65, H200, problem size 4096:",
        "",
        *[f"> {line}" for line in lines],
        "",
        "Happy to test patches. The reproducer is in the first comment.",
    ]


STYLES: dict[str, Style] = {
    "pipeline-state": Style(
        {
            "wait": "[{role} cta_rank={cta}] consumer_wait({bar}, PipelineState(index={st}, phase={ph}, count={k})){own} => blocking",
            "done": "[{role} cta_rank={cta}] consumer_wait({bar}, PipelineState(index={st}, phase={ph}, count={k})){own} => ready",
            "wait back": "[{role} cta_rank={cta}] producer_acquire({bar}, PipelineState(index={st}, phase={ph}, count={k})){own} => blocking",
            "done back": "[{role} cta_rank={cta}] producer_acquire({bar}, PipelineState(index={st}, phase={ph}, count={k})){own} => ready",
            "arrive": "[{role} cta_rank={cta}] producer_commit({bar}, PipelineState(index={st}, count={k})){far}",
            "arrive back": "[{role} cta_rank={cta}] consumer_release({bar}, PipelineState(index={st}, count={k})){far}",
            "expect": "[{role} cta_rank={cta}] producer_arrive_and_expect_tx({bar}, PipelineState(index={st}, count={k}), transaction_bytes={bytes}){far}",
            "copy": "[{role} cta_rank={cta}] cute.copy(tma_atom, tma_bar_ptr={bar}, PipelineState(index={st}, count={k})) # {bytes} bytes{far}",
            "enter": "[{role} cta_rank={cta}] {api} => blocking",
            "leave": "[{role} cta_rank={cta}] {api} => ready",
            "call": "[{role} cta_rank={cta}] {api}",
            "note": "[{role} cta_rank={cta}] # {text}",
        },
        own=" on peer_rank {owner}",
        to=" on peer_ranks ({to})",
        sync="pipeline.NamedBarrier(barrier_id={number}, num_threads={size}).arrive_and_wait()",
    ),
    "blk-thr": Style(
        {
            "wait": "blk {cta} thr {role} round {k}: spinning on {bar} s{st}{own}, want parity {ph}",
            "done": "blk {cta} thr {role} round {k}: spun enough, {bar} s{st}{own} gave parity {ph}",
            "arrive": "blk {cta} thr {role} round {k}: plus 1 on {bar} s{st}{far}",
            "expect": "blk {cta} thr {role} round {k}: plus 1 on {bar} s{st}{far}, promises {bytes} bytes",
            "copy": "blk {cta} thr {role} round {k}: cp_async_bulk_tensor {bytes} bytes, completes on {bar} s{st}{far}",
            "enter": "blk {cta} thr {role}: spinning on {api}",
            "leave": "blk {cta} thr {role}: spun enough, {api}",
            "call": "blk {cta} thr {role}: {api}",
            "note": "blk {cta} thr {role}: {text}",
        },
        roles=THREADS,
        aka=_thread_names,
        own=" of blk {owner}",
        to=" of blk {to}",
        head=_threads,
        sync="named_barrier_sync({size}, {number})",
    ),
    "arrow-method": Style(
        {
            "wait": "{role}, cluster rank {cta}, k_block_idx {k}: {bar}_barriers[{st}]->wait({ph}){own} entered",
            "done": "{role}, cluster rank {cta}, k_block_idx {k}: {bar}_barriers[{st}]->wait({ph}){own} left",
            "arrive": "{role}, cluster rank {cta}, k_block_idx {k}: {bar}_barriers[{st}]->arrive({far})",
            "expect": "{role}, cluster rank {cta}, k_block_idx {k}: {bar}_barriers[{st}]->arrive_and_expect_tx({bytes}u){far}",
            "copy": "{role}, cluster rank {cta}, k_block_idx {k}: tma_copy({bar}_barriers[{st}], SMEM_SIZE={bytes}){far}",
            "enter": "{role}, cluster rank {cta}: {api} entered",
            "leave": "{role}, cluster rank {cta}: {api} left",
            "call": "{role}, cluster rank {cta}: {api}",
            "note": "{role}, cluster rank {cta}: {text}",
        },
        own=" /* barrier of rank {owner} */",
        to="/* barriers of ranks */ {{{to}}}",
        sync="cutlass::arch::NamedBarrier::sync({size}, {number})",
    ),
    "ftrace": Style(
        {
            "wait": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: mbar_sleep: {bar}[{st}]{own} parity {ph}{kk}",
            "done": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: mbar_wakeup: {bar}[{st}]{own} parity {ph}{kk}",
            "arrive": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: mbar_arrive: {bar}[{st}]{far}{kk}",
            "expect": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: mbar_arrive: {bar}[{st}]{far} expect_bytes {bytes}{kk}",
            "copy": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: tma_submit: {bar}[{st}]{far} bytes {bytes}{kk}",
            "enter": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: call_sleep: {api}",
            "leave": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: call_wakeup: {api}",
            "call": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: call: {api}",
            "note": "     {role:>12}-{cta}   [sm{cta:03d}]   71.{n:06d}: print: {text}",
        },
        own=" home_cta {owner}",
        to=" dest_cta {to}",
        k=" kiter {k}",
        head=_ftrace,
    ),
    "strace": Style(
        {
            "wait": "[{role}@{cta}] mbar_try_wait_parity({bar}[{st}], {ph}){own}{kk} <unfinished ...>",
            "done": "[{role}@{cta}] <... mbar_try_wait_parity resumed>{bar}[{st}], {ph}){own}{kk} = true",
            "arrive": "[{role}@{cta}] mbar_arrive({bar}[{st}]){far}{kk} = 0",
            "expect": "[{role}@{cta}] mbar_arrive_expect_tx({bar}[{st}], {bytes}){far}{kk} = 0",
            "copy": "[{role}@{cta}] tma_load_2d({bar}[{st}], {bytes}){far}{kk} = {bytes}",
            "enter": "[{role}@{cta}] {api} <unfinished ...>",
            "leave": "[{role}@{cta}] <... {api} resumed> = 0",
            "call": "[{role}@{cta}] {api} = 0",
            "note": "[{role}@{cta}] +++ {text} +++",
        },
        own=" /* mapa rank {owner} */",
        to=" /* mapa rank {to} */",
        k=" /* k {k} */",
        head=_strace,
    ),
    "syslog": Style(
        {
            "wait": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - {bar}:{st}{own} not ready yet (parity {ph}), going idle{kk}",
            "done": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - {bar}:{st}{own} is ready now (parity {ph}), going on{kk}",
            "arrive": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - counted down {bar}:{st}{far}{kk}",
            "expect": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - counted down {bar}:{st}{far}, tx-count up by {bytes}{kk}",
            "copy": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - queued tma box of {bytes} bytes against {bar}:{st}{far}{kk}",
            "enter": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - {api} not ready yet, going idle",
            "leave": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - {api} is ready now, going on",
            "call": "Nov  3 14:22:01 dgx07 gpukern[4411]: <debug> block{cta}.{role} - {api}",
            "note": "Nov  3 14:22:01 dgx07 gpukern[4411]: <info> block{cta}.{role} - {text}",
        },
        own=" (lives in block{owner})",
        to=" (lives in block{to})",
        k=" at k={k}",
    ),
    "turkce": Style(
        {
            "wait": "Blok {cta} / {role}: {own}{bar}[{st}] bariyerini bekliyor, eşlik biti {ph}{kk}",
            "done": "Blok {cta} / {role}: {own}{bar}[{st}] bariyeri açıldı, eşlik biti {ph}{kk}",
            "arrive": "Blok {cta} / {role}: {far}{bar}[{st}] bariyerine varış bildirdi{kk}",
            "expect": "Blok {cta} / {role}: {far}{bar}[{st}] bariyerine varış bildirdi, gelecek veri {bytes} bayt{kk}",
            "copy": "Blok {cta} / {role}: {far}{bar}[{st}] bariyeri için {bytes} baytlık kopya başlattı{kk}",
            "enter": "Blok {cta} / {role}: {api} çağrısına girdi",
            "leave": "Blok {cta} / {role}: {api} çağrısından çıktı",
            "call": "Blok {cta} / {role}: {api} çağrıldı",
            "note": "Blok {cta} / {role}: {text}",
        },
        roles=TR,
        bar=replaced({"full": "dolu", "empty": "bos"}),
        own="blok {owner} içindeki ",
        to="blok {to} içindeki ",
        k=", tur {k}",
    ),
    "vietnamese": Style(
        {
            "wait": "(khối {cta}, {role}{kk}) đang đợi {bar}[{st}]{own}, bit pha {ph}",
            "done": "(khối {cta}, {role}{kk}) đã đợi xong {bar}[{st}]{own}, bit pha {ph}",
            "arrive": "(khối {cta}, {role}{kk}) báo đã đến {bar}[{st}]{far}",
            "expect": "(khối {cta}, {role}{kk}) báo đã đến {bar}[{st}]{far}, sẽ nhận {bytes} byte",
            "copy": "(khối {cta}, {role}{kk}) bắt đầu sao chép {bytes} byte, báo về {bar}[{st}]{far}",
            "enter": "(khối {cta}, {role}) vào {api}",
            "leave": "(khối {cta}, {role}) ra khỏi {api}",
            "call": "(khối {cta}, {role}) gọi {api}",
            "note": "(khối {cta}, {role}) {text}",
        },
        roles=VI,
        own=" của khối {owner}",
        to=" của khối {to}",
        k=", vòng {k}",
    ),
    "svenska": Style(
        {
            "wait": "{role} i block {cta}{kk} stannar vid {bar}[{st}]{own} tills paritet {ph} är klar",
            "done": "{role} i block {cta}{kk} släpps vidare av {bar}[{st}]{own}, paritet {ph} är klar",
            "arrive": "{role} i block {cta}{kk} rapporterar till {bar}[{st}]{far}",
            "expect": "{role} i block {cta}{kk} rapporterar till {bar}[{st}]{far} och aviserar {bytes} byte",
            "copy": "{role} i block {cta}{kk} beställer en kopia på {bytes} byte som kvitteras på {bar}[{st}]{far}",
            "enter": "{role} i block {cta} kliver in i {api}",
            "leave": "{role} i block {cta} kliver ut ur {api}",
            "call": "{role} i block {cta} anropar {api}",
            "note": "{role} i block {cta} säger: {text}",
        },
        roles=SV,
        own=" hos block {owner}",
        to=" hos block {to}",
        k=" (varv {k})",
    ),
    "francais-je": Style(
        {
            "wait": "{role} (bloc {cta}) : je patiente devant {bar}, case {st}{own}, parité {ph}{kk}",
            "done": "{role} (bloc {cta}) : c'est bon pour {bar}, case {st}{own}, parité {ph}{kk}",
            "arrive": "{role} (bloc {cta}) : je me présente à {bar}, case {st}{far}{kk}",
            "expect": "{role} (bloc {cta}) : je me présente à {bar}, case {st}{far}, {bytes} octets à venir{kk}",
            "copy": "{role} (bloc {cta}) : je demande {bytes} octets au TMA, décomptés sur {bar}, case {st}{far}{kk}",
            "enter": "{role} (bloc {cta}) : je patiente dans {api}",
            "leave": "{role} (bloc {cta}) : c'est bon pour {api}",
            "call": "{role} (bloc {cta}) : je fais {api}",
            "note": "{role} (bloc {cta}) : {text}",
        },
        roles=FR,
        own=" chez le bloc {owner}",
        to=" chez le bloc {to}",
        k=" [k={k}]",
    ),
    "ansi": Style(
        {
            "wait": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[33mPENDING\x1b[0m {bar}⟨{st}⟩{own} φ={ph}{kk}",
            "done": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[32mCLEARED\x1b[0m {bar}⟨{st}⟩{own} φ={ph}{kk}",
            "arrive": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[35mARRIVAL\x1b[0m {bar}⟨{st}⟩{far}{kk}",
            "expect": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[35mARRIVAL\x1b[0m {bar}⟨{st}⟩{far}{kk} (+tx)",
            "copy": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[34mTMALOAD\x1b[0m {bar}⟨{st}⟩{far}{kk}",
            "enter": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[33mPENDING\x1b[0m {api}",
            "leave": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[32mCLEARED\x1b[0m {api}",
            "call": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[37mCALLING\x1b[0m {api}",
            "note": "\x1b[2m{t}\x1b[0m \x1b[36mc{cta}:{role}\x1b[0m \x1b[37mREMARKS\x1b[0m {text}",
        },
        own=" ∈c{owner}",
        to=" ∈c{to}",
        k=" k={k}",
        shows=("phase", "stage", "to"),
    ),
    "plantuml": Style(
        {
            "wait": '"{role}@{cta}" -> "{bar}[{st}]{own}" : try_wait(parity={ph}){kk}',
            "done": '"{role}@{cta}" <-- "{bar}[{st}]{own}" : phase complete (parity={ph}){kk}',
            "arrive": '"{role}@{cta}" ->> "{bar}[{st}]{far}" : arrive(){kk}',
            "expect": '"{role}@{cta}" ->> "{bar}[{st}]{far}" : arrive_expect_tx({bytes}){kk}',
            "copy": '"{role}@{cta}" ->> "TMA" : load {bytes} bytes, then complete_tx on "{bar}[{st}]{far}"{kk}',
            "enter": '"{role}@{cta}" -> "{role}@{cta}" : {api} begins',
            "leave": '"{role}@{cta}" <-- "{role}@{cta}" : {api} complete',
            "call": '"{role}@{cta}" -> "{role}@{cta}" : {api}',
            "note": 'note over "{role}@{cta}" : {text}',
        },
        own=" in CTA {owner}",
        to=" in CTA {to}",
        k="\\nk={k}",
        head=_uml,
    ),
    "func-line": Style(
        {
            "wait": "ws_gemm.cuh:212 {role}_loop<<<cta {cta}>>> about to block; {bar} buffer {st}{own} must finish parity {ph}{kk}",
            "done": "ws_gemm.cuh:214 {role}_loop<<<cta {cta}>>> not blocked any more; {bar} buffer {st}{own} finished parity {ph}{kk}",
            "arrive": "ws_gemm.cuh:231 {role}_loop<<<cta {cta}>>> will now arrive; {bar} buffer {st}{far}{kk}",
            "expect": "ws_gemm.cuh:188 {role}_loop<<<cta {cta}>>> will now arrive and set tx; {bar} buffer {st}{far} {bytes} bytes{kk}",
            "copy": "ws_gemm.cuh:190 {role}_loop<<<cta {cta}>>> will now start TMA; {bar} buffer {st}{far} {bytes} bytes{kk}",
            "enter": "ws_gemm.cuh:301 {role}_loop<<<cta {cta}>>> about to block; {api}",
            "leave": "ws_gemm.cuh:303 {role}_loop<<<cta {cta}>>> not blocked any more; {api}",
            "call": "ws_gemm.cuh:305 {role}_loop<<<cta {cta}>>> will now call; {api}",
            "note": "ws_gemm.cuh:340 {role}_loop<<<cta {cta}>>> {text}",
        },
        own=" over there in cta {owner}",
        to=" over there in cta {to}",
        k=" (tile_k {k})",
        bar=camel,
    ),
    "otel-json": Style(
        {
            "wait": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"mbarrier wait started","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}","mbar.name":"{bar}","mbar.index":{st},"mbar.parity":{ph}{own}{kk}}}}}',
            "done": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"mbarrier wait completed","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}","mbar.name":"{bar}","mbar.index":{st},"mbar.parity":{ph}{own}{kk}}}}}',
            "arrive": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"mbarrier arrival","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}","mbar.name":"{bar}","mbar.index":{st}{far}{kk}}}}}',
            "expect": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"mbarrier arrival with expected bytes","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}","mbar.name":"{bar}","mbar.index":{st},"mbar.tx_bytes":{bytes}{far}{kk}}}}}',
            "copy": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"bulk copy launched","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}","mbar.name":"{bar}","mbar.index":{st},"copy.size_bytes":{bytes}{far}{kk}}}}}',
            "enter": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"{api} started","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}"}}}}',
            "leave": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"{api} completed","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}"}}}}',
            "call": '{{"timeUnixNano":"{t}","severityText":"TRACE","body":"{api}","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}"}}}}',
            "note": '{{"timeUnixNano":"{t}","severityText":"INFO","body":"{text}","attributes":{{"gpu.cta":{cta},"gpu.role":"{role}"}}}}',
        },
        own=',"mbar.cta":{owner}',
        to=',"mbar.cta":[{to}]',
        k=',"loop.k":{k}',
    ),
    "rust-debug": Style(
        {
            "wait": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Await {{ mbar: Mbar("{bar}", {st}){own}, parity: {ph}{kk} }} }}',
            "done": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Resume {{ mbar: Mbar("{bar}", {st}){own}, parity: {ph}{kk} }} }}',
            "arrive": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Arrive {{ mbar: Mbar("{bar}", {st}){far}, tx: None{kk} }} }}',
            "expect": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Arrive {{ mbar: Mbar("{bar}", {st}){far}, tx: Some({bytes}){kk} }} }}',
            "copy": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: BulkLoad {{ mbar: Mbar("{bar}", {st}){far}, len: {bytes}{kk} }} }}',
            "enter": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Await {{ call: "{api}" }} }}',
            "leave": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Resume {{ call: "{api}" }} }}',
            "call": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Call("{api}") }}',
            "note": 'Rec {{ at: {t}, by: Agent("{role}", Cta({cta})), what: Say("{text}") }}',
        },
        own=", home: Cta({owner})",
        to=", homes: [{to}]",
        k=", iter: {k}",
    ),
    "bug-report": Style(
        {
            "wait": "{role} warp, block {cta}{kk}: needs the parity-{ph} phase of {bar} (slot {st}){own} to complete",
            "done": "{role} warp, block {cta}{kk}: saw the parity-{ph} phase of {bar} (slot {st}){own} complete",
            "arrive": "{role} warp, block {cta}{kk}: counts itself in at {bar} (slot {st}){far}",
            "expect": "{role} warp, block {cta}{kk}: counts itself in at {bar} (slot {st}){far}, {bytes} bytes are due",
            "copy": "{role} warp, block {cta}{kk}: requests {bytes} bytes by TMA, credited to {bar} (slot {st}){far}",
            "enter": "{role} warp, block {cta}: needs {api} to complete",
            "leave": "{role} warp, block {cta}: saw {api} complete",
            "call": "{role} warp, block {cta}: performs {api}",
            "note": "{role} warp, block {cta}: {text}",
        },
        own=" which belongs to block {owner}",
        to=" which belongs to block {to}",
        k=", pass {k}",
        whole=_report,
    ),
}
