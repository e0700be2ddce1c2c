# ruff: noqa: E501 - tables and log lines are kept whole
"""Pipelines of several shapes, each with planted hangs, as programs of single threads.

A program is what one role of one CTA does, in the operations of `tests.kit.pipelines`; `emulated` makes PTX of
it. The planted defects are what goes wrong in such kernels: an arrival left out, in one CTA only, on the wrong
stage or barrier; a role that stops; a wrong count, parity, number of bytes or of k-blocks; a stage that is
never released; a cycle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.kit.pipelines import Op, Who

BYTES = 256  # of a tile


@dataclass(frozen=True)
class Shape:
    """CTAs of the cluster, stages of the ring, k-blocks, and what things are called."""

    ctas: int = 2
    stages: int = 2
    blocks: int = 5
    names: tuple[str, ...] = ("kv_full", "kv_empty", "p_ready", "s_ready", "o_done")
    roles: tuple[str, ...] = ("load", "mma", "softmax")


@dataclass(frozen=True)
class Truth:
    """What a right answer says: one of `codes`, about one of `barriers`.

    `actors`: who may be named, as the one that waits at the root or as the one that is to blame; CTAs count
    where the log tells them. `stopper`: the role that stopped, which is the root on whichever barrier it is missed.
    """

    codes: tuple[str, ...]
    barriers: tuple[str, ...]
    actors: tuple[Who, ...]
    stopper: Who | None = None


@dataclass
class Planted:
    """Programs by role and CTA, arrival counts by barrier (and CTA), stages, and the truth."""

    family: str
    defect: str
    shape: Shape
    programs: dict[Who, list[Op]]
    counts: dict[str, int]
    stages: dict[str, int]
    truth: Truth | None
    more: dict[tuple[str, int], int] = field(default_factory=dict)  # counts of one CTA's copy

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.family}:{self.defect or 'clean'}"


NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "attention": (
        ("kv_full", "kv_empty", "p_ready", "s_ready", "o_done"),
        ("kv_ready", "kv_free", "tmem_p_full", "tmem_s_ready", "out_ready"),
        ("tma_full", "tma_empty", "qk_done", "softmax_done", "acc_done"),
    ),
    "gemm": (
        ("full", "empty", "acc_full", "acc_empty"),
        ("ab_full", "ab_empty", "tmem_full", "tmem_empty"),
        ("load_ready", "load_free", "accum_ready", "accum_free"),
    ),
    "chain": (
        ("in_full", "in_empty", "out_full", "out_empty"),
        ("raw_ready", "raw_free", "cast_ready", "cast_free"),
    ),
}
ROLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "attention": (("load", "mma", "softmax"), ("producer", "mma", "softmax"), ("tma", "issuer", "epilogue")),
    "gemm": (("producer", "mma", "epilogue"), ("load", "mma", "store"), ("tma", "consumer", "epilogue")),
    "chain": (("load", "math", "store"), ("producer", "reducer", "consumer")),
}


def shape(family: str, rng: random.Random) -> Shape:
    """A random shape of a family."""
    ctas = 2 if family == "attention" else rng.choice((1, 2))
    return Shape(
        ctas,
        rng.choice((1, 2, 2, 3)),
        rng.randint(4, 7),
        rng.choice(NAMES[family]),
        rng.choice(ROLES[family]),
    )


def _ring(shape: Shape, k: int) -> tuple[int, int]:
    """Stage and parity of k-block `k` in a ring of the shape's stages."""
    return k % shape.stages, k // shape.stages & 1


def _stops(how: str) -> Iterator[Op]:
    yield Op("exit") if how == "exit" else Op("silent", "never")


# --- attention: both CTAs load and do softmax, CTA 0's mma issues for both and multicasts


