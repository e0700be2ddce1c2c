# ruff: noqa: E501 - case tables are kept whole
"""Every synchronisation mutant is found and named; what it is planted in is clean; the runner can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tileproof.conformance.planted.synchronisation import catalogue
from tileproof.conformance.planted.synchronisation import run as running
from tileproof.conformance.planted.synchronisation.catalogue import CLASSES
from tileproof.conformance.planted.synchronisation.ptx import text
from tileproof.conformance.planted.synchronisation.run import SCHEDULES, launch, programs, run, shown_findings
from tileproof.emulator import Schedule
from tileproof.kernels.edit import Edit, Place, PlantedDefect, Reported, Sizes
from tileproof.kernels.registry import kernel
from tileproof.kernels.sm100.head128_columns import defects_pair
from tileproof.spec.machine.errors import TileproofError

from tests.kit.sampled import sampled

ROWS = catalogue.catalogue()
# More schedules than a row is judged under: a right program must be clean under each.
CLEAN = (
    *SCHEDULES,
    *(Schedule("starve", seed) for seed in range(1, 5)),
    *(Schedule("pct", seed) for seed in range(4)),
)


# Those of head128-columns that differ from head64's by the kind of access: run always.
OTHER_ACCESS = {"cols-p-share-early", "cols-share-not-waited-for", "cols-copies-without-proxy-fence"}
OTHER_ACCESS |= {"cols-freed-by-one"}
PAIRS = {defect.id for defect in defects_pair.DEFECTS}  # need two CTAs


def _kind(name: str) -> object:
    """A kernel, a pair of its CTAs, or a program alone; each of `OTHER_ACCESS` alone."""
    compiled = bool(ROWS[name].edits[0].place.file)
    return (ROWS[name].target, name in PAIRS) if compiled and name not in OTHER_ACCESS else name


@pytest.mark.corpus(
    "H1", "H2", "H3", "H4", "H5", "H6", "H7", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11",
    "R12", "R13", "R14",
)  # fmt: skip
@pytest.mark.parametrize("name", sampled([*ROWS], 4, _kind))
def test_planted_order_is_found_and_named(name: str) -> None:
    outcome = run(ROWS[name])
    assert not outcome.wrong, outcome.wrong


@pytest.mark.parametrize("name", programs())
def test_program_as_it_should_be_is_clean(name: str) -> None:
    own = programs()[name].text()
    for schedule in CLEAN:
        shown = shown_findings(launch(name, own, schedule), schedule)
        assert not shown, f"{schedule}: {shown[0].finding}"


@pytest.mark.parametrize("name", ["head128-part0", "head64"])
@pytest.mark.parametrize(
    "sizes", [Sizes(), Sizes(blocks=2, lengths=(0, None, 65)), Sizes(d_qk=512, blocks=1)]
)
def test_kernel_is_clean(name: str, sizes: Sizes) -> None:
    built = kernel(name).build(kernel(name).variant(d_qk=sizes.d_qk))
    for schedule in CLEAN[::2]:
        shown = shown_findings(launch(name, built.ptx, schedule, sizes, built), schedule)
        assert not shown, f"{schedule}: {shown[0].finding}"


def test_each_class_is_planted_at_least_twice() -> None:
    counts = catalogue.per_class(tuple(ROWS.values()))
    assert set(counts) == set(CLASSES) and min(counts.values()) >= 2, counts
    assert {name for row in ROWS.values() for name in row.classes} <= set(CLASSES)
    assert len(ROWS) >= 45


def test_at_least_eight_are_planted_in_kernel_sources() -> None:
    in_source = [row for row in ROWS.values() if any(edit.place.kind == "source" for edit in row.edits)]
    in_ptx = [row for row in ROWS.values() if any(bool(edit.place.opcode) for edit in row.edits)]
    assert len(in_source) >= 8 and {row.target for row in in_source + in_ptx} >= {
        "head128-part0",
        "head64",
    }


def test_rows_say_what_must_be_named() -> None:
    for row in ROWS.values():
        expected = row.expected
        assert isinstance(expected, Reported)
        if expected.code.startswith("race-"):
            assert expected.first and expected.second and expected.missing, row.id
            at = expected.first_at or expected.second_at
            assert at or not row.edits[0].place.file, row.id
        elif expected.code in ("hang", "livelock"):
            assert len(expected.says) >= 2, row.id
        else:
            assert expected.second, row.id


def test_every_program_has_a_wrong_twin() -> None:
    assert {row.target for row in ROWS.values() if not row.edits[0].place.file} == set(programs())


# ---- the runner itself: what is wrong must come out as wrong

GOOD = ROWS["store-without-proxy-fence"]
KERNEL = ROWS["p0-read-without-fence"]
HANG = ROWS["ring-count-too-large"]


def expecting(row: PlantedDefect, **changed: Any) -> str:
    """What `run` says of the row when it expects something else."""
    return run(replace(row, expected=replace(row.expected, **changed))).wrong  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "changed", "says"),
    [
        (GOOD, {"code": "race-unordered"}, "race-proxy-fence"),
        (GOOD, {"severity": "warning"}, "error race-proxy-fence"),
        (GOOD, {"second": "ld.shared"}, "the finding is at cp.async.bulk"),
        (GOOD, {"first": "ld.shared"}, "the earlier access is st.shared"),
        (GOOD, {"missing": "wait_group"}, "missing is 'fence.proxy.async"),
        (GOOD, {"first_at": "bar.sync 0;"}, "occurrence"),
        (GOOD, {"first_at": "xor.b32 %r2, %t, 33;"}, "the earlier access is at PTX line"),
        (GOOD, {"says": ("TMEM",)}, "'TMEM' is missing in"),
        (HANG, {"says": ("lacks 2 of 3",)}, "is missing in"),
        (HANG, {"code": "livelock"}, "error hang"),
        (HANG, {"missing": "a barrier"}, "does not name the earlier access"),
        (
            KERNEL,
            {"second_at": "sm100/head128_part0/kernel.cuh: ptx::wait_tmem_loads();"},
            "it is at PTX line",
        ),
    ],
)
def test_a_finding_under_another_name_is_a_failure(
    row: PlantedDefect, changed: dict[str, Any], says: str
) -> None:
    if says == "occurrence":
        with pytest.raises(TileproofError, match="does not fit"):
            expecting(row, **changed)
    else:
        assert says in expecting(row, **changed)


def test_a_defect_that_is_no_defect_is_missed() -> None:
    harmless = replace(GOOD, edits=(text("xor.b32 %r2, %t, 33;", "xor.b32 %r2, %t, 34;"),))
    assert run(harmless).wrong == "nothing is found"


def test_a_defect_under_another_schedule_is_a_failure() -> None:
    assert "under early" in run(replace(GOOD, policy="random")).wrong


@pytest.mark.parametrize(
    ("target", "edit", "says"),
    [
        ("ring", text("there is no such text"), "does not fit"),
        ("ring", text("mad.lo.u32 %r6, %r2, 256, %r6;"), "does not fit"),  # it occurs twice
        ("ring", Edit(Place("x", "sm100/head64/mma.cuh")), "edits of its text only"),
        ("nowhere", text("x"), "no such kernel or program"),
        ("head64", text("there is no such PTX"), "does not fit"),
        ("head64", Edit(Place("there is no such text", "sm100/head64/mma.cuh")), "does not fit"),
        ("head64", Edit(Place("x", "sm100/head64/none.cuh")), "source does not exist"),
        ("head64", Edit(Place("there is no such line", "sm100/head64/mma.cuh", opcode="bar")), "does not fit"),
        ("head64", Edit(Place("smem.q_ready.wait_own(0);", "sm100/head64/mma.cuh", opcode="bar.sync")), "does not fit"),
        ("head64", Edit(Place("smem.q_ready.wait_own(0);", "sm100/head64/mma.cuh", opcode="mbarrier.try_wait", part="zzz")), "does not fit"),
    ],
)  # fmt: skip
def test_an_anchor_that_is_gone_is_an_error(target: str, edit: Edit, says: str) -> None:
    row = PlantedDefect("planted-for-the-test", "", "", target, (edit,), Reported("hang"))
    with pytest.raises(TileproofError, match=says):
        running.run(row)
