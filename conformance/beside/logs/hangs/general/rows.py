"""Layouts of logs as rows of words and `key=value`: objects, XML, tables, and blocks of several lines."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general.lexicon import field, verbs

Rows = list[tuple[int, str]]
_FLOW = re.compile(r"^\s*-?\s*(\{.*\})\s*,?\s*$")
_PAIR = re.compile(
    r"(?P<key>[\w .-]+?)\s*:\s*"
    r"(?P<value>\[[^\]]*\]|\{[^{}]*\}|\"[^\"]*\"|'[^']*'|[^,{}]*(?:\([^()]*\)[^,{}]*)*)"
)
_XML = re.compile(r"^\s*<(?P<tag>\w+)(?P<rest>(?:\s+[\w:-]+=\"[^\"]*\")+)\s*/?>(?P<text>[^<]*)")
_BLOCK = re.compile(r"^\s*(?:- )?(?P<key>[^\W\d][\w -]{0,30}?)\s*[:=]\s*(?P<value>\S.*)$")
_SPEAKS = re.compile(r"cta|warp|wg|block|blk|role|thread|rank|\bk\b", re.IGNORECASE)
_QUOTED = re.compile(
    r"[<\u00ab\"'`](?P<a>[^\W\d_]+) (?P<b>full|empty|free|ready|done|filled|drained)(?=[\s>\u00bb\"'`])"
)
_DOTTED = re.compile(r"\b(?P<a>[^\W\d]\w*)\.(?P<b>full|empty|free|ready|filled|drained)\b")
_CONSTRUCTED = re.compile(
    r"(?P<label>\b[^\W\d]\w*\s*[:=]\s*)?\b(?P<type>[^\W\d]\w*)\(\s*"
    r"(?:[\"']?(?P<name>[^\W\d]\w*)[\"']?(?:,\s*(?P<stage>\d+))?|(?P<value>\d+))\s*\)"
)
_TYPED = re.compile(
    r"(?P<label>\b[^\W\d]\w*\s*[:=]\s*)(?P<type>[^\W\d]\w*)\(\s*[\"'](?P<name>[^\W\d]\w*)[\"']\s*,?"
)
_KEYWORD = re.compile(r"\s(?::|--)(?P<key>[^\W\d][\w-]*)\s+(?=[^\s:-])")
_BOX = re.compile(r"^\s*(?:[-*+]\s+|\d+[.)]\s+)?\[(?P<mark>[ xXvV*+\u2713\u2714])\]\s+")
_COMPOUND = re.compile(r"(?<![\w.])(?:[A-Za-z]\d{1,4}){2,4}(?![\w.])")
_CALLED = re.compile(
    r"(?<!\w)(?P<code>[A-Za-z]{1,4}\d{1,3})\s*(?:is|are|means|=|:|->|=>)\s*(?:the\s+)?(?P<name>[^\W\d]\w*)"
)
_CODE = re.compile(
    r"(?<!\w)(?P<code>[^\s=:,;]{1,4})\s*[=:]\s*(?P<means>[^=:,;|]*[^=:,;|\s])(?=\s*(?:[,;|]|$))"
)
_COMMENT = re.compile(r"\s*(?:#|//|%)")
_GENERIC = {"id", "idx", "index", "x", "name", "rank", "num", "value", "number", "sym"}
_INDEX = {"i", "idx", "index", "n", "no", "num"}  # of a barrier among those of its name
_TRACE = {
    "B": "begin",
    "E": "done",
    "b": "begin",
    "e": "done",
    "i": "event",
    "I": "event",
    "X": "event",
    "M": "meta",
}


def rows(members: Sequence[tuple[int, str]]) -> Rows:
    """The lines as rows; lines of a block become one row."""
    lines = [(number, text) for number, text in members if text.strip()]
    if not lines:
        return []
    lines = _keywords(_legend(_called(_named_threads(_boxes(_unprefixed(lines))))))
    blocks = _blocks(lines)
    if blocks:
        return blocks
    return [(number, _names(row)) for number, text in _tables(lines) for row in _object(text)]


def _unprefixed(lines: Rows) -> Rows:
    """The lines without a logger's prefix: what nearly all begin with, where it has a time."""
    flat = [re.sub(r"\d", "0", text) for _, text in lines]
    prefix, rest = "", flat
    while rest:
        char, many = Counter(text[len(prefix) : len(prefix) + 1] for text in rest).most_common(1)[0]
        if not char or many < 0.8 * len(lines):
            break
        prefix += char
        rest = [text for text in rest if text.startswith(prefix)]
    cuts = (found.end() for found in re.finditer(r"[:\]|] *", prefix))
    cut = max((at for at in cuts if not _SPEAKS.search(prefix[:at])), default=0)
    if prefix[:cut].count("0") < 6:
        return lines
    return [
        (number, text[cut:] if same.startswith(prefix[:cut]) else text)
        for (number, text), same in zip(lines, flat, strict=True)
    ]


