"""Reads tensors from .safetensors, .npz, .pt and folders of .npy. No file is unpickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

SAFETENSORS = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "BOOL": np.bool_,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
FORMATS = "a .safetensors, .npz or .pt file, or a folder of .npy files"


def read(path: Path) -> dict[str, Array]:
    """Tensors by name, bf16 as `ml_dtypes.bfloat16`; TileproofError for anything else than tensors."""
    if not path.exists():
        raise TileproofError("the dump does not exist", where=str(path), expected=FORMATS, found="nothing")
    try:
        if path.is_dir():
            found = {file.stem: _npy(file) for file in sorted(path.glob("*.npy"))}
        elif path.suffix == ".npz":
            found = _npz(path)
        elif path.suffix == ".safetensors":
            found = _safetensors(path)
        elif path.suffix in (".pt", ".pth"):
            found = _torch(path)
        else:
            raise TileproofError(
                "not a dump of tensors", where=str(path), expected=FORMATS, found=path.suffix
            )
    except TileproofError:
        raise
    except Exception as error:  # whatever a library raises about a damaged file
        raise TileproofError(
            "the dump cannot be read",
            where=str(path),
            expected=f"a complete {path.suffix or '.npy'} file",
            found=f"{type(error).__name__}: {error}",
            do="write it again; the copy may be truncated",
        ) from None
    if not found:
        raise TileproofError("the dump holds no tensor", where=str(path), expected=FORMATS, found="none")
    return found


def _npy(file: Path) -> Array:
    try:
        return _typed(np.load(file, mmap_mode="r", allow_pickle=False), str(file))
    except ValueError as error:
        raise _pickled(file, error) from None


def _npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: _typed(archive[name], f"{path}: {name}") for name in archive.files}
    except (ValueError, zipfile.BadZipFile) as error:
        raise _pickled(path, error) from None


def _pickled(path: Path, error: Exception) -> TileproofError:
    pickled = "pickle" in str(error).lower()
    return TileproofError(
        "the dump holds pickled objects" if pickled else "the dump cannot be read",
        where=str(path),
        expected="arrays of numbers: a pickle runs code when it is read",
        found="an object array or pickled objects" if pickled else str(error),
        do="save each array with numpy.save or as safetensors",
    )


def _typed(array: Array, where: str) -> Array:
    """numpy writes bfloat16 as raw data of two bytes."""
    if array.dtype == np.dtype("V2"):
        return array.view(ml_dtypes.bfloat16)
    if array.dtype.kind not in "fiub" and array.dtype != ml_dtypes.bfloat16:
        raise TileproofError(
            "a tensor has an unsupported dtype",
            where=where,
            expected="floats or integers",
            found=str(array.dtype),
        )
    return array


def _safetensors(path: Path) -> dict[str, Array]:
    """Mapped, not read: the library checks the file, but copies what it returns.

    Source: the format as its documentation has it (8 bytes of length, a JSON header with offsets, the data).
    """
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as checked:
        names = list(checked.keys())
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    found = {}
    for name in names:
        dtype, (start, stop) = SAFETENSORS.get(header[name]["dtype"]), header[name]["data_offsets"]
        if dtype is None:
            raise TileproofError(
                "a tensor has an unsupported dtype", where=f"{path}: {name}",
                expected=", ".join(SAFETENSORS), found=header[name]["dtype"],
            )  # fmt: skip
        shape = tuple(header[name]["shape"])
        empty = start == stop
        found[name] = (
            np.zeros(shape, dtype)
            if empty
            else np.memmap(path, dtype, mode="r", offset=8 + length + start, shape=shape)
        )
    return found


def _torch(path: Path) -> dict[str, Array]:
    try:
        import torch
    except ImportError:
        raise TileproofError(
            "a .pt file needs torch", where=str(path), do="pip install torch, or save as .safetensors"
        ) from None
    try:
        data = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:
        if "weights_only" not in str(error) and "Unsupported" not in str(error):
            raise
        raise TileproofError(
            "the .pt file has objects that are not tensors",
            where=str(path),
            expected="a dict of tensors: anything else runs code when it is read",
            found=str(error).splitlines()[0],
            do="torch.save({'q': q, ...}), or save as .safetensors",
        ) from None
    if not isinstance(data, Mapping):
        raise TileproofError(
            "the .pt file is not a dict",
            where=str(path),
            expected="a dict of tensors",
            found=type(data).__name__,
        )
    found = {}
    for name, value in data.items():
        if isinstance(value, (int, float)):
            found[str(name)] = np.asarray(value)
            continue
        if not isinstance(value, torch.Tensor):
            raise TileproofError(
                "an entry of the dump is not a tensor",
                where=f"{path}: {name}",
                expected="a tensor or a number",
                found=type(value).__name__,
            )
        whole = value.detach().cpu().contiguous()
        if whole.dtype == torch.bfloat16:
            found[str(name)] = whole.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            found[str(name)] = whole.numpy()
    return found
