"""Runs launches with races checked in a process for a long time: `python -m tests.kit.soak --seconds 3600`.

Every launch has a new seed. A launch that reports what it should not fails the soak, and so does a process
that grows: its memory, open files, threads, Python objects, or the processor time of the same launch. The
first quarter of the time is the warm-up; growth is measured from its end.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tileproof.conformance.cases.generators import small
from tileproof.conformance.explore.explored import Explored
from tileproof.conformance.planted.synchronisation import run as synchronisation
from tileproof.conformance.planted.synchronisation.catalogue import catalogue
from tileproof.emulator import LaunchError, Memory, Module, Schedule
from tileproof.kernels.registry import all_compiled
from tileproof.spec.machine.errors import TileproofError

from tests.kit.ptx import kernel_text

POLICIES = ("early", "late", "random", "starve", "pct", "late-random")
GROWTH = {"memory": 1.10, "files": 1.0, "threads": 1.0, "objects": 1.02, "launch": 1.25}
FEW_KERNELS = ("head64", "sm100-gemm-bias", "sm90-gemm")  # whose launches take under a second
ENDLESS = kernel_text("L: st.global.u32 [%a0], %r1;\nadd.u32 %r1, %r1, 1;\nbra.uni L;", [False])
HANGS = kernel_text(
    "mbarrier.init.shared::cta.b64 [1024], 2;\nmbarrier.arrive.shared::cta.b64 _, [1024];\n"
    "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [1024], 0;\n@!%p1 bra W;",
    [False],
)


class SoakError(AssertionError):
    """A launch that reported what it should not."""


def schedule(draw: random.Random) -> Schedule:
    """Return a schedule of a drawn policy and seed."""
    return Schedule(draw.choice(POLICIES), draw.getrandbits(31))  # type: ignore[arg-type]


@lru_cache(maxsize=1)
def explored() -> tuple[Explored, ...]:
    """Return a small case of each variant of `FEW_KERNELS`."""
    cases = []
    for kernel in all_compiled():
        if kernel.name in FEW_KERNELS:
            for variant in kernel.variants:
                cases.append(Explored.of(kernel, kernel.build(variant), small(kernel.plan(variant), 2)))
    return tuple(cases)


def kernel_is_clean(draw: random.Random) -> None:
    """A kernel of the repository: no error, and its certificate, whatever the schedule."""
    case = draw.choice(explored())
    when = schedule(draw)
    result, _ = case(schedule=when, races=True, trace=draw.random() < 0.2, trace_limit=20_000)
    errors = [finding for finding in result.findings if finding.severity == "error"]
    if errors:
        raise SoakError(f"{case.title} under {when}: {errors[0]}")


def program_is_clean(draw: random.Random) -> None:
    """A small right program."""
    name, program = draw.choice(list(synchronisation.programs().items()))
    when = schedule(draw)
    if shown := synchronisation.shown_findings(synchronisation.launch(name, program.text(), when), when):
        raise SoakError(f"{name} under {when}: {shown[0].finding}")


def planted_is_found(draw: random.Random) -> None:
    """A race or hang planted in a small program is found and named."""
    programs = synchronisation.programs()
    row = draw.choice([row for row in catalogue().values() if row.target in programs])
    outcome = synchronisation.run(row)
    if outcome.wrong:
        raise SoakError(f"{row.id}: {outcome.wrong}")


def hostile_bytes(draw: random.Random) -> None:
    """A case of the fuzzer: it ends in findings or in an error of this package."""
    from tests.kit.fuzz.__main__ import cases

    draw.choice(list(cases().values()))(random.Random(draw.getrandbits(64)))


def hang_is_found(draw: random.Random) -> None:
    """A wait that no arrival ends."""
    memory = Memory()
    result = Module.from_ptx(HANGS).launch(
        "k", grid=(draw.randint(1, 4),), block=(1,), args=[memory.empty(1, np.uint32)], memory=memory,
        schedule=schedule(draw), races=True, shared_bytes=16,
    )  # fmt: skip
    if not result.hang:
        raise SoakError(f"a hang was not found: {result.findings}")


def endless_is_stopped(draw: random.Random) -> None:
    """A launch without an end stops at its limit; meanwhile its buffer cannot be freed."""
    memory = Memory()
    buffer = memory.buffer(np.zeros(1, np.uint32))
    module = Module.from_ptx(ENDLESS)
    thread = threading.Thread(
        target=lambda: module.launch(
            "k", grid=(1,), block=(1,), args=[buffer], memory=memory, seconds_limit=0.1, races=True
        )
    )
    thread.start()
    while thread.is_alive() and buffer.numpy()[0] == 0:
        time.sleep(0.001)
    if thread.is_alive():
        try:
            memory.free(buffer)
        except LaunchError:
            pass
        else:
            raise SoakError("a buffer was freed while a launch used it")
    thread.join()
    memory.free(buffer)


def threads_at_once(draw: random.Random) -> None:
    """Three threads launch at once."""
    seeds = [random.Random(draw.getrandbits(64)) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(program_is_clean, seed) for seed in seeds]:
            done.result()


def errors_are_errors(draw: random.Random) -> None:
    """Damaged PTX and wrong arguments."""
    text = list(ENDLESS)
    for _ in range(draw.randint(1, 4)):
        text[draw.randrange(len(text))] = chr(draw.randrange(32, 127))
    try:
        memory = Memory()
        Module.from_ptx("".join(text)).launch(
            "k", grid=(1,), block=(1,), args=[memory.empty(1, np.uint32)], memory=memory,
            instruction_limit=10_000, races=True,
        )  # fmt: skip
    except TileproofError:
        pass


Step = Callable[[random.Random], None]
STEPS: dict[Step, int] = {  # with their weights
    kernel_is_clean: 6, program_is_clean: 12, planted_is_found: 4, hostile_bytes: 12, hang_is_found: 4,
    endless_is_stopped: 1, threads_at_once: 2, errors_are_errors: 8,
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The state of the process at one time."""

    at: float
    memory: float  # MB, resident
    files: float
    threads: float
    objects: float
    launch: float  # processor seconds of the same launch


