"""Judges a dump against a case of Tileproof vectors. Needs numpy alone: copy this file anywhere.

    python read_vectors.py VECTORS/CASE DUMP

DUMP is an .npz file or a folder of .npy files with the case's stages by name; bf16 as 2-byte raw data (V2).
Exit code 0: everything in the dump is right; 1: something is wrong; 2: the dump cannot be judged.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np


def numbers(array: np.ndarray) -> np.ndarray:
    """Values in float64; raw data of two bytes are bf16."""
    if array.dtype == np.dtype("V2"):
        array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if array.dtype.kind not in "fiu":
        raise SystemExit(f"an unsupported dtype: {array.dtype}")
    return array.astype(np.float64)


def dump_of(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name."""
    if path.is_dir():
        return {file.stem: np.load(file, allow_pickle=False) for file in path.glob("*.npy")}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def intact(case: Path) -> bool:
    """Whether every file of the case has its hash of vectors.json."""
    index = json.loads((case.parent / "vectors.json").read_text())
    if (index["format"], index["version"]) != ("tileproof-vectors", 1):
        raise SystemExit("not Tileproof vectors of version 1")
    entry = next(item for item in index["cases"] if item["folder"] == case.name)
    for name, digest in entry["files"].items():
        if hashlib.sha256((case / name).read_bytes()).hexdigest() != digest:
            print(f"{name}: differs from the released file")
            return False
    return True


def judged(case: Path, name: str, found: np.ndarray) -> str:
    """What is wrong with a stage, in words; "" where nothing is."""
    expected = np.load(case / "expected" / f"{name}.npy")
    narrow = case / "bound16" / f"{name}.npy"
    limits = narrow if found.dtype.itemsize == 2 and narrow.exists() else case / "bound" / f"{name}.npy"
    bound, first = np.load(limits).astype(np.float64), case / "first" / f"{name}.npy"
    if found.ndim != expected.ndim:
        return f"expected {expected.ndim} axes, found shape {list(found.shape)}"
    start = np.load(first) if first.exists() else np.zeros(expected.ndim, np.int64)
    ends = [int(s) + length for s, length in zip(start, expected.shape, strict=True)]
    if any(e > size if first.exists() else e != size for e, size in zip(ends, found.shape, strict=True)):
        return f"expected shape {ends}{' or more' * first.exists()}, found {list(found.shape)}"
    value = numbers(found[tuple(slice(int(s), e) for s, e in zip(start, ends, strict=True))])
    with np.errstate(invalid="ignore"):
        near = (np.abs(value - expected) <= bound) | (value == expected)
    near |= np.isnan(expected) & np.isnan(value)  # a NaN of the inputs
    near |= np.isinf(bound)  # what may overflow
    wrong = ~(near | np.isnan(bound))  # what is not judged
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = [i + int(s) for i, s in zip(at, start, strict=True)]
    return (
        f"{int(wrong.sum())} of {wrong.size} wrong, first at {place}: "
        f"expected {expected[at]:.9g} within {bound[at]:.3g}, found {value[at]:.9g}"
    )


def main(case: Path, path: Path) -> int:
    if not intact(case):
        return 2
    stages = sorted(file.stem for file in (case / "expected").glob("*.npy"))
    found = {name: array for name, array in dump_of(path).items() if name in stages}
    if not found:
        print(f"expected some of {', '.join(stages)}")
        return 2
    said = {name: judged(case, name, array) for name, array in sorted(found.items())}
    for name, words in said.items():
        print(f"{name}: {words or 'right'}")
    return int(any(said.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
