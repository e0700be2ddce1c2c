"""The inputs on which control flow depends, and the classes of their values."""

from __future__ import annotations

import json

from click.testing import CliRunner
from tileproof.conformance.cases.generators import control_flow, small
from tileproof.conformance.cli.app import main
from tileproof.conformance.explore import control_flow as module
from tileproof.conformance.explore.control_flow import FlowReport, control_flow_of
from tileproof.kernels.edit import Edit, Place
from tileproof.kernels.registry import kernel
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import ControlFlow
from tileproof.spec.problems.sparse_mla_bwd.inputs import key_mask

SOURCE = "sm90/gemm/kernel.cu"
SUMS = Place("const float x = acc[i][j][2 * half], y = acc[i][j][2 * half + 1];", SOURCE)
WAIT = Place("ptx::wait(ring.full(s), (k / kStages) & 1);", SOURCE)


def report(*edits: Edit) -> FlowReport:
    """The control flow of the Hopper GEMM with these edits."""
    entry = kernel("sm90-gemm")
    variant = entry.variants[0]
    return control_flow_of(entry, entry.build(variant, edits=edits), entry.plan(variant))


def test_the_right_kernel_depends_on_sizes_alone() -> None:
    found = report()
    assert not found.wrong and found.others == ("A", "B", "C")
    assert list(found.classes) == [""]


def test_instructions_that_depend_on_values_are_found() -> None:
    found = report(
        Edit(SUMS, f'{SUMS.text} if (x != x) asm volatile("fence.acq_rel.cta; bar.warp.sync -1;");')
    )
    assert set(found.found) == {"A", "B"} and "NaN" in found.found["A"]
    assert "control flow depends on A, of which the problem states no class" in found.wrong


def test_an_error_leaves_no_certificate() -> None:
    assert "not certified: open" in report(Edit(WAIT, "")).wrong


def test_each_class_is_run(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A class without a period is named."""

    def stated(plan: KernelPlan, blocks: int) -> ControlFlow:
        return ControlFlow(("A",), {"whole": small(plan, blocks), "short": small(plan, 4)})

    monkeypatch.setattr(module, "control_flow", stated)
    found = report()
    assert found.inputs == ("A",) and found.others == ("B", "C")
    assert found.classes["whole"].wrong == "" and found.wrong.startswith(
        "short: the order does not repeat: 4"
    )


def test_the_classes_of_sparse_attention_differ_in_which_slots_are_keys() -> None:
    plan = kernel("head64").plan(kernel("head64").variants[0])
    stated = control_flow(plan, 6)
    assert stated.inputs == ("indices", "topk_length")
    keys = {}
    for name, case in stated.classes.items():
        inputs = case.inputs()
        keys[name] = key_mask(inputs).sum(axis=1).tolist()
    assert keys == {
        "every slot a key": [384],
        "topk_length below topk": [321],
        "topk_length 0, 1 and above topk": [0, 1, 384],
        "invalid indices": [378],
        "k-blocks without a key": [256],
        "a token without a key": [0, 384],
        "invalid indices and topk_length below topk": [190],
    }


def test_the_command_prints_the_control_flow() -> None:
    done = CliRunner().invoke(main, ["explore", "sm90-gemm", "--periods", "--blocks", "20"])
    assert done.exit_code == 0
    assert "control flow depends on sizes alone" in done.output
    assert "certified; the order repeats from k-block 0 with period 3; observed to 20" in done.output
    few = CliRunner().invoke(main, ["explore", "sm90-gemm", "--periods", "--blocks", "4", "--json"])
    data = json.loads(few.output)
    assert (
        few.exit_code == 3 and data["verdict"] == "incomplete" and "4 k-blocks are too few" in data["wrong"]
    )
    assert data["classes"][""]["certified"] is True
