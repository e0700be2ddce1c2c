"""The cases of dense attention (`spec.problems.cases.Generator`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from tileproof.spec.machine.types import UncheckedObject
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import EdgeCase
from tileproof.spec.problems.dense_attention_bwd import far, features
from tileproof.spec.problems.dense_attention_bwd.case import PRODUCTION, VALUES, DenseCase

HEADS = (8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 160, 192, 256)  # head dimensions
SIZES = (1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129)  # queries and keys
DRAWN = tuple(values for values in VALUES if values not in ("wide", "zero keys"))  # these are edges
DROPOUTS = (0.1, 0.5, 0.875)
MAX_OPERATIONS = 2**21  # multiply-adds of one product


@dataclass(frozen=True)
class DenseCases:
    """Small cases of a form of operands, with bounded head dimension times m times n."""

    form: str
    by_block: bool = False  # how dropout is drawn
    keys: int = 160  # at most
    splits: int = 1  # at most

    def drawn(self, plan: KernelPlan) -> st.SearchStrategy[DenseCase]:
        refused = frozenset(name for name, _ in plan.refuses)
        found = cases(self.form, self.keys).map(lambda case: self._own(features.without(case, refused)))
        if self.splits == 1:
            return found
        return st.builds(
            lambda case, splits: replace(case, splits=splits), found, st.integers(1, self.splits)
        )

    def _own(self, case: DenseCase) -> DenseCase:
        return replace(case, by_block=self.by_block and case.dropout > 0)

    def edges(self, plan: KernelPlan) -> dict[str, EdgeCase]:
        plain = DenseCase(self.form, m=65, n=63, d_qk=32, d_v=32, seed=1)
        found = {
            "one query": replace(plain, m=1),
            "one key": replace(plain, n=1),
            "causal": replace(plain, right=0),
            "causal from the bottom right, queries without a key": replace(
                plain, m=80, n=33, align="bottom right", right=0
            ),
            "window at a block's edge": replace(plain, left=31, right=0),
            "grouped heads": replace(plain, heads=3, h_kv=2),
            "value head of its own": replace(plain, d_v=72),
            "bias": replace(plain, bias=True),
            "dropout": replace(plain, dropout=0.5, stream=(2**40 + 3, 8)),
            "many keys": replace(plain, m=200, n=530, d_qk=16, d_v=16, right=300),
            "many queries": replace(plain, m=780, n=40, d_qk=16, d_v=16),
            "keys of production size": replace(plain, m=17, n=PRODUCTION, d_qk=16, d_v=16),
            "queries of production size": replace(plain, m=PRODUCTION, n=17, d_qk=16, d_v=16),
            "many heads of several batches": replace(plain, b=3, m=17, n=17, heads=4, h_kv=5),
            **far.edges(replace(plain, m=64, n=64, d_qk=128, d_v=128), plan.elements_below),
            "wide integers": replace(plain, values="wide"),
            "zero keys": replace(plain, m=780, n=40, d_qk=16, d_v=16, values="zero keys"),
            "packed": replace(plain, packed=((17, 33), (1, 1), (64, 40)), right=0),
        }
        if self.splits > 1:
            found |= {
                "split keys": replace(plain, n=530, d_qk=16, d_v=16, splits=3),
                "as many splits as key blocks, causal": replace(plain, m=160, n=160, right=0, splits=4),
                "more splits than key blocks": replace(plain, splits=4),
                "split keys of packed sequences": replace(
                    plain, packed=((17, 133), (1, 1), (64, 40)), splits=2
                ),
            }
        refused = frozenset(name for name, _ in plan.refuses)
        return {
            name: EdgeCase(self._own(case))
            for name, case in found.items()
            if not refused & features.of(case.problem, case.bias)
        }

    def smaller(self, case: DenseCase) -> Iterator[DenseCase]:
        if case.larger is not None:
            yield from far.smaller(case)
            return
        default = DenseCase(case.form)
        if case.packed is not None and len(case.packed) > 1:
            yield from (replace(case, packed=(lengths,)) for lengths in case.packed)
        plain = ("bias", "dropout", "stream", "by_block", "left", "right", "scale", "splits")
        for name in ("b", "h_kv", "heads", *plain):
            if getattr(case, name) != getattr(default, name):
                yield replace(case, **{name: getattr(default, name)})
        for name in ("m", "n") if case.packed is None else ():
            value = getattr(case, name)
            yield from (
                replace(case, **{name: less}) for less in sorted({1, value // 2, value - 1} - {0, value})
            )
        alike = case.d_qk == case.d_v  # and stay so: some kernels have one head dimension
        for names in (("d_qk", "d_v"),) if alike else (("d_qk",), ("d_v",)):
            value = getattr(case, names[0])
            for less in sorted({8, value // 2 // 8 * 8, value - 8}):
                if 8 <= less < value:
                    yield replace(case, **dict.fromkeys(names, less))
        if case.values != "integers":
            yield replace(case, values="integers")

    def small(self, plan: KernelPlan, blocks: int | None = None) -> DenseCase:
        return DenseCase(self.form, m=plan.block * (blocks or plan.depth + 2), n=plan.block)

    def from_json(self, text: str) -> DenseCase:
        return DenseCase.from_json(text)


@st.composite
def cases(draw: st.DrawFn, form: str = "bf16", keys: int = 160) -> DenseCase:
    """A `DenseCase`; shrinks towards one query and key, without mask, bias and dropout."""

    def size(maximum: int) -> int:
        return draw(st.one_of(st.sampled_from(SIZES), st.integers(1, maximum)))

    m, n = size(160), size(keys)
    d_qk = draw(st.sampled_from(HEADS))
    d_v = d_qk if draw(st.booleans()) else draw(st.sampled_from(HEADS))
    h_kv, heads, b = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    while b * h_kv * heads * m * n * max(d_qk, d_v) > MAX_OPERATIONS and max(b, h_kv, heads) > 1:
        b, h_kv, heads = max(b - 1, 1), max(h_kv - 1, 1), max(heads - 1, 1)
    limits = draw(st.sampled_from(("none", "causal", "window")))
    left = draw(st.integers(0, n)) if limits == "window" else None
    right = 0 if limits == "causal" else draw(st.integers(-1, n)) if limits == "window" else None
    more: UncheckedObject = {}
    kind = draw(st.sampled_from(("plain", "plain", "bias", "dropout", "packed")))
    if kind == "packed":
        first = (draw(st.integers(0, m)), draw(st.integers(0, n)))
        b, more["packed"] = 1, (first, (m - first[0], n - first[1]))
        m, n = DenseCase.m, DenseCase.n
    elif kind == "dropout":
        stream = draw(st.integers(0, 2**48)), 4 * draw(st.integers(0, 2**18))
        more |= {"dropout": draw(st.sampled_from(DROPOUTS)), "stream": stream}
    return DenseCase(
        form, b, m, n, h_kv, heads, d_qk, d_v,
        scale=draw(st.sampled_from((0.0, 0.0, 1.0, 0.01))),
        align=draw(st.sampled_from(("top left", "bottom right"))),
        left=left,
        right=right,
        bias=kind == "bias",
        values=draw(st.sampled_from(DRAWN)),
        seed=draw(st.integers(0, 2**16 - 1)),
        **more,
    )  # fmt: skip
