"""The recording runtime on a small host program: what it writes down is what the replay does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tileproof.conformance.beside.record.programs import build, record
from tileproof.conformance.beside.record.recording import Recording, Replay
from tileproof.emulator import Memory
from tileproof.emulator.errors import LaunchError

PROGRAM = r"""
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
struct Pair { const float *in; float *out; int n; char pad[3]; };
__global__ void scale(Pair p, float by, unsigned char one) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.out[i] = p.in[i] * by + one;
}
int main(int count, char **words) {
    int n = count > 1 ? std::atoi(words[1]) : 256;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = i;
    Pair p{nullptr, nullptr, n, {}};
    float *copy;
    cudaMalloc((void **)&p.in, n * 4);
    cudaMalloc((void **)&p.out, n * 4);
    cudaMalloc((void **)&copy, n * 4);
    cudaMemcpy((void *)p.in, host.data(), n * 4, cudaMemcpyHostToDevice);
    scale<<<(n + 63) / 64, 64>>>(p, 2.0f, 3);
    cudaMemset(copy, 0, n * 4);
    cudaMemcpy(copy, p.in, n * 2, cudaMemcpyDeviceToDevice);
    p.in = copy;
    scale<<<dim3((n + 31) / 32, 1, 1), dim3(32, 1, 1)>>>(p, 1.0f, 0);
    cudaDeviceSynchronize();
    cudaFree((void *)p.in);
    return count > 2;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory):
    source = tmp_path_factory.mktemp("record") / "scale.cu"
    source.write_text(PROGRAM)
    return build(source)


def test_launches_and_copies_in_order(program) -> None:
    recording = record(program, ["200"])
    first, second = recording.launches
    assert (first.grid, first.block, first.cluster) == ((4, 1, 1), (64, 1, 1), (1, 1, 1))
    assert (second.grid, second.block) == ((7, 1, 1), (32, 1, 1))
    assert [len(p) for p in first.parameters] == [24, 4, 1]
    replay = Replay(recording, program.module)
    launch = replay.to(lambda launch: "scale" in launch.entry)
    assert not replay.run(launch).findings
    out = replay.memory.buffers[1]
    x = np.arange(200, dtype=np.float32)
    np.testing.assert_array_equal(out.numpy().view(np.float32), 2 * x + 3)
    launch = replay.to(lambda launch: "scale" in launch.entry)
    assert not replay.run(launch, races=True).findings
    np.testing.assert_array_equal(out.numpy().view(np.float32), np.where(x < 100, x, 0))
    with pytest.raises(LaunchError, match="no such launch"):
        replay.to(lambda launch: True)


def test_memory_that_the_program_never_wrote_is_poison(program) -> None:
    recording = record(program, ["64"])
    kept = Recording(tuple(e for e in recording.events if e["event"] != "write"), recording.data)
    replay = Replay(kept, program.module)
    result = replay.run(replay.to(lambda launch: True))
    assert {f.code for f in result.errors} == {"global-uninitialised"}


def test_a_freed_allocation_is_gone(program) -> None:
    replay = Replay(record(program, ["64"]), program.module)
    replay.to(lambda launch: True)
    launch = replay.to(lambda launch: True)
    with pytest.raises(LaunchError):
        replay.to(lambda launch: True)
    assert {f.code for f in replay.run(launch).errors} == {"global-out-of-bounds"}


def test_a_program_that_fails_after_its_launches_is_recorded(program) -> None:
    assert len(record(program, ["64", "x"]).launches) == 2


def test_what_cannot_be_recorded_is_named(tmp_path: Path) -> None:
    source = tmp_path / "nothing.cu"
    source.write_text("int main() { return 7; }\n")
    with pytest.raises(LaunchError, match="did not use CUDA"):
        record(build(source), [])


def test_two_recordings_have_the_same_addresses(program) -> None:
    first, second = (record(program, ["64"]) for _ in range(2))
    assert first == second


def test_a_recorded_buffer_keeps_its_address_and_its_distance() -> None:
    memory = Memory()
    first = memory.empty(16, np.uint8, "a", 0x1000_0040_0000)
    assert first.address == 0x1000_0040_0000
    with pytest.raises(LaunchError, match="guard"):
        memory.empty(16, np.uint8, "b", 0x1000_0040_0010)
    assert memory.empty(16, np.uint8).address > first.address + 16
    with pytest.raises(LaunchError, match="does not fit"):
        first.write(np.zeros(17, dtype=np.uint8))
    first.write(np.ones(4, dtype=np.uint8), 12)
    assert first.written().tolist() == [False] * 12 + [True] * 4
