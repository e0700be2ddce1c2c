"""Dense attention backward as a problem type (`spec.problems.base`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from tileproof.spec.arithmetic import BF16, F16, F32, Form
from tileproof.spec.machine.errors import TileproofError
from tileproof.spec.plan import KernelPlan
from tileproof.spec.problems.base import GroundDatum, ProblemType, TileCoord, TileRows, Tiling
from tileproof.spec.problems.cases import Generator
from tileproof.spec.problems.dense_attention_bwd import features, masks, stages
from tileproof.spec.problems.dense_attention_bwd.inputs import MAX_SPLITS, Inputs, Sequence
from tileproof.spec.problems.dense_attention_bwd.stages import RoundingPlan
from tileproof.spec.problems.faults import FaultHypotheses
from tileproof.spec.problems.tensors import TensorForms
from tileproof.spec.stage import Stage

NAME = "dense_attention_bwd"


@dataclass(frozen=True)
class DenseAttentionBwd(ProblemType):
    """A group is one KV head of one sequence; its rows are the queries of every query head of it, one head
    after another; a k-block is a (query block, key block) pair in which some query sees some key, key blocks
    outermost. `Tiling.block` queries make a query block; the tiling's shape says how many keys a key block
    (all of them without).

    `kernel` and `rounding`: the kernel whose rounding points these are, where they are its own; `by_block`
    and `keys`: how its dropout is drawn, and the most keys of its drawn problems.
    `by_key_block`: a group is one key block of such a head, and its k-blocks are its query blocks. Rows of an
    output that tiles are added to are those of one head after another, each padded to a multiple of `pitch`.
    `changed`: stages in the place of the problem's own, for tests that plant an error in a stage.
    """

    operand: Form = BF16
    by_key_block: bool = False
    kernel: str = ""
    rounding: RoundingPlan = stages.PLAIN
    by_block: bool = False
    keys: int = 160
    changed: Mapping[str, Stage] | None = None
    walked: str = "m"
    pitch: int = 1

    @property
    def name(self) -> str:
        walk = "_by_key_block" if self.by_key_block else ""
        walk += "_split" if self.rounding.splits > 1 else ""
        walk += f"_{self.kernel}" if self.kernel else ""
        return NAME + walk + ("" if self.operand == BF16 else f"_{self.operand.name}")

    @property
    def shared(self) -> tuple[str, ...]:
        return ("n",) if self.by_key_block else ()

    @property
    def generator(self) -> Generator:
        if self.by_key_block:
            from tileproof.spec.problems.dense_attention_bwd.key_block import KeyBlockCases

            return KeyBlockCases(self.operand.name)
        from tileproof.spec.problems.dense_attention_bwd.generator import DenseCases

        return DenseCases(self.operand.name, self.by_block, self.keys, self.rounding.splits)

    @property
    def tensors(self) -> TensorForms | None:
        if self.by_key_block:
            return None
        from tileproof.spec.problems.dense_attention_bwd.tensors import DenseTensors

        return DenseTensors(self)

    @property
    def fault_hypotheses(self) -> FaultHypotheses:
        from tileproof.spec.problems.dense_attention_bwd.faults import DenseFaultHypotheses

        return DenseFaultHypotheses(self.by_key_block)

    @property
    def unit(self) -> str:
        return "key block" if self.by_key_block else "KV head"

    @property
    def stages(self) -> Mapping[str, Stage]:
        own = _graph(self.operand, self.by_key_block, self.rounding)
        return own if self.changed is None else {**own, **self.changed}

    @property
    def words(self) -> Mapping[str, str]:
        return {
            "m": "query", "n": "key", "d_qk": "column", "d_v": "column", "rows": "query", "h": "head",
            "h_kv": "KV head",
        }  # fmt: skip

    def walks(self, stage: str) -> bool:
        tile = self.stages[stage].tile
        outputs = ("dB", "delta")
        return stage not in outputs and "m" in tile and ("n" in tile or self.by_key_block)

    def sizes(self, inputs: Inputs) -> Mapping[str, int]:
        if not self.by_key_block:
            return {}
        from tileproof.spec.problems.dense_attention_bwd.key_block import sizes_of

        return sizes_of(inputs.problem)

    def require(self, inputs: Inputs, plan: KernelPlan) -> None:
        refused = dict(plan.refuses)
        if inputs.problem.splits > self.rounding.splits:
            refused[features.SPLIT] = "it adds the key blocks of dQ in one sum, or shows no part of it"
        for feature in features.of(inputs.problem, inputs.bias is not None):
            if feature in refused:
                raise TileproofError(
                    f"{plan.name} takes no problem with {feature}", where="problem", found=refused[feature],
                    do="omit it, or check another kernel",
                )  # fmt: skip

    # ---- groups

    def _keys(self, inputs: Inputs, cut: Tiling) -> int:
        """Keys of a key block."""
        return cut.tile("n") if cut.shape else max(inputs.problem.n, 1)

    def _of(self, inputs: Inputs, cut: Tiling, group: int) -> tuple[Sequence, int, int]:
        """The group's sequence, KV head and key block (0 for a whole head)."""
        p = inputs.problem
        block = 0
        if self.by_key_block:
            group, block = divmod(group, self._blocks_along(inputs, cut))
        sequence, head = divmod(group, p.h_kv)
        return p.sequences[sequence], head, block

    def _blocks_along(self, inputs: Inputs, cut: Tiling) -> int:
        """Key blocks of the longest sequence: every head has so many groups."""
        longest = max((sequence.n for sequence in inputs.problem.sequences), default=0)
        return max(-(-longest // self._keys(inputs, cut)), 1)

    def groups(self, inputs: Inputs, cut: Tiling) -> range:
        heads = len(inputs.problem.sequences) * inputs.problem.h_kv
        return range(heads * (self._blocks_along(inputs, cut) if self.by_key_block else 1))

    def group_at(self, inputs: Inputs, cut: Tiling, cluster: tuple[int, int, int]) -> int:
        block, head, sequence = cluster
        group = sequence * inputs.problem.h_kv + head
        return group * self._blocks_along(inputs, cut) + block if self.by_key_block else group

    # ---- tiles

    def _pairs(self, inputs: Inputs, cut: Tiling, group: int) -> list[tuple[int, int, int]]:
        """(head of the group, query block, key block) of each k-block."""
        sequence, _, block = self._of(inputs, cut, group)
        pairs = masks.blocks(inputs.problem.mask, sequence.m, sequence.n, cut.block, self._keys(inputs, cut))
        found = [
            (key_block, head, queries)
            for head in range(inputs.problem.heads)
            for queries, key_block in pairs
            if not self.by_key_block or key_block == block
        ]
        return [(head, queries, key_block) for key_block, head, queries in sorted(found)]

    def k_blocks(self, inputs: Inputs, cut: Tiling, group: int) -> int:
        return len(self._pairs(inputs, cut, group))

    def reach(self, inputs: Inputs, cut: Tiling, group: int) -> int:
        return self.k_blocks(inputs, cut, group)

    def extent(self, inputs: Inputs, cut: Tiling, group: int, axis: str) -> slice:
        sequence, _, block = self._of(inputs, cut, group)
        if axis == "m":
            return slice(0, sequence.m * inputs.problem.heads)
        if axis == "n" and self.by_key_block:
            size = self._keys(inputs, cut)
            return slice(min(block * size, sequence.n), min((block + 1) * size, sequence.n))
        return slice(0, sequence.n if axis == "n" else self.size(inputs, axis))

    def region(self, inputs: Inputs, cut: Tiling, coord: TileCoord, axis: str) -> slice:
        if coord.k_block is None or axis not in ("m", "n"):
            return self.extent(inputs, cut, coord.group, axis)
        sequence, _, _ = self._of(inputs, cut, coord.group)
        head, queries, key_block = self._pairs(inputs, cut, coord.group)[coord.k_block]
        if axis == "m":
            first = queries * cut.block
            return slice(head * sequence.m + first, head * sequence.m + min(first + cut.block, sequence.m))
        size = self._keys(inputs, cut)
        return slice(key_block * size, min((key_block + 1) * size, sequence.n))

    def size(self, inputs: Inputs, axis: str) -> int:
        p = inputs.problem
        if axis == "rows":
            return len(p.sequences) * p.h * self._rows_of_head(inputs)
        size: int = getattr(p, axis)
        return size

    def _rows_of_head(self, inputs: Inputs) -> int:
        longest = max(sequence.m for sequence in inputs.problem.sequences)
        return -(-longest // self.pitch) * self.pitch

    def ground(self, inputs: Inputs, cut: Tiling, group: int, name: str) -> GroundDatum:
        p = inputs.problem
        sequence, head, _ = self._of(inputs, cut, group)
        heads = slice(head * p.heads, (head + 1) * p.heads)
        span = self.extent(inputs, cut, group, "n")
        keys = slice(sequence.keys.start + span.start, sequence.keys.start + span.stop)
        if name in ("q", "o", "dO"):
            own = getattr(inputs, name)[sequence.batch, sequence.queries, heads]
            return np.ascontiguousarray(own.swapaxes(0, 1)).reshape(sequence.m * p.heads, own.shape[-1])
        if name in ("k", "v"):
            return np.ascontiguousarray(getattr(inputs, name)[sequence.batch, keys, head])
        if name == "lse":
            return np.ascontiguousarray(inputs.lse[sequence.batch, heads, sequence.queries]).reshape(-1)
        if name == "mask":
            seen = inputs.masks[p.sequences.index(sequence)][:, span]
            return np.tile(seen, (p.heads, 1))
        shape = (sequence.m * p.heads, span.stop - span.start)
        if name == "bias":
            if inputs.bias is None:
                return np.zeros(shape)
            return np.ascontiguousarray(inputs.bias[sequence.batch, heads, sequence.queries, keys]).reshape(
                shape
            )
        if name == "kept":
            return np.ascontiguousarray(inputs.kept[sequence.batch, heads, sequence.queries, keys]).reshape(
                shape
            )
        if name in ("row_block", "key_block"):
            rows, cols = (sequence.m, sequence.n)
            if self.rounding.blocks is not None:
                rows, cols = (max(size, 1) for size in self.rounding.blocks(sequence.m, sequence.n))
            if name == "key_block":
                return np.arange(sequence.n) // max(cols, 1)
            own = np.arange(sequence.m) // max(rows, 1)
            return np.concatenate([own + head * sequence.m for head in range(p.heads)])
        if name == "split":
            size = self._keys(inputs, cut)
            run = -(-max(-(-sequence.n // size), 1) // p.splits)  # key blocks
            return np.arange(sequence.n) // size // run + 1
        if name == "share":
            return 1.0 - p.dropout.p
        if name == "rescale":
            return p.dropout.rescale
        if name == "sm_scale":
            return p.sm_scale
        raise TileproofError("unknown ground data", where=f"stage inputs {name!r}")

    # ---- outputs

    def output(self, stage: str) -> tuple[str, ...]:
        heads = "h_kv" if self.stages[stage].tile[0] == "n" else "h"
        return ("b", heads, *self.stages[stage].tile)

    def place(
        self, inputs: Inputs, cut: Tiling, coord: TileCoord, axes: tuple[str, ...]
    ) -> tuple[int | slice, ...]:
        p = inputs.problem
        sequence, kv_head, _ = self._of(inputs, cut, coord.group)
        head: int | slice = slice(kv_head * p.heads, (kv_head + 1) * p.heads)
        queries = sequence.queries
        if coord.k_block is not None:
            inside, block, _ = self._pairs(inputs, cut, coord.group)[coord.k_block]
            head = kv_head * p.heads + inside
            first = sequence.queries.start + block * cut.block
            queries = slice(first, min(first + cut.block, sequence.queries.stop))
        span = self.region(inputs, cut, coord, "n")
        places: dict[str, int | slice] = {
            "b": sequence.batch,
            "sequence": p.sequences.index(sequence),
            "query": slice(queries.start - sequence.queries.start, queries.stop - sequence.queries.start),
            "h": head,
            "h_kv": kv_head,
            "m": queries,
            "n": slice(sequence.keys.start + span.start, sequence.keys.start + span.stop),
        }
        return tuple(
            places[axis] if axis in places else self.extent(inputs, cut, coord.group, axis) for axis in axes
        )

    def rows(self, inputs: Inputs, cut: Tiling, group: int, stage: str) -> TileRows:
        p = inputs.problem
        sequence, kv_head, _ = self._of(inputs, cut, group)
        heads = np.arange(kv_head * p.heads, (kv_head + 1) * p.heads)
        firsts = (p.sequences.index(sequence) * p.h + heads) * self._rows_of_head(inputs)
        rows = firsts[:, None] + np.arange(sequence.m)
        live = np.zeros(rows.size, bool)
        for k_block in range(self.k_blocks(inputs, cut, group)):
            live[self.region(inputs, cut, TileCoord(group, None, k_block), "m")] = True
        return rows.reshape(-1), live


@cache
def _graph(operand: Form, by_key_block: bool, rounding: RoundingPlan) -> Mapping[str, Stage]:
    return stages.by_key_block(operand) if by_key_block else stages.whole(operand, rounding)


PROBLEMS = (
    *(DenseAttentionBwd(form) for form in (BF16, F16, F32)),
    *(DenseAttentionBwd(form, by_key_block=True, pitch=8) for form in (BF16, F16)),
    *(DenseAttentionBwd(form, rounding=RoundingPlan(splits=MAX_SPLITS)) for form in (BF16, F16, F32)),
)
