"""The rows of docs/assumptions.md, and the recorded launches that answer them (readings.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError

ROOT = Path(__file__).resolve().parents[2]
PAGE, TABLE = ROOT / "docs" / "assumptions.md", Path(__file__).with_name("readings.toml")


@dataclass(frozen=True)
class Reading:
    """A row of the page. `tests`: patterns for names of tests; without any, `not_run` says why."""

    text: str
    tests: tuple[str, ...] = ()
    not_run: str = ""


def of_page(page: str) -> Iterator[tuple[str, bool]]:
    """(reading, whether a run settles it) of each row of the page's tables."""
    for line in page.splitlines():
        cells = re.split(r"(?<!\\) \| ", line.strip().removeprefix("| ").removesuffix(" |"))
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "reading":
            # "observed" and "words of a B200" ask a card too; a sentence of NVIDIA does not.
            yield cells[0], not cells[2].startswith("a ") and not cells[2].startswith("observed")


def readings(page: str, table: Mapping[str, list[dict[str, object]]]) -> list[Reading]:
    """Every row of the page; TileproofError for an entry of the table without a row, or a row that a run
    settles and that has no entry.
    """
    entries = {str(entry["begins"]): entry for entry in table["reading"]}
    found = []
    for text, runs in of_page(page):
        begins = [begin for begin in entries if text.startswith(begin)]
        if not runs and not begins:
            found.append(Reading(text, not_run="a sentence of NVIDIA settles it, no run"))
            continue
        if len(begins) != 1:
            raise TileproofError(
                "a reading that a run settles needs one entry", where=TABLE.name, expected=text[:80],
                found=f"{len(begins)} entries",
            )  # fmt: skip
        entry = entries.pop(begins[0])
        tests = tuple(map(str, entry.get("tests", ())))  # type: ignore[call-overload]
        found.append(Reading(text, tests, str(entry.get("not_run", ""))))
    if entries:
        raise TileproofError(
            "no row of docs/assumptions.md begins so", where=TABLE.name, found=next(iter(entries))
        )
    return found


def all_readings() -> list[Reading]:
    """The readings of the page as it is."""
    return readings(PAGE.read_text(), tomllib.loads(TABLE.read_text()))
