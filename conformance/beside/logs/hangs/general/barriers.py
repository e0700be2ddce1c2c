"""Which word of a row names its barrier, also by its place, and by a table of addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tileproof.conformance.beside.logs.hangs.general import lexicon
from tileproof.conformance.beside.logs.hangs.general.items import Row, RowWord, is_sync

BARRIER = 0.9  # from which a word is taken for a barrier


def barrier_of(row: Row, scores: dict[str, float], role: RowWord | None) -> RowWord | None:
    """The word of a row that names its barrier."""
    sync = next((word for word in row.words if is_sync(word.text)), None)
    if sync is not None:
        return sync
    some = [(scores.get(word.text.lower(), 0.0), word) for word in row.words if word is not role]
    value, word = max(some, key=lambda item: item[0], default=(0.0, None))
    return word if value >= BARRIER else None


def learn_barriers(scanned: Sequence[Row], scores: dict[str, float]) -> None:
    """Words in the place of a barrier: rows that differ from rows with a barrier in that word only."""
    seen: set[tuple[str, ...]] = set()
    rest: list[list[str]] = []
    count: Counter[str] = Counter()
    bare: set[str] = set()  # words that have no index in some row
    for row in scanned:
        words = [word.text.lower() for word in row.words]
        count.update({*words})
        bare |= {word.text.lower() for word in row.words if not word.indexed}
        barrier = barrier_of(row, scores, None)
        if barrier is None:
            rest.append(words)
        elif not is_sync(barrier.text):
            at = row.words.index(barrier)
            seen.add((*words[1:at], "*", *words[at + 1 :]) if at else ("*", *words[1:]))
    found: Counter[str] = Counter()
    for words in rest:
        for at in range(1, len(words)):
            if len(words) > 2 and (*words[1:at], "*", *words[at + 1 :]) in seen:
                found[words[at]] += 1
    for word, many in found.items():
        says = lexicon.verbs(word) and (word in bare or len(lexicon.split(word)) < 2)
        if many >= 0.5 * count[word] and not says and not lexicon.field(word):
            scores[word] = max(scores[word], BARRIER + 0.1)


def addresses(scanned: Sequence[Row], scores: dict[str, float]) -> None:
    """Barriers that are printed as addresses get the name that a table of the log gives them, or a word."""
    table: dict[int, tuple[str, int | None]] = {}
    for row in scanned:
        barrier = barrier_of(row, scores, None)
        stage = next((num.value for num in row.nums if num.of is barrier and barrier is not None), None)
        told = {verb for word in row.words for verb in lexicon.verbs(word.text)}
        for num in row.nums:
            if (
                num.hexed
                and barrier is not None
                and not is_sync(barrier.text)
                and not told & {"wait", "arrive", "done"}
            ):
                table.setdefault(num.value, (barrier.text, stage))
    for row in scanned:
        if barrier_of(row, scores, None) is not None:
            continue
        told = {verb for word in row.words for verb in lexicon.verbs(word.text)}
        found = next((n for n in row.nums if n.hexed and n.field in ("", "stage?", "barrier", "phase")), None)
        if found is None or not told & {"wait", "arrive", "done", "copy", "expect"}:
            continue
        num = found
        name, stage = table.get(num.value, (f"@{num.value:#x}", None))
        word = RowWord(name, "barrier", at=num.at)
        row.words.append(word)
        num.field, num.of = ("stage?", word) if stage is not None else ("address", None)
        num.given = num.field
        num.value = stage if stage is not None else num.value
        scores[name.lower()] = 4.0
