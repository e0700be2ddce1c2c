"""Options and errors shared by commands that accept a kernel or a launch file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.judging.reference import ReferenceFunction


expect_option = click.option(
    "--expect", metavar="REF.py[:FUNCTION]",
    help="For a launch file: a function from the inputs, in float64, to the outputs (docs/judging.md).",
)  # fmt: skip


def refuse(what: str, options: Mapping[str, object], do: str = "omit the options") -> None:
    """Raise TileproofError if options were given that do not apply to `what`."""
    if wrong := [name for name, value in options.items() if value not in (None, (), "", False)]:
        raise TileproofError(f"{what} does not take these options", where=", ".join(wrong), found=what, do=do)


def reference_of(expect: str | None) -> ReferenceFunction | None:
    """The reference function that `--expect` names, None without it."""
    from tileproof.conformance.judging.reference import load

    return load(expect) if expect else None


KERNEL_ONLY = "a launch file has no variants, drawn problems or planted defects: omit the options"
FILE_ONLY = "the expected values are the stages of the kernel's problem: omit the options"
