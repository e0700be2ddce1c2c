"""Options that write verdicts in CI formats: SARIF and JUnit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tileproof.conformance.cli.options import option
from tileproof.spec.machine.errors import TileproofError

if TYPE_CHECKING:
    from tileproof.conformance.verdict.contract import VerdictRecord

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ViewOptions:
    """The files to write."""

    sarif: str | None = option("--sarif", metavar="FILE", help="Write the findings as SARIF 2.1.0.")
    junit: str | None = option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")


def write_views(records: Sequence[VerdictRecord], views: ViewOptions, folders: Sequence[Path] = ()) -> None:
    """Write the requested files. `folders` contain the sources and are searched before this checkout.

    TileproofError for a file that cannot be written.
    """
    from tileproof.conformance.verdict import junit as junit_view
    from tileproof.conformance.verdict import sarif as sarif_view

    if views.sarif:
        _write(Path(views.sarif), sarif_view.text(records, (*folders, ROOT)))
    if views.junit:
        _write(Path(views.junit), junit_view.text(records))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TileproofError("the report cannot be written", where=str(path), found=str(error)) from None
