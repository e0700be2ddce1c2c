"""Code blocks of pages and what they print: ``python -m tileproof.tools.site.executed [--check] PAGE...``.

A block begins with its language and an attribute:

- ``LANGUAGE file=NAME``: written to NAME in the page's folder, which is empty at the start.
- ``sh exit=N``: run by bash in that folder with `tileproof` and `pytest` on the path; N is its exit code.
- ``python run``: run in the names of the page's earlier ``python run`` blocks.
- ``LANGUAGE from=PATH``: occurs like this, but for its indent, in PATH of the repository.
- ``text output``: all that the block before it printed; without --check it is written anew.
- ``text`` after ``sh exit=N``: lines that are printed in this order, among others.

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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 96
_BLOCK = re.compile(r"^```(\w+)(?: (\w+)(?:=(\S+))?)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def repeatable(text: str) -> str:
    """The text with dots in the place of what differs from run to run: seconds, hashes of PTX."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "...", text)  # nvcc writes paths into PTX
    return re.sub(r"\b\d+\.\d+ s\b", "... s", text)


def missing(shown: str, printed: str) -> str:
    """The first shown line that was not printed, in order; "" when all were."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() and not any(line.strip() in other for other in lines):
            return line
    return ""


@dataclass
class PageRun:
    """A page as its blocks are executed: its folder, its names, and what is wrong."""

    folder: Path
    names: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    commands: int = 0
    printed: str | None = None  # by the block before

    def _tools(self) -> Path:
        """A folder with `tileproof` and `pytest` of this environment."""
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        for name, module in (("tileproof", "tileproof"), ("pytest", "pytest -p no:cacheprovider")):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
            script.chmod(0o755)
        return tools

    def _shell(self, content: str, code: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{self._tools()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": str(WIDTH),
            "NO_COLOR": "1",
        }
        line = ["bash", "-c", f"set -e\n{content}"]
        done = subprocess.run(
            line, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        if str(done.returncode) != code:
            told = done.stdout + done.stderr
            self.problems.append(f"exit code {done.returncode} instead of {code}: {content}{told}")
        return done.stdout

    def _python(self, content: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(content, "page", "exec"), self.names)
        return out.getvalue()

    def block(self, language: str, key: str, value: str, content: str) -> str:
        """Execute a block; return its content, for ``text output`` what was printed."""
        before, self.printed = self.printed, None
        if key == "file":
            (self.folder / value).write_text(content)
        elif key == "from":
            whole = (ROOT / value).read_text(encoding="utf-8")
            indents = {len(line) - len(line.lstrip()) for line in whole.splitlines()}
            if not any(textwrap.indent(content, " " * indent) in whole for indent in indents):
                self.problems.append(f"{value} has no such lines: {content}")
        elif (language, key) == ("sh", "exit"):
            self.printed = self._shell(content, value)
            self.commands += 1
        elif (language, key) == ("python", "run"):
            self.printed = self._python(content)
            self.commands += 1
        elif (language, key) == ("text", "output"):
            if before is None:
                self.problems.append(f"nothing was printed before this block: {content}")
                return content
            return "".join(f"{line.rstrip()}\n" for line in repeatable(before).splitlines())
        elif language == "text" and before is not None and (line := missing(content, before)):
            self.problems.append(f"not printed: {line}\n{before}")
        return content


def executed(page: str) -> tuple[str, PageRun]:
    """The page with what its blocks print now, and its execution."""
    with tempfile.TemporaryDirectory() as folder:
        run = PageRun(Path(folder))

        def again(match: re.Match[str]) -> str:
            content = run.block(match[1], match[2] or "", match[3] or "", match[4])
            return match[0].replace(match[4], content) if match[4] else match[0][:-3] + content + "```"

        return _BLOCK.sub(again, page), run


def has_blocks(page: str) -> bool:
    """Whether a page has a block that is executed."""
    keys = {(match[1], match[2]) for match in _BLOCK.finditer(page)}
    return bool(keys & {("sh", "exit"), ("python", "run")})


def stale(path: Path) -> list[str]:
    """What is wrong with a page's blocks."""
    before = path.read_text(encoding="utf-8")
    after, run = executed(before)
    changes = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "shown", "printed", lineterm="", n=1
    )
    return [*run.problems, *(["\n".join(changes)] if after != before else [])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute pages and write what they print; with --check exit 1 where a page shows something else."""
    parser = argparse.ArgumentParser(prog="python -m tileproof.tools.site.executed", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("pages", nargs="*", type=Path, help="pages (all of README.md and docs/ with blocks)")
    options = parser.parse_args(arguments)
    everything = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    code = 0
    for path in options.pages or [
        page for page in everything if has_blocks(page.read_text(encoding="utf-8"))
    ]:
        if options.check:
            problems = stale(path)
        else:
            page, run = executed(path.read_text(encoding="utf-8"))
            path.write_text(page, encoding="utf-8")
            problems = run.problems
        for problem in problems:
            print(f"{path}: {problem}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
