"""Saves tensors of a torch program as a dump for `tileproof tensors`. Needs torch and safetensors only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def save(path: str | Path, **tensors: object) -> None:
    """Write tensors of any device, and numbers, as safetensors. Entries that are None are not written.

    `tensors`: torch tensors, floats or ints, by the names of a convention or of a map (`--map`).
    """
    import torch
    from safetensors.torch import save_file

    given = {name: value for name, value in tensors.items() if value is not None}
    save_file(
        {
            name: value.detach().cpu().contiguous().clone()
            if isinstance(value, torch.Tensor)
            else torch.tensor(value, dtype=torch.float64)
            for name, value in given.items()
        },
        str(path),
    )


def backward(
    function: type,
    path: str | Path,
    *,
    saved: Sequence[str],
    gradients: Sequence[str],
    returns: Sequence[str],
    **numbers: float,
) -> Callable[[], None]:
    """Save the first call of the backward of a `torch.autograd.Function`; returns what ends it.

    `saved`: names of `ctx.saved_tensors`, `gradients`: of backward's arguments, `returns`: of what it
    returns, in order; "" for what is not saved. `numbers`: further entries, such as sm_scale.
    """
    own: Any = function
    before = own.backward

    def once(ctx: Any, *given: Any) -> Any:  # noqa: ANN401 - of any autograd function
        end()
        made = before(ctx, *given)
        found = made if isinstance(made, tuple) else (made,)
        names = [*saved, *gradients, *returns]
        values = [*ctx.saved_tensors[: len(saved)], *given[: len(gradients)], *found[: len(returns)]]
        entries = {name: value for name, value in zip(names, values, strict=True) if name}
        save(path, **entries, **numbers)
        return made

    def end() -> None:
        own.backward = staticmethod(before)

    own.backward = staticmethod(once)
    return end
