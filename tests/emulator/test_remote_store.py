# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""st.async and red.async to a peer's shared memory, st.bulk."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import PtxError, Schedule, UnsupportedInstruction

from tests.kit.ptx import CLUSTER_SYNC, POLICIES, Memory, clean, codes, init_barrier, run, wait

COVERS = "st.async red.async st.bulk"

BAR, DATA, DONE = 1024, 2048, "mbarrier::complete_tx::bytes"
PEER = f"mov.u32 %r20, %cluster_ctarank; xor.b32 %r21, %r20, 1; mapa.shared::cluster.u32 %r22, {DATA}, %r21; mapa.shared::cluster.u32 %r23, {BAR}, %r21;"
FORMS = [("b32", 1), ("u32", 2), ("f32", 4), ("b64", 1), ("s64", 2)]


def exchange(send: str, size: int, prepare: str = "") -> str:
    """Each thread sends `size` bytes to the peer by `send` (to [%r24], signalling [%r23]) and stores what came."""
    words = " ".join(
        f"ld.shared.u32 %r30, [%r25+{4 * k}]; st.global.u32 [%rd2+{4 * k}], %r30;" for k in range(size // 4)
    )
    return f"""
    {init_barrier(BAR)} {PEER} mad.lo.u32 %r24, %t, {size}, %r22; mad.lo.u32 %r25, %t, {size}, {DATA}; add.u32 %r25, %r25, %own; mad.lo.u32 %r26, %r20, 32, %t;
    mad.wide.u32 %rd1, %r26, {size}, %a1; mad.wide.u32 %rd2, %r26, {size}, %a0; {prepare}
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], {32 * size}; fence.proxy.async; {CLUSTER_SYNC}
    {send}
    {wait(BAR)} {words} {CLUSTER_SYNC}"""


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 3)])
@pytest.mark.parametrize(("type_", "count"), FORMS)
def test_stores_come_with_their_bytes(type_: str, count: int, schedule: Schedule) -> None:
    size = count * int(type_[1:]) // 8
    data = np.random.default_rng(2).integers(0, 256, (2, 32, size), dtype=np.uint8)
    bits, register = ("b64", "%rd") if "64" in type_ else ("b32", "%f" if "f" in type_ else "%r")
    names = [f"{register}{10 + k}" for k in range(count)]
    loads = " ".join(f"ld.global.{bits} {name}, [%rd1+{k * size // count}];" for k, name in enumerate(names))
    value = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    vector = f".v{count}" if count > 1 else ""
    body = exchange(
        f"{loads} st.async.weak.shared::cluster.{DONE}{vector}.{type_} [%r24], {value}, [%r23];", size
    )
    memory = Memory()
    out = memory.empty((2, 32, size), np.uint8)
    args = [out, memory.buffer(data)]
    clean(run(body, args, memory=memory, cluster=2, shared_bytes=4096, schedule=schedule, races=True))
    assert (out.numpy() == data[::-1]).all()
    # Without the wait the owner reads what has not come.
    start, end = body.index("WAIT_"), body.index("ld.shared.u32 %r30")
    late = run(
        body[:start] + body[end:],
        args,
        memory=memory,
        cluster=2,
        shared_bytes=4096,
        schedule=schedule,
        races=True,
    )
    assert codes(late) & {"race-copy-unwaited", "shared-pending", "shared-uninitialised"}


@pytest.mark.parametrize("schedule", POLICIES)
def test_a_byte_count_that_is_too_large_hangs(schedule: Schedule) -> None:
    body = (
        exchange(f"st.async.{DONE}.b32 [%rd24], 7, [%rd23];", 4)
        .replace("{DATA}", "")
        .replace(f"[{BAR}], 128", f"[{BAR}], 132")
    )
    body = body.replace("st.async", "cvt.u64.u32 %rd24, %r24; cvt.u64.u32 %rd23, %r23; st.async")
    memory = Memory()
    result = run(
        body,
        [memory.empty(64, np.uint32), memory.buffer(np.zeros(64, np.uint32))],
        memory=memory,
        cluster=2,
        shared_bytes=4096,
        schedule=schedule,
    )
    hang = next(f for f in result.errors if f.code == "hang")
    assert "4 bytes" in str(hang)


OPERATIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
REDUCTIONS = [
    (op, t)
    for op, types in {
        "add": "u32 s32 u64 s64",
        "min": "u32 s32",
        "max": "u32 s32",
        "and": "b32",
        "or": "b32",
        "xor": "b32",
    }.items()
    for t in types.split()
]


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(("op", "type_"), REDUCTIONS)
def test_reductions_are_atomic(op: str, type_: str, schedule: Schedule) -> None:
    """All 32 lanes of the peer change the first cell, the own ones theirs."""
    size = int(type_[1:]) // 8
    kind = np.dtype(f"{'i' if type_[0] == 's' else 'u'}{size}")
    data = np.random.default_rng(4).integers(0, 1 << 30, (2, 32), dtype=np.int64).astype(kind)
    register, bits = ("%r10", "b32") if size == 4 else ("%rd10", "b64")
    prepare = f"ld.global.{bits} {register}, [%rd1]; st.shared.{bits} [%r25], {register};"
    send = f"red.async.relaxed.cluster.shared::cluster.{DONE}.{op}.{type_} [%r22], {register}, [%r23];"
    memory = Memory()
    out = memory.empty((2, 32), kind)
    args = [out, memory.buffer(data)]
    clean(
        run(
            exchange(send, size, prepare),
            args,
            memory=memory,
            cluster=2,
            shared_bytes=4096,
            schedule=schedule,
            races=True,
        )
    )
    for rank in range(2):
        want = OPERATIONS[op].reduce(np.concatenate([data[rank, :1], data[1 - rank]]), dtype=kind)
        assert out.numpy()[rank, 0] == want
        assert (out.numpy()[rank, 1:] == data[rank, 1:]).all()


def test_counters_wrap() -> None:
    data = np.zeros((2, 32), np.uint32)
    for op, want in (("inc", 32 % 5), ("dec", (-32) % 5)):
        send = f"red.async.relaxed.cluster.shared::cluster.{DONE}.{op}.u32 [%r22], 4, [%r23];"
        memory = Memory()
        out = memory.empty((2, 32), np.uint32)
        clean(
            run(
                exchange(send, 4, "st.shared.b32 [%r25], 0;"),
                [out, memory.buffer(data)],
                memory=memory,
                cluster=2,
                shared_bytes=4096,
            )
        )
        assert (out.numpy()[:, 0] == want).all()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"st.async.weak.shared::cluster.{DONE}.v2.b32 [%r22+4], {{1, 2}}, [%r23];", "misaligned"),
        (f"st.async.weak.shared::cluster.{DONE}.b32 [%r22], 1, [{BAR}];", "tma-barrier-cta"),
        (f"st.async.weak.shared::cluster.{DONE}.b32 [0x5000800], 1, [0x5000400];", "shared-no-such-cta"),
        (f"st.async.weak.shared::cluster.{DONE}.b32 [%r22], 1, [%r22];", "mbarrier-uninitialised"),
        (f"st.async.weak.shared::cluster.{DONE}.b32 [%r22+65536], 1, [%r23];", "shared-out-of-bounds"),
    ],
)
def test_misuse(line: str, code: str) -> None:
    body = f"{init_barrier(BAR)} {PEER} setp.eq.and.u32 %p1, %r20, 0, %p0; {CLUSTER_SYNC} @%p1 {line} {CLUSTER_SYNC}"
    assert code in codes(run(body, [], cluster=2, shared_bytes=4096))


@pytest.mark.parametrize("line", [f"st.async.weak.shared::cluster.{DONE}.v4.b64 [%r1], {{%rd1, %rd2, %rd3, %rd4}}, [%r2];",
                                  f"red.async.relaxed.cluster.shared::cluster.{DONE}.add.f32 [%r1], %f1, [%r2];"])  # fmt: skip
def test_other_forms_are_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(line)


