"""Long tests in turns: `make test` runs a third of them by the day of the year, in three days all.

    python -m tests.kit.long_tests LOG   # writes the list anew, of a run with --long=all --durations=0 -vv

tests/kit/long-tests.txt has the seconds of each test that took longer than `LONG_S` on two idle cores.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

LIST = Path(__file__).with_name("long-tests.txt")
LONG_S = 3.0
TURNS = 3
ALL = "all"
_DURATION = re.compile(r"^\s*([0-9.]+)s (?:setup|call|teardown)\s+(tests/\S.*)$", re.MULTILINE)


def listed() -> dict[str, float]:
    """Seconds of each long test, by its id."""
    rows = (line.split(" ", 1) for line in LIST.read_text(encoding="utf-8").splitlines())
    return {test: float(seconds) for seconds, test in rows}


def another_turn(tests: Iterable[str], long: Mapping[str, float], turn: str) -> set[str]:
    """The tests whose turn it is not: `turn` is a day, or "all", for which each test runs.

    ValueError where it is neither.
    """
    if turn == ALL:
        return set()
    day = int(turn)
    return {test for test in tests if test in long and zlib.crc32(test.encode()) % TURNS != day % TURNS}


def long_in(log: str) -> dict[str, float]:
    """Seconds of the long tests of a log of pytest: set-up, call and teardown together."""
    seconds: dict[str, float] = defaultdict(float)
    for taken, test in _DURATION.findall(log):
        seconds[test.rstrip()] += float(taken)
    return {test: taken for test, taken in sorted(seconds.items()) if taken > LONG_S}


def main() -> None:
    """Write the list from a log."""
    long = long_in(Path(sys.argv[1]).read_text(encoding="utf-8"))
    LIST.write_text("".join(f"{seconds:.1f} {test}\n" for test, seconds in long.items()), encoding="utf-8")
    print(f"{LIST.name}: {len(long)} tests, {sum(long.values()):.0f} s")


if __name__ == "__main__":
    main()
