"""The largest logit for which float64 references are good: an exponent keeps 12 bits behind its point."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array

LARGEST_LOGIT = 2.0**40


def require_logits(q: Array, k: Array, sm_scale: float, parts: Iterable[tuple[str, Array, Array]]) -> None:
    """Raise TileproofError where a logit ``sm_scale q k^T`` is above `LARGEST_LOGIT`.

    ``q, k [..., d]`` decide cheaply for most inputs. `parts` are then read: a place in words, its queries
    ``[m, d]`` and its keys ``[n, d]``.
    """
    if not q.size or not k.size or _largest(q) * _largest(k) * q.shape[-1] * sm_scale <= LARGEST_LOGIT:
        return
    for where, queries, keys in parts:
        if not queries.size or not keys.size:
            continue
        found = sm_scale * float(np.abs(queries.astype(np.float64) @ keys.astype(np.float64).T).max())
        if found > LARGEST_LOGIT:
            raise TileproofError(
                "a logit is too large for float64 references", where=where,
                expected=f"sm_scale |q k^T| at most 2^40 = {LARGEST_LOGIT:.4g}", found=f"{found:.4g}",
                do="use smaller values or a smaller sm_scale",
            )  # fmt: skip


def _largest(values: Array) -> float:
    """The largest magnitude; of values that are NaN or infinite it does not count."""
    magnitude = np.abs(values.astype(np.float32))
    return float(np.where(np.isfinite(magnitude), magnitude, 0).max())
