"""Code blocks of pages print what the pages show, and a change is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.tools.site import executed

from tests.kit.judging import plugin_is_installed
from tests.kit.paths import ROOT

# `make docs` runs the blocks of every page. Here are those that cost little, and every page is read.
FAST = (
    "README.md", "docs/algorithm.md", "docs/bounds.md", "docs/judging.md", "docs/machine.md",
    "docs/recording.md", "docs/sparse-mla.md", "docs/ten-minutes.md", "docs/tensors.md", "docs/verdict.md",
)  # fmt: skip
PAGE = """```sh file=a.sh
echo "seen in 1.52 s"
```

```sh exit=3
bash a.sh; exit 3
```

```text output
seen in ... s
```

```python run
x = 2
```

```python run
print(x + 1)
```

```text output
3
```

```toml from=pyproject.toml
requires-python = ">=3.11"
```
"""


@pytest.mark.parametrize("page", FAST)
def test_blocks_of_a_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not plugin_is_installed():
        monkeypatch.setenv("PYTEST_PLUGINS", "tileproof.conformance.api.plugin")
    assert executed.stale(ROOT / page) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [path for path in executed.every_page() if str(path.relative_to(ROOT)) not in FAST],
    ids=lambda path: path.name,
)
def test_blocks_of_another_page(page: Path) -> None:
    assert executed.stale(page) == []


def test_every_block_of_every_page_is_executed_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executed.PageRun, "_shell", lambda *_: "")
    monkeypatch.setattr(executed.PageRun, "_python", lambda *_: "")
    monkeypatch.setattr(executed, "missing", lambda *_: "")
    for path in executed.every_page():
        assert executed.executed(path.read_text(encoding="utf-8"), path)[1].problems == [], path.name


def test_a_page_is_left_as_it_is_where_it_is_right() -> None:
    page, run = executed.executed(PAGE, Path("page.md"))
    assert (page, run.problems, run.commands) == (PAGE, [], 3)
    assert executed.has_blocks(PAGE) and not executed.has_blocks("```sh\nls\n```\n")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seen in ... s", "seen in ... seconds", "-seen in ... seconds"),
        ("print(x + 1)", "print(x + 2)", "+4"),
        ("exit=3", "exit=0", "exit code 3 instead of 0"),
        (">=3.11", ">=2.7", "pyproject.toml has no such lines"),
        ("```sh exit=3\nbash a.sh; exit 3\n```", "", "nothing was printed before"),
        ("text output\nseen in ... s", "text\nnever", "not printed: never"),
        ("text output\nseen in ... s", "text\nseen in 9.99 ...", ""),
        ("```python run\nprint", "```python\nprint", "line 17: a block that is not executed"),
        ("```python run\nprint", "```python generated\nprint", "a block that is not executed"),
        ("```python run\nprint", "```python test=tests/none.py\nprint", "is no test that names page.md"),
        ("sh exit=3", "sh needs=patience exit=3", "needs=patience: one of"),
    ],
)
def test_a_change_is_seen(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert old in PAGE
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(old, new))
    assert told in "\n".join(executed.stale(page))
    assert executed.main(["--check", str(page)]) == 1


def test_a_stale_output_is_written_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("seen in ... s", "old").replace("```text output\n3\n", "```text output\n"))
    assert executed.main([str(page)]) == 0
    assert page.read_text() == PAGE


def test_lines_are_missing_or_in_another_order() -> None:
    assert executed.missing("a\nb\n", "x a\nb y\n") == ""
    assert executed.missing("b\na\n", "a\nb\n") == "a"


def test_only_the_blocks_that_need_what_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh exit=0\nfalse\n```\n\n```sh needs=card exit=3\nexit 3\n```\n", encoding="utf-8")
    assert len(executed.stale(page, ["card"])) == 1  # the first block ends with 1
    assert executed.stale(page, ["card"], only=True) == []
    assert "page.md:5: as shown" in capsys.readouterr().out
    page.write_text(page.read_text().replace("exit=3", "exit=4"), encoding="utf-8")
    assert len(executed.stale(page, ["card"], only=True)) == 1
    assert "page.md:5: not as shown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "right"),
    [
        ("python -m no_such_module", False),
        ("python -c 'print(1); 1 / 0'", False),
        ("echo DEFECT; exit 1", True),
    ],
)
def test_exit_code_1_of_a_command_that_did_not_run_is_a_problem(
    command: str, right: bool, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```sh exit=1\n{command}\n```\n", encoding="utf-8")
    assert (executed.stale(page) == []) == right
