"""Writes the command output in README.md: ``python -m tileproof.tools.pages.readme``; --check compares.

A block stands between ``<!-- NAME -->`` and ``<!-- end -->``. What runs is deterministic but for the seconds,
which are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "README.md"
WIDTH = 110
# The command of each block.
BLOCKS: Mapping[str, tuple[str, ...]] = {
    "verify": ("check", "head64", "--d-qk", "576", "--examples", "5", "--seed", "20261122"),
    "finding": ("check", "head128-part0", "--d-qk", "576", "--plant", "one-index-of-four", "--no-edges"),
}


def shown(words: Sequence[str]) -> str:
    """What the command prints, each line folded and indented as a block of Markdown."""
    line = [sys.executable, "-m", "tileproof", *words]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    folded = []
    for text in without_seconds(done.stdout).splitlines():
        indent = " " * (len(text) - len(text.lstrip()) + 10)
        folded += textwrap.wrap(
            text, WIDTH - 4, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    return textwrap.indent("\n".join(one.rstrip() for one in folded), "    ")


def replaced(page: str, blocks: Mapping[str, str]) -> str:
    """The page with these blocks in their places; ValueError for a block that the page does not have once."""
    for name, text in blocks.items():
        place = re.compile(rf"(<!-- {name} -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
        parts = place.split(page)  # what is before, the block's two ends, what is after
        if len(parts) != 4:
            raise ValueError(f"README.md has {len(parts) // 3} blocks {name}")
        page = parts[0] + parts[1] + text + parts[2] + parts[3]
    return page


def without_seconds(text: str) -> str:
    """The text with dots in the place of seconds."""
    return re.sub(r"\d+\.\d+ s\b", "... s", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes README.md, or with --check says whether it is stale."""
    given = sys.argv[1:] if arguments is None else arguments
    before = PAGE.read_text(encoding="utf-8")
    page = replaced(before, {name: shown(words) for name, words in BLOCKS.items()})
    if "--check" not in given:
        PAGE.write_text(page, encoding="utf-8")
    elif page != before:
        print("README.md is stale; run python -m tileproof.tools.pages.readme", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
