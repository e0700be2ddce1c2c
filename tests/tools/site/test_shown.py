"""What pages show exists: commands, options, modules, imports; and pictures are what is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.tools.site import executed, shown

from tests.kit.paths import ROOT


def test_every_page() -> None:
    assert shown.main([]) == 0


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("```sh\ntileproof nosuch head64\n```\n", "no command nosuch"),
        ("```console\n$ tileproof check head64 --no-such-option\n```\n", "--no-such-option"),
        ("```sh\nX=1 python -m tileproof.tools.nosuch\n```\n", "no module tileproof.tools.nosuch"),
        ("```sh\ntileproof check head64 \\\n    --odd 3 | tail\n```\n", "--odd"),
        ("    tileproof explore x --odd\n", "--odd"),
        ("`tileproof explore x --odd`", "--odd"),
        ("`python -m tileproof.tools.nosuch`", "no module tileproof.tools.nosuch"),
        ("```yaml\n      - run: tileproof gate launch.json --odd\n```\n", "--odd"),
        ("```python\nx = (\n```\n", "does not compile"),
        ("```python\nfrom tileproof.emulator import Nosuch\n```\n", "has no Nosuch"),
        ("```python\nfrom tileproof.nosuch import X\n```\n", "no module tileproof.nosuch"),
    ],
)
def test_what_does_not_exist_is_seen(block: str, told: str) -> None:
    (problem,) = shown.problems(block)
    assert told in problem


def test_what_exists_passes() -> None:
    page = """```console
$ tileproof check head64 --examples 3   # a comment
$ python -m tests.kit.removals head64
$ EXAMPLES=3 make verify
```

```python
from tileproof.emulator import Memory, Module
```
"""
    assert shown.problems(page) == []


def test_commands_of_every_form_are_found() -> None:
    assert sum(len(shown.commands(page.read_text())) for page in executed.every_page()) > 200
    text = (
        "    tileproof check head64 -j 0   # all\n```sh exit=0\ntileproof trace k --out a.json | less\n```\n"
    )
    assert shown.commands(text) == [
        ["tileproof", "trace", "k", "--out", "a.json"],
        ["tileproof", "check", "head64", "-j", "0"],
    ]


def test_pictures_of_layouts_are_what_their_commands_draw(tmp_path: Path) -> None:
    lines = shown.commands((ROOT / "docs" / "layouts.md").read_text())
    drawn = [words for words in lines if words[-1].endswith(".svg")]
    assert {words[-1] for words in drawn} == {path.name for path in (ROOT / "docs").glob("*.svg")}
    for *words, name in drawn:
        assert CliRunner().invoke(main, [*words[1:], str(tmp_path / name)]).exit_code == 0
        assert (tmp_path / name).read_text() == (ROOT / "docs" / name).read_text(), " ".join([*words, name])
