# ruff: noqa: E501 - log lines are kept whole
"""The sixth exam: more styles of authors who did not look at the reader of logs, none of the fifth's wordings."""

from __future__ import annotations

from benchmarks.strangers.exams.styles import Style, barriers, camel, replaced
from benchmarks.strangers.kernels import Case

ID = {
    "load": "pemuat", "mma": "pengali", "epi": "penulis", "softmax0": "softmax_kiri",
    "softmax1": "softmax_kanan", "main": "utama", "tma": "pengantar", "issue": "pemicu",
    "compute": "penghitung", "reduce": "penjumlah", "sched": "penjadwal", "loader": "pemasok",
    "tensor": "tensor", "epilogue": "penutup", "fetch": "pengambil", "head": "ketua",
}  # fmt: skip
UK = {
    "load": "завантажувач", "mma": "множник", "epi": "записувач", "softmax0": "софтмакс_лівий",
    "softmax1": "софтмакс_правий", "main": "головний", "tma": "підвізник", "issue": "пускач",
    "compute": "обчислювач", "reduce": "згортач", "sched": "планувальник", "loader": "постачальник",
    "tensor": "тензорник", "epilogue": "завершувач", "fetch": "читач", "head": "старший",
}  # fmt: skip
FI = {
    "load": "lataaja", "mma": "kertoja", "epi": "kirjoittaja", "softmax0": "softmax_vasen",
    "softmax1": "softmax_oikea", "main": "päälanka", "tma": "siirtäjä", "issue": "käynnistäjä",
    "compute": "laskija", "reduce": "summaaja", "sched": "jakaja", "loader": "syöttäjä",
    "tensor": "tensori", "epilogue": "viimeistelijä", "fetch": "hakija", "head": "johtaja",
}  # fmt: skip


def _symbols(case: Case, style: Style) -> list[str]:
    return [
        "// 1st char: ? starts to wait, ! that wait is over, + arrives (with B: expects those bytes), ~ bulk copy launched, . other",
        "// then: blockIdx.x  warp role  n_block  barrier'stage  parity or bytes  @block(s) whose barrier it is if not mine",
    ]


def _gtest(case: Case, style: Style) -> list[str]:
    return [
        "[==========] Running 1 test from 1 test suite.",
        "[----------] 1 test from WarpSpecialized",
        *(
            f"[ INIT     ] {style.bar(name)}: {stages} stage(s), {count} arrival(s) per phase"
            for name, (stages, count) in barriers(case).items()
        ),
    ]


def _sanitizer(lines: list[str]) -> list[str]:
    return ["========= COMPUTE-SANITIZER", *lines]


def _server(lines: list[str]) -> list[str]:
    return ["$ docker logs -f ws-gemm-repro 2>&1 | grep cta", *lines]


