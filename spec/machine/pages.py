"""The command line of a generated page of docs/: write it, or say that the one on disk is stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def write_or_check(
    module: str, path: Path, text: Callable[[], str], arguments: Sequence[str] | None = None
) -> int:
    """Write `text()` to the page, or with --check return 1 when the one on disk differs.

    `module` is what `python -m` runs, `path` the page unless --output names another.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Write docs/{path.name}.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when the page is stale")
    parser.add_argument("--output", type=Path, default=path, help=f"the page (default: docs/{path.name})")
    options = parser.parse_args(arguments)
    page = text()
    if not options.check:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(page, encoding="utf-8")
        return 0
    if options.output.exists() and options.output.read_text(encoding="utf-8") == page:
        return 0
    print(f"{options.output} is stale; run python -m {module}", file=sys.stderr)
    return 1
