"""Kernels with planted mistakes: a 2-CTA GEMM, an attention forward, a split-K reduction, co-resident CTAs.

A mistake is a name; `make` returns the kernel that has it and the truth about it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.strangers.machine import Kernel, Op, Who

TILE = 16384  # bytes


@dataclass(frozen=True)
class Truth:
    """`codes`: accepted causes; `bars`: accepted barriers; `who`: who waits at the root or is to blame."""

    codes: tuple[str, ...]
    bars: tuple[str, ...]
    who: tuple[Who, ...]


@dataclass(frozen=True)
class Case:
    """`truth` None: the run ends well. `needs`: what a log must print to show the cause."""

    family: str
    mistake: str
    kernel: Kernel
    truth: Truth | None
    needs: tuple[str, ...] = ()


def turn(k: int, stages: int) -> tuple[int, int]:
    return k % stages, k // stages & 1


# --- a GEMM of CTA pairs: each CTA loads its half; the leader waits on its own and on the peer's barrier


_LOADS = (("mma", 0), ("load", 1))
PAIR_TRUTHS = {
    "load ends early": Truth(("k-count", "producer-stopped"), ("smem_full",), _LOADS),
    "load stops": Truth(("producer-stopped",), ("smem_full",), _LOADS),
    "next stage": Truth(("wrong-stage",), ("smem_full",), _LOADS),
    "short copy": Truth(("bytes-missing",), ("smem_full",), _LOADS),
    "flipped parity": Truth(("wrong-parity",), ("smem_full",), (("mma", 0),)),
    "no release": Truth(("skipped-arrive",), ("smem_empty",), (("mma", 0), ("load", 0), ("load", 1))),
    "release own CTA": Truth(("one-cta",), ("smem_empty",), (("mma", 0), ("load", 1))),
    "accumulator own CTA": Truth(("one-cta",), ("acc_full",), (("mma", 0), ("epi", 1))),
    "epilogue stops": Truth(("producer-stopped",), ("acc_empty",), (("mma", 0), ("epi", 1))),
    "not remote": Truth(
        ("wrong-copy", "one-cta", "too-few-arrivals"), ("acc_empty",), (("mma", 0), ("epi", 1))
    ),
    "count too high": Truth(("too-few-arrivals", "wrong-copy"), ("acc_empty",), (("mma", 0),)),
}


def pair_gemm(mistake: str, rng: random.Random) -> Case:
    stages, blocks, tiles = rng.choice((2, 3, 4)), rng.randint(4, 6), 2
    at = rng.randint(1, 3)
    both = (0, 1)
    more: dict[tuple[str, int], int] = {}

    def load(cta: int) -> Iterator[Op]:
        total = blocks * tiles
        for k in range(total):
            stage, parity = turn(k, stages)
            if mistake == "load ends early" and cta == 1 and k == blocks + at:
                yield Op("note", k=k - 1, text="loop finished")
                return
            yield Op("wait", "smem_empty", cta, stage, 1 - parity, k)
            if mistake == "load stops" and cta == 1 and k == blocks + at:
                yield Op("stop")
            into = (
                (stage + 1) % stages if mistake == "next stage" and cta == 1 and k == stages + at else stage
            )
            less = 4096 if mistake == "short copy" and cta == 1 and k == stages + at else 0
            yield Op("arrive", "smem_full", cta, into, k=k, to=(cta,), size=TILE)
            yield Op("copy", "smem_full", cta, into, k=k, to=(cta,), size=TILE - less)

    def mma() -> Iterator[Op]:
        k = 0
        for tile in range(tiles):
            yield Op("wait", "acc_empty", 0, 0, 1 - (tile & 1), tile)
            for _ in range(blocks):
                stage, parity = turn(k, stages)
                flip = mistake == "flipped parity" and k == stages + at
                if flip:
                    yield Op("silent", "smem_full", 0, stage, parity)
                yield Op("wait", "smem_full", 0, stage, 1 - parity if flip else parity, k)
                yield Op("wait", "smem_full", 1, stage, parity, k)
                if not (mistake == "no release" and k == at):
                    reach = (0,) if mistake == "release own CTA" and k >= at else both
                    yield Op("arrive", "smem_empty", 0, stage, k=k, to=reach)
                k += 1
            reach = (0,) if mistake == "accumulator own CTA" and tile == 1 else both
            yield Op("arrive", "acc_full", 0, 0, k=tile, to=reach)

    def epilogue(cta: int) -> Iterator[Op]:
        for tile in range(tiles):
            yield Op("wait", "acc_full", cta, 0, tile & 1, tile)
            if mistake == "epilogue stops" and cta == 1:
                yield Op("stop")
            # The leader alone waits on acc_empty: the other CTA's arrival must go to CTA 0.
            yield Op(
                "arrive", "acc_empty", cta, 0, k=tile, to=(cta if mistake == "not remote" and cta else 0,)
            )
        yield Op("note", text="done, exiting")

    if mistake == "count too high":
        more["acc_empty", 0] = 3
    programs: dict[Who, list[Op]] = {("mma", 0): list(mma())}
    for cta in both:
        programs["load", cta] = list(load(cta))
        programs["epi", cta] = list(epilogue(cta))
    counts = {"smem_full": 1, "smem_empty": 1, "acc_full": 1, "acc_empty": 2}
    kernel = Kernel(programs, counts, {}, more, stages={"smem_full": stages, "smem_empty": stages})
    needs = {
        "short copy": ("bytes",),
        "flipped parity": ("phase",),
        "not remote": ("to",),
        "next stage": ("stage",),
    }
    return Case("pair_gemm", mistake, kernel, PAIR_TRUTHS.get(mistake), needs.get(mistake, ()))


PAIR = (
    "load ends early", "load stops", "next stage", "short copy", "flipped parity", "no release",
    "release own CTA", "accumulator own CTA", "epilogue stops", "not remote", "count too high", "",
)  # fmt: skip


# --- an attention forward in one CTA: two softmax warpgroups that alternate through named barriers


def forward(mistake: str, rng: random.Random) -> Case:  # noqa: C901 - a mistake is a branch
    stages, blocks = 2, rng.randint(4, 6)
    at = rng.randint(1, blocks - 3)

    def load() -> Iterator[Op]:
        for k in range(blocks):
            stage, parity = turn(k, stages)
            yield Op("wait", "kv_empty", 0, stage, 1 - parity, k)
            less = 2048 if mistake == "short copy" and k == at else 0
            yield Op("arrive", "kv_full", 0, stage, k=k, to=(0,), size=TILE)
            yield Op("copy", "kv_full", 0, stage, k=k, to=(0,), size=TILE - less)

    def mma() -> Iterator[Op]:
        for k in range(blocks):
            stage, parity = turn(k, stages)
            yield Op("wait", "kv_full", 0, stage, parity, k)
            for half in (0, 1):
                if not (mistake == "no scores" and k == at and half == 1):
                    yield Op("arrive", f"scores{half}", 0, 0, k=k, to=(0,))
            if mistake == "mma stops" and k == at:
                yield Op("stop")
            for half in (0, 1):
                yield Op("wait", f"probs{half}", 0, 0, k & 1, k)
            if not (mistake == "no release" and k == at):
                yield Op("arrive", "kv_empty", 0, stage, k=k, to=(0,))

    def softmax(half: int) -> Iterator[Op]:
        for k in range(blocks):
            flip = mistake == "flipped parity" and half == 1 and k == at
            if flip:
                yield Op("silent", "scores1", 0, 0, k & 1)
            yield Op("wait", f"scores{half}", 0, 0, 1 - (k & 1) if flip else k & 1, k)
            if mistake == "softmax stops" and half == 0 and k == at:
                yield Op("stop")
            if not (mistake == "missed named barrier" and half == 1 and k == at):
                yield Op("sync", "turn", k=k, size=256, number=3)
            if mistake == "wrong barrier" and half == 1 and k == at:
                yield Op("arrive", "probs0", 0, 0, k=k, to=(0,))
            elif not (mistake == "no probs" and half == 1 and k == at):
                yield Op("arrive", f"probs{half}", 0, 0, k=k, to=(0,))

    programs: dict[Who, list[Op]] = {("load", 0): list(load()), ("mma", 0): list(mma())}
    for half in (0, 1):
        programs[f"softmax{half}", 0] = list(softmax(half))
    s0, s1, issuer, loader = ("softmax0", 0), ("softmax1", 0), ("mma", 0), ("load", 0)
    truths = {
        "short copy": Truth(("bytes-missing",), ("kv_full",), (issuer, loader)),
        "no scores": Truth(("skipped-arrive",), ("scores1",), (issuer, s1)),
        "mma stops": Truth(
            ("producer-stopped",), ("scores0", "scores1", "kv_empty"), (issuer, s0, s1, loader)
        ),
        "no release": Truth(("skipped-arrive",), ("kv_empty",), (issuer, loader)),
        "flipped parity": Truth(("wrong-parity",), ("scores1",), (s1,)),
        "softmax stops": Truth(("producer-stopped", "sync-missing"), ("probs0", "turn"), (issuer, s0, s1)),
        "missed named barrier": Truth(("sync-missing",), ("turn",), (s0, s1)),
        "wrong barrier": Truth(("wrong-barrier", "skipped-arrive"), ("probs0", "probs1"), (issuer, s1)),
        "no probs": Truth(("skipped-arrive",), ("probs1",), (issuer, s1)),
    }
    counts = {"kv_full": 1, "kv_empty": 1, "scores0": 1, "scores1": 1, "probs0": 1, "probs1": 1}
    kernel = Kernel(programs, counts, {"turn": 2}, stages={"kv_full": stages, "kv_empty": stages})
    needs = {"short copy": ("bytes",), "flipped parity": ("phase",)}
    return Case("forward", mistake, kernel, truths.get(mistake), needs.get(mistake, ()))


FORWARD = (
    "short copy", "no scores", "mma stops", "no release", "flipped parity", "softmax stops",
    "missed named barrier", "wrong barrier", "no probs", "",
)  # fmt: skip


# --- a split-K reduction: CTAs meet at the cluster barrier, the roles of a CTA at __syncthreads


def reduction(mistake: str, rng: random.Random) -> Case:
    ctas, blocks = rng.choice((2, 4)), rng.randint(3, 5)
    bad = rng.randrange(ctas)

    def main(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            yield Op("wait", "part_full", cta, 0, k & 1, k)
            yield Op("arrive", "part_empty", cta, 0, k=k, to=(cta,))
        if mistake == "returns before the cluster barrier" and cta == bad:
            yield Op("note", text="tile out of range, return")
            return
        yield Op("sync", "syncthreads", cta)
        if mistake == "stops before the cluster barrier" and cta == bad:
            yield Op("stop")
        yield Op("cluster_arrive", "cluster")
        yield Op("cluster_wait", "cluster")
        yield Op("note", text="reduced, exiting")

    def load(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            yield Op("wait", "part_empty", cta, 0, 1 - (k & 1), k)
            yield Op("arrive", "part_full", cta, 0, k=k, to=(cta,), size=TILE)
            yield Op("copy", "part_full", cta, 0, k=k, to=(cta,), size=TILE)
        if not (mistake == "skips __syncthreads" and cta == bad):
            yield Op("sync", "syncthreads", cta)
        yield Op("cluster_arrive", "cluster")
        yield Op("cluster_wait", "cluster")
        yield Op("note", text="done")

    programs: dict[Who, list[Op]] = {}
    for cta in range(ctas):
        programs["load", cta] = list(load(cta))
        programs["main", cta] = list(main(cta))
    everyone = tuple(programs)
    truths = {
        "returns before the cluster barrier": Truth(
            ("sync-missing",), ("cluster", "syncthreads"), (("main", bad), ("load", bad))
        ),
        "stops before the cluster barrier": Truth(
            ("sync-missing", "producer-stopped"), ("cluster",), everyone
        ),
        "skips __syncthreads": Truth(("sync-missing",), ("syncthreads",), (("main", bad), ("load", bad))),
    }
    kernel = Kernel(programs, {"part_full": 1, "part_empty": 1}, {"syncthreads": 2, "cluster": 2 * ctas})
    return Case("reduction", mistake, kernel, truths.get(mistake))


REDUCTION = (
    "returns before the cluster barrier", "stops before the cluster barrier", "skips __syncthreads", "",
)  # fmt: skip


# --- CTAs that share an SM and its Tensor Memory


def tenants(mistake: str, rng: random.Random) -> Case:
    columns = rng.choice((256, 512)) if mistake else 256
    blocks = rng.randint(2, 4)
    hold = mistake == "keeps its columns"

    def mma(cta: int) -> Iterator[Op]:
        yield Op("alloc", "tmem", cta, size=512 if hold else columns)
        for k in range(blocks):
            yield Op("wait", "in_full", cta, 0, k & 1, k)
            yield Op("arrive", "in_empty", cta, 0, k=k, to=(cta,))
        if not hold:
            yield Op("dealloc", "tmem", cta, size=columns)
        yield Op("note", text="finished")

    def load(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            yield Op("wait", "in_empty", cta, 0, 1 - (k & 1), k)
            yield Op("arrive", "in_full", cta, 0, k=k, to=(cta,), size=TILE)
            yield Op("copy", "in_full", cta, 0, k=k, to=(cta,), size=TILE)

    def second(cta: int) -> Iterator[Op]:
        yield from mma(cta)

    programs: dict[Who, list[Op]] = {}
    for cta in (0, 1):
        programs["mma", cta] = list(mma(cta))
        programs["load", cta] = list(load(cta))
    truth = Truth(("alloc-blocked",), ("tmem",), (("mma", 0), ("mma", 1)))
    kernel = Kernel(programs, {"in_full": 1, "in_empty": 1})
    return Case("tenants", mistake, kernel, truth if mistake else None)


TENANTS = ("keeps its columns", "")

FAMILIES: dict[str, tuple[Callable[[str, random.Random], Case], tuple[str, ...]]] = {
    "pair_gemm": (pair_gemm, PAIR),
    "forward": (forward, FORWARD),
    "reduction": (reduction, REDUCTION),
    "tenants": (tenants, TENANTS),
}
