# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Race checking: each row of the table of required edges, right and with one edge missing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tileproof.emulator import RunResult, Schedule, TensorMap
from tileproof.spec.machine.descriptors import InstructionDescriptor, SmemDescriptor

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, alloc, dealloc, init_barrier, run, wait

BAR, BAR2 = 1024, 1032
DESC = SmemDescriptor(0x1000, 16, 256, "32B").encode()
IDESC = InstructionDescriptor(128, 32).encode()
ISSUER = "setp.eq.u32 %p0, %t, 32;"  # thread 0 of warp 1 issues, warp 0 and the others load and store
QUARTER = (
    "and.b32 %r50, %r101, 3; shl.b32 %r50, %r50, 21; add.u32 %r51, %r100, %r50; setp.ne.u32 %p5, %t, %t;"
)
ZERO = """mov.u32 %r1, 4096; mad.lo.u32 %r1, %t, 32, %r1; st.shared.v4.b32 [%r1], {0, 0, 0, 0}; st.shared.v4.b32 [%r1+16], {0, 0, 0, 0};"""
P, SYNC = "fence.proxy.async.shared::cta;", "bar.sync 0;"
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
EIGHT = "{" + ", ".join(f"%r{60 + i}" for i in range(8)) + "}"
ZEROS = EIGHT.replace("r6", "r7")  # %r70 .. %r77
CLEAR = " ".join(f"mov.b32 %r{70 + i}, 0;" for i in range(8))
LD, WAIT_LD = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {EIGHT}, [%r51];", "tcgen05.wait::ld.sync.aligned;"
ST, WAIT_ST = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51], {ZEROS};", "tcgen05.wait::st.sync.aligned;"
MMA = f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], {DESC}, {DESC}, {IDESC}, %p5;"
COMMIT = f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR}];"
TABLE_BYTES = 4096


def tensor(body: str, schedule: Schedule, cluster: int = 1, strict: bool = False) -> RunResult:
    """128 threads, 32 TMEM columns, an mbarrier at BAR; operands at 0x1000."""
    text = f"{init_barrier(BAR)} {alloc(32)} {QUARTER} {ISSUER}\n{body}\n{dealloc(32)}"
    return run(
        text, threads=128, shared_bytes=0x4000, schedule=schedule, races=True, cluster=cluster, strict=strict
    )


READY = f"{ZERO}\n{P}\n{SYNC}\n{AFTER}"  # operands written and fenced
DONE = f"{COMMIT}\n{wait(BAR)}\n{AFTER}"

# name: (body with the edge between << and >>, code without it). Rows: what must be ordered, and by what.
TENSOR = {
    "2 proxy fence": (f"{ZERO}\n<<{P}>>\n{SYNC}\n{AFTER}\n{MMA}\n{DONE}", "race-proxy-fence"),
    "2 barrier": (f"{ZERO}\n{P}\n<<{SYNC}>>\n{AFTER}\n{MMA}\n{DONE}", "race-unordered"),
    "9 commit": (f"{READY}\n{MMA}\n<<{COMMIT}\n{wait(BAR)}>>\n{SYNC}\n{ZERO}\n{COMMIT}\n{wait(BAR, 1)}", "race-mma-unwaited"),
    "10 commit": (f"{READY}\n{MMA}\n<<{COMMIT}\n{wait(BAR)}>>\n{AFTER}\n{LD} {WAIT_LD}\n{SYNC}", "race-mma-unwaited"),
    "10 after fence": (f"{READY}\n{MMA}\n{COMMIT}\n{wait(BAR)}\n<<{AFTER}>>\n{LD} {WAIT_LD}", "race-commit-fence"),
    "13 wait": (f"{READY}\n{MMA}\n{DONE}\n{LD}\n<<{WAIT_LD}>>\n{BEFORE}\n{SYNC}\n{AFTER}\n{MMA}\n{COMMIT}\n{wait(BAR, 1)}\nadd.u32 %r9, %r60, 1;", "race-tmem-unwaited"),
    "13 before fence": (f"{READY}\n{MMA}\n{DONE}\n{LD}\n{WAIT_LD}\n<<{BEFORE}>>\n{SYNC}\n{AFTER}\n{MMA}\n{COMMIT}\n{wait(BAR, 1)}", "race-waited-fence"),
    "13 barrier": (f"{READY}\n{MMA}\n{DONE}\n{LD}\n{WAIT_LD}\n{BEFORE}\n<<{SYNC}>>\n{AFTER}\n{MMA}\n{COMMIT}\n{wait(BAR, 1)}", "hang"),
    "13 after fence": (f"{READY}\n{MMA}\n{DONE}\n{LD}\n{WAIT_LD}\n{BEFORE}\n{SYNC}\n<<{AFTER}>>\n{MMA}\n{COMMIT}\n{wait(BAR, 1)}", "race-waited-fence"),
    "14 wait": (f"{READY}\n{CLEAR}\n{ST}\n<<{WAIT_ST}>>\n{BEFORE}\n{SYNC}\n{AFTER}\n{MMA}\n{DONE}", "race-tmem-unwaited"),
    "14 before fence": (f"{READY}\n{CLEAR}\n{ST}\n{WAIT_ST}\n<<{BEFORE}>>\n{SYNC}\n{AFTER}\n{MMA}\n{DONE}", "race-waited-fence"),
    "15 commit": (f"{READY}\n{CLEAR}\n{MMA}\n<<{COMMIT}\n{wait(BAR)}>>\n{AFTER}\n{ST}\n{WAIT_ST}\n{SYNC}", "race-mma-unwaited"),
    "16 wait": (f"{CLEAR}\n{ST}\n<<{WAIT_ST}>>\n{LD} {WAIT_LD}", "race-tmem-unwaited"),
    "17 wait": (f"{CLEAR}\n{ST} {WAIT_ST}\n{LD}\n<<{WAIT_LD}>>\n{CLEAR}\n{ST} {WAIT_ST}\nadd.u32 %r9, %r60, 1;", "race-tmem-unwaited"),
    "23 completion": (f"{READY}\n{MMA}\n<<{DONE}>>", "race-mma-unwaited"),
    "12 shape": (
        f"{READY}\n{MMA}\n<<{COMMIT}\n{wait(BAR)}\n{AFTER}>>\n"
        f"@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r100], {DESC}, {DESC}, {InstructionDescriptor(128, 16).encode()}, %p5;\n"
        f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR2}];\n{wait(BAR2)}\n{AFTER}",
        "race-mma-pipeline",
    ),
}  # fmt: skip


