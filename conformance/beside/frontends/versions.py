"""The compiler versions that each frontend was tested with; others are rejected before anything runs."""

from __future__ import annotations

from importlib import metadata

from tileproof.emulator.errors import LaunchError

# Distribution -> prefix of the tested versions. The extras of pyproject.toml have the same versions.
TESTED = {"triton": ("3.8", "3.9"), "tilelang": ("0.1.15",)}


def require(package: str) -> str:
    """The installed version of `package`; LaunchError if it is not installed or its version is untested."""
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
    if not f"{version}.".startswith(tuple(f"{prefix}." for prefix in tested)):
        raise LaunchError(
            f"this version of {package} was not tested with Tileproof",
            where=f"tileproof.{package}",
            expected=" or ".join(tested),
            found=version,
            do=extra,
        )
    return version
