"""What CUTLASS's convolutions are given, and what they must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tileproof.conformance.beside.record.recording import Replay

from tests.kit.outside.cutlass_example import Check, Ran, kernel, put


@dataclass(frozen=True)
class Convolution:
    """A 3-d cross-correlation: images [n, d, h, w, c], filters [k, t, r, s, c], paddings, strides and
    dilations of depth, height and width.
    """

    images: tuple[int, int, int, int, int]
    filters: tuple[int, int, int, int]  # k, t, r, s
    padding: tuple[int, int, int] = (0, 0, 0)
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of example 76."""
        said = dict(zip("ndhwc", self.images, strict=True)) | dict(zip("ktrs", self.filters, strict=True))
        for name, values in (("pad", self.padding), ("stride", self.stride), ("dilation", self.dilation)):
            said |= {f"{name}_{axis}": value for axis, value in zip("dhw", values, strict=True)}
        return (*(f"--{name}={value}" for name, value in said.items()), "--iterations=0")

    @property
    def positions(self) -> tuple[int, ...]:
        """z, p, q of the result."""
        return tuple(
            1 + (size + 2 * pad - (step * (taps - 1) + 1)) // by
            for size, taps, pad, by, step in zip(
                self.images[1:4], self.filters[1:], self.padding, self.stride, self.dilation, strict=True
            )
        )

    def check(self, operation: Literal["fprop", "dgrad", "wgrad"]) -> Check:
        """f16 small integers: the sums are exact, the result is rounded once."""
        n, k, c = self.images[0], self.filters[0], self.images[4]
        shapes = {"x": self.images, "w": (*self.filters, c), "y": (n, *self.positions, k)}
        given, wanted = {"fprop": ("xw", "y"), "dgrad": ("yw", "x"), "wgrad": ("yx", "w")}[operation]

        def check(replay: Replay, how: dict[str, Any]) -> Ran:
            launch = kernel(replay)
            buffers = replay.memory.buffers
            rng = np.random.default_rng(19)
            tensors = {}
            for buffer, name in zip(buffers, given, strict=False):
                tensors[name] = rng.integers(-2, 3, shapes[name]).astype(np.float64)
                put(buffer, tensors[name].astype(np.float16))
            result = replay.run(launch, **how)
            expected = self._evaluate(tensors, wanted, shapes[wanted]).astype(np.float16)
            found = buffers[3].numpy().view(np.float16).reshape(shapes[wanted])
            return Ran((result,), {wanted: (found.astype(np.float64), expected.astype(np.float64), 0.0)})

        return check

    def _evaluate(self, tensors: dict[str, np.ndarray], wanted: str, shape: tuple[int, ...]) -> np.ndarray:
        out = np.zeros(shape)
        sizes = self.images[1:4]
        for tap in np.ndindex(*self.filters[1:]):
            for at in np.ndindex(*self.positions):
                place = tuple(
                    at[i] * self.stride[i] + tap[i] * self.dilation[i] - self.padding[i] for i in range(3)
                )
                if any(not 0 <= p < size for p, size in zip(place, sizes, strict=True)):
                    continue
                x, y, w = (slice(None), *place), (slice(None), *at), (slice(None), *tap)
                if wanted == "y":
                    out[y] += tensors["x"][x] @ tensors["w"][w].T
                elif wanted == "x":
                    out[x] += tensors["y"][y] @ tensors["w"][w]
                else:
                    out[w] += tensors["y"][y].T @ tensors["x"][x]
        return out
