"""`tileproof judge` as a command: exit codes, JSON, bad input, an interrupt, arrays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import main
from tileproof.conformance.verdict.schema import PATH
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.model import LaunchFile

from tests.kit.launch_files import SIZE, WITHOUT_WAIT, scale

REF = "def reference(x, factor):\n    return factor * x[:100]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ref.py").write_text(REF)
    (tmp_path / "raises.py").write_text("def reference(x, factor):\n    return x[3, 4]\n")
    return tmp_path


def run(folder: Path, launch: LaunchFile, *options: str) -> tuple[int, str]:
    """Exit code and output."""
    jsonform.write(launch, folder / "launch.json")
    words = ["judge", str(folder / "launch.json"), *options]
    done = CliRunner().invoke(main, words)
    return done.exit_code, done.stdout


def verdict(folder: Path, launch: LaunchFile, *options: str) -> dict[str, Any]:
    """The verdict as JSON, valid by the schema, its exit code that of the command."""
    code, text = run(folder, launch, "--json", "-", *options)
    data: dict[str, Any] = json.loads(text)
    library = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    library.Draft202012Validator(json.loads(PATH.read_text())).validate(data)
    assert data["exit_code"] == code
    return data


@pytest.mark.parametrize(
    ("target", "line", "needs"),
    [
        ("sm_90a", "tcgen05.fence::after_thread_sync;", "sm_100a"),
        ("sm_90a", "add.f32x2 %rd1, %rd1, %rd1;", "sm_100"),
        ("sm_100a", "wgmma.commit_group.sync.aligned;", "sm_90a"),
    ],
)
def test_an_instruction_of_another_architecture(folder: Path, target: str, line: str, needs: str) -> None:
    edits = (("sm_100a", target), ("mul.f32 %f1, %f1, %f2;", f"mul.f32 %f1, %f1, %f2; {line}"))
    code, text = run(folder, scale(*edits), "--schedules", "2")
    opcode = line.split(" ")[0].rstrip(";")
    assert code == 3 and "instructions is unsupported" in text
    assert f"{opcode} needs {needs}; the module is for {target}, PTX" in text
    assert "unsupported" not in run(folder, scale(edits[0]), "--schedules", "2")[1]


def test_exit_codes_and_words(folder: Path) -> None:
    expect = ("--expect", str(folder / "ref.py"), "--schedules", "3")
    cases = (
        (scale(), expect, "clean", 0),
        (scale(*WITHOUT_WAIT), expect, "defect", 1),
        (scale(block=(32,)), expect, "error", 2),
        (scale(), expect[2:], "incomplete", 3),
        (scale(), ("--expect", str(folder / "raises.py")), "error", 2),
        (scale(), ("--expect", str(folder / "none.py")), "error", 2),
    )
    for launch, options, word, code in cases:
        made = verdict(folder, launch, *options)
        assert (made["verdict"], made["exit_code"]) == (word, code)
        if word == "error":
            (error,) = [e for check in made["checks"] for e in check["details"].get("errors", ())]
            assert error["what"] and error["where"]


def test_what_a_stranger_prints_is_not_in_the_verdict(folder: Path) -> None:
    jsonform.write(scale(), folder / "launch.json")
    (folder / "ref.py").write_text(
        "print('loaded')\n" + REF.replace("    return", "    print('called')\n    return")
    )
    (folder / "launch.py").write_text(
        "print('read')\nfrom pathlib import Path\nfrom tileproof.launches import read\n"
        "def launch():\n    print('launched')\n    return read(Path(__file__).with_suffix('.json'))\n"
    )
    command = [sys.executable, "-m", "tileproof", "judge", str(folder / "launch.py"), "--json", "-"]
    done = subprocess.run(
        [*command, "--expect", str(folder / "ref.py"), "--schedules", "2"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["verdict"] == "clean"
    assert all(word in done.stderr for word in ("loaded", "called", "read", "launched"))


def test_the_page_and_the_file(folder: Path) -> None:
    options = ("--expect", str(folder / "ref.py"), "--schedules", "3", "--json", str(folder / "out.json"))
    code, text = run(folder, scale(*WITHOUT_WAIT), *options, "--dump", str(folder / "arrays"))
    assert code == 1 and text.startswith("DEFECT scale: scale\n")
    made = json.loads((folder / "out.json").read_text())
    replay = made["findings"][0]["replay"]
    assert replay in text and replay.startswith(f"tileproof judge {folder / 'launch.json'} --expect")
    words = replay.split()[1:]
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 1 and made["findings"][0]["message"] in again.stdout
    assert np.load(folder / "arrays" / "out.npy").shape == (SIZE,)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("launch.json", "{"),
        ("launch.py", "1 / 0"),
        ("launch.txt", ""),
        ("none.json", None),
        ("launch.py", "x = 3"),
    ],
)
def test_a_launch_file_that_cannot_be_read(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    done = CliRunner().invoke(main, ["judge", str(tmp_path / name), "--json", "-"])
    made = json.loads(done.stdout)
    assert (done.exit_code, made["verdict"]) == (2, "error")
    assert made["checks"][0]["details"]["errors"][0]["where"].startswith(str(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_tells_what_is_known(folder: Path, number: int) -> None:
    jsonform.write(scale(("mul.f32 %f1, %f1, %f2;", "")), folder / "launch.json")
    begun = folder / "begun"
    (folder / "ref.py").write_text(f"open({str(begun)!r}, 'w').close()\n{REF}")
    command = [sys.executable, "-m", "tileproof", "judge", str(folder / "launch.json")]
    options = ["--expect", str(folder / "ref.py"), "--policy", "early"]
    many = [word for seed in range(4000) for word in ("--policy", f"random:seed={seed}")]
    # A shell's background jobs, such as a test run, begin with SIGINT ignored, and so would the command.
    with subprocess.Popen(
        [*command, *options, *many],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        for _ in range(300):
            time.sleep(0.1)
            if begun.exists():
                break
        time.sleep(1.5)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and out.startswith("DEFECT") and "it was interrupted" in out


def test_sarif_and_junit_of_a_launch_file(folder: Path) -> None:
    sarif, junit = folder / "out.sarif", folder / "out.xml"
    code, _ = run(
        folder, scale(*WITHOUT_WAIT), "--expect", str(folder / "ref.py"), "--schedules", "3",
        "--sarif", str(sarif), "--junit", str(junit),
    )  # fmt: skip
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    assert code == 1 and "race-copy-unwaited" in {result["ruleId"] for result in results}
    suite = ElementTree.parse(junit).getroot()[0]
    assert int(suite.attrib["failures"]) >= 1 and suite.attrib["name"].startswith("scale")
