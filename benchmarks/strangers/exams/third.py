# ruff: noqa: E501, RUF001 - log lines are kept whole
"""The third exam: styles written after the second was graded, before the reader was changed again."""

from __future__ import annotations

from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

PL = {"load": "ladowacz", "mma": "mnozenie", "epi": "zapis", "softmax0": "softmax_a", "softmax1": "softmax_b", "main": "glowny", "tma": "pobieranie", "issue": "wydawca", "compute": "obliczenia", "reduce": "redukcja", "sched": "planista", "loader": "ladowacz", "tensor": "tensor", "epilogue": "epilog", "fetch": "czytnik", "head": "glowa"}
NL = {"load": "lader", "mma": "vermenigvuldiger", "epi": "schrijver", "softmax0": "softmax_a", "softmax1": "softmax_b", "main": "hoofd", "tma": "haler", "issue": "starter", "compute": "rekenaar", "reduce": "opteller", "sched": "verdeler", "loader": "lader", "tensor": "tensor", "epilogue": "afronder", "fetch": "lezer", "head": "kop"}
ZH = {"load": "载入组", "mma": "乘加组", "epi": "输出组", "softmax0": "软最大A", "softmax1": "软最大B", "main": "主组", "tma": "TMA组", "issue": "指令组", "compute": "运算组", "reduce": "求和组", "sched": "分配组", "loader": "载入组", "tensor": "张量组", "epilogue": "尾声组", "fetch": "读取组", "head": "头组"}
JA = {"load": "読込", "mma": "乗算", "epi": "出力", "softmax0": "正規化A", "softmax1": "正規化B", "main": "主処理", "tma": "TMA係", "issue": "命令係", "compute": "計算係", "reduce": "総和係", "sched": "割当係", "loader": "読込", "tensor": "テンソル係", "epilogue": "仕上げ", "fetch": "取得係", "head": "親"}


def _csv(case: Case, style: Style) -> list[str]:
    return ["seq,cta,warp,role,action,barrier,slot,parity,kblk,bytes,dest"]


def _table(case: Case, style: Style) -> list[str]:
    return ["SM  CTA  ROLE        WHAT        BARRIER         STG  PAR  KB", "--  ---  ----------  ----------  --------------  ---  ---  --"]


def _inits(case: Case, style: Style) -> list[str]:
    return [f"mbarrier_init {style.bar(name)}[{stage}] arrivals={count}" for name, (stages, count) in barriers(case).items() for stage in range(stages)]


