"""Wraps the prose of pages: ``python -m tileproof.tools.pages.wrap README.md docs/*.md``.

Without names every page of the repository. Exit code 1 when a line stays too long: code, which is for its
author to shorten.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec.machine.pages import unwrapped, wrapped

ROOT = Path(__file__).resolve().parents[2]


def pages() -> list[Path]:
    """Every page of the repository."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in found.stdout.splitlines() if (path := ROOT / name).is_file()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Wraps the pages, and names what stays too long."""
    given = sys.argv[1:] if arguments is None else arguments
    long = 0
    for path in [Path(name) for name in given] or pages():
        before = path.read_text(encoding="utf-8")
        after = wrapped(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
        for number in unwrapped(after):
            print(f"{path}:{number} is too long", file=sys.stderr)
            long += 1
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
