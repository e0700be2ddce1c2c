"""A launch file in JSON of a stranger: it runs no command here, and reads no file without an end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tileproof.conformance.cases import resolve
from tileproof.conformance.launches.modules import compiled, load
from tileproof.kernels.launch import jsonform
from tileproof.kernels.launch.contents import FileBytes
from tileproof.kernels.launch.model import LaunchModule, PtxFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.finding_text import printable

from tests.kit.launch_files import scale

KERNEL = 'extern "C" __global__ void k(int* y) { *y = X; }\n'
COMMANDS = (
    ("-ccbin", "./runs"), ("-ccbin=./runs",), ("--compiler-bindir=./runs",),
    ("-Xcompiler", "-wrapper,./runs"),
    ("-Xcompiler=-wrapper,./runs",), ("-optf", "options"), ("--options-file=options",), ("@options",),
    ("-DX=$(./runs)",), ("-DX=`./runs`",), ('-DX="$(./runs)"',), ("-I$(./runs)",), ("-DX=1\n-ccbin=./runs",),
    ("-DX=1;./runs",), ("-DX=1|./runs",), ("-DX=1", "-o", "kernel.cu"), ("-keep",), ("--run",), ("-lX",),
)  # fmt: skip


@pytest.mark.parametrize("flags", COMMANDS, ids=" ".join)
def test_no_flag_runs_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """nvcc runs its host compiler, reads files of options and gives its command line to a shell."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs.write_text("#!/bin/sh\necho > ran\n")
    runs.chmod(0o755)
    Path("options").write_text("-ccbin ./runs")
    Path("kernel.cu").write_text(KERNEL)
    with pytest.raises(TileproofError, match="this flag of nvcc is not allowed in a launch file"):
        compiled(Path("kernel.cu"), flags, "sm_100a")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "name", ["$(echo>ran).cu", "`echo>ran`.cu", "a b.cu", '"$(echo>ran)".cu', "-optf.cu"]
)
def test_no_name_of_a_source_runs_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(KERNEL)
    with pytest.raises(TileproofError, match="characters with a meaning in nvcc's shell"):
        compiled(Path(name), (), "sm_100a")
    with pytest.raises(TileproofError, match="this target of nvcc"):
        compiled(Path(name), (), "sm_100a -ccbin ./runs")
    assert not Path("ran").exists()


def test_flags_that_change_the_ptx_are_taken(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text(KERNEL)
    flags = (
        "-DX=7",
        "-UY",
        f"-I{tmp_path}",
        "-std=c++20",
        "-O3",
        "--use_fast_math",
        "-fmad=false",
        "-maxrregcount=64",
    )
    assert "7;" in compiled(source, flags, "sm_90a").read_text()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.bin"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    launch = replace(scale(), folder=tmp_path)
    x = next(buffer for buffer in launch.buffers if buffer.name == "x")
    with pytest.raises(TileproofError, match="not a regular file"):
        replace(x, content=FileBytes("x.bin")).elements(tmp_path)
    with pytest.raises(TileproofError, match="not a regular file"):
        load(replace(launch, modules=(LaunchModule("m", PtxFile("x.bin")),)))


def test_names_that_a_terminal_would_obey_are_refused() -> None:
    data = json.loads(jsonform.text(scale()))
    assert jsonform.parse(data, Path()).name == "scale"
    for name in ("scale\nCLEAN scale", "\x1b[2Jscale", "scale\rCLEAN", "scale\x9b"):
        with pytest.raises(TileproofError, match="a control character in a name"):
            jsonform.parse(data | {"name": name}, Path())
        buffer = data["buffers"][0] | {"name": name}
        with pytest.raises(TileproofError, match=r"buffers\[0\].name"):
            jsonform.parse(data | {"buffers": [buffer, *data["buffers"][1:]]}, Path())
    assert printable("a\x1b[2J\tb\r") == "a\\x1b[2J\tb\\r"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, '{"schema_version": 1' + "0" * 5000 + "}"],
    ids=["deep", "objects", "digits"],
)  # fmt: skip
def test_json_that_python_cannot_read_is_an_error(tmp_path: Path, text: str) -> None:
    """Also on a line of `judge --many`, where the other lines have their answers."""
    path = tmp_path / "launch.json"
    path.write_text(text)
    with pytest.raises(TileproofError):
        resolve.launch_file(path)
    line = '{"id": 1, "launch": ' + text + "}"
    jsonform.write(scale(), tmp_path / "right.json")
    done = subprocess.run(
        [sys.executable, "-m", "tileproof", "judge", "--many", "--schedules", "2"],
        input=f"{line}\nright.json\n",
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    told = {answer["number"]: answer["verdict"] for answer in map(json.loads, done.stdout.splitlines())}
    assert told[1] == "error" and told[2] != "error" and "Traceback" not in done.stderr, done
