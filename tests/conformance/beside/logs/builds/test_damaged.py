"""Damaged logs: cut, torn, shuffled or strange text gives an explanation or one clear error, no traceback."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.conformance.beside.logs.builds import report
from tileproof.conformance.beside.logs.builds.cause import CODES
from tileproof.conformance.cli.explain import explanation, render
from tileproof.spec.machine.errors import TileproofError

from tests.kit.wrong_kernels import WRONG, Compiled

SETTINGS = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
NAMES = [
    "b_not_transposed",
    "major_of_b",
    "n_against_c",
    "tma_box",
    "tmem_load_too_wide",
    "pair_b_whole",
    "stage_forgotten",
]


LINES = """a.cu(3): error: x
a.cu(3): error: static assertion failed
  static_assert(size<2>(A) == size<2>(B));
          detected during:
  instantiation of "void f(T) [with T=cute::_8, A=" at line 3
"
[with
at line 9 of b.h
ptxas fatal : y
ptxas /tmp/a.ptx, line 3; error : z
1 error detected in the compilation

note: w
a.cu(3): note: v
ninja: x
12 bytes spill stores, 3 bytes spill loads
nvcc fatal : q
ld: undefined reference to `f'
CTA0 wait kv_full phase=0
x:1:2: error: y
x.cu:1:2: required from \u2018void f(T) [with T = int]\u2019
fatal error: n""".splitlines()


def test_an_error_whose_text_is_cut_off_is_named() -> None:
    result = report.explain(report.parse("a.cu(12): error:"), WRONG / "build.log")
    assert result["findings"][0]["what"] == "the log ends before the text of this error"


def survives(text: str) -> None:
    result = report.explain(report.parse(text), WRONG / "build.log")
    assert report.text(result)
    assert json.loads(json.dumps(result)) == result
    assert result["outcome"] in ("explained", "not understood", "no errors")
    assert (result["outcome"] == "no errors") == (not result["findings"])
    assert all(row["code"] in CODES and row["what"] for row in result["findings"])


@SETTINGS
@given(data=st.data())
def test_real_logs_with_pieces_lost_doubled_or_moved(
    data: st.DataObject, compiled: Callable[[str], Compiled]
) -> None:
    text = compiled(data.draw(st.sampled_from(NAMES))).log
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 400)))
        piece = data.draw(
            st.sampled_from(
                ["", "\n", "<", ">", "0", "cute::C<0>", "\x00", "(", text[at:end] * 2, " error: "]
            )
        )
        text = text[:at] + piece + text[end:]
    survives(text)


@SETTINGS
@given(data=st.data())
def test_real_logs_with_other_numbers(data: st.DataObject, compiled: Callable[[str], Compiled]) -> None:
    """Extents, strides and swizzles of any size: no layout of CuTe, but text that could stand in a log."""
    text = compiled(data.draw(st.sampled_from(NAMES))).log
    old = data.draw(st.sampled_from(["64", "128", "16", "_1,", "8", "256", "65536", "3, 4, 3", "4096"]))
    new = data.draw(
        st.sampled_from(
            ["0", "1", "7", "-3", "999999999", "int", "", "<error-type>", "1000003", "0, 0, 0", "_1>"]
        )
    )
    survives(text.replace(old, new, data.draw(st.integers(1, 30))))


def test_extents_below_one_are_no_operands(compiled: Callable[[str], Compiled]) -> None:
    log = compiled("too_much_tmem").log
    shape = "Shape_MN=cute::tuple<cute::_128, cute::_1024>"
    assert shape in log
    for new in ("cute::C<-128>", "cute::C<0>"):
        survives(log.replace(shape, f"Shape_MN=cute::tuple<cute::_128, {new}>"))
        survives(log.replace("cute::_128", new))


@SETTINGS
@given(data=st.data())
def test_cut_anywhere(data: st.DataObject, compiled: Callable[[str], Compiled]) -> None:
    text = compiled(data.draw(st.sampled_from(NAMES))).log
    first, last = sorted((data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))))
    survives(text[first:last])


@SETTINGS
@given(st.lists(st.sampled_from(LINES), max_size=25).map("\n".join))
def test_lines_in_any_order(text: str) -> None:
    survives(text)


@SETTINGS
@given(st.binary(max_size=400))
def test_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    try:
        assert render(explanation(path))
    except TileproofError as error:
        assert error.what and error.where