def _boxes(lines: Rows) -> Rows:
    """Rows of a list of tasks, `- [ ] ...` and `- [x] ...`, with the mark as a word at their end."""
    marks = Counter(found["mark"] for _, text in lines if (found := _BOX.match(text)))
    if len(marks) < 2 or not marks[" "]:
        return lines
    boxes = [_BOX.match(text) for _, text in lines]
    return [
        (
            number,
            _BOX.sub("", text) + f" ; {'open' if found['mark'] == ' ' else 'ticked'}_box" if found else text,
        )
        for (number, text), found in zip(lines, boxes, strict=True)
    ]


def _named_threads(lines: Rows) -> Rows:
    """Rows of a Chrome trace with the names of their threads."""
    names: dict[tuple[str, str], str] = {}
    out: Rows = []
    for number, text in lines:
        row = _parsed(text.strip().rstrip(",")) if text.lstrip().startswith("{") and '"tid"' in text else {}
        key = str(row.get("pid")), str(row.get("tid"))
        arguments = row.get("args")
        if row.get("ph") == "M" and isinstance(arguments, dict):
            names[key] = str(arguments.get("name", ""))
            continue
        if key in names:
            text = json.dumps({**row, "role": names[key]})
        out.append((number, text))
    return out if names else lines


def _keywords(lines: Rows) -> Rows:
    """Rows of keywords and values, `:role load :cta 0` or `--role load --cta 0`, as `key=value`."""
    many = sum(len(_KEYWORD.findall(text)) > 2 for _, text in lines)
    if many < 0.6 * len(lines):
        return lines
    return [(number, _KEYWORD.sub(r" ; \g<key>=", text)) for number, text in lines]


def _legend(lines: Rows) -> Rows:
    """Codes that the log itself explains, `W = start waiting, A = arrive`, replaced by their meaning."""
    codes: dict[str, str] = {}
    out: Rows = []
    for number, text in lines:
        pairs = [(found["code"], found["means"].strip()) for found in _CODE.finditer(text)]
        if sum(bool(verbs_of(means)) for _, means in pairs) >= 3 and not _FLOW.match(text):
            codes |= {code: means for code, means in pairs if verbs_of(means)}
        else:
            out.append((number, text))
    if not codes:
        return lines
    known = sorted(map(re.escape, codes), key=len, reverse=True)
    pattern = re.compile(r"(?<![^\s|,;])(?:" + "|".join(known) + r")(?![^\s|,;])")
    return [
        (number, pattern.sub(lambda found: f" {codes[found[0]]} ", text, count=1)) for number, text in out
    ]


def _called(lines: Rows) -> Rows:
    """Codes of actors apart, `c1w4` as `c1 w4`, and with the names that the log gives them: `w4 is mma`."""
    letters = Counter(
        re.sub(r"\d", "", found[0]) for _, text in lines for found in _COMPOUND.finditer(text[:80])
    )
    most, many = letters.most_common(1)[0] if letters else ("", 0)
    if many >= 0.6 * len(lines) and len({*most}) == len(most):
        lines = [(number, _COMPOUND.sub(_apart, text, count=1)) for number, text in lines]
    names: dict[str, set[str]] = {}
    out: Rows = []
    for number, text in lines:
        pairs = [(found["code"], found["name"]) for found in _CALLED.finditer(text)]
        if len({*pairs}) > 1 and len({code.rstrip("0123456789") for code, _ in pairs}) == 1:
            for code, name in pairs:
                names.setdefault(code, set()).add(name)
        else:
            out.append((number, text))
    used = Counter(code for _, text in out for code in {*re.findall(r"\w+", text)} & names.keys())
    once = all(len(some) == 1 for some in names.values())
    if not names or len(lines) - len(out) > 2 or not once or used.total() < 0.6 * len(out):
        return lines
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    return [(number, pattern.sub(lambda found: min(names[found[0]]), text)) for number, text in out]


