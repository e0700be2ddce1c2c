"""Evidence files: long files are compressed, the table lists each, and what was written is read again."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
from tileproof.tools import evidence

PLAIN_LINES = 100


def stored_wrongly(folder: Path) -> set[str]:
    """The files of a folder that should be compressed: JSON, and text of more than PLAIN_LINES lines."""
    return {
        path.name
        for path in folder.iterdir()
        if path.name != "README.md" and path.suffix != ".xz"
        if path.suffix != ".txt" or len(path.read_text().splitlines()) > PLAIN_LINES
    }


def test_long_results_are_compressed() -> None:
    assert stored_wrongly(evidence.FOLDER) == set()


def test_a_long_result_in_plain_text_is_found(tmp_path: Path) -> None:
    evidence.write_json(tmp_path / "a.json", {})
    evidence.write_text(tmp_path / "long.txt", "line\n" * (PLAIN_LINES + 1))
    evidence.write_text(tmp_path / "short.txt", "line\n" * PLAIN_LINES)
    evidence.write_text(tmp_path / "long.txt.xz", "line\n" * (PLAIN_LINES + 1))
    assert stored_wrongly(tmp_path) == {"a.json", "long.txt"}


def test_the_table_lists_every_file_and_no_other() -> None:
    page = (evidence.FOLDER / "README.md").read_text()
    listed = re.findall(r"^\| `(2[^`]+)` \|", page, re.M)
    assert sorted(listed) == sorted(p.name for p in evidence.FOLDER.iterdir() if p.name != "README.md")


@pytest.mark.parametrize("path", sorted(evidence.FOLDER.glob("2*")), ids=lambda path: path.name)
def test_every_file_is_read(path: Path) -> None:
    text = evidence.read_text(path.name)
    assert text.strip()
    if ".json" in path.suffixes:
        assert evidence.read_json(path.name)


@pytest.mark.parametrize("name", ["a.json", "a.json.xz"])
def test_what_was_written_is_read(name: str, tmp_path: Path) -> None:
    evidence.write_json(tmp_path / name, {"clocks": [1.5, "µs"]})
    assert evidence.read_json(tmp_path / name) == {"clocks": [1.5, "µs"]}
    assert (tmp_path / name).read_bytes().startswith(b"\xfd7zXZ") == name.endswith(".xz")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.xz"
    evidence.write_json(path, list(range(1000)))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(lzma.LZMAError):
        evidence.read_text(path)
