# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""ldmatrix, stmatrix and movmatrix: the fragments of PTX ISA 9.7.14.5.15 to 17, written out with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from tileproof.emulator import UnsupportedInstruction

from tests.kit.ptx import Memory, clean, codes, only, run, used

COVERS = "ldmatrix stmatrix movmatrix"
LANES = np.arange(32)
G, T = LANES // 4, LANES % 4
BASE = 1024  # the first shared address


def fill(image: np.ndarray) -> str:
    """Copies `%a1` (bytes) to shared memory, all lanes together; `%r9` is then this lane's row address, `%a2[lane]`."""
    return f"""
    mov.u32 %r1, 0;
    FILL: mad.lo.u32 %r2, %t, 4, %r1; cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd1, %a1; ld.global.b32 %r3, [%rd1];
    st.shared.b32 [%r2+{BASE}], %r3; add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, {image.nbytes}; @%p1 bra FILL;
    bar.warp.sync -1;
    mad.wide.u32 %rd2, %t, 4, %a2; ld.global.b32 %r9, [%rd2];"""


def load(spelling: str, count: int, image: np.ndarray, rows: np.ndarray, **launch) -> np.ndarray:  # type: ignore[no-untyped-def]
    """[register, lane] words after an ldmatrix of the rows at byte offsets `rows` of `image`."""
    memory = Memory()
    out = memory.empty((count, 32), np.uint32)
    registers = ", ".join(f"%r{20 + r}" for r in range(count))
    stores = "\n".join(f"st.global.b32 [%rd3+{128 * r}], %r{20 + r};" for r in range(count))
    address = "%r9"
    generic = "" if ".shared" in spelling else "cvt.u64.u32 %rd5, %r9; cvta.shared.u64 %rd5, %rd5;"
    if generic:
        address = "%rd5"
    body = f"{fill(image)} {generic}\n{spelling} {{{registers}}}, [{address}+{BASE}];\nmad.wide.u32 %rd3, %t, 4, %a0;\n{stores}"
    args = [out, memory.buffer(image.copy()), memory.buffer(rows.astype(np.uint32))]
    clean(run(body, args, memory=memory, shared_bytes=8192, **launch))
    return out.numpy()


