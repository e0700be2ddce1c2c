"""All errors of a tile together: whether roundings of an f32 sum in any order explain them.

An element of n terms is off by e = sum of d_k s_k over its n additions: s_k are the partial sums, |d_k| <= u.
Assumed: (1) the order of the additions does not depend on the values; then s_k^2 is V / (n u^2) =
`terms.Partial.mean_square` in the mean over k at most. (2) Each d_k has mean 0 whatever came before it in the
tile (Connolly, Higham, Mary: Stochastic rounding and its probabilistic backward error analysis, SIAM J. Sci.
Comput. 43(1), 2021), so that the d_k are bounded differences of a martingale over the whole tile, and e is a
sub-Gaussian vector with the variances V, however its elements depend on each other. Then

    sum e^2 <= sum V + 2 sqrt(x sum V^2) + 2 x max V
    |sum sign e| <= sqrt(2 x sum V)

fail with probability e^-x (Hsu, Kakade, Zhang, Electron. Commun. Probab. 17, 2012) and 2 e^-x (Azuma).
Equal terms, added one after the other, are rounded alike: tiles whose terms do not differ
(`Partial.varied`) are not judged so. What has no mean of 0 is added in full: errors of operands, and in the
tensor core the truncation of each block of 16 products (2^-23 of its result, 2^-25 of its largest term for
each of 17 terms).
"""

from __future__ import annotations

import math

import numpy as np
from tileproof.spec.arithmetic.terms import Bounded, Sum
from tileproof.spec.machine.types import Array
from tileproof.spec.numerics import F32_TINY, U_F32, U_F64

FALSE_ALARM = 1e-12  # of a tile
X = math.log(3 / FALSE_ALARM)
BLOCK = 16
TRUNCATED = 2.0**-23 * (1 + (BLOCK + 1) / 4)  # of a block's partial sum
SLACK = 1 + 2.0**-6  # the partial sums are those of rounded numbers


def collective(value: Array, term: Bounded | None, at: tuple[slice, ...]) -> str:
    """Why the elements of a tile are wrong together, "" where they are not; `at`: its place in the term."""
    if not isinstance(term, Sum) or term.partial is None:
        return ""
    errors = term.errors[at].ravel()
    used = (errors > 0) & np.isfinite(errors)
    if not used.any():
        return ""
    expected = term.value[at].ravel()[used]
    off = value.ravel().astype(np.float64)[used] - expected
    terms = np.broadcast_to(term.terms, term.value.shape)[at].ravel()[used]
    size = term.partial.mean_square[at].ravel()[used]
    variance = SLACK * U_F32**2 * terms * size
    known = terms * (F32_TINY + U_F64 * term.magnitude[at].ravel()[used])
    if not isinstance(term.carried, float):
        known = known + term.carried[at].ravel()[used]
    if term.u > U_F32:
        known = known + np.ceil(terms / BLOCK) * TRUNCATED * np.sqrt(size)
    lean = float((np.sign(expected) * off).sum())
    allowed = math.sqrt(2 * X * float(variance.sum())) + float(known.sum())
    if abs(lean) > allowed and term.partial.varied:
        way = "zero" if lean < 0 else "larger magnitudes"
        return (
            f"its errors lean toward {way}, {abs(lean) / allowed:.3g} times as far as roundings to "
            f"nearest allow"
        )
    random = variance.sum() + 2 * math.sqrt(X * float((variance**2).sum())) + 2 * X * float(variance.max())
    limit = math.sqrt(random) + math.sqrt(float((known**2).sum()))
    found = math.sqrt(float((off**2).sum()))
    if found > limit and term.partial.varied:
        return f"its errors are {found / limit:.3g} times the root mean square of f32 sums in any order"
    return ""
