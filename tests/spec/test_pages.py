"""Pages of docs/: what is wrapped, and what stays as it is."""

from __future__ import annotations

import pytest
from tileproof.spec.machine.pages import unwrapped, wrapped

LONG = " ".join(["word"] * 30)  # 149 characters


def test_a_paragraph_is_wrapped_whole() -> None:
    lines = wrapped(f"short\n{LONG}\n\nshort\nalso short\n").split("\n")
    assert max(map(len, lines)) <= 110 and lines[0] == "short " + "word " * 20 + "word"
    assert lines[-4:] == ["", "short", "also short", ""]  # a paragraph without a long line is left alone


def test_items_keep_their_indent() -> None:
    page = f"- {LONG}\n- one\n  1. {LONG}\n     and {LONG}\n"
    lines = wrapped(page).split("\n")
    assert [line[:5] for line in lines] == ["- wor", "  wor", "- one", "  1. ", *["     "] * 2, ""]
    assert " ".join(wrapped(page).split()) == " ".join(page.split())


@pytest.mark.parametrize(
    "kept",
    [
        f"```sh\n{LONG}\n```", f"$$\n{LONG}\n$$", f"| {LONG} |\n|---|", f"# {LONG}", f"<!-- {LONG} -->",
        f"text\n\n    {LONG}", f"{LONG}  \nafter a forced break", f"~~~\n```\n{LONG}\n~~~", "x" * 120,
    ],
)  # fmt: skip
def test_what_is_no_prose_stays(kept: str) -> None:
    assert wrapped(f"before\n\n{kept}\n\nafter\n") == f"before\n\n{kept}\n\nafter\n"


@pytest.mark.parametrize("mark", ["-", "*", "+", "#", ">", "12.", "3)"])
def test_no_line_begins_as_something_else(mark: str) -> None:
    for words in range(18, 25):
        page = " ".join(["word"] * words + [mark] + ["word"] * 20)
        lines = wrapped(page).split("\n")
        assert not any(line.startswith(mark) for line in lines) and " ".join(lines) == page


def test_code_in_a_line_stays_together() -> None:
    code = "`tileproof check head64 -j 0`"
    for words in range(10, 25):
        assert code in wrapped(" ".join(["word"] * words + [code] + ["word"] * 20)), words


def test_wrapping_twice_changes_nothing() -> None:
    page = f"- {LONG} `a b` - {LONG}\n\n{LONG}\n    {LONG}\n"
    assert wrapped(wrapped(page)) == wrapped(page)


def test_what_stays_too_long_is_named() -> None:
    assert unwrapped(f"a\n{LONG}\n    {LONG}\n```sh\n{LONG}\n```\n") == [2, 3, 5]
    assert not unwrapped(f"| {LONG} |\n```text\n{LONG}\n```\n$${LONG}$$\n{'x' * 120}\n")
    assert unwrapped(f"```text\n```\n{LONG}\n```sh\n```\n{LONG}") == [3, 6]