STYLES: dict[str, Style] = {
    "cute-acquire": Style(
        {
            "wait": "[{cta},{tid}] {role}: consumer tries {bar} stage {st} phase {ph}{own}{kk}",
            "done": "[{cta},{tid}] {role}: consumer has {bar} stage {st} phase {ph}{own}{kk}",
            "wait back": "[{cta},{tid}] {role}: producer acquire {bar} stage {st} phase {ph}{own}{kk}",
            "done back": "[{cta},{tid}] {role}: producer acquired {bar} stage {st} phase {ph}{own}{kk}",
            "arrive": "[{cta},{tid}] {role}: producer commit {bar} stage {st}{far}{kk}",
            "arrive back": "[{cta},{tid}] {role}: consumer release {bar} stage {st}{far}{kk}",
            "expect": "[{cta},{tid}] {role}: producer arrive_and_expect_tx {bar} stage {st} tx {bytes}{far}{kk}",
            "copy": "[{cta},{tid}] {role}: producer cute::copy tma {bytes} B on {bar} stage {st}{far}{kk}",
            "enter": "[{cta},{tid}] {role}: tries {api}",
            "leave": "[{cta},{tid}] {role}: has {api}",
            "call": "[{cta},{tid}] {role}: {api}",
            "note": "[{cta},{tid}] {role}: {text}",
        },
        own=" (smem of block_rank {owner})",
        to=" (smem of block_rank {to})",
        k=" k_tile {k}",
        sync="NamedBarrier::sync({size}, {number})",
    ),
    "kittens": Style(
        {
            "wait": "cta {cta} {role} warpgroup{kk} >> kittens::wait({bar}[{st}], {ph}){own}",
            "done": "cta {cta} {role} warpgroup{kk} << kittens::wait({bar}[{st}], {ph}){own}",
            "arrive": "cta {cta} {role} warpgroup{kk} kittens::arrive({bar}[{st}]){far}",
            "expect": "cta {cta} {role} warpgroup{kk} kittens::tma::expect_bytes({bar}[{st}], {bytes}) /* arrive.expect_tx */{far}",
            "copy": "cta {cta} {role} warpgroup{kk} kittens::tma::load_async(tile, {bar}[{st}]) /* {bytes} bytes */{far}",
            "enter": "cta {cta} {role} warpgroup >> {api}",
            "leave": "cta {cta} {role} warpgroup << {api}",
            "call": "cta {cta} {role} warpgroup {api}",
            "note": "cta {cta} {role} warpgroup // {text}",
        },
        bar=camel,
        own=" on cluster_ctarank {owner}",
        to=" on cluster_ctarank {to}",
        k=" tic {k}",
        sync="kittens::group::sync({number}) /* {size} threads */",
    ),
    "mojo-print": Style(
        {
            "wait": "block_id_in_cluster.x {cta} warp {role}{kk} : {bar}[ {st} ].wait( {ph} ){own} pre",
            "done": "block_id_in_cluster.x {cta} warp {role}{kk} : {bar}[ {st} ].wait( {ph} ){own} post",
            "arrive": "block_id_in_cluster.x {cta} warp {role}{kk} : {bar}[ {st} ].arrive(){far}",
            "expect": "block_id_in_cluster.x {cta} warp {role}{kk} : {bar}[ {st} ].arrive_and_expect_bytes( {bytes} ){far}",
            "copy": "block_id_in_cluster.x {cta} warp {role}{kk} : async_copy( {bytes} bytes ) into {bar}[ {st} ]{far}",
            "enter": "block_id_in_cluster.x {cta} warp {role} : {api} pre",
            "leave": "block_id_in_cluster.x {cta} warp {role} : {api} post",
            "call": "block_id_in_cluster.x {cta} warp {role} : {api}",
            "note": "block_id_in_cluster.x {cta} warp {role} : {text}",
        },
        own=" remote block {owner}",
        to=" remote block {to}",
        k=" k_iter {k}",
        sync="named_barrier[ {size} ]( {number} )",
    ),
    "symbols": Style(
        {
            "wait": "?{cta} {role} n{k} {bar}'{st} p{ph}{own}",
            "done": "!{cta} {role} n{k} {bar}'{st} p{ph}{own}",
            "arrive": "+{cta} {role} n{k} {bar}'{st}{far}",
            "expect": "+{cta} {role} n{k} {bar}'{st} {bytes}B{far}",
            "copy": "~{cta} {role} n{k} {bar}'{st} {bytes}B{far}",
            "enter": "?{cta} {role} {api}",
            "leave": "!{cta} {role} {api}",
            "call": ".{cta} {role} {api}",
            "note": ".{cta} {role} {text}",
        },
        own=" @{owner}",
        to=" @{to}",
        head=_symbols,
    ),
    "sanitizer": Style(
        {
            "wait": "========= Block {cta}, {role} warp{kk}: parity-{ph} phase of mbarrier {bar} (element {st}){own} has not completed, the warp keeps spinning",
            "done": "========= Block {cta}, {role} warp{kk}: parity-{ph} phase of mbarrier {bar} (element {st}){own} has completed, the warp moves on",
            "arrive": "========= Block {cta}, {role} warp{kk}: pending count of mbarrier {bar} (element {st}){far} decremented",
            "expect": "========= Block {cta}, {role} warp{kk}: pending count of mbarrier {bar} (element {st}){far} decremented, tx-count increased by {bytes}",
            "copy": "========= Block {cta}, {role} warp{kk}: bulk copy of {bytes} bytes issued, to complete_tx on mbarrier {bar} (element {st}){far}",
            "enter": "========= Block {cta}, {role} warp: {api} has not completed, the warp keeps spinning",
            "leave": "========= Block {cta}, {role} warp: {api} has completed, the warp moves on",
            "call": "========= Block {cta}, {role} warp: {api} executed",
            "note": "========= Block {cta}, {role} warp: note, {text}",
        },
        own=" in shared memory of block {owner}",
        to=" in shared memory of block {to}",
        k=", iteration {k}",
        whole=_sanitizer,
    ),
    "julia-tuple": Style(
        {
            "wait": "(cta = {cta}, who = :{role}, act = :wait, at = :entry, mbar = :{bar}, slot = {st}, bit = {ph}{own}{kk})",
            "done": "(cta = {cta}, who = :{role}, act = :wait, at = :return, mbar = :{bar}, slot = {st}, bit = {ph}{own}{kk})",
            "arrive": "(cta = {cta}, who = :{role}, act = :arrive, mbar = :{bar}, slot = {st}{far}{kk})",
            "expect": "(cta = {cta}, who = :{role}, act = :arrive, mbar = :{bar}, slot = {st}, expecting = {bytes}{far}{kk})",
            "copy": "(cta = {cta}, who = :{role}, act = :bulkcopy, mbar = :{bar}, slot = {st}, sizeof = {bytes}{far}{kk})",
            "enter": '(cta = {cta}, who = :{role}, act = "{api}", at = :entry)',
            "leave": '(cta = {cta}, who = :{role}, act = "{api}", at = :return)',
            "call": '(cta = {cta}, who = :{role}, act = "{api}")',
            "note": '(cta = {cta}, who = :{role}, say = "{text}")',
        },
        own=", mbar_cta = {owner}",
        to=", mbar_cta = [{to}]",
        k=", k = {k}",
    ),
    "gtest": Style(
        {
            "wait": "[ RUN      ] cta{cta}.{role}.wait/{bar}/{st}/parity{ph}{own}{kk}",
            "done": "[       OK ] cta{cta}.{role}.wait/{bar}/{st}/parity{ph}{own}{kk} ({n} ms)",
            "arrive": "[   ARRIVE ] cta{cta}.{role}/{bar}/{st}{far}{kk}",
            "expect": "[   ARRIVE ] cta{cta}.{role}/{bar}/{st}{far}{kk} (expects {bytes} bytes)",
            "copy": "[      TMA ] cta{cta}.{role}/{bar}/{st}{far}{kk} ({bytes} bytes)",
            "enter": "[ RUN      ] cta{cta}.{role}.call/{api}",
            "leave": "[       OK ] cta{cta}.{role}.call/{api} ({n} ms)",
            "call": "[     CALL ] cta{cta}.{role}/{api}",
            "note": "[     INFO ] cta{cta}.{role}: {text}",
        },
        own="/of_cta{owner}",
        to="/of_cta{to}",
        k=" # k{k}",
        head=_gtest,
    ),
    "logcat": Style(
        {
            "wait": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}{kk}] {bar}({st}){own} not signalled for parity {ph}, yielding",
            "done": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}{kk}] {bar}({st}){own} was signalled for parity {ph}, carrying on",
            "arrive": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}{kk}] arrival posted, {bar}({st}){far}",
            "expect": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}{kk}] arrival posted, {bar}({st}){far}, {bytes} bytes owed",
            "copy": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} V ws.{role}: [block {cta}{kk}] {bytes}-byte bulk transfer queued, {bar}({st}){far}",
            "enter": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}] {api} not through, yielding",
            "leave": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}] {api} was through, carrying on",
            "call": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} D ws.{role}: [block {cta}] {api} invoked",
            "note": "05-11 09:14:22.{n:03d}  4411  4{tid:03d} I ws.{role}: [block {cta}] {text}",
        },
        own=" on block {owner}",
        to=" on block {to}",
        k=" lap {k}",
    ),
    "erlang": Style(
        {
            "wait": "{{{t},{{{role},{cta}}},{{suspended,{{mbar,{bar},{st}{own}}},{{parity,{ph}}}{kk}}}}}.",
            "done": "{{{t},{{{role},{cta}}},{{resumed,{{mbar,{bar},{st}{own}}},{{parity,{ph}}}{kk}}}}}.",
            "arrive": "{{{t},{{{role},{cta}}},{{arrived,{{mbar,{bar},{st}{far}}}{kk}}}}}.",
            "expect": "{{{t},{{{role},{cta}}},{{arrived,{{mbar,{bar},{st}{far}}},{{expect_bytes,{bytes}}}{kk}}}}}.",
            "copy": "{{{t},{{{role},{cta}}},{{copy_started,{{mbar,{bar},{st}{far}}},{{bytes,{bytes}}}{kk}}}}}.",
            "enter": '{{{t},{{{role},{cta}}},{{suspended,"{api}"}}}}.',
            "leave": '{{{t},{{{role},{cta}}},{{resumed,"{api}"}}}}.',
            "call": '{{{t},{{{role},{cta}}},{{called,"{api}"}}}}.',
            "note": '{{{t},{{{role},{cta}}},{{said,"{text}"}}}}.',
        },
        own=",{{owner_cta,{owner}}}",
        to=",{{owner_ctas,[{to}]}}",
        k=",{{k,{k}}}",
        head=lambda case, style: ["%% {Time, {Role, Cta}, Event}."],
    ),
    "access-log": Style(
        {
            "wait": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "WAIT /cta{owner}/{bar}/{st}?parity={ph}{kk}" 102 Processing',
            "done": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "WAIT /cta{owner}/{bar}/{st}?parity={ph}{kk}" 200 OK',
            "arrive": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "ARRIVE /cta{to}/{bar}/{st}?k={k}" 204',
            "expect": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "ARRIVE /cta{to}/{bar}/{st}?expect_tx={bytes}{kk}" 204',
            "copy": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "COPY /cta{to}/{bar}/{st}?bytes={bytes}{kk}" 204',
            "enter": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "CALL {api}" 102 Processing',
            "leave": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "CALL {api}" 200 OK',
            "call": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "CALL {api}" 204',
            "note": 'cta{cta} - {role} [11/May/2026:09:14:22 +0000] "SAY {text}" 204',
        },
        k="&k={k}",
        whole=_server,
    ),
    "vcd": Style(
        {
            "wait": "#{t} cta{cta}.{role}.waiting( cta{owner}.{bar}[{st}] parity 'b{ph}{kk} ) 0->1",
            "done": "#{t} cta{cta}.{role}.waiting( cta{owner}.{bar}[{st}] parity 'b{ph}{kk} ) 1->0",
            "arrive": "#{t} cta{cta}.{role}.arrive( cta{{{to}}}.{bar}[{st}]{kk} ) pulse",
            "expect": "#{t} cta{cta}.{role}.arrive( cta{{{to}}}.{bar}[{st}] expect_tx 'd{bytes}{kk} ) pulse",
            "copy": "#{t} cta{cta}.{role}.bulk_copy( cta{{{to}}}.{bar}[{st}] bytes 'd{bytes}{kk} ) pulse",
            "enter": "#{t} cta{cta}.{role}.waiting( {api} ) 0->1",
            "leave": "#{t} cta{cta}.{role}.waiting( {api} ) 1->0",
            "call": "#{t} cta{cta}.{role}.exec( {api} ) pulse",
            "note": "#{t} cta{cta}.{role}.text( {text} )",
        },
        k=" k 'd{k}",
    ),
    "irc": Style(
        {
            "wait": "[09:14] <{role}|{cta}> {kk}no {bar} no. {st}{own} for me yet (parity {ph}), idling||[09:14] <{role}|{cta}> {kk}idling till {bar} no. {st}{own} turns up (parity {ph})",
            "done": "[09:14] <{role}|{cta}> {kk}ty, {bar} no. {st}{own} turned up (parity {ph})||[09:14] <{role}|{cta}> {kk}back to work, have {bar} no. {st}{own} (parity {ph})",
            "arrive": "[09:14] <{role}|{cta}> {kk}arriving on {bar} no. {st}{far}",
            "expect": "[09:14] <{role}|{cta}> {kk}arriving on {bar} no. {st}{far}, {bytes} bytes to follow",
            "copy": "[09:14] <{role}|{cta}> {kk}sent tma off with {bytes} bytes, will report to {bar} no. {st}{far}",
            "enter": "[09:14] <{role}|{cta}> idling till {api} lets me go",
            "leave": "[09:14] <{role}|{cta}> back to work, {api} let me go",
            "call": "[09:14] <{role}|{cta}> did {api}",
            "note": "[09:14] <{role}|{cta}> fyi {text}",
        },
        own=" (cta {owner}'s)",
        to=" (cta {to}'s)",
        k="k={k}, ",
        head=lambda case, style: ["*** Topic: hung kernel, <role|cta>", "*** Now talking in #ws-debug"],
    ),
    "indonesia": Style(
        {
            "wait": "warp {role} di blok {cta}{kk}: mulai menunggu {bar} slot {st}{own}, paritas {ph}",
            "done": "warp {role} di blok {cta}{kk}: selesai menunggu {bar} slot {st}{own}, paritas {ph}",
            "arrive": "warp {role} di blok {cta}{kk}: lapor tiba di {bar} slot {st}{far}",
            "expect": "warp {role} di blok {cta}{kk}: lapor tiba di {bar} slot {st}{far}, akan datang {bytes} bita",
            "copy": "warp {role} di blok {cta}{kk}: mengirim salinan {bytes} bita untuk {bar} slot {st}{far}",
            "enter": "warp {role} di blok {cta}: mulai menunggu {api}",
            "leave": "warp {role} di blok {cta}: selesai menunggu {api}",
            "call": "warp {role} di blok {cta}: memanggil {api}",
            "note": "warp {role} di blok {cta}: {text}",
        },
        roles=ID,
        bar=replaced({"full": "penuh", "empty": "kosong", "free": "bebas", "ready": "siap"}),
        own=" milik blok {owner}",
        to=" milik blok {to}",
        k=", putaran {k}",
    ),
    "ukrainska": Style(
        {
            "wait": "блок №{cta} » {role}{kk} » чекаю, доки настане парність {ph} на {bar}[{st}]{own}",
            "done": "блок №{cta} » {role}{kk} » дочекався, настала парність {ph} на {bar}[{st}]{own}",
            "arrive": "блок №{cta} » {role}{kk} » відмітився на {bar}[{st}]{far}",
            "expect": "блок №{cta} » {role}{kk} » відмітився на {bar}[{st}]{far}, надійде {bytes} байтів",
            "copy": "блок №{cta} » {role}{kk} » запустив копію {bytes} байтів для {bar}[{st}]{far}",
            "enter": "блок №{cta} » {role} » чекаю на {api}",
            "leave": "блок №{cta} » {role} » дочекався {api}",
            "call": "блок №{cta} » {role} » викликав {api}",
            "note": "блок №{cta} » {role} » {text}",
        },
        roles=UK,
        own=" з блоку №{owner}",
        to=" з блоку №{to}",
        k=", оберт {k}",
    ),
    "suomi": Style(
        {
            "wait": "{bar}/{st}{own}: {role} (lohko {cta}) jää odottamaan, pariteetti {ph}{kk}",
            "done": "{bar}/{st}{own}: {role} (lohko {cta}) pääsi läpi, pariteetti {ph}{kk}",
            "arrive": "{bar}/{st}{far}: {role} (lohko {cta}) ilmoittautuu{kk}",
            "expect": "{bar}/{st}{far}: {role} (lohko {cta}) ilmoittautuu, tulossa {bytes} tavua{kk}",
            "copy": "{bar}/{st}{far}: {role} (lohko {cta}) lähettää matkaan {bytes} tavun kopion{kk}",
            "enter": "{api}: {role} (lohko {cta}) jää odottamaan",
            "leave": "{api}: {role} (lohko {cta}) pääsi läpi",
            "call": "{api}: {role} (lohko {cta}) kutsuu",
            "note": "huom: {role} (lohko {cta}) {text}",
        },
        roles=FI,
        own=" lohkosta {owner}",
        to=" lohkosta {to}",
        k=", kierros {k}",
    ),
    "hinglish": Style(
        {
            "wait": "block {cta} ka {role}{kk} - {bar}[{st}]{own} ka intezaar shuru, parity {ph}",
            "done": "block {cta} ka {role}{kk} - {bar}[{st}]{own} ka intezaar khatam, parity {ph}",
            "arrive": "block {cta} ka {role}{kk} - {bar}[{st}]{far} par haazri lagayi",
            "expect": "block {cta} ka {role}{kk} - {bar}[{st}]{far} par haazri lagayi, {bytes} bytes aane baaki",
            "copy": "block {cta} ka {role}{kk} - {bar}[{st}]{far} ke liye {bytes} bytes ki copy bheji",
            "enter": "block {cta} ka {role} - {api} ka intezaar shuru",
            "leave": "block {cta} ka {role} - {api} ka intezaar khatam",
            "call": "block {cta} ka {role} - {api} chalaya",
            "note": "block {cta} ka {role} - {text}",
        },
        own=" (block {owner} wala)",
        to=" (block {to} wala)",
        k=", chakkar {k}",
    ),
}