def _apart(found: re.Match[str]) -> str:
    return re.sub(r"(?<=\d)(?=[A-Za-z])", " ", found[0])


def verbs_of(text: str) -> set[str]:
    """What the words of a text report."""
    return {verb for word in re.findall(r"[^\W\d]+", text) for verb in verbs(word)}


def lasts(text: str) -> bool:
    """Whether what a row reports has an end of its own: a wait, or a call that is no arrival and no copy."""
    told = verbs_of(text)
    return "wait" in told or not told & {"arrive", "copy", "expect"}


def _names(text: str) -> str:
    """Names of barriers in several words or parts as one word: `<kv full>`, `kv.full`."""
    text = _QUOTED.sub(lambda found: found[0] if verbs(found["a"]) else f" {found['a']}_{found['b']} ", text)
    if "(" in text:
        text = _TYPED.sub(_untyped, _CONSTRUCTED.sub(_constructed, text))
    return _DOTTED.sub(r"\g<a>_\g<b>", text)


def _untyped(found: re.Match[str]) -> str:
    """The name in a value of a type: `by: Agent("mma", ...)` names mma."""
    said = verbs(found["type"]) or field(found["type"]) == "barrier"
    return found[0] if said else f"{found['label']}{found['name']} ("


def _constructed(found: re.Match[str]) -> str:
    """Values in their type: `Mbar("kv_full", 0)` is a barrier with its stage, `tx: Some(16)` a number."""
    kind, name, label = found["type"], found["name"], found["label"] or ""
    if name is not None:
        stage = f"[{found['stage']}]" if found["stage"] else ""
        return f"{label}{kind}={name}{stage}" if field(kind) == "barrier" else found[0]
    return found[0] if not label or field(kind) or verbs(kind) else f"{label}{found['value']}"


def _object(text: str) -> list[str]:
    """A line that is an object or an element, flat; a list of objects as rows of their own."""
    tag = _XML.match(text)
    if tag:
        pairs = re.findall(r"([\w:-]+)=\"([^\"]*)\"", tag["rest"])
        return [" ; ".join([tag["tag"], *(f"{key}={value}" for key, value in pairs), tag["text"]])]
    found = _FLOW.match(text)
    row = _parsed(found[1]) if found is not None else {}
    if not row:
        return [text]
    out: list[str] = []
    for key, value in list(row.items()):
        if isinstance(value, list) and len(value) > 2 and all(isinstance(each, dict) for each in value):
            out += [" ; ".join(_flat({str(k): v for k, v in each.items()}, key)) for each in value]
            del row[key]
    return [" ; ".join(_flat(row)), *out]


def _parsed(text: str) -> dict[str, object]:
    for parse in (json.loads, ast.literal_eval):
        try:
            row = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(row, dict):
            return {str(key): value for key, value in row.items()}
    return {found["key"].strip(): found["value"].strip() for found in _PAIR.finditer(text.strip()[1:-1])}


def _flat(row: dict[str, object], before: str = "") -> list[str]:
    out: list[str] = []
    for key, value in row.items():
        name = _of_barrier(key) if field(before) == "barrier" else ""
        name = name or (f"{before}_{key}" if before and key.lower() in _GENERIC else key)
        if isinstance(value, dict):
            out += _flat({str(k): v for k, v in value.items()}, key)
        elif name == "ph" and value in _TRACE:
            out.append(_TRACE[str(value)])
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            for each in value:
                out += _flat({str(k): v for k, v in each.items()}, key)
        elif isinstance(value, list):
            out.append(f"{name}=[{','.join(map(str, value))}]")
        elif value is True:
            out.append(name)
        elif value is not None and value is not False and value != "":
            out.append(f"{name}={value}")
    return out


def _of_barrier(key: str) -> str:
    """A key in the object of a barrier: its index is the stage, its CTA the owner; empty for other keys."""
    if key.lower() in _INDEX:
        return "stage"
    return "bar_cta" if {field(key), field(key.removesuffix("s"))} & {"cta", "target"} else ""


