"""Code blocks of pages print what the pages show, and a change is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tileproof.tools.site import executed

from tests.kit.judging import plugin_is_installed
from tests.kit.paths import ROOT

# `make docs` runs the blocks of every page; here are those that cost little.
PAGES = (
    "README.md", "docs/algorithm.md", "docs/bounds.md", "docs/explore.md", "docs/judging.md",
    "docs/machine.md", "docs/sparse-mla.md", "docs/ten-minutes.md", "docs/tensors.md", "docs/verdict.md",
    pytest.param("docs/checking.md", marks=pytest.mark.slow),
    pytest.param("docs/kernels.md", marks=pytest.mark.slow),
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


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not plugin_is_installed():
        monkeypatch.setenv("PYTEST_PLUGINS", "tileproof.conformance.api.plugin")
    assert executed.stale(ROOT / page) == []


def test_every_page_with_blocks_is_named() -> None:
    named = {page if isinstance(page, str) else page.values[0] for page in PAGES}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = {str(path.relative_to(ROOT)) for path in pages if executed.has_blocks(path.read_text())}
    assert blocks == named | {"docs/operator.md"}  # needs torch: tests/ops


def test_a_page_is_left_as_it_is_where_it_is_right() -> None:
    page, run = executed.executed(PAGE)
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
