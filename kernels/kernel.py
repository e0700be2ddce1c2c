"""The interface of a kernel: its variants, plan, build, launch and planted defects."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tileproof.kernels.compile import ARCH, Built
from tileproof.kernels.edit import Edit, PlantedDefect
from tileproof.kernels.image import Image
from tileproof.kernels.launch.layout import EntryBeside, Layout
from tileproof.kernels.launch.model import LaunchFile
from tileproof.kernels.variant import Variant, select
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.spec.plans.consistency import contradictions
from tileproof.spec.problems import problem_type
from tileproof.spec.problems.base import ProblemType
from tileproof.spec.problems.cases import AnyCase, ProblemInputs


@dataclass(frozen=True)
class Kernel:
    """One kernel for one architecture.

    `plan_of` makes the plan of a variant, `image` its PTX, `describe` the launch on inputs (inputs, plan,
    build, whether it is the probe build). `probe`: there is a probe build. `defects` gives the kernel's
    planted defects. `on_demand`: its builds take long, and `tileproof build` makes them only when they are
    named. `clocks`: those per k-block that the model's likely case may take (docs/time.md); None where no
    budget is stated. `repeats`: the order of its events repeats with its rings, and the gate requires that
    (docs/certificate.md, Periods). `layout`: the launch as data, for launchers without this package; None
    where the kernel has none. `beside`: what such a launcher runs before and after it.
    """

    name: str
    variants: tuple[Variant, ...]
    plan_of: Callable[[Variant], KernelPlan] = field(repr=False)
    image: Image = field(repr=False)
    describe: Callable[[ProblemInputs, KernelPlan, Built, bool], LaunchFile] = field(repr=False)
    defects: Callable[[], Sequence[PlantedDefect]] = field(default=tuple, repr=False)
    probe: bool = True
    arch: str = ARCH
    on_demand: bool = False
    clocks: Callable[[Variant], float | None] = field(default=lambda _: None, repr=False)
    repeats: bool = False
    layout: Callable[[KernelPlan], Layout] | None = field(default=None, repr=False)
    beside: Callable[[], Sequence[EntryBeside]] = field(default=tuple, repr=False)

    def variant(self, **sizes: int) -> Variant:
        """The first variant with these sizes; TileproofError lists the known variants."""
        return select(self.name, self.variants, sizes)[0]

    def variant_of_case(self, case: AnyCase) -> Variant:
        """The first variant for a case, of whose sizes those count that a variant names; TileproofError as of
        `variant`.
        """
        return self.variant(**{name: size for name, size in case.sizes().items() if name in self._sizes})

    @property
    def _sizes(self) -> dict[str, None]:
        """The names of the sizes by which variants are chosen."""
        return {name: None for variant in self.variants for name, _ in variant.sizes}

    def label(self, variant: Variant) -> str:
        """The sizes in which the kernel's variants differ, in words: ``d_qk 576``."""
        differ = [
            (name, value)
            for name, value in variant.sizes
            if any(dict(v.sizes).get(name) != value for v in self.variants)
        ]
        return ", ".join(f"{name} {value}" for name, value in differ)

    def title(self, variant: Variant) -> str:
        """The kernel's name with the variant's label."""
        return f"{self.name} {self.label(variant)}".strip()

    def plan(self, variant: Variant) -> KernelPlan:
        """The variant's plan; TileproofError when there is no such variant or the plan contradicts itself."""
        if variant not in self.variants:
            select(self.name, self.variants, dict(variant.sizes))
            raise TileproofError(
                f"{self.name} does not compute this problem",
                where="variant",
                expected=self.variants[0].problem,
                found=variant.problem,
            )
        with _own(f"the plan of {self.title(variant)} cannot be made", self.name):
            plan = self.plan_of(variant)
        if not isinstance(plan, KernelPlan) or _problem_name(plan) != variant.problem:
            raise TileproofError(
                f"the plan of {self.title(variant)} is not a plan of its problem",
                where=f"kernel {self.name}",
                expected=f"a KernelPlan of the problem {variant.problem}",
                found=_problem_name(plan),
                do="correct the plan, or the problem that the variant names",
            )
        if wrong := _contradictions(plan):
            raise TileproofError(
                f"the plan of {self.title(variant)} contradicts itself: {wrong[0]}",
                where=f"plan of {self.name}, {variant}",
                found="; ".join(wrong[1:]) + (f" ({len(wrong)} contradictions in all)" if wrong[1:] else ""),
                do="correct the plan",
            )
        return plan

    def entry(self, variant: Variant, probe: bool = False) -> str:
        """The entry's name in the PTX."""
        return self.image.entry(self.name, variant, probe)

    @property
    def sources(self) -> Mapping[str, str]:
        """Every source of the kernel: path -> text; empty when it is given as PTX."""
        return self.image.sources

    def build(
        self,
        variant: Variant,
        probe: bool = False,
        edits: Sequence[Edit] = (),
        source_overrides: Mapping[str, str] | None = None,
    ) -> Built:
        """The variant's PTX (compiled PTX is cached) with `edits` planted; `source_overrides` replaces the
        text of sources (path -> text) before.
        """
        return self.build_plan(variant, self.plan(variant), probe, edits, source_overrides)

    def build_plan(
        self,
        variant: Variant,
        plan: KernelPlan,
        probe: bool = False,
        edits: Sequence[Edit] = (),
        source_overrides: Mapping[str, str] | None = None,
    ) -> Built:
        """As `build`, against `plan`; a plan that the kernel does not follow is a TileproofError."""
        if probe and not self.probe:
            raise TileproofError(f"{self.name} has no probe build", where=self.name)
        with _own(f"the PTX of {self.title(variant)} cannot be made", self.name):
            return self.image.build(self.name, variant, plan, probe, edits, source_overrides or {})

    def variant_of(self, inputs: ProblemInputs) -> Variant:
        """The variant made for the inputs' sizes; TileproofError names the size that does not fit."""
        candidates = self.variants
        sizes = problem_type(self.variants[0].problem).sizes(inputs)
        for name in (name for name in self._sizes if name in sizes):
            value = sizes[name]
            fitting = tuple(candidate for candidate in candidates if candidate[name] == value)
            if not fitting:
                raise TileproofError(
                    f"{self.name} is not made for this {name}",
                    where=f"problem.{name}",
                    expected=" or ".join(dict.fromkeys(str(candidate[name]) for candidate in candidates)),
                    found=str(value),
                )
            candidates = fitting
        return candidates[0]

    def launch(self, inputs: ProblemInputs, built: Built, probe: bool = False) -> LaunchFile:
        """The launch of `built` on `inputs`; TileproofError when the kernel is not made for their sizes."""
        variant = self.variant_of(inputs)
        plan = self.plan(variant)
        expected_entry = self.entry(variant, probe)
        if built.entry != expected_entry:
            raise TileproofError(
                "this build is for other inputs",
                where=self.name,
                expected=expected_entry,
                found=built.entry,
                do="build the variant of the inputs' sizes with the same probe flag",
            )
        plan.problem.require(inputs, plan)
        with _own(f"the launch of {self.title(variant)} cannot be described", self.name):
            launch = self.describe(inputs, plan, built, probe)
        if not isinstance(launch, LaunchFile):
            raise TileproofError(
                f"the launch of {self.title(variant)} is not a launch", where=f"kernel {self.name}",
                expected="a tileproof.launches.LaunchFile", found=type(launch).__name__,
            )  # fmt: skip
        return launch


@contextlib.contextmanager
def _own(what: str, kernel: str) -> Iterator[None]:
    """What a kernel's own function raises becomes a TileproofError that names its line."""
    try:
        yield
    except TileproofError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename.rsplit('/', 1)[-1]}, line {last.lineno}"
        raise TileproofError(
            what, where=f"kernel {kernel}, {place}", found=f"{type(error).__name__}: {error}",
            do="correct the kernel; others are not affected",
        ) from error  # fmt: skip


def _problem_name(plan: object) -> str:
    """The name of the plan's problem type; what stands in its place where there is none."""
    problem = getattr(plan, "problem", plan)
    return problem.name if isinstance(problem, ProblemType) else f"{type(problem).__name__} {problem!r}"[:80]


@lru_cache(maxsize=64)
def _contradictions(plan: KernelPlan) -> tuple[str, ...]:
    return tuple(contradictions(plan))
