# ruff: noqa: E501 - lists of words
"""Words of logs in several languages, by what they mean: what happens, and which field a number is.

A word that ends in `*` matches words that begin so. A word in a script without spaces matches anywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What happens.
_VERBS: dict[str, str] = {
    "wait": """
        wait* await* blocked blocking blocks stuck hang* hung spin* poll* stall* sleep* pending acquire acquires acquiring
        trywait testwait parked idle try_wait test_wait timeout  suspended lock
        wart* blockiert* häng* haeng* steht schläft harrt
        attend attends attente attendre attendant bloqué* bloque_
        espera* aguarda* bloquead* attende attesa aspett* bloccat* wacht* czeka* oczekuje
        ожида* ждет ждёт жду ждать ждём
        等待 等 阻塞 卡在 卡住 待ち 待機 待つ 待って ブロック中 대기 기다""",
    "done": """
        done pass passed passes complet* finish* acquired ok satisf* got resum* woke wake wakes woken awake continu* proceed*
        return* ended end ends succe* through cleared over true unblock* flipped exit exits exited leave leaves leaving left
        after back out past released ready granted available unlocked release_ed cont success wakeup completion observed
        fertig weiter erreicht passiert* freigegeben verl* beendet erledigt erfüllt abgeschlossen durch gekommen hinter
        nach vorbei aufgewacht geht_weiter bekommen
        fini* termin* franchi* obten* réveil* reveil* sort sorti* passé repris débloqu*
        fin pasa pasó paso_ sale salió obtuvo recibid* liberad* desbloque* continúa
        supera* superat* finit* esce uscit* ottenut* sblocc* passa passat* sai saiu conclu* obteve passou desbloque*
        klaar verder gereed gotow* przeszed*
        дожда* заверш* законч* прошел прошёл прошла получ* выход* вышел вышла продолж* готов
        完成 通过 结束 成功 返回 继续 就绪 走出 离开 退出 得到 等到 等完 放行
        完了 終了 通過 抜け 済み 解除 再開 완료 끝 통과 종료 해제 재개 획득""",
    "arrive": """
        arriv* arv* arr arrival* signal* commit* post posted posts posting notif* publish* ping pings pinged poke* release
        releases releasing trigger* bump* kick* rings raises raised decrement* mark marks marked
        meldet melde melden gemeldet signalis* trifft eintreff* eingetroffen angekommen benachrichtig* ankunft kommt_an gibt_frei
        arrive signale prévien* previen* libère notifie avertit
        avis* señal* senal* llega* notific* arriva* segnal* sinal* chega* cheg*
        прибы* сигнал* уведом* приход*
        到达 通知 提交 发信号 释放 触发 到着 シグナル コミット 発火 도착 알림 신호 통지 커밋""",
    "expect": """
        expect* announc* promis* expecttx
        erwart* kündigt angekünd* ankündig* attendus annonc* promet anunci* annunc* promette
        ожидается обеща* 预计 预期 期望 予告 予定 期待 예정 예상 기대""",
    "copy": """
        copy copies copied copying issue issues issued issuing load loads loading tma bulk bulkcopy fetch* dma transfer* cp
        prefetch* ldg stream* bulk_copy tma_load tmaload
        kopi* lädt übertr* uebertr* copie* copia* lance_copie transf* копир* загруж* перес*
        拷贝 复制 搬运 传输 転送 コピー 복사 전송""",
    "begin": """
        begin* start* enter* pre before entry vor beginn* betritt entra entre entrée entrando entrar entr* вход* входит начал*
        进入 开始 開始 진입 시작 begins calls about""",
    "not": "not never no nicht kein* jamais non não не 未 没有 ない 안 incomplete without isnt",
    "init": "init* create* registered setup angelegt 初始化 初期化 登録 초기화 инициал* iniciali* inizial*",
}
# Which field a number is, by the word before it, or, of bytes, behind it.
_FIELDS: dict[str, str] = {
    "cta": """
        cta ctaid ctarank block blk blockidx blockid bid bidx bx rank pid blkid thread_block ctaidx
        bloc bloque blocco bloco blok блок цта 块 线程块 ブロック 블록 clusterctarank ctaincluster""",
    "group": "cluster clusterid clusteridx cga",
    "wg": "wg warpgroup wgid warpgroupidx warpgroupid",
    "warp": "warp wid warpid warpidx w варп 线程束 ワープ 워프",
    "thread": "thread tid tidx thr threadidx threadid lane_thread t поток 线程",
    "stage": """
        stage slot buf buffer idx index element elem stg st slotidx fach stufe puffer étage etage ranura etapa hueco estágio stadio posto
        стадия слот буфер 槽 级 缓冲区 ステージ スロット 단계 슬롯 버퍼 pos entry""",
    "phase": """
        phase parity par ph phasebit paritybit bit toggle p fase paridad parité parite parità paridade paritätsbit parität
        paritaet phasenbit фаза четность чётность парність 相位 奇偶 フェーズ 位相 パリティ 페이즈 위상 패리티 pariteit parzystość wantphase flag""",
    "k": """
        k kb kblk kblock ktile kt kidx kiter iter iteration it i j loop step round tile tileidx tileid n_iter trip
        runde schritt durchlauf tour boucle iteración vuelta giro passo passaggio ciclo iteração iterazione kachel ronde krok runda
        шаг итерация виток раунд цикл 迭代 轮 次 步 反復 周回 ループ 반복 스텝 kvblock nblock mblock work""",
    "bytes": """
        bytes byte tx nbytes txbytes expectbytes txcount size octets octet tx_count sz
        bajt bajty bajtów байт байта байтов байтів 字节 バイト 바이트 expectedbytes expectedtx expecttx""",
    "count": "count cnt n threads nthreads threadcount hilos fils スレッド数 线程数 arvcnt arrivals arrivalcount expectedarrivals initcount zähler anzahl cuenta compte 到达数 必要到着数",
    "target": "to dst dest target dstcta destcta dstctas destctas targetcta ctas ziel destino vers into destination",
    "owner": "owner peer remote home barcta ownercta owning peer peercta of dueno dueño besitzer remotecta ownerrank",
    "mask": "mask ctamask multicastmask mcmask maske 掩码 multicast",
    "role": "role who actor rolle rôle rol ruolo роль 角色 役 역할 worker agent component",
    "barrier": "bar mbar barrier mbarrier schranke barriere barrière barrera barriera barreira барьер 屏障 バリア 배리어 sync sem semaphore fence name sym on",
    "ignored": "lane laneid ts time clk clock cycle cycles takt seq zeit line sm smid temps tiempo tempo время 时间 device gpu grid ms us ns spins",
}
# Parts of barriers' names.
_STATE = re.compile(
    r"(?:full|empty|free|ready|rdy|done|avail|produced|consumed|filled|used|valid|loaded|read|written|drain|releas|finish|"
    r"post|arrived|signaled|scaled|done|voll|leer|frei|bereit|belegt|fertig|plein|vide|libre|pret|prêt|fini|llen|vac[ií]|list|hech|pien|vuot|liber|"
    r"pront|chei|vazi|満|满|空|полн|пуст|свобод|готов|mbar|mbarrier|bar|barrier)\w{0,3}"
)
_COUNTED = {"arrive", "arv", "arr", "arrival", "arrivals", "expected", "thread", "init", "expect"}
_OF = ("at", "in", "on", "of", "from", "home")  # at_cta: where the barrier is
_NUMBERS = ("rank", "id", "idx", "index", "num", "number", "no")
WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_CJK = re.compile(f"[{WIDE}]")
_PARTS = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _tables(source: dict[str, str]) -> tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]]]:
    whole: dict[str, str] = {}
    stems: list[tuple[str, str]] = []
    wide: list[tuple[str, str]] = []
    for meaning, words in source.items():
        for word in words.split():
            if _CJK.search(word):
                wide.append((word, meaning))
            elif word.endswith("*"):
                stems.append((word[:-1], meaning))
            else:
                whole.setdefault(word, meaning)
    stems.sort(key=lambda pair: -len(pair[0]))
    wide.sort(key=lambda pair: -len(pair[0]))
    return whole, stems, wide


_VERB_TABLES = _tables(_VERBS)
_FIELD_WORDS, _, _FIELD_WIDE = _tables(_FIELDS)


def split(word: str) -> list[str]:
    """The parts of an identifier in lower case: mbarWaitDone, MBAR_WAIT_DONE."""
    return [part.lower() for part in _PARTS.findall(_CAMEL.sub("_", word))]


@lru_cache(maxsize=1 << 16)
def verbs(word: str) -> tuple[str, ...]:
    """What a word, or the parts of an identifier, report, in order."""
    whole, stems, wide = _VERB_TABLES
    if _CJK.search(word):
        return tuple(_scan(word, wide))
    low = word.lower()
    if low in whole:
        return (whole[low],)
    parts = split(word)
    found = [
        meaning for part in (parts if len(parts) > 1 else [low]) if (meaning := _one(part, whole, stems))
    ]
    return tuple(found)


def _one(part: str, whole: dict[str, str], stems: list[tuple[str, str]]) -> str:
    if part in whole:
        return whole[part]
    return next(
        (meaning for stem, meaning in stems if part.startswith(stem) and len(part) - len(stem) < 7), ""
    )


def _scan(word: str, wide: list[tuple[str, str]]) -> list[str]:
    """Meanings of the phrases in a text without spaces, in their order."""
    found, at = [], 0
    while at < len(word):
        hit = next(((text, meaning) for text, meaning in wide if word.startswith(text, at)), None)
        if hit is None:
            at += 1
        else:
            found.append(hit[1])
            at += len(hit[0])
    return found


@lru_cache(maxsize=1 << 16)
def field(word: str) -> str:
    """The field that a word names; empty if none."""
    low = word.lower()
    if low in _FIELD_WORDS:
        return _FIELD_WORDS[low]
    flat = re.sub(r"[^\w]|_", "", low)
    if flat in _FIELD_WORDS:
        return _FIELD_WORDS[flat]
    if _CJK.search(word):
        hits = [meaning for text, meaning in _FIELD_WIDE if text in word]
        return hits[0] if hits else ""
    parts = split(word)
    if len(parts) < 2:
        return ""
    some = [_FIELD_WORDS.get(part, "") for part in parts]
    for pair in (("cta", "mask"), ("mask",)):
        if set(pair) <= {*some}:
            return "mask"
    for kind in ("target", "owner"):
        if kind in some and "cta" in some:
            return kind
    if "cta" in some and ("barrier" in some or parts[0] in _OF):
        return "owner"
    if "bytes" in some:
        return "bytes"
    said = {*parts} | ({*verbs(word)} & {"expect"})
    if "count" in some and said & _COUNTED:
        return "count"
    # k_block_idx counts k-blocks, not blocks
    if parts[-1] in _NUMBERS and (stem := _FIELD_WORDS.get("".join(parts[:-1]), some[-2])):
        return stem
    if is_state(word):
        return ""
    if "ignored" in some and {"warp", "wg"} & {*some}:
        return ""  # a role: sm_warp
    known = [each for each in some if each]
    return (
        known[-1]
        if len(known) == len(some)
        else (known[-1] if known and (known[-1] in ("phase", "bytes") or some[-1] == "k") else "")
    )


def is_state(word: str) -> bool:
    """Whether a part of an identifier names a state, as names of barriers do: kv_full, mbar_ds."""
    return any(_STATE.fullmatch(part.rstrip("0123456789")) for part in split(word))
