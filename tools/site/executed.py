"""Code blocks of pages and what they print: ``python -m tileproof.tools.site.executed [--check] PAGE...``.

Every block says after its language how it is executed or compared; a block that says nothing is a problem:

- ``LANGUAGE file=NAME``: written to NAME in the page's folder, which is empty at the start.
- ``sh exit=N``: run by bash in that folder with `tileproof`, `pytest` and `nvcc` on the path and the
  toolkit's folder in `CUDA`; N is its exit code.
- ``python run``: run in the names of the page's earlier ``python run`` blocks.
- ``LANGUAGE from=PATH``: occurs like this, but for its indent, in PATH of the repository.
- ``text output``: all that the block before it printed; without --check it is written anew.
- ``text`` after ``sh exit=N``: lines that are printed in this order, among others. A shown line that ends
  in ``...`` is the beginning of a printed line.
- ``LANGUAGE test=PATH``: a test of the repository executes it; PATH names the page.
- ``sh needs=WHAT exit=N``: as ``sh exit=N`` where ``--with WHAT`` is given (a key of NEEDS); elsewhere
  `tools.site.shown` checks its commands, options and modules.
- ``python generated``: a signature, which the generator of the page compares (GENERATED).

``--only`` leaves out what every machine executes: on a machine with a card, and without nvcc, ``--with card
--only`` executes the blocks for a card, and prints a line for each.

Seconds are left out of what is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tileproof.kernels import toolchain
from tileproof.spec.machine.errors import TileproofError

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 96
NEEDS = {
    "card": "a GPU, and torch with CUDA",
    "network": "packages or sources that are fetched",
    "minutes": "several minutes of processor time",
    "program": "a program of the reader",
    "avx512-bf16": "a processor with VDPBF16PS",
}
GENERATED = {"python.md": "tileproof.tools.pages.api"}
_BLOCK = re.compile(r"^```(\w*)([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class PageBlock:
    """A code block: language, attributes after it, content, and the line it begins at."""

    language: str
    attributes: Mapping[str, str]
    content: str
    line: int

    @property
    def needs(self) -> str:
        """What it cannot be executed without (a key of NEEDS), or ""."""
        return self.attributes.get("needs", "")

    @property
    def runs(self) -> bool:
        """Whether it is executed: by bash or by Python."""
        return ("exit" in self.attributes and self.language == "sh") or "run" in self.attributes


def _block(match: re.Match[str]) -> PageBlock:
    words = (word.partition("=") for word in match[2].split())
    attributes = {name: value for name, _, value in words}
    return PageBlock(match[1], attributes, match[3], match.string.count("\n", 0, match.start()) + 1)


def every_page() -> list[Path]:
    """README.md, CONTRIBUTING.md and the pages of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[PageBlock]:
    """The code blocks of a page, in order."""
    return [_block(match) for match in _BLOCK.finditer(page)]


