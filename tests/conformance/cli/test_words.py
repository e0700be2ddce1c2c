"""Every command's JSON and exit code use the four words of the contract; Ctrl-C leaves no traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.verdict.contract import EXIT_CODES
from tileproof.kernels.launch import jsonform

from tests.kit.launch_files import scale

PLANTED = ("head128-part0", "--plant=p-ready-to-one-cta")
COMMANDS = {
    "explore": ("explore", "launch.json", "--schedules=2"),
    "a hang explored": ("explore", *PLANTED, "--schedules=1"),
    "trace": ("trace", "launch.json", "--out=trace.json"),
    "a hang traced": ("trace", *PLANTED, "--out=trace.json"),
    "mutate": ("mutate", "launch.json", "--expect=ref.py", "--count=3", "-j1"),
    "plant": ("plant", "sm90-gemm", "--only=s90-beta-dropped", "--examples=1"),
    "synchronisation": ("synchronisation", "--only=copy-wrong-parity"),
    "check": ("check", "sm90-gemm", "--examples=1", "--no-edges"),
    "an error": ("check", "no-such-kernel"),
    "judge": ("judge", "launch.json", "--expect=ref.py", "--schedules=2"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_verdict_is_a_word_of_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    jsonform.write(scale(), tmp_path / "launch.json")
    (tmp_path / "ref.py").write_text("def reference(x, factor):\n    return factor * x[:100]\n")
    done = CliRunner().invoke(main, [*COMMANDS[name], *(["--json", "-"] if name == "judge" else ["--json"])])
    made = json.loads(done.stdout)
    assert EXIT_CODES[made["verdict"]] == done.exit_code, (made["verdict"], done.exit_code)
    assert made["verdict"] == {"an error": "error"}.get(name, "defect" if "hang" in name else "clean")


def test_mutants_that_no_check_could_kill_are_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equivalent mutant was not killed: nothing was shown."""
    monkeypatch.chdir(tmp_path)
    jsonform.write(scale(), tmp_path / "launch.json")
    words = ["mutate", "launch.json", "--count=60", "-j1", "--seed=1"]
    wanted = [f"--only={number}" for number in range(25, 35)]
    some = json.loads(CliRunner().invoke(main, [*words, "--json", *wanted]).stdout)["mutants"]
    equivalent = next(mutant["number"] for mutant in some if mutant["outcome"] == "equivalent")
    done = CliRunner().invoke(main, [*words, "--json", f"--only={equivalent}"])
    made = json.loads(done.stdout)
    assert (made["verdict"], done.exit_code, made["score"]["score"]) == ("incomplete", 3, None)
    assert made["why"] == "no score: none of the 1 mutants can be killed by a check"
    shown = CliRunner().invoke(main, [*words, f"--only={equivalent}"])
    assert shown.stdout.splitlines()[-1] == f"INCOMPLETE: {made['why']}" and shown.exit_code == 3


# Python's own start, which runs no code of this package, cannot be guarded.
STARTED = """
import os, signal, sys

class Sends:
    left = TIMES

    def find_spec(self, name, *_):
        if name == "MODULE":
            while self.left:
                self.left -= 1
                os.killpg(0, signal.SIGINT)

sys.meta_path.insert(0, Sends())
sys.argv = ["tileproof", "explore", "head64", "--schedules=100000"]
from tileproof.__main__ import main
main()
"""
MODULES = (
    "tileproof.conformance.cli.owner", "secrets", "tileproof.conformance.cli.app", "click", "numpy",
    "tileproof.kernels.foreign.shared", "tileproof.conformance.cases.resolve",
    "tileproof.emulator.schedule_run",
)  # fmt: skip


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("module", MODULES)
def test_an_interrupt_while_a_command_starts_leaves_no_traceback(
    tmp_path: Path, module: str, times: int
) -> None:
    """Ctrl-C while a module is imported, sent to the owner and to the command, as by a shell."""
    done = subprocess.run(
        [sys.executable, "-c", STARTED.replace("MODULE", module).replace("TIMES", str(times))],
        cwd=tmp_path, capture_output=True, text=True, start_new_session=True, timeout=100, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert "Traceback" not in done.stderr and "KeyboardInterrupt" not in done.stderr, done.stderr
    assert done.returncode == 2 and "error: interrupted" in done.stderr, done
