"""Build the site: ``python -m tileproof.tools.site``; exit 1 for a broken link or anchor, or an orphan page.

With --check also for a stale generated page or figure, a code block that prints something else, and a shown
command or import that does not exist.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.site import executed, shown, source
from tileproof.tools.site.contents import ROOT

# The generators of pages, figures and the launch file's schema that compare in seconds; tests compare
# the others.
GENERATORS = (
    "tileproof.spec.docs",
    "tileproof.emulator.docs",
    "tileproof.kernels.launch.jsonform",
    "tileproof.tools.bugs.page",
    "tileproof.tools.pages.api",
    "tileproof.tools.pages.commands",
    "tileproof.tools.pages.critique",
    "tileproof.tools.pages.fences",
    "tileproof.tools.pages.formats",
    "tileproof.tools.pages.layouts",
    "tileproof.tools.pages.paper",
    "tileproof.tools.pages.removals",
    "tileproof.tools.pages.rooms",
    "tileproof.tools.pages.seven_stages",
    "tileproof.tools.site.figures",
)
_REDIRECT = (
    '<!doctype html><meta charset="utf-8"><title>Tileproof</title>'
    '<meta http-equiv="refresh" content="0; url=README.html"><a href="README.html">Tileproof</a>\n'
)


def build(root: Path, out: Path) -> int:
    """Write the site of the repository at `root` to `out`; return Sphinx's exit code, 1 for any warning."""
    pages = out.parent / f"{out.name}-source"
    try:
        source.write(pages, root)
    except TileproofError as error:
        print(error, file=sys.stderr)
        return 1
    words = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(Path(__file__).parent)]
    line = [sys.executable, "-m", "sphinx", *words, "-d", str(out.parent / f"{out.name}-state")]
    code = subprocess.run([*line, str(pages), str(out)], check=False).returncode
    if code == 0:
        (out / "index.html").write_text(_REDIRECT, encoding="utf-8")
    return min(code, 1)


def stale() -> bool:
    """Whether a generated page or figure differs from its source; its generator prints which."""
    wrong = False
    for name in GENERATORS:
        try:
            wrong |= importlib.import_module(name).main(["--check"]) != 0
        except TileproofError as error:  # such as a public name without a docstring
            print(f"{name}: {error}", file=sys.stderr)
            wrong = True
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Build; the exit code is 1 when something on the site is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.site", description="Build the site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="folder (build/site)")
    parser.add_argument("--check", action="store_true", help="compare generated pages and run code blocks")
    parser.add_argument("--write", action="store_true", help="write generated pages and figures; no build")
    options = parser.parse_args(arguments)
    if options.write:
        return max(importlib.import_module(name).main([]) for name in GENERATORS)
    wrong = build(ROOT, options.out) != 0
    if options.check:
        wrong |= stale()
        wrong |= shown.main([]) != 0
        wrong = wrong or executed.main(["--check"]) != 0  # minutes; not for a site that is wrong already
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
