"""German and Chinese words of logs, in the grammar's words. `--words FILE` adds others.

A German word is a token; a Chinese phrase is replaced in the text, longest first, since no space ends it.
"""

from __future__ import annotations

import re


def _listed(words: str) -> list[str]:
    return words.split()


GERMAN: dict[str, str] = {
    **dict.fromkeys(_listed("warte wartet warten wartend blockiert hängt steht betritt"), "wait"),
    "gewartet": "waited",
    **dict.fromkeys(
        _listed(
            "fertig weiter erreicht passiert freigegeben verlässt verlassen beendet erledigt erfüllt "
            "abgeschlossen durch"
        ),
        "done",
    ),
    **dict.fromkeys(
        _listed(
            "melde meldet gemeldet signalisiert signalisiere signalisieren angekommen kommt benachrichtigt "
            "benachrichtige erwarte erwartet gibt ankunft"
        ),
        "arrive",
    ),
    **dict.fromkeys(_listed("kopie kopiert kopiere"), "copy"),
    **dict.fromkeys(_listed("vor beginnt beginne gestellt angefordert"), "begin"),
    "nach": "after",
    **dict.fromkeys(_listed("nicht nie kein keine"), "not"),
}
GERMAN_FIELDS: dict[str, str] = {
    **dict.fromkeys(("stufe", "puffer"), "stage"),
    **dict.fromkeys(("parität", "paritaet"), "phase"),
    **dict.fromkeys(("schritt", "runde", "durchlauf"), "iteration"),
    "kachel": "tile",
    "rolle": "role",
    **dict.fromkeys(("byte", "bytes"), "bytes"),
    "spalten": "ignored",
    "maske": "mask",
}
_GERMAN_PHRASES = (
    (re.compile(r"\b(?:der |des )?(?:Nachbar|Partner|anderen)[- ]CTA\b", re.IGNORECASE), " peer "),
    (re.compile(r"\bbenannte[rn]? Barriere\b", re.IGNORECASE), " named barrier "),
    (re.compile(r"\bCluster-Barriere\b", re.IGNORECASE), " cluster barrier "),
    (re.compile(r"\b(?:Block|CTA)-Barriere\b", re.IGNORECASE), " __syncthreads "),
    (re.compile(r"\bBarriere Nr\.?", re.IGNORECASE), " named barrier "),
    (re.compile(r"\bBarriere\b", re.IGNORECASE), " barrier "),
    (re.compile(r"\bTMEM[- ]?(?:Anforderung|Zuteilung|Belegung)\b", re.IGNORECASE), " tcgen05.alloc "),
    (re.compile(r"\bTMEM\b(.*)\bfreigegeben\b", re.IGNORECASE), r" tcgen05.dealloc \1"),
    (re.compile(r"(?<=\d) und (?=\d)"), " and "),
)

_CHINESE: dict[str, str] = {
    **dict.fromkeys(("等待完成", "等待结束", "已等到", "等到了", "等到", "等完"), "wait done"),
    **dict.fromkeys(
        ("正在等待", "正在等", "等待中", "开始等待", "等待", "阻塞在", "阻塞", "卡在", "等"), "wait"
    ),
    **dict.fromkeys(("完成", "通过", "结束", "成功", "返回"), "done"),
    **dict.fromkeys(("到达", "通知", "提交", "释放", "发信号", "期望", "预期"), "arrive"),
    **dict.fromkeys(("发起拷贝", "拷贝", "搬运", "复制"), "copy"),
    **dict.fromkeys(("进入", "开始"), "begin"),
    **dict.fromkeys(("离开", "退出"), "leave"),
    **dict.fromkeys(("未", "没有"), "not"),
    **dict.fromkeys(("相位", "奇偶", "阶段位"), "phase"),
    **dict.fromkeys(("缓冲区", "级", "槽", "阶段"), "stage"),
    **dict.fromkeys(("对端", "对方", "邻居"), "peer"),
    **dict.fromkeys(("命名屏障",), "named barrier"),
    **dict.fromkeys(("集群屏障", "簇屏障"), "cluster barrier"),
    **dict.fromkeys(("屏障", "栅栏"), "barrier"),
    **dict.fromkeys(("字节数", "字节"), "bytes"),
    **dict.fromkeys(("掩码",), "mask"),
    **dict.fromkeys(("目标",), "target"),
    **dict.fromkeys(("线程块", "块"), "block"),
    **dict.fromkeys(("线程束",), "warp"),
    **dict.fromkeys(("角色",), "role"),
    **dict.fromkeys(("申请",), "tcgen05.alloc"),
    **dict.fromkeys(("列", "的"), ""),
    **dict.fromkeys(("迭代", "轮", "步"), "iteration"),
}
_COUNTED = (
    (re.compile(r"第\s*(\d+)\s*(?:次迭代|轮迭代|轮|次|步|个?k块|块)"), r" iteration \1 "),
    (re.compile(r"第\s*(\d+)\s*(?:级|个?槽|个?缓冲区)"), r" stage \1 "),
    (re.compile(r"释放\s*(?=TMEM|张量内存)", re.IGNORECASE), " tcgen05.dealloc "),
    (re.compile(r"申请\s*(?=TMEM|张量内存)", re.IGNORECASE), " tcgen05.alloc "),
)
_PHRASE = re.compile("|".join(map(re.escape, sorted(_CHINESE, key=len, reverse=True))))
_ROLE = re.compile(r"(role=\w+)")  # a name, whose words mean nothing
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_CJK = re.compile(f"[{_WIDE}]")
_EDGE = re.compile(f"(?<=[{_WIDE}])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[{_WIDE}])")
_GERMAN_HINT = re.compile(r"barriere|nachbar|partner|anderen|tmem|und", re.IGNORECASE)


def told_in_chinese(word: str) -> bool:
    """Whether a word is a verb of waiting, arriving or ending."""
    found = _PHRASE.match(word)
    told = _CHINESE[found[0]].split() if found else []
    return bool({*told} & {"wait", "done", "arrive", "begin", "leave", "not"})


def _chinese(text: str) -> str:
    for pattern, words in _COUNTED:
        text = pattern.sub(words, text)
    return _EDGE.sub(" ", _PHRASE.sub(lambda found: f" {_CHINESE[found[0]]} ", text))


def translate(text: str) -> str:
    """The line with Chinese phrases, and German phrases of several words, in the grammar's words."""
    if not text.isascii() and _CJK.search(text):
        text = "".join(part if part.startswith("role=") else _chinese(part) for part in _ROLE.split(text))
    if _GERMAN_HINT.search(text):
        for pattern, words in _GERMAN_PHRASES:
            text = pattern.sub(words, text)
    return text
