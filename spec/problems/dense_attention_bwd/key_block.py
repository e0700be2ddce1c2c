"""The cases of kernels that walk the queries of a key block.

The plan says `another_d_v`, whether values have columns of their own, `d_tile`, the most columns of a head,
and `causal`: 0 none, 1 from the top left, 2 from the bottom right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from hypothesis import strategies as st
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.machine.types import Json, UncheckedObject
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.cases import EdgeCase
from tileproof.spec.problems.dense_attention_bwd import far
from tileproof.spec.problems.dense_attention_bwd.case import PRODUCTION, VALUES, DenseCase
from tileproof.spec.problems.dense_attention_bwd.inputs import DenseProblem
from tileproof.spec.problems.dense_attention_bwd.masks import Mask

D_TILES = (64, 128)
OWN_TILE, OWN_VALUES = 192, 128  # where values have columns of their own
COLUMNS = 8  # a head has a multiple of so many: 16 bytes of f16 (cuTensorMapEncodeTiled, strides)
MASKS = (Mask(), Mask("top left", right=0), Mask("bottom right", right=0))
AROUND = (-1, 0, 1)  # sizes next to a block's edge
DRAWN = tuple(values for values in VALUES if values not in ("low", "wide"))  # which are edges


def causal_of(mask: Mask) -> int:
    """The index of a mask in `MASKS`; TileproofError when it is none of them."""
    if mask.left is None and mask.right is None:
        return 0
    if mask in MASKS:
        return MASKS.index(mask)
    raise TileproofError(
        "kernels that walk a key block's queries do not have this mask",
        where="problem.mask",
        expected=", ".join(mask.words for mask in MASKS),
        found=mask.words,
    )


def sizes_of(problem: DenseProblem) -> dict[str, int]:
    """The sizes that choose a variant: `another_d_v`, `causal`, `d_tile` and `packed`; TileproofError, which
    names what none computes.
    """
    causal = causal_of(problem.mask)

    def require(holds: bool, what: str, where: str, expected: str, found: object) -> None:
        if not holds:
            raise TileproofError(what, where=f"problem.{where}", expected=expected, found=str(found))

    d = problem.d_qk
    d_v = problem.d_v
    own = d_v != d
    widest = OWN_TILE if own else D_TILES[-1]
    require(d <= widest, "the head is too wide", "d_qk", f"at most {widest}", d)
    require(d_v <= OWN_VALUES, "the values' head is too wide", "d_v", f"at most {OWN_VALUES}", d_v)
    for where, width in (("d_qk", d), ("d_v", d_v)):
        require(
            width % COLUMNS == 0, "the head's width does not fit", where, f"a multiple of {COLUMNS}", width
        )
    require(problem.dropout.p == 0, "there is no dropout", "dropout", "p = 0", problem.dropout.p)
    tile = OWN_TILE if own else next(tile for tile in D_TILES if d <= tile)
    return {
        "another_d_v": int(own),
        "causal": causal,
        "d_tile": tile,
        "packed": int(problem.packed is not None),
    }


@dataclass(frozen=True)
class KeyBlockCase(DenseCase):
    """A `DenseCase` that chooses the variant by its mask and its head dimension."""

    def sizes(self) -> dict[str, int]:
        return sizes_of(self.problem)


@dataclass(frozen=True)
class KeyBlockCases:
    """Cases (`spec.problems.cases.Generator`) of one form of operands."""

    form: str

    def _of(self, plan: KernelPlan, **how: Json) -> KeyBlockCase:
        mask, d = MASKS[plan.size("causal")], plan.size("d_tile")
        how = {"m": plan.block, "n": _keys(plan), "d_qk": d, **how}
        if plan.size("packed"):
            how = _packed(how)
        if plan.size("another_d_v"):  # without grouped heads
            how = {"d_v": OWN_VALUES, **how, "heads": 1}
        return KeyBlockCase(self.form, **{"d_v": how["d_qk"], **how}, align=mask.align, right=mask.right)

    def drawn(self, plan: KernelPlan) -> st.SearchStrategy[KeyBlockCase]:
        return _cases(self, plan)

    def edges(self, plan: KernelPlan) -> dict[str, EdgeCase]:
        m, n = plan.block, _keys(plan)
        found = {
            "one block": self._of(plan),
            "a block of queries more than the deepest ring has stages": self._of(
                plan, m=m * (plan.depth + 1)
            ),
            "one query": self._of(plan, m=1, n=n),
            "one key": self._of(plan, n=1),
            "one query and one key more than a block": self._of(plan, m=m + 1, n=n + 1),
            "one less": self._of(plan, m=m - 1, n=n - 1),
            "more queries than keys": self._of(plan, m=2 * m, n=n),
            "more keys than queries": self._of(plan, m=m, n=2 * n),
            "grouped heads of two batches": self._of(plan, m=m // 2, n=n // 2, heads=2, h_kv=2, b=2),
            "low logits": self._of(plan, m=m // 2, n=n // 2, values="low"),
            "the narrowest head": self._of(plan, m=m // 2, n=n // 2, d_qk=_columns(plan)[0]),
            "many heads of several batches": self._of(plan, m=17, n=17, heads=2, h_kv=5, b=3),
            "wide integers": self._of(plan, m=m // 2, n=n // 2, values="wide"),
            "keys of production size": self._of(plan, m=m // 2, n=PRODUCTION),
            "queries of production size": self._of(plan, m=PRODUCTION // 2 + 1, n=n // 2),
        }
        if not plan.size("packed"):
            found |= far.edges(self._of(plan), plan.elements_below, keys=True)
        if plan.size("another_d_v"):
            found["the narrowest values"] = self._of(plan, m=m // 2, n=n // 2, d_qk=COLUMNS * 2, d_v=COLUMNS)
        return {name: EdgeCase(replace(case, seed=1)) for name, case in found.items()}

    def smaller(self, case: KeyBlockCase) -> Iterator[KeyBlockCase]:
        if case.larger is not None:
            yield from far.smaller(case)
            return

        def with_size(name: str, size: int) -> KeyBlockCase:
            changed: UncheckedObject = {name: size}
            return replace(case, **changed)

        for name in ("b", "h_kv", "heads"):
            if getattr(case, name) > 1:
                yield with_size(name, 1)
        if case.packed is not None and len(case.packed) > 1:
            yield from (replace(case, packed=(lengths,)) for lengths in case.packed if min(lengths) > 0)
        for name in ("m", "n") if case.packed is None else ():
            value = getattr(case, name)
            yield from (with_size(name, less) for less in sorted({1, value // 2, value - 1} - {0, value}))
        if case.values != "integers":
            yield replace(case, values="integers")

    def small(self, plan: KernelPlan, blocks: int | None = None) -> KeyBlockCase:
        return self._of(plan, m=plan.block * (blocks or plan.depth + 2))

    def from_json(self, text: str) -> KeyBlockCase:
        return KeyBlockCase(**asdict_of(DenseCase.from_json(text)))


def asdict_of(case: DenseCase) -> UncheckedObject:
    """The fields of a case; sequences as tuples."""
    found = asdict(case)
    return {**found, "stream": tuple(case.stream), "packed": case.packed, "larger": case.larger}


def _packed(how: UncheckedObject) -> UncheckedObject:
    """The same sizes as sequences: a short one, one of the sizes asked for, one without keys, one without
    queries; the second again for each further batch.
    """
    m, n = how.pop("m"), how.pop("n")
    short = (max(m // 3, 1), max(n // 2, 1))
    return {**how, "b": 1, "packed": (short, *[(m, n)] * how.get("b", 1), (2, 0), (0, 3))}


def _keys(plan: KernelPlan) -> int:
    """Keys of a CTA."""
    return next(elements for axis, elements, _ in plan.shape if axis == "n")


def _columns(plan: KernelPlan) -> tuple[int, ...]:
    """The head dimensions of the plan's build."""
    widest = plan.size("d_tile")
    least = max((tile for tile in D_TILES if tile < widest), default=0)
    return tuple(range(least + COLUMNS, widest + 1, COLUMNS))


