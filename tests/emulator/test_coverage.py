"""Every registered instruction has a test: a file here names it in its `COVERS` and spells its base."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tileproof.emulator import isa, registry

HERE = Path(__file__).parent
KIT = HERE.parent / "kit"


def declared() -> dict[str, Path]:
    """Base -> the test file whose line `COVERS = "..."` names it."""
    found: dict[str, Path] = {}
    for path in sorted([*HERE.glob("*.py"), KIT / "mma.py"]):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COVERS":
                found |= dict.fromkeys(ast.literal_eval(node.value).split(), path)
    return found


FILE_OF = declared()


def uncovered(rows: list[registry.Row]) -> list[str]:
    """Bases that are executed and that no test file spells."""
    kit = (KIT / "ptx.py").read_text()
    out = []
    for row in rows:
        if row.grade == "refused":  # test_bad_ptx walks all of these
            continue
        file = FILE_OF.get(row.base)
        text = file.read_text() + kit if file else ""
        if not re.search(rf'\b{re.escape(row.base)}\b|"{re.escape(row.base)}"', text):
            out.append(row.base)
    return out


def test_every_executed_instruction_is_tested() -> None:
    assert isa and not uncovered(registry.ROWS)


def test_the_table_names_nothing_else() -> None:
    assert set(FILE_OF) <= {row.base for row in registry.ROWS}


def test_a_new_instruction_without_a_test_is_noticed() -> None:
    row = registry.Row("frobnicate", "logic", "", "modelled", "0", "", lambda *_: None)
    assert uncovered([*registry.ROWS, row]) == ["frobnicate"]


@pytest.mark.parametrize("row", registry.ROWS, ids=lambda row: row.base)
def test_rows_are_complete(row: registry.Row) -> None:
    assert (
        row.grade in ("modelled", "order only", "refused")
        and row.group
        and re.fullmatch(r"9\.7[\d., ]*", row.section)
    )
    assert (row.decode is None) == (row.grade == "refused")
