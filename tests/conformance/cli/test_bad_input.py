"""Every command that takes a kernel or a path says of a wrong one what it found, what it expects, and which
name may have been meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tileproof.conformance.cli.app import COMMANDS, main

from tests.kit.newcomer import write_scale

KERNEL_OR_FILE = ("campaign", "check", "explore", "gate", "judge", "mutate", "time", "trace", "inspect")
KERNEL = ("build", "crosscheck", "plant")
EVIDENCE = ("diff",)
LOG = ("explain",)
DUMP = ("tensors",)  # tests/conformance/tensors/test_bad_dumps.py
SYMPTOMS = ("diagnose",)  # tests/conformance/beside/test_symptoms.py
VECTORS = ("vectors",)  # tests/conformance/vectors/test_vectors.py
LAUNCH = ("locate",)
NO_PATH = ("corpus", "defects", "instructions", "kernels", "layout", "record", "stages", "synchronisation")
TAKES_KERNEL = KERNEL_OR_FILE + KERNEL
# What a command needs besides the path.
MORE = {"diff": ["scale.json"], "locate": ["--problem", "gemm", "--tensor", "A=a"]}


def test_every_command_is_in_one_group() -> None:
    groups = [*TAKES_KERNEL, *LAUNCH, *EVIDENCE, *LOG, *DUMP, *SYMPTOMS, *VECTORS, *NO_PATH]
    assert sorted(groups) == sorted(COMMANDS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with valid and invalid files."""
    write_scale(tmp_path)
    right = json.loads((tmp_path / "scale.json").read_text())
    for name, data in (
        ("version.json", {**right, "schema_version": 99}),
        ("evidence.json", {"schema": "tileproof-evidence", "schema_version": 99}),
        ("other.json", {"schema": "somebody-else"}),
        ("case.json", {"schema": "tileproof-case", "schema_version": 1}),
        ("list.json", [1, 2]),
    ):
        (tmp_path / name).write_text(json.dumps(data))
    (tmp_path / "cut.json").write_text('{\n "schema": "tileproof-la')
    (tmp_path / "binary.json").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(range(256)))
    (tmp_path / "python.py").write_text("def kernel():\n    return 1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken-log").write_bytes(bytes(range(256)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(command: str, *words: str) -> dict[str, str]:
    """The error of a command that was given bad input; also its text has all that the JSON has."""
    more = MORE.get(command, [])
    done = CliRunner().invoke(main, [command, *words, *more])
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output and "internal error" not in done.output
    option = ["--json", "-"] if command in ("judge", "locate") else ["--json"]
    made = CliRunner().invoke(main, [command, *words, *more, *option])
    assert made.exit_code == 2
    data: dict[str, Any] = json.loads(made.stdout)
    error: dict[str, str] = data["checks"][0]["details"]["errors"][0] if command == "judge" else data["error"]
    flat = " ".join(done.output.split())
    assert " ".join(error["what"].split())[:40] in flat
    return error


@pytest.mark.parametrize("command", TAKES_KERNEL)
def test_a_typo_in_the_name_of_a_kernel(folder: Path, command: str) -> None:
    error = refused(command, "sm100-gem-bias")
    assert error["what"] == "there is no such kernel" and error["found"] == "sm100-gem-bias"
    assert "did you mean sm100-gemm-bias" in error["do"] and "sm100-gemm-bias" in error["expected"]


@pytest.mark.parametrize("command", [*TAKES_KERNEL, *LAUNCH, *EVIDENCE, *LOG])
@pytest.mark.parametrize(
    ("given", "meant"),
    [("scal.json", "scale.json"), ("./brokn.json", "broken.json"), ("emty/launch.json", "empty")],
)
def test_a_missing_path(folder: Path, command: str, given: str, meant: str) -> None:
    error = refused(command, given)
    assert error["what"] == "there is no such file" and error["where"] == str(Path(given))
    assert "did you mean" in error["do"] and meant in error["do"]
    assert error["expected"] and error["found"]


@pytest.mark.parametrize("command", [*TAKES_KERNEL, *LAUNCH, *EVIDENCE, *LOG])
def test_a_folder_with_nothing_in_it(folder: Path, command: str) -> None:
    error = refused(command, "empty")
    assert "folder" in error["what"] and "holds nothing" in error["found"] and error["expected"]


# What each file is reported to be: (file, words of the error's what, words of what was found).
FILES = [
    ("evidence.json", "JSON of another schema", "evidence of `tileproof gate`, which `tileproof diff` reads"),
    ("case.json", "JSON of another schema", "give its folder to `tileproof judge`"),
    ("version.json", "schema version", "99"),
    ("other.json", "launch file", "somebody-else"),
    ("list.json", "launch file", "list"),
    ("cut.json", "not valid JSON", "Unterminated string"),
    ("binary.json", "not JSON", "ELF"),
    ("python.py", "neither a kernel nor a launch", "kernel"),
]


WRONG = [(command, *row) for command in TAKES_KERNEL for row in FILES]
WRONG += [(command, *row) for command in LAUNCH for row in FILES if row[0] != "python.py"]


@pytest.mark.parametrize(("command", "given", "what", "found"), WRONG)
def test_a_file_that_is_something_else(folder: Path, command: str, given: str, what: str, found: str) -> None:
    error = refused(command, given)
    assert what in error["what"] and found in error["found"] and error["expected"] + error["do"]
    assert error["where"].startswith(given)


@pytest.mark.parametrize("command", [name for name in TAKES_KERNEL if name != "inspect"])
def test_ptx_without_a_launch(folder: Path, command: str) -> None:
    error = refused(command, "scale.ptx")
    assert "does not define its launch" in error["what"] and "judge scale.ptx --init" in error["do"]


@pytest.mark.parametrize("command", KERNEL)
def test_a_launch_file_where_only_a_kernel_will_do(folder: Path, command: str) -> None:
    error = refused(command, "scale.json")
    assert "launch file" in error["what"] and error["expected"] == "a kernel with a plan"


@pytest.mark.parametrize(
    ("given", "what", "found"),
    [
        ("scale.json", "JSON of another schema", "tileproof-launch: a launch file, which `tileproof judge`"),
        ("evidence.json", "another schema version", "99"),
        ("binary.json", "not JSON", "ELF"),
        ("other.json", "another schema", "somebody-else"),
    ],
)
def test_what_is_no_evidence(folder: Path, given: str, what: str, found: str) -> None:
    error = refused("diff", given)
    assert what in error["what"] and found in error["found"]


@pytest.mark.parametrize("command", ["judge", "gate", "explore"])
@pytest.mark.parametrize(
    ("given", "what", "found", "do"),
    [
        ("reff.py", "there is no such file", "nothing at this path", "did you mean ref.py?"),
        ("empty", "this is a folder", "the folder empty holds nothing", ""),
        ("scale.ptx", "the reference is not a Python file", "PTX", ""),
        ("scale.json", "the reference is not a Python file", "text that begins with", ""),
    ],
)
def test_a_reference_that_is_something_else(
    folder: Path, command: str, given: str, what: str, found: str, do: str
) -> None:
    error = refused(command, "scale.json", "--expect", given)
    assert error["what"] == what and found in error["found"] and error["do"] == do
    assert "FILE.py with a function reference()" in error["expected"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--stage", "dq"], "did you mean dQ"),
        (["--policy", "erly"], "did you mean early"),
        (["--plant", "h64-dq-claered"], "did you mean h64-dq-cleared"),
        (["--variant", "d_qk=577,h_q=64"], "did you mean d_qk=576,h_q=64"),
        (["--polcy", "early"], ""),  # click's own sentence about options
    ],
)
def test_a_typo_in_an_option(folder: Path, words: list[str], meant: str) -> None:
    error = refused("check", "head64", *words)
    assert meant in error["do"] if meant else "Did you mean" in error["what"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["inspect", "scale.json", "--entry", "scal"], "scale"),
        (["mutate", "scale.json", "--entry", "scal"], "scale"),
        (["mutate", "scale.json", "--operators", "pariti"], "parity"),
        (["judge", "scale.json", "--expect", "ref.py:refrence"], "reference"),
        (["judge", "scale.json", "--policy", "erly"], "early"),
        (["explore", "scale.json", "--policies", "erly"], "early"),
        (["trace", "scale.json", "--barrier", "mbarier full"], "mbarrier full"),
        (["time", "scale.json", "--set", "copy_latncy=3"], "copy_latency"),
        (["gate", "scale.json", "--only", "determinsm"], "determinism"),
        (["stages", "dq"], "dQ"),
    ],
)
def test_a_typo_in_a_name_of_an_option(folder: Path, words: list[str], meant: str) -> None:
    assert f"did you mean {meant}" in refused(*words)["do"]