def split(text: str) -> tuple[str, str]:
    """The body with its edge, and without."""
    return re.sub("<<|>>", "", text), re.sub("<<.*>>", "", text, flags=re.S)


def severe(result: RunResult) -> set[str]:
    """The codes of errors and warnings."""
    return {f.code for f in result.findings if f.severity != "note"}


@pytest.mark.parametrize("name", TENSOR)
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_tensor_rows(name: str, schedule: Schedule) -> None:
    body, code = TENSOR[name]
    right, wrong = split(body)
    second = f"@%p0 mbarrier.init.shared::cta.b64 [{BAR2}], 1;\nbar.sync 0;\n"
    assert severe(tensor(second + right, schedule)) == set()
    found = severe(tensor(second + wrong, schedule))
    # A missing fence shows under every schedule; a missing wait or barrier may first show as what it leads to.
    assert code in found if schedule.policy == "early" or "fence" in code else found


def test_the_fence_after_a_commit_is_asked_for_of_the_thread_that_waited() -> None:
    # An acquiring wait on the commit: a warning. Behind a further barrier, or a relaxed wait, it is an error.
    def at(wait_on: str, then: str) -> dict[str, str]:
        body = f"{READY}\n{MMA}\n{COMMIT}\n{wait_on}\n{then}\n{LD} {WAIT_LD}"
        return {f.code: f.severity for f in tensor(body, Schedule()).findings if f.severity != "note"}

    mine = "setp.lt.u32 %p6, %t, 32;\n@!%p6 bra MEET;\n" + wait(BAR) + "\nMEET:"
    assert at(wait(BAR), "") == {"race-commit-fence": "warning"}
    assert at(wait(BAR), AFTER) == {}
    assert at(mine, f"{SYNC}\n{AFTER}") == {}
    assert at(mine, SYNC) == {"race-commit-fence": "warning", "race-tcgen05-fence": "error"}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_between_mmas_of_two_shapes_what_is_missing_is_named(schedule: Schedule) -> None:
    """Commit and wait present, the fence is all that is missing: as for any access behind a commit."""
    first, second = f"{READY}\n{MMA}\n{COMMIT}\n", split(TENSOR["12 shape"][0])[1].split(MMA)[1]
    other = f"setp.ge.u32 %p6, %t, 32;\n@%p6 bra MEET;\n{wait(BAR)}\nMEET:\n{SYNC}"
    relaxed = wait(BAR).replace("try_wait.parity", "try_wait.parity.relaxed.cluster")

    def at(between: str, strict: bool = False) -> dict[str, tuple[str, bool]]:
        body = f"@%p0 mbarrier.init.shared::cta.b64 [{BAR2}], 1;\nbar.sync 0;\n{first}{between}{second}"
        return {
            f.code: (f.severity, "missing: tcgen05.fence::after_thread_sync" in f.message)
            for f in tensor(body, schedule, strict=strict).findings
            if f.severity != "note" and f.machine.instruction.startswith("tcgen05.mma")
        }

    assert at(f"{wait(BAR)}\n{AFTER}") == {}
    assert at(wait(BAR)) == {"race-commit-fence": ("warning", True)}
    assert at(wait(BAR), strict=True) == {"race-commit-fence": ("error", True)}
    assert at(f"{relaxed}\n{AFTER}") == {}
    # Another thread's wait, or none: errors.
    assert at(other) == {"race-tcgen05-fence": ("error", True)}
    assert at("") == {"race-mma-pipeline": ("error", False)}


