"""A case of a single launch with arrays in and an array out, in PTX or CUDA."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tileproof.conformance.planted.synchronisation.run import SCHEDULES
from tileproof.kernels.compile import Unit, compile_unit
from tileproof.kernels.launch.builder import Given, LaunchBuilder, tensor_map
from tileproof.kernels.launch.contents import ArrayContent, name_of
from tileproof.kernels.launch.model import LaunchBuffer, LaunchFile
from tileproof.spec.machine.finding import Finding
from tileproof.spec.machine.run_result import RunResult
from tileproof.spec.machine.schedule import Schedule
from tileproof.spec.machine.types import Array
from tileproof.tools.bugs.case import BugCase, Detection, place_of, run_launch, severe
from tileproof.tools.bugs.text import kernel_text

CUDA = Path(__file__).with_name("cuda")


@dataclass(frozen=True, eq=False)
class ProgramCase(BugCase):
    """The first argument is the output `a0`, unwritten or `begins`; the inputs `a1`, ... follow. `expected`:
    the output of the right form, within `bound`.

    A finding must have a code of `codes`; `at` is text of the line of an access or wait that it names (of
    wrong values: the place in the output), `missing` is part of the missing edge.
    """

    right: str
    other: str
    values: tuple[int | float, ...]
    codes: tuple[str, ...]
    at: str = ""
    missing: str = ""
    inputs: tuple[Array, ...] = ()
    begins: Array | None = None
    threads: int = 64
    cluster: int = 1
    grid: int = 0

    @abstractmethod
    def ptx(self, wrong: bool) -> str:
        """The text of a form."""

    @abstractmethod
    def expected(self) -> tuple[Array, Array]:
        """The output of the right form, and how far each element may be from it."""

    @abstractmethod
    def differs(self, finding: Finding) -> str:
        """What of a finding is not as the case states; empty: nothing."""

    def value_differs(self, place: str) -> str:
        """What of a wrong value at a place is not as the case states."""
        return "" if "value" in self.codes and self.at in ("", place) else f"expected {self.codes} {self.at}"

    def arguments(self, made: LaunchBuilder, wrong: bool) -> list[Given]:
        """The arguments after the output."""
        return [made.input(f"a{n}", array) for n, array in enumerate(self.inputs, 1)]

    def launch(self, wrong: bool) -> LaunchFile:
        made = LaunchBuilder(self.id, self.ptx(wrong))
        expected = self.expected()[0]
        if self.begins is None:
            out = made.output("a0", expected.shape, expected.dtype, whole=False)
        else:
            content = ArrayContent(self.begins)
            out = made.add(LaunchBuffer("a0", name_of(expected.dtype), expected.shape, "inout", content))
        made.launch(
            "k",
            grid=(self.grid or self.cluster, 1, 1),
            block=(self.threads, 1, 1),
            cluster=(self.cluster, 1, 1),
            arguments=[out, *self.arguments(made, wrong)],
            shared_bytes=4096,
        )
        return made.file()

    def seen(self, wrong: bool, schedule: Schedule) -> tuple[RunResult, Array]:
        """A run of a form with race checking, and the places of its wrong values."""
        result = run_launch(self.launch(wrong), schedule, races=True)
        value, bound = self.expected()
        with np.errstate(invalid="ignore"):
            off = np.abs(result.outputs["a0"].values.astype(np.float64) - value.astype(np.float64)) <= bound
        return result, np.flatnonzero(~off)

    def detected_under(self, schedule: Schedule) -> Detection:
        """What a run of the wrong form reports: a finding, or wrong values where there is none."""
        result, wrong = self.seen(True, schedule)
        if found := severe(result.findings):
            named = [self.differs(each) for each in found]
            best = named.index("") if "" in named else 0
            first = found[best]
            return Detection(first.code, place_of(first), first.message, named[best], str(schedule))
        if not wrong.size:
            return Detection()
        place = f"a0[{wrong[0]}]"
        expected, out = self.expected()[0], result.outputs["a0"].values
        said = (
            f"expected {expected[wrong[0]]}, found {out[wrong[0]]}; {wrong.size} of {expected.size} are wrong"
        )
        return Detection("value", place, said, self.value_differs(place), str(schedule))

    def detected(self) -> Detection:
        for schedule in SCHEDULES:
            if (found := self.detected_under(schedule)).code:
                return found
        return Detection()

    def alarms(self, schedules: Sequence[Schedule] = SCHEDULES) -> list[str]:
        found = []
        for schedule in schedules:
            result, wrong = self.seen(False, schedule)
            found += [f"{schedule}: {each.code}: {each.message}" for each in severe(result.findings)]
            found += [f"{schedule}: {wrong.size} wrong values"] if wrong.size else []
        return found


SHARED = 1024  # where dynamic shared memory begins


def addressed(body: str, maps: Sequence[bool]) -> str:
    """The kernel of a body whose fixed addresses are those of dynamic shared memory, as ptxas wants them."""
    named = re.sub(r"\[(\d+)\]", lambda at: f"[shared+{int(at[1]) - SHARED}]", body)
    return kernel_text(named, maps, ".extern .shared .align 1024 .b8 shared[];")


def _lines(finding: Finding) -> list[int]:
    """Lines of the PTX that a finding names."""
    machine = finding.machine
    race = [machine.race.ptx_line] if machine.race else []
    return [line for line in (machine.ptx_line, *race, *(each.ptx_line for each in machine.waiting)) if line]


@dataclass(frozen=True, eq=False)
class PtxCase(ProgramCase):
    """`right` and `other` are bodies of PTX (`text.kernel_text`)."""

    def ptx(self, wrong: bool) -> str:
        return addressed(self.other if wrong else self.right, [False] * (1 + len(self.inputs)))

    def expected(self) -> tuple[Array, Array]:
        kind = np.float32 if isinstance(self.values[0], float) else np.uint32
        return np.asarray(self.values, kind), np.zeros(len(self.values))

    def differs(self, finding: Finding) -> str:
        if finding.code not in self.codes:
            return f"found as {finding.code}, expected {', '.join(self.codes)}"
        lines = self.ptx(True).split("\n")
        if not any(self.at in lines[number - 1] for number in _lines(finding)):
            return f"no access that it names is at {self.at!r}"
        race = finding.machine.race
        missing = race.missing if race else ""
        return "" if self.missing in missing else f"missing is {missing!r}"


@dataclass(frozen=True, eq=False)
class MapCase(PtxCase):
    """The input comes through a tensor map, whose extent differs between the right and the wrong form."""

    extents: tuple[int, int] = (0, 0)

    def ptx(self, wrong: bool) -> str:
        return addressed(self.right, [False, True])

    def arguments(self, made: LaunchBuilder, wrong: bool) -> list[Given]:
        (array,) = self.inputs
        return [tensor_map(made.input("a1", array), (self.extents[wrong],), array.shape, "none", ())]


@dataclass(frozen=True, eq=False)
class CudaCase(ProgramCase):
    """`right` is a file of `cuda/`, whose wrong form is compiled with the macro WRONG; `values` are derived
    from the inputs in float64, with `bounds`.
    """

    bounds: tuple[float, ...] = ()

    def ptx(self, wrong: bool) -> str:
        files = {self.right: (CUDA / self.right).read_text(encoding="utf-8")}
        defines = {"WRONG": "1"} if wrong else {}
        unit = Unit("k", self.right, files, defines, "tools/bugs/cuda/", assembled=False)
        return compile_unit(unit).ptx

    def expected(self) -> tuple[Array, Array]:
        kind = np.float32 if self.begins is None else self.begins.dtype
        return np.asarray(self.values, kind), np.asarray(self.bounds or [0.0] * len(self.values))

    def differs(self, finding: Finding) -> str:
        if finding.code not in self.codes:
            return f"found as {finding.code}, expected {', '.join(self.codes)}"
        race = finding.machine.race
        places = [finding.machine.source, race.source if race else ""]
        places += [each.source for each in finding.machine.waiting]
        lines = (CUDA / self.right).read_text(encoding="utf-8").split("\n")
        numbers = [int(part) for place in places for part in place.split(":")[1:2] if part.isdigit()]
        return "" if any(self.at in lines[n - 1] for n in numbers) else f"it is at {places}, not {self.at!r}"
