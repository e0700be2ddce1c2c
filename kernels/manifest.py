"""Kernels for launchers without this package: a fat binary of each entry, a manifest, and a C header.

A fat binary has a cubin for each target and the PTX, which the driver compiles where no cubin fits. The
manifest states what a launch needs (`launch.layout`); the header has the same as tables. Both list all
entries of the folder: what an earlier call wrote there is kept, and an entry that is built again replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tileproof.kernels import c_header, toolchain
from tileproof.kernels.compile import ROOT, TIMEOUT_S, Built, compile_error
from tileproof.kernels.cubin import Cubin, cubins, target_of
from tileproof.kernels.kernel import Kernel
from tileproof.kernels.launch.layout import Layout
from tileproof.kernels.variant import Variant
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import UncheckedObject

SCHEMA, SCHEMA_VERSION = "tileproof-kernels", 1
FILE = "manifest.json"
IMAGES = ROOT / "images"  # `make images`; in the package, where it was there when the package was built
Row = UncheckedObject


def packaged(kernel: Kernel, variant: Variant, folder: Path) -> list[Row]:
    """Writes the images of the production build, and of what a launcher runs beside it; their rows."""
    layout = None if kernel.layout is None else kernel.layout(kernel.plan(variant))
    own = kernel.build(variant)
    rows = [_row(own.entry, layout, _images(own, folder), kernel.name, dict(variant.sizes))]
    images: dict[str, Images] = {}
    for each in kernel.beside():
        if each.built.ptx not in images:
            images[each.built.ptx] = _images(each.built, folder)
        rows.append(_row(each.entry, each.layout, images[each.built.ptx]))
    return rows


def write(rows: Iterable[Row], folder: Path) -> Sequence[Row]:
    """Writes the manifest and the header of `rows` and of the entries that were there; all rows.

    TileproofError for a manifest of another version.
    """
    every = {row["entry"]: row for row in (*read(folder), *rows)}
    entries = [every[entry] for entry in sorted(every)]
    stated = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "entries": entries}
    _replace(folder / FILE, json.dumps(stated, indent=1) + "\n")
    _replace(folder / c_header.FILE, c_header.render(entries))
    return entries


def read(folder: Path) -> list[Row]:
    """The rows of a folder's manifest, none where there is no manifest; TileproofError as of `write`."""
    try:
        stated = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise TileproofError(
            "the manifest cannot be read", where=str(folder / FILE), found=str(error)
        ) from error
    found = stated.get("schema_version") if isinstance(stated, Mapping) else "a list"
    if found != SCHEMA_VERSION:
        raise TileproofError(
            "the manifest has another version", where=str(folder / FILE), expected=str(SCHEMA_VERSION),
            found=str(found), do="build into an empty folder",
        )  # fmt: skip
    return list(stated["entries"])


@dataclass(frozen=True)
class Images:
    """What was written of one PTX."""

    ptx: str
    fat: bytes
    fat_name: str
    cubins: Sequence[Cubin]


def _images(built: Built, folder: Path) -> Images:
    made = cubins(built)
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        (folder / each.file_name).write_bytes(each.image)
    images = Images(built.ptx, fat_binary(built, made), f"{built.entry}.fatbin", made)
    (folder / images.fat_name).write_bytes(images.fat)
    return images


def _row(
    entry: str,
    layout: Layout | None,
    images: Images,
    kernel: str = "",
    variant: Mapping[str, int] | None = None,
) -> Row:
    return {
        "entry": entry,
        "kernel": kernel,
        "variant": dict(variant or {}),
        "image": images.fat_name,
        "sha256": hashlib.sha256(images.fat).hexdigest(),
        "ptx_target": target_of(images.ptx),
        "ptx_sha256": hashlib.sha256(images.ptx.encode()).hexdigest(),
        "cubins": [
            {
                "target": each.target,
                "file": each.file_name,
                "sha256": each.sha256,
                "resources": asdict(each.resources_of(entry)),
            }
            for each in images.cubins
        ],
        "toolchain": toolchain.find().version,
        "launch": None if layout is None else layout.as_dict(),
    }


def packaged_images() -> Path | None:
    """The folder of images of an installed package; None in a checkout, whose sources may have changed."""
    installed = not (ROOT.parent / "setup.py").exists()
    return IMAGES if installed and (IMAGES / FILE).is_file() else None


def image_in(folder: Path, entry: str, layout: Layout) -> bytes:
    """The fat binary of an entry; TileproofError where the folder lacks it, or has that of another launch."""
    row = {each["entry"]: each for each in read(folder)}.get(entry)
    if row is None:
        raise TileproofError(
            "the folder of kernels lacks an entry", where=str(folder / FILE), expected=entry,
            do=f"tileproof build --cubins {folder}",
        )  # fmt: skip
    data = (folder / str(row["image"])).read_bytes()
    if row["launch"] != layout.as_dict() or row["sha256"] != hashlib.sha256(data).hexdigest():
        raise TileproofError(
            "the folder of kernels was written by another version", where=str(folder), expected=entry,
            do=f"tileproof build --cubins {folder}",
        )  # fmt: skip
    return data


def fat_binary(built: Built, made: Sequence[Cubin]) -> bytes:
    """The cubins and the PTX of a build in one image."""
    with tempfile.TemporaryDirectory(prefix="tileproof-fatbin-") as folder:
        parts = [("elf", each.target, each.image) for each in made]
        parts.append(("ptx", target_of(built.ptx), built.ptx.encode()))
        command = [str(toolchain.find().nvcc.parent / "fatbinary"), "-64", "--create", "kernel.fatbin"]
        for number, (kind, target, image) in enumerate(parts):
            (Path(folder) / f"{number}.{kind}").write_bytes(image)
            command.append(f"--image3=kind={kind},sm={target.removeprefix('sm_')},file={number}.{kind}")
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TileproofError("no fat binary was made", where=command[0], found=str(error)) from error
        if done.returncode:
            raise compile_error("fatbinary", done.stdout + done.stderr)
        return (Path(folder) / "kernel.fatbin").read_bytes()


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    os.replace(fresh, path)