@pytest.mark.parametrize("name", ["13 before fence", "13 after fence", "14 before fence"])
def test_a_fence_missing_behind_a_completed_load_or_store_is_a_warning(name: str) -> None:
    """By the letter an error; no kernel of CUTLASS's C++ or Triton's has these fences (docs/findings.md)."""
    right, wrong = split(TENSOR[name][0])
    for strict, severity in ((False, "warning"), (True, "error")):
        found = {f.code: f.severity for f in tensor(wrong, Schedule(), strict=strict).findings}
        assert found["race-waited-fence"] == severity
        assert "race-waited-fence" not in {f.code for f in tensor(right, Schedule(), strict=strict).findings}


def test_an_mma_overwrites_what_an_earlier_one_reads() -> None:
    """PTX ISA 9.7.16.6.2 keeps MMAs of one accumulator and shape in order, no reader before a writer; CUTLASS
    relies on it (docs/findings.md): a warning, with strict an error.
    """
    reader = MMA.replace(f"{DESC}, {DESC}", f"[%r100], {DESC}").replace("[%r100],", "[%r52],", 1)
    body = f"add.u32 %r52, %r100, 32;\n{READY}\n{CLEAR}\n{ST}\n{WAIT_ST}\n{BEFORE}\n{SYNC}\n{AFTER}\n{reader}\n<<{DONE}>>\n{SYNC}\n{MMA}\n"
    for edge, parity in zip(split(body), (1, 0), strict=True):
        text = f"{init_barrier(BAR)} {alloc(64)} {QUARTER} {ISSUER}\n{edge}{COMMIT}\n{wait(BAR, parity)}\n{AFTER}\n{dealloc(64)}"
        for strict in (False, True):
            result = run(text, threads=128, shared_bytes=0x4000, races=True, strict=strict)
            found = {f.code: f.severity for f in result.findings if f.severity != "note"}
            assert found == ({} if parity else {"race-mma-reused": "error" if strict else "warning"})


def copies(body: str, schedule: Schedule, threads: int = 64, strict: bool = False) -> RunResult:
    """A 2-d map of 32 x 32 f32 as argument 0, the same buffer's address as argument 1; tiles of 4 KiB at 0x1000."""
    memory = Memory()
    table = memory.buffer(np.zeros((32, 32), np.float32), name="table")
    tiles = TensorMap.tiled(table, shape=(32, 32), strides=(128,), box=(32, 32))
    return run(
        f"{init_barrier(BAR)} {ISSUER}\n{body}", [tiles, table], memory=memory, threads=threads,
        shared_bytes=0x4000, schedule=schedule, races=True, strict=strict,
    )  # fmt: skip


MINE = "mov.u32 %r1, 4096; mad.lo.u32 %r1, %t, 16, %r1;"
WRITE, READ = (
    f"{MINE} st.shared.v4.b32 [%r1], {{0, 0, 0, 0}};",
    f"{MINE} ld.shared.v4.b32 {{%r2, %r3, %r4, %r5}}, [%r1];",
)
LOAD = (
    f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{BAR}], {TABLE_BYTES};\n"
    f"@%p0 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [4096], [%a0, {{0, 0}}], [{BAR}];"
)
STORE = "@%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%a0, {0, 0}], [4096];\n@%p0 cp.async.bulk.commit_group;"
READS_DONE, ALL_DONE = "@%p0 cp.async.bulk.wait_group.read 0;", "@%p0 cp.async.bulk.wait_group 0;"
FILL = f"{LOAD}\n{wait(BAR)}"
GLOBAL_WRITE, GLOBAL_READ = (
    "mad.wide.u32 %rd1, %t, 4, %a1; st.global.b32 [%rd1], %t;",
    "mad.wide.u32 %rd1, %t, 4, %a1; ld.global.b32 %r9, [%rd1];",
)

