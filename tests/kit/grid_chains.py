"""Chains of small grids in one stream, each of which may start before the grid before it ends."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from tileproof.emulator import Memory, RunResult, Schedule, Stream
from tileproof.spec.machine.certificate import Doubt, merged_certificate

from tests.kit.ptx import kernel_text, parsed

WORDS = 2  # that the grids share
Kind = Literal["load", "store", "add", "max", "swap", "wait", "trigger", "bar"]
Step = tuple[Kind, int, int]  # word and value, where the kind has them
Grid = tuple[tuple[Step, ...], ...]  # the steps of its threads; one CTA, of a warp for each thread

# What the threads of a grid do, beside triggers, waits and barriers.
_MIXES: tuple[list[Kind], ...] = (["load"], ["add"], ["load", "store"], ["load", "add"], ["max", "swap"])

_TEXT: dict[Kind, str] = {
    "load": "ld.global.u32 %r1, [%a0+{0}]; mad.lo.u32 %r2, %r2, 31, %r1;",
    "store": "st.global.u32 [%a0+{0}], {1};",
    "add": "red.global.add.u32 [%a0+{0}], {1};",
    "max": "red.global.max.u32 [%a0+{0}], {1};",
    "swap": "atom.global.exch.b32 %r1, [%a0+{0}], {1}; mad.lo.u32 %r2, %r2, 31, %r1;",
    "wait": "griddepcontrol.wait;",
    "trigger": "griddepcontrol.launch_dependents;",
    "bar": "bar.sync 0;",
}


def stream_of(
    bodies: Sequence[str], words: int = WORDS, threads: int | Sequence[int] = 32, **how: Any
) -> tuple[list[RunResult], np.ndarray[Any, np.dtype[np.uint32]]]:
    """Launch the bodies as one CTA each, all but the first as programmatic launches; %a0 is the address of
    `words` zeros. Return the results and the words.
    """
    memory = Memory()
    shared = memory.buffer(np.zeros(words, np.uint32), "words")
    stream, results = Stream(memory), []
    for number, body in enumerate(bodies):
        module = parsed(kernel_text(body, [False], name=f"k{number}"))
        block = threads if isinstance(threads, int) else threads[number]
        options = {"schedule": Schedule("early"), "races": True, **how}
        results.append(
            stream.launch(
                module, f"k{number}", programmatic=number > 0,
                grid=(1,), block=(block,), args=[shared], **options,
            )
        )  # fmt: skip
    return results, shared.numpy()


def certified(results: Sequence[RunResult]) -> bool:
    """Whether each launch is certified."""
    return all(result.certified for result in results)


def text(grid: Grid, results: int) -> str:
    """The body of a grid. What a thread has read goes to a word of its own, from word `results` on."""
    lines = ["mov.u32 %r2, 0;", "shr.u32 %r3, %t, 5;", "and.b32 %r4, %t, 31;", "setp.ne.u32 %p1, %r4, 0;"]
    lines += ["@%p1 bra END;"]
    for thread, steps in enumerate(grid):
        lines += [f"setp.ne.u32 %p2, %r3, {thread};", f"@%p2 bra AFTER{thread};"]
        lines += [_TEXT[kind].format(4 * word, value) for kind, word, value in steps]
        lines += [f"st.global.u32 [%a0+{4 * (results + thread)}], %r2;", "bra END;", f"AFTER{thread}:"]
    return "\n".join([*lines, "END:"])


def launched(chain: Sequence[Grid], **how: Any) -> tuple[frozenset[str], tuple[int, ...]]:
    """The reasons why grids of a chain are not certified, and all words at the end."""
    first, bodies = WORDS, []
    for grid in chain:
        bodies.append(text(grid, first))
        first += len(grid)
    results, words = stream_of(bodies, first, [32 * len(grid) for grid in chain], **how)
    merged = merged_certificate(result.certificate for result in results)
    assert merged is not None
    return frozenset(map(_short, merged.doubts)), tuple(words.tolist())


def _short(doubt: Doubt) -> str:
    return "grids exchange" if "of an earlier grid (" in doubt.text else doubt.text.partition(":")[0]


@dataclass(frozen=True)
class State:
    """The next step of each thread, which grids have triggered, the shared words, and what threads read."""

    places: tuple[tuple[int, ...], ...]
    triggered: tuple[bool, ...]
    words: tuple[int, ...]
    read: tuple[tuple[int, ...], ...]


def outcomes(chain: Sequence[Grid], most: int = 1_000_000) -> set[tuple[int, ...]] | None:
    """The final words of all interleavings; None where there are too many states."""
    first = State(
        tuple((0,) * len(grid) for grid in chain), (False,) * len(chain), (0,) * WORDS,
        tuple((0,) * len(grid) for grid in chain),
    )  # fmt: skip
    seen, pending, ends = {first}, [first], set[tuple[int, ...]]()
    while pending:
        state = pending.pop()
        stuck = True
        for after in _next(chain, state):
            stuck = False
            if after not in seen:
                seen.add(after)
                pending.append(after)
        if stuck:
            ends.add((*state.words, *(value for grid in state.read for value in grid)))
        if len(seen) > most:
            return None
    return ends


def _next(chain: Sequence[Grid], state: State) -> Iterator[State]:
    ended = [
        all(at == len(steps) for at, steps in zip(places, grid, strict=True))
        for places, grid in zip(state.places, chain, strict=True)
    ]
    started = True
    for g, grid in enumerate(chain):
        # A grid starts when the CTA of the grid before it has triggered or ended.
        started = started and (g == 0 or state.triggered[g - 1] or ended[g - 1])
        if not started:
            return
        at_barrier = [
            at < len(steps) and steps[at][0] == "bar" for at, steps in zip(state.places[g], grid, strict=True)
        ]
        if all(at_barrier):
            yield _moved(state, g, range(len(grid)))
            continue
        for thread, steps in enumerate(grid):
            at = state.places[g][thread]
            if at == len(steps) or at_barrier[thread] or (steps[at][0] == "wait" and g and not ended[g - 1]):
                continue
            yield _moved(state, g, [thread], steps[at])


def _moved(state: State, g: int, threads: Sequence[int], step: Step = ("bar", 0, 0)) -> State:
    kind, word, value = step
    places, read, words = list(state.places), [list(few) for few in state.read], list(state.words)
    places[g] = tuple(at + (thread in threads) for thread, at in enumerate(places[g]))
    if kind in ("load", "swap"):
        read[g][threads[0]] = (read[g][threads[0]] * 31 + words[word]) & 0xFFFFFFFF
    if kind in ("store", "swap"):
        words[word] = value
    elif kind == "add":
        words[word] += value
    elif kind == "max":
        words[word] = max(words[word], value)
    triggered = tuple(was or (kind == "trigger" and n == g) for n, was in enumerate(state.triggered))
    return State(tuple(places), triggered, tuple(words), tuple(tuple(few) for few in read))


def generated(draw: random.Random) -> tuple[Grid, ...]:
    """Two or three grids of one or two threads, which have as many barriers each."""
    value = iter(range(1, 100))

    def step(kinds: Sequence[Kind]) -> Step:
        kind = draw.choice(kinds)
        accesses = kind in ("load", "store", "add", "max", "swap")
        return (kind, draw.randrange(WORDS), next(value)) if accesses else (kind, 0, 0)

    def grid(waits: bool) -> Grid:
        threads, bars = draw.choice((1, 1, 2)), draw.choice((0, 0, 1))
        own = draw.choice(_MIXES)
        made = []
        for _ in range(threads):
            steps: list[Step] = []
            for segment in range(bars + 1):
                steps += [("bar", 0, 0)] if segment else []
                steps += [step(own) for _ in range(draw.choice((0, 1, 1, 2)))]
            for kind, likely in (("trigger", 0.6), ("wait", 0.7 if waits else 0.0)):
                if draw.random() < likely:
                    steps.insert(draw.choice((0, 0, draw.randint(0, len(steps)))), (kind, 0, 0))  # type: ignore[arg-type]
            made.append(tuple(steps))
        return tuple(made)

    return tuple(grid(number > 0) for number in range(draw.choice((2, 2, 3))))


def main() -> int:
    """Print the score of a number of chains; exit code 1 if a certificate is false."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draw, began = random.Random(args.seed), time.process_time()
    chains = dict.fromkeys(generated(draw) for _ in range(args.programs))
    score = dict.fromkeys(("certified", "with two threads", "with three grids", "agree", "too large"), 0)
    wrong = []
    for chain in chains:
        ends = outcomes(chain)
        if ends is None:
            score["too large"] += 1
            continue
        reasons, words = launched(chain)
        is_certified = not reasons
        score["agree"] += len(ends) == 1
        score["certified"] += is_certified
        score["with two threads"] += is_certified and any(len(grid) > 1 for grid in chain)
        score["with three grids"] += is_certified and len(chain) > 2
        if is_certified and ends != {words}:
            wrong.append(chain)
    took = time.process_time() - began
    print(f"{len(chains)} different chains of {args.programs}, seed {args.seed}; {took:.0f} s of CPU")
    print(score)
    for chain in wrong:
        print("WRONG", chain)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
