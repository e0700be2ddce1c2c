"""Damaged logs: cut, torn, shuffled or strange text gives a diagnosis or one clear error, no traceback."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tileproof.conformance.beside.logs.hangs.render import diagnose
from tileproof.conformance.beside.logs.hangs.text import text
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plans import head128_columns

from benchmarks.strangers.exams.grade import logs
from tests.kit.hang_logs.wordings import SEVEN, log
from tests.kit.pipelines import DEFECTS, kernel

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
PIECES = """wait done arrive WG1 WG CTA0 CTA cta= k=1 k= kb phase= 1 phase bar_ bar mbar p_ready p_ready[ [1]
[ ] ( ) = : , ; barrier is ready for not before after expect_tx warp tid= 0x 0x10 -1 role= role full[ \x1b[31m
' " . - _ __ é Ω ² 9999999999 block=7 mbar=0x1 cta=99 stage=1 WAIT_DONE p_ready_wait"""
TOKENS = PIECES.split()


def _survives(path: Path) -> None:
    for plan in (None, head128_columns.plan(576)):
        try:
            found = diagnose(path, plan)
        except TileproofError as error:
            assert error.what and error.where
            continue
        assert text(found)
        assert json.loads(json.dumps(found))["outcome"] in ("hang", "no hang seen", "unclear")
        if found["outcome"] == "hang":
            assert found["root"] and found["causes"]


@SETTINGS
@given(st.lists(st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join), max_size=12).map("\n".join))
def test_lines_made_of_pieces(tmp_path: Path, words: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(words)
    _survives(path)


@SETTINGS
@given(st.binary(max_size=300))
def test_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(data)
    _survives(path)


@SETTINGS
@given(st.data(), st.sampled_from(sorted(DEFECTS)), st.sampled_from(sorted(SEVEN)))
def test_damaged_logs(tmp_path: Path, data: st.DataObject, defect: str, wording: str) -> None:
    whole = log(kernel(defect).run(data.draw(st.integers(0, 3))), wording)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole)))
        end = min(len(whole), at + data.draw(st.integers(0, 200)))
        whole = (
            whole[:at] + data.draw(st.sampled_from(["", "\n", "[", "\x00", whole[at:end] * 2])) + whole[end:]
        )
    path = tmp_path / "log.txt"
    path.write_text(whole)
    _survives(path)


STRANGE = ["-1", "007", "0x", "²", "99999999999999999999", "1e400", "cta=-1", "[", "}", "=", "|", "\t", ""]
LAYOUTS = [each.text for name in ("ninth", "tenth", "eleventh") for each in logs(name, 1)]


@settings(SETTINGS, max_examples=40)
@given(st.data(), st.sampled_from(LAYOUTS))
def test_damaged_tables_dumps_and_legends(tmp_path: Path, data: st.DataObject, whole: str) -> None:
    lines = whole.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        old, new = data.draw(st.sampled_from("0123456789[]=:,")), data.draw(st.sampled_from(STRANGE))
        if data.draw(st.booleans()):
            lines[at] = lines[at].replace(old, new)
        else:
            lines = [line.replace(old, new, 1) for line in lines]
    path = tmp_path / "log.txt"
    path.write_text("\n".join(lines))
    _survives(path)


def test_a_cta_of_minus_1_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("""[load CTA0] k=0 wait empty phase=1
[load CTA0] k=0 done empty
[load CTA0] k=0 arrive full cta=-1
[mma CTA0] k=0 wait full phase=0
""")
    _survives(path)


def test_numbers_of_an_enum_may_begin_with_0(tmp_path: Path) -> None:
    rows = "\n".join(f"{at} 0 {at % 2:03} 2 full 0" for at in range(12))
    path = tmp_path / "log.txt"
    path.write_text(f"enum Ev {{ WAIT = 000, DONE = 001, ARRIVE = 010 }};\nrow cta ev k bar stage\n{rows}\n")
    _survives(path)


@pytest.mark.parametrize("wording", SEVEN)
def test_a_log_cut_anywhere_after_the_hang_began_keeps_its_root(tmp_path: Path, wording: str) -> None:
    """Losing the last line, which is one of the last waits, may hide that wait but not the root before it."""
    machine = kernel("one-cta")
    lines = log(machine.run(0), wording).splitlines(keepends=True)
    path = tmp_path / "log.txt"
    path.write_text("".join(lines)[:-4])
    root = diagnose(path)["root"]
    assert root is not None and root["actor"]["cta"] == 1
    assert "ready" in root["barrier"].lower()