@st.composite
def _cases(draw: st.DrawFn, cases: KeyBlockCases, plan: KernelPlan) -> KeyBlockCase:
    """Shrinks towards one query and one key; at most three blocks either way, and two with several heads."""

    def size(block: int, maximum: int) -> int:
        edges = [blocks * block + by for blocks in range(1, maximum + 1) for by in AROUND]
        near = st.sampled_from([edge for edge in edges if edge <= maximum * block])
        return draw(st.one_of(st.integers(1, block), near))

    several = draw(st.booleans())
    blocks = 1 if several else 2
    values = {}
    if plan.size("another_d_v"):
        values["d_v"] = draw(st.sampled_from(range(OWN_VALUES, 0, -COLUMNS)))
    return cases._of(
        plan,
        b=draw(st.integers(1, 2)) if several else 1,
        m=size(plan.block, blocks),
        n=size(_keys(plan), blocks),
        h_kv=draw(st.integers(1, 2)) if several else 1,
        heads=draw(st.integers(1, 2)) if several else 1,
        d_qk=draw(st.sampled_from(_columns(plan)[::-1])),
        scale=draw(st.sampled_from((0.0, 0.0, 1.0, 0.01))),
        values=draw(st.sampled_from(DRAWN)),
        **values,
        seed=draw(st.integers(0, 2**16 - 1)),
    )
