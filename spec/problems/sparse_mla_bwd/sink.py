"""The attention sink: an optional learned logit per head that joins the softmax denominator, without a value.

The backward kernel does not see the sink. It enters through the inputs `lse` and `o` (and so delta), both of
which the forward scales; every stage of the stage graph stays as it is. Only the sink's own gradient is new,
and it is a sum over tokens of values that the kernel outputs or was given, so no kernel stage computes it.

With x = sink * log2(e), the sink's logit in base 2, and lse_keys the log2-sum-exp2 over the keys alone::

    lse  = log2(2^lse_keys + 2^x)                        of a forward with the sink
    o    = o_keys * 2^(lse_keys - lse)
    share = 2^(x - lse)                                  the sink's share of the softmax, p
    d_sink[h] = -sum over tokens t of p[t, h] * delta[t, h]

The last two lines are stages, written as those of the kernel are. Of d_sink: dS_j of the softmax probability
S_j by the sink's logit is -S_j p, so the loss changes by -p sum_j S_j dP_j = -p delta. It holds in natural
units, as `sink` is given, without sm_scale.

Limits (cudnn-frontend PRs 877, 940 and 1048 settle them in the same way): sink -inf is no sink, p = 0 and
nothing changes; sink +inf, or a finite one whose x is past the largest f32 (2.4e38 is, 2e38 is not), owns
all mass, p = 1, lse = +inf, o = 0; a token without keys has o = 0, delta = 0 and lse = x (without a
sink +inf), so that it adds nothing to d_sink. None of them makes a NaN: p is 2^min(x - lse, 0), and inf - inf
is decided before it is formed. Where |x| nears 2^24 an f32 lse hardly says what p is, and the bound says so;
with all mass on the sink's side delta is 0, with all on the keys' p is, so their product is right even then.

Some forwards return the lse of the keys alone beside an o that has the sink in it (FlashMLA's
flash_mla_sparse_fwd, by the docstring of its attn_sink): `fold_lse` adds the sink.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from tileproof.spec.arithmetic import AnyTerm, Arithmetic, AsBool, AsF32
from tileproof.spec.arithmetic.bound import BOUND
from tileproof.spec.arithmetic.exact import EXACT
from tileproof.spec.arithmetic.operation import AnyArithmetic
from tileproof.spec.arithmetic.reads import OwnTerm
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import F32_MAX, LOG2_E
from tileproof.spec.problems import attention
from tileproof.spec.stage import Graph, Stage

F64 = npt.NDArray[np.float64]

# `finite`: where x and lse are, so that the share is computed; elsewhere it is `limit`, 1 of a head that the
# sink owns, else 0.
_graph = Graph(
    {
        "sink": ("h_q",),
        "lse": ("s_q", "h_q"),
        "delta": ("s_q", "h_q"),
        "finite": ("s_q", "h_q"),
        "limit": ("h_q",),
    },
    {"sink": r"\mathrm{sink}", "lse": r"\mathrm{lse}", "delta": r"\delta", "share": "p"},
    walked=(),
)


@_graph.stage("s_q", "h_q", symbol="p", memory="registers", name="share")
def _share(m: Arithmetic, sink: AsF32, lse: AsF32, finite: AsBool, limit: AsF32) -> AnyTerm:
    exponent = m.sub(m.mul(sink, attention.log2_e(m)), lse)
    return m.select(finite, m.exp2(m.min(exponent, m.constant("0", 0.0))), limit)


@_graph.stage("h_q", symbol=r"\mathrm{d}\mathrm{sink}", memory="d_sink [h_q]", name="d_sink")
def _d_sink(m: Arithmetic, share: AsF32, delta: AsF32) -> AnyTerm:
    return m.neg(m.colsum(share, delta))


STAGES: Mapping[str, Stage] = _graph.stages()


def base2(sink: Array) -> F64:
    """``[h_q]`` float64: the sink's logit in base 2; +-inf where it is past the f32 range."""
    x = np.asarray(sink, dtype=np.float64) * LOG2_E
    return np.where(np.abs(x) > F32_MAX, np.copysign(np.inf, x), x)