def reference_launch() -> tuple[float, bytes]:
    """Return the processor time of the first kernel's launch under one schedule, the least of five, and its
    output bytes.
    """
    took = []
    for _ in range(5):
        began = time.thread_time()
        _, outputs = explored()[0](schedule=Schedule("random", 1), races=True)
        took.append(time.thread_time() - began)
    return min(took), b"".join(outputs[name].tobytes() for name in sorted(outputs))


def measure(began: float) -> Measured:
    """Measure this process now."""
    seconds, _ = reference_launch()
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    return Measured(
        time.monotonic() - began,
        int(resident) / 1024,
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(gc.get_objects()),
        seconds,
    )


def grown(every: list[Measured]) -> Iterator[str]:
    """What grew: the median of the last quarter against that of the second, beyond `GROWTH`."""
    quarter = len(every) // 4
    if quarter < 2:
        yield f"{len(every)} measurements do not show growth: give it more seconds"
        return
    for name, most in GROWTH.items():
        before = median(getattr(state, name) for state in every[quarter : 2 * quarter])
        after = median(getattr(state, name) for state in every[-quarter:])
        if after > before * most:
            yield f"{name} grew from {before:g} to {after:g}"


def soak(seconds: float, seed: int, steps: dict[Step, int]) -> tuple[str, ...]:
    """Run drawn steps for `seconds` and return what is wrong; prints a line for each of 60 parts."""
    draw = random.Random(seed)
    _, expected = reference_launch()
    began = time.monotonic()
    done: Counter[str] = Counter()
    every: list[Measured] = []
    wrong: list[str] = []
    part = max(seconds / 60, 1e-3)
    names = list(steps)
    while time.monotonic() - began < seconds:
        step, step_seed = draw.choices(names, list(steps.values()))[0], draw.getrandbits(64)
        done[step.__name__] += 1
        try:
            step(random.Random(step_seed))
        except Exception as error:
            wrong.append(f"{step.__name__}, seed {step_seed}: {type(error).__name__}: {str(error)[:500]}")
            print(wrong[-1], flush=True)
        if time.monotonic() - began >= part * (len(every) + 1):
            every.append(measure(began))
            if reference_launch()[1] != expected:
                wrong.append("the same launch has other outputs")
            print(row(every[-1], sum(done.values())), flush=True)
    print(", ".join(f"{name} {count}" for name, count in sorted(done.items())))
    return (*wrong, *grown(every))


def row(state: Measured, steps: int) -> str:
    """Return a line of the report."""
    return (
        f"{state.at:7.0f} s {steps:8} steps {state.memory:7.1f} MB {state.files:3.0f} files "
        f"{state.threads:2.0f} threads {state.objects:8.0f} objects {state.launch * 1e3:7.2f} ms a launch"
    )


def main() -> int:
    """Soak this process; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", default="today", help='a number, or "today"')
    given: Any = parser.parse_args()
    seed = date.today().toordinal() if given.seed == "today" else int(given.seed)
    print(f"{date.today()}, {given.seconds:g} seconds, seed {seed}, races checked", flush=True)
    wrong = soak(given.seconds, seed, STEPS)
    for line in wrong:
        print(line)
    print("clean" if not wrong else f"{len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
