"""Settings for all tests."""

import os

# The tests' products are small and run on every worker: BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tileproof.emulator.heap import keep_freed_memory

keep_freed_memory()
