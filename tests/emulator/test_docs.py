"""docs/instructions.md is what the registry says, and the example of docs/emulator-alone.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tileproof.emulator import docs, registry
from tileproof.emulator.codes import CODES, Code
from tileproof.emulator.silicon import card_runs

from tests.kit.paths import ROOT

DOCS = ROOT / "docs"


def test_the_page_on_disk_is_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    assert docs.main(["--check", "--output", str(path)]) == 1
    assert docs.main(["--output", str(path)]) == 0 and docs.main(["--check", "--output", str(path)]) == 0
    path.write_text(path.read_text().replace("`brev`", "`verb`"))
    assert docs.main(["--check", "--output", str(path)]) == 1
    assert "stale" in capsys.readouterr().err


def test_every_row_and_code_is_on_the_page() -> None:
    row = registry.Row(
        "frob.nicate", "logic", ".b32 @sm_90a|sm_100a; .b64", "modelled", "9.7.1", "a note", lambda *_: None
    )
    code = Code("frob-error", "memory", "error", True, "it frobs", "error", True)
    text = docs.page([*registry.ROWS, row], [*CODES.values(), code], card_runs())
    for name in [*(r.base for r in registry.ROWS), *CODES, "frob.nicate", "frob-error"]:
        assert f"| `{name}` |" in text
    assert r"| `frob.nicate` | `.b32 @sm_90a\|sm_100a` | modelled | no evidence | 9.7.1 | a note |" in text
    assert "| `frob.nicate` | `.b64` | modelled | no evidence |  |  |" in text


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python[^\n]*\n(.*?)```", (DOCS / "emulator-alone.md").read_text(), re.S)
    exec(compile(example, "docs/emulator-alone.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "('out', 8, 8)" in printed and "shared-pending" in printed and "ld.shared.f32" in printed


def test_the_example_can_fail() -> None:
    (example,) = re.findall(r"```python[^\n]*\n(.*?)```", (DOCS / "emulator-alone.md").read_text(), re.S)
    with pytest.raises(AssertionError):
        exec(compile(example.replace("mul.f32", "add.f32"), "docs/emulator-alone.md", "exec"), {})
