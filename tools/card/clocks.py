"""Small timed loops, each with the figure of the timing model that it measures.

    python -m tileproof.tools.card.clocks NAME cuda|emulator

A loop runs twice, with N and 2 N steps; the difference over N is the clocks of a step, without what surrounds
the loop. `spec/machine/timing.py` predicts it as an interval. On the emulator the loop runs, and its clocks
say nothing of a card: the row is then "recorded", never "as expected".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import LaunchBuilder
from tileproof.kernels.launch.contents import ArrayContent
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.timing import CASES, Case, Timing, mma_clocks, timing_of
from tileproof.tools.card.launches import Emulated
from tileproof.tools.card.row import Answer
from tileproof.tools.silicon.replay import Observer

STEPS, THREADS = 64, 128
SLOT, BAR, BUFFER = 1024, 1032, 2048  # of static shared memory: TMEM's address, an mbarrier, operands
SHARED_BYTES = 40 * 1024
WAIT = """
AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%bar], %parity; @!%done bra AGAIN;
xor.b32 %parity, %parity, 1;"""
COMMIT = "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];"
Predicted = Callable[[Timing, Case], float]


@dataclass(frozen=True)
class Loop:
    """A timed loop.

    step: PTX of a step, executed by `warps` warps. `%base` is the tensor memory's address in the warp's own
        lanes, `%first` holds in thread 0, `%row` is a shared address of 16 KB of zeros, `%w<64>` are free.
    predicted: clocks of a step by the timing model, with `figures` of `spec/machine/timing.py`.
    """

    step: str
    figures: tuple[str, ...]
    predicted: Predicted
    tensor_memory: bool = False
    warps: int = 1
    cluster: int = 1


def _sum(*names: str) -> Predicted:
    return lambda timing, case: sum(getattr(getattr(timing, name), case) for name in names)


def _registers(count: int) -> str:
    return "{" + ", ".join(f"%w{n}" for n in range(count)) + "}"


def _mma(m: int, n: int) -> str:
    """An MMA of K = 16 on operands in shared memory, with the accumulator kept."""
    operand = SmemDescriptor(0, 128, 8 * 32, "32B").encode()
    words = InstructionDescriptor(m, n, "bf16", "bf16", "f32").encode()
    return f"""
    cvt.u64.u32 %d, %row; shr.u64 %d, %d, 4; and.b64 %d, %d, 0x3fff; or.b64 %d, %d, {operand};
    mov.b32 %w0, {words};
    @%first tcgen05.mma.cta_group::1.kind::f16 [%base], %d, %d, %w0, %first;"""


LOOPS = {
    "shared load, chain": Loop(
        "add.u32 %w1, %row, %w0; ld.shared.u32 %w0, [%w1];",  # the sum is part of the load's address
        ("shared_load",), _sum("shared_load"),
    ),
    "ex2, chain": Loop("ex2.approx.ftz.f32 %f0, %f0;", ("transcendental",), _sum("transcendental")),
    "mbarrier, own arrival and wait": Loop(
        "@%first mbarrier.arrive.shared::cta.b64 _, [%bar];" + WAIT,
        ("arrive", "wake", "barrier_look"), _sum("arrive", "wake", "barrier_look"),
    ),
    "fence.proxy.async": Loop(
        "st.shared.u32 [%row], %w0; fence.proxy.async.shared::cta;", ("fence",), _sum("fence")
    ),
    "barrier.cluster": Loop(
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
        ("memory_barrier", "cluster_barrier"),
        _sum("memory_barrier", "cluster_barrier"), warps=4, cluster=2,
    ),
    "bulk load of 1 KB and wait": Loop(
        "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;"
        "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%row], [%zeros], 1024, [%bar];" + WAIT,
        ("copy_latency", "wake"), _sum("copy_latency", "wake"),
    ),
    "tensor memory: load of 1 column and wait": Loop(
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%w0}, [%base]; tcgen05.wait::ld.sync.aligned;",
        ("tmem_load_latency",), _sum("tmem_load_latency"), tensor_memory=True,
    ),
    "tensor memory: store of 1 column and wait": Loop(
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%base], {%w0}; tcgen05.wait::st.sync.aligned;",
        ("tmem_store_latency",), _sum("tmem_store_latency"), tensor_memory=True,
    ),
    "tensor memory: 4 warps load 64 columns": Loop(
        f"tcgen05.ld.sync.aligned.32x32b.x64.b32 {_registers(64)}, [%base]; tcgen05.wait::ld.sync.aligned;",
        ("tmem_rate", "tmem_load_latency"),
        lambda timing, case: 128 * 64 * 4 / getattr(timing.tmem_rate, case)
        + getattr(timing.tmem_load_latency, case),
        tensor_memory=True, warps=4,
    ),
    "tensor memory: alloc and dealloc of 32 columns": Loop(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32; ld.shared.u32 %w0, [%slot];"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %w0, 32;",
        ("tmem_alloc",), _sum("tmem_alloc"), tensor_memory=True,
    ),
    "commit of nothing and wait": Loop(
        COMMIT + WAIT, ("commit", "wake"), _sum("commit", "wake"), tensor_memory=True
    ),
    "MMA 128 x 64, commit and wait": Loop(
        _mma(128, 64) + COMMIT + WAIT, ("mma_latency", "commit", "wake"),
        lambda timing, case: _sum("mma_latency", "commit", "wake")(timing, case)
        + mma_clocks(128, 64, False, False, False),
        tensor_memory=True,
    ),
    "MMA 128 x 256, eight, commit and wait": Loop(
        _mma(128, 256) * 8 + COMMIT + WAIT, ("mma_latency", "mma_issue", "commit", "wake"),
        lambda timing, case: _sum("mma_latency", "commit", "wake")(timing, case)
        + 8 * mma_clocks(128, 256, False, False, False),
        tensor_memory=True,
    ),
}  # fmt: skip
# Guessed figures without a loop here.
WITHOUT = {
    "kernel_gap": "two kernels of a stream: the driver of launch files waits between launches",
    "cta_start": "a CTA's start after another CTA's end: needs a full card",
    "memory_rate": "a copy of gigabytes: launch files hold their buffers in host memory",
    "read_queue": "fitted to a whole kernel",
    "addition_queue": "fitted to a whole kernel",
    "other": "no program isolates it",
    "read_operands": "no program isolates it",
    "uniform": "no program isolates it",
    "special_register": "benchmarks/silicon/latency.cu measures it",
    "copy_rate": "benchmarks/silicon/sharing.cu measures it",
    "register_change": "needs warps that wait for registers of others",
}


def ptx(loop: Loop) -> str:
    """The kernel: `steps` steps three times; the clocks of the last round go to global memory."""
    memory = "tcgen05.{0}.cta_group::1.sync.aligned.{1}"
    alloc = memory.format("alloc", "shared::cta.b32 [%slot], 256;") if loop.tensor_memory else ""
    free = memory.format("dealloc", "b32 %space, 256;") if loop.tensor_memory else ""
    target = "sm_100a" if loop.tensor_memory else "sm_90"
    prologue = f"""
    mov.u32 %slot, bytes; add.u32 %row, %slot, {BUFFER}; add.u32 %bar, %slot, {BAR};
    add.u32 %slot, %slot, {SLOT};
    @%first mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
    mov.u32 %w1, %tid.x; shl.b32 %w1, %w1, 4; add.u32 %w1, %w1, %row; mov.b32 %w2, 0; mov.b32 %w3, 0;
    ZERO: st.shared.v4.b32 [%w1], {{%w2, %w2, %w2, %w2}}; add.u32 %w1, %w1, {16 * THREADS};
    add.u32 %w3, %w3, 1; setp.lt.u32 %done, %w3, 16; @%done bra ZERO;
    fence.proxy.async.shared::cta;
    setp.ge.u32 %other, %warp, 1; @%other bra ALLOCATED; {alloc}
    ALLOCATED: bar.sync 0;
    mov.b32 %base, 0; {"ld.shared.u32 %base, [%slot]; mov.b32 %space, %base;" if loop.tensor_memory else ""}
    shl.b32 %w1, %warp, 21; add.u32 %base, %base, %w1;"""
    fill = ""
    if loop.tensor_memory:
        fill = (
            "mov.b32 %w0, 0; mov.b32 %w3, 0;\n"
            + """
    CLEAR: add.u32 %w1, %base, %w3; tcgen05.st.sync.aligned.32x32b.x1.b32 [%w1], {%w0};
    add.u32 %w3, %w3, 1; setp.lt.u32 %done, %w3, 256; @%done bra CLEAR;
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;
    tcgen05.fence::after_thread_sync;"""
        )
    return f""".version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 from, .param .u32 steps)
{{
.reg .pred %first, %other, %done;
.reg .b32 %w<64>;
.reg .f32 %f0;
.reg .b32 %slot, %row, %bar, %base, %space, %warp, %parity, %round, %step, %steps;
.reg .b64 %out, %zeros, %start, %end, %d;
.shared .align 1024 .b8 bytes[{SHARED_BYTES}];
ld.param.u64 %out, [out]; ld.param.u64 %zeros, [from]; ld.param.u32 %steps, [steps];
mov.u32 %w0, %tid.x; setp.eq.u32 %first, %w0, 0; shr.u32 %warp, %w0, 5;
{prologue}
{fill}
mov.b32 %w0, 0; mov.f32 %f0, 0f00000000; mov.b32 %parity, 0; mov.b32 %round, 0;
setp.ge.u32 %other, %warp, {loop.warps}; @%other bra OVER;
ROUND: mov.b32 %step, 0; mov.u64 %start, %clock64;
STEP:
{loop.step}
add.u32 %step, %step, 1; setp.lt.u32 %done, %step, %steps; @%done bra STEP;
mov.u64 %end, %clock64; add.u32 %round, %round, 1; setp.lt.u32 %done, %round, 3; @%done bra ROUND;
sub.u64 %end, %end, %start;
mov.u32 %w1, %ctaid.x; setp.eq.and.u32 %done, %w1, 0, %first; @%done st.global.u64 [%out], %end;
mov.b32 %w2, %f0; add.u32 %w2, %w2, %w0; setp.eq.u32 %other, %w2, 12345; @%other st.global.u32 [%out+8], %w2;
OVER: {"tcgen05.fence::before_thread_sync;" if loop.tensor_memory else ""} bar.sync 0;
setp.ge.u32 %other, %warp, 1; @%other bra FREED; {free}
FREED: ret;
}}
"""


def launch_of(name: str, loop: Loop, steps: int) -> LaunchFile:
    """The loop with this many steps a round."""
    made = LaunchBuilder(f"clocks: {name}", ptx(loop))
    clocks = made.add(LaunchBuffer("clocks", "uint64", (2,), "inout", ArrayContent(np.zeros(2, np.uint64))))
    zeros = made.add(LaunchBuffer("zeros", "uint8", (1024,), "input", ArrayContent(np.zeros(1024, np.uint8))))
    made.launch(
        "k", grid=(loop.cluster, 1, 1), cluster=(loop.cluster, 1, 1), block=(THREADS, 1, 1),
        arguments=[clocks, zeros, ScalarArgument("u32", steps)],
    )  # fmt: skip
    return made.file()


def measure(name: str, driver: Observer) -> float:
    """Clocks of a step; TileproofError where the launch is refused or fails."""
    clocks = []
    for steps in (STEPS, 2 * STEPS):
        seen = driver.observe(launch_of(name, LOOPS[name], steps))
        if seen.findings:
            raise TileproofError("the loop failed", where=name, found=str(seen.findings[0]))
        clocks.append(int(seen.outputs["clocks"].values[0]))
    return (clocks[1] - clocks[0]) / STEPS


def answer(name: str, clocks: float, target: str) -> Answer:
    """The clocks beside the model's interval for a card of this target."""
    loop, timing = LOOPS[name], timing_of(target)
    cases = {case: round(loop.predicted(timing, case), 1) for case in CASES}
    data = {"clocks": round(clocks, 1), "predicted": cases, "figures": loop.figures}
    if min(cases.values()) <= clocks <= max(cases.values()):
        return Answer("as expected", data=data)
    return Answer("differs", f"{clocks:.1f} clocks; predicted {cases['best']} to {cases['worst']}", data)


def run(name: str, driver: str) -> Answer:
    """Measure the loop `name` on `driver`."""
    if driver == "emulator":
        measure(name, Emulated())
        return Answer("recorded", "ran on the emulator, whose clocks are not a card's")
    with CudaDriver() as card:
        try:
            facts = card.start()
            clocks = measure(name, card)
        except TileproofError as error:
            return Answer("not run", error.found or str(error))
        target = {"sm_90": "sm_90", "sm_100": "sm_100a"}.get(facts.arch)
    if target is None:
        return Answer("recorded", f"no figures for {facts.arch}", {"clocks": round(clocks, 1)})
    return answer(name, clocks, target)


def main(arguments: list[str]) -> None:
    """Print the answer of the row."""
    run(*arguments).print()


if __name__ == "__main__":
    main(sys.argv[1:])
