"""What the rest of the project sees of a kernel: plan, sources, build and launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileproof.kernels.compile import ROOT, Built, Unit, compile_unit
from tileproof.kernels.launch import Launch, Struct
from tileproof.spec import header
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

if TYPE_CHECKING:
    from tileproof.spec.problems.sparse_mla_bwd.inputs import Inputs

SOURCE_SUFFIXES = (".cu", ".cuh", ".h")


@dataclass(frozen=True)
class Kernel:
    """One kernel: `main` is its translation unit, `folders` hold its sources, both relative to kernels/."""

    name: str
    d_qks: tuple[int, ...]
    plan: Callable[[int], KernelPlan] = field(repr=False)
    main: str
    folders: tuple[str, ...]
    describe: Callable[[Inputs, KernelPlan, Built, bool], Launch] = field(repr=False)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every source file of the kernel, relative to kernels/."""
        files = (path for folder in self.folders for path in (ROOT / folder).iterdir())
        return tuple(sorted(str(p.relative_to(ROOT)) for p in files if p.suffix in SOURCE_SUFFIXES))

    def entry(self, d_qk: int, probe: bool = False) -> str:
        """The entry's name in the PTX."""
        return f"tileproof_{self.name.replace('-', '_')}_d{d_qk}{'_probe' if probe else ''}"

    def build(
        self, d_qk: int, probe: bool = False, source_overrides: Mapping[str, str] | None = None
    ) -> Built:
        """Compile the kernel for `d_qk`; `source_overrides` replaces the text of sources (path -> text)."""
        return self.build_plan(self.plan(d_qk), probe, source_overrides)

    def build_plan(
        self, plan: KernelPlan, probe: bool = False, source_overrides: Mapping[str, str] | None = None
    ) -> Built:
        """Compile the kernel against `plan`; a plan that the kernel does not follow is a TileproofError."""
        files = {path: (ROOT / path).read_text() for path in self.sources}
        for path, text in (source_overrides or {}).items():
            if path not in files:
                raise TileproofError(
                    "there is no such source to override",
                    where=path,
                    expected=", ".join(files),
                    do="name the source relative to kernels/",
                )
            files[path] = text
        files[header.FILE_NAME] = header.render(plan)
        entry = self.entry(plan.d_qk, probe)
        defines = {"TILEPROOF_ENTRY": entry, "TILEPROOF_PROBE": str(int(probe))}
        return compile_unit(Unit(entry, self.main, files, defines))

    def launch(self, inputs: Inputs, built: Built, probe: bool = False) -> Launch:
        """The launch of `built` on `inputs`; TileproofError when the kernel is not made for their sizes."""
        problem = inputs.problem
        plan = self.plan(problem.d_qk)
        expected_entry = self.entry(problem.d_qk, probe)
        if built.entry != expected_entry:
            raise TileproofError(
                "this build is not the one for these inputs",
                where=self.name,
                expected=expected_entry,
                found=built.entry,
                do="build with the inputs' d_qk and the same probe flag",
            )
        for name in ("h_q", "d_v"):
            if getattr(problem, name) != getattr(plan, name):
                raise TileproofError(
                    f"{self.name} is not made for this {name}",
                    where=f"problem.{name}",
                    expected=str(getattr(plan, name)),
                    found=str(getattr(problem, name)),
                )
        if problem.topk % plan.b_topk:
            raise TileproofError(
                "topk is not a multiple of the kernel's B_TOPK",
                where="problem.topk",
                expected=f"a multiple of {plan.b_topk}",
                found=str(problem.topk),
                do="pad the indices with -1",
            )
        return self.describe(inputs, plan, built, probe)


def one_cluster_a_token(built: Built, plan: KernelPlan, tokens: int, params: Struct) -> Launch:
    """The launch of kernels that give each query token one cluster and take one by-value struct."""
    return Launch(
        image=built.ptx,
        entry=built.entry,
        grid=(plan.cluster * tokens, 1, 1),
        cluster=(plan.cluster, 1, 1),
        block=(plan.threads, 1, 1),
        shared_bytes=plan.smem_bytes,
        params=(params,),
    )
