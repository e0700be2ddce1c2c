"""The CUDA card of this machine, for tests that need a card; without a card they are skipped by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.spec.machine.errors import TileproofError


@cache
def without_card() -> str:
    """Why there is no card here; empty when there is a card."""
    try:
        with CudaDriver() as driver:
            driver.start()
    except TileproofError as error:
        return str(error.found)
    return ""


@pytest.fixture
def card() -> Iterator[CudaDriver]:
    """A driver of the first CUDA card."""
    if why := without_card():
        pytest.skip(f"needs a CUDA card: {why}")
    with CudaDriver(seconds=5.0) as driver:
        yield driver