COPIES = {
    "1 barrier": (f"{WRITE}\n<<{SYNC}>>\nmov.u32 %r7, 63; sub.u32 %r7, %r7, %t; mad.lo.u32 %r7, %r7, 16, 4096; ld.shared.u32 %r8, [%r7];", "race-unordered"),
    "3 proxy fence": (f"{FILL}\n{WRITE}\n<<{P}>>\n{SYNC}\n{STORE}\n{ALL_DONE}", "race-proxy-fence"),
    "3 barrier": (f"{FILL}\n{WRITE}\n{P}\n<<{SYNC}>>\n{STORE}\n{ALL_DONE}", "race-unordered"),
    "4 proxy fence": (f"{WRITE}\n<<{P}>>\n{SYNC}\n{FILL}", "race-proxy-write"),
    "5 barrier": (f"{FILL}\n{READ}\n<<{SYNC}>>\n{LOAD}\n{wait(BAR, 1)}", "race-unordered"),
    "6 wait": (f"{LOAD}\n<<{wait(BAR)}>>\n{READ}\n{SYNC}\n{wait(BAR)}", "race-copy-unwaited"),
    "24 wait": (f"{FILL}\n{SYNC}\n{STORE}\n<<{READS_DONE}>>\n{SYNC}\n{WRITE}\n{ALL_DONE}", "race-copy-unwaited"),
    "24 barrier": (f"{FILL}\n{SYNC}\n{STORE}\n{READS_DONE}\n<<{SYNC}>>\n{WRITE}\n{ALL_DONE}", "race-unordered"),
    "25 wait": (f"{FILL}\n{SYNC}\n{STORE}\n<<{ALL_DONE}>>\n{SYNC}\n{GLOBAL_READ}\n{ALL_DONE}", "race-copy-unwaited"),
    "26 proxy fence": (f"{GLOBAL_WRITE}\n<<fence.proxy.async.global;>>\n{SYNC}\n{FILL}", "race-proxy-fence"),
    "warp barrier": (f"{WRITE}\n<<bar.warp.sync -1;>>\nxor.b32 %r7, %t, 1; mad.lo.u32 %r7, %r7, 16, 4096; ld.shared.u32 %r8, [%r7];", "race-unordered"),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_copy_rows(name: str, schedule: Schedule) -> None:
    body, code = COPIES[name]
    right, wrong = split(body)
    assert severe(copies(right, schedule)) == set()
    found = severe(copies(wrong, schedule))
    assert code in found if schedule.policy == "early" or "fence" in code else found


def test_an_mma_after_the_wait_for_its_operands() -> None:
    # Rows 2 and 7: the wait orders, its missing tcgen05 fence is a note.
    def at(edge: str) -> set[str]:
        memory = Memory()
        table = memory.buffer(np.zeros((32, 32), np.float32), name="table")
        tiles = TensorMap.tiled(table, shape=(32, 32), strides=(128,), box=(32, 32))
        body = f"{init_barrier(BAR)} @%p0 mbarrier.init.shared::cta.b64 [{BAR2}], 1;\n{alloc(32)} {QUARTER} {ISSUER}\n{LOAD}\n{edge}\n{MMA}\n"
        body += f"@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{BAR2}];\n{wait(BAR2)}\n{AFTER}\n{dealloc(32)}"
        result = run(body, [tiles], memory=memory, threads=128, shared_bytes=0x4000, races=True)
        return severe(result) | {f.code for f in result.findings if f.code == "race-operand-fence"}

    assert at(f"{wait(BAR)}\n{AFTER}") == set()
    assert at(wait(BAR)) == {"race-operand-fence"}
    stored = tensor(f"{ZERO}\n{P}\n{SYNC}\n{MMA}\n{DONE}", Schedule())
    assert {f.severity for f in stored.findings if f.code == "race-operand-fence"} == {"note"}
    assert "race-copy-unwaited" in at(AFTER)


def test_the_wrong_kind_of_proxy_fence_does_not_help() -> None:
    body = COPIES["4 proxy fence"][0].replace(f"<<{P}>>", "fence.proxy.async.global;")
    assert "race-proxy-write" in severe(copies(body, Schedule()))


REDUCE = "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [1024], 1024;\n@%p0 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [8192], [4096], 1024, [1024];"
SECOND = "st.shared.v4.b32 [%r1+4096], {0, 0, 0, 0};"


def test_an_overwrite_of_what_threads_wrote_is_a_warning() -> None:
    # A reduction reads what it writes: an error, as a store that reads it.
    right, wrong = split(COPIES["4 proxy fence"][0])
    for strict, severity in ((False, "warning"), (True, "error")):
        found = {f.code: f.severity for f in copies(wrong, Schedule(), strict=strict).findings}
        assert found == {"race-proxy-write": severity, "race-mbarrier-init-fence": "note"}
        assert not copies(right, Schedule(), strict=strict).findings

    def reduced(fence: str) -> set[str]:
        body = f"{WRITE}\n{P}\n{SECOND}\n{fence}\n{SYNC}\n{REDUCE}\n{wait(BAR)}"
        return {f.code for f in copies(body, Schedule()).errors}

    assert reduced(P) == set()
    assert "race-proxy-fence" in reduced("")


def test_a_fence_on_the_reading_side_is_a_note() -> None:
    result = copies(f"{WRITE}\n{SYNC}\n{P}\n{FILL}", Schedule())
    assert {f.code for f in result.findings} == {"race-proxy-reader"}
    assert {f.severity for f in result.findings} == {"note"}


def test_an_overwrite_of_what_threads_read_is_a_note() -> None:
    result = copies(split(COPIES["5 barrier"][0])[0], Schedule())
    assert {f.code for f in result.findings} == {"race-proxy-read", "race-mbarrier-init-fence"}
    assert {f.severity for f in result.findings} == {"note"}


def test_one_lane_publishes_before_its_warp_has_joined() -> None:
    # R12: the elected lane's arrival does not order the stores of the other lanes.
    body = "{WRITE}\n@\n@%p1 mbarrier.arrive.shared::cta.b64 _, [{BAR}];\nsetp.ge.u32 %p2, %t, 32;\n@!%p2 bra END;\n{WAIT}\nld.shared.u32 %r8, [4160];\nEND:"
    text = body.format(WRITE=f"setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p3, %t, 32; {MINE} @%p3 st.shared.v4.b32 [%r1], {{0, 0, 0, 0}};", BAR=BAR, WAIT=wait(BAR))  # fmt: skip
    assert severe(copies(text.replace("\n@\n", "\nbar.warp.sync -1;\n"), Schedule())) == set()
    found = [
        f for f in copies(text.replace("\n@\n", "\n"), Schedule()).findings if f.code == "race-unordered"
    ]
    assert len(found) == 1
    assert (
        found[0].machine.race is not None and found[0].machine.race.writes and found[0].machine.race.warp == 0
    )


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_distributed_shared_memory(schedule: Schedule) -> None:
    # Row 28: a store into the peer, the owner's load; row 30: the peer must not exit before.
    body = "mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mov.u32 %r2, 4096; mapa.shared::cluster.u32 %r3, %r2, %r1;\n"
    body += "mad.lo.u32 %r3, %t, 4, %r3; st.shared::cluster.u32 [%r3], %t;\n{}\nmad.lo.u32 %r4, %t, 4, 4096; add.u32 %r4, %r4, %own; ld.shared.u32 %r5, [%r4];"

    def at(edge: str, end: str = "") -> RunResult:
        return run(
            f"{CLUSTER_SYNC}\n" + body.format(edge) + f"\n{end}", cluster=2, threads=32, shared_bytes=0x2000,
            schedule=schedule, races=True,
        )  # fmt: skip

    assert severe(at(CLUSTER_SYNC)) == set()
    relaxed = CLUSTER_SYNC.replace("arrive", "arrive.relaxed")
    assert {"race-unordered"} <= severe(at(relaxed))


@pytest.mark.parametrize(
    ("release", "acquire", "expected"),
    [
        ("", "", {"race-scope-default"}), (".release.cluster", ".acquire.cluster", set()),
        (".relaxed.cluster", "", {"race-unordered"}), ("", ".relaxed.cluster", {"race-unordered"}),
        (".release.cta", "", {"race-unordered"}),
    ],
)  # fmt: skip
def test_order_and_scope_of_a_remote_arrival(release: str, acquire: str, expected: set[str]) -> None:
    # cutlass#3643: an arrival at the peer's barrier with .cta scope does not release to it.
    body = f"""{ELECT_INIT}\n{CLUSTER_SYNC}\nmov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mov.u32 %r2, 4096;
mapa.shared::cluster.u32 %r3, %r2, %r1; mov.u32 %r2, {BAR}; mapa.shared::cluster.u32 %r4, %r2, %r1;
@%p0 st.shared::cluster.u32 [%r3], 1;\n@%p0 mbarrier.arrive{release}.shared::cluster.b64 _, [%r4];
{wait(BAR).replace("try_wait.parity", "try_wait.parity" + acquire)}\nld.shared.u32 %r5, [4096];\n{CLUSTER_SYNC}"""
    result = run(body, cluster=2, shared_bytes=0x2000, races=True, schedule=Schedule("random", 3))
    assert severe(result) == expected


def test_a_relaxed_wait_orders_tensor_operations_only() -> None:
    relaxed = wait(BAR).replace("try_wait.parity", "try_wait.parity.relaxed.cluster")
    body = f"{READY}\n{MMA}\n{COMMIT}\n{relaxed}\n<<{AFTER}>>\n{LD} {WAIT_LD}"
    right, wrong = split(body)
    assert severe(tensor(right, Schedule())) == set()
    assert severe(tensor(wrong, Schedule())) == {"race-mma-unwaited"}
    copied = f"{LOAD}\n{relaxed}\n{READ}\n{SYNC}"
    assert severe(copies(copied, Schedule())) == {"race-copy-unwaited"}


def exits(last: str) -> RunResult:
    body = "mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mov.u32 %r2, 4096; mapa.shared::cluster.u32 %r3, %r2, %r1;"
    body += f"\n{CLUSTER_SYNC}\nst.shared::cluster.u32 [%r3], 1;\n{last}"
    return run(body, cluster=2, threads=32, shared_bytes=0x2000, races=True, schedule=Schedule("random", 5))


def test_a_cta_exits_while_its_peer_may_still_write_into_it() -> None:
    assert severe(exits(CLUSTER_SYNC.replace("st.", "st."))) <= {"race-unordered"}
    assert severe(exits("bar.sync 0;")) & {"race-exit", "access-after-exit"}


def test_mbarrier_init() -> None:
    init = f"{ISSUER} @%p0 mbarrier.init.shared::cta.b64 [{BAR}], 64;"
    use = f"mbarrier.arrive.shared::cta.b64 _, [{BAR}];"
    late = run(f"{init}\n{SYNC}\n{use}", threads=64, shared_bytes=64, races=True)
    assert severe(late) == set()
    # Warp 0 waits in a spin on memory that orders nothing, so that the barrier is there and yet not ordered.
    spin = "mov.u32 %r9, 0;\nSPIN: add.u32 %r9, %r9, 1; setp.lt.u32 %p7, %r9, 20000; setp.lt.u32 %p8, %t, 32; and.pred %p7, %p7, %p8;\n@%p7 bra SPIN;"
    early = run(
        f"{init}\n{spin}\n{use}", threads=64, shared_bytes=64, races=True, schedule=Schedule("random", 1)
    )
    assert severe(early) & {"race-mbarrier-init", "mbarrier-uninitialised"}


def test_a_relaxed_cluster_barrier_carries_fenced_inits_only() -> None:
    init = f"{ELECT_INIT}\n@@{CLUSTER_SYNC.replace('arrive', 'arrive.relaxed')}\n"
    remote = f"mov.u32 %r1, %cluster_ctarank; xor.b32 %r1, %r1, 1; mov.u32 %r2, {BAR}; mapa.shared::cluster.u32 %r3, %r2, %r1;\nsetp.eq.u32 %p1, %t, 0; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r3];\n{CLUSTER_SYNC}"

    def at(fence: str, sync: str = "") -> RunResult:
        text = init.replace("@@", fence + "\n")
        text = text.replace("arrive.relaxed", "arrive") if sync else text
        return run(text + remote, cluster=2, shared_bytes=64, races=True, schedule=Schedule("early"))

    assert severe(at("fence.mbarrier_init.release.cluster;")) == set()
    assert {f.code: f.severity for f in at("").findings} == {"race-mbarrier-init-relaxed": "warning"}
    plain = at("", "release")
    assert {f.code: f.severity for f in plain.findings} == {"race-mbarrier-init-fence": "note"}


ELECT_INIT = f"setp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared::cta.b64 [{BAR}], 1;"


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_flags_in_global_memory(schedule: Schedule) -> None:
    # Row 33: data published by a release, seen by an acquire; a red does not acquire, a plain flag orders nothing.
    def at(publish: str, seen: str) -> RunResult:
        memory = Memory()
        data, flag = memory.buffer(np.zeros(64, np.uint32)), memory.buffer(np.zeros(1, np.uint32))
        body = f"""setp.ge.u32 %p1, %t, 32;\n@%p1 bra READER;
mad.wide.u32 %rd1, %t, 4, %a0; st.global.u32 [%rd1], %t;\nbar.warp.sync -1;\nsetp.eq.u32 %p2, %t, 0;
{publish}\nbra END;\nREADER:\n{seen}\nsub.u32 %r2, %t, 32; mad.wide.u32 %rd1, %r2, 4, %a0; ld.global.u32 %r3, [%rd1];\nEND:"""
        return run(body, [data, flag], memory=memory, threads=64, schedule=schedule, races=True)

    acquire = "SPIN: ld.acquire.gpu.global.u32 %r1, [%a1]; setp.eq.u32 %p3, %r1, 0;\n@%p3 bra SPIN;"
    relaxed = acquire.replace("acquire", "relaxed")
    release = "@%p2 st.release.gpu.global.u32 [%a1], 1;"
    fenced = "fence.acq_rel.gpu;\n@%p2 red.relaxed.gpu.global.add.u32 [%a1], 1;"
    assert severe(at(release, acquire)) == set()
    assert severe(at(fenced, acquire)) == set()
    assert severe(at(fenced, relaxed + "\nfence.acq_rel.gpu;")) == set()
    assert severe(at(release, relaxed)) == {"race-unordered"}
    assert severe(at(release.replace("release", "relaxed"), acquire)) == {"race-unordered"}


def test_clusters_that_share_memory() -> None:
    def at(code: str) -> RunResult:
        memory = Memory()
        data = memory.buffer(np.zeros(32, np.uint32))
        return run(f"mad.wide.u32 %rd1, %t, 4, %a0;\n{code}", [data], memory=memory, grid=3, races=True)

    assert severe(at("red.global.add.u32 [%rd1], 1;")) == set()
    assert severe(at("ld.global.u32 %r1, [%rd1];")) == set()
    assert severe(at("mov.u32 %r1, %ctaid.x; st.global.u32 [%rd1], %r1;")) == {"race-clusters"}
    assert severe(at("red.global.add.u32 [%rd1], 1; ld.global.u32 %r1, [%rd1];")) == {"race-clusters"}


def test_both_accesses_are_named() -> None:
    result = copies(split(COPIES["6 wait"][0])[1], Schedule("early"))
    found = next(f for f in result.findings if f.code == "race-copy-unwaited")
    assert found.machine.race is not None
    assert found.machine.instruction.startswith("ld.shared") and found.machine.race.instruction.startswith(
        "cp.async.bulk.tensor"
    )
    assert (
        found.machine.race.warp,
        found.machine.race.lanes,
        found.machine.race.writes,
        found.machine.race.then_writes,
    ) == (
        1,
        1,
        True,
        False,
    )
    assert found.machine.race.execution == found.machine.race.then_execution == 1
    assert "mbarrier phase" in found.machine.race.missing and 4096 <= found.machine.address < 8192


def test_without_races_nothing_of_this_is_said() -> None:
    body, _ = COPIES["4 proxy fence"]
    memory = Memory()
    table = memory.buffer(np.zeros((32, 32), np.float32))
    tiles = TensorMap.tiled(table, shape=(32, 32), strides=(128,), box=(32, 32))
    result = run(
        f"{init_barrier(BAR)} {ISSUER}\n{split(body)[1]}",
        [tiles, table],
        memory=memory,
        threads=64,
        shared_bytes=0x4000,
    )
    assert not result.findings


def test_a_lane_that_arrives_after_the_phase_is_complete() -> None:
    # A count of 31 for 32 lanes: the phase does not order the last lane's store.
    def at(count: int) -> set[str]:
        body = f"""@%p0 mbarrier.init.shared::cta.b64 [{BAR}], {count};\nbar.sync 0;\nsetp.ge.u32 %p2, %t, 32;
mad.lo.u32 %r1, %t, 4, 1088;\n@%p2 bra READER;\nst.shared.u32 [%r1], %t;\nmbarrier.arrive.shared::cta.b64 _, [{BAR}];\nbra END;
READER:\n{wait(BAR)}\nsub.u32 %r1, %r1, 128; ld.shared.u32 %r2, [%r1];\nEND:"""
        return severe(run(f"{ISSUER}\n{body}", threads=64, shared_bytes=256, races=True))

    assert at(32) == set()
    assert at(31) == {"race-unordered", "phase-overrun"}


def test_lanes_with_words_of_their_own_in_one_granule() -> None:
    # Each lane reads back what it wrote, then its neighbour's word without and with a warp barrier.
    def at(code: str) -> set[str]:
        return severe(
            run(
                f"mad.lo.u32 %r1, %t, 4, 1024; st.shared.u32 [%r1], %t;\n{code}", shared_bytes=128, races=True
            )
        )

    neighbour = "xor.b32 %r2, %t, 1; mad.lo.u32 %r2, %r2, 4, 1024; ld.shared.u32 %r3, [%r2];"
    assert at("ld.shared.u32 %r3, [%r1];") == set()
    assert at(f"bar.warp.sync -1;\n{neighbour}") == set()
    assert at(neighbour) == {"race-unordered"}
    assert at("ld.shared.u16 %h3, [%r1];") == set()
    # Halves of a word by two lanes, read as a word.
    halves = "mad.lo.u32 %r2, %t, 2, 1024; st.shared.b16 [%r2], 1; setp.lt.u32 %p1, %t, 16;"
    assert at(f"bar.warp.sync -1;\n{halves}\nbar.warp.sync -1;\n@%p1 ld.shared.u32 %r3, [%r1];") == set()
    assert at(f"bar.warp.sync -1;\n{halves}\n@%p1 ld.shared.u32 %r3, [%r1];") == {"race-unordered"}
    # Two words a lane, each by an instruction of its own: what one instruction touches has gaps.
    pair = "mad.lo.u32 %r2, %t, 8, 1024; setp.lt.u32 %p1, %t, 16;"
    words = "@%p1 ld.shared.u32 %r3, [%r2]; @%p1 ld.shared.u32 %r4, [%r2+4];"
    own = "@%p1 st.shared.u32 [%r2], %r4; @%p1 st.shared.u32 [%r2+4], %r3;"
    assert at(f"bar.warp.sync -1;\n{pair}\n{words}\n{words}\n{own}") == set()
    other = "xor.b32 %r2, %r2, 8;"
    assert at(f"bar.warp.sync -1;\n{pair}\n{words}\n{other}\n{own}") == {"race-unordered"}
    assert at(f"bar.warp.sync -1;\n{pair}\n{words}\n{other}\nbar.warp.sync -1;\n{own}") == set()


def test_lanes_of_one_store_at_the_same_bytes() -> None:
    def at(code: str) -> set[str]:
        return severe(run(f"mov.u32 %r1, 1024;\n{code}", shared_bytes=256, races=True))

    halved = "shr.u32 %r2, %t, 1; mad.lo.u32 %r1, %r2, 4, 1024;"
    assert at(f"{halved} st.shared.u32 [%r1], %t;") == {"race-unordered"}
    assert at(f"{halved} st.shared.u32 [%r1], %r2;") == set()  # both leave the same
    assert at("st.shared.u32 [%r1], %t;") == {"race-unordered"}
    assert at("setp.eq.u32 %p1, %t, 7; @%p1 st.shared.u32 [%r1], %t;") == set()
    assert at("st.relaxed.cta.shared.u32 [%r1], %t;") == set()  # the last one of some order stays
    assert at("st.shared.u32 [%r1], 0; bar.warp.sync -1; red.shared.add.u32 [%r1], %t;") == set()


def test_unrolled_copies_of_a_finding_are_reported_once() -> None:
    body = "\n".join(f".loc 1 7 0\nst.shared.u32 [{1024 + 4 * i}], %t;" for i in range(4))
    result = run(body, threads=64, shared_bytes=64, races=True, module='.file 1 "kernel.cu"')
    assert len(result.findings) == 4
    (cause,) = result.causes
    assert (cause.code, cause.places, cause.count) == (
        "race-unordered",
        ("kernel.cu:7",),
        sum(f.count for f in result.findings),
    )


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_an_operand_that_nobody_wrote_over_the_word_of_alloc(schedule: Schedule) -> None:
    """What 16 bytes hold is unknown where nobody wrote some of them: their read needs no order after the others."""

    def at(body: str) -> set[str]:
        text = (
            f"{init_barrier(BAR)} {alloc(32, slot=0x1000)} {QUARTER} {ISSUER}\n{body}\n{SYNC}\n{dealloc(32)}"
        )
        found = run(text, threads=128, shared_bytes=0x4000, schedule=schedule, races=True)
        return {f.code for f in found.errors}

    word = "@%p0 st.shared.b32 [0x1004], 0;"
    use = f"{LD} {WAIT_LD}\n@%p0 st.shared.b32 [0x3000], %r60;\nsetp.eq.u32 %p6, %r60, 1;\n@%p6 trap;"
    for before in ("", word):
        assert at(f"{before}\n{MMA}\n{DONE}") == set()
        assert at(f"{before}\n{MMA}\n{DONE}\n{use}") == {"shared-uninitialised"}
    assert at(f"{MMA}\n{SYNC}\n{ZERO}\n{COMMIT}\n{wait(BAR)}") == {"race-mma-unwaited"}
    whole = "@%p0 st.shared.b32 [0x1004], 0; @%p0 st.shared.b32 [0x1008], 0; @%p0 st.shared.b32 [0x100c], 0;"
    assert at(f"{whole}\n{MMA}\n{DONE}") == {"race-proxy-fence"}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_two_stores_of_what_nobody_wrote(schedule: Schedule) -> None:
    """Their order decides nothing; that they reach an output is the error."""
    store = "cp.async.bulk.global.shared::cta.bulk_group [%a0], [{0}], 64; cp.async.bulk.commit_group;"
    both = f"{store.format(2048)} {store.format(3072)} cp.async.bulk.wait_group 0;"
    write = "st.shared.v4.b32 [{0}], {{{0}, 0, 0, 0}}; fence.proxy.async.shared::cta;"

    def at(before: str) -> set[str]:
        memory = Memory()
        out = memory.empty(16, np.uint32)
        found = run(f"{before} {both}", [out], memory=memory, threads=1, shared_bytes=4096, schedule=schedule, races=True)  # fmt: skip
        return {f.code for f in found.errors}

    assert at("") == {"shared-uninitialised"}
    written = " ".join(write.format(2048 + 1024 * k + 16 * i) for k in (0, 1) for i in range(4))
    assert at(written) == {"race-copy-unwaited"}
    assert at(" ".join(write.format(2048 + 16 * i) for i in range(4))) == {"shared-uninitialised", "race-copy-unwaited"}  # fmt: skip