def fold_lse(lse_keys: Array, sink: Array) -> F64:
    """``[s_q, h_q]`` float64: lse with the sink, from that of the keys alone, both in base 2.

    A token without any key may come as -inf (the empty sum) or +inf (this project's definition); without a
    sink it stays +inf.
    """
    keys = np.asarray(lse_keys, dtype=np.float64)
    empty_is_minus = np.where(np.isposinf(keys), -np.inf, keys)
    with np.errstate(invalid="ignore"):
        both = np.logaddexp2(empty_is_minus, np.broadcast_to(base2(sink), keys.shape))
    return np.where(np.isneginf(both), np.inf, both)


def _share_over(m: AnyArithmetic, lse: Array, sink: Array) -> OwnTerm:
    x = base2(sink)
    finite = np.isfinite(x) & np.isfinite(lse)
    limit = np.isposinf(x).astype(np.float64)
    return STAGES["share"].over(m, {"sink": sink, "lse": lse, "finite": finite, "limit": limit}).value


def d_sink_over(m: AnyArithmetic, lse: Array, delta: Array, sink: Array) -> OwnTerm:
    """d_sink over the arithmetic `m`, as its term: both stages, the second on what the first left.

    lse (base 2, with the sink in it) and delta ``[s_q, h_q]``, sink ``[h_q]`` in natural units.
    """
    inputs = {"share": _share_over(m, lse, sink), "delta": delta}
    return STAGES["d_sink"].over(m, inputs).value


def share(lse: Array, sink: Array) -> F64:
    """``[s_q, h_q]`` float64 in [0, 1]: the sink's share p of the softmax."""
    return np.asarray(_share_over(EXACT, lse, sink))


def d_sink(lse: Array, delta: Array, sink: Array) -> F64:
    """``[h_q]`` float64: the gradient of the sink."""
    return np.asarray(d_sink_over(EXACT, lse, delta, sink))


def bound_d_sink(lse: Array, delta: Array, sink: Array) -> F64:
    """``[h_q]``: bound of d_sink in f32, token terms added in any order; +inf where it may overflow."""
    return np.asarray(d_sink_over(BOUND, lse, delta, sink).errors)


def validate(lse: Array, delta: Array, sink: Array) -> None:
    """Raise TileproofError unless these are the inputs of d_sink.

    Shapes and f32 dtypes must fit, sink must hold no NaN, and lse must not lie below the sink's own logit:
    then the lse is that of the keys alone. The slack is one, twice the share, beside the rounding of lse to
    f32.
    """
    for name, array, ndim in (("lse", lse, 2), ("delta", delta, 2), ("sink", sink, 1)):
        if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.ndim != ndim:
            raise TileproofError(
                f"{name} does not match d_sink's inputs",
                where=name,
                expected=f"float32 {'[s_q, h_q]' if ndim == 2 else '[h_q]'}",
                found=f"{getattr(array, 'dtype', type(array).__name__)} {list(getattr(array, 'shape', ()))}",
            )
    if lse.shape != delta.shape or sink.shape != lse.shape[1:]:
        raise TileproofError(
            "the shapes of lse, delta and sink do not belong together",
            where="sink",
            expected="lse [s_q, h_q], delta [s_q, h_q], sink [h_q]",
            found=f"lse {list(lse.shape)}, delta {list(delta.shape)}, sink {list(sink.shape)}",
        )
    for name, array in (("lse", lse), ("delta", delta), ("sink", sink)):
        if np.isnan(array).any():
            at = [int(i) for i in np.argwhere(np.isnan(array))[0]]
            raise TileproofError(f"{name} holds NaN", where=f"{name}{at}")
    x = np.broadcast_to(base2(sink), lse.shape)
    slack = 1.0 + np.where(np.isfinite(x), np.abs(x), 0.0) * 2.0**-22
    below = lse.astype(np.float64) < x - slack
    if below.any():
        t, h = (int(i) for i in np.argwhere(below)[0])
        raise TileproofError(
            "lse lies below the sink's own logit: it is the lse of the keys alone",
            where=f"lse[{t}, {h}]",
            expected=f"at least sink * log2(e) = {x[t, h]:.6g}",
            found=f"{lse[t, h]:.6g}",
            do="add the sink with tileproof.spec.problems.sparse_mla_bwd.sink.fold_lse(lse, sink)",
        )
