# ruff: noqa: E501, RUF001 - log lines are kept whole
"""The second exam: styles written with the first, before the general reader existed, and graded at the end."""

from __future__ import annotations

from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

KO = {"load": "로더", "mma": "행렬곱", "epi": "출력", "softmax0": "소프트0", "softmax1": "소프트1", "main": "메인", "tma": "전송", "issue": "발행", "compute": "계산", "reduce": "합산", "sched": "배분", "loader": "로더", "tensor": "텐서", "epilogue": "마무리", "fetch": "읽기", "head": "헤드"}
IT = {"load": "caricatore", "mma": "prodotto", "epi": "scrittore", "softmax0": "softmax_a", "softmax1": "softmax_b", "main": "principale", "tma": "prelievo", "issue": "lancio", "compute": "calcolo", "reduce": "somma", "sched": "smistatore", "loader": "caricatore", "tensor": "tensore", "epilogue": "chiusura", "fetch": "lettore", "head": "testa"}
PT = {"load": "carregador", "mma": "produto", "epi": "saida", "softmax0": "softmax_a", "softmax1": "softmax_b", "main": "principal", "tma": "busca", "issue": "disparo", "compute": "calculo", "reduce": "soma", "sched": "agenda", "loader": "carregador", "tensor": "tensor", "epilogue": "fecho", "fetch": "leitor", "head": "cabeca"}
RU = {"load": "загрузка", "mma": "умножение", "epi": "запись", "softmax0": "софт0", "softmax1": "софт1", "main": "главный", "tma": "доставка", "issue": "запуск", "compute": "вычисление", "reduce": "свертка", "sched": "раздача", "loader": "загрузка", "tensor": "тензор", "epilogue": "эпилог", "fetch": "чтение", "head": "голова"}


def _csv(case: Case, style: Style) -> list[str]:
    return ["Takt;CTA;Rolle;Aktion;Schranke;Fach;Bit;Runde;Bytes;Ziel"]


def _map(case: Case, style: Style) -> list[str]:
    return [f"# {style.bar(name)}: {stages} slot(s), {count} arrival(s) per phase" for name, (stages, count) in barriers(case).items()]


def _legend(case: Case, style: Style) -> list[str]:
    return ["legend: W = start waiting, R = released from wait, A = arrive, X = arrive + expect_tx, T = TMA copy, S = enter call, E = call returned, C = call, N = note"]


