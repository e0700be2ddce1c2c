# ruff: noqa: E501 - tables and log lines are kept whole
"""What happens to logs on their way: each damage takes events (lists of lines) and gives the text that is
left."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

Records = list[list[str]]
HEAD = ["ninja: no work to do.", "CUDA Capability: (10, 0)", "=" * 40, "", "Launching kernel..."]


@dataclass(frozen=True)
class Told:
    """The records of the hung run and of a clean one, and those of the waits in which the hung run ends."""

    hung: Records
    clean: Records
    open: Records
    last: int = 0  # the first of the hung run's records that is some actor's last one


@dataclass(frozen=True)
class Damage:
    """`text` makes the log.

    `cta`: whether CTAs are still told; `runs`: how many runs the text holds.
    """

    text: Callable[[Told, random.Random], str]
    cta: bool = True
    runs: int = 1
    gone: bool = False  # what decides may be gone: then a right answer, and one that says it is open, count


def _join(records: Records, head: bool = True) -> str:
    return "\n".join([*(HEAD if head else []), *(line for record in records for line in record)]) + "\n"


def _none(told: Told, rng: random.Random) -> str:
    return _join(told.hung)


def _head_cut(told: Told, rng: random.Random) -> str:
    """printf's buffer wrapped: the beginning is gone, though the last line of each actor is there."""
    most = min(told.last, len(told.hung) - 14)
    if most < 1:
        return _join(told.hung, head=False)
    at = rng.randint(1, most)
    text = _join(told.hung[at - 1 :], head=False)
    return text[rng.randint(0, len(told.hung[at - 1][0])) :]


def _deep_cut(told: Told, rng: random.Random) -> str:
    """As much is gone that some actors' last lines are."""
    text = _join(told.hung)
    return text[int(len(text) * rng.uniform(0.3, 0.7)) :]


def _lost(told: Told, rng: random.Random) -> str:
    lines = _join(told.hung).splitlines()
    return "\n".join(line for line in lines if rng.random() > 0.02) + "\n"


def _cut_end(told: Told, rng: random.Random) -> str:
    return _join(told.hung)[: -rng.randint(2, 6)]


_CTA = re.compile(
    r'\b(?:CTA[= ]?\d+ ?|cta_rank=\d+ ?|cta[= ]\d+ ?|blk:\d+ \| |of CTA \d+)|"cta": \d+, |\[CTA \d+\]|^block=\d+ '
    r"|(?<=@)\d+"
)


def _no_cta(told: Told, rng: random.Random) -> str:
    return _join([[_CTA.sub("", line) for line in op] for op in told.hung])


def _after_clean(told: Told, rng: random.Random) -> str:
    return _join(told.clean) + _join(told.hung)


def _twice(told: Told, rng: random.Random) -> str:
    """Killed, and run again with the same end."""
    return _join(told.hung) + "^C\n" + _join(told.hung)


def _before_clean(told: Told, rng: random.Random) -> str:
    return _join(told.hung) + "Terminated\n" + _join(told.clean)


def _ranks(told: Told, rng: random.Random) -> str:
    """Two ranks in one file, interleaved; rank 1 hangs."""
    form = rng.choice(("[rank{}]: ", "[{}]: ", "[default{}]:", "rank {} | ", "[1,{}]<stdout>: "))
    both = [
        [form.format(0) + line for block in told.clean for line in block],
        [form.format(1) + line for op in told.hung for line in op],
    ]
    out = []
    while any(both):
        side = rng.choice([rank for rank in (0, 1) if both[rank]])
        count = rng.randint(1, 4)
        out += both[side][:count]
        both[side] = both[side][count:]
    return "\n".join(out) + "\n"


def _prefixed(told: Told, rng: random.Random) -> str:
    form = rng.choice(
        ("2025-11-20T10:00:{:02d}.125Z worker-3 app[991]: ", "I0105 10:00:{:02d}.7 4711 run.py:88] ")
    )
    lines = _join(told.hung).splitlines()
    return "\n".join(form.format(at * 60 // len(lines)) + line for at, line in enumerate(lines)) + "\n"


def _torn(told: Told, rng: random.Random) -> str:
    """A line end is lost here and there, where the next line begins with a bracket."""
    lines = _join(told.hung).splitlines()
    text = lines[0]
    for line in lines[1:]:
        text += ("" if line.startswith("[") and rng.random() < 0.04 else "\n") + line
    return text + "\n"


def _spinning(told: Told, rng: random.Random) -> str:
    """Actors that wait at the end repeat their lines."""
    return _join(told.hung) + _join(told.open * 30, head=False)


DAMAGES: dict[str, Damage] = {
    "none": Damage(_none),
    "head-cut": Damage(_head_cut),
    "deep-cut": Damage(_deep_cut, gone=True),
    "lost-lines": Damage(_lost),
    "cut-end": Damage(_cut_end),
    "no-cta": Damage(_no_cta, cta=False, gone=True),
    "after-clean": Damage(_after_clean, runs=2),
    "twice": Damage(_twice, runs=2),
    "before-clean": Damage(_before_clean, runs=2),
    "ranks": Damage(_ranks, runs=2),
    "prefixed": Damage(_prefixed),
    "torn": Damage(_torn),
    "spinning": Damage(_spinning),
}