def _cells(line: str, mark: str) -> list[str]:
    if mark == "|":
        line = line.strip()
        line = line.removeprefix("|").removesuffix("|")
    if mark == "," and '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    return [cell.strip() for cell in line.split(mark)]


def _bracketed(lines: Rows) -> bool:
    """Whether rows have brackets, in which a comma separates no cells; not in quotes or comments."""
    rows = (re.sub(r'"[^"]*"', "", text) for _, text in lines[:40] if not _COMMENT.match(text))
    return any("(" in text or "[" in text for text in rows)


def _tables(lines: Rows) -> Rows:
    """Rows of a table by its header, `name=cell`; without a header, cells apart from each other."""
    if sum(_FLOW.match(text) is not None for _, text in lines) > 0.6 * len(lines):
        return lines  # objects, whose commas separate no cells
    for mark in ("\t", "|", ";", ","):
        counts = Counter(len(_cells(text, mark)) for _, text in lines)
        width, many = max(counts.items(), key=lambda item: (item[0] > 3) * item[1])
        if width < 4 or many < 0.6 * len(lines):
            continue
        if mark == "," and _bracketed(lines):
            continue
        header: list[str] = []
        out: Rows = []
        for number, text in lines:
            cells = _cells(text, mark)
            if abs(len(cells) - width) > 2:
                out.append((number, text))
            elif (
                not header
                and (not re.search(r"\d", "".join(cells)) or _heads(cells, lines, mark))
                and sum(map(bool, cells)) >= width - 1
            ):
                header = cells if any(re.search(r"\w", cell) for cell in cells) else []
                out.append((number, "# " + text))
            elif set(text) <= set("|-: +="):
                continue
            else:
                out.append((number, _row(header, cells)))
        return out
    return lines


def _heads(cells: list[str], lines: Rows, mark: str) -> bool:
    """Whether no cell is a number or occurs again in its column: a header, with digits in its names."""
    columns = [_cells(text, mark) for _, text in lines]
    again = Counter((at, cell) for some in columns for at, cell in enumerate(some))
    return all(again[at, cell] == 1 and not cell[:1].isdigit() for at, cell in enumerate(cells))


def _row(header: list[str], cells: list[str]) -> str:
    parts = []
    for at, cell in enumerate(cells):
        name = header[at] if at < len(header) else ""
        known = field(name) if name else ""
        if not cell:
            continue
        plain = known in ("", "ignored") or verbs(name)
        if header and known == "ignored" and re.fullmatch(r"[\d.]+", cell):
            continue
        number = re.fullmatch(r"-?\d+|0[xX][0-9a-fA-F]+", cell)
        if not header and number:
            name = f"col_{2 * chr(97 + at % 26)}"  # two letters: col_j would count rounds
        parts.append(cell if plain and not (number and name) else f"{name.replace(' ', '_')}={cell}")
    return " ; ".join(parts)


def _blocks(lines: Rows) -> Rows:
    """Blocks of `key: value` lines that begin with the same key, each as one row."""
    keyed = [(number, text, _BLOCK.match(text)) for number, text in lines]
    good = [found for _, _, found in keyed if found]
    if len(good) < 0.85 * len(lines) or len(lines) < 12:
        return []
    first = Counter(found["key"].lower() for found in good)
    keys = [key for key, count in first.items() if count >= 0.12 * len(good)]
    if len(keys) < 3 or len(first) > 24:
        return []
    lead = next(found["key"].lower() for found in good if found["key"].lower() in keys)
    if not any(field(key.replace(" ", "_")) for key in keys):
        return []
    out: list[tuple[int, list[str]]] = []
    for number, text, found in keyed:
        if found is None or (found["key"].lower() == lead or not out):
            out.append((number, []))
        value = (
            text.strip() if found is None else f"{found['key'].strip().replace(' ', '_')}={found['value']}"
        )
        out[-1][1].append(value)
    if len(out) * 3 > len(lines) or sum(_repeats(parts) for _, parts in out) > 0.1 * len(out):
        return []
    return [(number, " ; ".join(parts)) for number, parts in out]


def _repeats(parts: list[str]) -> bool:
    keys = [part.split("=")[0].lower() for part in parts]
    return len(keys) != len({*keys})
