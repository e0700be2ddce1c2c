"""Every row of the first hour, in the order in which they run."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tileproof.tools.card.clocks import LOOPS, WITHOUT
from tileproof.tools.card.readings import all_readings
from tileproof.tools.card.record import FILES
from tileproof.tools.card.row import Row

WORDS = ("test_mma_exact.py", "test_mma_forms.py", "test_mma_kinds.py", "test_mma_sync.py")
# Kernels with a plan, and the targets whose cards run them.
KERNELS = {
    "sm90-gemm": "sm_90", "sm90-gemm-bias": "sm_90", "head64": "sm_100a", "head128-columns": "sm_100a",
    "head128-part0": "sm_100a", "sm100-gemm-bias": "sm_100a",
}  # fmt: skip
PEERS = {"cudnn": "cudnn-frontend", "flash_attn": "FlashAttention"}
BENCHMARKS = ("latency", "shared_memory", "exchange", "sharing", "softmax_parts", "together", "wake")
ON_A_CARD = ("cuda", "dry-run")


def _module(name: str, *arguments: object) -> tuple[str, ...]:
    return ("-P", "-m", f"tileproof.tools.card.{name}", *map(str, arguments))


def rows(folder: Path, driver: str, examples: int) -> Iterator[Row]:
    """The rows for `driver` ("cuda", "emulator" or "dry-run"), with the recorded launches of `folder`."""
    card = driver in ON_A_CARD
    no_card = "" if card else "needs a card; this run is on the emulator"
    yield Row("card", "facts", _module("facts") if card else (), 60, no_card)
    yield Row("card", "tensor maps by the driver", _module("maps") if card else (), 120, no_card)
    for reading in all_readings():
        program = _module("launches", folder, driver, *reading.tests) if reading.tests else ()
        yield Row("reading", reading.text, program, 180, reading.not_run)
    for file in FILES:
        group = "tensor-core words" if file in WORDS else "instructions"
        yield Row(group, file, _module("launches", folder, driver, f"{file}::"), 420)
    yield from kernels(driver, examples)
    for name, loop in LOOPS.items():
        emulated = driver == "emulator" or (driver == "dry-run" and loop.tensor_memory)
        yield Row("clocks", name, _module("clocks", name, "emulator" if emulated else "cuda"), 60)
    for name, why in WITHOUT.items():
        yield Row("clocks", name, reason=why)
    for name in BENCHMARKS:
        missing = no_card or ("" if nvcc() else "nvcc is not installed")
        program = () if missing else _module("program", name)
        yield Row("clocks", f"benchmarks/silicon/{name}.cu", program, 240, missing)
    for package, name in PEERS.items():
        here = importlib.util.find_spec(package) is not None
        why = "no comparison is written yet" if here else f"{package} is not installed"
        yield Row("speed", name, reason=why)
    why = "the driver of launch files does not time launches"
    yield Row("speed", "kernels of this repository", reason=why)


def kernels(driver: str, examples: int) -> Iterator[Row]:
    """`tileproof check` of every kernel."""
    for name, target in KERNELS.items():
        on = "cuda" if driver == "cuda" or (driver == "dry-run" and target == "sm_90") else "emulator"
        row = Row("kernels", name, _module("kernel", name, on, examples), 600)
        missing = importlib.util.find_spec("cutlass_library") is None
        if missing:
            row = replace(row, program=(), reason="the extra tileproof[kernels] is not installed")
        yield row


def nvcc() -> str | None:
    """The CUDA compiler: of this Python environment, or of the system."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(place) / "cu13" / "bin" / "nvcc").exists():
            return str(path)
    return shutil.which("nvcc")


def matching(found: Iterator[Row], only: str) -> list[Row]:
    """The rows whose "group: name" holds the regular expression `only`."""
    return [row for row in found if re.search(only, f"{row.group}: {row.name}")]
