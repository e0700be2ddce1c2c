"""The site builds without a warning; a broken link, anchor or formula and an orphan page fail the build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed: make docs-packages")

from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.site import __main__ as site
from tileproof.tools.site import contents, source
from tileproof.tools.site.__main__ import build

from tests.kit.paths import ROOT

CONTENTS = (
    '[[part]]\ntitle = "A part"\npages = ["docs/page.md"]\n[[part]]\ntitle = "Folders"\nfolders = true\n'
)


def small(folder: Path, **pages: str) -> Path:
    """A repository with a front page, a page and the page of a folder; `pages` replace them or are added."""
    files = {
        "README.md": "# Front\n\n[page](docs/page.md) and [folder](spec)\n",
        "docs/page.md": "# Page\n\n## A part\n\n[above](#a-part), $x^2$, [front](../README.md)\n",
        "docs/contents.toml": CONTENTS,
        "spec/README.md": "# spec/\n",
    } | {f"docs/{name}.md": text for name, text in pages.items()}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def test_a_small_site_builds_with_its_formulas(tmp_path: Path) -> None:
    root = small(tmp_path)
    assert build(root, root / "build" / "site") == 0
    page = (root / "build/site/docs/page.html").read_text()
    assert "<msup>" in page and "MathJax.js" not in page
    front = (root / "build/site/README.html").read_text()
    assert 'href="spec/README.html"' in front
    assert "https://" not in front.replace("https://github.com/pradyunsg/furo", "").replace(
        "https://pradyunsg.me", ""
    ), "the page needs the network"


def test_what_is_broken_fails_the_build(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = small(
        tmp_path,
        page="# Page\n\n[a](gone.md) [b](#no-such-part) [c](../spec/README.md#nor-this)\n",
        formulas="# Formulas\n\n$\\frac{1$ $\\nosuch$\n",
    )
    (root / "docs/contents.toml").write_text(CONTENTS.replace('page.md"', 'page.md", "docs/formulas.md"'))
    assert build(root, root / "build" / "site") == 1
    told = capfd.readouterr().err
    for name in ("gone.md", "no-such-part", "nor-this", "braces", r"\nosuch"):
        assert name in told, name


def test_an_orphan_page_fails_the_build(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = small(tmp_path, orphan="# Orphan\n")
    assert build(root, root / "build" / "site") == 1
    assert "docs/orphan.md is in no part" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('pages = ["docs/page.md", "docs/gone.md"]', "docs/gone.md does not exist"),
        ('pages = ["docs/page.md", "docs/page.md"]', "docs/page.md is twice in it"),
        ('pages = ["docs/page.md"]\n[search]\n"docs/gone.md" = "x"', "search words of docs/gone.md"),
    ],
)
def test_contents_that_do_not_fit_are_seen(change: str, told: str, tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "docs/contents.toml").write_text(CONTENTS.replace('pages = ["docs/page.md"]', change))
    with pytest.raises(TileproofError, match=told):
        contents.read(root)


def test_every_generated_page_is_checked_even_when_one_is_stale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[list[str]] = []

    class Stale:
        @staticmethod
        def main(arguments: list[str]) -> int:
            calls.append(arguments)
            if len(calls) == 2:
                raise TileproofError("a public name has no docstring", where="a.b")
            return 0

    monkeypatch.setattr(site, "GENERATORS", ("x", "y", "z"))
    monkeypatch.setattr("importlib.import_module", lambda name: Stale)
    assert site.stale() and calls == [["--check"]] * 3
    assert "y: a public name has no docstring" in capsys.readouterr().err
    assert site.main(["--write"]) == 0 and calls[3:] == [[]] * 3


def test_links_in_code_are_no_links() -> None:
    page = "[a](x.md#y) ![b](z.svg) `[c](no.md)` [d](https://e.org)\n```\n[f](no.md)\n```\n"
    assert source.targets(page) == ["x.md", "z.svg"]


def test_every_page_is_in_a_part() -> None:
    assert len(contents.read(ROOT).pages) > 100
