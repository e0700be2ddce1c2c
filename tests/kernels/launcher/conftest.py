"""A folder of kernels for launchers, and a call on files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tileproof.conformance.beside.record import recorder
from tileproof.kernels import c_header, manifest, toolchain
from tileproof.kernels.registry import kernel

EXAMPLE = c_header.TEMPLATE.parent / "example/mla_backward.c"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """head64 with d_qk 576 and what runs beside it."""
    made = tmp_path_factory.mktemp("kernels")
    head64 = kernel("head64")
    manifest.write(manifest.packaged(head64, head64.variant(d_qk=576), made), made)
    return made


def compiled(folder: Path, out: Path, standard: str, source: Path = EXAMPLE) -> Path:
    """The example as an executable, linked with the stub driver only."""
    compiler = "g++" if standard.startswith("c++") else "gcc"
    language = "c++" if standard.startswith("c++") else "c"
    cuda = toolchain.find().nvcc.parents[1] / "include"
    command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-x", language, str(source)]
    command += ["-x", "none", f"-I{folder}", f"-I{cuda}", str(recorder.libraries()[0]), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out
