"""`cutlass-fmha-bwd` as seen from the host: the example's three launches, as its own host code makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from tileproof.kernels.compile import Built
from tileproof.kernels.edit import PlantedDefect
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.arguments import (
    PlacedItem,
    ScalarArgument,
    StructArgument,
    TensorMapArgument,
    unset,
)
from tileproof.kernels.launch.builder import Field, LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.kernels.sm100.cutlass_fmha_bwd import defects, library
from tileproof.kernels.sm100.cutlass_fmha_bwd.image import ExampleImage
from tileproof.kernels.sm100.cutlass_fmha_bwd.library import Sizes, TensorStrides
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.plan import KernelPlan, Swizzle
from tileproof.spec.plans import cutlass_fmha_bwd
from tileproof.spec.problems.dense_attention_bwd.inputs import DTYPES

if TYPE_CHECKING:
    from tileproof.spec.problems.dense_attention_bwd.inputs import Inputs

# CUtensorMapDataType and CUtensorMapSwizzle of the CUDA driver API, by number: those that the example uses.
MAP_TYPES = {6: "float16", 7: "float32", 9: "bfloat16"}
MAP_SWIZZLES: dict[int, Swizzle] = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
ENTRIES = {"sum_odo": "_sum_odo", "main": "", "convert": "_convert"}
MAIN = "main"
ROW_PITCH = 8  # rows of a head in the example's workspace are padded to a multiple


def describe(inputs: Inputs, plan: KernelPlan, built: Built, probe: bool) -> LaunchFile:
    """The launches in order: one that sums delta, the main launch, and one that rounds dQ.

    Outputs: `delta [b, h, m]` (negated, rows padded), `scaled_lse` as it, `dQ_acc [rows, d]` f32, which the
    example clears and the kernel adds to, `dQ [b, h, m, d]`, `dK [b, h_kv, n, d]`, `dV [b, h_kv, n, d_v]`
    in the form of the inputs. Of packed sequences the first three have a block of rows for each, as long as
    the longest needs.
    """
    p = inputs.problem
    form = "bf16" if plan.size("bf16") else "f16"
    packed = p.packed is not None
    if p.form != form or inputs.bias is not None or packed != bool(plan.size("packed")):
        found = "a bias" if inputs.bias is not None else "packed sequences" if packed else p.form
        raise TileproofError(
            f"{plan.name} does not compute this problem",
            where="inputs",
            expected=f"{form} without a bias" + (", packed sequences" if plan.size("packed") else ""),
            found=found,
        )
    d, number = p.d_qk, len(p.sequences)
    longest = [max(getattr(sequence, axis) for sequence in p.sequences) for axis in "mn"]
    if not all(longest):
        raise TileproofError(
            f"{plan.name} does not compute this problem", where="inputs",
            expected="a sequence with queries, and one with keys", found=f"packed {p.packed}",
        )  # fmt: skip
    padded = -(-longest[0] // ROW_PITCH) * ROW_PITCH
    elements = number * padded * p.h * d
    if elements >= plan.elements_below:
        raise TileproofError(
            f"{plan.name} does not compute this problem", where="inputs",
            expected=f"less than {plan.elements_below} elements of dQ", found=str(elements),
        )  # fmt: skip

    def strides(row: int, group: int, head: int, batch: int) -> TensorStrides:
        return TensorStrides(row, group, head, 0 if packed else batch)

    def of_queries(columns: int) -> TensorStrides:
        return strides(p.h * columns, columns, p.heads * columns, p.m * p.h * columns)

    def of_keys(columns: int) -> TensorStrides:
        return strides(p.h_kv * columns, 0, columns, p.n * p.h_kv * columns)

    def of_gradient(columns: int) -> TensorStrides:
        return strides(columns, 0, p.n * columns, p.h_kv * p.n * columns)

    layouts = (
        of_queries(d), of_queries(p.d_v), of_keys(d), of_keys(p.d_v),
        strides(1, p.m, p.heads * p.m, p.h * p.m),
        strides(d, p.m * d, p.heads * p.m * d, p.h * p.m * d),
        of_gradient(d), of_gradient(p.d_v),
    )  # fmt: skip
    sizes = Sizes(longest[0], longest[1], d, p.d_v, p.heads, p.h_kv, number, p.m, p.n, p.sm_scale)
    events = library.events(plan, sizes, layouts)

    made = LaunchBuilder(plan.name, built.ptx)
    given = [made.input(name, getattr(inputs, name)) for name in ("q", "k", "v", "o", "lse", "dO")]
    if inputs.cu_q is not None and inputs.cu_k is not None:
        given += [made.input("cu_q", inputs.cu_q), made.input("cu_k", inputs.cu_k)]
    rows = (number, p.h, padded)
    outputs = [
        made.output("dQ", (p.b, p.h, p.m, d), DTYPES[form], whole=not packed),
        made.output("dK", (p.b, p.h_kv, p.n, d), DTYPES[form], whole=not packed),
        made.output("dV", (p.b, p.h_kv, p.n, p.d_v), DTYPES[form], whole=not packed),
        *(made.output(name, rows, np.float32, whole=False) for name in ("delta", "scaled_lse")),
        made.zeros("dQ_acc", (number * p.h * padded, d), np.float32),
    ]
    buffers = {library.address_of(output.name): output for output in (*given, *outputs)}
    _require_cleared(events, buffers)
    for event in events:
        if event["event"] == "launch":
            made.launch(
                built.entry + ENTRIES[event["kernel"]],
                grid=tuple(event["grid"]),
                block=tuple(event["block"]),
                shared_bytes=event["shared"],
                arguments=[_params(event, events, buffers)],
            )
    return made.file(built.entry + ENTRIES[MAIN])


def _require_cleared(events: list[UncheckedObject], buffers: dict[int, LaunchBuffer]) -> None:
    """What the host code fills is all of dQ_acc, with zeros, before the main launch: as the buffer starts."""
    order = [str(event.get("kernel", event["event"])) for event in events if event["event"] != "map"]
    fills = [event for event in events if event["event"] == "fill"]
    as_expected = (
        order == ["sum_odo", "fill", MAIN, "convert"]
        and buffers[fills[0]["address"]].name == "dQ_acc"
        and (fills[0]["value"], fills[0]["bytes"]) == (0, buffers[fills[0]["address"]].bytes)
    )
    if not as_expected:
        raise TileproofError(
            "the example's host code does not match the known version",
            where="cutlass-fmha-bwd",
            expected="sum_odo, dQ_acc set to zero, main, convert",
            found=", ".join(order),
        )


def _params(
    event: UncheckedObject, events: list[UncheckedObject], buffers: dict[int, LaunchBuffer]
) -> StructArgument:
    """The by-value struct of a launch as the host code made it."""
    maps = {event["number"]: event for event in events if event["event"] == "map"}

    def item(field: UncheckedObject) -> Field:
        name, value = field["name"], field["value"]
        if field["type"] == "map":
            return _map(name, maps[value], buffers[maps[value]["address"]])
        if field["type"] == "address":
            return buffers[value] if value else None
        if field["type"] == "f32":
            return ScalarArgument("f32", float(np.array(value, np.uint32).view(np.float32)), name)
        return ScalarArgument("s32", value, name)

    made = struct(event["bytes"], [(field["at"], item(field)) for field in event["fields"]])
    # The block is passed whole, and loads of several words read the bytes between the fields.
    gaps = [
        PlacedItem(at, ScalarArgument("u32", 0))
        for start, stop in unset(made)
        for at in range(start, stop, 4)
    ]
    return StructArgument(made.size, (*made.items, *gaps))


def _map(name: str, fields: UncheckedObject, buffer: LaunchBuffer) -> TensorMapArgument:
    if fields["interleave"] or fields["type"] not in MAP_TYPES:
        raise TileproofError(
            "a tensor map of the example has an unknown kind",
            where=name,
            expected="f16, bf16 or f32 without interleave",
            found=f"type {fields['type']}, interleave {fields['interleave']}",
        )
    return tensor_map(
        buffer,
        tuple(fields["shape"]),
        tuple(fields["box"]),
        MAP_SWIZZLES[fields["swizzle"]],
        tuple(fields["strides"]),
        tuple(fields["element_strides"]),
        "nan" if fields["fill"] else "zero",
        dtype=MAP_TYPES[fields["type"]],
    )


def _kernel(
    build: cutlass_fmha_bwd.Build, mended: bool, planted: Callable[[], Sequence[PlantedDefect]]
) -> Kernel:
    name = build.name + ("-mended" if mended else "")
    return Kernel(
        name=name,
        variants=tuple(
            Variant.of(
                build.problem.name,
                another_d_v=int(build.mla),
                causal=causal,
                d_tile=d_tile,
                packed=int(build.packed),
            )
            for causal in range(len(cutlass_fmha_bwd.MASKS))
            for d_tile in build.tiles
        ),
        plan_of=lambda v: cutlass_fmha_bwd.plan(v["d_tile"], v["causal"], name, build),
        image=ExampleImage(mended),
        describe=describe,
        defects=planted,
        probe=False,
        on_demand=True,
    )


KERNELS = tuple(
    _kernel(build, mended, partial(defects.of, build) if mended else tuple)
    for build in cutlass_fmha_bwd.BUILDS
    for mended in (False, True)
)
