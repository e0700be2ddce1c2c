"""All cases of the benchmark by id, and the rows of the corpus that have none, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from tileproof.conformance.beside.corpus.rows import ROWS
from tileproof.spec.machine.errors import TileproofError
from tileproof.tools.bugs import hand_written, planted, triton_cases, values
from tileproof.tools.bugs.case import BugCase

WITHOUT = MappingProxyType(
    {
        "I11": "needs a tensor of more than 2^31 elements; its test runs on memory that is allocated lazily",
        "I12": "the bug is in a host front end; its test zeroes scalars of the launch",
        "N8": "the bug is a speed that nobody measured",
        "H21": "its test edits the PTX of head64",
        "L1": "the kernel does not compile; its test reads the build's log",
        "L3": "the kernel does not compile; its test reads the build's log",
        "L4": "the kernel does not compile; its test reads the build's log",
    }
)


@cache
def cases() -> Mapping[str, BugCase]:
    """The cases by id: written by hand, in CUDA, of the synchronisation catalogue, of stages of
    kernels, in Triton and Gluon.
    """
    every: list[BugCase] = [
        *hand_written.cases(),
        *values.cases(),
        *planted.order_cases(),
        *planted.stage_cases(),
        *triton_cases.cases(),
    ]
    found = {case.id: case for case in every}
    assert len(found) == len(every), "two cases have the same id"
    return MappingProxyType(found)


def chosen(names: Sequence[str]) -> list[BugCase]:
    """The cases with these ids or of these rows; all without a name. TileproofError for an unknown name."""
    for name in names:
        if name not in cases() and name not in ROWS:
            raise TileproofError(
                "unknown case or row of the corpus", expected="`tileproof corpus`", found=name
            )
    return [case for case in cases().values() if not names or case.id in names or {*case.rows} & {*names}]


def rows_without() -> list[str]:
    """Rows of the corpus that no case stands for."""
    covered = {row for case in cases().values() for row in case.rows}
    return [row for row in ROWS if row not in covered]
