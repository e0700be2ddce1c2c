"""tileproof_log.cuh: compiled by nvcc, run on the emulator with planted hangs, read without guessing."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.logs.hangs.reader import read_text
from tileproof.conformance.beside.logs.hangs.render import diagnosis
from tileproof.conformance.beside.logs.hangs.text import text
from tileproof.conformance.cli.explain import explain
from tileproof.emulator import Memory, Module, Schedule
from tileproof.kernels import toolchain

from tests.kit.paths import ROOT

SOURCE = Path(__file__).parent / "header" / "ring.cu"
INCLUDE = ROOT / "kernels" / "include"
# Plant: cause, who is to blame, the barrier that the root waits on, a part of the fix.
PLANTS = {
    1: ("one-cta", ("lead", 0), "go", "with mask 0b11, not 0b1"),
    2: ("skipped-arrive", ("math", 1), "empty", "arrive on empty[1] after the wait on full[1]"),
    3: ("too-few-arrivals", None, "empty", "not 2"),
    4: ("wrong-parity", ("math", 1), "full", "flip the phase bit"),
    5: ("bytes-missing", ("load", 1), "full", "expect 128 bytes on full[0], or issue copies of 256"),
    6: ("producer-stopped", ("load", 1), "full", "must arrive on full[0] (k-block 2)"),
    7: ("wrong-stage", ("math", 1), "empty", "arrive on empty[1] (k-block 1), not on empty[0]"),
    8: ("bytes-missing", ("load", 1), "full", "issue the copy of 256 bytes"),
}


def compiled(folder: Path, *flags: str, source: Path = SOURCE) -> str:
    out = folder / "out.ptx"
    command = [
        str(toolchain.find().nvcc),
        "-std=c++17",
        "-ptx",
        f"-I{INCLUDE}",
        *flags,
        str(source),
        "-o",
        str(out),
    ]
    subprocess.run(command, check=True, timeout=120)
    return out.read_text()


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    return Module.from_ptx(compiled(tmp_path_factory.mktemp("header"), "-arch=sm_100a"))


def printed(module: Module, plant: int, seed: int = 1) -> str:
    memory = Memory()
    data = memory.buffer(np.zeros(256, dtype=np.uint8))
    result = module.launch(
        "ring", grid=(2, 1, 1), block=(96, 1, 1), cluster=(2, 1, 1), args=[data, np.int32(plant)],
        memory=memory, schedule=Schedule("random", seed), livelock_limit=100_000,
    )  # fmt: skip
    assert [finding.code for finding in result.findings] == (["hang"] if plant else [])
    return result.printf


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_hang_is_named_with_certainty(module: Module, plant: int) -> None:
    code, blamed, barrier, fix = PLANTS[plant]
    for seed in (1, 2, 3):
        found = diagnosis(read_text(printed(module, plant, seed)))
        first = found["causes"][0]
        assert (found["outcome"], first["code"]) == ("hang", code), text(found)
        # Two arrivals of a phase may be those of both CTAs.
        assert found["certainty"] == ("likely" if plant == 3 else "certain"), text(found)
        assert found["root"] is not None
        assert found["root"]["barrier"] == barrier and not found["others"], text(found)
        culprit = first["culprit"]
        assert blamed == (culprit and (culprit["role"], culprit["cta"]))
        assert fix in first["fix"]
        assert found["root"]["state"]


def test_a_run_that_ends_well(module: Module) -> None:
    log = read_text(printed(module, 0))
    assert log.exact and not log.unread
    assert diagnosis(log)["outcome"] == "no hang seen"


@pytest.mark.parametrize("plant", PLANTS)
def test_missing_lines_are_known_by_number_and_nothing_is_certain(module: Module, plant: int) -> None:
    lines = printed(module, plant).splitlines(keepends=True)
    for at in range(12, len(lines) - 12, 9):
        number = int(lines[at].split()[4])
        last = max(int(line.split()[4]) for line in lines if line.split()[1:4] == lines[at].split()[1:4])
        if number == last:
            continue  # that a role's last line is missing nothing can tell
        found = diagnosis(read_text("".join(lines[:at] + lines[at + 1 :])))
        assert any("lines of" in remark and "missing" in remark for remark in found["remarks"]), at
        assert found["certainty"] != "certain", text(found)
    head = diagnosis(read_text("".join(lines[30:])))
    assert head["certainty"] != "certain"


def test_other_lines_between_and_two_runs(module: Module) -> None:
    first, second = printed(module, 0), printed(module, 1)
    found = diagnosis(read_text("Launching\n" + first + "wait, what\n" + second))
    assert [run["outcome"] for run in found["runs"]] == ["no hang seen", "hang"]
    assert found["causes"][0]["code"] == "one-cta"


def test_several_threads_under_one_role_are_told(module: Module) -> None:
    lines = printed(module, 1).splitlines(keepends=True)
    found = diagnosis(read_text("".join(line for line in lines for _ in range(2))))
    assert any("several threads print as the same role" in remark for remark in found["remarks"])
    assert found["certainty"] != "certain"


def test_without_the_macro_nothing_is_printed(tmp_path: Path) -> None:
    source = tmp_path / "quiet.cu"
    source.write_text(SOURCE.read_text().replace("#define TILEPROOF_LOG\n", ""))
    ptx = compiled(tmp_path, "-arch=sm_100a", source=source)
    assert "vprintf" not in ptx
    assert not printed(Module.from_ptx(ptx), 0)


def test_it_compiles_for_an_architecture_without_clusters(tmp_path: Path) -> None:
    source = tmp_path / "old.cu"
    source.write_text(
        "#define TILEPROOF_LOG\n#include <tileproof_log.cuh>\n"
        '__global__ void k() { tileproof::Log("a").end(); }\n'
    )
    assert "vprintf" in compiled(tmp_path, "-arch=sm_80", source=source)


def test_where_the_header_is() -> None:
    result = CliRunner().invoke(explain, ["--include"], standalone_mode=False)
    assert (Path(result.output.strip()) / "tileproof_log.cuh").is_file()
