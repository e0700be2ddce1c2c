# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""Every registered instruction has a test: the table names it, and the test exists and spells the instruction's base."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tileproof.emulator import isa, registry

HERE = Path(__file__).parent

COVERED = {
    "test_alu_integer.py": "add sub mul mad div rem min max neg abs and or xor not shl shr popc clz brev lop3 prmt",
    "test_alu_float.py": "fma ex2 lg2 rsqrt sqrt rcp",
    "test_compare_move.py": "setp selp mov",
    "test_convert.py": "cvt",
    "test_memory.py": "ld st cvta mapa prefetch prefetchu applypriority discard fence membar nanosleep pmevent griddepcontrol",
    "test_registers.py": "setmaxnreg",
    "test_atomics.py": "atom red",
    "test_warp.py": "elect.sync shfl.sync vote.sync activemask bar.warp.sync",
    "test_divergence.py": "bra exit ret",
    "test_barriers.py": "bar barrier barrier.cluster.arrive barrier.cluster.wait",
    "test_mbarrier.py": "mbarrier.init mbarrier.inval mbarrier.arrive mbarrier.expect_tx mbarrier.complete_tx mbarrier.try_wait mbarrier.test_wait",
    "test_tma.py": "cp.async.bulk.tensor cp.reduce.async.bulk.tensor",
    "test_bulk.py": "cp.async.bulk cp.reduce.async.bulk cp.async.bulk.commit_group cp.async.bulk.wait_group",
    "test_tmem.py": "tcgen05.alloc tcgen05.dealloc tcgen05.relinquish_alloc_permit tcgen05.ld tcgen05.st tcgen05.wait::ld tcgen05.wait::st "
    "tcgen05.cp tcgen05.commit tcgen05.fence::before_thread_sync tcgen05.fence::after_thread_sync",
    "mma_kit.py": "tcgen05.mma",
    "test_print.py": "call",
    "test_findings.py": "trap",
}  # fmt: skip
FILE_OF = {base: file for file, bases in COVERED.items() for base in bases.split()}


def uncovered(rows: list[registry.Row]) -> list[str]:
    """Bases that are executed and that no test file spells."""
    kit = (HERE / "ptx_kit.py").read_text()
    out = []
    for row in rows:
        if row.grade == "refused":  # test_bad_ptx walks all of these
            continue
        file = FILE_OF.get(row.base)
        text = (HERE / file).read_text() + kit if file else ""
        if not re.search(rf'\b{re.escape(row.base)}\b|"{re.escape(row.base)}"', text):
            out.append(row.base)
    return out


def test_every_executed_instruction_is_tested() -> None:
    assert isa and not uncovered(registry.ROWS)


def test_the_table_names_nothing_else() -> None:
    assert set(FILE_OF) <= {row.base for row in registry.ROWS}
    assert all((HERE / file).exists() for file in COVERED)


def test_a_new_instruction_without_a_test_is_noticed() -> None:
    row = registry.Row("frobnicate", "logic", "", "modelled", "0", "", lambda *_: None)
    assert uncovered([*registry.ROWS, row]) == ["frobnicate"]


@pytest.mark.parametrize("row", registry.ROWS, ids=lambda row: row.base)
def test_rows_are_complete(row: registry.Row) -> None:
    assert (
        row.grade in ("modelled", "order only", "refused")
        and row.group
        and re.fullmatch(r"9\.7[\d., ]*", row.section)
    )
    assert (row.decode is None) == (row.grade == "refused")