def attention(shape: Shape, defect: str, at: int) -> Planted:
    """The 2-CTA pipeline; `at` is the k-block in which the defect shows first."""
    full, empty, p, s, o = shape.names
    load, mma, softmax = shape.roles
    both = (0, 1)
    more: dict[tuple[str, int], int] = {}

    def loader(cta: int) -> Iterator[Op]:
        yield Op("note", note="started")
        blocks = at if defect == "k-count" and cta == 1 else shape.blocks
        for k in range(blocks):
            stage, parity = _ring(shape, k)
            yield Op("wait", empty, k, stage, 1 - parity)
            if defect == "stopped" and cta == 1 and k == at:
                yield from _stops("silent")
            into = (stage + 1) % shape.stages if defect == "wrong-stage" and cta == 1 and k == at else stage
            less = BYTES // 2 if defect == "wrong-bytes" and cta == 1 and k == at else 0
            yield Op("arrive", full, k, into, to=(0,), expect=BYTES)
            if not (defect == "copy-lost" and cta == 1 and k == at):
                yield Op("tma", full, k, into, to=(0,), expect=BYTES - less)
        if defect == "k-count":
            yield Op("note", k=blocks - 1, note="tile loop finished")

    def issuer() -> Iterator[Op]:
        for k in range(shape.blocks):
            stage, parity = _ring(shape, k)
            yield Op("wait", full, k, stage, parity)
            if not (defect == "lost-arrival" and k == at):
                reach = (0,) if defect == "one-cta" and k >= at else both
                where = s if defect == "wrong-barrier" and k == at else p
                yield Op("arrive", where, k, to=reach)
            yield Op("wait", s, k, parity=k & 1)
            if defect == "stopped-mma" and k == at:
                yield from _stops("silent")
            if defect == "unreleased" and stage == shape.stages - 1 and k >= at:
                continue
            reach = (0,) if defect == "empty-one-cta" and k >= at else both
            yield Op("arrive", empty, k, stage, to=reach)
        yield Op("arrive", o, shape.blocks - 1, to=both)

    def softmaxer(cta: int) -> Iterator[Op]:
        for k in range(shape.blocks):
            parity = k & 1
            if defect == "parity" and cta == 1 and k == at:
                yield Op("silent", p, parity=parity)  # late: then the wrong parity blocks
                parity = 1 - parity
            yield Op("wait", p, k, parity=parity)
            if defect == "stopped-softmax" and cta == 1 and k == at:
                yield from _stops("exit")
                return
            yield Op("arrive", s, k, to=(0,))
        yield Op("wait", o, shape.blocks - 1, parity=0)

    if defect == "count":
        more[s, 0] = 3
    if defect == "count-one-cta":
        more[empty, 1] = 2
    programs: dict[Who, list[Op]] = {(mma, 0): list(issuer())}
    for cta in both:
        programs[load, cta] = list(loader(cta))
        programs[softmax, cta] = list(softmaxer(cta))
    truths: dict[str, Truth] = {
        "k-count": Truth(("k-count",), (full,), ((mma, 0), (load, 1))),
        "stopped": Truth(("producer-stopped",), (full,), ((mma, 0), (load, 1)), (load, 1)),
        "wrong-stage": Truth(("wrong-stage",), (full,), ((mma, 0), (load, 1))),
        "wrong-bytes": Truth(("bytes-missing",), (full,), ((mma, 0), (load, 1))),
        "copy-lost": Truth(("bytes-missing",), (full,), ((mma, 0), (load, 1))),
        "lost-arrival": Truth(("skipped-arrive",), (p,), ((mma, 0), (softmax, 0), (softmax, 1))),
        "one-cta": Truth(("one-cta",), (p,), ((mma, 0), (softmax, 1))),
        "wrong-barrier": Truth(
            ("wrong-barrier", "skipped-arrive"), (p,), ((mma, 0), (softmax, 0), (softmax, 1))
        ),
        "stopped-mma": Truth(("producer-stopped",), (p, empty, o), tuple(programs), (mma, 0)),
        "unreleased": Truth(("skipped-arrive",), (empty,), ((mma, 0), (load, 0), (load, 1))),
        "empty-one-cta": Truth(("one-cta",), (empty,), ((mma, 0), (load, 1))),
        "parity": Truth(("wrong-parity",), (p,), ((softmax, 1),)),
        "stopped-softmax": Truth(
            ("producer-stopped", "k-count"), (s,), ((mma, 0), (softmax, 1)), (softmax, 1)
        ),
        "count": Truth(("too-few-arrivals", "wrong-copy"), (s,), ((mma, 0),)),
        "count-one-cta": Truth(("one-cta", "too-few-arrivals"), (empty,), ((load, 1), (mma, 0))),
    }
    if at == 0:
        # Nobody ever arrived on p or s: the log cannot tell who should have.
        for planted in ("lost-arrival", "wrong-barrier"):
            truths[planted] = Truth(
                (*truths[planted].codes, "never-arrived", "cycle"), (p, s), tuple(programs)
            )
        if shape.stages == 1:
            truths["unreleased"] = Truth(("skipped-arrive", "never-arrived"), (empty,), tuple(programs))
    counts = {full: 2, empty: 1, p: 1, s: 2, o: 1, "never": 1}
    stages = {full: shape.stages, empty: shape.stages}
    return Planted("attention", defect, shape, programs, counts, stages, truths.get(defect), more)


