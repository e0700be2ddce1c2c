"""Settings for all tests."""

import gc
import os

# The tests' products are small and run on every worker: BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from tileproof.emulator.heap import keep_freed_memory

keep_freed_memory()
# Decoding a kernel makes tens of thousands of objects that live on.
gc.set_threshold(20_000)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the garbage collector leaves them alone."""
    gc.collect()
    gc.freeze()
