"""The translation of a launch into sentryward's input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tileproof.conformance.drivers import emulator
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import Given, LaunchBuilder, struct, tensor_map
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.problems.sparse_mla_bwd.case import Indices, SparseCase, one_token
from tileproof.tools.crosscheck.input import respell_waits, sentryward_input
from tileproof.tools.crosscheck.opinion import second_opinion

LOOP = """
$L1:
	.loc 2 1 1
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;
	selp.b32 %r3, 1, 0, %p1;
	}
	// end inline asm
	.loc 6 60 5
	setp.eq.s32 	%p2, %r3, 0;
	@%p2 bra 	$L1;
"""


def launch(made: LaunchBuilder, *arguments: Given, grid: tuple[int, int, int] = (2, 1, 1)) -> LaunchFile:
    made.launch("k", grid=grid, block=(64, 1, 1), arguments=arguments, cluster=(2, 1, 1), shared_bytes=1024)
    return made.file()


def text() -> LaunchBuilder:
    return LaunchBuilder("k", "text")


def test_every_kind_of_parameter_is_said_at_its_place() -> None:
    rows = np.arange(-4, 4, dtype=np.int32).reshape(2, 4)
    made = text()
    grid_map = tensor_map(
        made.input("table", np.zeros((8, 64), dtype=np.float16)), (64, 8), (64, 4), "128B", oob_fill="nan"
    )
    fields = ((0, grid_map), (128, made.input("rows", rows)), (136, ScalarArgument("s32", -7)))
    out = made.output("out", (4,), np.int32)
    config = sentryward_input(launch(made, struct(256, fields), out, None)).config
    assert config["entry"] == "k" and config["schema"] == "spverify.kernel-input/v1"
    assert config["launch"] == {
        "grid_dim": [2, 1, 1],
        "block_dim": [64, 1, 1],
        "cluster_dim": [2, 1, 1],
        "dynamic_shared_bytes": 1024,
    }
    assert config["declarations"] == [
        {"parameter": 0, "offset": 0, "type": "tensor_map", "object": "table"},
        {"parameter": 0, "offset": 128, "type": "pointer", "space": "global", "object": "rows"},
        {"parameter": 1, "offset": 0, "type": "pointer", "space": "global", "object": "out"},
    ]
    assert config["arguments"] == [
        {"parameter": 0, "offset": 136, "type": "s32", "value": -7},
        {"parameter": 2, "offset": 0, "type": "u64", "value": 0},
    ]
    (described,) = config["tma_descriptors"]
    assert described["element_type"] == "f16" and described["object"] == "table"
    assert described["global_shape"] == [64, 8] and described["global_strides_bytes"] == [128]
    assert (
        described["box_shape"] == [64, 4]
        and described["swizzle"] == "128B"
        and described["oob_fill"] == "nan"
    )
    (values,) = config["shape_arrays"]
    assert values["element_type"] == "u32" and values["offset"] == 128
    assert (np.array(values["shapes"], dtype=np.uint32).view(np.int32) == rows).all()


def test_what_the_format_cannot_say_is_refused() -> None:
    with pytest.raises(TileproofError, match="one cluster at a time"):
        sentryward_input(launch(text(), grid=(4, 1, 1)))
    with pytest.raises(TileproofError, match="finite numbers"):
        sentryward_input(launch(text(), ScalarArgument("f32", float("nan"))))


def test_only_a_wait_loop_is_respelled() -> None:
    text, count = respell_waits(LOOP)
    assert count == 1 and text == LOOP.replace("setp.eq.s32", "setp.eq.b32")
    for other in (
        LOOP.replace("try_wait.parity", "init"),
        LOOP.replace("%r3, 0;", "%r3, 1;"),
        LOOP.replace("%p2, %r3", "%p2, %r4"),
        LOOP.replace("1, 0, %p1", "0, 1, %p1"),
        LOOP.replace("1, 0, %p1", "1, 0, %p9"),
        LOOP.replace(".loc 6 60 5", "add.s32 %r3, %r3, 1;"),
        LOOP.replace("setp.eq", "setp.ne"),
    ):
        assert other != LOOP and respell_waits(other) == (other, 0)


@given(st.text(alphabet="abc.;{}%0 \n", max_size=200))
def test_any_text_keeps_its_lines(text: str) -> None:
    both = f"{text}{LOOP}{text}"
    changed, count = respell_waits(both)
    assert count == 1 and changed.count("\n") == both.count("\n") and len(changed) == len(both)


@pytest.mark.parametrize("name", ["head128-part0", "head64"])
def test_every_wait_of_a_kernel_is_respelled_and_it_computes_the_same(name: str) -> None:
    found = kernel(name)
    inputs = one_token(576, 1, found.variants[0]["h_q"]).inputs()
    first = found.launch(inputs, found.build(found.variant(d_qk=576)))
    given_ = sentryward_input(first)
    assert given_.respelled == first.ptx.count("mbarrier.try_wait")
    launches = [first.with_ptx(ptx) for ptx in (first.ptx, given_.ptx)]
    runs = [
        emulator.run(launch, found.plan(found.variant(d_qk=576)), schedule=Schedule("late"), taps=False)
        for launch in launches
    ]
    assert not runs[1].findings
    for output in runs[0].outputs:
        values, other = (run.outputs[output].values for run in runs)
        assert values.tobytes() == other.tobytes()


def test_sentryward_takes_indices_that_are_no_key() -> None:
    """-1 and a length decide branches as they do on the machine: what it lacks are instructions."""
    pytest.importorskip("sentryward", reason="sentryward, the extra `crosscheck`, is not installed")
    found = kernel("head64")
    case = SparseCase(
        512, h_q=64, blocks=1, tokens=(Indices("identity", holes=((3, -1), (9, 2**31 - 1))),), lengths=(40,)
    )
    opinion = second_opinion(found.launch(case.inputs(), found.build(found.variant(d_qk=512))))
    assert opinion.kinds[0] == "unsupported"
    assert {"tma_opcode_variant", "atomic_add_memory_semantics_unsupported"} <= set(opinion.kinds)
    assert not {"control_predicate_not_static", "schedule_dependent_wait_unsupported"} & set(opinion.kinds)
