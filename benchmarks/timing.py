"""The timing model beside what an H200 measured: `python benchmarks/timing.py`.

Prints a row per program of benchmarks/silicon: measured clocks (docs/evidence), the model's likely case, how
far it is off, and whether its interval holds the measurement. Arguments name the groups: latencies, banks,
exchanges, sharings, exports, sharing_rows, parts, additions; all without any.
`--leave-one-out`: figures that were chosen from several programs are chosen again without each of them, which
then tests the others.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tileproof.spec.machine.timing import HOPPER
from tileproof.tools import calibration, leave_one_out, time_page

GROUPS = (*time_page.GROUPS, *time_page.PARTS, *time_page.ADDITIONS)


def main(arguments: list[str]) -> None:
    """Prints the table."""
    print(f"{'clocks':64s} measured     best   likely    worst      off  held  fitted")
    rows: list[calibration.Row] = []
    options = [argument for argument in arguments if argument.startswith("--")]
    groups = [argument for argument in arguments if argument not in options]
    with tempfile.TemporaryDirectory() as name:
        for group in groups or GROUPS:
            for row in time_page.of(group)(Path(name)):
                print(
                    f"{row.what:64s} {row.measured:8.1f} {row.best:8.1f} {row.likely:8.1f} {row.worst:8.1f} "
                    f"{row.off:+8.1%}  {'yes ' if row.held else 'NO  '}  {row.fits or 'held out'}",
                    flush=True,
                )
                rows.append(row)
        print("\n".join(time_page.summary(rows)))
        if "--leave-one-out" in options:
            print("\n".join(leave_one_out.lines(rows, HOPPER)))


if __name__ == "__main__":
    main(sys.argv[1:])
