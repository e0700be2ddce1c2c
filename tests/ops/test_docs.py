"""The code of docs/operator.md prints what the page shows, and the comparison there can fail."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.kit.paths import ROOT

PAGE = ROOT / "docs" / "operator.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", re.S)


def blocks() -> list[tuple[str, str]]:
    """Each block of code of the page, and what it prints."""
    return [(code, textwrap.dedent(shown)) for code, shown in BLOCK.findall(PAGE.read_text())]


def test_the_code_of_the_page_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks()
    assert len(found) == PAGE.read_text().count("```python\n") == 3
    names: dict[str, object] = {}
    for code, shown in found:
        exec(compile(code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == shown


def test_another_scale_is_seen_in_the_losses(capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks()[-1][0].replace("D_QK**-0.5", "0.28868")  # 12^-0.5 is 0.288675
    exec(compile(code, str(PAGE), "exec"), {})
    assert "within 1e-6: False" in capsys.readouterr().out
