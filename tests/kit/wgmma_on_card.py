"""Right and wrong programs of wgmma on a card, beside what the emulator finds and what it lets them give.

    python -m tests.kit.wgmma_on_card EVIDENCE.json.xz [--runs N]

The programs are those of `tests/emulator/test_wgmma_rules.py`, and longer programs with a mistake that a card
can show. For each: the codes of the emulator's findings, the digests of the outputs under each schedule, and
how often the card gave which output, or an end without output.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tileproof.conformance.drivers.cuda import CudaDriver
from tileproof.conformance.drivers.emulator import launch_on, outputs_of
from tileproof.emulator import Schedule
from tileproof.kernels.launch.arguments import ScalarArgument
from tileproof.kernels.launch.builder import Given, LaunchBuilder
from tileproof.kernels.launch.model import LaunchFile
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import JsonObject
from tileproof.tools import evidence

from tests.emulator.test_wgmma_rules import HANDED, ONE_COPIES, REFILL, RIGHT, WRONG
from tests.kit.wgmma import (
    A_AT,
    B_AT,
    BYTES,
    COMMIT,
    COPY_IN,
    FENCE,
    OUT,
    SHARED,
    listed,
    module_text,
    place,
    program,
    wait_group,
)

POLICIES = tuple(
    Schedule.parse(text) for text in ("early", "late", "random:seed=1", "random:seed=2", "starve:seed=3")
)
HANG_SECONDS = 4.0
_WIDE = "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {}, %rd20, %rd21, 1, 1, 1, 0, 0;".format(
    listed("%d", 128)
)
LONG = "\n".join([*(f"mov.b32 %d{k}, 0;" for k in range(128)), FENCE, *[_WIDE] * 16, COMMIT])
UNFENCED = COPY_IN.replace("fence.proxy.async.shared::cta;\n", "")


@dataclass(frozen=True)
class Program:
    """A program and whether it is right."""

    name: str
    right: bool
    text: str
    threads: int = 128

    def launch(self) -> LaunchFile:
        """The launch, with operands whose elements are 1."""
        image = np.zeros(BYTES - SHARED, np.uint8)
        a = place(image, A_AT, np.full((64, 16), 1), "K", "128B", "bf16")
        b = place(image, B_AT, np.full((8, 16), 1), "K", "128B", "bf16")
        made = LaunchBuilder(self.name, self.text)
        arguments: list[Given] = [
            made.input("image", image),
            made.input("unused", np.zeros(4, np.uint32)),
            made.zeros("out", (16, self.threads), np.uint32),
            ScalarArgument("u64", a),
            ScalarArgument("u64", b),
        ]
        made.launch(
            "k",
            grid=(1, 1, 1),
            block=(self.threads, 1, 1),
            arguments=arguments,
            shared_bytes=BYTES - SHARED,
        )
        return made.file()


def programs() -> Iterator[Program]:
    """Every program."""
    for name, (body, _) in RIGHT.items():
        yield Program(name, True, program(body))
    for name, (body, _, _) in WRONG.items():
        threads = {"half a warpgroup": 64, "a warpgroup with half a warp": 112}.get(name, 128)
        yield Program(name, False, program(body, UNFENCED if name == "no proxy fence" else COPY_IN), threads)
    for right, barrier in ((True, "bar.sync 0;"), (False, "")):
        text = program(HANDED.replace("BARRIER", barrier), ONE_COPIES)
        yield Program("an accumulator of another warpgroup", right, text, 256)
        end = [wait_group(), "bar.sync 0;", REFILL] if right else [REFILL, wait_group()]
        address = "mul.wide.u32 %rd1, %t, 4;\nadd.s64 %rd13, %rd11, %rd1;"
        body = "\n".join([COPY_IN, address, LONG, *end, OUT])
        yield Program("a store to A behind sixteen products", right, module_text(body, ".reg .b32 %d<128>;"))


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()[:12]


def compared(case: Program, driver: CudaDriver, runs: int) -> JsonObject:
    """A program on both sides."""
    launch = case.launch()
    codes: set[str] = set()
    emulated: dict[str, str] = {}
    for schedule in POLICIES:
        result, buffers = launch_on(launch, schedule=schedule, races=True)
        codes |= {finding.code for finding in result.findings}
        emulated[str(schedule)] = digest(outputs_of(launch, buffers)["out"].values)
    card: Counter[str] = Counter()
    reason = ""
    for _ in range(runs):
        try:
            seen = driver.observe(launch)
        except TileproofError as error:
            card["refused"] += 1
            reason = error.found or str(error)
            break
        if seen.findings:
            card[seen.findings[0].code] += 1
            break
        card[digest(seen.outputs["out"].values)] += 1
    return {
        "name": case.name, "right": case.right, "codes": sorted(codes), "emulator": emulated,
        "card": dict(card), "alike": set(card) <= set(emulated.values()), "reason": reason[:200],
    }  # fmt: skip


def main() -> None:
    """Run every program and write the evidence file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    with CudaDriver(HANG_SECONDS) as driver:
        rows = [compared(case, driver, given.runs) for case in programs()]
        facts = vars(driver.facts) if driver.facts else None
    body: JsonObject = {"date": datetime.date.today().isoformat(), "card": facts, "programs": rows}
    evidence.write_json(given.out, body)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
