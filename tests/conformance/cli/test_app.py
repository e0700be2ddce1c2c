"""Exit codes and messages of the command line on bad input; no traceback, JSON where it is asked for."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys

import pytest
from tileproof.conformance.cli import app as cli
from tileproof.conformance.report.terminal import Progress
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES


def run(capfd, *words):
    with pytest.raises(SystemExit) as left:
        cli.main(list(words))
    out, err = capfd.readouterr()
    return left.value.code, out, err


@pytest.mark.parametrize(
    ("words", "says"),
    (
        (["check", "no-such"], "there is no such kernel"),
        (["check", "head128-part0", "--stage", "Z"], "unknown stage"),
        (["check", "head128-part0", "--d-qk", "77"], "has no such variant"),
        (["check", "head128-part0", "--d-qk", "wide"], "not a width"),
        (["check", "head128-part0", "--examples", "0"], "--examples"),
        (["check", "head128-part0", "--policy", "soon"], "--policy"),
        (["check", "head128-part0", "--plant", "no-such"], "unknown planted defect"),
        (["check", "head128-part0", "--case", "{", "--policy", "early"], "not a case that Tileproof wrote"),
        (["check", "head128-part0", "--case", '{"d_qk":576}'], "a replay needs one schedule"),
        (["check", "head128-part0", "--case", '{"d_qk":99}', "--policy", "early"], "has no such variant"),
        (["check"], "Missing argument"),
        (["build", "no-such"], "there is no such kernel"),
        (["no-such-command"], "No such command"),
    ),
)
def test_bad_input_is_one_message_and_exit_code_2(capfd, words, says):
    code, out, err = run(capfd, *words)
    assert code == 2 and out == ""
    assert says in err and "Traceback" not in err
    code, out, err = run(capfd, *words, "--json")
    assert code == 2
    assert says in json.loads(out)["error"]["what"]


def test_internal_error_is_not_taken_for_a_defect(capfd, monkeypatch):
    monkeypatch.setattr("tileproof.conformance.report.terminal.print_rows", lambda *rest: 1 / 0)
    code, _, err = run(capfd, "stages")
    assert code == 2 and "internal error" in err and "ZeroDivisionError" in err


@pytest.mark.parametrize("words", (["--help"], ["check", "--help"], ["--version"], ["kernels"], ["defects"]))
def test_information_exits_0(capfd, words):
    code, out, err = run(capfd, *words)
    assert code == 0 and out and not err


def test_stages_as_json(capfd):
    code, out, _ = run(capfd, "stages", "--json")
    assert code == 0 and [
        row["stage"] for row in json.loads(out) if row["problem"] == "sparse_mla_bwd"
    ] == list(STAGES)


def test_kernels_as_json(capfd):
    code, out, _ = run(capfd, "kernels", "--json")
    assert code == 0 and "head128-part0" in [row["kernel"] for row in json.loads(out)]


def test_no_compiler_is_exit_code_2(capfd, monkeypatch, tmp_path):
    from tileproof.kernels import toolchain

    monkeypatch.setenv("TILEPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    toolchain.find.cache_clear()
    try:
        code, _, err = run(capfd, "build", "head128-part0", "--d-qk", "512")
    finally:
        toolchain.find.cache_clear()
    assert code == 2 and "is not installed" in err and "do:" in err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_runs_as_a_module_from_another_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tileproof.conformance.cli", "check", "no-such"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 2 and "there is no such kernel" in done.stderr and "Traceback" not in done.stderr
    )


PART0 = ("check", "head128-part0", "--d-qk", "576")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_check_with_what_is_known(capfd, monkeypatch, number):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    monkeypatch.setattr(
        Progress, "show", lambda self, done, shrinking: os.kill(os.getpid(), number) if done == 2 else None
    )
    try:
        code, out, _ = run(capfd, *PART0, "--examples", "5", "--no-edges", "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    whole = json.loads(out)
    assert code == 3 and whole["verdict"] == whole["results"][0]["verdict"] == "incomplete"
    assert whole["results"][0]["examples"] == 2


def test_a_defect_that_was_found_is_exit_1_though_nobody_reads():
    command = [sys.executable, "-m", "tileproof", *PART0, "--plant", "swizzle-of-kv", "--examples", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=280) == 1


def test_the_seed_of_the_day_is_printed(capfd):
    code, out, _ = run(capfd, *PART0, "--examples", "1", "--no-edges", "--seed", "today")
    assert code == 0 and f"seed {datetime.date.today():%Y%m%d}" in out