def image_and_rows(count: int, row: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """4 KiB of random bytes; the rows shuffled, so that each lane's address counts."""
    rng = np.random.default_rng(count)
    rows = rng.permutation(4096 // row)[:32] * row
    return rng.integers(0, 256, 4096, dtype=np.uint8), rows


def bytes_to_words(parts: np.ndarray) -> np.ndarray:
    """[32, 4] bytes to 32 words."""
    return np.ascontiguousarray(parts.astype(np.uint8)).view(np.uint32).ravel()


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_eight_by_eight(count: int, space: str) -> None:
    image, rows = image_and_rows(count)
    for trans in ("", ".trans"):
        got = load(f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16", count, image, rows)
        for k in range(count):
            matrix = np.array([image[at : at + 16].view(np.uint16) for at in rows[8 * k : 8 * k + 8]])
            matrix = matrix.T if trans else matrix
            assert (got[k] == (matrix[G, 2 * T] | matrix[G, 2 * T + 1].astype(np.uint32) << 16)).all()


@pytest.mark.parametrize("count", [1, 2])
def test_sixteen_by_sixteen_bytes_transposed(count: int) -> None:
    image, rows = image_and_rows(count)
    got = load(f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8", 2 * count, image, rows)
    for k in range(count):
        matrix = np.array([image[at : at + 16] for at in rows[16 * k : 16 * k + 16]]).T
        for half in range(2):
            want = np.stack([matrix[G + 8 * half, 4 * T + j] for j in range(4)], axis=1)
            assert (got[2 * k + half] == bytes_to_words(want)).all()


def widened(row: np.ndarray, bits: int) -> np.ndarray:
    value = int.from_bytes(row.tobytes(), "little")
    return np.array([value >> (bits * k) & ((1 << bits) - 1) for k in range(16)], np.uint8)


@pytest.mark.parametrize(("format_", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_packed_elements_become_bytes(format_: str, bits: int) -> None:
    for count in (1, 2, 4):
        image, rows = image_and_rows(count)
        got = load(f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{format_}", count, image, rows)
        for k in range(count):
            matrix = np.array([widened(image[at : at + 16], bits) for at in rows[8 * k : 8 * k + 8]])
            assert (
                got[k] == bytes_to_words(np.stack([matrix[G, 4 * T + j] for j in range(4)], axis=1))
            ).all()
    for count in (1, 2):
        image, rows = image_and_rows(count)
        got = load(
            f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8x16.{format_}", 2 * count, image, rows
        )
        for k in range(count):
            matrix = np.array([widened(image[at : at + 16], bits) for at in rows[16 * k : 16 * k + 16]]).T
            for half in range(2):
                want = np.stack([matrix[G + 8 * half, 4 * T + j] for j in range(4)], axis=1)
                assert (got[2 * k + half] == bytes_to_words(want)).all()


def store(spelling: str, count: int, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The 4 KiB of shared memory after an stmatrix of `values` [register, lane] to byte offsets `rows`."""
    memory = Memory()
    out = memory.empty(4096, np.uint8)
    registers = ", ".join(f"%r{20 + r}" for r in range(count))
    loads = "\n".join(f"ld.global.b32 %r{20 + r}, [%rd3+{128 * r}];" for r in range(count))
    zero = np.zeros(4096, np.uint8)
    body = f"""{fill(zero)} mad.wide.u32 %rd3, %t, 4, %a3; {loads}
    {spelling} [%r9+{BASE}], {{{registers}}};
    bar.warp.sync -1; mov.u32 %r1, 0;
    DUMP: mad.lo.u32 %r2, %t, 4, %r1; ld.shared.b32 %r3, [%r2+{BASE}]; cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd1, %a0;
    st.global.b32 [%rd1], %r3; add.u32 %r1, %r1, 128; setp.lt.u32 %p1, %r1, 4096; @%p1 bra DUMP;"""
    args = [out, memory.buffer(zero), memory.buffer(rows.astype(np.uint32)), memory.buffer(values)]
    clean(run(body, args, memory=memory, shared_bytes=8192, races=True))
    return out.numpy()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stores_of_fragments(count: int) -> None:
    _, rows = image_and_rows(count)
    values = np.random.default_rng(7).integers(0, 2**32, (count, 32), dtype=np.uint32)
    for trans in ("", ".trans"):
        want = np.zeros(4096, np.uint8)
        for k in range(count):
            matrix = np.zeros((8, 8), np.uint16)
            matrix[G, 2 * T], matrix[G, 2 * T + 1] = values[k] & 0xFFFF, values[k] >> 16
            for r, row in enumerate(matrix.T if trans else matrix):
                at = rows[8 * k + r]
                want[at : at + 16] = np.ascontiguousarray(row).view(np.uint8)
        assert (
            store(f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16", count, values, rows) == want
        ).all()
    want = np.zeros(4096, np.uint8)
    for k in range(count):
        matrix = np.zeros(
            (16, 8), np.uint8
        )  # the fragment of an accumulator: rows g and g + 8, columns 2 t and 2 t + 1
        parts = values[k].view(np.uint8).reshape(32, 4)
        for j in range(4):
            matrix[G + 8 * (j // 2), 2 * T + j % 2] = parts[:, j]
        for r, row in enumerate(matrix.T):
            want[rows[8 * k + r] : rows[8 * k + r] + 16] = row
    assert (store(f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8", count, values, rows) == want).all()


def test_movmatrix_transposes() -> None:
    values = np.random.default_rng(8).integers(0, 2**32, 32, dtype=np.uint32)
    memory = Memory()
    out = memory.empty(32, np.uint32)
    body = "mad.wide.u32 %rd1, %t, 4, %a1; ld.global.b32 %r1, [%rd1]; movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r1; mad.wide.u32 %rd1, %t, 4, %a0; st.global.b32 [%rd1], %r1;"
    clean(run(body, [out, memory.buffer(values)], memory=memory))
    want = np.ascontiguousarray(values.view(np.uint16).reshape(8, 8).T).view(np.uint32).ravel()
    assert (out.numpy() == want).all()


LOAD = f"mad.lo.u32 %r1, %t, 16, {BASE};\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r1];"
STORE = LOAD.replace("ldmatrix", "stmatrix").replace("{%r2}, [%r1]", "[%r1], {%t}")


def test_misuse() -> None:
    ready = f"mad.lo.u32 %r1, %t, 16, {BASE}; mov.b32 %r3, 0; st.shared.v4.b32 [%r1], {{%r3, %r3, %r3, %r3}}; bar.warp.sync -1;\n"
    clean(run(ready + LOAD, shared_bytes=1024))
    assert only(run(LOAD + used("%r2"), shared_bytes=1024), "shared-uninitialised").machine.lane == 0
    assert (
        only(run((ready + LOAD).replace("[%r1];", "[%r1+8];"), shared_bytes=1024), "misaligned").machine.lane
        == 0
    )
    beyond = (ready + LOAD).replace(f"16, {BASE};\nld", f"16, {BASE + 400};\nld")
    assert only(run(beyond, shared_bytes=512), "shared-out-of-bounds")
    clean(run(STORE, shared_bytes=1024))
    only(run(STORE, threads=8, shared_bytes=1024), "aligned-partial")
    only(run(f"setp.eq.u32 %p1, %t, 1;\n@%p1 {STORE.splitlines()[1]}", shared_bytes=1024), "aligned-partial")
    generic = LOAD.replace(".shared", "").replace("[%r1]", "[%a0]")
    memory = Memory()
    only(run(generic, [memory.buffer(np.zeros(64, np.uint32))], memory=memory), "shared-wrong-window")


def test_races_see_the_rows() -> None:
    """Warp 1 writes rows with stmatrix, warp 0 reads them with ldmatrix: a barrier between is what makes it right."""
    body = f"""
    and.b32 %r3, %t, 31; mad.lo.u32 %r1, %r3, 16, {BASE}; setp.lt.u32 %p1, %t, 32; @%p1 bra READ;
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {{%t}}; bar.sync 0; bra.uni DONE;
    READ: bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r2}}, [%r1]; DONE:"""
    clean(run(body, threads=64, shared_bytes=1024, races=True))
    early = body.replace("stmatrix", "bar.sync 0; stmatrix").replace("{%t}; bar.sync 0;", "{%t};")
    assert "race-unordered" in codes(run(early, threads=64, shared_bytes=1024, races=True))


@pytest.mark.parametrize(
    "line",
    ["ldmatrix.sync.aligned.m8n8.x1.shared::cluster.b16 {%r1}, [%r2];", "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r3}, [%r2];",
     "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r1, %r3, %r4, %r5}, [%r2];", "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r2], {%r1};",
     "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r2];", "ldmatrix.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];"],
)  # fmt: skip
def test_what_is_refused(line: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="matrix"):
        run(line)