def repeatable(text: str) -> str:
    """The text with dots in the place of what differs from run to run: seconds, hashes of PTX."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "...", text)  # nvcc writes paths into PTX
    return re.sub(r"\b\d+\.\d+ s\b", "... s", text)


def missing(shown: str, printed: str) -> str:
    """The first shown line that was not printed, in order; "" when all were."""
    lines = iter(repeatable(printed).splitlines())
    for line in shown.splitlines():
        looked_for = repeatable(line.strip()).removesuffix(" ...")
        if looked_for and not any(looked_for in other for other in lines):
            return line
    return ""


def _nvcc() -> Path | None:
    """The compiler of the installed toolkit, if there is a toolkit."""
    try:
        return toolchain.find().nvcc
    except TileproofError:
        return None


@dataclass
class PageRun:
    """A page as its blocks are executed: its folder, its names, and what is wrong."""

    folder: Path
    page: Path
    names: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    commands: int = 0
    only: bool = False  # of the blocks that run, those alone that need what was given
    printed: str | None = None  # by the block before
    waits: bool = False  # the block before was not run: it needs what is not here

    def _tools(self) -> Path:
        """A folder with `tileproof`, `pytest`, and nvcc (if it is installed) of this environment."""
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        python = f'"{sys.executable}" -m'
        commands = {"tileproof": f"{python} tileproof", "pytest": f"{python} pytest -p no:cacheprovider"}
        if nvcc := _nvcc():
            commands["nvcc"] = f'"{nvcc}"'
        for name, command in commands.items():
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            script.chmod(0o755)
        return tools

    def _shell(self, content: str, code: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{self._tools()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": str(WIDTH),
            "NO_COLOR": "1",
            **({"CUDA": str(nvcc.parents[1])} if (nvcc := _nvcc()) else {}),
        }
        line = ["bash", "-c", f"set -e\n{content}"]
        done = subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        ended = done.returncode if done.returncode >= 0 else 128 - done.returncode  # as a shell says a signal
        # A command that never began ends with 1 too, and says so on standard error alone.
        failed = ended == 1 and (not done.stdout.strip() or "Traceback (most recent" in done.stderr)
        if failed or str(ended) != code:
            what = "the command did not run" if failed else f"exit code {ended} instead of {code}"
            self.problems.append(f"{what}: {content}{done.stdout}{done.stderr}")
        return done.stdout

    def _python(self, content: str, _: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(content, "page", "exec"), self.names)
        return out.getvalue()

    def _from(self, block: PageBlock) -> None:
        whole = (ROOT / block.attributes["from"]).read_text(encoding="utf-8")
        indents = {len(line) - len(line.lstrip()) for line in whole.splitlines()}
        if not any(textwrap.indent(block.content, " " * indent) in whole for indent in indents):
            self.problems.append(f"{block.attributes['from']} has no such lines: {block.content}")

    def _test(self, block: PageBlock) -> None:
        path = ROOT / block.attributes["test"]
        if not path.is_file() or self.page.name not in path.read_text(encoding="utf-8"):
            self.problems.append(f"{path} is no test that names {self.page.name}: {block.content}")

    def _skipped(self, block: PageBlock, given: Collection[str]) -> bool:
        """Whether a block, or the text after it, waits for what this machine was not said to have."""
        if block.needs and block.needs not in NEEDS:
            self.problems.append(f"needs={block.needs}: one of {', '.join(NEEDS)} is known")
        return block.needs not in given if block.needs else self.only and block.runs

    def block(self, block: PageBlock, given: Collection[str] = ()) -> str:
        """Execute a block; return its content, for ``text output`` what was printed."""
        before, waits = self.printed, self.waits
        self.printed, self.waits = None, False
        attributes = block.attributes
        if self._skipped(block, given):
            self.waits = True
        elif block.runs:
            run = self._shell if "exit" in attributes else self._python
            began, known = time.monotonic(), len(self.problems)
            self.printed = run(block.content, attributes.get("exit", ""))
            self.commands += 1
            if self.only:
                outcome = "as shown" if len(self.problems) == known else "not as shown"
                took, last = time.monotonic() - began, (self.printed.strip().splitlines() or [""])[-1]
                print(f"{self.page.name}:{block.line}: {outcome}, {took:.1f} s: {block.content.strip()}")
                print(f"    {last}", flush=True)
        elif "file" in attributes:
            (self.folder / attributes["file"]).write_text(block.content)
        elif "from" in attributes:
            self._from(block)
        elif "test" in attributes:
            self._test(block)
        elif waits and block.language == "text":
            pass
        elif "output" in attributes:
            if before is None:
                self.problems.append(f"nothing was printed before this block: {block.content}")
                return block.content
            return "".join(f"{line.rstrip()}\n" for line in repeatable(before).splitlines())
        elif block.language == "text" and before is not None:
            if line := missing(block.content, before):
                self.problems.append(f"not printed: {line}\n{before}")
        elif "generated" not in attributes or self.page.name not in GENERATED:
            self.problems.append(f"line {block.line}: a block that is not executed: {block.content}")
        return block.content


def executed(text: str, page: Path, given: Collection[str] = (), only: bool = False) -> tuple[str, PageRun]:
    """The page's text with what its blocks print now, and its execution; `given`: keys of NEEDS; `only`: of
    the blocks that run, those that need what was given.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = PageRun(Path(folder), page, only=only)

        def again(match: re.Match[str]) -> str:
            content = run.block(_block(match), given)
            return f"{match[0][: match.start(3) - match.start()]}{content}```"

        return _BLOCK.sub(again, text), run


def has_blocks(page: str) -> bool:
    """Whether a page has a block that is executed here."""
    return any(block.runs and not block.needs for block in blocks(page))


def stale(path: Path, given: Collection[str] = (), only: bool = False) -> list[str]:
    """What is wrong with a page's blocks."""
    before = path.read_text(encoding="utf-8")
    after, run = executed(before, path, given, only)
    changes = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "shown", "printed", lineterm="", n=1
    )
    return [*run.problems, *(["\n".join(changes)] if after != before else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute pages and write what they print; with --check exit 1 where a page shows something else."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.site.executed", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument(
        "--with",
        dest="given",
        action="append",
        choices=sorted(NEEDS),
        default=[],
        help="also execute the blocks that need this (repeatable)",
    )
    parser.add_argument("--only", action="store_true", help="with --check and --with: no other blocks")
    parser.add_argument("pages", nargs="*", type=Path, help="pages (all of README.md and docs/)")
    options = parser.parse_args(arguments)
    code = 0
    for path in options.pages or every_page():
        if options.check:
            problems = stale(path, options.given, options.only)
        else:
            page, run = executed(path.read_text(encoding="utf-8"), path, options.given)
            path.write_text(page, encoding="utf-8")
            problems = run.problems
        for problem in problems:
            print(f"{path}: {problem}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
