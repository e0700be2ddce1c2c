"""Logs of several compiles at once: whole diagnostics are separated, torn ones are called unclear."""

import random
import re
from collections.abc import Callable
from itertools import zip_longest

import pytest
from tileproof.conformance.beside.logs.builds import report

from tests.kit.mistakes import MISTAKES
from tests.kit.wrong_kernels import WRONG, Compiled

PAIRS = [("n_against_c", "major_of_b"), ("b_not_transposed", "float_operands"), ("m32", "tma_box")]


def findings(log: str) -> set[tuple[str, str, str]]:
    rows = report.explain(report.parse(log), WRONG / "build.log")["findings"]
    return {(row["code"], row["operand"], row["what"]) for row in rows}


def diagnostics(log: str) -> list[str]:
    """What nvcc writes at once: each diagnostic with its trail and the empty line after it."""
    return re.findall(r".*?\n\n|.+\n?$", log, re.DOTALL)


@pytest.mark.parametrize("names", PAIRS)
def test_whole_diagnostics_in_any_order_are_distinguished(
    names: tuple[str, str], compiled: Callable[[str], Compiled]
) -> None:
    logs = [compiled(name).log for name in names]
    apart = set().union(*map(findings, logs))
    for seed in range(20):
        queues, chance, mixed = [diagnostics(log) for log in logs], random.Random(seed), ""
        while any(queues):
            mixed += chance.choice([queue for queue in queues if queue]).pop(0)
        assert findings(mixed) == apart, seed


@pytest.mark.parametrize("names", [*PAIRS[:2], ("m32", "n_against_c")])
def test_diagnostics_joined_line_by_line_are_unclear(
    names: tuple[str, str], compiled: Callable[[str], Compiled]
) -> None:
    """No cause is given that neither log has, and what is not certain is said to be."""
    logs = [compiled(name).log for name in names]
    apart = {(code, operand) for log in logs for code, operand, _ in findings(log)}
    lines = zip_longest(*(log.splitlines(keepends=True) for log in logs), fillvalue="")
    result = report.explain(report.parse("".join("".join(pair) for pair in lines)), WRONG / "build.log")
    said = {(row["code"], row["operand"]) for row in result["findings"] if row["understood"]}
    torn = next(row for row in result["findings"] if row["code"] == "interleaved")
    assert not torn["understood"] and not torn["operands"] and "output-sync" in torn["fits"]
    assert said <= apart
    assert any("several compiles is mixed" in remark for remark in result["remarks"])


def test_a_log_of_one_compile_is_never_called_mixed(compiled: Callable[[str], Compiled]) -> None:
    for name in MISTAKES:
        assert not any(diagnostic.mixed for diagnostic in report.parse(compiled(name).log).diagnostics), name
