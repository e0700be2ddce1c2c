"""More kernels with mistakes: an attention backward of CTA pairs, a persistent matmul, a split decode.

They were written with `later_wordings`, after the explainer had been improved on the kernels of `kernels`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.strangers.kernels import TILE, Case, Truth, turn
from benchmarks.strangers.machine import Kernel, Op, Who

# --- an attention backward: CTA 0 issues the MMAs of both CTAs; every CTA has its own copies of the barriers


_ISSUE, _LOADS = ("issue", 0), (("tma", 1), ("issue", 0))
_MATH = (("compute", 1), ("issue", 0))
_NAMED = (("compute", 0), ("reduce", 0), ("compute", 1), ("reduce", 1))
_REACHED = (_ISSUE, ("compute", 1), ("tma", 1))
BACKWARD_TRUTHS = {
    "loader stops": Truth(("producer-stopped",), ("bar_k_full",), _LOADS),
    "loader leaves": Truth(("k-count", "producer-stopped"), ("bar_k_full",), _LOADS),
    "short copy": Truth(("bytes-missing",), ("bar_k_full",), _LOADS),
    "scores reach one CTA": Truth(("one-cta",), ("bar_s_ready",), _REACHED),
    "flipped parity": Truth(("wrong-parity",), ("bar_p_ready",), (_ISSUE,)),
    "no gradient": Truth(("skipped-arrive",), ("bar_dk_done",), (_ISSUE, ("reduce", 0), ("reduce", 1))),
    "frees the next stage": Truth(("wrong-stage",), ("bar_k_free",), (_ISSUE, ("tma", 0), ("tma", 1))),
    "no release": Truth(("skipped-arrive",), ("bar_k_free",), (_ISSUE, ("tma", 0), ("tma", 1))),
    "release reaches one CTA": Truth(("one-cta",), ("bar_k_free",), _REACHED),
    "compute stops": Truth(
        ("producer-stopped", "sync-missing"), ("bar_p_ready", "named2"), (*_MATH, ("reduce", 1))
    ),
    "bar.sync 3 for 2": Truth(("sync-missing", "wrong-barrier"), ("named2", "named3"), _NAMED),
    "arrives on its own CTA": Truth(("wrong-copy", "one-cta", "too-few-arrivals"), ("bar_p_ready",), _MATH),
    "no probabilities": Truth(("skipped-arrive",), ("bar_p_ready",), _MATH),
    "skips bar.sync": Truth(("sync-missing", "skipped-arrive", "cycle"), ("named2",), _NAMED),
    "count too high": Truth(("too-few-arrivals", "wrong-copy"), ("bar_p_ready",), (_ISSUE,)),
}


def backward(mistake: str, rng: random.Random) -> Case:  # noqa: C901 - a mistake is a branch
    stages, blocks = 2, rng.randint(5, 8)
    at = rng.randint(2, blocks - 3)
    both = (0, 1)
    more: dict[tuple[str, int], int] = {}

    def tma(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            stage, parity = turn(k, stages)
            hit = cta == 1 and k == at
            yield Op("wait", "bar_k_free", cta, stage, 1 - parity, k)
            if mistake == "loader stops" and hit:
                yield Op("stop")
            if mistake == "loader leaves" and hit:
                yield Op("note", k=k, text="no more keys, leaving")
                return
            less = 512 if mistake == "short copy" and hit else 0
            yield Op("arrive", "bar_k_full", cta, stage, k=k, to=(cta,), size=TILE)
            yield Op("copy", "bar_k_full", cta, stage, k=k, to=(cta,), size=TILE - less)

    def mma() -> Iterator[Op]:
        for k in range(blocks):
            stage, parity = turn(k, stages)
            yield Op("wait", "bar_k_full", 0, stage, parity, k)
            yield Op("wait", "bar_k_full", 1, stage, parity, k)
            reach = (0,) if mistake == "scores reach one CTA" and k >= at else both
            yield Op("arrive", "bar_s_ready", 0, 0, k=k, to=reach)
            flip = mistake == "flipped parity" and k == at
            if flip:
                yield Op("silent", "bar_p_ready", 0, 0, k & 1)
            yield Op("wait", "bar_p_ready", 0, 0, 1 - (k & 1) if flip else k & 1, k)
            if k:
                yield Op("wait", "bar_dk_read", 0, 0, (k - 1) & 1, k)
            if not (mistake == "no gradient" and k == at):
                yield Op("arrive", "bar_dk_done", 0, 0, k=k, to=both)
            into = 1 - stage if mistake == "frees the next stage" and k == at else stage
            if not (mistake == "no release" and k == at):
                reach = (0,) if mistake == "release reaches one CTA" and k >= at else both
                yield Op("arrive", "bar_k_free", 0, into, k=k, to=reach)

    def compute(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            yield Op("wait", "bar_s_ready", cta, 0, k & 1, k)
            if mistake == "compute stops" and cta == 1 and k == at:
                yield Op("stop")
            number = 3 if mistake == "bar.sync 3 for 2" and cta == 0 and k == at else 2
            yield Op("sync", f"named{number}", cta, k=k, size=256, number=number)
            own = mistake == "arrives on its own CTA" and cta == 1 and k >= at
            if not (mistake == "no probabilities" and cta == 1 and k == at):
                yield Op("arrive", "bar_p_ready", cta, 0, k=k, to=(1,) if own else (0,))

    def reduce(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            if not (mistake == "skips bar.sync" and cta == 1 and k == at):
                yield Op("sync", "named2", cta, k=k, size=256, number=2)
            yield Op("wait", "bar_dk_done", cta, 0, k & 1, k)
            yield Op("arrive", "bar_dk_read", cta, 0, k=k, to=(0,))

    if mistake == "count too high":
        more["bar_p_ready", 0] = 3
    programs: dict[Who, list[Op]] = {("issue", 0): list(mma())}
    for cta in both:
        programs |= {("tma", cta): list(tma(cta)), ("compute", cta): list(compute(cta))}
        programs["reduce", cta] = list(reduce(cta))
    counts = {"bar_p_ready": 2, "bar_dk_read": 2}
    kernel = Kernel(
        programs, counts, {"named2": 2, "named3": 2}, more, stages={"bar_k_full": 2, "bar_k_free": 2}
    )
    needs = {
        "short copy": ("bytes",),
        "flipped parity": ("phase",),
        "frees the next stage": ("stage",),
        "arrives on its own CTA": ("to",),
    }
    return Case("backward", mistake, kernel, BACKWARD_TRUTHS.get(mistake), needs.get(mistake, ()))


BACKWARD = (
    "loader stops", "loader leaves", "short copy", "scores reach one CTA", "flipped parity", "no gradient",
    "frees the next stage", "no release", "release reaches one CTA", "compute stops", "bar.sync 3 for 2",
    "arrives on its own CTA", "no probabilities", "skips bar.sync", "count too high", "",
)  # fmt: skip


# --- a persistent matmul of one CTA: a scheduler hands out tiles to three roles


_SCHED, _LOADER, _TENSOR, _EPI = (("sched", 0), ("loader", 0), ("tensor", 0), ("epilogue", 0))
PERSISTENT_TRUTHS = {
    "scheduler leaves": Truth(
        ("k-count", "producer-stopped"), ("work_full",), (_SCHED, _LOADER, _TENSOR, _EPI)
    ),
    "flipped parity": Truth(("wrong-parity",), ("ab_empty",), (_LOADER,)),
    "skips an arrival": Truth(("skipped-arrive",), ("ab_full",), (_LOADER, _TENSOR)),
    "divergent __syncthreads": Truth(("sync-missing",), ("syncthreads",), (_LOADER, _TENSOR, _EPI)),
    "waits for the epilogue first": Truth(("wrong-parity", "cycle"), ("d_empty", "d_full"), (_TENSOR, _EPI)),
    "keeps its work slot": Truth(("skipped-arrive",), ("work_empty",), (_SCHED, _EPI)),
    "epilogue stops": Truth(("producer-stopped",), ("d_empty", "work_empty"), (_TENSOR, _EPI, _SCHED)),
    "no release": Truth(("skipped-arrive",), ("d_empty",), (_TENSOR, _EPI)),
    "wrong barrier": Truth(("wrong-barrier", "skipped-arrive"), ("d_full", "ab_full"), (_TENSOR, _EPI)),
}


def persistent(mistake: str, rng: random.Random) -> Case:  # noqa: C901
    stages, tiles, blocks = 3, rng.randint(3, 5), 2
    at = rng.randint(1, tiles - 2)

    def scheduler() -> Iterator[Op]:
        for t in range(tiles):
            yield Op("wait", "work_empty", 0, 0, 1 - (t & 1), t)
            if mistake == "scheduler leaves" and t == at:
                yield Op("note", k=t, text="scheduler finished")
                return
            yield Op("arrive", "work_full", 0, 0, k=t, to=(0,))

    def load() -> Iterator[Op]:
        k = 0
        for t in range(tiles):
            yield Op("wait", "work_full", 0, 0, t & 1, t)
            yield Op("arrive", "work_empty", 0, 0, k=t, to=(0,))
            for _ in range(blocks):
                stage, parity = turn(k, stages)
                flip = mistake == "flipped parity" and k >= stages and t == at + 1
                if flip:
                    yield Op("silent", "ab_empty", 0, stage, 1 - parity)
                yield Op("wait", "ab_empty", 0, stage, parity if flip else 1 - parity, k)
                skip = mistake == "skips an arrival" and t == at
                if not skip:
                    yield Op("arrive", "ab_full", 0, stage, k=k, to=(0,), size=TILE)
                    yield Op("copy", "ab_full", 0, stage, k=k, to=(0,), size=TILE)
                k += 1
        if mistake != "divergent __syncthreads":
            yield Op("sync", "syncthreads", 0)
        yield Op("note", text="load exits")

    def mma() -> Iterator[Op]:
        k = 0
        for t in range(tiles):
            yield Op("wait", "work_full", 0, 0, t & 1, t)
            yield Op("arrive", "work_empty", 0, 0, k=t, to=(0,))
            if mistake == "waits for the epilogue first" and t == at:
                yield Op("wait", "d_empty", 0, 0, t & 1, t)
            else:
                yield Op("wait", "d_empty", 0, 0, 1 - (t & 1), t)
            for _ in range(blocks):
                stage, parity = turn(k, stages)
                yield Op("wait", "ab_full", 0, stage, parity, k)
                yield Op("arrive", "ab_empty", 0, stage, k=k, to=(0,))
                k += 1
            bar = "ab_full" if mistake == "wrong barrier" and t == at else "d_full"
            yield Op("arrive", bar, 0, 0, k=t, to=(0,))
        yield Op("sync", "syncthreads", 0)
        yield Op("note", text="mma exits")

    def epilogue() -> Iterator[Op]:
        for t in range(tiles):
            yield Op("wait", "work_full", 0, 0, t & 1, t)
            if not (mistake == "keeps its work slot" and t == at):
                yield Op("arrive", "work_empty", 0, 0, k=t, to=(0,))
            yield Op("wait", "d_full", 0, 0, t & 1, t)
            if mistake == "epilogue stops" and t == at:
                yield Op("stop")
            if not (mistake == "no release" and t == at):
                yield Op("arrive", "d_empty", 0, 0, k=t, to=(0,))
        yield Op("sync", "syncthreads", 0)
        yield Op("note", text="epilogue exits")

    programs: dict[Who, list[Op]] = {
        ("sched", 0): list(scheduler()),
        ("loader", 0): list(load()),
        ("tensor", 0): list(mma()),
        ("epilogue", 0): list(epilogue()),
    }
    kernel = Kernel(
        programs, {"work_empty": 3}, {"syncthreads": 3}, stages={"ab_full": stages, "ab_empty": stages}
    )
    needs = {"flipped parity": ("phase",), "waits for the epilogue first": ("phase",)}
    return Case("persistent", mistake, kernel, PERSISTENT_TRUTHS.get(mistake), needs.get(mistake, ()))


PERSISTENT = (
    "scheduler leaves", "flipped parity", "skips an arrival", "divergent __syncthreads",
    "waits for the epilogue first", "keeps its work slot", "epilogue stops", "no release", "",
)  # fmt: skip


# --- a decode that splits the keys over a cluster: partial results meet in CTA 0


def decode(mistake: str, rng: random.Random) -> Case:
    ctas, blocks = rng.choice((2, 4)), rng.randint(2, 4)
    bad = rng.randrange(1, ctas)

    def main(cta: int) -> Iterator[Op]:
        size = 512 if mistake == "columns of a neighbour" else 128
        if not cta or mistake == "columns of a neighbour":
            yield Op("alloc", "tmem", cta, size=size)
        for k in range(blocks):
            yield Op("wait", "keys_full", cta, 0, k & 1, k)
            yield Op("arrive", "keys_empty", cta, 0, k=k, to=(cta,))
        if mistake == "returns early" and cta == bad:
            yield Op("note", text="empty split, return")
            return
        if not (mistake == "no partial result" and cta == bad):
            to = bad if mistake == "own barrier" and cta == bad else 0
            yield Op("arrive", "partial", cta, 0, k=0, to=(to,))
        if not cta:
            yield Op("wait", "partial", 0, 0, 0, 0)
            if mistake != "columns of a neighbour":
                yield Op("dealloc", "tmem", cta, size=size)
        if mistake == "stops before the cluster barrier" and cta == bad:
            yield Op("stop")
        yield Op("cluster_arrive", "cluster")
        yield Op("cluster_wait", "cluster")
        yield Op("note", text="done")

    def load(cta: int) -> Iterator[Op]:
        for k in range(blocks):
            yield Op("wait", "keys_empty", cta, 0, 1 - (k & 1), k)
            yield Op("arrive", "keys_full", cta, 0, k=k, to=(cta,), size=TILE)
            yield Op("copy", "keys_full", cta, 0, k=k, to=(cta,), size=TILE)
        yield Op("cluster_arrive", "cluster")
        yield Op("cluster_wait", "cluster")
        yield Op("note", text="done")

    programs: dict[Who, list[Op]] = {}
    for cta in range(ctas):
        programs |= {("fetch", cta): list(load(cta)), ("head", cta): list(main(cta))}
    everyone, root = tuple(programs), ("head", 0)
    truths = {
        "returns early": Truth(
            ("sync-missing", "k-count", "producer-stopped", "skipped-arrive"),
            ("partial", "cluster"),
            (root, ("head", bad), ("fetch", bad)),
        ),
        "no partial result": Truth(
            ("skipped-arrive", "never-arrived", "too-few-arrivals", "one-cta"),
            ("partial",),
            (root, ("head", bad)),
        ),
        "own barrier": Truth(
            ("wrong-copy", "one-cta", "too-few-arrivals"), ("partial",), (root, ("head", bad))
        ),
        "stops before the cluster barrier": Truth(
            ("sync-missing", "producer-stopped"), ("cluster",), everyone
        ),
        "columns of a neighbour": Truth(
            ("alloc-blocked",), ("tmem",), tuple(("head", cta) for cta in range(ctas))
        ),
    }
    kernel = Kernel(programs, {"partial": ctas}, {"cluster": 2 * ctas})
    needs = {"own barrier": ("to",)}
    return Case("decode", mistake, kernel, truths.get(mistake), needs.get(mistake, ()))


DECODE = (
    "returns early", "no partial result", "own barrier", "stops before the cluster barrier",
    "columns of a neighbour", "",
)  # fmt: skip

LATER = {
    "backward": (backward, BACKWARD),
    "persistent": (persistent, PERSISTENT),
    "decode": (decode, DECODE),
}
