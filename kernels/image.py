"""Where a kernel's PTX comes from: sources that nvcc compiles, or PTX as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tileproof.kernels import edit
from tileproof.kernels.compile import ARCH, OWN_PREFIX, ROOT, Built, Unit, compile_unit, require_entry
from tileproof.kernels.edit import Edit
from tileproof.kernels.variant import Variant
from tileproof.spec import header
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan

SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp")


class Image(Protocol):
    """What a kernel asks of its image. `owner` names the kernel, `edits` are planted."""

    @property
    def sources(self) -> Mapping[str, str]:
        """Every source's text, by its path relative to the image's root; empty where there is none."""

    @property
    def prefix(self) -> str:
        """What the paths of the sources begin with in the PTX."""

    def entry(self, owner: str, variant: Variant, probe: bool) -> str:
        """The entry's name in the PTX."""

    def build(
        self,
        owner: str,
        variant: Variant,
        plan: KernelPlan,
        probe: bool,
        edits: Sequence[Edit],
        overrides: Mapping[str, str],
    ) -> Built:
        """The PTX with `edits` in it, and the text of some sources replaced by `overrides` before."""


def _full(variant: Variant) -> str:
    return "_".join(f"{name}{value}" for name, value in variant.sizes)


@dataclass(frozen=True)
class Sources:
    """CUDA sources: `main` is the translation unit, `folders` hold every source, all relative to `root`.

    The build puts the generated plan (`tileproof_plan.h`) on the include path, with `root` and the CuTe
    headers, and defines TILEPROOF_ENTRY and TILEPROOF_PROBE; and TILEPROOF_EDITED where a source is not the
    folder's, as a planted defect or an override makes it: what such a copy need not prove again can be left
    out, and it is not assembled. `suffix` makes the part of the entry's name that distinguishes variants,
    `arch` is what nvcc compiles for.
    """

    main: str
    folders: tuple[str, ...]
    root: Path = ROOT
    suffix: Callable[[Variant], str] = field(default=_full, repr=False)
    arch: str = ARCH

    @property
    def prefix(self) -> str:
        return OWN_PREFIX if self.root == ROOT else f"{self.root.resolve().name}/"

    @property
    def sources(self) -> Mapping[str, str]:
        try:
            files = sorted(
                path for folder in self.folders for path in (self.root / folder).iterdir()
                if path.suffix in SOURCE_SUFFIXES
            )  # fmt: skip
            return {path.relative_to(self.root).as_posix(): path.read_text() for path in files}
        except OSError as error:
            raise TileproofError(
                "a kernel's sources cannot be read", where=str(self.root), found=str(error)
            ) from error

    def entry(self, owner: str, variant: Variant, probe: bool) -> str:
        name = "".join(c if c.isalnum() else "_" for c in owner)
        return f"tileproof_{name}_{self.suffix(variant)}{'_probe' if probe else ''}"

    def build(
        self,
        owner: str,
        variant: Variant,
        plan: KernelPlan,
        probe: bool,
        edits: Sequence[Edit],
        overrides: Mapping[str, str],
    ) -> Built:
        sources = self.sources
        files = dict(sources)
        for path, text in overrides.items():
            if path not in files:
                raise TileproofError(
                    "unknown source to override",
                    where=path,
                    expected=", ".join(files),
                    do="name the source relative to the kernel's root",
                )
            files[path] = text
        files |= edit.in_sources(owner, edits, files)
        text_of = dict(files)
        edited = text_of != sources
        files[header.FILE_NAME] = header.render(plan)
        entry = self.entry(owner, variant, probe)
        defines = {"TILEPROOF_ENTRY": entry, "TILEPROOF_PROBE": str(int(probe))}
        if edited:
            defines["TILEPROOF_EDITED"] = "1"
        built = compile_unit(Unit(entry, self.main, files, defines, self.prefix, self.arch, not edited))
        return replace(built, ptx=edit.in_ptx(owner, edits, built.ptx, text_of, self.prefix))


@dataclass(frozen=True)
class Ptx:
    """PTX as it is: `text` makes it, or names the file that holds it, for a variant; `name` names its entry.

    There is no probe build, unless `text` of the variant with probe True gives one (`Kernel.probe`).
    """

    text: Callable[[Variant, bool], str | Path] = field(repr=False)
    name: Callable[[Variant, bool], str] = field(repr=False)

    prefix = ""
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, init=False)

    def entry(self, owner: str, variant: Variant, probe: bool) -> str:
        return self.name(variant, probe)

    def build(
        self,
        owner: str,
        variant: Variant,
        plan: KernelPlan,
        probe: bool,
        edits: Sequence[Edit],
        overrides: Mapping[str, str],
    ) -> Built:
        given = self.text(variant, probe)
        path = given if isinstance(given, Path) else Path()
        try:
            text = given.read_text() if isinstance(given, Path) else given
        except (OSError, UnicodeDecodeError) as error:
            raise TileproofError(
                "the kernel's PTX cannot be read", where=str(given), found=str(error)
            ) from error
        entry = self.name(variant, probe)
        where = str(path) if isinstance(given, Path) else owner
        require_entry(text, entry, where, "name one of its entries")
        if overrides or any(edit.place.kind == "source" for edit in edits):
            raise TileproofError("this kernel is PTX: it has no source to change", where=owner)
        return Built(entry, edit.in_ptx(owner, edits, text, {}, ""), path, None, "")
