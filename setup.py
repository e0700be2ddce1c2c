"""Build of the `tileproof` package: the top-level folders become its subpackages, and the engine is compiled.

The engine's objects are cached by content under `build/engine`: an object is compiled again only when its
source, one of the headers it includes, the flags, the compiler or the processor's instruction set changed.
Environment: `CXX` (g++), `TILEPROOF_CXXFLAGS` (replaces the optimisation flags), `TILEPROOF_JOBS` (2).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
FOLDERS = ("spec", "reference", "kernels", "emulator", "conformance", "tools")
PACKAGE = "package"  # tileproof itself: its version, `python -m tileproof`
ENGINE = Path("emulator/engine")
OPTIMISE = "-O3 -march=native -ffp-contract=off -fno-math-errno"
REQUIRED = "-std=c++20 -fPIC -fvisibility=hidden -pthread -Wall -Wextra"


def packages() -> list[str]:
    """Every importable folder, so that a new subfolder joins the package without an edit here."""
    names = ["tileproof"]
    for folder in FOLDERS:
        if (ROOT / folder / "__init__.py").exists():
            names.append(f"tileproof.{folder}")
            names += [f"tileproof.{folder}.{name}" for name in find_packages(folder)]
    return names


def extensions() -> list[Extension]:
    """The emulator's engine, from all of its translation units."""
    sources = sorted(str(path) for path in ENGINE.glob("*.cpp"))
    return [Extension("tileproof.emulator._engine", sources, language="c++")] if sources else []


def standalone(path: str) -> ModuleType:
    """A module that imports the standard library only, loaded before the package is built."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def digest(data: bytes) -> str:
    """Content key of a file or a text."""
    return hashlib.sha256(data).hexdigest()


class BuildEngine(build_ext):
    """Compiles the sources in parallel, each only when its content key changed, and links atomically."""

    def build_extension(self, ext: Extension) -> None:
        import pybind11

        cxx = shlex.split(os.environ.get("CXX", "g++"))
        flags = shlex.split(os.environ.get("TILEPROOF_CXXFLAGS", OPTIMISE)) + REQUIRED.split()
        flags += [
            f"-I{ENGINE}",
            "-Ibuild/engine",
            f"-isystem{pybind11.get_include()}",
            f"-isystem{sysconfig.get_path('include')}",
        ]
        # -march=native means another thing on another processor: the resolved flags belong to the key.
        resolved = subprocess.run(
            [*cxx, *flags, "-x", "c++", "-E", "-v", os.devnull], capture_output=True, text=True, check=False
        )
        if resolved.returncode:
            raise SystemExit(f"the C++ compiler {cxx[0]} does not work:\n{resolved.stderr}")
        key = digest("\n".join([*cxx, *flags, resolved.stderr, pybind11.__version__]).encode())
        cache = Path("build/engine")
        cache.mkdir(parents=True, exist_ok=True)
        standalone("emulator/slots.py").generate(Path("emulator/isa"), cache / "slots")

        with ThreadPoolExecutor(int(os.environ.get("TILEPROOF_JOBS", "2"))) as pool:
            objects = list(
                pool.map(lambda source: compile_one(cxx, flags, key, Path(source), cache), ext.sources)
            )

        target = Path(self.get_ext_fullpath(ext.name))
        linked = cache / "linked.json"
        want = digest("".join([key, *(digest(path.read_bytes()) for path in objects)]).encode())
        built = cache / target.name
        if not built.exists() or not linked.exists() or json.loads(linked.read_text()) != want:
            run(
                [*cxx, "-shared", "-pthread", *map(str, objects), "-o", f"{built}.new"], f"link {target.name}"
            )
            os.replace(f"{built}.new", built)
            linked.write_text(json.dumps(want))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or digest(target.read_bytes()) != digest(built.read_bytes()):
            fresh = target.with_suffix(".new")
            fresh.write_bytes(built.read_bytes())
            # A rename keeps the old file alive for a process that has it loaded.
            os.replace(fresh, target)


def compile_one(cxx: list[str], flags: list[str], key: str, source: Path, cache: Path) -> Path:
    """The object of one source, from the cache when nothing that it was made from changed."""
    target, record = cache / f"{source.stem}.o", cache / f"{source.stem}.json"
    if target.exists() and record.exists():
        known = json.loads(record.read_text())
        if known["key"] == key and all(
            Path(name).exists() and digest(Path(name).read_bytes()) == value
            for name, value in known["files"].items()
        ):
            return target
    fresh, depends = cache / f"{source.stem}.new.o", cache / f"{source.stem}.d"
    run([*cxx, *flags, "-MMD", "-MF", str(depends), "-c", str(source), "-o", str(fresh)], f"compile {source}")
    # -MMD leaves system headers out; the compiler's and pybind11's versions are in the key instead.
    names = depends.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    record.unlink(missing_ok=True)
    os.replace(fresh, target)
    record.write_text(
        json.dumps({"key": key, "files": {name: digest(Path(name).read_bytes()) for name in names}})
    )
    return target


def run(command: list[str], label: str) -> None:
    """Runs a compiler step; its own message is what a reader needs when it fails."""
    print(f"[engine] {label}", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise SystemExit(f"[engine] failed: {label}")


os.chdir(ROOT)
setup(
    packages=packages(),
    package_dir={"tileproof": PACKAGE, **{f"tileproof.{folder}": folder for folder in FOLDERS}},
    package_data={
        "tileproof": ["py.typed"],
        "tileproof.kernels": ["**/*.cu", "**/*.cuh", "**/*.h", "**/*.hpp"],
        "tileproof.emulator": ["*.pyi"],
        "tileproof.conformance": ["**/*.cpp", "**/*.toml"],
    },
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildEngine},
    zip_safe=False,
)
