"""How often `explain` names the planted cause of a hang, over many logs; and how fast it reads large ones.

    python benchmarks/hang_logs.py [--runs 310] [--seed 0] [--show 20]   the score; 1 when it does not pass
    python benchmarks/hang_logs.py --speed [--mib 50]      seconds for a large log, and one endless line

Logs are made by tests/kit/hang_logs: emulator runs with planted hangs, in many wordings, damaged.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kit.hang_logs.judges import explain
from tests.kit.hang_logs.score import Score, score


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=310)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="names of logs answered wrongly")
    parser.add_argument("--kernels", action="store_true", help="of this repository's kernels instead")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--mib", type=int, default=50)
    chosen = parser.parse_args()
    if chosen.speed:
        return speed(chosen.mib)
    if chosen.kernels:
        from tests.kit.hang_logs.kernels import kernel_logs

        found = Score()
        for log in kernel_logs():
            found.add(log, explain(log))
    else:
        found = score(explain, chosen.seed, chosen.runs)
    print(found.table())
    for name in found.wrong[: chosen.show]:
        print("wrong:", name)
    for name in found.certain:
        print("wrong and certain:", name)
    return 0 if found.passes() else 1


def speed(mib: int) -> int:
    """Prints seconds for a log of many rounds, and for one line without an end."""
    from tileproof.conformance.beside.logs.hangs.reader import read_text
    from tileproof.conformance.beside.logs.hangs.render import diagnosis

    from tests.kit.hang_logs.large import long_log

    for name, text in (
        ("log", long_log(mib << 20)),
        ("one line", "[WG0 CTA0] wait bar_a " * (mib << 20 >> 4)),
    ):
        start = time.perf_counter()
        log = read_text(text)
        diagnosis(log)
        print(f"{name}: {len(text) / (1 << 20):.0f} MiB in {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
