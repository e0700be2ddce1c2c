"""Records the launches of the emulator's instruction tests, a file each, for `tileproof.tools.card`.

    python -m tileproof.tools.card.record FOLDER [-j PROCESSES] [FILE.py ...]

Needs pytest and the emulator, no card. Every launch is run with the tensor core's exact arithmetic; of each
test `EACH` launches are kept. A file that is there is not recorded again.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
# Test files whose launches a card can repeat: instructions and copies, no schedules, races or hangs.
NAMES = """alu_float alu_integer alu_rounded atomic_rows atomics barrier_reductions barriers bits bulk
bulk_groups cache_policy compare_move convert convert_small cp_async divergence functions
indirect indirect_calls matrix_memory mbarrier memory mma_exact mma_forms mma_kinds mma_sync
multicast nan_bits peer_commits readings registers remote_store spelled_values stream
tcgen05_cp tensormap_replace tma tma_modes tma_packed tmem tmem_reduce warp warp_values wgmma
wgmma_rules wmma"""
FILES = tuple(f"test_{name}.py" for name in NAMES.split())
EACH = 1


def record(folder: Path, file: str) -> str:
    """Record one test file; an empty text, or why there is nothing."""
    out = folder / f"{file.removesuffix('.py')}.npz"
    if out.exists():
        return ""
    scratch = out.with_suffix(".new.npz")
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "tools.silicon.record"),
        *("-p", "no:cacheprovider"),
        *(f"tests/emulator/{file}", "--silicon-sm100", f"--silicon-each={EACH}", f"--silicon-out={scratch}"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not scratch.exists():
        return f"{file}: {done.stdout[-300:]}{done.stderr[-300:]}"
    scratch.replace(out)  # tests that want the fast arithmetic fail here, and are recorded all the same
    return ""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1)
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(1))
def main(folder: Path, files: tuple[str, ...], jobs: int) -> None:
    """Record FILES, or all, into FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        for why in pool.map(lambda file: record(folder.resolve(), file), files or FILES):
            if why:
                click.echo(f"not recorded: {why}", err=True)


if __name__ == "__main__":
    main()
