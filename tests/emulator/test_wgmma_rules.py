# ruff: noqa: E501 - PTX lines are kept whole
"""wgmma in time: fence, groups, registers and shared memory in flight, warpgroups; each rule right and wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from tileproof.emulator import Module, PtxError, Schedule, UnsupportedInstruction
from tileproof.kernels import toolchain

from tests.kit.ptx import POLICIES, clean, codes, only
from tests.kit.wgmma import (
    B_AT,
    BYTES,
    COMMIT,
    COPY_IN,
    FENCE,
    MMA,
    OUT,
    SHARED,
    ZERO,
    Wgmma,
    kernel,
    module_text,
    program,
    program_line,
    run_program,
    wait_group,
)

COVERS = "wgmma.fence wgmma.commit_group wgmma.wait_group"
START = f"{ZERO}\n{FENCE}\n"
GROUP = f"{MMA}\n{COMMIT}\n"
ALL = wait_group(0)
FROM_A = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, %rd21, 1, 1, 1, 0;"
HALF = "wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%d0, %d1, %d2, %d3}, %rd20, %rd20, 1, 1, 1, 0, 0;"
FROM_D = FROM_A.replace(
    "{%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}", "{%d4, %d5, %d6, %d7}, {%d0, %d1, %d2, %d3}"
)
INTO_A = FROM_A.replace(
    "{%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}", "{%x0, %x1, %x2, %x3}, {%d4, %d5, %d6, %d7}"
)
A_ONES = "".join(f"mov.b32 %x{k}, 0x3F803F80;\n" for k in range(4))
OTHER = MMA.replace("%d3", "%d7").replace("%d2", "%d6").replace("%d1", "%d5").replace("%d0", "%d4")
WIDER = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, %rd20, %rd20, 1, 1, 1, 0, 0;"
REFILL = "setp.eq.u32 %p4, %t, 0;\n@%p4 st.shared.b32 [dynamic+3072], 0;\n"
WARP = "shr.u32 %r30, %t, 5;\n"


def sixteens(out: np.ndarray, times: int = 1) -> bool:
    return bool((out[:4].view(np.float32) == 16.0 * times).all())


RIGHT = {
    "a group": (START + GROUP + ALL + OUT, 1),
    "products of one accumulator follow each other": (START + MMA + MMA + COMMIT + ALL + OUT, 2),
    "a second group of the same accumulator needs no fence": (START + GROUP + GROUP + ALL + OUT, 2),
    "the older of two groups": (START + GROUP + OTHER + COMMIT + wait_group(1) + OUT + ALL, 1),
    "a fence after the use": (START + GROUP + ALL + OUT + FENCE + GROUP + ALL + OUT, 2),
    "A in registers": (A_ONES + START + FROM_A + COMMIT + ALL + OUT, 1),
    "A written again after the wait": (A_ONES + START + FROM_A + COMMIT + ALL + A_ONES + FENCE + FROM_A + COMMIT + ALL + OUT, 2),
    "D as A after the wait": (A_ONES + START + HALF + COMMIT + ALL + FENCE + "\n" + FROM_D + COMMIT + ALL + ZERO + FENCE + GROUP + ALL + OUT, 1),
    "another shape over a fence": (START + GROUP + FENCE + WIDER + COMMIT + ALL + OUT, 2),
    "shared memory written after wait and barrier": (START + GROUP + ALL + "bar.sync 0;\n" + REFILL + OUT, 1),
    "shared memory written after the thread's own wait": (START + GROUP + ALL + REFILL + OUT, 1),
    "A read again after the wait": (A_ONES + START + FROM_A + COMMIT + ALL + OUT + "st.global.b32 [%rd13+2048], %x0;\n", 1),
    "an empty group": (START + GROUP + COMMIT + wait_group(1) + OUT, 1),
    "a wait before anything": (wait_group(0) + START + GROUP + ALL + OUT, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_right_programs(name: str, schedule: Schedule) -> None:
    body, times = RIGHT[name]
    out, result = run_program(body, schedule=schedule)
    clean(result)
    assert sixteens(out, times)


@pytest.mark.parametrize("text", [program(RIGHT["a group"][0]), kernel(Wgmma(8, "b1", d_type="s32"), True)])
def test_ptxas_takes_the_texts(text: str, tmp_path: Path) -> None:
    """So that a card can repeat them."""
    source = tmp_path / "k.ptx"
    source.write_text(text)
    command = [str(toolchain.find().ptxas), "-arch=sm_90a", str(source), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


# Name -> program, code, and the line at which it is found.
WRONG = {
    "D read in flight": (START + GROUP + OUT + ALL, "wgmma-in-flight", "st.global.b32 [%rd13+0]"),
    "D written in flight": (START + GROUP + "mov.b32 %d2, 7;\n" + ALL + OUT, "wgmma-in-flight", "mov.b32 %d2, 7"),
    "the younger of two groups": (START + GROUP + GROUP + wait_group(1) + OUT + ALL, "wgmma-in-flight", "st.global.b32 [%rd13+0]"),
    "not committed": (START + MMA + ALL + OUT + COMMIT + ALL, "wgmma-in-flight", "st.global.b32 [%rd13+0]"),
    "A written in flight": (A_ONES + START + FROM_A + COMMIT + "mov.b32 %x1, 5;\n" + ALL + OUT, "wgmma-in-flight", "mov.b32 %x1, 5"),
    "A read in flight": (A_ONES + START + FROM_A + COMMIT + "st.global.b32 [%rd13+2048], %x0;\n" + ALL + OUT, "wgmma-a-read", "st.global.b32 [%rd13+2048]"),
    "no proxy fence": (START + GROUP + ALL + OUT, "race-proxy-fence", ""),
    "no fence at all": (ZERO + GROUP + ALL + OUT, "wgmma-fence", MMA),
    "D written after the fence": (FENCE + ZERO + GROUP + ALL + OUT, "wgmma-fence", MMA),
    "D read since the fence": (START + GROUP + ALL + OUT + GROUP + ALL, "wgmma-fence", MMA),
    "A written after the fence": (START + A_ONES + FROM_A + COMMIT + ALL + OUT, "wgmma-fence", FROM_A),
    "another shape without a fence": (START + GROUP + WIDER + COMMIT + ALL + OUT, "wgmma-fence", WIDER),
    "D as A of the next product": (A_ONES + START + HALF + COMMIT + FENCE + "\n" + FROM_D + COMMIT + ALL, "wgmma-in-flight", FROM_D),
    "A as D of the next product": (A_ONES + START + FROM_A + COMMIT + FENCE + "\n" + INTO_A + COMMIT + ALL, "wgmma-in-flight", INTO_A),
    "shared memory written in flight": (START + GROUP + REFILL + ALL + OUT, "race-wgmma-unwaited", ""),
    "exit without a wait": (START + GROUP, "async-pending-at-exit", "ret;"),
    "exit without a commit": (START + MMA + ALL, "async-pending-at-exit", "ret;"),
    "some lanes": (START + "setp.lt.u32 %p3, %t, 100;\n@%p3 " + GROUP + ALL, "aligned-partial", MMA),
    "another B in a warp": (WARP + "cvt.u64.u32 %rd30, %r30;\nadd.s64 %rd21, %rd21, %rd30;\n" + START + GROUP + ALL, "wgmma-uniform", MMA),
    "another scale-d in a warp": (WARP + "setp.lt.u32 %p3, %r30, 2;\n" + START + MMA.replace("%rd21, 1,", "%rd21, %p3,") + COMMIT + ALL, "wgmma-uniform", "mma_async"),
    "a reserved bit of a descriptor": ("or.b64 %rd21, %rd21, 0x400000000000;\n" + START + GROUP + ALL, "mma-operands", MMA),
    "a matrix outside shared memory": ("or.b64 %rd21, %rd21, 0x3FFF;\n" + START + GROUP + ALL, "shared-out-of-bounds", MMA),
    "different instructions": (WARP + "setp.lt.u32 %p3, %r30, 2;\n" + START + "@%p3 bra LEFT;\n" + MMA + "\nbra BOTH;\nLEFT:\n" + OTHER + "\nBOTH:\n" + COMMIT + ALL, "wgmma-warpgroup", ""),
    "half a warpgroup": (START + GROUP + ALL, "wgmma-warpgroup", FENCE),
    "a warpgroup with half a warp": (START + GROUP + ALL, "aligned-partial", FENCE),
    "a warp without it": (WARP + "setp.eq.u32 %p3, %r30, 2;\n" + START + "@%p3 bra AFTER;\n" + GROUP + ALL + "\nAFTER:\n", "hang", wait_group(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("schedule", POLICIES[:3], ids=str)
def test_wrong_programs(name: str, schedule: Schedule) -> None:
    body, code, needle = WRONG[name]
    threads = {"half a warpgroup": 64, "a warpgroup with half a warp": 112}.get(name, 128)
    setup = COPY_IN.replace("fence.proxy.async.shared::cta;\n", "") if name == "no proxy fence" else COPY_IN
    _, result = run_program(body, threads, setup, schedule=schedule)
    found = only(result, code)
    if needle:
        assert found.machine.ptx_line == program_line(body, needle.split("\n")[0]), found


ONE_COPIES = COPY_IN.replace(
    "mul.wide.u32 %rd1, %t, 16;", "setp.ge.u32 %p5, %t, 128;\n@%p5 bra READY;\nmul.wide.u32 %rd1, %t, 16;", 1
).replace("fence.proxy", "READY:\nfence.proxy")
# The second warpgroup gets the first D through shared memory.
HANDED = (
    "setp.ge.u32 %p5, %t, 128;\n@%p5 bra SECOND;\n" + START + GROUP + ALL
    + "shl.b32 %r31, %t, 4;\nmov.u32 %r29, dynamic;\nadd.u32 %r31, %r31, %r29;\nst.shared.v4.b32 [%r31+0xA000], {%d0, %d1, %d2, %d3};\nSECOND:\nBARRIER\n"
    + "@!%p5 bra DONE;\nsub.u32 %r31, %t, 128;\nshl.b32 %r31, %r31, 4;\nmov.u32 %r29, dynamic;\nadd.u32 %r31, %r31, %r29;\nld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%r31+0xA000];\n"
    + FENCE + GROUP + ALL + OUT + "DONE:\n"
)  # fmt: skip


@pytest.mark.parametrize("schedule", POLICIES[:3], ids=str)
def test_accumulators_of_two_warpgroups(schedule: Schedule) -> None:
    out, result = run_program(HANDED.replace("BARRIER", "bar.sync 0;"), 256, ONE_COPIES, schedule=schedule)
    clean(result)
    assert sixteens(out.reshape(-1, 128)[1:], 2)
    _, result = run_program(HANDED.replace("BARRIER", ""), 256, ONE_COPIES, schedule=schedule)
    assert "race-unordered" in codes(result)


INTO_B = f"""
setp.eq.u32 %p6, %t, 0;
@!%p6 bra COPIED;
mov.u32 %r32, dynamic;\nadd.u32 %r32, %r32, {BYTES - SHARED - 64};
mov.u32 %r33, dynamic;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r32], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r33+{B_AT - SHARED}], [%rd0], 256, [%r32];
COPIED:
LOOP:
mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r32], 0;
@!%p7 bra LOOP;
"""


@pytest.mark.parametrize("schedule", POLICIES[:3], ids=str)
@pytest.mark.parametrize("right", [True, False])
def test_a_copy_into_b(right: bool, schedule: Schedule) -> None:
    init = f"mov.u32 %r32, dynamic;\nadd.u32 %r32, %r32, {BYTES - SHARED - 64};\nsetp.eq.u32 %p6, %t, 0;\n@%p6 mbarrier.init.shared::cta.b64 [%r32], 1;\n@%p6 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
    body = init + START + GROUP + (ALL + INTO_B if right else INTO_B + ALL) + OUT
    _, result = run_program(body, schedule=schedule)
    if right:
        clean(result)
    else:
        assert "race-wgmma-unwaited" in codes(result)


# A wait for the same phase behind the product does not come before it.
LATER = "LATER:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [%r32], 0;\n@!%p7 bra LATER;\n"
# The four warps wait for a stage, one thread frees it, and the thread 128 fills it again.
FREED = f"""
mov.u32 %r32, dynamic;\nadd.u32 %r32, %r32, {BYTES - SHARED - 64};
setp.eq.u32 %p6, %t, 0;\nsetp.eq.u32 %p4, %t, 128;\nsetp.ge.u32 %p5, %t, 128;
@%p6 mbarrier.init.shared::cta.b64 [%r32], 1;\n@%p6 mbarrier.init.shared::cta.b64 [%r32+8], 1;
bar.sync 0;
@%p5 bra PRODUCER;
FULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [%r32], 0;\n@!%p7 bra FULL;
{START}{GROUP}
WAIT
@%p6 mbarrier.arrive.shared::cta.b64 _, [%r32+8];
{ALL}
{OUT}
bra DONE;
PRODUCER:
@%p4 mbarrier.arrive.shared::cta.b64 _, [%r32];
EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [%r32+8], 0;\n@!%p7 bra EMPTY;
bar.warp.sync -1;
@%p4 mbarrier.arrive.shared::cta.b64 _, [%r32];
DONE:
"""


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_a_thread_that_has_waited_frees_a_stage_for_its_warpgroup(schedule: Schedule) -> None:
    """A product is complete only if each warp has issued it, and so has passed its wait for the stage."""
    out, result = run_program(FREED.replace("WAIT", ALL), 160, ONE_COPIES, schedule=schedule)
    clean(result)
    assert (out.view(np.float32) == 16.0).sum() == 512
    _, result = run_program(FREED.replace("WAIT", ""), 160, ONE_COPIES, schedule=schedule)
    assert "phase-lapped" in codes(result)
    other = FREED.replace("WAIT", ALL).replace(START + GROUP, START + GROUP + ALL + LATER)
    _, result = run_program(other, 160, ONE_COPIES, schedule=schedule)
    assert codes(result) & {"phase-lapped", "hang"}


@pytest.mark.parametrize("schedule", POLICIES[:3], ids=str)
def test_a_value_in_flight_is_not_there(schedule: Schedule) -> None:
    out, _ = run_program(START + GROUP + OUT + ALL, schedule=schedule)
    assert not sixteens(out)


@pytest.mark.parametrize("schedule", POLICIES[:3], ids=str)
def test_a_warp_that_does_not_wait_for_the_copies_of_the_others(schedule: Schedule) -> None:
    _, result = run_program(
        START + GROUP + ALL + OUT, setup=COPY_IN.replace("bar.sync 0;\n", ""), schedule=schedule
    )
    assert codes(result) & {"race-unordered", "race-proxy-fence", "shared-uninitialised"}


def test_the_message_of_a_hang_names_the_warps() -> None:
    body, *_ = WRONG["a warp without it"]
    _, result = run_program(body)
    machine = result.findings[0].machine
    assert machine.waiting[0].waits_for.endswith("which has not been executed by warp 2")
    assert machine.root is not None and machine.root.node.kind == "warpgroup" and machine.root.followers == 3
    assert (
        "lacks warp 2 of CTA 0" in machine.root.message and "executed 0 of them" in machine.root.evidence[0]
    )


@pytest.mark.parametrize(
    ("target", "line", "says"),
    [
        ("sm_100a", MMA, ("sm_90a", "sm_100a")), ("sm_120a", FENCE, ("sm_90a",)), ("sm_90", FENCE, ("sm_90a",)), ("sm_100", wait_group(0), ("sm_90a",)),
        ("sm_90a", "tcgen05.wait::ld.sync.aligned;", ("sm_100a", "a module for sm_90a")), ("sm_90a", "add.rn.f32x2 %rd1, %rd2, %rd3;", ("sm_100", "a module for sm_90a")),
    ],
)  # fmt: skip
def test_a_form_of_another_architecture_names_it(target: str, line: str, says: tuple[str, ...]) -> None:
    module = Module.from_ptx(module_text(line, ".reg .b32 %d<16>;", target))
    with pytest.raises(PtxError) as error:
        module.decode("k")
    assert all(word in str(error.value) for word in says)


FOUR, RDS = "{%d0, %d1, %d2, %d3}", "%rd20, %rd21"
OP = "wgmma.mma_async.sync.aligned.m64n"


@pytest.mark.parametrize(
    "line",
    [
        f"{OP}8k16.f32.bf16.bf16 {{%d0, %d1, %d2}}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}16k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0, 0;",
        f"{OP}8k16.f16.f16.f16 {FOUR}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}8k16.f32.bf16.bf16 {{%d0, %d1, %d1, %d3}}, {RDS}, 1, 1, 1, 0, 0;",
        f"{OP}8k16.f32.bf16.bf16 {FOUR}, {{%x0, %x1}}, %rd21, 1, 1, 1, 0;", f"{OP}8k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0;",
        f"{OP}8k16.f32.bf16.bf16 {FOUR}, {RDS}, 2, 1, 1, 0, 0;", f"{OP}8k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 2, 1, 0, 0;",
        f"{OP}8k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0, 0, 0;", f"{OP}8k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, -1, 0;",
        f"{OP}8k8.f32.tf32.tf32 {FOUR}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}8k32.s32.s8.s8 {FOUR}, {RDS}, 1, 1, 1;", "wgmma.wait_group.sync.aligned %r1;",
        "wgmma.wait_group.sync.aligned -1;", "wgmma.fence.sync.aligned 0;", "wgmma.commit_group.sync.aligned %r1;",
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(line: str) -> None:
    with pytest.raises((PtxError, UnsupportedInstruction)):
        Module.from_ptx(module_text(line, ".reg .b32 %d<16>;\n.reg .b32 %x<4>;")).decode("k")


@pytest.mark.parametrize(
    "line",
    [
        f"{OP}12k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}264k16.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}8k8.f32.bf16.bf16 {FOUR}, {RDS}, 1, 1, 1, 0, 0;",
        f"{OP}8k16.f16.bf16.bf16 {{%d0, %d1}}, {RDS}, 1, 1, 1, 0, 0;", f"{OP}40k32.s32.s8.s8 {FOUR}, {RDS}, 1;", f"{OP}8k32.f32.e4m3.s8 {FOUR}, {RDS}, 1, 1, 1;",
        f"{OP}8k256.s32.b1.b1.xor.popc {FOUR}, {RDS}, 1;", "wgmma.fence.aligned;",
    ],
)  # fmt: skip
def test_spellings_that_do_not_exist(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        Module.from_ptx(module_text(line, ".reg .b32 %d<16>;")).decode("k")
