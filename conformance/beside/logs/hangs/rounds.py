"""The k-block whose arrival a wait needs, inferred from waits of the same kind that ended.

A wait of k-block k needs the arrival of k-block k - lag: lag is 0 if the arrival fills a buffer, and the
number of stages if it frees a buffer. Unlike counts, lags are valid if the head of the log is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from tileproof.conformance.beside.logs.hangs.histories import History, Place, Wait
from tileproof.conformance.beside.logs.hangs.log import LogEvent

_Key = tuple[int, str, str, str]  # group, barrier, waiter's role, producer's role


class Rounds:
    """The lags of a log, each computed once."""

    def __init__(self, groups: dict[int, list[History]], head_missing: bool = False) -> None:
        self._groups = groups
        self._head_missing = head_missing
        self._lags: dict[_Key, int | None] = {}
        self._rising: dict[tuple[int, Place], bool] = {}

    def has_arrived(self, wait: Wait, producer: History) -> bool | None:
        """Whether `producer` made the arrival that `wait` needs; None if k-blocks do not decide."""
        lag = self.lag(wait, producer)
        if lag is None or wait.event.k is None:
            return None
        wanted = wait.event.k - lag
        if wanted < 0:
            return True
        if any(
            event.k is not None and event.k >= wanted for event in reversed(producer.arrivals(wait.place))
        ):
            return True
        return self.before_the_log(wait, producer)

    def before_the_log(self, wait: Wait, producer: History) -> bool:
        """Whether that arrival would be in the missing head: the producer's first logged arrival is later."""
        lag = self.lag(wait, producer)
        if not self._head_missing or lag is None or wait.event.k is None:
            return False
        first = producer.arrivals_on(wait.event.barrier)[:1]
        return bool(first) and first[0].k is not None and first[0].k > wait.event.k - lag

    def arrival(self, wait: Wait, producer: History) -> LogEvent | None:
        """The arrival of `producer` that `wait` needs; None if it was not made or k-blocks do not decide."""
        lag = self.lag(wait, producer)
        if lag is None or wait.event.k is None:
            return None
        wanted = wait.event.k - lag
        if wanted < 0:
            return None
        return next(
            (event for event in producer.arrivals(wait.place) if event.k is not None and event.k >= wanted),
            None,
        )

    def needs_none(self, wait: Wait, producer: History) -> bool:
        """Whether `wait` is among the first waits, which need no arrival, according to its k-block."""
        lag = self.lag(wait, producer)
        return lag is not None and wait.event.k is not None and wait.event.k < lag

    def lag(self, wait: Wait, producer: History) -> int | None:
        """k of a wait minus k of the arrival that it needs; None if the log does not show it."""
        if wait.event.k is None or not self.rises(producer, wait.place):
            return None
        key = wait.actor.group, wait.event.barrier, wait.actor.role, producer.actor.role
        if key not in self._lags:
            self._lags[key] = self._lag(key)
        return self._lags[key]

    def rises(self, history: History, place: Place) -> bool:
        """Whether the k-blocks of its waits and arrivals on a place increase."""
        key = id(history), place
        if key not in self._rising:
            numbers = [event.k for event in history.arrivals(place)]
            waits = [wait.event.k for wait in history.on(place)]
            self._rising[key] = all(
                a is not None and b is not None and a < b
                for some in (numbers, waits)
                for a, b in pairwise(some)
            ) and None not in (*numbers[:1], *waits[:1])
        return self._rising[key]

    def _lag(self, key: _Key) -> int | None:
        group, barrier, role, producer = key
        makers = [h for h in self._groups[group] if h.actor.role == producer]
        shown = self._by_phase(group, barrier, role, makers)
        if shown is not None:
            return shown
        lags: Counter[int] = Counter()
        for history in self._groups[group]:
            if history.actor.role != role:
                continue
            for place in history.places():
                if place[0] == barrier and self.rises(history, place):
                    busy = [maker for maker in makers if maker.arrivals(place)]
                    own = [maker for maker in busy if maker.actor.cta == history.actor.cta]
                    for maker in own or busy:
                        lags.update(_lags_at(history, maker, place))
        if not lags:
            return self._guess(group, barrier) if self._head_missing else None
        found = sorted(lags, reverse=True)
        stages = {
            place.stage for h in self._groups[group] for place in h.places() if place.barrier == barrier
        }
        if None not in stages:  # no wait needs an arrival of more than one turn of the ring ago
            found = sorted({min(lag, len(stages)) for lag in found}, reverse=True)
            lags = Counter(
                {lag: sum(n for item, n in lags.items() if min(item, len(stages)) == lag) for lag in found}
            )
        # A rare outlier is a lost or late line, not a lag.
        if len(found) > 1 and 4 * lags[found[0]] <= sum(lags.values()):
            return found[1]
        return found[0]

    def _by_phase(self, group: int, barrier: str, role: str, makers: list[History]) -> int | None:
        """The lag by the parity of each first wait, which needs no order between actors: a first wait for
        parity 0 needs the first arrival, and a wait for parity 1 passes without any.
        """
        lags: Counter[int] = Counter()
        for history in self._groups[group] if not self._head_missing else ():
            if history.actor.role != role:
                continue
            for place in history.places():
                if place.barrier != barrier or not self.rises(history, place):
                    continue
                waits = history.on(place)
                needing = waits[0] if waits[0].event.phase == 0 else waits[1] if len(waits) > 1 else None
                firsts = {maker.arrivals(place)[0].k for maker in makers if maker.arrivals(place)}
                told = needing is not None and waits[0].event.phase in (0, 1) and waits[0].passed
                first = next(iter(firsts)) if len(firsts) == 1 else None
                if told and needing is not None and needing.event.k is not None and first is not None:
                    lags[needing.event.k - first] += 1
        if not lags or min(lags) < 0:
            return None
        lag, count = lags.most_common(1)[0]
        return lag if 4 * count >= 3 * sum(lags.values()) else None

    def _guess(self, group: int, barrier: str) -> int | None:
        """The lag by the barrier's name, if no wait that ended shows it: a wait for a free buffer needs the
        arrival of one turn of the ring earlier.
        """
        stages = {
            place[1]
            for h in self._groups[group]
            for place in (*h.places(), *h.arrives)
            if place[0] == barrier
        }
        if None in stages and len(stages) > 1:
            return None
        return len(stages) if _FREES.search(barrier) else 0


_FREES = re.compile(r"empty|free|avail|consum|drain|release")


def _lags_at(history: History, maker: History, place: Place) -> list[int]:
    """k of each wait that ended, minus k of the last arrival before its end."""
    arrivals = maker.arrivals(place)
    found: list[int] = []
    at = 0
    for wait in history.on(place):
        if not wait.passed or wait.event.k is None:
            continue
        while at < len(arrivals) and arrivals[at].line <= wait.end:
            at += 1
        if at and (k := arrivals[at - 1].k) is not None:
            found.append(wait.event.k - k)
    return found
