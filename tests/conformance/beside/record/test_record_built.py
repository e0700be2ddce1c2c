"""Programs built with the flags that `tileproof record --flags` prints, and what they print."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from tileproof.conformance.beside.record import recorder
from tileproof.conformance.cli.app import main
from tileproof.kernels import toolchain

PROGRAM = r"""
#include <cstdio>
#include <cuda.h>
__global__ void greet(int n, int bad) {
  printf("thread %d of %d\n", threadIdx.x, n);
  if (bad) asm("trap;");
}
int main(int count, char** words) {
  cudaFuncAttributes about = {};
  cudaFuncGetAttributes(&about, greet);
  int driver = 0;
  cuDriverGetVersion(&driver);
  std::printf("PTX %d on %d, driver %d\n", about.ptxVersion, about.binaryVersion, driver);
  greet<<<1, 2>>>(7, count > 1);
  const int code = cudaDeviceSynchronize() | cudaGetLastError();
  std::printf("after it, %d\n", code);
}
"""
RAN = "PTX {} on 100, driver 13000\nthread 0 of 7\nthread 1 of 7\nafter it, {}\n"


GRID = r"""
#include <cooperative_groups.h>
#include <cstdio>
__global__ void turn(int* values, int n) {
  auto grid = cooperative_groups::this_grid();
  const int mine = grid.thread_rank();
  for (int step = 0; step < 3; ++step) {
    const int next = values[(mine + blockDim.x) % n];
    grid.sync();
    values[mine] = next + 1;
    grid.sync();
  }
}
int main() {
  const int n = 4 * 32;
  int *values, host[n];
  cudaMallocManaged(&values, sizeof host);
  for (int i = 0; i < n; ++i) values[i] = i;
  void* arguments[] = {&values, (void*)&n};
  for (int again = 0; again < 2; ++again)
    cudaLaunchCooperativeKernel((const void*)turn, 4, 32, arguments, 0, nullptr);
  if (cudaDeviceSynchronize()) return 2;
  for (int i = 0; i < n; ++i)
    if (values[i] != (i + 6 * 32) % n + 6) return 1;
  turn<<<4, 32>>>(values, n);  // not cooperative: its sync() ends in a trap
  return cudaDeviceSynchronize() == 719 || cudaGetLastError() == 719 ? 0 : 3;
}
"""


def built(folder: Path, flags: list[str], source: str = PROGRAM) -> Path:
    """The program, compiled and linked by one command of nvcc."""
    (folder / "greet.cu").write_text(source)
    command = [str(toolchain.find().nvcc), *flags, str(folder / "greet.cu"), "-o", str(folder / "greet")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return folder / "greet"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    printed = CliRunner().invoke(main, ["record", "--flags"])
    assert printed.exit_code == 0
    return built(tmp_path_factory.mktemp("flags"), shlex.split(printed.output))


def test_the_flags_link_a_program_that_prints(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = recorder.record([str(program)], run=True)
    assert done.problem is None and not done.findings
    assert capfd.readouterr().out == RAN.format(100, 0)
    assert done.printed == {0: "thread 0 of 7\nthread 1 of 7\n"}


def test_what_a_kernel_printed_before_its_failure(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = recorder.record([str(program), "trap"], run=True)
    assert capfd.readouterr().out == RAN.format(100, 719)
    assert [call.code for call in done.failed] == [719] and "trap" in done.failed[0].why


def test_without_run_no_kernel_prints(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not recorder.record([str(program)]).printed
    assert "thread" not in capfd.readouterr().out


def test_json_has_what_kernels_print(program: Path, tmp_path: Path) -> None:
    asked = ["record", "--run", "--json", "-o", str(tmp_path), "--", str(program)]
    told = json.loads(CliRunner().invoke(main, asked).output)
    assert told["printed"] == [{"launch": 0, "text": "thread 0 of 7\nthread 1 of 7\n"}]


def test_the_ptx_version_is_that_of_the_module(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = [flag.replace("compute_100a", "compute_90") for flag in recorder.flags()]
    assert recorder.record([str(built(tmp_path, flags))], run=True).problem is None
    assert capfd.readouterr().out == RAN.format(90, 0)


def test_a_program_for_hopper(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = CliRunner().invoke(main, ["record", "--flags", "--hopper"]).output
    assert "compute_90a" in flags
    words = ["--run", "-o", str(tmp_path / "out"), "--", str(built(tmp_path, shlex.split(flags)))]
    assert CliRunner().invoke(main, ["record", "--hopper", *words]).exit_code == 0
    assert capfd.readouterr().out == RAN.format(90, 0)
    refused = CliRunner().invoke(main, ["record", *words])
    assert refused.exit_code == 2
    assert "its PTX is for sm_90a; record it with --hopper" in refused.stderr


def test_a_program_for_blackwell_on_hopper(program: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["record", "--hopper", "--run", "-o", str(tmp_path), "--", str(program)])
    assert done.exit_code == 2 and "its PTX is for sm_100a; record it without --hopper" in done.stderr


def test_a_program_is_missing() -> None:
    done = CliRunner().invoke(main, ["record", "--run"])
    assert done.exit_code == 2 and "PROGRAM" in done.stderr


def test_a_grid_that_synchronises(tmp_path: Path) -> None:
    done = recorder.record([str(built(tmp_path, recorder.flags(), GRID))], run=True)
    assert (done.exit_code, done.problem) == (0, None)
    codes = {number: [finding.code for finding in found] for number, found in done.findings.items()}
    assert codes == {2: ["trap"]}