ATTENTION = (
    "k-count", "stopped", "wrong-stage", "wrong-bytes", "copy-lost", "lost-arrival", "one-cta", "wrong-barrier",
    "stopped-mma", "unreleased", "empty-one-cta", "parity", "stopped-softmax", "count", "count-one-cta",
)  # fmt: skip


# --- gemm: each CTA for itself: a ring of tiles, an accumulator that the epilogue drains


def gemm(shape: Shape, defect: str, at: int) -> Planted:
    """Producer, MMA and epilogue of each CTA; CTA 0's is the one that errs, or both in `both-` defects."""
    full, empty, acc, drained = shape.names
    load, mma, store = shape.roles
    erring = 0
    tiles = 2

    def loader(cta: int) -> Iterator[Op]:
        bad = cta == erring
        for k in range(shape.blocks * tiles - (1 if defect == "k-count" and bad else 0)):
            stage, parity = _ring(shape, k)
            yield Op("wait", empty, k, stage, 1 - parity)
            if defect == "stopped" and bad and k == at:
                yield from _stops("silent")
            less = BYTES // 4 if defect == "wrong-bytes" and bad and k == at else 0
            yield Op("arrive", full, k, stage, to=(cta,), expect=BYTES)
            if not (defect == "copy-lost" and bad and k == at):
                yield Op("tma", full, k, stage, to=(cta,), expect=BYTES - less)

    def issuer(cta: int) -> Iterator[Op]:
        bad = cta == erring
        for tile in range(tiles):
            yield Op("wait", drained, tile, parity=1 - (tile & 1))
            for block in range(shape.blocks):
                k = tile * shape.blocks + block
                stage, parity = _ring(shape, k)
                if defect == "parity" and bad and k == at:
                    yield Op("silent", full, k, stage, parity)
                    parity = 1 - parity
                yield Op("wait", full, k, stage, parity)
                if defect == "unreleased" and bad and stage == shape.stages - 1 and k >= at:
                    continue
                if defect == "lost-release" and bad and k == at:
                    continue
                yield Op("arrive", empty, k, stage, to=(cta,))
            if not (defect == "lost-arrival" and bad and tile == 0):
                yield Op("arrive", acc, tile, to=(cta,))

    def epilogue(cta: int) -> Iterator[Op]:
        bad = cta == erring
        for tile in range(tiles):
            yield Op("wait", acc, tile, parity=tile & 1)
            if defect == "stopped-first" and bad:
                yield from _stops("silent")
            yield Op("arrive", drained, tile, to=(cta,))

    programs: dict[Who, list[Op]] = {}
    for cta in range(shape.ctas):
        programs[load, cta] = list(loader(cta))
        programs[mma, cta] = list(issuer(cta))
        programs[store, cta] = list(epilogue(cta))
    here = ((load, 0), (mma, 0), (store, 0))
    truths = {
        "k-count": Truth(("k-count", "producer-stopped"), (full,), here),
        "stopped": Truth(("producer-stopped",), (full,), here, (load, 0)),
        "wrong-bytes": Truth(("bytes-missing",), (full,), here),
        "copy-lost": Truth(("bytes-missing",), (full,), here),
        "parity": Truth(("wrong-parity",), (full,), ((mma, 0),)),
        "unreleased": Truth(("skipped-arrive",), (empty,), here),
        "lost-release": Truth(("skipped-arrive",), (empty,), here),
        "lost-arrival": Truth(("skipped-arrive", "never-arrived"), (acc,), here),
        "stopped-first": Truth(("producer-stopped",), (drained,), here, (store, 0)),
        "count": Truth(("too-few-arrivals", "one-cta"), (acc,), here),
    }
    if at == 0 and shape.ctas == 1:
        truths["stopped"] = Truth(
            ("producer-stopped",), (full, acc), here, (load, 0)
        )  # neither was arrived on
    if at == 0 and shape.ctas == 1 and shape.stages == 1:
        # Nobody ever arrived on either: the log cannot tell who should have.
        for planted in ("unreleased", "lost-release"):
            truths[planted] = Truth(("skipped-arrive", "never-arrived", "cycle"), (empty, acc), here)
    more = {(acc, 0): 2} if defect == "count" else {}
    counts = {full: 1, empty: 1, acc: 1, drained: 1, "never": 1}
    stages = {full: shape.stages, empty: shape.stages}
    return Planted("gemm", defect, shape, programs, counts, stages, truths.get(defect), more)


