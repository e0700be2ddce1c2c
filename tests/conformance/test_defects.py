"""A planted defect goes in exactly where it says, or not at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tileproof.conformance.mutants.defects import (
    Defect,
    apply,
    defect,
    defects,
    planted_reference,
    source_overrides,
)
from tileproof.kernels.registry import kernel
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.problems.sparse_mla_bwd import stages
from tileproof.spec.problems.sparse_mla_bwd.problem import SPARSE_MLA_BWD
from tileproof.spec.problems.sparse_mla_bwd.stages import STAGES

SAMPLE = Defect("sample", "a sample", "head128-part0", "ptx", "", "add", "sub", "P", "every tile", count=2)


def test_replaces_every_occurrence():
    assert apply(SAMPLE, "add; add;") == "sub; sub;"


@pytest.mark.parametrize("text", ("", "add;", "add; add; add;"))
def test_refuses_another_number_of_occurrences(text):
    with pytest.raises(TileproofError, match="does not fit the text"):
        apply(SAMPLE, text)


def test_refuses_an_empty_find():
    with pytest.raises(TileproofError):
        apply(replace(SAMPLE, find="", count=0), "text")


def test_unknown_defect_lists_the_known():
    with pytest.raises(TileproofError) as caught:
        defect("no-such", {"sample": SAMPLE})
    assert "sample" in caught.value.expected


def test_source_override_is_the_changed_file():
    path = "sm100/head128_part0/kernel.cu"
    planted = replace(SAMPLE, kind="source", file=path, find="#include", replace="#include  ", count=0)
    with pytest.raises(TileproofError):
        source_overrides(planted)
    assert source_overrides(SAMPLE) == {}


def test_reference_defect_lasts_only_inside_the_context():
    planted = replace(
        SAMPLE,
        kind="reference",
        file="tileproof.spec.problems.sparse_mla_bwd.stages",
        find="m.rowsum(",
        replace="2 * m.rowsum(",
        count=1,
    )
    o, before = np.ones((2, 4)), stages.STAGES["delta"]

    def delta():
        return SPARSE_MLA_BWD.stages["delta"].exact(o=o, dO=o).tolist()

    with planted_reference(planted):
        assert delta() == [8, 8]
    assert SPARSE_MLA_BWD.stages["delta"] is before and delta() == [4, 4]


@pytest.mark.parametrize("planted", defects().values(), ids=lambda d: d.id)
def test_every_listed_defect_fits_its_source(planted):
    assert planted.stage in (*STAGES, "") and planted.place
    assert kernel(planted.kernel).name == planted.kernel
    if planted.kind == "source":
        assert source_overrides(planted)
