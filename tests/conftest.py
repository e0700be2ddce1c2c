"""Settings for all tests."""

import os

# The tests' products are small and run on every worker: BLAS threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
