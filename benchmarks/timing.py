"""The timing model beside what an H200 measured: `python benchmarks/timing.py`.

Prints a row per program of benchmarks/silicon: measured clocks (docs/evidence), the model's likely case, how
far it is off, and whether its interval holds the measurement.
"""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

from tileproof.tools.calibration import exchanges, exports, latencies


def main() -> None:
    """Prints the table."""
    print(f"{'clocks':48s} measured     best   likely    worst      off  held")
    with tempfile.TemporaryDirectory() as name:
        for row in chain(latencies(Path(name)), exchanges(Path(name)), exports(Path(name))):
            print(
                f"{row.what:48s} {row.measured:8.1f} {row.best:8.1f} {row.likely:8.1f} {row.worst:8.1f} "
                f"{row.off:+8.1%}  {'yes' if row.held else 'NO'}"
            )


if __name__ == "__main__":
    main()
