"""Triton's and Gluon's output on the emulator: right values under every policy, every finding explained."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("triton", reason="triton is not installed: requirements-outside.txt")

import torch
import triton
from tileproof.emulator import Module
from tileproof.emulator.errors import LaunchError
from tileproof.triton import emulate
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.kit.outside import triton_kernels
from tests.kit.outside.explained import POLICIES, written_up
from tests.kit.outside.triton_cases import CASES, Case, Ran

# Defects of Triton 3.8 that 3.9 does not have (docs/outside.md).
OLD = triton.__version__.startswith("3.8.")
DEFECTS = {"triton-matmul-ws": {"mbarrier-uninitialised"}, "gluon-matmul-pair": {"pair-not-started"}}
SOUND = [pytest.param(case, id=case.name) for case in CASES if not (OLD and case.name in DEFECTS)]


def run_edited(case: Case, edit: str, by: str, patch: pytest.MonkeyPatch) -> list[Ran]:
    """The case under every policy with lines of its PTX replaced."""
    text, places = re.subn(edit, by, case.run().launched.ptx)
    assert places
    edited, run = Module.from_ptx(text), Module.launch
    patch.setattr(Module, "launch", lambda _, entry, **how: run(edited, entry, **how))
    return [case.run(schedule=schedule, races=True) for schedule in POLICIES]


@pytest.mark.parametrize("case", SOUND)
def test_right_under_every_policy(case: Case) -> None:
    for schedule in POLICIES:
        ran = case.run(schedule=schedule)
        assert ran.right, str(schedule)
        assert not ran.launched.result.errors, str(schedule)


@pytest.mark.parametrize("case", SOUND)
def test_every_finding_is_explained(case: Case) -> None:
    found = set()
    for schedule in POLICIES:
        ran = case.run(schedule=schedule, races=True)
        assert ran.right and not ran.launched.result.errors, str(schedule)
        found |= {finding.code for finding in ran.launched.result.findings}
    # 3.8 waits for its loads.
    assert found == written_up(case.name) - ({"tmem-ld-not-waited"} if OLD else set())


@pytest.mark.skipif(not OLD, reason="Triton 3.9 has mended both")
@pytest.mark.parametrize(
    ("name", "edit", "by"),
    [
        ("triton-matmul-ws", r"@%p\d+ mbarrier\.inval", "// "),
        (
            "gluon-matmul-pair",
            r"@%p1 tcgen05\.alloc",
            "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n@%p1 tcgen05.alloc",
        ),
    ],
)
def test_defects_of_3_8(name: str, edit: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case.name == name)
    errors: set[str] = set()
    for schedule in POLICIES:
        errors |= {finding.code for finding in case.run(schedule=schedule, races=True).launched.result.errors}
    assert errors == DEFECTS[name]
    for ran in run_edited(case, edit, by, monkeypatch):
        assert ran.right and not ran.launched.result.errors


@pytest.mark.parametrize(
    ("edit", "by"), [(r"@!complete bra\.uni waitLoop;", ""), (r"fence\.proxy\.async", "// ")]
)
def test_a_wrong_kernel_is_found(edit: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits return at once; the tile of C is stored without its proxy fence."""
    case = next(case for case in CASES if case.name == "gluon-matmul-ws")
    errors: set[str] = set()
    for ran in run_edited(case, edit, by, monkeypatch):
        errors |= {finding.code for finding in ran.launched.result.errors}
    early = {"race-copy-unwaited", "shared-pending", "tmem-pending"}
    assert errors & ({"race-proxy-fence"} if "fence" in edit else early)


@pytest.mark.parametrize(
    ("name", "hopper", "words"),
    [
        ("hopper-gluon-matmul", False, ("hopper_matmul", "wgmma", "sm_90a", "emulate(hopper=True)")),
        ("gluon-matmul-ws", True, ("matmul", "tcgen05", "sm_100a", "leave hopper out")),
    ],
)
def test_a_kernel_of_another_architecture_is_refused_by_name(
    name: str, hopper: bool, words: tuple[str, ...]
) -> None:
    (case,) = (case for case in CASES if case.name == name)
    with pytest.raises(LaunchError) as error:
        case.run(hopper=hopper)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("specialised", [False, True])
def test_an_atomic_in_a_specialised_loop_is_repeated(specialised: bool) -> None:
    """Each of the three parts of warps counts each tile, in 3.8 and in 3.9 (docs/outside.md)."""
    a, b = (torch.ones(256, 128, dtype=torch.float16) for _ in range(2))
    c, count = torch.zeros(256, 256), torch.zeros(1, dtype=torch.int32)
    maps = [
        TensorDescriptor.from_tensor(tensor, list(box))
        for tensor, box in ((a, (128, 64)), (b, (128, 64)), (c, (128, 128)))
    ]
    with emulate() as run:
        triton_kernels.counted[(3,)](*maps, count, 256, 256, 128, 128, 128, 64, specialised)
    assert (c == 128).all() and count[0] == (12 if specialised else 4)
    assert run.last.ptx.count("atom.global") == (3 if specialised else 1)


@pytest.mark.parametrize("keep", [True, False])
def test_pointers_inside_a_tensor(keep: bool) -> None:
    """Their tensors are part of the launch, also of its launch file; another address is out of bounds."""
    sizes = (5, 64, 33)
    with emulate(races=True, raises=False) as run:
        sources = [torch.arange(float(n)) for n in sizes]
        results = [torch.zeros(n) for n in sizes]
        given = torch.tensor([[tensor.data_ptr() for tensor in of] for of in (sources, results)])
        if not keep:
            given[0, 1] = 1 << 40
        before = given.clone()
        triton_kernels.doubled[(3,)](given[0], given[1], torch.tensor(sizes, dtype=torch.int32), BLOCK=64)
    assert torch.equal(given, before)
    assert [torch.equal(2 * a, b) for a, b in zip(sources, results, strict=True)] == [True, keep, keep]
    assert {finding.code for finding in run.findings} == (set() if keep else {"global-out-of-bounds"})
    assert len(run.last.launch.buffers) == (8 if keep else 7)
    if keep:
        assert run.last.judge(seconds=10).verdict == "incomplete"  # no reference was given
