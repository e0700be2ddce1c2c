"""Waits with both their times on a row, `1296..1333 wait full`, as a row that begins and a row that ends."""

from __future__ import annotations

import re

from tileproof.conformance.beside.logs.hangs.general.rows import Rows, lasts

SHARE = 0.15  # of the rows have two times
STEADY = 0.97  # of the spans end after they begin
_OPEN = r"\(?\[?[^\W\d]\w*\)?\]?|[?*~\u2026_-]+|\(\W*\)"
_SPAN = re.compile(
    r"^(?P<head>\W{0,8}(?:(?:t|at|time|clk|cyc|span)\s*[=:]\s*)?\W{0,3})(?P<a>\d+(?:\.\d+)?)\s?(?:\.\.+|->|=>|\u2192|\u2013|-|~|,)\s*"
    rf"(?P<b>\d+(?:\.\d+)?|{_OPEN})?(?P<rest>[\s:,;\])|](?=.*[^\W\d]).*)$"
)
_NAMED = re.compile(
    r"(?P<head>)\b(?:(?:begin|start|t0|from|t_?in|enter|t_?start|t_?begin)\w*|in)\s*[=:]\s*(?P<a>\d+(?:\.\d+)?)\W+"
    r"(?:(?:end|stop|t1|to|until|t_?out|exit|leave|t_?end)\w*|out)\s*[=:]\s*"
    rf"(?P<b>\d+(?:\.\d+)?|{_OPEN})?(?P<rest>(?:[\s,;\])|}}].*)?$)"
)
_TIME = re.compile(r"^\W{0,8}\d+(?:\.\d+)?\s{2,}(?=\S)")  # an instant in the column of the spans
_INSTANT = re.compile(r"[\s,;]*(?<![\w.])(?P<label>[^\W\d]\w*)\s*[=:]\s*(?P<time>\d+(?:\.\d+)?)(?=\W*$)")


def with_ends(lines: Rows) -> Rows:
    """A wait that has two times becomes two rows, a wait whose second time is open the row that begins it."""
    for form in (_SPAN, _NAMED):
        found = [form.search(text) for _, text in lines]
        spans = [each for each in found if each is not None]
        if len(spans) >= max(4, SHARE * len(lines)) and _times(spans):
            return _split(lines, found)
    return lines


def _times(spans: list[re.Match[str]]) -> bool:
    """Whether the numbers are times: most differ, and no end is before its beginning."""
    begins = [float(each["a"]) for each in spans]
    pairs = [(float(each["a"]), float(each["b"])) for each in spans if each["b"] and each["b"][0].isdecimal()]
    later = sum(a <= b for a, b in pairs)
    return len({*begins}) > 0.5 * len(begins) and len(pairs) > 2 and later >= STEADY * len(pairs)


def _instants(lines: Rows, found: list[re.Match[str] | None]) -> str:
    """The label at the end of half the other rows whose numbers are times of the spans; empty: none."""
    rest = [_INSTANT.search(text) for (_, text), span in zip(lines, found, strict=True) if span is None]
    some = [each for each in rest if each is not None]
    labels = [each["label"] for each in some]
    label = max({*labels}, key=labels.count, default="")
    times = [float(each["time"]) for each in some if each["label"] == label]
    first = min(float(span["a"]) for span in found if span is not None)
    apart = len({*times}) > 0.5 * len(times) and sum(time >= first for time in times) > 0.9 * len(times)
    return label if apart and 2 * len(times) >= len(rest) else ""


def _split(lines: Rows, found: list[re.Match[str] | None]) -> Rows:
    out: Rows = []
    label = _instants(lines, found)
    for (number, text), span in zip(lines, found, strict=True):
        if span is None:
            instant = _INSTANT.search(text)
            at = instant.span() if instant is not None and instant["label"] == label else (0, 0)
            out.append((number, _TIME.sub("", text[: at[0]] + text[at[1] :])))
            continue
        row = f"{text[: span.start()]} {span['rest'].lstrip(' :,;])|')}".strip()
        out.append((number, row))
        if span["b"] is not None and span["b"][0].isdecimal() and lasts(row):
            out.append((number, row + " done"))
    return out
