"""The same events in the words of seven different people."""

from __future__ import annotations

from collections.abc import Callable

from tests.kit.pipelines import Said

GROUPS = {"load": 1, "mma": 3, "softmax": 0}


def bracketed(one: Said) -> list[str]:
    """Warpgroups in brackets, names with bar_, steps numbered."""
    head = f"[WG{GROUPS[one.who[0]]} CTA{one.who[1]}] " + (f"k={one.k} " if one.k is not None else "")
    name = f"bar_{one.barrier}" + (f"[{one.stage}]" if one.stage is not None else "")
    tail = {
        "wait": f"step 4-pre: wait {name} phase={one.phase}",
        "done": f"step 4: {name} done",
        "arrive": f"{'arrive ' + name + ' tx posted' if one.tx else 'step 7: ' + name + ' arrive'}",
        "note": one.note,
    }
    return [head + tail[one.kind]]


def keys(one: Said) -> list[str]:
    """Upper-case key=value pairs after a timestamp."""
    verb = {"wait": "WAIT_BEGIN", "done": "WAIT_DONE", "arrive": "ARRIVE_EXPECT_TX" if one.tx else "ARRIVE"}
    text = f"12:00:01.250 [DEBUG] CTA={one.who[1]} ROLE={one.who[0].upper()}"
    text += f" KB={one.k}" if one.k is not None else ""
    if one.kind == "note":
        return [f"{text} MSG={one.note}"]
    text += f" EVENT={verb[one.kind]} MBAR={one.barrier.upper()}"
    text += f" STAGE={one.stage}" if one.stage is not None else ""
    return [text + (f" PARITY={one.phase}" if one.phase is not None else "")]


def prose(one: Said) -> list[str]:
    """Sentences with ninja's counter before them."""
    text = f"[3/17] warpgroup {GROUPS[one.who[0]]} of CTA {one.who[1]}"
    when = f" in k-block {one.k}" if one.k is not None else ""
    if one.kind == "note":
        return [f"{text} says: {one.note}{when}"]
    stage = f" stage {one.stage}" if one.stage is not None else ""
    verb = {"wait": "is waiting for", "done": "has passed", "arrive": "signalled"}[one.kind]
    phase = f" (phase {one.phase})" if one.phase is not None else ""
    tx = " with 64 bytes expected" if one.tx else ""
    return [f"{text} {verb} the barrier {one.barrier}{stage}{phase}{when}{tx}"]


def piped(one: Said) -> list[str]:
    """Columns with camelCase names and blocks instead of CTAs."""
    name = "".join(part.capitalize() for part in one.barrier.split("_"))
    name += f"[{one.stage}]" if one.stage is not None else ""
    verb = {
        "wait": "wait",
        "done": "wait done",
        "arrive": "expect_tx" if one.tx else "arrive",
        "note": one.note,
    }
    cells = [f"blk:{one.who[1]}", one.who[0]] + ([f"iter {one.k}"] if one.k is not None else [])
    cells += [] if one.kind == "note" else [f"{name}Bar" if one.stage is None else name.replace("[", "Bar[")]
    cells += [verb[one.kind]] + ([f"parity:{one.phase}"] if one.phase is not None else [])
    return [" | ".join(cells)]


def coloured(one: Said) -> list[str]:
    """Warps, colour codes, a launcher's rank before the line, before / after instead of begin / done."""
    warp = {"load": 0, "mma": 12, "softmax": 4}[one.who[0]]
    name = f"mbar_{one.barrier}" + (f"[{one.stage}]" if one.stage is not None else "")
    verb = {"wait": f"before wait on {name}", "done": f"after wait on {name}", "note": one.note}
    verb["arrive"] = f"arrived on {name}" + (", bytes expected" if one.tx else "")
    text = f"[rank0]: \x1b[32m(T+0.013ms) warp {warp} cta {one.who[1]} > {verb[one.kind]}"
    text += f", i={one.k}" if one.k is not None else ""
    return [text + (f", phase {one.phase}" if one.phase is not None else "") + "\x1b[0m"]


def stacked(one: Said) -> list[str]:
    """Several lines an event."""
    if one.kind == "note":
        return [f"[CTA {one.who[1]}][{one.who[0]}] {one.note}"]
    lines = [f"[CTA {one.who[1]}][{one.who[0]}]" + (f" k_block={one.k}" if one.k is not None else "")]
    verb = {
        "wait": "waiting",
        "done": "wait complete",
        "arrive": "arrived, tx posted" if one.tx else "arrived",
    }
    lines += [f"    state: {verb[one.kind]}", f"    barrier: {one.barrier}_bar"]
    lines += [f"    stage: {one.stage}"] if one.stage is not None else []
    return lines + ([f"    parity: {one.phase}"] if one.phase is not None else [])


def terse(one: Said) -> list[str]:
    """As short as can be."""
    text = f"CTA{one.who[1]}/{one.who[0].upper()}" + (f" k{one.k}" if one.k is not None else "")
    if one.kind == "note":
        return [f"{text} {one.note}"]
    name = one.barrier + (f"[{one.stage}]" if one.stage is not None else "")
    verb = {"wait": "wait", "done": "wait ok", "arrive": "arrive tx" if one.tx else "arrive"}[one.kind]
    return [f"{text} {name}.{verb}" + (f" ph{one.phase}" if one.phase is not None else "")]


WORDINGS: dict[str, Callable[[Said], list[str]]] = {
    one.__name__: one for one in (bracketed, keys, prose, piped, coloured, stacked, terse)
}
LABELS: dict[str, Callable[[str], str]] = {
    "bracketed": lambda role: f"WG{GROUPS[role]}",
    "prose": lambda role: f"WG{GROUPS[role]}",
    "coloured": lambda role: f"warp {({'load': 0, 'mma': 12, 'softmax': 4})[role]}",
}


def label(wording: str, role: str) -> str:
    """What a wording calls a role."""
    return LABELS.get(wording, str)(role)


def log(said: list[Said], wording: str) -> str:
    """The whole log, with the host's lines around it."""
    head = [
        "ninja: Entering directory `build'",
        "CUDA Capability: (10, 0)",
        "=" * 40,
        "",
        "Launching kernel...",
    ]
    return "\n".join([*head, *(line for one in said for line in WORDINGS[wording](one))]) + "\n"
