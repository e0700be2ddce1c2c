# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Maps that the kernel fills or changes, and copies of maps, against the same maps made by the host."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tileproof.emulator import Schedule, TensorMap, UnsupportedInstruction
from tileproof.spec.machine.tma import TensorMapFields, tile_image

from tests.kit.ptx import POLICIES, Memory, clean, codes, init_barrier, only, run, wait

COVERS = "tensormap.replace tensormap.cp_fenceproxy"

BAR, TILE, MAP = 1024, 2048, 1152
DONE = "mbarrier::complete_tx::bytes"


def replaced(where: str, space: str, stride: int, swizzle: int, atoms: int) -> str:
    """Every field of a 2d map of 16-bit floats: box 64 x 4 of 64 x 8 at %a1."""

    def r(field: str, operands: str, bits: int = 32) -> str:
        return f"tensormap.replace.tile.{field}.{space}.b1024.b{bits} [{where}], {operands};"

    lines = [r("global_address", "%a1", 64), r("rank", "1"), r("global_stride", f"0, {stride}", 64), r("elemtype", "10"), r("interleave_layout", "0"),
             r("swizzle_mode", str(swizzle)), r("swizzle_atomicity", str(atoms)), r("fill_mode", "1")]  # fmt: skip
    for dimension, (box, extent) in enumerate(((64, 64), (4, 8))):
        lines += [
            r("box_dim", f"{dimension}, {box}"),
            f"mov.u32 %r9, {extent};",
            r("global_dim", f"{dimension}, %r9"),
            r("element_stride", f"{dimension}, 1"),
        ]
    return "\n@%p0 ".join(["", *lines]).replace("@%p0 mov", "mov")


LOAD = f"""
    @%p0 fence.proxy.tensormap::generic.acquire.gpu [%a0], 128;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [{BAR}], 512;
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.{DONE} [{TILE}], [%a0, {{0, 6}}], [{BAR}];
    {wait(BAR)}
    mad.lo.u32 %r1, %t, 16, {TILE}; ld.shared.v4.u32 {{%r2, %r3, %r4, %r5}}, [%r1]; mad.wide.u32 %rd1, %t, 16, %a2; st.global.v4.u32 [%rd1], {{%r2, %r3, %r4, %r5}};"""


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize(
    "swizzle", ["none", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B"]
)
@pytest.mark.parametrize("way", ["global", "shared"])
def test_a_map_filled_by_the_kernel(schedule: Schedule, swizzle: str, way: str) -> None:
    """In global memory, or in shared memory and brought over by cp_fenceproxy; rows 8 and 9 are outside."""
    mode, atoms = (
        (0, 0)
        if swizzle == "none"
        else (3, ("128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B").index(swizzle))
    )
    data = np.random.default_rng(1).integers(1, 0x7F00, (8, 64), dtype=np.uint16)
    memory = Memory()
    maps, out = memory.buffer(np.zeros(32, np.uint32)), memory.empty(512, np.uint8)
    if way == "global":
        fill = (
            replaced("%a0", "global", 128, mode, atoms) + "\n@%p0 fence.proxy.tensormap::generic.release.gpu;"
        )
    else:
        fill = f"mad.lo.u32 %r1, %t, 4, {MAP}; st.shared.u32 [%r1], 0; bar.sync 0; {replaced(str(MAP), 'shared::cta', 128, mode, atoms)}\nbar.warp.sync -1;"
        fill += f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a0], [{MAP}], 128;"
    body = f"{init_barrier(BAR)} @%p0 fence.proxy.async; {fill} bar.sync 0; {LOAD}"
    clean(
        run(
            body,
            [maps, memory.buffer(data), out],
            memory=memory,
            shared_bytes=4096,
            schedule=schedule,
            races=True,
        )
    )
    fields = TensorMapFields("bfloat16", (64, 8), (128,), (64, 4), (1, 1), swizzle, "nan")
    assert (out.numpy() == tile_image(fields, data.view(np.uint8).ravel(), (0, 6), TILE)).all()


