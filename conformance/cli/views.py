"""Options that write verdicts in CI formats: SARIF and JUnit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.verdict.contract import VerdictRecord

Command = TypeVar("Command", bound=Callable[..., object])
ROOT = Path(__file__).resolve().parents[2]


def view_options(command: Command) -> Command:
    """Add `--sarif` and `--junit`."""
    junit = click.option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")
    sarif = click.option("--sarif", metavar="FILE", help="Write the findings as SARIF 2.1.0.")
    return sarif(junit(command))


def write_views(
    records: Sequence[VerdictRecord], sarif: str | None, junit: str | None, folders: Sequence[Path] = ()
) -> None:
    """Write the requested files. `folders` contain the sources and are searched before this checkout.

    TileproofError for a file that cannot be written.
    """
    from tileproof.conformance.verdict import junit as junit_view
    from tileproof.conformance.verdict import sarif as sarif_view

    if sarif:
        _write(Path(sarif), sarif_view.text(records, (*folders, ROOT)))
    if junit:
        _write(Path(junit), junit_view.text(records))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TileproofError("the report cannot be written", where=str(path), found=str(error)) from None