@pytest.mark.parametrize(
    ("words", "do"),
    [
        (["campaign", "scale.json", "--planted", "2"], "omit the options"),
        (["check", "scale.json", "--save", "saved"], "the launch file is the saved case"),
    ],
)
def test_an_option_that_a_launch_file_does_not_take(folder: Path, words: list[str], do: str) -> None:
    assert do in refused(*words)["do"]


def test_init_of_an_entry_with_a_typo(folder: Path) -> None:
    done = CliRunner().invoke(main, ["judge", "scale.ptx", "--init", "--entry", "scal"])
    assert done.exit_code == 2 and "did you mean scale" in done.stderr


def test_what_is_no_log(folder: Path) -> None:
    assert refused("explain", "broken-log")["found"]
    assert "did you mean head64" in refused("explain", "scale.ptx", "--kernel", "hed64")["do"]


def test_init_of_what_is_not_ptx(folder: Path) -> None:
    def init(given: str) -> str:
        done = CliRunner().invoke(main, ["judge", given, "--init"])
        assert done.exit_code == 2
        return " ".join(done.stderr.split())

    expected: list[tuple[str, Callable[[str], bool]]] = [
        ("scale.json", lambda text: "this is not PTX" in text),
        ("empty", lambda text: "a folder" in text),
        ("binary.json", lambda text: "ELF" in text),
        ("scal.ptx", lambda text: "did you mean scale.ptx" in text),
    ]
    for given, holds in expected:
        assert holds(init(given)), given


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("head64", {"d_qk": 576, "s_kv": 10**14, "values": "normal", "h_q": 64}),
        ("sm90-gemm", {"problem": "gemm", "step_m": 64, "step_n": 64, "of": 2**40, "at": [1]}),
    ],
)
def test_sizes_beyond_any_address_space_are_refused(folder: Path, name: str, case: dict[str, Any]) -> None:
    error = refused("check", name, "--policy=early", "--case", json.dumps(case))
    assert "memory" in error["what"] or "at most" in error["found"]
