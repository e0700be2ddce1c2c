"""Which versions of a compiler a frontend was tested with; another is refused before anything runs."""

from __future__ import annotations

from importlib import metadata

from tileproof.emulator.errors import LaunchError

# Distribution -> how a version begins. The extras of pyproject.toml name the same.
TESTED = {"triton": ("3.8", "3.9"), "tilelang": ("0.1.15",)}


def require(package: str) -> str:
    """The installed version of `package`; LaunchError when there is none, or one that was not tested."""
    extra = f"pip install 'tileproof[{package}]'"
    tested = TESTED[package]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise LaunchError(
            f"{package} is not installed",
            where=f"tileproof.{package}",
            expected=" or ".join(tested),
            do=extra,
        ) from None
    if not f"{version}.".startswith(tuple(f"{one}." for one in tested)):
        raise LaunchError(
            f"this version of {package} was not tested with Tileproof",
            where=f"tileproof.{package}",
            expected=" or ".join(tested),
            found=version,
            do=extra,
        )
    return version
