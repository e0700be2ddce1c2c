"""The example in docs/build-errors.md is what the command prints, and its table lists every code."""

import re
from collections.abc import Callable
from pathlib import Path

from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.builds.cause import CODES

from tests.kit.paths import ROOT
from tests.kit.wrong_kernels import WRONG, Compiled

DOC = (ROOT / "docs" / "build-errors.md").read_text()


def test_the_example_is_what_is_printed(compiled: Callable[[str], Compiled]) -> None:
    (printed,) = re.findall(r"```text[^\n]*\n(.*?)```", DOC, re.DOTALL)
    result = report.explain(report.parse(compiled("b_not_transposed").log), WRONG / "build.log")
    assert report.text(result) + "\n" == printed


def test_every_code_is_documented() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", DOC, re.MULTILINE)
    assert rows == [*CODES.items()]


def test_every_code_of_the_rules_is_declared() -> None:
    folder = Path(report.__file__).parent
    sources = "".join(path.read_text() for path in folder.glob("rules_*.py"))
    used = set(re.findall(r'Cause\(\s*"([a-z-]+)"', sources))
    assert len(used) > 15 and used <= CODES.keys()
