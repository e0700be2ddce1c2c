"""A log that a terminal broke at any width gives the same answer; one that none broke is left as it is."""

from collections.abc import Callable
from typing import Any

import pytest
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.builds.wrapped import unwrap

from tests.conformance.beside.logs.builds.test_reading import WRAPPINGS
from tests.kit.mistakes import MISTAKES
from tests.kit.wrong_kernels import WRONG, Compiled

WIDTHS = range(40, 401)


def answer(text: str) -> dict[str, Any]:
    """The explanation, without the numbers of lines, which breaking changes."""
    result = report.explain(report.parse(text), WRONG / "build.log")
    for row in result["findings"]:
        del row["line"]
    return result


def pieces(log: str, width: int) -> list[str]:
    return [line[i : i + width] for line in log.splitlines() for i in range(0, max(1, len(line)), width)]


@pytest.mark.parametrize("name", ["b_not_transposed", "too_much_tmem", "arch_without_a"])
def test_every_width(name: str, compiled: Callable[[str], Compiled]) -> None:
    log = compiled(name).log
    expected = answer(log)
    assert expected["findings"][0]["code"] == MISTAKES[name].code
    differing = [width for width in WIDTHS if answer("\n".join(pieces(log, width))) != expected]
    assert differing == []


@pytest.mark.parametrize("name", ["b_not_transposed", "major_of_b", "n_against_c", "arch_without_a"])
def test_spaces_at_the_ends_of_pieces_are_lost(name: str, compiled: Callable[[str], Compiled]) -> None:
    log = compiled(name).log
    expected = answer(log)
    for width in WIDTHS[::40]:
        assert answer("\n".join(piece.rstrip() for piece in pieces(log, width))) == expected, width


def test_the_lines_themselves_come_back(compiled: Callable[[str], Compiled]) -> None:
    log = "".join(compiled(name).log for name in MISTAKES).splitlines()
    for width in (60, 79, 80, 132, 211, 318):
        broken = pieces("\n".join(log), width)
        joined = unwrap(broken)
        assert sum(line.text != right for line, right in zip(joined, log, strict=True)) == 0, width
        assert [line.first for line in joined[1:]] == [line.last + 1 for line in joined[:-1]]
        assert joined[-1].last == len(broken)


def test_logs_that_are_not_broken_stay(compiled: Callable[[str], Compiled]) -> None:
    for name in MISTAKES:
        for wrapping in WRAPPINGS.values():
            log = wrapping(compiled(name).log).splitlines()
            assert [line.text for line in unwrap(log)] == log, name


def test_a_full_line_before_one_that_begins_something_ends_there() -> None:
    """Two whole lines of one length are two lines, broken log or not."""
    first = "kernel.cu(12): error: static assertion failed with"
    second = 'kernel.cu(15): error: identifier "abcdef" is undefined'
    frame = '          detected during instantiation of "void f(T) [with T=' + "cute::C<1>, " * 20
    frame += '(int)4]" at line 3 of kernel.cu'
    log = [first.ljust(54, "x"), second, "", first, frame]
    assert len(log[0]) == len(log[1]) == 54
    assert [line.text for line in unwrap(pieces("\n".join(log), 54))] == log
