"""The corpus: bugs of public attention kernels, and for each the tests here that would have caught it.

A test says which rows it covers with ``@pytest.mark.corpus("I1")``. `coverage` finds the marks by reading the
test sources, without running or importing them. A link is `repository#number` on github.com, with the
shorthands of `REPOSITORIES`.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.pages import write_or_check

Status = Literal["tested", "no test", "does not apply"]

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "corpus.md"

DATA = Path(__file__).with_name("rows.toml")


@dataclass(frozen=True)
class CorpusRow:
    """One public bug; `why_not` is empty where it applies to the kernels here, else the reason why it does
    not."""

    id: str
    group: str
    bug: str
    links: tuple[str, ...]
    applies: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Coverage:
    """A row with the tests that carry its mark, each ``path::name`` relative to the repository."""

    row: CorpusRow
    tests: tuple[str, ...]

    @property
    def status(self) -> Status:
        if self.tests:
            return "tested"
        if not self.row.why_not:
            return "no test"
        return "does not apply"


def _read(data: Path = DATA) -> tuple[Mapping[str, str], Mapping[str, CorpusRow]]:
    """The shorthands of repositories, and the rows by id; TileproofError for a malformed file."""
    try:
        raw = tomllib.loads(data.read_text(encoding="utf-8"))
        rows = [CorpusRow(**{**load, "links": tuple(load["links"])}) for load in raw["rows"]]
        twice = [name for name, number in Counter(row.id for row in rows).items() if number > 1]
        if twice:
            raise ValueError(f"row {twice[0]} occurs twice")
        return MappingProxyType(raw["repositories"]), MappingProxyType({row.id: row for row in rows})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TileproofError("the corpus cannot be read", where=str(data), found=str(error)) from error


REPOSITORIES, ROWS = _read()


def marks(source: str, where: str) -> dict[str, list[str]]:
    """Row id -> names of the tests in `source` that carry its mark, by reading the source alone.

    TileproofError when a mark names no row of the corpus, or is not a plain string.
    """
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for decorator in node.decorator_list:
            if not (isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.corpus"):
                continue
            for argument in decorator.args:
                name = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                if name not in ROWS:
                    raise TileproofError(
                        "a test is marked with an unknown row of the corpus",
                        where=f"{where}:{decorator.lineno}",
                        expected=", ".join(ROWS),
                        found=str(name),
                    )
                found.setdefault(str(name), []).append(node.name)
    return found


def coverage(tests: Path = TESTS) -> list[Coverage]:
    """Every row with its tests under the folder `tests`; TileproofError if the folder does not exist."""
    if not tests.is_dir():
        raise TileproofError(
            "the tests are not installed, so their coverage cannot be listed",
            where=str(tests),
            do="run this command in a checkout of the repository",
        )
    found: dict[str, list[str]] = {name: [] for name in ROWS}
    for path in sorted(tests.rglob("test_*.py")):
        where, source = f"{tests.name}/{path.relative_to(tests)}", path.read_text(encoding="utf-8")
        if "mark.corpus" not in source:
            continue
        for name, names in marks(source, where).items():
            found[name] += [f"{where}::{test}" for test in names]
    return [Coverage(row, tuple(found[row.id])) for row in ROWS.values()]


def missing(rows: Sequence[Coverage]) -> list[str]:
    """Ids of the rows that apply and have no test."""
    return [row.row.id for row in rows if row.status == "no test"]


def link(text: str) -> str:
    """A row's link as Markdown, with the shorthand written out."""
    repository, _, number = text.partition("#")
    full = REPOSITORIES.get(repository, repository)
    if "/" not in full:
        return text
    address = f"https://github.com/{full}" + (f"/issues/{number}" if number else "")
    return f"[{text}]({address})"


def page(rows: Sequence[Coverage]) -> str:
    """docs/corpus.md."""
    counts = {status: sum(row.status == status for row in rows) for status in ("tested", "no test")}
    lines = [
        "# The corpus: public bugs, and the tests that would have caught them",
        "",
        "Generated from `conformance/beside/corpus/rows.toml` and the marks of the tests by `python -m "
        "tileproof.conformance.beside.corpus.rows`. Edit the sources, not this page; `tileproof corpus` "
        "prints the "
        "same table.",
        "",
        "A tested row has a test in which a kernel (its launch, or the reference) with this defect planted "
        "fails where it should, and ours passes.",
        "",
        f"{len(rows)} rows: {counts['tested']} tested, {counts['no test']} without a test.",
    ]
    for group in dict.fromkeys(row.row.group for row in rows):
        lines += ["", f"## {group.capitalize()}", "", "| row | what went wrong | where | status | tests |"]
        lines += ["|---|---|---|---|---|"]
        for row in rows:
            if row.row.group == group:
                tests = "<br>".join(f"`{test.rpartition('::')[2]}`" for test in row.tests)
                state = row.row.why_not or f"{row.status}: {row.row.applies}"
                links = ", ".join(map(link, row.row.links))
                lines.append(f"| **{row.row.id}** | {row.row.bug} | {links} | {state} | {tests} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check return 1 if the page on disk is stale."""
    return write_or_check(
        "tileproof.conformance.beside.corpus.rows", PAGE, lambda: page(coverage()), arguments
    )


if __name__ == "__main__":
    sys.exit(main())