STYLES: dict[str, Style] = {
    "csv": Style(
        {"wait": "{n},{cta},{warp},{role},wait_start,{bar},{st},{ph},{k},,{own}", "done": "{n},{cta},{warp},{role},wait_finish,{bar},{st},{ph},{k},,{own}", "arrive": "{n},{cta},{warp},{role},arrive,{bar},{st},,{k},,{far}", "expect": "{n},{cta},{warp},{role},arrive_expect_tx,{bar},{st},,{k},{bytes},{far}", "copy": "{n},{cta},{warp},{role},tma_copy,{bar},{st},,{k},{bytes},{far}", "enter": "{n},{cta},{warp},{role},enter {api},,,,,,", "leave": "{n},{cta},{warp},{role},exit {api},,,,,,", "call": "{n},{cta},{warp},{role},{api},,,,,,", "note": "{n},{cta},{warp},{role},{text},,,,,,"},
        own="{owner}", to="{to}", mask=True, head=_csv, sync="bar.sync {number}",
    ),
    "spaced-table": Style(
        {"wait": "{n:02d}  {cta:<3}  {role:<10}  {what:<10}  {bar:<14}  {st:<3}  {ph:<3}  {k}{own}".replace("{what:<10}", "waiting   "), "done": "{n:02d}  {cta:<3}  {role:<10}  unblocked   {bar:<14}  {st:<3}  {ph:<3}  {k}{own}", "arrive": "{n:02d}  {cta:<3}  {role:<10}  arriving    {bar:<14}  {st:<3}  -    {k}{far}", "expect": "{n:02d}  {cta:<3}  {role:<10}  arrive+tx   {bar:<14}  {st:<3}  -    {k}  {bytes} bytes{far}", "copy": "{n:02d}  {cta:<3}  {role:<10}  tma         {bar:<14}  {st:<3}  -    {k}  {bytes} bytes{far}", "enter": "{n:02d}  {cta:<3}  {role:<10}  waiting     {api}", "leave": "{n:02d}  {cta:<3}  {role:<10}  unblocked   {api}", "call": "{n:02d}  {cta:<3}  {role:<10}  call        {api}", "note": "{n:02d}  {cta:<3}  {role:<10}  {text}"},
        own="  @cta{owner}", to="  @cta{to}", head=_table,
    ),
    "polski": Style(
        {"wait": "blok {cta} | {role} | czeka na {bar}[{st}]{own}, faza {ph}{kk}", "done": "blok {cta} | {role} | doczekał się {bar}[{st}]{own}, faza {ph}{kk}", "arrive": "blok {cta} | {role} | sygnalizuje {bar}[{st}]{far}{kk}", "expect": "blok {cta} | {role} | sygnalizuje {bar}[{st}]{far}, oczekiwane {bytes} bajtów{kk}", "copy": "blok {cta} | {role} | kopiuje {bytes} bajtów do {bar}[{st}]{far}{kk}", "enter": "blok {cta} | {role} | wchodzi do {api}", "leave": "blok {cta} | {role} | wychodzi z {api}", "call": "blok {cta} | {role} | {api}", "note": "blok {cta} | {role} | {text}"},
        roles=PL, own=" (blok {owner})", to=" (blok {to})", k=", krok {k}",
    ),
    "nederlands": Style(
        {"wait": "CTA {cta} {role}: wacht op {bar}[{st}]{own} pariteit {ph}{kk}", "done": "CTA {cta} {role}: klaar met wachten op {bar}[{st}]{own} pariteit {ph}{kk}", "arrive": "CTA {cta} {role}: meldt zich bij {bar}[{st}]{far}{kk}", "expect": "CTA {cta} {role}: meldt zich bij {bar}[{st}]{far} en verwacht {bytes} bytes{kk}", "copy": "CTA {cta} {role}: start kopie van {bytes} bytes naar {bar}[{st}]{far}{kk}", "enter": "CTA {cta} {role}: gaat {api} in", "leave": "CTA {cta} {role}: komt uit {api}", "call": "CTA {cta} {role}: {api}", "note": "CTA {cta} {role}: {text}"},
        roles=NL, bar=replaced({"full": "vol", "empty": "leeg", "free": "vrij", "ready": "klaar"}), own=" van CTA {owner}", to=" van CTA {to}", k=" ronde {k}",
    ),
    "chinese-prose": Style(
        {"wait": "块{cta}的{role}：等待屏障 {bar} 第{st}槽{own}（期望相位 {ph}）{kk}", "done": "块{cta}的{role}：屏障 {bar} 第{st}槽{own} 放行（相位 {ph}）{kk}", "arrive": "块{cta}的{role}：在屏障 {bar} 第{st}槽{far} 报到{kk}", "expect": "块{cta}的{role}：在屏障 {bar} 第{st}槽{far} 报到，将收 {bytes} 字节{kk}", "copy": "块{cta}的{role}：发起搬运 {bytes} 字节到屏障 {bar} 第{st}槽{far}{kk}", "enter": "块{cta}的{role}：进入 {api}", "leave": "块{cta}的{role}：离开 {api}", "call": "块{cta}的{role}：{api}", "note": "块{cta}的{role}：{text}"},
        roles=ZH, own="（块{owner}）", to="（块{to}）", k="，第{k}轮",
    ),
    "japanese-tagged": Style(
        {"wait": "[{role}@{cta}] 待機: {bar}#{st}{own} パリティ={ph}{kk}", "done": "[{role}@{cta}] 解除: {bar}#{st}{own} パリティ={ph}{kk}", "arrive": "[{role}@{cta}] 通知: {bar}#{st}{far}{kk}", "expect": "[{role}@{cta}] 通知: {bar}#{st}{far} 予定={bytes}バイト{kk}", "copy": "[{role}@{cta}] 転送: {bar}#{st}{far} {bytes}バイト{kk}", "enter": "[{role}@{cta}] 待機: {api}", "leave": "[{role}@{cta}] 解除: {api}", "call": "[{role}@{cta}] 呼出: {api}", "note": "[{role}@{cta}] メモ: {text}"},
        roles=JA, own=" 所有CTA={owner}", to=" 宛先CTA={to}", k=" 周回={k}",
    ),
    "json-short": Style(
        {"wait": '{{"n":{n},"c":{cta},"r":"{role}","e":"w+","b":"{bar}","s":{st},"p":{ph},"k":"{k}"{own}}}', "done": '{{"n":{n},"c":{cta},"r":"{role}","e":"w-","b":"{bar}","s":{st},"p":{ph},"k":"{k}"{own}}}', "arrive": '{{"n":{n},"c":{cta},"r":"{role}","e":"arrive","b":"{bar}","s":{st},"k":"{k}"{far}}}', "expect": '{{"n":{n},"c":{cta},"r":"{role}","e":"arrive","b":"{bar}","s":{st},"tx":{bytes},"k":"{k}"{far}}}', "copy": '{{"n":{n},"c":{cta},"r":"{role}","e":"tma","b":"{bar}","s":{st},"bytes":{bytes},"k":"{k}"{far}}}', "enter": '{{"n":{n},"c":{cta},"r":"{role}","e":"w+","b":"{api}"}}', "leave": '{{"n":{n},"c":{cta},"r":"{role}","e":"w-","b":"{api}"}}', "call": '{{"n":{n},"c":{cta},"r":"{role}","e":"{api}"}}', "note": '{{"n":{n},"c":{cta},"r":"{role}","e":"{text}"}}'},
        own=',"owner_cta":{owner}', to=',"to_ctas":[{to}]',
    ),
    "json-message": Style(
        {"wait": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "waiting for {bar}[{st}]{own} to reach phase {ph}{kk}"}}', "done": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "{bar}[{st}]{own} reached phase {ph}{kk}"}}', "arrive": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "arrived on {bar}[{st}]{far}{kk}"}}', "expect": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "arrived on {bar}[{st}]{far} expecting {bytes} bytes{kk}"}}', "copy": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "issued copy of {bytes} bytes to {bar}[{st}]{far}{kk}"}}', "enter": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "waiting in {api}"}}', "leave": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "returned from {api}"}}', "call": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "{api}"}}', "note": '{{"time": {t}, "level": "DEBUG", "logger": "kernel.{role}", "block": {cta}, "message": "{text}"}}'},
        own=" of block {owner}", to=" of block {to}", k=" in round {k}",
    ),
    "python-logging": Style(
        {"wait": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - wait({bar}, stage={st}, phase={ph}{own}{kk})", "done": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - wait({bar}, stage={st}, phase={ph}{own}{kk}) -> ok", "arrive": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - arrive({bar}, stage={st}{far}{kk})", "expect": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - arrive_and_expect({bar}, stage={st}, tx={bytes}{far}{kk})", "copy": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - tma_load({bar}, stage={st}, nbytes={bytes}{far}{kk})", "enter": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - {api}", "leave": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - {api} -> ok", "call": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - {api}", "note": "2026-11-02 14:03:{n:02d},118 - kernel.cta{cta}.{role} - DEBUG - {text}"},
        own=", peer_cta={owner}", to=", dst_ctas=[{to}]", k=", it={k}",
    ),
    "assertive": Style(
        {"wait": "{role}#{cta} BLOCKED ON {bar}<{st}>{own} WANT {ph}{kk}", "done": "{role}#{cta} RELEASED BY {bar}<{st}>{own} WANT {ph}{kk}", "arrive": "{role}#{cta} NOTIFIES {bar}<{st}>{far}{kk}", "expect": "{role}#{cta} NOTIFIES {bar}<{st}>{far} EXPECTS {bytes} BYTES{kk}", "copy": "{role}#{cta} COPIES {bytes} BYTES FOR {bar}<{st}>{far}{kk}", "enter": "{role}#{cta} BLOCKED ON {api}", "leave": "{role}#{cta} RELEASED BY {api}", "call": "{role}#{cta} CALLS {api}", "note": "{role}#{cta} SAYS {text}"},
        own=" AT CTA {owner}", to=" AT CTA {to}", k=" ROUND {k}", bar=str.upper, roles={"softmax0": "SOFTMAX0", "softmax1": "SOFTMAX1", "load": "LOAD", "mma": "MMA", "epi": "EPI", "main": "MAIN"},
    ),
    "gluon": Style(
        {"wait": "({cta},0,0) {role}_partition: mbarrier.wait({bar}.index({st}), phase={ph}){own}{kk}", "done": "({cta},0,0) {role}_partition: mbarrier.wait({bar}.index({st}), phase={ph}){own}{kk} returned", "arrive": "({cta},0,0) {role}_partition: mbarrier.arrive({bar}.index({st})){far}{kk}", "expect": "({cta},0,0) {role}_partition: mbarrier.expect({bar}.index({st}), {bytes}){far}{kk}", "copy": "({cta},0,0) {role}_partition: tma.async_copy({bytes}, {bar}.index({st})){far}{kk}", "enter": "({cta},0,0) {role}_partition: {api}", "leave": "({cta},0,0) {role}_partition: {api} returned", "call": "({cta},0,0) {role}_partition: {api}", "note": "({cta},0,0) {role}_partition: {text}"},
        own=" cta={owner}", to=" ctas=[{to}]", k=" i={k}", bar=lambda name: f"{name}_bars",
    ),
    "numbered-roles": Style(
        {"wait": "CTA{cta}/W{warp}({role}) t={t} mbar_wait {bar}.s{st} par{ph}{own}{kk} begin", "done": "CTA{cta}/W{warp}({role}) t={t} mbar_wait {bar}.s{st} par{ph}{own}{kk} end", "arrive": "CTA{cta}/W{warp}({role}) t={t} mbar_arrive {bar}.s{st}{far}{kk}", "expect": "CTA{cta}/W{warp}({role}) t={t} mbar_expect_tx {bar}.s{st} {bytes}B{far}{kk}", "copy": "CTA{cta}/W{warp}({role}) t={t} tma_copy {bar}.s{st} {bytes}B{far}{kk}", "enter": "CTA{cta}/W{warp}({role}) t={t} {api} begin", "leave": "CTA{cta}/W{warp}({role}) t={t} {api} end", "call": "CTA{cta}/W{warp}({role}) t={t} {api}", "note": "CTA{cta}/W{warp}({role}) t={t} {text}"},
        own=" of CTA{owner}", to=" at CTA{to}", k=" k{k}",
    ),
    "states": Style(
        {"wait": "cta={cta} role={role} RUNNING->WAITING bar={bar} idx={st} parity={ph}{own}{kk}", "done": "cta={cta} role={role} WAITING->RUNNING bar={bar} idx={st} parity={ph}{own}{kk}", "arrive": "cta={cta} role={role} SIGNAL bar={bar} idx={st}{far}{kk}", "expect": "cta={cta} role={role} SIGNAL bar={bar} idx={st} expect={bytes}{far}{kk}", "copy": "cta={cta} role={role} DMA bar={bar} idx={st} size={bytes}{far}{kk}", "enter": "cta={cta} role={role} RUNNING->WAITING call={api}", "leave": "cta={cta} role={role} WAITING->RUNNING call={api}", "call": "cta={cta} role={role} CALL call={api}", "note": "cta={cta} role={role} NOTE {text}"},
        own=" owner={owner}", to=" to={to}", k=" k={k}",
    ),
    "inits-first": Style(
        {"wait": "{role} (cta {cta}): try_wait on {bar}[{st}]{own} for phase {ph}{kk}", "done": "{role} (cta {cta}): try_wait on {bar}[{st}]{own} for phase {ph}{kk} succeeded", "arrive": "{role} (cta {cta}): arrive on {bar}[{st}]{far}{kk}", "expect": "{role} (cta {cta}): arrive.expect_tx on {bar}[{st}]{far}, {bytes} bytes{kk}", "copy": "{role} (cta {cta}): cp.async.bulk into smem, {bytes} bytes, signals {bar}[{st}]{far}{kk}", "enter": "{role} (cta {cta}): reached {api}", "leave": "{role} (cta {cta}): passed {api}", "call": "{role} (cta {cta}): {api}", "note": "{role} (cta {cta}): {text}"},
        own=" of cta {owner}", to=" of cta {to}", k=", k-block {k}", head=_inits, bar=camel,
    ),
    "discord": Style(
        {"wait": "`[{cta}]` **{role}** stuck waiting `{bar}[{st}]`{own} parity {ph}{kk}", "done": "`[{cta}]` **{role}** woke up `{bar}[{st}]`{own} parity {ph}{kk}", "arrive": "`[{cta}]` **{role}** bumped `{bar}[{st}]`{far}{kk}", "expect": "`[{cta}]` **{role}** bumped `{bar}[{st}]`{far} expect {bytes} bytes{kk}", "copy": "`[{cta}]` **{role}** tma into `{bar}[{st}]`{far} {bytes} bytes{kk}", "enter": "`[{cta}]` **{role}** stuck in `{api}`", "leave": "`[{cta}]` **{role}** woke up `{api}`", "call": "`[{cta}]` **{role}** did `{api}`", "note": "`[{cta}]` **{role}** {text}"},
        own=" of cta {owner}", to=" of cta {to}", k=" (iter {k})",
    ),
}
