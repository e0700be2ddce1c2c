"""Launches with a part of them changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tileproof.kernels.launch.arguments import LaunchArgument, PlacedItem, StructArgument
from tileproof.kernels.launch.model import LaunchFile


def with_arguments(launch: LaunchFile, arguments: tuple[LaunchArgument, ...]) -> LaunchFile:
    """`launch` with these arguments of its main launch."""
    own = launch.main
    steps = tuple(replace(own, arguments=arguments) if step is own else step for step in launch.steps)
    return replace(launch, steps=steps)


def struct_of(launch: LaunchFile) -> StructArgument:
    """The by-value struct that is the main launch's only argument."""
    (struct,) = launch.main.arguments
    assert isinstance(struct, StructArgument)
    return struct


def with_items(launch: LaunchFile, change: Callable[[PlacedItem], PlacedItem | None]) -> LaunchFile:
    """`launch` with each item of its struct changed, or left out."""
    struct = struct_of(launch)
    items = tuple(changed for item in struct.items if (changed := change(item)) is not None)
    return with_arguments(launch, (replace(struct, items=items),))
