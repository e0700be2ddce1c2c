"""Fixtures of the kernels' tests."""

from __future__ import annotations

import pytest
from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

from tests.kit.inputs import make_inputs


@pytest.fixture
def inputs() -> Inputs:
    return make_inputs()