STYLES: dict[str, Style] = {
    "korean": Style(
        {"wait": "[블록 {cta}/{role}] {bar}[{st}]{own} 대기 중, 페이즈 {ph}{kk}", "done": "[블록 {cta}/{role}] {bar}[{st}]{own} 대기 끝, 페이즈 {ph}{kk}", "arrive": "[블록 {cta}/{role}] {bar}[{st}]{far} 도착 알림{kk}", "expect": "[블록 {cta}/{role}] {bar}[{st}]{far} 도착 알림, {bytes} 바이트 예정{kk}", "copy": "[블록 {cta}/{role}] {bar}[{st}]{far} 로 {bytes} 바이트 복사 시작{kk}", "enter": "[블록 {cta}/{role}] {api} 진입", "leave": "[블록 {cta}/{role}] {api} 통과", "call": "[블록 {cta}/{role}] {api}", "note": "[블록 {cta}/{role}] {text}"},
        roles=KO, own="(블록 {owner})", to="(블록 {to})", k=", 반복 {k}",
    ),
    "italiano": Style(
        {"wait": "blocco {cta} - {role} - attende {bar}[{st}]{own} parità {ph}{kk}", "done": "blocco {cta} - {role} - supera {bar}[{st}]{own} parità {ph}{kk}", "arrive": "blocco {cta} - {role} - arriva su {bar}[{st}]{far}{kk}", "expect": "blocco {cta} - {role} - arriva su {bar}[{st}]{far} annunciando {bytes} byte{kk}", "copy": "blocco {cta} - {role} - avvia la copia di {bytes} byte su {bar}[{st}]{far}{kk}", "enter": "blocco {cta} - {role} - entra in {api}", "leave": "blocco {cta} - {role} - esce da {api}", "call": "blocco {cta} - {role} - {api}", "note": "blocco {cta} - {role} - {text}"},
        roles=IT, bar=replaced({"full": "pieno", "empty": "vuoto", "free": "libero", "ready": "pronto", "done": "finito"}), own=" del blocco {owner}", to=" del blocco {to}", k=" giro {k}",
    ),
    "portugues": Style(
        {"wait": "CTA={cta} {role}: aguardando {bar}/{st}{own} fase={ph}{kk}", "done": "CTA={cta} {role}: liberado por {bar}/{st}{own} fase={ph}{kk}", "arrive": "CTA={cta} {role}: sinaliza {bar}/{st}{far}{kk}", "expect": "CTA={cta} {role}: sinaliza {bar}/{st}{far} esperando {bytes} bytes{kk}", "copy": "CTA={cta} {role}: copia {bytes} bytes em {bar}/{st}{far}{kk}", "enter": "CTA={cta} {role}: entrando em {api}", "leave": "CTA={cta} {role}: saiu de {api}", "call": "CTA={cta} {role}: {api}", "note": "CTA={cta} {role}: {text}"},
        roles=PT, own=" (CTA={owner})", to=" (CTA={to})", k=" passo={k}",
    ),
    "german-csv": Style(
        {"wait": "{t};{cta};{role};wartet;{bar};{st};{ph};{k};;{own}", "done": "{t};{cta};{role};durch;{bar};{st};{ph};{k};;{own}", "arrive": "{t};{cta};{role};meldet;{bar};{st};;{k};;{far}", "expect": "{t};{cta};{role};meldet+erwartet;{bar};{st};;{k};{bytes};{far}", "copy": "{t};{cta};{role};kopiert;{bar};{st};;{k};{bytes};{far}", "enter": "{t};{cta};{role};wartet;{api};;;;;", "leave": "{t};{cta};{role};durch;{api};;;;;", "call": "{t};{cta};{role};ruft;{api};;;;;", "note": "{t};{cta};{role};{text};;;;;;"},
        own="{owner}", to="{to}", head=_csv,
    ),
    "device-print": Style(
        {"wait": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} before wait {bar} idx={st} ph={ph}{own}{kk}", "done": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} after wait {bar} idx={st} ph={ph}{own}{kk}", "arrive": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} arrive {bar} idx={st}{far}{kk}", "expect": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} expect {bar} idx={st} bytes={bytes}{far}{kk}", "copy": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} tma_load {bar} idx={st} bytes={bytes}{far}{kk}", "enter": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} before {api}", "leave": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} after {api}", "call": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} {api}", "note": "pid ({cta}, 0, 0) idx ({tid}, 0, 0) {role} {text}"},
        own=" remote_cta={owner}", to=" dst_cta={to}", k=" k_tile={k}",
    ),
    "cute-printf": Style(
        {"wait": "bidx {cta} tidx {tid} [{role}] mbarrier_wait({bar} + {st}, {ph}){own} start{kk}", "done": "bidx {cta} tidx {tid} [{role}] mbarrier_wait({bar} + {st}, {ph}){own} finish{kk}", "arrive": "bidx {cta} tidx {tid} [{role}] mbarrier_arrive({bar} + {st}){far}{kk}", "expect": "bidx {cta} tidx {tid} [{role}] mbarrier_arrive_and_expect_tx({bar} + {st}, {bytes}){far}{kk}", "copy": "bidx {cta} tidx {tid} [{role}] copy tma_atom mbar={bar} + {st} bytes {bytes}{far}{kk}", "enter": "bidx {cta} tidx {tid} [{role}] {api} start", "leave": "bidx {cta} tidx {tid} [{role}] {api} finish", "call": "bidx {cta} tidx {tid} [{role}] {api}", "note": "bidx {cta} tidx {tid} [{role}] {text}"},
        own=" peer_cta_rank={owner}", to=" peer_cta_rank={to}", k=" k_block={k}", bar=lambda name: f"{name}_mbar_ptr",
    ),
    "yaml": Style(
        {"wait": "- {{seq: {n}, cta: {cta}, role: {role}, act: wait, on: {bar}, slot: {st}, phase: {ph}{own}{kk}}}", "done": "- {{seq: {n}, cta: {cta}, role: {role}, act: wait-done, on: {bar}, slot: {st}, phase: {ph}{own}{kk}}}", "arrive": "- {{seq: {n}, cta: {cta}, role: {role}, act: arrive, on: {bar}, slot: {st}{far}{kk}}}", "expect": "- {{seq: {n}, cta: {cta}, role: {role}, act: arrive, on: {bar}, slot: {st}, expect_bytes: {bytes}{far}{kk}}}", "copy": "- {{seq: {n}, cta: {cta}, role: {role}, act: copy, on: {bar}, slot: {st}, bytes: {bytes}{far}{kk}}}", "enter": "- {{seq: {n}, cta: {cta}, role: {role}, act: enter, on: {api}}}", "leave": "- {{seq: {n}, cta: {cta}, role: {role}, act: leave, on: {api}}}", "call": "- {{seq: {n}, cta: {cta}, role: {role}, act: call, on: {api}}}", "note": "- {{seq: {n}, cta: {cta}, role: {role}, act: note, text: {text}}}"},
        own=", owner: {owner}", to=", to: [{to}]", k=", k: {k}",
    ),
    "call-style": Style(
        {"wait": "({cta}) {role}::wait<{bar}>({st}, {ph}){own} {{{kk}", "done": "({cta}) {role}::wait<{bar}>({st}, {ph}){own} }}{kk}", "arrive": "({cta}) {role}::arrive<{bar}>({st}){far};{kk}", "expect": "({cta}) {role}::arrive_tx<{bar}>({st}, {bytes}){far};{kk}", "copy": "({cta}) {role}::tma_load<{bar}>({st}, {bytes}){far};{kk}", "enter": "({cta}) {role}::{api} {{", "leave": "({cta}) {role}::{api} }}", "call": "({cta}) {role}::{api};", "note": "({cta}) {role}: {text}"},
        own=" @peer {owner}", to=" @peer {to}", k=" // k = {k}", bar=camel,
    ),
    "dmesg": Style(
        {"wait": "[   71.{n:06d}] {role}.{cta}: waiting for {bar}.{st}{own} (parity {ph}{kk})", "done": "[   71.{n:06d}] {role}.{cta}: {bar}.{st}{own} flipped (parity {ph}{kk})", "arrive": "[   71.{n:06d}] {role}.{cta}: arrival on {bar}.{st}{far}{kk}", "expect": "[   71.{n:06d}] {role}.{cta}: arrival on {bar}.{st}{far}, {bytes} tx bytes expected{kk}", "copy": "[   71.{n:06d}] {role}.{cta}: dma of {bytes} bytes queued for {bar}.{st}{far}{kk}", "enter": "[   71.{n:06d}] {role}.{cta}: waiting in {api}", "leave": "[   71.{n:06d}] {role}.{cta}: back from {api}", "call": "[   71.{n:06d}] {role}.{cta}: {api}", "note": "[   71.{n:06d}] {role}.{cta}: {text}"},
        own=" of cta {owner}", to=" of cta {to}", k=", iter {k}",
    ),
    "emoji": Style(
        {"wait": "⏳ [cta {cta} | {role}] waiting → {bar}[{st}]{own} phase={ph}{kk}", "done": "✅ [cta {cta} | {role}] acquired → {bar}[{st}]{own} phase={ph}{kk}", "arrive": "🔔 [cta {cta} | {role}] signal → {bar}[{st}]{far}{kk}", "expect": "🔔 [cta {cta} | {role}] signal+expect → {bar}[{st}]{far} ({bytes} B){kk}", "copy": "📦 [cta {cta} | {role}] TMA load → {bar}[{st}]{far} ({bytes} B){kk}", "enter": "⏳ [cta {cta} | {role}] {api}", "leave": "✅ [cta {cta} | {role}] {api}", "call": "🔔 [cta {cta} | {role}] {api}", "note": "📝 [cta {cta} | {role}] {text}"},
        own=" (cta {owner})", to=" (cta {to})", k=" iter={k}",
    ),
    "chrome": Style(
        {"wait": '{{"ph":"B","ts":{t},"pid":{cta},"tid":"{role}","name":"wait {bar}[{st}]{own}","args":{{"parity":{ph}{kk}}}}},', "done": '{{"ph":"E","ts":{t},"pid":{cta},"tid":"{role}","name":"wait {bar}[{st}]{own}","args":{{"parity":{ph}{kk}}}}},', "arrive": '{{"ph":"i","ts":{t},"pid":{cta},"tid":"{role}","name":"arrive {bar}[{st}]{far}","args":{{"n":1{kk}}}}},', "expect": '{{"ph":"i","ts":{t},"pid":{cta},"tid":"{role}","name":"arrive_expect_tx {bar}[{st}]{far}","args":{{"bytes":{bytes}{kk}}}}},', "copy": '{{"ph":"i","ts":{t},"pid":{cta},"tid":"{role}","name":"tma {bar}[{st}]{far}","args":{{"bytes":{bytes}{kk}}}}},', "enter": '{{"ph":"B","ts":{t},"pid":{cta},"tid":"{role}","name":"{api}"}},', "leave": '{{"ph":"E","ts":{t},"pid":{cta},"tid":"{role}","name":"{api}"}},', "call": '{{"ph":"i","ts":{t},"pid":{cta},"tid":"{role}","name":"{api}"}},', "note": '{{"ph":"i","ts":{t},"pid":{cta},"tid":"{role}","name":"{text}"}},'},
        own="@cta{owner}", to="@cta{to}", k=',"iter":{k}', head=lambda case, style: ["["],
    ),
    "blocks": Style(
        {"wait": "role: {role}\n  block: {cta}\n  state: waiting\n  barrier: {bar}\n  slot: {st}\n  parity: {ph}{own}{kk}\n", "done": "role: {role}\n  block: {cta}\n  state: wait finished\n  barrier: {bar}\n  slot: {st}\n  parity: {ph}{own}{kk}\n", "arrive": "role: {role}\n  block: {cta}\n  state: arrived\n  barrier: {bar}\n  slot: {st}{far}{kk}\n", "expect": "role: {role}\n  block: {cta}\n  state: arrived\n  barrier: {bar}\n  slot: {st}\n  expected bytes: {bytes}{far}{kk}\n", "copy": "role: {role}\n  block: {cta}\n  state: copy issued\n  barrier: {bar}\n  slot: {st}\n  bytes: {bytes}{far}{kk}\n", "enter": "role: {role}\n  block: {cta}\n  state: waiting\n  call: {api}\n", "leave": "role: {role}\n  block: {cta}\n  state: wait finished\n  call: {api}\n", "call": "role: {role}\n  block: {cta}\n  state: called\n  call: {api}\n", "note": "role: {role}\n  block: {cta}\n  state: {text}\n"},
        own="\n  barrier block: {owner}", to="\n  target block: {to}", k="\n  iteration: {k}",
    ),
    "legend": Style(
        {"wait": "{cta}.{role} W {bar}.{st} /{ph}{own}{kk}", "done": "{cta}.{role} R {bar}.{st} /{ph}{own}{kk}", "arrive": "{cta}.{role} A {bar}.{st}{far}{kk}", "expect": "{cta}.{role} X {bar}.{st} {bytes}B{far}{kk}", "copy": "{cta}.{role} T {bar}.{st} {bytes}B{far}{kk}", "enter": "{cta}.{role} S {api}", "leave": "{cta}.{role} E {api}", "call": "{cta}.{role} C {api}", "note": "{cta}.{role} N {text}"},
        own=" @{owner}", to=" @{to}", k=" #{k}", head=_legend,
    ),
    "russian": Style(
        {"wait": "CTA {cta} {role}: ожидание {bar}[{st}]{own}, фаза {ph}{kk}", "done": "CTA {cta} {role}: дождался {bar}[{st}]{own}, фаза {ph}{kk}", "arrive": "CTA {cta} {role}: сигнал на {bar}[{st}]{far}{kk}", "expect": "CTA {cta} {role}: сигнал на {bar}[{st}]{far}, ожидается {bytes} байт{kk}", "copy": "CTA {cta} {role}: копирование {bytes} байт в {bar}[{st}]{far}{kk}", "enter": "CTA {cta} {role}: вход в {api}", "leave": "CTA {cta} {role}: выход из {api}", "call": "CTA {cta} {role}: {api}", "note": "CTA {cta} {role}: {text}"},
        roles=RU, own=" (CTA {owner})", to=" (CTA {to})", k=", шаг {k}",
    ),
    "pipes": Style(
        {"wait": "{cta}|{warp}|{role}|WAIT|{bar}|{st}|{ph}|{k}|{own}", "done": "{cta}|{warp}|{role}|WAKE|{bar}|{st}|{ph}|{k}|{own}", "arrive": "{cta}|{warp}|{role}|ARRIVE|{bar}|{st}| |{k}|{far}", "expect": "{cta}|{warp}|{role}|EXPECT|{bar}|{st}| |{k}|{bytes}B {far}", "copy": "{cta}|{warp}|{role}|LOAD|{bar}|{st}| |{k}|{bytes}B {far}", "enter": "{cta}|{warp}|{role}|WAIT|{api}| || |", "leave": "{cta}|{warp}|{role}|WAKE|{api}| || |", "call": "{cta}|{warp}|{role}|CALL|{api}| || |", "note": "{cta}|{warp}|{role}|NOTE|{text}| || |"},
        own="cta{owner}", to="cta{to}", bar=camel,
    ),
    "prose": Style(
        {"wait": "{role} warp of CTA {cta} is now waiting on {bar} (stage {st}){own} with parity {ph}{kk}||{role} warp of CTA {cta} starts to wait for {bar} (stage {st}){own}, parity {ph}{kk}", "done": "{role} warp of CTA {cta} got past {bar} (stage {st}){own} with parity {ph}{kk}||{role} warp of CTA {cta} no longer waits for {bar} (stage {st}){own}, parity {ph}{kk}", "arrive": "{role} warp of CTA {cta} arrives at {bar} (stage {st}){far}{kk}", "expect": "{role} warp of CTA {cta} arrives at {bar} (stage {st}){far} and expects {bytes} bytes{kk}", "copy": "{role} warp of CTA {cta} starts a copy of {bytes} bytes that completes on {bar} (stage {st}){far}{kk}", "enter": "{role} warp of CTA {cta} enters {api}", "leave": "{role} warp of CTA {cta} returns from {api}", "call": "{role} warp of CTA {cta} calls {api}", "note": "{role} warp of CTA {cta}: {text}"},
        own=" in CTA {owner}", to=" in CTA {to}", k=" in iteration {k}", head=_map,
    ),
}
