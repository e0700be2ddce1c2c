"""Handlers' slots by name: what a decoder emits is what the generated C++ enums index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tileproof.emulator import isa, slots

assert isa
FAMILY = """
slots("frob.nicate", operands="dst a b", modifiers="mode", visible=True)
def unrelated(): slots("inner", operands="x")
"""


def enums(header: str) -> dict[str, int]:
    """`namespace::name` -> index, as a C++ compiler reads the header."""
    found = {}
    for space, body in re.findall(r"namespace (\S+) \{(.*?)\n\}", header, re.S):
        found |= {f"{space}::{name}": int(at) for name, at in re.findall(r"(\w+) = (\d+)", body)}
    return found


def test_enums_and_emitted_places_agree(tmp_path: Path) -> None:
    family = tmp_path / "isa"
    family.mkdir()
    (family / "frob.py").write_text(FAMILY)
    try:
        slots.generate(family, tmp_path / "out")
        at = enums((tmp_path / "out" / "frob.hpp").read_text())
        o, m = slots.place("frob.nicate", {"b": 7, "mode": 3}, -1)
    finally:
        slots.SLOTS.pop("frob.nicate", None)
    assert o[at["slot::frob_nicate::b"]] == 7 and m[at["slot::frob_nicate::mode"]] == 3
    assert o[at["slot::frob_nicate::a"]] == -1 and len(o) == len(m) == slots.MOST
    assert '{"frob.nicate", true}' in (tmp_path / "out" / "visible.hpp").read_text()
    assert not any("inner" in name for name in at)


def test_a_family_that_is_gone_leaves_no_header(tmp_path: Path) -> None:
    family, out = tmp_path / "isa", tmp_path / "out"
    family.mkdir()
    (family / "frob.py").write_text(FAMILY)
    try:
        slots.generate(family, out)
        (family / "frob.py").unlink()
        slots.generate(family, out)
    finally:
        slots.SLOTS.pop("frob.nicate", None)
    assert [path.name for path in out.iterdir()] == ["visible.hpp"]


def test_a_wrong_name_is_a_mistake_of_the_decoder() -> None:
    with pytest.raises(TypeError, match="no slot incc"):
        slots.place("setmaxnreg", {"incc": 1}, -1)


@pytest.mark.parametrize("words", ["a a", "a imm", "a b c d e f g h i"])
def test_slots_that_cannot_be_told_apart_or_are_too_many(words: str) -> None:
    with pytest.raises(ValueError, match="frob"):
        slots.slots("frob", operands=words)
    assert "frob" not in slots.SLOTS


def test_a_handler_has_one_declaration() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        slots.slots("setmaxnreg", modifiers="dec")
