"""Real logs with what builders, terminals and people do to them still show the same mistakes."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tileproof.conformance.beside.logs.builds import report

from tests.kit.mistakes import MISTAKES, differs
from tests.kit.wrong_kernels import WRONG, Compiled

SOME = [
    "b_not_transposed",
    "major_of_b",
    "n_against_c",
    "tma_box",
    "tmem_load_too_wide",
    "missing_header",
    "arch_without_a",
]


def colours(log: str) -> str:
    log = re.sub(r"(error|warning)", "\x1b[01;31m\\1\x1b[0m", log)
    return re.sub(r"^(\S+\(\d+\)):", "\x1b[1m\\1\x1b[m:", log, flags=re.MULTILINE)


def every_line(prefix: str) -> Callable[[str], str]:
    return lambda log: "".join(f"{prefix}{line}\n" for line in log.splitlines())


def ninja(log: str) -> str:
    nvcc = "/usr/local/cuda/bin/nvcc -I/x/include -gencode arch=compute_100a,code=sm_100a -c k.cu -o k.o"
    return f"[1/3] {nvcc}\nFAILED: [code=1] k.o\n{nvcc}\n{log}ninja: build stopped: subcommand failed.\n"


def pip(log: str) -> str:
    inner = "".join(f"      {line}\n" for line in ninja(log).splitlines())
    head = "  error: subprocess-exited-with-error\n\n  \u00d7 python setup.py bdist_wheel did not run.\n"
    head += "  │ exit code: 1\n  ╰─> [9 lines of output]\n"
    return f"Building wheels for collected packages: k\n{head}{inner}      [end of output]\n"


WRAPPINGS: dict[str, Callable[[str], str]] = {
    "colours": colours,
    "CRLF": lambda log: log.replace("\n", "\r\n"),
    "ninja": ninja,
    "pip": pip,
    "timestamps": every_line("2026-11-20T10:11:12.1234567Z "),
    "BuildKit": every_line("#14 103.4 "),
    "compose": every_line("builder-1  | "),
    "pytest": every_line("E   "),
    "progress": lambda log: f"[1/9] one\r[2/9] two\r{log}",
    "all": lambda log: every_line("2026-11-20T10:11:12Z ")(pip(colours(log))).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_prefixes_and_colours_change_nothing(
    name: str, wrapping: str, compiled: Callable[[str], Compiled]
) -> None:
    result = report.explain(report.parse(WRAPPINGS[wrapping](compiled(name).log)), WRONG / "build.log")
    assert differs(MISTAKES[name], result) == []
    assert len(result["findings"]) == 1


@pytest.mark.parametrize("width", [80, 133])
@pytest.mark.parametrize("name", ["b_not_transposed", "n_against_c", "major_of_b"])
def test_lines_that_a_terminal_broke_are_joined(
    name: str, width: int, compiled: Callable[[str], Compiled]
) -> None:
    log = compiled(name).log
    broken = "\n".join(
        line[i : i + width] for line in log.splitlines() for i in range(0, max(1, len(line)), width)
    )
    result = report.explain(report.parse(broken), WRONG / "build.log")
    row = result["findings"][0]
    assert (row["code"], row["operand"]) == (MISTAKES[name].code, MISTAKES[name].operand)
    assert all(words in row["what"] for words in MISTAKES[name].what)


@pytest.mark.parametrize("name", ["b_not_transposed", "n_against_c", "major_of_a"])
def test_a_cut_log_tells_what_is_left_of_it(name: str, compiled: Callable[[str], Compiled]) -> None:
    log = compiled(name).log
    first = log.index("detected during")
    for at in range(len(log) // 8, len(log), len(log) // 8):
        result = report.explain(report.parse(log[:at]), WRONG / "build.log")
        assert result["findings"], at
        # The trail holds the operands: without it less is known, and none of it invented.
        if at < first:
            assert not result["findings"][0]["operands"]
    whole = report.explain(report.parse(log))["findings"][0]
    assert whole["operands"] and not whole["cut"]
    cut = report.explain(report.parse(log[: log.rindex("at line") - 40]))
    assert any("ends inside" in remark for remark in cut["remarks"])
    assert cut["findings"][0]["cut"] == (whole["errors"] == 1)


def test_a_log_of_everything_tells_everything_once(compiled: Callable[[str], Compiled]) -> None:
    logs = {name: compiled(name).log for name in MISTAKES}
    result = report.explain(report.parse("".join(logs.values()) * 3), WRONG / "build.log")
    said = {(row["code"], row["what"]) for row in result["findings"]}
    assert len(said) == len(result["findings"])
    for name, log in logs.items():
        (row,) = report.explain(report.parse(log), WRONG / "build.log")["findings"]
        assert (row["code"], row["what"]) in said, name


def test_megabytes_in_seconds(compiled: Callable[[str], Compiled]) -> None:
    logs = "".join(compiled(name).log for name in MISTAKES)
    rounds = 1 + 4_000_000 // len(logs)
    # Other file names each time, so that no error is the repetition of another.
    text = "".join(re.sub(r"(\w+)\.cu\b", rf"\1_{i}.cu", logs) for i in range(rounds))
    start = time.process_time()
    result = report.explain(report.parse(text))
    assert time.process_time() - start < 10
    assert result["errors"] > 1000


def test_lines_without_end_are_read_in_linear_time() -> None:
    start = time.process_time()
    for text in (
        "e" * 1_000_000 + "error",
        "a(" * 300_000 + " error:",
        "x.cu(1): error: " + "<" * 500_000,
        "(1)" * 300_000 + "error",
        ":1:1:" * 200_000 + "error",
        " " * 1_000_000 + "error",
        "x.cu(1): error: y\n detected during instantiation of " + '"a<' * 200_000 + " at line 3",
    ):
        report.explain(report.parse(text))
    assert time.process_time() - start < 10


def test_warnings_are_counted_and_left_out(compiled: Callable[[str], Compiled]) -> None:
    warning = (
        'k.cu(3): warning #177-D: variable "x" was declared but never referenced\n    int x;\n        ^\n\n'
    )
    result = report.explain(report.parse(warning * 5 + compiled("k_differs").log))
    assert result["warnings_left_out"] == 5
    assert [row["code"] for row in result["findings"]] == ["extent-k"]
    assert "5 warnings left out" in report.text(result)
    only = report.explain(report.parse(warning))
    assert only["outcome"] == "no errors" and "NO ERRORS" in report.text(only)


def test_what_no_rule_knows_is_shown_as_far_as_understood() -> None:
    log = (
        'include/cute/new.hpp(7): error: static assertion failed with "Frobnication of tiles"\n'
        "    static_assert(N % 3 == 0, ...);\n    ^\n"
        '          detected during instantiation of "void cute::frob<N>(cute::Layout<A, B>) [with N=64, '
        'L=cute::Layout<cute::tuple<cute::_8, cute::C<(int)4>>, cute::tuple<cute::_1, int>>]" at line 12 of '
        "my.cu\n\n"
        '1 error detected in the compilation of "my.cu".\n'
    )
    result = report.explain(report.parse(log))
    (row,) = result["findings"]
    assert result["outcome"] == "not understood" and not row["understood"]
    assert row["code"] == "assertion" and "N = 64" in row["what"] and "(8,4):(1,?)" in row["what"]
    assert row["at"]["file"] == "my.cu" and row["at"]["line"] == 12
    assert "NOT UNDERSTOOD" in report.text(result)


def test_missing_errors_are_reported() -> None:
    result = report.explain(
        report.parse(
            'a.cu(1): error: identifier "x" is undefined\n\n5 errors detected in the compilation of "a.cu".\n'
        )
    )
    assert any("counted 5 errors and the log shows 1" in remark for remark in result["remarks"])


def test_the_result_is_json(compiled: Callable[[str], Compiled], tmp_path: Path) -> None:
    result = report.explain(report.parse(compiled("b_not_transposed").log), tmp_path)
    assert json.loads(json.dumps(result)) == result
