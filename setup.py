"""Rebuilds the engine in place: `python setup.py build_ext --inplace`, with CMake and Ninja, after an edit.

`--sanitize` builds the engine alone, under AddressSanitizer and UndefinedBehaviorSanitizer, in
build/sanitized, for `make fuzz`. Packages are made by scikit-build-core (pyproject.toml), not here. `-q`
keeps to warnings and errors.
Environment: `CXX` (g++; `ccache g++` works), `TILEPROOF_CXXFLAGS` (replaces the optimisation flags),
`TILEPROOF_JOBS` (2).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "engine" / sys.implementation.cache_tag
SANITIZED = ROOT / "build" / "sanitized" / sys.implementation.cache_tag
SANITIZERS = (
    "-O1 -g1 -fno-omit-frame-pointer -ffp-contract=off -fno-math-errno -D_GLIBCXX_ASSERTIONS "
    "-fsanitize=address,undefined -fno-sanitize=vptr,nonnull-attribute -fno-sanitize-recover=all"
)


def tool(name: str) -> str:
    """The path of cmake or ninja: the package from PyPI where it is installed, else the system's."""
    if importlib.util.find_spec(name) and (found := shutil.which(name, path=sysconfig.get_path("scripts"))):
        return found
    if found := shutil.which(name):
        return found
    raise SystemExit(f"{name} is missing: pip install {name}")


def arguments() -> list[str]:
    """What CMake is configured with."""
    chosen = [
        "-GNinja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    *launcher, compiler = shlex.split(os.environ.get("CXX", "g++"))
    if launcher:
        chosen.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(launcher)}")
        # ccache keeps nothing that was compiled with a precompiled header.
        chosen.append("-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
    return [*chosen, f"-DCMAKE_CXX_COMPILER={compiler}"]


def run(command: list[str], quiet: bool) -> None:
    """Runs a step; quiet, it shows only what is no progress line."""
    # Paths relative to the checkout, so that ccache serves every worktree.
    environment = {"CCACHE_BASEDIR": str(ROOT), **os.environ}
    environment.pop("CXX", None)  # may hold a launcher, which CMake would take for the compiler
    done = subprocess.run(command, env=environment, capture_output=quiet, text=True, check=False)
    if quiet:
        text = (done.stdout + done.stderr).splitlines()
        if not done.returncode:
            text = [line for line in text if not re.match(r"\[\d+/\d+\]|ninja: (?!warning)|-- |$", line)]
        sys.stderr.write("".join(f"{line}\n" for line in text))
    if done.returncode:
        raise SystemExit(f"setup.py: failed: {shlex.join(command)}")


def main() -> None:
    """Configures when anything of it changed, builds, and puts the engine beside its Python sources."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("command", choices=["build_ext"], help="packages: pip install ., or python -m build")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--inplace", action="store_true")
    where.add_argument("--sanitize", action="store_true", help="into build/sanitized, for the fuzzer")
    given = parser.parse_args()
    quiet, build, target = given.quiet, BUILD, "inplace"
    if given.sanitize:
        build, target = SANITIZED, "_engine"
        os.environ["TILEPROOF_CXXFLAGS"] = SANITIZERS
    cmake, chosen = tool("cmake"), arguments()
    wanted = [cmake, *chosen, os.environ.get("TILEPROOF_CXXFLAGS", "")]
    record = build / "configured.json"
    if not record.exists() or json.loads(record.read_text()) != wanted:
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        run([cmake, "-S", str(ROOT), "-B", str(build), *chosen], quiet)
        record.write_text(json.dumps(wanted))
    jobs = os.environ.get("TILEPROOF_JOBS", "2")
    run([cmake, "--build", str(build), "--target", target, "--parallel", jobs], quiet)


if __name__ == "__main__":
    main()
