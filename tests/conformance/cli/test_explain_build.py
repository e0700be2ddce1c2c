"""The command: what kind of log it is, exit codes, bad input, JSON."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tileproof.conformance.cli.app import main
from tileproof.conformance.cli.explain import explanation

from tests.kit.wrong_kernels import WRONG, Compiled

HUNG = """[LOAD CTA0] k=0 kv_full arrive
[MMA CTA0] k=0 wait kv_full phase=0
[MMA CTA0] k=0 kv_full done
[MMA CTA0] k=0 p_ready arrive
[SOFTMAX CTA0] k=0 wait p_ready phase=0
[SOFTMAX CTA0] k=0 p_ready done
[MMA CTA0] k=1 wait kv_full phase=1
"""


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main.main(["explain", *words])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    return int(str(stopped.value.code)), shown.out, shown.err


def test_a_build_log_is_explained(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compiled: Callable[[str], Compiled],
) -> None:
    monkeypatch.chdir(WRONG)
    log = tmp_path / "build.log"
    log.write_text(compiled("b_not_transposed").log)
    code, out, _ = run([str(log)], capsys)
    assert code == 0
    assert "it needs N = 256, K = 64: view the same buffer transposed, MN-major" in out
    assert "common.cuh:45\n" in out and "mma_ss(mma, sA, sB, tC);" in out
    code, out, _ = run([str(log), "--json"], capsys)
    assert code == 0 and json.loads(out)["kind"] == "build"
    assert json.loads(out)["findings"][0]["at"] == {
        "file": "common.cuh", "line": 45, "text": "static_assert(size<2>(sA_frag) == size<2>(sB_frag));"
    }  # fmt: skip


def test_content_decides_and_both_are_reported(tmp_path: Path, compiled: Callable[[str], Compiled]) -> None:
    build = compiled("k_differs").log
    log = tmp_path / "x.log"
    for text, kind in ((HUNG, "hang"), (build, "build"), (build + HUNG, "both"), (HUNG + build, "both")):
        log.write_text(text)
        assert explanation(log)["kind"] == kind
    both = explanation(log)
    assert both["build"]["findings"][0]["code"] == "extent-k" and both["hang"]["outcome"] == "hang"
    assert explanation(log, kind="hang")["kind"] == "hang"
    assert explanation(log, kind="build")["kind"] == "build"


def test_both_kinds_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compiled: Callable[[str], Compiled]
) -> None:
    log = tmp_path / "x.log"
    log.write_text(compiled("k_differs").log + HUNG)
    code, out, _ = run([str(log)], capsys)
    assert code == 0 and "extent-k" in out and "HANG: " in out


@pytest.mark.parametrize(
    "text",
    [
        "[1/2] /usr/bin/nvcc -std=c++17 -c a.cu -o a.o\n[2/2] g++ a.o -o a\n",
        'a.cu(3): warning #177-D: variable "x" was declared but never referenced\n',
        'a.cu(3): error: expected a ";"\n',
    ],
)
def test_nothing_to_explain_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    log = tmp_path / "x.log"
    log.write_text(text)
    code, out, _ = run([str(log)], capsys)
    assert code == 1
    assert "NO ERRORS" in out or "NOT UNDERSTOOD" in out
    if "error:" in text:
        assert 'expected a ";"' in out and "a.cu:3" in out


@pytest.mark.parametrize(
    "content", [None, b"", b"\x7fELF\x02\x01\x01" + bytes(range(32)) * 40, b"hello\n", "folder"]
)
def test_bad_input_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | str | None
) -> None:
    log = tmp_path / "x.log"
    if content == "folder":
        log.mkdir()
    elif isinstance(content, bytes):
        log.write_bytes(content)
    code, out, err = run([str(log)], capsys)
    assert code == 2 and "error: " in err and out == ""
    code, out, _ = run([str(log), "--json"], capsys)
    assert code == 2 and json.loads(out)["error"]["what"]


def test_utf_16_and_an_unknown_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compiled: Callable[[str], Compiled]
) -> None:
    log = tmp_path / "x.log"
    log.write_text(compiled("k_differs").log, encoding="utf-16")
    assert explanation(log)["findings"][0]["code"] == "extent-k"
    code, _, err = run([str(log), "--as", "song"], capsys)
    assert code == 2 and "error: " in err


def test_a_hang_log_is_no_build_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(HUNG)
    code, out, _ = run([str(log), "--as", "build"], capsys)
    assert code == 1 and "NO ERRORS" in out
