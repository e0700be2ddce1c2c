"""Every row that applies has a test, the page says so, and both notice when it is not so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.corpus import rows as corpus
from tileproof.conformance.cli.app import main
from tileproof.spec.machine.errors import TileproofError

APPLIES = (
    [f"I{n}" for n in range(1, 14)]
    + [f"H{n}" for n in range(1, 9)]
    + [f"R{n}" for n in range(1, 15)]
    + [f"N{n}" for n in range(1, 10)]
    + [f"L{n}" for n in range(1, 5)]
    + [f"H{n}" for n in (*range(20, 26), *range(30, 37))]
    + [f"R{n}" for n in range(20, 37)]
    + [f"N{n}" for n in range(20, 36)]
)
MARKED = '@pytest.mark.corpus("{}")\ndef test_it() -> None: ...\n'


def test_every_row_that_applies_has_a_test() -> None:
    rows = corpus.coverage()
    assert corpus.missing(rows) == []
    tested = {row.row.id for row in rows if row.status == "tested"}
    assert tested >= set(APPLIES)


def test_the_corpus_has_every_row_once() -> None:
    assert set(corpus.ROWS) == set(APPLIES)
    assert all(row.bug and row.links for row in corpus.ROWS.values())
    assert all(bool(row.applies) != bool(row.why_not) for row in corpus.ROWS.values())


def test_a_row_without_a_test_is_missing(tmp_path: Path) -> None:
    for name in APPLIES:
        (tmp_path / f"test_{name}.py").write_text(MARKED.format(name))
    assert corpus.missing(corpus.coverage(tmp_path)) == []
    (tmp_path / "test_N3.py").write_text("def test_N3_without_its_mark() -> None: ...\n")
    assert corpus.missing(corpus.coverage(tmp_path)) == ["N3"]


@pytest.mark.parametrize("mark", ['"I99"', "ROW", '"I1", "i2"'])
def test_a_mark_that_names_no_row_is_an_error(mark: str) -> None:
    with pytest.raises(TileproofError, match="unknown row") as caught:
        corpus.marks(f"@pytest.mark.corpus({mark})\ndef test_it() -> None: ...\n", "test_it.py")
    assert caught.value.where == "test_it.py:1"


def test_marks_are_found_on_parametrised_tests_and_in_classes() -> None:
    text = (
        "class TestIt:\n    @pytest.mark.parametrize('x', [1])\n    @pytest.mark.corpus('I1', 'N9')\n"
        "    def test_it(self, x) -> None: ...\n"
    )
    assert corpus.marks(text, "") == {"I1": ["test_it"], "N9": ["test_it"]}


def test_no_tests_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TileproofError, match="cannot be listed"):
        corpus.coverage(tmp_path / "none")


def test_the_page_on_disk_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main(["--check"]) == 0, capsys.readouterr().err


def test_check_sees_a_stale_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "corpus.md"
    assert corpus.main(["--output", str(target)]) == 0
    target.write_text(target.read_text().replace("tested", "testd", 1))
    assert corpus.main(["--check", "--output", str(target)]) == 1
    assert "stale" in capsys.readouterr().err


def test_the_command_lists_rows_tests_and_status() -> None:
    done = CliRunner().invoke(main, ["corpus", "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["row"]: row for row in json.loads(done.stdout)}
    assert set(rows) == set(corpus.ROWS)
    assert rows["I1"]["status"] == "tested" and any("test_I1" in test for test in rows["I1"]["tests"])
    assert rows["H3"]["status"] == "tested" and any("synchronisation" in test for test in rows["H3"]["tests"])
    other = corpus.CorpusRow("X1", "group", "bug", ("FM",), "", "no kernel here has such a thing")
    assert corpus.Coverage(other, ()).status == "does not apply"
    assert corpus.Coverage(other, ("a",)).status == "tested"
    text = CliRunner().invoke(main, ["corpus"])
    assert text.exit_code == 0 and "I13" in text.output


def test_the_command_fails_when_a_row_has_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    covered = corpus.coverage
    monkeypatch.setattr(corpus, "coverage", lambda: covered(tmp_path))
    done = CliRunner().invoke(main, ["corpus", "--json"])
    assert done.exit_code == 1
    assert all(row["status"] != "tested" for row in json.loads(done.stdout))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rows", "Expected"),
        ("[repositories]", "rows"),
        ('[repositories]\n[[rows]]\nid = "I1"\nlinks = []', "bug"),
        (
            "[repositories]\n" + '[[rows]]\nid = "I1"\ngroup = "g"\nbug = "b"\nlinks = []\n' * 2,
            "I1 occurs twice",
        ),
        ('[repositories]\n[[rows]]\nid = "I1"\ngroup = "g"\nbug = "b"\nlinks = []\nwhy = ""', "why"),
    ],
)
def test_damaged_data_is_an_error(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "rows.toml").write_text(text)
    with pytest.raises(TileproofError, match="corpus cannot be read") as caught:
        corpus._read(tmp_path / "rows.toml")
    assert says in str(caught.value.found)