@pytest.mark.parametrize("address", ["[2048]", "[%rd5]"])
def test_bulk_zeros(address: str) -> None:
    """One thread clears 1016 bytes; the rest stays."""
    form = "st.bulk.weak.shared::cta" if address == "[2048]" else "st.bulk"
    body = f"""
    mad.lo.u32 %r1, %t, 8, 2048; st.shared.v2.u32 [%r1], {{7, 7}}; bar.sync 0; setp.eq.u32 %p0, %t, 0;
    mov.u64 %rd5, 2048; cvta.shared.u64 %rd5, %rd5; mov.u64 %rd6, 1016; @%p0 {form} {address}, %rd6, 0; BARRIER
    ld.shared.b64 %rd1, [%r1]; mad.wide.u32 %rd2, %t, 8, %a0; st.global.b64 [%rd2], %rd1;"""
    memory = Memory()
    out = memory.empty(256, np.uint32)
    clean(
        run(
            body.replace("BARRIER", "bar.sync 0;"),
            [out],
            memory=memory,
            threads=128,
            shared_bytes=4096,
            races=True,
        )
    )
    assert (out.numpy()[:254] == 0).all() and (out.numpy()[254:] == 7).all()
    unordered = run(
        body.replace("BARRIER", ""), [out], memory=memory, threads=128, shared_bytes=4096, races=True
    )
    assert codes(unordered) == {"race-unordered"}


def test_bulk_zeros_misused() -> None:
    for line, code in (("st.bulk.shared::cta [2052], 8, 0;", "misaligned"), ("st.bulk.shared::cta [2048], 12, 0;", "misaligned"),
                       ("st.bulk [%a0], 8, 0;", "shared-wrong-window"), ("st.bulk.shared::cta [2048], 8192, 0;", "shared-out-of-bounds")):  # fmt: skip
        memory = Memory()
        assert codes(
            run(line, [memory.buffer(np.zeros(8, np.uint64))], memory=memory, threads=1, shared_bytes=4096)
        ) == {code}
    with pytest.raises(PtxError):
        run("st.bulk.shared::cta [2048], 8, 1;")


# CTA 0 writes the datum and raises the flag by the asynchronous store; CTA 1 waits for the flag and reads the datum.
RELEASED = """
setp.ne.u32 %p0, %t, 0;
@%p0 bra DONE;
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READER;
DATUM
SEND
bra DONE;
READER:
ld.ACQUIRE.global.u32 %r2, [%a0];
setp.ne.u32 %p2, %r2, 1;
@%p2 bra READER;
ld.global.u32 %r3, [%a1];
st.global.u32 [%a2], %r3;
DONE:
"""


def released(send: str, schedule: Schedule, *, acquire: str = "acquire.gpu", cluster: int = 1, datum: str = "st.global.u32 [%a1], 7;", threads: int = 32) -> tuple[set[str], int]:  # fmt: skip
    memory = Memory()
    flag, data, out = (memory.buffer(np.zeros(1, np.uint32)) for _ in range(3))
    body = RELEASED.replace("SEND", send).replace("ACQUIRE", acquire).replace("DATUM", datum)
    result = run(body, [flag, data, out], memory=memory, grid=2, cluster=cluster, threads=threads, resident=2, races=True, schedule=schedule)  # fmt: skip
    return codes(result), int(out.numpy()[0])


@pytest.mark.parametrize("schedule", [*POLICIES, Schedule("starve", 3)], ids=str)
@pytest.mark.parametrize("threads", [1, 32])
def test_a_release_store_to_global_memory_releases(threads: int, schedule: Schedule) -> None:
    """PTX ISA 9.7.9.12: a strong store of .release semantics at its scope, in the generic proxy."""
    for send in (
        "st.async.release.gpu.global.u32 [%a0], 1;", "st.async.mmio.release.sys.b32 [%a0], 1;",
        "red.async.release.gpu.global.add.u32 [%a0], 1;",
    ):  # fmt: skip
        for cluster in (1, 2):
            assert released(send, schedule, cluster=cluster, threads=threads) == (set(), 7), send
    # A plain asynchronous write of the flag does not exist; a relaxed read of it does, and a datum written after it.
    send = "st.async.release.gpu.global.u32 [%a0], 1;"
    assert released(send, schedule, acquire="relaxed.gpu")[0] == {"race-clusters"}
    assert "race-scope" in released(send, schedule, acquire="acquire.cta", cluster=2)[0]
    later = f"{send} st.global.u32 [%a1], 7;"
    assert "race-clusters" in released(later, schedule, datum="")[0]


