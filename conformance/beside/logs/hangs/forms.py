"""Operations other than mbarriers', targets in other CTAs, and tables, in the grammar's words.

PTX ISA: barrier.cta (named barriers 0 to 15; 0 is __syncthreads), barrier.cluster, tcgen05.alloc and dealloc,
mapa (a shared address of another CTA).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SYNCTHREADS = "__syncthreads"
CLUSTER = "cluster_barrier"
TMEM = "tcgen05_alloc"
NAMED = "named_barrier_"

_TAIL = r"(?:[_.](?P<{0}>done|ok|end|begin|enter|leave|passed|finished|start|exit))?"
_NUMBER = (
    r"(?:\s*\([^()]*?\b(?:barrier_)?id\W{1,5}(?P<id>\d+)[^()]*\)"  # sync(256 threads, id 2)
    r"|\W{0,3}(?:(?:barrier_)?id|no|nr)?\W{0,3}(?P<number>\d+)(?:\s*,\s*\d+)?)?"
)
_CLUSTER = re.compile(
    r"\b(?:barrier[._]cluster|cluster[\s._-]{0,2}(?:barrier|sync|bar))(?:[\s._:-]{1,2}(?P<verb>arrive|wait|sync))?"
    + _TAIL.format("tail") + r"(?:\(\))?"
    + r"|\bcluster[._](?P<verb2>arrive|wait)(?:[._](?:relaxed|release|acquire|aligned))*"
    + _TAIL.format("tail2") + r"(?:\(\))?"
    + r"|(?P<before>\b(?:arrive|wait|done)\w*\s+)cluster\b(?!\s*[\d=:#(]|[\s._-]*(?:barrier|sync|bar)\b)",
    re.IGNORECASE,
)  # fmt: skip
_NAMED = re.compile(
    r"(?:(?<![\w.])named[\s_-]*barrier(?:(?:[_.]|::)(?:sync|wait))?|(?<!\w)NamedBarrier(?:::sync)?|"
    r"(?<!\w)group(?:<[^<>]*>)?(?:::|\.)sync(?=\s*\(\s*\d)|(?<![\w.])barrier(?:\.cta)?\.sync(?:\.aligned)?|"
    r"(?<![\w.])bar\.sync|(?<![\w.])bar_sync|(?<![\w.])cta_sync|(?<![\w.])"
    r"barrier(?:_cta)?_sync(?:_(?:un)?aligned)?(?=\s*[(<]\s*\d))"
    + _TAIL.format("tail") + r"(?![\w.])" + _NUMBER,
    re.IGNORECASE,
)  # fmt: skip
_THREADS = re.compile(r"(?<!\w)_*syncthreads(?:\s*\(\))?", re.IGNORECASE)
_BARRIER_ID = re.compile(r"\bbarrier(?:[_.](?P<tail>\w+))?(?=\W{1,3}id\W{1,3}(?P<number>\d+))", re.IGNORECASE)
_DEALLOC = re.compile(
    r"\btcgen05[._]dealloc\w*|\btmem[\s_.-]*(?:dealloc\w*|free\w*)|"
    r"\b(?:free|dealloc|release)\w*\b(?=.*\b(?:tmem|tensor memory)\b)|"
    r"\btmem\b(?=.*\b(?:freed|deallocated|released)\b)",
    re.IGNORECASE,
)
_ALLOC = re.compile(
    r"\btcgen05[._]alloc(?:[._](?P<tail>\w+))?|\btmem[\s_.-]*alloc(?:[._](?P<tail2>\w+)|\w*)|"
    r"\b(?P<tail3>\w+)(?= (?:for )?\d+ columns of (?:tmem|tensor memory))",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\b(?:ask\w*|request\w*|want\w*)\b", re.IGNORECASE)
_COLUMNS = re.compile(r"\b(?:n?col(?:umn)?s?|of (?:tmem|tensor memory)|ncols)\b\W{0,2}", re.IGNORECASE)
# Instructions of PTX.
_PTX = re.compile(
    r"\b(?:mbarrier\.(?:try_wait|test_wait|arrive|expect_tx|arrive_drop)|tcgen05\.commit)[\w.:]*"
)
_CUTLASS = re.compile(r"\bCluster(?:Transaction)?Barrier(?:::|\.|->)")
_NAMESPACES = re.compile(r"\b(?:\w+::){2,}(?=(?:expect|arrive)\w*\s*\()")  # lib::tma::expect_bytes(
_NAMED_NUMBER = re.compile(r"\bnamed\W?(\d+)\b", re.IGNORECASE)
_PTX_COPY = re.compile(r"\bcp\.(?:reduce\.)?async\.bulk[\w.:]*")
_MAPA = re.compile(
    r"\b(?:mapa\w*|remote|map_shared_rank)\(\s*(?P<name>[^\W\d][\w.]*(?:\[[^\]]*\])?)\s*,\s*(?:cta\s*)?(?P<cta>\d+)\s*\)"
)
_RANKS = re.compile(r"\bmap_shared_rank\(\s*(?P<ctas>\d+(?:\s*,\s*\d+)*)\s*\)")
_AT = re.compile(r"(?<!^)@\s*(?:cta|CTA)?\s*(?P<ctas>\d+(?:\+\d+)*)(?P<stage>\[[^\]]*\])?")
_HEAD_AT = re.compile(r"^(?P<head>[\s\[(<|]*)(?P<role>[^\W\d]\w*)@(?:cta|CTA)?(?P<cta>\d+)\b")
_SHORT_CTA = re.compile(r"^(?P<head>[\s\[(<|]*)[cC](?P<cta>\d{1,3})(?=[\s,\])>|:/-])")
_HINT = re.compile(
    r"sync|barrier|cluster|cp\.||tmem|tcgen05|tensor memory|mapa|remote\(|map_shared_rank|@|^\W{0,3}c\d",
    re.IGNORECASE,
)


def operations(text: str) -> str:
    """The line with barriers of threads and of clusters, allocations and targets as words of the grammar."""
    if _HINT.search(text) is None:
        return text
    text = _HEAD_AT.sub(r"\g<head>role=\g<role> cta=\g<cta> ", text)
    text = _SHORT_CTA.sub(r"\g<head>cta=\g<cta>", text)
    text = _NAMESPACES.sub("", _CUTLASS.sub(" mbarrier ", text))
    text = _NAMED_NUMBER.sub(rf" {NAMED}\1 ", text)
    text = _PTX_COPY.sub(" copy ", _PTX.sub(_mbarrier, text))
    text = _MAPA.sub(r"\g<name> target_cta=\g<cta> ", text)
    text = _RANKS.sub(lambda found: " target_cta=" + re.sub(r"\s*,\s*", " and ", found["ctas"]) + " ", text)
    text = _AT.sub(_target, text)
    text = _CLUSTER.sub(_cluster, text)
    text = _THREADS.sub(f" {SYNCTHREADS} ", text)
    text = _NAMED.sub(_named, text)
    text = _BARRIER_ID.sub(_named, text)
    if "mem" in text.lower() or "tcgen05" in text.lower():
        text = _allocation(text)
    return text


def _mbarrier(found: re.Match[str]) -> str:
    said = found[0].lower()
    if "wait" in said:
        return " wait "
    parts = [word for word in ("commit", "arrive", "multicast") if word in said][-2:]
    if "commit" in parts:
        parts = [word for word in parts if word != "arrive"]
    return " " + " ".join(parts) + (" expect_tx " if "expect_tx" in said else " ")


def _target(found: re.Match[str]) -> str:
    ctas = found["ctas"].replace("+", " and ")
    return f"{found['stage'] or ''} target_cta={ctas} "


def _cluster(found: re.Match[str]) -> str:
    verb = (found["verb"] or found["verb2"] or "").lower()
    tail = found["tail"] or found["tail2"] or ""
    return f" {found['before'] or ''} {'' if verb == 'sync' else verb} {CLUSTER} {tail} "


def _named(found: re.Match[str]) -> str:
    number = found.groupdict().get("id") or found["number"]
    name = SYNCTHREADS if number in (None, "0") else NAMED + number
    return f" {name} {found['tail'] or ''} "


def _allocation(text: str) -> str:
    if _DEALLOC.search(text):
        return _COLUMNS.sub(" ", _DEALLOC.sub(f" arrive {TMEM} ", text, count=1))
    found = _ALLOC.search(text)
    if found is None:
        return text
    said = found["tail"] or found["tail2"] or found["tail3"] or ""
    asks = " begin " if _ASKS.search(text) else " "
    text = f"{text[: found.start()]} {TMEM} {asks} {said} {text[found.end() :]}"
    return _COLUMNS.sub(" ", text)


# --- tables: a header names the columns

_KNOWN = {
    "cta", "role", "warp", "wg", "event", "op", "barrier", "bar", "mbar", "stage", "phase", "parity", "k",
    "iter", "it", "block", "thread", "bytes", "who", "slot", "action", "kind", "verb",
}  # fmt: skip
_BARE = {
    "event",
    "op",
    "action",
    "kind",
    "verb",
    "info",
    "what",
    "note",
    "message",
    "detail",
    "details",
    "type",
}
_CELL = re.compile(r"[A-Za-z_][\w .-]{0,24}$")


def tabled(members: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """The lines, with the rows of a table as `column=value`."""
    header: list[str] = []
    mark = ""
    out: list[tuple[int, str]] = []
    for number, line in members:
        for separator in (mark,) if mark else (",", "|", "\t", ";"):
            cells = _cells(line, separator) if separator in line else []
            if 4 <= len(cells) < len(header) and not line.endswith(separator):
                cells += [""] * (len(header) - len(cells))  # cells at the end that were empty
            if header and len(cells) == len(header):
                line = _row(header, cells)
                break
            if not header and _is_header(cells):
                header, mark = [cell.lower().replace(" ", "_") for cell in cells], separator
                line = "# " + line
                break
        out.append((number, line))
    return out if header else members


def _cells(line: str, separator: str) -> list[str]:
    if separator == "|":
        line = line.strip().strip("|")
    return [cell.strip() for cell in line.split(separator)]


def _is_header(cells: Sequence[str]) -> bool:
    names = {cell.lower() for cell in cells}
    return len(cells) >= 4 and len(names & _KNOWN) >= 3 and all(_CELL.match(cell) for cell in cells)


def _row(header: Sequence[str], cells: Sequence[str]) -> str:
    words = [
        cell if name in _BARE else f"{name}={cell.replace('+', ' and ')}"
        for name, cell in zip(header, cells, strict=True)
        if cell
    ]
    return " ".join(words)
