"""The example in docs/explain.md is what the command prints, and its table names every cause."""

import re
from pathlib import Path

from tileproof.conformance.beside.logs.hangs import causes
from tileproof.conformance.beside.logs.hangs.render import diagnose
from tileproof.conformance.beside.logs.hangs.text import text

from tests.kit.paths import ROOT

DOC = (ROOT / "docs" / "explain.md").read_text()


def test_the_example_is_what_is_printed(tmp_path: Path) -> None:
    (log,) = re.findall(r"```log[^\n]*\n(.*?)```", DOC, re.DOTALL)
    (printed,) = re.findall(r"```text [^\n]*/test_docs.py\n(.*?)```", DOC, re.DOTALL)
    path = tmp_path / "hung.log"
    path.write_text(log)
    assert text(diagnose(path), full=False) + "\n" == printed


def test_every_cause_is_documented() -> None:
    folder = Path(causes.__file__).parent
    files = [*folder.glob("*.py"), *(folder / "accounts").glob("*.py")]
    source = "".join(path.read_text() for path in sorted(files))
    codes = set(re.findall(r'(?:Cause|Reason)\(\s*"([a-z-]+)"', source))
    assert len(codes) > 10
    assert codes == set(re.findall(r"^\| `([a-z-]+)` \|", DOC, re.MULTILINE))