@pytest.mark.parametrize("way", ["global", "shared"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_a_map_that_a_hopper_kernel_fills(swizzle: str, way: str) -> None:
    """Without the atomicity, which Hopper does not have; the map is a variable of the module."""
    columns = {"none": 64, "32B": 16, "64B": 32, "128B": 64}[swizzle]
    data = np.random.default_rng(1).integers(1, 0x7F00, (8, 64), dtype=np.uint16)
    memory = Memory()
    source, out = memory.buffer(data), memory.empty(8 * columns, np.uint8)
    where, space = ("%a0", "global") if way == "global" else (str(MAP), "shared::cta")
    fields = replaced(where, space, 128, ("none", "32B", "64B", "128B").index(swizzle), 0)
    fields = re.sub(r"@%p0 tensormap.replace.tile.swizzle_atomicity[^;]*;", "", fields)
    fields = fields.replace("], 0, 64;", f"], 0, {columns};", 1)
    move = f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a0], [{MAP}], 128;"
    load, rest = LOAD.replace("512", str(8 * columns)).split("mad.lo", 1)
    body = f"""{init_barrier(BAR)} @%p0 fence.proxy.async; mov.b64 %a0, map;
    mad.lo.u32 %r1, %t, 4, {MAP}; st.shared.u32 [%r1], 0; bar.sync 0; {fields}
    {"@%p0 fence.proxy.tensormap::generic.release.gpu;" if way == "global" else f"bar.warp.sync -1; {move}"}
    bar.sync 0; prefetch.tensormap [%a0]; {load} setp.ge.u32 %p3, %t, {columns // 2}; @%p3 bra END; mad.lo{rest} END:"""
    module = ".global .align 128 .b8 map[128];"
    clean(run(body, [source, source, out], memory=memory, module=module, shared_bytes=4096, races=True))
    fields_ = TensorMapFields("bfloat16", (64, 8), (128,), (columns, 4), (1, 1), swizzle, "nan")
    assert (out.numpy() == tile_image(fields_, data.view(np.uint8).ravel(), (0, 6), TILE)).all()


def test_a_map_that_ordinary_loads_and_stores_copy() -> None:
    """A host's map, copied word by word, then with another base address."""
    data = np.arange(1024, dtype=np.uint16).reshape(16, 64)
    memory = Memory()
    buffer, maps, out = (
        memory.buffer(data),
        memory.buffer(np.zeros(32, np.uint32)),
        memory.empty(512, np.uint8),
    )
    m = TensorMap.tiled(buffer, shape=(64, 8), strides=(128,), box=(64, 4), dtype="bfloat16")
    body = f"""{init_barrier(BAR)} @%p0 fence.proxy.async;
    mad.wide.u32 %rd1, %t, 4, %a3; ld.b32 %r1, [%rd1]; mad.wide.u32 %rd2, %t, 4, %a0; st.global.b32 [%rd2], %r1; bar.warp.sync -1;
    add.u64 %rd3, %a1, 1024; @%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%a0], %rd3; @%p0 fence.proxy.tensormap::generic.release.gpu; bar.sync 0; {LOAD.replace("{0, 6}", "{0, 2}")}"""
    clean(
        run(
            body,
            [maps, buffer, out, m],
            memory=memory,
            shared_bytes=4096,
            schedule=Schedule("late"),
            races=True,
        )
    )
    assert (out.numpy().view(np.uint16) == data[10:14].ravel()).all()


@pytest.mark.parametrize("line", ["rank.global.b1024.b32 [%a0], 5;", "box_dim.global.b1024.b32 [%a0], 0, 257;", "global_stride.global.b1024.b64 [%a0], 0, 8;", "elemtype.global.b1024.b32 [%a0], 16;",
                                  "interleave_layout.global.b1024.b32 [%a0], 1;", "element_stride.global.b1024.b32 [%a0], 0, 9;"])  # fmt: skip
def test_values_that_a_field_does_not_take(line: str) -> None:
    memory = Memory()
    zeros = memory.buffer(np.zeros(32, np.uint32))
    assert codes(run(f"tensormap.replace.tile.{line}", [zeros], memory=memory, threads=1)) == {
        "tensormap-field"
    }


def test_what_is_no_map() -> None:
    memory = Memory()
    other = memory.buffer(np.ones(32, np.uint32))
    assert codes(
        run("tensormap.replace.tile.rank.global.b1024.b32 [%a0], 1;", [other], memory=memory, threads=1)
    ) == {"tensormap-invalid"}
    with pytest.raises(UnsupportedInstruction):
        run("tensormap.replace.im2col.rank.global.b1024.b32 [%a0], 1;", [other], memory=memory)


def test_a_map_that_lacks_a_field_is_refused_when_used() -> None:
    memory = Memory()
    zeros = memory.buffer(np.zeros(32, np.uint32))
    body = "tensormap.replace.tile.rank.global.b1024.b32 [%a0], 0; cp.async.bulk.prefetch.tensor.1d.L2.global [%a0, {0}];"
    finding = only(run(body, [zeros], memory=memory, threads=1), "tensormap-field")
    assert "the element size is 0; expected: 1" in finding.message
