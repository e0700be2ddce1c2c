"""The pages at the doors of the rooms say what the docstrings say."""

from pathlib import Path

from tileproof.tools.pages import rooms

from tests.kit.paths import ROOT


def test_every_room_has_its_page() -> None:
    assert rooms.stale() == [], "run python -m tileproof.tools.pages.rooms"


def test_every_module_says_what_it_does() -> None:
    for room in rooms.rooms():
        for path in room.glob("*.py"):
            assert path.name == "__init__.py" or rooms.docstring(path), path


def test_pages_written_by_hand_exist() -> None:
    for name in rooms.BY_HAND:
        assert (ROOT / name / "README.md").is_file(), name


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    room = tmp_path / "spec"
    room.mkdir()
    (room / "__init__.py").write_text('"""What must be true."""\n')
    (room / "stages.py").write_text('"""The stages. More of them."""\n')
    assert rooms.stale(tmp_path) == [room / "README.md"]
    (room / "README.md").write_text(rooms.page(room, tmp_path))
    assert rooms.stale(tmp_path) == []
    assert "| `stages.py` | The stages. |" in (room / "README.md").read_text()
    (room / "stages.py").write_text('"""Other stages."""\n')
    assert rooms.stale(tmp_path) == [room / "README.md"]
