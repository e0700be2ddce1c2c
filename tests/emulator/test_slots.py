"""Handlers' slots by name: what a decoder emits is what the generated C++ enums index."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tileproof.emulator import isa, slots

assert isa
FAMILY = """
slots("frob.nicate", operands="dst a b", modifiers="mode", visible=True, writes="dst")
def unrelated(): slots("inner", operands="x")
"""


def enums(header: str) -> dict[str, int]:
    """`namespace::name` -> index, as a C++ compiler reads the header."""
    found: dict[str, Any] = {}
    for space, body in re.findall(r"namespace (\S+) \{(.*?)\n\}", header, re.S):
        found |= {f"{space}::{name}": int(at) for name, at in re.findall(r"(\w+) = (\d+)", body)}
    return found


def test_enums_and_emitted_places_agree(tmp_path: Path) -> None:
    family = tmp_path / "isa"
    family.mkdir()
    (family / "frob.py").write_text(FAMILY)
    assert slots.layout_of("frob.nicate").handler == slots.DEFAULT  # until it is declared
    try:
        slots.generate(family, tmp_path / "out")
        at = enums((tmp_path / "out" / "frob.hpp").read_text())
        o, m = slots.place("frob.nicate", {"b": 7, "mode": 3}, -1)
    finally:
        slots.SLOTS.pop("frob.nicate", None)
        slots.layout_of.cache_clear()
    assert o[at["slot::frob_nicate::b"]] == 7 and m[at["slot::frob_nicate::mode"]] == 3
    assert o[at["slot::frob_nicate::a"]] == -1 and len(o) == len(m) == slots.MAX_SLOTS
    assert '{"frob.nicate", true, 1, false}' in (tmp_path / "out" / "declared.hpp").read_text()
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
    assert [path.name for path in out.iterdir()] == ["declared.hpp"]


def test_a_wrong_name_is_a_mistake_of_the_decoder() -> None:
    with pytest.raises(TypeError, match="no slot incc"):
        slots.place("setmaxnreg", {"incc": 1}, -1)


@pytest.mark.parametrize("words", ["a a", "a imm", "a b c d e f g h i"])
def test_slots_that_cannot_be_distinguished_or_are_too_many(words: str) -> None:
    with pytest.raises(ValueError, match="frob"):
        slots.slots("frob", operands=words)
    assert "frob" not in slots.SLOTS


def test_a_handler_has_one_declaration() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        slots.slots("setmaxnreg", modifiers="dec")


# Files that still index slots by number; none may join them.
POSITIONAL = {"poison_flow.cpp"}  # the flow of unknown bits visits every operand


def positional(text: str) -> list[str]:
    """Uses of an instruction's slots by number."""
    return re.findall(r"(?:\bi\.|instr->)[om]\[\d\]", text)


def test_slots_are_indexed_by_name() -> None:
    engine = Path(slots.__file__).parent / "engine"
    found = {path.name for path in engine.glob("*.[ch]pp") if positional(path.read_text())}
    assert found <= POSITIONAL, found - POSITIONAL
    assert positional("x = i.o[3] + w.instr->m[0];") == ["i.o[3]", "instr->m[0]"] and not positional(
        "i.o[slot::ld::base]"
    )


def lists(text: str) -> list[int]:
    """Lines on which `emit` is given slots by position."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", None) == "emit"
        and (len(node.args) > 1 or {"o", "m"} & {word.arg for word in node.keywords})
    ]


def test_decoders_emit_by_name() -> None:
    front = Path(slots.__file__).parent
    assert not [path.name for path in front.rglob("*.py") if lists(path.read_text())]
    assert lists('d.emit("a", [1])\nd.emit("a", m=[1])\nd.emit("a", dst=1)') == [1, 2]


def test_a_handler_without_slots_has_those_of_its_first_word() -> None:
    o, m = slots.place("setp.lt.u32", {"inverse": 9, "negated": 1}, -1)
    assert o[3] == 9 and m[1] == 1 and slots.place("add.32", {"dst": 1, "b": 2}, -1)[0][:3] == [1, -1, 2]
