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


@pytest.mark.parametrize("line", ["st.async.mmio.release.sys.global.b32 [%rd1], %r1;", f"st.async.weak.shared::cluster.{DONE}.v4.b64 [%r1], {{%rd1, %rd2, %rd3, %rd4}}, [%r2];",
                                  f"red.async.relaxed.cluster.shared::cluster.{DONE}.add.f32 [%r1], %f1, [%r2];", "red.async.mmio.release.gpu.global.add.u32 [%rd1], %r2;"])  # fmt: skip
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
