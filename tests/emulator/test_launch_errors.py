# ruff: noqa: E501 - PTX lines and case tables are kept whole
"""A launch that does not fit its kernel or the machine is a LaunchError that says what was expected."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tileproof.emulator import (
    LaunchError,
    Module,
    Schedule,
    SmemRegion,
    Tap,
    TensorMap,
    TmemRegion,
)
from tileproof.emulator.options import LaunchKeywords, LaunchOptions

from tests.kit.ptx import Memory, clean, kernel_text, parsed

TEXT = kernel_text(".shared .b8 s[1024];", [False])
FITS: dict[str, Any] = {"grid": (1, 1, 1), "block": (32, 1, 1), "args": [7]}


def launch(**change: Any) -> None:
    clean(parsed(TEXT).launch("k", **{**FITS, **change}))


def test_it_fits() -> None:
    launch()
    launch(grid=[4], block=[1024], cluster=[2, 1], shared_bytes=232448 - 1024)
    launch(args=[-1])
    launch(args=[np.uint64(5)])
    launch(args=[b"\0" * 8])
    launch(taps=[Tap("t", 0, TmemRegion(0, 32)), Tap("s", 0, SmemRegion(0, 16))])
    launch(taps=[Tap("t", 232448 - 1024 - 8, TmemRegion(0, 32))])  # the last barrier that there is room for


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"block": (1025,)}, "at most 1024"), ({"block": (32, 32, 2)}, "at most 1024"), ({"block": (0,)}, "block"), ({"grid": (-1,)}, "grid"),
        ({"grid": ()}, "grid"), ({"grid": (1, 1, 1, 1)}, "grid"), ({"cluster": (2,)}, "whole number of clusters"), ({"grid": (32,), "cluster": (32,)}, "at most 16"),
        ({"shared_bytes": 232448 - 1023}, "232448"), ({"shared_bytes": -1}, "shared memory"), ({"args": []}, "number of arguments"), ({"args": [1, 2]}, "number of arguments"),
        ({"args": [2**64]}, "8 bytes"), ({"args": [-(2**63) - 1]}, "8 bytes"), ({"args": [b"1234"]}, "4 bytes"), ({"args": [np.float32(1)]}, "4 bytes"), ({"args": [None]}, "NoneType"),
        ({"args": ["text"]}, "str"), ({"schedule": Schedule("sometimes")}, "early, late, random"), ({"mma": "slow"}, "fast or exact"),  # type: ignore[arg-type]
        ({"block": "abc"}, "block"), ({"grid": (2**31,)}, "grid"), ({"grid": (1, 70000)}, "grid"), ({"livelock_limit": -1}, "livelock_limit"),
        ({"taps": [Tap("t", -2000, TmemRegion(0, 32))]}, "tap"), ({"taps": [Tap("t", 0, TmemRegion(-1, 32))]}, "tap"), ({"taps": [Tap("t", 0, TmemRegion(0, 513))]}, "tap"),
        ({"taps": [Tap("t", 232448 - 1024 - 7, TmemRegion(0, 32))]}, "tap"),
        ({"taps": [Tap("t", 0, SmemRegion(-1025, 16))]}, "tap"), ({"taps": [Tap("t", 0, SmemRegion(0, 1 << 40))]}, "tap"), ({"shared_bytes": "many"}, "shared"),
    ],
)  # fmt: skip
def test_it_does_not_fit(change: dict[str, Any], says: str) -> None:
    with pytest.raises(LaunchError) as error:
        launch(**change)
    assert says in str(error.value) and error.value.what


def test_an_entry_that_is_not_there() -> None:
    with pytest.raises(LaunchError, match="one of: k"):
        parsed(TEXT).launch("other", **FITS)


def directed(directives: str) -> Module:
    return parsed(kernel_text("", [False]).replace(")\n{", f")\n{directives}\n{{"))


def test_directives_of_the_entry() -> None:
    with pytest.raises(LaunchError, match=r"\.reqntid"):
        directed(".reqntid 64").launch("k", **FITS)
    with pytest.raises(LaunchError, match=r"\.maxntid"):
        directed(".maxntid 16, 1, 1").launch("k", **FITS)
    with pytest.raises(LaunchError, match=r"\.reqnctapercluster"):
        directed(".explicitcluster\n.reqnctapercluster 2, 1, 1").launch(
            "k", **{**FITS, "grid": (2,), "cluster": (1,)}
        )
    clean(
        directed(".reqntid 32\n.maxntid 32, 1, 1\n.reqnctapercluster 2, 1, 1").launch(
            "k", **{**FITS, "grid": (2,)}
        )
    )


def test_pairs_need_an_even_cluster() -> None:
    text = kernel_text("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;", [False])
    with pytest.raises(LaunchError, match="pairs"):
        parsed(text).launch("k", **FITS)
    with pytest.raises(LaunchError, match="pairs"):
        parsed(text).launch("k", **{**FITS, "grid": (3,), "cluster": (3,)})


def test_buffers_need_contiguous_arrays() -> None:
    memory = Memory()
    with pytest.raises(LaunchError, match="C-contiguous"):
        memory.buffer(np.zeros((4, 4))[:, ::2])
    with pytest.raises(LaunchError, match="list"):
        memory.buffer([1, 2, 3])  # type: ignore[arg-type]


def test_a_tensor_map_is_128_bytes() -> None:
    m = TensorMap.tiled(Memory().buffer(np.zeros(64, ml_dtypes.bfloat16)), shape=(64,), strides=(), box=(64,))
    assert len(m.encode()) == 128
    with pytest.raises(LaunchError, match="of 128 bytes"):
        launch(args=[m])


def test_options_are_those_of_launch() -> None:
    """The keywords that a type checker takes are the fields with defaults, of the same types."""
    fields = {field.name: field.type for field in dataclasses.fields(LaunchOptions)}
    words = inspect.get_annotations(LaunchKeywords)
    assert fields == {name: getattr(kind, "__forward_arg__", kind) for name, kind in words.items()}


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypeError, match="livelock"):
        launch(livelock=3)
