"""`tileproof synchronisation` and the page generated from the catalogue."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.planted.synchronisation import catalogue


def test_table_of_one_class() -> None:
    shown = CliRunner().invoke(main, ["synchronisation", "--only", "H4"])
    assert shown.exit_code == 0, shown.output
    assert "setmaxnreg" in shown.stdout and "hang" in shown.stdout
    assert "3 of 3 found as expected" in shown.stdout


def test_json() -> None:
    shown = CliRunner().invoke(main, ["synchronisation", "--only", "tiles-merged", "--json"])
    result = json.loads(shown.stdout)
    (row,) = result["rows"]
    assert result["verdict"] == "clean" and row["found as"] == "race-copy-unwaited" and not row["wrong"]
    assert "ld.shared" in row["root"] and "missing" in row["root"]


def test_a_misnamed_row_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = dict(catalogue.catalogue())
    row = rows["tiles-merged"]
    rows["tiles-merged"] = replace(row, expected=replace(row.expected, code="race-proxy-fence"))
    monkeypatch.setattr(catalogue, "catalogue", lambda: rows)
    shown = CliRunner().invoke(main, ["synchronisation", "--only", "tiles-merged"])
    assert shown.exit_code == 1 and "0 of 1 found as expected" in shown.stdout
    assert "tiles-merged: error race-copy-unwaited" in shown.stderr


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["orders", "--only", "H4"], "`tileproof synchronisation --only H4`"),
        (["prove", "head64"], "`tileproof crosscheck head64`"),
    ],
)
def test_a_renamed_command_says_its_new_name(words: list[str], now: str) -> None:
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 2 and now in " ".join(shown.stderr.split())
    as_json = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert as_json["verdict"] == "error" and now.rstrip("`") in as_json["error"]["do"]
    assert words[0] not in CliRunner().invoke(main, ["--help"]).stdout.split()


def test_unknown_rows_are_refused() -> None:
    for only in (["nothing"], ["R4", "--only", "nothing"]):
        shown = CliRunner().invoke(main, ["synchronisation", "--only", *only])
        assert shown.exit_code == 2 and "unknown row" in shown.stderr


def test_page_on_disk_is_the_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.main(["--check"]) == 0, capsys.readouterr().err
    stale = tmp_path / "synchronisation.md"
    stale.write_text(catalogue.PAGE.read_text().replace("`race-exit`", "`race-exits`"))
    assert catalogue.main(["--check", "--output", str(stale)]) == 1


def test_page_names_every_row_and_what_is_not_planted() -> None:
    text = catalogue.page(tuple(catalogue.catalogue().values()))
    assert all(f"| `{name}` |" in text for name in catalogue.catalogue())
    assert all(f"- **{name}**" in text for name in catalogue.NEAREST)
