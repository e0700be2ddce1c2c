# ruff: noqa: E501 - PTX lines and programs are kept whole
"""Litmus programs: the race checker and the emulator's values against all executions that the axioms allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pytest
from tileproof.emulator import Memory, RunResult, Schedule

from tests.kit.litmus import Op, Program, outcomes, racy
from tests.kit.ptx import run

COVERS = "fence membar"

SCHEDULES = [Schedule("early"), Schedule("late"), *(Schedule("random", seed) for seed in range(6))]
# Two threads: warps of a CTA, CTAs of a cluster, clusters.
NEAR, PAIR, FAR = ((0, 0), (0, 0)), ((0, 0), (0, 1)), ((0, 0), (1, 0))
PLACES = {"cta": NEAR, "cluster": PAIR, "gpu": FAR}
BARRIER, DATA = 1024, 2048  # in shared memory: an mbarrier, and the words that a bulk copy reads


def write(
    where: str, value: int = 1, order: str = "weak", scope: str = "gpu", uses: tuple[int, ...] = ()
) -> Op:
    return Op("write", where, value, order, scope, uses=uses)


def read(where: str, order: str = "weak", scope: str = "gpu") -> Op:
    return Op("read", where, 0, order, scope)


def until(where: str, value: int = 1, order: str = "relaxed", scope: str = "gpu") -> Op:
    return Op("await", where, value, order, scope)


def fence(order: str = "sc", scope: str = "gpu") -> Op:
    return Op("fence", order=order, scope=scope)


BAR = Op("bar")


def _qualifiers(op: Op) -> str:
    if op.order == "weak":
        return ""
    return ".volatile" if op.order == "volatile" else f".{op.order}.{op.scope}"


KEPT = 8  # from this register on, what the operations of a thread have read


def instructions(op: Op, index: int, label: str, words: dict[str, int], result: int) -> str:
    """PTX of an operation by lane 0 of its warp (%p0)."""
    text = _instructions(op, label, words, result)
    if op.kind in ("read", "await"):
        return f"{text}\n@%p0 mov.u32 %r{KEPT + index}, %r2;"
    return text


def _instructions(op: Op, label: str, words: dict[str, int], result: int) -> str:
    at = f"[%a0+{4 * words[op.where]}]" if op.where in words else ""
    keep = f"@%p0 st.global.u32 [%a1+{4 * result}], %r2;"
    shared = f"[{DATA}]" if op.where == "s" else ""
    match op.kind:
        case "write" if shared:
            return f"@%p0 st.shared.u32 {shared}, {op.value};"
        case "write" if op.uses:
            none = "\n".join(f"and.b32 %r2, %r{KEPT + k}, 0;\nadd.u32 %r3, %r3, %r2;" for k in op.uses)
            return f"mov.u32 %r3, {op.value};\n{none}\n@%p0 st{_qualifiers(op)}.global.u32 {at}, %r3;"
        case "write":
            return f"@%p0 st{_qualifiers(op)}.global.u32 {at}, {op.value};"
        case "read":
            return f"@%p0 ld{_qualifiers(op)}.global.u32 %r2, {at};\n{keep}"
        case "await":
            load = f"ld{_qualifiers(op)}.global.u32 %r2, {at};"
            return f"@!%p0 bra S{label};\nL{label}: {load}\nsetp.ne.u32 %p2, %r2, {op.value};\n@%p2 bra L{label};\nS{label}:"
        case "swap":
            return f"@%p0 atom{_qualifiers(op)}.global.exch.b32 %r2, {at}, {op.value};\n{keep}"
        case "cas":
            return f"@%p0 atom{_qualifiers(op)}.global.cas.b32 %r2, {at}, {op.old}, {op.value};\n{keep}"
        case "fence":
            return f"fence.{op.order}.{op.scope};"
        case "bar":
            return "bar.sync 0;"
        case "proxy":
            return "fence.proxy.async.shared::cta;"
        case "copy":
            return (
                f"@%p0 cp.async.bulk.global.shared::cta.bulk_group [%a2], {shared}, 16;\n"
                "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group 0;"
            )
        case "arrive":
            return (
                f"mov.u32 %r3, {BARRIER};\nmapa.shared::cluster.u32 %r3, %r3, 0;\n"
                f"@%p0 mbarrier.arrive{_qualifiers(op)}.shared::cluster.b64 _, [%r3];"
            )
        case "wait":
            tried = f"mbarrier.try_wait.parity{_qualifiers(op)}.shared::cta.b64 %p2, [{BARRIER}], 0;"
            return f"@!%p0 bra S{label};\nL{label}: {tried}\n@!%p2 bra L{label};\nS{label}:"
    raise AssertionError(op)


def launched(program: Program, schedule: Schedule) -> tuple[tuple[int, ...], RunResult]:
    """Run a program, each thread in a warp of its own; return what its reads found."""
    clusters = 1 + max(cluster for cluster, _ in program.places)
    size = 1 + max(rank for _, rank in program.places)
    warps = max(program.places.count(place) for place in program.places)
    words = {
        w: k for k, w in enumerate(sorted({o.where for t in program.threads for o in t} - {"", "s", "m"}))
    }
    body = [
        "setp.eq.u32 %p1, %t, 0;",
        f"@%p1 mbarrier.init.shared::cta.b64 [{BARRIER}], 1;\n@%p1 st.shared.v4.u32 [{DATA}], {{0, 0, 0, 0}};",
        "fence.mbarrier_init.release.cluster;\nfence.proxy.async;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;",
        "and.b32 %r1, %t, 31;\nsetp.eq.u32 %p0, %r1, 0;\nshr.u32 %r1, %t, 5;\nmov.u32 %r4, %ctaid.x;",
    ]
    result, used = 0, dict.fromkeys(program.places, 0)
    for t, (thread, (cluster, rank)) in enumerate(zip(program.threads, program.places, strict=True)):
        body.append(
            f"setp.ne.u32 %p3, %r1, {used[cluster, rank]};\nsetp.ne.or.u32 %p3, %r4, {cluster * size + rank}, %p3;"
        )
        body.append(f"@%p3 bra T{t};")
        used[cluster, rank] += 1
        for k, op in enumerate(thread):
            body.append(instructions(op, k, f"{t}_{k}", words, result))
            result += op.kind in ("read", "swap", "cas", "copy")
        body.append(f"T{t}:")
    # Nobody leaves while another CTA may still arrive here: no part of the program, and it orders only what follows.
    body.append("barrier.cluster.arrive;\nbarrier.cluster.wait;")
    memory = Memory()
    data, found = memory.buffer(np.zeros(8, np.uint32)), memory.buffer(np.zeros(8, np.uint32))
    copied = memory.buffer(np.zeros(4, np.uint32))
    done = run("\n".join(body), [data, found, copied], memory=memory, threads=32 * warps, cluster=size,
               grid=clusters * size, shared_bytes=4096, schedule=schedule, races=True)  # fmt: skip
    values = list(found.numpy()[:result])
    for k, op in enumerate(
        o for t in program.threads for o in t if o.kind in ("read", "swap", "cas", "copy")
    ):
        if op.kind == "copy":
            values[k] = copied.numpy()[0]
    return tuple(int(v) for v in values), done


def look_backs(
    named: Callable[..., Program], places: tuple[tuple[int, int], ...], scope: str
) -> Iterator[Program]:
    """A word passes on what depends on a read, before another thread writes what was read."""
    flag, ready = write("f", 1, "relaxed", scope, uses=(0,)), until("f", 1, "relaxed", scope)
    yield named("look-back", (read("x"), flag), (ready, write("x", 2)))
    yield named(
        "look-back-constant",
        (read("x"), write("f", 1, "relaxed", scope)),
        (ready, write("x", 2)),
    )
    yield named("look-back-once", (read("x"), flag), (read("f", "relaxed", scope), write("x", 2)))
    if scope == "gpu":
        yield named(
            "look-back-other",
            (read("y"), read("x"), write("f", 1, "relaxed", uses=(0,))),
            (ready, write("x", 2)),
        )
        yield named(
            "look-back-late",
            (read("y"), write("f", 1, "relaxed", uses=(0,)), read("x")),
            (ready, write("x", 2)),
        )
        three = ((0, 0), (0, 0), places[1])
        relayed = (until("g"), write("x", 2))
        for name, uses, kind in (
            ("look-back-relay", (), "await"),
            ("look-back-relay-value", (0,), "read"),
            ("look-back-relay-constant", (), "read"),
        ):
            seen = Op(kind, "f", 1, "relaxed", "gpu")
            hop = (seen, write("g", 1, "relaxed", uses=uses))
            yield named(name, (read("x"), flag), hop, relayed, at=three)


def programs() -> Iterator[Program]:
    """Every shape with the orders, scopes and places that change its result."""
    for place, places in PLACES.items():
        for scope in ("cta", "cluster", "gpu", "sys"):

            def named(
                name: str,
                *threads: tuple[Op, ...],
                at: tuple[tuple[int, int], ...] = places,
                tag: str = f"{place}-{scope}",
            ) -> Program:
                return Program(f"{name}-{tag}", threads, at)

            # Message passing: operations, fences, and a mix of the two.
            for release, acquire in (
                ("release", "acquire"),
                ("relaxed", "acquire"),
                ("release", "relaxed"),
                ("volatile", "volatile"),
            ):
                yield named(
                    f"mp-{release}-{acquire}",
                    (write("x"), write("y", 1, release, scope)),
                    (until("y", 1, acquire, scope), read("x")),
                )
            for kind in ("acq_rel", "sc"):
                yield named(
                    f"mp-fence-{kind}",
                    (write("x"), fence(kind, scope), write("y", 1, "relaxed")),
                    (until("y"), fence(kind, scope), read("x")),
                )
                yield named(
                    f"mp-one-{kind}",
                    (write("x"), fence(kind, scope), write("y", 1, "relaxed")),
                    (until("y"), read("x")),
                )
                yield named(
                    f"mp-other-{kind}",
                    (write("x"), write("y", 1, "relaxed"), fence(kind, scope)),
                    (until("y"), fence(kind, scope), read("x")),
                )
                # Store and load buffering: strong accesses, so that outcomes are what differs.
                sb = [
                    (write(a, 1, "relaxed"), fence(kind, scope), read(b, "relaxed")) for a, b in ("xy", "yx")
                ]
                yield named(f"sb-{kind}", *sb)
                lb = [
                    (read(a, "relaxed"), fence(kind, scope), write(b, 1, "relaxed")) for a, b in ("xy", "yx")
                ]
                yield named(f"lb-{kind}", *lb)
            yield named("weak-sb", (write("x"), read("y")), (write("y"), read("x")))
            yield named("strong", (write("x", 1, "relaxed", scope),), (read("x", "relaxed", scope),))
            yield named("volatile", (write("x", 1, "volatile"),), (read("x", "relaxed", scope),))
            # A release sequence continues through atomics, and through writes of the same thread alone.
            hop = ((0, 0), places[1], places[1])
            for middle in (Op("swap", "y", 2, "relaxed"), write("y", 2, "relaxed")):
                first, last = (
                    (write("x"), write("y", 1, "release", scope)),
                    (until("y", 2, "acquire", scope), read("x")),
                )
                yield named(f"sequence-{middle.kind}", first, (until("y", 1), middle), last, at=hop)
                yield named(f"own-{middle.kind}", (*first, middle), last)
            yield named(
                "coherence",
                (write("x", 1, "relaxed", scope), write("x", 2, "relaxed", scope)),
                (read("x", "relaxed", scope), read("x", "relaxed", scope)),
            )
            iriw = [(read(a, "relaxed"), fence("sc", scope), read(b, "relaxed")) for a, b in ("xy", "yx")]
            if scope in ("cta", "gpu"):
                yield named(
                    "iriw",
                    (write("x", 1, "relaxed"),),
                    (write("y", 1, "relaxed"),),
                    *iriw,
                    at=(*places, *places),
                )
            # A lock: who holds it fences behind a barrier of its CTA, so that no fence and flag are of one thread.
            four = (places[0], places[0], places[1], places[1])
            for kind in ("acq_rel", "sc"):
                owner = ((write("x"), fence(kind, scope), BAR), (BAR, Op("swap", "l", 1, "relaxed")))
                taker = ((until("l"), BAR), (BAR, fence(kind, scope), read("x")))
                if place != "cta":
                    yield named(f"lock-{kind}", *owner, *taker, at=four)
                    yield named(f"lock-no-fence-{kind}", *owner, taker[0], (BAR, read("x")), at=four)
                    yield named(
                        f"lock-early-{kind}", *owner, taker[0], (fence(kind, scope), BAR, read("x")), at=four
                    )
            yield from look_backs(named, places, scope)
            # Through a third thread that only relays: Fence-SC order spans one observation.
            if place == "gpu":
                relay = (until("l"), write("k", 1, "relaxed"))
                yield named(
                    "relay",
                    (write("x"), fence("sc", scope), write("l", 1, "relaxed")),
                    relay,
                    (until("k"), fence("sc", scope), read("x")),
                    at=((0, 0), (0, 0), (1, 0)),
                )
            if place != "gpu" and scope in ("cta", "cluster"):
                for release, acquire in (
                    ("release", "acquire"),
                    ("relaxed", "acquire"),
                    ("release", "relaxed"),
                ):
                    arrive, wait = Op("arrive", "m", 1, release, scope), Op("wait", "m", 1, acquire, scope)
                    if not (scope == "cta" and place == "cluster"):
                        yield named(
                            f"mbarrier-{release}-{acquire}",
                            (write("x"), arrive),
                            (wait, read("x")),
                            at=tuple(reversed(places)),
                        )
    for before, after in ((True, False), (False, True), (False, False)):
        writer = (write("s", 7), *([Op("proxy")] if before else []), BAR)
        reader = (BAR, *([Op("proxy")] if after else []), Op("copy", "s"))
        yield Program(f"proxy-{before}-{after}", (writer, reader), NEAR)
    yield Program("proxy-no-barrier", ((write("s", 7), Op("proxy"), BAR), (Op("copy", "s"), BAR)), NEAR)


@lru_cache(maxsize=1)
def suite() -> dict[str, Program]:
    return {program.name: program for program in programs()}


@pytest.mark.parametrize("name", suite())
def test_the_race_checker_agrees_with_the_axioms(name: str) -> None:
    program = suite()[name]
    errors: set[str] = set()
    for schedule in SCHEDULES:
        found, result = launched(program, schedule)
        errors |= {f.code for f in result.errors}
        if not result.errors:
            assert found in outcomes(program), (found, outcomes(program))
    assert bool(errors) == bool(racy(program)), (errors, racy(program))


@pytest.mark.parametrize(
    ("name", "count", "forbidden"),
    [
        ("sb-sc-gpu-gpu", 3, (0, 0)), ("sb-acq_rel-gpu-gpu", 4, None), ("sb-sc-gpu-cta", 4, None), ("lb-sc-gpu-gpu", 3, (1, 1)),
        ("iriw-gpu-gpu", 15, (1, 0, 1, 0)), ("iriw-gpu-cta", 16, None), ("coherence-gpu-gpu", 6, (2, 1)),
        ("mp-release-acquire-gpu-gpu", 1, (0,)), ("mp-release-acquire-gpu-cta", 2, None), ("lock-sc-gpu-gpu", 1, (0,)),
    ],
)  # fmt: skip
def test_the_enumerator_allows_what_is_known_of_the_shapes(
    name: str, count: int, forbidden: tuple[int, ...] | None
) -> None:
    """Outcomes of Lustig et al., A Formal Analysis of the NVIDIA PTX Memory Consistency Model (ASPLOS 2019)."""
    found = outcomes(suite()[name])
    assert len(found) == count
    assert forbidden not in found
