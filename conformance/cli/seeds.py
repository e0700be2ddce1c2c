"""`--seed N|today` of commands that draw cases, schedules or mutants."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TypeVar

import click
from tileproof.spec.machine.errors import TileproofError

TODAY = "today"
Command = TypeVar("Command", bound=Callable[..., object])


def seed_of(text: str) -> int:
    """Return the given seed; for `today` the date as a number, such as 20261231."""
    if text == TODAY:
        return int(datetime.date.today().strftime("%Y%m%d"))
    if not text.isdecimal():
        raise TileproofError("not a seed", where="--seed", expected="a number or today", found=text)
    return int(text)


def seed_option(about: str) -> Callable[[Command], Command]:
    """Return the option `--seed` with an integer value; `about` starts its help text."""
    return click.option(
        "--seed", default="0", show_default=True, metavar="N|today",
        callback=lambda _context, _option, text: seed_of(text),
        help=f"{about}; `today` uses the current date as seed.",
    )  # fmt: skip
