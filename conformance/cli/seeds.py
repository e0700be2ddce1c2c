"""`--seed N|today` of the commands that draw."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import click
from tileproof.spec.machine.errors import TileproofError

TODAY = "today"


def seed_of(text: str) -> int:
    """The seed that a user gave; of today it is the date, as 20261231."""
    if text == TODAY:
        return int(datetime.date.today().strftime("%Y%m%d"))
    if not text.isdecimal():
        raise TileproofError("this is no seed", where="--seed", expected="a number or today", found=text)
    return int(text)


def seed_option(about: str) -> Callable[[Any], Any]:
    """The option `--seed`, whose value is a number; `about` says of what."""
    return click.option(
        "--seed", default="0", show_default=True, metavar="N|today",
        callback=lambda _context, _option, text: seed_of(text),
        help=f"{about}; `today` is the date, another each day.",
    )  # fmt: skip