def test_a_release_store_is_asynchronous() -> None:
    """Under late schedules it lands after what its thread does next; its own thread must not rely on it."""
    body = "setp.eq.u32 %p0, %t, 0; @%p0 st.async.release.gpu.global.u32 [%a0], 1; @%p0 ld.global.u32 %r1, [%a0]; @%p0 st.global.u32 [%a1], %r1;"
    for schedule, seen in ((Schedule("early"), 1), (Schedule("late"), 0)):
        memory = Memory()
        flag, out = (memory.buffer(np.zeros(1, np.uint32)) for _ in range(2))
        result = run(body, [flag, out], memory=memory, races=True, schedule=schedule)
        assert codes(result) == {"race-copy-unwaited"} and out.numpy()[0] == seen and flag.numpy()[0] == 1


@pytest.mark.parametrize("type_", ["b8", "u16", "s32", "f32", "b64", "f64"])
def test_release_stores_of_every_width(type_: str) -> None:
    size = int(type_[1:]) // 8
    data = np.random.default_rng(6).integers(0, 256, (32, size), dtype=np.uint8)
    register = {
        1: "%b1",
        2: "%h1",
        4: "%f1" if type_[0] == "f" else "%r1",
        8: "%fd1" if type_[0] == "f" else "%rd9",
    }[size]
    body = f"""{".reg .b8 %b<2>;" if size == 1 else ""} mad.wide.u32 %rd1, %t, {size}, %a1; mad.wide.u32 %rd2, %t, {size}, %a0;
    ld.global.{type_} {register}, [%rd1]; st.async.release.sys.global.{type_} [%rd2], {register};"""
    memory = Memory()
    out = memory.empty((32, size), np.uint8)
    clean(run(body, [out, memory.buffer(data)], memory=memory, races=True, schedule=Schedule("late")))
    assert (out.numpy() == data).all()


def test_release_stores_misused() -> None:
    for line, code in (("st.async.release.gpu.global.u32 [%a0+2], 1;", "misaligned"), ("st.async.release.gpu.global.u32 [%a0+4096], 1;", "global-out-of-bounds")):  # fmt: skip
        memory = Memory()
        assert codes(run(line, [memory.buffer(np.zeros(8, np.uint32))], memory=memory)) == {code}


@pytest.mark.parametrize("schedule", POLICIES, ids=str)
def test_asynchronous_stores_go_by_the_generic_proxy(schedule: Schedule) -> None:
    """PTX ISA 9.7.9.12: over generic writes they need order alone; a bulk copy of what came needs the fence."""
    send = f"st.async.weak.shared::cluster.{DONE}.b32 [%r24], 7, [%r23];"
    over = exchange(send, 4, "st.shared.u32 [%r25], 1;").replace(
        "fence.proxy.async;", "fence.mbarrier_init.release.cluster;"
    )
    memory = Memory()
    args = [memory.empty((2, 32), np.uint32), memory.buffer(np.zeros((2, 32), np.uint32))]
    clean(run(over, args, memory=memory, cluster=2, shared_bytes=4096, schedule=schedule, races=True))
    assert (args[0].numpy() == 7).all()
    for fence, found in (("fence.proxy.async;", set()), ("", {"race-proxy-fence"})):
        out = f"""{fence} bar.sync 0; mov.u32 %r31, {DATA}; add.u32 %r31, %r31, %own; mul.wide.u32 %rd3, %r20, 128; add.u64 %rd3, %rd3, %a0;
        @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r31], 128; @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"""
        body = exchange(send, 4)
        start, end = body.index("ld.shared.u32 %r30"), body.rindex(CLUSTER_SYNC)
        result = run(body[:start] + out + body[end:], args, memory=memory, cluster=2, shared_bytes=4096, schedule=schedule, races=True)  # fmt: skip
        assert codes(result) == found and (args[0].numpy() == 7).all()