GEMM = (
    "k-count", "stopped", "wrong-bytes", "copy-lost", "parity", "unreleased", "lost-release", "lost-arrival",
    "stopped-first", "count",
)  # fmt: skip


# --- chain: load -> math -> store, two rings with stages


def chain(shape: Shape, defect: str, at: int) -> Planted:
    """Three roles of each CTA with a ring between each two."""
    in_full, in_empty, out_full, out_empty = shape.names
    load, math, store = shape.roles
    erring = shape.ctas - 1

    def loader(cta: int) -> Iterator[Op]:
        for k in range(shape.blocks):
            stage, parity = _ring(shape, k)
            if k >= shape.stages:
                yield Op("wait", in_empty, k, stage, 1 - parity)
            yield Op("arrive", in_full, k, stage, to=(cta,))

    def worker(cta: int) -> Iterator[Op]:
        bad = cta == erring
        for k in range(shape.blocks):
            stage, parity = _ring(shape, k)
            yield Op("wait", in_full, k, stage, parity)
            if defect == "cycle" and bad and k == at:
                for ahead in range(k + 1, min(k + shape.stages + 1, shape.blocks)):
                    other, turn = _ring(shape, ahead)
                    yield Op("wait", in_full, ahead, other, turn)
            if not (defect == "unreleased" and bad and stage == shape.stages - 1 and k >= at):
                yield Op("arrive", in_empty, k, stage, to=(cta,))
            yield Op("wait", out_empty, k, stage, 1 - parity)
            if defect == "stopped-first" and bad:
                yield from _stops("exit")
                return
            if not (defect == "lost-arrival" and bad and k == at):
                yield Op("arrive", out_full, k, stage, to=(cta,))

    def writer(cta: int) -> Iterator[Op]:
        bad = cta == erring
        for k in range(shape.blocks):
            stage, parity = _ring(shape, k)
            yield Op("wait", out_full, k, stage, parity)
            if defect == "stopped" and bad and k == at:
                yield from _stops("silent")
            if not (defect == "out-unreleased" and bad and stage == shape.stages - 1 and k >= at):
                yield Op("arrive", out_empty, k, stage, to=(cta,))

    programs: dict[Who, list[Op]] = {}
    for cta in range(shape.ctas):
        programs[load, cta] = list(loader(cta))
        programs[math, cta] = list(worker(cta))
        programs[store, cta] = list(writer(cta))
    here = tuple((role, erring) for role in (load, math, store))
    truths = {
        "cycle": Truth(("cycle", "skipped-arrive"), (in_full, in_empty), here),
        "unreleased": Truth(("skipped-arrive",), (in_empty,), here),
        "out-unreleased": Truth(("skipped-arrive",), (out_empty,), here),
        "lost-arrival": Truth(("skipped-arrive",), (out_full,), here),
        "stopped-first": Truth(("producer-stopped",), (out_full, in_empty), here, (math, erring)),
        "stopped": Truth(("producer-stopped",), (out_empty,), here, (store, erring)),
    }
    if at == 0 and shape.ctas == 1 and shape.stages == 1:
        truths["unreleased"] = Truth(("skipped-arrive", "never-arrived", "cycle"), (in_empty,), here)
        truths["out-unreleased"] = Truth(("skipped-arrive", "never-arrived", "cycle"), (out_empty,), here)
    counts = {in_full: 1, in_empty: 1, out_full: 1, out_empty: 1, "never": 1}
    stages = dict.fromkeys(shape.names, shape.stages)
    return Planted("chain", defect, shape, programs, counts, stages, truths.get(defect))


CHAIN = ("cycle", "unreleased", "out-unreleased", "lost-arrival", "stopped-first", "stopped")
FAMILIES: dict[str, tuple[Callable[[Shape, str, int], Planted], tuple[str, ...]]] = {
    "attention": (attention, ATTENTION),
    "gemm": (gemm, GEMM),
    "chain": (chain, CHAIN),
}
